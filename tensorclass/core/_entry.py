"""The bases of entries that are neither tensors nor containers, so that lower rooms can ask for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import torch


class Entry:
    """An entry with a rule of its own; `store/entries` has them all."""

    __slots__ = ()
    _holds_object: ClassVar[bool] = False
    """Whether readers see a Python object, or one for each element."""
    if TYPE_CHECKING:  # what entries supply; the store types it
        _anything: Any = None
        _shown = _describe = _leaves = _make = _same_node = _plan_write = _choose = _anything
        tolist = expand = shape = data = values = _anything


class TensorEntry(Entry):
    """One that holds tensors. The others count as Python values."""

    __slots__ = ()
    _has_lengths: ClassVar[bool] = False
    """Whether it has a length for each element."""
    if TYPE_CHECKING:

        @property
        def _batch_shape(self) -> torch.Size | None:
            """The dims of the batch; None where no batch dims touch the entry."""


def is_shared(value: object) -> bool:
    """Whether an entry holds tensors that no batch dims touch."""
    return isinstance(value, TensorEntry) and value._batch_shape is None


def batch_shape(value: object) -> torch.Size | None:
    """The batch dims that an entry which is neither tensor nor container has; None where it has none."""
    if not isinstance(value, TensorEntry):
        return None
    return getattr(value, "_batch_shape", None)  # vmap puts ints in the place of tensors, which have no shape


def has_lengths(value: object) -> bool:
    """Whether an entry has a length for each element."""
    return isinstance(value, TensorEntry) and value._has_lengths
