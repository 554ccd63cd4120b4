"""Ragged entries, with a length for each element: access to their values, which have no batch dims."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from torch import Tensor

from ..core import STORAGE, Path, Step, TensorCollection, is_shared, join_path, leaves_below, store_of
from ..core import has_lengths as has_lengths
from ..errors import UnsupportedOperationError


class Ragged:
    """The class of ragged entries, which the store assigns, for code that makes one."""

    node: ClassVar[Any]
    over: ClassVar[Callable[[Any], Any]]
    """Makes an entry over the memory of a nested tensor of rows; None for anything else."""
    held: ClassVar[Callable[[Any], Any]]
    """Returns the value that a container holds for such an entry."""


def any_lengths(collection: Any) -> bool:
    """Whether any entry of a container, at any depth, is ragged."""
    store = store_of(collection)
    if store._stacked:
        return any([any_lengths(part) for part in store._parts()])
    for value in list(store._live().values()):
        if type(value) is Tensor:
            continue
        if not isinstance(value, TensorCollection):
            if has_lengths(value):
                return True
        elif value._tensors_by_key() is None and any_lengths(value):
            return True
    return False


def compact_ragged(collection: Any) -> Any:
    """The container with the rows of each ragged entry in its own table, in order; for files."""
    if not any_lengths(collection):
        return collection
    leaves = collection._leaves(STORAGE)
    twin = collection._make(leaves, collection._batch_size, collection._names, STORAGE)
    return collection._lock_alike(twin)


def holders(collection: Any) -> list[Any]:
    """For each `VALUES` leaf, the ragged entry that it belongs to, or None."""
    table = collection._tensors_by_key()
    if table is not None:
        return [None] * len(table)
    found: list[Any] = []
    for leaf in leaves_below(collection):
        holder = Ragged.over(leaf.entry) if isinstance(leaf.entry, Tensor) else leaf.entry
        found += [holder if has_lengths(holder) else None] * len(leaf.tensors)
    return found


def gather_rows(own: Any, leaves: Sequence[Tensor], op: str, back: bool = True) -> list[tuple[Any, Tensor]]:
    """Ragged entries whose rows are not contiguous in memory, each with the `VALUES` leaf that is a copy of its rows.

    After a write to the leaf, the step `entry._take_back(leaf)` copies it back; with `back=False` this is impossible.

    Raises:
        UnsupportedOperationError: names an entry that can't be written in place.
    """
    if store_of(own)._plain or not any_lengths(own):
        return []
    found = []
    for i, (holder, leaf) in enumerate(zip(holders(own), leaves, strict=True)):
        if holder is None:
            continue
        apart = holder._is_lent(leaf)
        problem = holder._fixed(apart) if back else "has elements apart in memory: call it on a `clone()`" * apart
        if problem:
            path = own._layout()[i]
            name = path if isinstance(path, str) else join_path(path)
            raise UnsupportedOperationError(f"{op}: `{name}` {problem}; nothing was written")
        if apart:
            found.append((holder, leaf))
    return found


def take_back(pairs: list[tuple[Any, Tensor]]) -> list[Step]:
    """The steps that copy writes to the leaves of `gather_rows` back to their entries."""
    return [entry._take_back(leaf) for entry, leaf in pairs]


def in_memory(own: Any, leaves: list[Tensor]) -> list[Tensor]:
    """The `VALUES` leaves for operations that return views: the whole table if a leaf is a copy of its rows."""
    if store_of(own)._plain or not any_lengths(own):
        return leaves
    pairs = zip(holders(own), leaves, strict=True)
    return [entry._parts[0] if entry is not None and entry._is_lent(leaf) else leaf for entry, leaf in pairs]


def in_stacks(collection: Any) -> list[bool]:
    """For each `VALUES` leaf, whether a lazy stack joins it with those of its other members."""
    leaves = leaves_below(collection)
    return [leaf.stacked and not is_shared(leaf.entry) for leaf in leaves for _ in leaf.tensors]


def require_same_lengths(mine: TensorCollection, other: TensorCollection, op: str, path: Path = ()) -> None:
    """Refuse to combine ragged entries with different lengths, since their values don't correspond.

    Raises:
        StructureError: names the entry, the element and both lengths.
    """
    if not any_lengths(mine):
        return
    if mine._stacked:
        for part, other_part in zip(mine._parts(), other._parts(), strict=True):
            require_same_lengths(part, other_part, op, path)
        return
    theirs = other._entries()
    for key, value in mine._entries().items():
        partner, here = theirs.get(key), (*path, key)
        if isinstance(value, TensorCollection) and isinstance(partner, TensorCollection):
            require_same_lengths(value, partner, op, here)
        elif has_lengths(value) and type(partner) is type(value):
            node: Any = value
            node._require_aligned(partner, f"{op}: `{join_path(here)}`")
