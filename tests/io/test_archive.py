"""Single files: archives with and without compression, consolidated files, and what damaged ones come to."""

from __future__ import annotations

import bz2
import json
import lzma
import zlib
from pathlib import Path
from typing import Any

import pytest
import tensordict
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import tensorclass as tc
from tensorclass import (
    MemoryMappedTensor,
    TensorDict,
    TensorDictFuture,
    TensorDictParams,
    from_consolidated,
    is_memmap_archive,
    lazy_stack,
    load,
    load_memmap,
    pack_memmap,
    refresh_archive_checksums,
    save,
    tensorclass,
    unpack_memmap,
)
from tensorclass.cli import main
from tensorclass.errors import (
    ArgumentError,
    ChecksumError,
    FileFormatError,
    MissingKeyError,
    SchemaError,
    UnsupportedOperationError,
)
from tensorclass.io import _codecs
from tensorclass.io._dtypes import CARRIED, TORCH
from tensorclass.typing import Float32, Int64
from tests.io._damage import change_meta, join, split
from tests.io._exact import assert_same
from tests.io._faults import Faulty, Killed
from tests.io.test_grow import ROWS
from tests.io.test_round_trip import sample
from tests.io.test_typed import everything

CODECS = ["deflate", "bzip2", "lzma"]
KINDS: dict[str, Any] = {
    **{kind: lambda kind=kind: ROWS[kind](60) for kind in ROWS},
    "everything": everything,
    "parameters": lambda: TensorDictParams(TensorDict(a=torch.zeros(400))),
    "zeros": lambda: TensorDict(a=torch.zeros(4000), b=torch.zeros(0, 3), c=torch.tensor(1.0)),
    "dtypes": lambda: TensorDict({str(dtype): sample(dtype, (512,)) for dtype in [*TORCH.values(), *CARRIED.values()]}),
}


@tensorclass
class Point:
    x: Float32[Tensor, "2"]
    label: Int64[Tensor, ""]
    source: str = "scan"


def _point(n: int = 3) -> Point:
    return Point(x=torch.arange(2.0 * n).view(n, 2), label=torch.arange(n))


# ---- packing -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", [None, *CODECS])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind(kind, codec, tmp_path):
    """Folder to archive and back is the same bytes; a save to an archive is what packing the folder gives."""
    data = KINDS[kind]()
    data.save(tmp_path / "x", checksums=True)
    archive = pack_memmap(tmp_path / "x", tmp_path / "x.tdz", compression=codec)
    assert archive == tmp_path / "x.tdz"
    assert is_memmap_archive(archive)
    assert is_memmap_archive(str(archive))
    for mmap in (True, False):
        assert_same(load(archive, mmap=mmap, verify=True), load(tmp_path / "x", mmap=False))
    data.save(tmp_path / "y.tdz", compression=codec, checksums=True)
    assert (tmp_path / "y.tdz").read_bytes() == archive.read_bytes()
    assert unpack_memmap(archive, tmp_path / "z" / "z") == tmp_path / "z" / "z"
    raw = (tmp_path / "x" / "data.safetensors").read_bytes()
    assert (tmp_path / "z" / "z" / "data.safetensors").read_bytes() == raw
    if codec is None:
        assert archive.read_bytes() == raw
        assert load_file(archive).keys() == load_file(tmp_path / "x" / "data.safetensors").keys()
    assert main(["verify", str(archive)]) == 0


@pytest.mark.parametrize("codec", CODECS)
def test_what_is_compressed(codec, tmp_path):
    """Only tensors that become smaller are compressed; the bytes are those of the named format."""
    data = TensorDict(
        a=torch.zeros(1000),
        noise=torch.randint(0, 256, (4000,), dtype=torch.uint8),
        small=torch.tensor(1),
        n={"b": torch.ones(999).long()},
    )
    found = data.save(tmp_path / "x.tdz", compression=codec)
    assert_same(found, data)
    assert (tmp_path / "x.tdz").stat().st_size < 6500
    header, payload = split((tmp_path / "x.tdz").read_bytes())
    about = json.loads(header["__metadata__"]["tensorclass"])["compressed"]
    assert about == {
        "a": {"codec": codec, "dtype": "F32", "shape": [1000]},
        "n.b": {"codec": codec, "dtype": "I64", "shape": [999]},
    }
    begin, end = header["n.b"]["data_offsets"]
    raw = {"deflate": zlib, "bzip2": bz2, "lzma": lzma}[codec].decompress(payload[begin:end])
    assert raw == torch.ones(999).long().numpy().tobytes()
    assert load_file(tmp_path / "x.tdz")["noise"].equal(data["noise"])
    assert load(tmp_path / "x.tdz", subpath="noise").equal(data["noise"])
    for again in (load_memmap(tmp_path / "x.tdz"), load_memmap(tmp_path / "x.tdz", mode="r")):
        assert_same(again.apply(lambda leaf: leaf.as_subclass(Tensor)), data)
        again["a"].fill_(1)
    assert load(tmp_path / "x.tdz")["a"].sum() == 0
    for call in (load, load_memmap):
        with pytest.raises(UnsupportedOperationError, match="compressed"):
            call(tmp_path / "x.tdz", mode="r+")
    pack_memmap(tmp_path / "x.tdz", tmp_path / "plain.tdz", compression="stored")
    assert load_memmap(tmp_path / "plain.tdz", mode="r+")["a"].numel() == 1000


def test_levels_and_names(tmp_path):
    """The names and numbers that the anchor takes; others are errors before a file is touched."""
    TensorDict(a=torch.arange(10_000)).save(tmp_path / "x")
    sizes = {}
    for given in ("stored", "deflate", "deflated", "bzip2", "lzma", 0, 8, 12, 14, None):
        tensordict.TensorDict(a=torch.zeros(3)).save(tmp_path / "theirs.tdz", compression=given)
        sizes[given] = pack_memmap(tmp_path / "x", tmp_path / "y", compression=given).stat().st_size
    assert sizes["deflate"] == sizes["deflated"] == sizes[8] < sizes["stored"] == sizes[0] == sizes[None]
    assert sizes["bzip2"] == sizes[12]
    assert sizes["lzma"] == sizes[14]
    quick = pack_memmap(tmp_path / "x", tmp_path / "q", compression="deflate", compresslevel=1).stat().st_size
    assert quick != pack_memmap(tmp_path / "x", tmp_path / "q", compression="deflate", compresslevel=9).stat().st_size
    pack_memmap(tmp_path / "x", tmp_path / "q", compression="deflate", compresslevel=0)
    for codec, level in (
        ("zip", None),
        ("zlib", None),
        (3, None),
        (True, None),
        (1.5, None),
        (["lzma"], None),
        ("deflate", 10),
        ("deflate", -1),
        ("bzip2", 0),
        ("lzma", True),
        ("deflate", "9"),
    ):
        with pytest.raises(ArgumentError, match="compress"):
            pack_memmap(tmp_path / "x", tmp_path / "new", compression=codec, compresslevel=level)
    for call in (TensorDict(a=torch.zeros(3)).save, TensorDict(a=torch.zeros(3)).memmap):
        with pytest.raises(ArgumentError, match="folder is not compressed"):
            call(tmp_path / "new", compression="deflate")
        with pytest.raises(ArgumentError, match="one of 'stored'"):
            call(tmp_path / "new.tdz", compression="zip")
    assert not (tmp_path / "new").exists()
    assert TensorDict(a=torch.zeros(300)).save(tmp_path / "any.bin", archive=True, compression="lzma")["a"].shape == (
        300,
    )
    assert is_memmap_archive(tmp_path / "any.bin")
    TensorDict(a=torch.zeros(3)).save(tmp_path / "folder.tdz", archive=False)
    assert (tmp_path / "folder.tdz" / "data.safetensors").exists()
    assert load(tmp_path / "folder.tdz")["a"].shape == (3,)
    mapped = TensorDict(a=torch.zeros(300)).memmap(tmp_path / "m.tdz", compression="lzma")
    assert (mapped.is_locked, mapped.is_memmap()) == (True, False)


def test_places(tmp_path):
    """What is no folder or no archive is an error, with its path."""
    _point().save(tmp_path / "x")
    _point().save(tmp_path / "x.tdz")
    save_file({"a": torch.ones(3)}, tmp_path / "foreign.safetensors")
    (tmp_path / "text").write_text("nothing of the kind")
    (tmp_path / "zip").write_bytes(b"PK\x03\x04 damaged")
    for name in ("x", "absent", "foreign.safetensors", "text", "zip"):
        assert not is_memmap_archive(tmp_path / name)
        for call in (lambda path: unpack_memmap(path, tmp_path / "new"), refresh_archive_checksums):
            with pytest.raises(FileFormatError, match=name):
                call(tmp_path / name)
    with pytest.raises(TypeError):
        is_memmap_archive(3)  # type: ignore[arg-type]  # the error
    for call, error in (
        (lambda: pack_memmap(tmp_path / "absent", tmp_path / "new"), FileNotFoundError),
        (lambda: pack_memmap(tmp_path / "x" / "label", tmp_path / "new"), FileNotFoundError),
        (lambda: pack_memmap(tmp_path / "x", tmp_path / "x" / "new"), ArgumentError),
        (lambda: pack_memmap(tmp_path / "x", tmp_path / "x"), ArgumentError),
        (lambda: pack_memmap(tmp_path / "x", tmp_path / "no" / "new"), FileNotFoundError),
        (lambda: unpack_memmap(tmp_path / "x.tdz", tmp_path / "text"), NotADirectoryError),
    ):
        with pytest.raises(error):
            call()
    assert not (tmp_path / "new").exists()
    pack_memmap(tmp_path / "foreign.safetensors", tmp_path / "ours.tdz")
    assert is_memmap_archive(tmp_path / "ours.tdz")
    assert load(tmp_path / "ours.tdz")["a"].sum() == 3


def test_classes_that_are_not_imported(tmp_path):
    """Packing needs no class: it is in the archive as it was in the folder. An indexed folder becomes one file."""
    mapped = _point().memmap(tmp_path / "x")
    raw = (tmp_path / "x" / "data.safetensors").read_bytes().replace(b"Point", b"Plint")
    header, payload = split(raw)
    (tmp_path / "x" / "data.safetensors").write_bytes(join(header, payload))
    change_meta(tmp_path / "x" / "data.safetensors", lambda meta: None)
    pack_memmap(tmp_path / "x", tmp_path / "x.tdz", compression="deflate")
    assert b"Plint" in (tmp_path / "x.tdz").read_bytes()
    assert type(load(tmp_path / "x.tdz")) is TensorDict
    assert type(Point.load(tmp_path / "x.tdz")) is Point
    mapped = TensorDict(a=torch.zeros(3)).memmap(tmp_path / "y")
    mapped.make_memmap_from_tensor("b", torch.arange(5))
    pack_memmap(tmp_path / "y", tmp_path / "y.tdz")
    assert load(tmp_path / "y.tdz")["b"].tolist() == [0, 1, 2, 3, 4]
    unpack_memmap(tmp_path / "y.tdz", tmp_path / "y")
    assert load(tmp_path / "y")["b"].tolist() == [0, 1, 2, 3, 4]
    assert mapped["b"].tolist() == [0, 1, 2, 3, 4]


def test_checksums_are_refreshed(tmp_path):
    """Writes in place make the checksums wrong; refreshing writes them anew, into a new file."""
    _point().save(tmp_path / "x.tdz", checksums=True)
    mapped = load_memmap(tmp_path / "x.tdz", mode="r+")
    mapped["label"].fill_(7)
    with pytest.raises(ChecksumError, match="label"):
        load(tmp_path / "x.tdz", verify=True)
    assert refresh_archive_checksums(tmp_path / "x.tdz") == tmp_path / "x.tdz"
    assert load(tmp_path / "x.tdz", verify=True).label.tolist() == [7, 7, 7]
    mapped["label"].fill_(8)
    assert load(tmp_path / "x.tdz", verify=True).label.tolist() == [7, 7, 7]
    _point().save(tmp_path / "plain.tdz")
    refresh_archive_checksums(tmp_path / "plain.tdz")
    assert load(tmp_path / "plain.tdz", verify=True).label.tolist() == [0, 1, 2]
    _point(300).save(tmp_path / "small.tdz", compression="lzma", checksums=True)
    raw = (tmp_path / "small.tdz").read_bytes()
    refresh_archive_checksums(tmp_path / "small.tdz")
    assert (tmp_path / "small.tdz").read_bytes() == raw
    tensordict.TensorDict(a=torch.zeros(3)).save(tmp_path / "theirs.tdz")
    with pytest.raises(UnsupportedOperationError, match="tensordict"):
        refresh_archive_checksums(tmp_path / "theirs.tdz")


def test_archives_of_the_anchor(tmp_path):
    """Its folders and archives are packed and unpacked, and the same calls answer alike."""
    data = tensordict.TensorDict(a=torch.zeros(1000), b={"c": torch.ones(3)}, s="q", batch_size=[])
    data.save(tmp_path / "folder")
    for codec in (None, "deflate"):
        data.save(tmp_path / "x.tdz", compression=codec)
        assert is_memmap_archive(tmp_path / "x.tdz")
        unpack_memmap(tmp_path / "x.tdz", tmp_path / "u")
        pack_memmap(tmp_path / "folder", tmp_path / "p.tdz", compression=codec)
        for path in (tmp_path / "u", tmp_path / "p.tdz"):
            assert load(path)["b", "c"].sum() == 3
            assert load(path)["s"] == "q"
    for lib, cls in ((tc, TensorDict), (tensordict, tensordict.TensorDict)):
        own = tmp_path / lib.__name__
        cls(a=torch.zeros(1000)).save(own / "f")
        for codec in (None, "stored", "deflate", "bzip2", "lzma", 8):
            assert lib.pack_memmap(own / "f", own / "f.tdz", compression=codec) == own / "f.tdz"
            assert lib.is_memmap_archive(own / "f.tdz")
            assert not lib.is_memmap_archive(own / "f")
            assert lib.unpack_memmap(own / "f.tdz", own / "g") == own / "g"
            assert lib.load(own / "g")["a"].shape == (1000,)
            assert lib.refresh_archive_checksums(own / "f.tdz") == own / "f.tdz"
        for call in (
            lambda lib=lib, own=own: lib.pack_memmap(own / "f", own / "f" / "x.tdz"),
            lambda lib=lib, own=own: lib.pack_memmap(own / "f", own / "x.tdz", compression="zip"),
            lambda lib=lib, own=own: lib.unpack_memmap(own / "f", own / "x"),
            lambda lib=lib, own=own: lib.refresh_archive_checksums(own / "f"),
            lambda cls=cls, own=own: cls(a=torch.zeros(3)).save(own / "h", compression="deflate"),
        ):
            with pytest.raises(ValueError):
                call()


# ---- damage ------------------------------------------------------------------------------------------------------


def _outcome(path: Path) -> Any:
    """The sum of what was loaded, or the path in the error."""
    try:
        return float(load(path)["a"].abs().sum())
    except FileFormatError as error:
        return error.path


@pytest.mark.parametrize("codec", CODECS)
def test_damaged_archives(codec, tmp_path):
    """Cut, changed and lying archives are errors with path and field; no more is unpacked than the header says."""
    path = tmp_path / "x.tdz"
    TensorDict(a=torch.zeros(3000), b=torch.rand(10)).save(path, compression=codec)
    raw = path.read_bytes()
    header, payload = split(raw)
    begin, end = header["a"]["data_offsets"]
    for at in range(begin, end, max(1, (end - begin) // 12)):
        path.write_bytes(join(header, payload[:at] + bytes([payload[at] ^ 0x5A]) + payload[at + 1 :]))
        change_meta(path, lambda meta: None)
        assert _outcome(path) in (str(path), 0.0)
    for size in (0, 2999, 3001, 2_000_000):
        path.write_bytes(raw)
        change_meta(path, lambda meta, size=size: meta["compressed"]["a"].update(shape=[size]))
        with pytest.raises(FileFormatError, match=r"x\.tdz.*`a`"):
            load(path)
    changes: list[Any] = [
        lambda meta: meta["compressed"]["a"].update(shape=[2**61]),
        lambda meta: meta["compressed"]["a"].update(shape=[-1]),
        lambda meta: meta["compressed"]["a"].update(shape=[1] * 65),
        lambda meta: meta["compressed"]["a"].update(shape=[2**31] * 8),
        lambda meta: meta["compressed"]["a"].update(dtype="F3"),
        lambda meta: meta["compressed"]["a"].update(codec="zip"),
        lambda meta: meta["compressed"]["a"].update(more=1),
        lambda meta: meta["compressed"].update(b={"codec": codec, "dtype": "F32", "shape": [10]}),
        lambda meta: meta["compressed"].update(c={"codec": codec, "dtype": "F32", "shape": [10]}),
        lambda meta: meta.update(compressed=[]),
    ]
    for change in changes:
        path.write_bytes(raw)
        change_meta(path, change)
        for call in (
            load,
            load_memmap,
            lambda path: load(path, mmap=False),
            lambda path: unpack_memmap(path, tmp_path / "u"),
        ):
            with pytest.raises(FileFormatError):
                call(path)
        assert main(["verify", str(path)]) == 1


def test_bombs(tmp_path):
    """Unpacking stops at the size that the header says; a claim that no such bytes can make true is refused before."""
    path = tmp_path / "x.tdz"
    TensorDict(a=torch.zeros(1 << 20, dtype=torch.uint8)).save(path, compression="deflate")
    raw = path.read_bytes()
    seen = []

    class Watched:
        def __init__(self) -> None:
            self.inner = zlib.decompressobj()

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

        def decompress(self, data: bytes, most: int) -> bytes:
            found = self.inner.decompress(data, most)
            seen.append(len(found))
            return found

    change_meta(path, lambda meta: meta["compressed"]["a"].update(shape=[1000]))
    known = _codecs._CODECS["deflate"]
    _codecs._CODECS["deflate"] = known._replace(unpacker=Watched)
    try:
        with pytest.raises(FileFormatError, match="more than 1000 bytes"):
            load(path)
    finally:
        _codecs._CODECS["deflate"] = known
    assert sum(seen) <= 1001
    path.write_bytes(raw)
    change_meta(path, lambda meta: meta["compressed"]["a"].update(shape=[1 << 40]))
    with pytest.raises(FileFormatError, match="does not fit"):
        load(path)


@pytest.mark.slow
@pytest.mark.parametrize("door", ["pack", "save", "unpack", "refresh", "consolidate"])
def test_killed_at_every_step(door, tmp_path):
    """The archive, or the folder, is what it was or what it becomes."""
    old, new = TensorDict(a=torch.zeros(300), b=torch.zeros(2)), TensorDict(a=torch.ones(300), c=torch.zeros(3))
    new.save(tmp_path / "from")
    pack_memmap(tmp_path / "from", tmp_path / "from.tdz", compression="lzma")
    target = tmp_path / ("x" if door == "unpack" else "x.tdz")
    act = {
        "pack": lambda: pack_memmap(tmp_path / "from", target, compression="deflate"),
        "save": lambda: new.save(target, compression="bzip2"),
        "unpack": lambda: unpack_memmap(tmp_path / "from.tdz", target),
        "refresh": lambda: refresh_archive_checksums(target),
        "consolidate": lambda: new.consolidate(target),
    }[door]
    if door == "refresh":
        new = old
    old.save(target)
    with Faulty() as system:
        act()
    outcomes = []
    for at in range(len(system.calls)):
        old.save(target)
        with Faulty(at, Killed()), pytest.raises(Killed):
            act()
        found = load(target, mmap=False)
        outcomes.append("b" in found)
        assert_same(found, old if "b" in found else new)
    assert outcomes == sorted(outcomes, reverse=True)
    assert set(outcomes) == ({True} if door == "refresh" else {True, False})


# ---- consolidated files ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("kind", ["dense", "text", "typed", "lazy", "names", "device", "dtypes", "strides"])
def test_consolidated_files(kind, inplace, tmp_path):
    """The leaves are views into the file, and writes reach it; it opens as the class that was written."""
    data, before = ROWS[kind](4), ROWS[kind](4)
    found = data.consolidate(tmp_path / "x.bin", inplace=inplace)
    assert (found is data) is inplace
    assert (found.is_consolidated(), found.is_locked) == (True, True)
    assert data.is_consolidated() is inplace
    assert found.consolidate(tmp_path / "x.bin") is found
    file = tmp_path / "x.bin"
    for again in (from_consolidated(file), type(data).from_consolidated(file), load(file)):
        assert type(again) is type(data)
        assert again.names == before.names
        assert bool((again == before).all())
        assert not again.is_locked
    opened = from_consolidated(tmp_path / "x.bin")
    assert opened.is_consolidated()
    assert load_file(tmp_path / "x.bin")
    leaf = found if kind != "lazy" else found[1]
    leaf["x" if kind == "typed" else "a"].fill_(7)
    assert (from_consolidated(tmp_path / "x.bin") == found).all()
    assert not (opened == before).all()  # one page of memory until it is written to here
    other = found.consolidate(tmp_path / "y.bin")
    assert other is not found
    assert (from_consolidated(tmp_path / "y.bin") == found).all()
    memory = found.consolidate() if kind != "lazy" else None
    assert memory is None or (memory.is_consolidated() and not memory.is_memmap())


def test_consolidate_arguments(tmp_path):
    """Each argument does what it says beside a file, or is an error that names it."""
    data = TensorDict(a=torch.ones(3, requires_grad=True), b={"c": torch.zeros(2)})
    buffered = data.consolidate(tmp_path / "b.bin", use_buffer=True)
    assert buffered.is_consolidated()
    assert not buffered.is_memmap()
    buffered["a"].fill_(9)
    assert from_consolidated(tmp_path / "b.bin")["a"].tolist() == [1, 1, 1]
    assert (
        data.consolidate(tmp_path / "s.bin", share_memory=True, metadata=True, device="cpu")["a"].is_shared() is False
    )
    for path in (None, tmp_path / "f.bin"):
        future = data.consolidate(path, return_early=True, num_threads=2)
        assert type(future) is TensorDictFuture
        assert future.result().is_consolidated()
        assert data.consolidate(path, return_early=True).is_consolidated()
        for option in ("use_buffer", "non_blocking"):
            with pytest.raises(ArgumentError, match=option):
                data.consolidate(path, return_early=True, num_threads=2, **{option: True})
    for option in ({"device": "meta"}, {"pin_memory": True}):
        with pytest.raises(ArgumentError, match="CPU"):
            data.consolidate(tmp_path / "new.bin", **option)
    for call, error in (
        (lambda: data.consolidate(tmp_path), OSError),
        (lambda: data.consolidate(tmp_path / "no" / "new.bin"), OSError),
        (lambda: TensorDict(a=torch.eye(2).to_sparse()).consolidate(tmp_path / "new.bin"), UnsupportedOperationError),
        (lambda: data.consolidate(3), TypeError),
        (lambda: data.lock_().consolidate(tmp_path / "new.bin", inplace=True), RuntimeError),
        (lambda: from_consolidated(tmp_path / "absent"), FileNotFoundError),
        (lambda: Point.from_consolidated(tmp_path / "b.bin"), SchemaError),
    ):
        with pytest.raises(error):
            call()
    folder = TensorDict(a=torch.ones(3)).memmap(tmp_path / "folder")
    assert not folder.is_consolidated()
    assert not TensorDict(a=torch.ones(3)).memmap().is_consolidated()
    assert not from_consolidated(tmp_path / "b.bin")[:1].is_consolidated() if data.batch_dims else True


def test_consolidated_beside_the_anchor(tmp_path):
    """Flags and values are alike; the class is kept here, and each file of the anchor opens."""
    for lib, cls in ((tc, TensorDict), (tensordict, tensordict.TensorDict)):
        path = tmp_path / f"{lib.__name__}.bin"
        data = cls(a=torch.zeros(3), b={"c": torch.ones(3)}, s="q", batch_size=[3])
        found = data.consolidate(path)
        assert (found.is_consolidated(), found.is_locked) == (True, True)
        found["a"].fill_(7)
        opened = lib.from_consolidated(path)
        assert (opened.is_consolidated(), opened.is_locked, type(opened)) == (True, False, cls)
        assert opened["a"].tolist() == [7, 7, 7]
        opened["a"].fill_(8)
        assert cls.from_consolidated(path)["a"].tolist() == [7, 7, 7]
        assert data.consolidate(tmp_path / "in.bin", inplace=True) is data
        early = cls(a=torch.ones(3)).consolidate(tmp_path / "e.bin", return_early=True, num_threads=2)
        assert early.result().is_consolidated()
        assert cls(a=torch.ones(3)).consolidate(tmp_path / "u.bin", use_buffer=True).is_consolidated()
        assert cls(a=torch.ones(3, requires_grad=True)).consolidate(tmp_path / "g.bin")["a"].requires_grad is False
        with pytest.raises((RuntimeError, ValueError)):
            cls(a=torch.ones(3)).consolidate(tmp_path / "d.bin", device="meta")
    assert from_consolidated(tmp_path / "tensordict.bin")["b", "c"].tolist() == [1, 1, 1]
    _point().consolidate(tmp_path / "p.bin")
    assert type(from_consolidated(tmp_path / "p.bin")) is Point  # there it is a TensorDict
    assert type(TensorDict.from_consolidated(tmp_path / "p.bin")) is Point


# ---- futures, parts, files of others -----------------------------------------------------------------------------


def test_futures_of_save(tmp_path):
    """`save` with `return_early` and threads gives a future; its errors come out of `result`."""
    data = _point()
    for path, options in ((tmp_path / "x", {}), (tmp_path / "x.tdz", {"compression": "lzma", "checksums": True})):
        future = data.save(path, return_early=True, num_threads=2, **options)
        assert type(future) is TensorDictFuture
        assert_same(future.result(), data)
        assert_same(load(path, verify=bool(options)), data)
    assert type(data.save(tmp_path / "x", return_early=True)) is Point
    assert type(save(data, tmp_path / "x", return_early=True, num_threads=1, robust_key=False)) is Point
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        data.save(tmp_path / "file", return_early=True, num_threads=2).result()


def test_subpaths(tmp_path):
    """A text with slashes is a path, unless there is a key of that name; a tuple is exact. As in the anchor."""
    for lib, cls in ((tc, TensorDict), (tensordict, tensordict.TensorDict)):
        path = tmp_path / lib.__name__
        cls({"x": {"y": {"z": torch.zeros(3)}, "y/q": {"w": torch.ones(1)}}}).save(path)
        for part in ("x/y", ("x", "y"), "x/y/", "/x/y"):
            assert cls.load_memmap(path, subpath=part)["z"].shape == (3,)
        assert cls.load_memmap(path, subpath=("x", "y/q"))["w"].shape == (1,)
        for part in (("x/y",), "x.y", "x/y/q"):
            with pytest.raises((KeyError, ValueError)):
                cls.load_memmap(path, subpath=part)
    TensorDict({"a/b": torch.ones(1), "a": {"b": torch.zeros(2)}}).save(tmp_path / "both")
    assert load(tmp_path / "both", subpath="a/b").shape == (1,)
    assert load(tmp_path / "both", subpath=("a", "b")).shape == (2,)
    assert (
        load_memmap(tmp_path / "tensorclass", subpath="x/y").lock_().saved_path == tmp_path / "tensorclass" / "x" / "y"
    )
    with pytest.raises(MissingKeyError, match="no entry"):
        load(tmp_path / "both", subpath="a/c")


@tensordict.tensorclass
class TheirPoint:
    x: Tensor
    label: Tensor
    source: str


def test_safetensors_of_the_anchor(tmp_path):
    """What `to_safetensors` knows of structure is read: sizes, names, classes, values; lazy stacks are dense."""
    inner = tensordict.TensorDict(c=torch.ones(3, 2), batch_size=[3, 2])
    data = tensordict.TensorDict(
        {
            "a": torch.arange(3),
            "b": inner,
            "x.y": torch.ones(3),
            "n": tensordict.NonTensorData([1, {"k": None}]),
            "s": {"t": "q"},
            "e": {},
            "u": tensordict.UnbatchedTensor(torch.arange(5)),
        },
        batch_size=[3],
        names=["t"],
    )
    tensordict.to_safetensors(data, tmp_path / "x.safetensors")
    found = load(tmp_path / "x.safetensors")
    assert (found.batch_size, found.names, found["b"].batch_size) == ((3,), ["t"], (3, 2))
    assert (found["n"], found["s", "t"], list(found["e"].keys())) == ([1, {"k": None}], "q", [])
    assert found["u"].tolist() == [0, 1, 2, 3, 4]
    assert found["x.y"].shape == (3,)
    assert load(tmp_path / "x.safetensors", subpath="b/c").shape == (3, 2)
    assert type(load_memmap(tmp_path / "x.safetensors")["a"]) is MemoryMappedTensor
    stack = tensordict.LazyStackedTensorDict(
        *[tensordict.TensorDict(a=torch.full((2,), i)) for i in range(3)], stack_dim=0
    )
    tensordict.to_safetensors(stack, tmp_path / "l.safetensors")
    assert_same(
        load(tmp_path / "l.safetensors"), lazy_stack([TensorDict(a=torch.full((2,), i)) for i in range(3)]).densify()
    )
    theirs = TheirPoint(x=torch.ones(3, 2), label=torch.arange(3), source="q", batch_size=[3])
    tensordict.to_safetensors(theirs, tmp_path / "c.safetensors")
    assert type(load(tmp_path / "c.safetensors")) is TensorDict
    typed = Point.load(tmp_path / "c.safetensors")
    assert (typed.batch_size, typed.source) == ((3,), "q")
    for change in (
        lambda about: about.update(version=2),
        lambda about: about.pop("root"),
        lambda about: about["root"].update(batch_size=[4]),
        lambda about: about["root"].update(batch_size="x"),
        lambda about: about["root"]["keys"].pop("x"),
        lambda about: about["root"]["keys"].update(more={"tensor": "more"}),
        lambda about: about["root"]["keys"].update(more={"other": 1}),
        lambda about: about["root"].update(keys=[1]),
        lambda about: about["root"].update({"class": 3}),
    ):
        header, payload = split((tmp_path / "c.safetensors").read_bytes())
        about = json.loads(header["__metadata__"]["tensordict"])
        change(about)
        header["__metadata__"]["tensordict"] = json.dumps(about)
        (tmp_path / "d.safetensors").write_bytes(join(header, payload))
        with pytest.raises(FileFormatError, match=r"d\.safetensors"):
            load(tmp_path / "d.safetensors")
