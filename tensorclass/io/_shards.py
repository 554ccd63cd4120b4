"""The shards of a dataset: each is opened when a row of it is asked for, and some stay open."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from ctypes import memmove
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from .._schema import schema_of
from ..errors import FileFormatError, SchemaError
from ..ops import cat
from ._atomic import open_file
from ._format import Node
from ._manifest import ShardEntry
from ._read import places_of, read_head, tensors_of
from ._unpack import Unpacker, references

MAPPED = 1024
"""Shards that stay mapped. A map holds no descriptor; its pages are the system's."""
LOADED = 4
"""Shards that stay in memory where they are not mapped."""
_LONG = 2048
"""Bytes from which a row is copied by itself: the call takes less than a second copy of it."""
IntArray: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"


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
        tensors = tensors_of(opened, places, how.mmap, False, how.verify)
    finally:
        os.close(fd)
    return Unpacker(opened.meta, tensors, path, False, False, False).build(root, (), how.want)


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


class _Open(NamedTuple):
    """A shard that is open."""

    batch: Any
    leaves: list[Tensor] | None
    """Its tensors, where it has nothing else."""
    facts: Any
    """What these are, besides their values and how many rows they have."""


def _opened(batch: Any) -> _Open:
    leaves: list[Tensor] = []
    if batch._open_tensors(batch, leaves, []) is None:
        return _Open(batch, None, None)
    return _Open(batch, leaves, [(leaf.dtype, leaf.shape[1:]) for leaf in leaves])


class Shelf:
    """The shards that are open, those that were used last.

    Args:
        shards: all shards.
        how: how they are read.
    """

    def __init__(self, shards: Sequence[Shard], how: How) -> None:
        self.shards = shards
        self.how = how
        self._limit = MAPPED if how.mmap else LOADED
        self._open: OrderedDict[int, _Open] = OrderedDict()

    def __getitem__(self, number: int) -> Any:
        return self._at(number).batch

    def _at(self, number: int) -> _Open:
        found = self._open.get(number)
        if found is None:
            found = self._open[number] = _opened(open_shard(self.shards[number], self.how))
            while len(self._open) > self._limit:
                with suppress(KeyError):  # another thread was faster
                    self._open.popitem(last=False)
        else:
            with suppress(KeyError):
                self._open.move_to_end(number)
        return found

    def gather(self, numbers: IntArray, rows: IntArray) -> Any:
        """Rows as one container with memory of its own.

        Args:
            numbers: int64 `[n]`, the shard of each row; n >= 1.
            rows: int64 `[n]`, the place of each row in its shard.
        """
        if (numbers == numbers[0]).all():
            return _owned(self._at(int(numbers[0])), rows)
        order = np.argsort(numbers, kind="stable")
        ordered = numbers[order]
        cuts = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
        shards = [self._at(int(ordered[begin])) for begin in (0, *cuts)]
        parts = list(zip(shards, np.split(rows[order], cuts), np.split(order, cuts), strict=True))
        first = shards[0]
        if first.leaves is None or not all([shard.facts == first.facts for shard in shards]):
            whole = cat([_owned(shard, places) for shard, places, _ in parts])  # names the field that differs
            back = np.empty_like(order)
            back[order] = np.arange(len(order))
            return whole[torch.from_numpy(back)]
        found = [leaf.new_empty((len(rows), *leaf.shape[1:])) for leaf in first.leaves]
        for shard, places, targets in parts:
            for leaf, target in zip(shard.leaves or (), found, strict=True):
                _copy_rows(leaf, places, target, targets)
        size = torch.Size([len(rows), *first.batch.batch_size[1:]])
        return first.batch._make(found, size, first.batch._names)


def _copy_rows(source: Tensor, places: IntArray, target: Tensor, targets: IntArray) -> None:
    """Copy rows of a shard to their places among those that were asked for; long ones are copied once."""
    size = target[0].nbytes
    if size < _LONG or not source.is_contiguous():
        target.index_copy_(0, torch.from_numpy(targets), source.index_select(0, torch.from_numpy(places)))
        return
    start, end = source.data_ptr(), target.data_ptr()
    for place, at in zip(places.tolist(), targets.tolist(), strict=True):
        memmove(end + at * size, start + place * size, size)


def _owned(shard: _Open, rows: IntArray) -> Any:
    """Rows of a shard, in memory of their own: writes to them do not reach the next reader."""
    found = shard.batch[torch.from_numpy(rows)]
    return found if shard.leaves is not None else found.clone()
