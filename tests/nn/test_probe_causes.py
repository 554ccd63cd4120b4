"""The build check tries sizes that declarations ask for, refuses nothing for made up sizes, and names causes."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from tensorclass import RaggedTensor, TensorClass
from tensorclass.errors import BuildError
from tensorclass.nn import TensorClassModule, TensorClassSequential
from tensorclass.typing import Float32, Int64


class Text(TensorClass):
    ids: Int64[Tensor, "t"]


class States(TensorClass):
    h: Float32[Tensor, "t 8"]


class Photo(TensorClass):
    photo: Float32[Tensor, "3 h w"]


class Two(TensorClass):
    x: Float32[Tensor, "t 8"]
    y: Float32[Tensor, "s 8"]


class Alike(TensorClass):
    x: Float32[Tensor, "t 8"]
    y: Float32[Tensor, "t 8"]


class Cloud(TensorClass):
    points: Float32[RaggedTensor, "n 3"]


class Code(TensorClass):
    code: Float32[Tensor, "8"]


def _one(module: Any, reads: Any, writes: Any, given: type, made: type) -> Any:
    return TensorClassSequential(TensorClassModule(module, reads, writes, name="it"), input=given, output=made)


class Limited(nn.Module):
    """Tokens with positions up to a limit, in one of the ways in which models have one."""

    def __init__(self, how: str, limit: int = 40) -> None:
        super().__init__()
        self.how, self.limit = how, limit
        self.token, self.table = nn.Embedding(9, 8), nn.Embedding(limit, 8)
        self.places: Tensor
        self.mask: Tensor
        self.register_buffer("places", torch.arange(limit))
        self.register_buffer("mask", torch.ones(limit, limit).tril().bool())

    def forward(self, ids: Tensor) -> Tensor:
        """Fails for more tokens than the limit."""
        h: Tensor = self.token(ids)
        n = h.shape[1]
        if self.how == "mask":
            scores = (h @ h.mT).masked_fill(~self.mask[:n, :n], -1e9)
            return scores.softmax(-1) @ h
        if self.how == "error" and n > self.limit:
            raise ValueError(f"a sequence of {n} tokens is longer than the maximum of {self.limit}")
        if self.how == "assertion":
            assert n <= self.limit
        positions = {
            "range": lambda: self.table(torch.arange(n)), "buffer": lambda: self.table(self.places[:n]),
            "index": lambda: self.table.weight[torch.arange(n)], "slice": lambda: self.table.weight[:n],
            "narrow": lambda: self.table.weight.narrow(0, 0, n),
        }  # fmt: skip
        return h + positions[self.how]() if self.how in positions else h


@pytest.mark.parametrize("how", ["range", "buffer", "index", "slice", "narrow", "mask", "error", "assertion"])
def test_a_limit_of_an_open_dim_is_no_error(how):
    """Sizes over the limit are the check's own; a call below it runs."""
    built = _one(Limited(how), Text.ids, States.h, Text, States)
    assert built.diagnostics == ()
    assert built(Text(torch.ones(2, 30, dtype=torch.int64))).h.shape == (2, 30, 8)
    assert built.check(values=True).diagnostics == ()


@pytest.mark.parametrize("stride", [2, 3, 32])
def test_sizes_are_multiples_of_declared_divisors(stride):
    """Padding rounds up where the declaration rounds down: a note, since multiples are as declared."""
    fields = {"maps": Float32[Tensor, f"8 h//{stride} w//{stride}"]}
    maps: Any = type("Maps", (TensorClass,), {"__annotations__": fields, "__module__": __name__})
    padded = nn.Conv2d(3, 8, stride + 1, stride, stride // 2)
    built = _one(padded, Photo.photo, maps.maps, Photo, maps)
    assert {d.code for d in built.diagnostics} <= {"N306"}
    with pytest.raises(BuildError, match="E114"):
        _one(nn.Conv2d(3, 8, stride + 1, stride), Photo.photo, maps.maps, Photo, maps)


def _added(x: Tensor, y: Tensor) -> Tensor:
    return x + y


def _scored(x: Tensor, y: Tensor) -> Tensor:
    return torch.einsum("btd,btd->bt", x, y)[..., None] * x


@pytest.mark.parametrize("module", [_added, _scored])
def test_two_dims_that_must_be_one_size(module):
    """An error says so; one name for both mends it."""
    with pytest.raises(BuildError, match=r"E122.*dims `t` and `s` are one size: the only case module 0 `it` acc"):
        _one(module, (Two.x, Two.y), States.h, Two, States)
    assert _one(module, (Alike.x, Alike.y), States.h, Alike, States).diagnostics == ()


def test_two_dims_of_any_sizes():
    """Nothing ties them where the module takes both."""
    built = _one(lambda x, y: x + y.mean(1, keepdim=True), (Two.x, Two.y), States.h, Two, States)
    assert built.diagnostics == ()


class Asking(nn.Module):
    """A model that needs one of its optional arguments."""

    def forward(self, ids: Tensor, mask: Tensor | None = None, decoder_ids: Tensor | None = None) -> Tensor:
        """Fails without the last one."""
        if decoder_ids is None:
            raise ValueError("You must specify exactly one of the inputs")
        return decoder_ids[..., None].expand(-1, -1, 8).float()


def test_an_argument_that_is_left_out_is_named():
    """The parameters that no in field gives."""
    with pytest.raises(BuildError, match="`mask`, `decoder_ids`"):
        _one(Asking(), Text.ids, States.h, Text, States)


class Packing(nn.Module):
    """A GRU that forgets to pad its result."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.GRU(8, 8, batch_first=True)

    def forward(self, x: Tensor) -> Any:
        """A packed sequence."""
        return self.rnn(pack_padded_sequence(x, torch.tensor([3] * len(x)), batch_first=True))[0]


def test_a_result_of_several_values_is_named():
    """By the class that holds them."""
    with pytest.raises(BuildError, match="a PackedSequence"):
        _one(Packing(), Two.x, States.h, Two, States)


class PerElement(nn.Module):
    """A layer for each ragged element."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = nn.Linear(width, 8)

    def forward(self, points: Any) -> Tensor:
        """The largest features."""
        return torch.stack([self.layer(one).amax(0) for one in points])


def test_a_wrong_width_of_ragged_elements():
    """Lengths are made up and differ from run to run; the width is the module's own."""
    assert _one(PerElement(3), Cloud.points, Code.code, Cloud, Code).diagnostics == ()
    with pytest.raises(BuildError, match=r"E108(?s:.*)x3 and 4x8"):
        _one(PerElement(4), Cloud.points, Code.code, Cloud, Code)


RUNS = "runs"


class Deep(nn.Module):
    """Many operations, then a refusal that no size mends."""

    runs: ClassVar[list[int]] = []

    def forward(self, x: Tensor) -> Tensor:
        """Always fails; counts in a way that the check does not see."""
        getattr(Deep, RUNS).append(1)
        for _ in range(300):
            x = x + 1
        raise ValueError("no size will do")


def test_the_search_in_a_large_module_ends():
    """It is bounded by operations, not by tries."""
    with pytest.raises(BuildError, match="no size will do"):
        _one(Deep(), Two.x, States.h, Two, States)
    assert 0 < len(Deep.runs) < 150
