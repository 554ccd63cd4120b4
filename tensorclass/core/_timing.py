"""Measures time by name: a decorator and context manager, and a logger that prints the results."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from threading import Lock
from time import perf_counter
from typing import Any, ClassVar, TypeVar

from typing_extensions import Self

from .._system import release_in_forks

F = TypeVar("F", bound="Callable[..., Any]")

logger: logging.Logger = logging.getLogger("tensorclass")
"""The logger of the package, without a handler and a level."""


class timeit:
    """Measure the time spent in a function or a block, by name.

    Args:
        name: the name under which time is recorded; calls and seconds with the same name add up, over all threads.

    >>> from tensorclass import timeit
    >>> @timeit("step")
    ... def step():
    ...     return 1
    >>> step() + step()
    2
    >>> timeit.calls("step")
    2
    >>> timeit.erase()
    """

    _seconds: ClassVar[dict[str, tuple[int, float]]] = {}
    _lock: ClassVar[Lock] = release_in_forks(Lock())

    def __init__(self, name: str) -> None:
        self.name = name
        self._starts: list[float] = []

    def __call__(self, function: F) -> F:
        """Decorate a function."""

        @wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            with timeit(self.name):
                return function(*args, **kwargs)

        return timed  # type: ignore[return-value]  # same signature

    def __enter__(self) -> Self:
        self._starts.append(perf_counter())
        return self

    def __exit__(self, *exc: object) -> None:
        spent = perf_counter() - self._starts.pop()
        with timeit._lock:
            calls, total = timeit._seconds.get(self.name, (0, 0.0))
            timeit._seconds[self.name] = (calls + 1, total + spent)

    @staticmethod
    def calls(name: str) -> int:
        """The number of measurements of a name."""
        return timeit._seconds.get(name, (0, 0.0))[0]

    @staticmethod
    def print(prefix: str | None = None) -> None:
        """Log the mean and the total time of each name at the level INFO; without a handler, to stderr.

        Args:
            prefix: the prefix of each line.
        """
        with timeit._lock:
            rows = sorted(timeit._seconds.items())
        for name, (calls, total) in rows:
            line = f"{name} took {total / max(calls, 1) * 1e3:.4g} ms on average, {total:.4g} s in {calls} calls"
            text = line if prefix is None else f"{prefix} {line}"
            if logger.hasHandlers():
                logger.info(text)
            else:
                logging.lastResort.emit(logging.LogRecord(logger.name, logging.INFO, "", 0, text, None, None))  # type: ignore[union-attr]  # checked above

    @staticmethod
    def erase() -> None:
        """Delete all measurements."""
        with timeit._lock:
            timeit._seconds.clear()
