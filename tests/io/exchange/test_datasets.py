"""Datasets from tables and as tables, `convert` and its command, functions for safetensors and MosaicML."""

from __future__ import annotations

import os
import sys
import types

import datasets as hf
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch import Tensor

from tensorclass import (
    PerElement,
    TensorClass,
    TensorClassDataset,
    TensorDict,
    convert,
    from_parquet,
    from_safetensors,
    to_safetensors,
)
from tensorclass.cli import main
from tensorclass.errors import ArgumentError, FileFormatError, MissingExtraError, SchemaError, StructureError
from tensorclass.io.exchange import _functions, _parquet
from tensorclass.typing import Float32, Int64
from tests._versions import needs_package
from tests.io._exact import assert_same


class Digits(TensorClass):
    image: Float32[Tensor, "2 2"]
    label: Int64[Tensor, ""]
    name: PerElement[str]


def digits(rows, begin=0):
    """Rows that are told apart."""
    numbers = torch.arange(begin, begin + rows)
    return Digits(numbers[:, None, None].expand(-1, 2, 2).float(), numbers, [f"n{i}" for i in numbers.tolist()])


@pytest.fixture
def source(tmp_path):
    """A Parquet file of several row groups."""
    digits(25).to_parquet(tmp_path / "a.parquet", row_group_size=4)
    return tmp_path / "a.parquet"


def whole(data):
    """All rows of a dataset."""
    return data[:]


def write_csv(path):
    """A CSV file, whose path it gives."""
    digits(25).to_csv(path)
    return path


def write_lines(path):
    """A file of JSON lines, whose path it gives."""
    digits(25).to_json(path, lines=True)
    return path


SOURCES = {
    "parquet": lambda folder, out: TensorClassDataset.from_parquet(folder / "a.parquet", out, Digits, 10),
    "class of the file": lambda folder, out: TensorClassDataset.from_parquet(folder / "a.parquet", out),
    "csv": lambda folder, out: TensorClassDataset.from_csv(write_csv(folder / "a.csv"), out, Digits, 10),
    "lines": lambda folder, out: TensorClassDataset.from_json(write_lines(folder / "a.jsonl"), out, Digits, 10),
    "table": lambda folder, out: TensorClassDataset.from_arrow(digits(25).to_arrow(), out, Digits, 10),
    "reader": lambda folder, out: TensorClassDataset.from_arrow(digits(25).to_arrow().to_reader(4), out, Digits),
    "hf": lambda folder, out: TensorClassDataset.from_hf(digits(25).to_hf(), out, Digits, 10),
    "hf stream": lambda folder, out: TensorClassDataset.from_hf(digits(25).to_hf().to_iterable_dataset(), out, Digits),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_into_a_dataset(kind, source, tmp_path, monkeypatch):
    """Rows come in parts, and in order."""
    monkeypatch.setattr(_functions, "BLOCK", 7)
    data = SOURCES[kind](tmp_path, tmp_path / "data")
    assert_same(whole(data), digits(25))
    assert data.cls is Digits


def test_parts_are_small(source, tmp_path, monkeypatch):
    """No more rows than a block are read together, whatever the file holds."""
    seen = []
    original = _parquet.batch_in
    monkeypatch.setattr(_parquet, "batch_in", lambda table, *rest: (seen.append(len(table)), original(table, *rest))[1])
    monkeypatch.setattr(_functions, "BLOCK", 3)
    TensorClassDataset.from_parquet(source, tmp_path / "data", Digits)
    assert max(seen) == 3
    assert sum(seen) == 25


def test_several_files(source, tmp_path):
    """Files follow each other."""
    digits(5, 25).to_parquet(tmp_path / "b.parquet")
    data = TensorClassDataset.from_parquet([source, tmp_path / "b.parquet"], tmp_path / "data", Digits)
    assert_same(whole(data), digits(30))


def test_out_of_a_dataset(source, tmp_path):
    """A row group or some lines for each part; Hugging Face maps the file."""
    data = TensorClassDataset.from_parquet(source, tmp_path / "data", Digits, 10)
    data.to_parquet(tmp_path / "b.parquet")
    assert pq.ParquetFile(tmp_path / "b.parquet").num_row_groups == 3
    assert_same(from_parquet(tmp_path / "b.parquet"), digits(25))
    data.to_csv(tmp_path / "b.csv")
    assert_same(Digits.from_csv(tmp_path / "b.csv"), digits(25))
    data.to_json(tmp_path / "b.jsonl")
    assert_same(Digits.from_json(path=tmp_path / "b.jsonl", lines=True), digits(25))
    found = data.to_hf(tmp_path / "b.arrow")
    assert found.features["image"] == hf.List(hf.List(hf.Value("float32"), length=2), length=2)
    assert found.with_format("torch")[3]["image"].shape == (2, 2)
    assert_same(Digits.from_hf(found), digits(25))


def test_selections_of_hugging_face():
    """A selection gives its rows, in its order."""
    found = digits(10).to_hf().select([7, 2]).map(lambda row: {"label": row["label"] + 1})
    assert Digits.from_hf(found).label.tolist() == [8, 3]


def test_bad_rows_leave_no_file(tmp_path):
    """What was there stays, and a dataset holds no half of a file."""
    (tmp_path / "a.csv").write_text("label\n1\nx\n")
    (tmp_path / "out.parquet").write_bytes(b"old")

    class Labels(TensorClass):
        label: Int64[Tensor, ""]

    with pytest.raises(FileFormatError, match="line 3"):
        convert(tmp_path / "a.csv", tmp_path / "out.parquet", Labels, force=True)
    assert (tmp_path / "out.parquet").read_bytes() == b"old"
    assert sorted(os.listdir(tmp_path)) == ["a.csv", "out.parquet"]
    with pytest.raises(TypeError, match="name the class"):
        TensorClassDataset.from_csv(tmp_path / "a.csv", tmp_path / "data", None)


def test_columns_that_change(tmp_path):
    """Batches of one file have columns of one type."""
    parts = [TensorDict(a=torch.zeros(2), batch_size=[2]), TensorDict(b=torch.zeros(2), batch_size=[2])]
    with pytest.raises(SchemaError, match="columns"):
        _parquet.write_parquet(parts, tmp_path / "a.parquet")
    with pytest.raises(StructureError, match="no rows"):
        _parquet.write_parquet([], tmp_path / "a.parquet")
    assert os.listdir(tmp_path) == []


@needs_package("pyarrow", "26", "absent tensors in Parquet files")
def test_optional_columns_that_come_later(tmp_path):
    """A field that is absent first has the declared type, so that later rows fit."""

    class Late(TensorClass):
        x: Float32[Tensor, ""]
        y: Int64[Tensor, "2"] | None = None
        z: PerElement[str] | None = None

    parts = [Late(torch.zeros(2)), Late(torch.zeros(2), y=torch.ones(2, 2, dtype=torch.int64), z=["a", "b"])]
    _parquet.write_parquet(parts, tmp_path / "a.parquet")
    table = pq.read_table(tmp_path / "a.parquet")
    assert table["z"].to_pylist() == [None, None, "a", "b"]
    with pytest.raises(SchemaError, match="first in row 0"):
        Late.from_arrow(table)


# ---- convert -----------------------------------------------------------------------------------------------------


def run(*arguments, capsys):
    """The exit status of the command and what it says."""
    status = main(["convert", *map(str, arguments)])
    return status, capsys.readouterr().err


def test_command(source, tmp_path, capsys):
    """Formats by ending; never over a file without --force; 1 for rows that don't fit, 2 for a wrong command."""
    cls = f"{__file__}:Digits"
    assert run(source, tmp_path / "b.csv", capsys=capsys) == (0, "")
    assert run(source, tmp_path / "b.csv", capsys=capsys)[0] == 2
    assert "--force" in run(source, tmp_path / "b.csv", capsys=capsys)[1]
    assert run(source, tmp_path / "b.csv", "--force", capsys=capsys)[0] == 0
    assert run(tmp_path / "b.csv", tmp_path / "data", "--class", cls, capsys=capsys) == (0, "")
    assert len(TensorClassDataset(tmp_path / "data")) == 25
    assert run(tmp_path / "none.csv", tmp_path / "c.csv", capsys=capsys)[0] == 2
    assert run(source, tmp_path / "b.tar", capsys=capsys)[0] == 2
    assert run(source, source, "--force", capsys=capsys)[0] == 2
    assert run(source, tmp_path / "c.csv", "--class", f"{__file__}:digits", capsys=capsys)[0] == 2
    (tmp_path / "bad.csv").write_text("label\nx\n")
    status, said = run(tmp_path / "bad.csv", tmp_path / "c.csv", "--class", cls, capsys=capsys)
    assert (status, "label" in said) == (1, True)
    (tmp_path / "bad.parquet").write_bytes(b"PAR1")
    assert run(tmp_path / "bad.parquet", tmp_path / "c.csv", capsys=capsys)[0] == 1
    assert not (tmp_path / "c.csv").exists()


def test_endings(tmp_path):
    """An ending that no format has is told with those that there are."""
    with pytest.raises(ArgumentError, match=r"\.parquet"):
        convert(tmp_path / "a.xyz", tmp_path / "b.csv")


@pytest.mark.parametrize("raw", [b"", b"PAR1", b"PAR1" + b"\0" * 20 + b"PAR1"])
def test_damaged_parquet(raw, tmp_path):
    """A file that is no Parquet, with its path."""
    (tmp_path / "a.parquet").write_bytes(raw)
    with pytest.raises(FileFormatError, match=r"a\.parquet"):
        from_parquet(tmp_path / "a.parquet")
    with pytest.raises(OSError, match=r"b\.parquet"):
        from_parquet(tmp_path / "b.parquet")


def test_chosen_columns(source):
    """Columns by name; one that is not there is told with the nearest."""
    assert list(TensorDict.from_parquet(source, columns=["label"]).keys()) == ["label"]
    with pytest.raises(FileFormatError, match="did you mean `label`"):
        TensorDict.from_parquet(source, columns=["lable"])


# ---- others ------------------------------------------------------------------------------------------------------


def test_safetensors(tmp_path):
    """The functions of the anchor, over the format of this library."""
    batch = digits(3)
    assert to_safetensors(batch, tmp_path / "a.st") is None
    assert_same(from_safetensors(tmp_path / "a.st"), batch)
    assert from_safetensors(tmp_path / "a.st", device="cpu").device == torch.device("cpu")


@pytest.fixture
def mosaic(monkeypatch):
    """A stand-in for `streaming`, whose wheels do not install beside this torch."""
    written = []

    class Writer:
        def __init__(self, **options):
            written.append(options)

        def write(self, sample):
            written.append(sample)

        def finish(self):
            written.append("finished")

    monkeypatch.setitem(sys.modules, "streaming", types.SimpleNamespace(MDSWriter=Writer))
    return written


def test_mds(mosaic):
    """Samples with the encodings of their values."""
    digits(2).to_mds(out="folder", compression="zstd")
    assert mosaic[0]["columns"] == {"image": "ndarray", "label": "int", "name": "str"}
    assert (mosaic[0]["out"], mosaic[0]["compression"], mosaic[-1]) == ("folder", "zstd", "finished")
    assert mosaic[2]["label"] == 1
    assert np.array_equal(mosaic[2]["image"], np.ones((2, 2)))


EXTRAS = {
    "pyarrow": ("arrow", lambda: digits(1).to_arrow()), "pandas": ("pandas", lambda: digits(1).to_pandas()),
    "polars": ("polars", lambda: digits(1).to_polars()), "datasets": ("hf", lambda: digits(1).to_hf()),
    "h5py": ("hdf5", lambda: digits(1).to_h5("a.h5")), "zarr": ("zarr", lambda: digits(1).to_zarr("a.zarr")),
    "streaming": ("mds", lambda: digits(1).to_mds(out="a")),
}  # fmt: skip


@pytest.mark.parametrize("package", EXTRAS)
def test_missing_packages(package, monkeypatch):
    """The error names the extra that brings the package."""
    extra, call = EXTRAS[package]
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"tensorclass\[{extra}\]"):
        call()


def test_text_needs_no_package(tmp_path, monkeypatch):
    """CSV and JSON lines need neither pandas nor pyarrow."""
    for package in ("pyarrow", "pandas"):
        monkeypatch.setitem(sys.modules, package, None)
    digits(2).to_csv(tmp_path / "a.csv")
    assert_same(Digits.from_csv(tmp_path / "a.csv"), digits(2))


def test_arrow_reads_batches():
    """A batch is an Arrow stream itself."""
    assert pa.table(digits(2))["label"].to_pylist() == [0, 1]
