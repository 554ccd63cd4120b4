"""The driver of a map from dataset to dataset: records the request and the finished parts, and commits them in order.

A shard counts when the manifest lists it. Its name begins with the number of its part, so the manifest shows where to
resume.
"""

from __future__ import annotations

import os
import time
from typing import Any

from typing_extensions import Self

from .._places import is_url
from ..errors import ArgumentError
from ..io._atomic import make_folder
from ..io._documents import document_at
from ..io._format import Part
from ..io._lock import FileLock
from ..io._manifest import SHARD, Manifest, ShardEntry, class_part, parse_sealed
from ..io._segments import Listing
from ..io._writer import LOCK, sweep
from ._rows import Done, FailedRow

_JOURNAL = "map.json"
_EVERY = 0.25
"""Seconds between two commits; each flushes a manifest to disk."""


class MapRequest(Part):
    """The request of a map; a call that resumes it must make the same request."""

    version: int = 1
    verb: str
    source: str
    """The identity of the shards of the source."""
    rows: int
    batch_size: int
    rows_per_shard: int
    seed: int
    skip: bool
    detail: str = ""
    done: bool = False


def _number(entry: ShardEntry) -> int:
    found = SHARD.fullmatch(entry.file)
    assert found is not None  # the manifest was checked
    return int(found["number"])


class Commits:
    """The folder that a map writes to.

    Args:
        out: the folder.
        asked: the request.
        cls: the class of the rows, if known.
        resume: continue an earlier map.

    Raises:
        FileExistsError: if a dataset exists and `resume` is False, or the dataset wasn't written by a map.
        BlockingIOError: if another driver writes to it.
        ArgumentError: if the earlier map had another request.
    """

    def __init__(self, out: str, asked: MapRequest, cls: Any, resume: bool) -> None:
        self.out, self.asked, self.cls = out, asked, cls
        make_folder(out)
        try:
            self._lock = None if is_url(out) else FileLock(os.path.join(out, LOCK))
        except BlockingIOError as error:
            raise BlockingIOError(error.errno, "another map or writer has the dataset open", out) from None
        try:
            self._begin(resume)
        except BaseException:  # also on an interrupt, so that others may write
            self._release()
            raise

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()

    def _begin(self, resume: bool) -> None:
        """Read the state of an earlier run, and refuse to continue another request."""
        self._request, self._listing = document_at(self.out, _JOURNAL), Listing(self.out)
        self._failures = Listing(f"{self.out}/failed")
        raw = self._request.find()
        before = None if raw is None else parse_sealed(raw, self._request.path, "journal", MapRequest)
        self._manifest = self._listing.manifest()
        if (before or self._manifest) and not resume:
            raise FileExistsError(17, "there is a dataset already; resume=True continues a map", self.out)
        if before is None and self._manifest is not None:
            raise FileExistsError(17, "there is a dataset, which no map has begun; choose another folder", self.out)
        if before is not None:
            self._compare(before)
        shards = [] if self._manifest is None else self._manifest.shards
        self.next = 1 + max(map(_number, shards), default=-1)
        self.done = before is not None and before.done
        self._failed = self._failures.manifest()
        if self._failed is not None and not self.done:
            known = [shard for shard in self._failed.shards if _number(shard) < self.next]
            self._failed = self._failed.model_copy(update={"shards": known})
        if self.asked.skip:
            make_folder(f"{self.out}/failed")
        if before is None:
            self._journal(False)
        self._sweep()
        self._pending: list[tuple[int, Done]] = []
        self._since, self._pause = time.monotonic(), _EVERY

    def _compare(self, before: MapRequest) -> None:
        """Refuse to continue a map with another request or another class."""
        for name in ("verb", "source", "rows", "batch_size", "rows_per_shard", "seed", "skip", "detail"):
            old, new = getattr(before, name), getattr(self.asked, name)
            if old != new:
                what = "the dataset has changed: " if name in ("source", "rows") else ""
                raise ArgumentError(
                    f"{self.out}: {what}the map that was begun there has {name}={old!r:.60}, this one "
                    f"{new!r:.60}; ask for the same, or choose another folder"
                )
        if self._manifest is not None and self.cls is not None:
            now = class_part(self.cls)
            if now.digest != self._manifest.cls.digest:
                raise ArgumentError(f"{self.out}: its rows are of {self._manifest.cls.name}, `cls` is {now.name}")

    def _journal(self, done: bool) -> None:
        self._request.replace(self.asked.model_copy(update={"done": done}))

    def _sweep(self) -> None:
        sweep(self.out, self._manifest)
        self._listing.sweep()
        if os.path.isdir(f"{self.out}/failed"):
            sweep(f"{self.out}/failed", self._failed)
            self._failures.sweep()

    def add(self, part: int, done: Done) -> None:
        """Add a finished part; parts are added in order."""
        self._pending.append((part, done))
        if time.monotonic() - self._since > self._pause:
            begin = time.monotonic()
            self.flush()
            self._pause = max(_EVERY, 20 * (self._since - begin))  # a slow disk

    def flush(self) -> None:
        """Commit the finished parts. Failed rows are committed first, so no row is lost between the two datasets."""
        pending, self._pending = self._pending, []
        failed = [done.failed for _, done in pending if done.failed is not None]
        if failed:
            held = self._failed or Manifest(cls=class_part(FailedRow))
            self._failed = held.model_copy(update={"shards": [*held.shards, *failed]})
            self._failures.replace(self._failed)
        new = [done for _, done in pending if done.entry is not None]
        if new:
            self._learn(new)
            assert self._manifest is not None  # it was learned
            shards = [*self._manifest.shards, *[done.entry for done in new]]
            self._manifest = self._manifest.model_copy(update={"shards": shards})
            self._listing.replace(self._manifest)
        self._since = time.monotonic()

    def _learn(self, new: list[Done]) -> None:
        for done in {done.cls: done for done in new}.values():
            part = class_part(done.cls)
            if self._manifest is None:
                self._manifest, self.cls = Manifest(cls=part), done.cls
            elif self._manifest.cls.digest != part.digest:
                names = f"{self._manifest.cls.name} and {part.name}"
                raise ArgumentError(f"map: the function gives rows of one class, got {names}; pass cls=")

    def finish(self) -> None:
        """Commit the rest after the last part."""
        self.flush()
        if self._manifest is None:
            if self.cls is None:
                why = "map: no row is left, so nothing says the class: pass cls=; rows that failed are in `out/failed`"
                raise ArgumentError(why)
            self._manifest = Manifest(cls=class_part(self.cls))
            self._listing.replace(self._manifest)
        self._journal(True)
        self._sweep()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.flush()
        finally:
            self._release()
