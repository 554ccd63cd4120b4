"""Locks that a forked process can take, whoever held them when it was forked: the thread that did is not in it."""

from __future__ import annotations

import os
from typing import Any, TypeVar
from weakref import WeakSet

L = TypeVar("L")
_LOCKS: WeakSet[Any] = WeakSet()


def forked(lock: L) -> L:
    """A lock of `threading`, which is open in a process that was forked.

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
