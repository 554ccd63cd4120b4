"""Thread CPU time of compiled statements: wall time on a shared machine measures its neighbours."""

from __future__ import annotations

import ast
import gc
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Any

import torch

ONCE = "def once({names}):\n{body}\n"
LOOP = "def loop(_count, {names}):\n    for _ in _count:\n{body}\n"
BODY = "def body({names}):\n{body}\n"


def _indent(text: str, by: int) -> str:
    return "\n".join(" " * by + line for line in text.splitlines())


def is_expression(text: str) -> bool:
    """Whether source has a value."""
    try:
        ast.parse(text, mode="eval")
    except SyntaxError:
        return False
    return True


def returning(text: str) -> str:
    """Source that returns its value, or `x` after a statement."""
    return f"return {text}" if is_expression(text) else f"{text}\nreturn x"


class Statement:
    """A statement over names, ready to be run once for its value and many times for its time."""

    def __init__(self, text: str, names: dict[str, Any]) -> None:
        self._names = names
        parameters = ", ".join(names)
        self._once = self._define(ONCE.format(names=parameters, body=_indent(returning(text), 4)), "once")
        self._loop = self._define(LOOP.format(names=parameters, body=_indent(text, 8)), "loop")
        self.count = 1

    def _define(self, source: str, name: str) -> Callable[..., Any]:
        namespace: dict[str, Any] = {}
        exec(compile(source, f"<benchmark {name}>", "exec"), namespace)
        function: Callable[..., Any] = namespace[name]
        return function

    def once(self) -> Any:
        """Run it and return its value."""
        return self._once(**self._names)

    def nanoseconds(self, count: int) -> int:
        """Thread CPU time of `count` runs."""
        loop, names = self._loop, self._names
        gc.disable()
        try:
            start = time.thread_time_ns()
            loop(repeat(None, count), **names)
            return time.thread_time_ns() - start
        finally:
            gc.enable()

    def calibrate(self, round_ns: int) -> None:
        """Choose how many runs make one round."""
        self.count = 1
        while (spent := self.nanoseconds(self.count)) < round_ns // 4:
            self.count *= 4
        self.count = max(1, round(self.count * round_ns / max(spent, 1)))


def medians(statements: Sequence[Statement], rounds: int, round_ns: int) -> list[float]:
    """Nanoseconds of one run of each statement: they take turns, and the median of the rounds counts."""
    for statement in statements:
        statement.calibrate(round_ns)
    times: list[list[float]] = [[] for _ in statements]
    for _ in range(rounds):
        for statement, found in zip(statements, times, strict=True):
            found.append(statement.nanoseconds(statement.count) / statement.count)
    return [statistics.median(found) for found in times]


def compiled(text: str, data: Iterable[str], others: dict[str, Any], backend: str) -> Callable[..., Any]:
    """The statement as a function of its data under `torch.compile`; other names are globals, as in a program."""
    namespace: dict[str, Any] = {"__name__": __name__, **others}  # dynamo imports the module of a function
    source = BODY.format(names=", ".join(data), body=_indent(returning(text), 4))
    exec(compile(source, "<benchmark body>", "exec"), namespace)
    function: Callable[..., Any] = torch.compile(namespace["body"], fullgraph=True, backend=backend)
    return function
