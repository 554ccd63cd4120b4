"""Files that `tensordict` wrote open here, with their structure; damaged ones are errors; nothing is run or changed."""

from __future__ import annotations

import hashlib
import os
import pickle
import random
from pathlib import Path
from typing import Any

import pytest
import tensordict
import torch
from torch import Tensor

from tensorclass import (
    LazyStackedTensorDict,
    MemoryMappedTensor,
    NonTensorData,
    NonTensorStack,
    TensorDict,
    lazy_stack,
    load,
    load_memmap,
    tensorclass,
)
from tensorclass.errors import FileFormatError, MissingKeyError, SchemaError, UnsupportedOperationError
from tensorclass.typing import Float32, Int64

Theirs: Any = tensordict


@tensorclass
class Point:
    x: Float32[Tensor, "2"]
    label: Int64[Tensor, ""]
    source: str


@tensordict.tensorclass
class TheirPoint:
    x: Tensor
    label: Tensor
    source: str


class Planted:
    """Writes down that it was run."""

    def __reduce__(self) -> Any:
        return os.mkdir, ("was-run",)


def _tree(lib: Any, data: Any, stack: Any, lazy: Any) -> Any:
    values = {
        "a": torch.arange(6).view(3, 2), "b": lib(c=torch.ones(3, 2, dtype=torch.bfloat16), batch_size=[3]),
        "none": torch.zeros(3, 0), "flag": torch.tensor([True, False, True]), "we/ird": torch.ones(3),
        "..": torch.ones(3), "é": torch.ones(3, dtype=torch.complex64), "x.y": torch.zeros(3, dtype=torch.float64),
        "s": data({"q": [1, 2.5, None, "t"]}, batch_size=[3]), "o": stack("x", "y", "z"),
        "l": lazy([lib(a=torch.ones(2)), lib(a=torch.ones(3)), lib(a=torch.ones(4))]), "e": lib(batch_size=[3]),
    }  # fmt: skip
    return lib(values, batch_size=[3], names=["t"])


def _pair(kind: str) -> tuple[Any, Any]:
    if kind == "tree":
        ours = _tree(TensorDict, NonTensorData, NonTensorStack, lazy_stack)
        return ours, _tree(Theirs.TensorDict, Theirs.NonTensorData, Theirs.NonTensorStack, Theirs.lazy_stack)
    if kind == "lazy":
        parts = [{"a": torch.ones(2, 3)}, {"a": torch.zeros(2, 4)}]
        ours = lazy_stack([TensorDict(part, [2]) for part in parts], 1)
        return ours, Theirs.lazy_stack([Theirs.TensorDict(part, [2]) for part in parts], 1)
    values: dict[str, Any] = {"x": torch.ones(3, 2), "label": torch.arange(3), "source": "scan"}
    return Point(**values), TheirPoint(**values, batch_size=[3])


FORMS: dict[str, Any] = {
    "folder": lambda data, path: data.memmap(path),
    "archive": lambda data, path: data.save(f"{path}.tdz"),
    "compressed": lambda data, path: data.save(f"{path}.tdz", compression="deflate"),
    "lzma": lambda data, path: data.save(f"{path}.tdz", compression="lzma"),
    "consolidated": lambda data, path: data.consolidate(f"{path}.cons", metadata=True),
}


def _written(kind: str, form: str, path: Path) -> tuple[Any, Path]:
    ours, theirs = _pair(kind)
    FORMS[form](theirs, path / "x")
    return ours, path / next(iter(os.listdir(path)))


def _digest(path: Path) -> dict[str, str]:
    files = [path] if path.is_file() else [file for file in sorted(path.rglob("*")) if file.is_file()]
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["tree", "lazy", "typed"])
def test_opens(kind, form, tmp_path):
    """Structure and values are there, mapped or in memory, in whole and by subtree; no file is changed."""
    ours, path = _written(kind, form, tmp_path)
    before = _digest(path)
    for found in (load(path), load(path, mmap=False), TensorDict.load(path), load_memmap(path, mode="r")):
        plain = ours.to_tensordict() if kind == "typed" else ours
        assert type(found) is type(plain)
        assert found.batch_size == ours.batch_size
        assert set(found.keys(True, True)) == set(plain.keys(True, True))
        assert bool((found == plain).all())
    if kind == "tree":
        assert found.names == ["t"]
        assert type(found["l"]) is LazyStackedTensorDict
        assert found["s"] == {"q": [1, 2.5, None, "t"]}
        assert load(path, subpath=("b", "c")).dtype is torch.bfloat16
        assert load(f"{path}/b")["c"].shape == (3, 2)
        with pytest.raises(MissingKeyError):
            load(path, subpath="absent")
        found["a"].zero_()
    assert _digest(path) == before


@pytest.mark.parametrize("form", FORMS)
def test_as_a_class(form, tmp_path):
    """`Point.load` holds what the original wrote to the declaration of today."""
    ours, path = _written("typed", form, tmp_path)
    found = Point.load(path)
    assert type(found) is Point
    assert bool((found == ours).all())
    assert found.source == "scan"

    @tensorclass
    class Other:
        x: Int64[Tensor, "2"]

    with pytest.raises(SchemaError, match="x"):
        Other.load(path)


def test_writing_through(tmp_path):
    """Folders are mapped write-through, single files are refused."""
    _, path = _written("tree", "folder", tmp_path)
    opened = load_memmap(path)
    assert type(opened["a"]) is MemoryMappedTensor
    opened["a"].fill_(7)
    assert Theirs.TensorDict.load_memmap(path)["a"].sum() == 42
    for form in ("archive", "consolidated"):
        (tmp_path / form).mkdir()
        _, path = _written("tree", form, tmp_path / form)
        load_memmap(path)["a"].fill_(7)
        assert load(path)["a"].sum() == 15
        with pytest.raises(UnsupportedOperationError, match="writing through"):
            load_memmap(path, mode="r+")


@pytest.mark.filterwarnings("ignore")
def test_pickles(tmp_path, monkeypatch):
    """Pickled parts are refused unless that is allowed; one beside a JSON part is not looked at."""
    monkeypatch.chdir(tmp_path)
    data = Theirs.TensorDict({"o": Theirs.NonTensorData({1, 2}), "a": torch.ones(2)})
    data.memmap("plain")
    data.save("plain.tdz")
    for path in ("plain", "plain.tdz"):
        with pytest.raises(FileFormatError, match="allow_pickle=True"):
            load(path)
        assert load(path, allow_pickle=True)["o"] == {1, 2}
    Theirs.TensorDict(o=Theirs.NonTensorData("text")).memmap("planted")
    Path("planted/o/other.pickle").write_bytes(pickle.dumps(Planted()))
    assert load("planted", allow_pickle=True)["o"] == "text"
    Path("plain/o/other.pickle").write_bytes(pickle.dumps(Planted()))
    with pytest.raises(FileFormatError):
        load("plain")
    assert not Path("was-run").exists()


def _replace(path: Path, text: str, other: str) -> None:
    path.write_text(path.read_text().replace(text, other))


def _link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


DAMAGES: dict[str, Any] = {
    "cut leaf": lambda p: os.truncate(p / "a.memmap", 40),
    "empty leaf": lambda p: os.truncate(p / "a.memmap", 0),
    "missing leaf": lambda p: (p / "a.memmap").unlink(),
    "missing folder": lambda p: (p / "b").rename(p.parent / "b"),
    "missing member": lambda p: (p / "l" / "1").rename(p.parent / "m"),
    "missing description": lambda p: (p / "b" / "meta.json").unlink(),
    "cut description": lambda p: os.truncate(p / "meta.json", 50),
    "empty description": lambda p: os.truncate(p / "b" / "meta.json", 0),
    "linked leaf": lambda p: _link(p / "a.memmap"),
    "linked folder": lambda p: _link(p / "b"),
    "linked description": lambda p: _link(p / "meta.json"),
    "larger shape": lambda p: _replace(p / "meta.json", '"shape": [3, 2]', '"shape": [300, 2]'),
    "negative shape": lambda p: _replace(p / "meta.json", '"shape": [3, 2]', '"shape": [-5, 2]'),
    "huge shape": lambda p: _replace(p / "meta.json", '"shape": [3, 2]', '"shape": [10000000000000, 2]'),
    "wider dtype": lambda p: _replace(p / "meta.json", "torch.int64", "torch.complex128"),
    "no dtype": lambda p: _replace(p / "meta.json", "torch.int64", "torch.load"),
    "other batch size": lambda p: _replace(p / "b" / "meta.json", '"shape": [3], "device"', '"shape": [2], "device"'),
    "newer": lambda p: _replace(p / "meta.json", '"_format_version": 1', '"_format_version": 7'),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_folders(damage, tmp_path):
    """Each is an error with the path; nothing is dropped, filled with zeros or grown."""
    _, path = _written("tree", "folder", tmp_path)
    DAMAGES[damage](path)
    before = _digest(path)
    with pytest.raises((FileFormatError, OSError), match="x"):
        load(path)
    assert _digest(path) == before


@pytest.mark.parametrize("key", ["shape", "device", "_type"])
def test_keys_that_were_lost(key, tmp_path):
    """Keys that collide with the description are lost by the original, which is an error here."""
    Theirs.TensorDict({key: torch.ones(2), "a": torch.ones(2)}).memmap(tmp_path / "x")
    with pytest.raises(FileFormatError, match=r"was lost|describes no container|its description"):
        load(tmp_path / "x")


@pytest.mark.parametrize("form", ["archive", "compressed", "consolidated"])
def test_damaged_files(form, tmp_path):
    """Cut or changed anywhere, a file gives data or an error of files, and stays as it is."""
    _, path = _written("tree", form, tmp_path)
    raw, chance, refused = path.read_bytes(), random.Random(0), 0
    for i in range(120):
        broken = bytearray(raw)
        if i % 2:
            broken = broken[: chance.randrange(len(raw))]
        else:
            broken[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)
        path.write_bytes(broken)
        try:
            load(path)
        except (FileFormatError, OSError) as error:
            refused += str(path) in str(error)
        assert path.read_bytes() == broken
    assert refused >= 60
