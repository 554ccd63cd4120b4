"""Every writer and every kind of target: what is no file is refused, and what is there stays until the new is whole."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import (
    PerElement,
    TensorClass,
    TensorClassDataset,
    TensorDict,
    convert,
    from_h5,
    from_zarr,
    load,
    pack_memmap,
    to_safetensors,
)
from tensorclass.errors import FileFormatError, UnsupportedOperationError
from tensorclass.io.exchange import _arrays_out, _formats, _persistent
from tensorclass.typing import Float32
from tests._users import open_folder, unprivileged
from tests.io._exact import assert_same


class Row(TensorClass):
    """A row of a table."""

    x: Float32[Tensor, "2"]
    name: PerElement[str]


def rows(count: int = 3) -> Row:
    """Rows."""
    return Row(torch.arange(2.0 * count).view(count, 2), [f"r{i}" for i in range(count)])


SOURCES: list[Path] = []
"""The folder of the sources, while the tests of this file run."""


@pytest.fixture(scope="module", autouse=True)
def sources() -> Iterator[None]:
    """Rows as a dataset, and as a folder of mapped files, for the writers that copy what is on disk."""
    with open_folder() as folder:
        with TensorClassDataset.create(folder / "dataset", Row) as writer:
            writer.append(rows())
        rows().save(folder / "mapped")
        SOURCES[:] = [folder]
        yield


def dataset() -> TensorClassDataset[Any]:
    """The source."""
    return TensorClassDataset(SOURCES[0] / "dataset")


def converted(path: Path) -> None:
    """What `tensorclass convert --force` does."""
    convert(SOURCES[0] / "dataset", path, force=True)


ENDINGS = tuple([ending for ending in _formats.FORMATS if ending not in ("", ".hf", ".zarr")])
FILES: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "save": (".safetensors", lambda path: rows().save(path)),
    "save archive": (".tdz", lambda path: rows().save(path)),
    "memmap": (".safetensors", lambda path: rows().select("x").memmap(path)),
    "consolidate": (".bin", lambda path: rows().consolidate(path)),
    "to_safetensors": (".safetensors", lambda path: to_safetensors(rows(), path)),
    "pack_memmap": (".tdz", lambda path: pack_memmap(SOURCES[0] / "mapped", path)),
    "to_parquet": (".parquet", lambda path: rows().to_parquet(path)),
    "to_csv": (".csv", lambda path: rows().to_csv(path)),
    "to_json": (".json", lambda path: rows().to_json(path)),
    "to_json lines": (".jsonl", lambda path: rows().to_json(path, lines=True)),
    "to_h5": (".h5", lambda path: rows().to_h5(path).close()),
    "dataset.to_parquet": (".parquet", lambda path: dataset().to_parquet(path)),
    "dataset.to_csv": (".csv", lambda path: dataset().to_csv(path)),
    "dataset.to_json": (".jsonl", lambda path: dataset().to_json(path)),
    "dataset.to_hf": (".arrow", lambda path: dataset().to_hf(path)),
} | {f"convert {ending}": (ending, converted) for ending in ENDINGS}
FOLDERS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "to_zarr": (".zarr", lambda path: rows().to_zarr(path).close()),
    "convert .zarr": (".zarr", converted),
    "convert .hf": (".hf", converted),
    "convert": ("", converted),
}


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as found:
        here = os.getcwd()
        os.chdir(path.parent)  # names of sockets are short
        found.bind(path.name)
        os.chdir(here)


def _link(path: Path, there: bool) -> None:
    if there:
        (path.parent / "linked").write_text("kept")
    path.symlink_to(path.parent / "linked")


SPECIAL: dict[str, Callable[[Path], Any]] = {
    "fifo": os.mkfifo, "socket": _socket, "link": lambda path: _link(path, True),
    "dangling": lambda path: _link(path, False),
}  # fmt: skip


def refused(write: Callable[[Path], Any], path: Path) -> None:
    """A writer names the path, and changes nothing."""
    before = {entry.name: entry.lstat().st_mode for entry in path.parent.iterdir()}
    with pytest.raises(OSError) as caught:  # the class is what is tested, and the path
        write(path)
    assert path.name in str(caught.value) or str(path.parent) in str(caught.value)
    after = {entry.name: entry.lstat().st_mode for entry in path.parent.iterdir()}
    assert after == before
    if (path.parent / "linked").exists():
        assert (path.parent / "linked").read_text() == "kept"


@pytest.mark.parametrize("kind", [*SPECIAL, "folder"])
@pytest.mark.parametrize("name", FILES)
def test_files(name, kind, tmp_path):
    """A FIFO, a socket, a link, a folder in the place of a file."""
    ending, write = FILES[name]
    path = tmp_path / f"target{ending}"
    (SPECIAL | {"folder": Path.mkdir})[kind](path)
    refused(write, path)


@pytest.mark.parametrize("kind", [*SPECIAL, "file"])
@pytest.mark.parametrize("name", FOLDERS)
def test_folders(name, kind, tmp_path):
    """A FIFO, a socket, a link, a file in the place of a folder."""
    ending, write = FOLDERS[name]
    path = tmp_path / f"target{ending}"
    (SPECIAL | {"file": lambda path: path.write_text("x")})[kind](path)
    refused(write, path)


@pytest.mark.parametrize("name", [*FILES, *FOLDERS])
@pytest.mark.parametrize("kind", ["absent", "file"])
def test_places(name, kind, tmp_path):
    """A folder that is not there, and a file in the place of it."""
    ending, write = (FILES | FOLDERS)[name]
    folder = tmp_path / "folder"
    if kind == "file":
        folder.write_text("x")
    with pytest.raises(OSError, match="folder"):
        write(folder / f"target{ending}")
    assert kind != "file" or folder.read_text() == "x"


@pytest.mark.parametrize("name", [*FILES, *FOLDERS])
def test_read_only_folders(name, tmp_path):
    """A folder that nothing may be written to: the error names it, and it stays empty."""
    ending, write = (FILES | FOLDERS)[name]
    write(tmp_path / f"target{ending}")  # imports what it needs, which a stranger may not read
    with open_folder() as outer:
        folder = outer / "folder"
        folder.mkdir(mode=0o555)
        with unprivileged(), pytest.raises(PermissionError, match="folder"):
            write(folder / f"target{ending}")
        assert list(folder.iterdir()) == []


@pytest.mark.parametrize("path", ["/dev/null", "/dev/full"])
@pytest.mark.parametrize("backend", ["h5", "zarr"])
def test_devices(backend, path):
    """Devices hold no store."""
    with pytest.raises(OSError, match=path):
        getattr(rows(), f"to_{backend}")(path)
    with pytest.raises(OSError, match=path):
        (from_h5 if backend == "h5" else from_zarr)(path)


def test_folders_of_others(tmp_path):
    """A folder that holds something else than a zarr group is not replaced by one."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "thesis.tex").write_text("x")
    with pytest.raises(FileExistsError, match="work"):
        rows().to_zarr(tmp_path / "work")
    assert (tmp_path / "work" / "thesis.tex").read_text() == "x"


@pytest.mark.parametrize("backend", ["h5", "zarr"])
@pytest.mark.parametrize("step", range(1, 6))
def test_interrupted(backend, step, tmp_path, monkeypatch):
    """A store that can't be written leaves the old one, and nothing beside it; a reader keeps what it has open."""
    path = tmp_path / f"data.{backend}"
    getattr(rows(), f"to_{backend}")(path).close()
    calls: list[Any] = []

    def failing(*given: Any) -> Any:
        calls.append(given)
        if len(calls) == step:
            raise MemoryError
        return real(*given)

    real = _persistent.stored
    for module in (_persistent, _arrays_out):
        monkeypatch.setattr(module, "stored", failing)
    with pytest.raises(MemoryError):
        getattr(rows(9), f"to_{backend}")(path)
    monkeypatch.undo()
    assert os.listdir(tmp_path) == [path.name]
    with (from_h5 if backend == "h5" else from_zarr)(path) as store:
        getattr(rows(9), f"to_{backend}")(path).close()
        if backend == "h5":
            assert_same(store.to_tensordict(), TensorDict.from_dict(rows().to_dict(), batch_size=[3]))
    with (from_h5 if backend == "h5" else from_zarr)(path) as store:
        assert len(store) == 9
    assert os.listdir(tmp_path) == [path.name]


KILLED = """
import sys, torch
from tensorclass import TensorDict, convert
path, other = sys.argv[1:]
batches = [TensorDict(x=torch.full((100_000, 4), float(i)), batch_size=[100_000]) for i in (1, 2)]
for batch in batches:
    batch.save(f"{other}{int(batch['x'][0, 0])}.safetensors")
print("ready", flush=True)
while True:
    for i in (1, 2):
        convert(f"{other}{i}.safetensors", path, force=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("ending", [".h5", ".zarr", ".hf", ".safetensors", ".parquet"])
def test_killed(ending, tmp_path):
    """A writer that is killed leaves the old file or the new one; the next removes what it left."""
    path = tmp_path / f"data{ending}"
    for number in range(4):
        writer = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(path), str(tmp_path / "source")],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert writer.stdout is not None
        writer.stdout.readline()
        while not path.exists():
            assert writer.poll() is None
            time.sleep(0.01)
        time.sleep(0.05 + 0.13 * number)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        convert(path, tmp_path / "read.safetensors", force=True)
        found = load(tmp_path / "read.safetensors")["x"]
        assert found.shape == (100_000, 4)
        assert float(found.min()) == float(found.max())
    convert(tmp_path / "source1.safetensors", path, force=True)
    left = [entry for entry in os.listdir(tmp_path) if entry.startswith(".data")]
    assert left == []


@pytest.mark.parametrize("backend", ["h5", "zarr"])
def test_other_files(backend, tmp_path):
    """Text, a cut file, an empty one, a folder of others, nothing: errors with the path."""
    read: Any = from_h5 if backend == "h5" else from_zarr
    rows().to_h5(tmp_path / "whole").close()
    raw = (tmp_path / "whole").read_bytes()
    for name, content in (("text", b"x,y"), ("cut", raw[:-100]), ("empty", b"")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises((FileFormatError, OSError), match=name):
            read(tmp_path / name)
        assert (tmp_path / name).read_bytes() == content
        if backend == "h5":
            with pytest.raises(FileFormatError, match=name):
                read(tmp_path / name)
    (tmp_path / "folder").mkdir()
    with pytest.raises((FileFormatError, IsADirectoryError), match="folder"):
        read(tmp_path / "folder")
    with pytest.raises(FileNotFoundError, match="absent"):
        read(tmp_path / "absent")


@pytest.mark.parametrize("ending", [".parquet", ".csv", ".h5", ".zarr", ".hf", ".safetensors", ""])
def test_no_rows(ending, tmp_path):
    """A dataset without rows becomes a table without rows, whose columns its class says."""
    with TensorClassDataset.create(tmp_path / "source", Row):
        pass
    convert(tmp_path / "source", tmp_path / f"data{ending}")
    if ending == ".hf":  # which `datasets` itself does not open
        with pytest.raises(FileFormatError, match="data"):
            convert(tmp_path / "data.hf", tmp_path / "back.safetensors", Row)
        return
    convert(tmp_path / f"data{ending}", tmp_path / "back.safetensors", Row)
    assert len(load(tmp_path / "back.safetensors")) == 0


@pytest.mark.parametrize("target", sorted({*_formats.FORMATS} - {".hdf5", ".ndjson", ".feather", ".tdz", ".json"}))
@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE])
def test_a_fault_of_the_source(number, target, tmp_path, monkeypatch):
    """An error of the system while the source is read names the source, whatever is written; nothing is there."""

    def failing(*_: Any, **__: Any) -> Any:
        yield rows()
        raise OSError(number, os.strerror(number))

    (tmp_path / "in.csv").write_text("x\n")
    monkeypatch.setitem(_formats.FORMATS, ".csv", _formats.FORMATS[".csv"]._replace(read=failing))
    with pytest.raises(OSError, match=r"in\.csv") as caught:
        convert(tmp_path / "in.csv", tmp_path / f"out{target}", type(rows()))
    assert caught.value.errno == number
    assert os.listdir(tmp_path) == ["in.csv"]


TO_URLS = {
    "create": lambda data, url: TensorClassDataset.create(url, Row),
    "compact": lambda data, url: data.compact(url),
    "parquet": lambda data, url: data.to_parquet(url),
    "csv": lambda data, url: data.pick("name").to_csv(url),
    "json": lambda data, url: data.to_json(url),
    "hf": lambda data, url: data.to_hf(url),
    "save": lambda data, url: data[:].save(url),
    "memmap": lambda data, url: data[:].memmap(url),
    "zarr": lambda data, url: data.pick("x")[:].to_zarr(url),
    "h5": lambda data, url: data.pick("x")[:].to_h5(url),
    "convert": lambda data, url: convert(data.path, f"{url}.parquet"),
}  # fmt: skip


@pytest.mark.parametrize("name", TO_URLS)
def test_urls_that_take_no_files(name: str, tmp_path: Path) -> None:
    """An export to a web server is refused before a request, also one to the disk only; the error says what to do."""
    with TensorClassDataset.create(tmp_path / "rows", Row) as writer:
        writer.append(rows())
    with pytest.raises(
        UnsupportedOperationError, match=r"127.0.0.1:9/.*(save to a store|to the store$|tools of the store)"
    ):
        TO_URLS[name](TensorClassDataset(tmp_path / "rows", Row), "http://127.0.0.1:9/x")


WRITERS = {
    "x.json": "typed.to_json(path)", "y.json": "data.to_json(path)", "y.jsonl": "data.to_json(path, lines=True)",
    "x.csv": "data.to_csv(path)", "x.parquet": "data.to_parquet(path)", "x.h5": "data.to_h5(path)",
    "x.zarr": "data.to_zarr(path)", "x.safetensors": "to_safetensors(data, path)", "x.tdz": "data.save(path)",
}  # fmt: skip
FULL = """
import h5py, pyarrow, resource, signal, torch, zarr
from tensorclass import TensorClass, TensorDict, to_safetensors

class Row(TensorClass):
    a: torch.Tensor

data = TensorDict(a=torch.arange(9999), batch_size=[9999])
typed = Row(a=torch.arange(9999), batch_size=[9999])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
for name, call in {writers!r}.items():
    path = {folder!r} + "/" + name
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.RLIM_INFINITY))
    try:
        eval(call)
        print(name, "silent")
    except OSError as error:
        print(name, error.filename == path)
"""


def test_a_full_disk_is_named(tmp_path):
    """Each writer raises a system error with the path of the file, and leaves nothing there."""
    program = FULL.format(writers=WRITERS, folder=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.split("\n")[:-1] == [f"{name} True" for name in WRITERS], done.stdout + done.stderr
    assert os.listdir(tmp_path) == []
