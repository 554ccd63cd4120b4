"""Containers that live in a file: reads and writes of entries and rows, operations in place, closing, bad files."""

from __future__ import annotations

import h5py
import numpy as np
import pytest
import torch
import zarr
from torch import Tensor

from tensorclass import NonTensorData, PersistentTensorDict, RaggedTensor, TensorClass, TensorDict, from_h5, from_zarr
from tensorclass.errors import (
    ArgumentError,
    BatchSizeError,
    FileFormatError,
    MissingKeyError,
    SchemaError,
    UnsupportedOperationError,
)
from tensorclass.io.exchange import _persistent
from tensorclass.typing import Float32, Int64
from tests._marks import rest_is_slow
from tests.io._exact import assert_same

OPEN = {"h5": from_h5, "zarr": from_zarr}
BACKENDS = pytest.mark.parametrize("backend", OPEN)


def whole():
    """A container with an entry of each kind, and a nested one with a batch size of its own."""
    inner = TensorDict(c=torch.arange(6.0).reshape(3, 2), batch_size=[3, 2])
    return TensorDict(
        a=torch.arange(3),
        b=inner,
        half=torch.ones(3, dtype=torch.bfloat16),
        z=torch.ones(3) + 1j,
        names_=["x", "y", "z"],
        note="text",
        tags=NonTensorData({"k": (1, 2)}),
        flag=torch.tensor([True, False, True]),
        batch_size=[3],
        names=["time"],
    )


def written(backend, folder, batch=None, **options):
    """A store of a container."""
    batch = whole() if batch is None else batch
    return getattr(batch, f"to_{backend}")(folder / f"data.{backend}", **options)


@BACKENDS
def test_everything_comes_back(backend, tmp_path):
    """Dtypes, batch sizes at every depth, names of dims, Python objects, the order of keys."""
    batch = whole()
    with written(backend, tmp_path, batch) as store:
        assert_same(store.to_tensordict(), batch)
    with OPEN[backend](tmp_path / f"data.{backend}") as store:
        assert_same(store.to_tensordict(), batch)
        assert (store.names, store["b"].batch_size) == (["time"], (3, 2))
        assert_same(store.clone(), batch)


@BACKENDS
@pytest.mark.parametrize("index", [1, slice(1, None), (slice(None), 1), [2, 0], torch.tensor([True, False, True]), -1])
def test_rows(backend, index, tmp_path):
    """Indexed reads are those of the container in memory."""
    batch = whole().exclude("names_") if isinstance(index, tuple) else whole()
    inside = batch.select("b") if isinstance(index, tuple) else batch
    with written(backend, tmp_path, batch) as store:
        if isinstance(index, tuple):
            assert_same(store["b"][index], inside["b"][index])
        else:
            assert_same(store[index], batch[index])


@BACKENDS
def test_writes_reach_the_file(backend, tmp_path):
    """Entries, nested entries, rows, deletions and operations in place."""
    batch = TensorDict(a=torch.zeros(3), b={"c": torch.zeros(3, 2)}, batch_size=[3])
    with written(backend, tmp_path, batch.clone()) as store:
        store["new"] = torch.ones(3, dtype=torch.int8)
        store["b", "d"] = torch.full((3,), 2.0)
        store[1] = TensorDict(a=torch.tensor(5.0), b={"c": torch.ones(2), "d": torch.tensor(1.0)}, new=torch.tensor(4))
        store.set_at_("a", 9.0, 0)
        store["b", "c"] += 1
        del store["b", "d"]
        store.update_({"a": store["a"] * 2})
        store["a"] = torch.cat([store["a"][:2], torch.tensor([1.0])])
        store.add_(1)
        store.select("a", "b", "new", inplace=True)
    with OPEN[backend](tmp_path / f"data.{backend}") as store:
        assert store["a"].tolist() == [19, 11, 2]
        assert store["b", "c"].tolist() == [[2, 2], [3, 3], [2, 2]]
        assert store["new"].tolist() == [2, 5, 2]
        assert sorted(store.keys(True, True), key=str) == [("b", "c"), "a", "new"]


IN_PLACE = {
    "fill_": (lambda batch: batch.fill_("x", 3.0), [3.0, 3.0, 3.0]),
    "zero_": (lambda batch: batch.zero_(), [0.0, 0.0, 0.0]),
    "mul_": (lambda batch: batch.mul_(2), [2.0, 2.0, 2.0]),
    "set_at_": (lambda batch: batch.set_at_("x", 4.0, 1), [1.0, 4.0, 1.0]),
    "set_": (lambda batch: batch.set_("x", torch.full((3,), 5.0)), [5.0, 5.0, 5.0]),
    "nested fill_": (lambda batch: batch.fill_(("b", "x"), 6.0), [1.0, 1.0, 1.0]),
}


@BACKENDS
@pytest.mark.parametrize("name", IN_PLACE)
def test_operations_in_place_reach_the_file(backend, name, tmp_path):
    """Entries are read anew each time, so an operation in place may not write to what it has read."""
    operation, expected = IN_PLACE[name]
    there = TensorDict(x=torch.ones(3), b={"x": torch.ones(3)}, batch_size=[3])
    with written(backend, tmp_path, there) as store:
        operation(store)
    operation(there)
    with OPEN[backend](tmp_path / f"data.{backend}") as again:
        assert again["x"].tolist() == expected
        assert_same(again.to_tensordict(), there)


@BACKENDS
def test_ragged(backend, tmp_path):
    """Entries whose lengths differ, nested tensors of torch too."""

    class Tokens(TensorClass):
        ids: Int64[RaggedTensor, "t"]

    batch = Tokens([torch.arange(2), torch.arange(3)])
    written(backend, tmp_path, batch).close()
    assert_same(getattr(Tokens, f"from_{backend}")(tmp_path / f"data.{backend}"), batch)
    nested = torch.nested.as_nested_tensor([torch.ones(2), torch.ones(1)], layout=torch.jagged)
    with written(backend, tmp_path, TensorDict(n=nested, batch_size=[2])) as store:
        assert store["n"].is_nested
        assert store[1]["n"].tolist() == [1.0]


READ_ONLY = {
    "set": lambda s: s.set("a", torch.zeros(3)), "item": lambda s: s.__setitem__("a", torch.zeros(3)),
    "rows": lambda s: s.__setitem__(0, s[1]), "update": lambda s: s.update({"a": torch.zeros(3)}),
    "update_": lambda s: s.update_({"a": torch.zeros(3)}), "zero_": lambda s: s.zero_(), "del": lambda s: s.pop("a"),
    "add_": lambda s: s.add_(1), "nested": lambda s: s.set(("b", "c"), torch.zeros(3, 2)),
    "+=": lambda s: s.__iadd__(1),
    "size": lambda s: setattr(s, "batch_size", []), "new": lambda s: s.set("new", torch.zeros(3)),
    "rename": lambda s: s.rename_key_("a", "q"), "set_at_": lambda s: s.set_at_("a", 1, 0),
}  # fmt: skip


@BACKENDS
@pytest.mark.parametrize("write", READ_ONLY)
def test_read_only(backend, write, tmp_path):
    """Every write to a store that is open for reading is an error, where the anchor ignores some with a warning."""
    written(backend, tmp_path, whole().select("a", "b")).close()
    with OPEN[backend](tmp_path / f"data.{backend}") as store:
        with pytest.raises(UnsupportedOperationError, match="mode="):
            READ_ONLY[write](store)
        assert_same(store.to_tensordict(), whole().select("a", "b"))


@BACKENDS
def test_closed(backend, tmp_path):
    """A closed store says so, and closing twice does nothing."""
    store = written(backend, tmp_path)
    store.close()
    store.close()
    with pytest.raises(ValueError, match="closed"):
        store["a"]
    assert "closed" in repr(store)


@BACKENDS
@pytest.mark.parametrize("key", ["a/b", ".", "..", "", "%2F", "ä", "a b", "__group__", "zarr.json", "\\x"])
def test_any_key(backend, key, tmp_path):
    """Keys are names, whatever a path would mean by them."""
    batch = TensorDict({key: torch.ones(2), "x": {key: torch.zeros(2)}}, batch_size=[2])
    with written(backend, tmp_path, batch) as store:
        assert_same(store.to_tensordict(), batch)


@BACKENDS
def test_unknown_key(backend, tmp_path):
    """A key that is not there, with the nearest."""
    with written(backend, tmp_path) as store:
        with pytest.raises((MissingKeyError, KeyError), match="half"):
            store["hallf"]
        assert store.get("hallf", None) is None


def test_compression_and_chunks(tmp_path):
    """Options go to the arrays."""
    batch = TensorDict(a=torch.zeros(100, 4), batch_size=[100])
    batch.to_h5(tmp_path / "a.h5", compression="gzip").close()
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["a"].compression == "gzip"
    batch.to_zarr(tmp_path / "a.zarr", chunks=(16,)).close()
    assert zarr.open_group(tmp_path / "a.zarr")["a"].chunks == (16, 4)


def test_files_of_others(tmp_path):
    """Batch sizes are what entries share; text is one value, or one for each row."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"], file["g/y"] = np.zeros((3, 2)), np.zeros((3, 2, 4))
        file["s"] = np.array(["a", "b", "c"], dtype=h5py.string_dtype())
    with from_h5(tmp_path / "a.h5", batch_size=[3], non_tensor_as_stack=True) as store:
        assert (store.batch_size, store["g"].batch_size, store["s"].tolist()) == ((3,), (3, 2, 4), ["a", "b", "c"])
    with from_h5(tmp_path / "a.h5", auto_batch_size=True, batch_dims=1) as store:
        assert store.batch_size == (3,)
    with pytest.raises(BatchSizeError, match="field"):
        from_h5(tmp_path / "a.h5", batch_size=[4])
    with pytest.raises(TypeError, match="not both"):
        from_h5(tmp_path / "a.h5", batch_size=[3], auto_batch_size=True)


@pytest.mark.parametrize("about", ["{", "[1]", '{"batch_size": "x"}', '{"batch_size": [-1]}'])
def test_damaged_attributes(about, tmp_path):
    """What attributes say is not trusted."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.zeros(3)
        file.attrs["tensorclass"] = about
    with pytest.raises(FileFormatError, match="damaged"):
        from_h5(tmp_path / "a.h5")


def test_damaged_entries(tmp_path):
    """An entry that is not what its attribute says."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name, about in (("x", '{"kind": "value"}'), ("y", '{"dtype": "complex64"}'), ("z", '{"kind": "objects"}')):
            file[name] = np.zeros(3, np.uint8)
            file[name].attrs["tensorclass"] = about
    with from_h5(tmp_path / "a.h5", batch_size=[]) as store:
        for name in "xyz":
            with pytest.raises(ValueError, match=r"`[xyz]` is damaged"):
                store[name]


def test_bad_arguments(tmp_path):
    """Wrong modes and backends, two sources, files that are not there."""
    for options in ({}, {"filename": "a", "group": 1}):
        with pytest.raises(TypeError):
            PersistentTensorDict(**options)
    for options in ({"mode": "q"}, {"backend": "tar"}):
        with pytest.raises(ValueError, match="backend"):
            PersistentTensorDict(filename=tmp_path / "a.h5", **options)
    with pytest.raises(OSError, match=r"a\.h5"):
        from_h5(tmp_path / "a.h5")


def test_typed(tmp_path):
    """A class reads a store into memory, and checks it."""

    class Point(TensorClass):
        x: Float32[Tensor, "2"]

    Point(torch.ones(3, 2)).to_h5(tmp_path / "a.h5").close()
    assert type(Point.from_h5(tmp_path / "a.h5")) is Point
    TensorDict(x=torch.ones(3, 5), batch_size=[3]).to_h5(tmp_path / "b.h5").close()
    with pytest.raises(SchemaError, match="5"):
        Point.from_h5(tmp_path / "b.h5")
    with from_h5(tmp_path / "b.h5") as store, pytest.raises(SchemaError, match="5"):
        Point.from_tensordict(store)


def test_from_dict(tmp_path):
    """A store is made of a mapping, as the anchor's is."""
    with PersistentTensorDict.from_dict({"a": torch.ones(2)}, filename=tmp_path / "a.h5", batch_size=[2]) as store:
        assert store["a"].tolist() == [1, 1]


def rows_of(count: int) -> TensorDict:
    """An entry of each kind that is written by rows."""
    inner = TensorDict(c=torch.arange(2.0 * count).reshape(count, 2), batch_size=[count, 2])
    return TensorDict(
        a=torch.arange(count),
        b=inner,
        half=torch.ones(count, 3, dtype=torch.bfloat16),
        z=torch.ones(count) + 1j,
        words=[f"w{i}" for i in range(count)],
        note="text",
        ragged=RaggedTensor([torch.arange(i % 3) for i in range(count)]),
        batch_size=[count],
    )


INDICES = {
    "row": 1, "last": -1, "some": slice(2, 5), "steps": slice(0, 7, 2), "all": slice(None), "none": slice(0, 0),
    "list": [6, 0, 3], "twice": torch.tensor([2, 2]), "far": torch.tensor([0, 8]), "tensor": torch.tensor(4),
    "mask": torch.arange(9) % 4 == 1, "no mask": torch.zeros(9, dtype=torch.bool), "ellipsis": ...,
    "table": torch.tensor([[1, 5], [7, 3]]),
}  # fmt: skip


@BACKENDS
@pytest.mark.parametrize("name", rest_is_slow(INDICES, each=3))
def test_writes_at_an_index(backend, name, tmp_path):
    """What is written at an index is what a container in memory has then, whatever the entries are."""
    batch, index = rows_of(9), INDICES[name]
    for wanted in (None, "a", "words"):
        with written(backend, tmp_path, batch) as store:
            value = batch.clone()[index]
            for key in ("a", ("b", "c"), "half", "z"):
                value[key] = value[key] * 3 + 1
            if name not in ("table", "ellipsis", "tensor", "twice"):
                value["words"] = "new"
            expected = batch.clone()
            if wanted is None:
                expected[index] = value
                store[index] = value
            else:
                expected.update_at_(value, index, keys_to_update=[wanted])
                store.update_at_(value, index, keys_to_update=[wanted])
            assert_same(store.to_tensordict(), expected)
        with OPEN[backend](tmp_path / f"data.{backend}") as store:
            assert_same(store.to_tensordict(), expected)


@BACKENDS
@pytest.mark.parametrize("name", rest_is_slow(INDICES, each=3))
def test_numbers_at_an_index(backend, name, tmp_path):
    """A number goes to all elements; to one entry by `set_at_`, in a dict by `update_at_`."""
    batch, index = rows_of(9).select("a", "b", "half"), INDICES[name]
    with written(backend, tmp_path, batch) as store:
        expected = batch.clone()
        for data in (store, expected):
            data[index] = 0
            data.set_at_("a", 5, index)
            data.update_at_({"a": data["a"][index] + 2}, index)
            data.set_at_(("b", "c"), 7.0, index)
        assert_same(store.to_tensordict(), expected)


@BACKENDS
def test_only_the_region_is_written(backend, tmp_path, monkeypatch):
    """A write at an index writes these rows, and no other entry; what does not fit leaves the file as it was."""
    batch = rows_of(9)
    with written(backend, tmp_path, batch) as store:
        sizes: list[int] = []
        real = _persistent.stored

        def noted(tensor, path):
            sizes.append(len(tensor) if tensor.ndim else 1)
            return real(tensor, path)

        monkeypatch.setattr(_persistent, "stored", noted)
        monkeypatch.setattr(PersistentTensorDict, "_put", None)
        for index, count in ((slice(2, 4), 2), ([7, 1], 1), (torch.arange(9) == 5, 1)):
            sizes.clear()
            store[index] = batch[index]
            assert set(sizes) == {count}
        with pytest.raises((ValueError, KeyError)):
            store[[1, 2]] = {"a": torch.zeros(7)}
        with pytest.raises(IndexError):
            store[[1, 99]] = batch[:2]
        monkeypatch.undo()
        assert_same(store.to_tensordict(), batch)
    long = TensorDict(a=torch.zeros(2000), batch_size=[2000])
    with written(backend, tmp_path, long) as store:
        store[torch.arange(0, 2000, 2)] = TensorDict(a=torch.ones(1000), batch_size=[1000])
        assert store["a"].sum() == 1000
        assert store["a"][::2].all()


@BACKENDS
def test_ragged_rows_are_read_by_rows(backend, tmp_path):
    """Rows of ragged entries bring the values of these rows."""
    batch = rows_of(9).select("ragged")
    with written(backend, tmp_path, batch) as store:
        for begin in range(10):
            for end in range(begin, 10):
                assert_same(store[begin:end], batch[begin:end].clone())
        assert_same(store[4], batch[4].clone())


def test_a_store_that_cannot_be_read_is_closed(tmp_path):
    """At once, not when the error is gone: HDF5 reads a file that is open somewhere from its cache."""
    path = tmp_path / "a.h5"
    TensorDict(a=torch.arange(2), batch_size=[2]).to_h5(path).close()
    for options in ({"batch_size": [3]}, {"batch_size": ["x"]}):
        with pytest.raises((BatchSizeError, ArgumentError)):
            from_h5(path, **options)
        with h5py.File(path, "r+") as file:  # refused while it is open for reading
            assert file["a"].shape == (2,)
    with h5py.File(path, "r+") as file:
        file.attrs[next(iter(file.attrs))] = "{"
    with pytest.raises(FileFormatError) as caught:
        from_h5(path)
    h5py.File(path, "r+").close()
    assert caught.value.__traceback__ is not None
