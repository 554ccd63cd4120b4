"""Replace files atomically: write a temporary file in the same folder, fsync it, rename it, fsync the folder.

After a crash at any point, the path holds the old file or the new one. Each folder is opened once and names are looked
up relative to its descriptor, so nobody can swap the folder in between.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from .._places import is_url
from .._system import (
    SAFE,
    Folder,
    allocate,
    exchange,
    flock,
    process_lives,
    read_into,
    sync_path,
    write_buffers,
    write_part,
)
from ..errors import FileFormatError
from ._memory import scatter
from ._remote import fetch, forget, open_remote, remote

_KINDS = {
    stat.S_IFLNK: "a symbolic link", stat.S_IFDIR: "a directory", stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket",
    stat.S_IFBLK: "a device", stat.S_IFCHR: "a device",
}  # fmt: skip
_ERRORS = {stat.S_IFLNK: errno.ELOOP, stat.S_IFDIR: errno.EISDIR}


@contextmanager
def naming(path: str, doing: str = "", others: bool = False) -> Iterator[None]:
    """Add the path, and what was being done, to system errors; with `others`, only to errors without a path."""
    try:
        yield
    except OSError as error:
        if (error.filename == path and not doing) or (others and error.filename is not None):
            raise
        text = f"{error.strerror or error}{f' {doing}' if doing else ''}"
        raise OSError(error.errno or errno.EIO, text, path) from error


def refuse_special(mode: int, path: str) -> None:
    """Refuse everything but a regular file, by the mode that fstat or lstat gave.

    Raises:
        OSError: for links, directories, devices, FIFOs and sockets.
    """
    kind = stat.S_IFMT(mode)
    if kind != stat.S_IFREG:
        way = "; links are not followed: give `os.path.realpath(path)`" if kind == stat.S_IFLNK else ""
        text = f"{_KINDS.get(kind, 'no file')} in place of a file{way}"
        raise OSError(_ERRORS.get(kind, errno.EINVAL), text, path)


def require_file(path: str) -> None:
    """Refuse everything but a regular file before a library opens it, since opening a FIFO would block.

    Links are followed.

    Raises:
        OSError: if the file can't be used. The message names the path.
    """
    with naming(path):
        refuse_special(os.stat(path).st_mode, path)


@contextmanager
def local_file(path: str) -> Iterator[str]:
    """The path of a regular file, for a library that opens paths. A file at a URL is first read whole into the cache.

    Raises:
        OSError: if the file can't be used or read. The message names the path.
    """
    if is_url(path):
        found = remote(path, True)
        found.need([(0, found.size)])
        try:
            yield found.path  # `found` keeps it in the cache
        except FileFormatError:
            found.forget()
            raise
    else:
        require_file(path)
        yield path


def file_bytes(path: str) -> int:
    """The size of a file in bytes."""
    return remote(path).size if is_url(path) else os.stat(path).st_size


def open_file(path: str, write: bool = False) -> tuple[int, int]:
    """A descriptor of a regular file, and its size. Anything else is refused, and links are not followed.

    Raises:
        OSError: if the file can't be used. The message names the path.
    """
    if is_url(path):
        return open_remote(path, write)
    with naming(path):
        try:
            fd = os.open(path, (os.O_RDWR if write else os.O_RDONLY) | SAFE)
        except OSError:
            if os.path.islink(path):
                refuse_special(stat.S_IFLNK, path)
            raise
        try:
            found = os.fstat(fd)
            refuse_special(found.st_mode, path)
            return fd, found.st_size
        except BaseException:  # whatever it is, the descriptor is closed
            os.close(fd)
            raise


@contextmanager
def opened_file(path: str, write: bool = False) -> Iterator[tuple[int, int]]:
    """A block with a descriptor of a regular file, and its size; see `open_file`."""
    fd, size = open_file(path, write)
    try:
        yield fd, size
    except FileFormatError:
        forget(path, fd)
        raise
    finally:
        os.close(fd)


def read_at(fd: int, buffers: Sequence[Any], offset: int, path: str) -> None:
    """Fill buffers from a file, one after the other.

    Raises:
        OSError: if the file can't be read, or ends early. The message names the path.
    """
    left = [buffer for buffer in buffers if len(buffer)]
    if is_url(path):
        fetch(path, fd, [(offset, offset + sum(map(len, left)))])
    with naming(path, f"while reading at byte {offset}"):
        while left:
            count = read_into(fd, left, offset)
            if not count:
                raise OSError(errno.EIO, "the file was cut off", path)
            offset += count
            left = scatter(count, left)


def read_bytes(fd: int, count: int, offset: int, path: str) -> bytes:
    """A part of a file."""
    found = bytearray(count)
    read_at(fd, [found], offset, path)
    return bytes(found)


class Target:
    """A file that is being written under a temporary name; see `replacing`."""

    def __init__(self, path: str, sweep: bool) -> None:
        self.path = path
        self._sweeps = sweep
        self.folder, self.name = os.path.split(path)
        self.temporary = f".{self.name}.{os.getpid()}-{threading.get_ident()}.tmp"
        self.size = 0
        self._owner = os.getpid()
        self.fd = -1
        self._made = False
        self._at: Folder | None = None

    @property
    def _folder(self) -> Folder:
        assert self._at is not None  # `start` was called
        return self._at

    def start(self) -> None:
        """Open the folder and the temporary file; refuse a target that is not a file."""
        with naming(self.folder or "."):
            self._at = Folder(self.folder or ".")
        with naming(self.path):
            with suppress(FileNotFoundError):
                refuse_special(self._folder.mode_of(self.name), self.path)
            if self._sweeps:
                self._sweep()
            self.fd = self._folder.open(self.temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL)
            self._made = True
            flock(self.fd, "LOCK_EX", "LOCK_NB")

    def _sweep(self) -> None:
        """Remove temporary files of this name whose writers are dead.

        A writer may run on another machine, so each file is locked first: the lock fails while its writer lives.
        """
        for entry in self._folder.names():
            if _is_left_behind(entry, self.name, self.temporary):
                self._sweep_one(entry)

    def _sweep_one(self, entry: str) -> None:
        with suppress(OSError):  # another save sweeps as well
            if stat.S_ISDIR(self._folder.mode_of(entry)):
                shutil.rmtree(os.path.join(self.folder or ".", entry), ignore_errors=True)
            fd = self._folder.open(entry, os.O_RDWR)
            try:
                flock(fd, "LOCK_EX", "LOCK_NB")
                self._folder.remove(entry)
            finally:
                os.close(fd)

    def write(self, buffers: Sequence[Any]) -> None:
        """Append buffers."""
        left = [buffer for buffer in buffers if len(buffer)]
        total = sum(map(len, left))
        with naming(self.path, f"while writing {total} bytes behind {self.size}"):
            while left:
                count = write_buffers(self.fd, left)
                self.size += count
                left = scatter(count, left)

    def write_at(self, data: bytes, offset: int) -> None:
        """Overwrite bytes at an offset."""
        with naming(self.path, f"while writing {len(data)} bytes at {offset}"):
            while data:
                count = write_part(self.fd, data, offset)
                data, offset = data[count:], offset + count

    @contextmanager
    def alone(self) -> Iterator[None]:
        """A block in which no other process or thread changes which files make up the folder."""
        self._lock("LOCK_EX")
        try:
            yield
        finally:
            self._lock("LOCK_UN")  # a forked child may still have the descriptor open

    def _lock(self, how: str) -> None:
        with suppress(OSError):  # some file systems lock no folders; there one writer at a time is the rule
            if self._folder.fd >= 0:
                flock(self._folder.fd, how)

    def beside(self) -> list[str]:
        """The names in the folder."""
        with naming(self.folder or "."):
            return self._folder.names()

    def drop(self, name: str) -> None:
        """Remove a file of the folder that nothing refers to any more. If it can't be removed, it stays."""
        with suppress(OSError):
            self._folder.remove(name)

    def commit(self) -> None:
        """Flush the file to disk, and rename it to its final name."""
        with naming(self.path, "while flushing the file to disk"):
            os.fsync(self.fd)
        if self._folder.fd < 0:  # Windows renames no open file
            self._close()
        with naming(self.path):
            self._folder.replace(self.temporary, self.name)
        self.temporary = ""
        with naming(self.folder or ".", f"while flushing the folder to disk; `{self.name}` is there"):
            self._folder.sync()

    def end(self) -> None:
        """Close all descriptors; remove the temporary file unless it was committed."""
        try:
            self._discard()
            self._close()
            self._discard()  # Windows removes no open file
        finally:
            if self._at is not None:
                self._at.close()

    def _discard(self) -> None:
        if self._made and self.temporary and os.getpid() == self._owner:  # a forked child leaves it to its parent
            self.drop(self.temporary)

    def _close(self) -> None:
        fd, self.fd = self.fd, -1
        if fd >= 0:
            with naming(self.path):
                os.close(fd)


@contextmanager
def replacing(path: str, sweep: bool = True, settle: Callable[[Target], None] = Target.commit) -> Iterator[Target]:
    """Write a file in a block; at the end of the block it replaces the path as a whole, or not at all.

    Args:
        path: the file.
        sweep: list the folder, and remove temporary files of dead processes.
        settle: moves the file to its final name.

    Raises:
        OSError: if the file can't be written. It names the path. The old file does not change, and no other file is
            left.
    """
    target = Target(os.path.abspath(path), sweep)
    try:
        target.start()
        yield target
        settle(target)
    finally:
        target.end()


@contextmanager
def replacing_folder(path: str) -> Iterator[str]:
    """Write a folder in a block, under a temporary name; at the end of the block it replaces the path as a whole.

    Raises:
        OSError: if the folder can't be written. It names the path. The old folder does not change, and no other is
            left.
    """
    path = os.path.abspath(path)
    with naming(path), suppress(FileNotFoundError):
        kind = stat.S_IFMT(os.lstat(path).st_mode)
        if kind != stat.S_IFDIR:
            raise NotADirectoryError(errno.ENOTDIR, f"{_KINDS.get(kind, 'a file')} in place of a folder", path)
    with scratch(path) as temporary:
        yield temporary
        with naming(path, "while flushing the folder to disk"):
            for above, _, files in os.walk(temporary, topdown=False):
                for part in [*files, ""]:
                    sync_path(os.path.join(above, part))
            _exchange(temporary, path)
            sync_path(os.path.dirname(path))


@contextmanager
def scratch(path: str, more: str = "") -> Iterator[str]:
    """The name of a temporary folder next to a path.

    The block may create it; it is removed at the end, or by the next writer.

    Raises:
        OSError: names the parent folder, if it is not writable.
    """
    folder, name = os.path.split(os.path.abspath(path))
    temporary = os.path.join(folder, f".{name}.{os.getpid()}-{threading.get_ident()}{more}.tmp")
    with naming(folder):
        for entry in [entry for entry in os.listdir(folder) if _is_left_behind(entry, name, temporary)]:
            shutil.rmtree(os.path.join(folder, entry), ignore_errors=True)
        os.mkdir(temporary)
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _is_left_behind(entry: str, name: str, mine: str) -> bool:
    """Whether a name in a folder is a temporary name of a dead writer."""
    found = re.fullmatch(rf"\.{re.escape(name)}\.(\d+)-\d+\.tmp", entry)
    return found is not None and (entry == os.path.basename(mine) or not process_lives(int(found[1])))


def _exchange(new: str, path: str) -> None:
    """Exchange the names of two folders, in one step if the system supports that."""
    if not os.path.lexists(path):
        os.rename(new, path)
    elif not exchange(new, path):
        aside = f"{new[:-4]}0.tmp"
        os.rename(path, aside)
        os.rename(new, path)
        os.rename(aside, new)


def make_folder(path: str) -> None:
    """Create a folder and its missing parents, and flush each to disk.

    Raises:
        OSError: if the file can't be used. The message names the path.
    """
    if is_url(path) or os.path.isdir(path):  # stores have no folders
        return
    parent = os.path.dirname(os.path.abspath(path))
    make_folder(parent)
    with naming(path):
        with suppress(FileExistsError):  # another process was faster
            os.mkdir(path)
        if not os.path.isdir(path):
            raise NotADirectoryError(errno.ENOTDIR, "a file in place of a folder", path)
        sync_path(parent)


def reserve(fd: int, size: int, path: str) -> None:
    """Allocate disk space before a file is mapped for writing.

    A full disk then raises here; later it would kill the process.

    Raises:
        OSError: if the disk is full. The message names the path and the number of bytes.
    """
    with naming(path, f"while reserving {size} bytes"):
        allocate(fd, size)
