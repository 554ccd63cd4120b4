"""A file is the old one or the new one, whatever happens to its writer; errors name the path; nothing is left."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
import torch

import tensorclass as tc
from tensorclass import TensorDict
from tensorclass._system import flock
from tensorclass.io import _atomic
from tests._marks import rest_is_slow
from tests.io._exact import assert_same
from tests.io._faults import Faulty, Killed


def version(number: int) -> TensorDict:
    """A container in which every value says which version it is; one tensor has strides."""
    return TensorDict(
        {f"k{i}": torch.full((100 + i,), number) for i in range(5)} | {"t": torch.full((40, 30), float(number)).t()}
    )


def old_and_new(path: Path, checksums: bool = False) -> tuple[bytes, bytes]:
    """The bytes of the file with version 1, which is there, and with version 2."""
    version(2).save(path, checksums=checksums)
    new = path.read_bytes()
    version(1).save(path, checksums=checksums)
    return path.read_bytes(), new


def steps(path: Path, checksums: bool) -> list[str]:
    """The system calls of one save."""
    with Faulty() as system:
        version(1).save(path, checksums=checksums)
    return system.calls


@pytest.mark.parametrize("checksums", rest_is_slow([True, False]))
def test_killed_at_every_step(checksums, tmp_path):
    """A writer that dies between any two system calls leaves the old file or the new one; the next save clears up."""
    path = tmp_path / "x.safetensors"
    old, new = old_and_new(path, checksums)
    calls = steps(path, checksums)
    assert calls.index("writev") < calls.index("fsync") < calls.index("replace") < len(calls) - 1
    outcomes = []
    for at in range(len(calls)):
        path.write_bytes(old)
        with Faulty(at, Killed()), pytest.raises(Killed):
            version(2).save(path, checksums=checksums)
        outcomes.append(path.read_bytes())
        assert outcomes[-1] in (old, new), calls[at]
        assert len(os.listdir(tmp_path)) <= 2
        version(3).save(path, checksums=checksums)
        assert os.listdir(tmp_path) == [path.name], calls[at]
    replaced = calls.index("replace")
    assert outcomes[replaced] == old
    assert outcomes[-1] == new


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EACCES, errno.EROFS, errno.EDQUOT, errno.EINTR])
def test_errors_at_every_step(number, tmp_path):
    """An error of any system call is an OSError with the path; the file is whole and nothing is left behind."""
    path = tmp_path / "x.safetensors"
    old, new = old_and_new(path)
    calls = steps(path, False)
    for at, name in enumerate(calls):
        path.write_bytes(old)
        fault = OSError(number, os.strerror(number))
        with Faulty(at, fault):
            if name == "close":
                continue  # the descriptor is gone all the same, and the file is in its place
            with pytest.raises(OSError, match=str(tmp_path)) as caught:
                version(2).save(path)
        assert caught.value.errno == number, name
        assert path.read_bytes() in (old, new), name
        assert os.listdir(tmp_path) == [path.name], name


def test_full_disk(tmp_path):
    """The error names the path and the bytes; the old file is there."""
    path = tmp_path / "x.safetensors"
    old, _ = old_and_new(path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    big = TensorDict(a=torch.zeros(100_000))
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
    try:
        with pytest.raises(OSError, match=r"while writing \d+ bytes.*x\.safetensors"):
            big.save(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == old
    assert os.listdir(tmp_path) == [path.name]


class Stingy(Faulty):
    """Reads and writes a few bytes at a time."""

    def _watched(self, name: str, function: Any) -> Any:
        def few(fd: int, buffers: Any, *rest: int) -> Any:
            self.calls.append(name)
            first = memoryview(next(buffer for buffer in buffers if len(buffer))).cast("B")
            return function(fd, [first[: 1 + len(self.calls) * 7 % 999]], *rest)

        return few if name in ("writev", "preadv") else super()._watched(name, function)


def test_short_reads_and_writes(tmp_path):
    """What the system does in many small parts is complete in the end."""
    path = tmp_path / "x.safetensors"
    with Stingy() as system:
        version(2).save(path, checksums=True)
        found = tc.load(path, mmap=False, verify=True)
    assert system.calls.count("writev") > 10
    assert_same(found, version(2))
    assert_same(tc.load(path, verify=True), version(2))


def test_a_file_that_is_cut_while_it_is_read(tmp_path):
    """Reading behind the end is an error with the path."""
    path = tmp_path / "x.safetensors"
    version(1).save(path)

    class Cut(Faulty):
        def _watched(self, name: str, function: Any) -> Any:
            def cut(fd: int, buffers: Any, offset: int) -> Any:
                if offset > 100:
                    os.truncate(path, 2_000)
                return function(fd, buffers, offset)

            return cut if name == "preadv" else super()._watched(name, function)

    with Cut(), pytest.raises(OSError, match=r"cut off.*x\.safetensors"):
        tc.load(path, mmap=False)


def test_sweeping(tmp_path):
    """Temporary files of dead processes are removed, those of living ones and of other files are not."""
    path = tmp_path / "x.safetensors"
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    dead, alive = f".x.safetensors.{child.pid}-1.tmp", f".x.safetensors.{os.getppid()}-1.tmp"
    others = [
        ".y.safetensors.1-1.tmp",
        ".x.safetensors.tmp",
        f"x.safetensors.{child.pid}-1.tmp",
        ".x.safetensors.a-1.tmp",
    ]
    for name in (dead, alive, *others):
        (tmp_path / name).write_bytes(b"")
    locked = f".x.safetensors.{child.pid}-2.tmp"
    fd = os.open(tmp_path / locked, os.O_RDWR | os.O_CREAT)
    flock(fd, "LOCK_EX")  # by a writer on another machine, say
    version(1).save(path)
    assert set(os.listdir(tmp_path)) == {path.name, alive, locked, *others}
    os.close(fd)


def test_mode_of_new_files(tmp_path):
    """A new file has the mode that the umask says."""
    before = os.umask(0o027)
    try:
        version(1).save(tmp_path / "x.safetensors")
    finally:
        os.umask(before)
    assert (tmp_path / "x.safetensors").stat().st_mode & 0o777 == 0o640


def test_a_failing_fsync_of_the_folder(tmp_path):
    """It is an error that names the folder, and the new file is in its place."""
    path = tmp_path / "x.safetensors"
    old, new = old_and_new(path)
    with Faulty(1, OSError(errno.EIO, "bad disk"), only="fsync"), pytest.raises(OSError, match=r"folder.*") as caught:
        version(2).save(path)
    assert caught.value.filename == str(tmp_path)
    assert path.read_bytes() == new != old


def test_several_writers_and_readers(tmp_path):
    """Threads that write one file, and others that read it, meet one version at a time."""
    path = tmp_path / "x.safetensors"
    version(0).save(path, checksums=True)
    problems: list[Any] = []

    def write(first: int) -> None:
        for i in range(15):
            version(first + i).save(path, checksums=True)

    def read() -> None:
        for _ in range(40):
            found = tc.load(path, verify=True)
            numbers = {int(value) for tensor in found.values() for value in tensor.unique()}
            if len(numbers) != 1:
                problems.append(numbers)

    threads = [threading.Thread(target=write, args=(100 * i,)) for i in range(3)]
    threads += [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # fork beside the threads of torch
def test_fork_in_the_middle(tmp_path):
    """A child that is forked while a file is written, and ends by an exception, takes nothing from its parent."""
    path = tmp_path / "x.safetensors"
    try:
        with _atomic.replacing(str(path)) as target:
            target.write([b"1234"])
            pid = os.fork()
            if not pid:
                raise SystemExit(0)
            os.waitpid(pid, 0)
            target.write([b"5678"])
    except SystemExit:
        os._exit(0)
    assert path.read_bytes() == b"12345678"


def test_folders_are_made(tmp_path):
    """A folder path is made with those above it; that of a file is not."""
    version(1).save(tmp_path / "a" / "b")
    assert os.listdir(tmp_path / "a" / "b") == ["data.safetensors"]
    with pytest.raises(FileNotFoundError, match="nowhere"):
        version(1).save(tmp_path / "nowhere" / "x.safetensors")


def test_reserve(tmp_path):
    """Space is taken before it is needed; a full disk is an error with path and bytes."""
    path = tmp_path / "x"
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    _atomic.reserve(fd, 10_000, str(path))
    assert path.stat().st_size == 10_000
    assert path.stat().st_blocks * 512 >= 10_000
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
    try:
        with pytest.raises(OSError, match="while reserving 100000 bytes"):
            _atomic.reserve(fd, 100_000, str(path))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        os.close(fd)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # fork beside the threads of torch
def test_killed_at_random(tmp_path):
    """Two hundred writers that are killed while they write: one whole version, and at most one file beside it."""
    path = tmp_path / "x.safetensors"
    version(0).save(path, checksums=True)
    start = monotonic()
    for number in range(5):  # in processes of their own, whose first write is slower than later ones
        writer = os.fork()
        if not writer:
            version(number).save(path, checksums=True)
            os._exit(0)
        os.waitpid(writer, 0)
    one = (monotonic() - start) / 5
    before = path.stat().st_mtime_ns
    written = 0
    for round in range(200):
        writer = os.fork()
        if not writer:
            for number in range(1 << 20):
                version(number).save(path, checksums=True)
            os._exit(0)
        threading.Event().wait(one * (0.2 + 0.1 * (round % 30)))
        os.kill(writer, signal.SIGKILL)
        os.waitpid(writer, 0)
        found = tc.load(path, verify=True)
        assert len({int(value) for tensor in found.values() for value in tensor.unique()}) == 1
        assert len(os.listdir(tmp_path)) <= 2
        written += path.stat().st_mtime_ns != before
        before = path.stat().st_mtime_ns
    assert written > 20


MEMORY = """
import resource, sys, torch
from tensorclass import TensorDict, load
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
TensorDict(a=torch.ones(2), t=torch.ones(2, 2).t()).save(sys.argv[1], checksums=True)
load(sys.argv[1], mmap=False)
data = TensorDict({f"k{i}": torch.ones(4 << 20) for i in range(16)})  # 256 MiB
data["t"] = torch.ones(2048, 2048).t()
before = peak()
data.save(sys.argv[1])
saved = peak()
del data
load(sys.argv[1])
mapped = peak()
print(saved - before, mapped - saved)
"""


@pytest.mark.slow
def test_memory(tmp_path):
    """Saving 272 MiB takes one copy of the strided tensor at most, opening them takes nothing."""
    program = [sys.executable, "-c", MEMORY, str(tmp_path / "x.safetensors")]
    found = subprocess.run(program, check=True, capture_output=True, text=True).stdout.split()
    saving, opening = map(int, found)
    assert saving < 48
    assert opening < 16
