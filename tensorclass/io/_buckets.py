"""Batches of rows of similar length, so that little is padded."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from torch import Tensor

from ..errors import ArgumentError
from ._advice import IntArray
from ._orders import DrawnOrder, EpochOrders, RandomRows

POOL = 64
"""Batches whose rows are sorted by length together."""


class Bucketed:
    """An order whose rows are sorted by length in pools of some batches; each row stays in its pool.

    Args:
        inner: the orders of the rows.
        lengths: of the rows of the dataset.
        size: rows of a batch.
    """

    def __init__(self, inner: EpochOrders, lengths: IntArray, size: int) -> None:
        self.count = inner.count
        self._inner, self._lengths, self._size = inner, lengths, size

    @property
    def facts(self) -> dict[str, str]:
        """Those of the rows, and the digest of the lengths."""
        return {**self._inner.facts, "buckets": hashlib.sha256(self._lengths.tobytes()).hexdigest()[:16]}

    def of_epoch(self, seed: int, epoch: int, shuffle: bool | str) -> RandomRows:
        """The order of one epoch."""
        return _Pools(self._inner.of_epoch(seed, epoch, shuffle), self._lengths, self._size, self.count, seed, epoch)


class _Pools:
    """The rows of one epoch, by position."""

    def __init__(
        self, inner: RandomRows | None, lengths: IntArray, size: int, count: int, seed: int, epoch: int
    ) -> None:
        self._inner, self._lengths, self._size, self._count = inner, lengths, size, count
        self._seed = f"{seed}:{epoch}"
        self._last: tuple[int, IntArray] | None = None

    def rows(self, places: IntArray) -> IntArray:
        """The row numbers at some positions."""
        pools, within = np.divmod(places, POOL * self._size)
        found = np.empty_like(places)
        for pool in np.unique(pools).tolist():
            found[pools == pool] = self._rows_of(pool)[within[pools == pool]]
        return found

    def _rows_of(self, pool: int) -> IntArray:
        """The rows of a pool: whole batches, then a random remainder, so no row is left out in every epoch."""
        if self._last is not None and self._last[0] == pool:
            return self._last[1]
        begin = pool * POOL * self._size
        places = np.arange(begin, min(begin + POOL * self._size, self._count))
        rows = places if self._inner is None else self._inner.rows(places)
        whole, left = np.split(rows, [len(rows) // self._size * self._size])
        batches = whole[np.argsort(self._lengths[whole], kind="stable")].reshape(-1, self._size)
        if self._inner is not None:
            batches = batches[DrawnOrder(len(batches), f"{self._seed}:{pool}").rows(np.arange(len(batches)))]
        found = np.concatenate([batches.reshape(-1), left])
        self._last = pool, found
        return found


def lengths_of(data: Any, buckets: Any) -> IntArray:
    """The length of each row: as given, or those of a field. The values of ragged fields on disk are not read.

    Raises:
        ArgumentError: for anything else.
        UnknownFieldError: for a name that is not a field.
    """
    given = buckets if isinstance(buckets, Tensor) else None
    if given is None and not hasattr(data, "_column_lengths"):
        raise ArgumentError(f"buckets= takes the lengths of the rows, int64 [{len(data)}], got {buckets!r:.80}")
    found: IntArray = lengths_in(given, "buckets=") if given is not None else data._column_lengths(buckets)
    if len(found) != len(data):
        raise ArgumentError(f"buckets= has {len(found)} lengths, there are {len(data)} rows")
    return found


def lengths_in(column: Any, name: Any) -> IntArray:
    """The lengths of a column: of its ragged rows, or its whole numbers.

    Raises:
        ArgumentError: for another column.
    """
    numbers = column.lengths if getattr(type(column), "__ragged_tensor__", False) else column
    whole = isinstance(numbers, Tensor) and not (numbers.is_floating_point() or numbers.is_complex())
    if not whole or numbers.ndim != 1:
        what = f"{numbers.dtype} {list(numbers.shape)}" if isinstance(numbers, Tensor) else type(numbers).__name__
        raise ArgumentError(
            f"buckets= takes a ragged field, or a whole number for each row, `{name!s:.80}` is {what}; store the "
            "lengths in a field of their own"
        )
    found: IntArray = numbers.detach().cpu().numpy().astype(np.int64)
    return found
