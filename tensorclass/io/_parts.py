"""How many rows go through memory together: some thousand, and fewer where they are large."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from ..core import STORAGE

T = TypeVar("T")
BLOCK = 4096
"""Rows at most."""
BYTES = 1 << 24
"""Bytes at most, unless a row has more."""


def spans(count: int, rows: int, weigh: Callable[[int, int], int]) -> Iterator[slice]:
    """Rows in parts that follow each other; of none one empty part.

    Args:
        count: how many there are.
        rows: of a part, at most.
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
    """How many of so many rows with so many bytes are a part; a power of two, or the limit."""
    return min(rows, 1 << max((BYTES * count // max(size, 1)).bit_length() - 1, 0))


def blocks(given: Iterable[T], rows: int | None, weigh: Callable[[T], int]) -> Iterator[list[T]]:
    """Rows that come one by one, in the same parts; all at once without a limit."""
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
    """The same of a container; what it has mapped is not read."""
    return spans(len(batch), rows, lambda a, b: sum([leaf.nbytes for leaf in batch[a:b]._leaves(STORAGE)]))


def tables_of(table: Any, rows: int) -> Iterator[Any]:
    """The parts of an Arrow table."""
    for part in spans(len(table), rows, lambda a, b: table.slice(a, b - a).nbytes):
        yield table.slice(part.start, part.stop - part.start)
