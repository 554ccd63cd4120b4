"""Typed batches are iterated by index: rows in order, the same in every form of a loop, and no silent end."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import PerElement, TensorClass, TensorDict, lazy_stack
from tensorclass.errors import UnsupportedOperationError
from tensorclass.typing import Float32


class Row(TensorClass):
    """A tensor and a string for each element."""

    x: Float32[Tensor, "2"]
    name: PerElement[str] = "a"


def dense() -> Row:
    """Three rows."""
    return Row(x=torch.arange(6.0).reshape(3, 2), name=["a", "b", "c"])


def lazy() -> Row:
    """The same as a lazy stack."""
    return lazy_stack(list(dense().unbind()))


@pytest.mark.parametrize("make", [dense, lazy])
@pytest.mark.parametrize(
    "loop",
    [
        list,
        tuple,
        lambda b: [*b],
        lambda b: list(map(Row.clone, b)),
        lambda b: [row for _, row in enumerate(b)],
        lambda b: [row for row, _ in zip(b, range(9), strict=False)],
        lambda b: list(reversed(list(reversed(b)))),
    ],
)
def test_rows_in_order(make, loop):
    """Every loop gives the rows, as indexing does."""
    batch = make()
    rows = loop(batch)
    assert len(rows) == 3
    for i, row in enumerate(rows):
        assert type(row) is Row
        assert torch.equal(row.x, batch[i].x)
        assert row.name == "abc"[i]


def test_unpacking():
    """A batch is unpacked like a tensor."""
    first, *others = dense()
    assert first.name == "a"
    assert [row.name for row in others] == ["b", "c"]


@pytest.mark.parametrize("empty", [dense()[0], TensorDict(a=1)])
@pytest.mark.parametrize("use", [list, lambda b: [*b], lambda b: b[0], lambda b: b[:1], lambda b: b[torch.tensor([0])]])
def test_no_batch_dims(empty, use):
    """A loop over an instance without batch dims raises; it does not end at once, as an `IndexError` would."""
    with pytest.raises(TypeError, match="without batch dims") as caught:
        use(empty)
    assert not isinstance(caught.value, IndexError)
    assert isinstance(caught.value, UnsupportedOperationError)


def test_only_stores_are_iterable_classes():
    """Trainers walk into what is `Iterable`; a typed batch is read by its fields instead."""
    assert not isinstance(dense(), Iterable)
    assert isinstance(TensorDict(a=torch.ones(2), batch_size=[2]), Iterable)


def test_compiled_loops():
    """Loops trace whole."""

    def total(batch: Any) -> Tensor:
        return sum((row.x for row in batch), torch.zeros(2))

    compiled = torch.compile(total, fullgraph=True, backend="eager")
    batch = dense()
    assert torch.equal(compiled(batch), batch.x.sum(0))
