"""Ray and Dask on this machine: one of each for all tests. Addresses at which nobody answers."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import TensorClass, TensorClassDataset, TensorDict
from tensorclass.errors import ArgumentError, MissingExtraError, WorkerError
from tensorclass.parallel import DaskEngine, RayBatches, RayEngine, _clusters
from tensorclass.parallel._clusters import _sent
from tensorclass.typing import Float32, Int64
from tests.parallel import _functions as functions
from tests.parallel._functions import Dies, Item, containers, items


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    """Ray, which stays up between maps."""
    import ray  # starts slowly

    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield ray
    ray.shutdown()


@pytest.fixture(scope="module")
def dask() -> Iterator[Any]:
    """A cluster of two workers."""
    from distributed import Client, LocalCluster  # starts slowly

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs="CRITICAL") as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture(params=["ray", "dask"])
def engine(request: pytest.FixtureRequest) -> Any:
    """An engine by name, or one that is set up."""
    if request.param == "ray":
        request.getfixturevalue("ray")
        return lambda: "ray"
    client = request.getfixturevalue("dask")
    return lambda: DaskEngine(client)


pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.slow
def test_clusters(engine: Any, tmp_path: Path) -> None:
    """Containers and datasets, random numbers, functions that do not import, errors, and killed workers."""
    for kind, data in containers().items():
        found = data.map(functions.same, num_workers=2, chunksize=4, engine=engine())
        assert type(found) is type(data) or kind == "lazy"
        assert (found == data).all()
    plain = TensorDict(a=torch.arange(6.0), batch_size=[6])
    how: dict[str, Any] = {"chunksize": 2, "num_workers": 2}
    one = plain.map(functions.noisy, engine=engine(), generator=torch.Generator().manual_seed(1), **how)
    two = plain.map(functions.noisy, generator=torch.Generator().manual_seed(1), **how)
    assert (one == two).all()
    assert (plain.map(lambda x: x + 1, engine=engine(), **how) == plain + 1).all()
    with pytest.raises(ValueError, match="no good\nin elements 0 to 1"):
        plain.map(functions.raises, engine=engine(), **how)
    with pytest.raises(ArgumentError, match="result of the function"):
        plain.map(functions.gives_lock, engine=engine(), **how)
    with TensorClassDataset.create(tmp_path / "source", Item, rows_per_shard=20) as writer:
        writer.append(items(50))
    data = TensorClassDataset(tmp_path / "source", Item)
    (tmp_path / "marks").mkdir()
    dies = _Sometimes(Dies(tmp_path / "marks", 1))
    found = data.map(dies, out=tmp_path / "out", batch_size=10, rows_per_shard=10, engine=engine(), num_workers=2)
    assert (found[:] == data[:]).all()
    assert len(list((tmp_path / "marks").iterdir())) == 1
    assert len([name for name in (tmp_path / "out").iterdir() if name.suffix == ".safetensors"]) == 5


class _Sometimes:
    """Dies at one batch."""

    def __init__(self, dies: Dies) -> None:
        self.dies = dies

    def __call__(self, batch: Any) -> Any:
        return self.dies(batch) if batch.label[0] == 20 else batch


@pytest.mark.parametrize("name", ["ray", "dask"])
def test_nobody_answers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error within the time that was given, with the address; a wrong form at once."""
    if "ray" in sys.modules:  # the cluster of the slow tests, to which this process stays connected
        monkeypatch.setattr("ray.is_initialized", lambda: False)
    make: Any = RayEngine if name == "ray" else DaskEngine
    data = TensorDict(a=torch.arange(2), batch_size=[2])
    begin = time.monotonic()
    with pytest.raises(WorkerError, match=r"does not answer at '127\.0\.0\.1:9'"):
        data.map(functions.same, engine=make(address="127.0.0.1:9", timeout=1.0))
    with pytest.raises(ArgumentError, match="host:port"):
        data.map(functions.same, engine=make(address="nowhere"))
    assert time.monotonic() - begin < 20


@pytest.mark.parametrize(("name", "package"), [("ray", "ray"), ("dask", "distributed")])
def test_not_installed(name: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the extra."""
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"tensorclass\[{name}\]"):
        TensorDict(a=torch.arange(2), batch_size=[2]).map(functions.same, engine=name)


@pytest.mark.parametrize("runs", [True, False])
def test_a_ray_that_runs_is_used(runs: bool, no_ray: Path) -> None:
    """One that runs on this machine says itself how many cores it has; without one a new one starts."""
    calls, engine = _ray_of_calls(RayEngine(), runs)
    engine._connect(2)
    assert [call["address"] for call in calls] == ["auto", "local"][: 1 if runs else 2]
    assert [call.get("num_cpus") for call in calls] == [None, 2][: len(calls)]


def test_a_ray_of_its_own(no_ray: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On request, whatever runs; a process that is connected to another one can't have it."""
    no_ray.write_text("127.0.0.1:9")
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:9")
    calls, engine = _ray_of_calls(RayEngine("local", object_store_memory=100), True)
    engine._connect(3)
    assert [(call["address"], call["num_cpus"], call["object_store_memory"]) for call in calls] == [("local", 3, 100)]
    context = SimpleNamespace(gcs_address="127.0.0.1:7")
    connected: Any = SimpleNamespace(is_initialized=lambda: True, get_runtime_context=lambda: context)
    monkeypatch.setattr(_clusters, "optional", lambda *_: connected)
    monkeypatch.setattr(_clusters, "_sent", lambda *_, **__: None)
    with pytest.raises(ArgumentError, match=r"connected to Ray at 127.0.0.1:7, so none of its own .*ray.shutdown"):
        RayEngine("local").start(len, 1)


def _ray_of_calls(engine: Any, runs: bool) -> tuple[list[dict[str, Any]], Any]:
    calls: list[dict[str, Any]] = []

    def init(**options: Any) -> None:
        calls.append(options)
        if options["address"] == "auto" and not runs:
            raise ConnectionError("none")

    engine._ray = SimpleNamespace(init=init)
    return calls, engine


@pytest.fixture
def no_ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine that knows no Ray; the file in which one is named."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    (tmp_path / "ray").mkdir()
    return tmp_path / "ray" / "ray_current_cluster"


@pytest.mark.parametrize("address", [None, "auto"])
@pytest.mark.parametrize("where", ["file", "variable"])
def test_a_ray_that_was_killed(where: str, address: Any, no_ray: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file that it leaves is not waited for: a new one starts. Who was told of it by the user gets an error."""
    if where == "file":
        no_ray.write_text("127.0.0.1:9")
    else:
        monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:9")
    calls, engine = _ray_of_calls(RayEngine(address=address, timeout=1.0), True)
    if where == "file" and address is None:
        engine._connect(2)
        assert [call["address"] for call in calls] == ["local"]
    else:
        name = "RAY_ADDRESS" if where == "variable" else "ray_current_cluster"
        with pytest.raises(WorkerError, match=rf"start it, or remove .*{name} to .*does not answer at '127.0.0.1:9'"):
            engine._connect(2)
        assert calls == []


class Future:
    """What Dask gives, after some time."""

    def __init__(self) -> None:
        self.asked = 0

    def done(self) -> bool:
        """Whether it is there."""
        return self.asked > 3

    def result(self, timeout: Any = None) -> Any:
        """The result of a job."""
        self.asked += 1
        if not self.done():
            raise TimeoutError
        return _sent("result")

    def release(self) -> None:
        """Let it go."""


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("own", [False, True])
def test_dask_without_workers(workers: int, own: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster whose last worker is gone, for good, is an error, not a wait without end; our own starts others."""
    monkeypatch.setattr(_clusters, "_PATIENCE", -1.0 if not own else 60.0)
    engine = DaskEngine(SimpleNamespace(submit=lambda *_: None, nthreads=lambda: dict.fromkeys(range(workers), 1)))
    engine._client, engine._job = engine._given, str
    engine._dask = SimpleNamespace(wait=lambda futures, timeout, return_when: futures[0].result(timeout))
    scaled: list[int] = []
    if own:
        engine._cluster, engine._count = SimpleNamespace(scale=scaled.append), 2
    found = engine.result(("task", Future()))
    if workers or own:
        assert found == "result"
        assert scaled == [2, 2, 2] * own
    else:
        assert "it has no worker" in str(found.error)


def test_no_client() -> None:
    """What is no client of Dask."""
    with pytest.raises(ArgumentError, match=r"distributed\.Client"):
        DaskEngine(3)


class Plain(TensorClass):
    """What has a column for each field."""

    x: Float32[Tensor, "3"]
    label: Int64[Tensor, ""]


class Doubling:
    """Notes how often it was made."""

    def __call__(self, batch: Plain) -> Plain:
        assert type(batch) is Plain
        return batch.replace(x=batch.x * 2)


@pytest.fixture
def plain_data(tmp_path: Path) -> TensorClassDataset[Plain]:
    """Thirty rows."""
    with TensorClassDataset.create(tmp_path / "plain", Plain, rows_per_shard=8) as writer:
        numbers = torch.arange(30)
        writer.append(Plain(x=numbers[:, None].expand(30, 3).float(), label=numbers))
    return TensorClassDataset(tmp_path / "plain", Plain)


class Scaling:
    """What Ray Data makes in each actor."""

    def __init__(self, by: float) -> None:
        self.by = by

    def __call__(self, batch: Plain) -> Plain:
        return batch.replace(x=batch.x * self.by)


@pytest.mark.slow
def test_ray_data(ray: Any, plain_data: Any, tmp_path: Path) -> None:
    """Typed batches in, through tasks and actors, and out again; every row once. Classes are made in actors."""
    ray.data.DataContext.get_current().enable_progress_bars = False
    typed = plain_data.to_ray(rows_per_block=8)
    assert typed.count() == 30
    doubled = typed.map_batches(Doubling(), batch_size=5, num_cpus=0.5).map_batches(
        Scaling, concurrency=(1, 1), fn_constructor_args=(2.0,), num_cpus=1
    )
    found = TensorClassDataset.from_ray(doubled, tmp_path / "out")
    rows = found[torch.argsort(found[:].label)]
    assert found.cls is Plain
    assert rows.label.tolist() == list(range(30))
    assert torch.equal(rows.x, plain_data[:].x * 4)
    with pytest.raises(ArgumentError, match="row_cls"):
        TensorClassDataset.from_ray(doubled.dataset, tmp_path / "other")


@pytest.mark.slow
def test_tables_of_ray(ray: Any, tmp_path: Path) -> None:
    """Numpy batches of Ray come back: event dims, ragged, nested and text columns. No rows are a dataset of no rows."""
    ray.data.DataContext.get_current().enable_progress_bars = False
    with TensorClassDataset.create(tmp_path / "items", Item, rows_per_shard=8) as writer:
        writer.append(items(20))
    data = TensorClassDataset(tmp_path / "items", Item)
    typed = data.to_ray(8)
    through = typed.dataset.map_batches(functions.same, batch_format="numpy")
    found = TensorClassDataset.from_ray(through, tmp_path / "out", Item)
    assert (found[torch.argsort(found[:].label)] == data[:]).all()
    none = typed.map_batches(lambda batch: batch[batch.label < 0])
    for number, empty in enumerate([none, none.map_batches(functions.same)]):
        assert len(TensorClassDataset.from_ray(empty, tmp_path / f"none{number}")) == 0


def test_wrong_arguments_of_ray_data() -> None:
    """Refused where they are given, not in a worker."""
    pytest.importorskip("ray")
    typed = RayBatches(SimpleNamespace(iter_batches=iter), Plain)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"concurrency": 0}, "concurrency is a number of actors"), ({"concurrency": (2, 1)}, "got (2, 1)"),
        ({"concurrency": "a"}, "got 'a'"), ({"cls": dict}, "cls is the tensorclass"), ({"cls": 5}, "got 5"),
        ({"batch_format": "numpy"}, "leave batch_format out"), ({"compute": 3}, "leave compute out"),
    ]  # fmt: skip
    for options, text in wrong:
        with pytest.raises(ArgumentError, match=re.escape(text)):
            typed.map_batches(functions.same, **options)
    with pytest.raises(ArgumentError, match="leave batch_format out"):
        next(typed.iter_batches(batch_format="numpy"))
    with pytest.raises(ArgumentError, match="row_cls is the tensorclass"):
        TensorClassDataset.from_ray(typed, "out", dict)


@pytest.mark.slow
def test_dask_bag(dask: Any, plain_data: Any) -> None:
    """A bag of typed batches, which workers read."""
    bag = plain_data.to_dask(rows_per_batch=8)
    found = bag.map(lambda batch: (type(batch).__name__, int(batch.label.sum()))).compute(scheduler="threads")
    assert found == [("Plain", 28), ("Plain", 92), ("Plain", 156), ("Plain", 159)]


@pytest.mark.parametrize("module", ["__main__", "__mp_main__"])
def test_classes_of_the_program(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers can't import them: an error that says so, where a copy by value would have no fields."""
    monkeypatch.setattr(Plain, "__module__", module)
    rows = Plain(x=torch.zeros(2, 3), label=torch.zeros(2, dtype=torch.int64))
    with pytest.raises(ArgumentError, match="declare `Plain` in a module"):
        RayBatches(None, Plain).map_batches(functions.same)
    for engine in (RayEngine(address="127.0.0.1:9"), DaskEngine(address="127.0.0.1:9")):
        with pytest.raises(ArgumentError, match="declare `Plain` in a module"):
            rows.map(functions.same, engine=engine)


def test_functions_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers get them by value, also from a spawned process, where the module of the program has another name."""
    pytest.importorskip("cloudpickle")
    program = ModuleType("__mp_main__")
    exec("def twice(x):\n    return 2 * x\n", vars(program))
    monkeypatch.setitem(sys.modules, "__mp_main__", program)
    sent = _sent(program.twice, cloud=True)
    monkeypatch.delitem(sys.modules, "__mp_main__")
    assert _clusters._receive_sent(sent)(4) == 8


def test_classes_that_no_worker_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray Data, Dask and joblib send them by value: without fields, so that their workers wait for ever."""
    cloudpickle = pytest.importorskip("cloudpickle")

    class Inside(TensorClass):
        x: Float32[Tensor, ""]

    rows = Plain(x=torch.zeros(2, 3), label=torch.zeros(2, dtype=torch.int64))
    assert (cloudpickle.loads(cloudpickle.dumps(rows)) == rows).all()
    monkeypatch.setattr(Plain, "__module__", "__main__")
    for value, name in (
        (rows, "Plain"),
        (Plain, "Plain"),
        (lambda: Plain, "Plain"),
        (Plain.x, "Plain"),
        (Inside, "Inside"),
    ):
        with pytest.raises(ArgumentError, match=rf"declare `.*{name}` in a module"):
            cloudpickle.dumps(value)
