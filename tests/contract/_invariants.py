"""What holds for every container after every operation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from tensorclass import NonTensorStack, RaggedTensor, TensorCollection
from tensorclass.core import BATCHED, STORAGE, VALUES
from tensorclass.store import Node, TensorDict
from tensorclass.store.entries._object_table import ItemText


def check(collection: TensorCollection, path: str = "") -> None:
    """Assert the invariants of a container and of all below it."""
    if collection._stacked:
        _check_stack(getattr(collection, "_store", collection), path)
        return
    size = collection.batch_size
    assert type(size) is torch.Size, f"{path or 'root'}: batch_size is a {type(size).__name__}"
    assert len(collection.names) == len(size), f"{path or 'root'}: {collection.names} for batch size {list(size)}"
    assert collection._names is None or type(collection._names) is tuple
    assert (collection.ndim, collection.batch_dims, collection.shape) == (len(size), len(size), size)
    for key, value in collection._entries().items():
        _check_entry(collection, value, f"{path}.{key}" if path else key)
    _check_views(collection)
    _check_leaves(collection)
    store = getattr(collection, "_store", collection)
    if isinstance(store, TensorDict):
        only_tensors = all(isinstance(value, Tensor) for value in store._data.values())
        assert store._plain is False or only_tensors, f"{path or 'root'}: `_plain` with entries that are not tensors"


def _check_stack(stack: Any, path: str) -> None:
    """Members agree in the number of dims and in device; what holds for a container holds for each of them."""
    size, members = stack.batch_size, stack.tensordicts
    assert len(members) == size[stack.stack_dim], f"{path or 'root'}: {len(members)} members for {list(size)}"
    assert len(stack.names) == len(size)
    inner = (*size[: stack.stack_dim], *size[stack.stack_dim + 1 :])
    for position, member in enumerate(members):
        fits = [n in (-1, m) for n, m in zip(inner, member.batch_size, strict=True)]
        assert all(fits), f"`{path}[{position}]` has batch size {list(member.batch_size)} in {list(size)}"
        assert member.is_locked or not stack.is_locked
        check(member, f"{path}[{position}]")


def _check_entry(holder: TensorCollection, value: Any, here: str) -> None:
    size, device = holder.batch_size, holder.device
    if isinstance(value, TensorCollection):
        assert value.batch_size[: len(size)] == size, (
            f"`{here}` has batch size {list(value.batch_size)} in {list(size)}"
        )
        assert device is None or value.device == device, f"`{here}` is on {value.device}, its holder on {device}"
        assert value.is_locked or not holder.is_locked, f"`{here}` is unlocked in a locked container"  # type: ignore[attr-defined]  # every container has the operations
        check(value, here)
    elif isinstance(value, Node):
        shape = getattr(value, "_batch_shape", None)  # an integer kept as it is has none
        assert shape is None or shape[: len(size)] == size, f"`{here}` has shape {shape} in {list(size)}"
    elif isinstance(value, Tensor):
        assert value.shape[: len(size)] == size, f"`{here}` has shape {list(value.shape)} in {list(size)}"
        assert device is None or value.device == device, f"`{here}` is on {value.device}, its holder on {device}"


def _check_views(collection: Any) -> None:
    """Keys, values and items agree, and are what reading by key gives."""
    entries = collection._entries()
    keys = list(type(collection).keys(collection))
    assert keys == list(entries)
    assert len(set(keys)) == len(keys)
    items = list(type(collection).items(collection))
    assert [key for key, _ in items] == keys
    for (key, shown), value in zip(items, type(collection).values(collection), strict=True):
        assert _is_same(shown, value)
        read = collection._entry(key)
        if isinstance(shown, NonTensorStack):  # an untyped container reads its objects as lists
            assert (read.tolist() if isinstance(read, NonTensorStack) else read) == shown.tolist()
        else:
            assert _is_same(read, shown), f"`{key}` reads differently by key and by view"


def _is_same(shown: Any, value: Any) -> bool:
    """Whether a view shows a value: an instance and its store are one, and so are strings of one element."""
    one, other = getattr(shown, "_store", shown), getattr(value, "_store", value)
    return one is other or (type(shown) is ItemText and bool(shown == value))


def _numbers(collection: TensorCollection) -> Iterator[int]:
    """What numbers the elements of entry nodes: no storage, as what views share says it all."""
    for value in getattr(collection, "tensordicts", ()) if collection._stacked else collection._entries().values():
        if isinstance(value, TensorCollection):
            yield from _numbers(value)
        elif isinstance(value, (RaggedTensor, NonTensorStack)):
            yield from map(id, value._leaves(BATCHED))


def same_numbers(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors are equal, not-a-number beside itself."""
    return a.shape == b.shape and bool(((a == b) | ((a != a) & (b != b))).all())


def _check_leaves(collection: TensorCollection) -> None:
    """The leaf kinds nest, and a twin around the same leaves is the same container."""
    collection = collection._open([], STORAGE)  # of which ragged views give the same copies each time
    storage, values, batched = (collection._leaves(kind) for kind in (STORAGE, VALUES, BATCHED))
    every = {id(leaf) for leaf in storage}
    found = {id(leaf) for leaf in [*batched, *values] if isinstance(leaf, Tensor)}  # a stack is a leaf of its own
    numbers = set(_numbers(collection))
    assert found <= every | numbers
    twin = collection._make(storage, collection.batch_size, collection._names, STORAGE)
    pairs = list(zip(twin._leaves(STORAGE), storage, strict=True))
    assert all(a is b or (numbers and same_numbers(a, b)) for a, b in pairs)
    assert list(twin._entries()) == list(collection._entries())
