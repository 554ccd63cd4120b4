"""Containers in a notebook: one self-contained HTML table, in which nested containers fold."""

from __future__ import annotations

from html import escape
from typing import Any

import torch
from torch import Tensor

from .._config import PrintOptions, print_options
from ._base import STORAGE, TensorCollection, is_typed
from ._entry import Entry, batch_shape
from ._glance import cut, numbers_of
from ._repr import describe_value, entries_in_order

# No style sheet and no script, since notebooks share them between outputs. Colours come from the page.
_OUTER = 'style="font-family:monospace;line-height:1.4;display:flex;flex-wrap:wrap;gap:2em;align-items:flex-start"'
_CELL = 'style="text-align:left;padding:0 1em 0 0;vertical-align:top;border:none"'
_WIDE = 'style="text-align:left;padding:0 0 0 1em;border:none"'
_FAINT = 'style="opacity:0.7"'
_TABLE = 'style="border-collapse:collapse;margin:0"'
_SCHEMA = 'style="margin:0;padding:0 0 0 1em;border-left:1px solid;white-space:pre"'
_COLUMNS = ("field", "dtype", "shape", "device", "memory", "value")
_MOST_OBJECTS = 1000
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def represent_html(collection: TensorCollection) -> str | None:
    """The container as HTML; None if the options request text, which a notebook then shows."""
    options = print_options()
    if not (options.html and options.compact):
        return None
    parts = [f"<div>{_fold_html(type(collection).__name__, collection, options)}</div>"]
    if is_typed(collection):
        schema = getattr(type(collection), "__tensorclass_schema__", "")
        parts.append(f"<pre {_SCHEMA}>{escape(str(schema))}</pre>")
    return f"<div {_OUTER}>{''.join(parts)}</div>"


def _fold_html(title: str, collection: TensorCollection, options: PrintOptions) -> str:
    """An open fold with the title of a container and its table."""
    text = f"<b>{escape(title)}</b> <span {_FAINT}>{escape(_summary(collection))}</span>"
    return f"<details open><summary>{text}</summary>{_table(collection, options)}</details>"


def _summary(collection: TensorCollection) -> str:
    parts = [f"batch_size={list(collection._batch_size)}"]
    if collection._names is not None:
        parts.append(f"names={list(collection._names)}")
    if collection._device is not None:
        parts.append(f"device={collection._device}")
    parts.append(memory(sum(_nbytes(leaf) for leaf in collection._leaves(STORAGE))))
    return ", ".join(parts)


def _table(collection: TensorCollection, options: PrintOptions) -> str:
    head = "".join(f"<th {_CELL}>{name}</th>" for name in _COLUMNS)
    rows = "".join(_row(key, value, options) for key, value in entries_in_order(collection, options))
    return f"<table {_TABLE}><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _row(key: str, value: Any, options: PrintOptions) -> str:
    if isinstance(value, TensorCollection):
        title = f"{key}: {type(value).__name__}"
        return f'<tr><td colspan="{len(_COLUMNS)}" {_WIDE}>{_fold_html(title, value, options)}</td></tr>'
    cells = [key, *_cells(value)]
    if not options.show_values:
        cells[-1] = ""
    return "<tr>" + "".join(f"<td {_CELL}>{escape(cell)}</td>" for cell in cells) + "</tr>"


def _cells(value: Any) -> tuple[str, str, str, str, str]:
    """Dtype, shape, device, memory and value of an entry, where it has them."""
    shown = value._read_value() if isinstance(value, Entry) else value
    if isinstance(shown, Tensor):
        dtype = str(shown.dtype).removeprefix("torch.")
        shape = ", ".join(str(n) if isinstance(n, int) else "-1" for n in shown.shape)
        return dtype, f"[{shape}]", str(shown.device), memory(_nbytes(shown)), numbers_of(shown) or ""
    size = batch_shape(value)
    kind = value._describe(torch.Size([])) if isinstance(value, Entry) else type(shown).__name__
    objects = shown.tolist() if size is not None and size.numel() <= _MOST_OBJECTS else shown
    return str(kind), "" if size is None else str(list(size)), "", "", cut(describe_value(objects))


def _nbytes(tensor: Tensor) -> int:
    """The size of a tensor's elements; repeated elements of an expanded tensor count once."""
    if tensor.layout is not torch.strided:
        return tensor.numel() * tensor.element_size()
    count = 1
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        count *= size if stride or not size else 1
    return count * tensor.element_size()


def memory(count: int) -> str:
    """A number of bytes in the largest fitting unit.

    >>> memory(0), memory(1536), memory(3 << 30)
    ('0 B', '1.5 KiB', '3.0 GiB')
    """
    amount, unit = float(count), 0
    while amount >= 1024 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.1f} {_UNITS[unit]}" if unit else f"{count} B"
