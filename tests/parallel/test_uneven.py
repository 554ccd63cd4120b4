"""Uneven work and failing workers: tasks finish in any order, and one policy holds for what fails."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
import time
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

import pytest
import torch

from tensorclass import TensorClassDataset, TensorDict
from tensorclass.errors import ArgumentError, WorkerError
from tensorclass.parallel import DaskEngine, ProcessEngine, RayEngine
from tensorclass.parallel._seeds import seeded_block
from tensorclass.parallel._stream import ordered
from tests._marks import rest_is_slow
from tests.parallel import _functions as functions
from tests.parallel._functions import Dies, Item, items

ROWS = 40


def numbers(count: int = ROWS) -> TensorDict:
    """As many elements."""
    return TensorDict(a=torch.arange(count), batch_size=[count])


@pytest.fixture
def data(tmp_path: Path) -> Any:
    """A dataset of a few shards."""
    with TensorClassDataset.create(tmp_path / "source", Item, rows_per_shard=20) as writer:
        writer.append(items(ROWS))
    return TensorClassDataset(tmp_path / "source", Item)


@pytest.mark.parametrize("engine", ["threads", "pool", "processes"])
def test_a_slow_task_delays_no_other(engine: str) -> None:
    """The first chunk ends after the last one; results come in order all the same."""
    last = multiprocessing.get_context("fork").Event() if engine == "processes" else threading.Event()

    def waits(chunk: Any) -> Any:
        if chunk["a"][0] == 0:
            assert last.wait(60)
        if chunk["a"][0] == ROWS - 1:
            last.set()
        return chunk

    if engine == "pool":
        with ThreadPool(2) as pool:
            found = numbers().map(waits, chunksize=1, pool=pool)
    else:
        made = "threads" if engine == "threads" else ProcessEngine("fork", tasks_per_worker=1000)
        found = numbers().map(waits, chunksize=1, num_workers=2, engine=made)
    assert found["a"].tolist() == list(range(ROWS))


class Reversed:
    """An engine whose last task is always the first to end."""

    def start(self, job: Any, workers: int | None) -> int:
        self.job, self.submitted = job, 0
        return 1

    def submit(self, task: Any) -> Any:
        self.submitted += 1
        return task

    def ready(self, handles: list[Any]) -> list[int]:
        return [len(handles) - 1]

    def result(self, handle: Any) -> Any:
        return self.job(handle)

    def close(self) -> None:
        pass


def test_results_that_wait_are_bounded_by_their_bytes() -> None:
    """While they are more, no task starts; then the one that they wait for is next."""
    engine = Reversed()
    engine.grain = 0.0  # type: ignore[attr-defined]  # groups of one
    parts = ordered(engine, lambda task: torch.zeros(1000), range(100), 1, held=40_000)
    assert next(parts)[0] == 0
    assert engine.submitted == 4 + 10 - 1
    assert [task for task, _ in parts] == list(range(1, 100))


def test_after_a_failure_nothing_starts() -> None:
    """The map ends with the first error in the order of the tasks."""
    engine = Reversed()
    engine.grain = 0.0  # type: ignore[attr-defined]  # groups of one
    done: list[int] = []
    with pytest.raises(ValueError, match="no good\nin elements 1 to 1"):
        done.extend(numbers(100).map_iter(_Sometimes("raises", {1, 3}), chunksize=1, engine=engine))
    assert len(done) == 1
    assert engine.submitted == 4


class _Sometimes:
    """Does something if the batch has one of some elements."""

    def __init__(self, name: str, wanted: set[int]) -> None:
        self.name, self.wanted = name, wanted

    def __call__(self, batch: Any) -> Any:
        label = batch["a"] if "a" in batch else batch["label"]
        if self.wanted & set(label.tolist()):
            (getattr(self, self.name, None) or getattr(functions, self.name))(batch)
        return batch

    def leaves(self, batch: Any) -> None:
        """End the process without a word."""
        os._exit(9)

    def hangs(self, batch: Any) -> None:
        """Never return."""
        time.sleep(600)


# ---- failures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("leaves", "exit status 9"),
        ("kills", "signal 9"),
        pytest.param("hangs", "stopped after 2 s, the limit of a task", marks=pytest.mark.slow),
        ("exits", "SystemExit: 3"),
    ],
)
@pytest.mark.parametrize("verb", rest_is_slow(["map", "filter"]))
def test_rows_that_kill_their_worker(verb: str, name: str, cause: str, data: Any, tmp_path: Path) -> None:
    """They are found, and written to `out/failed` with the cause; all other rows are there."""
    bad, fn = {7, 33}, _Sometimes(name, {7, 33})
    how: dict[str, Any] = {"out": tmp_path / "out", "errors": "skip", "batch_size": 8, "rows_per_shard": 16}
    if name == "hangs":
        how["timeout"] = 2
    given = fn if verb == "map" else _Keeps(fn)
    found = getattr(data, verb)(given, num_workers=2, retries=0, **how)
    assert found[:].label.tolist() == [i for i in range(ROWS) if i not in bad]
    failed = TensorClassDataset(tmp_path / "out" / "failed")[:]
    assert failed.number.tolist() == sorted(bad)
    assert all(cause in text for text in failed.error.tolist())
    assert len(getattr(data, verb)(given, num_workers=2, retries=0, resume=True, **how)) == ROWS - 2


class _Keeps:
    """A filter that keeps all rows."""

    def __init__(self, fn: Any) -> None:
        self.fn = fn

    def __call__(self, batch: Any) -> Any:
        self.fn(batch)
        return torch.ones(len(batch), dtype=torch.bool)


def test_batches_that_are_too_large(data: Any, tmp_path: Path) -> None:
    """If only several rows at once kill the worker, no row fails: smaller batches are done."""

    def greedy(batch: Any) -> Any:
        if len(batch) > 4:
            os._exit(1)
        return batch

    found = data.map(greedy, out=tmp_path / "out", errors="skip", batch_size=16, num_workers=2, retries=0)
    assert found[:].label.tolist() == list(range(ROWS))
    assert not list((tmp_path / "out" / "failed").glob("*.safetensors"))


def test_how_often_a_task_runs_again(tmp_path: Path) -> None:
    """As often as `retries` says, after its worker has died."""
    with pytest.raises(WorkerError, match=r"a worker process died \(signal 9\) in elements 0 to 39"):
        numbers().map(Dies(tmp_path, 1), num_workers=1, chunksize=ROWS, retries=0)
    more = tmp_path / "more"
    more.mkdir()
    assert len(numbers().map(Dies(more, 3), num_workers=1, chunksize=ROWS, retries=3)) == ROWS


def test_a_task_that_takes_too_long() -> None:
    """Its process is stopped, whatever it does, and the error says so."""
    fn = _Sometimes("hangs", {0})
    with pytest.raises(WorkerError, match=r"2 worker processes died in turn \(stopped after 0\.5 s.*elements 0 to 19"):
        numbers().map(fn, num_workers=2, chunksize=20, timeout=0.5, retries=1)


class Stop(BaseException):
    """An exception that `except Exception` lets through."""


def _stops(kind: Any) -> Any:
    def stops(batch: Any) -> Any:
        raise kind("now")

    return stops


@pytest.mark.parametrize("engine", [{"num_workers": 0}, {"engine": "threads"}, {"engine": ProcessEngine("fork")}])
@pytest.mark.parametrize("kind", [KeyboardInterrupt, GeneratorExit, Stop])
def test_exceptions_that_end_programs(kind: Any, engine: dict[str, Any]) -> None:
    """They keep their class on every engine; no worker dies of them."""
    with pytest.raises(kind, match="now"):
        numbers(2).map(_stops(kind), chunksize=1, **engine)


def test_the_place_of_an_error_that_does_not_pickle() -> None:
    """It arrives with the text, also where the class has a message of its own."""
    with pytest.raises(WorkerError, match=r"Wordless: of its own\nin elements 0 to 1"):
        numbers(2).map(_wordless, num_workers=1)


class Wordless(Exception):
    """Neither pickles, with whatever is registered for errors, nor has a text as its first argument."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(one)
        self.lock = threading.Lock()

    def __str__(self) -> str:
        return "of its own"


def _wordless(batch: Any) -> Any:
    raise Wordless(1, 2)


@pytest.mark.parametrize("engine", [{"num_workers": 0}, {"engine": "threads", "num_workers": 2}])
def test_a_function_that_writes_to_its_chunk(engine: dict[str, Any]) -> None:
    """In this process that would change the data, elsewhere a copy: an error names the field."""

    def writes(batch: Any) -> Any:
        batch["n", "b"].mul_(2)
        return batch

    nested = TensorDict({"a": torch.ones(4), "n": {"b": torch.ones(4)}}, [4])
    with pytest.raises(ArgumentError, match=r"wrote to `n\.b` of its chunk, in elements 0 to 1 .*chunk\.clone\(\)"):
        nested.map(writes, chunksize=2, **engine)
    nested["n", "b"].fill_(1)
    assert (nested.map(lambda batch: writes(batch.clone()), chunksize=2, **engine)["n", "b"] == 2).all()
    drawn = nested.map_iter(writes, chunksize=2, shuffle=True, **engine)  # copies on every engine
    assert len(list(drawn)) == 2
    shared = nested.clone().share_memory_()  # every engine writes to the data
    shared.map(writes, chunksize=2, **engine)
    assert (shared["n", "b"] == 2).all()
    assert numbers().map(functions.more, chunksize=9, out=(into := numbers()), **engine) is into


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "threads": ({"engine": "threads", "timeout": 1}, "timeout= needs workers that can be stopped"),
    "here": ({"num_workers": 0, "timeout": 1.0}, "timeout= needs workers that can be stopped"),
    "given": ({"engine": ProcessEngine(), "retries": 1}, "retries: an option of engines that the map starts"),
    "negative": ({"retries": -1}, "retries is a number from 0, got -1"),
    "no time": ({"timeout": 0}, "timeout is a number of seconds above 0, or None, got 0"),
    "no number": ({"timeout": "1"}, "timeout is a number of seconds above 0"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_policies_that_are_refused(case: str) -> None:
    """An engine that can't do what is asked says so before anything starts."""
    options, text = REFUSED[case]
    with pytest.raises(ArgumentError, match=text):
        numbers(2).map(functions.same, **options)


@pytest.mark.parametrize("make", [ProcessEngine, RayEngine, DaskEngine])
def test_engines_take_the_policy(make: Any) -> None:
    """Each has the same two options, with the same checks."""
    make(retries=0, task_timeout=1.5)
    with pytest.raises(ArgumentError, match="retries is a number from 0"):
        make(retries=-1)
    with pytest.raises(ArgumentError, match="timeout is a number of seconds"):
        make(task_timeout=float("inf"))


@pytest.mark.slow
def test_a_program_without_a_guard(tmp_path: Path) -> None:
    """Under "spawn" a worker imports the program; the error says what is missing."""
    program = tmp_path / "program.py"
    program.write_text(
        "import torch\nfrom tensorclass import TensorDict\n"
        "TensorDict(a=torch.zeros(2), batch_size=[2]).map(abs, num_workers=1, mp_start_method='spawn')\n"
    )
    ran = subprocess.run([sys.executable, program], check=False, capture_output=True, text=True)
    assert ran.returncode == 1
    assert 'put what the program does under `if __name__ == "__main__":`' in ran.stderr


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("engine", ["ray", "dask"])
def test_clusters_have_the_same_policy(engine: str, data: Any, tmp_path: Path) -> None:
    """Rows that kill a worker or hang end up in `out/failed`."""
    fn = _Sometimes("leaves", {7})
    found = data.map(fn, out=tmp_path / "a", errors="skip", batch_size=8, num_workers=2, engine=engine, retries=0)
    assert found[:].label.tolist() == [i for i in range(ROWS) if i != 7]
    late = _Sometimes("hangs", {7})
    with pytest.raises(WorkerError, match="a task may take 2 s"):
        numbers().map(late, chunksize=20, num_workers=2, engine=engine, retries=0, timeout=2)


def test_seeding_stores_nothing() -> None:
    """Without an accelerator a seed is set at once: torch's `manual_seed` keeps the stack of each call for later."""
    queued: list[Any] = getattr(torch.cuda, "_queued_calls", [])
    before = len(queued)
    for _ in range(3):
        with seeded_block(5, True):
            drawn = torch.rand(2)
    assert torch.equal(drawn, torch.rand(2, generator=torch.Generator().manual_seed(5)))
    assert torch.accelerator.is_available() or len(queued) == before
