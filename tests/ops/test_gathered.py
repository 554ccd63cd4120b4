"""Reads at an index tensor or a mask: the elements that torch gives for each leaf, for each number of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import TensorClass, TensorDict
from tensorclass.errors import TensorClassError
from tensorclass.typing import Float32

INDICES: dict[str, list[Any]] = {
    "none": [], "one": [1], "some": [2, 0], "repeated": [1, 1, 1], "negative": [-1, 0, -3], "many": [0, 1, 2] * 9,
}  # fmt: skip
MASKS: dict[str, Tensor] = {
    "rows": torch.tensor([True, False, True]),
    "no row": torch.zeros(3, dtype=torch.bool),
    "all": torch.ones(3, 2, dtype=torch.bool),
    "elements": torch.tensor([[True, False], [False, False], [True, True]]),
}
LEAVES: dict[str, Callable[[], Tensor]] = {
    "float": lambda: torch.rand(3, 2, 4),
    "no event dims": lambda: torch.arange(6).reshape(3, 2),
    "unsigned": lambda: torch.arange(6).reshape(3, 2).to(torch.uint16),
    "float8": lambda: torch.ones(3, 2, 4).to(torch.float8_e4m3fn),
    "expanded": lambda: torch.rand(1, 2).expand(3, 2),
    "tracked": lambda: torch.rand(3, 2, requires_grad=True) * 2,
    "meta": lambda: torch.empty(3, 2, device="meta"),
}


class Inner(TensorClass):
    """One field."""

    c: Float32[Tensor, ""]


class Outer(TensorClass):
    """A tensor of any kind, an object and a nested class."""

    a: Tensor
    inner: Inner
    b: Tensor
    name: str = "scan"


def _made(a: Tensor, b: Tensor, names: list[str | None] | None = None) -> list[Any]:
    inner = Inner(c=torch.arange(6.0).reshape(3, 2), batch_size=[3, 2])
    typed = Outer(a=a, b=b, inner=inner, batch_size=[3, 2])
    untyped = TensorDict(a=a, inner={"c": inner.c}, b=b, name="scan", batch_size=[3, 2])
    for made in (typed, untyped):
        made.names = names
    return [typed, untyped]


def _same(found: Tensor, expected: Tensor) -> bool:
    alike = found.shape == expected.shape and found.dtype == expected.dtype and found.device == expected.device
    return alike and (found.is_meta or torch.equal(found.float(), expected.float()))


@pytest.mark.parametrize("names", [None, ["time", "env"]], ids=["unnamed", "named"])
@pytest.mark.parametrize("index", [*INDICES, *MASKS])
@pytest.mark.parametrize("leaf", LEAVES)
def test_elements(leaf: str, index: str, names: list[str | None] | None) -> None:
    """As the same index of the tensor, whichever leaf comes first."""
    at = MASKS[index] if index in MASKS else torch.tensor(INDICES[index], dtype=torch.int64)
    odd, plain = LEAVES[leaf](), torch.rand(3, 2, 3)
    for first, second in ((odd, plain), (plain, odd)):
        for made in _made(first, second, names):
            found = made[at]
            want = plain[at]
            assert found.batch_size == want.shape[:-1]
            assert found.names == (names or [None, None] if want.ndim > 2 else [None])
            assert _same(found["a"], first[at])
            assert _same(found["b"], second[at])
            assert _same(found["inner", "c"], torch.arange(6.0).reshape(3, 2)[at])
            assert found["name"] == "scan"
            assert found["a"].requires_grad == first.requires_grad


@pytest.mark.parametrize("index", [[3], [-4], [0] * 20 + [3]])
def test_out_of_range(index: list[int]) -> None:
    """An `IndexError`, as in torch."""
    for made in _made(torch.rand(3, 2), torch.rand(3, 2)):
        with pytest.raises((IndexError, TensorClassError), match="out of"):
            made[torch.tensor(index)]
