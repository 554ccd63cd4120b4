"""Support of `torch.export` for pytree nodes: dynamic shapes by key, and a context that is saved as JSON.

Torch compares the `dynamic_shapes` of an argument with the children of its node. `Children` is a list for other users,
but matches a dict by key there (`{"image": {0: rows}}`), since users don't count fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.utils._pytree as pytree

from ..errors import ArgumentError, StructureError


class Children(list[Any]):
    """The children of a node, with their keys."""

    __slots__ = ("keys",)
    keys: tuple[str, ...]


class Child(list[Any]):
    """The only tensor of a node that users see as a tensor: its dynamic shape is that of the node."""

    __slots__ = ()


def with_keys(children: list[Any], keys: tuple[str, ...]) -> list[Any]:
    """Children with their keys. Compiled code gets a plain list, which dynamo traces faster."""
    if torch.compiler.is_compiling():
        return children
    found = Children(children)
    found.keys = keys
    return found


def single(child: Any) -> list[Any]:
    """The only child of a node."""
    return [child] if torch.compiler.is_compiling() else Child((child,))


def _refuse_children(_: Iterable[Any], __: Any) -> Any:
    raise StructureError("the children of a container are not a pytree of their own; use the container")


def _by_key(children: Children) -> Any:
    """The children as a dict, for torch to compare with `dynamic_shapes`."""
    return dict(zip(children.keys, children, strict=True)), None


def _bare(child: Child) -> Any:
    return child[0], None


pytree.register_pytree_node(Children, _by_key, _refuse_children, serialized_type_name="tensorclass.Children")
pytree.register_pytree_node(Child, _bare, _refuse_children, serialized_type_name="tensorclass.Child")


# ---- contexts as JSON ----------------------------------------------------------------------------------------------

_PLAIN = (type(None), bool, int, float, str)
_SEQUENCES: dict[str, Callable[[Any], Any]] = {"list": list, "tuple": tuple, "Size": torch.Size}
_NAMED = {"device": torch.device, "dtype": lambda name: getattr(torch, name)}


def dump_value(value: Any, where: str) -> Any:
    """A Python value as JSON that preserves its types."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind.__name__ in _SEQUENCES and kind is _SEQUENCES[kind.__name__]:
        return {kind.__name__: [dump_value(item, where) for item in value]}
    if kind is dict:
        return {"dict": [[dump_value(key, where), dump_value(item, where)] for key, item in value.items()]}
    if kind in (torch.device, torch.dtype):
        return {kind.__name__: str(value).removeprefix("torch.")}
    raise ArgumentError(
        f"torch.export.save: {where} holds {kind.__module__}.{kind.__qualname__}, which has no JSON form; leave the "
        f"entry out before the export, or give the program the tensors that it reads"
    )


def restore_value(value: Any) -> Any:
    """Undo `dump_value`."""
    if type(value) is not dict:
        return value
    [(kind, content)] = value.items()
    if kind in _SEQUENCES:
        return _SEQUENCES[kind]([restore_value(item) for item in content])
    if kind == "dict":
        return {restore_value(key): restore_value(item) for key, item in content}
    return _NAMED[kind](content)
