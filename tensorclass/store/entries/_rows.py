"""The rows of ragged elements: made from lists and padded tensors as one table with spans; packing of the table."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np
import torch
from torch import Tensor

from ..._schema._dtypes import Alike
from ...core import Step, assign
from ...errors import ArgumentError, BatchSizeError, StructureError
from ...ops._operands import SCALARS
from ...ops._steps import Writes
from ...ops._writable import rank, same_storage, unwritable

Held: TypeAlias = "tuple[Tensor, Tensor, bool]"
"""A table, the spans `[*batch, 2]` of starts and lengths, and whether the table is exactly the spans in order."""

_UNSIGNED: Final = (torch.uint16, torch.uint32, torch.uint64)
"""Dtypes that `torch.index_select`, which is faster than an index, does not support."""


class Rows:
    """The state that ragged elements share with all their views.

    It is replaced in one step, since other threads may read.
    """

    __slots__ = ("base", "held", "numbers")
    base: tuple[Rows, Held] | None
    """For rows over the memory of others, as after `detach`: the others, and their contents at that time."""

    def __init__(self, held: Held, base: tuple[Rows, Held] | None = None) -> None:
        self.held, self.base = held, base
        size = held[1].shape[:-1]
        self.numbers = torch.arange(size.numel(), device=held[1].device).reshape(size)

    def twin(self, held: Held, base: tuple[Rows, Held] | None) -> Rows:
        """Rows of this kind for the same number of elements."""
        return Rows(held, base)

    def plan_put(self, at: Tensor, new: Tensor, spans: Tensor, writes: Writes) -> None:
        """Prepare to replace the values of the elements with these numbers; in place if the lengths don't change."""
        held, rows = writes.shared.get(self, (None, []))
        table, old, _ = held or self.held
        flat, wide = old.reshape(-1, 2), spans.to(old.device).expand(*at.shape, 2)
        if not old.is_meta and torch.equal(flat[at][..., 1], wide[..., 1]):
            row = flat[at], new.index_select(0, rows_of(wide)).to(table)
            writes.shared[self] = held, [*rows, row]
            return
        table = _with_rows(table, rows)
        changed = flat.clone()
        changed[at] = wide + old.new_tensor([len(table), 0])
        if len(new) or new.shape[1:] == table.shape[1:]:
            table = torch.cat([table, new.to(table)])
        writes.shared[self] = (*pack(table, changed.reshape(old.shape)), True), []

    def settle(self, contents: Any, writes: Writes) -> None:
        """Add the steps that write into the table, or that show a new one to all views."""
        held, rows = contents
        if held is None:
            writes.kernels += [write_step(self.held[0], *row) for row in rows]
        else:
            writes.stores += assign(self, held=(_with_rows(held[0], rows), *held[1:]))

    def fixed(self, same: bool) -> str:
        """The reason why elements with the same lengths, or with others, can't be written; empty if they can."""
        rows = self
        while rows.base is not None:
            rows, then = rows.base
            if rows.held is not then:
                return "is a detached view of elements that have other lengths by now: take the view again"
        table = self.held[0]
        if same:
            return unwritable(table, torch.is_grad_enabled())
        if self.base is not None:
            return "is a detached view, whose elements keep their lengths: write to the container it was taken from"
        if type(table) is not Tensor or (table.is_cpu and table.is_shared()):
            return (
                "is in shared memory or mapped to a file, where its elements keep their lengths: write elements of the "
                "same lengths, or set the entry of a `clone()`"
            )
        return ""


def nesting(values: Any) -> torch.Size:
    """The shape of nested lists, from the first entry of each level."""
    shape: list[int] = []
    while isinstance(values, (list, tuple)):
        shape.append(len(values))
        values = values[0] if values else None
    return torch.Size(shape)


def leaves_of(values: Any, size: torch.Size, path: str = "") -> list[Tensor]:
    """The tensors in nested lists of a shape, in order.

    Raises:
        BatchSizeError: if the lists don't have the shape.
        StructureError: for an entry that is not a tensor with a dim.
    """
    if not size:
        return [_element(values, path)]
    if not isinstance(values, (list, tuple)) or len(values) != size[0]:
        given = f"{len(values)} entries" if isinstance(values, (list, tuple)) else _value_text(values)
        raise BatchSizeError(
            f"one tensor for each element: nested lists of the shape {list(size)} are expected"
            f"{f' at {path}' if path else ''}, got {given}"
        )
    if len(size) == 1:
        return [
            value
            if type(value) is Tensor and (value.ndim == 1 or (value.ndim and not value.is_nested))
            else _element(value, f"{path}[{i}]")
            for i, value in enumerate(values)
        ]
    return [leaf for i, part in enumerate(values) for leaf in leaves_of(part, size[1:], f"{path}[{i}]")]


def _element(value: Any, path: str) -> Tensor:
    tensor: Any = torch.as_tensor(value) if isinstance(value, np.ndarray) and value.dtype.kind in "biufc" else value
    if isinstance(tensor, Tensor) and tensor.ndim and not tensor.is_nested:
        return tensor
    raise StructureError(
        "an element of a ragged field is a tensor with at least one dim, the one that varies; got "
        f"{_value_text(value)}{f' at {path}' if path else ''}"
    )


def _value_text(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of shape {list(value.shape)}"
    return f"a {type(value).__name__}: {value!r:.60}"


def table_of(elements: Sequence[Tensor], like: Tensor | None) -> Tensor:
    """Concatenate the elements.

    Raises:
        StructureError: if they differ in more than their length; names the first that does.
    """
    if not elements:
        return torch.empty(0) if like is None else like[:0]
    first = elements[0]
    dtype, event, device = first.dtype, first.shape[1:], first.device
    ndim = first.ndim
    for position, element in enumerate(() if type(elements) is Alike else elements):
        other = element.ndim != ndim or (ndim > 1 and element.shape[1:] != event)
        if other or element.dtype is not dtype or element.device != device:
            raise StructureError(
                f"elements of a ragged field differ only in length: {_facts(first)} at 0, {_facts(element)} at "
                f"{position}"
            )
    return torch.cat(list(elements)) if len(elements) > 1 else first


def _facts(element: Tensor) -> str:
    return f"{element.dtype} [t{''.join(f', {n}' for n in element.shape[1:])}] on {element.device}"


def spans_of(lengths: Tensor) -> Tensor:
    """Starts and lengths `[*batch, 2]` of consecutive elements."""
    flat = lengths.reshape(-1)
    return torch.stack([flat.cumsum(0) - flat, flat], -1).reshape(*lengths.shape, 2)


def spans_of_lengths(values: Any, lengths: Any) -> Tensor:
    """The spans of consecutive elements with given lengths.

    Raises:
        StructureError: for lengths that are not counts, or don't add up to the number of rows.
    """
    counts = torch.as_tensor(lengths, device=values.device if isinstance(values, Tensor) else None)
    fractions = counts.is_floating_point() or counts.is_complex() or counts.dtype is torch.bool
    are_counts = not counts.numel() or (not fractions and int(counts.min()) >= 0)
    flat = isinstance(values, Tensor) and values.ndim > 0 and not values.is_nested
    if not (flat and are_counts and int(counts.sum()) == len(values)):
        given = f"a tensor {list(values.shape)}" if isinstance(values, Tensor) else f"{values!r:.80}"
        raise StructureError(
            "elements are `values` `[total, *event]` and integer `lengths` `[*batch]` that add up to the total, got "
            f"{given} and {lengths!r:.80}"
        )
    return spans_of(counts.to(torch.int64))


def padded_rows(padded: Tensor, lengths: Tensor | Sequence[int]) -> tuple[Tensor, Tensor]:
    """A padded tensor as a table, and the spans of its valid rows.

    Raises:
        BatchSizeError: if the shape of `padded` doesn't begin with that of `lengths`.
        ValueError: for lengths that are not integers, or outside the padded dim.
    """
    counts = torch.as_tensor(lengths, device=padded.device)
    if counts.numel() and (counts.dtype.is_floating_point or counts.dtype.is_complex or counts.dtype is torch.bool):
        raise ArgumentError(f"unpad: lengths are integers, got {counts.dtype}")
    counts = counts.to(torch.int64)
    dims = counts.ndim
    if padded.ndim <= dims or padded.shape[:dims] != counts.shape:
        raise BatchSizeError(
            f"unpad: lengths of shape {list(counts.shape)} belong to a tensor [*{list(counts.shape)}, max, *event], "
            f"got shape {list(padded.shape)}"
        )
    longest = padded.shape[dims]
    if counts.numel() and (int(counts.min()) < 0 or int(counts.max()) > longest):
        wrong = int(counts.min()) if int(counts.min()) < 0 else int(counts.max())
        raise ArgumentError(f"unpad: a length is from 0 to {longest}, the size of the padded dim; got {wrong}")
    starts = torch.arange(counts.numel(), device=padded.device).reshape(counts.shape) * longest
    rows = padded.reshape(counts.numel() * longest, *padded.shape[dims + 1 :])
    return rows, torch.stack([starts, counts], -1)


def holds(dtype: torch.dtype, value: complex) -> bool:
    """Whether a dtype can hold a number; a floating dtype may round it."""
    if not isinstance(value, SCALARS):
        raise ArgumentError(f"a number is expected, got {value!r:.60} of type {type(value).__name__}")
    try:
        number = torch.tensor(value, dtype=dtype)
    except (RuntimeError, OverflowError):  # too large, or complex for a real dtype
        return False
    return rank(value) <= rank(number) or bool(number.item() == value)


def pack(table: Tensor, spans: Tensor, copy: bool = False) -> tuple[Tensor, Tensor]:
    """A table with only the rows of the spans, in order; a view if possible, unless `copy`."""
    if spans.is_meta:
        return table, spans
    starts, lengths = spans.reshape(-1, 2).unbind(1)
    packed = spans_of(spans[..., 1])
    offset, total = (int(starts[0]), int(lengths.sum())) if len(starts) else (0, 0)
    if not copy and torch.equal(starts, packed.reshape(-1, 2)[:, 0] + offset):
        return table if not offset and total == len(table) else table[offset : offset + total], packed
    rows = rows_of(spans)
    return table[rows] if table.dtype in _UNSIGNED else torch.index_select(table, 0, rows), packed


def rows_of(spans: Tensor) -> Tensor:
    """The row numbers of all spans, concatenated."""
    starts, lengths = spans.reshape(-1, 2).unbind(1)
    total = int(lengths.sum())
    shift = torch.repeat_interleave(starts - (lengths.cumsum(0) - lengths), lengths, output_size=total)
    return shift + torch.arange(total, device=spans.device)


def write_step(table: Tensor, spans: Tensor, new: Tensor) -> Step:
    """The step that writes the rows of the spans in place."""
    view, _ = pack(table, spans)
    return partial(view.copy_, new) if same_storage(view, table) else partial(table.index_copy_, 0, rows_of(spans), new)


def _with_rows(table: Tensor, rows: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """A copy of a table with rows written; the table itself if there are none."""
    table = table.clone() if rows else table
    for spans, new in rows:
        write_step(table, spans, new)()
    return table
