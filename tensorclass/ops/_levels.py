"""Splits the values of one write by the key of the level where they are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..core import Path, unravel_key_to_tuple


def concerns(path: Path, wanted: list[Path]) -> bool:
    """Whether a path is a prefix of a wanted path, or below one."""
    return any(w[: len(path)] == path or path[: len(w)] == w for w in wanted)


def by_level(pairs: Sequence[tuple[Any, Any]], prefix: Path, wanted: list[Path] | None) -> list[tuple[str, Any]]:
    """The wanted pairs by key; values for several paths below one key form one mapping."""
    found: list[tuple[str, Any]] = []
    places: dict[str, int] = {}
    for key, value in pairs:
        path = unravel_key_to_tuple(key)
        if wanted is not None and not concerns((*prefix, *path), wanted):
            continue
        new = _nest(path[1:], value) if path[1:] else value
        place = places.setdefault(path[0], len(found))
        if place == len(found):
            found.append((path[0], new))
        elif isinstance(found[place][1], Mapping) and isinstance(new, Mapping):
            found[place] = path[0], _both_levels(found[place][1], new)
        else:  # a container, and entries below it
            found.append((path[0], new))
    return found


def _both_levels(one: Mapping[Any, Any], other: Mapping[Any, Any]) -> dict[Any, Any]:
    found = dict(one)
    for key, value in other.items():
        deeper = isinstance(value, Mapping) and isinstance(found.get(key), Mapping)
        found[key] = _both_levels(found[key], value) if deeper else value
    return found


def _nest(path: Path, value: Any) -> dict[str, Any]:
    for part in reversed(path):
        value = {part: value}
    return value  # type: ignore[no-any-return]  # a path has at least one part


def in_some_member(holder: Any, key: str) -> bool:
    """Whether any member of a lazy stack has an entry, which can then be removed there."""
    return holder._stacked and any([key in member._outline() for member in holder._parts()])
