"""Comparisons of containers that hold the same in two forms, as a container and `from_dict` of its dict do."""

from __future__ import annotations

from typing import Any, TypeVar

from ..core import VALUES, TensorEntry, batch_shape, is_typed
from ..errors import BatchSizeError
from ._objects import shared_object
from ._operands import Pointwise

P = TypeVar("P", bound=Pointwise)


def in_one_form(self: P, other: Any) -> tuple[P, Any]:
    """Two containers to compare, in one form.

    If they differ only in their batch sizes, both get the longer one at every level. An entry of None stands for a
    field that a typed instance lacks, so it is left out.
    """
    if self._stacked and other._stacked and self._batch_size == other._batch_size:
        return self, other
    if is_typed(self) is not is_typed(other):
        self, other = _without_absent(self, other), _without_absent(other, self)
    if _same_sizes(self, other) or not _begin_alike(self, other):
        return self, other
    mine, theirs = self._solid(), other._solid()
    shapes = [[leaf.shape for leaf in side._leaves(VALUES)] for side in (mine, theirs)]
    if not shapes[0] or shapes[0] != shapes[1] or mine._layout() != theirs._layout():
        return self, other
    try:
        return _enlarge_like(mine, theirs), _enlarge_like(theirs, mine)
    except BatchSizeError:  # there are not as many objects as elements, so they broadcast
        return self, other


def _without_absent(container: P, like: Any) -> P:
    """A container without the entries of None that a typed instance lacks, at every level."""
    there, twin = like._outline(), container
    for key, value in () if container._stacked else list(container._outline().items()):
        gone = key not in there and shared_object(value) is None and is_typed(like)
        both = isinstance(value, Pointwise) and isinstance(there.get(key), Pointwise)
        inner = _without_absent(value, there[key]) if both else value
        if gone or inner is not value:
            twin = container._twin() if twin is container else twin
            twin._drop(key) if gone else twin._put(key, inner)
    return twin


def _nested_pairs(self: Any, other: Any) -> list[tuple[Any, Any]]:
    there = other._outline()
    pairs = [(value, there.get(key)) for key, value in self._outline().items()]
    return [pair for pair in pairs if isinstance(pair[0], Pointwise) and isinstance(pair[1], Pointwise)]


def _same_sizes(self: Any, other: Any) -> bool:
    """Whether the batch sizes are equal at every level."""
    return self._batch_size == other._batch_size and all([_same_sizes(*pair) for pair in _nested_pairs(self, other)])


def _begin_alike(self: Any, other: Any) -> bool:
    """Whether at every level one batch size begins with the other, which more or fewer event dims would explain."""
    mine, theirs = self._batch_size, other._batch_size
    alike = mine[: len(theirs)] == theirs[: len(mine)]
    return alike and all([_begin_alike(*pair) for pair in _nested_pairs(self, other)])


def _enlarge_like(container: P, like: Any) -> P:
    """A container with the batch sizes of another where these are longer."""
    size, large = like._batch_size, container._twin()
    objects: dict[str, Any] = {}
    if len(size) > len(container._batch_size):
        for key, value in container._entries().items():
            if isinstance(value, TensorEntry) and value._holds_object and batch_shape(like._outline().get(key)):
                objects[key] = value.tolist()
                large._drop(key)
        large._resize(size, ())
    for key, value in large._entries().items():
        partner = like._outline().get(key)
        if isinstance(value, Pointwise) and isinstance(partner, Pointwise):
            large._put(key, _enlarge_like(value, partner))
    for key, value in objects.items():
        large._put(key, large._check(key, value))
    return large
