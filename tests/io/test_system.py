"""What other systems lack has another way: with the names taken away, files, maps and datasets are the same."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tensorclass import TensorClassDataset, TensorDict, load, tensorclass
from tensorclass.io import _system
from tensorclass.io._atomic import replacing_folder
from tensorclass.typing import Float32

UNIX_ONLY = ("preadv", "pread", "pwrite", "writev", "posix_fallocate")


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
