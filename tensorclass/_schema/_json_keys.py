"""Reads JSON and refuses repeated keys. Other readers silently keep only the last value."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeAlias

from .._deferred import pydantic_core
from ..errors import StructureError

_KEY: Final = re.compile(rb'"\s*:')


_At: TypeAlias = "tuple[_At, str | int] | None"
"""A position in nested values: the position of the outer value, and a key in it."""


class _Twice(dict[str, Any]):
    """A JSON object with a repeated key."""

    key = ""


def unique(text: bytes) -> Any:
    """Parse a JSON text without repeated keys.

    Every key has at least one mark in the text. If the text has no more marks than the parsed value has keys, no key is
    repeated. Only otherwise (marks in strings, or repeated keys) a slow reader that sees every key runs.

    Raises:
        StructureError: for a repeated key; names its path.
        ValueError: for text that is not JSON.

    >>> unique(b'{"a": {"b": 1, "b": 2}}')
    Traceback (most recent call last):
    tensorclass.errors.StructureError: the key `a.b` is given twice
    """
    found = pydantic_core.from_json(text)
    if len(_KEY.findall(text)) > _count(found):
        twice = next(_twice(json.loads(text, object_pairs_hook=_pairs), None), None)
        if twice is not None:
            raise StructureError(f"the key `{_position_text(twice):.200}` is given twice")
    return found


def _count(value: Any) -> int:
    """The number of keys in all objects. Lists that begin with a number or string are not searched."""
    if isinstance(value, dict):
        return len(value) + sum([_count(part) for part in value.values() if isinstance(part, (dict, list))])
    if isinstance(value, list) and value and isinstance(value[0], (dict, list)):
        return sum([_count(part) for part in value])
    return 0


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) == len(pairs):
        return made
    marked, seen = _Twice(made), set[str]()
    marked.key = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]  # adds
    return marked


def _twice(value: Any, at: _At) -> Iterator[_At]:
    if isinstance(value, _Twice):
        yield at, value.key
    if isinstance(value, dict):
        parts: Iterable[Any] = value.items()
    elif isinstance(value, list):
        parts = enumerate(value)
    else:
        parts = ()
    for key, part in parts:
        if isinstance(part, (dict, list)):
            yield from _twice(part, (at, key))


def _position_text(at: _At) -> str:
    """A position as text; it is written only for a message, since keys may be long."""
    keys = list[str]()
    while at is not None:
        at, key = at
        keys.append(f"[{key}]" if isinstance(key, int) else f".{key[:200]}")
    return "".join(reversed(keys)).removeprefix(".")
