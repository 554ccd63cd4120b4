"""Small input that asks for much memory: an error before anything is allocated, by every reader."""

from __future__ import annotations

import csv
import inspect
import json
import struct
import tracemalloc
import zipfile
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch import Tensor

import tensorclass
from tensorclass import PerElement, PersistentTensorDict, RaggedTensor, TensorClass, TensorClassDataset, TensorDict
from tensorclass.errors import FileFormatError, MemoryBudgetError, SchemaError, TensorClassError
from tensorclass.io import _remote, _segments
from tensorclass.io._documents import document_at
from tensorclass.io._values import decode
from tensorclass.typing import Float32
from tests._marks import rest_is_slow

MIB = 2**20


class Numbers(TensorClass):
    """A field of each kind that is read from lists."""

    x: Float32[Tensor, "..."] | None
    r: Float32[RaggedTensor, "_"] | None
    t: PerElement[str] | None


@contextmanager
def _little_memory(most=100 * MIB):
    """A block that allocates at most so many bytes at a time, of Python and numpy."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < most


WIDE = ["a" * 50_000, *[""] * 12_000]
"""As an array of numpy: 2.4 GB."""
JSON = {
    "list": {"x": WIDE},
    "nested": {"x": [WIDE, WIDE]},
    "numbers first": {"x": [1, 2.0, *WIDE]},
    "words first": {"x": ["NaN", *WIDE]},
    "ragged": {"r": [WIDE]},
    "ragged of mixed": {"r": [[1.0], WIDE]},
    "ragged values": {"r": {"lengths": [12_001], "values": WIDE}},
    "data": {"x": {"dtype": "float32", "shape": [12_001], "data": WIDE}},
    "batch size": {"batch_size": [2**40], "t": "a"},
    "records": [{"x": text} for text in WIDE],
    "records of texts": [{"t": text} for text in WIDE],
    "records with lists": [{"x": WIDE}, {"x": WIDE}],
}


@pytest.mark.parametrize("name", JSON)
def test_json_allocates_no_more_than_the_text_warrants(tmp_path, name):
    """Long texts among short ones, in a text and in tables, never become arrays as wide as the longest."""
    text = json.dumps(JSON[name])
    with _little_memory():
        try:
            Numbers.from_json(text)
        except (SchemaError, MemoryBudgetError):
            pass
        else:
            assert name == "records of texts"
    if isinstance(JSON[name], list):
        (tmp_path / "a.json").write_text(text)
        (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, JSON[name])))
        with (tmp_path / "a.csv").open("w") as file:
            csv.writer(file).writerows([["x"], [json.dumps(WIDE)], *([text] for text in WIDE)])
        with _little_memory():
            tensorclass.from_json(tmp_path / "a.json")
            tensorclass.from_json(tmp_path / "a.jsonl", lines=True)
            tensorclass.from_csv(tmp_path / "a.csv")


def test_rows_with_a_key_each_are_limited(tmp_path):
    """N rows with n different keys have n x n cells."""
    rows = [{f"k{i}": 1} for i in range(6_000)]
    (tmp_path / "a.json").write_text(json.dumps(rows))
    with _little_memory(), pytest.raises(MemoryBudgetError, match="6000 rows with 6000 different keys"):
        tensorclass.from_json(tmp_path / "a.json")


# ---- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", rest_is_slow(["deflate", "bzip2", "lzma"]))
def test_compressed_files_unpack_within_the_budget(tmp_path, codec):
    """A file that unpacks to more than 128 times its size is an error, unless the caller allows it."""
    path = tmp_path / "a.tdz"
    TensorDict(a=torch.zeros(200 * MIB, dtype=torch.uint8)).save(path, compression=codec)
    assert path.stat().st_size < 400_000
    readers = (tensorclass.load, tensorclass.load_memmap, TensorDict.load, tensorclass.from_consolidated,
               tensorclass.from_safetensors, lambda file: tensorclass.load(file, mmap=False))  # fmt: skip
    for read in readers:
        with pytest.raises(MemoryBudgetError, match=r"a\.tdz: `a`, torch\.uint8 \[209715200\] unpacked.*max_bytes="):
            read(path)
    assert tensorclass.load(path, max_bytes=201 * MIB)["a"].numel() == 200 * MIB
    with pytest.raises(MemoryBudgetError):
        tensorclass.load(path, max_bytes=199 * MIB)


def test_parts_of_a_file_share_the_budget(tmp_path):
    """Many tensors that each fit are too much together."""
    path = tmp_path / "a.tdz"
    TensorDict({str(i): torch.zeros(20 * MIB, dtype=torch.uint8) for i in range(8)}).save(path, compression="bzip2")
    with pytest.raises(MemoryBudgetError, match="with what was read before"):
        tensorclass.load(path)
    assert tensorclass.load(path, subpath="3").sum() == 0


@pytest.mark.parametrize("method", rest_is_slow([zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]))
def test_archives_of_the_anchor_unpack_within_the_budget(tmp_path, method):
    """What `tensordict` packs is unpacked within the budget; descriptions too."""
    path, leaf = tmp_path / "a.tdz", {"device": "cpu", "shape": [200 * MIB], "dtype": "torch.uint8"}
    about = {"a": leaf, "shape": [], "device": "None", "_type": "<class 'tensordict._td.TensorDict'>"}
    with zipfile.ZipFile(path, "w", method) as file:
        file.writestr("meta.json", json.dumps(about))
        file.writestr("a.memmap", bytes(200 * MIB))
    with pytest.raises(MemoryBudgetError, match=r"its part 'a\.memmap', unpacked"):
        tensorclass.load(path)
    with zipfile.ZipFile(path, "w", method) as file:
        file.writestr("meta.json", json.dumps(about) + " " * (200 * MIB))
    with pytest.raises(MemoryBudgetError, match=r"its part 'meta\.json', unpacked"):
        tensorclass.load(path)


def test_arrays_without_bytes_have_no_elements():
    """A dtype of size zero can't state a shape of 2^40 elements."""
    for dtype in ("S0", "U0", "V0"):
        with pytest.raises(TensorClassError):
            decode({"$array": [dtype, [2**40], ""]})
    assert decode({"$array": ["<f4", [0, 2**40], ""]}).shape == (0, 2**40)


# ---- manifests -------------------------------------------------------------------------------------------------------


def _dataset(folder, rows, size=None):
    class Row(TensorClass):
        x: Float32[Tensor, ""]

    with TensorClassDataset.create(folder, Row) as writer:
        writer.append(Row(x=torch.zeros(4)))
    manifest = _segments.read_manifest(str(folder))
    shard = manifest.shards[0]
    changed = [
        shard.model_copy(
            update={"rows": n, "bytes": size or shard.bytes, "id": f"{i:016x}", "file": f"{i:06}-{i:016x}.safetensors"}
        )
        for i, n in enumerate(rows)
    ]
    document_at(str(folder)).replace(manifest.model_copy(update={"shards": changed}))
    return Row


@pytest.mark.parametrize("size", [None, 2**60])
@pytest.mark.parametrize("rows", [[2**40], [2**30] * 3, [2**61, 2**61, 2**61]])
def test_manifests_with_impossible_rows_are_refused(tmp_path, rows, size):
    """Rows are believed only as far as the files on the disk can have them; the error names the manifest or folder."""
    row = _dataset(tmp_path / "d", rows, size)
    for read in (lambda: TensorClassDataset(tmp_path / "d", row), lambda: TensorClassDataset(tmp_path / "d")):
        with pytest.raises(FileFormatError, match=str(tmp_path)):
            read()


def test_a_wrong_schema_in_a_manifest_names_the_manifest(tmp_path):
    """Also for a class that is not imported."""
    row = _dataset(tmp_path / "d", [4])
    manifest = _segments.read_manifest(str(tmp_path / "d"))
    for wrong in ({"fields": 3}, {"fields": {"x": None}}, {"name": 3}):
        part = manifest.cls.model_copy(update={"fields": wrong})
        document_at(str(tmp_path / "d")).replace(manifest.model_copy(update={"cls": part}))
        with pytest.raises(FileFormatError, match=r"manifest\.json"):
            TensorClassDataset(tmp_path / "d", row)


# ---- Arrow and Parquet -----------------------------------------------------------------------------------------------


def _views():
    values = pa.array(np.arange(100_000, dtype=np.int64))
    count = 10_000
    return pa.ListViewArray.from_arrays(
        pa.array(np.zeros(count, np.int32)), pa.array(np.full(count, 100_000, np.int32)), values
    )


def _text_views():
    text = b"a" * MIB
    view = pa.py_buffer(struct.pack("<i4sii", MIB, text[:4], 0, 0) * 5_000)
    return pa.Array.from_buffers(pa.string_view(), 5_000, [None, view, pa.py_buffer(text)])


ARROW = {
    "run ends": lambda: pa.RunEndEncodedArray.from_arrays(pa.array([2**40], pa.int64()), pa.array([1.0])),
    "dictionary": lambda: pa.DictionaryArray.from_arrays(pa.array(np.zeros(5_000, np.int8)), pa.array(["a" * MIB])),
    "list views": _views,
    "text views": _text_views,
    "nulls": lambda: pa.nulls(2**31),
}


@pytest.mark.parametrize("kind", ARROW)
def test_encoded_columns_decode_within_the_budget(kind):
    """A column may be far larger than its buffers."""
    with pytest.raises(MemoryBudgetError, match="max_bytes"):
        tensorclass.from_arrow(pa.table({"x": ARROW[kind]()}))


def test_parquet_files_decode_within_the_budget(tmp_path):
    """Repeated texts and numbers take little space in a file."""
    texts = pa.DictionaryArray.from_arrays(np.zeros(4_000, np.int8), ["a" * MIB])
    pq.write_table(pa.table({"x": texts}), tmp_path / "t")
    pq.write_table(pa.table({"x": np.zeros(60 * MIB)}), tmp_path / "n")
    for name in ("t", "n"):
        with pytest.raises(MemoryBudgetError, match="max_bytes"):
            tensorclass.from_parquet(tmp_path / name)
    assert tensorclass.from_parquet(tmp_path / "n", max_bytes=2**31)["x"].shape == (60 * MIB,)


# ---- every reader ----------------------------------------------------------------------------------------------------


def _made(folder):
    """A file of each format, and its reader."""
    batch = TensorDict(a=torch.arange(30_000), batch_size=[30_000])
    writers = {
        "csv": (batch.to_csv, tensorclass.from_csv), "json": (batch.to_json, tensorclass.from_json),
        "jsonl": (lambda p: batch.to_json(p, lines=True), lambda p, **o: tensorclass.from_json(p, lines=True, **o)),
        "parquet": (batch.to_parquet, tensorclass.from_parquet),
        "h5": (lambda p: batch.to_h5(p).close(), lambda p, **o: tensorclass.from_h5(p, **o)["a"]),
        "zarr": (lambda p: batch.to_zarr(p).close(), lambda p, **o: tensorclass.from_zarr(p, **o)["a"]),
        "safetensors": (batch.save, tensorclass.from_safetensors),
        "tdz": (lambda p: batch.save(p, compression="deflate"), tensorclass.load),
        "folder": (batch.save, lambda p, **o: TensorDict.load(p, mmap=False, **o)),
    }  # fmt: skip
    for name, (write, read) in writers.items():
        write(folder / f"a.{name}")
        yield name, folder / f"a.{name}", read


def test_every_reader_has_a_limit(tmp_path):
    """`max_bytes` is an argument of each; a usual file is read by default, and refused below its size."""
    for name, path, read in _made(tmp_path):
        read(path)
        with pytest.raises(MemoryBudgetError, match=r"a\.\w+.*: .*max_bytes="):
            read(path, max_bytes=1000)
        if name in ("csv", "json", "jsonl", "parquet", "h5", "zarr", "tdz"):
            with pytest.raises(MemoryBudgetError):
                tensorclass.convert(path, tmp_path / "out.parquet", max_bytes=1000, force=True)
    readers = [
        tensorclass.load, tensorclass.load_memmap, tensorclass.from_consolidated, tensorclass.from_csv,
        tensorclass.from_json, tensorclass.from_parquet, tensorclass.from_arrow, tensorclass.from_h5,
        tensorclass.from_zarr, tensorclass.from_safetensors, tensorclass.convert, tensorclass.unpack_memmap,
        tensorclass.pack_memmap, TensorClassDataset, PersistentTensorDict, Numbers.from_json, TensorDict.load,
        TensorDict.load_memmap, TensorDict.from_consolidated,
    ]  # fmt: skip
    assert [read for read in readers if "max_bytes" not in inspect.signature(read).parameters] == []


@pytest.mark.parametrize("size", [-1, 1.5, "10", True])
def test_a_limit_is_a_whole_number(tmp_path, size):
    """Anything else is an error that names the argument."""
    for _, path, read in _made(tmp_path):
        with pytest.raises(TensorClassError, match="`max_bytes` is a whole number"):
            read(path, max_bytes=size)


@pytest.mark.parametrize("size", [2**50, 2**62, -1])
def test_an_impossible_size_of_a_remote_file_names_its_url(monkeypatch, size):
    """A server that states petabytes, or less than nothing, is not believed."""
    monkeypatch.setattr(_remote.Remote, "_look", lambda self: (size, "tag"))
    with pytest.raises(MemoryBudgetError, match=r"memory://b/a\.safetensors: the server says"):
        _remote.Remote("memory://b/a.safetensors")
