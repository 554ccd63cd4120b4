"""Datasets from datasets: every row once and in order, whatever the engine, the verb, and what is killed."""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import pickle
import random
import resource
import signal
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tensorclass import PerElement, Ragged, TensorClass, TensorClassDataset, TensorDict
from tensorclass.errors import ArgumentError, BatchSizeError, FileFormatError, SchemaError, WorkerError
from tensorclass.nn import TensorClassModule
from tensorclass.parallel._order import RowOrder, Shuffled
from tensorclass.parallel._rows import RowJob
from tensorclass.typing import Complex64, Float32, Int64, UInt64
from tests.parallel._functions import Dies, Item, items
from tests.parallel.test_map import ENGINES, Backwards

ROWS = 50


class Keys(TensorClass):
    at: Int64[Tensor, ""]
    number: Float32[Tensor, ""]
    big: UInt64[Tensor, ""]
    pair: Int64[Tensor, "2"]
    point: Complex64[Tensor, ""]
    words: Ragged[Tensor, "t"]
    name: PerElement[str | None]
    weight: PerElement[float]
    info: PerElement[dict[str, int]]
    nested: Item
    absent: Float32[Tensor, ""] | None = None
    one: str = "one"


@pytest.mark.parametrize("descending", [False, True])
def test_order_is_that_of_batches(tmp_path: Path, descending: bool) -> None:
    """Datasets sort and group as batches do, by every kind of field; missing values come last."""
    gaps = [3.0, math.nan, 1.0, math.nan, 3.0]
    batch = Keys(
        at=torch.arange(5),
        number=torch.tensor(gaps),
        weight=gaps,
        info=[{}] * 5,
        nested=items(5),
        big=torch.tensor([2**63 + 5, 7, 7, 2**63, 0], dtype=torch.uint64),
        pair=torch.arange(10).view(5, 2).flip(0) % 3,
        point=torch.tensor([1j, 1, 0, 1j, 2]),
        words=[torch.arange(i % 3) for i in range(5)],
        name=["b", None, "a", None, "b"],
    )
    with TensorClassDataset.create(tmp_path / "keys", Keys, rows_per_shard=2) as writer:
        writer.append(batch)
    data = TensorClassDataset(tmp_path / "keys", Keys)
    fields = [Keys.nested.label, ("nested", "label"), *Keys.__tensorclass_schema__.fields]
    for number, field in enumerate(fields):
        out = tmp_path / f"{number}"
        if field in ("info", "nested"):
            for call in (data.sort_by, data.group_by):
                with pytest.raises(ArgumentError, match=f"`{field}`"):
                    call(field, out=out, num_workers=0)
            continue
        found = data.sort_by(field, descending=descending, out=out, num_workers=0)
        assert found[:].at.equal(batch.sort_by(field, descending=descending).at), field
        values, groups = data.group_by(field, out=out / "groups", num_workers=0)
        expected = batch.group_by(field)
        assert [group[:].at.tolist() for group in groups] == [rows.at.tolist() for rows in expected.values()]
        assert len(values) == len(expected)


class Scored(TensorClass):
    label: Int64[Tensor, ""]
    score: Float32[Tensor, ""]


@pytest.fixture
def data(tmp_path: Path) -> TensorClassDataset[Item]:
    """Fifty rows in shards of twenty."""
    with TensorClassDataset.create(tmp_path / "source", Item, rows_per_shard=20) as writer:
        writer.append(items(ROWS))
    return TensorClassDataset(tmp_path / "source", Item)


def score(batch: Any) -> Scored:
    """Some other class."""
    return Scored(label=batch.label, score=batch.x.sum(-1) + torch.rand(len(batch)))


def same(batch: Any) -> Any:
    """As it is."""
    return batch


class Counting:
    """Notes which rows it is called with."""

    def __init__(self, path: Path, wrong: int | None = None) -> None:
        self.path, self.wrong = path, wrong

    def __call__(self, batch: Any) -> Any:
        if self.wrong is not None and (batch.label == self.wrong).any() and not Path(f"{self.path}.mended").exists():
            raise ValueError("no good")
        with self.path.open("a") as file:
            file.write("".join(f"{label}\n" for label in batch.label.tolist()))
        return batch

    @property
    def seen(self) -> list[int]:
        return [int(line) for line in self.path.read_text().split()] if self.path.exists() else []


@pytest.mark.parametrize("engine", ENGINES)
def test_map(data: Any, tmp_path: Path, engine: str) -> None:
    """The same rows and random numbers on every engine; another class; shards of whole batches."""
    found = data.map(score, out=tmp_path / "out", batch_size=7, rows_per_shard=14, seed=3, **ENGINES[engine]())
    expected = data.map(score, out=tmp_path / "inline", batch_size=7, seed=3, num_workers=0)
    assert found.cls is Scored
    assert [shard.rows for shard in found.shards] == [14, 14, 14, 8]
    assert torch.equal(found[:].score, expected[:].score)
    assert found[:].label.tolist() == list(range(ROWS))
    assert found.verify() == []
    assert {name for name in os.listdir(tmp_path / "out") if name.endswith(".tmp")} == set()
    again = data.map(same, out=tmp_path / "same", batch_size=9, **ENGINES[engine]())
    assert (again[:] == data[:]).all()


def test_pipelines(data: Any, tmp_path: Path) -> None:
    """A typed module is a function of a batch; so is one that gives a TensorDict, with `cls=`."""
    torch.manual_seed(0)
    linear = nn.Linear(3, 1)
    module = TensorClassModule(linear, in_fields=[Item.x], out_fields=[Projected.y])
    found = data.map(module, out=tmp_path / "a", cls=Projected, num_workers=2)
    assert torch.allclose(found[:].y, linear(data[:].x).detach())
    untyped = data.map(
        lambda batch: TensorDict(y=linear(batch.x), batch_size=batch.batch_size), out=tmp_path / "b", cls=Projected
    )
    assert torch.equal(untyped[:].y, found[:].y)


class Projected(TensorClass):
    y: Float32[Tensor, "1"]


VERBS: dict[str, Any] = {
    "filter": (lambda data, **how: data.filter(lambda batch: batch.label % 3 == 0, **how), range(0, ROWS, 3)),
    "filter none": (lambda data, **how: data.filter(lambda batch: batch.label < 0, **how), []),
    "repartition": (lambda data, **how: data.repartition(8, **how), range(ROWS)),
    "descending": (lambda data, **how: data.sort_by("label", True, **how), range(ROWS - 1, -1, -1)),
    "by object": (lambda data, **how: data.sort_by(Item.name, **how), sorted(range(ROWS), key=lambda i: f"row {i}")),
    "shuffle": (lambda data, **how: data.shuffle(5, **how), None),
    "sample": (lambda data, **how: data.sample(12, 3, **how), None),
    "part": (lambda data, **how: data.sample(0.5, 3, **how), None),
}  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
def test_verbs(data: Any, tmp_path: Path, verb: str) -> None:
    """Each verb on two engines gives the same rows, whole."""
    make, expected = VERBS[verb]
    found = make(data, out=tmp_path / "a", engine="threads", batch_size=6)
    other = make(data, out=tmp_path / "b", num_workers=2, batch_size=9)
    labels = found[:].label.tolist() if len(found) else []
    assert labels == (other[:].label.tolist() if len(other) else [])
    if expected is not None:
        assert labels == list(expected)
    elif verb == "shuffle":
        assert sorted(labels) == list(range(ROWS))
        assert labels != sorted(labels)
        assert labels != data.shuffle(6, out=tmp_path / "c", num_workers=0)[:].label.tolist()
    else:
        assert labels == sorted(set(labels))
        assert len(labels) == (12 if verb == "sample" else 25)
    if labels:
        assert (found[:] == data[labels]).all()
    assert len(make(data, out=tmp_path / "a", engine="threads", batch_size=6, resume=True)) == len(labels)


def test_group_by(data: Any, tmp_path: Path) -> None:
    """A dataset for each value, by numbers and by objects."""
    remainders = data.map(
        lambda batch: Scored(batch.label % 3, batch.x[:, 0]), out=tmp_path / "r", cls=Scored, num_workers=0
    )
    values, groups = remainders.group_by("label", out=tmp_path / "g", engine="threads")
    assert values.tolist() == [0, 1, 2]
    assert [group[:].score.tolist() for group in groups] == [list(map(float, range(i, ROWS, 3))) for i in range(3)]
    some = data.sample(4, out=tmp_path / "s", num_workers=0)
    values, groups = some.group_by(Item.name, out=tmp_path / "n", num_workers=0)
    assert values == sorted(some[:].name.tolist())
    assert [group[:].name.tolist() for group in groups] == [[value] for value in values]


class Started(Backwards):
    """Counts."""

    times = 0

    def start(self, job: Any, workers: int | None) -> int:
        self.times += 1
        return super().start(job, workers)


def test_groups_share_an_engine(data: Any, tmp_path: Path) -> None:
    """It starts once for all groups, not at all when they are there, and a stop in the middle is gone on from."""
    engine = Started()
    how: dict[str, Any] = {"out": tmp_path / "g", "engine": engine, "batch_size": 5}
    _, groups = data.group_by("label", **how)
    assert engine.times == 1
    assert engine.closed
    assert [group[:].label.tolist() for group in groups] == [[i] for i in range(ROWS)]
    _, again = data.group_by("label", resume=True, **how)
    assert engine.times == 1
    assert len(again) == ROWS
    for name in os.listdir(tmp_path / "g" / "000030"):
        os.unlink(tmp_path / "g" / "000030" / name)
    _, mended = data.group_by("label", resume=True, **how)
    assert engine.times == 2
    assert mended[30][:].label.tolist() == [30]
    with pytest.raises(FileExistsError, match="resume=True"):
        data.group_by("label", **how)
    assert engine.times == 2, "refused before it starts"


@pytest.mark.parametrize("count", [0, 1, 2, 3, 5, 16, 17, 1000, 4097])
def test_shuffled_order(count: int) -> None:
    """A permutation of every size, the same in any parts; roughly as spread as a random one."""
    order = Shuffled(count, 3)
    rows = order.rows(0, count)
    assert sorted(rows.tolist()) == list(range(count))
    parts = [order.rows(begin, min(count, begin + 7)) for begin in range(0, count, 7)]
    assert np.array_equal(np.concatenate([*parts, rows[:0]]), rows)
    if count >= 1000:
        places = np.arange(count)
        assert abs(np.corrcoef(rows, places)[0, 1]) < 0.1
        assert (rows == places).sum() < 10


# ---- stops and faults ------------------------------------------------------------------------------------------------


def test_resume(data: Any, tmp_path: Path) -> None:
    """An exception names the rows and keeps what is committed, which is not computed again."""
    fn = Counting(tmp_path / "calls", wrong=33)
    how: dict[str, Any] = {"out": tmp_path / "out", "batch_size": 5, "rows_per_shard": 10, "num_workers": 1}
    with pytest.raises(ValueError, match=r"no good\nin rows 30 to 34 of .*source"):
        data.map(fn, **how)
    assert TensorClassDataset(tmp_path / "out", Item)[:].label.tolist() == list(range(30))
    before = fn.seen
    Path(f"{fn.path}.mended").touch()
    with pytest.raises(FileExistsError, match="resume=True"):
        data.map(fn, **how)
    assert (data.map(fn, resume=True, **how)[:] == data[:]).all()
    assert min(fn.seen[len(before) :]) == 30
    calls = fn.seen
    assert (data.map(fn, resume=True, **how)[:] == data[:]).all()
    assert fn.seen == calls


@pytest.mark.parametrize("engine", ["threads", "processes"])
def test_skipped_rows(data: Any, tmp_path: Path, engine: str) -> None:
    """Rows that raise are written beside the others, with their numbers and errors; the rest of their batch is not."""

    def fails(batch: Any) -> Any:
        if (batch.label % 11 == 4).any():
            raise KeyError(f"eleven of {len(batch)}")
        return batch

    how: dict[str, Any] = {"out": tmp_path / "out", "batch_size": 8, "engine": engine, "num_workers": 2}
    found = data.map(fails, errors="skip", **how)
    good = [i for i in range(ROWS) if i % 11 != 4]
    assert (found[:] == data[good]).all()
    failed = TensorClassDataset(tmp_path / "out" / "failed")
    assert failed[:].number.tolist() == [i for i in range(ROWS) if i % 11 == 4]
    assert failed[:].row.label.tolist() == failed[:].number.tolist()
    assert failed[:].error.tolist() == ["KeyError: 'eleven of 1'"] * len(failed)
    assert len(data.map(fails, errors="skip", resume=True, **how)) == len(good)


def test_rows_that_a_filter_fails_for(data: Any, tmp_path: Path) -> None:
    """`filter` skips as `map` does: neither kept nor lost, and the same after it goes on."""

    def odd(batch: Any) -> Any:
        if (batch.label == 7).any():
            raise ValueError("seven")
        return batch.label % 2 == 1

    how: dict[str, Any] = {"out": tmp_path / "out", "batch_size": 8, "num_workers": 0}
    found = data.filter(odd, errors="skip", **how)
    assert found[:].label.tolist() == [i for i in range(1, ROWS, 2) if i != 7]
    failed = TensorClassDataset(tmp_path / "out" / "failed")[:]
    assert (failed.number.tolist(), failed.error.tolist()) == ([7], ["ValueError: seven"])
    assert len(data.filter(odd, errors="skip", resume=True, **how)) == len(found)
    with pytest.raises(ArgumentError, match="skip"):
        data.filter(odd, resume=True, **how)
    with pytest.raises(ArgumentError, match='errors is "raise" or "skip"'):
        data.filter(odd, errors="ignore", out=tmp_path / "other")


def test_all_rows_fail(data: Any, tmp_path: Path) -> None:
    """Nothing is left: an empty dataset where the class is known, an error otherwise."""

    def fails(batch: Any) -> Any:
        raise ValueError("never")

    found = data.map(fails, out=tmp_path / "a", cls=Item, errors="skip", num_workers=0)
    assert len(found) == 0
    assert len(TensorClassDataset(tmp_path / "a" / "failed")) == ROWS
    with pytest.raises(ArgumentError, match="pass cls=; rows that failed are in `out/failed`"):
        data.map(fails, out=tmp_path / "b", errors="skip", num_workers=0)
    assert TensorClassDataset(tmp_path / "b" / "failed")[0].error.item() == "ValueError: never"


@pytest.mark.parametrize("times", [1, 2])
def test_killed_workers(data: Any, tmp_path: Path, times: int) -> None:
    """A task whose worker is killed is done again; nothing is doubled or left behind."""
    (tmp_path / "marks").mkdir()
    found = data.map(
        Dies(tmp_path / "marks", times), out=tmp_path / "out", batch_size=10, rows_per_shard=10, num_workers=2
    )
    assert (found[:] == data[:]).all()
    assert len(list((tmp_path / "marks").iterdir())) == 5
    listed = {shard.entry.file for shard in found.shards}
    assert {name for name in os.listdir(tmp_path / "out") if name.endswith((".safetensors", ".tmp"))} == listed


def test_a_batch_that_kills(data: Any, tmp_path: Path) -> None:
    """An error names the rows; what was done before stays."""
    (tmp_path / "marks").mkdir()
    with pytest.raises(WorkerError, match="rows 0 to 9"):
        data.map(Dies(tmp_path / "marks", 99), out=tmp_path / "out", batch_size=10, rows_per_shard=10, num_workers=1)


def test_a_full_disk(data: Any, tmp_path: Path) -> None:
    """A worker that can't write says so with the path; the call goes on when there is room."""

    def full(batch: Any) -> Any:
        if batch.label[0] >= 20 and not (tmp_path / "room").exists():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (64, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
        return batch

    how: dict[str, Any] = {"out": tmp_path / "out", "batch_size": 10, "rows_per_shard": 10, "num_workers": 1}
    with pytest.raises(OSError, match=r"000002-.*safetensors") as caught:
        data.map(full, **how)
    assert caught.value.errno is not None
    assert len(TensorClassDataset(tmp_path / "out", Item)) == 20
    (tmp_path / "room").touch()
    assert (data.map(full, resume=True, **how)[:] == data[:]).all()


def more(batch: Any) -> Any:
    """More rows than came."""
    return torch.cat([batch, batch])


def doubled(batch: Any) -> Any:
    """Twice as precise."""
    return TensorDict(y=batch.x[:, :1].double(), batch_size=batch.batch_size)


RESULTS: dict[str, tuple[Any, Any, type[Exception], str]] = {
    "more rows": (more, None, BatchSizeError, "20 rows and gave batch size"),
    "one row": (lambda batch: batch[0], None, BatchSizeError, "filter"),
    "no container": (lambda batch: 3, None, ArgumentError, "gave a int|gives a container"),
    "nothing": (lambda batch: None, None, ArgumentError, "NoneType"),
    "untyped": (lambda batch: batch.to_tensordict(), None, ArgumentError, "pass cls="),
    "another class": (lambda batch: batch, Scored, ArgumentError, "gave a Item"),
    "another dtype": (doubled, Projected, SchemaError, "y"),
    "unchecked": (lambda batch: batch.pick("label") == batch.pick("label"), None, SchemaError, "label"),
    "two classes": (lambda batch: batch if batch.label[0] < 20 else score(batch), None, ArgumentError, "one class"),
}  # fmt: skip


@pytest.mark.parametrize("case", RESULTS)
@pytest.mark.parametrize("engine", ["threads", "processes"])
def test_wrong_results(data: Any, tmp_path: Path, engine: str, case: str) -> None:
    """Refused, and nothing of them is there."""
    fn, cls, error, text = RESULTS[case]
    with pytest.raises(error, match=text):
        data.map(fn, cls=cls, out=tmp_path / "out", batch_size=20, rows_per_shard=20, engine=engine, num_workers=1)
    if case != "two classes":
        assert not (tmp_path / "out" / "manifest.json").exists()


def test_wrong_arguments(data: Any, tmp_path: Path) -> None:
    """Of every verb."""
    out = tmp_path / "out"
    calls: list[tuple[Any, str]] = [
        (lambda: data.map(same, out=data.path), "another folder"),
        (lambda: data.map(same, out=3), "path of a folder, got 3"),
        (lambda: data.map(same, out=""), "path of a folder"),
        (lambda: data.map(3, out=out), "a function"),
        (lambda: data.map(same, out=out, errors="ignore"), "errors"),
        (lambda: data.map(same, out=out, cls=dict), "tensorclass"),
        (lambda: data.map(same, out=out, batch_size=0), "batch_size"),
        (lambda: data.map(same, out=out, rows_per_shard=0), "rows_per_shard"),
        (lambda: data.map(same, out=out, seed="a"), "seed"),
        (lambda: data.map(same, out=out, engine="rya"), "did you mean `ray`"),
        (lambda: data.filter(lambda batch: batch.x > 0, out=out, num_workers=0), "one bool for each of the 50 rows"),
        (lambda: data.filter(same, out=out / "f", num_workers=0), "one bool for each of the 50 rows .* got a Item"),
        (lambda: data.filter(lambda batch: None, errors="skip", out=out / "g", num_workers=0), "got a NoneType"),
        (lambda: data.sort_by("absent", out=out), "absent"),
        (lambda: data.sample(ROWS + 1, out=out), "up to 50"),
        (lambda: data.sample(1.5, out=out), "up to 50"),
        (lambda: data.repartition(0, out=out), "rows_per_shard"),
    ]
    for call, text in calls:
        with pytest.raises((ArgumentError, AttributeError, BatchSizeError), match=text):
            call()


def test_who_writes(data: Any, tmp_path: Path) -> None:
    """One driver at a time; not into a dataset of others; not with other arguments or another source."""
    how: dict[str, Any] = {"out": tmp_path / "out", "num_workers": 0}

    def nested(batch: Any) -> Any:
        with pytest.raises(BlockingIOError, match="another map or writer"):
            data.map(same, resume=True, **how)
        with pytest.raises(BlockingIOError):
            TensorClassDataset.create(tmp_path / "out", Item, resume=True)
        return batch

    nested.__qualname__ = same.__qualname__
    data.map(nested, **how)
    for other in ({"batch_size": 3}, {"seed": 3}, {"errors": "skip"}, {"rows_per_shard": 5}, {"cls": Scored}):
        with pytest.raises(ArgumentError, match=r"choose another folder|rows are of"):
            data.map(same, resume=True, **{**how, **other})
    with pytest.raises(ArgumentError, match="verb"):
        data.filter(lambda batch: batch.label > 0, resume=True, **how)
    for fn in (Counting(tmp_path / "calls"), lambda batch: batch, partial(Counting, tmp_path)):
        with pytest.raises(ArgumentError, match=r"'function same', this one 'function .*choose another folder"):
            data.map(fn, resume=True, **how)
    assert len(data.map(partial(same), resume=True, **how)) == 50
    with TensorClassDataset.create(data.path, Item, resume=True) as writer:
        writer.append(items(1))
    with pytest.raises(ArgumentError, match="the dataset has changed"):
        TensorClassDataset(data.path, Item).map(same, resume=True, **how)
    with pytest.raises(FileExistsError, match="no map has begun"):
        data.map(same, out=data.compact(tmp_path / "c").path, resume=True)


def test_a_source_that_changes(data: Any, tmp_path: Path) -> None:
    """A worker that finds another dataset at the path says so; rows that were added are not read."""
    (tmp_path / "out").mkdir()
    order = RowOrder(ROWS)
    order.per = 20
    job = RowJob(data, same, "map", None, str(tmp_path / "out"), order, 20, False, 0, True, False)
    raw = pickle.dumps(job)
    with TensorClassDataset.create(data.path, Item, resume=True) as writer:
        writer.append(items(3))
    assert pickle.loads(raw)(2).entry.rows == 10
    for name in os.listdir(data.path):
        os.unlink(os.path.join(data.path, name))
    with TensorClassDataset.create(data.path, Item) as writer:
        writer.append(items(ROWS + 3))
    with pytest.raises(FileFormatError, match="the dataset was replaced since it was opened"):
        pickle.loads(raw)


@pytest.mark.parametrize("verb", ["map", "filter", "shuffle"])
@pytest.mark.parametrize("damage", ["missing", "short"])
def test_a_fault_of_the_source_is_never_skipped(data: Any, tmp_path: Path, verb: str, damage: str) -> None:
    """`errors="skip"` is about what the function raises: rows that can't be read are not left out without a word."""
    shard = data.shards[1].path
    if damage == "missing":
        os.unlink(shard)
    else:
        os.truncate(shard, os.path.getsize(shard) - 8)
    options: dict[str, dict[str, Any]] = {
        "map": {"fn": same, "errors": "skip"},
        "filter": {"fn": lambda batch: batch.label >= 0},
        "shuffle": {"seed": 0},
    }
    with pytest.raises(FileFormatError, match=os.path.basename(shard)):
        getattr(data, verb)(out=tmp_path / "out", num_workers=0, **options[verb])


WRONG_COUNTS: dict[str, tuple[str, Any]] = {
    "every second row": ("map", lambda batch: batch[::2]),
    "the first row": ("map", lambda batch: batch[:1]),
    "one answer for all rows": ("filter", lambda batch: [True]),
    "an answer for every second row": ("filter", lambda batch: (batch.label >= 0)[::2]),
    "numbers": ("filter", lambda batch: batch.label),
}
"""Functions whose results would fit single rows, or none."""


@pytest.mark.parametrize("errors", ["raise", "skip"])
@pytest.mark.parametrize("name", WRONG_COUNTS)
def test_a_wrong_number_of_results_is_never_skipped(data: Any, tmp_path: Path, name: str, errors: str) -> None:
    """It is a fault of the function, not of some rows; called with single rows it would not show."""
    verb, fn = WRONG_COUNTS[name]
    with pytest.raises((ArgumentError, BatchSizeError), match=r"(?s)rows.*in rows 0 to 9 of"):
        getattr(data, verb)(fn, out=tmp_path / "out", batch_size=10, num_workers=0, errors=errors)
    assert list((tmp_path / "out").rglob("*.safetensors")) == []


def test_a_damaged_journal(data: Any, tmp_path: Path) -> None:
    """Is no reason to compute other rows."""
    how: dict[str, Any] = {"out": tmp_path / "out", "num_workers": 0}
    data.map(same, **how)
    path = tmp_path / "out" / "map.json"
    path.write_bytes(path.read_bytes().replace(b'"rows":50', b'"rows":51'))
    with pytest.raises(FileFormatError, match="journal"):
        data.map(same, resume=True, **how)
    assert json.loads(path.read_text())["rows"] == 51


def drawing(batch: Any) -> Any:
    """Takes its time, draws numbers, and fails for some rows."""
    time.sleep(0.005)
    if (batch.label % 13 == 5).any():
        raise ValueError("thirteen")
    return batch.replace(x=batch.x + torch.rand(len(batch), 1))


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["threads", "processes"])
def test_killed_drivers(tmp_path: Path, engine: str) -> None:
    """Killed at random, again and again: a committed prefix meanwhile, the rows of an undisturbed run at the end."""
    count, out = 480, tmp_path / "out"
    with TensorClassDataset.create(tmp_path / "source", Item, rows_per_shard=100) as writer:
        writer.append(items(count))
    data = TensorClassDataset(tmp_path / "source", Item)
    how: dict[str, Any] = {"batch_size": 4, "rows_per_shard": 8, "num_workers": 2, "errors": "skip", "seed": 1}
    expected = data.map(drawing, out=tmp_path / "whole", **how)[:]
    chance, committed = random.Random(0), 0
    kills = 0
    while kills < 10:
        driver = multiprocessing.get_context("fork").Process(
            target=data.map, args=(drawing,), kwargs={"out": out, "engine": engine, "resume": True, **how}
        )
        driver.start()
        driver.join(0.3 + chance.random() * 0.5)
        driver.kill()
        driver.join()
        kills += 1
        if (out / "manifest.json").exists():
            prefix = TensorClassDataset(out, Item)
            assert len(prefix) >= committed
            committed = len(prefix)
            assert (prefix[:] == expected[:committed]).all()
    found = data.map(drawing, out=out, engine=engine, resume=True, **how)
    assert (found[:] == expected).all()
    assert len(found) == count - len([i for i in range(count) if i % 13 == 5])
    failed = TensorClassDataset(out / "failed")[:]
    assert failed.number.tolist() == [i for i in range(count) if i % 13 == 5]
    names = [name for name in os.listdir(out) if name.endswith((".safetensors", ".tmp"))]
    assert len(names) == len(found.shards)
