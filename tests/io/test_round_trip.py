"""Every kind of container comes back from a file as it was, mapped and in memory."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tensorclass as tc
from tensorclass import (
    LazyStackedTensorDict,
    MetaData,
    NonTensorData,
    NonTensorStack,
    RaggedTensor,
    TensorDict,
    TensorDictParams,
    UnbatchedTensor,
)
from tensorclass.errors import MissingKeyError, UnsupportedOperationError
from tests.contract._kinds import mixed
from tests.contract._typed_kinds import ALL_KINDS
from tests.io._exact import assert_same, raw


def lazy(**kwargs: Any) -> LazyStackedTensorDict:
    """A stack whose members differ in shapes and keys."""
    members = [TensorDict(a=torch.zeros(3), b=torch.ones(2)), TensorDict(a=torch.ones(4), c="x")]
    return LazyStackedTensorDict(*members, **kwargs)


CONTAINERS = {
    "lazy": lazy,
    "lazy with a name": lambda: lazy(stack_dim_name="time"),
    "lazy along dim 1": lambda: LazyStackedTensorDict(
        *[TensorDict(a=torch.rand(2, 3), batch_size=[2]) for _ in range(3)], stack_dim=1
    ),
    "lazy without members": lambda: LazyStackedTensorDict(batch_size=[2, 3], names=["a", None], stack_dim=1),
    "lazy as an entry": lambda: TensorDict(n=lazy(), m={"k": lazy()}, batch_size=[2]),
    "lazy of lazy": lambda: LazyStackedTensorDict(lazy(), lazy()),
    "params": lambda: TensorDictParams(w=torch.rand(2), n={"b": torch.arange(3)}),
    "params of a module": lambda: tc.from_module(nn.Linear(3, 2), as_module=True),
    "params kept": lambda: TensorDictParams({"w": torch.rand(2), "p": nn.Parameter(torch.rand(1))}, no_convert=True),
    "params in a dict": lambda: TensorDict(p=TensorDictParams(w=torch.rand(2)), x=torch.zeros(3)),
    "module": lambda: TensorDict.from_module(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))),
    "ragged": lambda: TensorDict(r=RaggedTensor([torch.rand(2, 3), torch.rand(0, 3)]), batch_size=[2]),
    "ragged slice": lambda: TensorDict(r=RaggedTensor([torch.rand(i) for i in range(4)]), batch_size=[4])[[3, 1]],
    "jagged": lambda: TensorDict(
        j=torch.nested.nested_tensor([torch.rand(2, 3), torch.rand(1, 3)], layout=torch.jagged)
    ),
    "nested": lambda: TensorDict._from_entries(
        {"j": torch.nested.nested_tensor([torch.rand(2, 3), torch.rand(1, 5)])}, torch.Size([]), None, None
    ),
    "wrapped": lambda: TensorDict(a=NonTensorData([1, 2]), b=MetaData({"k": 1}), c=NonTensorData(torch.ones(2))),
    "unbatched": lambda: TensorDict(a=UnbatchedTensor(torch.rand(5)), b=torch.zeros(2), batch_size=[2]),
    "objects": lambda: TensorDict(o=NonTensorStack({"a": 1}, (2, 3), None, "x"), batch_size=[4]),
    "no objects": lambda: TensorDict(o=NonTensorStack("a")[:0], batch_size=[0]),
    "grad": lambda: TensorDict(a=torch.rand(2, requires_grad=True), b=torch.rand(2)),
    "nothing": TensorDict,
    "deep": lambda: TensorDict({tuple(f"k{i}" for i in range(90)): torch.ones(1)}),
    "device": lambda: TensorDict(a=torch.ones(2), n={"b": torch.ones(2)}, device="cpu"),
    "inner lock": lambda: TensorDict(n=TensorDict(a=torch.ones(2)).lock_(), b=torch.ones(2)),
}  # fmt: skip


def both(container: Any, path: Any) -> list[Any]:
    """What `save` gives, and what the file gives mapped and in memory."""
    return [container.save(path), tc.load(path), tc.load(path, mmap=False)]


@pytest.mark.parametrize("name", CONTAINERS)
def test_containers(name, tmp_path):
    """Each kind of container of its own is the same in every respect that a file keeps."""
    container = CONTAINERS[name]()
    for found in both(container, tmp_path / "x.safetensors"):
        assert_same(found, container)


@pytest.mark.parametrize("name", ALL_KINDS)
def test_kinds_of_the_contract(name, tmp_path):
    """Each kind of container that every operation meets comes back, typed ones as their class."""
    container = ALL_KINDS[name](mixed())
    for found in both(container, tmp_path):
        assert_same(found, container)


def dtypes() -> dict[str, torch.dtype]:
    """Every dtype of this torch, once."""
    found = {value: name for name, value in vars(torch).items() if isinstance(value, torch.dtype)}
    return {name: dtype for dtype, name in found.items()}


def sample(dtype: torch.dtype, shape: tuple[int, ...]) -> Tensor:
    """Random bytes as a tensor."""
    count = torch.Size(shape).numel() * dtype.itemsize
    raw = torch.randint(0, 2 if dtype is torch.bool else 256, (count,), dtype=torch.uint8)
    return raw.view(dtype).view(shape)


QUANTIZED = {name for name in dtypes() if name.startswith("q")}


@pytest.mark.parametrize("name", sorted(set(dtypes()) - QUANTIZED))
def test_dtypes(name, tmp_path):
    """Every dtype comes back with the same bytes: scalars, empty tensors and others, mapped and in memory."""
    shapes = [(), (0,), (2, 0, 3), (5,), (3, 4)]
    source = {f"t{i}": sample(dtypes()[name], shape) for i, shape in enumerate(shapes)}
    for found in both(TensorDict(source), tmp_path):
        for key, tensor in source.items():
            assert_same(found[key], tensor, key)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: torch.eye(3).to_sparse(), "sparse"),
        (lambda: torch.quantize_per_tensor(torch.ones(2), 1.0, 0, torch.qint8), "quantized"),
        (lambda: torch.ones(3, device="meta"), "meta"),
        (lambda: torch.ones(3).as_subclass(type("Mine", (Tensor,), {})), "Mine"),
    ],
)
def test_refused_tensors(make, word, tmp_path):
    """What a file can't hold is refused with its field, and nothing is written."""
    data = TensorDict({"a": torch.ones(3), ("n", "b"): make()})
    with pytest.raises(UnsupportedOperationError, match=rf"field `n\.b`.*{word}"):
        data.save(tmp_path / "x.safetensors")
    assert os.listdir(tmp_path) == []


def test_inside_of_a_function_transform(tmp_path):
    """A tensor without memory is refused by name, and nothing is left behind."""

    def inside(x: Tensor) -> Tensor:
        TensorDict(a=x).save(tmp_path / "x.safetensors")
        return x

    with pytest.raises(UnsupportedOperationError, match="`a` has no values"):
        torch.vmap(inside)(torch.ones(2, 3))
    assert os.listdir(tmp_path) == []


def test_lazy_bits(tmp_path):
    """Conjugation and sign that torch has not worked out yet are in the file."""
    x = torch.tensor([1 + 2j, 3 - 1j])
    data = TensorDict(conj=x.conj(), neg=x.conj().imag, both=x.conj()[1:])
    assert data["conj"].is_conj()
    assert data["neg"].is_neg()
    for found in both(data, tmp_path):
        assert found["conj"].tolist() == [1 - 2j, 3 + 1j]
        assert found["neg"].tolist() == [-2, 1]
        assert found["both"].tolist() == [3 + 1j]


KEYS = [
    "shape", "device", "_type", "_class", "..", "../../x", "/", "", ".", "a.b", "a", "__metadata__", "tensorclass",
    "ключ", "🙂", "\ud800", "\x00", "a\nb", '"', "\\", "dtype", "data_offsets", "a.b#1", " ", "meta.json", "$tuple",
]  # fmt: skip


def test_keys(tmp_path):
    """Every key comes back, also beside those whose stored name would be the same."""
    source = TensorDict({key: torch.tensor(i) for i, key in enumerate(KEYS)})
    source["n"] = TensorDict({key: TensorDict({key: torch.tensor(i)}) for i, key in enumerate(KEYS)})
    source["values"] = TensorDict({key: key for key in KEYS})
    pairs = TensorDict({("p", "q"): torch.tensor(1), ("p.q",): torch.tensor(2), "p#1": torch.tensor(3)})
    for data in (source, pairs):
        for found in both(data, tmp_path):
            assert_same(found, data)


def test_tied_parameters(tmp_path):
    """A parameter under two names is stored once, and is one parameter again."""
    weight = nn.Parameter(torch.rand(3))
    params = TensorDictParams({"a": weight, "n": {"b": weight}})
    params.save(tmp_path / "x.safetensors")
    found = tc.load(tmp_path / "x.safetensors")
    assert found["a"] is found["n", "b"]
    assert (tmp_path / "x.safetensors").stat().st_size < 2 * 1024


def test_equal_data_gives_equal_files(tmp_path):
    """Where tensors lie, and how objects are kept, leaves no trace in a file."""
    base = torch.arange(24.0).reshape(4, 6)
    words = NonTensorStack("x", "y", "x", "z")
    one = TensorDict(a=base.t(), t=words, batch_size=[])
    one = TensorDict(a=base[:, :3], t=words, r=RaggedTensor([base[i, :i] for i in range(4)]), batch_size=[4])
    other = one[[3, 2, 1, 0]][[3, 2, 1, 0]].clone()
    one.save(tmp_path / "one.safetensors", checksums=True)
    other.save(tmp_path / "other.safetensors", checksums=True)
    assert (tmp_path / "one.safetensors").read_bytes() == (tmp_path / "other.safetensors").read_bytes()


def test_alignment(tmp_path):
    """Every tensor lies at a multiple of the size of its elements, those of whole lines at a multiple of 64."""
    odd = {"b": torch.ones(3, dtype=torch.uint8), "f": torch.ones(5), "c": torch.ones(3, dtype=torch.complex128)}
    data = TensorDict({**odd, "line": torch.ones(16), "two": torch.ones(32, dtype=torch.float64)}).save(tmp_path)
    for key, tensor in data.items():
        assert tensor.data_ptr() % tensor.element_size() == 0, key
    assert data["line"].data_ptr() % 64 == data["two"].data_ptr() % 64 == 0


def test_writes_stay_in_memory(tmp_path):
    """Neither what `save` gives nor what `load` gives reaches the file; two loads don't see each other."""
    path = tmp_path / "x.safetensors"
    source = TensorDict(a=torch.zeros(1000), n={"b": torch.zeros(3)})
    saved = source.save(path)
    before = path.read_bytes()
    one, other = tc.load(path), TensorDict.load(path)
    for found in (saved, one):
        found["a"].fill_(1)
        found["n", "b"] += 1
    assert path.read_bytes() == before
    assert other["a"].sum() == 0
    assert source["a"].sum() == 0


def test_write_through(tmp_path):
    """With mode="r+" writes reach the file."""
    path = tmp_path / "x.safetensors"
    TensorDict(a=torch.zeros(3)).save(path)
    tc.load(path, mode="r+")["a"].fill_(2)
    assert tc.load(path)["a"].tolist() == [2, 2, 2]


def test_independent_versions(tmp_path):
    """A write to one mapped tensor does not disturb the gradient of another."""
    TensorDict(a=torch.ones(3), b=torch.ones(3)).save(tmp_path)
    found = tc.load(tmp_path)
    x = torch.ones(3, requires_grad=True)
    y = (x * found["a"]).sum()
    found["b"].fill_(5)
    y.backward()
    assert x.grad is not None
    assert x.grad.tolist() == [1, 1, 1]


def test_saving_over_a_live_map(tmp_path):
    """The old map keeps the old values, also where the new file is shorter."""
    path = tmp_path / "x.safetensors"
    old = TensorDict(a=torch.arange(100_000)).save(path)
    TensorDict(a=torch.zeros(2)).save(path)
    assert old["a"][-1] == 99_999
    assert tc.load(path)["a"].shape == (2,)
    old.save(path)
    assert tc.load(path)["a"][-1] == 99_999


def test_no_descriptor_is_kept(tmp_path):
    """Maps hold no descriptors, so that thousands of files can be open."""
    TensorDict(a=torch.ones(10)).save(tmp_path)
    before = len(os.listdir("/proc/self/fd"))
    held = [tc.load(tmp_path) for _ in range(20)]
    assert len(os.listdir("/proc/self/fd")) == before
    assert len(held) == 20


def test_sub_trees(tmp_path):
    """A path that goes on below the folder, and `subpath`, read one entry and nothing else."""
    source = TensorDict({"a": torch.ones(2), "n": {"m": {"b": torch.arange(3)}}, "s": lazy(), "t": "text"})
    source.save(tmp_path / "d")
    assert_same(tc.load(tmp_path / "d" / "n" / "m"), source["n", "m"])
    assert_same(tc.load(tmp_path / "d", subpath=("n", "m", "b")), source["n", "m", "b"])
    assert_same(tc.load(tmp_path / "d" / "s" / "1"), source["s"][1])
    assert tc.load(tmp_path / "d" / "t") == "text"
    with pytest.raises(MissingKeyError, match="did you mean `m`"):
        tc.load(tmp_path / "d", subpath=("n", "mm"))


def test_load_in_place(tmp_path):
    """`load_` and `out=` copy into the tensors that are there, all or nothing."""
    TensorDict(a=torch.ones(3), n={"b": torch.ones(2)}).save(tmp_path)
    target = TensorDict(a=torch.zeros(3), n={"b": torch.zeros(2)})
    a = target["a"]
    assert target.load_(tmp_path) is target
    assert target["a"] is a
    assert a.tolist() == [1, 1, 1]
    other = TensorDict(a=torch.zeros(3), n={"c": torch.zeros(2)})
    with pytest.raises(KeyError):
        tc.load(tmp_path, out=other)
    assert other["a"].sum() == 0


def test_one_pass_without_a_copy(tmp_path):
    """The bytes that are written are those of the tensors: a copy of a strided tensor at a time, and none of others."""
    dense = torch.rand(1 << 16)
    strided = torch.rand(1 << 8, 1 << 8).t()
    TensorDict(dense=dense, strided=strided).save(tmp_path / "x.safetensors")
    found = tc.load(tmp_path / "x.safetensors")
    assert raw(found["dense"]) == raw(dense)
    assert raw(found["strided"]) == raw(strided)


def test_dumps_is_save(tmp_path):
    """`dumps` writes what `save` writes."""
    TensorDict(a=torch.ones(3)).dumps(tmp_path / "a.safetensors")
    TensorDict(a=torch.ones(3)).save(tmp_path / "b.safetensors")
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()
