"""Against the anchor, where it documents what a table becomes; where ours differs on purpose, the test says why."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import tensordict
import torch

import tensorclass
from tensorclass import TensorDict
from tests.test_parity_names import misfits

METHODS = (
    "to_csv", "from_csv", "to_json", "from_json", "to_pandas", "from_pandas", "to_parquet", "from_parquet", "to_mds",
    "to_h5", "from_h5", "to_zarr", "from_zarr",
)  # fmt: skip
FUNCTIONS = (
    "from_csv", "from_json", "from_pandas", "from_parquet", "from_arrow", "to_arrow", "from_safetensors",
    "to_safetensors", "from_h5", "from_zarr", "PersistentTensorDict",
)  # fmt: skip


@pytest.mark.parametrize("name", METHODS)
def test_methods(name):
    """Whatever the anchor's signatures admit, ours do."""
    assert misfits(name, getattr(TensorDict, name), getattr(tensordict.TensorDict, name)) == []


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    """The same of the functions."""
    assert misfits(name, getattr(tensorclass, name), getattr(tensordict, name)) == []


def theirs(found):
    """A container of the anchor as plain values."""
    plain = {}
    for key in found.keys(True, True):
        value = found.get(key)
        path = key if isinstance(key, tuple) else (key,)
        if isinstance(value, torch.Tensor):
            listed = [part.tolist() for part in value.unbind()] if value.is_nested else value.tolist()
            plain[path] = (str(value.dtype), listed)
        else:
            plain[path] = ("objects", value.tolist())
    return plain, tuple(found.batch_size)


TABLES = {
    "numbers": {"a": pa.array([1, 2], pa.int16()), "b": pa.array([0.5, 1]), "c": pa.array([True, False])},
    "unsigned": {"a": pa.array([1, 2], pa.uint8())},
    "half": {"a": pa.array(np.ones(2, np.float16))},
    "texts": {"a": pa.array(["x", "y"]), "b": pa.array([b"x", b"y"])},
    "lists": {"a": pa.array([[1, 2], [3]]), "b": pa.array([[0.5], []], pa.large_list(pa.float32()))},
    "fixed": {"a": pa.array([[1, 2], [3, 4]], pa.list_(pa.int64(), 2))},
    "structs": {"a": pa.array([{"x": 1, "y": {"z": 0.5}}, {"x": 2, "y": {"z": 1.5}}])},
    "lists of text": {"a": pa.array([["x"], []])},
    "times": {"a": pa.array([0, 1], pa.timestamp("us")), "b": pa.array([0, 1], pa.date32())},
}


@pytest.mark.parametrize("name", TABLES)
def test_from_arrow(name):
    """The same entries, dtypes and values."""
    table = pa.table(TABLES[name])
    assert theirs(tensorclass.from_arrow(table)) == theirs(tensordict.from_arrow(table))


@pytest.mark.parametrize("nulls", ["fill", "mask"])
def test_nulls(nulls):
    """Nulls become the same values, and the same masks."""
    table = pa.table({"a": [1.0, None], "b": [None, 2], "s": ["x", None], "r": [[1], None], "p": [{"q": 1}, None]})
    ours = tensorclass.from_arrow(table, nulls=nulls)
    anchor = tensordict.from_arrow(table, nulls=nulls)
    assert repr(theirs(ours)) == repr(theirs(anchor))
    with pytest.raises(ValueError, match="null"):
        tensorclass.from_arrow(table)


def test_to_arrow():
    """The same table, but for the metadata."""
    entries = {"x": torch.tensor([1.0, 2.0]), "image": torch.zeros(2, 3, 4), "flag": torch.tensor([True, False])}
    nested = {"y": torch.tensor([3, 4])}
    ours = TensorDict({**entries, "obs": nested, "s": ["a", "b"]}, batch_size=[2]).to_arrow()
    anchor = tensordict.to_arrow(
        tensordict.TensorDict(
            {**entries, "obs": nested, "s": tensordict.NonTensorStack("a", "b")}, batch_size=[2]
        ).auto_batch_size_(1)
    )
    assert ours.schema.equals(anchor.schema)
    assert ours.equals(anchor)


def test_frames():
    """Columns of numbers are the same; of texts every row has one, where the anchor has one value for the batch."""
    frame = pd.DataFrame({"obs.x": [1.0, 2.0], "n": [1, 2], "done": [False, True]})
    for options in ({}, {"separator": "."}, {"dtype": torch.float32}, {"batch_dims": 1, "auto_batch_size": True}):
        found = tensorclass.from_pandas(frame, **options)
        assert theirs(found) == theirs(tensordict.from_pandas(frame, **options))
    texts = tensorclass.from_pandas(pd.DataFrame({"s": ["x", "y"]}))
    assert texts[1]["s"] == "y"


def test_files(tmp_path):
    """What either writes the other reads the same."""
    entries = {"a": torch.arange(3), "b": {"c": torch.arange(3.0) / 4}, "flag": torch.tensor([True, False, True])}
    ours = TensorDict(entries, batch_size=[3])
    anchor = tensordict.TensorDict(entries, batch_size=[3]).auto_batch_size_(1)
    for method, options in (("csv", {}), ("json", {}), ("json", {"lines": True}), ("parquet", {})):
        for i, source in enumerate((ours, anchor)):
            path = tmp_path / f"{method}{i}"
            getattr(source, f"to_{method}")(path, separator=".", **options)
            mine = getattr(TensorDict, f"from_{method}")(path, separator=".", **options)
            other = getattr(tensordict.TensorDict, f"from_{method}")(path, separator=".", **options)
            assert repr(theirs(mine)) == repr(theirs(other)), method


def test_sharing():
    """Columns that may be written to are shared by default, others are copied; `copy=False` says where it must be."""
    values = np.arange(3)
    table = pa.table({"a": pa.array(values)})
    tensorclass.from_arrow(table)["a"][0] = 7
    assert values[0] == 7
    tensorclass.from_arrow(table, copy=True)["a"][0] = 8
    assert values[0] == 7
    fixed = pa.table({"a": pa.Array.from_buffers(pa.int64(), 1, [None, pa.py_buffer(bytes(8))])})
    tensorclass.from_arrow(fixed)["a"][0] = 1
    assert fixed["a"].to_pylist() == [0]
    with pytest.raises(tensorclass.errors.UnsupportedOperationError, match="copy=False"):
        tensorclass.from_arrow(fixed, copy=False)


def test_stores_of_the_anchor(tmp_path):
    """HDF5 files and zarr groups that the anchor wrote open here, and the other way round."""
    entries = {"a": torch.rand(3), "b": {"c": torch.rand(3, 2)}}
    anchor = tensordict.TensorDict(entries, batch_size=[3]).auto_batch_size_(1)
    anchor.to_h5(tmp_path / "theirs.h5").close()
    anchor.to_zarr(tmp_path / "theirs.zarr").close()
    TensorDict(entries, batch_size=[3]).to_h5(tmp_path / "ours.h5").close()
    for path, method in (("theirs.h5", "from_h5"), ("theirs.zarr", "from_zarr"), ("ours.h5", "from_h5")):
        with getattr(tensorclass, method)(tmp_path / path) as ours:
            assert ours.batch_size[0] == 3
            assert torch.equal(ours["b", "c"], entries["b"]["c"])
    found = tensordict.from_h5(tmp_path / "ours.h5")
    assert torch.equal(found["b", "c"], entries["b"]["c"])
    found.close()
