"""Locking: a locked container refuses structural writes, and locks the containers below it.

The `_lock` of a container is None if it is unlocked, else weak references to the locked containers that hold it.
"""

from __future__ import annotations

import weakref
from typing import Any, TypeAlias

from ..errors import LockedError
from ._base import TensorCollection
from ._publish import Step, assign, each_row, publish

Owners: TypeAlias = "tuple[weakref.ref[Any], ...]"


class Held(tuple[Any, ...]):
    """The owners of a locked container.

    Each lock makes a new object, and so does each write that is allowed despite the lock. If a container has the same
    object as before, its entries are the same too.
    """

    __slots__ = ()


Changed: TypeAlias = "dict[int, tuple[Any, Owners | None]]"
"""Stores by identity, with their owners after locks were taken or released."""


def note_write(store: Any) -> None:
    """Record that an entry of a locked store was replaced in spite of the lock, here and in its parents."""
    publish(note_steps(store)) if store._lock is not None else None


def note_steps(store: Any) -> list[Step]:
    """The steps of `note_write`."""
    if store._lock is None:
        return []
    holders = [holder for ref in store._lock if (holder := ref()) is not None]
    return [*[step for holder in holders for step in note_steps(holder)], *assign(store, _lock=Held(store._lock))]


def relock(store: Any, owner: object | None = None, held: bool = True) -> None:
    """Lock a store and all below it for an owner (None for the user), or release the lock, in one step."""
    found: Changed = {}
    store._plan_lock(owner, held, found)
    holders = [holder for holder, _ in found.values()]
    each_row(setattr, holders, ["_lock"] * len(holders), [owners for _, owners in found.values()])


def adopt_locks(store: Any, other: Any, owners: Owners = ()) -> list[Step]:
    """The steps that lock a store which takes over the entries of another one, that nobody else has."""
    found: Changed = {}
    for child in children(store) if store._lock is not None else ():
        child._plan_lock(store, False, found)
    for child in children(other):
        child._plan_lock(store, True, found)
    inner = [step for holder, new in found.values() for step in assign(holder, _lock=new)]
    return [*inner, *assign(store, _lock=Held((*(store._lock or ()), *owners)))]


def changed(store: Any, owner: object | None, held: bool, found: Changed) -> Owners | None:
    """The owners of a store after `owner` (None for the user) has locked or released it; None if it is then unlocked.

    They are noted in `found`, for a store that several containers hold.

    Raises:
        LockedError: if the user unlocks a container that an existing locked container holds.
    """
    former = found.get(id(store))
    owners = _owners_after(store, owner, held, (store._lock if former is None else former[1]) or ())
    found[id(store)] = store, owners
    return owners


def _owners_after(store: Any, owner: object | None, held: bool, owners: Owners) -> Owners | None:
    if held:
        return Held(owners if owner is None else (*owners, weakref.ref(owner)))
    others = [ref for ref in owners if ref() is not None and ref() is not owner]
    if owner is None and others:
        raise belongs(store, others[0]())
    return Held(others) if others else None


def belongs(store: Any, owner: Any) -> LockedError:
    """The error when the user unlocks a container that a locked container holds."""
    what = f"this {type(store).__name__} belongs to a locked {type(owner).__name__}"
    return LockedError(f"{what}; unlock the outermost container instead")


def children(collection: TensorCollection) -> list[TensorCollection]:
    """The direct child containers."""
    return [value for value in collection._entries().values() if isinstance(value, TensorCollection)]
