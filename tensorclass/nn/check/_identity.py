"""Which fields of a pipeline are one value.

Fields of related classes (same, sub, super) are one value. A field of an unrelated class is another value once a module
writes it. While only one value has a name, the name finds it. Several values without a closer relation are an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ...core import Path
from ..parts._diagnostics import Diagnostic, build_error
from ..parts._slots import APART, Slot, fields_of, is_unnamed
from ..parts._stage import Stage


@dataclass
class OneValue:
    """One value of a pipeline: what sets it apart from others of its name, and the classes whose field it is."""

    apart: str
    owners: list[type]


class Unclear(Exception):
    """Raised for a field that may be any of several values; the argument lists them."""


class FieldValues:
    """The values of a pipeline by field name.

    Args:
        inputs: The input class, and classes whose fields it stands for.
    """

    def __init__(self, inputs: Sequence[type]) -> None:
        self._known: dict[str, list[OneValue]] = {}
        for field, spec in fields_of(inputs[0]).items():
            if not spec.produced:
                apart, name = split(field)
                owners = [origin(cls, field) for cls in inputs if field in fields_of(cls)]
                self._known.setdefault(name, []).append(OneValue(apart, owners))

    def read(self, slot: Slot) -> Slot:
        """The slot of the value that a field finds; the field itself if there is none.

        Raises:
            Unclear: if there are several.
        """
        slot = _original(slot)
        found = self._find(slot)
        if found is not None:
            return _slot_of_value(slot, found)
        known = self._known.get(slot.ref._path[0], [])  # values of stages, which no field finds by name
        return replace(slot, apart=_free(slot.home or slot.owner, known)) if known else slot

    def write(self, slot: Slot, update: bool) -> Slot:
        """The slot of the value that a field makes; with `update`, of the value that the field finds, if any.

        Raises:
            Unclear: if it finds several.
        """
        slot = _original(slot)
        found = self._find(slot, by_name=update)
        name, owner = slot.ref._path[0], slot.home or slot.owner
        known = self._known.setdefault(name, [])
        if found is None:
            found = OneValue(_free(owner, known), [])
            known.append(found)
        found.owners += [] if owner in found.owners else [owner]
        return _slot_of_value(slot, found)

    def _find(self, slot: Slot, by_name: bool = True) -> OneValue | None:
        owner, known = slot.home or slot.owner, self._known.get(slot.ref._path[0], [])
        found = [value for value in known if owner in value.owners]
        if not found and not is_unnamed(owner):
            named = [value for value in known if not is_unnamed(value.owners[0])]
            found = [value for value in named if any(related(owner, other) for other in value.owners)]
            found = found or (named if by_name else [])
        if len(found) > 1:
            raise Unclear(", ".join(f"{value.owners[0].__name__}.{slot.name}" for value in found))
        return found[0] if found else None


@dataclass(frozen=True)
class Identified:
    """The modules with the values that their fields are, and for each output field the name of its value."""

    stages: tuple[Stage, ...]
    values: FieldValues
    sources: Mapping[str, str]


def identify(
    stages: Sequence[Stage], inputs: Sequence[type], output: type, title: str, *, at_once: bool = False
) -> Identified:
    """Find the value of each field that modules read and write, and that the output takes.

    Args:
        stages: The modules.
        inputs: The input class, and classes whose fields it stands for.
        output: The output class.
        title: The pipeline, for messages.
        at_once: Whether the modules have no order yet: a read finds every write.

    Raises:
        BuildError: E118 for a field that may be any of several values.
    """
    values, unclear = FieldValues(inputs), list[Diagnostic]()
    reads: dict[int, tuple[Slot, ...]] = {}
    writes: dict[int, tuple[Slot | None, ...]] = {}
    spare: dict[int, tuple[Slot | None, ...]] = {}

    def found(find: Callable[[Slot], Slot], index: int, slot: Slot, kind: str) -> Slot:
        try:
            return slot if slot.within else find(slot)
        except Unclear as several:
            unclear.append(_finding(stages[index], index, kind, slot, str(several)))
            return slot

    def read(index: int) -> None:
        """Find the values that a stage reads; a spare field may have none."""
        reads[index] = tuple(found(values.read, index, slot, "reads") for slot in stages[index].reads)
        spare[index] = tuple(slot if slot.within else _found_or_none(values, slot) for slot in stages[index].spare)

    def write(index: int) -> None:
        """Find or make the values that a stage writes."""
        find = partial(values.write, update=stages[index].update or stages[index].skip_existing)
        writes[index] = tuple(s if s is None else found(find, index, s, "writes") for s in stages[index].writes)

    turns = [(index, turn) for index in range(len(stages)) for turn in (read, write)]
    if at_once:
        turns.sort(key=lambda one: (one[1] is read, stages[one[0]].update))
    for index, turn in turns:
        turn(index)
    sources = {} if at_once else _sources(values, output, unclear)
    if unclear:
        raise build_error(f"the pipeline {title} is unclear", unclear)
    placed = tuple(
        replace(stage, reads=reads[i], writes=writes[i]).with_spare(spare[i]) for i, stage in enumerate(stages)
    )
    return Identified(placed, values, sources)


def _found_or_none(values: FieldValues, slot: Slot) -> Slot | None:
    """The slot of the value that a field finds; None if it may be any of several."""
    try:
        return values.read(slot)
    except Unclear:
        return None


def _sources(values: FieldValues, output: type, unclear: list[Diagnostic]) -> dict[str, str]:
    """For each output field, the name of its value."""
    sources: dict[str, str] = {}
    for field in fields_of(output):
        slot = _original(Slot(getattr(output, field)))
        try:
            key = values.read(slot).path[0]
        except Unclear as several:
            label = f"{output.__name__}.{slot.name}"
            message = f"the output {label} may be any of {several}"
            hint = f"write `{label}` itself, or name one of their classes as `output=`"
            unclear.append(Diagnostic("E118", message, hint=hint))
        else:
            sources[field] = key
    return sources


def source_of(path: Path, sources: Mapping[str, str]) -> Path:
    """The path of the value that an output path takes."""
    return (sources.get(path[0], path[0]), *path[1:])


def split(field: str) -> tuple[str, str]:
    """What sets a value apart, and its name: a class of a part of a pipeline has fields of both.

    >>> split("x"), split(f"Recon{APART}x") == (f"Recon{APART}", "x")
    (('', 'x'), True)
    """
    before, mark, name = field.rpartition(APART)
    return before + mark, name


def origin(cls: type, field: str) -> type:
    """The class that a field belongs to: for a class of a part of a pipeline, the one that it was taken from."""
    found: type = getattr(cls, "__tensorclass_origins__", {}).get(field, cls)
    return found


def _original(slot: Slot) -> Slot:
    """A field of a class of a part of a pipeline as the field that it was taken from."""
    home = origin(slot.owner, slot.ref._path[0])
    if slot.home is not None or home is slot.owner:
        return slot
    ref: Any = home
    for part in (split(slot.ref._path[0])[1], *slot.ref._path[1:]):
        ref = getattr(ref, part)
    return Slot(ref, home=home)


def _finding(stage: Stage, index: int, kind: str, slot: Slot, several: str) -> Diagnostic:
    message = f"{stage.at(index)} {kind} {slot.label}, which may be any of {several}"
    hint = f"name the one that is meant: {several.replace(', ', ' or ')}"
    return stage.finding(index, "E118", message, (), hint, f"  {'in' if kind == 'reads' else 'out'}_fields={slot}")


def _slot_of_value(slot: Slot, value: OneValue) -> Slot:
    return replace(slot, apart=value.apart, home=value.owners[0])


def _free(owner: type, known: Sequence[OneValue]) -> str:
    """What sets a new value apart from those of its name."""
    taken = {value.apart for value in known}
    names = ["", *(f"{owner.__name__}{number or ''}{APART}" for number in (0, *range(2, len(known) + 3)))]
    return next(name for name in names if name not in taken)


def related(one: type, other: type) -> bool:
    """Whether two classes are the same, or one is a subclass of the other."""
    return issubclass(one, other) or issubclass(other, one)
