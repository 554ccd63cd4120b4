"""Files at a URL: only the blocks that are needed are read, into a local sparse file that is mapped like any other.

That file is the cache. Its name depends on URL, size and version; a table next to it holds the checksum of each block
that has arrived. Processes may share it. A file that a process has open is not removed.
"""

from __future__ import annotations

import errno
import json
import os
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from hashlib import sha256
from secrets import token_hex
from tempfile import NamedTemporaryFile
from threading import Lock
from typing import Any, ClassVar, NamedTuple
from weakref import WeakValueDictionary, finalize
from zlib import crc32

import numpy as np

from .._budget import LEAST
from .._places import is_url, local_path
from .._system import SAFE, flock, read_part, write_part
from ..core import release_in_forks
from ..errors import HeldError, MemoryBudgetError, TensorClassError, UnsupportedOperationError
from ._access import call_with_retries, store_at

BLOCK = 1 << 16
"""Bytes of a block, which is read and cached as a whole."""
_RUN = 128
"""The most blocks of one request."""
_MOST = LEAST * BLOCK
"""The largest file in bytes: its blocks have a byte of memory each."""
_GAP = 8
"""Blocks that are not needed are read too if at most so many lie between two that are: a request costs more."""
SMALL = (_GAP + 1) * BLOCK
"""The largest file that one request reads, whatever parts are needed."""
_AT_ONCE = 1 << 26
"""The most bytes that are in memory on their way to the cache."""
_CONNECTIONS = 64
"""The most requests at the same time."""
_TAGS = ("etag", "mtime", "last-modified", "last_modified", "lastmodified", "updated", "created", "md5", "sha256")
"""Keys under which stores report the version of a file."""
_ATOMIC = {"memory", "s3", "s3a", "gs", "gcs", "abfs", "az", "adl", "oss", "oci", "hf"}
"""Stores in which a file appears only when it is complete; in others it gets a temporary name first."""


_RECENT: deque[Any] = deque(maxlen=16)
_OPEN: WeakValueDictionary[Any, Remote] = WeakValueDictionary()
"""By URL, and whether they never change; and by their local file."""


def _cache() -> tuple[str, int]:
    """The folder of the cache, and its size limit in bytes."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = os.environ.get("TENSORCLASS_CACHE") or os.path.join(home, "tensorclass")
    return local_path(folder), int(os.environ.get("TENSORCLASS_CACHE_BYTES") or 10 << 30)


class Remote:
    """One version of a remote file, and its local part. Threads may share it: a block is requested once.

    Args:
        url: of the file.
        fixed: its size and version, for a file that never changes; otherwise the server is asked.

    Raises:
        OSError: if the request fails. The message names the URL.
    """

    _written: ClassVar[int | None] = None
    """Bytes that this process has added to the cache since it last measured the size of the cache."""

    def __init__(self, url: str, fixed: tuple[int, str] | None = None) -> None:
        self.url, self._fixed = url, fixed is not None
        self.version: tuple[Any, ...] = self._look() if fixed is None else fixed
        self.size: int = self.version[0]
        if not 0 <= self.size <= _MOST:
            raise MemoryBudgetError(f"the server says that it has {self.size} bytes, {_MOST} at most are read", url)
        key = sha256(json.dumps([url, *self.version]).encode()).hexdigest()
        if not any(self.version[1:]):  # versions can't be distinguished
            key = token_hex(32)
        folder, limit = _cache()
        os.makedirs(folder, 0o700, exist_ok=True)
        self.path = os.path.join(folder, f"{key}.data")
        self.fd, self._table = _open_cache_file(self.path), _open_cache_file(f"{self.path[:-5]}.map")
        finalize(self, _close_files, self.fd, self._table)
        if os.fstat(self.fd).st_size != self.size:
            os.ftruncate(self.fd, self.size)
        os.utime(self.fd)
        self._here = np.zeros(-(-self.size // BLOCK), bool)
        self._lock = release_in_forks(Lock())
        self.rows: list[tuple[int, int]] = []
        """For each tensor that is read row by row: its first byte, and the bytes of a row."""
        if Remote._written is None or Remote._written > limit // 16:
            Remote._written = 0
            _evict(folder, limit)

    def _look(self) -> tuple[Any, ...]:
        def look() -> tuple[Any, ...]:
            store, path = store_at(self.url)
            store.invalidate_cache()
            found = {str(name).lower(): value for name, value in store.info(path).items()}
            if found.get("type") == "directory":
                raise IsADirectoryError(errno.EISDIR, "a folder in place of a file", self.url)
            if not isinstance(found.get("size"), int):
                raise UnsupportedOperationError(f"{self.url}: the server does not say how long it is")
            return found["size"], *[str(found[tag]) if found.get(tag) is not None else "" for tag in _TAGS]

        return call_with_retries(self.url, "looking it up", look)

    def need(self, ranges: Iterable[tuple[int, int]], check: bool = True) -> None:
        """Make some bytes available locally. Missing blocks are read: neighbours in one request, runs in parallel.

        Args:
            ranges: first byte and end of each.
            check: whether the file must still be the version that was opened; a shard of a dataset never changes.

        Raises:
            OSError: if the request fails. The message names the URL.
        """
        fetch_ranges([(self, ranges)])
        if check and not self._fixed and self._look() != self.version:
            raise _replaced_error(self.url)

    def missing(self, ranges: Iterable[tuple[int, int]]) -> list[Any]:
        """The runs of blocks to read for some bytes; runs that are close to each other are one."""
        spans = [np.arange(begin // BLOCK, -(-min(end, self.size) // BLOCK)) for begin, end in ranges if end > begin]
        if not spans:
            return []
        wanted = np.unique(np.concatenate(spans))
        left = np.array([i for i in wanted[~self._here[wanted]].tolist() if not self._is_cached(i)], np.int64)
        parts = np.split(left, np.flatnonzero(np.diff(left) > 1 + _GAP) + 1) if len(left) else []
        whole = [np.arange(part[0], part[-1] + 1) for part in parts]
        return [part[k : k + _RUN] for part in whole for k in range(0, len(part), _RUN)]

    def is_whole(self) -> bool:
        """Whether all of the file is here."""
        return bool(self._here.all())

    @property
    def lock(self) -> Any:
        """Held while blocks are read, so that threads request each once."""
        return self._lock

    def _is_cached(self, block: int) -> bool:
        """Whether a block is in the cache and its checksum is right."""
        known = int.from_bytes(read_part(self._table, 8, 8 * block), "little")
        if known >> 32 == 1:
            data = read_part(self.fd, BLOCK, block * BLOCK)
            self._here[block] = crc32(data) == known & 0xFFFFFFFF
        return bool(self._here[block])

    def keep(self, run: Any, data: bytes) -> None:
        """Write blocks to the cache."""
        for k, block in enumerate(run.tolist()):
            part = data[k * BLOCK : (k + 1) * BLOCK]
            done = write_part(self.fd, part, block * BLOCK)
            if done != len(part):
                raise OSError(errno.ENOSPC, f"the cache took {done} of {len(part)} bytes", self.path)
            write_part(self._table, (1 << 32 | crc32(part)).to_bytes(8, "little"), 8 * block)
            self._here[block] = True
        Remote._written = (Remote._written or 0) + len(data)

    def forget(self) -> None:
        """Drop what the cache has of the file, since it is damaged: what a server sends now may be right."""
        with self._lock:
            os.ftruncate(self._table, 0)
            self._here[:] = False


class _Asked(NamedTuple):
    """A run of blocks of a file, with its first byte and end."""

    remote: Remote
    run: Any
    begin: int
    end: int


def fetch_ranges(wanted: Sequence[tuple[Remote, Iterable[tuple[int, int]]]]) -> None:
    """Make some bytes of several files available locally: all that is missing is requested at once.

    Raises:
        OSError: if a request fails. The message names the URL.
    """
    with ExitStack() as stack:
        for one in sorted({remote for remote, _ in wanted}, key=lambda remote: (remote.url, id(remote))):
            stack.enter_context(one.lock)
        runs = [(remote, run) for remote, ranges in wanted for run in remote.missing(ranges)]
        asked = [
            _Asked(remote, run, int(run[0]) * BLOCK, min((int(run[-1]) + 1) * BLOCK, remote.size))
            for remote, run in runs
        ]
        at = np.cumsum([one.end - one.begin for one in asked]) // _AT_ONCE
        for portion in np.unique(at).tolist():
            _fetched([one for one, number in zip(asked, at.tolist(), strict=True) if number == portion])


def _fetched(asked: Sequence[_Asked]) -> None:
    """Read runs of blocks into the cache; failed requests are repeated."""
    left = dict(enumerate(asked))

    def fetch_left() -> None:
        wrong: HeldError | None = None
        for store, numbers, paths in _by_store(left):
            begins, ends = [left[i].begin for i in numbers], [left[i].end for i in numbers]
            options = {"batch_size": _CONNECTIONS} if getattr(store, "async_impl", False) else {}
            for i, data in zip(
                numbers, store.cat_ranges(paths, begins, ends, on_error="return", **options), strict=True
            ):
                error = _keep_received(left[i], data)
                if error is None:
                    del left[i]
                else:
                    wrong = HeldError(error)
        if wrong is not None:
            wrong.reraise()

    size = sum([one.end - one.begin for one in asked])
    call_with_retries(asked[0].remote.url, f"reading {size} bytes at {asked[0].begin}", fetch_left)


def _by_store(left: Mapping[int, _Asked]) -> list[tuple[Any, list[int], list[str]]]:
    """Each file system with the numbers and paths of what is asked of it."""
    found: dict[int, tuple[Any, list[int], list[str]]] = {}
    for number, one in left.items():
        store, path = store_at(one.remote.url)
        _, numbers, paths = found.setdefault(id(store), (store, [], []))
        numbers.append(number)
        paths.append(path)
    return list(found.values())


def _keep_received(one: _Asked, data: Any) -> BaseException | None:
    """Keep what a server sent; the error if that was something else."""
    remote, count = one.remote, one.end - one.begin
    if not isinstance(data, BaseException):
        if len(data) == count:
            remote.keep(one.run, bytes(data))
            return None
        if len(data) == remote.size:  # a server that knows no ranges sends all of it
            remote.keep(np.arange(-(-remote.size // BLOCK)), bytes(data))
            return None
        data = OSError(errno.EIO, f"requested {count} bytes, {len(data)} came")
    error: Any = data
    error._url = remote.url  # `call_with_retries` reads it
    return error  # type: ignore[no-any-return]  # an exception


def _open_cache_file(path: str) -> int:
    """Open or create a file of the cache, and lock it against removal."""
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | SAFE, 0o600)
        flock(fd, "LOCK_SH")
        if os.fstat(fd).st_nlink:
            return fd
        os.close(fd)  # it was removed in between


def _close_files(*fds: int) -> None:
    for fd in fds:
        with suppress(OSError):
            os.close(fd)


def _evict(folder: str, limit: int) -> None:
    """Remove the least recently opened files until the rest is within the limit; files in use stay."""
    found: list[tuple[float, int, str]] = []
    for name in os.listdir(folder):
        with suppress(FileNotFoundError):
            about = os.stat(os.path.join(folder, name))
            found.append((about.st_mtime, getattr(about, "st_blocks", about.st_size // 512) * 512, name))
    total = sum([size for _, size, _ in found])
    for _, size, name in sorted(found):
        if total <= limit:
            return
        if name.endswith(".data") and _remove_if_unused(os.path.join(folder, name)):
            total -= size


def _remove_if_unused(path: str) -> bool:
    with suppress(OSError):
        fds = [os.open(other, os.O_RDWR | SAFE) for other in (path, f"{path[:-5]}.map")]
        try:
            for fd in fds:
                flock(fd, "LOCK_EX", "LOCK_NB")
            os.unlink(path)
            os.unlink(f"{path[:-5]}.map")
            return True
        finally:
            _close_files(*fds)
    return False


def remote(url: str, again: bool = False, fixed: tuple[int, str] | None = None) -> Remote:
    """The remote file at a URL, opened if it isn't open; `again` checks for a new version; see `Remote`."""
    key = url, fixed is not None  # a reader that looked for a new version has another local file
    found = None if again else _OPEN.get(key)
    if found is None:
        found = _OPEN[key] = Remote(url, fixed)
        _OPEN[_identity(found.fd)] = found
        _RECENT.append(found)
    return found


def _identity(fd: int) -> tuple[int, int]:
    """What an open file is known by."""
    about = os.fstat(fd)
    return about.st_dev, about.st_ino


def open_remote(url: str, write: bool) -> tuple[int, int]:
    """A descriptor of the local file with holes, and the size of the remote file.

    Raises:
        UnsupportedOperationError: for writing.
        OSError: if the request fails. The message names the URL.
    """
    if write:
        raise UnsupportedOperationError(f"{url}: a remote file can't be written through; `load` maps it for reading")
    found = remote(url, True)
    return os.dup(found.fd), found.size


def fetch(path: str, fd: int, ranges: Iterable[tuple[int, int]]) -> None:
    """Make some bytes of an open file available locally; does nothing for a local file.

    Raises:
        OSError: if the request fails. The message names the URL.
    """
    if not is_url(path):
        return
    key = _identity(fd)
    found = _OPEN.get(key) or remote(path)
    if _identity(found.fd) != key:
        raise _replaced_error(path)
    found.need(ranges)


def forget(path: str, fd: int) -> None:
    """Drop what the cache has of a file that turned out to be damaged; does nothing for a local file."""
    found = _OPEN.get(_identity(fd)) if is_url(path) else None
    if found is not None:
        found.forget()


def _replaced_error(url: str) -> OSError:
    return OSError(errno.ESTALE, "the file was replaced while it was read; read it again", url)


def exists(url: str) -> bool:
    """Whether there is a file at a URL."""
    store, path = store_at(url)
    return bool(call_with_retries(url, "looking it up", lambda: store.exists(path)))


def names_in(url: str) -> list[str]:
    """The names in a remote folder.

    Raises:
        OSError: if the request fails, or if the server can't list folders. The message names the URL.
    """
    store, path = store_at(f"{url.rstrip('/')}/")
    found = call_with_retries(url, "listing it", lambda: store.ls(path, detail=False))
    return sorted({name.rstrip("/").rpartition("/")[2] for name in found})


def read_whole(url: str, most: int) -> bytes:
    """The content of a small remote file, in one request; one byte more than `most` of a longer one.

    Raises:
        OSError: if the request fails. The message names the URL.
    """

    def read() -> bytes:
        store, path = store_at(url)
        return bytes(store.cat_file(path, start=0, end=most + 1))

    return call_with_retries(url, "reading it", read)


class Version(NamedTuple):
    """The content of a small remote file, None if there is none, and what identifies it for the store."""

    data: bytes | None
    tag: Any


def read_version(url: str) -> Version:
    """The content of a small remote file, and its version.

    Raises:
        OSError: if the request fails. The message names the URL.
    """

    def read() -> Version:
        store, path = store_at(url)
        while True:
            store.invalidate_cache()
            tag = _etag(store, path)
            data = store.cat_file(path)
            if tag is None or _etag(store, path) == tag:
                return Version(data, tag or data)

    try:
        return call_with_retries(url, "reading it", read)
    except FileNotFoundError:
        return Version(None, None)


def _etag(store: Any, path: str) -> Any:
    """The tag of a file in S3; None in other stores."""
    if not hasattr(store, "call_s3"):
        return None
    store.invalidate_cache()
    return store.info(path)["ETag"]


def replace_version(url: str, before: Version, data: bytes) -> Version | None:
    """Replace a small remote file if it is still a known version; None if somebody else has replaced it.

    S3 compares the versions itself. In other stores the file is read again just before.

    Raises:
        UnsupportedOperationError: for http.
        OSError: if the request fails. The message names the URL.
    """

    def replace() -> Version | None:
        store, path = store_at(url)
        try:
            if hasattr(store, "call_s3"):
                return Version(data, _put_if(store, path, before.tag, data))
            if read_version(url).tag == before.tag:
                upload_bytes(data, url)
                return Version(data, data)
        except TensorClassError:
            raise
        except Exception:  # every store has its own errors; an answer may also be lost after the file was replaced
            if read_version(url) == before:
                raise
        now = read_version(url)
        return now if now.data == data else None

    return call_with_retries(url, "replacing it", replace)


def _put_if(store: Any, path: str, tag: Any, data: bytes) -> Any:
    """Put a file to S3 on a condition; returns its new tag."""
    bucket, key, _ = store.split_path(path)
    condition = {"IfNoneMatch": "*"} if tag is None else {"IfMatch": tag}
    return store.call_s3("put_object", Bucket=bucket, Key=key, Body=data, **condition)["ETag"]


def refuse_http(url: str) -> None:
    """Refuse to write to a web server.

    Raises:
        UnsupportedOperationError: names the URL.
    """
    if url.partition("://")[0] in ("http", "https"):
        raise UnsupportedOperationError(f"{url}: http servers take no files; save to a store, or to disk")


def upload_bytes(data: bytes, url: str) -> None:
    """Upload bytes to a URL; see `upload`."""
    with NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        upload(file.name, url)


def upload(local: str, url: str) -> None:
    """Upload a file to a URL, as a whole or not at all.

    Raises:
        UnsupportedOperationError: for http.
        OSError: if the request fails. The message names the URL.
    """
    refuse_http(url)
    store, path = store_at(url)
    if url.partition("://")[0] in _ATOMIC:
        call_with_retries(url, "uploading", lambda: store.put_file(local, path))
        return
    temporary = f"{path}.{token_hex(8)}.tmp"
    try:
        store.makedirs(path.rpartition("/")[0], exist_ok=True)
        call_with_retries(url, "uploading", lambda: store.put_file(local, temporary))
        call_with_retries(url, "renaming", lambda: store.mv(temporary, path))
    except BaseException:  # also on an interrupt, so that nothing is left behind
        with suppress(Exception):  # it may not be there
            store.rm_file(temporary)
        raise
