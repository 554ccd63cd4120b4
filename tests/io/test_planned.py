"""Datasets behind URLs: few requests, all of a batch at once, and the options of stores."""

from __future__ import annotations

import gc
import json
import os
import pickle
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import PerElement, Ragged, TensorClassDataset, TensorDict, load, tensorclass
from tensorclass.errors import ArgumentError, FileFormatError
from tensorclass.io import Batches, _access, _planned, _remote, _shelf, remote_access
from tensorclass.io._ahead import read_ahead
from tensorclass.io._documents import document_at
from tensorclass.io._segments import read_manifest
from tensorclass.typing import Float32, Int64
from tests._marks import rest_is_slow
from tests.io._exact import assert_same
from tests.io._server import serving

SHARDS, PER = 40, 10


@tensorclass
class Even:
    x: Float32[Tensor, "300"]
    label: Int64[Tensor, ""]


@tensorclass
class Uneven:
    label: Int64[Tensor, ""]
    words: Ragged[Tensor, "t"]
    name: PerElement[str]


@pytest.fixture(autouse=True)
def _apart(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A cache of its own, and no pauses."""
    monkeypatch.setenv("TENSORCLASS_CACHE", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setattr(_access, "PAUSE", 0)
    yield
    _remote._RECENT.clear()
    gc.collect()


def rows(kind: str, count: int = SHARDS * PER) -> Any:
    """Rows whose values say which they are."""
    numbers = torch.arange(count)
    if kind == "even":
        return Even(x=numbers[:, None].float().expand(count, 300).clone(), label=numbers)
    words = [torch.full((i % 5 + 1,), float(i)) for i in range(count)]
    return Uneven(label=numbers, words=words, name=[f"row {i}" for i in range(count)])


def written(folder: Path, kind: str) -> Any:
    """A dataset of many shards."""
    batch = rows(kind)
    with TensorClassDataset.create(folder / "data", type(batch), rows_per_shard=PER) as writer:
        writer.append(batch)
    return batch


def taken(server: Any) -> Counter[tuple[str, str]]:
    """How often each file was asked for since the last time, by method; manifests aside."""
    found = Counter((method, path) for method, path, _ in server.requests if "manifest" not in path)
    server.requests.clear()
    return found


def without_plans(folder: Path) -> None:
    """Rewrite the manifest as older versions did."""
    manifest = read_manifest(str(folder / "data"))
    shards = [shard.model_copy(update={"header": None, "layout": None}) for shard in manifest.shards]
    document_at(str(folder / "data")).replace(manifest.model_copy(update={"shards": shards}))
    assert "layout" not in json.loads((folder / "data" / "manifest.json").read_text())["shards"][0]


@pytest.mark.parametrize("old", rest_is_slow([False, True]))
@pytest.mark.parametrize("kind", ["even", "uneven"])
def test_one_request_for_a_shard_and_batch(kind: str, old: bool, tmp_path: Path) -> None:
    """No look-ups, at most one request more for a header, and what has come is not asked for again."""
    batch = written(tmp_path, kind)
    if old:
        without_plans(tmp_path)
    order = torch.randperm(len(batch), generator=torch.Generator().manual_seed(0))
    with serving(tmp_path) as server:
        server.delay = 0.02
        data: Any = TensorClassDataset(f"{server.url}/data", type(batch))
        assert_same(data[order[:64]], batch[order[:64]].clone())
        asked = taken(server)
        assert {method for method, _ in asked} == {"GET"}
        assert max(asked.values()) <= 2 if old else sum(asked.values()) <= SHARDS + 1
        assert server.peak > 4
        assert_same(data[order], batch[order].clone())
        assert all(count == 1 for count in taken(server).values())
        assert_same(data[order.flip(0)], batch[order.flip(0)].clone())
        assert not taken(server)


def test_more_shards_than_may_be_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that were closed are opened again from the cache, without a request."""
    monkeypatch.setattr(_shelf, "REMOTE", 4)
    monkeypatch.setattr(_planned, "_MOST", 8)
    batch = written(tmp_path, "uneven")
    order = torch.randperm(len(batch))
    with serving(tmp_path) as server:
        data: Any = TensorClassDataset(f"{server.url}/data", Uneven)
        assert_same(data[order], batch[order].clone())
        assert sum(taken(server).values()) <= 2 * SHARDS
        for part in order.split(50):
            assert_same(data[part], batch[part].clone())
        assert not taken(server)


def test_near_and_far_together(tmp_path: Path) -> None:
    """A dataset of a local folder and one behind a URL."""
    batch = written(tmp_path, "even")
    with serving(tmp_path) as server:
        both: Any = TensorClassDataset([tmp_path / "data", f"{server.url}/data"], Even)
        found = both[[0, 401, 799, 399]]
        assert found.label.tolist() == [0, 1, 399, 399]
        assert_same(both[400:][:], batch)


def test_shards_that_are_not_there(tmp_path: Path) -> None:
    """The manifest lists them: an error of the dataset, which names the shard."""
    written(tmp_path, "even")
    shard = sorted((tmp_path / "data").glob("*.safetensors"))[3]
    shard.unlink()
    with serving(tmp_path) as server:
        data: Any = TensorClassDataset(f"{server.url}/data", Even)
        assert data[0].label == 0
        with pytest.raises(FileFormatError, match=f"{shard.name}.*lists this shard, and it is not there"):
            data[:]


def test_servers_without_ranges(tmp_path: Path) -> None:
    """They send the whole file, which is taken once."""
    batch = written(tmp_path, "even")
    TensorDict(a=torch.arange(100_000)).save(tmp_path / "large.safetensors")
    with serving(tmp_path) as server:
        server.whole = True
        data: Any = TensorClassDataset(f"{server.url}/data", Even)
        assert_same(data[:], batch)
        assert load(f"{server.url}/large.safetensors")["a"].sum() == 4999950000
        assert sum(method == "GET" and "large" in path for method, path, _ in server.requests) <= 2


def test_one_request_opens_a_dataset(tmp_path: Path) -> None:
    """The manifest and the segment that it lists: nothing is looked up, before or after."""
    written(tmp_path, "even")
    with serving(tmp_path) as server:
        data = TensorClassDataset(f"{server.url}/data", Even)
        assert len(data) == SHARDS * PER
        kinds = [(method, path.rpartition("/")[2].partition("-")[0]) for method, path, _ in server.requests]
        assert kinds == [("GET", "manifest.json"), ("GET", "segment")]


OTHERS: dict[str, Any] = {
    "verify": lambda data: data.verify(),
    "load": lambda data: load(data.shards[0].path),
    "load without a map": lambda data: load(data.shards[0].path, mmap=False),
    "another dataset": lambda data: TensorClassDataset(data.path, Even, verify=True)[1],
    "a picked one": lambda data: data.pick("label")[3],
    "skipping": lambda data: TensorClassDataset(data.path, Even, errors="skip")[2],
    "compact": lambda data: data.compact("compact"),
}


@pytest.mark.parametrize("tagged", [True, False])
@pytest.mark.parametrize("other", OTHERS)
def test_others_that_read_the_same_files(
    other: str, tagged: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is read afterwards is what the files have: each reader fills the local file that it has mapped."""
    monkeypatch.chdir(tmp_path)
    batch = rows("even", 600)
    with TensorClassDataset.create(tmp_path / "data", Even, checksums=True) as writer:
        writer.append(batch)
    with serving(tmp_path) as server:
        server.tagged = tagged
        data: Any = TensorClassDataset(f"{server.url}/data", Even)
        assert_same(data[0], batch[0].clone())
        OTHERS[other](data)
        order = torch.randperm(600)
        assert_same(data[order], batch[order].clone())


def test_a_file_that_others_have_opened_anew(tmp_path: Path) -> None:
    """An open file without a version has a local file of its own, which is filled for its reader only."""
    (tmp_path / "x").write_bytes(bytes(range(1, 201)) * 5000)
    with serving(tmp_path) as server:
        server.tagged = False
        (one, size), (two, _) = [_remote.open_remote(f"{server.url}/x", False) for _ in range(2)]
        try:
            for fd in (one, two):
                _remote.fetch(f"{server.url}/x", fd, [(0, size)])
                assert os.pread(fd, 200, 0) == bytes(range(1, 201))
            _remote._RECENT.clear()
            gc.collect()
            with pytest.raises(OSError, match="replaced while it was read"):
                _remote.fetch(f"{server.url}/x", one, [(0, size)])
        finally:
            os.close(one)
            os.close(two)


def test_shards_that_are_here_stay_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shard of which all is here keeps its map and no descriptor, so that any number of them stay open."""
    monkeypatch.setattr(_shelf, "REMOTE", 4)
    batch = written(tmp_path, "even")
    with serving(tmp_path) as server:
        data: Any = TensorClassDataset(f"{server.url}/data", Even)
        for part in torch.arange(len(batch)).split(PER * 4):
            data[part]
        _remote._RECENT.clear()
        gc.collect()
        assert not data._shelf._table.partial
        assert not [key for key in _remote._OPEN if str(key[0]).startswith(f"{server.url}/data/0")]
        monkeypatch.setattr(_remote, "Remote", None)  # nothing is opened again
        order = torch.randperm(len(batch))
        assert_same(data[order], batch[order].clone())


@pytest.mark.parametrize(
    ("status", "error"),
    [(401, PermissionError), (403, PermissionError), (404, FileFormatError), (410, FileFormatError)],
)
def test_a_server_that_refuses_rows(status: int, error: type[Exception], tmp_path: Path) -> None:
    """It is not asked again, the error names the shard, and later calls work."""
    batch = written(tmp_path, "even")
    with serving(tmp_path) as server:
        data: Any = TensorClassDataset(f"{server.url}/data", Even)
        data[0]
        server.status = status
        server.requests.clear()
        with pytest.raises(error, match=r"00003[0-9]-.*safetensors"):
            data[PER * 35]
        assert len(server.requests) == 1
        server.status = 0
        assert_same(data[:], batch)


def test_another_file_in_the_place_of_a_shard(tmp_path: Path) -> None:
    """Of small shards the header comes with the rows, so that it is compared without a request more."""
    written(tmp_path, "even")
    files = sorted((tmp_path / "data").glob("*.safetensors"))
    files[7].write_bytes(files[5].read_bytes())
    with serving(tmp_path) as server:
        data: Any = TensorClassDataset(f"{server.url}/data", Even)
        assert data[[0, 55]].label.tolist() == [0, 55]
        with pytest.raises(FileFormatError, match=f"{files[7].name}.*it belongs to another dataset"):
            data[75]


# ---- options -----------------------------------------------------------------------------------------------------


def test_options_reach_the_store(tmp_path: Path) -> None:
    """Of a dataset, also after it was pickled, and of a block around other functions."""
    written(tmp_path, "even")
    TensorDict(a=torch.arange(3)).save(tmp_path / "x.safetensors")
    token = {"client_kwargs": {"headers": {"X-Token": "mine"}}}
    with serving(tmp_path) as server:
        data: Any = TensorClassDataset(f"{server.url}/data", Even, storage_options=token, retries=0)
        data[0]
        pickle.loads(pickle.dumps(data))[SHARDS * PER - 1]
        TensorClassDataset.concat([data, data])[20]
        with remote_access(storage_options=token):
            load(f"{server.url}/x.safetensors")
        assert {seen for _, _, seen in server.requests} == {"mine"}
        load(f"{server.url}/x.safetensors")
        assert server.requests[-1][2] is None


def test_options_of_a_block_are_kept(tmp_path: Path) -> None:
    """A dataset that is opened in a block reads with its options later too; its own come first."""
    written(tmp_path, "even")
    mine, other = [{"client_kwargs": {"headers": {"X-Token": token}}} for token in ("mine", "other")]
    with serving(tmp_path) as server:
        with remote_access(storage_options=mine, timeout=30):
            data: Any = TensorClassDataset(f"{server.url}/data", Even)
            own: Any = TensorClassDataset(f"{server.url}/data", Even, storage_options=other)
        for one, token in ((data, "mine"), (own, "other")):
            server.requests.clear()
            for found in (one[0], pickle.loads(pickle.dumps(one))[55], next(iter(one.loader(9, shuffle=True)))):
                assert type(found) is Even
            assert {seen for _, _, seen in server.requests} == {token}


def test_how_often_a_request_is_repeated(tmp_path: Path) -> None:
    """As often as `retries` says."""
    TensorDict(a=torch.arange(3)).save(tmp_path / "x.safetensors")
    with serving(tmp_path) as server:
        server.status = 503
        for retries, words in ((0, "looking it up failed: "), (2, "looking it up failed 3 times: ")):
            server.requests.clear()
            with remote_access(retries=retries), pytest.raises(OSError, match=words):
                load(f"{server.url}/x.safetensors")
            assert len(server.requests) >= 1 + retries


def test_a_server_that_stalls(tmp_path: Path) -> None:
    """A request ends after `timeout` seconds without a byte."""
    TensorDict(a=torch.arange(3)).save(tmp_path / "x.safetensors")
    with serving(tmp_path) as server:
        server.delay = 1.0
        with remote_access(timeout=0.05, retries=0), pytest.raises(OSError, match="looking it up failed"):
            load(f"{server.url}/x.safetensors")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"timeout": 0}, "timeout is a number of seconds above 0, got 0"),
        ({"retries": -1}, "retries is a whole number from 0, got -1"),
        ({"storage_options": [1]}, "storage_options is a dict of options of fsspec"),
    ],
)
def test_options_that_are_refused(options: Any, words: str, tmp_path: Path) -> None:
    """By the block and by the dataset."""
    with pytest.raises(ArgumentError, match=words):
        remote_access(**options)
    with pytest.raises(ArgumentError, match=words):
        TensorClassDataset(tmp_path, **options)


# ---- ahead -------------------------------------------------------------------------------------------------------


def test_batches_are_read_ahead(tmp_path: Path) -> None:
    """In their order, and a state continues at the exact batch; what was read ahead does not count."""
    batch = written(tmp_path, "even")
    with serving(tmp_path) as server:
        data: Any = TensorClassDataset(f"{server.url}/data", Even)
        first = data.batches(32, shuffle=True, seed=3)
        epoch = iter(first)
        seen = [next(epoch).label for _ in range(4)]
        again = data.batches(32, shuffle=True, seed=3, prefetch=0)
        again.load_state_dict(first.state_dict())
        seen += [part.label for part in again]
        near: Any = TensorClassDataset(tmp_path / "data", Even)
        expected = [part.label for part in near.batches(32, shuffle=True, seed=3)]
        assert all(map(torch.equal, seen, expected))
        assert [part.label.tolist() for part in data.loader(32)] == [part.tolist() for part in batch.label.split(32)]


def test_how_far_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most as many calls as asked for, and fewer if results are large; an error comes at its place."""
    begun: list[int] = []

    def get(key: int) -> Tensor:
        begun.append(key)
        return torch.zeros(1000)

    found = read_ahead(get, range(100), 3)
    next(found)
    assert len(begun) <= 4
    monkeypatch.setattr("tensorclass.io._ahead.MOST", 4000)
    next(found)
    next(found)
    assert len(begun) <= 5
    found.close()  # type: ignore[attr-defined]  # a generator
    assert len(list(read_ahead(get, range(7), 3))) == 7
    failing = read_ahead(lambda key: 1 // (3 - key), range(9), 2)
    assert [next(failing) for _ in range(3)] == [0, 0, 1]
    with pytest.raises(ZeroDivisionError):
        next(failing)
    with pytest.raises(ArgumentError, match="prefetch is a number of batches"):
        Batches(torch.arange(3), 1, prefetch=-1)
