"""Locking: a locked container refuses structural writes, and locks the containers below it.

A container's `_lock` is None when it is unlocked, else the weak references of the locked containers that hold it.
"""

from __future__ import annotations

import weakref
from typing import Any, TypeAlias

from ..errors import LockedError
from ._base import TensorCollection

Owners: TypeAlias = "tuple[weakref.ref[Any], ...]"


class Held(tuple[Any, ...]):
    """The owners of a locked container, a new object whenever it is locked or written to in spite of the lock.

    While it is the same object, so is everything that the container holds.
    """

    __slots__ = ()


def renewed(owners: Owners) -> Held:
    """The same owners after a write to a locked container, in those that hold it too."""
    for ref in owners:
        holder = ref()
        if holder is not None:
            holder._set_written()
    return Held(owners)


def acquire(owners: Owners | None, owner: object | None) -> Owners:
    """The owners of a container once `owner` (None for the user) has locked it."""
    held = owners or ()
    return Held(held if owner is None else (*held, weakref.ref(owner)))


def release(owners: Owners, owner: object | None, name: str) -> Owners | None:
    """The owners that remain once `owner` lets go; None when the container is free.

    Raises:
        LockedError: when the user unlocks a container that a living locked container holds.
    """
    held = tuple(ref for ref in owners if ref() is not None and ref() is not owner)
    if owner is None and held:
        raise LockedError(
            f"this {name} belongs to a locked {type(held[0]()).__name__}; unlock the outermost container instead"
        )
    return Held(held) if held else None


def children(collection: TensorCollection) -> list[TensorCollection]:
    """The containers directly below."""
    return [value for value in collection._entries().values() if isinstance(value, TensorCollection)]


def refuse(name: str, what: str, key: str | None = None) -> LockedError:
    """The error of a structural write on a locked container."""
    place = f" (field `{key}`)" if key else ""
    return LockedError(
        f"cannot {what}{place}: this {name} is locked. Call `unlock_()` first, write inside `with batch.unlock_():`, "
        "or write values in place (`set_`, `update_`, `batch[i] = ...`)"
    )
