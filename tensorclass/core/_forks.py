"""Objects that threads call in turns."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from functools import wraps
from threading import RLock
from typing import Any, TypeVar

from .._system import release_in_forks

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


class Turn:
    """The lock of an object whose methods threads call in turns. A copy or a pickle of it is a new lock.

    >>> with Turn():
    ...     pass
    """

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = release_in_forks(RLock())

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def __reduce__(self) -> Any:
        return Turn, ()


def in_turn(method: F) -> F:
    """A method that holds the `Turn` in the attribute `_turn` of its object."""

    @wraps(method)
    def alone(self: Any, *args: Any, **kwargs: Any) -> Any:
        with self._turn:
            return method(self, *args, **kwargs)

    return alone  # type: ignore[return-value]  # it has the signature of the method


class InTurn(Iterator[T]):
    """A generator that threads may share: each item goes to one of them.

    Args:
        items: the generator.
        turn: the lock that is held while an item is made.

    >>> list(InTurn((letter for letter in "ab"), Turn()))
    ['a', 'b']
    """

    def __init__(self, items: Generator[T, None, None], turn: Turn) -> None:
        self._items, self._turn = items, turn

    @in_turn
    def __next__(self) -> T:
        return next(self._items)

    @in_turn
    def close(self) -> None:
        """End the generator."""
        self._items.close()
