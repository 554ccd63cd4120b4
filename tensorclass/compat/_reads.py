"""Reads that wrap objects: `values`, `items`, `pop`, `setdefault` and iteration give `NonTensorData`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import wraps
from typing import Any

from torch import Tensor

from .. import LazyStackedTensorDict, NonTensorData, NonTensorStack, TensorCollection, TensorDict, UnbatchedTensor
from ._names import nested_tensors_as_lists

_PLAIN: Any = NonTensorStack.__iter__
_ENTRIES = (Tensor, TensorCollection, UnbatchedTensor, NonTensorData, NonTensorStack)


_COMMON = frozenset({Tensor, TensorDict, LazyStackedTensorDict})
"""Kinds that need no slower look."""


def _wrap_value(data: Any, key: Any, value: Any) -> Any:
    """A value as `get` gives it."""
    if type(value) in _COMMON or isinstance(value, _ENTRIES):
        return value
    found = data.get(key)
    return found if isinstance(found, _ENTRIES) else NonTensorData(value, batch_size=data.batch_size)


def _iterate_members(data: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[Any, Any]]:
    """The leaves below a container, those of a lazy stack by the position of their member."""
    if isinstance(data, LazyStackedTensorDict):
        for position, member in enumerate(data.tensordicts):
            yield from _iterate_members(member, (*path, str(position)))
        return
    for key, value in data.items():
        if isinstance(value, TensorCollection):
            yield from _iterate_members(value, (*path, key))
        else:
            yield (*path, key) if path else key, value


def _wants_members(args: tuple[Any, ...], options: dict[str, Any]) -> bool:
    return (args[2] if len(args) > 2 else options.get("is_leaf")) is nested_tensors_as_lists


def _items(kind: Any) -> Any:
    plain = kind.items

    @wraps(plain)
    def items(self: Any, *args: Any, **options: Any) -> Any:
        if _wants_members(args, options):
            return list(_iterate_members(self))
        if self._plain:  # only tensors
            return plain(self, *args, **options)
        return [(key, _wrap_value(self, key, value)) for key, value in plain(self, *args, **options)]

    return items


def _values(kind: Any) -> Any:
    plain, unwrapped = kind.items, kind.values

    @wraps(unwrapped)
    def values(self: Any, *args: Any, **options: Any) -> Any:
        if _wants_members(args, options):
            return [value for _, value in _iterate_members(self)]
        if self._plain:
            return unwrapped(self, *args, **options)
        return [_wrap_value(self, key, value) for key, value in plain(self, *args, **options)]

    return values


def _pop(kind: Any) -> Any:
    """The method `pop`, which gives objects as `NonTensorData`."""
    plain = kind.pop

    @wraps(plain)
    def pop(self: Any, key: Any, *default: Any, **options: Any) -> Any:
        if self._plain:
            return plain(self, key, *default, **options)
        there = key in self.keys(True)
        found = self.get(key) if there else None
        value = plain(self, key, *default, **options)
        return found if there and not isinstance(value, _ENTRIES) and isinstance(found, _ENTRIES) else value

    return pop


def _setdefault(kind: Any) -> Any:
    plain = kind.setdefault

    @wraps(plain)
    def setdefault(self: Any, key: Any, default: Any, inplace: bool = False) -> Any:
        return _wrap_value(self, key, plain(self, key, default, inplace))

    return setdefault


def _elements(self: Any) -> Iterator[Any]:
    """The elements of a stack of objects, each in a `NonTensorData`; those of a typed batch are the objects."""
    if self.ndim == 1 and not self._gives_objects:
        return iter([NonTensorData(value) for value in self.tolist()])
    return _PLAIN(self)  # type: ignore[no-any-return]  # an iterator


def wrap_reads() -> None:
    """Have the reads of untyped containers give wrapped objects."""
    type.__setattr__(NonTensorStack, "__iter__", _elements)
    for kind in (TensorDict, LazyStackedTensorDict):
        made = {"items": _items(kind), "values": _values(kind), "pop": _pop(kind), "setdefault": _setdefault(kind)}
        for name, method in made.items():
            type.__setattr__(kind, name, method)
