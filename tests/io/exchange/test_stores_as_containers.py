"""Live stores are containers: apply, pad, clones in new files, pickles, locks, schemas, threads."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
import zarr
from torch import Tensor

import tensorclass
from tensorclass import PerElement, PersistentTensorDict, TensorClass, TensorDict, equal, field_validator, from_h5
from tensorclass.errors import ArgumentError, SchemaError, UnsupportedOperationError
from tensorclass.typing import Bool, Float32
from tests.io._exact import assert_same
from tests.io.exchange.test_persistent import BACKENDS, whole, written


def nested() -> TensorDict:
    """Tensors at two levels."""
    return TensorDict(a=torch.arange(6.0).reshape(2, 3), n=TensorDict(x=torch.ones(2), batch_size=[2]), batch_size=[2])


@BACKENDS
def test_functions_over_nested_stores(backend: str, tmp_path: Path) -> None:
    """`apply` with operands, without results and with empty results, and `pad`, as in memory."""
    store, batch = written(backend, tmp_path, nested()), nested()
    assert equal(store.apply(torch.add, store), batch.apply(torch.add, batch))
    assert store.apply(lambda leaf: None) is None
    assert equal(store.apply(lambda leaf: None, filter_empty=False), batch.apply(lambda leaf: None, filter_empty=False))
    assert equal(tensorclass.pad(store, [0, 1]), tensorclass.pad(batch, [0, 1]))
    assert equal(store.named_apply(lambda key, leaf: leaf + 1, nested_keys=True), batch + 1)


@BACKENDS
def test_functions_that_write_to_their_argument(backend: str, tmp_path: Path) -> None:
    """A function of `apply_` that writes to the tensor that it gets writes to the file."""
    store = written(backend, tmp_path, nested())
    store.apply_(lambda leaf: leaf.mul_(2))
    store["n"].apply_(lambda leaf: leaf.add_(1))
    assert store["a"].sum() == 30
    assert store["n", "x"].tolist() == [3, 3]


@BACKENDS
def test_clones(backend: str, tmp_path: Path) -> None:
    """A clone is in memory; with `newfile` it is a store of its own, with everything that was in the first one."""
    store = written(backend, tmp_path)
    for copied in (store.clone(), copy.deepcopy(store), copy.copy(store)):
        assert type(copied) is TensorDict
        assert_same(copied, whole())
    new = store.clone(newfile=tmp_path / f"new.{backend}")
    assert isinstance(new, PersistentTensorDict)
    new["a"] = torch.zeros(3, dtype=torch.int64)
    del new["note"]
    assert_same(store.to_tensordict(), whole())
    with type(new).open(tmp_path / f"new.{backend}") as again:
        assert again["a"].tolist() == [0, 0, 0]
        assert again.names == ["time"]
        assert "note" not in again


@BACKENDS
@pytest.mark.parametrize("mode", ["r", "r+"])
def test_pickles(backend: str, mode: str, tmp_path: Path) -> None:
    """A pickle is the path: it opens the store again, also a nested one, for reading or for writing as before."""
    written(backend, tmp_path).close()
    store = PersistentTensorDict(filename=tmp_path / f"data.{backend}", mode=mode, backend=backend)
    raw, below = pickle.dumps(store), pickle.dumps(store["b"])
    assert len(raw) < 2000
    store.close()
    with pickle.loads(raw) as again:
        assert_same(again.to_tensordict(), whole())
        if mode == "r":
            with pytest.raises(UnsupportedOperationError, match="reading"):
                again["a"] = torch.zeros(3)
    nested_again = pickle.loads(below)
    assert nested_again["c"].shape == (3, 2)


def test_a_store_without_a_path_is_not_pickled() -> None:
    """The error says what to do."""
    store = PersistentTensorDict(filename=zarr.storage.MemoryStore(), backend="zarr", mode="w", batch_size=[2])
    with pytest.raises(UnsupportedOperationError, match="to_tensordict"):
        pickle.dumps(store)


@BACKENDS
def test_from_dict_by_position(backend: str, tmp_path: Path) -> None:
    """As the anchor: the path comes second, options of arrays as keywords."""
    entries: dict[str, Any] = {"a": torch.ones(2, 3), "n": {"x": torch.zeros(2)}}
    path = tmp_path / "x"
    options: dict[str, Any] = {"compression": "gzip"} if backend == "h5" else {"chunks": (1,)}
    with PersistentTensorDict.from_dict(entries, path, backend=backend, batch_size=[2], **options) as store:
        assert store.batch_size == (2,)
        assert equal(store.to_tensordict(), TensorDict.from_dict(entries, batch_size=[2]))
        array = store._group["a"]
        assert array.compression == "gzip" if backend == "h5" else array.chunks[0] == 1
    assert type(PersistentTensorDict.from_dict(entries)) is TensorDict


@pytest.mark.parametrize("storage", ["memmap", "h5", "zarr"])
def test_schemas_in_files(storage: str, tmp_path: Path) -> None:
    """`from_schema` fills a file with zeros, which are never in memory, and returns a container over it."""
    schema = {"a": ([3], torch.float32), ("n", "x"): ([], torch.bfloat16)}
    where = {"prefix": tmp_path / "x"} if storage == "memmap" else {"filename": tmp_path / "x"}
    data = TensorDict.from_schema(schema, batch_size=[4], storage=storage, **where)
    assert (data.is_memmap(), isinstance(data, PersistentTensorDict)) == (storage == "memmap", storage != "memmap")
    assert equal(data.to_tensordict(), TensorDict.from_schema(schema, batch_size=[4]))
    data[1] = {"a": torch.ones(3), "n": {"x": torch.ones((), dtype=torch.bfloat16)}}
    assert data["a"].sum() == 3
    assert data["n", "x"].tolist() == [0, 1, 0, 0]
    again = PersistentTensorDict.from_schema(
        schema, batch_size=[4], storage=storage, **dict.fromkeys(where, tmp_path / "y")
    )
    assert again["a"].shape == (4, 3)


def test_wrong_storages(tmp_path: Path) -> None:
    """An unknown storage lists the known ones; a file needs a path."""
    with pytest.raises(UnsupportedOperationError, match="'zarr', got 'redis'"):
        TensorDict.from_schema({}, storage="redis")
    with pytest.raises(ArgumentError, match="filename="):
        TensorDict.from_schema({}, storage="h5")


def test_the_end_of_a_block(tmp_path: Path) -> None:
    """A block over the store closes it, after an error too; blocks of locks do not."""
    written("h5", tmp_path, nested()).close()
    with pytest.raises(KeyError), from_h5(tmp_path / "data.h5") as store:
        raise KeyError
    with pytest.raises(ArgumentError, match="closed"):
        store["a"]
    with from_h5(tmp_path / "data.h5", mode="r+") as store:
        with store.lock_():
            assert store.is_locked
        with store.lock_(), store.unlock_():
            store["new"] = torch.zeros(2)
        assert "new" in store
    with pytest.raises(ArgumentError, match="closed"):
        store["a"]


@BACKENDS
def test_locks_belong_to_the_file(backend: str, tmp_path: Path) -> None:
    """Every container over a group of one open file has its lock, in whatever order they are made."""
    store = written(backend, tmp_path, nested())
    before = store["n"]
    store["n"].lock_()
    assert (before.is_locked, store["n"].is_locked, store.is_locked) == (True, True, False)
    before.unlock_()
    assert not store["n"].is_locked
    holder = TensorDict(s=store, batch_size=[2]).lock_()
    assert store.is_locked
    holder.unlock_()
    assert not store.is_locked


class Deep(TensorClass):
    c: Float32[Tensor, "2"]


class Sample(TensorClass):
    a: Float32[Tensor, "3"]
    deep: Deep
    who: PerElement[str]
    tag: str = "x"
    mask: Bool[Tensor, ""] | None = None


class Positive(TensorClass):
    a: Float32[Tensor, "3"]

    @field_validator("a")
    @classmethod
    def _positive(cls, value: Tensor) -> Tensor:
        if (value <= 0).any():
            raise ValueError("the values are positive")
        return value


def samples() -> Sample:
    """Two elements with a field of each kind."""
    return Sample(a=torch.zeros(2, 3), deep=Deep(c=torch.ones(2, 2)), who=["p", "q"], tag="t")


@BACKENDS
def test_typed_classes_over_stores(backend: str, tmp_path: Path) -> None:
    """Fields are read from the file; setting fields, rows and nested fields writes to it, checked."""
    store = written(backend, tmp_path, samples())
    batch = Sample.from_tensordict(store)
    assert equal(batch.clone(), samples())
    assert (batch.who, batch.tag, batch.mask) == (["p", "q"], "t", None)
    batch.a = torch.ones(2, 3)
    batch.deep.c = torch.zeros(2, 2)
    batch.mask = torch.tensor([True, False])
    batch[0] = batch[1].replace(a=torch.full((3,), 5.0))
    batch.update_({"deep": {"c": torch.full((2, 2), 7.0)}})
    assert store["a"].tolist() == [[5, 5, 5], [1, 1, 1]]
    assert store["deep", "c"].tolist() == [[7, 7], [7, 7]]
    assert (batch.who, batch.mask.tolist()) == (["q", "q"], [False, False])
    store["a"] = store["a"] + 1
    assert batch[1].a.tolist() == [2, 2, 2]
    with pytest.raises(SchemaError):
        batch.a = torch.ones(2)
    again = Sample.from_h5(tmp_path / "data.h5") if backend == "h5" else Sample.from_zarr(tmp_path / "data.zarr")
    assert equal(again, batch.clone())


def test_typed_classes_refuse_what_would_be_lost(tmp_path: Path) -> None:
    """An operation in place that can't reach the file says so; nothing is changed."""
    store = samples().to_h5(tmp_path / "x.h5")
    batch = Sample.from_tensordict(store)
    for name, *rest in (("zero_",), ("add_", 1), ("masked_fill_", torch.ones(2, dtype=torch.bool), 1)):
        with pytest.raises(UnsupportedOperationError, match="over a file"):
            getattr(batch, name)(*rest)
    assert equal(batch.clone(), samples())


def test_typed_classes_check_stores(tmp_path: Path) -> None:
    """Dtypes and shapes are checked when a store is wrapped, values where something is declared about them."""
    store = TensorDict(a=torch.zeros(2, 4), batch_size=[2]).to_h5(tmp_path / "x.h5")
    with pytest.raises(SchemaError, match="deep"):
        Sample.from_tensordict(store)
    with TensorDict(a=torch.zeros(2, 3), batch_size=[2]).to_h5(tmp_path / "y.h5") as store:
        with pytest.raises(SchemaError, match="positive"):
            Positive.from_tensordict(store)
        store["a"] = torch.ones(2, 3)
        assert Positive.from_tensordict(store).a.sum() == 6


@pytest.mark.slow
@BACKENDS
def test_four_threads(backend: str, tmp_path: Path) -> None:
    """Writes of rows, of entries and in place by several threads are all in the file."""
    store = written(backend, tmp_path, TensorDict(rows=torch.zeros(40), n={"x": torch.zeros(40)}, batch_size=[40]))

    def work(number: int) -> None:
        for row in range(number, 40, 4):
            store.update_at_({"rows": torch.tensor(1.0 + row), "n": {"x": torch.tensor(1.0)}}, row)
            store[f"k{row}"] = torch.full((40,), row)
            assert store["rows"].shape == (40,)
        store.add_(1)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    extra = store["rows"] - torch.arange(40) - 1
    assert ((extra >= 0) & (extra <= 4)).all()
    assert {f"k{row}" for row in range(40)} <= set(store.keys())
    assert store["n", "x"].shape == (40,)
