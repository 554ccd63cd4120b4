"""Files and datasets behind URLs: the same values, few bytes, a cache that is right, and servers that fail."""

from __future__ import annotations

import errno
import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
import tensordict
import torch
from torch import Tensor

from tensorclass import (
    PerElement,
    TensorClassDataset,
    TensorDict,
    append_memmap,
    load,
    load_memmap,
    pack_memmap,
    tensorclass,
)
from tensorclass.cli import main
from tensorclass.errors import FileFormatError, MissingKeyError, UnsupportedOperationError
from tensorclass.io import _access, _remote
from tensorclass.io._access import TRIES
from tensorclass.io._remote import BLOCK
from tensorclass.typing import Float32, Int64, UInt8
from tests.io._exact import assert_same
from tests.io._server import FAULTS, garbage, serving
from tests.io.test_grow import ROWS, _indexed


@tensorclass
class Image:
    pixels: UInt8[Tensor, "n"]
    label: Int64[Tensor, ""]
    other: Float32[Tensor, "4000"]
    name: PerElement[str]


@tensorclass
class Count:
    a: Int64[Tensor, ""]


@pytest.fixture(autouse=True)
def _apart(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A cache and a store in memory of its own, and no pauses."""
    monkeypatch.setenv("TENSORCLASS_CACHE", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setattr(_access, "PAUSE", 0)
    store = fsspec.filesystem("memory")
    store.store.clear()
    yield
    _remote._RECENT.clear()
    gc.collect()


class Counted:
    """What is asked of the store in memory."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.spans: list[tuple[int, int]] = []
        store: Any = type(fsspec.filesystem("memory"))
        known = store.cat_ranges

        def cat(inner: Any, paths: Any, starts: Any, ends: Any, **options: Any) -> Any:
            self.spans += zip(starts, ends, strict=True)
            return known(inner, paths, starts, ends, **options)

        monkeypatch.setattr(store, "cat_ranges", cat)

    def take(self) -> tuple[int, int]:
        """How many ranges and bytes were asked for since the last time."""
        found = len(self.spans), sum([end - begin for begin, end in self.spans])
        self.spans = []
        return found


def _copy(folder: Path, url: str) -> None:
    store, path = fsspec.core.url_to_fs(url)
    for name in os.listdir(folder):
        if (folder / name).is_file():
            store.put_file(str(folder / name), f"{path}/{name}")


# ---- values ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["x.safetensors", "x.tdz", "folder"])
@pytest.mark.parametrize("kind", ROWS)
def test_every_kind(kind, place, tmp_path):
    """Saved to a store and loaded from there is the same; the bytes are those of a local file."""
    data = ROWS[kind](5)
    url = f"memory://bucket/{place}"
    assert_same(data.save(url, checksums=True), data)
    for options in ({}, {"mmap": False}, {"verify": True}):
        assert_same(load(url, **options), data)
    assert type(type(data).load(url)) is type(data)
    found = load_memmap(url, mode="r")
    assert bool((found == data).all())
    assert bool((load_memmap(url) == data).all())
    data.save(tmp_path / "x", checksums=True)
    stored = fsspec.filesystem("memory").cat(url if place != "folder" else f"{url}/data.safetensors")
    assert stored == (tmp_path / "x" / "data.safetensors").read_bytes()


def test_writes_stay_here():
    """A load is a copy-on-write map of the cache: neither the store nor the next load sees what is written to it."""
    TensorDict(a=torch.zeros(100_000)).save("memory://b/x.safetensors")
    load("memory://b/x.safetensors")["a"].fill_(7)
    assert load("memory://b/x.safetensors")["a"].sum() == 0
    for call in (load, load_memmap):
        with pytest.raises(UnsupportedOperationError, match=r"memory://b/x\.safetensors.*reading"):
            call("memory://b/x.safetensors", mode="r+")


def test_folders_and_archives(tmp_path):
    """Indexed folders, keys in them, compressed archives and commands work behind URLs."""
    data = _indexed(tmp_path / "x")
    _copy(tmp_path / "x", "memory://b/x")
    assert bool((load("memory://b/x/") == data).all())
    assert load("memory://b/x", subpath="b/c").shape == (3, 2)
    assert load("memory://b/x/data.safetensors").batch_size == (3,)
    with pytest.raises(UnsupportedOperationError, match="several files"):
        data.save("memory://b/x")
    with pytest.raises(MissingKeyError):
        load("memory://b/x", subpath="zz")
    TensorDict(a=torch.zeros(9000)).save("memory://b/y.tdz", compression="deflate")
    assert load("memory://b/y.tdz")["a"].shape == (9000,)
    assert main(["verify", "memory://b/y.tdz"]) == 0
    assert main(["inspect", "memory://b/y.tdz"]) == 0
    for call in (
        lambda: TensorDict(a=torch.zeros(1)).memmap("memory://b/m"),
        lambda: TensorDict(a=torch.zeros(1)).memmap_like("memory://b/m"),
        lambda: append_memmap("memory://b/x", data[:1]),
        lambda: pack_memmap("memory://b/x", tmp_path / "p.tdz") and pack_memmap(tmp_path / "x", "memory://b/x/in.tdz"),
        lambda: load("nowhere://b/x.safetensors"),
    ):
        with pytest.raises((UnsupportedOperationError, OSError, ValueError)):
            call()
    for url in ("memory://b/absent", "memory://b/absent.safetensors"):
        with pytest.raises(FileNotFoundError, match=url):
            load(url)
    assert main(["verify", "memory://b/absent.safetensors"]) == 1


@pytest.mark.parametrize("place", ["memory", "http"])
@pytest.mark.parametrize("kind", ["folder", "archive", "compressed", "block"])
@pytest.mark.filterwarnings("ignore")  # of the anchor
def test_files_of_the_anchor(kind, place, tmp_path):
    """Folders, archives and consolidated files that `tensordict` wrote, behind URLs, whole and in part."""
    theirs = tensordict.TensorDict(
        a=torch.arange(6).reshape(3, 2), b={"c": torch.rand(3, 50_000), "d": torch.ones(3)}, note="text", batch_size=[3]
    )
    (tmp_path / "s").mkdir()
    name = {"folder": "x", "block": "x.bin"}.get(kind, "x.tdz")
    if kind == "folder":
        theirs.memmap(tmp_path / "s" / name)
    elif kind == "block":
        theirs.consolidate(tmp_path / "s" / name)
    else:
        theirs.save(str(tmp_path / "s" / name), compression="deflate" if kind == "compressed" else None)
    with serving(tmp_path / "s") as server:
        url = f"http://127.0.0.1:{server.server_port}/{name}" if place == "http" else f"memory://theirs/{name}"
        if place == "memory":
            fsspec.filesystem("memory").put(str(tmp_path / "s" / name), f"/theirs/{name}", recursive=True)
        for options in ({}, {"mmap": False}):
            found = load(url, **options)
            assert torch.equal(found["b", "c"], theirs["b", "c"])
            assert (found["a"].tolist(), found["note"], found.batch_size) == (theirs["a"].tolist(), "text", (3,))
        assert load(url, subpath=("b", "d")).tolist() == [1, 1, 1]
        load(url)["a"].zero_()
        assert load(url)["a"].sum() == 15
        with pytest.raises(UnsupportedOperationError):
            load(url, mode="r+")
        with pytest.raises(MissingKeyError):
            load(url, subpath="zz")


def test_damage_is_found(tmp_path):
    """Damaged files are errors with the URL."""
    TensorDict(a=torch.zeros(9000)).save(tmp_path / "x.safetensors", checksums=True)
    raw = (tmp_path / "x.safetensors").read_bytes()
    store = fsspec.filesystem("memory")
    damaged = {
        "empty": b"", "cut": raw[:-1], "short": raw[:100], "text": b"nothing of the kind", "longer": raw + b"0",
        "flipped": raw[:-5] + b"\x01" + raw[-4:],
    }  # fmt: skip
    for name, content in damaged.items():
        store.pipe_file(f"/b/{name}.safetensors", content)
        with pytest.raises(FileFormatError, match=f"memory://b/{name}"):
            load(f"memory://b/{name}.safetensors", verify=True)


# ---- bytes -------------------------------------------------------------------------------------------------------


def test_only_what_is_asked_for(monkeypatch):
    """A part of a file reads the header and that part, neighbours in one request; a second load reads nothing."""
    data = TensorDict({f"k{i}": torch.full((250_000,), float(i)) for i in range(8)})
    data.save("memory://b/x.safetensors")
    counted = Counted(monkeypatch)
    assert load("memory://b/x.safetensors", subpath="k3").sum() == 750_000
    number, size = counted.take()
    assert number <= 2
    assert size <= 1_000_000 + 3 * BLOCK
    assert load("memory://b/x.safetensors", subpath="k3").sum() == 750_000
    assert counted.take() == (0, 0)
    assert_same(load("memory://b/x.safetensors"), data)
    number, size = counted.take()
    assert size <= 7_000_000 + 2 * BLOCK
    assert number <= 2
    assert load("memory://b/x.safetensors", mmap=False)["k7"][0] == 7
    assert counted.take() == (0, 0)


def _images(folder: Path, rows: int = 400, size: int = 20_000) -> Any:
    batch = Image(
        pixels=(torch.arange(rows * size) % 251).to(torch.uint8).view(rows, size),
        label=torch.arange(rows),
        other=torch.arange(rows * 4000.0).view(rows, 4000),
        name=[f"n{i}" for i in range(rows)],
    )
    with TensorClassDataset.create(folder, Image, rows_per_shard=150, checksums=True) as writer:
        writer.append(batch)
    return batch


def test_datasets(tmp_path, monkeypatch):
    """Rows by number, slice, mask and batch are right; picked columns and rows are all that is read."""
    batch = _images(tmp_path)
    _copy(tmp_path, "memory://b/data")
    counted = Counted(monkeypatch)
    data: Any = TensorClassDataset("memory://b/data/")
    assert (len(data), data.cls, data.path) == (400, Image, "memory://b/data")
    assert counted.take()[1] < 2 * BLOCK
    for index in (7, -1, [5, 399, 151, 5], slice(140, 160), torch.arange(400) % 100 == 3):
        assert_same(data[index], batch[index].clone())
    counted.take()
    rows = torch.arange(0, 400, 80).tolist()
    fresh = TensorClassDataset("memory://b/data", Image)
    _remote._RECENT.clear()
    before = sum(file.stat().st_blocks * 512 for file in Path(os.environ["TENSORCLASS_CACHE"]).iterdir())
    assert_same(fresh[rows], batch[rows].clone())
    assert counted.take()[1] < sum([shard.entry.bytes for shard in fresh.shards]) / 5
    assert before < 5_000_000
    picked: Any = TensorClassDataset("memory://b/data", Image).pick("label")
    assert picked[[1, 399]].label.tolist() == [1, 399]
    seen = [int(label) for part in data.batches(64, shuffle=True, seed=0) for label in part.label]
    assert sorted(seen) == list(range(400))
    assert data.verify() == []
    assert TensorClassDataset("memory://b/data", Image, mmap=False)[[3, 200]].name.tolist() == ["n3", "n200"]
    assert TensorClassDataset("memory://b/data", Image, verify=True)[200].label == 200
    with pytest.raises(FileNotFoundError, match="memory://b/absent"):
        TensorClassDataset("memory://b/absent")
    _copy(tmp_path, "memory://b/other")
    fsspec.filesystem("memory").rm(data.shards[1].path.replace("data", "other", 1))
    with pytest.raises(FileFormatError, match="lists this shard"):
        TensorClassDataset("memory://b/other", Image)[200]


# ---- the cache ---------------------------------------------------------------------------------------------------


def _cached() -> list[Path]:
    return sorted(Path(os.environ["TENSORCLASS_CACHE"]).glob("*.data"))


def test_versions(monkeypatch):
    """A file that was replaced is read anew; one that is replaced while it is read is an error."""
    TensorDict(a=torch.zeros(100_000)).save("memory://b/x.safetensors")
    assert load("memory://b/x.safetensors")["a"].sum() == 0
    TensorDict(a=torch.ones(100_000)).save("memory://b/x.safetensors")
    assert load("memory://b/x.safetensors")["a"].sum() == 100_000
    assert len(_cached()) == 2
    TensorDict(a=torch.zeros(100_000)).save("memory://b/y.safetensors")
    known = _remote._fetched

    def fetched(asked: Any) -> None:
        known(asked)
        TensorDict(a=torch.ones(100_000)).save("memory://b/y.safetensors")

    monkeypatch.setattr(_remote, "_fetched", fetched)
    with pytest.raises(OSError, match="replaced while it was read") as caught:
        load("memory://b/y.safetensors")
    assert caught.value.errno == errno.ESTALE


def test_damaged_cache(monkeypatch):
    """Blocks that are not what was written, cut files and empty tables are read again."""
    data = TensorDict(a=torch.arange(100_000))
    data.save("memory://b/x.safetensors")
    counted = Counted(monkeypatch)
    load("memory://b/x.safetensors")
    (file,) = _cached()
    table = file.with_suffix(".map")
    for damage in (
        lambda: file.write_bytes(file.read_bytes()[:-9] + b"different"),
        lambda: os.truncate(file, 1000),
        lambda: os.truncate(table, 8),
        lambda: table.write_bytes(b"\xff" * 64),
        lambda: (file.unlink(), table.unlink()),
    ):
        _remote._RECENT.clear()
        gc.collect()
        counted.take()
        damage()
        assert_same(load("memory://b/x.safetensors", mmap=False), data)
        assert counted.take()[0] > 0


@pytest.mark.slow
def test_limit(monkeypatch):
    """The oldest files go when there are too many bytes; those that are in use stay, and maps of others too."""
    monkeypatch.setenv("TENSORCLASS_CACHE_BYTES", "3000000")
    for i in range(8):
        TensorDict(a=torch.full((250_000,), float(i))).save(f"memory://b/{i}.safetensors")
    held = _remote.remote("memory://b/0.safetensors")
    found = load("memory://b/0.safetensors")
    for i in range(1, 8):
        _remote._RECENT.clear()
        gc.collect()
        assert load(f"memory://b/{i}.safetensors")["a"][-1] == i
    assert len(_cached()) <= 4
    assert Path(held.path) in _cached()
    assert found["a"].sum() == 0


# ---- servers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", FAULTS)
def test_servers_that_fail(fault, tmp_path):
    """What fails is asked for again, and right then; after some tries it is an error with the URL."""
    data = TensorDict(a=torch.arange(50_000), b=torch.rand(30_000))
    data.save(tmp_path / "x.safetensors")
    data.save(tmp_path / "y.safetensors")
    with serving(tmp_path) as server:
        server.faults = [FAULTS[fault]] * (TRIES - 1)
        assert_same(load(f"{server.url}/x.safetensors"), data)
        assert server.faults == []
        server.faults = [FAULTS[fault]] * 1000
        url = f"{server.url}/y.safetensors"
        with pytest.raises(OSError, match=f"failed {TRIES} times") as caught:
            load(url)
        assert caught.value.filename == url
        assert len(server.faults) >= 1000 - 2 * TRIES
        server.faults = []
        assert_same(load(url), data)


KEPT_AND_READ: dict[str, tuple[Any, Any]] = {
    "tensors": (
        lambda data, at: data.save(at / "x.safetensors", checksums=True),
        lambda url: load(f"{url}/x.safetensors", verify=True),
    ),
    "dataset": (
        lambda data, at: TensorClassDataset.from_map(data, lambda row: row, at / "d", checksums=True),
        lambda url: TensorClassDataset(f"{url}/d", Count, verify=True)[:],
    ),
    "parquet": (
        lambda data, at: data.to_parquet(at / "x.parquet"),
        lambda url: Count.from_parquet(f"{url}/x.parquet"),
    ),
}


@pytest.mark.parametrize("kind", KEPT_AND_READ)
def test_damage_on_the_way_does_not_stay(kind, tmp_path):
    """Bytes of another content that a server or a proxy sent once are an error once: the cache forgets them."""
    keep, read = KEPT_AND_READ[kind]
    data = Count(torch.arange(2_000) * 2**40)
    keep(data, tmp_path)
    with serving(tmp_path) as server:
        server.faults = [garbage]
        with pytest.raises(FileFormatError):
            read(server.url)
        assert server.faults == []
        assert_same(read(server.url), data)


def test_http(tmp_path):
    """Ranges, the cache by ETag, folders; absent files and uploads are errors; a server without a size too."""
    data = ROWS["dense"](2000)
    data.save(tmp_path / "x.safetensors")
    data.save(tmp_path / "folder")
    with serving(tmp_path) as server:
        assert_same(load(f"{server.url}/x.safetensors"), data)
        asked = len(server.ranges)
        assert 0 < asked <= 3
        assert_same(load(f"{server.url}/x.safetensors"), data)
        assert len(server.ranges) == asked
        assert_same(load(f"{server.url}/folder"), data)
        (data + 1).save(tmp_path / "x.safetensors")
        assert_same(load(f"{server.url}/x.safetensors"), data + 1)
        with pytest.raises(FileNotFoundError, match="absent"):
            load(f"{server.url}/absent.safetensors")
        with pytest.raises(UnsupportedOperationError, match="http"):
            data.save(f"{server.url}/new.safetensors")
        server.tagged = False
        asked = len(server.ranges)
        for _ in range(2):
            assert_same(load(f"{server.url}/x.safetensors"), data + 1)
        assert len(server.ranges) >= asked + 2  # nothing tells versions apart: the cache is not trusted


@pytest.mark.slow
def test_processes_share_the_cache(tmp_path):
    """Several processes read one dataset at once, each through the cache that all share."""
    _images(tmp_path / "data", 300, 5000)
    program = (
        "import sys, torch, tensorclass as tc; data = tc.TensorClassDataset(sys.argv[1]); "
        "rows = torch.randperm(len(data)); found = data[rows]; assert found['label'].equal(rows); "
        "assert found['pixels'][:, 0].equal(((rows * 5000) % 251).to(torch.uint8)); print(len(data))"
    )
    with serving(tmp_path) as server:
        jobs = [
            subprocess.Popen([sys.executable, "-c", program, f"{server.url}/data"], stdout=subprocess.PIPE, text=True)
            for _ in range(3)
        ]
        assert [job.communicate()[0].strip() for job in jobs] == ["300"] * 3
        size = sum([file.stat().st_size for file in (tmp_path / "data").iterdir()])
        asked = len(server.ranges)
        again = subprocess.run([sys.executable, "-c", program, f"{server.url}/data"], capture_output=True, check=True)
        assert again.stdout.strip() == b"300"
        assert len(server.ranges) == asked + 1  # the manifest
        assert sum([end - begin for begin, end in server.ranges]) < 4 * size


# ---- uploads -----------------------------------------------------------------------------------------------------


def test_uploads_are_atomic(tmp_path, monkeypatch):
    """Stores that write in place get a temporary name first; what fails leaves the old file, and nothing else."""
    url = f"file://{tmp_path}/x.safetensors"
    old, new = TensorDict(a=torch.zeros(3)), TensorDict(a=torch.ones(3))
    old.save(url)
    assert_same(load(url), old)
    local: Any = type(fsspec.filesystem("file"))
    for name in ("put_file", "mv"):
        known = getattr(local, name)

        def fails(self: Any, first: str, second: str, *rest: Any, known: Any = known, **options: Any) -> None:
            Path(second).write_bytes(Path(first).read_bytes()[:10]) if known.__name__ == "put_file" else None
            raise ConnectionError("the line is down")

        with monkeypatch.context() as patched:
            patched.setattr(local, name, fails)
            with pytest.raises(OSError, match=f"failed {TRIES} times: ConnectionError") as caught:
                new.save(url)
        assert caught.value.filename == url
        assert os.listdir(tmp_path) == ["x.safetensors"]
        assert_same(load(url), old)
    new.save(url)
    assert os.listdir(tmp_path) == ["x.safetensors"]
    assert_same(load(url), new)


def test_the_extra(monkeypatch):
    """Without fsspec the error says what to install."""
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(ImportError, match=r"tensorclass\[remote\]"):
        load("memory://b/x.safetensors")


@pytest.mark.parametrize(
    ("status", "error", "message"),
    [
        (404, FileNotFoundError, "looking it up"),
        (410, FileNotFoundError, "looking it up"),
        (401, PermissionError, "401"),
        (403, PermissionError, "403"),
        (429, OSError, f"failed {TRIES} times.*429"),
        (500, OSError, f"failed {TRIES} times.*500"),
        (503, OSError, f"failed {TRIES} times.*503"),
    ],
)
def test_only_an_absent_file_is_absent(status, error, message, tmp_path):
    """A server that refuses, or that is down, is told apart from a file that isn't there, and asked again."""
    TensorDict(a=torch.arange(3)).save(tmp_path / "x.safetensors")
    with serving(tmp_path) as server:
        server.status = status
        url = f"{server.url}/x.safetensors"
        with pytest.raises(OSError, match=message) as caught:
            load(url)
        assert type(caught.value) is error
        assert caught.value.filename == url
        server.status = 0
        assert load(url)["a"].tolist() == [0, 1, 2]


def test_a_server_that_sends_nothing(tmp_path, monkeypatch):
    """A request ends after some seconds without a byte; the variable says how many."""
    monkeypatch.setenv("TENSORCLASS_TIMEOUT", "0.05")
    TensorDict(a=torch.arange(3)).save(tmp_path / "x.safetensors")
    with serving(tmp_path) as server:
        server.status, server.pause = 503, 0.5
        with pytest.raises(OSError, match=f"failed {TRIES} times.*imeout"):
            load(f"{server.url}/x.safetensors")
