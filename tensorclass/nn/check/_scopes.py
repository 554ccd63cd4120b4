"""The scopes of the dims of one module: one for its signature, and one for each nested instance that needs its own."""

from __future__ import annotations

from collections.abc import Sequence, Set

from ...core import Path
from ..parts._slots import Slot
from ._identity import related
from ._unify import DimScope, Unifier


class ModuleScope:
    """The scopes of one occurrence of a module.

    Equal names in its fields are one size, as in the signature of a function. A nested class is a scope of its own: if
    a module has fields of two instances of a batch that both use a name, these are two sizes.

    Args:
        unifier: Makes the scopes.
        slots: The fields that the module reads and writes.
    """

    def __init__(self, unifier: Unifier, slots: Sequence[Slot]) -> None:
        self._apart = nested_scopes(slots)
        self._scopes: dict[Path, DimScope] = {prefix: unifier.scope() for prefix in ((), *sorted(self._apart))}

    def of(self, slot: Slot) -> DimScope:
        """The scope of a field."""
        return self._scopes[scope_path(slot, self._apart)]


def nested_scopes(slots: Sequence[Slot]) -> set[Path]:
    """The nested instances that are scopes of their own among the fields of a module."""
    nested = [slot for slot in slots if len(slot.path) > 1]
    return {slot.path[:-1] for slot in nested if any(_two_sizes(slot, other) for other in slots)}


def scope_path(slot: Slot, apart: Set[Path]) -> Path:
    """The nested instance whose scope a field is in; empty for the scope of the module."""
    return slot.path[:-1] if slot.path[:-1] in apart else ()


def _two_sizes(slot: Slot, other: Slot) -> bool:
    """Whether a nested field shares a name with a field of another instance of the same batch."""
    if slot.path[:-1] == other.path[:-1]:
        return False
    return bool(_names(slot) & _names(other)) and (len(other.path) > 1 or related(slot.owner, other.owner))


def _names(slot: Slot) -> set[str]:
    return set() if slot.spec.dims is None else set(slot.spec.dims.names)
