"""`==` of containers whose batch sizes differ: they broadcast, or only say where the batch dims end."""

from __future__ import annotations

import operator
from typing import Any

import pytest
import tensordict as anchor
import torch

from tensorclass import TensorDict, lazy_stack
from tensorclass.errors import StructureError

Part = tuple[tuple[int, ...], list[int], "list[int] | None"]
Pair = tuple[Part, Part]
SHAPES_AGREE: list[Pair] = [
    (((2, 3), [], None), ((2, 3), [2], None)),
    (((2, 3), [2], None), ((2, 3), [2, 3], None)),
    (((2, 3), [], [2]), ((2, 3), [2], [2, 3])),
    (((2, 3), [2], [2]), ((2, 3), [2], [2, 3])),
    (((0, 3), [0], [0]), ((0, 3), [], [0, 3])),
]
SIZES_BROADCAST: list[Pair] = [
    (((3,), [], None), ((2, 3), [2], None)),
    (((1, 3), [1], None), ((2, 3), [2], None)),
    (((2, 3), [2], None), ((2, 2, 3), [2, 2], None)),
    (((3, 3), [3], None), ((3, 3, 3), [3, 3], None)),
    (((2, 1), [2], None), ((2, 3), [2], None)),
]
NEITHER: list[Pair] = [
    (((2, 3), [], None), ((2,), [2], None)),
    (((2,), [2], None), ((2, 2), [2], None)),
    (((3,), [3], None), ((2, 3), [2], None)),
]
OPERATORS = [operator.eq, operator.ne, operator.lt, operator.ge]


def both_ways(pairs: list[Pair]) -> list[Pair]:
    """Each pair, and the same with its sides exchanged."""
    return [*pairs, *((right, left) for left, right in pairs)]


def make(cls: Any, part: Part) -> Any:
    """A container of one tensor, in a nested container too if a batch size is given for that."""
    shape, size, nested = part
    value = torch.arange(float(torch.Size(shape).numel())).reshape(shape)
    entries = {"a": value} if nested is None else {"a": value, "n": cls({"b": value}, nested)}
    return cls(entries, size)


def told(result: Any) -> Any:
    """The batch size and the values of a comparison."""
    return [*result.batch_size], result["a"].tolist()


@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize(("left", "right"), both_ways(SHAPES_AGREE), ids=str)
def test_leaves_of_the_same_shapes(left: Part, right: Part, op: Any) -> None:
    """Leaves are compared element by element; the result has the longer batch size at every level.

    So does the anchor if the left container has the longer one. Else it expands the left container, and compares each
    leaf with every row of the other.
    """
    mine, theirs = make(TensorDict, left), make(TensorDict, right)
    result = op(mine, theirs)
    assert told(result) == (max(left[1], right[1], key=len), op(mine["a"], theirs["a"]).tolist())
    if left[2] is not None and right[2] is not None:
        assert [*result["n"].batch_size] == max(left[2], right[2], key=len)
    if left[1:] == ([2], None) and right[1] == []:
        assert told(result) == told(op(make(anchor.TensorDict, left), make(anchor.TensorDict, right)))


@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize(("left", "right"), both_ways(SIZES_BROADCAST), ids=str)
def test_batch_sizes_that_broadcast(left: Part, right: Part, op: Any) -> None:
    """The result of the anchor."""
    expected = op(make(anchor.TensorDict, left), make(anchor.TensorDict, right))
    assert told(op(make(TensorDict, left), make(TensorDict, right))) == told(expected)


@pytest.mark.parametrize("op", OPERATORS)
def test_fewer_event_dims_without_batch_dims(op: Any) -> None:
    """The right container broadcasts as a tensor does. A left one would grow: an error, in the anchor too."""
    row, one = ((2, 3), [2], None), ((), [], None)
    expected = op(make(anchor.TensorDict, row), make(anchor.TensorDict, one))
    assert told(op(make(TensorDict, row), make(TensorDict, one))) == told(expected)
    with pytest.raises(StructureError):
        op(make(TensorDict, one), make(TensorDict, row))
    with pytest.raises(RuntimeError):
        op(make(anchor.TensorDict, one), make(anchor.TensorDict, row))


@pytest.mark.parametrize(("left", "right"), both_ways(NEITHER), ids=str)
def test_sizes_that_do_not_fit(left: Part, right: Part) -> None:
    """Other shapes are an error, also where torch would broadcast a batch dim against an event dim."""
    with pytest.raises(StructureError):
        make(TensorDict, left) == make(TensorDict, right)  # noqa: B015


def test_a_stack_and_the_dense_container() -> None:
    """A lazy stack on either side, its batch size longer or shorter."""
    stack = lazy_stack([TensorDict(a=torch.rand(3), batch_size=[3]) for _ in range(2)])
    for size in ([], [2], [2, 3]):
        dense = TensorDict(a=stack["a"], batch_size=size)
        assert stack == dense
        assert dense == stack
        assert stack != dense + 1
    short = lazy_stack([TensorDict(a=torch.ones(3)) for _ in range(2)])
    assert short == TensorDict(a=torch.ones(2, 3), batch_size=[2, 3])


def test_arithmetic_needs_the_same_event_dims() -> None:
    """Only comparisons look past the batch sizes: arithmetic says what doesn't fit."""
    with pytest.raises(StructureError, match="event shape"):
        TensorDict(a=torch.ones(2, 3), batch_size=[2]) + TensorDict(a=torch.ones(2, 3))
