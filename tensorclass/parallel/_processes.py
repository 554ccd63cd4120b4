"""Worker processes of this machine, each with its own pipe.

A result is sent as one block of memory, whose descriptor goes through the pipe. The block outlives its worker, and
nothing is left behind if a process is killed. If a worker dies, another one gets its task.
"""

from __future__ import annotations

import mmap
import os
import pickle
import signal
import threading
import time
from collections import deque
from contextlib import suppress
from math import inf, isfinite
from multiprocessing import connection, reduction
from typing import Any

import torch
import torch.multiprocessing as mp
from torch import Tensor

from .._flags import flags
from .._system import can_send_descriptors, cores, is_killed, map_whole, memory_file
from ..core import release_in_forks
from ..errors import ArgumentError, WorkerError
from ._engines import GRAIN, Failed, Job, Sends, at_least, checked_limit, checked_retries
from ._wire import Parcel, take_apart, unpicklable

_INLINE = 1 << 16
"""Smaller blocks are sent through the pipe directly."""
_UNGUARDED = (
    "a worker process imports the program again, which starts a map before it has begun: put what the program does "
    'under `if __name__ == "__main__":`'
)
_STARTING = release_in_forks(threading.Lock())


class _Handle:
    """A submitted task."""

    def __init__(self, task: Any) -> None:
        self.task = task
        self.tries = 0
        self.result: Any = self


class _Worker:
    """A process, this end of its pipe, and its current task."""

    def __init__(self, process: Any, pipe: Any) -> None:
        self.process = process
        self.pipe = pipe
        self.handle: _Handle | None = None
        self.done = 0
        self.until = inf
        """When its task must have ended, by `time.monotonic`."""

    def dismiss(self) -> None:
        """Tell the process to end. Closing the pipe is not enough: processes that were forked later hold it too."""
        with suppress(OSError):  # it is dead
            self.pipe.send_bytes(b"")
        self.pipe.close()


@flags
class ProcessEngine:
    """Runs tasks in processes of this machine, which start for each map.

    The job, with the functions and data that it holds, is sent to each process once: it is inherited with "fork" and
    pickled otherwise. If its process dies or takes too long, a task runs again in another one. It runs one map at a
    time; a second one, also of another thread, is an error.

    Args:
        start_method: "fork", "forkserver" or "spawn"; by default that of `torch.multiprocessing`.
        threads: torch threads of each process.
        tasks_per_worker: replace a process after this many tasks.
        retries: how often a task runs again after its process has died.
        task_timeout: seconds that a task may take; its process is then killed. None for no limit.

    >>> import torch
    >>> from tensorclass import TensorDict
    >>> from tensorclass.parallel import ProcessEngine
    >>> data = TensorDict(a=torch.arange(4), batch_size=[4])
    >>> data.map(abs, num_workers=1, engine=ProcessEngine("fork"))["a"]
    tensor([0, 1, 2, 3])
    """

    sends_tasks: Sends = "alone"

    def __init__(
        self,
        start_method: str | None = None,
        threads: int = 1,
        tasks_per_worker: int | None = None,
        *,
        retries: int = 2,
        task_timeout: float | None = None,
    ) -> None:
        if start_method is not None and start_method not in mp.get_all_start_methods():
            known = ", ".join(mp.get_all_start_methods())
            raise ArgumentError(f"the start method of processes is one of {known}, got {start_method!r:.60}")
        at_least(1, worker_threads=threads, max_tasks_per_child=tasks_per_worker)
        self._context: Any = mp.get_context(start_method)
        self._threads = threads
        self._most = tasks_per_worker
        self._tries = 1 + checked_retries(retries)
        self._limit = checked_limit(task_timeout)
        self.grain: float = 0.0 if tasks_per_worker or self._limit else GRAIN
        self._workers: list[_Worker] = []
        self._waiting: deque[_Handle] = deque()

    def start(self, job: Job, workers: int | None) -> int:
        """Store the job; processes start with the first tasks."""
        if mp.current_process().daemon:
            raise ArgumentError('a worker process can\'t start others: inside of a map pass engine="threads"')
        self._job: Any = job
        self._count = workers or cores()
        return self._count

    def submit(self, task: Any) -> _Handle:
        """Queue a task for the next idle process."""
        handle = _Handle(task)
        self._waiting.append(handle)
        self._feed()
        return handle

    def ready(self, handles: list[_Handle]) -> list[int]:
        """Wait until at least one task is done."""
        while not (done := [place for place, handle in enumerate(handles) if handle.result is not handle]):
            self._collect()
        return done

    def result(self, handle: _Handle) -> Any:
        """Wait for the result of a task."""
        while handle.result is handle:
            self._collect()
        found, handle.result = handle.result, None
        return found

    def close(self) -> None:
        """End the processes; busy processes are killed."""
        workers, self._workers = self._workers, []
        self._waiting.clear()
        for worker in workers:
            if worker.handle is not None:
                worker.process.kill()
            worker.dismiss()
        for worker in workers:
            worker.process.join()
            worker.process.close()

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _feed(self) -> None:
        """Give waiting tasks to idle workers, and start workers up to the limit."""
        while self._waiting:
            idle = next((worker for worker in self._workers if worker.handle is None), None)
            if idle is None:
                if len(self._workers) >= self._count:
                    return
                idle = self._spawn()
            handle = idle.handle = self._waiting.popleft()
            idle.until = time.monotonic() + (self._limit or inf)
            try:
                idle.pipe.send_bytes(pickle.dumps(handle.task))
            except OSError:  # it was killed
                self._replace_dead_worker(idle)

    def _spawn(self) -> _Worker:
        """Start a worker; an error of pickling names what can't be pickled."""
        with _STARTING:  # a process that another thread forks now would keep this end open when the worker dies
            here, there = self._context.Pipe()
            process = self._context.Process(target=_work, args=(there, self._job, self._threads), daemon=True)
            try:
                process.start()
            except Exception as error:  # of pickling, whatever it is
                here.close()
                if isinstance(error, OSError):
                    raise
                if isinstance(error, RuntimeError) and "bootstrapping" in str(error):
                    raise ArgumentError(_UNGUARDED) from error
                raise ArgumentError(unpicklable(self._job, error)) from error
            finally:
                there.close()
        worker = _Worker(process, here)
        self._workers.append(worker)
        return worker

    def _collect(self) -> None:
        """Wait until at least one worker has sent something, and read from all that have."""
        busy = {worker.pipe: worker for worker in self._workers if worker.handle is not None}
        until = min([worker.until for worker in busy.values()], default=inf)
        wait = max(0.0, until - time.monotonic()) if isfinite(until) else None
        for pipe in connection.wait(list(busy), wait) or self._late(busy):
            worker = busy[pipe]
            assert worker.handle is not None  # it is busy
            try:
                worker.handle.result = _receive_parcel(worker.pipe)
            except (EOFError, OSError):
                self._replace_dead_worker(worker)
                continue
            worker.handle, worker.done = None, worker.done + 1
            if worker.done == self._most:
                self._end(worker)
        self._feed()

    def _late(self, busy: dict[Any, _Worker]) -> list[Any]:
        """Kill the processes whose time is over; their pipes end."""
        late = [pipe for pipe, worker in busy.items() if worker.until <= time.monotonic()]
        for pipe in late:
            busy[pipe].process.kill()
            busy[pipe].until = -inf
        return late

    def _end(self, worker: _Worker) -> None:
        self._workers.remove(worker)
        worker.dismiss()
        worker.process.join()
        worker.process.close()

    def _replace_dead_worker(self, worker: _Worker) -> None:
        """Handle the death of a process: another process gets its task, up to the limit of tries."""
        handle = worker.handle
        worker.process.join(1)
        code = worker.process.exitcode
        worker.process.kill()
        self._end(worker)
        assert handle is not None  # only busy workers send
        handle.tries += 1
        if handle.tries < min(self._tries, self._job.tries(handle.task) or self._tries):
            self._waiting.appendleft(handle)
            return
        how = f"signal {-code}" if code is not None and code < 0 else f"exit status {code}"
        if worker.until == -inf:
            how = f"stopped after {self._limit:g} s, the limit of a task"
        hint = "; out of memory?" if worker.until != -inf and is_killed(code) else ""
        died = "a worker process died" if handle.tries == 1 else f"{handle.tries} worker processes died in turn"
        handle.result = Failed(WorkerError(f"{died} ({how}) {self._job.about(handle.task)}{hint}"))


def _receive_parcel(pipe: Any) -> Any:
    pickled, shapes, size, inline = pickle.loads(pipe.recv_bytes())
    if inline is not None or not size:
        block = torch.frombuffer(bytearray(inline or b"0"), dtype=torch.uint8)
    else:
        fd = reduction.recv_handle(pipe)
        try:
            block = _map_descriptor(fd, size)
        finally:
            os.close(fd)
    return Parcel(pickled, shapes, []).rebuilt(block)


def _map_descriptor(fd: int, size: int) -> Tensor:
    """Map the memory of a descriptor. The map doesn't need the descriptor afterwards."""
    found = map_whole(fd, size, write=True)
    if isinstance(found, int):
        raise MemoryError(f"a result of {size} bytes of a worker process: {os.strerror(found)}")
    return torch.frombuffer(found, dtype=torch.uint8)


# ---- in a worker -----------------------------------------------------------------------------------------------------


def _work(pipe: Any, job: Job, threads: int) -> None:
    """The main loop of a process: read tasks from the pipe, write results to it, until an empty message comes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver decides when to stop
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(threads)
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while task := pipe.recv_bytes():
            _reply(pipe, job(pickle.loads(task)))


def _end_with_parent() -> None:
    parent = mp.parent_process() if hasattr(mp, "parent_process") else None
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _reply(pipe: Any, result: Any) -> None:
    """Send a result: small ones through the pipe, large ones in shared memory."""
    try:
        parcel = take_apart(result)
    except ArgumentError as error:
        parcel = take_apart(Failed(ArgumentError(f"the result of the function: {error}")))
    size = parcel.size
    small = size <= _INLINE or not can_send_descriptors()
    inline = parcel.block().numpy().tobytes() if small and size else None
    if small or not size:
        pipe.send_bytes(pickle.dumps((parcel.pickled, parcel.shapes, size, inline)))
        return
    with memory_file() as file:
        os.ftruncate(file.fileno(), size)
        with mmap.mmap(file.fileno(), size) as shared:
            block = torch.frombuffer(shared, dtype=torch.uint8)
            parcel.fill(block)
            del block
        pipe.send_bytes(pickle.dumps((parcel.pickled, parcel.shapes, size, None)))
        reduction.send_handle(pipe, file.fileno(), None)
