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
Entered: TypeAlias = "tuple[Token[T], bool, Token[int]] | None"
"""The data to end a block: its tokens, and whether it counts as open; None in compiled code."""
_NONE: Any = object()


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
        self.variable: ContextVar[T] = ContextVar(f"tensorclass.{name}")
        self.open: list[None] = []
        """One item for each open block, in all threads, with a value other than the default."""
        self.added: ContextVar[int] = ContextVar(f"tensorclass.{name}.added", default=0)
        """How many more items are there because `keep` was called in the innermost block."""
        self.traced: list[T] = []

    def get(self) -> T:
        """The current value."""
        if self.traced:
            return self.traced[-1]
        return self.variable.get(self.default) if self.open or not is_dynamo_compiling() else self.default

    def enter(self, value: T) -> Entered[T]:
        """Start a block."""
        if is_dynamo_compiling():
            self.traced.append(value)
            return None
        return self.begin(value)

    def begin(self, value: T) -> Entered[T]:
        """Set the value until `leave`; in compiled code only `enter` can be traced."""
        counts = self._counts(value)
        if counts:
            self.open.append(None)
        return self.variable.set(value), counts, self.added.set(0)

    def _counts(self, value: T) -> bool:
        return self.kept or (value is not self.default and value != self.default)

    def leave(self, entered: Entered[T]) -> None:
        """End the block that `enter` started."""
        if entered is None:
            self.traced.pop()
            return
        self.variable.reset(entered[0])
        for _ in range(entered[1] + self.added.get()):
            self.open.pop()
        self.added.reset(entered[2])

    def keep(self, value: T) -> Callable[[], None]:
        """Set the value from now on: to the end of the open block of this thread, else for the process.

        Returns:
            A function that restores the value before.
        """
        inside = self.variable.get(_NONE)
        if inside is not _NONE:
            self._set_inside(value)
            return lambda: self._set_inside(inside)
        before = self.default, self.kept
        self.default, self.kept = value, True
        return lambda: self._restore(*before)

    def _set_inside(self, value: T) -> None:
        """Set the value of the innermost block."""
        if self._counts(value) and not self.added.get():
            self.open.append(None)
            self.added.set(1)
        self.variable.set(value)

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
        setting = self._setting
        self._entered.append(setting.enter(self.mode) if is_dynamo_compiling() else setting.begin(self.mode))
        return self

    def __exit__(self, *_: object) -> None:
        self._setting.leave(self._entered.pop())

    def _recreate_cm(self) -> Self:
        return self.clone()  # a new block, so that calls in two threads share no state


@flags
class Mode(Block[bool]):
    """A bool for a block (`with`), for a function (as a decorator), or from now on (`.set()`)."""

    def __init__(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise ArgumentError(f"{type(self).__name__} takes True or False, got {mode!r:.200}")
        super().__init__(mode)

    @classmethod
    def current(cls, allow_none: bool = False) -> bool | None:
        """The current mode; with `allow_none`, None if it was not set."""
        unset = allow_none and not cls._setting.kept
        mode: bool | None = cls._setting.variable.get(None) if unset else cls._setting.get()
        return mode
