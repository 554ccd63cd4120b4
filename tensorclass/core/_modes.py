"""Settings: a value for a block in one thread or task, or for the process; readable in compiled code."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import ContextDecorator
from contextvars import ContextVar, Token
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

from torch.compiler import is_dynamo_compiling
from typing_extensions import Self

from .._flags import flags
from ..errors import ArgumentError

T = TypeVar("T")
Entered: TypeAlias = "Token[tuple[T, bool] | None] | None"
"""The token to end a block; None in compiled code."""


class Setting(Generic[T]):
    """A value that is set for a block, in one thread or task, or for the process, and that `torch.compile` can trace.

    Dynamo can't read a ContextVar. A block inside a compiled function is tracked in `traced`. If a block is open
    outside of it, dynamo sees `open` and falls back to eager code (an error with `fullgraph=True`), since threads share
    compiled code. A graph break in a compiled block exposes its value to other threads until it ends.
    """

    def __init__(self, name: str, default: T) -> None:
        self.default = default
        """The value outside all blocks; `keep` replaces it."""
        self.kept = False
        """Whether `keep` set the value of the process."""
        self.used = False
        """Whether a block or `keep` has ever set another value than the default; tasks keep those of ended blocks."""
        self.variable: ContextVar[tuple[T, bool] | None] = ContextVar(f"tensorclass.{name}", default=None)
        """The value of the innermost block, and whether the block has an item in `open`."""
        self.open: list[None] = []
        """One item for each open block, in all threads, with a value other than the default."""
        self.traced: list[T] = []

    def get(self) -> T:
        """The current value."""
        if self.traced:
            return self.traced[-1]
        if not self.used:
            return self.default
        inside = self.variable.get() if self.open or not is_dynamo_compiling() else None
        return self.default if inside is None else inside[0]

    def enter(self, value: T) -> Entered[T]:
        """Start a block."""
        if is_dynamo_compiling():
            self.traced.append(value)
            return None
        return self.begin(value)

    def begin(self, value: T) -> Entered[T]:
        """Set the value until `leave`; in compiled code only `enter` can be traced."""
        counts = value is not self.default or self.kept
        if counts:
            self.used = True
            self.open.append(None)
        return self.variable.set((value, counts))

    def leave(self, entered: Entered[T]) -> None:
        """End the block that `enter` started."""
        if entered is None:
            self.traced.pop()
            return
        inside = self.variable.get()
        self.variable.reset(entered)
        if inside is not None and inside[1]:
            self.open.pop()

    def keep(self, value: T) -> Callable[[], None]:
        """Set the value from now on: to the end of the open block of this thread, else for the process.

        Returns:
            A function that restores the value before.
        """
        self.used = True
        inside = self.variable.get()
        if inside is not None:
            before_it = inside[0]
            self._set_inside(value)
            return lambda: self._set_inside(before_it)
        before = self.default, self.kept
        self.default, self.kept = value, True
        return lambda: self._restore(*before)

    def _set_inside(self, value: T) -> None:
        """Set the value of the innermost block."""
        inside = self.variable.get()
        counted = inside is not None and inside[1]
        if (value is not self.default or self.kept) and not counted:
            self.open.append(None)
            counted = True
        self.variable.set((value, counted))

    def _restore(self, default: T, kept: bool) -> None:
        self.default, self.kept = default, kept


class Block(ContextDecorator, Generic[T]):
    """A setting for a block of code, or for each call of a decorated function, only in this thread or task."""

    _setting: ClassVar[Setting[Any]]

    def __init__(self, mode: T) -> None:
        self.mode = mode
        self._entered: list[Entered[T]] = []

    def clone(self) -> Self:
        """A new block with the same setting."""
        new = copy.copy(self)
        new._entered = []
        return new

    def set(self) -> None:
        """Apply the setting from now on: inside a block to its end, else in all threads of the process."""
        if self._setting.get() is not self.mode:
            self._setting.keep(self.mode)

    def __enter__(self) -> Self:
        self._entered.append(self._setting.enter(self.mode))
        return self

    def __exit__(self, *_: object) -> None:
        self._setting.leave(self._entered.pop())

    def _recreate_cm(self) -> Self:
        return self.clone()  # a new block, so that calls in two threads share no state


@flags
class Mode(Block[bool]):
    """A bool for a block (`with`), for a function (as a decorator), or from now on (`.set()`)."""

    def __init__(self, mode: bool | None) -> None:  # None is False, as in `tensordict`
        if not isinstance(mode, bool | None):
            raise ArgumentError(f"{type(self).__name__} takes True or False, got {mode!r:.200}")
        super().__init__(bool(mode))

    @classmethod
    def current(cls, allow_none: bool = False) -> bool | None:
        """The current mode; with `allow_none`, None if it was not set."""
        unset = allow_none and not cls._setting.kept and cls._setting.variable.get() is None
        return None if unset else cls._setting.get()
