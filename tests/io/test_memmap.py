"""Mapped containers: what `memmap` and its kin give, for every kind of container; beside the anchor where it says."""

from __future__ import annotations

import os
import pickle
from typing import Any

import pytest
import tensordict
import torch
from safetensors.torch import save_file
from torch import Tensor

from tensorclass import (
    LazyStackedTensorDict,
    MemoryMappedTensor,
    NonTensorData,
    NonTensorStack,
    RaggedTensor,
    TensorDict,
    TensorDictFuture,
    TensorDictParams,
    UnbatchedTensor,
    is_tensor_collection,
    lazy_stack,
    load,
    load_memmap,
    memmap,
    save,
    tensorclass,
)
from tensorclass.errors import ArgumentError, FileFormatError, LockedError, StructureError, UnsupportedOperationError
from tensorclass.typing import Float32, Int64


@tensorclass
class Point:
    x: Float32[Tensor, "2"]
    label: Int64[Tensor, ""]
    source: str = "scan"


def _dense(cls: Any = TensorDict, note: Any = NonTensorData) -> Any:
    inner = cls(c=torch.ones(3, 2), batch_size=[3])
    return cls({"a": torch.arange(3), "b": inner, "s": note("q", batch_size=[3])}, batch_size=[3])


KINDS: dict[str, Any] = {
    "dense": _dense,
    "typed": lambda: Point(x=torch.rand(3, 2), label=torch.arange(3)),
    "objects": lambda: TensorDict(a=torch.ones(3), s=NonTensorStack("x", "y", "z"), batch_size=[3]),
    "lazy": lambda: lazy_stack([TensorDict(a=torch.ones(2)), TensorDict(a=torch.ones(3))]),
    "nested lazy": lambda: TensorDict(s=lazy_stack([TensorDict(a=torch.ones(2)), TensorDict(a=torch.ones(2))])),
    "typed inside": lambda: TensorDict(p=Point(x=torch.rand(3, 2), label=torch.arange(3)), batch_size=[3]),
    "grad": lambda: TensorDict(a=torch.ones(2, requires_grad=True)),
    "named": lambda: TensorDict(a=torch.ones(2, 3), batch_size=[2], names=["t"], device="cpu"),
    "locked": lambda: TensorDict(a=torch.ones(2), b=TensorDict(c=torch.ones(1)).lock_()),
    "empty tensor": lambda: TensorDict(a=torch.ones(0, 3), b=torch.ones(2)),
    "unbatched": lambda: TensorDict(a=torch.ones(2), u=UnbatchedTensor(torch.arange(5)), batch_size=[2]),
}


def _tensors(data: Any) -> list[Tensor]:
    """The tensors of a container, not the places of its objects."""
    if isinstance(data, LazyStackedTensorDict):
        return [leaf for i in range(len(data)) for leaf in _tensors(data[i])]
    values = [data.get(key) for key in data.keys()]  # noqa: SIM118  # a container iterates over its elements
    found = [value for value in values if isinstance(value, Tensor)]
    return found + [leaf for value in values if is_tensor_collection(value) for leaf in _tensors(value)]


def _same(found: Any, data: Any) -> None:
    assert type(found) is type(data)
    assert found.batch_size == data.batch_size
    assert found.names == data.names
    assert bool((found == data).all())


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind(kind, tmp_path):
    """What comes back is the same, mapped and locked; what is written to it is in the file."""
    data = KINDS[kind]()
    found = data.memmap(tmp_path / "x")
    _same(found, data)
    assert found.is_memmap()
    assert found.is_locked
    assert found.saved_path == tmp_path / "x"
    for again in (load_memmap(tmp_path / "x"), pickle.loads(pickle.dumps(found)), load(tmp_path / "x")):
        _same(again, data)
    for leaf in _tensors(found):
        leaf.zero_()
    _same(load(tmp_path / "x"), found)
    found.unlock_()
    assert not found.is_memmap()
    with pytest.raises(AttributeError, match="unlocked"):
        _ = found.saved_path


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("grad", "locked")])
def test_in_place(kind, tmp_path):
    """`memmap_` and `load_memmap_` keep the object and exchange its tensors."""
    data = KINDS[kind]()
    before = data.clone()
    assert data.memmap_(tmp_path / "x") is data
    _same(data, before)
    assert data.is_memmap()
    assert data.saved_path == tmp_path / "x"
    assert data.memmap_() is data
    other = before.clone().apply(torch.zeros_like)
    assert other.load_memmap_(tmp_path / "x") is other
    _same(other, before)
    assert not other.is_locked


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "unbatched"])
def test_like(kind, tmp_path):
    """New files are zero; a file of the same structure keeps its content; another one is refused, and kept."""
    data = KINDS[kind]()
    found = data.memmap_like(tmp_path / "x")
    assert found.is_memmap()
    assert type(found) is type(data)
    assert not any([bool(leaf.any()) for leaf in _tensors(found)])
    for leaf in _tensors(found):
        leaf.fill_(1)
    again = data.memmap_like(tmp_path / "x")
    assert all([bool(leaf.all()) for leaf in _tensors(again)])
    with pytest.raises(StructureError, match="another structure"):
        TensorDict(other=torch.ones(1)).memmap_like(tmp_path / "x")
    assert all([bool(leaf.all()) for leaf in _tensors(load(tmp_path / "x"))])
    with pytest.raises(StructureError, match="existsok"):
        data.memmap_like(tmp_path / "x", existsok=False)
    assert not any([bool(leaf.any()) for leaf in _tensors(data.memmap_like())])


def test_like_allocates_nothing(tmp_path):
    """A large buffer from one expanded row: the values are never in memory, and objects and lengths are kept."""
    row = TensorDict(image=torch.ones(3, 64, 64, dtype=torch.uint8), s=NonTensorData("q"))
    found = row.expand(4000).memmap_like(tmp_path / "x")
    assert found["image"].shape == (4000, 3, 64, 64)
    assert found["s"] == "q"
    assert os.path.getsize(tmp_path / "x" / "data.safetensors") > 4000 * 3 * 64 * 64
    ragged = RaggedTensor.of([torch.ones(2), torch.ones(3)], [2])
    found = TensorDict(r=ragged, batch_size=[2]).memmap_like(tmp_path / "r")
    assert found["r"].lengths.tolist() == [2, 3]
    assert not found["r"].values.is_nested


def test_beside_the_anchor(tmp_path):
    """Flags, classes of tensors, locks and errors that the anchor documents."""
    ours, theirs = _dense(), _dense(tensordict.TensorDict, tensordict.NonTensorData)
    for data, cls in ((ours, TensorDict), (theirs, tensordict.TensorDict)):
        path = tmp_path / cls.__module__
        found = data.memmap(path)
        assert (found.is_memmap(), found.is_locked, found["b"].is_memmap()) == (True, True, True)
        assert (found.saved_path, found["b"].saved_path) == (path, path / "b")
        assert type(found["a"]).__name__ == type(found[0]["a"]).__name__ == "MemoryMappedTensor"
        assert type((found + 1)["a"]) is Tensor if cls is TensorDict else True
        opened = cls.load_memmap(path)
        assert (opened.is_memmap(), opened.is_locked) == (False, False)
        opened["a"][1] = 50
        assert found["a"][1] == 50
        assert cls.load_memmap(path, mode="r")["a"].fill_(3).sum() == 9
        assert found["a"].tolist() == [0, 50, 2]
        assert cls.load_memmap(path / "b")["c"].sum() == 6 == cls.load_memmap(path, subpath="b")["c"].sum()
        with pytest.raises(RuntimeError, match="locked"):
            found["new"] = torch.ones(3)
        with pytest.raises(RuntimeError):
            found.memmap(tmp_path / "elsewhere")
        assert found.memmap(tmp_path / f"{cls.__module__}.copy", copy_existing=True).is_memmap()
        with pytest.raises(RuntimeError):
            data.memmap(path, existsok=False)
        shared = data.memmap()
        assert (shared.is_memmap(), shared.is_locked) == (True, True)
        assert cls.load_memmap(path, device="meta")["a"].is_meta


def test_parameters(tmp_path):
    """A container of parameters is mapped as the plain container of their values."""
    params = TensorDictParams(TensorDict(a=torch.ones(2)))
    found = params.memmap(tmp_path / "x")
    assert type(found) is TensorDict
    assert found.is_memmap()
    assert not found["a"].requires_grad
    with pytest.raises(UnsupportedOperationError, match="parameters"):
        params.memmap_(tmp_path / "y")
    params.save(tmp_path / "z")
    opened = load_memmap(tmp_path / "z")
    assert type(opened) is TensorDictParams
    with torch.no_grad():
        opened["a"].fill_(4)
    assert load(tmp_path / "z")["a"].tolist() == [4, 4]


def test_saving_over_a_live_map(tmp_path):
    """The old map keeps the old file until it is refreshed, keys that came included."""
    mapped = _dense().memmap(tmp_path / "x")
    TensorDict(a=torch.full((3,), 7), d=torch.ones(3), batch_size=[3]).memmap(tmp_path / "x")
    assert mapped["a"].tolist() == [0, 1, 2]
    assert mapped.memmap_refresh_() is mapped
    assert mapped["a"].tolist() == [7, 7, 7]
    assert set(mapped.keys()) == {"a", "d"}
    assert mapped.is_memmap()
    for data in (_dense(), _dense().memmap(), mapped.clone().lock_()):
        with pytest.raises(RuntimeError, match="memmap_refresh_"):
            data.memmap_refresh_()


def test_futures(tmp_path):
    """A thread writes, and its errors come out of `result`."""
    data = _dense()
    future = data.memmap(tmp_path / "x", return_early=True, num_threads=2)
    assert type(future) is TensorDictFuture
    _same(future.result(), data)
    assert len(future.futures) == 1
    assert data.memmap_like(tmp_path / "l", return_early=True, num_threads=2).result().is_memmap()
    assert data.memmap_(tmp_path / "y", return_early=True, num_threads=2).result() is data
    assert data.is_memmap()
    assert type(_dense().memmap(tmp_path / "z", return_early=True)) is TensorDict
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        memmap(_dense(), tmp_path / "file" / "x", num_threads=2, return_early=True).result()


def test_bad_arguments(tmp_path):
    """Each is an error before a file is touched."""
    save(_dense(), tmp_path / "x")
    for call, error in (
        (lambda: memmap([1], tmp_path / "y"), ArgumentError),
        (lambda: memmap(_dense(), tmp_path / "y", compression="deflate"), ArgumentError),
        (lambda: load_memmap(tmp_path / "x", mode="w"), ArgumentError),
        (lambda: load_memmap(tmp_path / "absent"), FileNotFoundError),
        (lambda: _dense().lock_().load_memmap_(tmp_path / "x"), LockedError),
        (lambda: _dense().lock_().memmap_(tmp_path / "y"), LockedError),
        (lambda: LazyStackedTensorDict(_dense()).load_memmap_(tmp_path / "x"), FileFormatError),
        (lambda: Point.load_memmap(tmp_path / "x"), ValueError),
    ):
        with pytest.raises(error):
            call()


def test_odd_addresses_of_others(tmp_path):
    """A tensor at an odd address can't be mapped: writes would be lost, so that is an error; reading is not."""
    save_file({"a": torch.ones(3, dtype=torch.uint8), "b": torch.ones(2)}, tmp_path / "x.safetensors")
    raw = (tmp_path / "x.safetensors").read_bytes()
    head = b'{"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},'
    head += b'"b":{"dtype":"F32","shape":[2],"data_offsets":[3,11]}}'
    raw = len(head).to_bytes(8, "little") + head + bytes(3) + raw[-8:]
    (tmp_path / "odd.safetensors").write_bytes(raw)
    assert type(load_memmap(tmp_path / "x.safetensors")["b"]) is MemoryMappedTensor
    assert load_memmap(tmp_path / "odd.safetensors", mode="r")["b"].shape == (2,)
    for call in (load_memmap, lambda path: load(path, mode="r+")):
        with pytest.raises(FileFormatError, match="odd address"):
            call(tmp_path / "odd.safetensors")
