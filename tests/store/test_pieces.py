"""Pieces of a container, and a few of its rows by an index tensor: each entry as torch cuts or indexes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import NonTensorStack, TensorClass, TensorCollection, TensorDict, lazy_stack
from tensorclass.typing import Float32


class Inner(TensorClass):
    b: Float32[Tensor, "2"]


class Outer(TensorClass):
    a: Float32[Tensor, ""]
    inner: Inner
    source: str
    extra: Float32[Tensor, ""] | None = None


def _rand(*shape: int) -> Tensor:
    return torch.rand(3, 4, *shape, generator=torch.Generator().manual_seed(len(shape)))


KINDS: dict[str, Callable[[], Any]] = {
    "plain": lambda: TensorDict(a=_rand(), b=_rand(2), batch_size=[3, 4]),
    "named": lambda: TensorDict(a=_rand(), inner={"b": _rand(2)}, batch_size=[3, 4], names=["x", "y"]),
    "typed": lambda: Outer(_rand(), Inner(_rand(2)), "scan"),
    "more batch dims below": lambda: TensorDict(
        a=_rand(),
        inner=TensorDict(b=_rand(2), batch_size=[3, 4, 2], names=["x", "y", "z"]),
        batch_size=[3, 4],
        names=["x", "y"],
    ),
    "lazy below": lambda: TensorDict(
        a=_rand(), inner=lazy_stack([TensorDict(b=row, batch_size=[4]) for row in _rand(2)]), batch_size=[3, 4]
    ),
    "objects": lambda: TensorDict(
        a=_rand(),
        one="scan",
        each=NonTensorStack.from_list([[f"{i}{j}" for j in range(4)] for i in range(3)]),
        batch_size=[3, 4],
    ),
    "nothing": lambda: TensorDict(batch_size=[3, 4]),
    "only objects": lambda: TensorDict(one="scan", batch_size=[3, 4]),
}
CUTS: dict[str, Callable[[Any, int], Any]] = {
    "unbind": lambda x, dim: x.unbind(dim),
    "split": lambda x, dim: x.split(2, dim),
    "split by sizes": lambda x, dim: x.split([1, 0, x.shape[dim] - 1], dim),
    "chunk": lambda x, dim: x.chunk(2, dim),
    "tensor_split": lambda x, dim: x.tensor_split([1, 2], dim),
}


def _flat(batch: Any, path: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {f"{path}/size": (type(batch).__name__, batch.batch_size, batch.names)}
    for key, value in batch.items():
        here = f"{path}/{key}"
        seen = value.tolist() if isinstance(value, NonTensorStack) else value
        found |= _flat(value, here) if isinstance(value, TensorCollection) else {here: seen}
    return found


def _same(left: Any, right: Any) -> bool:
    a, b = _flat(left), _flat(right)
    return list(a) == list(b) and all(
        torch.equal(value, b[key]) if isinstance(value, Tensor) else value == b[key] for key, value in a.items()
    )


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("kind", KINDS)
def test_pieces_are_what_an_index_takes(kind: str, cut: str, dim: int) -> None:
    """Each piece has the entries, sizes and names of the same rows by index, and a new container at every level."""
    batch = KINDS[kind]()
    pieces = CUTS[cut](batch, dim)
    sizes = [len(piece) for piece in CUTS[cut](torch.arange(batch.shape[dim]), 0)] if cut != "unbind" else None
    start = 0
    for i, piece in enumerate(pieces):
        rows: Any = i if sizes is None else slice(start, start + sizes[i])
        start += 0 if sizes is None else sizes[i]
        assert _same(piece, batch[(slice(None),) * dim + (rows,)])
    assert len(pieces) == (batch.shape[dim] if sizes is None else len(sizes))
    if batch.get("inner") is not None:
        assert pieces[0].get("inner") is not batch.get("inner")


@pytest.mark.parametrize("rows", [[0], [2, 0, 0], [-1, 1], []])
@pytest.mark.parametrize("kind", KINDS)
def test_a_few_rows_by_an_index_tensor(kind: str, rows: list[int]) -> None:
    """The rows are those that a list of ints takes by `stack`, in every entry."""
    batch = KINDS[kind]()
    index = torch.tensor(rows, dtype=torch.int64)
    taken = batch[index]
    assert taken.batch_size == (len(rows), 4)
    for at, row in enumerate(rows):
        assert _same(taken[at], batch[row])


@pytest.mark.parametrize("kind", KINDS)
def test_an_index_out_of_range_is_refused(kind: str) -> None:
    """Also in a container without tensors."""
    with pytest.raises((IndexError, RuntimeError)):
        KINDS[kind]()[torch.tensor([3])]
