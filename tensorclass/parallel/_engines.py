"""Engines: what runs the tasks of a map. Four are built in; an instance of another class serves as well."""

from __future__ import annotations

import os
import pickle
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from itertools import islice
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from .._flags import count
from ..core import STORAGE, TensorCollection
from ..errors import ArgumentError, TensorClassError, WorkerError, did_you_mean

Job = Callable[[Any], Any]
"""What is done for each task. It is sent to a worker once; tasks are small."""
GRAIN, MOST = 0.02, 32
"""Short tasks go to a worker together: those of so many seconds, and at most so many."""
_COPY = 1e-9
"""Seconds for a byte."""
_IMPORTED = os.getpid()
"""The process that imported this module; another one was forked."""


@runtime_checkable
class Engine(Protocol):
    """Runs tasks somewhere. A task may be run again, by another worker, when the first one has died.

    `map` calls `start`, then `submit` and `result` in turn, and `close` at the end, also after an error. An instance
    serves one map at a time.

    >>> from tensorclass.parallel import Engine
    >>> class Inline:
    ...     def start(self, job, workers):
    ...         self.job = job
    ...         return 1
    ...     def submit(self, task):
    ...         return self.job(task)
    ...     def result(self, handle):
    ...         return handle
    ...     def close(self):
    ...         pass
    >>> isinstance(Inline(), Engine)
    True
    """

    def start(self, job: Job, workers: int | None) -> int:
        """Send what is done for each task to the workers, once for each.

        Args:
            job: a function of a task.
            workers: how many; None for as many as the engine has, or the machine has cores.

        Returns:
            How many workers there are.
        """
        ...

    def submit(self, task: Any) -> Any:
        """Begin a task; gives what `result` takes."""
        ...

    def result(self, handle: Any) -> Any:
        """Wait for a task, and give what the job gave for it.

        Raises:
            WorkerError: when its workers died, time after time.
        """
        ...

    def close(self) -> None:
        """Stop what was started; tasks that run are given up."""
        ...


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Inline:
    """Runs tasks in this thread, when their results are asked for: `num_workers=0`."""

    grain = 0.0

    def start(self, job: Job, workers: int | None) -> int:
        """Keep the job."""
        self._job = job
        return 1

    def submit(self, task: Any) -> Any:
        """The task itself."""
        return task

    def result(self, handle: Any) -> Any:
        """Run the task."""
        with torch.random.fork_rng(devices=()):
            return self._job(handle)

    def close(self) -> None:
        """Let the job go."""
        self._job = opened


class ThreadEngine:
    """Threads of this process. Nothing is copied or pickled, and one killed is all killed.

    Args:
        executor: an executor that is running, which stays up; its workers must be threads.
    """

    def __init__(self, executor: Executor | None = None) -> None:
        self._given = executor

    def start(self, job: Job, workers: int | None) -> int:
        """Start threads."""
        self._job = job
        self._workers = workers or cores()
        if os.getpid() != _IMPORTED:  # torch makes its pool anew after a fork; two threads that do so at once fail
            torch.set_num_threads(torch.get_num_threads())
        self._executor = self._given or ThreadPoolExecutor(self._workers, "tensorclass-map")
        return self._workers

    def submit(self, task: Any) -> Any:
        """A future."""
        return self._executor.submit(self._job, task)

    def result(self, handle: Any) -> Any:
        """Wait for a future."""
        return handle.result()

    def close(self) -> None:
        """End the threads when their tasks have ended; those that have not begun are given up."""
        if self._given is None:
            self._executor.shutdown(cancel_futures=True)


class PoolEngine:
    """A pool of processes that is running, as `multiprocessing.Pool`; each task brings what it needs.

    Args:
        pool: it stays up.
    """

    grain = 0.0

    def __init__(self, pool: Any) -> None:
        if not callable(getattr(pool, "apply_async", None)):
            raise ArgumentError(f"pool is a multiprocessing.Pool, got {pool!r:.80}")
        self._pool = pool

    def start(self, job: Job, workers: int | None) -> int:
        """Keep the job."""
        self._job: Any = job
        return int(getattr(self._pool, "_processes", None) or cores())

    def submit(self, task: Any) -> Any:
        """A result to come."""
        return self._pool.apply_async(self._job.job.alone(task[0]))

    def result(self, handle: Any) -> Any:
        """Wait for it."""
        return 0.0, [handle.get()]

    def close(self) -> None:
        """The pool is another's."""


def ordered(
    engine: Engine, job: Job, tasks: Iterable[Any], workers: int | None, ahead: int = 4
) -> Iterator[tuple[Any, Any]]:
    """Each task with its result, in the order of the tasks; at most `ahead` groups for each worker are begun.

    Raises:
        Exception: what a task raised.
    """
    grain, left, size = getattr(engine, "grain", GRAIN), iter(tasks), 1
    waiting: deque[tuple[list[Any], Any]] = deque()
    try:
        room = max(1, engine.start(Group(job), workers)) * ahead
        while True:
            while len(waiting) < room and (group := list(islice(left, size))):
                waiting.append((group, engine.submit(group)))
            if not waiting:
                return
            group, handle = waiting.popleft()
            found = engine.result(handle)
            if isinstance(found, Failed):  # as a whole: it is done again, task by task, up to the first that fails
                size = 1
                for task in group:
                    again = found if len(group) == 1 else engine.result(engine.submit([task]))
                    yield task, opened(opened(again)[1][0])
                continue
            seconds, results = found
            size = max(1, min(MOST, int(grain * len(group) / seconds))) if seconds else 1
            yield from zip(group, map(opened, results), strict=True)
    finally:
        engine.close()


class Group:
    """A job that does several tasks at once: what an engine takes for each, it takes for all of them.

    Args:
        job: what is done for each.
    """

    def __init__(self, job: Any) -> None:
        self.job = job
        self.fn = getattr(job, "fn", job)

    def about(self, tasks: list[Any]) -> str:
        """The first task in words; groups that fail are done again one by one."""
        return str(getattr(self.job, "about", str)(tasks[0]))

    def __call__(self, tasks: list[Any]) -> tuple[float, list[Any]]:
        """How long the tasks and the copies of their results take, in seconds, and what the job gave for each."""
        begin = time.perf_counter()
        results = [self._done(task) for task in tasks]
        return time.perf_counter() - begin + sum(map(_bytes, results)) * _COPY, results

    def _done(self, task: Any) -> Any:
        try:
            return self.job(task)
        except SystemExit as error:  # which would end a thread without a word, and a process as if it was killed
            about = getattr(self.job, "about", str)(task)
            return Failed(WorkerError(f"the function ended the program, with sys.exit({error.code!r:.60}), {about}"))


def _bytes(result: Any) -> int:
    leaves = result._leaves(STORAGE) if isinstance(result, TensorCollection) else [result]
    return sum([leaf.nbytes for leaf in leaves if isinstance(leaf, Tensor)])


class Failed:
    """What a job gives for a task that raised an exception, so that its class survives every engine."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __reduce__(self) -> Any:
        text = f"{type(self.error).__name__}: {self.error}"
        try:
            raw = pickle.dumps(self.error)
            pickle.loads(raw)
        except Exception:  # whatever its class does: the text of the error arrives
            raw = b""
        return _failed, (raw, text)


def _failed(raw: bytes, text: str) -> Failed:
    return Failed(pickle.loads(raw) if raw else WorkerError(text))


def opened(result: Any) -> Any:
    """A result; raises the error that it stands for."""
    if isinstance(result, Failed):
        raise result.error
    return result


def placed(error: Exception, where: str) -> Exception:
    """An error that says where it happened, of the same class."""
    text = error.args[0] if error.args else ""
    if isinstance(text, str) and type(error).__str__ in (Exception.__str__, TensorClassError.__str__):
        error.args = (f"{text}\n{where}" if text else where, *error.args[1:])
    else:
        note: Any = getattr(error, "add_note", None)  # Python 3.11
        if note is not None:
            note(where)
    return error


def at_least(least: int, **numbers: Any) -> None:
    """Refuse arguments that are not whole numbers from `least`; None was not given."""
    for name, value in numbers.items():
        if value is not None:
            count(**{name: value})
            if value < least:
                raise ArgumentError(f"{name} is a number from {least}, got {value!r:.40}")


def unknown(engine: Any, names: Iterable[str]) -> ArgumentError:
    """The error for something that is not an engine."""
    known = list(names)
    near = did_you_mean(engine, known) if isinstance(engine, str) else ""
    return ArgumentError(
        f"engine is one of {', '.join(map(repr, known))}, or an instance with start, submit, result and close; got "
        f"{engine!r:.80}{near}"
    )
