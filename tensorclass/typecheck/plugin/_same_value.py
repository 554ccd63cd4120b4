"""Which fields of a pipeline are one value. It mirrors `nn/check/_identity.py`."""

from __future__ import annotations

from dataclasses import dataclass

from mypy.nodes import TypeInfo

from ._refs import FieldReference

Path = tuple[str, ...]


@dataclass
class NamedValue:
    """One value: its key among the values of a pipeline, and the classes whose field it is."""

    key: str
    owners: list[TypeInfo]


class NamedValues:
    """The values of a pipeline by field name."""

    def __init__(self) -> None:
        self._known: dict[str, list[NamedValue]] = {}

    def add_input(self, owner: TypeInfo, name: str) -> None:
        """A field of the input."""
        self._known.setdefault(name, []).append(NamedValue(name, [owner]))

    def found(self, owner: TypeInfo, name: str, by_name: bool = True) -> list[NamedValue]:
        """The values that a field may be: those of its class, else those of related classes, else all of its name."""
        known = self._known.get(name, [])
        own = [value for value in known if owner in value.owners]
        kin = own or [value for value in known if any(are_same_or_subclass(owner, other) for other in value.owners)]
        return kin or (known if by_name else [])

    def path_of(self, ref: FieldReference) -> Path:
        """The path of the value that a field finds; of several, the first."""
        found = self.found(ref.owner.type, ref.path[0])
        return ((found[0].key if found else ref.path[0]), *ref.path[1:])

    def write(self, ref: FieldReference, update: bool) -> Path:
        """The path of the value that a field makes; with `update`, of the value that it finds."""
        name, owner = ref.path[0], ref.owner.type
        found = self.found(owner, name, by_name=update)
        if not found:
            known = self._known.setdefault(name, [])
            keys = {value.key for value in known}
            names = (name, *(f"{owner.name}{number}.{name}" for number in range(len(known) + 1)))
            found = [NamedValue(next(key for key in names if key not in keys), [])]
            known += found
        if owner not in found[0].owners:
            found[0].owners.append(owner)
        return (found[0].key, *ref.path[1:])


def are_same_or_subclass(one: TypeInfo, other: TypeInfo) -> bool:
    """Whether two classes are the same, or one is a subclass of the other."""
    return one is other or one.has_base(other.fullname) or other.has_base(one.fullname)
