"""Nested data of other types as mappings: dataclasses, named tuples, tuples and structured arrays become dicts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from ..core import Path, TensorCollection, join_path, unravel_key_to_tuple
from ..errors import BatchSizeError, StructureError, too_deep
from ._steps import all_begin_with

PositionNames: TypeAlias = "Callable[[int], list[str]]"


class Sized(dict[str, Any]):
    """Entries with a known batch size, such as those of a structured array."""

    def __init__(self, entries: Mapping[str, Any], batch_size: torch.Size) -> None:
        super().__init__(entries)
        self.batch_size = batch_size


class Raw:
    """A Python value to be stored unchanged, even if its type would otherwise nest or become a tensor."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def positions(count: int) -> list[str]:
    """The keys for the items of a tuple: "0", "1", ..."""
    return [str(i) for i in range(count)]


def field_names(value: Any) -> list[str] | None:
    """The field names of a named tuple or of a torch result such as that of `max(0)`; None for anything else."""
    if not isinstance(value, tuple):
        return None
    names = getattr(type(value), "_fields", None)
    if names is None and hasattr(type(value), "n_sequence_fields"):
        names = getattr(type(value), "__match_args__", None)
    return None if names is None else list(names)


def as_entries(value: Any, names: PositionNames = positions) -> Mapping[Any, Any] | None:
    """The entries of a nested value; None for a tensor, a container and any other leaf."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, (Tensor, TensorCollection, type, torch.Size)):
        return None
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, tuple):
        return dict(zip(field_names(value) or names(len(value)), value, strict=True))
    if isinstance(value, np.ndarray) and value.dtype.names is not None:
        return struct_entries(value)
    return None


def nested_entries(entries: Mapping[Any, Any], path: Path = ()) -> dict[str, Any]:
    """Convert to plain nested dicts: tuple keys and nested values become levels.

    Raises:
        StructureError: if two entries have the same path.
        TypeError: for a key that is not a string, tuple of strings or field reference.
    """
    if len(path) > 400:
        raise too_deep(join_path(path[:8]))
    found: dict[str, Any] = Sized({}, entries.batch_size) if isinstance(entries, Sized) else {}
    for key, value in entries.items():
        inner = None if type(value) is Tensor else as_entries(value)
        if type(key) is str and key not in found:
            found[key] = value if inner is None else nested_entries(inner, (*path, key))
            continue
        parts = unravel_key_to_tuple(key)
        here = (*path, *parts)
        for part in reversed(parts[1:]):
            inner, value = {part: value if inner is None else inner}, None
        _merge(found, parts[0], value if inner is None else nested_entries(inner, here[: len(path) + 1]), here)
    return found


def _merge(found: dict[str, Any], key: str, value: Any, path: Path) -> None:
    if key not in found:
        found[key] = value
    elif type(found[key]) is dict and type(value) is dict:
        for inner, item in value.items():
            _merge(found[key], inner, item, path)
    else:
        raise StructureError(f"the entry `{join_path(path)}` is given twice: as a nested mapping and as a path, say")


def build(cls: Any, entries: Mapping[str, Any], size: torch.Size, device: torch.device | None, path: Path = ()) -> Any:
    """An untyped container from nested dicts; with batch dims, a Python number stays a number."""
    if type(entries) is dict and device is None and all_begin_with(size, entries):
        return cls._from_entries(entries, size, None, None)  # its own from now on
    ndim = len(size)
    found: dict[str, Any] = {}
    for key, value in entries.items():
        if type(value) is Tensor and device is None and not value.is_nested and value.shape[:ndim] == size:
            found[key] = value
        elif type(value) is dict or type(value) is Sized:
            inner = value.batch_size if isinstance(value, Sized) else size
            found[key] = build(cls, value, inner, device, (*path, key))
        elif type(value) is Raw:
            found[key] = value.value
        elif ndim and isinstance(value, (bool, int, float, complex, np.generic)):
            found[key] = value
        else:
            found[key] = _check_entry(cls._from_entries({}, size, device, None), key, value, path)
    return cls._from_entries(found, size, device, None)


def _check_entry(empty: Any, key: str, value: Any, path: Path) -> Any:
    try:
        return empty._check(key, value)
    except BatchSizeError as error:
        if not path:
            raise
        raise BatchSizeError(f"in `{join_path(path)}`: {error}") from error


# ---- structured arrays -------------------------------------------------------------------------------------------


def struct_entries(array: np.ndarray[Any, Any]) -> Sized:
    """The fields of a structured array: tensors, sharing its memory if torch can; objects as nested lists."""
    assert array.dtype.names is not None
    return Sized({name: struct_field(array[name]) for name in array.dtype.names}, torch.Size(array.shape))


def struct_field(field: np.ndarray[Any, Any]) -> Any:
    """One field: a tensor, objects as nested lists, or the entries of a nested record."""
    if field.dtype.names is not None:
        return struct_entries(field)
    if field.dtype.kind not in "biufc":
        return field.tolist()
    if not field.dtype.isnative:
        field = field.astype(field.dtype.newbyteorder("="))
    whole = all(stride >= 0 and stride % field.itemsize == 0 for stride in field.strides)
    if not (whole and field.flags.writeable):
        field = field.copy()
    return torch.from_numpy(field)
