"""A path that another function reads: the error names that function, whoever was asked."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import tensorclass as tc
from tensorclass import TensorClass, TensorClassDataset, TensorDict, convert, load
from tensorclass.errors import ArgumentError, FileFormatError
from tensorclass.io._file_kinds import FILE_KINDS, LOAD
from tensorclass.io.exchange._formats import FORMATS
from tensorclass.typing import Float32, Int64

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # of zarr


class Point(TensorClass):
    """What is written."""

    x: Float32[Tensor, ""]
    label: Int64[Tensor, ""]


ASKED: dict[str, Any] = {
    "load": load,
    "Point.load": Point.load,
    "TensorDict.load": TensorDict.load,
    "TensorDict.load_memmap": TensorDict.load_memmap,
    "Point.load_memmap": Point.load_memmap,
    "from_consolidated": TensorDict.from_consolidated,
    "TensorClassDataset": TensorClassDataset,
    "from_parquet": Point.from_parquet,
    "from_h5": tc.from_h5,
    "from_zarr": tc.from_zarr,
}
LOADS = {"load", "Point.load", "TensorDict.load", "TensorDict.load_memmap", "Point.load_memmap", "from_consolidated"}
READERS: dict[str, tuple[str, ...]] = {
    ".parquet": ("from_parquet",), ".arrow": ("convert",), ".feather": ("convert",), ".csv": ("from_csv",),
    ".jsonl": ("from_json", "lines=True"), ".ndjson": ("from_json", "lines=True"), ".json": ("from_json",),
    ".safetensors": ("load",), ".tdz": ("load",), "folder": ("load",), ".h5": ("from_h5",), ".hdf5": ("from_h5",),
    ".zarr": ("from_zarr",), ".hf": ("datasets.load_from_disk", "from_hf"), "": ("TensorClassDataset",),
    ".stream": ("pyarrow.ipc.open_stream", "from_arrow"), ".mds": ("streaming",), ".pt": ("torch.load",),
    ".npz": ("numpy.load", "from_any"), ".npy": ("numpy.load",), ".pkl": ("pickle.load",), ".anchor": ("load",),
}  # fmt: skip
"""What reads each format."""


def points() -> Point:
    """Three rows."""
    return Point(torch.rand(3), torch.arange(3))


def write(form: str, path: Path) -> None:
    """A file or folder of a format."""
    batch, name = points(), str(path)
    if form in FORMATS:
        batch.save(path.parent / "source.safetensors")
        convert(path.parent / "source.safetensors", path, Point)
    elif form == "folder":
        batch.save(path)
    elif form == ".stream":
        with TensorClassDataset.create(path.parent / "rows", Point) as writer:
            writer.append(batch)
        TensorClassDataset(path.parent / "rows", Point).to_hf(path)
    elif form == ".mds":
        path.mkdir()
        (path / "index.json").write_text("{}")
    elif form == ".anchor":
        path.mkdir()
        (path / "meta.json").write_text("{}")
    elif form == ".pt":
        torch.save({"x": torch.ones(3)}, path)
    elif form == ".npz":
        np.savez(name, x=np.arange(3))
    elif form == ".npy":
        np.save(name, np.arange(3))
    else:
        path.write_bytes(pickle.dumps([1]))


def test_every_format_is_here():
    """What `convert` writes, and what a door is for."""
    assert set(FORMATS) <= set(READERS)
    assert {suffix for kind in FILE_KINDS for suffix in kind.suffixes} <= {*READERS, ".pth", ".pickle"}


BY_NAME = {".csv", ".jsonl", ".ndjson", ".json", ".npz", ".pt", ".pkl"}
"""What only the name tells."""


def check(form: str, path: Path) -> None:
    """Each reader but the right ones raises, with the path and what the format is read by."""
    for name, reader in ASKED.items():
        if name in READERS[form] or (READERS[form] == ("load",) and name in LOADS):
            continue
        with pytest.raises((FileFormatError, OSError)) as caught:
            reader(path)
        for word in (*READERS[form], str(path)):
            assert word in str(caught.value), name


@pytest.mark.parametrize("form", READERS)
def test_the_door(form, tmp_path):
    """Each reader names the right one; of files that say what they are under any name."""
    for package in ("datasets", "h5py", "pyarrow", "zarr"):
        pytest.importorskip(package)
    path = tmp_path / f"data{'' if form in ('folder', '.anchor', '.mds') else form}"
    write(form, path)
    check(form, path)
    if form not in BY_NAME:
        check(form, path.rename(tmp_path / "other"))


def test_a_damaged_file_is_not_another(tmp_path):
    """A file of this library says what is wrong with it, whatever it is called; so does one of another format."""
    for name in ("x.safetensors", "x.csv", "x.parquet"):
        points().save(tmp_path / name, archive=True)
        (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:-1])
        with pytest.raises(FileFormatError, match="cut off"):
            load(tmp_path / name)
    (tmp_path / "y.parquet").write_bytes(b"PAR1")
    with pytest.raises(FileFormatError, match="Arrow can't read it"):
        tc.from_parquet(tmp_path / "y.parquet")
    with pytest.raises(FileNotFoundError, match=r"absent\.parquet"):
        load(tmp_path / "absent.parquet")


@pytest.mark.parametrize("suffix", [s for kind in FILE_KINDS if kind.reader != LOAD for s in kind.suffixes])
def test_save_refuses_the_suffix_of_another_kind(suffix, tmp_path):
    """A path of another kind of file is refused before anything is written; `archive=False` makes the folder."""
    batch, path = TensorDict(x=torch.ones(3)), tmp_path / f"a{suffix.upper()}"
    with pytest.raises(ArgumentError, match=r"save the batch as `a\.safetensors`"):
        batch.save(path)
    assert not path.exists()
    batch.save(path, archive=False)
    assert path.is_dir()
    assert load(path)["x"].tolist() == [1, 1, 1]
