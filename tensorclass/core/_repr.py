"""The printed form of containers: compact by default, one field per line if the line gets long; detailed on request."""

from __future__ import annotations

from reprlib import Repr
from typing import Any

import torch
from torch import Tensor

from .._config import PrintOptions, print_options
from ..errors import printable
from ._base import STORAGE, TensorCollection, is_typed
from ._entry import Entry
from ._glance import glance

_SHORT = {
    "float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "int8": "i8", "int16": "i16",
    "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
    "complex64": "c64", "complex128": "c128", "complex32": "c32",
}  # fmt: skip
LONG_DTYPE = {short: name for name, short in _SHORT.items()}

_INDENT = "    "
_VALUES = Repr()  # shortens long values, and handles a `__repr__` that raises
_VALUES.maxstring = _VALUES.maxother = 60


def short_dtype(dtype: torch.dtype) -> str:
    """A dtype in a few letters: `f32`, `i64`, `bool`."""
    name = str(dtype).removeprefix("torch.")
    return _SHORT.get(name, name)


def describe_value(value: Any) -> str:
    """A Python value, shortened if it is long."""
    return " ".join(_VALUES.repr(value).split())


def entries_in_order(collection: TensorCollection, options: PrintOptions) -> list[tuple[str, Any]]:
    """The entries in the order of the options, with their keys as they are printed."""
    schema = getattr(type(collection), "__tensorclass_schema__", None)
    shown = (
        {**collection._outline(), **collection._run_on_stack("_shapes")}
        if collection._stacked
        else collection._entries()
    )
    entries = [item for item in shown.items() if schema is None or schema.fields[item[0]].repr]
    if options.sort_keys == "alphabetical":
        entries.sort(key=lambda entry: entry[0])
    elif callable(options.sort_keys):
        key = options.sort_keys
        entries.sort(key=lambda entry: key(entry[0]))
    return [(printable(name), value) for name, value in entries]


# ---- the compact form --------------------------------------------------------------------------------------------


def describe_entry(value: Any, outer: torch.Size) -> str:
    """One entry: dtype and event shape of a tensor, the fields of a container, the type of anything else."""
    if isinstance(value, Tensor):
        dtype = short_dtype(value.dtype) if print_options().show_dtype else ""
        return f"{dtype}[{','.join(map(str, _shape(value)[len(outer) :]))}]"
    if isinstance(value, TensorCollection):
        return f"{_start_of_nested(value, outer)}{{{describe_fields(value)}}}"
    if isinstance(value, Entry):
        return str(value._describe(outer))
    return type(value).__name__


def _start_of_nested(value: TensorCollection, outer: torch.Size) -> str:
    """The text before the fields of a nested container: its class and the batch dims that it adds."""
    extra = value._batch_size[len(outer) :]
    shape = f"[{','.join(map(str, extra))}]" if extra else ""
    return (type(value).__name__ if is_typed(value) else "") + shape


def describe_fields(collection: TensorCollection) -> str:
    """All entries on one line."""
    size = collection._batch_size
    entries = entries_in_order(collection, print_options())
    return ", ".join(f"{key}: {describe_entry(value, size)}" for key, value in entries)


def _compact(collection: TensorCollection, options: PrintOptions) -> str:
    if is_typed(collection) and not collection._batch_size:
        return _like_a_call(collection, options)
    head = [f"batch_size=[{','.join(map(str, collection._batch_size))}]"] if options.show_batch_size else []
    head += _properties(collection, options)
    start = f"{type(collection).__name__}({', '.join([*head, 'fields={'])}"
    line, lines = _compact_forms(collection, options, 1, call=False)
    if line is not None and len(start) + len(line) + 2 <= options.width:
        return f"{start}{line}}})"
    return f"{start}\n{lines}}})"


def _like_a_call(collection: TensorCollection, options: PrintOptions) -> str:
    """One element of a class, with its values."""
    line, lines = _compact_forms(collection, options, 1, call=True)
    start, end = f"{type(collection).__name__}(", ", ".join(_properties(collection, options))
    if line is not None and len(start) + len(line) + len(end) + 3 <= options.width:
        return f"{start}{', '.join(filter(None, (line, end)))})"
    return f"{start}\n" + ",\n".join(filter(None, (lines, end and f"{_INDENT}{end}"))) + ")"


def _properties(collection: TensorCollection, options: PrintOptions) -> list[str]:
    """The device and the dim names, if they are set, and the additions of the class."""
    found: list[tuple[str, Any]] = []
    if collection._device is not None and options.show_device:
        found.append(("device", collection._device))
    if collection._names:
        found.append(("names", list(collection._names)))
    return [f"{name}={value}" for name, value in found + _extras(collection)]


def _compact_forms(
    collection: TensorCollection, options: PrintOptions, depth: int, call: bool
) -> tuple[str | None, str]:
    """All entries on one line, or None if that is too long; and one entry per line, broken if too long.

    Each level is described once, from the inside out. With `call`, entries are written like arguments.
    """
    size, pad = collection._batch_size, _INDENT * depth
    sign = "=" if call else ": "
    texts: list[str] = []
    lines: list[str] = []
    fits = True
    for key, value in entries_in_order(collection, options):
        if isinstance(value, TensorCollection):
            inside = call and is_typed(value) and not value._batch_size
            start = _start_of_nested(value, size) + ("(" if inside else "{")
            end = ")" if inside else "}"
            inner, below = _compact_forms(value, options, depth + 1, inside)
            text = None if inner is None else f"{start}{inner}{end}"
            if text is None or len(pad) + len(key) + 2 + len(text) > options.width:
                lines.append(f"{pad}{key}{sign}{start}\n{below}{end}")
            else:
                lines.append(f"{pad}{key}{sign}{text}")
        else:
            text = _with_value(value, size, call)
            lines.append(f"{pad}{key}{sign}{text}")
        fits = fits and text is not None and len(text) <= options.width
        texts.append(f"{key}{sign}{text}")
    return ", ".join(texts) if fits else None, ",\n".join(lines)


def _with_value(value: Any, outer: torch.Size, call: bool) -> str:
    """One entry: its kind and its value, if it is shown; in a call only the value."""
    seen = glance(value, outer) if print_options().show_values else None
    if seen is None or not call:
        kind = describe_entry(value, outer)
        return kind if seen is None else f"{kind} = {seen}"
    return seen


# ---- the detailed form -------------------------------------------------------------------------------------------


def _detailed_text(collection: TensorCollection, options: PrintOptions, depth: int = 0) -> str:
    typed = is_typed(collection)
    pad = _INDENT * (depth + 1)
    inner = depth + (1 if typed else 2)
    lines = [
        f"{_INDENT * inner}{key}{'=' if typed else ': '}{_detailed_entry(value, options, inner)}"
        for key, value in entries_in_order(collection, options)
    ]
    parts = lines if typed else [f"{pad}fields={{\n" + ",\n".join(lines) + "}"]
    parts += [f"{pad}{name}={value}" for name, value in _attributes(collection, options)]
    return f"{type(collection).__name__}(\n" + ",\n".join(parts) + ")"


def _detailed_entry(value: Any, options: PrintOptions, depth: int) -> str:
    if isinstance(value, TensorCollection):
        return _detailed_text(value, options, depth)
    if isinstance(value, Entry):
        value = value._read_value()
    if isinstance(value, Tensor):
        return f"Tensor({', '.join(f'{name}={text}' for name, text in _facts(value, options))})"
    return describe_value(value)


def _attributes(collection: TensorCollection, options: PrintOptions) -> list[tuple[str, Any]]:
    rows: list[tuple[str, Any]] = []
    if options.show_batch_size:
        rows.append(("batch_size", collection._batch_size))
    if options.show_device:
        rows.append(("device", collection._device))
    if options.show_is_shared:
        leaves = collection._leaves(STORAGE)
        rows.append(("is_shared", bool(leaves) and all(map(_is_shared, leaves))))
    if collection._names is not None:
        rows.append(("names", list(collection._names)))
    return rows + _extras(collection)


def _facts(tensor: Tensor, options: PrintOptions) -> list[tuple[str, Any]]:
    """The properties of a tensor that the options select."""
    strided = tensor.layout is torch.strided
    rows = (
        ("shape", options.show_shape, lambda: _shape(tensor)),
        ("device", options.show_field_device, lambda: tensor.device),
        ("dtype", options.show_dtype, lambda: tensor.dtype),
        ("is_shared", options.show_field_is_shared, lambda: _is_shared(tensor)),
        ("requires_grad", options.show_grad, lambda: tensor.requires_grad),
        ("is_contiguous", options.show_is_contiguous, tensor.is_contiguous),
        ("is_view", options.show_is_view, tensor._is_view),
        ("storage_size", options.show_storage_size and strided, lambda: tensor.untyped_storage().nbytes()),
    )
    return [(name, read()) for name, wanted, read in rows if wanted] + (_values(tensor) if options.plain else [])


def _values(tensor: Tensor) -> list[tuple[str, str]]:
    """Statistics of the values: mean and spread of floating ones, range of others."""
    if not tensor.numel() or tensor.device.type == "meta" or tensor.is_complex() or tensor.layout is not torch.strided:
        return []
    if tensor.is_floating_point():
        values = tensor.detach().double()
        return [("mean", f"{values.mean().item():g}"), ("std", f"{values.std(correction=0).item():g}")]
    values = tensor.detach().to(torch.int64)
    return [("min", f"{values.min().item()}"), ("max", f"{values.max().item()}")]


# ---- shared by both ----------------------------------------------------------------------------------------------


def _shape(tensor: Tensor) -> torch.Size:
    """The shape of a tensor, with -1 where elements differ in size."""
    if not tensor.is_nested:
        return tensor.shape
    if tensor.layout is torch.jagged:
        return torch.Size([n if isinstance(n, int) else -1 for n in tensor.shape])
    shapes = [part.shape for part in tensor.unbind()]
    dims = zip(*shapes, strict=True)
    return torch.Size((len(shapes), *[sizes[0] if len(set(sizes)) == 1 else -1 for sizes in dims]))


def _is_shared(tensor: Tensor) -> bool:
    return tensor.layout is torch.strided and bool(tensor.is_shared())


def _extras(collection: TensorCollection) -> list[tuple[str, Any]]:
    """The additions of a container class to its printed form: `_repr_extras` returns names and values."""
    extras = getattr(type(collection), "_repr_extras", None)
    return list(extras(collection)) if extras is not None else []


def represent(collection: TensorCollection) -> str:
    """The printed form of a container."""
    options = print_options()
    return _compact(collection, options) if options.compact else _detailed_text(collection, options)
