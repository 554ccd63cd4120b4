"""Settings for a block of code: one value per thread or task, readable in compiled code."""

from __future__ import annotations

import copy
import threading
from contextlib import ContextDecorator
from contextvars import ContextVar, Token
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

from torch.compiler import is_dynamo_compiling
from typing_extensions import Self

from .._flags import flags
from ..errors import ArgumentError
from ._forks import forked

T = TypeVar("T")
Entered: TypeAlias = "tuple[Token[T], bool] | None"
"""The data to end a block: its token, and whether it counts as open; None in compiled code."""
_LOCK = forked(threading.Lock())


class Setting(Generic[T]):
    """A value that is set for a block, in one thread or task, and that `torch.compile` can trace.

    Dynamo can't read a ContextVar. A block inside a compiled function is tracked in `traced`. If a block is open
    outside of it, dynamo sees `open` and falls back to eager code (an error with `fullgraph=True`), since threads share
    compiled code. A graph break in a compiled block exposes its value to other threads until it ends.
    """

    def __init__(self, name: str, default: T) -> None:
        self.default = default
        self.variable: ContextVar[T] = ContextVar(f"tensorclass.{name}", default=default)
        self.open = 0
        """The number of open blocks in all threads with a value other than the default."""
        self.traced: list[T] = []

    def get(self) -> T:
        """The current value."""
        if self.traced:
            return self.traced[-1]
        return self.variable.get() if self.open or not is_dynamo_compiling() else self.default

    def enter(self, value: T) -> Entered[T]:
        """Start a block."""
        if is_dynamo_compiling():
            self.traced.append(value)
            return None
        return self.begin(value)

    def begin(self, value: T) -> Entered[T]:
        """Set the value until `leave`; in compiled code only `enter` can be traced."""
        counts = value is not self.default and value != self.default
        if counts:
            with _LOCK:
                self.open += 1
        return self.variable.set(value), counts

    def leave(self, entered: Entered[T]) -> None:
        """End the block that `enter` started."""
        if entered is None:
            self.traced.pop()
            return
        self.variable.reset(entered[0])
        if entered[1]:
            with _LOCK:
                self.open -= 1


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

    def __init__(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise ArgumentError(f"{type(self).__name__} takes True or False, got {mode!r:.200}")
        super().__init__(mode)

    def set(self) -> None:
        """Apply the mode from now on, in this thread or task; no effect if it is already set."""
        if self._setting.get() is not self.mode:
            self._setting.begin(self.mode)

    @classmethod
    def current(cls, allow_none: bool = False) -> bool | None:
        """The current mode; with `allow_none`, None if it was not set."""
        mode: bool | None = cls._setting.variable.get(None) if allow_none else cls._setting.get()
        return mode
