"""The rows of a dataset that form each part of another one."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from ..io._advice import IntArray


class RowOrder:
    """The rows of a dataset in parts, in their order. Subclasses have other orders."""

    per: int
    """Rows of a part; the last part may be shorter. A map sets it when it begins."""

    def __init__(self, count: int) -> None:
        self.count = count
        """The number of rows."""

    def rows(self, begin: int, end: int) -> IntArray:
        """The row numbers at positions `begin` to `end` of this order."""
        return np.arange(begin, end, dtype=np.int64)


class ListedRows(RowOrder):
    """Rows with given numbers, in that order."""

    def __init__(self, numbers: IntArray) -> None:
        super().__init__(len(numbers))
        self.numbers = numbers

    def rows(self, begin: int, end: int) -> IntArray:
        """The row numbers at these positions."""
        return self.numbers[begin:end]


class Shuffled(RowOrder):
    """A random order that takes no memory: the number of a row is its encrypted position.

    A Feistel network of four rounds permutes the numbers below a power of four. A number that is too large is encrypted
    again until it is in range.

    Args:
        count: how many rows there are.
        seed: any whole number.
    """

    def __init__(self, count: int, seed: int) -> None:
        super().__init__(count)
        self._half = max(1, -(-max(1, (count - 1).bit_length()) // 2))
        digest = hashlib.sha256(str(seed).encode()).digest()
        self._keys = np.frombuffer(digest, np.uint64)

    def rows(self, begin: int, end: int) -> IntArray:
        """The row numbers at these positions."""
        found = self._encrypted(np.arange(begin, end, dtype=np.uint64))
        over = found >= self.count
        while over.any():
            found[over] = self._encrypted(found[over])
            over = found >= self.count
        numbers: IntArray = found.astype(np.int64)
        return numbers

    def _encrypted(self, numbers: Any) -> Any:
        half = np.uint64(self._half)
        mask = np.uint64((1 << self._half) - 1)
        left, right = numbers >> half, numbers & mask
        for key in self._keys:
            left, right = right, left ^ (_mixed(right ^ key) & mask)
        return (left << half) | right


def _mixed(numbers: Any) -> Any:
    """The finisher of splitmix64."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))
