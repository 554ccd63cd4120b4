"""The entries that a caller gives to `update` and the constructor: a mapping, which may have paths, or a container."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ..core import Entry, Key, Path, TensorCollection, View, join_path, unravel_key_to_tuple
from ..errors import ArgumentError, BatchSizeError, KeySetError, MissingKeyError, did_you_mean
from ._levels import concerns


def items_of(source: Any) -> list[tuple[Any, Any]]:
    """A snapshot of the top-level pairs of a mapping or a container; objects of a container are wrapped."""
    if type(source) is dict or isinstance(source, Mapping):
        return list(source.items())
    if isinstance(source, TensorCollection):
        return [(key, _as_entry(value)) for key, value in source._entries().items()]
    raise ArgumentError(f"update takes a mapping or a container, got a {type(source).__name__}: {source!r:.80}")


def _as_entry(value: Any) -> Any:
    """Wrap a Python object of a container, so that another container doesn't convert it."""
    if isinstance(value, (Tensor, TensorCollection, Entry, str)):
        return value
    return View.object_type(value)  # assigned by the store


def require_once(source: Any) -> bool:
    """True; refuses a mapping that gives an entry twice, as a path and nested, or with entries below it."""
    if isinstance(source, TensorCollection) or all([type(key) is str for key in source]):
        return True
    leaves: set[Path] = set()
    levels: set[Path] = set()
    for path in _leaf_paths(source, ()):
        above = [path[:n] for n in range(1, len(path))]
        if path in leaves or path in levels or not leaves.isdisjoint(above):
            raise KeySetError(f"the entry `{join_path(path)}` is given twice: as a nested mapping and as a path, say")
        leaves.add(path)
        levels.update(above)
    return True


def both(source: Any, kwargs: dict[str, Any]) -> Any:
    """Merge the arguments of `update` into one mapping: entries by keyword are added to the first argument."""
    if source is None or not kwargs:
        return kwargs if source is None else source
    return {**dict(items_of(source)), **kwargs}


def once(source: Any) -> list[tuple[Any, Any]]:
    """As `items_of`, for a mapping that gives every entry once."""
    found = items_of(source)
    require_once(source)
    return found


def _leaf_paths(source: Any, prefix: Path) -> Iterator[Path]:
    for key, value in items_of(source):
        here = (*prefix, *unravel_key_to_tuple(key))
        inner = isinstance(value, (Mapping, TensorCollection)) and len(items_of(value)) > 0
        if inner:
            yield from _leaf_paths(value, here)
        else:
            yield here


def wanted_paths(keys: Sequence[Key] | None, source: Any) -> list[Path] | None:
    """The paths of `keys_to_update`; the source must have each of them."""
    if keys is None:
        return None
    wanted = [unravel_key_to_tuple(key) for key in keys]
    given = list(_leaf_paths(source, ()))
    for path in wanted:
        if not any([concerns(found, [path]) for found in given]):
            names = [join_path(found) for found in given]
            raise MissingKeyError(
                f"keys_to_update: the source has no `{join_path(path)}`{did_you_mean(join_path(path), names)}"
            )
    return wanted


def tensors_at(source: Any, keys: Sequence[Key]) -> dict[str, Any] | None:
    """The tensors of a dict or container at some keys, as nested dicts; None if one is absent or another kind."""
    top = source if type(source) is dict and all([type(key) is str for key in source]) else _by_name(source)
    found: dict[str, Any] = {}
    for key in keys:
        *outer, last = (key,) if type(key) is str else unravel_key_to_tuple(key)
        entries, level = top, found
        for part in outer:
            if entries is None:
                return None
            entries, level = _by_name(entries.get(part)), level.setdefault(part, {})
        value = None if entries is None else entries.get(last)
        if not isinstance(value, Tensor):
            return None
        level[last] = value
    return found


def _by_name(level: Any) -> Any:
    return level._live() if isinstance(level, TensorCollection) and not level._stacked else None


def pairs_of(source: Any) -> list[tuple[Any, Any]]:
    """The top-level pairs of a mapping that gives every entry once, or of a container, as they are stored."""
    require_once(source)
    return list((source._entries() if isinstance(source, TensorCollection) else source).items())


def keys_of(source: Any) -> set[str]:
    """The top-level keys of a mapping, which may have paths, or of a container."""
    if isinstance(source, TensorCollection):
        return set(source._outline())
    return {unravel_key_to_tuple(key)[0] for key in source}


def require_same_keys(target: TensorCollection, source: Any, op: str) -> None:
    """Refuse a source that lacks a key of the target."""
    if not isinstance(source, (TensorCollection, Mapping)):
        raise ArgumentError(f"{op} takes a container or a mapping, got a {type(source).__name__}")
    lacking = sorted(target._outline().keys() - keys_of(source))
    if lacking:
        absent = ", ".join([f"`{key}`" for key in lacking])
        raise MissingKeyError(f"{op}: the source lacks {absent}; use `update_` or `update_at_` to write some entries")


def size_error(op: str, path: Path, given: torch.Size, target: torch.Size) -> BatchSizeError:
    """The error for a value whose batch size does not broadcast to that of its target."""
    where = f" at `{join_path(path)}`" if path else ""
    return BatchSizeError(f"{op}{where}: the value's batch size {list(given)} does not broadcast to {list(target)}")
