"""Locks between processes. A lock ends with the process that holds it; forked children don't hold it."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from weakref import WeakSet

from .._system import SAFE, call_in_forks, flock
from ..core import Turn, in_turn
from ._atomic import naming


class FileLock:
    """An exclusive or shared lock on a file, which is created. It also excludes other locks of this process.

    Threads may share it: the first call of `release` releases it, others do nothing.

    Args:
        path: the file.
        shared: take a shared lock, which other shared locks don't exclude.
        wait: wait for the lock; otherwise a held lock is an error.

    Raises:
        BlockingIOError: if the lock is held elsewhere.
        OSError: if the file can't be used. The message names the path.
    """

    def __init__(self, path: str, shared: bool = False, wait: bool = False) -> None:
        self._fd, self._turn = -1, Turn()
        with naming(path):
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | SAFE, 0o666)
            try:
                flock(self._fd, "LOCK_SH" if shared else "LOCK_EX", *(() if wait else ("LOCK_NB",)))
            except OSError as error:
                self.forget()
                if error.errno in (errno.EAGAIN, errno.EACCES):
                    raise BlockingIOError(errno.EAGAIN, "another writer holds the lock", path) from None
                raise
        _HELD.add(self)

    @in_turn
    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        if self._fd >= 0:  # a child that was just forked may not have closed its own yet
            with suppress(OSError):  # closing the file releases it too
                flock(self._fd, "LOCK_UN")
        self.forget()

    @in_turn
    def forget(self) -> None:
        """Close the descriptor without a release; another process holds the lock."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __enter__(self) -> FileLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def __del__(self) -> None:
        self.release()


_HELD: WeakSet[FileLock] = WeakSet()


def _forget() -> None:
    """Close the descriptors in a forked child, so that the locks end with the parent."""
    for lock in list(_HELD):
        lock.forget()


call_in_forks(_forget)
