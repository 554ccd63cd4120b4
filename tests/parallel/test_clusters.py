"""Ray and Dask on this machine: one of each for all tests. Addresses at which nobody answers."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import TensorClass, TensorClassDataset, TensorDict
from tensorclass.errors import ArgumentError, MissingExtraError, WorkerError
from tensorclass.parallel import DaskEngine, RayEngine, _clusters
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
def test_nobody_answers(name: str) -> None:
    """An error within the time that was given, with the address; a wrong form at once."""
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


@pytest.mark.slow
def test_ray_data(ray: Any, plain_data: Any, tmp_path: Path) -> None:
    """Typed batches in, through tasks and actors, and out again; every row once."""
    ray.data.DataContext.get_current().enable_progress_bars = False
    typed = plain_data.to_ray(rows_per_block=8)
    assert typed.count() == 30
    doubled = typed.map_batches(Doubling(), batch_size=5).map_batches(Doubling(), concurrency=1)
    found = TensorClassDataset.from_ray(doubled, tmp_path / "out")
    rows = found[torch.argsort(found[:].label)]
    assert found.cls is Plain
    assert rows.label.tolist() == list(range(30))
    assert torch.equal(rows.x, plain_data[:].x * 4)
    with pytest.raises(ArgumentError, match="row_cls"):
        TensorClassDataset.from_ray(doubled.dataset, tmp_path / "other")


@pytest.mark.slow
def test_dask_bag(dask: Any, plain_data: Any) -> None:
    """A bag of typed batches, which workers read."""
    bag = plain_data.to_dask(rows_per_batch=8)
    found = bag.map(lambda batch: (type(batch).__name__, int(batch.label.sum()))).compute(scheduler="threads")
    assert found == [("Plain", 28), ("Plain", 92), ("Plain", 156), ("Plain", 159)]


def test_classes_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers can't import them: an error that says so, where a copy by value would have no fields."""
    monkeypatch.setattr(Plain, "__module__", "__main__")
    rows = Plain(x=torch.zeros(2, 3), label=torch.zeros(2, dtype=torch.int64))
    for engine in (RayEngine(address="127.0.0.1:9"), DaskEngine(address="127.0.0.1:9")):
        with pytest.raises(ArgumentError, match="declare it in a module"):
            rows.map(functions.same, engine=engine)
