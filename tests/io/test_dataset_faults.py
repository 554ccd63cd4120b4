"""Writers that die, two writers, damaged manifests and shards: a committed prefix, or an error that names the file."""

from __future__ import annotations

import errno
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import types
from concurrent.futures import wait
from contextlib import suppress
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
import torch

from tensorclass import TensorClassDataset
from tensorclass.errors import ChecksumError, FileFormatError, SchemaError, TensorClassError
from tensorclass.io import _lock, _segments, _writer
from tests.io._classes import Digits
from tests.io._exact import assert_same
from tests.io._faults import Faulty, Killed
from tests.io.test_typed import digits


class InTurn(threading.Thread):
    """A thread that is done when it has started: system calls have one order, which a test can count."""

    def start(self) -> None:
        """Run."""
        self.run()


class System(Faulty):
    """Faults also in what locks and writers ask of the system.

    Args:
        in_turn: whether shards are brought to the disk before the next one is written.
    """

    def __init__(self, *args: Any, in_turn: bool = True) -> None:
        super().__init__(*args)
        self.thread = InTurn if in_turn else threading.Thread

    def __enter__(self) -> System:
        super().__enter__()
        _lock.os = _segments.os = _writer.os = self  # type: ignore[assignment]  # replaces the module
        _writer.threading = types.SimpleNamespace(Thread=self.thread)  # type: ignore[assignment]  # as above
        return self

    def __exit__(self, *_: Any) -> None:
        super().__exit__()
        _lock.os = _segments.os = _writer.os = os  # type: ignore[attr-defined, assignment]  # as before
        _writer.threading = threading  # type: ignore[attr-defined]  # as before


def write(path: Path, batch: Digits, resume: bool = False, **options: Any) -> None:
    """Write what is not there yet, in small batches."""
    with TensorClassDataset.create(path, Digits, rows_per_shard=4, resume=resume, **options) as writer:
        for begin in range(writer.rows, len(batch), 3):
            writer.append(batch[begin : begin + 3])


def rows_of(path: Path) -> Any:
    """All rows that are there, None where there is no dataset."""
    try:
        data: Any = TensorClassDataset(path)
    except FileNotFoundError:
        return None
    return data[:] if len(data) else None


@pytest.mark.parametrize("every", [9, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("tail", [32, 1], ids=["shards", "segments"])
def test_killed_at_every_step(every, tail, tmp_path, monkeypatch):
    """A writer that dies between any two system calls leaves a committed prefix; resume gives all rows, once each."""
    monkeypatch.setattr(_segments, "TAIL", tail)
    batch = digits(10)
    with System() as system:
        write(tmp_path / "whole", batch)
    counts = []
    for at in range(0, len(system.calls), every):
        path = tmp_path / str(at)
        with System(at, Killed()), pytest.raises(Killed):
            write(path, batch)
        found = rows_of(path)
        counts.append(0 if found is None else len(found))
        assert counts[-1] in (0, 4, 8, 10), system.calls[at]
        if found is not None:
            assert_same(found, batch[: counts[-1]].clone())
        with System():  # a thread of the same number, as this process is not dead
            write(path, batch, resume=True)
        assert_same(rows_of(path), batch)
        names = [name for name in os.listdir(path) if not name.startswith(".lock")]
        segments = json.loads((path / "manifest.json").read_text()).get("segments", ())
        assert len(names) == 4 + len(segments), (names, system.calls[at])
        assert {segment["file"] for segment in segments} <= {*names}
    assert counts == sorted(counts)
    assert every > 1 or {0, 4, 8, 10} == set(counts)


@pytest.mark.slow
@pytest.mark.parametrize("tail", [32, 1], ids=["shards", "segments"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EINTR])
def test_errors_at_every_step(number, tail, tmp_path, monkeypatch):
    """After an error of the system the writer takes no more; what is committed is there, and resume goes on."""
    monkeypatch.setattr(_segments, "TAIL", tail)
    batch = digits(10)
    with System() as system:
        write(tmp_path / "whole", batch)
    for at, name in enumerate(system.calls):
        path = tmp_path / f"{at}"
        if name in ("close", "stat", "listdir", "unlink"):
            continue  # the first is no failure, and others may be done without
        with System(at, OSError(number, os.strerror(number))), pytest.raises(OSError, match=str(tmp_path)):
            write(path, batch)
        found = rows_of(path)
        if found is not None:
            assert_same(found, batch[: len(found)].clone())
        write(path, batch, resume=True)
        assert_same(rows_of(path), batch)


@pytest.mark.slow
@pytest.mark.parametrize("fault", [Killed(), OSError(errno.EIO, "broken")], ids=["killed", "error"])
def test_faults_beside_a_writer(fault, tmp_path):
    """The same at some steps, while a thread brings shards to the disk."""
    batch = digits(10)
    for at in range(12, 60, 7):
        path = tmp_path / str(at)
        with System(at, fault, in_turn=False), suppress(type(fault)):
            write(path, batch)
        found = rows_of(path)
        assert (0 if found is None else len(found)) in (0, 4, 8, 10)
        if found is not None:
            assert_same(found, batch[: len(found)].clone())
        write(path, batch, resume=True)
        assert_same(rows_of(path), batch)


def test_interrupted_while_it_waits(tmp_path, monkeypatch):
    """Ctrl-C while a shard is on its way: the locks are kept until the shard is listed, and nothing is lost."""
    batch, waits = digits(10), []

    def interrupted(futures: Any) -> None:
        waits.append(wait(futures) if waits else None)
        if len(waits) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(_writer, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "rows", batch)
    monkeypatch.undo()
    assert len(waits) == 2
    assert len(TensorClassDataset(tmp_path / "rows")) == 4
    write(tmp_path / "rows", batch, resume=True)
    assert_same(rows_of(tmp_path / "rows"), batch)


def test_failed_writer(tmp_path):
    """A writer that has failed says so, and commits nothing more."""
    with System(0, OSError(errno.ENOSPC, "full"), "fsync") as system:
        system.at = -1
        writer: Any = TensorClassDataset.create(tmp_path, Digits, rows_per_shard=4)
        system.at = len(system.calls)
        with pytest.raises(OSError, match="full"):
            writer.append(digits(9))
    for action in (lambda: writer.append(digits(1)), writer.commit):
        with pytest.raises(ValueError, match="resume=True"):
            action()
    writer.close()
    assert len(TensorClassDataset(tmp_path)) == 0


def test_exception_in_the_block(tmp_path):
    """A block that ends by an exception keeps the full shards."""
    batch = digits(10)
    writer = TensorClassDataset.create(tmp_path, Digits, rows_per_shard=4)
    writer.append(batch)
    writer.__exit__(KeyError, KeyError(), None)
    assert_same(rows_of(tmp_path), batch[:8].clone())
    with pytest.raises(ValueError, match="closed"):
        writer.append(batch)
    with TensorClassDataset.create(tmp_path, Digits, rows_per_shard=4, resume=True) as writer:
        assert writer.rows == 8
        writer.append(batch[8:])
    assert_same(rows_of(tmp_path), batch)


def grow(path: Path) -> None:
    """Append rows, on and on."""
    with TensorClassDataset.create(path, Digits, rows_per_shard=5, resume=True) as writer:
        for i in range(writer.rows, 10**6):
            writer.append(Digits(torch.full((1, 8, 8), float(i)), torch.tensor(i)))


def kill(path: Path, times: int, rng: random.Random) -> None:
    """Kill a writer again and again; the rows are always the first so many, and grow."""
    before, grown = 0, 0
    for _ in range(times):
        writer = os.fork()
        if not writer:
            with suppress(BaseException):
                grow(path)
            os._exit(1)
        time.sleep(0.02 + rng.random() * 0.2)
        os.kill(writer, signal.SIGKILL)
        assert os.waitpid(writer, 0)[1] == signal.SIGKILL
        if not (path / "manifest.json").exists():
            continue
        data: Any = TensorClassDataset(path, Digits)
        assert len(data) >= before
        assert len(data) % 5 == 0
        grown += len(data) > before
        before = len(data)
        if before:
            assert data[:].label.tolist() == list(range(before))
            assert data[-1].image.unique().tolist() == [before - 1]
    assert grown > times // 10


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # fork beside the threads of torch
def test_sigkill_often(tmp_path):
    """Two hundred times killed by the system at a moment of chance."""
    kill(tmp_path, 200, random.Random(1))


# ---- two writers -------------------------------------------------------------------------------------------------


def test_second_writer(tmp_path):
    """It is refused while the first lives, whoever of the two has no id; afterwards it goes on."""
    first: Any = TensorClassDataset.create(tmp_path, Digits, rows_per_shard=4)
    for options in ({}, {"writer_id": "b"}):
        with pytest.raises(BlockingIOError, match="writer_id"):
            TensorClassDataset.create(tmp_path, Digits, resume=True, **options)
    first.close()
    TensorClassDataset.create(tmp_path, Digits, resume=True, writer_id="b").close()
    with pytest.raises(FileExistsError, match="resume=True"):
        TensorClassDataset.create(tmp_path, Digits)


def test_several_writers(tmp_path):
    """Each with an id of its own: all shards are there, each writer goes on after its own rows."""
    batch = digits(20)
    one: Any = TensorClassDataset.create(tmp_path, Digits, rows_per_shard=3, writer_id="one")
    two: Any = TensorClassDataset.create(tmp_path, Digits, rows_per_shard=4, writer_id="two")
    with pytest.raises(BlockingIOError, match="'one'"):
        TensorClassDataset.create(tmp_path, Digits, writer_id="one", resume=True)
    one.append(batch[:5])
    two.append(batch[10:])
    one.append(batch[5:10])
    assert (one.rows, two.rows) == (10, 10)
    one.close()
    with TensorClassDataset.create(tmp_path, Digits, writer_id="one", resume=True) as again:
        assert again.rows == 10
        assert two.committed == 8
    two.close()
    found = rows_of(tmp_path)
    assert sorted(found.image.sum((1, 2, 3)).tolist()) == sorted(batch.image.sum((1, 2, 3)).tolist())
    with pytest.raises(FileExistsError, match="resume=True"):
        TensorClassDataset.create(tmp_path, Digits, writer_id="one")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_fork(tmp_path):
    """A forked child does not hold the lock: it ends with the writer, while the child lives."""
    writer = TensorClassDataset.create(tmp_path, Digits)
    read, write_end = os.pipe()
    child = os.fork()
    if not child:
        os.read(read, 1)
        os._exit(0)
    try:
        with pytest.raises(BlockingIOError):
            TensorClassDataset.create(tmp_path, Digits, resume=True)
        writer.close()
        TensorClassDataset.create(tmp_path, Digits, resume=True).close()
    finally:
        os.write(write_end, b"x")
        os.waitpid(child, 0)
        os.close(read)
        os.close(write_end)


# ---- a disk that is full, a folder that is somebody else's, files that are replaced ------------------------------


def test_full_disk(tmp_path):
    """A shard that finds no space is an error with its path; what is committed stays, and the next writer goes on."""
    batch = digits(40)
    write(tmp_path, batch[:4])
    writer: Any = TensorClassDataset.create(tmp_path, Digits, rows_per_shard=36, resume=True)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, hard))
    try:
        with pytest.raises(OSError, match=f"while writing.*{re.escape(str(tmp_path))}") as caught:
            writer.append(batch[4:])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.errno == errno.EFBIG
    writer.close()
    assert_same(rows_of(tmp_path), batch[:4].clone())
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".tmp")]
    write(tmp_path, batch, resume=True)
    assert_same(rows_of(tmp_path), batch)


STRANGER = """
import os, sys
from tensorclass import TensorClassDataset
from tests.io._classes import Digits
if os.geteuid() == 0:
    os.seteuid(65534)
data = TensorClassDataset(sys.argv[1], Digits)
print(data[[9, 0]].label.tolist(), data.verify())
for action in (
    lambda: TensorClassDataset.create(sys.argv[1], Digits, resume=True),
    lambda: TensorClassDataset.create(sys.argv[1] + "/below", Digits),
    lambda: data.compact(sys.argv[1] + "/compact"),
):
    try:
        action()
    except PermissionError as error:
        print(sys.argv[1] in str(error))
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "seteuid"), reason="no users")
def test_read_only_folder():
    """Who may only read reads; writing is a PermissionError with the path."""
    with tempfile.TemporaryDirectory() as folder:  # others may look into it
        path = Path(folder, "data")
        batch = digits(10)
        write(path, batch)
        os.chmod(folder, 0o755)
        os.chmod(path, 0o555)
        found = subprocess.run(
            [sys.executable, "-c", STRANGER, str(path)],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        os.chmod(path, 0o755)
        assert found.stdout.splitlines() == [f"{batch.label[[9, 0]].tolist()} []", "True", "True", "True"]


def test_replaced_while_it_is_open(tmp_path):
    """Who has a shard open reads on when it is replaced or removed; who opens it afterwards gets an error."""
    batch = digits(10)
    write(tmp_path, batch)
    data: Any = TensorClassDataset(tmp_path)
    assert_same(data[:], batch)
    digits(4).save(data.shards[0].path)
    os.unlink(data.shards[1].path)
    assert_same(data[[9, 0, 5]], batch[[9, 0, 5]])
    for row in (0, 5):
        with pytest.raises(FileFormatError, match=r"\.safetensors"):
            TensorClassDataset(tmp_path)[row]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_fork_while_it_is_read(tmp_path):
    """A forked child reads from the maps of its parent and opens others; the parent reads on."""
    batch = digits(10)
    write(tmp_path, batch)
    data: Any = TensorClassDataset(tmp_path)
    assert len(data[[0]]) == 1
    child = os.fork()
    if not child:
        os._exit(int(not torch.equal(data[[9, 0, 5]].image, batch.image[[9, 0, 5]])))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert_same(data[[9, 0, 5]], batch[[9, 0, 5]])


# ---- damage ------------------------------------------------------------------------------------------------------


def change_manifest(path: Path, change: Any) -> None:
    """Change the manifest, as somebody else could; its checksum is made anew."""
    raw = (path / "manifest.json").read_text()
    found = json.loads(raw)
    del found["crc32"]
    change(found)
    body = json.dumps(found, separators=(",", ":"))
    text = f'{{"crc32":"{crc32(body.encode()):08x}",{body[1:]}'
    (path / "manifest.json").write_text(text)


def shard(manifest: Any, at: int = 0, **changes: Any) -> None:
    """Change a shard."""
    manifest["shards"][at].update(changes)


MANIFESTS: dict[str, Any] = {
    "future version": (lambda m: m.update(version=3), "version 3"),
    "unknown key": (lambda m: m.update(more=1), "more"),
    "no class": (lambda m: m.pop("cls"), "cls"),
    "a path": (lambda m: shard(m, file="../x-0000000000000000.safetensors"), "file"),
    "another file": (lambda m: shard(m, file="/etc/passwd"), "file"),
    "negative rows": (lambda m: shard(m, rows=-1), "rows"),
    "no rows": (lambda m: shard(m, rows=0), "rows"),
    "a fraction": (lambda m: shard(m, rows=1.5), "rows"),
    "a text": (lambda m: shard(m, rows="4"), "rows"),
    "more rows": (lambda m: shard(m, rows=5), "5 rows"),
    "more rows behind others": (lambda m: shard(m, 1, rows=5), "5 rows"),
    "fewer rows behind others": (lambda m: shard(m, 1, rows=3), "3 rows"),
    "other bytes": (lambda m: shard(m, bytes=5), "5 bytes|has 5"),
    "another id": (lambda m: shard(m, id="0" * 16), "another dataset"),
    "a shard twice": (lambda m: m["shards"].append(m["shards"][0]), "twice"),
    "shards exchanged": (
        lambda m: [m["shards"][i].update(file=file) for i, file in enumerate([m["shards"][j]["file"] for j in (1, 0)])],
        "another dataset",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", MANIFESTS)
def test_manifests(kind, tmp_path):
    """A manifest that is wrong, or does not fit its shards, is an error with the path."""
    change, text = MANIFESTS[kind]
    write(tmp_path, digits(10))
    change_manifest(tmp_path, change)
    for path in (str(tmp_path), f"file://{tmp_path}"):
        with pytest.raises(FileFormatError, match=text) as caught:
            TensorClassDataset(path)[:]  # type: ignore[misc]  # a slice is an index
        assert path in str(caught.value)


def test_damaged_manifest(tmp_path):
    """A manifest that is cut off or changed anywhere is an error."""
    write(tmp_path, digits(4))
    path = tmp_path / "manifest.json"
    raw = path.read_bytes()
    for at in range(0, len(raw), 5):
        for bad in (raw[:at], raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]):
            path.write_bytes(bad)
            with pytest.raises(FileFormatError, match=r"manifest\.json"):
                TensorClassDataset(tmp_path)


@pytest.mark.parametrize("kind", ["missing", "cut", "longer", "foreign", "link", "directory", "fifo"])
def test_damaged_shard(kind, tmp_path):
    """A shard that is not what was written is an error with its path; the others are read."""
    batch = digits(10)
    write(tmp_path / "a", batch)
    write(tmp_path / "b", batch)
    data: Any = TensorClassDataset(tmp_path / "a")
    path = Path(data.shards[0].path)
    raw = path.read_bytes()
    path.unlink()
    {
        "missing": lambda: None,
        "cut": lambda: path.write_bytes(raw[:-1]),
        "longer": lambda: path.write_bytes(raw + b"x"),
        "foreign": lambda: path.write_bytes(Path(TensorClassDataset(tmp_path / "b").shards[0].path).read_bytes()),
        "link": lambda: path.symlink_to(data.shards[1].path),
        "directory": path.mkdir,
        "fifo": lambda: os.mkfifo(path),
    }[kind]()
    for _ in range(2):
        with pytest.raises((FileFormatError, OSError), match=path.name):
            data[[9, 1]]
    assert_same(data[4:], batch[4:].clone())


def test_verify_at_opening(tmp_path):
    """A changed byte is found where checksums were written and are compared."""
    write(tmp_path, digits(10), checksums=True)
    path = Path(TensorClassDataset(tmp_path).shards[1].path)
    raw = bytearray(path.read_bytes())
    raw[-5] ^= 1
    path.write_bytes(raw)
    data: Any = TensorClassDataset(tmp_path, verify=True)
    assert len(data[:4]) == 4
    with pytest.raises(ChecksumError, match=path.name):
        data[5]


def test_nothing_there(tmp_path):
    """A path without a dataset is named."""
    with pytest.raises(FileNotFoundError, match=r"no manifest of a dataset; `TensorClassDataset\.create`"):
        TensorClassDataset(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"no dataset; `TensorClassDataset\.create`"):
        TensorClassDataset(tmp_path / "nothing")
    assert issubclass(SchemaError, TensorClassError)
    with pytest.raises(TypeError):
        TensorClassDataset(3)  # type: ignore[arg-type]  # what is tested
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(NotADirectoryError, match="notes"):
        TensorClassDataset.create(tmp_path / "notes", Digits)


def test_swept(tmp_path):
    """What a dead writer left is removed by the next; the files of others are not."""
    write(tmp_path, digits(4))
    torn = tmp_path / ("000001-" + "a" * 16 + ".safetensors")
    half = tmp_path / f".{torn.name}.1-1.tmp"
    for path in (torn, half, tmp_path / "mine.safetensors", tmp_path / "notes.txt"):
        path.write_bytes(b"x")
    TensorClassDataset.create(tmp_path, Digits, resume=True).close()
    assert not torn.exists()
    assert not half.exists()
    assert (tmp_path / "mine.safetensors").exists()
    assert (tmp_path / "notes.txt").exists()
    assert torch.equal(rows_of(tmp_path).label, TensorClassDataset(tmp_path)[:].label)  # type: ignore[misc]  # an index


MEMORY = """
import resource, sys, torch
from tensorclass import TensorClassDataset
from tests.io._classes import Digits
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
before = peak()
batch = Digits(torch.rand(1 << 16, 1, 8, 8), torch.arange(1 << 16))  # 16.5 MiB
with TensorClassDataset.create(sys.argv[1], Digits) as writer:
    for _ in range(int(sys.argv[2])):
        writer.append(batch)
print(peak() - before)
"""


@pytest.mark.slow
def test_memory(tmp_path):
    """Writing 1.6 GB takes the memory of one shard and one batch, not of the dataset."""
    program = [sys.executable, "-c", MEMORY, str(tmp_path), "100"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    taken = int(subprocess.run(program, check=True, capture_output=True, text=True, env=environment).stdout)
    assert len(TensorClassDataset(tmp_path, Digits)) == 100 << 16
    assert taken <= 300
