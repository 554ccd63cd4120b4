"""Changed bytes in the files of every format: an error or the right values, where the format has a checksum."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from tensorclass import PersistentTensorDict, TensorClassDataset, convert
from tensorclass.errors import BatchSizeError, FileFormatError, SchemaError
from tensorclass.io.exchange._formats import FORMATS
from tests.io._exact import assert_same
from tests.io.exchange.test_targets import Row

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # of zarr
PAGE = (Path(__file__).parents[3] / "docs" / "files.md").read_text("utf-8")
DATA = Row(torch.randn(120, 2, generator=torch.Generator().manual_seed(0)), [f"r{i}" for i in range(120)])


class Checked(NamedTuple):
    """How a format with checksums is written and read."""

    suffix: str
    write: Callable[[Path], Any]
    read: Callable[[Path], Any]


def _write_dataset(path: Path) -> None:
    with TensorClassDataset.create(path, Row, checksums=True) as writer:
        writer.append(DATA)


def _converted(path: Path) -> Any:
    convert(path, path.parent / "read.safetensors", Row, force=True)
    return Row.load(path.parent / "read.safetensors", mmap=False)


CHECKED = {
    "safetensors": Checked(".safetensors", lambda p: DATA.save(p, checksums=True), lambda p: Row.load(p, verify=True)),
    "archive": Checked(".tdz", lambda p: DATA.save(p, checksums=True), lambda p: Row.load(p, verify=True)),
    "compressed": Checked(".tdz", lambda p: DATA.save(p, compression="deflate"), Row.load),
    "dataset": Checked("", _write_dataset, lambda p: TensorClassDataset(p, Row, verify=True)[:]),
    "parquet": Checked(".parquet", DATA.to_parquet, Row.from_parquet),
    "parquet in parts": Checked(".parquet", DATA.to_parquet, _converted),
    "zarr": Checked(".zarr", lambda p: DATA.to_zarr(p).close(), lambda p: Row.from_zarr(p).to_tensordict()),
    "converted zarr": Checked(".zarr", lambda p: convert(_source(p), p, Row), _converted),
}
UNCHECKED = {".arrow", ".feather", ".hf", ".csv", ".jsonl", ".ndjson", ".json"}
"""Formats without a checksum; HDF5 has one on request."""


def _source(path: Path) -> Path:
    DATA.save(path.parent / "source.safetensors")
    return path.parent / "source.safetensors"


def test_every_format_is_said_to_find_changes_or_not():
    """The page has each suffix of the formats that are written."""
    known = {one.suffix for one in CHECKED.values()} | UNCHECKED | {".h5", ".hdf5"}
    assert known == set(FORMATS)
    table = PAGE[PAGE.index("| format | changed values") :].partition("\n\n")[0]
    assert [suffix for suffix in known if suffix and f"`{suffix}`" not in table] == []


def _changed(raw: bytes, kind: str, rng: random.Random) -> bytes:
    at, found = rng.randrange(len(raw)), bytearray(raw)
    if kind == "flip":
        found[at] ^= 1 << rng.randrange(8)
    elif kind == "zeros":
        found[at : at + 16] = bytes(len(found[at : at + 16]))
    return raw[:at] if kind == "cut" else bytes(found)


@pytest.mark.parametrize("seed", [1, *[pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 12)]])
@pytest.mark.parametrize("form", CHECKED)
def test_no_changed_value_is_read(form, seed, tmp_path):
    """Flipped bits, zeros and cuts, in files in proportion to their sizes."""
    checked, rng = CHECKED[form], random.Random(seed)
    path = tmp_path / f"data{checked.suffix}"
    checked.write(path)
    files = [path] if path.is_file() else [p for p in sorted(path.rglob("*")) if p.is_file() and p.stat().st_size]
    raw = {file: file.read_bytes() for file in files}
    refused = 0
    for number in range(30):
        (file,) = rng.choices(files, [len(raw[file]) for file in files])
        file.write_bytes(_changed(raw[file], ("flip", "zeros", "cut")[number % 3], rng))
        try:
            found = checked.read(path)
            assert (found["x"].tolist(), found["name"].tolist()) == (DATA.x.tolist(), DATA.name.tolist()), (
                file,
                number,
            )
        except (FileFormatError, SchemaError, OSError):
            refused += 1
        file.write_bytes(raw[file])
    assert refused > 15
    assert checked.read(path)["x"].tolist() == DATA.x.tolist()


def test_hdf5_finds_changes_on_request(tmp_path):
    """`fletcher32=True` gives every array a checksum, those of Python values too."""
    h5py, rng = pytest.importorskip("h5py"), random.Random(0)
    path = tmp_path / "data.h5"
    DATA.to_h5(path, fletcher32=True).close()
    with h5py.File(path) as file:
        chunks = [(array.id.get_chunk_info(0), array) for array in (file["x"], file["name"])]
        spans = {array.name: (about.byte_offset, about.size) for about, array in chunks}
    raw = path.read_bytes()
    for name, (begin, size) in spans.items():
        for _ in range(20):
            inside = _changed(raw[begin : begin + size], "flip", rng)
            path.write_bytes(raw[:begin] + inside + raw[begin + size :])
            with pytest.raises(FileFormatError, match=rf"field `{name[1:]}` is damaged"):
                Row.from_h5(path).to_tensordict()
    path.write_bytes(raw)
    assert_same(Row.from_h5(path).to_tensordict(), DATA.to_tensordict())


@pytest.mark.parametrize("backend", ["h5", "zarr"])
def test_sizes_in_a_store_that_do_not_fit(backend, tmp_path):
    """They are damage of the file, unless the caller gave the batch size."""
    pytest.importorskip("h5py")
    path = tmp_path / f"data.{backend}"
    getattr(DATA, f"to_{backend}")(path).close()
    with PersistentTensorDict(filename=path, mode="r+", backend=backend) as store:
        store._note(batch_size=[7])
    with pytest.raises(FileFormatError, match="does not begin with the batch size") as caught:
        getattr(Row, f"from_{backend}")(path)
    assert str(path) in str(caught.value)
    with pytest.raises(BatchSizeError):
        getattr(Row, f"from_{backend}")(path, batch_size=[7])


def test_damaged_notes_end(tmp_path):
    """The notes of an HDF5 file are in no heap: HDF5 reads some damaged heaps for ever."""
    pytest.importorskip("h5py")
    DATA.to_h5(tmp_path / "data.h5").close()
    assert b"GCOL" not in (tmp_path / "data.h5").read_bytes()
    many = DATA.to_tensordict().select("x")
    for i in range(3000):
        many[f"a long name of a field {i}"] = torch.zeros(120, 0)
    many.to_h5(tmp_path / "many.h5").close()
    with type(many).from_h5(tmp_path / "many.h5") as store:
        assert list(store.keys()) == list(many.keys())
