"""Nested dicts, lists and tuples as entries and back. The type is recorded, except for plain dicts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import Any

import torch

from ..core import Entry, TensorCollection
from ..errors import StructureError
from ._nesting import Raw, field_names

TYPE_KEY = "_pytree_type"
OTHER_KEY = "<NON_NESTED>"
"""The prefix of the key for a dict key that is not a string; its entry holds the key and the value."""


def from_tree(tree: Any) -> Any:
    """Convert to nested dicts of entries; leaves are unchanged."""
    names = field_names(tree)
    if isinstance(tree, Mapping):
        found = dict(_entry(i, key, value) for i, (key, value) in enumerate(tree.items()))
        return found if type(tree) is dict else {TYPE_KEY: Raw(type(tree)), **found}
    if names is not None:
        found = {name: from_tree(value) for name, value in zip(names, tree, strict=True)}
        return {TYPE_KEY: Raw(type(tree)), **found}
    if isinstance(tree, (list, tuple)) and not isinstance(tree, torch.Size):
        return {TYPE_KEY: Raw(type(tree)), **{str(i): from_tree(value) for i, value in enumerate(tree)}}
    if is_dataclass(tree) and not isinstance(tree, TensorCollection):
        return Raw(tree)
    return tree


def _entry(position: int, key: Any, value: Any) -> tuple[str, Any]:
    if not isinstance(key, str):
        return f"{OTHER_KEY}{position}", {"key": Raw(key), "value": from_tree(value)}
    if key == TYPE_KEY or key.startswith(OTHER_KEY):
        raise StructureError(f"from_pytree: the key {key!r} is taken by the note of types; rename it")
    return key, from_tree(value)


def to_tree(collection: TensorCollection) -> Any:
    """Restore the original nested data of a container; a plain dict if no type is recorded."""
    entries = dict(collection._entries())
    kind: Any = entries.pop(TYPE_KEY, dict)
    pairs = [_pair(key, value) for key, value in entries.items()]
    if issubclass(kind, defaultdict):
        return defaultdict(None, pairs)
    if issubclass(kind, Mapping):
        return _rebuilt(kind, pairs)
    if hasattr(kind, "_fields"):
        return kind(**dict(pairs))
    values = dict(pairs)
    if hasattr(kind, "n_sequence_fields"):
        return kind([values[name] for name in kind.__match_args__])
    return kind([values[key] for key in sorted(values, key=_position)])


def _rebuilt(kind: Any, pairs: list[tuple[Any, Any]]) -> Any:
    return kind(pairs)


def _pair(key: str, value: Any) -> tuple[Any, Any]:
    if key.startswith(OTHER_KEY) and isinstance(value, TensorCollection):
        inner = value._entries()
        return inner["key"], _value(inner["value"])
    return key, _value(value)


def _value(value: Any) -> Any:
    if isinstance(value, TensorCollection):
        return to_tree(value)
    return value._read_value() if isinstance(value, Entry) else value


def _position(key: str) -> int:
    if not key.isdecimal():
        raise StructureError(f"to_pytree: the entry `{key}` is not a position in a sequence; remove it or rename it")
    return int(key)
