"""Fits a value to its parent container: batch size, dim names, and position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from weakref import WeakValueDictionary

import torch

from ..core import Names, TensorCollection, check_names, children, later, store_of
from ..errors import BatchSizeError, MissingKeyError, StructureError, did_you_mean, listed
from ..ops._steps import Writes, commit
from .entries._nodes import NonTensorStack
from .entries._object_table import not_in_file


def fits(value: TensorCollection, size: torch.Size) -> bool:
    """Whether a nested container with fewer batch dims could get the batch size of its parent."""
    if len(value._batch_size) >= len(size) or value._batch_size != size[: len(value._batch_size)]:
        return False
    try:
        value._check_size(size, ())
    except BatchSizeError:
        return False
    return True


def fit_nested(holder: Any, value: Any, size: torch.Size, names: Names) -> tuple[torch.Size, Names]:
    """Batch size and names of a nested container for those of its parent; its further dims are kept."""
    own, dims = value._batch_size, len(holder._batch_size)
    if len(own) == dims:
        return size, names
    return size + own[dims:], inner_names(names, value._names, dims, size + own[dims:])


def same_tail(holder: Any, value: Any, other: Any, partner: Any) -> bool:
    """Whether two nested containers have the same batch dims behind those of their holders; most have no more."""
    mine, theirs = value._batch_size, partner._batch_size
    dims, there = len(holder._batch_size), len(other._batch_size)
    return (len(mine) == dims and len(theirs) == there) or mine[dims:] == theirs[there:]


def inner_names(names: Names, inner: Names, outer_dims: int, size: torch.Size) -> Names:
    """The dim names of a nested container, from those of its parent and its own."""
    if names is None and inner is None:
        return None
    tail: tuple[str | None, ...] = (None,) * (len(size) - len(names or ()))
    if inner is not None:
        tail = inner[outer_dims:]
    head = names if names is not None else (None,) * (len(size) - len(tail))
    joint = (*head, *tail)
    return joint if any(name is not None for name in joint) else None


def named_like(value: TensorCollection, names: tuple[str | None, ...], key: str) -> TensorCollection:
    """A nested container with the dim names of its parent; existing names must agree."""
    mine, ndim = value.names, len(names)
    if mine[:ndim] == list(names):
        return value
    for dim, (old, new) in enumerate(zip(mine, names, strict=False)):
        if old is not None and new is not None and old != new:
            raise StructureError(
                f"field `{key}`: batch dim {dim} is named {old!r} in the value and {new!r} in its holder; give them "
                "the same names with `rename`"
            )
    twin = value._twin()
    twin._set_names(check_names((*names, *mine[ndim:]), len(mine)))
    return twin


def mismatch(key: str, shape: Sequence[int], size: torch.Size) -> BatchSizeError:
    """The error for a value whose leading dims differ from the batch size."""
    return BatchSizeError(
        f"field `{key}`: the leading dims of a value are the batch size {list(size)}, got shape {list(shape)}; "
        "give it those dims (`value.expand(...)`), or make the container with another batch_size"
    )


def contains(holder: TensorCollection, value: Any) -> bool:
    """Whether a container is identical to another, or nested in it."""
    store = store_of(value)
    if store._plain:
        return store is holder
    parts = store._parts()
    below = children(store) if len(parts) == 1 and parts[0] is store else parts
    return store is holder or any(contains(holder, part) for part in below)


_IN_FILES: Final[WeakValueDictionary[int, Any]] = WeakValueDictionary()
"""Containers whose tensors are mapped from a file; their objects are not."""


def in_file(store: Any) -> bool:
    """Whether the objects of a container are those of its file."""
    return _IN_FILES.get(id(store)) is store


def keep_objects(data: Any) -> Any:
    """Note that the objects of a batch are those of its file, so that no write changes them only in memory."""
    store = store_of(data)
    _IN_FILES[id(store)] = store
    for value in store._members if store._stacked else store._entries().values():
        if isinstance(value, TensorCollection):
            keep_objects(value)
        elif isinstance(value, NonTensorStack):
            value._from[0].in_file = True
    return data


class Replaced:
    """An entry that a checked write replaces by an object, or by a stack after that is written."""

    def __init__(self, holder: Any, key: str, stack: Any | None = None) -> None:
        if holder.is_locked and in_file(holder):
            raise not_in_file(key)
        self.holder = holder
        self.key = key
        self.stack = stack

    def _commit(self, plan: Any, writes: Writes) -> None:
        if self.stack is not None:
            commit(self.stack, plan)  # nobody else has it yet
        writes.stores += self.holder._put_steps({self.key: plan if self.stack is None else self.stack})


def missing(collection: TensorCollection, key: str) -> MissingKeyError:
    """The error for an absent key, with the nearest key and the existing ones."""
    error = MissingKeyError(later(_absent, type(collection).__name__, key, list(collection._outline())))
    error.key = key
    return error


def _absent(name: str, key: str, keys: list[str]) -> str:
    return f"{name} has no key `{key}`{did_you_mean(key, keys)}; its keys are {listed(keys)}"
