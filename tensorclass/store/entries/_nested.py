"""Nested tensors of torch as entries: in an operation, each becomes a `RaggedTensor` over the same memory.

Torch's jagged layout supports few operations. Operations with numbers, batch dims and masks run on the rows, and the
result becomes a nested tensor again if torch supports it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard

import torch
from torch import Tensor

from ...core import Path, TensorCollection
from ...ops._lengths import Ragged
from ._ragged import RaggedTensor
from ._rows import Held, Rows


class NestedRows(Rows):
    """The rows of a nested tensor; the lengths of its elements can't change."""

    __slots__ = ("source",)

    def __init__(self, held: Held, base: tuple[Rows, Held] | None, source: Tensor) -> None:
        super().__init__(held, base)
        self.source: Any = source

    def fixed(self, same: bool) -> str:
        """The error text: elements of other lengths need a new nested tensor."""
        if not same:
            return (
                "is a nested tensor of torch, whose elements keep their lengths: set the entry, or hold the elements "
                "as a `RaggedTensor`"
            )
        return super().fixed(same)

    def twin(self, held: Held, base: tuple[Rows, Held] | None) -> Rows:
        """Rows with the same lengths and the same offsets object, by which torch recognizes matching nested tensors."""
        same = held[0].device == self.held[0].device and torch.equal(held[1], self.held[1])
        if not same:
            return Rows(held, base)
        return NestedRows(
            held, base, torch.nested.nested_tensor_from_jagged(held[0], self.source.offsets(), self.source._lengths)
        )


class NestedEntry(RaggedTensor):
    """A `RaggedTensor` that is stored and read as a nested tensor."""

    __slots__ = ()

    def _item(self) -> Any:
        if not self.ndim or self.shape[1:].numel() != 1:
            return self
        nested = self.reshape(self.shape[:1]).to_nested()
        for _ in self.shape[1:]:
            nested = nested.unsqueeze(1)
        return nested

    def _plan_write(self, value: Any, parts: Any, size: torch.Size, path: Path) -> Any:
        if isinstance(value, Tensor) and value.is_nested:  # dims of size one are between the first dim and the rows
            extra = value.ndim - 2 - len(self.event_shape)
            rows = [row.reshape(row.shape[extra:]) for row in value.unbind()] if extra > 0 else []
            made: Any = NestedEntry._read(rows, None) if rows else None
            value = made.reshape(torch.Size([len(rows), *[1] * extra])) if rows else value
        return super()._plan_write(value, parts, size, path)

    def _settle(self, leaf: Tensor) -> None:
        if not leaf.is_nested:
            super()._settle(leaf)


def is_jagged(value: object) -> TypeGuard[Tensor]:
    """Whether a value is a nested tensor of consecutive rows."""
    if type(value) is Tensor or not isinstance(value, Tensor) or not value.is_nested:
        return False
    plain: Any = value
    return value.layout is torch.jagged and plain._ragged_idx == 1


def has_rows(value: object, size: torch.Size) -> TypeGuard[Tensor]:
    """Whether an entry of a container with this batch size is a nested tensor with one component per element."""
    return len(size) == 1 and is_jagged(value)


def only_tensors(entries: Mapping[str, Any]) -> bool:
    """Whether all entries are plain tensors, without special rules."""
    for v in entries.values():
        if type(v) is not Tensor and (isinstance(v, TensorCollection) or not isinstance(v, Tensor) or is_jagged(v)):
            return False
    return True


def over(value: Any) -> NestedEntry:
    """The rows of a nested tensor, over its memory."""
    offsets = value.offsets()
    lengths = value._lengths  # set if there are holes between the rows
    spans = torch.stack([offsets[:-1], offsets.diff() if lengths is None else lengths], -1).to(torch.int64)
    rows = NestedRows((value.values(), spans, lengths is None), None, value)
    return NestedEntry._at_rows(rows, rows.numbers, None)


def held(value: Any) -> Any:
    """The stored value for rows that an operation returned: a nested tensor, if torch can make one over that memory."""
    if type(value) is not NestedEntry:
        return value
    if not value.ndim:
        return value.item()
    rows = value._rows
    whole = value._at is rows.numbers
    if value.ndim > 1 or not (
        whole or not value._is_lent(value._pack_rows()[0])
    ):  # a view of rows that are not contiguous
        return value
    return rows.source if whole and isinstance(rows, NestedRows) else value.to_nested()


Ragged.node = RaggedTensor
Ragged.held = held
Ragged.over = lambda value: over(value) if is_jagged(value) else None
