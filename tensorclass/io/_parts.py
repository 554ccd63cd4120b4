"""How many rows are in memory at a time: a few thousand, and fewer if they are large."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from ..core import STORAGE

T = TypeVar("T")
BLOCK = 4096
"""Rows at most."""
BYTES = 1 << 24
"""The most bytes of a part, unless one row has more."""


def spans(count: int, rows: int, weigh: Callable[[int, int], int]) -> Iterator[slice]:
    """Consecutive parts of rows; for no rows, one empty part.

    Args:
        count: how many there are.
        rows: the most rows of a part.
        weigh: the bytes of the rows from one number up to another.
    """
    begin = 0
    while begin < max(count, 1):
        end = min(begin + rows, count)
        while end - begin > 1 and weigh(begin, end) > BYTES:
            end = (begin + end) // 2
        yield slice(begin, end)
        begin = max(end, 1)


def fitting(count: int, size: int, rows: int) -> int:
    """The rows of a part, if `count` rows have `size` bytes: a power of two, or the limit `rows`."""
    return min(rows, 1 << max((BYTES * count // max(size, 1)).bit_length() - 1, 0))


def blocks(given: Iterable[T], rows: int | None, weigh: Callable[[T], int]) -> Iterator[list[T]]:
    """Rows from an iterator, in the same parts; without a limit all in one."""
    block, size, some = list[T](), 0, False
    for row in given:
        block.append(row)
        size += weigh(row)
        if rows is not None and (len(block) == rows or size > BYTES):
            yield block
            block, size, some = [], 0, True
    if block or not some:
        yield block


def parts_of(batch: Any, rows: int) -> Iterator[slice]:
    """The parts of a container; mapped tensors are not read."""
    return spans(len(batch), rows, lambda a, b: sum([leaf.nbytes for leaf in batch[a:b]._leaves(STORAGE)]))


def tables_of(table: Any, rows: int) -> Iterator[Any]:
    """The parts of an Arrow table."""
    for part in spans(len(table), rows, lambda a, b: table.slice(a, b - a).nbytes):
        yield table.slice(part.start, part.stop - part.start)
