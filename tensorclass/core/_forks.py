"""Locks that are released in a forked process, since the thread that held them doesn't exist there."""

from __future__ import annotations

import os
from typing import Any, TypeVar
from weakref import WeakSet

L = TypeVar("L")
_LOCKS: WeakSet[Any] = WeakSet()


def forked(lock: L) -> L:
    """Register a lock of `threading`, so that it is released in forked processes.

    >>> import threading
    >>> with forked(threading.Lock()):
    ...     pass
    """
    _LOCKS.add(lock)
    return lock


def _open_again() -> None:
    for lock in list(_LOCKS):
        lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_open_again)
