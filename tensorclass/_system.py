"""What differs between operating systems: folders by descriptor, places in files, locks, maps, processes.

The tests run on Linux. macOS and Windows lack some of these functions. Each has another way, which the tests run on
Linux with the functions taken away. No other file asks which system it is on.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import mmap
import os
import signal
import socket
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from tempfile import TemporaryFile
from threading import RLock
from typing import Any, TypeVar
from weakref import WeakSet

try:
    import fcntl
except ImportError:  # no such module on Windows
    fcntl = None  # type: ignore[assignment]

L = TypeVar("L")
LINUX = sys.platform == "linux"
WINDOWS = os.name == "nt"
PLAIN = sum([getattr(os, name, 0) for name in ("O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY", "O_BINARY", "O_NOINHERIT")])
"""Flags of every file: nothing blocks, no child inherits it, and bytes stay as they are."""
SAFE = PLAIN | getattr(os, "O_NOFOLLOW", 0)
"""Flags of files that are not named by users: links are not followed either."""
_NAMES_FROM_FOLDERS = {os.open, os.stat, os.unlink} <= os.supports_dir_fd
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
_VECTORS = 1024
"""The most buffers of one system call."""
_FAILED = ctypes.c_void_p(-1).value
_NORESERVE = 0x4000 if LINUX else 0
_LOCKS: WeakSet[Any] = WeakSet()


def call_in_forks(function: Callable[[], object]) -> None:
    """Call a function at the start of every forked process, where the system forks."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=function)


def release_in_forks(lock: L) -> L:
    """Register a lock of `threading`, so that it is released in forked processes: its thread isn't there.

    >>> import threading
    >>> with release_in_forks(threading.Lock()):
    ...     pass
    """
    _LOCKS.add(lock)
    return lock


def _open_again() -> None:
    for lock in list(_LOCKS):
        lock._at_fork_reinit()


call_in_forks(_open_again)
_SEEKING = release_in_forks(RLock())
"""Held while the position of a descriptor is moved, where reads take no offset."""


def by_descriptor() -> bool:
    """Whether files can be named relative to the descriptor of a folder, so that nobody swaps the folder in between."""
    return not WINDOWS and _NAMES_FROM_FOLDERS


class Folder:
    """An open folder; where the system opens none, its path."""

    def __init__(self, path: str) -> None:
        self.path, self.fd = path, os.open(path, _FOLDER) if by_descriptor() else -1
        self._at: dict[str, Any] = {"dir_fd": self.fd} if self.fd >= 0 else {}

    def place_of(self, name: str) -> str:
        """What system calls take for a name in the folder."""
        return name if self._at else os.path.join(self.path, name)

    def open(self, name: str, flags: int) -> int:
        """A descriptor of a file in the folder."""
        return os.open(self.place_of(name), flags | SAFE, 0o666, **self._at)

    def mode_of(self, name: str) -> int:
        """The kind and the permissions of a file; of a link, its own."""
        return os.stat(self.place_of(name), follow_symlinks=False, **self._at).st_mode

    def remove(self, name: str) -> None:
        """Remove a file."""
        os.unlink(self.place_of(name), **self._at)

    def names(self) -> list[str]:
        """The names in the folder."""
        return os.listdir(self.fd if self._at else self.path)

    def replace(self, old: str, new: str) -> None:
        """Rename a file over another; Windows renames no open file, and replaces none."""
        if self._at:
            os.replace(old, new, src_dir_fd=self.fd, dst_dir_fd=self.fd)
            return
        try:
            os.replace(self.place_of(old), self.place_of(new))
        except PermissionError as error:
            text = f"{error.strerror}: Windows replaces no file that is open or mapped; free what was loaded from it"
            raise PermissionError(error.errno, text, os.path.join(self.path, new)) from error

    def sync(self) -> None:
        """Flush the names to disk."""
        if self._at:
            os.fsync(self.fd)

    def close(self) -> None:
        """Close the descriptor."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)


# ---- places in a file ------------------------------------------------------------------------------------------------


def read_into(fd: int, buffers: Sequence[Any], offset: int) -> int:
    """Fill buffers from a place in a file; the number of bytes, 0 at the end of the file."""
    if hasattr(os, "preadv"):
        return os.preadv(fd, buffers[:_VECTORS], offset)
    data = read_part(fd, len(buffers[0]), offset)
    memoryview(buffers[0]).cast("B")[: len(data)] = data
    return len(data)


def read_part(fd: int, count: int, offset: int) -> bytes:
    """At most so many bytes from a place in a file."""
    if hasattr(os, "pread"):
        return os.pread(fd, count, offset)
    with _moved_to(fd, offset):
        return os.read(fd, count)


def write_part(fd: int, data: bytes, offset: int) -> int:
    """Write at a place in a file; the number of bytes."""
    if hasattr(os, "pwrite"):
        return os.pwrite(fd, data, offset)
    with _moved_to(fd, offset):
        return os.write(fd, data)


@contextmanager
def _moved_to(fd: int, offset: int) -> Iterator[None]:
    """Move the position of a descriptor for the time of a block."""
    with _SEEKING:
        before = os.lseek(fd, 0, os.SEEK_CUR)
        os.lseek(fd, offset, os.SEEK_SET)
        try:
            yield
        finally:
            os.lseek(fd, before, os.SEEK_SET)


def write_buffers(fd: int, buffers: Sequence[Any]) -> int:
    """Write buffers, at the end of what was written; the number of bytes."""
    return os.writev(fd, buffers[:_VECTORS]) if hasattr(os, "writev") else os.write(fd, buffers[0])


# ---- maps ------------------------------------------------------------------------------------------------------------


@functools.cache
def libc() -> Any:
    """The C library, whose `mmap` keeps no descriptor open, unlike that of Python."""
    found = ctypes.CDLL(None, use_errno=True)
    address, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    found.mmap.restype = address
    found.mmap.argtypes = [address, size, number, number, number, ctypes.c_longlong]
    found.munmap.argtypes = [address, size]
    if LINUX:
        found.madvise.argtypes = [address, size, number]
        found.mincore.argtypes = [address, size, address]
    return found


def map_whole(fd: int, size: int, write: bool) -> Any:
    """A whole file as a buffer that stays mapped as long as something refers to it; an error number if that fails."""
    if WINDOWS:
        view = mmap.mmap(fd, size, access=mmap.ACCESS_WRITE if write else mmap.ACCESS_COPY)
        return (ctypes.c_ubyte * size).from_buffer(view)
    flags = mmap.MAP_SHARED if write else mmap.MAP_PRIVATE | _NORESERVE
    address = libc().mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, fd, 0)
    if address == _FAILED:
        return ctypes.get_errno()
    buffer = (ctypes.c_ubyte * size).from_address(address)
    weakref.finalize(buffer, libc().munmap, address, size).atexit = False  # tensors may outlive the interpreter's end
    return buffer


def expect_of_map(address: int, size: int, what: str) -> None:
    """Tell the system how a map will be read, with the name of a constant such as "MADV_RANDOM", if it listens."""
    if LINUX:
        libc().madvise(address, size, getattr(mmap, what))


def expect_of_file(fd: int, size: int, what: str) -> None:
    """The same for the first bytes of a file, such as "POSIX_FADV_RANDOM"; size 0 is the whole file."""
    if hasattr(os, "posix_fadvise"):
        with suppress(OSError):
            os.posix_fadvise(fd, 0, size, getattr(os, what))


def page_is_here(address: int) -> bool:
    """Whether the page of a mapped byte is in the page cache; True if the system can't tell."""
    found = ctypes.c_ubyte(1)
    start = address // mmap.PAGESIZE * mmap.PAGESIZE
    return not LINUX or bool(libc().mincore(start, 1, ctypes.byref(found))) or bool(found.value & 1)


# ---- names, locks, processes -----------------------------------------------------------------------------------------


def exchange(one: str, other: str) -> bool:
    """Exchange the names of two files or folders in one step; False if the system can't."""
    here = -100  # AT_FDCWD: paths are from the working directory
    swap = getattr(libc(), "renameat2", None) if LINUX else None
    return swap is not None and swap(here, os.fsencode(one), here, os.fsencode(other), 2) == 0  # RENAME_EXCHANGE


def sync_path(path: str) -> None:
    """Flush a file or a folder to disk; Windows opens no folder, and flushes only what is open for writing."""
    if WINDOWS and os.path.isdir(path):
        return
    fd = os.open(path, (os.O_RDWR if WINDOWS else os.O_RDONLY) | getattr(os, "O_BINARY", 0))
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def flock(fd: int, *how: str) -> None:
    """Lock a file, or unlock it, with these constants of `fcntl`. A system without them has no such locks."""
    if fcntl is not None:
        fcntl.flock(fd, sum([getattr(fcntl, name) for name in how]))


def process_lives(pid: int) -> bool:
    """Whether a process with this id runs on this machine. On Windows the question would stop it: true of all."""
    if WINDOWS:
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True


def can_send_descriptors() -> bool:
    """Whether a descriptor goes through a pipe to another process. Windows sends handles, in another way."""
    return not WINDOWS and hasattr(socket, "SCM_RIGHTS")


def memory_file() -> Any:
    """An open file without a name, in memory where the system has such files."""
    return os.fdopen(os.memfd_create("tensorclass"), "w+b") if hasattr(os, "memfd_create") else TemporaryFile()


def allocate(fd: int, size: int) -> None:
    """Give a file that size, and take space on the disk for it where the system can."""
    try:
        os.posix_fallocate(fd, 0, size)
    except (AttributeError, OSError) as error:
        if isinstance(error, OSError) and error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
            raise
        os.ftruncate(fd, size)


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def is_killed(exit_code: int | None) -> bool:
    """Whether a process that ended with this code was killed, as the system does when it runs out of memory."""
    return exit_code is not None and exit_code == -getattr(signal, "SIGKILL", 9)
