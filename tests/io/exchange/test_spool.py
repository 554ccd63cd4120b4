"""Conversions in parts: what several batches become is what one batch becomes, and is not joined in memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import (
    PerElement,
    RaggedTensor,
    Shared,
    TensorClass,
    TensorClassDataset,
    TensorDict,
    convert,
    from_h5,
    from_parquet,
    load,
)
from tensorclass.core import STORAGE
from tensorclass.errors import StructureError
from tensorclass.io import DatasetWriter, _parts, _writer
from tensorclass.io.exchange import _formats, _spool
from tensorclass.io.exchange._formats import FORMATS
from tensorclass.typing import BFloat16, Complex64, Float32, Int64
from tests.io._exact import assert_same

ENDINGS = [".safetensors", ".h5", ".zarr", ".hf", ".parquet", ".jsonl", ""]


class Pose(TensorClass):
    """A nested row."""

    angle: Float32[Tensor, ""]


class Row(TensorClass):
    """A field of each kind."""

    x: Float32[Tensor, "2 3"]
    brief: BFloat16[Tensor, "2"]
    z: Complex64[Tensor, ""]
    mask: Tensor
    tokens: Int64[RaggedTensor, "t"]
    vectors: Float32[RaggedTensor, "n 2"]
    name: PerElement[str]
    more: PerElement[dict[str, int]]
    pose: Pose
    scale: Shared[Tensor]
    weight: Float32[Tensor, ""] | None = None
    source: str = "scan"


def rows(count: int) -> Row:
    """Rows, some of whose elements are empty."""
    return Row(
        x=torch.rand(count, 2, 3),
        brief=torch.rand(count, 2).bfloat16(),
        z=torch.rand(count) + 1j,
        mask=torch.rand(count, 4) > 0.5,
        tokens=[torch.arange(i % 3) for i in range(count)],
        vectors=[torch.rand(i % 2, 2) for i in range(count)],
        name=[f"r{i % 3}" for i in range(count)],
        more=[{"a": i} for i in range(count)],
        pose=Pose(torch.rand(count)),
        scale=torch.ones(3),
    )  # type: ignore[arg-type]  # lists of tensors


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("count", [1, 9, 10])
def test_parts(ending, count, tmp_path, monkeypatch):
    """Every kind of field in blocks of four rows, to each format and back, without a join."""
    monkeypatch.setattr(_formats, "BLOCK", 4)
    monkeypatch.setattr(_spool, "cat", None)
    batch = rows(count)
    batch.save(tmp_path / "source.safetensors")
    convert(tmp_path / "source.safetensors", tmp_path / f"data{ending}", Row)
    convert(tmp_path / f"data{ending}", tmp_path / "back.safetensors", Row)
    assert_same(load(tmp_path / "back.safetensors", cls=Row), batch)
    assert {entry for entry in os.listdir(tmp_path) if entry.startswith(".")} == set()


@pytest.mark.parametrize("ending", [".safetensors", ".h5", ".zarr"])
def test_untyped_parts(ending, tmp_path, monkeypatch):
    """Nested tensors of torch too, in which untyped rows of lists are read."""
    monkeypatch.setattr(_formats, "BLOCK", 4)
    batch = TensorDict(a=torch.arange(9), words=[f"w{i}" for i in range(9)], batch_size=[9])
    batch["lists"] = torch.nested.as_nested_tensor([torch.arange(i % 3) for i in range(9)], layout=torch.jagged)
    batch.to_parquet(tmp_path / "source.parquet")
    monkeypatch.setattr(_spool, "cat", None)
    convert(tmp_path / "source.parquet", tmp_path / f"data{ending}")
    convert(tmp_path / f"data{ending}", tmp_path / "back.parquet")
    back: Any = from_parquet(tmp_path / "back.parquet")
    assert back["a"].tolist() == list(range(9))
    assert back["words"].tolist() == [f"w{i}" for i in range(9)]
    assert [row.tolist() for row in back["lists"].unbind()] == [list(range(i % 3)) for i in range(9)]


def test_other_columns(tmp_path):
    """What does not go together is named, and nothing is written."""
    batches: list[Any] = [TensorDict(a=torch.zeros(2, n), batch_size=[2]) for n in (3, 3, 4)]
    for write in (_formats.FORMATS[".h5"].write, _formats.FORMATS[".safetensors"].write):
        with pytest.raises((StructureError, RuntimeError), match="a"):
            write(batches, str(tmp_path / "data"))
        assert os.listdir(tmp_path) == []
    _formats.FORMATS[".h5"].write([batches[0], batches[0].select(), batches[0]][:1] * 3, str(tmp_path / "data"))
    with from_h5(tmp_path / "data") as store:
        assert store["a"].shape == (6, 3)


def held(batch: Any) -> int:
    """The bytes of a batch."""
    return sum([leaf.nbytes for leaf in batch._leaves(STORAGE)])


def sizes(kind: str) -> Row:
    """Rows of a kilobyte, or small ones before large ones."""
    batch = rows(64)
    batch.tokens = [torch.arange(100 if kind == "even" else 2 if i < 48 else 400) for i in range(64)]
    return batch


SLOW = (".zarr", ".hf", ".hdf5", ".feather", ".ndjson", ".tdz")  # and those with another name


@pytest.mark.parametrize("kind", ["even", "growing"])
@pytest.mark.parametrize("ending", [pytest.param(e, marks=[pytest.mark.slow] * (e in SLOW)) for e in FORMATS])
def test_parts_by_bytes(ending, kind, tmp_path, monkeypatch):
    """What goes through memory together is bounded by bytes, and by one row where that has more; nothing is lost."""
    monkeypatch.setattr(_parts, "BYTES", 8 << 10)
    batch = sizes(kind)
    batch.save(tmp_path / "source.safetensors")
    convert(tmp_path / "source.safetensors", tmp_path / f"data{ending}", Row)
    found = list(FORMATS[ending].read(tmp_path / f"data{ending}", Row, 4096))
    assert_same(torch.cat([one.detach() for one in found]), batch)
    if ending == ".json":  # is read as a whole
        return
    assert max([held(one) for one in found]) <= 10 << 10  # Python objects are beside it
    assert any([len(one) > 1 for one in found])


@pytest.mark.slow
def test_rows_larger_than_a_part(tmp_path, monkeypatch):
    """Each goes alone, from every format and to it."""
    monkeypatch.setattr(_parts, "BYTES", 100)
    batch = rows(3)
    batch.save(tmp_path / "source.safetensors")
    for ending in FORMATS:
        convert(tmp_path / "source.safetensors", tmp_path / f"data{ending}", Row)
        found = list(FORMATS[ending].read(tmp_path / f"data{ending}", Row, 4096))
        assert [len(one) for one in found] == ([3] if ending == ".json" else [1, 1, 1]), ending
        assert_same(torch.cat(found), batch)


def test_streams_by_bytes(tmp_path, monkeypatch):
    """Datasets from one large table, from a stream without a length, and the elements of a dataset."""
    monkeypatch.setattr(_parts, "BYTES", 8 << 10)
    taken: list[int] = []
    monkeypatch.setattr(DatasetWriter, "append", lambda self, batch: taken.append(held(batch)))
    batch = sizes("even")
    table = batch.to_arrow()
    TensorClassDataset.from_arrow(table, tmp_path / "a", Row)
    flow = batch.to_hf().to_iterable_dataset()
    TensorClassDataset.from_hf(flow, tmp_path / "b", Row)
    TensorClassDataset.from_hf(batch.to_hf(), tmp_path / "c", Row)
    assert len(taken) > 3 * 6
    assert max(taken) <= 10 << 10


def test_shards_by_bytes(tmp_path, monkeypatch):
    """A shard of rows that grow is full when it has its bytes, also where the first rows were small."""
    monkeypatch.setattr(_writer, "_SHARD_BYTES", 16 << 10)
    batch = sizes("growing")
    with TensorClassDataset.create(tmp_path / "data", Row) as writer:
        for one in batch:
            writer.append(one)
    data: Any = TensorClassDataset(tmp_path / "data", Row)
    assert len(data.shards) > 3
    assert max([held(data._shelf[i]) for i in range(len(data.shards))]) <= 24 << 10
    assert_same(data[:], batch)


MEMORY = """
import sys, threading, time
from tensorclass import convert

def anonymous():
    lines = open("/proc/self/status").read().splitlines()
    return int(dict([line.split(":", 1) for line in lines])["RssAnon"].split()[0]) / 1024

def watch():
    global peak
    while not done:
        peak = max(peak, anonymous())
        time.sleep(0.01)

import datasets, h5py, pyarrow.parquet, zarr
source, target = sys.argv[1:]
before, peak, done = anonymous(), 0, False
thread = threading.Thread(target=watch)
thread.start()
try:
    convert(source, target)
finally:
    done = True
    thread.join()
print(peak - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not say what memory is used")
@pytest.mark.parametrize(
    ("ending", "row"),
    [
        (".safetensors", 1024),
        (".h5", 1024),
        (".zarr", 1024),
        (".hf", 1024),
        (".parquet", 5 << 20),
        (".h5", 5 << 20),
        (".hf", 5 << 20),
        (".safetensors", 5 << 20),
    ],
)
def test_memory(ending, row, tmp_path):
    """Hundreds of megabytes go through a process that takes less than half of them, also as twenty rows."""

    class Wide(TensorClass):
        x: Float32[Tensor, "n"]
        label: Int64[Tensor, ""]

    count = max(1, 4000 * 1024 // row)
    with TensorClassDataset.create(tmp_path / "source", Wide, 4000) as writer:
        for i in range(20):
            writer.append(Wide(torch.full((count, row), float(i)), torch.full((count,), i)))
    found = subprocess.run(
        [sys.executable, "-c", MEMORY, str(tmp_path / "source"), str(tmp_path / f"data{ending}")],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert float(found.stdout) < 20 * count * row * 4 / 2**20 / 2
