"""Datasets written to stores: whole shards, a manifest that only its last reader replaces, committed prefixes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from pathlib import Path
from secrets import token_hex
from typing import Any

import fsspec
import pytest
import torch
from torch import Tensor

from tensorclass import DatasetWriter, TensorClass, TensorClassDataset, from_csv, from_json, from_parquet
from tensorclass.errors import FileFormatError, UnsupportedOperationError
from tensorclass.io import _access, _remote, _segments, remote_access
from tensorclass.io._remote import names_in
from tensorclass.typing import Int64
from tests.io._server import serving

ROOT = Path(__file__).parents[2]


class Row(TensorClass):
    n: Int64[Tensor, ""]


def rows(begin: int, end: int) -> Row:
    """Rows that say which they are."""
    return Row(n=torch.arange(begin, end), batch_size=[end - begin])


def append_all(writer: DatasetWriter[Row], batch: Row) -> None:
    """Append rows and commit them."""
    writer.append(batch)
    writer.commit()


def doubled(batch: Row) -> Row:
    """Rows with twice their number; some raise."""
    if (batch.n == 7).any():
        raise ValueError("seven")
    return Row(n=batch.n * 2, batch_size=batch.batch_size)


def numbers(url: str) -> list[int]:
    """What a reader sees."""
    data = TensorClassDataset(url, Row)
    return [int(row.n) for row in data]


@contextmanager
def s3_server() -> Iterator[dict[str, Any]]:
    """The options to reach a server of S3 on this machine."""
    pytest.importorskip("s3fs")
    server = pytest.importorskip("moto.server").ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    os.environ |= {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_DEFAULT_REGION": "us-east-1"}
    try:
        yield {"endpoint_url": f"http://{host}:{port}"}
    finally:
        server.stop()


@pytest.fixture(params=["memory", "file", pytest.param("s3", marks=pytest.mark.slow)])
def bucket(request: Any, tmp_path: Path) -> Iterator[str]:
    """A place in a store that has nothing in it."""
    if request.param != "s3":
        yield f"memory://{token_hex(8)}/d" if request.param == "memory" else f"file://{tmp_path}/d"
        return
    with s3_server() as options, remote_access(storage_options=options):
        fsspec.filesystem("s3", **options).makedirs("rows", exist_ok=True)
        yield f"s3://rows/{token_hex(8)}"


def test_a_writer_of_a_store(bucket: str) -> None:
    """Rows come back in order; a second writer continues; one that doesn't say so is refused."""
    with TensorClassDataset.create(bucket, Row, rows_per_shard=10) as writer:
        writer.append(rows(0, 25))
        writer.commit()
        assert writer.committed == 25
        assert numbers(bucket) == [*range(25)]
    with TensorClassDataset.create(f"{bucket}/", Row, rows_per_shard=10, resume=True) as writer:
        assert writer.rows == 25
        writer.append(rows(25, 40))
    assert numbers(bucket) == [*range(40)]
    with pytest.raises(FileExistsError, match="resume=True"):
        TensorClassDataset.create(bucket, Row)


def test_what_is_not_in_a_store(bucket: str) -> None:
    """It is absent at once, and not asked for again: a dataset, and a shard that the manifest lists."""
    with pytest.raises(FileNotFoundError, match=r"manifest\.json"):
        TensorClassDataset(bucket, Row)
    with TensorClassDataset.create(bucket, Row, rows_per_shard=5) as writer:
        writer.append(rows(0, 20))
    data = TensorClassDataset(bucket, Row)
    store, path = fsspec.core.url_to_fs(data.shards[2].path, **(data._access.storage_options or {}))
    store.rm_file(path)
    with pytest.raises(FileFormatError, match="the manifest lists this shard, and it is not there"):
        data[12]


def test_two_writers_are_detected(bucket: str) -> None:
    """The one that commits second is told, and its rows are not listed."""
    first = TensorClassDataset.create(bucket, Row, rows_per_shard=10)
    second = TensorClassDataset.create(bucket, Row, rows_per_shard=10, resume=True)
    first.append(rows(0, 20))
    first.commit()
    with pytest.raises(BlockingIOError, match="another writer has added shards"):
        append_all(second, rows(100, 120))
    assert "failed" in repr(second)
    second.close()
    first.append(rows(20, 30))
    first.close()
    assert numbers(bucket) == [*range(30)]


def test_writers_with_names_of_their_own(bucket: str) -> None:
    """Shards of both are listed; two writers of one name are detected."""
    one = TensorClassDataset.create(bucket, Row, rows_per_shard=10, writer_id="a")
    two = TensorClassDataset.create(bucket, Row, rows_per_shard=10, writer_id="b")
    again = TensorClassDataset.create(bucket, Row, rows_per_shard=10, writer_id="b")
    for at in range(3):
        one.append(rows(at * 10, at * 10 + 10))
        two.append(rows(100 + at * 10, 110 + at * 10))
    one.close()
    two.close()
    assert sorted(numbers(bucket)) == [*range(30), *range(100, 130)]
    with pytest.raises(BlockingIOError, match="another writer with the id 'b'"):
        append_all(again, rows(0, 10))
    again.close()


def test_writers_of_one_process_take_turns(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four threads with a writer each commit at once, and no shard is lost, while segments are joined."""
    monkeypatch.setattr(_segments, "TAIL", 2)
    TensorClassDataset.create(bucket, Row, writer_id="first").close()

    def write(number: int) -> None:
        with TensorClassDataset.create(bucket, Row, rows_per_shard=2, writer_id=f"w{number}") as writer:
            for at in range(number * 20, number * 20 + 20, 2):
                writer.append(rows(at, at + 2))

    contexts = [copy_context() for _ in range(4)]  # a new thread knows no options of the store
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: contexts[number].run(write, number), range(4)))
    assert sorted(numbers(bucket)) == [*range(80)]


@pytest.mark.parametrize("engine", ["threads", pytest.param("processes", marks=pytest.mark.slow)])
def test_a_map_into_a_store(bucket: str, engine: str, tmp_path: Path) -> None:
    """Workers write its shards there, rows that fail too; the same call again finds it done."""
    if engine == "processes" and bucket.startswith("memory"):
        pytest.skip("the memory of a process is its own")
    with TensorClassDataset.create(tmp_path / "rows", Row) as writer:
        writer.append(rows(0, 40))
    data = TensorClassDataset(tmp_path / "rows", Row)
    how: dict[str, Any] = {"engine": engine, "num_workers": 2, "batch_size": 4, "errors": "skip"}
    data.map(doubled, out=bucket, **how)
    wanted = [2 * n for n in range(40) if n != 7]
    assert numbers(bucket) == wanted
    assert len(TensorClassDataset(f"{bucket}/failed")) == 1
    with pytest.raises(FileExistsError):
        data.map(doubled, out=bucket, **how)
    assert len(data.map(doubled, out=bucket, resume=True, **how)) == 39


def write_lines_to(source: Any, url: str) -> None:
    """JSON lines of a batch or a dataset, which has no other JSON."""
    source.to_json(url, **({} if isinstance(source, TensorClassDataset) else {"lines": True}))


TABLES: dict[str, tuple[Callable[[Any, str], None], Callable[[str], Any]]] = {
    "x.parquet": (lambda source, url: source.to_parquet(url), from_parquet),
    "x.csv": (lambda source, url: source.to_csv(url), lambda url: from_csv(url, cls=Row)),
    "x.jsonl": (write_lines_to, lambda url: from_json(url, lines=True, cls=Row)),
    "x.json": (lambda source, url: source.to_json(url), lambda url: from_json(url, cls=Row)),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_uploaded_whole(name: str, bucket: str, tmp_path: Path) -> None:
    """A batch or a dataset is exported to a URL; an export that fails leaves the file that was there."""
    to_table, from_table = TABLES[name]
    url = f"{bucket}/{name}"
    to_table(rows(0, 9), url)
    assert from_table(url).n.tolist() == [*range(9)]
    with TensorClassDataset.create(tmp_path / "rows", Row, rows_per_shard=4) as writer:
        writer.append(rows(0, 20))
    data: Any = TensorClassDataset(tmp_path / "rows", Row)
    if name.startswith("x.json"):
        assert Row.from_json(path=url, lines=name == "x.jsonl").n.tolist() == [*range(9)]
    if name != "x.json":  # datasets write lines
        to_table(data, url)
        assert from_table(url).n.tolist() == [*range(20)]
        os.remove(data.shards[2].path)
        data = TensorClassDataset(tmp_path / "rows", Row)
        with pytest.raises(FileFormatError):
            to_table(data, url)
        assert from_table(url).n.tolist() == [*range(20)]
    assert names_in(bucket) == [name]


def test_an_answer_that_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The manifest was replaced, but the writer did not learn it: it looks, and goes on."""
    monkeypatch.setattr(_access, "PAUSE", 0)
    before, lost = _remote.upload_bytes, [True]

    def upload(data: bytes, url: str) -> None:
        before(data, url)
        if lost:
            lost.pop()
            raise TimeoutError("no answer")

    url = f"memory://{token_hex(8)}/d"
    with TensorClassDataset.create(url, Row, rows_per_shard=10) as writer:
        monkeypatch.setattr(_remote, "upload_bytes", upload)
        writer.append(rows(0, 20))
    assert not lost
    assert numbers(url) == [*range(20)]


def test_a_shard_that_does_not_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    """The call raises with the URL; what was committed before is whole, and another writer continues."""
    monkeypatch.setattr(_access, "PAUSE", 0)
    url = f"memory://{token_hex(8)}/d"
    writer = TensorClassDataset.create(url, Row, rows_per_shard=10, retries=1)
    writer.append(rows(0, 10))
    writer.commit()

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError("no connection")

    monkeypatch.setattr(type(fsspec.filesystem("memory")), "put_file", refuse)
    with pytest.raises(OSError, match=rf"uploading failed 2 times.*{url}"):
        append_all(writer, rows(10, 20))
    writer.close()
    monkeypatch.undo()
    with TensorClassDataset.create(url, Row, resume=True) as writer:
        assert writer.rows == 10
        writer.append(rows(10, 30))
    assert numbers(url) == [*range(30)]


def test_a_web_server_takes_no_dataset(tmp_path: Path) -> None:
    """It is refused before a row is written, with the URL; a dataset there is read as ever."""
    with TensorClassDataset.create(tmp_path / "d", Row) as writer:
        writer.append(rows(0, 5))
    with serving(tmp_path) as server:
        url = server.url
        with pytest.raises(UnsupportedOperationError, match=f"{url}/new.*http servers take no files"):
            TensorClassDataset.create(f"{url}/new", Row)
        assert numbers(f"{url}/d") == [*range(5)]


def append_for_ever(url: str, options: dict[str, Any]) -> None:
    """Commit rows until the process is killed."""
    with TensorClassDataset.create(url, Row, rows_per_shard=7, resume=True, storage_options=options) as writer:
        while True:
            writer.append(rows(writer.rows, writer.rows + 7))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["file", "s3"])
def test_a_killed_writer_leaves_a_prefix(kind: str, tmp_path: Path) -> None:
    """Whenever it is killed, readers find all rows up to some row, and the next writer continues there."""
    with s3_server() if kind == "s3" else _nothing() as options:
        url = f"file://{tmp_path}/d" if kind == "file" else "s3://kills/d"
        if kind == "s3":
            fsspec.filesystem("s3", **options).makedirs("kills", exist_ok=True)
        ends = list[int]()
        for number in range(3):
            code = f"from tests.io.test_buckets import append_for_ever as f; f({url!r}, {options!r})"
            child = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
            _wait_for_rows(url, options, ends[-1] if ends else 0)
            time.sleep(0.05 * number)
            child.send_signal(signal.SIGKILL)
            child.wait(60)
            with remote_access(storage_options=options):
                found = numbers(url)
            assert found == [*range(len(found))]
            ends.append(len(found))
        assert sorted(set(ends)) == ends


def map_slowly(source: str, url: str, options: dict[str, Any]) -> None:
    """Map a dataset into a store, a few rows at a time."""
    with remote_access(storage_options=options):
        TensorClassDataset(source, Row).map(
            slowly, out=url, batch_size=5, rows_per_shard=5, engine="threads", num_workers=2, resume=True
        )


def slowly(batch: Row) -> Row:
    """Rows with twice their number, after a while."""
    time.sleep(0.02)
    return Row(n=batch.n * 2, batch_size=batch.batch_size)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["file", "s3"])
def test_a_killed_map_continues(kind: str, tmp_path: Path) -> None:
    """A driver that is killed leaves the first rows, whole; the next one continues after them until all are there."""
    with TensorClassDataset.create(tmp_path / "source", Row, rows_per_shard=50) as writer:
        writer.append(rows(0, 400))
    with s3_server() if kind == "s3" else _nothing() as options:
        url = f"file://{tmp_path}/d" if kind == "file" else "s3://maps/d"
        if kind == "s3":
            fsspec.filesystem("s3", **options).makedirs("maps", exist_ok=True)
        given = f"({str(tmp_path / 'source')!r}, {url!r}, {options!r})"
        code = f"from tests.io.test_buckets import map_slowly as f; f{given}"
        ends = [0]
        for number in range(2):
            child = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
            _wait_for_rows(url, options, ends[-1])
            time.sleep(0.03 * number)
            child.send_signal(signal.SIGKILL)
            child.wait(60)
            with remote_access(storage_options=options):
                found = numbers(url)
            assert found == [*range(0, 2 * len(found), 2)]
            ends.append(len(found))
        assert sorted(set(ends)) == ends
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
        with remote_access(storage_options=options):
            assert numbers(url) == [*range(0, 800, 2)]


@contextmanager
def _nothing() -> Iterator[dict[str, Any]]:
    yield {}


def _wait_for_rows(url: str, options: dict[str, Any], before: int) -> None:
    """Wait until a writer has committed more rows than before."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        try:
            if len(TensorClassDataset(url, Row, storage_options=options)) > before:
                return
        except FileNotFoundError:
            pass
        time.sleep(0.02)
    raise AssertionError("the writer has written nothing")
