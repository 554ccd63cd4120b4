"""The hook `_combine` of stores: one copy of each dict, one call for all tensors, then the dicts are filled."""

from __future__ import annotations

from typing import Any, TypeAlias

from torch import Tensor

from ..core import ABSENT, Handler, TensorCollection, blank
from ..ops._at_once import at_once
from ..ops._compare import same_atom

Levels: TypeAlias = "tuple[list[Tensor], list[Tensor], list[Any], list[Any]]"


def combine(self: Any, run: Handler, other: Any = None, facts: Any = None, above: Any = None, checked: int = 2) -> Any:
    """See `TensorCollection._combine`.

    The levels are the tensors of both sides, the dicts with the keys to fill, and for each class whose declaration may
    refuse a result, its facts.
    """
    data, size = self._data.copy(), self._batch_size
    found = None if other is None else other._data.copy()
    plain = self._plain and (other is None or other._plain)  # after the copies, as in `_open`
    if other is not None and size != other._batch_size:
        return None
    leaves = data
    levels: Levels = above or ([], [], [], [])
    mine, theirs, rows, unsure = levels
    declared = facts is not None
    if declared and checked:
        kept = facts.keeps >= checked and (found is None or facts.ranks)
        if not kept:
            unsure.append(facts)
    if not plain:
        leaves = data.copy()
        for key, value in data.items():
            if type(value) is Tensor:
                continue
            del leaves[key]
            there = None if found is None else found.pop(key, ABSENT)
            if isinstance(value, TensorCollection):
                pairs = found is None or type(there) is type(value)
                data[key] = twin = at_once(value, run, there, declared, levels, checked) if pairs else None
                if twin is None:
                    return None
            elif not same_atom(value, value if found is None else there):
                return None
    mine += leaves.values()
    if found is not None:
        if [*found] != [*leaves] or not ((declared and facts.rigid) or _fit(leaves, found, plain)):
            return None
        theirs += found.values()
    result = blank(type(self))  # as `_of`, without its frame
    result._data, result._batch_size, result._device, result._names = data, size, self._device, self._names
    result._plain, result._lock = plain, None
    if above is None and not (rows or unsure):  # the common case
        for key, leaf in zip(leaves, run(mine) if found is None else run(mine, theirs)):  # noqa: B905  # takes time
            data[key] = leaf
        return result
    rows.append((data, leaves))
    return result if above is not None or fill_levels(run, levels, checked) else None


def combine_members(
    self: Any, run: Handler, other: Any = None, facts: Any = None, above: Any = None, checked: int = 2
) -> Any:
    """As `combine`, for the members of a lazy stack: one call for the tensors of all of them."""
    members = list(self._members)
    partners = [None] * len(members) if other is None else list(other._members)
    if len(partners) != len(members) or (other is not None and other.stack_dim != self.stack_dim):
        return None
    levels: Levels = above or ([], [], [], [])
    twins = []
    for member, there in zip(members, partners, strict=True):
        if facts is None:
            twin = at_once(member, run, there, False, levels, checked)
        else:  # the stack is in a typed instance, so its members have no class of their own
            alike = other is None or type(there) is type(member)
            twin = member._combine(run, there, facts, levels, checked) if alike else None
        if twin is None:
            return None
        twins.append(twin)
    return self._with_members(twins) if above is not None or fill_levels(run, levels, checked) else None


def fill_levels(run: Handler, levels: Levels, checked: int) -> bool:
    """Fill the dicts of all levels with the results of one call; False if a declaration may refuse one of them."""
    mine, theirs, rows, unsure = levels
    new = run(mine, theirs) if theirs else run(mine)
    if unsure:
        new = [*new]
        narrow = True in [facts.keeps < checked for facts in unsure]
        if narrow and [leaf.dtype for leaf in new] != [leaf.dtype for leaf in mine]:
            return False
        broadcast = theirs and False in [facts.ranks for facts in unsure]
        if broadcast and [leaf.shape for leaf in new] != [leaf.shape for leaf in mine]:
            return False
    new = iter(new)
    for row, keys in rows:  # nested containers come first, since their tensors do
        for key, leaf in zip(keys, new):  # noqa: B905  # takes as many as there are keys
            row[key] = leaf
    return True


def _fit(mine: dict[str, Tensor], theirs: dict[str, Any], plain: bool) -> bool:
    """Whether there are tensors of the same ranks, so that none is broadcast over event dims."""
    if not (plain or all([isinstance(value, Tensor) for value in theirs.values()])):
        return False
    return [value.ndim for value in mine.values()] == [value.ndim for value in theirs.values()]
