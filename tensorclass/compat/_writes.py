"""Writes at an index between containers with other keys, as in `tensordict`: keys that the target lacks are added."""

from __future__ import annotations

from functools import wraps
from typing import Any

from torch import Tensor

from .. import TensorCollection, TensorDict
from ..errors import MissingKeyError

_PLAIN = TensorDict.__setitem__


def _grow(target: Any, source: Any) -> None:
    """Give the target zeros for each tensor that only the source has."""
    there = target.keys()
    for key, value in source.items():
        if isinstance(value, TensorCollection):
            if key not in there:
                target.set(key, TensorDict(batch_size=target.batch_size, device=target.device))
            _grow(target.get(key), value)
        elif isinstance(value, Tensor) and key not in there:
            target.set(key, value.new_zeros(*target.batch_size, *value.shape[source.ndim :]))


@wraps(_PLAIN)
def _set_item(self: Any, index: Any, value: Any) -> None:
    """Write an entry or rows; rows of fewer keys keep the other entries."""
    try:
        _PLAIN(self, index, value)
    except MissingKeyError:  # and nothing is written
        if not isinstance(value, (TensorCollection, dict)):
            raise
        source = TensorDict(value, batch_size=self[index].batch_size) if isinstance(value, dict) else value
        _grow(self, source)
        self.update_at_(source, index)


def allow_other_keys() -> None:
    """Have writes at an index take other keys."""
    type.__setattr__(TensorDict, "__setitem__", _set_item)
