"""The open shards of a dataset, and rows gathered from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from .._places import is_url
from ..ops import cat
from ._advice import IntArray, expect_heads
from ._columns import FileRows, Parts, Table
from ._planned import Planner
from ._remote import Remote
from ._shards import Known, ReadHow, Shard, open_parts, remote_shard

MAPPED = 8192
"""The most shards that stay mapped. A map holds no descriptor. Linux allows a process 65,530 maps by default."""
REMOTE = 256
"""The most remote shards that stay mapped while a part of them is not here yet; each holds descriptors."""
LOADED = 4
"""The most shards that stay in memory if they are not mapped."""


class Shelf:
    """The open shards: the most recently used ones.

    Args:
        shards: all shards.
        how: how they are read.
    """

    def __init__(self, shards: Sequence[Shard], how: ReadHow) -> None:
        self.shards = shards
        self.how = how
        self.ends = np.cumsum([shard.rows for shard in shards], dtype=np.int64)
        """For each shard, the number of its last row plus one."""
        firsts = self.ends - [shard.rows for shard in shards]
        far = any([is_url(shard.folder) for shard in shards])
        self._planner = Planner(shards, how) if far else None
        self._limit = MAPPED if how.mmap else LOADED
        self._table = Table(firsts.astype(np.int64), how.mmap)
        self._used = np.zeros(len(shards), np.int64)
        """The number of the call that used each shard last."""
        self._now = 0
        self._known: dict[str | None, Known] = {}
        """What opens further shards: of remote ones by their layout, of local ones under None."""

    def __getitem__(self, number: int) -> Any:
        return self._rows_of_shard(number, self._table)

    def _rows_of_shard(self, number: int, table: Table) -> Any:
        """The rows of a shard, opened unless a table holds it."""
        batch, parts = self._with_open_shards([number], table).held[number]
        form: Any = parts.form  # of a known header
        return form.over(iter(parts.tensors), [], self.shards[number].rows) if batch is None else batch

    def _with_open_shards(self, numbers: Sequence[int], table: Table) -> Table:
        """A table with more shards open; if there are too many, the least recently used ones are closed."""
        opened: dict[int, tuple[Any, Parts]] = {}
        partial: dict[int, Remote] = {}
        new = [number for number in numbers if number not in table.held]
        if len(new) > 1 and self.how.mmap and self._planner is None:
            expect_heads([self.shards[number].path for number in new])
        for number in new:
            shard = self.shards[number]
            far = is_url(shard.folder)
            file = remote_shard(shard) if far else None
            key = shard.entry.layout if far else None
            batch, parts, known = open_parts(shard, self.how, self._known.get(key))
            if known is not None:
                self._known[key] = known
            if file is not None and self.how.mmap and not file.is_whole():
                partial[number] = file
            opened[number] = batch, parts
        self._used[numbers] = self._now
        if opened:
            closed = self._surplus(table.held, numbers, self._limit - len(opened))
            closed += self._surplus(table.partial, numbers, REMOTE - len(partial))
            # Other threads replace the table too, so this call continues with the table that it made.
            self._table = table = table.with_shards(opened, closed, partial)
        return table

    def _surplus(self, held: Mapping[int, Any], used: Sequence[int], limit: int) -> list[int]:
        """The least recently used of some open shards, so that the others are no more than a limit."""
        here = np.array([number for number in [*held] if number not in used], np.int64)
        here = here[np.argsort(self._used[here], kind="stable")]
        return here[: max(0, len(held) - limit)].tolist()  # type: ignore[no-any-return]  # numbers

    def _left(self, numbers: IntArray, table: Table) -> Any:
        """Which rows may have to be fetched: not those of a table's shards that are local or here as a whole."""
        return ~np.isin(numbers, [*table.held]) | np.isin(numbers, [*table.partial])

    def _fetch(self, numbers: IntArray, rows: IntArray, table: Table) -> list[Remote]:
        """Fetch rows of remote shards; the files of the last ones. While they are open, the cache keeps them."""
        held: list[Remote] = []
        if self._planner is None or not (left := self._left(numbers, table)).any():
            return held
        numbers, rows = numbers[left], rows[left]
        order = np.argsort(numbers, kind="stable")
        parts = np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1)
        for k in range(0, len(parts), REMOTE):
            held = self._planner.fetch({int(numbers[at[0]]): rows[at] for at in parts[k : k + REMOTE]})
        for number in np.unique(numbers).tolist():
            file = table.partial.get(number)
            if file is not None and file.is_whole():
                table.partial.pop(number, None)  # its map needs no descriptor
        return held

    def gather(self, rows: IntArray) -> Any:
        """Copy rows into one new container.

        Args:
            rows: int64 `[n]`, row numbers; n >= 1.
        """
        table = self._table
        numbers = np.searchsorted(self.ends, rows, side="right")
        _held = self._fetch(numbers, rows - table.firsts[numbers], table)  # so that the cache keeps them
        self._now += 1
        if not table.ready[numbers].all():
            wanted = np.unique(numbers).tolist()
            room = self._planner is None or len(np.unique(numbers[self._left(numbers, table)])) <= REMOTE
            table = self._with_open_shards(wanted, table) if room and len(wanted) <= self._limit else table
            if table.form is None or not table.ready[numbers].all():
                return self._join_shards(numbers, rows - table.firsts[numbers])
        self._used[numbers] = self._now
        return table.form.take(FileRows(table, numbers, rows))  # type: ignore[union-attr]  # ready shards have one

    def _join_shards(self, numbers: IntArray, rows: IntArray) -> Any:
        """Rows of shards of different forms, or of more shards than may be open at once: one shard after the other."""
        order = np.argsort(numbers, kind="stable")
        cuts = np.flatnonzero(np.diff(numbers[order])) + 1
        parts = []
        for at in np.split(order, cuts):
            table = self._table
            _held = self._fetch(numbers[at], rows[at], table)  # again: the cache may have lost them
            shard = self._rows_of_shard(int(numbers[at[0]]), table)
            parts.append(shard[torch.from_numpy(rows[at])].clone())
        whole = parts[0] if len(parts) == 1 else cat(parts)  # raises an error that names the field
        return whole[torch.from_numpy(np.argsort(order))] if len(parts) > 1 else whole
