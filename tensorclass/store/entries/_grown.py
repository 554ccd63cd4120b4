"""A table of objects that grows without copies, for stacks that are written one element at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from threading import Lock
from typing import Any

import torch

from ...core import release_in_forks

_GROWING = release_in_forks(Lock())
_SMALL = 64  # tables up to this size are copied


class Grown(Sequence[Any]):
    """The first `count` objects of a list that longer tables share; immutable, like a tuple."""

    __slots__ = ("_count", "_items")

    def __init__(self, items: list[Any]) -> None:
        self._items = items
        self._count = len(items)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, at: Any) -> Any:
        return self._items[at]

    def __iter__(self) -> Iterator[Any]:
        return islice(self._items, self._count)

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, (Grown, tuple)) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (tuple(self),)


def grow_table(table: Sequence[Any], values: Sequence[Any]) -> Sequence[Any]:
    """A table with further objects appended; if tables share a list, the longest one grows in place."""
    if len(table) < _SMALL or torch.compiler.is_compiling():
        return (*table, *values)
    if isinstance(table, Grown):
        with _GROWING:
            if len(table._items) == len(table):
                table._items.extend(values)
                return Grown(table._items)
    return Grown([*table, *values])
