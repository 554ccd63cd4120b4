"""Damaged files of every format: rows, or an error of this library or of the system that names the file."""

from __future__ import annotations

import itertools
import os
import random
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tensorclass as tc
from tensorclass import convert
from tensorclass.errors import FileFormatError, SchemaError, TensorClassError
from tensorclass.io.exchange._formats import FORMATS
from tests.io.exchange.test_targets import Row, rows

ENDINGS = [ending for ending in FORMATS if ending not in (".feather", ".ndjson", ".hdf5", ".tdz")]
"""One name for each format."""


def damaged(raw: bytes, rng: random.Random) -> bytes:
    """Bytes that are cut off, changed, taken out or added."""
    found, at = bytearray(raw), rng.randrange(len(raw))
    kind = rng.randrange(5)
    if kind == 0:
        return raw[:at]
    if kind == 1:
        return raw + rng.randbytes(rng.randrange(1, 40))
    if kind == 2:
        del found[at : at + rng.randrange(1, 64)]
    elif kind == 3:
        found[at] ^= 1 << rng.randrange(8)
    else:
        for _ in range(20):
            found[rng.randrange(len(raw))] = rng.randrange(256)
    return bytes(found)


def fuzz(ending: str, folder: Path, times: int) -> None:
    """Damage a file of a format again and again."""
    for package in ("datasets", "h5py", "pyarrow", "zarr"):
        pytest.importorskip(package)
    path, rng = folder / f"data{ending}", random.Random(0)
    rows(40).save(folder / "source.safetensors")
    convert(folder / "source.safetensors", path, Row)
    files = [path] if path.is_file() else [p for p in sorted(path.rglob("*")) if p.is_file() and ".lock" not in p.name]
    raw = {file: file.read_bytes() for file in files}
    refused: list[str] = []
    for number in range(times):
        file = rng.choice(files)
        file.write_bytes(damaged(raw[file], rng))
        try:
            convert(path, folder / "target.jsonl", (Row, None)[number % 2], force=True)
        except (SchemaError, FileFormatError, OSError) as error:
            refused.append(str(path) if isinstance(error, SchemaError) else str(error))
        file.write_bytes(raw[file])
    assert refused
    assert all(str(path) in text for text in refused)
    convert(path, folder / "target.jsonl", Row, force=True)
    assert tc.from_json(folder / "target.jsonl", lines=True, cls=Row).name.tolist() == [f"r{i}" for i in range(40)]


@pytest.mark.filterwarnings("ignore::UserWarning")  # of zarr
@pytest.mark.parametrize("ending", ENDINGS)
def test_damaged(ending, tmp_path):
    """Some damages of each format."""
    fuzz(ending, tmp_path, 8 if ending == ".zarr" else 16)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")  # of zarr
@pytest.mark.parametrize("ending", ENDINGS)
def test_damaged_often(ending, tmp_path):
    """Many of them; none ends the process."""
    fuzz(ending, tmp_path, 60 if ending in (".zarr", ".hf") else 300)


READERS: dict[str, Callable[[Path], Any]] = {
    "load": tc.load, "load_memmap": tc.load_memmap, "from_csv": tc.from_csv, "from_json": tc.from_json,
    "from_json lines": lambda path: tc.from_json(path, lines=True), "from_parquet": tc.from_parquet,
    "from_h5": tc.from_h5, "from_zarr": tc.from_zarr, "TensorClassDataset": tc.TensorClassDataset,
    "Row.from_json": lambda path: Row.from_json(path=path), "Row.from_csv": Row.from_csv,
    **{f"convert {e}": lambda path: convert(path, path.parent / "to.jsonl") for e in ENDINGS if e not in ("", ".hf")},
}  # fmt: skip


def bound(path: Path) -> None:
    """A socket that nobody listens on."""
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


KINDS: dict[str, Callable[[Path], Any]] = {
    "fifo": os.mkfifo,
    "socket": bound,
    "empty": Path.touch,
    "absent": lambda path: None,
    "dangling link": lambda path: path.symlink_to(path.parent / "nothing"),
    "empty folder": Path.mkdir,
}


NO_FILES = [
    (name, kind)
    for name, kind in itertools.product(READERS, KINDS)
    if kind != "empty" or "lines" not in name.replace("jsonl", "lines")  # a file without lines has no rows
]


@pytest.mark.parametrize(("name", "kind"), NO_FILES)
def test_what_is_no_file(name, kind, tmp_path, monkeypatch):
    """No reader waits for a pipe, and each error names the path."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / f"x{name.partition('convert ')[2]}"
    KINDS[kind](path if kind != "socket" else Path(path.name))
    found: list[Any] = []

    def read() -> None:
        try:
            found.append(READERS[name](path))
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    thread.join(20)
    if not found:
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))  # lets it go on
    assert found, "it waits"
    assert isinstance(found[0], (TensorClassError, OSError)), found
    assert str(path) in str(found[0]) or isinstance(found[0], SchemaError)
