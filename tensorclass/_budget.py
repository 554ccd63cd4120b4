"""How much memory reading may take. Sizes that untrusted input states are checked before anything is allocated.

A function that reads opens a budget; whatever allocates on its behalf calls `reserve` first. Budgets belong to the
context of a call, so that threads don't share them. Don't open one around a `yield`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from .errors import ArgumentError, MemoryBudgetError

RATIO = 128
"""Bytes of memory for each byte of the input, by default."""
LEAST = 2**27
"""Bytes of memory for any input, by default: 128 MiB."""


class Budget:
    """The memory that one read may take.

    Args:
        max_bytes: the limit in bytes; None for `RATIO` times the size of the input, and at least `LEAST`.
        given: the size of the input in bytes, or a function that measures it, which is only called for large reads.
        path: for messages.
    """

    __slots__ = ("_given", "_most", "met", "path", "used")

    def __init__(self, max_bytes: int | None, given: int | Callable[[], int] = 0, path: Any = None) -> None:
        if max_bytes is not None and (not isinstance(max_bytes, int) or isinstance(max_bytes, bool) or max_bytes < 0):
            raise ArgumentError(
                f"`max_bytes` is a whole number from 0, or None for a limit by the input's size, got {max_bytes!r:.40}"
            )
        self._most, self._given = max_bytes, given
        self.path = path
        self.used = 0
        self.met: Counter[Any] = Counter()
        """How often each thing was met. Links can make one thing look like many."""

    def most(self) -> int:
        """The limit in bytes."""
        if self._most is not None:
            return self._most
        return max(LEAST, RATIO * (self._given() if callable(self._given) else self._given))

    def reserve(self, size: int, what: str | Callable[[], str]) -> None:
        """Take some bytes from the budget.

        Raises:
            MemoryBudgetError: if it has fewer left; names what was to be read, its size, the limit and the remedy.
        """
        self.used += size
        if self.used <= (LEAST if self._most is None else self._most):
            return
        most = self.most()
        if self.used > most:
            total = f", {self.used} with what was read before" if self.used != size else ""
            origin = "" if self._most is not None else f" ({RATIO} times the size of the input, at least {LEAST})"
            asked = f"{what() if callable(what) else what} would take {size} bytes of memory{total}"
            remedy = f"If you trust the source, raise the limit: `max_bytes={max(self.used, 1)}` or more"
            raise MemoryBudgetError(f"{asked}; reading may take {most}{origin}. {remedy}", self.path)


_NOW: ContextVar[Budget | None] = ContextVar("tensorclass_budget", default=None)


@contextmanager
def budget(max_bytes: int | None, given: int | Callable[[], int] = 0, path: Any = None) -> Iterator[None]:
    """A block in which `reserve` counts; see `Budget`. Inside another such block, the budget of that one holds.

    >>> with budget(100):
    ...     reserve(120, "the part")
    Traceback (most recent call last):
    tensorclass.errors.MemoryBudgetError: the part would take 120 bytes of memory; reading may take 100. If you trust \
the source, raise the limit: `max_bytes=120` or more
    """
    made = Budget(max_bytes, given, path)
    if _NOW.get() is not None:
        yield
        return
    token = _NOW.set(made)
    try:
        yield
    finally:
        _NOW.reset(token)


def reserve(size: int, what: str | Callable[[], str]) -> None:
    """Take bytes from the budget of the read that is going on, before they are allocated; see `Budget.reserve`."""
    now = _NOW.get()
    if now is not None:
        now.reserve(size, what)


def allowed() -> int:
    """The limit of the read that is going on, in bytes."""
    now = _NOW.get()
    return LEAST if now is None else now.most()


def times_met(thing: Any) -> int:
    """How often the read that is going on has met a thing, now included."""
    now = _NOW.get()
    if now is None:
        return 1
    now.met[thing] += 1
    return now.met[thing]
