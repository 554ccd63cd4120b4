"""A container element by element, read without the operations of the library: what every test compares with."""

from __future__ import annotations

from itertools import product
from typing import Any, TypeAlias

import torch
from torch import Tensor

from tensorclass import NonTensorStack, RaggedTensor, TensorCollection
from tensorclass.store import Unbatched

Place: TypeAlias = "tuple[int, ...]"
Payload: TypeAlias = "dict[tuple[Any, ...], Any]"


def elements(container: Any, copy: bool = True) -> dict[Place, Payload]:
    """What each element of a batch holds, by path; copies, or the memory itself."""
    size = tuple(container.batch_size)
    return {at: payload(container, at, copy) for at in product(*map(range, size))}


def payload(container: Any, at: Place, copy: bool = True) -> Payload:
    """What one element holds; batch dims beyond those of the place are positions in the path."""
    store = getattr(container, "_store", container)
    if store._stacked and store.stack_dim < len(at):
        rest = (*at[: store.stack_dim], *at[store.stack_dim + 1 :])
        return payload(store._members[at[store.stack_dim]], rest, copy)
    if len(at) < len(store.batch_size):
        found: Payload = {}
        for position in range(length(store, at)):
            inner = payload(store, (*at, position), copy)
            found.update({(*path, position): value for path, value in inner.items()})
        return found
    return {path: value for key, value in store._data.items() for path, value in _entry(key, value, at, copy)}


def length(store: Any, at: Place) -> int:
    """The size of the batch dim behind a place."""
    store = getattr(store, "_store", store)
    if not store._stacked:
        return int(store.batch_size[len(at)])
    if store.stack_dim == len(at):
        return len(store._members)
    if store.stack_dim < len(at):
        return length(store._members[at[store.stack_dim]], (*at[: store.stack_dim], *at[store.stack_dim + 1 :]))
    return length(store._members[0], at)


def _entry(key: str, value: Any, at: Place, copy: bool) -> list[tuple[tuple[Any, ...], Any]]:
    if isinstance(value, Tensor):
        return [((key,), value[at].clone() if copy else value[at])]
    if isinstance(value, TensorCollection):
        return [((key, *path), inner) for path, inner in payload(value, at, copy).items()]
    if isinstance(value, NonTensorStack):
        objects: Any = value.tolist()
        for position in at:
            objects = objects[position]
        return [((key,), objects)]
    if isinstance(value, RaggedTensor):
        table, spans, _ = value._parts
        inner = {tail: spans[(*at, *tail)].tolist() for tail in product(*map(range, value.shape[len(at) :]))}
        parts = {tail: table[start : start + n] for tail, (start, n) in inner.items()}
        return [((key, *tail), part.clone() if copy else part) for tail, part in parts.items()]
    if isinstance(value, Unbatched):
        return [((key,), value.tensor.clone() if copy else value.tensor)]
    return [((key,), value)]


def same(a: Payload, b: Payload) -> bool:
    """Whether two elements hold the same."""
    return a.keys() == b.keys() and all(equal(a[path], b[path]) for path in a)


def equal(a: Any, b: Any) -> bool:
    """Whether two values are the same, dtype and shape included; nan is nan."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        if a.dtype is not b.dtype or a.shape != b.shape:
            return False
        return torch.equal(a, b) or bool(((a == b) | (a.isnan() & b.isnan())).all())
    return type(a) is type(b) and bool(a == b)


def assert_elements(container: Any, wanted: dict[Place, Payload]) -> None:
    """A container holds these elements and no others."""
    given = elements(container)
    assert given.keys() == wanted.keys(), f"batch size {list(container.batch_size)}"
    for at, value in wanted.items():
        assert same(given[at], value), f"element {at}: {given[at]}\n expected {value}"


def shape_of(payload_: Payload) -> dict[tuple[Any, ...], Any]:
    """What an element must share with another one to be copied over it."""
    return {p: (v.dtype, v.shape) if isinstance(v, Tensor) else None for p, v in payload_.items()}
