"""The shards of a dataset: each is opened when a row of it is asked for, and some stay open."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from .._schema import schema_of
from ..errors import FileFormatError, SchemaError
from ..ops import cat
from ._advice import PAGE, IntArray, expect_heads, expect_random, expect_random_reads
from ._atomic import open_file
from ._columns import Parts, Rows, Table, take_apart
from ._format import Node, TensorPart
from ._manifest import ShardEntry
from ._map import Place
from ._read import places_of, read_head, tensors_of
from ._remote import Remote, is_url, remote
from ._unpack import Unpacker, references

MAPPED = 8192
"""Shards that stay mapped. A map holds no descriptor; its pages are the system's, which allows 65,530 maps."""
REMOTE = 256
"""Remote shards that stay mapped."""
LOADED = 4
"""Shards that stay in memory where they are not mapped."""


class Shard(NamedTuple):
    """One shard of a dataset: its folder, and what the manifest says about it."""

    folder: str
    entry: ShardEntry

    @property
    def path(self) -> str:
        """The file."""
        return os.path.join(self.folder, self.entry.file)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.entry.rows


class How(NamedTuple):
    """How shards are read."""

    want: Any
    """The class that the rows are of, `UNTYPED`, or None for the class that the file names."""
    picked: bool
    """Whether `want` has only some of the fields."""
    mmap: bool
    verify: bool


def open_shard(shard: Shard, how: How) -> Any:
    """The rows of a shard as one container; no more is mapped or read than is asked for.

    Raises:
        FileFormatError: for a shard that is missing, cut off, damaged, or another than the manifest lists.
        SchemaError: when it does not fit the class.
        OSError: for a file that can't be read.
    """
    path, entry = shard.path, shard.entry
    try:
        fd, size = open_file(path)
    except FileNotFoundError:
        raise FileFormatError("the manifest lists this shard, and it is not there", path) from None
    try:
        if how.mmap:
            expect_random_reads(fd)
        if size != entry.bytes:
            raise FileFormatError(f"the manifest says {entry.bytes} bytes, the shard has {size}", path, size)
        opened = read_head(fd, size, path)
        if opened.meta.shard != entry.id:
            what = f"it has the id {opened.meta.shard}, the manifest lists {entry.id}: it belongs to another dataset"
            raise FileFormatError(what, path, 8)
        root = opened.meta.root
        if root.members is not None or root.size[:1] != [entry.rows]:
            raise FileFormatError(f"its batch size is {root.size}, the manifest says {entry.rows} rows", path, 8)
        if how.picked:
            root = _narrow(root, how.want)
        places = places_of(opened.header, references(root), path)
        later = set(_of_rows(root)) if is_url(path) and how.mmap and not how.verify else ()
        tensors = tensors_of(opened, places, how.mmap, False, how.verify, later)
        if later:
            remote(path).rows = [(places[name].begin, tensors[name][:1].nbytes) for name in later]
    finally:
        os.close(fd)
    batch = Unpacker(opened.meta, tensors, path, False, False, False).build(root, (), how.want)
    if how.mmap:
        _expect_random(places, tensors, size)
    return batch


def _expect_random(places: dict[str, Place], tensors: dict[str, Tensor], size: int) -> None:
    """Tell the system that rows of the map are read in any order."""
    for name, place in places.items():
        start = tensors[name].data_ptr() - place.begin
        if place.end > place.begin and start % PAGE == 0:  # else it is a copy
            expect_random(start, size)
            return


def _of_rows(node: Node) -> Iterator[str]:
    """The names of tensors with a row for each element, which may be read row by row."""
    for part in node.entries.values():
        if isinstance(part, str):
            yield part
        elif isinstance(part, TensorPart) and part.role is None:
            yield part.data
        elif isinstance(part, Node) and part.members is None:
            yield from _of_rows(part)


def check_shard(shard: Shard, how: How) -> list[Exception]:
    """What is wrong with a shard, with its checksums where it has them."""
    try:
        fd, size = open_file(shard.path)
        try:
            sums = read_head(fd, size, shard.path).meta.crc32
        finally:
            os.close(fd)
        open_shard(shard, how._replace(verify=sums is not None))
    except FileNotFoundError:
        return [FileFormatError("the manifest lists this shard, and it is not there", shard.path)]
    except (FileFormatError, SchemaError, OSError) as error:
        return [error]
    return []


def _narrow(node: Node, cls: Any) -> Node:
    """The part of a tree that a class declares, by names of today and former ones."""
    schema = schema_of(cls)
    assert schema is not None  # a picked class has one
    kept: dict[str, Any] = {}
    for key, part in node.entries.items():
        spec = schema.fields.get(schema.renamed.get(key, key))
        if spec is not None:
            kept[key] = _narrow(part, spec.nested) if isinstance(part, Node) and spec.nested is not None else part
    return node.model_copy(update={"entries": kept})


class Shelf:
    """The shards that are open, those that were used last.

    Args:
        shards: all shards.
        how: how they are read.
    """

    def __init__(self, shards: Sequence[Shard], how: How) -> None:
        self.shards = shards
        self.how = how
        self.ends = np.cumsum([shard.rows for shard in shards], dtype=np.int64)
        """For each shard the number of the row behind its last."""
        firsts = self.ends - [shard.rows for shard in shards]
        self._remotes: dict[int, Remote] | None = {} if shards and is_url(shards[0].folder) else None
        """The remote files of the shards that are open; each holds a descriptor."""
        self._limit = LOADED if not how.mmap else MAPPED if self._remotes is None else REMOTE
        self._table = Table(firsts.astype(np.int64), how.mmap)
        self._used = np.zeros(len(shards), np.int64)
        """When each shard was used last, as the number of the call."""
        self._now = 0

    def __getitem__(self, number: int) -> Any:
        return self._having([number]).held[number][0]

    def _having(self, numbers: Sequence[int]) -> Table:
        """The open shards, these among them; those that were not used for long are closed when there are too many."""
        table = self._table
        opened: dict[int, tuple[Any, Parts]] = {}
        new = [number for number in numbers if number not in table.held]
        if len(new) > 1 and self.how.mmap and self._remotes is None:
            expect_heads([self.shards[number].path for number in new])
        for number in new:
            batch = open_shard(self.shards[number], self.how)
            if self._remotes is not None:
                self._remotes[number] = remote(self.shards[number].path)
            opened[number] = batch, take_apart(batch)
        self._used[numbers] = self._now
        if opened:
            here = np.array([number for number in table.held if number not in numbers], np.int64)
            here = here[np.argsort(self._used[here], kind="stable")]
            over = max(0, len(table.held) + len(opened) - self._limit)
            # Other threads replace the table too: this call goes on with the one that it made.
            self._table = table = table.having(opened, here[:over].tolist())
            if self._remotes is not None:
                self._remotes = {number: one for number, one in self._remotes.items() if number in table.held}
        return table

    def _fetch(self, numbers: IntArray, rows: IntArray) -> None:
        """Read rows of open shards that are remote."""
        for number in np.unique(numbers).tolist() if self._remotes is not None else ():
            self._remotes[number].need_rows(rows[numbers == number])  # type: ignore[index]  # as above

    def gather(self, rows: IntArray) -> Any:
        """Rows as one container with memory of its own.

        Args:
            rows: int64 `[n]`, their numbers; n >= 1.
        """
        table = self._table
        numbers = np.searchsorted(self.ends, rows, side="right")
        self._now += 1
        if not table.ready[numbers].all():
            wanted = np.unique(numbers).tolist()
            table = self._having(wanted) if len(wanted) <= self._limit else table
            if table.form is None or not table.ready[numbers].all():
                return self._joined(numbers, rows - table.firsts[numbers])
        self._used[numbers] = self._now
        self._fetch(numbers, rows - table.firsts[numbers])
        return table.form.take(Rows(table, numbers, rows))  # type: ignore[union-attr]  # shards that are ready have it

    def _joined(self, numbers: IntArray, rows: IntArray) -> Any:
        """Rows of shards that are not alike, or too many to be open at once: one shard after the other."""
        order = np.argsort(numbers, kind="stable")
        cuts = np.flatnonzero(np.diff(numbers[order])) + 1
        parts = []
        for at in np.split(order, cuts):
            shard = self[int(numbers[at[0]])]
            self._fetch(numbers[at], rows[at])
            parts.append(shard[torch.from_numpy(rows[at])].clone())
        whole = parts[0] if len(parts) == 1 else cat(parts)  # names the field that differs
        return whole[torch.from_numpy(np.argsort(order))] if len(parts) > 1 else whole
