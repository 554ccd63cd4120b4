"""Containers as pytree nodes. A child is an entry that holds tensors; everything else travels in the context."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
import torch.utils._pytree as pytree
from torch import Tensor

from ._base import Names, TensorCollection


class Context(NamedTuple):
    """What a twin needs besides its children.

    The batch size is read off the child at `sizer`, since vmap, tree_map and other inputs of an exported program change
    it; `batch_size` stands here only when there is no such child.
    """

    cls: type
    keys: tuple[str, ...]
    order: tuple[str, ...]
    statics: tuple[tuple[str, Any], ...]
    sizer: int
    event_ndim: int
    batch_size: tuple[int, ...]
    device: torch.device | None
    names: Names


def is_child(value: object) -> bool:
    """Whether an entry holds tensors, and so is a child in the pytree."""
    return isinstance(value, (Tensor, TensorCollection)) or hasattr(type(value), "_batch_shape")


def flatten(collection: TensorCollection) -> tuple[list[Any], Context]:
    """The entries that hold tensors, and the context that restores the rest."""
    entries = collection._entries()
    placed = collection._placed()
    size, device, names = tuple(collection._batch_size), collection._device, collection._names
    values = list(entries.values())
    if values and not placed and all([isinstance(value, (Tensor, TensorCollection)) for value in values]):
        keys = tuple(entries)
        return values, Context(type(collection), keys, keys, (), 0, values[0].ndim - len(size), (), device, names)
    children = {key: value for key, value in entries.items() if is_child(value) or key in placed}
    statics = tuple((key, value) for key, value in entries.items() if key not in children)
    sizer = event_ndim = -1
    for position, value in enumerate(children.values()):
        if isinstance(value, (Tensor, TensorCollection)) or getattr(value, "_batch_shape", None) is not None:
            sizer, event_ndim = position, value.ndim - len(collection._batch_size)
            break
    size = () if sizer >= 0 else size
    context = Context(
        type(collection), tuple(children), tuple(entries), statics, sizer, event_ndim, size, device, names
    )
    return list(children.values()), context


def flatten_with_keys(collection: TensorCollection) -> tuple[list[tuple[Any, Any]], Context]:
    """The same, each child with its key."""
    children, context = flatten(collection)
    return [(pytree.MappingKey(key), child) for key, child in zip(context.keys, children, strict=True)], context


def unflatten(children: Iterable[Any], context: Context) -> Any:
    """A twin around new children, which tree_map may have made anything at all: nothing is validated here."""
    values = list(children)
    size = torch.Size(context.batch_size)
    if context.sizer >= 0:
        shape = getattr(values[context.sizer], "shape", None)
        size = shape[: max(0, len(shape) - context.event_ndim)] if isinstance(shape, torch.Size) else torch.Size([])
    device = context.device
    if device is not None and values:
        device = getattr(values[0], "device", device)
    found = dict(zip(context.keys, values, strict=True))
    if len(found) == len(context.order) and all([isinstance(value, (Tensor, TensorCollection)) for value in values]):
        names = context.names if context.names is not None and len(context.names) == len(size) else None
        return context.cls._from_entries(found, size, device, names)  # type: ignore[attr-defined]  # a TensorCollection
    if context.statics:
        found.update(context.statics)
        found = {key: found[key] for key in context.order}
    names = context.names if context.names is not None and len(context.names) == len(size) else None
    result = context.cls._from_entries(found, size, device, names)  # type: ignore[attr-defined]  # a TensorCollection
    placed = frozenset(key for key, value in zip(context.keys, values, strict=True) if not is_child(value))
    if placed:
        result._place(placed)
    return result


def register(cls: type) -> None:
    """Register a container class with torch's pytree."""
    pytree.register_pytree_node(
        cls,
        flatten,
        unflatten,
        flatten_with_keys_fn=flatten_with_keys,
        serialized_type_name=f"{cls.__module__}.{cls.__qualname__}",
    )
