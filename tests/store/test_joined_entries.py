"""Joins of entries that are not tensors: the same object and an equal one join alike, and as the anchor joins them."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import tensordict
import torch

import tensorclass
from tensorclass import RaggedTensor, UnbatchedTensor

SIZE = [2]
CONFIG = {"lr": 0.1}
"""Objects that are not compared by value are one when they are the same object."""
OBJECTS: dict[str, Callable[[Any], Any]] = {
    "text": lambda library: "scan",
    "meta of a dict": lambda library: library.MetaData(CONFIG),
    "meta of a text": lambda library: library.MetaData("scan"),
    "object": lambda library: library.NonTensorData(CONFIG),
    "stack": lambda library: library.NonTensorStack("a", "b"),
    "nested meta": lambda library: library.TensorDict({"meta": library.MetaData("scan")}, batch_size=SIZE),
}
OWN: dict[str, Callable[[], Any]] = {
    "ragged": lambda: RaggedTensor([torch.ones(2), torch.ones(3)]),
    "unbatched": lambda: UnbatchedTensor(torch.arange(3.0)),
}
JOINS = {"stack": torch.stack, "cat": torch.cat}


def holder(library: Any, value: Any) -> Any:
    """A container of a tensor and another entry."""
    return library.TensorDict({"x": torch.zeros(2), "entry": value}, batch_size=SIZE)


def told(value: Any) -> Any:
    """An entry in words that both libraries share."""
    if hasattr(value, "to_dict"):
        return str(value.to_dict())
    return str(value.tolist() if hasattr(value, "tolist") else value)


@pytest.mark.parametrize("join", JOINS)
@pytest.mark.parametrize("kind", OBJECTS)
def test_objects_join_as_in_the_anchor(kind: str, join: str) -> None:
    """The class of the entry, and what it holds."""
    found = []
    for library in (tensorclass, tensordict):
        data = holder(library, OBJECTS[kind](library))
        joined = JOINS[join]([data, data])
        found.append((type(joined.get("entry")).__name__, told(joined["entry"])))
    assert found[0] == found[1]


@pytest.mark.parametrize("join", JOINS)
@pytest.mark.parametrize("kind", [*OBJECTS, *OWN])
def test_the_same_object_joins_as_an_equal_one(kind: str, join: str) -> None:
    """No short way for one object that is found twice gives another result."""
    data, other = [holder(tensorclass, OWN[kind]() if kind in OWN else OBJECTS[kind](tensorclass)) for _ in range(2)]
    twice, equal = JOINS[join]([data, data]), JOINS[join]([data, other])
    assert type(twice.get("entry")) is type(equal.get("entry"))
    assert told(twice["entry"]) == told(equal["entry"])
    assert twice.batch_size == equal.batch_size


def saved(value: Any) -> Any:
    """Through `torch.save`."""
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


COPIES: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
    "save": saved,
    "clone": lambda value: value.clone(),
}


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("copied", COPIES)
@pytest.mark.parametrize("within", ["nothing", "dense", "lazy", "nested"])
def test_copies_of_unbatched_tensors(within: str, copied: str, requires_grad: bool) -> None:
    """Their class, values and flag, by themselves and in containers; only a shallow copy has the same memory."""
    shared = UnbatchedTensor(torch.arange(3.0)).requires_grad_(requires_grad)
    data = holder(tensorclass, shared)
    made = {
        "nothing": lambda: shared,
        "dense": lambda: data,
        "lazy": lambda: tensorclass.lazy_stack([data, data]),
        "nested": lambda: holder(tensorclass, data),
    }[within]()
    found = COPIES[copied](made)
    paths: dict[str, tuple[Any, ...]] = {
        "nothing": (),
        "dense": ("entry",),
        "lazy": ("entry",),
        "nested": ("entry", "entry"),
    }
    unbatched = found.get(paths[within]) if paths[within] else found
    assert type(unbatched) is UnbatchedTensor
    assert unbatched.tolist() == [0.0, 1.0, 2.0]
    assert unbatched.requires_grad is requires_grad
    if within != "lazy":
        assert (unbatched.data_ptr() == shared.data_ptr()) is (copied == "copy")
