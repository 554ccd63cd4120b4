"""A field with one object per element, read in a batch without dims, is the object itself."""

from __future__ import annotations

import copy
import json
import os
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import (
    LazyStackedTensorDict,
    NonTensorData,
    NonTensorStack,
    PerElement,
    TensorClass,
    TensorDict,
    equal,
    stack,
)
from tensorclass.store.entries._object_table import ItemText
from tensorclass.typing import Float32


@dataclass(frozen=True)
class Box:
    """An object of a class that the library doesn't know."""

    width: int


class Named(TensorClass):
    x: Float32[Tensor, ""]
    it: PerElement[Any]


class Maybe(TensorClass):
    x: Float32[Tensor, ""]
    name: PerElement[str] | None = None


class Tagged(TensorClass):
    x: Float32[Tensor, ""]
    tag: Any = "none"


class Outer(TensorClass):
    named: Named
    text: PerElement[str]


OBJECTS = {
    "str": ["a cat", "a dog"], "empty str": ["", "b"], "int": [3, 4], "float": [0.5, 1.5],
    "bool": [True, False], "none": [None, "a"], "dict": [{"a": 1}, {}], "list": [[1, 2], []],
    "tuple": [(1, 2), ()], "object": [Box(1), Box(2)], "bytes": [b"a", b""],
}  # fmt: skip


def _stacked(batch: Any) -> Any:
    return Named.from_tensordict(LazyStackedTensorDict.lazy_stack(list(batch.to_tensordict().unbind(0))))


STORES = {
    "dense": lambda batch: batch,
    "lazy": _stacked,
    "adopted": lambda batch: Named.from_tensordict(batch.to_tensordict()),
    "joined": lambda batch: torch.stack([batch[0], batch[1]]),
    "cat": lambda batch: torch.cat([batch[:1], batch[1:]]),
    "reshaped": lambda batch: batch.reshape(2, 1).reshape(2),
    "unpickled": lambda batch: pickle.loads(pickle.dumps(batch)),
    "cloned": lambda batch: batch.clone(),
    "json": lambda batch: Named.from_json(batch.to_json()),
}

READS = {
    "row, then field": lambda batch, i: batch[i].it,
    "field, then index": lambda batch, i: batch.it[i],
    "negative index": lambda batch, i: batch.it[i - 2],
    "tensor index": lambda batch, i: batch.it[torch.tensor(i)],
    "get of a row": lambda batch, i: batch[i].get("it"),
    "key of a row": lambda batch, i: batch[i]["it"],
    "items of a row": lambda batch, i: dict(batch[i].items())["it"],
    "values of a row": lambda batch, i: list(batch[i].values())[1],
    "nested items": lambda batch, i: dict(batch[i].items(include_nested=True))["it"],
    "to_dict of a row": lambda batch, i: batch[i].to_dict()["it"],
    "iteration over rows": lambda batch, i: [row.it for row in batch][i],
    "iteration over the field": lambda batch, i: list(batch.it)[i],
    "slice, then index": lambda batch, i: batch.it[i:][0],
    "two dims": lambda batch, i: batch.reshape(2, 1).it[i, 0],
    "two indices": lambda batch, i: batch.reshape(2, 1).it[i][0],
    "reshaped field": lambda batch, i: batch.it.reshape(1, 2)[0, i],
    "unbound": lambda batch, i: batch.unbind(0)[i].it,
    "a copy": lambda batch, i: copy.deepcopy(batch[i]).it,
}


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("kind", OBJECTS)
def test_every_way_to_read_one_element_gives_the_object(kind: str, store: str, read: str) -> None:
    """An index that leaves no batch dims gives the object that was written, in every store and by every read."""
    if store == "json" and kind in ("tuple", "object", "bytes"):
        pytest.skip("JSON has no such value")
    objects = OBJECTS[kind]
    batch = STORES[store](Named(torch.zeros(2), objects))
    for i, expected in enumerate(objects):
        found = READS[read](batch, i)
        assert isinstance(found, type(expected))
        assert found == expected


def test_a_string_works_wherever_a_str_works() -> None:
    """What Python and the standard library do with a string, they do with one element of a field of strings."""
    row = Maybe(torch.zeros(2), name=["b", "a cat.png"])[1]
    name: Any = row.name
    assert isinstance(name, str)
    assert repr(name) == "'a cat.png'"
    assert (str(name), f"{name:>12}", "%s" % name) == ("a cat.png", "   a cat.png", "a cat.png")  # noqa: UP031  # a form to support
    assert name.split() == ["a", "cat.png"]
    assert name in {"a cat.png"}
    assert {name: 1}["a cat.png"] == 1
    assert json.dumps({name: name}) == '{"a cat.png": "a cat.png"}'
    assert os.path.join("x", name) == os.path.join("x", "a cat.png")
    assert Path("x") / name == Path("x/a cat.png")
    assert name + "!" == "a cat.png!"
    assert sorted([name, "a"]) == ["a", "a cat.png"]


def test_a_string_keeps_the_methods_of_a_stack_for_one_version() -> None:
    """Code that asked the stack of one element for its object works unchanged on strings."""
    name: Any = Maybe(torch.zeros(1), name=["a"])[0].name
    assert (name.item(), name.tolist(), name.data) == ("a", "a", "a")
    assert [type(x) for x in (name.item(), name.tolist(), name.data, str(name), copy.copy(name))] == [str] * 5
    assert type(pickle.loads(pickle.dumps(name))) is str
    assert type(copy.deepcopy({"a": [name]})["a"][0]) is str


def test_a_string_is_stored_as_a_plain_str() -> None:
    """A string that was read from a batch and written to another one is a plain `str` there."""
    name: Any = Maybe(torch.zeros(1), name=["a"])[0].name
    assert type(name) is ItemText
    written = [
        Maybe(torch.zeros(()), name=name), Maybe(torch.zeros(2), name=[name, name])[0],
        Maybe(torch.zeros(())).replace(name=name), Maybe(torch.zeros(2), name=name)[0],
    ]  # fmt: skip
    assert type(Tagged(torch.zeros(()), name).tag) is str
    for row in written:
        assert type(row.to_tensordict()["name"]) is str
    assert type(TensorDict(a=name)["a"]) is str
    assert type(NonTensorData(name).data) is str
    assert type(NonTensorStack(name).tolist()[0]) is str


def test_rows_are_joined_and_compared_as_before() -> None:
    """The store keeps its form: rows stack back to the batch, and a changed row is written at its index."""
    batch = Named(torch.arange(2.0), ["a", "b"])
    assert equal(torch.stack([batch[0], batch[1]]), batch)
    row = batch[0]
    row.it = "z"
    assert (row.it, batch.it.tolist()) == ("z", ["a", "b"])
    batch[1] = row
    assert batch.it.tolist() == ["a", "z"]
    assert equal(Named(batch[0].x, batch[0].it), batch[0])


def test_a_nested_class_gives_objects_too() -> None:
    """Fields of nested classes are read by the same rule."""
    outer = Outer(Named(torch.zeros(2), [1, 2]), ["a", "b"])
    assert (outer[1].named.it, outer[1].text, outer.named[0].it, outer["named", "it"][1]) == (2, "b", 1, 2)
    assert outer[1].get(("named", "it")) == 2


def test_untyped_containers_follow_tensordict() -> None:
    """`TensorDict.get` keeps returning a stack, also over the memory of a typed batch that was read before."""
    batch = Named(torch.zeros(2), ["a", "b"])
    assert batch.it[0] == "a"
    for untyped in (batch.to_tensordict(), TensorDict(it=batch.it, batch_size=[2]), batch._store):
        stack = untyped.get("it")
        assert isinstance(stack[0], NonTensorStack)
        assert (stack[0].data, str(stack[0]), untyped[0]["it"]) == ("a", "a", "a")


def test_a_field_reads_as_one_object_over_the_same_elements() -> None:
    """Two reads of a field give the same stack, and its slices see writes to the batch."""
    batch = Named(torch.zeros(2), ["a", "b"])
    assert batch.it is batch.it
    rows = batch[:1]
    batch[0] = Named(torch.ones(()), "z")
    assert (rows.it[0], batch.it[0]) == ("z", "z")


def test_a_write_through_the_field_names_the_ways() -> None:
    """The objects of a field can't be assigned by index; the error says how a batch is written."""
    batch = Named(torch.zeros(2), ["a", "b"])
    with pytest.raises(TypeError, match=r"`batch\[1\] = row`"):
        batch.it[1] = "z"


def test_mapped_elements_stay_a_stack() -> None:
    """Inside `torch.vmap` there is no single object: the field passes through as a stack."""
    batch = Named(torch.arange(3.0), ["a", "b", "c"])
    seen: list[Any] = []

    def double(row: Any) -> Any:
        seen.append(row.it)
        return row * 2

    result = torch.vmap(double)(batch)
    assert isinstance(seen[0], NonTensorStack)
    assert (result.x.tolist(), result.it.tolist()) == ([0.0, 2.0, 4.0], ["a", "b", "c"])


def test_compiled_code_passes_objects_through() -> None:
    """A compiled function may carry the objects of a row without a graph break."""
    torch._dynamo.reset()
    row = Named(torch.zeros(2), ["a", "b"])[1]

    def step(one: Any) -> Any:
        return one.replace(x=one.x + 1)

    result = torch.compile(step, fullgraph=True, backend="eager")(row)
    assert (result.it, result.x.item()) == ("b", 1.0)


class Only(TensorClass):
    name: PerElement[str]


def test_a_list_without_a_batch_size_names_it() -> None:
    """If no field tells the batch size, the error of a list of objects names the argument; given, the call works."""
    with pytest.raises(ValueError, match=r"pass batch_size=\[2\]"):
        Only(["a", "b"])
    assert Only(["a", "b"], batch_size=[2])[1].name == "b"


def test_objects_survive_the_meta_device() -> None:
    """The tensors lose their data there; objects have no device, so they are read, indexed and printed as before."""

    class Text(TensorClass):
        x: Float32[Tensor, "2"]
        name: PerElement[str]

    for meta in (Text(torch.zeros(2, 2), ["a", "b"]).to("meta"), Text(torch.zeros(2, 2), ["a", "b"], device="meta")):
        assert meta.x.is_meta
        assert meta.name.tolist() == ["a", "b"]
        assert meta[1].name == "b"
        assert meta[torch.tensor([1, 0])].name.tolist() == ["b", "a"]
        assert stack([meta, meta])[1, 0].name == "a"
        assert repr(meta[0]) == "Text(x=f32[2], name='a', device=meta)"
        assert "name" in meta._repr_html_()
        assert meta.to_tensordict()[0]["name"] == "a"
