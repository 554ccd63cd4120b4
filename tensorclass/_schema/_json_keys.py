"""JSON without keys that are given twice, which every reader of JSON drops in silence, all but the last."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from .._deferred import pydantic_core
from ..errors import StructureError

_KEY: Final = re.compile(rb'"\s*:')


class _Twice(dict[str, Any]):
    """An object with a key that is given twice."""

    key = ""


def unique(text: bytes) -> Any:
    """What a JSON text says.

    The text holds at least one mark of a key for each key. So it is read by the slow reader, which sees keys twice,
    only where it has more marks than keys were found: for texts with marks in strings, and for wrong ones.

    Raises:
        StructureError: for a key that is given twice, by its path.
        ValueError: for something that is not JSON.

    >>> unique(b'{"a": {"b": 1, "b": 2}}')
    Traceback (most recent call last):
    tensorclass.errors.StructureError: the key `a.b` is given twice
    """
    found = pydantic_core.from_json(text)
    if len(_KEY.findall(text)) > _count(found):
        twice = next(_twice(json.loads(text, object_pairs_hook=_pairs), ""), None)
        if twice is not None:
            raise StructureError(f"the key `{twice:.200}` is given twice")
    return found


def _count(value: Any) -> int:
    """The keys of objects; lists that begin with a number or text are not walked."""
    if isinstance(value, dict):
        return len(value) + sum([_count(part) for part in value.values() if isinstance(part, (dict, list))])
    if isinstance(value, list) and value and isinstance(value[0], (dict, list)):
        return sum([_count(part) for part in value])
    return 0


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) == len(pairs):
        return made
    marked = _Twice(made)
    names = [name for name, _ in pairs]
    marked.key = next(name for name in names if names.count(name) > 1)
    return marked


def _twice(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, _Twice):
        yield f"{path}.{value.key}".removeprefix(".")
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        if isinstance(part, (dict, list)):
            yield from _twice(part, f"{path}[{key}]" if isinstance(key, int) else f"{path}.{key}")
