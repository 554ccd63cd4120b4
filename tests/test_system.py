"""What other systems lack has another way: with the names taken away, files, maps and datasets are the same."""

from __future__ import annotations

import ast
import errno
import os
import re
from multiprocessing import Pipe
from pathlib import Path
from threading import Thread

import pytest
import torch
from torch import Tensor

from tensorclass import TensorClassDataset, TensorDict, _system, load, tensorclass
from tensorclass.io._atomic import replacing_folder
from tensorclass.parallel import _processes
from tensorclass.typing import Float32
from tests._sources import PACKAGE, sources

MODULES = {"os", "sys", "signal", "mmap", "reduction", "socket"}

UNIX_ONLY = (
    "preadv", "pread", "pwrite", "writev", "posix_fallocate", "posix_fadvise", "memfd_create", "sched_getaffinity",
)  # fmt: skip
SYSTEM = {
    *UNIX_ONLY, "fork", "register_at_fork", "fchmod", "getuid", "killpg", "mkfifo", "uname", "kill", "supports_dir_fd",
    "O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY", "O_BINARY", "O_NOINHERIT", "O_DIRECTORY", "SIGKILL",
    "platform", "MAP_SHARED", "MAP_PRIVATE", "PROT_READ", "PROT_WRITE", "HAVE_SEND_HANDLE",
}  # fmt: skip
"""Attributes of `os`, `sys`, `signal` and `mmap` that a system may lack, or gives its own value."""


@tensorclass
class Point:
    x: Float32[Tensor, "3"]
    name: str = "a"


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system like Windows: no folders by descriptor, no reads at an offset, no `fcntl`, no `kill(pid, 0)`."""
    for name in UNIX_ONLY:
        monkeypatch.delattr(os, name)
    monkeypatch.setattr(_system, "WINDOWS", True)
    monkeypatch.setattr(_system, "LINUX", False)
    monkeypatch.setattr(_system, "fcntl", None)
    monkeypatch.setattr(os, "kill", lambda *_: pytest.fail("on Windows this stops the process"))


@pytest.mark.usefixtures("elsewhere")
def test_files_without_unix(tmp_path: Path) -> None:
    """Saved, replaced, mapped for both ways of writing, and verified."""
    data = TensorDict(a=torch.arange(6.0).reshape(2, 3), n=torch.arange(2), text="x", batch_size=[2])
    for scale in (1, 2):
        (data * scale).save(tmp_path / "a.safetensors", checksums=True)
        assert load(tmp_path / "a.safetensors", verify=True)["a"].tolist() == (data["a"] * scale).tolist()
    kept = load(tmp_path / "a.safetensors")
    kept["a"].zero_()
    assert load(tmp_path / "a.safetensors")["a"].sum() == 30
    shared = data.memmap(tmp_path / "m")
    shared["a"].fill_(7)
    assert TensorDict.load_memmap(tmp_path / "m")["a"].eq(7).all()
    assert [name for name in os.listdir(tmp_path) if name.endswith(".tmp")] == []


@pytest.mark.usefixtures("elsewhere")
def test_datasets_without_unix(tmp_path: Path) -> None:
    """Written in several shards and read in memory and mapped."""
    rows = Point(x=torch.arange(30.0).reshape(10, 3))
    with TensorClassDataset.create(tmp_path / "d", Point, rows_per_shard=4) as writer:
        writer.append(rows)
    found = TensorClassDataset(tmp_path / "d", Point)
    assert torch.equal(found[:].x, rows.x)
    assert found.verify() == []
    with replacing_folder(str(tmp_path / "f")) as folder:
        Path(folder, "a").write_text("1")
    assert os.listdir(tmp_path / "f") == ["a"]


@pytest.mark.parametrize("size", [1, 1 << 18])
@pytest.mark.parametrize("where", ["here", "elsewhere"])
def test_results_of_workers(size: int, where: str, request: pytest.FixtureRequest) -> None:
    """A large result comes as memory where descriptors can be sent, and through the pipe elsewhere."""
    if where == "elsewhere":
        request.getfixturevalue("elsewhere")
    inside, outside = Pipe()
    opened = len(os.listdir("/proc/self/fd")) if _system.LINUX else 0
    sent = Thread(target=_processes._reply, args=(inside, TensorDict(a=torch.arange(size), batch_size=[size])))
    sent.start()
    assert _processes._receive_parcel(outside)["a"].sum() == size * (size - 1) // 2
    sent.join()
    assert opened == (len(os.listdir("/proc/self/fd")) if _system.LINUX else 0)
    assert _system.cores() >= 1


def test_one_file_knows_the_system() -> None:
    """Constants and functions that a system may lack are named in one file."""
    found = {
        (source.name, node.attr)
        for source in sources(PACKAGE)
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Attribute) and node.attr in SYSTEM and ast.unparse(node.value) in MODULES
    }
    texts = {
        (source.name, node.value)
        for source in sources(PACKAGE)
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.match("/proc/|/dev/|O_[A-Z]", node.value)
    }
    assert {name for name, _ in found | texts} == {"_system.py"}, found | texts


@pytest.mark.usefixtures("elsewhere")
def test_an_open_file_is_not_replaced_silently(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows refuses it: the error names the file and says why, and no temporary file stays."""
    path = tmp_path / "a.safetensors"
    Point(x=torch.zeros(2, 3)).save(path)

    def refused(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Access is denied")

    monkeypatch.setattr(os, "replace", refused)
    with pytest.raises(OSError, match="replaces no file that is open or mapped") as caught:
        Point(x=torch.ones(2, 3)).save(path)
    assert caught.value.filename == str(path)
    assert os.listdir(tmp_path) == ["a.safetensors"]
    assert Point.load(path).x.sum() == 0


def test_bytes_stay_as_they_are() -> None:
    """Windows would translate line ends in files that are opened without its flag for bytes."""
    for name in ("O_NOFOLLOW", "O_BINARY", "O_NOINHERIT"):
        assert _system.SAFE & getattr(os, name, 0) == getattr(os, name, 0)
