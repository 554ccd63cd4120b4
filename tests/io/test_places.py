"""A URL is never a local path: every function that takes a path reads or writes there, or names the scheme."""

from __future__ import annotations

import errno
import importlib
import inspect
import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import fsspec
import pytest
import torch
from torch import Tensor

from tensorclass import (
    DatasetWriter,
    MemoryMappedTensor,
    PersistentTensorDict,
    TensorClass,
    TensorClassDataset,
    TensorDict,
    append_memmap,
    convert,
    from_consolidated,
    from_csv,
    from_h5,
    from_json,
    from_parquet,
    from_safetensors,
    from_zarr,
    is_memmap_archive,
    load,
    load_memmap,
    memmap,
    pack_memmap,
    refresh_archive_checksums,
    save,
    to_safetensors,
    unpack_memmap,
)
from tensorclass.errors import ArgumentError, UnsupportedOperationError
from tensorclass.io import _access, _remote, remote_access
from tensorclass.io._access import current_access
from tensorclass.typing import Int64
from tensorclass.utils import print_directory_tree

Call = Callable[[Any], Any]


class Row(TensorClass):
    n: Int64[Tensor, ""]


def some() -> Any:
    """A container with one batch dim."""
    return TensorDict(n=torch.arange(3), batch_size=[3])


def typed() -> Row:
    """The same rows as instances."""
    return Row(torch.arange(3))


def data() -> TensorClassDataset[Row]:
    """A dataset of them."""
    return TensorClassDataset("here", Row)


class Ray:
    """What looks like a dataset of Ray."""

    def iter_batches(self, **_: Any) -> Any:
        """The rows as a table."""
        yield typed().to_arrow()


def same(batch: Any) -> Any:
    """The function of a map."""
    return batch


T = torch.zeros(2)
M = MemoryMappedTensor
CALLS: dict[str, Call] = {
    # batches
    "SavingOps.consolidate(filename)": lambda url: some().consolidate(url),
    "SavingOps.dumps(prefix)": lambda url: some().dumps(url),
    "SavingOps.from_consolidated(filename)": TensorDict.from_consolidated,
    "SavingOps.load(prefix)": TensorDict.load,
    "SavingOps.load_(prefix)": lambda url: some().load_(url),
    "SavingOps.load_memmap(prefix)": TensorDict.load_memmap,
    "SavingOps.load_memmap_(prefix)": lambda url: some().load_memmap_(url),
    "SavingOps.memmap(prefix)": lambda url: some().memmap(url),
    "SavingOps.memmap_(prefix)": lambda url: some().memmap_(url),
    "SavingOps.memmap_like(prefix)": lambda url: some().memmap_like(url),
    "SavingOps.save(prefix)": lambda url: some().save(url),
    "append_memmap(prefix)": lambda url: append_memmap(url, some()),
    "from_consolidated(filename)": from_consolidated,
    "from_safetensors(path)": from_safetensors,
    "is_memmap_archive(path)": is_memmap_archive,
    "load(prefix)": load,
    "load_memmap(prefix)": load_memmap,
    "memmap(prefix)": lambda url: memmap(some(), url),
    "pack_memmap(archive_path)": lambda url: pack_memmap("saved", url),
    "pack_memmap(prefix)": lambda url: pack_memmap(url, "packed.tdz"),
    "print_directory_tree(path)": print_directory_tree,
    "refresh_archive_checksums(archive_path)": refresh_archive_checksums,
    "save(prefix)": lambda url: save(some(), url),
    "to_safetensors(path)": lambda url: to_safetensors(some(), url),
    "unpack_memmap(archive_path)": lambda url: unpack_memmap(url, "unpacked"),
    "unpack_memmap(prefix)": lambda url: unpack_memmap("saved.tdz", url),
    "MemoryMappedTensor.__new__(filename)": lambda url: M(T, filename=url),
    "MemoryMappedTensor.__new__(source)": lambda url: M(url, dtype=torch.float32, shape=(2,)),
    "MemoryMappedTensor.empty_like(filename)": lambda url: M.empty_like(T, filename=url),
    "MemoryMappedTensor.from_filename(filename)": lambda url: M.from_filename(url, torch.float32, (2,)),
    "MemoryMappedTensor.from_storage(filename)": lambda url: M.from_storage(
        T.untyped_storage(), dtype=T.dtype, shape=(2,), filename=url
    ),
    "MemoryMappedTensor.from_tensor(filename)": lambda url: M.from_tensor(T, filename=url),
    "MemoryMappedTensor.full_like(filename)": lambda url: M.full_like(T, 1, filename=url),
    "MemoryMappedTensor.ones_like(filename)": lambda url: M.ones_like(T, filename=url),
    "MemoryMappedTensor.zeros_like(filename)": lambda url: M.zeros_like(T, filename=url),
    # tables
    "JsonMethods.from_json(path)": lambda url: Row.from_json(path=url),
    "JsonMethods.from_json(source)": lambda url: Row.from_json(Path(url)),
    "JsonMethods.to_json(path)": lambda url: typed().to_json(url),
    "TableOps.from_csv(path)": TensorDict.from_csv,
    "TableOps.from_h5(filename)": TensorDict.from_h5,
    "TableOps.from_parquet(path)": TensorDict.from_parquet,
    "TableOps.from_zarr(filename)": TensorDict.from_zarr,
    "TableOps.to_csv(path)": lambda url: some().to_csv(url),
    "TableOps.to_h5(filename)": lambda url: some().to_h5(url),
    "TableOps.to_json(path)": lambda url: some().to_json(url),
    "TableOps.to_parquet(path)": lambda url: some().to_parquet(url),
    "TableOps.to_zarr(filename)": lambda url: some().to_zarr(url),
    "convert(source)": lambda url: convert(url, "x.csv"),
    "convert(target)": lambda url: convert("x.json", url),
    "from_csv(path)": from_csv,
    "from_h5(h5_file)": from_h5,
    "from_json(path)": from_json,
    "from_parquet(path)": from_parquet,
    "from_zarr(zarr_file)": from_zarr,
    "PersistentTensorDict.__init__(filename)": lambda url: PersistentTensorDict(filename=url, mode="w"),
    "PersistentTensorDict.create(path)": lambda url: PersistentTensorDict.create(some(), url, "h5"),
    "StoreOps.clone(newfile)": lambda url: from_h5("x.h5").clone(newfile=url),
    "StoreOps.from_dict(filename)": lambda url: PersistentTensorDict.from_dict(some(), filename=url),
    "PersistentTensorDict.open(path)": PersistentTensorDict.open,
    # datasets
    "DatasetWriter.__init__(path)": lambda url: DatasetWriter(url, Row).close(),
    "Exchange.from_arrow(out)": lambda url: TensorClassDataset.from_arrow(typed().to_arrow(), url, Row),
    "Exchange.from_csv(out)": lambda url: TensorClassDataset.from_csv("x.csv", url, Row),
    "Exchange.from_csv(path)": lambda url: TensorClassDataset.from_csv(url, "new", Row),
    "Exchange.from_hf(out)": lambda url: TensorClassDataset.from_hf(typed().to_hf(), url, Row),
    "Exchange.from_json(out)": lambda url: TensorClassDataset.from_json("x.jsonl", url, Row),
    "Exchange.from_json(path)": lambda url: TensorClassDataset.from_json(url, "new", Row),
    "Exchange.from_parquet(out)": lambda url: TensorClassDataset.from_parquet("x.parquet", url, Row),
    "Exchange.from_parquet(path)": lambda url: TensorClassDataset.from_parquet(url, "new", Row),
    "Exchange.to_csv(path)": lambda url: data().to_csv(url),
    "Exchange.to_hf(path)": lambda url: data().to_hf(url),
    "Exchange.to_json(path)": lambda url: data().to_json(url),
    "Exchange.to_parquet(path)": lambda url: data().to_parquet(url),
    "Scaled.filter(out)": lambda url: data().filter(lambda batch: batch.n > 0, out=url, num_workers=0),
    "Scaled.from_ray(out)": lambda url: TensorClassDataset.from_ray(Ray(), url, Row),
    "Scaled.group_by(out)": lambda url: data().group_by("n", out=url, num_workers=0),
    "Scaled.map(out)": lambda url: data().map(same, out=url, num_workers=0),
    "Scaled.repartition(out)": lambda url: data().repartition(2, out=url, num_workers=0),
    "Scaled.sample(out)": lambda url: data().sample(2, out=url, num_workers=0),
    "Scaled.shuffle(out)": lambda url: data().shuffle(out=url, num_workers=0),
    "Scaled.sort_by(out)": lambda url: data().sort_by("n", out=url, num_workers=0),
    "TensorClassDataset.__init__(path)": TensorClassDataset,
    "TensorClassDataset.compact(out)": lambda url: data().compact(url),
    "TensorClassDataset.create(path)": lambda url: TensorClassDataset.create(url, Row).close(),
    "TensorClassDataset.from_map(out)": lambda url: TensorClassDataset.from_map([typed()], same, url),
}
"""Every argument of the public interface that is a path, and a call that passes a URL there."""

NOT_PATHS = {
    "RowOps.scalars(prefix)", "StateOps.state_dict(prefix)", "FileFormatError.__init__(path)",
    "assert_close(prefix)", "timeit.print(prefix)",
}  # fmt: skip
"""Arguments whose names look like those of paths: prefixes of keys and lines, and what an error says."""

_NAMES = re.compile(r"(^|_)(path|paths|prefix|file|newfile|filename|folder|dir|directory|root)$")
_TYPES = re.compile(r"StrPath|PathLike|\bPaths\b|FilePath")
_MODULES = ("", ".io", ".parallel", ".nn", ".functional", ".testing", ".utils", ".typing", ".errors", ".nn.functional")


def _public() -> Iterator[tuple[str, Any]]:
    """Public functions, and the methods and constructors of public classes, with their qualified names."""
    for module in [importlib.import_module(f"tensorclass{name}") for name in _MODULES]:
        for name in [name for name in dir(module) if not name.startswith("_")]:
            value = getattr(module, name)
            if not inspect.isclass(value):
                found = [value]
            else:
                found = [getattr(value, key, None) for key in ("__init__", "__new__", *dir(value)) if _said(key)]
            for one in [inspect.unwrap(getattr(f, "__func__", f)) for f in found if callable(f)]:
                if str(getattr(one, "__module__", "")).startswith("tensorclass"):
                    yield getattr(one, "__qualname__", name), one


def _said(name: str) -> bool:
    return not name.startswith("_") or name in ("__init__", "__new__")


def paths_of_the_interface() -> set[str]:
    """Each argument that is a path: by its annotation or its name."""
    found = set()
    for name, function in _public():
        try:
            parameters = inspect.signature(function).parameters.values()
        except (TypeError, ValueError):
            continue
        found |= {f"{name}({p.name})" for p in parameters if _NAMES.search(p.name) or _TYPES.search(str(p.annotation))}
    return found


def test_every_path_has_a_row() -> None:
    """A new function that takes a path gets a row in the table; a row whose function is gone goes too."""
    there = {name for name in paths_of_the_interface() if not name.startswith("Module.")} - NOT_PATHS
    made_by_hand = {name for name in CALLS if "MemoryMappedTensor.__new__" in name}
    assert there | made_by_hand == set(CALLS), there ^ set(CALLS)


SCHEMES = {
    "s3": "s3://bucket/x", "gs": "gs://bucket/x", "http": "http://host.invalid/x", "https": "https://host.invalid/x",
    "memory": "memory://bucket/x", "file": "file:///proc/x", "hf": "hf://datasets/a/x", "S3": "S3://bucket/x",
    "one slash": "s3:/bucket/x", "path": Path("s3://bucket/x"), "blanks": "  s3://bucket/x",
    "chain": "simplecache::s3://bucket/x", "unknown": "nothing-like-it://x",
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the local files that the calls read."""
    here = tmp_path_factory.mktemp("places")
    some().save(here / "saved")
    some().save(here / "saved.tdz")
    some().to_csv(here / "x.csv")
    some().to_json(here / "x.json")
    some().to_json(here / "x.jsonl", lines=True)
    some().to_parquet(here / "x.parquet")
    some().to_h5(here / "x.h5").close()
    with TensorClassDataset.create(here / "here", Row) as writer:
        writer.append(typed())
    return here


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", CALLS)
def test_a_url_is_no_local_path(name: str, scheme: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read or written in its store, or the error names the scheme; nothing appears on the disk."""
    url, asked = SCHEMES[scheme], set()

    def store(url: str) -> tuple[Any, str]:
        asked.add(url.partition("://")[0])
        return fsspec.filesystem("memory"), f"/{scheme}/{url.partition('://')[2]}"

    fsspec.filesystem("memory").store.clear()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(_remote, "store_at", store)
    monkeypatch.setattr(_access, "PAUSE", 0)
    before = sorted(os.listdir("."))
    wanted = str(url).strip().partition(":/")[0].lower()
    wrong = ""
    try:
        CALLS[name](url)
    except (UnsupportedOperationError, OSError) as error:
        wrong = str(error).lower()
    went_there = asked == {wanted} or (scheme == "memory" and "zarr" in name)
    named = f"{wanted}:/" in wrong or (scheme == "file" and "zarr" in name and "/proc/x" in wrong)
    assert named if wrong else went_there, wrong
    assert sorted(os.listdir(".")) == before
    assert not asked or scheme not in ("one slash", "path", "blanks")


WRONG: dict[str, Any] = {"empty": "", "number": 3, "bytes": b"x", "null": "a\0b", "list": [], "flag": True}
TAKE_OTHERS = {
    "MemoryMappedTensor.__new__(source)": {"number", "list", "flag"},
    "JsonMethods.from_json(source)": {"empty", "number", "bytes", "null", "list", "flag"},
}
"""Arguments that may be something else than a path."""


@pytest.mark.parametrize("name", CALLS)
def test_what_is_no_path(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each function that takes a path says what it was given in place of one, and makes nothing."""
    monkeypatch.chdir(folder)
    before = sorted(os.listdir("."))
    for kind in sorted(set(WRONG) - TAKE_OTHERS.get(name, set())):
        with pytest.raises(ArgumentError, match=r"path|folder|file"):
            CALLS[name](WRONG[kind])
    assert sorted(os.listdir(".")) == before


@pytest.mark.parametrize("name", CALLS)
def test_options_reach_every_store(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever takes a URL reaches its store with the options of the block."""
    seen = set()

    def store(url: str) -> tuple[Any, str]:
        access = current_access()
        seen.add((str(access.storage_options), access.timeout, access.retries))
        return fsspec.filesystem("memory"), f"/{url.partition('://')[2]}"

    fsspec.filesystem("memory").store.clear()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(_remote, "store_at", store)
    with (
        remote_access(storage_options={"anon": True}, timeout=3, retries=0),
        suppress(UnsupportedOperationError, OSError),
    ):
        CALLS[name]("s3://bucket/x")
    assert seen in (set(), {("{'anon': True}", 3, 0)})


def test_a_link_says_what_to_give(tmp_path: Path) -> None:
    """A link is not followed; the path that the message names is read."""
    save(some(), tmp_path / "x.safetensors")
    link = tmp_path / "link.safetensors"
    link.symlink_to("x.safetensors")
    for use in (load, lambda path: save(some(), path)):
        with pytest.raises(OSError, match=r"os\.path\.realpath") as caught:
            use(link)
        assert caught.value.errno == errno.ELOOP
    assert load(os.path.realpath(link))["n"].tolist() == [0, 1, 2]
