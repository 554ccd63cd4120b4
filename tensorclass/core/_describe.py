"""`batch.describe()`: statistics of the values of each field."""

from __future__ import annotations

from collections import Counter
from html import escape
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..errors import printable
from ._base import TensorCollection
from ._entry import Entry, batch_shape
from ._html import _CELL, _FAINT, _TABLE, memory
from ._keys import join_path
from ._mapped import tensors_of
from ._repr import describe_entry, describe_value

_COLUMNS = ("field", "type", "min", "max", "mean", "nan", "values")


class FieldSummary(NamedTuple):
    """The statistics of one field. They ignore nan; a field without numbers has None."""

    type: str
    """Dtype and event shape, or the kind of the entry."""
    size: int
    """The number of numbers or objects, including nan."""
    min: float | None = None
    max: float | None = None
    mean: complex | None = None
    nan: int = 0
    text: str = ""
    """For objects, the number of distinct values and the most common one; for ragged fields, the lengths."""

    def cells(self) -> tuple[str, ...]:
        """The summary as columns of the table."""
        numbers = ["" if value is None else f"{value:.4g}" for value in (self.min, self.max, self.mean)]
        return (self.type, *numbers, str(self.nan) if self.nan else "", self.text)


class Description(dict[str, FieldSummary]):
    """A `FieldSummary` for each field by its dotted path; it prints as a table."""

    title: str = ""

    def __repr__(self) -> str:
        rows = [_COLUMNS, *([printable(cell) for cell in (path, *summary.cells())] for path, summary in self.items())]
        widths = [max(len(row[i]) for row in rows) for i in range(len(_COLUMNS))]
        lines = ["  ".join(cell.ljust(n) for cell, n in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join([self.title, *lines])

    def _repr_html_(self) -> str:
        """The HTML table for notebooks."""
        head = "".join(f"<th {_CELL}>{name}</th>" for name in _COLUMNS)
        rows = "".join(
            f"<tr>{''.join(f'<td {_CELL}>{escape(cell)}</td>' for cell in (path, *summary.cells()))}</tr>"
            for path, summary in self.items()
        )
        return (
            f'<div style="font-family:monospace"><b>{escape(self.title.split(":")[0])}</b>'
            f"<span {_FAINT}>:{escape(self.title.partition(':')[2])}</span>"
            f"<table {_TABLE}><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
        )


def describe(collection: TensorCollection) -> Description:
    """Summarize a container; members of a lazy stack are summarized together."""
    found: dict[str, list[tuple[str, Any]]] = {}
    _collect(collection, (), collection._batch_size, found)
    made = Description({path: _summary(values) for path, values in found.items()})
    leaves = [leaf for values in found.values() for _, value in values for leaf in tensors_of(value)]
    nbytes = sum(leaf.numel() * leaf.element_size() for leaf in leaves)
    made.title = f"{type(collection).__name__}: batch_size={list(collection._batch_size)}, {memory(nbytes)}"
    return made


def _collect(
    collection: TensorCollection, path: tuple[str, ...], size: torch.Size, found: dict[str, list[tuple[str, Any]]]
) -> None:
    if collection._stacked:
        for part in collection._parts():
            _collect(part, path, part._batch_size, found)
        return
    for key, value in collection._entries().items():
        here = (*path, key)
        if isinstance(value, TensorCollection):
            _collect(value, here, size, found)
        elif value is not None:
            found.setdefault(join_path(here), []).append((describe_entry(value, size), value))


def _summary(rows: list[tuple[str, Any]]) -> FieldSummary:
    """The statistics of one field from its values; a lazy stack has one value for each member."""
    kinds, values = zip(*rows, strict=True)
    kind = " | ".join(dict.fromkeys(kinds))
    leaves = [leaf for value in values for leaf in tensors_of(value)]
    if leaves:
        lengths = [len(part) for leaf in leaves if leaf.is_nested for part in leaf.unbind()]
        ragged = [value for value in values if not isinstance(value, Tensor) and hasattr(value, "lengths")]
        lengths += [n for value in ragged for n in value.lengths.flatten().tolist()]
        parts = [part for leaf in leaves for part in (leaf.unbind() if leaf.is_nested else [leaf.to_dense()])]
        text = f"{min(lengths)} to {max(lengths)} long" if lengths else ""
        flat = [part.detach().reshape(-1) for part in parts]
        return _of_numbers(kind, torch.cat(flat) if flat else torch.empty(0), text)
    objects = [describe_value(item) for value in values for item in _objects(value)]
    common = Counter(objects).most_common(1)
    more = f"{len(set(objects))} different, most often " if len(set(objects)) > 1 else ""
    return FieldSummary(kind, len(objects), text=f"{more}{common[0][0]}" if common else "")


def _objects(value: Any) -> list[Any]:
    if batch_shape(value) is None:
        return [value._read_value() if isinstance(value, Entry) else value]
    found: Any = value.tolist()
    for _ in value._batch_shape[1:]:
        found = [item for part in found for item in part]
    return found if value._batch_shape else [found]


def _of_numbers(kind: str, values: Tensor, text: str) -> FieldSummary:
    count = values.numel()
    if values.is_meta or not count:
        return FieldSummary(kind, count, text=text)
    gaps = values.isnan()
    kept = values[~gaps]
    nan = int(gaps.sum())
    if values.is_complex() or not len(kept):
        mean = complex(kept.to(torch.complex128).mean()) if len(kept) else None
        return FieldSummary(kind, count, mean=mean, nan=nan, text=text)
    wide = kept.double()
    exact = kept.dtype in (torch.int16, torch.int32, torch.int64)  # for other integers, torch has no `aminmax`
    low, high = (kept if exact else wide).aminmax()
    return FieldSummary(kind, count, low.item(), high.item(), wide.mean().item(), nan, text)
