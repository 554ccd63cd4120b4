"""Epochs that are not one order of all rows: datasets that are mixed by weight, and the rows of a sampler."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.data import DistributedSampler

from ..errors import ArgumentError
from ._advice import IntArray
from ._buckets import Bucketed, lengths_of
from ._orders import AllRows, EpochOrders, RandomRows, digest_of, order_of

SLOTS = 10_000
"""Weights count to one part of so many."""


class Mixed:
    """Datasets by weight: an epoch has as many rows as all of them; each continues where its last epoch ended.

    Args:
        shards: for each dataset, the rows of each of its shards.
        weights: of the datasets; any positive numbers.

    Raises:
        ArgumentError: for other weights, weights that are too different, and datasets without rows.
    """

    def __init__(self, shards: Sequence[Sequence[int]], weights: Sequence[float]) -> None:
        self.shards = [list(one) for one in shards]
        self.sizes = [sum(one) for one in self.shards]
        self.firsts = np.cumsum([0, *self.sizes[:-1]])
        self.count = sum(self.sizes)
        if not all(self.sizes):
            raise ArgumentError("mix takes datasets with rows, one has none")
        self.slots = _slots(weights)
        which = np.repeat(np.arange(len(self.slots)), self.slots)
        within = np.concatenate([np.arange(count) for count in self.slots])
        order = np.argsort((within + 0.5) / self.slots[which], kind="stable")
        self.pattern: tuple[IntArray, IntArray] = which[order], within[order]
        """For each position of a cycle: the dataset, and how many rows of it came before in the cycle."""

    @property
    def facts(self) -> dict[str, str]:
        """The digest of sizes and weights."""
        return {"mix": digest_of((self.shards, self.slots.tolist()))}

    def of_epoch(self, seed: int, epoch: int, shuffle: bool | str) -> RandomRows:
        """The order of one epoch."""
        return _MixedEpoch(self, seed, epoch * self.count, shuffle)


def _slots(weights: Sequence[float]) -> IntArray:
    """The parts of each weight, of `SLOTS`; the largest remainders are rounded up."""
    numbers = all([isinstance(one, (int, float)) and not isinstance(one, bool) for one in weights])
    if not numbers or not all([0 < one < float("inf") for one in weights]):
        raise ArgumentError(f"weights are numbers above 0, got {list(weights)!r:.120}")
    exact = np.array(weights, np.float64) / sum(weights) * SLOTS
    found: IntArray = np.floor(exact).astype(np.int64)
    found[np.argsort(found - exact, kind="stable")[: SLOTS - int(found.sum())]] += 1
    if not found.all():
        raise ArgumentError(f"the smallest weight is less than 1/{SLOTS} of all, got {list(weights)!r:.120}")
    return found


class _MixedEpoch:
    """The rows of one epoch of a mix, by position."""

    def __init__(self, mix: Mixed, seed: int, begin: int, shuffle: bool | str) -> None:
        self._mix, self._seed, self._begin, self._shuffle = mix, seed, begin, shuffle
        self._last: dict[int, tuple[int, RandomRows | None]] = {}

    def rows(self, places: IntArray) -> IntArray:
        """The row numbers at some positions."""
        mix = self._mix
        cycles, slots = np.divmod(places + self._begin, SLOTS)
        which = mix.pattern[0][slots]
        draws = cycles * mix.slots[which] + mix.pattern[1][slots]
        found = mix.firsts[which]
        for number in np.unique(which).tolist():
            mine = which == number
            found[mine] += self._rows_of(number, draws[mine])
        return found

    def _rows_of(self, number: int, draws: IntArray) -> IntArray:
        """The rows of one dataset: all of them in one order, then all of them in the next."""
        passes, found = np.divmod(draws, self._mix.sizes[number])
        for one in np.unique(passes).tolist():
            order = self._order_in(number, one)
            if order is not None:
                found[passes == one] = order.rows(found[passes == one])
        return found

    def _order_in(self, number: int, one: int) -> RandomRows | None:
        if number not in self._last or self._last[number][0] != one:
            seed = f"{self._seed}:{number}:{one}"
            made = order_of(self._mix.sizes[number], self._shuffle, seed, self._mix.shards[number])
            self._last[number] = one, made
        return self._last[number][1]


class _Listed:
    """An order in memory."""

    def __init__(self, numbers: IntArray) -> None:
        self._numbers = numbers

    def rows(self, places: IntArray) -> IntArray:
        """The row numbers at some positions."""
        return self._numbers[places]


class Sampled:
    """The rows that a sampler gives. Its random numbers depend on the seed and the epoch, so all ranks get the same.

    Raises:
        ArgumentError: for a sampler without a length, and for one that splits rows over ranks.
    """

    def __init__(self, sampler: Any) -> None:
        if isinstance(sampler, DistributedSampler):
            raise ArgumentError("the loader gives each rank its own rows; pass a sampler of all rows")
        if not hasattr(sampler, "__len__") or not hasattr(sampler, "__iter__"):
            raise ArgumentError(f"a sampler gives row numbers and has a length, got a {type(sampler).__name__}")
        self._sampler = sampler

    @property
    def count(self) -> int:
        """The rows of an epoch."""
        return len(self._sampler)

    @property
    def facts(self) -> dict[str, str]:
        """The class of the sampler."""
        return {"sampler": type(self._sampler).__name__}

    def of_epoch(self, seed: int, epoch: int, shuffle: bool | str) -> RandomRows:
        """The order of one epoch."""
        number = int.from_bytes(hashlib.sha256(f"{seed}:{epoch}".encode()).digest()[:8], "little") >> 1
        if hasattr(self._sampler, "set_epoch"):
            self._sampler.set_epoch(epoch)
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(number)
            if isinstance(generator := getattr(self._sampler, "generator", None), torch.Generator):
                generator.manual_seed(number)
            drawn = list(self._sampler)
        numbers = np.asarray(drawn)
        if numbers.shape != (self.count,) or (numbers.dtype.kind not in "iu" and self.count):
            raise ArgumentError(f"a sampler gives {self.count} row numbers, as its length says, got {drawn!r:.80}")
        return _Listed(numbers.astype(np.int64))


def orders_of(data: Any, sampler: Any, shuffle: bool | str, buckets: Any = None, size: int = 1) -> EpochOrders:
    """The orders of all rows of a dataset, or of a mix, or of a sampler; in batches of similar lengths with `buckets`.

    Raises:
        ArgumentError: for a sampler of a mix, or beside `shuffle`, and for wrong buckets.
    """
    rows = _orders_of_rows(data, sampler, shuffle)
    return rows if buckets is None else Bucketed(rows, lengths_of(data, buckets), size)


def _orders_of_rows(data: Any, sampler: Any, shuffle: bool | str) -> EpochOrders:
    mix: Mixed | None = getattr(data, "_mix", None)
    if sampler is None:
        shards = [shard.rows for shard in getattr(data, "shards", ())]
        return mix or AllRows(len(data), shards if shuffle == "blocks" else None)
    if mix is not None or shuffle:
        raise ArgumentError(f"a sampler gives the order of rows; leave out {'the mix' if mix else 'shuffle='}")
    return Sampled(sampler)


def mix_of(datasets: Mapping[Any, float]) -> Mixed:
    """The orders of datasets by weight."""
    return Mixed([[shard.rows for shard in one.shards] for one in datasets], list(datasets.values()))
