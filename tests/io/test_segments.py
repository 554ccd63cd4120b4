"""A manifest of segments: a commit writes what is new, older datasets open, damage and other writers are found."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import TensorClass, TensorClassDataset
from tensorclass.errors import FileFormatError
from tensorclass.io import _documents, _segments
from tensorclass.io._documents import document_at
from tensorclass.io._manifest import Manifest, ShardEntry, class_part
from tensorclass.io._segments import Listing, read_manifest
from tensorclass.typing import Int64
from tests.io._server import serving


class Row(TensorClass):
    n: Int64[Tensor, ""]


def rows(begin: int, end: int) -> Row:
    """Rows that say which they are."""
    return Row(n=torch.arange(begin, end), batch_size=[end - begin])


def write(path: Any, end: int, **options: Any) -> None:
    """Write rows up to a number, one in each shard."""
    with TensorClassDataset.create(path, Row, rows_per_shard=1, **options) as writer:
        writer.append(rows(writer.rows, end))


def append_all(writer: Any, batch: Row) -> None:
    """Append rows and commit them."""
    writer.append(batch)
    writer.commit()


def numbers(path: Any) -> list[int]:
    """All rows."""
    return TensorClassDataset(path, Row)[:].n.tolist()


def on_disk(path: Path) -> tuple[dict[str, Any], set[str]]:
    """The manifest, and the segments in the folder."""
    return json.loads((path / "manifest.json").read_text()), {one.name for one in path.glob("*segment*")}


def listed(manifest: dict[str, Any]) -> set[str]:
    """The segments of a manifest."""
    return {segment["file"] for segment in manifest.get("segments", ())}


def test_what_a_commit_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice as many commits write about twice as many bytes, and a reader needs few files."""
    written = [0]
    sealed = _documents.sealed

    def counted(body: str) -> bytes:
        written[0] += len(body)
        return sealed(body)

    monkeypatch.setattr(_documents, "sealed", counted)
    monkeypatch.setattr(_segments, "sealed", counted)
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    listing, manifest = Listing(str(tmp_path)), Manifest(cls=class_part(Row))
    at = {}
    for number in range(1, 801):
        key = f"{number:016x}"
        entry = ShardEntry(file=f"{number:06d}-{key}.safetensors", rows=1, bytes=9, id=key, header=9, layout=key)
        manifest = manifest.model_copy(update={"shards": [*manifest.shards, entry]})
        listing.replace(manifest)
        at[number] = written[0]
        if number % 100 == 0:
            assert read_manifest(str(tmp_path)) == manifest
            assert on_disk(tmp_path)[1] == listed(on_disk(tmp_path)[0])
    assert at[800] < 2.3 * at[400]
    assert at[800] / 800 < 9_000
    assert len(on_disk(tmp_path)[1]) <= 5


def test_older_datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A manifest that lists all shards itself is read, continued as segments, and read from a web server."""
    write(tmp_path / "data", 9)
    manifest, files = on_disk(tmp_path / "data")
    assert manifest["version"] == 1
    assert "segments" not in manifest
    assert not files
    monkeypatch.setattr(_segments, "TAIL", 2)
    assert numbers(tmp_path / "data") == [*range(9)]
    write(tmp_path / "data", 21, resume=True)
    manifest, files = on_disk(tmp_path / "data")
    assert manifest["version"] == 2
    assert files == listed(manifest)
    assert numbers(tmp_path / "data") == [*range(21)]
    monkeypatch.setenv("TENSORCLASS_CACHE", str(tmp_path / "cache"))
    with serving(tmp_path) as server:
        assert numbers(f"{server.url}/data") == [*range(21)]
        assert len([path for method, path, _ in server.requests if "segment" in path]) == len(files)
    whole = TensorClassDataset(tmp_path / "data", Row).compact(tmp_path / "whole", 100)
    assert whole[:].n.tolist() == [*range(21)]
    assert on_disk(tmp_path / "whole")[0]["version"] == 1


def test_readers_beside_a_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who reads while segments are joined and removed sees committed rows."""
    monkeypatch.setattr(_segments, "TAIL", 1)
    write(tmp_path, 1)
    writer = threading.Thread(target=write, args=(tmp_path, 30), kwargs={"resume": True})
    writer.start()
    seen = [0]
    while writer.is_alive():
        seen.append(len(read_manifest(str(tmp_path)).shards))
    writer.join()
    assert seen == sorted(seen)
    assert numbers(tmp_path) == [*range(30)]


@pytest.mark.parametrize("where", ["disk", "store"])
def test_writers_beside_each_other(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writers with names of their own join each other's segments; a second writer without one is detected."""
    monkeypatch.setattr(_segments, "TAIL", 1)
    path = str(tmp_path) if where == "disk" else f"memory://segments/{tmp_path.name}"
    one, two = (TensorClassDataset.create(path, Row, rows_per_shard=2, writer_id=name) for name in "ab")
    for at in range(0, 20, 2):
        one.append(rows(at, at + 2))
        two.append(rows(100 + at, 102 + at))
    one.close()
    two.close()
    assert sorted(numbers(path)) == [*range(20), *range(100, 120)]
    assert [n for n in numbers(path) if n < 100] == [*range(20)]
    if where == "disk":
        (tmp_path / f"segment-{'0' * 16}.json").write_bytes(b"x")  # of a writer that was killed
        write(path, 50, resume=True)
        assert on_disk(tmp_path)[1] == listed(on_disk(tmp_path)[0])
        return
    first, second = (TensorClassDataset.create(path, Row, rows_per_shard=1, resume=True) for _ in range(2))
    first.append(rows(0, 3))
    first.commit()
    with pytest.raises(BlockingIOError, match="another writer has added shards"):
        append_all(second, rows(0, 3))
    second.close()
    first.close()
    assert len(numbers(path)) == 43


def test_damaged_segments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A segment that is missing, changed, of another dataset or listed twice is an error that names the file."""
    monkeypatch.setattr(_segments, "TAIL", 1)
    for name in ("a", "b"):
        write(tmp_path / name, 10)
    path, other = (sorted((tmp_path / name).glob("segment-*"))[0] for name in ("a", "b"))
    raw = path.read_bytes()
    for bad in (None, b"", raw[:-1], raw[:-9] + b"1" + raw[-8:], other.read_bytes()):
        path.unlink(missing_ok=True)
        if bad is not None:
            path.write_bytes(bad)
        with pytest.raises(FileFormatError, match=path.name):
            TensorClassDataset(tmp_path / "a", Row)
        with pytest.raises(FileFormatError, match=path.name):
            TensorClassDataset.create(tmp_path / "a", Row, resume=True)
    path.write_bytes(raw)
    found = on_disk(tmp_path / "a")[0]
    del found["crc32"]
    short = Manifest.model_validate_json(json.dumps(found))
    assert short.segments
    document_at(str(tmp_path / "a")).replace(
        short.model_copy(update={"segments": [*short.segments, short.segments[0]]})
    )
    with pytest.raises(FileFormatError, match="a shard is listed twice"):
        TensorClassDataset(tmp_path / "a", Row)
