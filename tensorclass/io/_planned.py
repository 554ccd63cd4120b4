"""Plans what a batch needs of the remote shards of a dataset, and requests all of it at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from .._places import is_url
from ..errors import FileFormatError
from ._advice import IntArray
from ._read import places_of, read_head
from ._remote import BLOCK, SMALL, Remote, fetch_ranges
from ._shards import MISSING, ReadHow, Shard, is_plain, narrow_tree, of_rows, remote_shard
from ._unpack import references

_MOST = 4096
"""The most layouts that are remembered."""
Range = tuple[int, int]


class FileLayout(NamedTuple):
    """Where the bytes of a shard are."""

    rows: list[Range]
    """For each tensor that is read row by row: its first byte, and the bytes of a row."""
    whole: list[Range]
    """What else is needed to open the shard: first bytes and ends."""


class Planner:
    """Requests rows of remote shards: one round of requests, and one before it for headers of unknown layouts.

    Args:
        shards: all shards.
        how: how they are read.
    """

    def __init__(self, shards: Sequence[Shard], how: ReadHow) -> None:
        self._shards, self._how = shards, how
        self._layouts: dict[str, FileLayout] = {}

    def fetch(self, wanted: Mapping[int, IntArray]) -> list[Remote]:
        """Fetch rows, by the numbers of their shards; the files keep them as long as they are referred to.

        Raises:
            FileFormatError: for a shard that is missing or damaged.
            OSError: if a request fails. The message names the URL.
        """
        try:
            far = [number for number in wanted if is_url(self._shards[number].folder)]
            files = {number: remote_shard(self._shards[number]) for number in far}
            self._learn(files)
            fetch_ranges([(file, self._ranges(number, wanted[number])) for number, file in files.items()])
        except FileNotFoundError as error:
            raise FileFormatError(MISSING, error.filename) from None
        return list(files.values())

    def _key(self, number: int) -> str:
        entry = self._shards[number].entry
        return entry.layout or entry.id

    def _learn(self, files: Mapping[int, Remote]) -> None:
        """Read the headers of unknown layouts."""
        if len(self._layouts) + len(files) > _MOST:
            self._layouts.clear()
        new = {self._key(number): number for number in files if self._key(number) not in self._layouts}
        heads = [(files[number], [(0, self._shards[number].entry.header or BLOCK)]) for number in new.values()]
        fetch_ranges(heads)
        for key, number in new.items():
            self._layouts[key] = self._layout_of(self._shards[number], files[number])

    def _layout_of(self, shard: Shard, file: Remote) -> FileLayout:
        """The layout that a header describes."""
        head = read_head(file.fd, file.size, shard.path)
        root = narrow_tree(head.meta.root, self._how)
        places = places_of(head.header, references(root), shard.path)
        later = of_rows(root, self._how)
        rows = [(at.begin, (at.end - at.begin) // shard.rows) for name, at in places.items() if name in later]
        whole = [(at.begin, at.end) for name, at in places.items() if name not in later]
        # Else a shard of this layout shows the header; of a small one it comes in the same request, and is compared.
        if whole or not is_plain(root) or shard.entry.layout is None or file.size <= SMALL:
            whole.append((0, head.header.start))
        return FileLayout(rows, whole)

    def _ranges(self, number: int, rows: IntArray) -> list[Range]:
        layout = self._layouts[self._key(number)]
        per, count = self._how.block_rows, self._shards[number].rows
        blocks = np.unique(rows // per)
        runs = np.split(blocks, np.flatnonzero(np.diff(blocks) > 1) + 1)
        spans = [(int(run[0]) * per, min((int(run[-1]) + 1) * per, count)) for run in runs]
        return [*layout.whole, *[(at + a * size, at + b * size) for at, size in layout.rows for a, b in spans]]
