"""What `from_json` reads: text and bytes are content, a file is named as one and is a regular file."""

from __future__ import annotations

import errno
import json
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import TensorClass, _content, schema
from tensorclass.cli._main import main
from tensorclass.errors import ArgumentError, SchemaError
from tensorclass.typing import Float32


class Point(TensorClass):
    x: Float32[Tensor, "2"]


TEXT = '{"x":[[1.0,2.0]]}'
posix = pytest.mark.skipif(sys.platform == "win32", reason="names of devices and pipes")


def _folder(root: Path) -> Path:
    return root


def _pipe(root: Path) -> Path:
    os.mkfifo(root / "pipe")
    return root / "pipe"


def _sparse(root: Path) -> Path:
    with (root / "sparse").open("wb") as file:
        file.truncate(10 * 2**30)
    return root / "sparse"


def _socket(root: Path) -> Path:
    old = Path.cwd()
    os.chdir(root)  # the names of sockets are short
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("s")
    os.chdir(old)
    return root / "s"


def _link_to_device(root: Path) -> Path:
    (root / "link").symlink_to("/dev/zero")
    return root / "link"


REFUSED: dict[str, tuple[Callable[[Path], Path], int]] = {
    "folder": (_folder, errno.EISDIR),
    "pipe": (_pipe, errno.EINVAL),
    "socket": (_socket, errno.EINVAL),
    "zero": (lambda root: Path("/dev/zero"), errno.EINVAL),
    "random": (lambda root: Path("/dev/urandom"), errno.EINVAL),
    "link to a device": (_link_to_device, errno.EINVAL),
    "ten gigabytes": (_sparse, errno.EFBIG),
    "absent": (lambda root: root / "absent", errno.ENOENT),
}


@posix
@pytest.mark.parametrize("kind", REFUSED)
@pytest.mark.parametrize("by", ["source", "path", "path as str"])
def test_files_that_are_refused_before_reading(tmp_path: Path, kind: str, by: str, monkeypatch: Any) -> None:
    """Nothing is opened: a pipe would block, a device never end, ten gigabytes fill the memory."""
    make, code = REFUSED[kind]
    file = make(tmp_path)
    monkeypatch.setattr(os, "open", lambda *_: pytest.fail("opened"))
    with pytest.raises(OSError) as caught:
        Point.from_json(file) if by == "source" else Point.from_json(path=str(file) if "str" in by else file)
    assert caught.value.errno == code
    assert caught.value.filename == str(file)


def test_files_that_are_read(tmp_path: Path) -> None:
    """A regular file, also behind a link, by any kind of path; the limit is an argument."""
    file = tmp_path / "point.json"
    file.write_text(TEXT)
    (tmp_path / "link").symlink_to(file)
    for path in (file, tmp_path / "link"):
        assert Point.from_json(path).x.tolist() == [[1.0, 2.0]]
        assert Point.from_json(path=str(path)).x.tolist() == [[1.0, 2.0]]
    assert Point.from_json(file, max_bytes=len(TEXT)).batch_size == (1,)
    assert Point.from_json(file, max_bytes=None).batch_size == (1,)
    with pytest.raises(OSError, match=f"{len(TEXT)} bytes, more than the {len(TEXT) - 1}"):
        Point.from_json(file, max_bytes=len(TEXT) - 1)


@pytest.mark.parametrize("change", [1, -1])
def test_a_file_that_is_being_written(tmp_path: Path, change: int, monkeypatch: Any) -> None:
    """A file that grows or shrinks between the look at its size and the reading is an error, not half a batch."""
    file = tmp_path / "point.json"
    file.write_text(TEXT)
    check = _content._check

    def wrong(*args: Any) -> int:
        return check(*args) - change

    monkeypatch.setattr(_content, "_check", wrong)
    with pytest.raises(OSError, match="being written"):
        Point.from_json(file)


@pytest.mark.parametrize(
    "wrap", [str, str.encode, lambda text: bytearray(text.encode())], ids=["str", "bytes", "array"]
)
def test_text_is_text(tmp_path: Path, wrap: Callable[[str], Any], monkeypatch: Any) -> None:
    """The name of a file is a text that is not JSON, whatever stands under it."""
    monkeypatch.chdir(tmp_path)
    for name in ("point.json", "1", "null", "{", "[1]"):
        Path(name).write_text(TEXT)
        with pytest.raises(SchemaError):
            Point.from_json(wrap(name))
    assert Point.from_json(wrap(f"\n {TEXT}")).batch_size == (1,)


@pytest.mark.parametrize("text", ["point.json", "", " ", "/dev/zero", "\ud800", "x" * 10_000])
def test_a_name_given_as_text_says_how_a_file_is_given(text: str) -> None:
    """The hint names `path=`, and the message stays short."""
    with pytest.raises(SchemaError, match=r"`path=`") as caught:
        Point.from_json(text)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("given", [{}, {"source": TEXT, "path": "x"}, {"source": 5}, {"source": [TEXT]}], ids=str)
def test_neither_text_nor_file(given: dict[str, Any]) -> None:
    """One of the two, and of these types."""
    with pytest.raises(TypeError, match="from_json takes"):
        Point.from_json(**given)


@pytest.mark.parametrize("row", [{"x": 1, "x.y": 2}, {"x.y": 1, "x": 2}, {"x.y": 1, "x.y.z": 2}], ids=str)
def test_records_whose_names_stand_in_each_others_way(row: dict[str, int]) -> None:
    """A value and a field below it: an error that names them, not one of Python."""
    text = f"[{as_text(row)}]"
    with pytest.raises(SchemaError, match="one column for each field"):
        Point.from_json(text, separator=".")


def as_text(row: dict[str, int]) -> str:
    """A record as JSON, in its order."""
    return "{" + ", ".join(f'"{key}": {value}' for key, value in row.items()) + "}"


@posix
@pytest.mark.parametrize("kind", ["pipe", "ten gigabytes", "folder", "absent"])
def test_diff_of_what_is_no_file(tmp_path: Path, kind: str, capsys: Any) -> None:
    """The command reads saved schemas by the same rule."""
    made = REFUSED[kind][0](tmp_path)
    file = tmp_path / "odd.json"
    file.symlink_to(made)
    assert main(["diff", str(file), str(file)]) == 2
    assert "can't read" in capsys.readouterr().err


def test_a_saved_schema_is_read(tmp_path: Path) -> None:
    """As before, by its path."""
    file = tmp_path / "point.json"
    file.write_text(json.dumps(schema(Point).to_dict()))
    assert main(["diff", str(file), str(file)]) == 0


@pytest.mark.parametrize("size", ["10", True, -1, 1.5])
def test_sizes_that_are_none(size: object, tmp_path: Path) -> None:
    """A limit is a whole number from 0."""
    (tmp_path / "point.json").write_text(TEXT)
    with pytest.raises(ArgumentError, match="`max_bytes` is a whole number"):
        Point.from_json(tmp_path / "point.json", max_bytes=size)  # type: ignore[arg-type]


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    """A write that fails leaves the old file, and nothing beside it."""
    path = tmp_path / "rows.json"
    path.write_text("old")
    batch = Point(x=torch.zeros(3, 2))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", full)
        with pytest.raises(OSError, match="No space"):
            batch.to_json(path)
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("rows.json", "old")]
    batch.to_json(path)
    assert Point.from_json(path=path).batch_size == (3,)
