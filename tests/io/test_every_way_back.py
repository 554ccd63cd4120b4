"""Every kind of field, at every batch shape, empty and strided ones included, comes back from every form it goes to."""

from __future__ import annotations

import copy
import io
import pickle
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count, cycle
from pathlib import Path
from types import new_class
from typing import Any

import pytest
import torch
import torch.utils._pytree as pytree
from hypothesis import HealthCheck, given, settings
from torch import Tensor

from tensorclass import (
    LazyStackedTensorDict,
    NonTensorStack,
    PerElement,
    Ragged,
    RaggedTensor,
    Shared,
    TensorClass,
    TensorDict,
    UnbatchedTensor,
)
from tensorclass.errors import SchemaError
from tensorclass.testing import batches, same
from tensorclass.typing import (
    BFloat16,
    Bool,
    Complex64,
    Float8e4m3fn,
    Float16,
    Float32,
    Float64,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
)
from tests.io._exact import assert_same
from tests.testing._classes import EVERY, Colour

SIZES = [(), (3,), (0,), (1,), (2, 3), (0, 3), (3, 0)]


def each(size: tuple[int, ...], values: Iterator[Any]) -> Any:
    """Nested lists of the batch shape with a value for each element."""
    return [each(size[1:], values) for _ in range(size[0])] if size else next(values)


def ragged(*event: int) -> Callable[[tuple[int, ...]], Any]:
    """Elements of 0 to 2 rows."""
    return lambda size: each(size, (torch.rand(i % 3, *event) for i in count(1)))


def tensor(dtype: torch.dtype, *event: int) -> Callable[[tuple[int, ...]], Tensor]:
    """A tensor of any dtype."""
    return lambda size: (torch.rand([*size, *event], dtype=torch.float64) * 9).to(dtype)


class Objects(TensorClass):
    """No field of it shows a batch size."""

    p: PerElement[str]
    q: PerElement[list[int]]


class Lengths(TensorClass):
    """As `Objects`, with elements of different lengths."""

    r: Ragged[Tensor, "t 2"]


class Bare(TensorClass):
    """A tensor of any shape."""

    r: Tensor


class Common(TensorClass):
    """Only what all elements share."""

    s: Shared[Float32[Tensor, "k"]]
    v: int


class Optionals(TensorClass):
    """Everything may be absent."""

    a: Float32[Tensor, ""] | None = None
    p: PerElement[str] | None = None
    b: Bare | None = None


def objects(size: tuple[int, ...]) -> Objects:
    """An instance whose values are all lists."""
    return Objects(p=each(size, cycle("abc")), q=each(size, cycle([[1, 2], [], [3]])), batch_size=size)


KINDS: dict[str, tuple[Any, Callable[[tuple[int, ...]], Any]]] = {
    "float": (Float32[Tensor, "3"], tensor(torch.float32, 3)),
    "scalar": (Float64[Tensor, ""], tensor(torch.float64)),
    "bfloat16": (BFloat16[Tensor, ""], tensor(torch.bfloat16)),
    "float16": (Float16[Tensor, "2"], tensor(torch.float16, 2)),
    "float8": (Float8e4m3fn[Tensor, "2"], tensor(torch.float8_e4m3fn, 2)),
    "complex": (Complex64[Tensor, "2"], tensor(torch.complex64, 2)),
    "bool": (Bool[Tensor, "2"], tensor(torch.bool, 2)),
    "uint8": (UInt8[Tensor, ""], tensor(torch.uint8)),
    "uint16": (UInt16[Tensor, ""], tensor(torch.uint16)),
    "uint32": (UInt32[Tensor, ""], tensor(torch.uint32)),
    "no values": (UInt64[Tensor, "0"], tensor(torch.uint64, 0)),
    "any tensor": (Tensor, tensor(torch.float32, 2)),
    "shared": (Shared[Float32[Tensor, "k"]], lambda _: torch.rand(4)),
    "shared, strided": (Shared[BFloat16[Tensor, "k"]], lambda _: torch.rand(2).bfloat16()[::2]),
    "ragged": (Ragged[Tensor, "t"], ragged()),
    "ragged of rows": (Ragged[Tensor, "t 2"], ragged(2)),
    "ints": (PerElement[int], lambda size: each(size, count())),
    "strings": (PerElement[str], lambda size: each(size, cycle("abc"))),
    "lists": (PerElement[list[int]], lambda size: each(size, cycle([[1, 2], [], [3]]))),
    "int": (int, lambda _: 3),
    "str": (str, lambda _: "x"),
    "list": (list[int], lambda _: [1, 2]),
    "dict": (dict[str, int], lambda _: {"a": 1}),
    "enum": (Colour, lambda _: Colour.RED),
    "absent tensor": (Float32[Tensor, "3"] | None, lambda _: None),
    "present tensor": (Float32[Tensor, "3"] | None, tensor(torch.float32, 3)),
    "absent int": (int | None, lambda _: None),
    "absent strings": (PerElement[str] | None, lambda _: None),
    "absent instance": (Objects | None, lambda _: None),
    "objects": (Objects, objects),
    "lengths": (Lengths, lambda size: Lengths(r=ragged(2)(size), batch_size=size)),
    "bare": (Bare, lambda size: Bare(r=torch.rand(*size, 2), batch_size=size)),
    "common": (Common, lambda size: Common(s=torch.rand(4), v=2, batch_size=size)),
    "optionals": (Optionals, lambda size: Optionals(batch_size=size)),
    "container": (TensorDict, lambda size: TensorDict(a=torch.rand(*size, 2), b="x", batch_size=size)),
}
CLASSES: dict[str, Any] = {}
for _number, (_name, (_kind, _)) in enumerate(KINDS.items()):
    _fields = {"x": _kind, "z": Float32[Tensor, ""]}
    _space = {"__annotations__": _fields, "__module__": __name__}
    CLASSES[_name] = new_class(f"Kind{_number}", (TensorClass,), {}, partial(dict.update, **_space))
    setattr(sys.modules[__name__], f"Kind{_number}", CLASSES[_name])


def whole(name: str, size: tuple[int, ...]) -> Any:
    """A batch with a field of that kind, and one that shows the batch size."""
    return CLASSES[name](x=KINDS[name][1](size), z=torch.rand(size), batch_size=size)


def strided(name: str, size: tuple[int, ...]) -> Any:
    """Every second element of a larger batch."""
    return whole(name, tuple(2 * n for n in size))[tuple(slice(None, None, 2) for _ in size)]


def saved(batch: Any) -> Any:
    """What `torch.load` reads."""
    file = io.BytesIO()
    torch.save(batch, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


def filed(suffix: str, write: str, read: str, **options: Any) -> Callable[[Any], Any]:
    """Through a file."""

    def way(batch: Any) -> Any:
        path = Path(f"file-{next(_FILES)}{suffix}")
        getattr(batch, write)(path)
        return getattr(type(batch), read)(path, **options)

    return way


_FILES = count()
WAYS: dict[str, Callable[[Any], Any]] = {
    "a dict": lambda b: type(b).from_dict(b.to_dict()),
    "a dict with the batch size": lambda b: type(b).from_dict(b.to_dict(), batch_size=b.batch_size),
    "a dict without None": lambda b: type(b).from_dict(b.to_dict(retain_none=False)),
    "a named tuple": lambda b: type(b).from_namedtuple(b.to_namedtuple(), batch_size=b.batch_size),
    "JSON": lambda b: type(b).from_json(b.to_json()),
    "pickle": lambda b: pickle.loads(pickle.dumps(b)),
    "a deep copy": copy.deepcopy,
    "torch.save": saved,
    "a container": lambda b: type(b).from_tensordict(b.to_tensordict()),
    "a container with None": lambda b: type(b).from_tensordict(b.to_tensordict(retain_none=True)),
    "a state dict": lambda b: b.clone().load_state_dict(b.state_dict()),
    "a pytree": lambda b: pytree.tree_map(lambda leaf: leaf, b),
    "safetensors": filed(".safetensors", "save", "load", mmap=False),
    "HDF5": filed(".h5", "to_h5", "from_h5"),
    "Arrow": lambda b: type(b).from_arrow(b.to_arrow()),
    "a structured array": lambda b: type(b).from_struct_array(b.to_struct_array()),
}
TABLES = {"Arrow", "a structured array"}
UNTOLD = {"shared", "shared, strided", "int", "str", "list", "dict", "enum", "common"}
"""Kinds whose value a table without rows doesn't have, since it is in the rows."""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", KINDS)
def test_every_kind_comes_back(way: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same fields, shapes, dtypes, values and objects; a table has one batch dim, and its rows all values."""
    monkeypatch.chdir(tmp_path)
    for size in SIZES:
        if way == "Arrow" and len(size) != 1:
            continue
        for make in (whole, strided) if size else (whole,):
            batch = make(name, size)
            if way in TABLES and name in UNTOLD and 0 in size:
                with pytest.raises(SchemaError, match=r"pass `\w+=`"):
                    WAYS[way](batch)
            elif way in TABLES and name == "container":  # its string becomes one of each row
                assert WAYS[way](batch).x.exclude("b") == same(batch.x.exclude("b"))
            else:
                assert_same(WAYS[way](batch), batch)


@pytest.mark.parametrize("cls", EVERY, ids=lambda cls: cls.__name__)
def test_random_batches_come_back(cls: Any) -> None:
    """Any instance of classes with shared dims, constraints, nested and recursive fields."""

    @settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(batches(cls))
    def check(batch: Any) -> None:
        for way in ("JSON", "pickle", "torch.save", "a container"):
            assert_same(WAYS[way](batch), batch)
        if batch.numel():  # an empty list of ragged elements has neither dtype nor sizes
            assert cls.from_dict(batch.to_dict(), batch_size=batch.batch_size) == batch

    check()


def untyped(size: tuple[int, ...]) -> dict[str, Any]:
    """Untyped containers of every kind that a plain dict tells apart."""
    x = torch.rand(*size, 2)
    deeper = TensorDict(b=torch.rand(*size, 2), batch_size=(*size, 2))
    words = each(size, cycle("abc"))
    return {
        "tensors": TensorDict(x=x, batch_size=size),
        "deeper": TensorDict(x=x, n=deeper, batch_size=size),
        "objects": TensorDict(x=x, o=NonTensorStack.of(words, size) if size else words, batch_size=size),
        "shared": TensorDict(x=x, o="x", u=UnbatchedTensor(torch.rand(4)), none=None, batch_size=size),
        "named": TensorDict(x=x, batch_size=size, names=[f"d{i}" for i in range(len(size))]),
        "lazy": LazyStackedTensorDict(*[TensorDict(x=x + i, batch_size=size) for i in range(2)]),
    }


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_a_container_equals_what_its_dict_becomes(size: tuple[int, ...]) -> None:
    """Whichever batch size it is read with; the result has the longer batch sizes, and decides as a bool."""
    for name, batch in untyped(size).items():
        for options in ({}, {"batch_size": batch.batch_size}, {"auto_batch_size": True}):
            again = TensorDict.from_dict(batch.to_dict(), **options)
            for result in (batch == again, again == batch):
                assert result.all(), (name, options)
                assert result, (name, options)
                assert result.batch_size[: batch.ndim] == batch.batch_size, (name, options)
            assert not (batch + 1 == again)["x"].any(), (name, options)


@pytest.mark.parametrize("read", [{}, {"batch_size": [3]}], ids=["as it is", "with its batch size"])
def test_absent_fields_are_no_entries(read: dict[str, Any]) -> None:
    """None of an optional field is equal to an absent field, is not stored, and writes nothing."""
    for batch in (
        Optionals(torch.rand(3)),
        Optionals(torch.rand(3), b=Bare(torch.rand(3), batch_size=[3])),
        Optionals(p=["a", "b", "c"], batch_size=[3]),
    ):
        told = {"batch_size": [3]} if batch.a is None else read
        source = TensorDict.from_dict(batch.to_dict(), **told)
        assert batch == source
        assert source == batch
        assert_same(Optionals.from_tensordict(TensorDict.from_dict(batch.to_dict(), batch_size=[3])), batch)
        assert_same(batch.clone().update_(batch.to_dict()), batch)
        assert_same(batch.clone().copy_(batch.to_dict()), batch)
        assert_same(batch.clone().update(batch.to_dict()), batch)
    with pytest.raises(KeyError, match="`c` is not an entry"):
        Optionals(torch.rand(3)).update_({"c": None})


def test_ragged_tables_of_dtypes_that_torch_cannot_pickle() -> None:
    """Tables of ragged entries and shared tensors of unsigned integers and float8 are pickled, gradients kept."""
    rows = RaggedTensor([torch.arange(i).to(torch.uint32) for i in range(3)])
    batch = TensorDict(
        r=rows,
        u=UnbatchedTensor(torch.arange(2).to(torch.uint64)),
        n={"f": tensor(torch.float8_e5m2)((3,))},
        batch_size=[3],
    )
    for container in (batch, batch[::2], LazyStackedTensorDict(batch, batch)):
        assert_same(pickle.loads(pickle.dumps(container)), container)
        assert_same(saved(container), container)
