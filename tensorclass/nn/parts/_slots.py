"""The arguments `in_fields` and `out_fields`: field references. Anything else is refused, with the right spelling."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeGuard

from torch import Tensor

from ..._schema import FieldSpec, Schema
from ...classes import FieldRef
from ...core import Path
from ...errors import BuildError

APART = "\u00b7"
"""Between a class and a field in the path of a value that shares its name with another one: a letter for Python."""


@dataclass(frozen=True)
class Slot:
    """One in or out field of a module: a place in the state of a pipeline, identified by its path."""

    ref: FieldRef
    within: str = ""
    """The nested pipeline to which the place is private, such as `inner/`; empty for a place of the whole pipeline."""
    apart: str = ""
    """The class of the value with `APART`, if another value has the plain name (`check/_identity.py`)."""
    home: type | None = None
    """The class by which the value was found in a pipeline; None before."""
    items: tuple[Any, ...] = ()
    """The item of the value that is read, as in `h[0]`."""

    @property
    def owner(self) -> type:
        """The class of the reference, for messages."""
        return self.ref._owner

    @property
    def path(self) -> Path:
        """The path of the value. Slots of different classes are the same place if their paths are equal."""
        return (self.within + self.apart + self.ref._path[0], *self.ref._path[1:])

    @property
    def plain(self) -> Path:
        """The path in an instance of its class."""
        return (self.within + self.ref._path[0], *self.ref._path[1:])

    @property
    def spec(self) -> FieldSpec:
        """The declaration of the field."""
        return self.ref._spec

    @property
    def name(self) -> str:
        """The path as text."""
        return ".".join(self.ref._path)

    @property
    def label(self) -> str:
        """The reference as the user wrote it."""
        items = "".join(f"[{item!r}]" for item in self.items)
        return self.name + items if is_unnamed(self.owner) else f"{self.owner.__name__}.{self.name}{items}"

    @property
    def known(self) -> bool:
        """Whether a declaration says what the value is."""
        return not self.spec.kind.is_open or not is_unnamed(self.owner)

    @cached_property
    def optional(self) -> bool:
        """Whether the field, or a class on the way to it, may be None."""
        return any(spec.optional for spec in specs_along(self.owner, self.ref._path))

    @property
    def needed(self) -> bool:
        """Whether an instance of the owner requires the field."""
        return self.spec.required or self.spec.produced

    def __str__(self) -> str:
        return f"{self.label}: {self.spec}" if self.known else self.label


def path_text(path: Path) -> str:
    """The path of a value, for messages."""
    return ".".join(path).replace(APART, ".")


def specs_along(owner: Any, path: Sequence[str]) -> list[FieldSpec]:
    """The declarations of every step of a path."""
    found: list[FieldSpec] = []
    for part in path:
        spec: FieldSpec = fields_of(owner)[part]
        found.append(spec)
        owner = spec.nested
    return found


def is_unnamed(cls: type) -> bool:
    """Whether a class declares the results of a stage."""
    return getattr(cls, "__tensorclass_unnamed__", False)


def item_of(value: Any, items: Sequence[Any]) -> Any:
    """An item of a value that a stage returned."""
    for item in items:
        value = value[item]
    return value


def has_path(owner: Any, path: Path) -> bool:
    """Whether a class declares a path."""
    for part in path:
        spec = fields_of(owner).get(part) if owner is not None else None
        if spec is None:
            return False
        owner = spec.nested
    return True


def is_tensorclass_type(value: object) -> TypeGuard[type]:
    """Whether a value is a class with declared fields."""
    return isinstance(value, type) and getattr(value, "__tensorclass_schema__", None) is not None


def fields_of(cls: Any) -> Mapping[str, FieldSpec]:
    """The declared fields of a typed class."""
    schema: Schema = cls.__tensorclass_schema__
    return schema.fields


def as_slots(value: object, role: str, *, droppable: bool = False) -> tuple[Slot | None, ...]:
    """The slots of an argument: one reference, or a sequence of them.

    Args:
        value: What the user gave.
        role: The name of the argument, for messages.
        droppable: Whether None is allowed, for a dropped output.

    Raises:
        BuildError: for anything but a reference.
    """
    single = isinstance(value, FieldRef) or not isinstance(value, list | tuple)
    items: Iterable[object] = (value,) if single else value  # type: ignore[assignment]  # a list or tuple by `single`
    slots = tuple(_as_slot(item, role, droppable and not single) for item in items)
    if droppable:
        _refuse_useless(slots, role)
    return slots


def slots_of(value: object, role: str) -> list[Slot]:
    """As `as_slots`, for arguments without dropped outputs; at least one field."""
    slots = [slot for slot in as_slots(value, role) if slot is not None]
    if not slots:
        raise BuildError(f"{role} names no field; name at least one")
    return slots


def _as_slot(item: object, role: str, droppable: bool) -> Slot | None:
    if isinstance(item, FieldRef):
        return Slot(item)
    if item is None and droppable:
        return None
    raise BuildError(f"{role} takes references to fields, such as `Digits.image`; {_what_else(item)}")


def _what_else(item: object) -> str:
    """What was given in place of a field reference, and what to write."""
    if isinstance(item, str):
        return (
            f"got the string {item!r}: write the field on its class, for a class `Digits` as `Digits.{item or 'image'}`"
        )
    if is_tensorclass_type(item):
        names = [f"{item.__name__}.{name}" for name in fields_of(item)]
        return f"got the class {item.__name__}: name its fields, ({', '.join(names)})"
    if isinstance(item, type):
        return f"got the class {item.__name__}, which is not a tensorclass: decorate it with `@tensorclass`"
    if isinstance(item, Tensor):
        return (
            f"got a tensor of shape {list(item.shape)}: take the field off the class (`Digits.image`), not off an "
            "instance (`batch.image`)"
        )
    if is_tensorclass_type(type(item)):
        return f"got an instance of {type(item).__name__}: name fields of the class, as in `{_first_field(type(item))}`"
    if isinstance(item, property):
        return "got a property that is not a field; name what it is computed from"
    if item is None:
        return "got None; in a sequence of out_fields None drops an output, and nothing else may be None"
    return f"got {item!r} of type {type(item).__name__}"


def _first_field(cls: type) -> str:
    return f"{cls.__name__}.{next(iter(fields_of(cls)), '...')}"


def _refuse_useless(slots: tuple[Slot | None, ...], role: str) -> None:
    written = [slot.path for slot in slots if slot is not None]
    if not written:
        raise BuildError(f"{role} names no field, so the module would write nothing; name at least one field")
    for path in written:
        if written.count(path) > 1:
            raise BuildError(f"{role} names `{'.'.join(path)}` twice; drop one of the outputs with None")
