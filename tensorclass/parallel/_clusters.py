"""Ray and Dask, on one machine or on many. They place tasks, and rerun the tasks of dead workers."""

from __future__ import annotations

import asyncio
import faulthandler
import os
import pickle
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from threading import Lock
from typing import Any

import numpy as np
import torch

from .._flags import flags
from .._schema import schema_of
from .._system import cores
from ..core import release_in_forks
from ..errors import ArgumentError, WorkerError
from ..io._optional import optional
from ._engines import GRAIN, Failed, Job, Sends, checked_limit, checked_retries
from ._wire import Parcel, take_apart

_JOBS: dict[Any, Job] = {}
"""The current job of this Ray or Dask worker; the next job replaces it."""
_UNTIL: dict[object, float] = {}
"""When each of the running tasks with a limit must have ended."""
_WATCHED = release_in_forks(Lock())
Sent = tuple[bytes, list[Any], Any]
_PROGRAM = ("__main__", "__mp_main__")
"""The module of the program, and its name in processes that the program has spawned; no worker can import it."""
_PATIENCE, _LOOK = 60.0, 1.0
"""Seconds that Dask may be without workers, and seconds between two checks."""


def _sent(value: Any, cloud: bool = False) -> Sent:
    """An object in the form that Ray and Dask move: tensors as one numpy array, for which they use shared memory."""
    parcel = take_apart(value, _cloud_pickler() if cloud else pickle.Pickler)
    return parcel.pickled, parcel.shapes, parcel.block().numpy() if parcel.shapes else None


def _receive_sent(sent: Sent) -> Any:
    pickled, shapes, array = sent
    block = torch.empty(1, dtype=torch.uint8) if array is None else torch.from_numpy(np.array(array))
    return Parcel(pickled, shapes, []).rebuilt(block)


def _cloud_pickler() -> type[pickle.Pickler]:
    """A pickler that sends functions of notebooks and nested functions by value; typed classes are imported."""
    package: Any = optional("cloudpickle", "Sending a function to a cluster", "dask")
    if _PROGRAM[1] in sys.modules:
        package.register_pickle_by_value(sys.modules[_PROGRAM[1]])

    class FunctionPickler(package.Pickler):  # type: ignore[misc]  # of an optional package
        def reducer_override(self, obj: Any) -> Any:
            imported = isinstance(obj, type) and schema_of(obj) is not None and obj.__module__ not in _PROGRAM
            return NotImplemented if imported else super().reducer_override(obj)

    return FunctionPickler


def sendable(classes: Any) -> None:
    """Refuse classes that workers can't import, with a shorter message than that of Ray."""
    take_apart(classes, _cloud_pickler())


def _reply_to_task(job: Job, task: Any) -> Sent:
    try:
        return _sent(job(task))
    except ArgumentError as error:
        return _sent(Failed(ArgumentError(f"the result of the function: {error}")))


def _given_up(cluster: str, job: Job, task: Any, error: Exception, limit: float | None) -> Failed:
    """The result of a task for which a cluster raised an error of its own."""
    about = getattr(job, "about", str)(task)
    late = "" if limit is None else f" (a task may take {limit:g} s)"
    failed = Failed(WorkerError(f"{cluster} gave up{late} {about}: {type(error).__name__}: {error!s:.600}"))
    failed.error.__cause__ = error
    return failed


def _in_ray(key: str, box: list[Any], task: Any, limit: float | None) -> Sent:
    """Run a task in a Ray worker, which fetches the job once."""
    ray = None if key in _JOBS else optional("ray", 'engine="ray"', "ray")
    return _in_dask(key, None if ray is None else ray.get(box[0]), task, limit)


def _hold_job(sent: Sent) -> Sent:
    """The task from which Dask workers get the job."""
    return sent


def _in_dask(key: str, sent: Any, task: Any, limit: float | None) -> Sent:
    """Run a task in a worker, which unpickles the job once."""
    if key not in _JOBS:
        _JOBS.clear()
        _JOBS[key] = _receive_sent(sent)
    with _time_limit(limit):
        return _reply_to_task(_JOBS[key], task)


@contextmanager
def _time_limit(seconds: float | None) -> Iterator[None]:
    """A block after whose time this process ends, whatever it does; the traceback goes to its log."""
    if seconds is None:
        yield
        return
    mine = object()
    try:
        _watch(mine, time.monotonic() + seconds)
        yield
    finally:
        _watch(mine, None)


def _watch(mine: object, until: float | None) -> None:
    """Arm the timer for the first of the blocks that run in the threads of this process."""
    with _WATCHED:
        if until is None:
            _UNTIL.pop(mine, None)
        else:
            _UNTIL[mine] = until
        faulthandler.cancel_dump_traceback_later()
        if _UNTIL:
            left = max(1e-3, min(_UNTIL.values()) - time.monotonic())
            faulthandler.dump_traceback_later(left, exit=True, file=2)


def _reachable(address: str, seconds: float, what: str) -> None:
    """Refuse an address that doesn't answer."""
    host, _, port = address.rpartition("://")[2].partition("/")[0].rpartition(":")
    if not host or not port.isdigit():
        raise ArgumentError(f"the address of {what} is `host:port`, got {address!r:.120}")
    try:
        socket.create_connection((host.strip("[]"), int(port)), seconds).close()
    except OSError as error:
        raise WorkerError(f"{what} does not answer at {address!r:.120} within {seconds:g} s: {error}") from error


def _announced_cluster() -> tuple[str, str]:
    """The address of the Ray cluster that is known on this machine, and the source of it.

    A killed cluster leaves its file.
    """
    folder = os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or "/tmp"
    path = Path(folder, "ray", "ray_current_cluster")
    if address := os.environ.get("RAY_ADDRESS"):
        return address, "RAY_ADDRESS"
    return path.read_text().strip() if path.is_file() else "", str(path)


@flags
class RayEngine:
    """Runs tasks in Ray. A running cluster is used, and stays up.

    Otherwise one starts on this machine, and stops at the end.

    The job is put into Ray's object store once, and each worker reads it once. Results are sent through shared memory.
    It runs one map at a time; a second one, also of another thread, is an error.

    Args:
        address: the address of a cluster, `host:port`; `"auto"` for that of this machine; `"local"` for one that
            this engine starts and stops, whatever runs on this machine.
        num_cpus: cores of each task.
        num_gpus: GPUs of each task; may be a fraction.
        timeout: seconds to wait for an answer of the address.
        retries: how often a task runs again after its worker has died.
        task_timeout: seconds that a task may take; its worker then ends. None for no limit.
        options: further options for `ray.init`.
    """

    sends_tasks: Sends = "alone"

    def __init__(
        self,
        address: str | None = None,
        *,
        num_cpus: float = 1,
        num_gpus: float = 0,
        timeout: float = 10.0,
        retries: int = 2,
        task_timeout: float | None = None,
        **options: Any,
    ) -> None:
        self._address = address
        self._resources = {"num_cpus": num_cpus, "num_gpus": num_gpus}
        self._timeout = timeout
        self._retries = checked_retries(retries)
        self._limit = checked_limit(task_timeout)
        self.grain: float = 0.0 if self._limit else GRAIN
        self._options = options

    def start(self, job: Job, workers: int | None) -> int:
        """Connect to Ray, and put the job into its object store.

        Raises:
            MissingExtraError: if Ray is not installed.
            WorkerError: if the address doesn't answer.
        """
        self._ray = optional("ray", 'engine="ray"', "ray")
        self._job: Any = job
        sent = _sent(job, cloud=True)
        self._owner = not self._ray.is_initialized()
        if self._owner:
            self._connect(workers)
        mine = self._ray.get_runtime_context().gcs_address
        if self._address == "local" and not self._owner:
            raise ArgumentError(
                f'this process is connected to Ray at {mine}, so none of its own can start: leave out address="local", '
                "or call ray.shutdown() before"
            )
        if self._address not in (None, "auto", mine) and not self._owner:
            raise ArgumentError(f"this process is connected to Ray at {mine}, not at {self._address!r:.120}")
        count = workers or int(self._ray.cluster_resources().get("CPU", 1))
        self._key = token_hex(8)
        self._box = [self._ray.put(sent)]
        self._call = self._ray.remote(max_retries=self._retries, **self._resources)(_in_ray)
        return max(1, count)

    def _connect(self, workers: int | None) -> None:
        """Join the cluster that an address names; without an address, the announced one or one of this machine."""
        options = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR", **self._options}
        if self._address == "local":
            self._ray.init(address="local", **{"num_cpus": workers or cores(), **options})
            return
        named, where = _announced_cluster() if self._address in (None, "auto") else (self._address or "", "")
        try:
            if ":" in named or not where:  # Ray itself would wait for minutes
                hint = f" (start it, or remove {where} to have one of this machine)" if where else ""
                _reachable(named, self._timeout, f"Ray{hint}")
            self._ray.init(address=self._address or "auto", **options)
        except (ConnectionError, RuntimeError, TimeoutError) as error:
            if isinstance(error, (ArgumentError, WorkerError)) and (self._address or where == "RAY_ADDRESS"):
                raise
            if self._address or where == "RAY_ADDRESS":
                raise WorkerError(f"Ray does not answer at {named!r:.120}: {error!s:.300}") from error
            self._ray.init(address="local", **{"num_cpus": workers or cores(), **options})

    def submit(self, task: Any) -> Any:
        """Submit a task; returns the reference to its result."""
        tries = self._job.tries(task)
        call = self._call if tries is None else self._call.options(max_retries=min(self._retries, tries - 1))
        return task, call.remote(self._key, self._box, task, self._limit)

    def ready(self, handles: list[Any]) -> list[int]:
        """Wait until at least one task is done."""
        places = {reference: place for place, (_, reference) in enumerate(handles)}
        done, _ = self._ray.wait(list(places), num_returns=1, fetch_local=False)
        return [places[reference] for reference in done]

    def result(self, handle: Any) -> Any:
        """Wait for the result of a task."""
        task, reference = handle
        try:
            sent = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            return _given_up("Ray", self._job, task, error, self._limit)
        return _receive_sent(sent)

    def close(self) -> None:
        """Stop Ray if this engine has started it."""
        self._box = []
        if getattr(self, "_owner", False):
            self._ray.shutdown()


@flags
class DaskEngine:
    """Runs tasks in Dask. A given client stays open; otherwise a cluster starts on this machine, and stops at the end.

    The job itself is a Dask task, so the scheduler restores it if the only worker that holds it dies. It runs
    one map at a time; a second one, also of another thread, is an error.

    Args:
        client: a `distributed.Client`.
        address: the address of a scheduler, `host:port` or `tcp://host:port`.
        timeout: seconds to wait for an answer of the address.
        retries: how often a task runs again after its worker has died, on a cluster that this engine starts; at least
            3 times, because Dask also counts tasks that only waited at a worker. Other clusters have a limit of their
            own, the option `allowed-failures` of the scheduler.
        task_timeout: seconds that a task may take; its worker then ends. None for no limit.
    """

    sends_tasks: Sends = "shared"

    def __init__(
        self,
        client: Any = None,
        *,
        address: str | None = None,
        timeout: float = 10.0,
        retries: int = 2,
        task_timeout: float | None = None,
    ) -> None:
        if client is not None and not callable(getattr(client, "submit", None)):
            raise ArgumentError(f"DaskEngine takes a distributed.Client, got {client!r:.80}")
        self._given = client
        self._address = address
        self._timeout = timeout
        self._retries = checked_retries(retries)
        self._limit = checked_limit(task_timeout)
        self.grain: float = 0.0 if self._limit else GRAIN
        self._cluster: Any = None

    def start(self, job: Job, workers: int | None) -> int:
        """Connect to Dask, and send the job to the scheduler.

        Raises:
            MissingExtraError: if `distributed` is not installed.
            WorkerError: if the address doesn't answer.
        """
        dask = self._dask = optional("distributed", 'engine="dask"', "dask")
        self._job = job
        payload = _sent(job, cloud=True)
        self._client = self._given or self._connect(dask, workers)
        self._sent = self._client.submit(_hold_job, payload, pure=False)
        self._key = token_hex(8)
        return workers or max(1, sum(self._client.nthreads().values()))

    def _connect(self, dask: Any, workers: int | None) -> Any:
        """Join the cluster at the address, or start one on this machine."""
        if self._address is not None:
            _reachable(self._address, self._timeout, "Dask")
            try:
                return dask.Client(self._address, timeout=self._timeout)
            except (OSError, TimeoutError) as error:
                raise WorkerError(f"Dask does not answer at {self._address!r:.120}: {error!s:.300}") from error
        self._count = workers or cores()
        self._cluster = dask.LocalCluster(
            n_workers=self._count, threads_per_worker=1, dashboard_address=None, silence_logs="CRITICAL"
        )
        self._cluster.scheduler.allowed_failures = max(3, self._retries)
        return dask.Client(self._cluster)

    def submit(self, task: Any) -> Any:
        """Submit a task; returns its future."""
        return task, self._client.submit(_in_dask, self._key, self._sent, task, self._limit, pure=False)

    def ready(self, handles: list[Any]) -> list[int]:
        """Wait until at least one task is done."""
        self._await_future([future for _, future in handles])
        return [place for place, (_, future) in enumerate(handles) if future.done()] or [0]

    def result(self, handle: Any) -> Any:
        """Wait for the result of a task."""
        task, future = handle
        try:
            if not self._await_future([future]):
                raise WorkerError(f"it has no worker, for {_PATIENCE:g} seconds")
            sent = future.result()
        except Exception as error:  # errors of the scheduler have many classes; errors of the job are results
            return _given_up("Dask", self._job, task, error, self._limit)
        finally:
            future.release()
        return _receive_sent(sent)

    def _await_future(self, futures: list[Any]) -> bool:
        """Wait until a future is done. A cluster that has lost its last worker gets some time to start another one."""
        seen = time.monotonic()
        while not any([future.done() for future in futures]):
            with suppress(TimeoutError, asyncio.TimeoutError):  # one class since Python 3.11
                self._dask.wait(futures, timeout=_LOOK, return_when="FIRST_COMPLETED")
                continue
            if self._client.nthreads():
                seen = time.monotonic()
            elif time.monotonic() - seen > _PATIENCE:
                return False
            if self._cluster is not None:
                self._cluster.scale(self._count)  # Dask gives up workers that do not return within 15 seconds
        return True

    def close(self) -> None:
        """Stop the cluster if this engine has started it."""
        self._sent = None
        if self._given is None and hasattr(self, "_client"):
            self._client.close()
            if self._cluster is not None:
                self._cluster.close()
