"""How containers print: compact by default, one field a line where the line gets long."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .._config import print_options
from ._base import TensorCollection

_SHORT = {
    "float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "int8": "i8", "int16": "i16",
    "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
    "complex64": "c64", "complex128": "c128", "complex32": "c32",
}  # fmt: skip


def short_dtype(dtype: torch.dtype) -> str:
    """A dtype in a few letters: `f32`, `i64`, `bool`."""
    name = str(dtype).removeprefix("torch.")
    return _SHORT.get(name, name)


def describe_entry(value: Any, outer: torch.Size) -> str:
    """One entry: dtype and event shape of a tensor, the fields of a container, the type of anything else."""
    if isinstance(value, Tensor):
        return f"{short_dtype(value.dtype)}[{','.join(map(str, value.shape[len(outer) :]))}]"
    if isinstance(value, TensorCollection):
        extra = value._batch_size[len(outer) :]
        shape = f"[{','.join(map(str, extra))}]" if extra else ""
        name = "" if not hasattr(type(value), "__tensorclass_schema__") else type(value).__name__
        return f"{name}{shape}{{{describe_fields(value)}}}"
    if hasattr(type(value), "_describe"):
        return str(value._describe(outer))
    return type(value).__name__


def describe_fields(collection: TensorCollection) -> str:
    """All entries on one line."""
    size = collection._batch_size
    return ", ".join(f"{key}: {describe_entry(value, size)}" for key, value in collection._entries().items())


def describe_multi_line(collection: TensorCollection, indent: int = 0) -> str:
    """One entry a line, with shape, device and dtype of every tensor."""
    pad = "    " * (indent + 1)
    lines = []
    for key, value in collection._entries().items():
        if isinstance(value, Tensor):
            text = f"Tensor(shape={list(value.shape)}, dtype={value.dtype}, device={value.device})"
        elif isinstance(value, TensorCollection):
            text = describe_multi_line(value, indent + 1)
        else:
            text = repr(value)
        lines.append(f"{pad}{key}={text}")
    lines.append(f"{pad}batch_size={list(collection._batch_size)}")
    if collection._device is not None:
        lines.append(f"{pad}device={collection._device}")
    return f"{type(collection).__name__}(\n" + ",\n".join(lines) + ")"


def represent(collection: TensorCollection) -> str:
    """The printed form of a container."""
    options = print_options.get()
    if options.multi_line:
        return describe_multi_line(collection)
    head = [f"batch_size=[{','.join(map(str, collection._batch_size))}]"]
    if collection._device is not None:
        head.append(f"device={collection._device}")
    if collection._names is not None:
        head.append(f"names={list(collection._names)}")
    start = f"{type(collection).__name__}({', '.join(head)}, fields={{"
    line = f"{start}{describe_fields(collection)}}})"
    if len(line) <= options.width:
        return line
    size = collection._batch_size
    fields = [f"    {key}: {describe_entry(value, size)}" for key, value in collection._entries().items()]
    return start + "\n" + ",\n".join(fields) + "})"
