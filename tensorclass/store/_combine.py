"""The hook `_combine` of a dense store: one copy of the dict, one call for its tensors, one new store."""

from __future__ import annotations

from typing import Any, Final

from torch import Tensor

from ..core import TensorCollection
from ..core._base import Handler
from ..core._pytree import blank
from ..ops._at_once import at_once
from ..ops._compare import same_atom

_ABSENT: Final = object()


def combine(self: Any, run: Handler, other: Any = None, declared: bool = False) -> Any:
    """See `TensorCollection._combine`."""
    data, size = self._data.copy(), self._batch_size
    found = None if other is None else other._data.copy()
    plain = self._plain and (other is None or other._plain)  # after the copies, as in `_open`
    if other is not None and size != other._batch_size:
        return None
    leaves = data if plain else data.copy()
    for key, value in () if plain else data.items():
        if type(value) is Tensor:
            continue
        del leaves[key]
        there = None if found is None else found.pop(key, _ABSENT)
        if isinstance(value, TensorCollection):
            pairs = found is None or type(there) is type(value)
            data[key] = twin = at_once(value, run, there, declared) if pairs else None
            if twin is None:
                return None
        elif not same_atom(value, value if found is None else there):
            return None
    mine = [*leaves.values()]
    if found is None:
        new = run(mine)
    else:
        theirs = [*found.values()]
        if [*found] != [*leaves] or not (declared or _fit(mine, theirs)):
            return None
        new = run(mine, theirs)
    for key, leaf in zip(leaves, new):  # noqa: B905  # as many as there are keys; a keyword takes time
        data[key] = leaf
    result = blank(type(self))  # as `_of`, without its frame
    result._data, result._batch_size, result._device, result._names = data, size, self._device, self._names
    result._plain, result._lock = plain, None
    return result


def _fit(mine: list[Tensor], theirs: list[Any]) -> bool:
    """Whether there are tensors of the same ranks, so that none is broadcast over event dims."""
    return False not in [isinstance(b, Tensor) and a.ndim == b.ndim for a, b in zip(mine, theirs, strict=True)]
