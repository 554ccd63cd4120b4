"""Random orders of rows, by position: they depend on a seed, and take little memory."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch

from ._advice import IntArray

EXACT = 1 << 16
"""Up to so many rows an order is drawn evenly from all orders; longer ones are computed."""
BLOCK_ROWS = 256
"""Consecutive rows of a block."""
HELD = 64
"""Blocks whose rows are shuffled together."""


class RandomRows(Protocol):
    """An order of rows."""

    def rows(self, places: IntArray) -> IntArray:
        """The row numbers at some positions."""
        ...


class Encrypted:
    """A random order that takes no memory: the number of a row is its encrypted position.

    A Feistel network of four rounds permutes the numbers below a power of four. A number that is too large is encrypted
    again until it is in range.

    Args:
        count: how many rows there are.
        seed: any text or whole number.
    """

    def __init__(self, count: int, seed: str | int) -> None:
        self.count = count
        self._half = max(1, -(-max(1, (count - 1).bit_length()) // 2))
        self._keys = np.frombuffer(hashlib.sha256(str(seed).encode()).digest(), np.uint64)

    def rows(self, places: IntArray) -> IntArray:
        """The row numbers at some positions."""
        found = self._encrypt(places.astype(np.uint64))
        over = found >= self.count
        while over.any():
            found[over] = self._encrypt(found[over])
            over = found >= self.count
        numbers: IntArray = found.astype(np.int64)
        return numbers

    def _encrypt(self, numbers: Any) -> Any:
        half = np.uint64(self._half)
        mask = np.uint64((1 << self._half) - 1)
        left, right = numbers >> half, numbers & mask
        for key in self._keys:
            left, right = right, left ^ (_mix_bits(right ^ key) & mask)
        return (left << half) | right


def _mix_bits(numbers: Any) -> Any:
    """The finisher of splitmix64."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


class DrawnOrder:
    """A random order in memory, drawn evenly from all orders."""

    def __init__(self, count: int, seed: str) -> None:
        digest = hashlib.sha256(seed.encode()).digest()
        generator = torch.Generator("cpu").manual_seed(int.from_bytes(digest[:8], "little") >> 1)
        self._order: IntArray = torch.randperm(count, generator=generator, device="cpu").numpy()

    def rows(self, places: IntArray) -> IntArray:
        """The row numbers at some positions."""
        return self._order[places]


class InBlocks:
    """Blocks of consecutive rows in a random order; the rows of some blocks are shuffled together.

    Args:
        shards: the rows of each shard; a block lies in one shard.
        seed: any text.
    """

    def __init__(self, shards: Sequence[int], seed: str) -> None:
        sizes = np.array(shards, np.int64)
        counts = -(-sizes // BLOCK_ROWS)
        within = (np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)) * BLOCK_ROWS
        begins = np.repeat(np.cumsum(sizes) - sizes, counts) + within
        lengths = np.minimum(BLOCK_ROWS, np.repeat(sizes, counts) - within)
        order = DrawnOrder(len(begins), seed).rows(np.arange(len(begins)))
        self._begins, lengths = begins[order], lengths[order]
        self._ends = np.cumsum(lengths)
        self._firsts = self._ends - lengths
        self._groups = np.append(self._ends[HELD - 1 : -1 : HELD], self._ends[-1:])
        """The position after the last row of each group of blocks."""
        self._seed = seed
        self._last: tuple[int, DrawnOrder] | None = None

    def rows(self, places: IntArray) -> IntArray:
        """The row numbers at some positions."""
        inner = places.copy()
        groups = np.searchsorted(self._groups, places, side="right")
        for group in np.unique(groups).tolist():
            start = int(self._groups[group - 1]) if group else 0
            mine = groups == group
            inner[mine] = start + self._shuffle_group(group, int(self._groups[group]) - start).rows(
                places[mine] - start
            )
        blocks = np.searchsorted(self._ends, inner, side="right")
        numbers: IntArray = self._begins[blocks] + inner - self._firsts[blocks]
        return numbers

    def _shuffle_group(self, group: int, count: int) -> DrawnOrder:
        if self._last is None or self._last[0] != group:
            self._last = group, DrawnOrder(count, f"{self._seed}:{group}")
        return self._last[1]


def order_of(rows: int, shuffle: bool | str, seed: str, shards: Sequence[int]) -> RandomRows | None:
    """The order of an epoch; None for that of the dataset."""
    if shuffle == "blocks":
        return InBlocks(shards, seed)
    if not shuffle:
        return None
    return DrawnOrder(rows, seed) if rows <= EXACT else Encrypted(rows, seed)


class EpochOrders(Protocol):
    """The orders of all epochs."""

    @property
    def count(self) -> int:
        """The rows of an epoch."""
        ...

    @property
    def facts(self) -> dict[str, str]:
        """What the state of a loader says about them: names and digests."""
        ...

    def of_epoch(self, seed: int, epoch: int, shuffle: bool | str) -> RandomRows | None:
        """The order of one epoch; None for that of the dataset."""
        ...


def digest_of(value: Any) -> str:
    """A short digest of a value that has a short text."""
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]


class AllRows:
    """All rows once.

    Args:
        count: how many there are.
        shards: the rows of each shard, if blocks of rows are shuffled.
    """

    def __init__(self, count: int, shards: Sequence[int] | None = None) -> None:
        self.count = count
        self._shards = shards if shards is None or shards else [count] * bool(count)

    @property
    def facts(self) -> dict[str, str]:
        """The digest of the shards."""
        return {} if self._shards is None else {"shards": digest_of(self._shards)}

    def of_epoch(self, seed: int, epoch: int, shuffle: bool | str) -> RandomRows | None:
        """The order of one epoch; None for that of the dataset."""
        return order_of(self.count, shuffle, f"{seed}:{epoch}", self._shards or ())
