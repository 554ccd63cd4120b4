"""The rows of a dataset that form each part of another one."""

from __future__ import annotations

import numpy as np

from ..io._advice import IntArray
from ..io._orders import Encrypted


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
    """A random order that takes no memory; see `Encrypted`."""

    def __init__(self, count: int, seed: int) -> None:
        super().__init__(count)
        self._order = Encrypted(count, seed)

    def rows(self, begin: int, end: int) -> IntArray:
        """The row numbers at these positions."""
        return self._order.rows(np.arange(begin, end, dtype=np.int64))
