"""The manifest of a dataset on the disk or in a store: its last shards, and segments that list those before.

A commit writes the last shards again. When they are many, they become a segment, together with earlier segments that
list no more shards than that. So each shard is written a few times only, and there are few segments. A segment
never changes: the manifest, which is replaced as a whole, says which ones count.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from secrets import token_hex
from typing import NamedTuple

from .._places import is_url
from .._system import read_part
from ..errors import ArgumentError, FileFormatError
from ._documents import document_at, replacing_at
from ._manifest import (
    AGAIN,
    NAME,
    SEALED,
    SEGMENT,
    Manifest,
    SegmentEntry,
    SegmentPart,
    ShardEntry,
    parse_sealed,
    read_small,
    refuse_doubles,
    sealed,
)
from ._remote import Remote, fetch_ranges, remote

TAIL = 32
"""The most shards that the manifest itself lists."""
_LEFT_BEHIND = re.compile(rf"\.?{SEGMENT.pattern}(?:\.\d+-\d+\.tmp)?")
"""The names of segments, and their temporary names."""


class Segment(NamedTuple):
    """A segment, and the shards that it lists."""

    entry: SegmentEntry
    shards: list[ShardEntry]


class Listing:
    """The manifest in a folder or under a URL. One writer at a time: a lock of the folder sees to it.

    Args:
        folder: of the dataset.
        write: whether it is for a writer.
    """

    def __init__(self, folder: str, write: bool = True) -> None:
        self._folder, self.path = folder, os.path.join(folder, NAME)
        self._document = document_at(folder) if write else None
        self._segments: list[Segment] = []
        """Those of the manifest that was last read or written."""

    def manifest(self) -> Manifest | None:
        """The manifest with all shards; for a writer, None if there is none. Only new segments are read.

        Raises:
            FileFormatError: for a damaged or newer manifest.
            OSError: if a file can't be read. The message names the path.
        """
        found = ""
        for _ in range(AGAIN):
            raw = read_small(self.path) if self._document is None else self._document.find()
            if raw is None:
                self._segments = []
                return None
            try:
                return self._resolve(raw)
            except FileNotFoundError as error:  # another writer joins segments meanwhile
                found = error.filename
        raise FileFormatError("the manifest lists this segment, and it is not there", found)

    def _resolve(self, raw: bytes) -> Manifest:
        """The whole manifest, from the short one and the segments that it lists; known segments are not read again."""
        short = parse_sealed(raw, self.path, "manifest", Manifest, 2)
        listed = short.segments or []
        known = {segment.entry.file: segment for segment in self._segments}
        new = [entry for entry in listed if entry.file not in known]
        known |= {segment.entry.file: segment for segment in _read_segments(self._folder, new)}
        segments = [known[entry.file] for entry in listed]
        shards = [*_all_entries(segments), *short.shards]
        try:
            refuse_doubles(shards)
        except ArgumentError as error:
            raise FileFormatError(f"the manifest is wrong: {error}", self.path) from None
        self._segments = segments
        return short.model_copy(update={"version": 1, "segments": None, "shards": shards})

    def replace(self, manifest: Manifest) -> None:
        """Replace the manifest, after the new segment that it may need.

        Raises:
            BlockingIOError: if another writer has replaced a manifest in a store.
            OSError: if a file can't be used. The message names the path.
        """
        before, kept = self._segments, self._unchanged_segments(manifest)
        tail = manifest.shards[sum([len(segment.shards) for segment in kept]) :]
        if len(tail) > TAIL:
            while kept and len(kept[-1].shards) <= len(tail):
                tail = [*kept.pop().shards, *tail]
            kept.append(self._write(tail))
            tail = []
        entries = [segment.entry for segment in kept]
        told = {"version": 2, "segments": entries} if entries else {}
        assert self._document is not None  # of a writer
        self._document.replace(manifest.model_copy(update={**told, "shards": tail}))
        self._segments = kept
        if not is_url(self._folder):
            files = {entry.file for entry in entries}
            _remove(self._folder, [one.entry.file for one in before if one.entry.file not in files])

    def _unchanged_segments(self, manifest: Manifest) -> list[Segment]:
        """The first segments whose shards are still the first ones."""
        kept: list[Segment] = []
        at = 0
        for segment in self._segments:
            end = at + len(segment.shards)
            if manifest.shards[at:end] != segment.shards:
                break
            kept.append(segment)
            at = end
        return kept

    def _write(self, shards: list[ShardEntry]) -> Segment:
        raw = sealed(SegmentPart(shards=shards).model_dump_json(exclude_none=True))
        file = f"segment-{token_hex(8)}.json"
        with replacing_at(os.path.join(self._folder, file)) as target:
            target.write([raw])
        rows = sum([shard.rows for shard in shards])
        entry = SegmentEntry(file=file, shards=len(shards), rows=rows, bytes=len(raw), crc32=raw[SEALED].decode())
        return Segment(entry, shards)

    def sweep(self) -> None:
        """Remove segments that the manifest does not list. Nobody else may replace it meanwhile; stores keep them."""
        if not is_url(self._folder):
            known = {segment.entry.file for segment in self._segments}
            found = [name for name in os.listdir(self._folder) if _LEFT_BEHIND.fullmatch(name)]
            _remove(self._folder, [name for name in found if name not in known])


def _remove(folder: str, files: Iterable[str]) -> None:
    for file in files:
        with suppress(OSError):  # a file that the manifest does not list does no harm
            os.unlink(os.path.join(folder, file))


def _all_entries(segments: Sequence[Segment]) -> list[ShardEntry]:
    return [shard for segment in segments for shard in segment.shards]


def read_manifest(folder: str) -> Manifest:
    """The manifest of a folder with all shards, checked.

    Raises:
        FileFormatError: for a damaged or newer manifest.
        OSError: if the manifest is missing or can't be read. The message names the path.
    """
    found = Listing(folder, write=False).manifest()
    assert found is not None  # its absence is an error of reading
    return found


def _read_segments(folder: str, entries: Sequence[SegmentEntry]) -> list[Segment]:
    """Segments of a folder, checked; those of a store are requested at once.

    Raises:
        FileFormatError: for a damaged one.
        OSError: if one is missing or can't be read. The message names the path.
    """
    paths = [os.path.join(folder, entry.file) for entry in entries]
    if not is_url(folder):
        return [_parse(read_small(path), entry, path) for path, entry in zip(paths, entries, strict=True)]
    files: list[Remote] = [
        remote(path, fixed=(entry.bytes, entry.crc32)) for path, entry in zip(paths, entries, strict=True)
    ]
    fetch_ranges([(file, [(0, file.size)]) for file in files])
    return [
        _parse(read_part(file.fd, file.size, 0), entry, file.url) for file, entry in zip(files, entries, strict=True)
    ]


def _parse(raw: bytes, entry: SegmentEntry, path: str) -> Segment:
    found = parse_sealed(raw, path, "segment", SegmentPart)
    rows = sum([shard.rows for shard in found.shards])
    if (len(found.shards), rows, raw[SEALED].decode()) != (entry.shards, entry.rows, entry.crc32):
        raise FileFormatError("it is not the segment that the manifest lists", path)
    return Segment(entry, found.shards)
