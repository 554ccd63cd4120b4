"""Folders that grow by entries and by rows: what is there afterwards, for every kind of container, and after a kill."""

from __future__ import annotations

import gc
import json
import os
import pickle
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
import tensordict
import torch
from safetensors.torch import load_file
from torch import Tensor

import tensorclass as tc
from tensorclass import (
    MemoryMappedTensor,
    NonTensorStack,
    PerElement,
    RaggedTensor,
    Shared,
    TensorClassDataset,
    TensorDict,
    UnbatchedTensor,
    append_memmap,
    lazy_stack,
    load,
    load_memmap,
    save,
    tensorclass,
)
from tensorclass.cli import main
from tensorclass.errors import BatchSizeError, ChecksumError, FileFormatError, StructureError, UnsupportedOperationError
from tensorclass.io._paths import INDEX
from tensorclass.typing import Float32, Int64
from tests.io._exact import assert_same
from tests.io._faults import Faulty, Killed


@tensorclass
class Scan:
    x: Float32[Tensor, "2"]
    label: Int64[Tensor, ""]
    extra: Float32[Tensor, "k"] | None = None
    note: str = "a"


@tensorclass
class Words:
    x: Float32[Tensor, ""]
    word: PerElement[str]
    shared: Shared[Float32[Tensor, "2"]]


def _plain() -> Any:
    inner = TensorDict(c=torch.ones(3, 2), batch_size=[3])
    return TensorDict({"a": torch.arange(3), "b": inner, "s": "text"}, batch_size=[3])


def _files(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


# ---- entries -----------------------------------------------------------------------------------------------------

NEW: dict[str, tuple[Any, Callable[[Any, Any], Tensor], Tensor]] = {
    "zeros": ("n", lambda data, key: data.make_memmap(key, (3, 4)), torch.zeros(3, 4)),
    "size": ("n", lambda data, key: data.make_memmap(key, torch.Size([3])), torch.zeros(3)),
    "empty": ("n", lambda data, key: data.make_memmap(key, (3, 0), dtype=torch.int8), torch.zeros(3, 0).char()),
    "dtype": (
        "n", lambda data, key: data.make_memmap(key, (3,), dtype=torch.complex128), torch.zeros(3, dtype=torch.cdouble)
    ),
    "tensor": ("n", lambda data, key: data.make_memmap_from_tensor(key, torch.arange(3)), torch.arange(3)),
    "strides": (
        "n", lambda d, key: d.make_memmap_from_tensor(key, torch.arange(6).view(2, 3).t()),
        torch.tensor([[0, 3], [1, 4], [2, 5]]),
    ),
    "no copy": ("n", lambda d, key: d.make_memmap_from_tensor(key, torch.ones(3), copy_data=False), torch.zeros(3)),
    "mapped": ("n", lambda d, key: d.make_memmap_from_tensor(key, MemoryMappedTensor.ones(3)), torch.ones(3)),
    "grad": ("n", lambda d, key: d.make_memmap_from_tensor(key, torch.ones(3, requires_grad=True)), torch.ones(3)),
    "storage": (
        "n",
        lambda d, key: d.make_memmap_from_storage(key, torch.arange(6).untyped_storage(), (3, 2), dtype=torch.int64),
        torch.arange(6).view(3, 2),
    ),
    "nested": (("b", "n"), lambda data, key: data.make_memmap(key, (3,)), torch.zeros(3)),
    "made": (("x", "y", "z"), lambda data, key: data.make_memmap_from_tensor(key, torch.arange(3)), torch.arange(3)),
    "dotted": ("b.c", lambda data, key: data.make_memmap_from_tensor(key, torch.arange(3)), torch.arange(3)),
    "slash": ("a/../b", lambda data, key: data.make_memmap_from_tensor(key, torch.arange(3)), torch.arange(3)),
}  # fmt: skip


@pytest.mark.parametrize("where", ["folder", "memory"])
@pytest.mark.parametrize("kind", NEW)
def test_entries(kind, where, tmp_path):
    """The entry is in the container, which stays locked and mapped, and in the folder, with what is written to it."""
    key, make, expected = NEW[kind]
    data = _plain().memmap(tmp_path / "x") if where == "folder" else _plain().memmap()
    made = make(data, key)
    assert_same(made.as_subclass(Tensor).clone(), expected)
    assert type(made) is type(data[key]) is MemoryMappedTensor
    assert data.is_memmap()
    assert data[key].data_ptr() == made.data_ptr()
    parent = data if isinstance(key, str) else data[key[:-1]]
    assert parent.is_locked
    with pytest.raises(RuntimeError, match="already"):
        make(data, key)
    if where == "memory":
        return
    assert _files(tmp_path / "x") == ["data-1.safetensors", "data.safetensors", INDEX]
    assert parent.saved_path == (tmp_path / "x" if isinstance(key, str) else (tmp_path / "x").joinpath(*key[:-1]))
    made.fill_(7)
    loaded = [load(tmp_path / "x"), load_memmap(tmp_path / "x"), load(tmp_path / "x", mmap=False)]
    for again in (*loaded, pickle.loads(pickle.dumps(data))):
        assert bool((again == data).all())
        assert bool((again[key] == 7).all())
        assert again["s"] == "text"
    assert load(tmp_path / "x", subpath=key).shape == expected.shape
    files = [load_file(tmp_path / "x" / name) for name in _files(tmp_path / "x") if name != INDEX]
    index = json.loads((tmp_path / "x" / INDEX).read_text())["weight_map"]
    assert sorted(index) == sorted(
        name for file in files for name in file
    )  # any reader of sharded safetensors finds all


@pytest.mark.slow
def test_many_entries_and_processes(tmp_path):
    """Each entry is a file; another process adds one as well, and each sees that of the other after a refresh."""
    mine = _plain().memmap(tmp_path / "x")
    theirs = load_memmap(tmp_path / "x").lock_()
    for i in range(5):
        mine.make_memmap(("n", str(i)), (3,)).fill_(i)
    program = (
        "import sys, torch, tensorclass as tc; data = tc.load_memmap(sys.argv[1]).lock_(); "
        "data.make_memmap_from_tensor(('n', 'there'), torch.arange(3)); data['a'].fill_(9)"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "x")], check=True)
    assert sorted(theirs.memmap_refresh_()["n"].keys()) == ["0", "1", "2", "3", "4", "there"]
    assert mine["a"].tolist() == theirs["a"].tolist() == [9, 9, 9]
    with pytest.raises(StructureError, match="memmap_refresh_"):
        mine.make_memmap(("n", "there"), (3,))
    with pytest.raises(StructureError, match="memmap_refresh_"):
        mine.make_memmap_from_tensor(("n", "there"), torch.ones(3), existsok=False)
    assert "there" not in mine["n"]
    mine.make_memmap_from_tensor(("n", "there"), torch.ones(3))
    assert theirs["n", "there"].tolist() == [0, 1, 2]  # a map keeps what it has
    assert theirs.memmap_refresh_()["n", "there"].tolist() == [1, 1, 1]
    assert len(_files(tmp_path / "x")) == 8
    assert theirs["n"].saved_path == tmp_path / "x" / "n"


def test_typed(tmp_path):
    """A field that is None is filled; what is declared is checked before anything is written."""
    data = Scan(x=torch.zeros(3, 2), label=torch.arange(3)).memmap(tmp_path / "x")
    before = _files(tmp_path / "x")
    for call in (
        lambda: data.make_memmap("extra", (3, 4), dtype=torch.int64),
        lambda: data.make_memmap("extra", (3,)),
        lambda: data.make_memmap("other", (3,)),
        lambda: data.make_memmap("note", (3,)),
        lambda: data.make_memmap("x", (3, 2)),
    ):
        with pytest.raises((ValueError, KeyError)):
            call()
    assert _files(tmp_path / "x") == before
    data.make_memmap("extra", (3, 4)).fill_(2)
    assert data.extra.sum() == 24
    assert data.is_memmap()
    for again in (Scan.load(tmp_path / "x"), Scan.load_memmap(tmp_path / "x"), load(tmp_path / "x")):
        assert type(again) is Scan
        assert again.extra.sum() == 24
        assert again.note == "a"


def test_refused_entries(tmp_path):
    """Each is an error that says what to do; no file is written."""
    folder = _plain().memmap(tmp_path / "x")
    single = _plain().memmap(tmp_path / "y.safetensors")
    stack = lazy_stack([TensorDict(a=torch.ones(2)), TensorDict(a=torch.ones(2))]).memmap(tmp_path / "z")
    backed = torch.UntypedStorage.from_file(str(tmp_path / "raw"), True, 24)
    before = [_files(tmp_path), _files(tmp_path / "x")]
    seven, five = torch.ones(7).untyped_storage(), torch.ones(5).untyped_storage()
    for call, error, match in (
        (lambda: _plain().make_memmap("n", (3,)), StructureError, "not mapped"),
        (lambda: _plain().lock_().make_memmap("n", (3,)), StructureError, "not mapped"),
        (lambda: load_memmap(tmp_path / "x").make_memmap("n", (3,)), StructureError, "not mapped"),
        (lambda: single.make_memmap("n", (3,)), StructureError, r"y\.safetensors is one file.*batch\.memmap"),
        (lambda: stack.make_memmap("n", (2,)), UnsupportedOperationError, "add the entry to each"),
        (lambda: folder[0].lock_().make_memmap("n", (3,)), StructureError, "parts of a mapped batch"),
        (lambda: folder.make_memmap("n", (4,)), BatchSizeError, "batch size"),
        (lambda: folder.make_memmap("n", ()), BatchSizeError, "batch size"),
        (lambda: folder.make_memmap(("b", "n"), (2,)), BatchSizeError, "batch size"),
        (lambda: folder.make_memmap("n", (-3,)), StructureError, "no negative"),
        (lambda: folder.make_memmap("n", torch.tensor([[3, 1]])), UnsupportedOperationError, "one shape"),
        (lambda: folder.make_memmap("a", (3,)), StructureError, "`a` already; write to it"),
        (lambda: folder.make_memmap(("a", "n"), (3,)), StructureError, "`a` already; it has no keys"),
        (lambda: folder.make_memmap("b", (3,)), StructureError, "`b` already"),
        (lambda: folder.make_memmap_from_tensor("n", [1, 2, 3]), StructureError, "expected a tensor"),
        (lambda: folder.make_memmap_from_tensor("n", torch.eye(3).to_sparse()), UnsupportedOperationError, "dense"),
        (lambda: folder.make_memmap_from_storage("n", seven, (3, 2)), StructureError, "24 of 28"),
        (lambda: folder.make_memmap_from_storage("n", five, (3, 2)), FileFormatError, "more"),
        (lambda: folder.make_memmap_from_storage("n", backed, (3, 2)), StructureError, "clone"),
    ):
        with pytest.raises(error, match=match):
            call()
    assert [_files(tmp_path), _files(tmp_path / "x")] == before
    folder.unlock_().batch_size = []
    folder.lock_()
    with pytest.raises(StructureError, match=r"has batch size \[3\] at `n`"):
        folder.make_memmap("n", (2,))
    assert _files(tmp_path / "x") == before[1]


def test_entries_beside_the_anchor(tmp_path):
    """The same calls give the same values there, and the same errors."""
    for lib, cls in ((tc, TensorDict), (tensordict, tensordict.TensorDict)):
        path = tmp_path / lib.__name__
        data = cls(a=torch.zeros(3, 2), b={"c": torch.ones(3)}, batch_size=[3]).memmap(path)
        assert data.make_memmap("n", torch.Size([3, 4]), dtype=torch.int64).dtype is torch.int64
        assert data.make_memmap(("x", "y"), (3,)).dtype is torch.float32
        assert data.make_memmap_from_tensor("t", torch.arange(3)).tolist() == [0, 1, 2]
        assert data.make_memmap_from_tensor("u", torch.arange(3), copy_data=False).tolist() == [0, 0, 0]
        assert data["b"].make_memmap("d", (3,)).shape == (3,)
        storage = torch.arange(3).untyped_storage()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # there, of what is lost
            assert data.make_memmap_from_storage("s", storage, (3,), dtype=torch.int64).tolist() == [0, 1, 2]
        assert (data.is_memmap(), data.is_locked, data["x"].is_locked) == (True, True, True)
        for call in (
            lambda data=data: data.make_memmap("n", (3,)),
            lambda data=data: data.make_memmap_from_tensor("t", torch.ones(3)),
            lambda data=data, storage=storage: data.make_memmap_from_storage("f", storage, (3,)),
            lambda data=data, storage=storage: data.make_memmap_from_storage("f", storage, (9,), dtype=torch.int64),
            lambda cls=cls, path=path: cls.load_memmap(path).make_memmap("m", (3,)),
            lambda cls=cls: cls(a=torch.zeros(3)).make_memmap("m", (3,)),
        ):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                with pytest.raises(RuntimeError):
                    call()
        loaded = cls.load_memmap(path)
        assert loaded["n"].shape == (3, 4)
        assert loaded["x", "y"].shape == (3,)
        # There a storage in memory is forgotten, and rows of another number are stored and then lost.
        assert ("s" in loaded.keys()) is (lib is tc)  # noqa: SIM118  # a container iterates over its elements
    assert data.make_memmap_from_tensor("g", torch.ones(3, requires_grad=True)).tolist() == [1, 1, 1]


# ---- an indexed folder -------------------------------------------------------------------------------------------


def _indexed(folder: Path) -> Any:
    data = _plain().memmap(folder)
    data.make_memmap_from_tensor("n", torch.arange(3))
    data.make_memmap_from_tensor("m", torch.ones(3, 2))
    return data


def test_writing_over_an_index(tmp_path):
    """`save`, `memmap`, `memmap_like` and loads know the index; maps of old files live on; files of before go."""
    old = _indexed(tmp_path / "x")
    assert old.memmap_like(tmp_path / "x")["n"].tolist() == [0, 1, 2]
    assert load(tmp_path / "x" / "data.safetensors")["n"].tolist() == [0, 1, 2]
    with pytest.raises(StructureError, match="another structure"):
        _plain().memmap_like(tmp_path / "x")
    with pytest.raises(StructureError, match="existsok"):
        _plain().memmap(tmp_path / "x", existsok=False)
    with pytest.raises(StructureError, match="save to that folder"):
        _plain().save(tmp_path / "x" / "data-1.safetensors")
    assert old.memmap(tmp_path / "x").is_memmap()  # from its own files
    assert _files(tmp_path / "x") == ["data-3.safetensors", INDEX]
    new = TensorDict(k=torch.ones(2), s=NonTensorStack("é", "x"), batch_size=[2])
    assert_same(new.save(tmp_path / "x", checksums=True), new)
    assert_same(load(tmp_path / "x", verify=True), new)
    assert _files(tmp_path / "x") == ["data-4.safetensors", INDEX]
    assert old["n"].tolist() == [0, 1, 2]
    mapped = load(tmp_path / "x").memmap(tmp_path / "x" / "data.safetensors")
    mapped["k"].fill_(3)
    assert load(tmp_path / "x")["k"].tolist() == [3, 3]
    assert mapped.saved_path == tmp_path / "x"
    assert old.memmap_refresh_().batch_size == (2,)
    assert _files(tmp_path / "x") == ["data-5.safetensors", INDEX]


def test_commands(tmp_path, capsys):
    """`inspect` and `verify` read an index and its files."""
    _indexed(tmp_path / "x")
    assert main(["inspect", str(tmp_path / "x")]) == 0
    shown = capsys.readouterr().out
    assert "4 tensors" in shown
    assert "in 3 files" in shown
    assert "n  int64[3]  24 bytes" in shown
    assert main(["verify", str(tmp_path / "x")]) == 0
    (tmp_path / "x" / "data-1.safetensors").unlink()
    assert main(["verify", str(tmp_path / "x")]) == 1
    assert "data-1.safetensors" in capsys.readouterr().out


def _damage(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change an index as somebody else could, with a checksum that is right."""
    found = json.loads((folder / INDEX).read_text())
    del found["crc32"]
    change(found)
    body = json.dumps(found, separators=(",", ":"))
    (folder / INDEX).write_text(f'{{"crc32":"{crc32(body.encode()):08x}",{body[1:]}')


DAMAGE: dict[str, Callable[[dict[str, Any]], Any]] = {
    "unlisted": lambda index: index["weight_map"].pop("n"),
    "not described": lambda index: index["root"]["entries"].pop("n"),
    "outside": lambda index: index["weight_map"].update(n="../data.safetensors"),
    "absolute": lambda index: index["weight_map"].update(n="/etc/passwd"),
    "another file": lambda index: index["weight_map"].update(n="data.safetensors"),
    "a missing file": lambda index: index["weight_map"].update(n="data-7.safetensors"),
    "an extra key": lambda index: index.update(other=1),
    "no root": lambda index: index.pop("root"),
    "a later version": lambda index: index.update(version=2),
    "another size": lambda index: index["root"].update(size=[4]),
    "a class that is not there": lambda index: index["root"].update(cls=3),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_index(kind, tmp_path):
    """An index that does not fit its files is an error with the path, and no file is changed by reading it."""
    _indexed(tmp_path / "x")
    _damage(tmp_path / "x", DAMAGE[kind])
    before = {name: (tmp_path / "x" / name).read_bytes() for name in _files(tmp_path / "x")}
    for call in (load, load_memmap):
        with pytest.raises((FileFormatError, OSError), match=str(tmp_path)):
            call(tmp_path / "x")
    main(["inspect", str(tmp_path / "x")])  # says what it can, or what is wrong
    assert main(["verify", str(tmp_path / "x")]) == 1
    assert before == {name: (tmp_path / "x" / name).read_bytes() for name in _files(tmp_path / "x")}


def test_cut_index(tmp_path):
    """Every cut and every flipped bit of an index is noticed; links and folders in its place are refused."""
    _indexed(tmp_path / "x")
    raw = (tmp_path / "x" / INDEX).read_bytes()
    for at in range(0, len(raw), 7):
        (tmp_path / "x" / INDEX).write_bytes(raw[:at])
        with pytest.raises(FileFormatError, match="index"):
            load(tmp_path / "x")
        (tmp_path / "x" / INDEX).write_bytes(raw[:at] + bytes([raw[at] ^ 4]) + raw[at + 1 :])
        with pytest.raises(FileFormatError):
            load(tmp_path / "x")
    (tmp_path / "x" / INDEX).write_bytes(raw[:-1] + b" }")
    with pytest.raises(ChecksumError):
        load(tmp_path / "x")
    (tmp_path / "x" / INDEX).unlink()
    (tmp_path / "x" / INDEX).symlink_to("elsewhere")
    with pytest.raises(OSError, match="symbolic"):
        load(tmp_path / "x")
    (tmp_path / "x" / INDEX).unlink()
    (tmp_path / "x" / INDEX).mkdir()
    with pytest.raises(OSError, match="directory"):
        load(tmp_path / "x")


# ---- rows --------------------------------------------------------------------------------------------------------

ROWS: dict[str, Callable[[int], Any]] = {
    "dense": lambda n: TensorDict(
        a=torch.arange(n), b=TensorDict(c=torch.arange(2.0 * n).view(n, 2), batch_size=[n]), batch_size=[n]
    ),
    "text": lambda n: TensorDict(a=torch.arange(n), s="text", batch_size=[n]),
    "typed": lambda n: Scan(x=torch.arange(2.0 * n).view(n, 2), label=torch.arange(n)),
    "words": lambda n: Words(torch.arange(float(n)), [f"w{i}é" for i in range(n)], torch.ones(2)),
    "objects": lambda n: TensorDict(s=NonTensorStack(*[{"i": i} for i in range(n)]), batch_size=[n]),
    "ragged": lambda n: TensorDict(r=RaggedTensor([torch.ones(i) for i in range(n)]), batch_size=[n]),
    "lazy": lambda n: lazy_stack([TensorDict(a=torch.ones(i)) for i in range(n)]),
    "names": lambda n: TensorDict(a=torch.zeros(n, 2), batch_size=[n, 2], names=["t", None]),
    "device": lambda n: TensorDict(a=torch.zeros(n), batch_size=[n], device="cpu"),
    "dtypes": lambda n: TensorDict(
        a=torch.zeros(n, dtype=torch.complex128), b=torch.ones(n).bfloat16(), batch_size=[n]
    ),
    "strides": lambda n: TensorDict(a=torch.arange(2.0 * n).view(2, n).t(), e=torch.zeros(n, 0), batch_size=[n]),
    "grad": lambda n: TensorDict(a=torch.ones(n, requires_grad=True), batch_size=[n]),
    "locked": lambda n: TensorDict(a=torch.ones(n), batch_size=[n]).lock_(),
}


@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize("kind", ROWS)
def test_rows(kind, indexed, tmp_path):
    """The folder holds what `cat` gives, in one file; a map of before keeps its rows until it is refreshed."""
    path = tmp_path / "x"
    make = ROWS[kind]
    old, new = make(3), make(4)
    if indexed:
        _indexed(path)
    mapped = old.memmap(path)
    old.save(path)
    before = mapped.clone()
    append_memmap(path, new)
    detached = [part.detach() if kind == "grad" else part for part in (old, new)]
    expected = tc.cat(detached)
    found = load(path)
    assert_same(found.detach() if kind == "grad" else found, expected.lock_() if kind == "locked" else expected)
    assert type(found) is type(old)
    assert bool((mapped == before).all())
    append_memmap(path, make(0)) if kind != "lazy" else None
    append_memmap(path, new)
    assert len(load(path)) == 11
    assert len(_files(path)) == 1 + indexed
    if kind not in ("objects", "ragged", "lazy"):  # no tensors of their own, or another number of members
        assert len(mapped.memmap_refresh_()) == 11


BAD_ROWS: dict[str, Any] = {
    "a dict": {"a": torch.ones(2, 2)},
    "missing key": TensorDict(a=torch.ones(2, 2), s="q", batch_size=[2]),
    "extra key": TensorDict(a=torch.ones(2, 2), b={"c": torch.ones(2)}, s="q", x=torch.ones(2), batch_size=[2]),
    "dtype": TensorDict(a=torch.ones(2, 2), b={"c": torch.ones(2).long()}, s="q", batch_size=[2]),
    "shape": TensorDict(a=torch.ones(2, 3), b={"c": torch.ones(2)}, s="q", batch_size=[2]),
    "one element": TensorDict(a=torch.ones(2), b={"c": torch.ones(())}, s="q"),
    "more batch dims": TensorDict(a=torch.ones(2, 2), b={"c": torch.ones(2, 2)}, s="q", batch_size=[2, 2]),
    "another class": Scan(x=torch.rand(2, 2), label=torch.arange(2)),
    "names": TensorDict(a=torch.ones(2, 2), b={"c": torch.ones(2)}, s="q", batch_size=[2], names=["t"]),
}


@pytest.mark.parametrize("kind", BAD_ROWS)
def test_refused_rows(kind, tmp_path):
    """Rows that do not fit are an error, and the folder is what it was."""
    data = TensorDict(a=torch.ones(2, 2), b={"c": torch.ones(2)}, s="q", batch_size=[2], names=["u"])
    data.save(tmp_path / "x")
    before = (tmp_path / "x" / "data.safetensors").read_bytes()
    with pytest.raises((StructureError, tc.errors.BatchDimError)):
        append_memmap(tmp_path / "x", BAD_ROWS[kind])
    assert (tmp_path / "x" / "data.safetensors").read_bytes() == before
    assert _files(tmp_path / "x") == ["data.safetensors"]


DTYPES: dict[str, Callable[[torch.dtype], Any]] = {
    "tensor": lambda dtype: TensorDict(a=torch.ones(2).to(dtype), s="q", batch_size=[2]),
    "nested": lambda dtype: TensorDict(b={"a": torch.ones(2).to(dtype)}, s="q", batch_size=[2]),
    "shared": lambda dtype: TensorDict(a=UnbatchedTensor(torch.ones(3).to(dtype)), x=torch.ones(2), batch_size=[2]),
    "ragged": lambda dtype: TensorDict(a=RaggedTensor([torch.ones(n).to(dtype) for n in (1, 2)]), batch_size=[2]),
    "lazy": lambda dtype: lazy_stack([TensorDict(a=torch.ones(n).to(dtype)) for n in (1, 2)]),
}


@pytest.mark.parametrize("kind", DTYPES)
def test_rows_of_other_dtypes(kind, tmp_path):
    """Saved rows keep their dtypes, whatever kind of entry holds them; the error names the entry and both dtypes."""
    DTYPES[kind](torch.float32).save(tmp_path / "x")
    told = r"`(b\.)?a` is saved as torch.float32, got rows of torch.float64; convert them"
    with pytest.raises(StructureError, match=told):
        append_memmap(tmp_path / "x", DTYPES[kind](torch.float64))
    assert len(load(tmp_path / "x")) == 2
    append_memmap(tmp_path / "x", DTYPES[kind](torch.float32))
    assert len(load(tmp_path / "x")) == 4


def test_refused_places(tmp_path):
    """Rows go to folders that this library wrote, of classes that are imported."""
    rows = TensorDict(a=torch.ones(2), batch_size=[2])
    rows.save(tmp_path / "x.tdz")
    tensordict.TensorDict(a=torch.ones(2), batch_size=[2]).memmap(tmp_path / "theirs")
    TensorDict(a=torch.ones(2)).save(tmp_path / "scalar")
    TensorDict(b=rows).save(tmp_path / "nested")
    with TensorClassDataset.create(tmp_path / "data", Scan) as writer:
        writer.append(Scan(x=torch.rand(2, 2), label=torch.arange(2)))

    @tensorclass
    class Gone:
        a: Float32[Tensor, ""]

    Gone(a=torch.ones(2)).save(tmp_path / "gone")
    del Gone
    gc.collect()
    for name, error, match in (
        ("x.tdz", StructureError, "unpack_memmap"),
        ("theirs", StructureError, "wrote"),
        ("scalar", StructureError, "batch dim"),
        ("nested/b", StructureError, "not a folder"),
        ("gone", StructureError, "Gone; import that class first"),
        ("data", OSError, "no folder with"),
        ("absent", OSError, "no folder with"),
    ):
        with pytest.raises(error, match=match):
            append_memmap(tmp_path / name, rows)


def test_rows_beside_the_anchor(tmp_path):
    """The same rows are there afterwards; what the anchor refuses is refused or, where nothing is lost, done."""
    for lib, cls in ((tc, TensorDict), (tensordict, tensordict.TensorDict)):
        path = str(tmp_path / lib.__name__)

        def make(n: int, value: Any, cls: Any = cls, **more: Any) -> Any:
            return cls(a=torch.full((n, 2), value), b={"c": torch.ones(n)}, s="q", **more, batch_size=[n])

        lib.save(make(3, 0.0), path)
        lib.append_memmap(path, make(2, 1.0))
        lib.append_memmap(path, make(0, 1.0))
        found = lib.load(path)
        assert found.batch_size == (5,)
        assert found["a"].tolist() == [[0, 0]] * 3 + [[1, 1]] * 2
        assert found["s"] == "q"
        for rows in (make(2, 1.0, x=torch.ones(2)), make(2, 1.0).exclude("a"), make(2, 1.0)[0], make(2, 1)):
            with pytest.raises(ValueError):
                lib.append_memmap(path, rows)
        for where in (tmp_path / "absent", tmp_path):
            with pytest.raises((ValueError, OSError)):
                lib.append_memmap(str(where), make(2, 1.0))
        with pytest.raises(TypeError):
            lib.append_memmap(path, {"a": 1})
    other = TensorDict(a=torch.zeros(1, 2), b={"c": torch.ones(1)}, s="other", batch_size=[1])
    append_memmap(tmp_path / "tensorclass", other)  # refused there: here the value becomes one for each element
    assert load(tmp_path / "tensorclass")["s"].tolist() == ["q"] * 5 + ["other"]


# ---- faults ------------------------------------------------------------------------------------------------------


def _make(path: Path) -> None:
    load_memmap(path).lock_().make_memmap_from_tensor(("x", "y"), torch.arange(3))


KINDS: dict[str, tuple[Callable[[Path], Any], Callable[[Path], Any]]] = {
    "the first entry": (lambda path: _plain().save(path), _make),
    "another entry": (_indexed, _make),
    "save": (_indexed, lambda path: TensorDict(a=torch.full((3,), 9), batch_size=[3]).save(path)),
    "memmap": (_indexed, lambda path: TensorDict(a=torch.full((3,), 9), batch_size=[3]).memmap(path)),
    "rows": (lambda path: ROWS["dense"](3).save(path), lambda path: append_memmap(path, ROWS["dense"](1) * 0)),
    "rows of words": (lambda path: ROWS["words"](3).save(path), lambda path: append_memmap(path, ROWS["words"](1))),
    "rows, indexed": (_indexed, lambda path: append_memmap(path, load(path)[:1].clone())),
}


@pytest.mark.slow
@pytest.mark.parametrize("door", KINDS)
def test_killed_at_every_step(door, tmp_path):
    """A writer that dies between any two system calls leaves the old content or the new; the next one clears up."""
    start, change = KINDS[door]
    torch.manual_seed(0)
    start(tmp_path / "kept")
    kept = {name: (tmp_path / "kept" / name).read_bytes() for name in _files(tmp_path / "kept")}
    old = load(tmp_path / "kept", mmap=False)
    with Faulty() as system:
        change(tmp_path / "kept")
    new = load(tmp_path / "kept", mmap=False)
    assert set(old.keys(True)) != set(new.keys(True)) or len(old) != len(new)
    outcomes, path = [], tmp_path / "x"
    path.mkdir()
    for at in range(len(system.calls)):
        for name in _files(path):
            (path / name).unlink()
        for name, raw in kept.items():
            (path / name).write_bytes(raw)
        with Faulty(at, Killed()), pytest.raises(Killed):
            change(path)
        found = load(path, mmap=False)
        was_old = found.batch_size == old.batch_size and set(found.keys(True)) == set(old.keys(True))
        assert_same(found, old if was_old else new)
        outcomes.append(was_old)
        change(path) if was_old else None
        assert_same(load(path, mmap=False), new)
        TensorDict(z=torch.zeros(2)).save(path)
        assert len(_files(path)) == (2 if (path / INDEX).exists() else 1), system.calls[at]
    assert outcomes == sorted(outcomes, reverse=True)
    assert set(outcomes) == {True, False}


def test_full_disk(tmp_path, monkeypatch):
    """No space for an entry: an error with path and bytes, the container and the folder are what they were."""
    data = _plain().memmap(tmp_path / "x")
    fault = OSError(28, "No space left on device")
    monkeypatch.setattr(os, "posix_fallocate", lambda *_: (_ for _ in ()).throw(fault))
    with pytest.raises(OSError, match=r"No space left.*reserving \d+ bytes.*data"):
        data.make_memmap("n", (3, 1000))
    assert "n" not in data
    assert _files(tmp_path / "x") == ["data.safetensors"]
    assert_same(load(tmp_path / "x"), _plain())


def test_writers_at_once(tmp_path):
    """Threads add entries and rows to one folder: nothing of anyone is lost."""
    ROWS["dense"](1).save(tmp_path / "x")
    TensorDict(a=torch.zeros(3), batch_size=[3]).save(tmp_path / "y")

    def grow(i: int) -> None:
        for j in range(4):
            append_memmap(tmp_path / "x", ROWS["dense"](2))
            load_memmap(tmp_path / "y").lock_().make_memmap(f"k{i}.{j}", (3,)).fill_(i)

    threads = [threading.Thread(target=grow, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        assert set(load(tmp_path / "y").keys()) <= {"a"} | {f"k{i}.{j}" for i in range(3) for j in range(4)}
        assert len(load(tmp_path / "x")) % 2 == 1
    for thread in threads:
        thread.join()
    assert len(load(tmp_path / "x")) == 25
    found = load(tmp_path / "y")
    assert len(list(found.keys())) == 13
    assert all([bool((found[f"k{i}.{j}"] == i).all()) for i in range(3) for j in range(4)])


def test_readers_of_a_folder_that_is_replaced(tmp_path):
    """A reader that finds files gone reads the index again: it sees one save or the next."""
    _indexed(tmp_path / "x")
    stop = threading.Event()

    def write() -> None:
        for i in range(20):
            save(TensorDict(a=torch.full((2,), i), b=torch.full((2,), i)), tmp_path / "x")
        stop.set()

    save(TensorDict(a=torch.zeros(2), b=torch.zeros(2)), tmp_path / "x")
    thread = threading.Thread(target=write)
    thread.start()
    seen = 0
    while not stop.is_set():
        found = load(tmp_path / "x")
        assert found["a"][0] == found["b"][1]
        seen += 1
    thread.join()
    assert seen


@pytest.mark.parametrize("size", [[], [3]], ids=str)
def test_a_data_set_from_nothing(size, tmp_path):
    """Entries are added to a mapped container that has none, however it was mapped."""
    for name, mapped in {
        "memmap_": TensorDict(batch_size=size).memmap_(tmp_path / "memmap_"),
        "memmap": TensorDict(batch_size=size).memmap(tmp_path / "memmap"),
        "loaded": TensorDict.load_memmap(tmp_path / "memmap_").lock_(),
    }.items():
        assert mapped.is_memmap()
        mapped.make_memmap(name, shape=[3, 2]).fill_(7)
        mapped.make_memmap_from_tensor(("n", name), torch.ones(3))
        found = TensorDict.load_memmap(tmp_path / ("memmap_" if name == "loaded" else name))
        assert found[name].tolist() == [[7, 7]] * 3
        assert found["n", name].tolist() == [1] * 3
    with pytest.raises(StructureError, match="not mapped"):
        TensorDict(batch_size=size).make_memmap("a", shape=[3])
    with pytest.raises(StructureError, match="not mapped"):
        mapped.unlock_().clear().make_memmap("a", shape=[3])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shape": [3], "dtype": "float32"}, "`dtype` is a dtype of torch"),
        ({"shape": [3], "dtype": float}, "`dtype` is a dtype of torch"),
        ({"shape": [3, 2**60]}, "fewer than 2\\*\\*60 elements"),
        ({"shape": [-3]}, "no negative numbers"),
        ({"shape": "x"}, "a sequence of ints"),
    ],
)
def test_entries_that_cannot_be_made(options, message, tmp_path):
    """A wrong shape or dtype is named, and no file is written."""
    mapped = TensorDict(b=torch.zeros(3), batch_size=[3]).memmap_(tmp_path / "x")
    before = sorted(os.listdir(tmp_path / "x"))
    with pytest.raises(ValueError, match=message):
        mapped.make_memmap("a", **options)
    assert sorted(os.listdir(tmp_path / "x")) == before
