"""Locking: a locked container refuses structural writes, and locks the containers below it.

The `_lock` of a container is None if it is unlocked, else weak references to the locked containers that hold it.
"""

from __future__ import annotations

import weakref
from typing import Any, TypeAlias

from ..errors import LockedError
from ._base import TensorCollection

Owners: TypeAlias = "tuple[weakref.ref[Any], ...]"


class Held(tuple[Any, ...]):
    """The owners of a locked container.

    Each lock makes a new object, and so does each write that is allowed despite the lock. If a container has the same
    object as before, its entries are the same too.
    """

    __slots__ = ()


def note_write(store: Any) -> None:
    """Record that an entry of a locked store was replaced in spite of the lock, here and in its parents."""
    if store._lock is not None:
        for holder in [ref() for ref in store._lock]:
            note_write(holder) if holder is not None else None
        store._lock = Held(store._lock)


def changed(store: Any, owner: object | None, held: bool) -> Owners | None:
    """The owners of a store after `owner` (None for the user) has locked or released it; None if it is then unlocked.

    Raises:
        LockedError: if the user unlocks a container that an existing locked container holds.
    """
    owners = store._lock or ()
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
