"""Datasets: rows of every kind come back, by every kind of index, from any number of shards."""

from __future__ import annotations

import pickle
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from tensorclass import PerElement, Ragged, TensorClass, TensorClassDataset, TensorDict, field
from tensorclass.errors import (
    BatchDimError,
    BatchIndexError,
    FileFormatError,
    SchemaError,
    StructureError,
    UnknownFieldError,
)
from tensorclass.io import _shards, _shelf
from tensorclass.io._documents import document_at
from tensorclass.io._manifest import Manifest, ShardEntry, class_part
from tensorclass.typing import Float32, Int64
from tests.io._classes import Digits, Everything
from tests.io._exact import assert_same
from tests.io.test_typed import digits, everything


def written(path: Path, batch: Any, rows: int = 7, **options: Any) -> Any:
    """A dataset of the rows of a batch."""
    with TensorClassDataset.create(path, type(batch), rows_per_shard=rows, **options) as writer:
        writer.append(batch)
    return TensorClassDataset(path)


def everythings(count: int) -> Everything:
    """Rows with every kind of field, different from each other."""
    first = everything()
    parts = [
        everything(scale=first.scale, tags=[f"é{i}", "b"], tokens=[torch.arange(i), torch.arange(1)])
        for i in range(count)
    ]
    return torch.cat([first, *parts])[:count]  # type: ignore[no-any-return, call-overload]  # a typed batch


KINDS = {
    "tensors": lambda: digits(20),
    "everything": lambda: everythings(20),
    "absent": lambda: torch.cat([everything(mask=None, note="x")] * 10),
    "names": lambda: digits(20).refine_names("time"),
    "locked": lambda: digits(20).lock_(),
}


@pytest.mark.parametrize("rows", [1, 3, 7, 20, 100])
@pytest.mark.parametrize("kind", KINDS)
def test_round_trip(kind, rows, tmp_path):
    """Rows of every kind of field are those that were written, whatever the size of shards."""
    batch: Any = KINDS[kind]()
    data = written(tmp_path, batch, rows)
    batch = batch.clone()
    assert len(data) == 20
    assert len(data.shards) == -(-20 // rows)
    assert data.cls is type(batch)
    assert_same(data[:], batch)
    assert_same(data[[5, 2, 19, 2]], batch[[5, 2, 19, 2]])
    assert_same(data[4], batch[4])
    assert_same(TensorClassDataset(tmp_path, mmap=False)[3:9], batch[3:9])


INDEXES: dict[str, Any] = {
    "slice": slice(3, 17), "steps": slice(1, 20, 3), "backwards": slice(None, None, -1), "back by 3": slice(15, 2, -3),
    "all": slice(None), "nothing": slice(4, 4), "empty list": [], "list": [5, 2, 9, 5], "negative": [-1, 0, -20],
    "array": np.array([7, 8, 19]), "small array": np.array([7, 8], dtype=np.int8), "tensor": torch.tensor([3, 1]),
    "int32": torch.tensor([3, 1], dtype=torch.int32), "mask": torch.arange(20) % 3 == 0,
    "mask of numpy": np.arange(20) > 9,
    "mask of nothing": torch.zeros(20, dtype=torch.bool), "mask as a list": [True, False] * 10, "one shard": [8, 7, 9],
    "number": 7, "last": -1, "number of numpy": np.int64(3), "number of torch": torch.tensor(4),
}  # fmt: skip


@pytest.mark.parametrize("index", INDEXES)
def test_indexes(index, tmp_path):
    """Every index gives what the batch in memory gives."""
    batch, at = digits(20), INDEXES[index]
    found = written(tmp_path, batch)[at]
    if isinstance(at, slice) and (at.step or 1) < 0:
        at = list(range(20))[at]
    if isinstance(at, (list, np.ndarray)) and len(at):
        at = torch.as_tensor(at)
        at = at if at.dtype is torch.bool else at.long()
    expected = batch[at]
    assert_same(found, expected)


WRONG: dict[str, Any] = {
    "behind": (20, BatchIndexError), "before": (-21, BatchIndexError), "in a list": ([1, 20], BatchIndexError),
    "a short mask": ([True] * 19, BatchIndexError), "a fraction": (1.5, TypeError), "fractions": ([1.5], TypeError),
    "text": ("image", TypeError), "two dims": (torch.zeros(2, 2, dtype=torch.int64), TypeError),
    "none": (None, TypeError),
    "a tuple of slices": ((slice(2), slice(2)), TypeError), "a fraction of torch": (torch.tensor(1.0), TypeError),
}  # fmt: skip


@pytest.mark.parametrize("index", WRONG)
def test_wrong_indexes(index, tmp_path):
    """An index that names no rows is refused."""
    at, error = WRONG[index]
    with pytest.raises(error):
        written(tmp_path, digits(20))[at]


def test_rows_are_owned(tmp_path):
    """Writes to what was read do not reach the next read, nor the file."""
    batch = everythings(20)
    data = written(tmp_path, batch, 7)
    for index in (slice(None), slice(0, 7), 3, [1, 2], [8, 1]):
        found: Any = data[index]
        for leaf in (found.image, found.digits.image, found.scale, found.mask):
            leaf.zero_()
        if not isinstance(index, int):
            found.tokens.values.zero_()
    assert_same(data[:], batch)


@pytest.mark.parametrize("size", [1, 3, 64])
def test_appends(size, tmp_path, monkeypatch):
    """One element, batches of any size, none; what is given may change afterwards."""
    monkeypatch.setattr("tensorclass.io._writer._SINGLES", 4)
    batch = digits(64)
    with TensorClassDataset.create(tmp_path, Digits, rows_per_shard=10, checksums=True) as writer:
        writer.append(batch[:0])
        for begin in range(0, 64, size):
            given: Any = batch[begin : begin + size].clone() if size > 1 else batch[begin].clone()
            writer.append(given)
            given.label.zero_()
        assert (writer.rows, writer.committed) == (64, 60)
        writer.commit()
        assert (writer.rows, writer.committed) == (64, 64)
    data: Any = TensorClassDataset(tmp_path)
    assert_same(data[:], batch)
    assert data.verify() == []


class Loose(TensorClass):
    """Images of any size."""

    image: Float32[Tensor, "h w"]
    scale: float = 1.0


REFUSED: dict[str, Any] = {
    "another class": (lambda: digits(2), TypeError, "Loose.*Digits"),
    "a dict": (lambda: TensorDict(image=torch.zeros(2, 2)), TypeError, "from_tensordict"),
    "a tensor": (lambda: torch.zeros(2), TypeError, "Tensor"),
    "two dims": (lambda: Loose(torch.zeros(2, 2, 3, 4)), BatchDimError, "reshape"),
    "another event shape": (lambda: Loose(torch.zeros(2, 3, 5)), StructureError, "image"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_refused_rows(kind, tmp_path):
    """Rows that can't become part of the dataset are refused when they are given, and the writer goes on."""
    make, error, text = REFUSED[kind]
    good = Loose(torch.rand(2, 3, 4))
    with TensorClassDataset.create(tmp_path, Loose, rows_per_shard=10) as writer:
        writer.append(good)
        with pytest.raises(error, match=text):
            writer.append(make())
        writer.append(good)
    with TensorClassDataset.create(tmp_path, Loose, resume=True) as writer, pytest.raises(error, match=text):
        writer.append(make())
    assert_same(TensorClassDataset(tmp_path)[:], torch.cat([good, good]))


def test_pick(tmp_path, monkeypatch):
    """Only the fields that are picked are read, as a class of their own; nested fields too."""
    batch = everythings(20)
    data = written(tmp_path, batch)
    seen: list[str] = []
    inner = _shards.places_of
    monkeypatch.setattr(_shards, "places_of", lambda h, names, p: inner(h, [seen.append(n[0]) or n for n in names], p))
    some = data.pick("image", Everything.digits.label)
    assert_same(some[[15, 2]], batch[[15, 2]].pick("image", "digits.label"))
    assert set(seen) == {"image", "digits.label"}
    assert some.pick("image")[3].image.equal(batch.image[3])
    assert pickle.loads(pickle.dumps(some))[3].digits.label == batch.digits.label[3]
    with pytest.raises(UnknownFieldError, match="image"):
        data.pick("imgae")


def test_a_pickle_is_a_snapshot(tmp_path: Path) -> None:
    """Rows that were written later don't count in a worker either; another dataset in its place is an error."""
    batch = digits(20)
    data = written(tmp_path / "one", batch)
    texts = [pickle.dumps(one) for one in (data, data.pick("label"), TensorClassDataset.concat([data, data]))]
    with TensorClassDataset.create(tmp_path / "one", Digits, resume=True) as writer:
        writer.append(batch)
    assert [len(pickle.loads(text)) for text in texts] == [20, 20, 40]
    assert_same(pickle.loads(texts[2])[20:], batch)
    shutil.rmtree(tmp_path / "one")
    written(tmp_path / "one", batch)
    for text in texts:
        with pytest.raises(FileFormatError, match="one: the dataset was replaced since it was opened; open it again"):
            pickle.loads(text)


def test_pickled(tmp_path):
    """A dataset pickles as its path."""
    data = written(tmp_path, digits(20), 1)
    text = pickle.dumps(data)
    assert len(text) < 1000
    assert_same(pickle.loads(text)[5], data[5])


def test_concat(tmp_path):
    """Datasets one after the other; those of other classes are refused with the difference."""
    one, two = digits(9), digits(12)
    first, second = written(tmp_path / "a", one, 4), written(tmp_path / "b", two, 5)
    both = TensorClassDataset.concat([first, second])
    assert_same(both[:], torch.cat([one, two]))
    assert_same(pickle.loads(pickle.dumps(both.pick("label")))[[20, 0]], torch.cat([one, two])[[20, 0]].pick("label"))
    other = written(tmp_path / "c", everythings(3))
    with pytest.raises(SchemaError, match="image"):
        TensorClassDataset.concat([first, other])
    with pytest.raises(ValueError, match="picked down to"):
        TensorClassDataset.concat([first, second.pick("label")])
    picked = TensorClassDataset.concat([first.pick("label"), second.pick("label")])
    assert_same(picked[:], torch.cat([one, two]).pick("label"))


def test_evolution(tmp_path):
    """Former names, defaults and removed fields are applied; what does not fit is a SchemaError."""
    batch = digits(9)
    written(tmp_path, batch, 4)

    class Later(TensorClass, removed=["image"]):
        target: Int64[Tensor, ""] = field(renamed_from="label")
        note: str = "none"

    data = TensorClassDataset(tmp_path, Later)
    assert data[[8, 1]].target.equal(batch.label[[8, 1]])
    assert data.pick("target")[3].target == batch.label[3]
    assert data[0].note == "none"

    class Other(TensorClass):
        label: Float32[Tensor, ""]

    with pytest.raises(SchemaError, match="label"):
        TensorClassDataset(tmp_path, Other)[0]
    with pytest.raises(SchemaError, match="label"):
        TensorClassDataset.create(tmp_path, Other, resume=True)


def test_opening_touches_no_shard(tmp_path):
    """Ten thousand shards that do not exist are listed at once; the one that is asked for is an error."""
    entries = [
        ShardEntry(file=f"{i:06d}-{i:016x}.safetensors", rows=1000, bytes=99, id=f"{i:016x}") for i in range(10_000)
    ]
    document_at(str(tmp_path)).replace(Manifest(cls=class_part(Digits), shards=entries))
    begin = time.process_time()
    data: Any = TensorClassDataset(tmp_path)
    assert time.process_time() - begin < 2.0  # 0.05 where nothing else runs
    assert len(data) == 10_000_000
    assert data.cls is Digits
    with pytest.raises(ValueError, match=r"009999-.*not there"):
        data[-1]


def test_few_shards_stay_open(tmp_path, monkeypatch):
    """The shards that are open are bounded, and so are descriptors."""
    monkeypatch.setattr(_shelf, "MAPPED", 3)
    batch = digits(40)
    data = written(tmp_path, batch, 1)
    for _ in range(2):
        assert_same(data[:], batch)
        assert len(data._shelf._table.held) == 3


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_plain_dataloader(workers, tmp_path):
    """A DataLoader over a dataset gives typed batches."""
    batch = digits(20)
    found = list(DataLoader(written(tmp_path, batch), batch_size=6, num_workers=workers))
    assert [type(one) for one in found] == [Digits] * 4
    assert_same(torch.cat(found), batch)


def test_empty(tmp_path):
    """A dataset without rows opens; a row of it is an error, all rows are an empty batch."""
    TensorClassDataset.create(tmp_path, Digits).close()
    data: Any = TensorClassDataset(tmp_path)
    assert len(data) == 0
    assert list(data) == []
    with pytest.raises(BatchIndexError, match=r"no rows|0 rows"):
        data[0]
    assert data[:].batch_size == (0,)


@pytest.mark.parametrize(
    "options", [{"rows_per_shard": 0}, {"rows_per_shard": 1.5}, {"writer_id": "a/b"}, {"writer_id": ""}]
)
def test_wrong_options(options, tmp_path):
    """Options that make no sense are refused, and nothing is made."""
    with pytest.raises(ValueError, match=next(iter(options))):
        TensorClassDataset.create(tmp_path / "d", Digits, **options)
    with pytest.raises(TypeError, match="tensorclass"):
        TensorClassDataset.create(tmp_path / "d", TensorDict)
    assert not (tmp_path / "d").exists()


def test_size_of_shards(tmp_path, monkeypatch):
    """Without `rows_per_shard` a shard has about a chosen number of bytes."""
    monkeypatch.setattr("tensorclass.io._writer._SHARD_BYTES", 10 * (8 * 8 * 4 + 8))
    with TensorClassDataset.create(tmp_path, Digits) as writer:
        writer.append(digits(25))
    assert [shard.rows for shard in TensorClassDataset(tmp_path).shards] == [10, 10, 5]


class Words(TensorClass):
    """Fields of every kind that has no value without rows."""

    x: Float32[Tensor, "3"]
    s: PerElement[str]
    r: Ragged[Tensor, "t 2"]
    n: Digits | None = None


def test_a_dataset_without_rows(tmp_path):
    """An index gives an empty batch, exports have the columns, and a number is outside."""
    TensorClassDataset.create(tmp_path / "d", Words).close()
    data = TensorClassDataset(tmp_path / "d", Words)
    for index in (slice(None), slice(0, 0), [], torch.zeros(0, dtype=torch.int64), torch.zeros(0, dtype=torch.bool)):
        found = data[index]
        assert (type(found), found.batch_size, found.x.shape) == (Words, (0,), (0, 3))
    assert [*data] == [*data.batches(2)] == []
    with pytest.raises(BatchIndexError, match="0 rows"):
        data[0]
    for name in ("parquet", "csv", "json"):
        getattr(data, f"to_{name}")(tmp_path / name)
        if name != "json":  # lines of JSON have no header
            assert getattr(Words, f"from_{name}")(tmp_path / name).batch_size == (0,)
    assert len(data.compact(tmp_path / "e")) == len(data.concat([data, data])) == 0
    assert data.verify() == []


def test_shared_values_need_rows(tmp_path):
    """A value that all rows share is in the rows: without them it is asked for."""

    class Scaled(TensorClass):
        x: Float32[Tensor, ""]
        scale: float

    TensorClassDataset.create(tmp_path / "d", Scaled).close()
    with pytest.raises(SchemaError, match="scale"):
        TensorClassDataset(tmp_path / "d", Scaled)[:]
