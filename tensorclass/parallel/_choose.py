"""Chooses the engine of a map from a name, an instance, a pool, or options that only processes have."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Any

from ..errors import ArgumentError, did_you_mean
from ._clusters import DaskEngine, RayEngine
from ._engines import Engine, Inline, PoolEngine, ThreadEngine, at_least, checked_limit, checked_retries
from ._processes import ProcessEngine

NAMES: dict[str, Any] = {"processes": ProcessEngine, "threads": ThreadEngine, "ray": RayEngine, "dask": DaskEngine}


def choose(
    engine: Any,
    workers: Any,
    pool: Any = None,
    retries: int | None = None,
    timeout: float | None = None,
    **of_processes: Any,
) -> tuple[Engine, int | None]:
    """The engine of a map, and the number of its workers.

    Args:
        engine: a name, an instance, or None for processes.
        workers: `num_workers`; 0 runs the tasks in this thread.
        pool: a running pool of processes.
        retries: how often a task runs again after its worker has died; None for what the engine does.
        timeout: seconds that a task may take, or None.
        of_processes: the options of the process engine: `mp_start_method`, `worker_threads`, `max_tasks_per_child`;
            None if not given.

    Raises:
        ArgumentError: for anything but an engine, and for options of another engine.
    """
    at_least(0, num_workers=workers)
    count: int | None = workers
    policy = _policy(retries, timeout)
    if policy and (pool is not None or (engine is not None and not isinstance(engine, str))):
        raise ArgumentError(
            f"{', '.join(policy)}: an option of engines that the map starts; pass it to the engine that is given"
        )
    if timeout is not None and (engine == "threads" or count == 0):
        raise ArgumentError("timeout= needs workers that can be stopped: processes, Ray or Dask; a thread can't be")
    if pool is not None:
        if engine is not None:
            raise ArgumentError("map takes a pool or an engine, got both")
        return PoolEngine(pool), None
    given = {name: value for name, value in of_processes.items() if value is not None}
    if given.get("worker_threads") == 1:  # the default anyway
        del given["worker_threads"]
    if given and engine not in (None, "processes"):
        raise ArgumentError(
            f"{', '.join(given)}: an option of worker processes, got engine={engine!r:.60}; leave it out, or pass "
            "an engine that is set up so"
        )
    if isinstance(engine, Executor):
        return ThreadEngine(engine), count
    if isinstance(engine, Engine) and not isinstance(engine, type):
        return engine, count
    if engine is not None and (not isinstance(engine, str) or engine not in NAMES):
        near = did_you_mean(engine, NAMES) if isinstance(engine, str) else ""
        raise ArgumentError(
            f"engine is one of {', '.join(map(repr, NAMES))}, or an instance with start, submit, result and close; got "
            f"{engine!r:.80}{near}"
        )
    if engine in (None, "processes"):  # made also for no workers: its options are checked
        threads, most = given.get("worker_threads", 1), given.get("max_tasks_per_child")
        made: Engine = ProcessEngine(given.get("mp_start_method"), threads, most, **policy)
    else:
        made = ThreadEngine() if engine == "threads" else NAMES[engine](**policy)
    return (made, count) if count != 0 else (Inline(), 1)


def _policy(retries: Any, timeout: Any) -> dict[str, Any]:
    """What to do if a task fails for its worker, as options of an engine."""
    given = {} if retries is None else {"retries": checked_retries(retries)}
    return given if timeout is None else {**given, "task_timeout": checked_limit(timeout)}


def stays_here(engine: Engine) -> bool:
    """Whether tasks run in this process, so that a function gets views of the data itself."""
    return getattr(engine, "sends_tasks", None) is None


def runs_alone(engine: Engine) -> bool:
    """Whether each task has a process to itself, so that it may seed the global generators."""
    return getattr(engine, "sends_tasks", None) == "alone"
