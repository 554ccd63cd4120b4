"""Modules over a part of the mesh that treat the piece of a rank in another way than the whole: found by values."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn import functional

from tensorclass import TensorClass
from tensorclass.errors import BuildError
from tensorclass.nn import TensorClassModule, TensorClassSequential
from tensorclass.parallel import Layout
from tensorclass.typing import Float32
from tests.parallel._meshes import fake_mesh


class Item(TensorClass):
    x: Float32[Tensor, "8"]


class Hidden(TensorClass):
    h: Float32[Tensor, "8"]


class Line(TensorClass):
    x: Float32[Tensor, "t 8"]


class Tagged(TensorClass):
    h: Float32[Tensor, "t 8"]


class Net(nn.Module):
    """Two layers, and a function of what they give."""

    def __init__(self, then: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.wide, self.narrow, self.then = nn.Linear(8, 16), nn.Linear(16, 8), then
        self.register_buffer("runs", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.runs += 1
        return self.then(self.narrow(functional.dropout(self.wide(x).relu(), 0.5, self.training)))


class Normed(Net):
    """With batch norm."""

    def __init__(self, then: Callable[[Tensor], Tensor]) -> None:
        super().__init__(then)
        self.norm = nn.BatchNorm1d(8)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(self.norm(x))  # type: ignore[no-any-return]  # a tensor


def sharded(module: nn.Module, mesh: Any, *dims: str) -> nn.Module:
    """`fully_shard` over some dims."""
    fully_shard(module, mesh=mesh[dims])
    return module


def columns(module: nn.Module, mesh: Any) -> nn.Module:
    """Columns and rows over `tp`."""
    return parallelize_module(module, mesh["tp"], {"wide": ColwiseParallel(), "narrow": RowwiseParallel()})


SPREAD: dict[str, Callable[[nn.Module, Any], nn.Module]] = {
    "fully_shard": lambda module, mesh: sharded(module, mesh, "dp"),
    "both": lambda module, mesh: sharded(columns(module, mesh), mesh, "dp"),
    "columns": lambda module, mesh: columns(module, mesh).requires_grad_(False),
}
ROWS: dict[str, Callable[[Tensor], Tensor]] = {
    "less the mean of the rows": lambda x: x - x.mean(0),
    "less the largest": lambda x: x - x.amax(0),
    "a softmax over rows": lambda x: x.softmax(0),
    "a running sum": lambda x: x.cumsum(0),
    "rows turned round": lambda x: x.flip(0),
    "rows moved on": lambda x: x.roll(1, 0),
    "over the norm of all": lambda x: x / x.norm(),
    "attention between rows": lambda x: functional.scaled_dot_product_attention(x[None], x[None], x[None])[0],
    "sorted rows": lambda x: x.sort(0).values,
    "over the number of rows": lambda x: x / len(x),
    "less the first row": lambda x: x - x[0],
    "with the number of the row": lambda x: x + torch.arange(len(x), device=x.device)[:, None],
    "the first row last": lambda x: torch.cat([x[1:], x[:1]]),
}
TOKENS: dict[str, Callable[[Tensor], Tensor]] = {
    "attention": lambda x: functional.scaled_dot_product_attention(x, x, x),
    "less the mean of the tokens": lambda x: x - x.mean(1, keepdim=True),
    "with the number of the token": lambda x: x + torch.arange(x.shape[1], device=x.device)[:, None],
    "the last token": lambda x: x + x[:, -1:],
}
RIGHT: dict[str, Callable[[Tensor], Tensor]] = {
    "as it is": lambda x: x,
    "a softmax over features": lambda x: x.softmax(-1),
    "random": lambda x: x + torch.rand_like(x),
    "large": lambda x: (x * 1e4).exp().log().sin() if x.is_meta else x * 1e6,
}


def codes(module: nn.Module, layout: Layout, input: Any = Item, output: Any = Hidden) -> list[str]:
    """What the layout's check of a pipeline finds."""
    stage = TensorClassModule(module, in_fields=input.x, out_fields=output.h)
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        try:
            found: Any = TensorClassSequential(stage, input=input, output=output, layout=layout).diagnostics
        except BuildError as error:
            found = error.diagnostics
    return [one.code for one in found if one.code in ("E119", "E120", "E121", "W212", "W213")]


@pytest.mark.parametrize(
    "spread", ["fully_shard", *(pytest.param(n, marks=pytest.mark.slow) for n in ("both", "columns"))]
)
@pytest.mark.parametrize("name", ROWS)
def test_rows_of_a_rank_are_not_all_rows(name: str, spread: str) -> None:
    """What a module does along the split rows is an error, however it is parallelised."""
    with fake_mesh(dp=2, tp=2) as mesh:
        assert codes(SPREAD[spread](Net(ROWS[name]), mesh), Layout(mesh, batch="dp")) == ["E119"]


@pytest.mark.parametrize("name", TOKENS)
def test_tokens_of_a_rank_are_not_the_sequence(name: str) -> None:
    """Along a split event dim it is a warning: a block of `context_parallel` may see to it."""
    with fake_mesh(dp=2, tp=2) as mesh:
        module = sharded(Net(TOKENS[name]), mesh, "dp", "tp")
        assert codes(module, Layout(mesh, batch="dp", t="tp"), Line, Tagged) == ["W212"]


@pytest.mark.parametrize("spread", SPREAD)
@pytest.mark.parametrize("name", RIGHT)
def test_right_modules_pass(name: str, spread: str) -> None:
    """Dropout, random numbers and large values are not taken for such a fault; module and random state stay alike."""
    with fake_mesh(dp=2, tp=2) as mesh:
        module = SPREAD[spread](Net(RIGHT[name]), mesh)
        before, state = [*module.parameters()], torch.random.get_rng_state()
        found = codes(module, Layout(mesh, batch="dp"))
        assert [one for one in found if one != "W213"] == []
        assert [*map(id, module.parameters())] == [*map(id, before)]
        assert torch.equal(torch.random.get_rng_state(), state)
        assert module.training


def test_batch_norm() -> None:
    """Batch norm of the rows of each rank warns in training, and is right in evaluation; its statistics stay alike."""
    with fake_mesh(dp=2) as mesh:
        module = sharded(Normed(lambda x: x), mesh, "dp")
        assert codes(module, Layout(mesh, batch="dp")) == ["W212"]
        assert codes(module.eval(), Layout(mesh, batch="dp")) == []
        assert not module.norm.running_mean.any()  # type: ignore[union-attr, operator]  # a buffer
