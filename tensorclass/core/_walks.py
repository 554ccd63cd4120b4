"""Walks over the entries of a container at all depths."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from torch import Tensor

from ._base import STORAGE, VALUES, TensorCollection, is_typed, store_of
from ._entry import ABSENT, TensorEntry, has_lengths
from ._keys import join_path


def tensors_alone(collection: TensorCollection) -> list[Tensor] | None:
    """The tensors at all depths, in order; None if there are other entries, lazy stacks or nested tensors."""
    found: list[Tensor] | None = None if collection._stacked else []
    for value in () if found is None else collection._entries().values():
        alone = isinstance(value, Tensor) and not value.is_nested
        if isinstance(value, TensorCollection):
            inner = tensors_alone(value)
        elif alone:
            inner = [value]
        else:
            inner = None
        if inner is None or found is None:
            return None
        found += inner
    return found


def walk(
    collection: TensorCollection, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any, TensorCollection]]:
    """Every entry below a container, depth first: its path, its value, and its container."""
    for key, value in collection._entries().items():
        here = (*path, key)
        yield here, value, collection
        if isinstance(value, TensorCollection):
            yield from walk(value, here)


def entries_by_path(collection: TensorCollection, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """Every entry below a container that is not a container itself, by its path."""
    found: dict[tuple[str, ...], Any] = {}
    for key, value in collection._entries().items():
        here = (*path, key)
        if isinstance(value, TensorCollection):
            found.update(entries_by_path(value, here))
        else:
            found[here] = value
    return found


class Leaf(NamedTuple):
    """An entry that is not a container: where it is, and what holds it."""

    path: tuple[str, ...]
    """Its keys; members of a lazy stack share those of the stack."""
    entry: Any
    holder: Any
    """The container that holds it, or None."""
    stacked: bool = False
    """Whether a lazy stack joins it with the entries of its other members."""

    @property
    def tensors(self) -> list[Tensor]:
        """Its `VALUES` leaves."""
        if isinstance(self.entry, Tensor):
            return [self.entry]
        return self.entry._leaves(VALUES) if isinstance(self.entry, TensorEntry) else []


def leaves_below(value: Any, path: tuple[str, ...] = (), holder: Any = None, stacked: bool = False) -> Iterator[Leaf]:
    """The entries below a container that are not containers, in the order of its leaves; of stacks, of each member."""
    if not isinstance(value, TensorCollection):
        yield Leaf(path, value, holder, stacked)
    elif value._stacked:
        for part in value._parts():
            yield from leaves_below(part, path, holder, True)
    else:
        for key, entry in value._entries().items():
            yield from leaves_below(entry, (*path, key), value, stacked)


def undivided_tensors(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Tensor]]:
    """The names and tensors of a container, or of one entry, without those of ragged entries."""
    for leaf in leaves_below(value, path):
        tensors = [] if has_lengths(leaf.entry) else leaf.tensors
        yield from ((join_path(leaf.path), tensor) for tensor in tensors if not tensor.is_nested)


def rebuilt(
    collection: TensorCollection,
    turn: Callable[[Leaf], Any],
    make: Callable[[Any, dict[str, Any]], Any] | None = None,
    path: tuple[str, ...] = (),
) -> Any:
    """A container with the results of a function in place of the entries that are not containers.

    Args:
        collection: a container without lazy stacks.
        turn: a function of an entry; with `ABSENT`, the result lacks it.
        make: makes each level, from the old one and its new entries; by default of the same class and size.
    """
    entries: dict[str, Any] = {}
    for key, value in collection._entries().items():
        here = (*path, key)
        inner = isinstance(value, TensorCollection)
        new = rebuilt(value, turn, make, here) if inner else turn(Leaf(here, value, collection))
        if new is not ABSENT:
            entries[key] = new
    if make is not None:
        return make(collection, entries)
    own: Any = collection
    return type(own)._from_entries(entries, own._batch_size, own._device, own._names)


def tensors_by_path(collection: TensorCollection) -> dict[tuple[str, ...], Tensor]:
    """Every entry below a container that is a tensor, by its path; those inside entry nodes are left out."""
    return {path: value for path, value in entries_by_path(collection).items() if isinstance(value, Tensor)}


def bytes_of(value: object) -> int:
    """The bytes of the tensors of a container, or of one tensor; 0 for anything else."""
    leaves = value._leaves(STORAGE) if isinstance(value, TensorCollection) else [value]
    return sum([leaf.nbytes for leaf in leaves if isinstance(leaf, Tensor)])


def typed_within(collection: TensorCollection) -> list[tuple[str, Any, slice]]:
    """The outermost typed instances: their paths, and the places of their leaves among the `VALUES` leaves."""
    found: list[tuple[str, Any, slice]] = []
    if collection._stacked or not collection._plain or is_typed(collection):
        _find_typed(collection, "", 0, found)
    return found


def _find_typed(value: Any, path: str, begin: int, found: list[tuple[str, Any, slice]]) -> int:
    """Append the typed instances in a value whose leaves start at `begin`; returns where its leaves end."""
    if not isinstance(value, TensorCollection):
        return begin + (len(value._leaves(VALUES)) if isinstance(value, TensorEntry) else isinstance(value, Tensor))
    if is_typed(value) or (value._plain and not value._stacked):
        end = begin + len(value._leaves(VALUES))
        found += [(path, value, slice(begin, end))] if is_typed(value) else []
        return end
    if value._stacked:
        parts = [(f"[{i}]", member) for i, member in enumerate(store_of(value)._members)]
    else:
        parts = [*value._entries().items()]
    for key, part in parts:
        begin = _find_typed(part, f"{path}.{key}" if path else key, begin, found)
    return begin
