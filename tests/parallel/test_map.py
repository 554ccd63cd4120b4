"""`map` and `map_iter` of containers: what the anchor gives, on every engine, whatever happens to the workers."""

from __future__ import annotations

import gc
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

import pytest
import tensordict
import torch

from tensorclass import TensorDict
from tensorclass.errors import ArgumentError, BatchDimError, BatchSizeError, WorkerError
from tensorclass.parallel import Engine, ProcessEngine
from tensorclass.parallel._engines import Failed, Group, ThreadEngine
from tests.parallel import _functions as functions
from tests.parallel._functions import Dies, containers

KINDS = list(containers())


class Backwards:
    """An engine of a third party."""

    def start(self, job: Any, workers: int | None) -> int:
        self.job, self.closed = job, False
        return 2

    def submit(self, task: Any) -> Any:
        return [task]

    def result(self, handle: Any) -> Any:
        return self.job(handle[0])

    def close(self) -> None:
        self.closed = True


ENGINES: dict[str, Any] = {
    "inline": lambda: {"num_workers": 0},
    "threads": lambda: {"engine": "threads", "num_workers": 2},
    "processes": lambda: {"engine": "processes", "num_workers": 2},
    "default": lambda: {"num_workers": 1},
    "another": lambda: {"engine": Backwards()},
    "executor": lambda: {"engine": ThreadPoolExecutor(2)},
}


def plain() -> TensorDict:
    """Six elements."""
    return TensorDict({"a": torch.arange(6.0), "n": {"b": torch.arange(12).view(6, 2)}}, [6])


def generator() -> torch.Generator:
    """The same each time."""
    return torch.Generator().manual_seed(3)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_container_on_every_engine(kind: str, engine: str) -> None:
    """A function that gives what it gets gives the container again, of its class."""
    data = containers()[kind]
    for chunks in ({"chunksize": 4}, {"chunksize": 0}):
        found = data.map(functions.same, **chunks, **ENGINES[engine]())
        assert type(found) is type(data) or kind == "lazy"
        assert found.batch_size == (6,)
        assert (found == data).all()
    parts = list(data.map_iter(functions.same, chunksize=4, **ENGINES[engine]()))
    assert [len(part) for part in parts] == [4, 2]


OPTIONS: list[dict[str, Any]] = [
    {"chunksize": 4}, {"chunksize": 1}, {"chunksize": 0}, {"chunksize": 100}, {"num_chunks": 4}, {"num_chunks": 100},
    {}, {"chunksize": 2, "dim": -1}, {"chunksize": 2, "index_with_generator": True}, {"chunksize": 2, "dim": 1},
    {"chunksize": 2, "num_chunks": 2}, {"chunksize": -1}, {"num_chunks": 0},
]  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("name", ["more", "tensor", "nothing"])
def test_as_the_anchor(name: str, options: dict[str, Any]) -> None:
    """The same results and the same kinds of errors; tensors of single elements are stacked here."""
    if name == "tensor" and options.get("chunksize") == 0:
        assert plain().map(functions.tensor, num_workers=1, **options).tolist() == [0, 1, 2, 3, 4, 5]
        return
    entries = {"a": torch.arange(6.0), "n": {"b": torch.arange(12).view(6, 2)}}
    results: list[Any] = []
    for data in (tensordict.TensorDict(entries, [6]), TensorDict(entries, [6])):
        more = {"generator": generator()}
        try:
            results.append(data.map(getattr(functions, name), num_workers=1, **more, **options))
        except Exception as error:
            results.append(error)
    theirs, ours = results
    if isinstance(theirs, Exception):
        assert isinstance(ours, (ValueError, IndexError)), ours
    elif theirs is None:
        assert ours is None
    elif isinstance(theirs, torch.Tensor):
        assert torch.equal(theirs, ours)
    else:
        assert ours.to_dict()["a"].tolist() == theirs.to_dict()["a"].tolist()
        assert ours.batch_size == theirs.batch_size


def test_another_dim() -> None:
    """Chunks along the second batch dim."""
    data = TensorDict(a=torch.arange(12).view(3, 4), batch_size=[3, 4])
    assert data.map(functions.more, 1, 2, chunksize=3)["a"].equal(data["a"] + 1)
    assert data.map(functions.more, -1, 2, chunksize=0)["a"].equal(data["a"] + 1)


@pytest.mark.parametrize("chunks", [{"chunksize": 2}, {"num_chunks": 3}], ids=str)
def test_random_numbers(chunks: dict[str, Any]) -> None:
    """They depend on the generator and the chunk, not on who draws them; each chunk has others."""
    found = [
        plain().map(functions.noisy, generator=generator(), **chunks, **options())["r"] for options in ENGINES.values()
    ]
    assert all(torch.equal(one, found[0]) for one in found)
    assert found[0].unique().numel() == 6
    again = plain().map(functions.noisy, num_workers=0, generator=torch.Generator().manual_seed(4), **chunks)["r"]
    assert not torch.equal(again, found[0])
    torch.manual_seed(7)
    one = plain().map(functions.noisy, num_workers=1, **chunks)["r"]
    torch.manual_seed(7)
    assert torch.equal(one, plain().map(functions.noisy, num_workers=2, **chunks)["r"])


def test_random_numbers_of_others() -> None:
    """Numpy is seeded too where a task has a process for itself; the generators of the driver are left alone."""
    before = torch.get_rng_state()
    one, two = (
        plain().map(functions.noisy_everywhere, num_workers=n, chunksize=2, generator=generator())["r"] for n in (1, 2)
    )
    assert torch.equal(one, two)
    plain().map(functions.noisy, num_workers=0, generator=generator())
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("out", ["plain", "shared", "mapped"])
def test_out(engine: str, out: str) -> None:
    """Results are written to a container that is there, also by the workers."""
    target = plain().apply(torch.zeros_like)
    target = {"plain": lambda: target, "shared": target.share_memory_, "mapped": target.memmap_}[out]()
    assert plain().map(functions.more, chunksize=4, out=target, **ENGINES[engine]()) is target
    assert (target == plain() + 1).all()


def test_out_of_another_size() -> None:
    """The driver and the workers refuse results that do not fit."""
    with pytest.raises(BatchSizeError, match="out has batch size"):
        plain().map(functions.more, num_workers=0, out=plain()[:3])
    for target in (plain(), plain().share_memory_()):
        with pytest.raises(BatchSizeError, match="elements 0 to 3"):
            plain().map(sum_of, num_workers=1, chunksize=4, out=target)


def sum_of(x: Any) -> Any:
    """One row for a chunk."""
    return x.sum(0)


def test_shuffle() -> None:
    """Every element once, in an order that the generator decides, for any engine."""
    found = []
    for options in ENGINES.values():
        parts = plain().map_iter(functions.same, chunksize=4, shuffle=True, generator=generator(), **options())
        found.append([part["a"].tolist() for part in parts])
    assert all(one == found[0] for one in found)
    assert sorted(chain(*found[0])) == [0, 1, 2, 3, 4, 5]
    assert list(chain(*found[0])) != [0, 1, 2, 3, 4, 5]


def test_workers_are_replaced() -> None:
    """Each process does as many tasks as it may; the results are all there."""
    for most in (1, 2):
        pids = plain().map(functions.where, num_workers=2, chunksize=1, max_tasks_per_child=most)["pid"]
        assert max(pids.tolist().count(pid) for pid in pids.tolist()) <= most


def test_threads_of_a_worker() -> None:
    """Torch has as many threads in a worker as it is told to."""
    assert plain().map(functions.threads_of, num_workers=1, num_chunks=1).tolist() == [1]
    assert plain().map(functions.threads_of, num_workers=1, num_chunks=1, worker_threads=2).tolist() == [2]


@pytest.mark.parametrize(
    "make", [ThreadPool, pytest.param(multiprocessing.get_context("spawn").Pool, marks=pytest.mark.slow)]
)
def test_pool(make: Any) -> None:
    """A pool that is running is used, and stays up."""
    with make(2) as pool:
        for _ in range(2):
            assert (plain().map(functions.more, pool=pool) == plain() + 1).all()
        with pytest.raises(ValueError, match="elements 0 to 2"):
            plain().map(functions.raises, pool=pool)
        pool.close()
        pool.join()


# ---- faults ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
def test_errors_keep_their_class(engine: str) -> None:
    """And name the elements."""
    for name, error in (("raises", ValueError), ("raises_key", KeyError)):
        with pytest.raises(error, match="elements 4 to 5"):
            list(plain().map_iter(_Late(name), chunksize=4, **ENGINES[engine]()))


class _Late:
    """Raises for the second chunk."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, x: Any) -> Any:
        return getattr(functions, self.name)(x) if x["a"][0] >= 4 else x


@pytest.mark.parametrize("engine", ENGINES)
def test_a_function_that_ends_the_program(engine: str) -> None:
    """`sys.exit` in a worker is an error like others, and says where."""
    with pytest.raises(WorkerError, match=r"sys\.exit\(3\), in elements 4 to 5"):
        list(plain().map_iter(_Late("exits"), chunksize=4, **ENGINES[engine]()))


@pytest.mark.parametrize(("name", "error"), [("gives_lock", ArgumentError), ("raises", ValueError)])
def test_short_tasks_together(name: str, error: type[Exception]) -> None:
    """Many short tasks go to a worker at once: results stay in order, and an error is that of its own chunk."""
    data = TensorDict(a=torch.cat([torch.zeros(300), torch.full((1,), 5.0), torch.zeros(99)]), batch_size=[400])
    data["number"] = torch.arange(400)
    found: list[int] = []
    with pytest.raises(error, match="elements 300 to 300" if name == "raises" else "result of the function"):
        found.extend(int(part["number"]) for part in data.map_iter(_Late(name), num_workers=2, chunksize=1))
    assert found == list(range(300))


def test_a_short_task_that_kills(tmp_path: Path) -> None:
    """Those beside it are done all the same, and the error names it alone."""
    data = TensorDict(a=torch.cat([torch.zeros(200), torch.full((1,), 5.0)]), batch_size=[201])
    found: list[Any] = []
    with pytest.raises(WorkerError, match="elements 200 to 200"):
        found.extend(data.map_iter(_Late("kills"), num_workers=1, chunksize=1))
    assert len(found) == 200


def test_large_results_are_not_gathered() -> None:
    """The memory of results that are ahead is bounded by their size, also where functions take no time."""
    job = Group(lambda task: torch.empty(task, dtype=torch.uint8))
    assert job([10**8, 10**8])[0] > 0.1
    assert job([1, 1])[0] < 0.1


def test_errors_that_do_not_pickle() -> None:
    """Their text arrives; so does that of results that do not pickle.

    Where tblib is imported, as Dask does, all errors pickle, with their tracebacks.
    """
    with pytest.raises((WorkerError, functions.Strange), match="1 and 2"):
        plain().map(functions.raises_strange, num_workers=1)
    with pytest.raises(ArgumentError, match="result of the function"):
        plain().map(functions.gives_lock, num_workers=1)


@pytest.mark.parametrize("times", [1, 2])
def test_killed_workers(tmp_path: Path, times: int) -> None:
    """Each chunk comes once, whatever was killed at it."""
    found = plain().map(Dies(tmp_path, times), num_workers=2, chunksize=1)
    assert (found == plain()).all()
    assert len(list(tmp_path.iterdir())) == 6


def test_a_chunk_that_kills(tmp_path: Path) -> None:
    """An error that names the elements."""
    with pytest.raises(WorkerError, match=r"signal 9.*elements 0 to 1 along dim 0"):
        plain().map(Dies(tmp_path, 99), num_workers=2, chunksize=2)


def test_nothing_is_left_behind() -> None:
    """Descriptors, segments and processes: none more than before, also when results are not fetched."""
    big = TensorDict(a=torch.rand(64, 4096), batch_size=[64])
    list(big.map_iter(functions.same, num_workers=2, chunksize=8))  # what is opened once
    gc.collect()
    before = len(os.listdir("/proc/self/fd")), sorted(os.listdir("/dev/shm")), multiprocessing.active_children()
    for _ in range(3):
        parts = big.map_iter(functions.same, num_workers=2, chunksize=8)
        next(parts)
        parts.close()
        kept = list(big.map_iter(functions.same, num_workers=2, chunksize=8))
        assert len(os.listdir("/proc/self/fd")) <= before[0]  # results hold memory only
    del kept
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= before[0]
    assert (sorted(os.listdir("/dev/shm")), multiprocessing.active_children()) == before[1:]


WRONG: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "unknown": ({"engine": "procesess"}, ArgumentError, "did you mean `processes`"),
    "no engine": ({"engine": 3}, ArgumentError, "start, submit, result and close"),
    "a class": ({"engine": ProcessEngine}, ArgumentError, "an instance"),
    "both": ({"chunksize": 2, "num_chunks": 2}, ArgumentError, "got both"),
    "pool and engine": ({"pool": 1, "engine": "threads"}, ArgumentError, "got both"),
    "no pool": ({"pool": 1}, ArgumentError, "multiprocessing.Pool"),
    "threads of others": ({"engine": "threads", "worker_threads": 2}, ArgumentError, "worker_threads"),
    "children of others": ({"engine": "ray", "max_tasks_per_child": 2}, ArgumentError, "max_tasks_per_child"),
    "methods of others": ({"engine": "dask", "mp_start_method": "fork"}, ArgumentError, "mp_start_method"),
    "no method": ({"mp_start_method": "frok"}, ArgumentError, "fork, "),
    "no children": ({"max_tasks_per_child": 0}, ArgumentError, "from 1"),
    "minus one": ({"num_workers": -1}, ArgumentError, "num_workers"),
    "text": ({"num_workers": "two"}, ArgumentError, "num_workers"),
    "no generator": ({"generator": 3}, ArgumentError, "generator"),
    "dim": ({"dim": 1}, BatchDimError, "dim 1"),
    "no out": ({"out": 3}, ArgumentError, "out is a container"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments(case: str) -> None:
    """Refused before anything starts."""
    options, error, text = WRONG[case]
    with pytest.raises(error, match=text):
        plain().map(functions.same, **options)


def test_wrong_functions() -> None:
    """What is no function, what gives no container, and what gives one for some chunks only."""
    with pytest.raises(ArgumentError, match="a function"):
        plain().map(3)  # type: ignore[arg-type]  # that is the mistake
    with pytest.raises(ArgumentError, match="containers, or tensors"):
        plain().map(len, num_workers=0)
    with pytest.raises(ArgumentError, match="gave None in elements 2 to 3"):
        plain().map(functions.some, num_workers=0, chunksize=2)
    with pytest.raises(ArgumentError, match="top level of a module"):
        plain().map(lambda x: x, num_workers=1, mp_start_method="spawn")
    assert isinstance(Backwards(), Engine)


@pytest.mark.parametrize("engine", ENGINES)
def test_no_elements(engine: str) -> None:
    """The function is called once, as in the anchor, so that the result has its class; `map_iter` gives nothing."""
    none = functions.items(3)[:0]
    found = none.map(functions.same, chunksize=2, **ENGINES[engine]())
    assert type(found) is functions.Item
    assert found.batch_size == (0,)
    assert plain()[:0].map(functions.tensor, **ENGINES[engine]()).shape == (0,)
    assert none.map(functions.same, chunksize=0, **ENGINES[engine]()) is None
    assert list(none.map_iter(functions.same, **ENGINES[engine]())) == []


def ends(chunk: Any) -> Any:
    """What would end a loop."""
    raise StopIteration("early")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_function_that_stops_iteration(engine: str) -> None:
    """An error like others, not an early end of the results."""
    with pytest.raises(RuntimeError, match=r"raised StopIteration: early\nin elements 0 to 1"):
        list(plain().map_iter(ends, chunksize=2, **ENGINES[engine]()))


def nested(chunk: Any) -> Any:
    """A map in a thread of a map."""
    return chunk.map(functions.more, num_workers=2, chunksize=1, engine=ProcessEngine("fork"))


def test_maps_at_the_same_time() -> None:
    """Of one thread and of several: forked processes hold the pipes of others, and each map ends all the same."""
    first, second = (
        plain().map_iter(functions.same, num_workers=2, chunksize=1, engine=ProcessEngine("fork")) for _ in range(2)
    )
    for part in (first, second, first):
        next(part)
    found: list[Any] = []
    threads = [
        threading.Thread(target=first.close, daemon=True),
        threading.Thread(
            target=lambda: found.append(plain().map(nested, num_workers=3, chunksize=2, engine="threads")), daemon=True
        ),
    ]
    for thread in threads:
        thread.start()
        thread.join(30)
        assert not thread.is_alive()
    assert len(list(second)) == len(plain()) - 1
    assert torch.equal(found[0]["a"], plain()["a"] + 1)
    with pytest.raises(ArgumentError, match='inside of a map pass engine="threads"'):
        plain().map(nested, num_workers=1, engine=ProcessEngine("fork"))


class NoCount(Backwards):
    """Forgets to return the number of its workers."""

    def start(self, job: Any, workers: int | None) -> Any:
        super().start(job, workers)


class NoResult(Backwards):
    """Returns something else than the job did."""

    def result(self, handle: Any) -> Any:
        return super().result(handle)[1]


class TooFew(Backwards):
    """Loses a task of a group."""

    def result(self, handle: Any) -> Any:
        seconds, results = super().result(handle)
        return seconds, results[:-1]


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        (NoCount, "`NoCount.start` returns the number of its workers, got None"),
        (NoResult, "`NoResult.result` returns what the job returned for the task"),
        (TooFew, "`TooFew.result` returns what the job returned for the task"),
    ],
)
def test_an_engine_with_a_fault(engine: Any, words: str) -> None:
    """The error names the method that returned something else; the engine is closed."""
    made = engine()
    with pytest.raises(ArgumentError, match=re.escape(words)):
        plain().map(functions.same, chunksize=1, engine=made)
    assert made.closed


@pytest.mark.parametrize(
    "make", [Backwards, lambda: ThreadEngine(ThreadPoolExecutor(1)), lambda: ProcessEngine("fork")]
)
def test_an_engine_runs_one_map(make: Any) -> None:
    """A second map would replace the job of the first, whose results would be wrong."""
    engine = make()
    first = plain().map_iter(functions.same, chunksize=1, num_workers=1, engine=engine)
    found = [next(first)]
    with pytest.raises(ArgumentError, match="this engine runs another map"):
        plain().map(functions.more, engine=engine)
    found += first
    assert torch.equal(torch.cat(found)["a"], plain()["a"])
    assert plain().map(functions.same, chunksize=3, engine=engine)["a"].sum() == plain()["a"].sum()


def test_an_engine_is_closed() -> None:
    """With the iterator over its results."""
    engine = Backwards()
    parts = plain().map_iter(functions.same, chunksize=1, engine=engine)
    next(parts)
    assert not engine.closed
    parts.close()
    assert engine.closed


def _largest_at_once(status: Any) -> None:
    """In a forked process: the first operation of torch in three threads at the same time."""
    together, engine = threading.Barrier(3), ThreadEngine()

    def largest(count: int) -> int:
        together.wait()
        return int(torch.arange(8.0).max()) + count

    engine.start(largest, 3)
    handles = [engine.submit(count) for count in (1, 2, 3)]
    status.value = int([engine.result(handle) for handle in handles] == [8, 9, 10])
    engine.close()


def test_threads_of_a_forked_process() -> None:
    """Torch makes its pool anew after a fork, in whatever thread comes first; here half of the processes failed."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    context = multiprocessing.get_context("fork")
    try:
        for _ in range(20):
            status = context.Value("i", -1)
            process = context.Process(target=_largest_at_once, args=(status,))
            process.start()
            process.join()
            assert status.value == 1
    finally:
        torch.set_num_threads(before)


class Lost(Backwards):
    """Its workers are gone from some task on; each wait for one takes long."""

    waits = 0

    def result(self, handle: Any) -> Any:
        group = handle[0]
        if group[-1] < 40:
            return super().result(handle)
        self.waits += 1
        return Failed(WorkerError(f"no worker for {group}"))


def test_a_group_that_is_lost_is_not_waited_for_task_by_task() -> None:
    """Tasks that went to a worker together are done again one by one, up to the first that fails again."""
    engine, data = Lost(), TensorDict(a=torch.arange(200), batch_size=[200])
    found: list[int] = []
    parts = data.map_iter(functions.same, chunksize=1, engine=engine)
    with pytest.raises(WorkerError, match=r"no worker for \[40\]"):
        found.extend(int(part["a"]) for part in parts)
    assert found == list(range(40))
    assert engine.waits <= 2
    assert engine.closed


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_start_methods(method: str, tmp_path: Path) -> None:
    """What works under fork works under the others, kills included."""
    data = containers()["typed" if method == "spawn" else "lazy"]
    assert (data.map(functions.same, num_workers=1, chunksize=4, mp_start_method=method) == data).all()
    if method == "forkserver":
        assert (plain().map(Dies(tmp_path, 1), num_workers=1, chunksize=6, mp_start_method=method) == plain()).all()


PROGRAM = """
import signal, time, torch, os, sys
from tensorclass import TensorDict
signal.signal(signal.SIGINT, signal.default_int_handler)  # which programs in the background ignore
def slow(x):
    open(os.path.join(sys.argv[1], str(os.getpid())), "w").close()
    time.sleep(60)
    return x
TensorDict(a=torch.arange(4), batch_size=[4]).map(slow, num_workers=2, chunksize=1)
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_orphans(tmp_path: Path, how: int) -> None:
    """Ctrl-C and kills of the driver end the workers too."""
    driver = subprocess.Popen([sys.executable, "-c", PROGRAM, str(tmp_path)], stderr=subprocess.DEVNULL)
    for _ in range(600):
        if len(list(tmp_path.iterdir())) == 2:
            break
        time.sleep(0.1)
    pids = [int(path.name) for path in tmp_path.iterdir()]
    assert len(pids) == 2
    driver.send_signal(how)
    driver.wait(20)
    for _ in range(100):
        if not any(Path(f"/proc/{pid}").exists() for pid in pids):
            return
        time.sleep(0.1)
    raise AssertionError("workers live on")
