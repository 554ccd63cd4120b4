"""Objects with a state, used by four threads at once: each works, or says that it is used elsewhere."""

from __future__ import annotations

import importlib
import inspect
import os
import pickle
import re
import subprocess
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from enum import Enum
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Distribution

from tensorclass import (
    DatasetWriter,
    MemoryMappedTensor,
    PersistentTensorDict,
    TensorClass,
    TensorClassDataset,
    TensorCollection,
    TensorDict,
    TensorDictFuture,
    append_memmap,
    load,
    timeit,
)
from tensorclass.core._caches import Classes
from tensorclass.core._entry import Entry
from tensorclass.core._forks import InTurn, Turn
from tensorclass.core._modes import Block
from tensorclass.errors import ArgumentError
from tensorclass.io import Batches
from tensorclass.io._loader import BatchLoader
from tensorclass.io._lock import FileLock
from tensorclass.io._remote import Remote, remote
from tensorclass.nn import CudaGraphModule
from tensorclass.parallel import DaskEngine, ProcessEngine, RayEngine, ThreadEngine
from tensorclass.parallel._transfer import Transfer
from tensorclass.typing import Float32, Int64
from tests.io._server import serving

ROOT = Path(__file__).parents[1]
THREADS = 4


class Row(TensorClass):
    number: Int64[Tensor, ""]
    wide: Float32[Tensor, "8"]


def rows(begin: int, end: int) -> Row:
    """Rows whose values say which they are."""
    numbers = torch.arange(begin, end)
    return Row(numbers, numbers[:, None].expand(-1, 8).float())


@pytest.fixture(autouse=True)
def _switch_often() -> Iterator[None]:
    """Threads give way after a few bytecodes, so that what can be interrupted is."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def in_four(work: Callable[[int], Any]) -> list[Any]:
    """What a function gives in each of four threads that begin together; an error is given as it is."""
    ready = threading.Barrier(THREADS)

    def run(number: int) -> Any:
        ready.wait()
        try:
            return work(number)
        except Exception as error:
            return error

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(run, range(THREADS)))


def dataset(folder: Path, count: int = 96) -> TensorClassDataset[Row]:
    """A dataset of several shards."""
    with TensorClassDataset.create(folder / "rows", Row, rows_per_shard=10) as writer:
        writer.append(rows(0, count))
    return TensorClassDataset(folder / "rows", Row)


# ---- what works ------------------------------------------------------------------------------------------------------


def check_writer(folder: Path) -> None:
    """Each row is written once, and the rows of one call lie together and in order."""
    writer = TensorClassDataset.create(folder / "w", Row, rows_per_shard=50)

    def append(number: int) -> None:
        for begin in range(number * 150, (number + 1) * 150, 3):
            writer.append(rows(begin, begin + 3))
            assert writer.committed <= writer.rows
            if begin % 50 == 0:
                writer.commit()
                assert "open" in repr(writer)

    assert in_four(append) == [None] * THREADS
    assert writer.rows == 600
    assert in_four(lambda _: writer.close()) == [None] * THREADS
    data = TensorClassDataset(folder / "w", Row)
    assert data.verify() == []
    numbers = data[:].number
    assert sorted(numbers.tolist()) == list(range(600))
    assert (numbers.view(-1, 3).diff(dim=1) == 1).all()
    assert torch.equal(data[:].wide[:, 0], numbers.float())


def check_dataset(folder: Path) -> None:
    """Rows are right however many shards are opened and closed meanwhile."""
    data = dataset(folder)
    data._shelf._limit = 3

    def read(number: int) -> None:
        generator = torch.Generator().manual_seed(number)
        for _ in range(60):
            wanted = torch.randint(96, (7,), generator=generator)
            assert data[wanted].number.tolist() == wanted.tolist()

    assert in_four(read) == [None] * THREADS


def check_iterator(batches: Any) -> None:
    """Each batch of the epoch goes to one thread, and all are counted."""
    shared, whole = iter(batches), len(batches)

    def take(_: int) -> list[int]:
        numbers = []
        for batch in shared:
            numbers += batch.number.tolist()
            assert 0 < batches.state_dict()["step"] <= whole
            assert batches.epoch == 0
        return numbers

    found = in_four(take)
    assert sorted(chain(*found)) == list(range(96)), found
    assert batches.state_dict()["step"] == whole
    other = pickle.loads(pickle.dumps(batches))
    other.load_state_dict({**batches.state_dict(), "step": whole - 1})
    assert len(list(other)) == 1


def check_epochs(batches: Any) -> None:
    """An iterator of its own for each thread: the last one that begins goes to the end, the others raise."""
    found = in_four(lambda _: sum([len(batch) for batch in batches]))
    ended = [one for one in found if one == 96]
    assert ended, found
    assert all(isinstance(one, int) or "another iterator has begun" in str(one) for one in found), found


def check_batches(folder: Path) -> None:
    """Batches of a dataset."""
    check_iterator(dataset(folder).batches(4))
    check_epochs(TensorClassDataset(folder / "rows", Row).batches(4, shuffle=True))


def check_loader(folder: Path) -> None:
    """A loader, without workers and with them."""
    data = dataset(folder)
    check_iterator(data.loader(4))
    check_iterator(data.loader(4, num_workers=1, multiprocessing_context="fork"))


def check_future(folder: Path) -> None:
    """All threads get the container."""
    data = TensorDict(a=torch.arange(5))
    future = data.memmap(folder / "f", num_threads=2, return_early=True)
    assert isinstance(future, TensorDictFuture)
    assert [one["a"].tolist() for one in in_four(lambda _: future.result())] == [[0, 1, 2, 3, 4]] * THREADS


def check_mapped(folder: Path) -> None:
    """Threads that write rows of their own lose none."""
    tensor = MemoryMappedTensor.zeros(400, filename=str(folder / "m.memmap"))

    def write(number: int) -> None:
        for row in range(number, 400, THREADS):
            tensor[row] = row

    assert in_four(write) == [None] * THREADS
    assert tensor.tolist() == list(range(400))


def check_lock(folder: Path) -> None:
    """One thread holds it, the others are refused; all may release it."""
    found = in_four(lambda _: FileLock(str(folder / "lock")))
    held = [one for one in found if isinstance(one, FileLock)]
    assert len(held) == 1
    assert sum(isinstance(one, BlockingIOError) for one in found) == THREADS - 1
    assert in_four(lambda _: held[0].release()) == [None] * THREADS
    FileLock(str(folder / "lock")).release()


def check_remote(folder: Path) -> None:
    """A block is requested once, and everyone gets the bytes."""
    raw = bytes(range(256)) * 2000
    (folder / "x.bin").write_bytes(raw)
    with serving(folder) as server:
        found = remote(f"{server.url}/x.bin")
        assert isinstance(found, Remote)
        assert in_four(lambda number: found.need([(number * 100_000, len(raw))])) == [None] * THREADS
        assert os.pread(found.fd, len(raw), 0) == raw
        assert max(Counter(server.ranges).values()) == 1
        assert sum(end - begin for begin, end in server.ranges) == len(raw)


def _named(batch: TensorDict) -> TensorDict:
    time.sleep(0.002)
    return batch + 1


def check_engine(engine: Any) -> None:
    """One map runs, others are refused; afterwards the engine is free."""
    data = TensorDict(a=torch.arange(40), batch_size=[40])

    def run(_: int) -> Any:
        return data.map(_named, num_workers=2, chunksize=1, engine=engine)["a"].tolist()

    found = in_four(run)
    right = [one for one in found if one == list(range(1, 41))]
    refused = [one for one in found if isinstance(one, ArgumentError) and "runs another map" in str(one)]
    assert right
    assert len(right) + len(refused) == THREADS, found
    assert run(0) == list(range(1, 41))


def check_threads_engine(folder: Path) -> None:
    """The engine of threads."""
    check_engine(ThreadEngine())


def check_processes_engine(folder: Path) -> None:
    """The engine of processes."""
    check_engine(ProcessEngine("fork"))


def check_transfer(folder: Path) -> None:
    """A transfer ends once, and all who wait have its outcome."""

    class Slow(Transfer):
        ends = 0

        def _end(self, timeout: Any) -> None:
            self.ends += 1
            time.sleep(0.02)
            raise self.problem or KeyError("never")

        problem: Exception | None = ArgumentError("refused")

    transfer = Slow.__new__(Slow)
    Transfer.__init__(transfer, None, "send")
    found = in_four(lambda _: transfer.wait())
    assert transfer.ends == 1
    assert [(type(one), str(one)) for one in found] == [(ArgumentError, "refused")] * THREADS


def check_graph(folder: Path) -> None:
    """Without a graph the calls go through; with one they run in turns."""

    class Turns(CudaGraphModule):
        busy, most = 0, 0

        def _conditions(self) -> Any:
            self.busy += 1
            self.most = max(self.most, self.busy)
            time.sleep(0.005)
            self.busy -= 1
            return "the same"

        def _run_on_side_stream(self, run: Any) -> Any:
            return run()

        def _record(self, leaves: Any, spec: Any) -> Any:
            return type("Replayed", (), {"call": lambda _, leaves, spec: ((leaves[0] * 2), False)})()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # without CUDA it says that nothing is recorded
        double = Turns(lambda x: x * 2)
    double._device = torch.device("cpu")
    found = in_four(lambda number: [double(torch.tensor(float(number))).item() for _ in range(3)])
    assert found == [[2.0 * number] * 3 for number in range(THREADS)]
    assert double.most == 1


def check_timer(folder: Path) -> None:
    """Times of one name add up over all threads."""
    timeit.erase()

    def run(_: int) -> None:
        for _ in range(50):
            with timeit("four threads"):
                pass

    assert in_four(run) == [None] * THREADS
    assert timeit.calls("four threads") == 50 * THREADS
    timeit.erase()


def check_classes(folder: Path) -> None:
    """All threads get one class."""
    known = Classes()
    found = in_four(lambda _: [known.get(("row", size), lambda: type("Made", (), {})) for size in range(50)])
    assert all(one == found[0] for one in found)


def check_store(folder: Path) -> None:
    """Writes of all threads are in the file."""
    store = TensorDict(a=torch.zeros(40), batch_size=[40]).to_h5(folder / "x.h5")

    def write(number: int) -> None:
        for row in range(number, 40, THREADS):
            store.update_at_({"a": torch.tensor(float(row))}, row)
            store[f"k{row}"] = torch.full((40,), row)
        store["a"].sum()

    assert in_four(write) == [None] * THREADS
    assert store["a"].tolist() == list(range(40))
    assert len(store.keys()) == 41
    in_four(lambda _: [store.add_(1) for _ in range(3)])
    assert store["a"].tolist() == list(range(3 * THREADS, 40 + 3 * THREADS))


DRIVEN: dict[Any, Callable[[Path], None]] = {
    DatasetWriter: check_writer,
    TensorClassDataset: check_dataset,
    Batches: check_batches,
    BatchLoader: check_loader,
    TensorDictFuture: check_future,
    MemoryMappedTensor: check_mapped,
    PersistentTensorDict: check_store,
    FileLock: check_lock,
    Remote: check_remote,
    ThreadEngine: check_threads_engine,
    ProcessEngine: check_processes_engine,
    Transfer: check_transfer,
    CudaGraphModule: check_graph,
    timeit: check_timer,
    Classes: check_classes,
}
"""Objects with a state, and the test that drives each of them from four threads."""

ALIKE = {RayEngine: "one map at a time", DaskEngine: "one map at a time"}
"""They go through the same functions as the other engines, and need a cluster."""

FORKING = {check_loader, check_processes_engine}
"""They fork while threads run, which crashes beside threads that Ray and gRPC left in the process."""

STATELESS = {
    "Diagnostic", "Dispatch", "FailedRow", "FieldRef", "Engine", "HeldError", "Later", "LinkedList", "PackLayout",
    "PerElement", "Problem", "RayBatches", "Layout", "Same", "Schema", "Shape", "TensorAttrs", "dispatch",
    "as_tensordict_module", "set_printoptions", "NestedKey", "UnbatchedTensor",
}  # fmt: skip
"""Descriptions, functions, blocks, values and protocols: nothing in them changes after they are made."""

_PLACES = (
    "tensorclass", "tensorclass.io", "tensorclass.parallel", "tensorclass.nn", "tensorclass.testing",
    "tensorclass.utils", "tensorclass.functional", "tensorclass.typing", "tensorclass.errors",
)  # fmt: skip
_SAID_ELSEWHERE = (TensorCollection, Entry, nn.Module, Distribution, Enum, Block, BaseException)
"""Containers and entries: docs/concepts.md, and tests/contract. Modules and distributions: as those of torch."""


def public_classes() -> dict[str, Any]:
    """The public classes of the package whose objects may have a state of their own."""
    modules = [importlib.import_module(place) for place in _PLACES]
    named = [getattr(module, name) for module in modules for name in dir(module) if not name.startswith("_")]
    own = [v for v in named if inspect.isclass(v) and v.__module__.startswith("tensorclass.")]
    return {cls.__name__: cls for cls in own if not issubclass(cls, _SAID_ELSEWHERE)}


def test_every_object_with_a_state_is_driven() -> None:
    """A public class has its row in one of the tables."""
    known = {cls.__name__ for cls in [*DRIVEN, *ALIKE]} | STATELESS
    assert set(public_classes()) <= known, set(public_classes()) - known


@pytest.mark.parametrize("cls", [*DRIVEN, *ALIKE], ids=lambda cls: cls.__name__)
def test_docstrings_say_whether_threads_may_share(cls: Any) -> None:
    """Who reads the help of such a class learns it."""
    assert re.search(r"\b[Tt]hreads?\b", inspect.getdoc(cls) or ""), cls


@pytest.mark.parametrize("check", DRIVEN.values(), ids=lambda check: check.__name__)
def test_four_threads(check: Callable[[Path], None], tmp_path: Path) -> None:
    """Nothing is lost or doubled; what can't be shared says so."""
    if check not in FORKING:
        return check(tmp_path)
    code = f"from pathlib import Path; from tests import test_threads as t; t.{check.__name__}(Path({str(tmp_path)!r}))"
    call = [sys.executable, "-c", code]
    ended = subprocess.run(call, check=False, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    return None


def test_iterators_of_maps_are_shared() -> None:
    """Each result of a map goes to one thread."""
    results = TensorDict(a=torch.arange(60), batch_size=[60]).map_iter(
        _named, num_workers=2, chunksize=1, engine="threads"
    )
    found = in_four(lambda _: [one["a"].item() for one in results])
    assert sorted(chain(*found)) == list(range(1, 61)), found


def test_saves_to_one_path(tmp_path: Path) -> None:
    """Threads that save to one path leave the batch of one of them, and rows that they append are all there."""
    target = tmp_path / "x.safetensors"
    in_four(lambda number: [TensorDict(a=torch.full((1000,), number)).save(target) for _ in range(5)])
    assert len(set(load(target)["a"].tolist())) == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.safetensors"]
    TensorDict(a=torch.zeros(1), batch_size=[1]).save(tmp_path / "grows")
    added = in_four(lambda n: append_memmap(tmp_path / "grows", TensorDict(a=torch.ones(1) * n, batch_size=[1])))
    assert added == [None] * THREADS
    assert sorted(load(tmp_path / "grows")["a"].tolist()) == [0, 0, 1, 2, 3]


def test_a_turn_belongs_to_one_object() -> None:
    """A copy or a pickle of it is free, whoever holds the original; one thread may take it twice."""
    turn = Turn()
    with turn, turn:
        for other in (deepcopy(turn), pickle.loads(pickle.dumps(turn))):
            with ThreadPoolExecutor(1) as pool:
                assert pool.submit(lambda other=other: other.__enter__()).result(5) is None


def test_an_iterator_is_freed_without_a_cycle() -> None:
    """Who stops early ends the generator at once."""
    ended = []

    def count() -> Iterator[int]:
        try:
            yield from range(5)
        finally:
            ended.append(True)

    items = InTurn(count(), Turn())
    assert next(items) == 0
    del items
    assert ended == [True]
