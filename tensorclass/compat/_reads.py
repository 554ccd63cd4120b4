"""Reads that wrap objects, as in `tensordict`: `values`, `items` and `pop` give `NonTensorData` around an object."""

from __future__ import annotations

from functools import wraps
from typing import Any

from torch import Tensor

from .. import LazyStackedTensorDict, NonTensorData, NonTensorStack, TensorCollection, TensorDict, UnbatchedTensor

_ENTRIES = (Tensor, TensorCollection, UnbatchedTensor, NonTensorData, NonTensorStack)


def _wrapped(data: Any, key: Any, value: Any) -> Any:
    """A value as `get` gives it."""
    if isinstance(value, _ENTRIES):
        return value
    found = data.get(key)
    return found if isinstance(found, _ENTRIES) else NonTensorData(value, batch_size=data.batch_size)


def _items(kind: Any) -> Any:
    plain = kind.items

    @wraps(plain)
    def items(self: Any, *args: Any, **options: Any) -> list[tuple[Any, Any]]:
        return [(key, _wrapped(self, key, value)) for key, value in plain(self, *args, **options)]

    return items


def _values(kind: Any) -> Any:
    plain = kind.items

    @wraps(kind.values)
    def values(self: Any, *args: Any, **options: Any) -> list[Any]:
        return [_wrapped(self, key, value) for key, value in plain(self, *args, **options)]

    return values


def _pop(kind: Any) -> Any:
    plain = kind.pop

    @wraps(plain)
    def pop(self: Any, key: Any, *default: Any, **options: Any) -> Any:
        there = key in self.keys(True)
        found = self.get(key) if there else None
        value = plain(self, key, *default, **options)
        return found if there and not isinstance(value, _ENTRIES) and isinstance(found, _ENTRIES) else value

    return pop


def wrap_reads() -> None:
    """Have the reads of untyped containers give wrapped objects."""
    for kind in (TensorDict, LazyStackedTensorDict):
        made = {"items": _items(kind), "values": _values(kind), "pop": _pop(kind)}
        for name, method in made.items():
            type.__setattr__(kind, name, method)
