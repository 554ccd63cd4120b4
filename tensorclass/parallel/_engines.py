"""Engines run the tasks of a map. Four are built in; an instance of another class may be used as well."""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Executor, ThreadPoolExecutor, wait
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

import torch

from .._flags import count
from .._system import cores
from ..core import bytes_of
from ..errors import ArgumentError, HeldError, WorkerError, add_note, extend_message

Sends = Literal["alone", "shared"]
"""Whether a task that is sent to another process has it to itself, or shares it with other tasks."""
Job = Callable[[Any], Any]
"""The function that is called for each task. It is sent to each worker once; tasks are small."""
GRAIN, MOST = 0.02, 32
"""Short tasks are sent in groups: at most `GRAIN` seconds of work, and at most `MOST` tasks."""
_POLL = 0.01
"""Seconds between two looks at a pool, which can't wait for several tasks."""
_COPY = 1e-9
"""The estimated seconds to copy a byte."""
_IMPORTED = os.getpid()
"""The id of the process that imported this module; any other process is a fork of it."""


@runtime_checkable
class Engine(Protocol):
    """Runs tasks. If a worker dies, its task may be rerun by another worker.

    `map` calls `start`, then `submit` and `result` in turn, and `close` at the end, even after an error. An instance
    runs one map at a time; a second one, also of another thread, is an error. An engine may also have a method `ready`:
    it gets the handles of the running tasks, waits until one of them is done, and returns the positions of those that
    are. Without it, `map` waits for the first task, and slow ones delay those behind.

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
        """Send the job to the workers, once to each.

        Args:
            job: the function to call with each task.
            workers: the number of workers; None for all workers of the engine, or one for each core of the machine.

        Returns:
            The number of workers.
        """
        ...

    def submit(self, task: Any) -> Any:
        """Start a task; returns a handle for `result`."""
        ...

    def result(self, handle: Any) -> Any:
        """Wait for a task, and return the result of the job.

        Raises:
            WorkerError: if the workers of the task died repeatedly.
        """
        ...

    def close(self) -> None:
        """Stop what `start` started; running tasks are abandoned."""
        ...


class Inline:
    """Runs tasks in this thread when their results are requested: `num_workers=0`."""

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
        """Drop the reference to the job."""
        del self._job


class ThreadEngine:
    """Runs tasks in threads of this process. Nothing is copied or pickled; killing the process ends all tasks.

    It runs one map at a time; a second one, also of another thread, is an error.

    Args:
        executor: a running executor, which stays up; its workers must be threads.
    """

    def __init__(self, executor: Executor | None = None) -> None:
        self._given = executor

    def start(self, job: Job, workers: int | None) -> int:
        """Start threads."""
        self._job = job
        self._workers = workers or cores()
        if os.getpid() != _IMPORTED:  # torch recreates its pool after a fork; two threads that do this at once fail
            torch.set_num_threads(torch.get_num_threads())
        self._executor = self._given or ThreadPoolExecutor(self._workers, "tensorclass-map")
        return self._workers

    def submit(self, task: Any) -> Any:
        """A future."""
        return self._executor.submit(self._job, task)

    def ready(self, handles: list[Any]) -> list[int]:
        """Wait until at least one task is done."""
        wait(handles, return_when=FIRST_COMPLETED)
        return [place for place, handle in enumerate(handles) if handle.done()]

    def result(self, handle: Any) -> Any:
        """Wait for the result of a task."""
        return handle.result()

    def close(self) -> None:
        """End the threads when their running tasks have ended; tasks that have not started are abandoned."""
        if self._given is None:
            self._executor.shutdown(cancel_futures=True)


class PoolEngine:
    """Runs tasks in a running pool of processes, such as `multiprocessing.Pool`. Each task carries its data.

    Args:
        pool: the pool, which stays up.
    """

    grain = 0.0
    sends_tasks: Sends = "alone"

    def __init__(self, pool: Any) -> None:
        if not callable(getattr(pool, "apply_async", None)):
            raise ArgumentError(f"pool is a multiprocessing.Pool, got {pool!r:.80}")
        self._pool = pool

    def start(self, job: Job, workers: int | None) -> int:
        """Keep the job."""
        self._job: Any = job
        return int(getattr(self._pool, "_processes", None) or cores())

    def submit(self, task: Any) -> Any:
        """Submit a task; returns its asynchronous result."""
        return self._pool.apply_async(self._job.job.alone(task[0]))

    def ready(self, handles: list[Any]) -> list[int]:
        """Wait until at least one task is done."""
        while not (done := [place for place, handle in enumerate(handles) if handle.ready()]):
            handles[0].wait(_POLL)
        return done

    def result(self, handle: Any) -> Any:
        """Wait for it."""
        return 0.0, [handle.get()]

    def close(self) -> None:
        """Do nothing: the caller owns the pool."""


class Group:
    """A job that runs several tasks in one call, so that the overhead of an engine is paid once per group.

    Args:
        job: the function to call with each task.
    """

    def __init__(self, job: Any) -> None:
        self.job = job
        self.fn = getattr(job, "fn", job)
        self._failed: list[Failed] | None = []

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_failed": None}

    def about(self, tasks: list[Any]) -> str:
        """A description of the first task, for messages; failed groups are rerun task by task."""
        return str(getattr(self.job, "about", str)(tasks[0]))

    def tries(self, tasks: list[Any]) -> int | None:
        """How often a group may start before it counts as lost; None for what the engine does."""
        of_job = getattr(self.job, "tries", None)
        return None if of_job is None else of_job(tasks[0])

    def __call__(self, tasks: list[Any]) -> tuple[float, list[Any]]:
        """The seconds that the tasks and the copies of their results take, and the results."""
        begin = time.perf_counter()
        results = [self._run_task(task) for task in tasks]
        for result in results:
            if isinstance(result, Failed):
                self._release_later(result)
        return time.perf_counter() - begin + sum(map(bytes_of, results)) * _COPY, results

    def _release_later(self, failed: Failed) -> None:
        if self._failed is None:
            failed.release()
        else:
            self._failed.append(failed)

    def end(self) -> None:
        """Release the errors that were not raised: the frames of their tracebacks hold the results."""
        failed, self._failed = self._failed or [], None
        for one in failed:
            one.release()

    def _run_task(self, task: Any) -> Any:
        try:
            return self.job(task)
        except BaseException as error:  # it would end a thread silently, and a process as if it had been killed
            about = getattr(self.job, "about", str)(task)
            if isinstance(error, SystemExit):
                text = f"the function ended the program, with sys.exit({error.code!r:.60}), {about}"
                return Failed(WorkerError(text))
            return Failed(error_at(error, about))


class Failed(HeldError):
    """The result of a task that raised an exception; with it, the class of the exception survives every engine."""

    def __init__(self, error: BaseException) -> None:
        ends = isinstance(error, StopIteration)  # which would end the loop over results
        super().__init__(RuntimeError(f"the function raised StopIteration: {error}") if ends else error)

    def __reduce__(self) -> Any:
        notes = getattr(self.error, "__notes__", ())
        text = "\n".join([f"{type(self.error).__name__}: {self.error}", *notes])
        try:
            raw = pickle.dumps(self.error)
            pickle.loads(raw)
        except Exception:  # the class may raise anything: the text still arrives
            raw = b""
        return _failed, (raw, text)


def _failed(raw: bytes, text: str) -> Failed:
    return Failed(pickle.loads(raw) if raw else WorkerError(text))


def unwrap_result(result: Any) -> Any:
    """Return a result, or raise the error of a `Failed`."""
    if isinstance(result, Failed):
        result.reraise()
    return result


Raised = TypeVar("Raised", bound=BaseException)


def error_at(error: Raised, where: str) -> Raised:
    """An error of the same class that also says where it happened."""
    if not extend_message(error, where):
        add_note(error, where)
    return error


def at_least(least: int, **numbers: Any) -> None:
    """Refuse arguments that are not whole numbers from `least`; None means not given."""
    for name, value in numbers.items():
        if value is not None:
            count(**{name: value})
            if value < least:
                raise ArgumentError(f"{name} is a number from {least}, got {value!r:.40}")


def checked_retries(retries: Any) -> int:
    """A number of retries, from 0."""
    at_least(0, retries=retries)
    return int(retries)


def checked_limit(seconds: Any) -> float | None:
    """The seconds that a task may take; None for no limit."""
    if seconds is not None and (not isinstance(seconds, (int, float)) or not 0 < seconds < float("inf")):
        raise ArgumentError(f"timeout is a number of seconds above 0, or None, got {seconds!r:.40}")
    return None if seconds is None else float(seconds)
