"""The base classes of entries that are neither tensors nor containers, for checks in rooms to the left of `store`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

import torch

ABSENT: Any = object()
"""Stands for an entry that a container does not have."""


class Entry:
    """An entry with its own rules; all concrete classes are in `store/entries`."""

    __slots__ = ()
    _holds_object: ClassVar[bool] = False
    """Whether readers get a Python object, or one per element."""
    if TYPE_CHECKING:  # implemented by entries; typed in the store
        _anything: Any = None
        _read_value = _shown_in = _field_value = _describe = _leaves = _make = _same_node = _plan_write = _choose = (
            _anything
        )
        tolist = expand = shape = data = values = _anything


class TensorEntry(Entry):
    """An entry that holds tensors. Other entries count as Python values."""

    __slots__ = ()
    _has_lengths: ClassVar[bool] = False
    """Whether it has a length for each element."""
    if TYPE_CHECKING:

        @property
        def _batch_shape(self) -> torch.Size | None:
            """The batch dims; None for an entry without batch dims."""


def are_objects(values: Iterable[object]) -> bool:
    """Whether all values are entries of Python objects, which torch's functions join."""
    return all([isinstance(value, Entry) and value._holds_object for value in values])


def is_shared(value: object) -> bool:
    """Whether an entry holds tensors without batch dims."""
    return isinstance(value, TensorEntry) and value._batch_shape is None


def batch_shape(value: object) -> torch.Size | None:
    """The batch dims of an entry that is neither tensor nor container; None if it has none."""
    if not isinstance(value, TensorEntry):
        return None
    return getattr(value, "_batch_shape", None)  # vmap replaces tensors by ints, which have no shape


def has_lengths(value: object) -> bool:
    """Whether an entry has a length for each element."""
    return isinstance(value, TensorEntry) and value._has_lengths


def field_value(value: Any) -> Any:
    """An entry as a field of a typed batch returns it."""
    return value._field_value() if isinstance(value, Entry) else value
