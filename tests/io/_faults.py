"""A stand-in for `os` in `tensorclass.io._atomic`: a fault at one chosen call, or the death of the process."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tensorclass import _system
from tensorclass.io import _atomic

CALLS = (
    "open", "close", "fstat", "stat", "listdir", "unlink", "writev", "pwrite", "preadv", "fsync", "replace", "mkdir",
)  # fmt: skip
"""The functions that reach the system; what else is used (paths, process numbers) does not."""


class Killed(BaseException):
    """The process is dead: nothing that follows has an effect."""


class Faulty:
    """`os`, whose calls are counted.

    Args:
        at: the number of the call at which something happens; -1 for never.
        fault: what happens: an exception to raise in place of the call, or `Killed`, after which every call fails.
        only: the name of the function whose calls count; all of them when empty.
    """

    def __init__(self, at: int = -1, fault: BaseException | None = None, only: str = "") -> None:
        self.at, self.fault, self.only = at, fault, only
        self.calls: list[str] = []
        self.dead = False
        self._open: set[int] = set()

    def __getattr__(self, name: str) -> Any:
        found = getattr(os, name)
        return self._watched(name, found) if name in CALLS else found

    def _watched(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if self.dead:
                raise Killed
            if not self.only or name == self.only:
                self.calls.append(name)
                if len(self.calls) - 1 == self.at and self.fault is not None:
                    self._strike()
            found = function(*args, **kwargs)
            if name == "open":
                self._open.add(found)
            if name == "close":
                self._open.discard(args[0])
            return found

        return call

    def _strike(self) -> None:
        assert self.fault is not None
        if isinstance(self.fault, Killed):
            self.dead = True
            null = os.open(os.devnull, os.O_RDWR)
            for fd in self._open:  # a dead process has none open; who closes one all the same closes this in its place
                os.dup2(null, fd)
            os.close(null)
        raise self.fault

    def __enter__(self) -> Faulty:
        _atomic.os = _system.os = self  # type: ignore[assignment]  # replaces the module
        return self

    def __exit__(self, *_: Any) -> None:
        if self.dead and self.fault is not None:
            self.fault.__traceback__ = None  # a dead process has nothing mapped either, in no frame
            gc.collect()
        null = os.stat(os.devnull)
        for fd in self._open if self.dead else ():
            with suppress(OSError):
                if os.path.samestat(os.fstat(fd), null):
                    os.close(fd)
        _atomic.os = _system.os = os  # type: ignore[attr-defined]  # as before
