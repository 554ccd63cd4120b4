"""Writes a dataset: rows are collected into shards. A shard that the manifest lists survives any later crash."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import threading
from collections.abc import Iterable
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, suppress
from itertools import chain
from secrets import token_hex
from typing import Any, Generic, TypeVar

from torch import Tensor
from typing_extensions import Self

from .._flags import flags
from .._places import is_url, path_or_url, whole_path
from .._schema import Schema, schema_of
from ..core import STORAGE, Turn, in_turn, tensors_alone
from ..errors import ArgumentError, BatchDimError, HeldError, SchemaError, StructureError
from ..ops import cat
from ._access import Access, current_access, reaching
from ._atomic import Target, make_folder
from ._documents import target_at
from ._lock import FileLock
from ._manifest import NAME, SHARD, Manifest, ShardEntry, class_part
from ._pack import Packed, pack
from ._paths import StrPath
from ._progress import progress
from ._segments import Listing
from ._shards import ReadHow, Shard, open_shard
from ._write import header_of, write_to

T = TypeVar("T")
_IN_STORES = Turn()
"""Held while a writer of this process replaces a manifest in a store, which has no locks of its own."""
_SHARD_BYTES = 64 << 20
"""The approximate size of a shard if the number of rows is not given."""
_SINGLES = 1024
"""The number of small batches that are joined at a time."""
LOCK = ".lock"
_UNFINISHED = re.compile(rf"\.{SHARD.pattern}\.\d+-\d+\.tmp")
"""The temporary name of a shard while it is written."""


@flags
class DatasetWriter(Generic[T]):
    """Appends rows to a dataset; `TensorClassDataset.create` returns one.

    Rows are committed in whole shards: when a shard is full, on `commit()`, and at the end of the `with` block. A
    thread flushes a full shard to disk while the next one fills; if that fails, the next call raises the error. If the
    block ends with an exception, full shards are kept. Uncommitted rows are in memory: at most the rows of one shard
    and the last batch.

    Threads may share a writer: each batch is appended as a whole, in the order of the calls. Path and options are those
    of `TensorClassDataset.create`.

    >>> import torch
    >>> from torch import Tensor
    >>> from tensorclass import TensorClass, TensorClassDataset
    >>> from tensorclass.typing import Int64
    >>> class Row(TensorClass):
    ...     number: Int64[Tensor, ""]
    >>> with TensorClassDataset.create("rows", Row) as writer:
    ...     writer.append(Row(number=torch.arange(3)))
    >>> len(TensorClassDataset("rows", Row))
    3
    """

    def __init__(
        self,
        path: StrPath,
        cls: type[T],
        rows_per_shard: int | None = None,
        resume: bool = False,
        writer_id: str | None = None,
        checksums: bool = False,
        pbar: bool = False,
        access: Access | None = None,
    ) -> None:
        self._check(cls, rows_per_shard, writer_id)
        self._turn = Turn()
        self.path: str = whole_path(path)
        self.cls: Any = cls
        self._capacity = rows_per_shard
        self._writer_id = writer_id
        self._checksums = checksums
        self._blocks: list[Any] = []
        self._singles: list[Any] = []
        self._pending = self._size = 0
        self._by_size = rows_per_shard is None
        self._failure: BaseException | None = None
        self._owner = os.getpid()
        self._behind: tuple[Future[Manifest | HeldError], ShardEntry] | None = None
        self._head: Any = None
        self._plain: Any = None
        self._listing = Listing(self.path)
        with reaching(access or Access()):
            self._access = current_access()
        make_folder(self.path)
        self._locks, self._open = self._take_locks(), True
        try:
            with reaching(self._access):
                self._manifest = self._start(resume)
            sweep(self.path, self._manifest, writer_id)
            self._bar = progress(pbar, None, f"writing {os.path.basename(self.path)}")
            self._count = self._bar.__enter__()
        except BaseException:  # also on an interrupt, so that others may write
            self._release()
            raise

    @staticmethod
    def _check(row_cls: Any, rows_per_shard: int | None, writer_id: str | None) -> None:
        if not isinstance(row_cls, type) or schema_of(row_cls) is None:
            raise ArgumentError(f"a dataset holds rows of a tensorclass, got {row_cls!r:.80}; declare a class for them")
        if rows_per_shard is not None and (type(rows_per_shard) is not int or rows_per_shard < 1):
            raise ArgumentError(f"rows_per_shard is a number from 1, got {rows_per_shard!r:.40}")
        if writer_id is not None and not (isinstance(writer_id, str) and re.fullmatch("[A-Za-z0-9_]{1,64}", writer_id)):
            raise ArgumentError(f"writer_id is 1 to 64 letters, digits and underscores, got {writer_id!r:.80}")

    # ---- one writer, or several --------------------------------------------------------------------------------------

    def _take_locks(self) -> list[FileLock]:
        """Lock the dataset against other writers; writers with ids exclude only those with the same id."""
        mine, found = self._writer_id, list[FileLock]()
        if is_url(self.path):  # no store has locks; a manifest that changed in between is refused
            return found
        try:
            found.append(FileLock(os.path.join(self.path, LOCK), shared=mine is not None))
            if mine is not None:
                found.append(FileLock(os.path.join(self.path, f"{LOCK}-{mine}")))
        except BlockingIOError as error:
            for lock in found:
                lock.release()
            what = (
                "another writer has the dataset open; several writers each pass a `writer_id=`"
                if not found
                else f"another writer has the id {mine!r}"
            )
            raise BlockingIOError(error.errno, what, self.path) from None
        return found

    def _updating(self) -> AbstractContextManager[Any]:
        """The lock that is held while the manifest is read and replaced."""
        if is_url(self.path):
            return _IN_STORES
        return FileLock(os.path.join(self.path, f"{LOCK}-manifest-update"), wait=True)

    def _start(self, resume: bool) -> Manifest:
        """The manifest that this writer continues; a new one in an empty folder."""
        with self._updating():
            found = self._listing.manifest()
            self._listing.sweep()
            if found is None:
                found = Manifest(cls=class_part(self.cls))
                self._listing.replace(found)
                return found
        if not resume and (self._writer_id is None or self._own(found)):
            what = "there is a dataset already; `create(..., resume=True)` continues it"
            raise FileExistsError(17, what, os.path.join(self.path, NAME))
        now = class_part(self.cls)
        if found.cls.digest != now.digest:
            difference = Schema.from_dict(found.cls.fields or {}).diff(schema_of(self.cls))  # type: ignore[arg-type]  # it has one
            if difference:
                text = f"{self.path}: its rows were written as another {found.cls.name}:\n{difference}"
                raise SchemaError(f"{text}\nwrite a new dataset, or declare the class as it was")
        if found.shards:
            self._learn(open_shard(Shard(self.path, found.shards[0]), ReadHow(self.cls, False, False, False)))
        return found

    def _own(self, manifest: Manifest) -> list[ShardEntry]:
        """The shards of this writer; a writer without an id continues all of them."""
        mine = self._writer_id
        return manifest.shards if mine is None else [shard for shard in manifest.shards if shard.writer == mine]

    # ---- rows --------------------------------------------------------------------------------------------------------

    @property
    @in_turn
    def rows(self) -> int:
        """The number of rows appended so far, including earlier runs: the position at which to continue.

        With a `writer_id`, only rows of this writer count.

        >>> writer.rows
        3
        """
        behind = self._behind  # its rows are not in `self._manifest` until `_settle`
        return self._listed() + (behind[1].rows if behind is not None else 0) + self._pending

    @property
    @in_turn
    def committed(self) -> int:
        """The number of these rows that are committed to disk. Waits for a shard that is being written.

        >>> with TensorClassDataset.create("rows", Row, resume=True) as writer:
        ...     writer.append(Row(number=torch.arange(2)))
        ...     writer.rows, writer.committed
        (5, 3)
        """
        if self._behind is not None:
            with _Guard(self):
                self._settle()
        return self._listed()

    def _listed(self) -> int:
        return sum([shard.rows for shard in self._own(self._manifest)])

    @in_turn
    def append(self, batch: T) -> None:
        """Append one row, or a batch of rows.

        Args:
            batch: an instance of the class, of batch size `[]` or `[n]`. Its values are copied.

        Raises:
            TypeError: for an instance of another class.
            SchemaError: for values that no longer fit the class.
            StructureError: for a batch that can't be joined with the rows before, because an event shape or a shared
                value differs; names the field. Nothing is added.
            OSError: names the path of this shard or the one before. The writer then refuses more rows; `create(...,
                resume=True)` continues after the committed rows.

        >>> with TensorClassDataset.create("rows", Row, resume=True) as writer:
        ...     writer.append(Row(number=torch.arange(2)))
        ...     writer.append(Row(number=torch.tensor(5)))
        >>> len(TensorClassDataset("rows", Row))
        6
        """
        self._alive()
        given = self._fitting(batch)
        if not len(given):
            return
        self._join_check(given)
        with _Guard(self):
            self._take(given)
            self._count(len(given))

    def _fitting(self, batch: Any) -> Any:
        if not isinstance(batch, self.cls):
            what = f"append takes a {self.cls.__name__}, got a {type(batch).__name__}"
            raise ArgumentError(f"{what}; `{self.cls.__name__}.from_tensordict` makes one")
        if len(batch.batch_size) > 1:
            size = list(batch.batch_size)
            raise BatchDimError(f"append takes batch size [] or [n], got {size}; `batch.reshape(-1)` makes one dim")
        given: Any = batch.unsqueeze(0) if not batch.batch_size else batch
        return given.detach()

    def _join_check(self, given: Any) -> None:
        """Refuse rows that can't be joined with the rows before."""
        if self._head is None:
            self._learn(given)
            return
        if self._plain is not None and _signature(given) == self._plain:
            return
        try:
            cat([self._head, given[:1]])
        except (StructureError, SchemaError, RuntimeError, ValueError, TypeError) as error:
            raise StructureError(f"the batch does not go with the rows before: {error}") from error

    def _learn(self, batch: Any) -> None:
        """Store the first row, and find the number of rows of a shard."""
        self._head, self._plain = batch[:1].clone(), _signature(batch)
        if self._capacity is None:
            size = sum([leaf.nbytes for leaf in batch._leaves(STORAGE)]) // len(batch)
            self._capacity = max(1, _SHARD_BYTES // max(size, 64))

    def _take(self, given: Any) -> None:
        """Keep rows until there are enough for a shard, and write full shards."""
        capacity = self._capacity
        assert capacity is not None  # `_learn` found it
        begin, count = 0, len(given)
        while self._pending + count - begin >= capacity:
            end = begin + capacity - self._pending
            self._flush([given[begin:end]])
            begin = end
        if begin < count:
            self._singles.append(given[begin:].clone())
            self._pending += count - begin
            if self._by_size and self._plain is None:  # rows of ragged entries may be larger than the first ones
                self._size += self._singles[-1].bytes()
                if self._size >= _SHARD_BYTES:
                    self._flush([])
        if len(self._singles) >= _SINGLES:
            self._blocks.append(cat(self._singles))
            self._singles = []

    def _flush(self, more: list[Any]) -> None:
        """Write the held rows, and more, as a shard. A thread flushes and lists it, while more rows are appended."""
        parts = [*self._blocks, *self._singles, *more]
        target, entry = self._write(parts)
        future: Future[Manifest | HeldError] = Future()
        # A new thread for each shard: the threads of a pool would be missing in a forked process.
        thread = threading.Thread(target=self._bring, args=(future, target, entry), name=f"writing {entry.file}")
        try:
            self._settle()
            thread.start()
        except BaseException:  # also on an interrupt: a file that isn't listed is removed
            target.end()
            raise
        self._behind = future, entry
        self._blocks, self._singles, self._pending, self._size = [], [], 0, 0

    def _bring(self, future: Future[Manifest | HeldError], target: Target, entry: ShardEntry) -> None:
        try:
            future.set_result(self._list(target, entry))
        except BaseException as error:  # the writer raises it in the next call
            future.set_result(HeldError(error))

    def _list(self, target: Target, entry: ShardEntry) -> Manifest:
        """Flush a shard to disk, then the manifest that lists it."""
        with reaching(self._access):
            _finish(target)
            with self._updating():
                return self._add_entry(entry)

    def _add_entry(self, entry: ShardEntry) -> Manifest:
        """Add a shard to the manifest. In a store, other writers may replace it in between, but not list my shards."""
        now = self._manifest if self._writer_id is None else self._listing.manifest()
        while True:
            if now is None:
                raise FileNotFoundError(errno.ENOENT, "the manifest was removed while a writer is open", self.path)
            if self._own(now) != self._own(self._manifest):
                who = "another writer" if self._writer_id is None else f"another writer with the id {self._writer_id!r}"
                raise BlockingIOError(errno.EAGAIN, f"{who} has added shards; this one has failed", self.path)
            following = now.model_copy(update={"shards": [*now.shards, entry]})
            try:
                self._listing.replace(following)
            except BlockingIOError:
                now = self._listing.manifest()
            else:
                return following

    def _settle(self) -> None:
        """Wait until the last shard is listed."""
        if self._behind is None:
            return
        future = self._behind[0]
        mine = os.getpid() == self._owner  # a forked child has no such thread
        if mine:
            wait([future])  # if interrupted, `_behind` stays set: nobody may write before the shard is listed
        self._behind = None
        if mine:
            found = future.result()
            if isinstance(found, HeldError):
                found.reraise()
            self._manifest = found

    def _write(self, parts: list[Any]) -> tuple[Target, ShardEntry]:
        number, rows = len(self._own(self._manifest)) + (self._behind is not None), sum(map(len, parts))
        return start_shard(self.path, number, self._packed(parts), rows, self._checksums, self._writer_id)

    def _packed(self, parts: list[Any]) -> Packed:
        """Pack batches as one. Plain tensors are not joined in memory, but written one after the other."""
        if len(parts) == 1 or self._plain is None or not all([_signature(part) == self._plain for part in parts]):
            return pack(parts[0] if len(parts) == 1 else cat(parts))
        like = self._head.expand(sum(map(len, parts)))
        columns = zip(*map(_tensors, parts), strict=True)
        pieces = {id(leaf): column for leaf, column in zip(_tensors(like), columns, strict=True)}
        packed = pack(like)
        return packed._replace(items=[item._replace(pieces=pieces[id(item.tensor)]) for item in packed.items])

    @in_turn
    def commit(self) -> None:
        """Write the held rows as a shard, even if it is not full.

        Raises:
            OSError: names the path; as for `append`.

        >>> with TensorClassDataset.create("rows", Row, resume=True) as writer:
        ...     writer.append(Row(number=torch.arange(2)))
        ...     writer.commit()
        ...     len(TensorClassDataset("rows", Row))
        5
        """
        self._alive()
        with _Guard(self):
            if self._pending:
                self._flush([])
            self._settle()

    @in_turn
    def close(self) -> None:
        """Commit, and release the dataset for other writers; a second call does nothing.

        >>> writer = TensorClassDataset.create("rows", Row, resume=True)
        >>> writer.append(Row(number=torch.arange(2)))
        >>> writer.close()
        >>> len(TensorClassDataset("rows", Row))
        5
        """
        try:
            if self._open and self._failure is None:
                self.commit()
        finally:
            self._release()

    @in_turn
    def _release(self) -> None:
        try:
            with suppress(Exception), _Guard(self):  # the error that led here is raised instead
                self._settle()
        finally:
            if hasattr(self, "_bar"):
                self._bar.__exit__(None, None, None)
                del self._bar
            for lock in self._locks:
                lock.release()
            self._locks, self._open = [], False

    def _alive(self) -> None:
        if self._failure is not None:
            what = f"the writer has failed ({self._failure!r:.200}); `create(..., resume=True)` continues after what is"
            raise ArgumentError(f"{self.path}: {what} committed")
        if not self._open:
            raise ArgumentError(f"{self.path}: the writer is closed; `create(..., resume=True)` opens another")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self._release()

    @in_turn
    def __repr__(self) -> str:
        if self._failure is not None:
            state = "failed"
        elif self._open:
            state = "open"
        else:
            state = "closed"
        counts = f"rows={self.rows}, committed={self.committed}"
        return f"DatasetWriter({self.path!r}, {self.cls.__name__}, {counts}, {state})"


def write_dataset(
    batches: Iterable[Any],
    path: StrPath,
    rows_per_shard: int | None = None,
    pbar: bool = False,
    checksums: bool = False,
    cls: Any = None,
    name: str = "",
) -> Any:
    """Write batches, or single rows, as a dataset; returns its class, by default that of the first batch.

    Raises:
        TypeError: for untyped batches.
    """
    where = path_or_url(path)
    given = iter(batches)
    first = next(given, None) if cls is None else None
    cls = cls or type(first)
    if schema_of(cls) is None:
        what = "there are no rows" if first is None else f"the first one is a {cls.__name__}"
        hint = "name the class (`cls=`; `--class train.py:Digits` for a command), or use `TensorClassDataset.create`"
        raise ArgumentError(f"{name or where}: a dataset holds rows of a tensorclass, and {what}; {hint}")
    with DatasetWriter(path, cls, rows_per_shard, checksums=checksums, pbar=pbar) as writer:
        for batch in given if first is None else chain([first], given):
            writer.append(batch)
    return cls


def start_shard(
    folder: str, number: int, packed: Packed, rows: int, checksums: bool = False, writer: str | None = None
) -> tuple[Target, ShardEntry]:
    """Write rows as a shard under a temporary name; the caller commits and ends the returned file."""
    key = token_hex(8)
    name = f"{'' if writer is None else f'{writer}-'}{number:06d}-{key}.safetensors"
    target = target_at(os.path.join(folder, name))
    try:
        target.start()
        items = write_to(target, packed._replace(shard=key), checksums)
    except BaseException:  # also on an interrupt, the file is removed
        target.end()
        raise
    layout = hashlib.sha256(header_of(packed) + bytes([checksums])).hexdigest()[:16]
    header = target.size - sum([item.size for item in items])
    return target, ShardEntry(
        file=name, rows=rows, bytes=target.size, id=key, writer=writer, header=header, layout=layout
    )


def write_shard(folder: str, number: int, packed: Packed, rows: int, checksums: bool = False) -> ShardEntry:
    """Write rows as a shard. It is not part of the dataset until a manifest lists it."""
    target, entry = start_shard(folder, number, packed, rows, checksums)
    _finish(target)
    return entry


def _finish(target: Target) -> None:
    try:
        target.commit()
    finally:
        target.end()


def sweep(folder: str, manifest: Manifest | None, writer: str | None = None) -> None:
    """Remove shards that the manifest does not list; with an id, only those of that writer."""
    if is_url(folder):  # there are no locks, so that a file may belong to a writer that is open
        return
    known = {shard.file for shard in manifest.shards} if manifest is not None else set[str]()
    for name in os.listdir(folder):
        found = SHARD.fullmatch(name) or _UNFINISHED.fullmatch(name)
        mine = found is not None and (writer is None or found["writer"] == writer)
        if mine and name not in known:
            with suppress(FileNotFoundError):  # its writer has just removed it
                os.unlink(os.path.join(folder, name))


class _Guard:
    """After an error in this block, the state on disk is unknown, so the writer refuses more rows."""

    def __init__(self, writer: DatasetWriter[Any]) -> None:
        self._writer = writer

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: Any, error: BaseException | None, __: Any) -> None:
        if error is not None:
            self._writer._failure = error


def _tensors(batch: Any) -> list[Tensor]:
    """All entries if they are plain tensors; else an empty list."""
    return tensors_alone(batch) or []


def _signature(batch: Any) -> Any:
    """Dtype and event shape of each tensor, if all entries are plain tensors; else None."""
    return [(leaf.dtype, leaf.shape[1:]) for leaf in _tensors(batch)] or None
