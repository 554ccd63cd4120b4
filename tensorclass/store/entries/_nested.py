"""Nested tensors of torch as entries: for an operation, each is a `RaggedTensor` over the same memory.

Torch's jagged layout has few operations. Operations with numbers, batch dims and masks act on the rows, and
the result is a nested tensor again where torch has one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard

import torch
from torch import Tensor

from ...core import Path
from ...ops._lengths import Ragged
from ._ragged import RaggedTensor
from ._rows import Held, Rows


class NestedRows(Rows):
    """The rows of a nested tensor, whose elements keep their lengths."""

    __slots__ = ("source",)

    def __init__(self, held: Held, base: tuple[Rows, Held] | None, source: Tensor) -> None:
        super().__init__(held, base)
        self.source: Any = source

    def fixed(self, same: bool) -> str:
        """Elements of other lengths need another nested tensor."""
        if not same:
            return (
                "is a nested tensor of torch, whose elements keep their lengths: set the entry, or hold the elements "
                "as a `RaggedTensor`"
            )
        return super().fixed(same)

    def twin(self, held: Held, base: tuple[Rows, Held] | None) -> Rows:
        """Rows of the same lengths have the same offsets, by which torch knows that two nested tensors fit."""
        same = held[0].device == self.held[0].device and torch.equal(held[1], self.held[1])
        if not same:
            return Rows(held, base)
        return NestedRows(
            held, base, torch.nested.nested_tensor_from_jagged(held[0], self.source.offsets(), self.source._lengths)
        )


class NestedEntry(RaggedTensor):
    """A `RaggedTensor` that is held as a nested tensor, and read as one."""

    __slots__ = ()

    def _item(self) -> Any:
        if not self.ndim or self.shape[1:].numel() != 1:
            return self
        nested = self.reshape(self.shape[:1]).to_nested()
        for _ in self.shape[1:]:
            nested = nested.unsqueeze(1)
        return nested

    def _plan_write(self, value: Any, parts: Any, size: torch.Size, path: Path) -> Any:
        if isinstance(value, Tensor) and value.is_nested:  # dims of size one lie between the first and the rows
            extra = value.ndim - 2 - len(self.event_shape)
            rows = [row.reshape(row.shape[extra:]) for row in value.unbind()] if extra > 0 else []
            made: Any = NestedEntry._read(rows, None) if rows else None
            value = made.reshape(torch.Size([len(rows), *[1] * extra])) if rows else value
        return super()._plan_write(value, parts, size, path)

    def _settle(self, leaf: Tensor) -> None:
        if not leaf.is_nested:
            super()._settle(leaf)


def is_jagged(value: object) -> TypeGuard[Tensor]:
    """Whether a value is a nested tensor of rows one after another."""
    if type(value) is Tensor or not isinstance(value, Tensor) or not value.is_nested:
        return False
    plain: Any = value
    return value.layout is torch.jagged and plain._ragged_idx == 1


def has_rows(value: object, size: torch.Size) -> TypeGuard[Tensor]:
    """Whether an entry of a container of this batch size is a nested tensor with a row for each element."""
    return len(size) == 1 and is_jagged(value)


def only_tensors(entries: Mapping[str, Any]) -> bool:
    """Whether entries are tensors without rules of their own."""
    return all([type(v) is Tensor or (isinstance(v, Tensor) and not is_jagged(v)) for v in entries.values()])


def over(value: Any) -> NestedEntry:
    """The rows of a nested tensor, in its memory."""
    offsets = value.offsets()
    lengths = value._lengths  # with holes between the rows
    spans = torch.stack([offsets[:-1], offsets.diff() if lengths is None else lengths], -1).to(torch.int64)
    rows = NestedRows((value.values(), spans, lengths is None), None, value)
    return NestedEntry._at_rows(rows, rows.numbers, None)


def held(value: Any) -> Any:
    """What a container holds for rows that an operation gave: a nested tensor where torch has one of that memory."""
    if type(value) is not NestedEntry:
        return value
    if not value.ndim:
        return value.item()
    rows = value._rows
    whole = value._at is rows.numbers
    if value.ndim > 1 or not (whole or not value._lent(value._packed()[0])):  # a view of rows apart in memory
        return value
    return rows.source if whole and isinstance(rows, NestedRows) else value.to_nested()


Ragged.node = RaggedTensor
Ragged.held = held
Ragged.over = lambda value: over(value) if is_jagged(value) else None
