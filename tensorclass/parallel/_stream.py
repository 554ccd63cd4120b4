"""Runs the tasks of a map: they finish in any order, and their results come in the order of the tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from ..core import bytes_of
from ..errors import ArgumentError, WorkerError
from ._engines import GRAIN, MOST, Engine, Failed, Group, Job, unwrap_result

HELD = 1 << 28
"""Bytes of results that may wait for an earlier task; while there are more, no further task starts."""
_LEAST = 1 << 10
"""The least bytes that a result counts, for its Python objects."""
_RUNNING: dict[int, object] = {}
"""The engines that run a map, by their ids. A second map would replace the job of the first."""


class _Flight(NamedTuple):
    tasks: list[Any]
    handle: Any


class _Kept(NamedTuple):
    task: Any
    result: Any
    size: int


def ordered(
    engine: Engine, job: Job, tasks: Iterable[Any], workers: int | None, held: float = HELD
) -> Iterator[tuple[Any, Any]]:
    """Each task with its result, in the order of the tasks. Tasks finish in any order.

    Args:
        engine: runs the tasks.
        job: the function to call with each task.
        tasks: small objects.
        workers: their number, or None.
        held: bytes of results that may wait for an earlier task.

    Raises:
        Exception: the exception of a task.
    """
    run = _Run(engine, job, iter(tasks), held)
    if _RUNNING.setdefault(id(engine), run) is not run:  # one step: other threads may start a map as well
        raise ArgumentError("this engine runs another map; make one for each")
    whole = Group(job)
    try:
        run.start(whole, workers)
        yield from run.results()
    finally:
        del _RUNNING[id(engine)]
        engine.close()
        whole.end()


class _Run:
    """The tasks that are under way, and the results that wait for an earlier one, by the number of the task."""

    def __init__(self, engine: Engine, job: Job, left: Iterator[Any], held: float) -> None:
        self._engine, self._job, self._left, self._most = engine, job, left, held
        self._grain = getattr(engine, "grain", GRAIN)
        self._flying: dict[int, _Flight] = {}
        self._is_cached: dict[int, _Kept] = {}
        self._held = self._begun = self._next = 0
        self._size = 1
        self._failed = False

    def start(self, whole: Group, workers: int | None) -> None:
        """Start the engine; up to four groups for each worker are under way."""
        self._room = max(1, _of_engine(self._engine, "start", self._engine.start(whole, workers))) * 4

    def results(self) -> Iterator[tuple[Any, Any]]:
        """Each task with its result."""
        while True:
            self._fill()
            if self._next in self._is_cached:
                task, result, size = self._is_cached.pop(self._next)
                self._next, self._held = self._next + 1, self._held - size
                yield task, unwrap_result(result)
            elif self._flying:
                self._collect()
            else:
                return

    def _fill(self) -> None:
        """Submit tasks as long as there is room; after a failure none, as the map ends there."""
        while len(self._flying) < self._room and self._held < self._most and not self._failed:
            group = list(islice(self._left, self._size))
            if not group:
                return
            self._submit(self._begun, group)
            self._begun += len(group)

    def _submit(self, number: int, tasks: list[Any]) -> None:
        self._flying[number] = _Flight(tasks, self._engine.submit(tasks))

    def _collect(self) -> None:
        """Take the results that are there; an engine without `ready` waits for the first task."""
        numbers = sorted(self._flying)
        ready = getattr(self._engine, "ready", None)
        places = [0] if ready is None else ready([self._flying[number].handle for number in numbers])
        for place in places:
            self._take(numbers[place])

    def _take(self, number: int) -> None:
        """Keep the results of finished tasks; the size of later groups follows from the time that they took."""
        tasks, handle = self._flying.pop(number)
        found = self._engine.result(handle)
        if not isinstance(found, Failed):
            seconds, results = _of_engine(self._engine, "result", found, len(tasks))
            self._size = max(1, min(MOST, int(self._grain * len(tasks) / seconds))) if seconds else 1
            for place, result in enumerate(results):
                self._keep(number + place, tasks[place], result)
        elif len(tasks) == 1:
            self._keep(number, tasks[0], self._rescue(tasks[0], found))
        else:  # the whole group failed: each task runs again
            self._size = 1
            for place, task in enumerate(tasks):
                self._submit(number + place, [task])

    def _keep(self, number: int, task: Any, result: Any) -> None:
        size = max(_LEAST, bytes_of(result))
        self._is_cached[number] = _Kept(task, result, size)
        self._held += size
        self._failed = self._failed or isinstance(result, Failed)

    def _rescue(self, task: Any, lost: Failed) -> Any:
        """The result of a task whose workers died, if the job can do without a part of it."""
        rescue = getattr(self._job, "rescued", None)
        return lost if rescue is None or not isinstance(lost.error, WorkerError) else rescue(task, lost, self._alone)

    def _alone(self, tasks: list[Any]) -> list[Any]:
        """The results of tasks, each in a group of its own; `Failed` for those whose workers died."""
        handles = [self._engine.submit([task]) for task in tasks]
        found = map(self._engine.result, handles)
        return [one if isinstance(one, Failed) else _of_engine(self._engine, "result", one, 1)[1][0] for one in found]


def _of_engine(engine: Engine, method: str, found: Any, tasks: int | None = None) -> Any:
    """What a method of an engine returned, checked: anybody can write one."""
    if tasks is None and type(found) is not int:
        wanted = "the number of its workers"
    elif tasks is not None and not (isinstance(found, tuple) and len(found) == 2 and len(found[1]) == tasks):
        wanted = "what the job returned for the task"
    else:
        return found
    raise ArgumentError(f"map: `{type(engine).__name__}.{method}` returns {wanted}, got {found!r:.80}")
