"""The differences between two schemas, and their effect on data of the old one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ..errors import printable
from ._accepted import EFFECTS, Effect, class_differences, field_differences
from ._narrow import DimMap, redeclared, widening
from ._spec import FieldSpec

if TYPE_CHECKING:
    from ._schema import Schema

Above = tuple[tuple["Schema", "Schema"], ...]


class Change(NamedTuple):
    """One difference between two schemas; `old` or `new` is None if a field is missing.

    `field` is its path, followed by the changed aspect unless that is the type or the default: "image (constraints)",
    "class (validate)".

    `effect` is the effect on data of the old schema. "compatible": the data is accepted and means the same. "widening":
    the data is accepted, and the new schema also accepts data that the old one refused. "breaking": the data is
    refused. "may break": unknown, because a validator was added or removed, or some data may need a dropped conversion
    or former name.
    """

    field: str
    old: str | None
    new: str | None
    effect: Effect = "breaking"

    def __str__(self) -> str:
        field, old, new = [printable(text or "") for text in self[:3]]
        if self.old is None:
            return f"+ {field}: {new}"
        return f"- {field}: {old}" if self.new is None else f"~ {field}: {old} -> {new}"


class SchemaDiff(NamedTuple):
    """The differences between two schemas. It is true if they differ, and prints one line for each change."""

    old_name: str
    new_name: str
    added: tuple[Change, ...]
    removed: tuple[Change, ...]
    changed: tuple[Change, ...]
    reordered: tuple[str, ...]

    @classmethod
    def between(cls, old: Schema, new: Schema, above: Above = ()) -> SchemaDiff:
        """The changes from one schema to another. A field with `renamed_from` is compared with its former field.

        Args:
            old: The schema of the data.
            new: The schema that will read it.
            above: The enclosing pairs of classes, which are being compared already.
        """
        before, after = old.fields, new.fields
        was = {now: name for name, now in new.renamed.items() if name in before and name not in after}
        was = {now: name for now, name in was.items() if now not in before}
        gone = set(was.values())
        added = tuple(
            Change(name, None, _line(spec), "breaking" if _is_needed(spec) else "compatible")
            for name, spec in after.items()
            if name not in before and name not in was
        )
        removed = tuple(
            Change(name, _line(spec), None, "compatible" if name in new.removed else "breaking")
            for name, spec in before.items()
            if name not in after and name not in gone
        )
        matched = [(spec, after[name]) for name, spec in before.items() if name in after]
        matched += [(before[name], after[now]) for now, name in was.items()]
        former = {other.name: one for one, other in matched}
        there, back = redeclared(former, after), redeclared(after, former)
        above = (*above, (old, new))
        changed = [change for one, other in matched for change in _field_changes(one, other, there, back, above)]
        changed += [
            Change(f"class ({aspect})", one, other, effect)
            for aspect, one, other, effect in class_differences(old, new)
        ]
        common, moved = [n for n in before if n in after], tuple(name for name in after if name in before)
        return cls(old.name, new.name, added, removed, tuple(changed), moved if list(moved) != common else ())

    @property
    def effect(self) -> Effect:
        """The effect of all changes on data of the old schema: the worst of the single effects."""
        found = [change.effect for change in (*self.added, *self.removed, *self.changed)]
        return EFFECTS[max(map(EFFECTS.index, found), default=0)]

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed or self.reordered)

    def __str__(self) -> str:
        lines = [str(change) for change in (*self.removed, *self.added, *self.changed)]
        lines += [printable(f"order: {', '.join(self.reordered)}")] if self.reordered else []
        return "\n".join([printable(f"{self.old_name} -> {self.new_name}"), *(lines or ["no difference"])])


def _is_needed(spec: FieldSpec) -> bool:
    """Whether data must hold the field."""
    return spec.required and not spec.optional


def _line(spec: FieldSpec) -> str:
    return f"{spec} = {spec.default_text}" if spec.default_text else str(spec)


def _field_changes(old: FieldSpec, new: FieldSpec, there: DimMap, back: DimMap, above: Above) -> Iterator[Change]:
    """The changes of a field that both schemas have, and those of its nested class."""
    before, after = _line(old), _line(new)
    differences = field_differences(old, new, *above[-1])
    former, old = old.name, old.replace(name=new.name)
    effect: Effect | None = _effect(old, new, there, back) if old.layout() != new.layout() else None
    if former != new.name:
        yield Change(new.name, f"{before} as `{former}`", after, effect or "compatible")
    elif effect is not None:
        if before == after:
            before, after = _options(old, new), _options(new, old)
        yield Change(new.name, before, after, effect)
    yield from (
        Change(f"{new.name} ({aspect})", before, after, effect) for aspect, before, after, effect in differences
    )
    inner_old, inner_new = old.nested_schema, new.nested_schema
    if inner_old is None or inner_new is None or inner_old is inner_new:
        return
    if not any(inner_old is one and inner_new is other for one, other in above):
        diff = SchemaDiff.between(inner_old, inner_new, above)
        nested = (*diff.removed, *diff.added, *diff.changed)
        yield from (change._replace(field=f"{new.name}.{change.field}") for change in nested)
        if diff.reordered:
            names = ", ".join(inner_old.names), ", ".join(inner_new.names)
            yield Change(f"{new.name} (order)", *names, "compatible")


def _effect(old: FieldSpec, new: FieldSpec, there: DimMap, back: DimMap) -> Effect:
    # Nested classes are compared by their own changes.
    one, other = old.replace(nested=None), new.replace(nested=None)
    if widening(one, other, there) or (_is_needed(new) and not _is_needed(old) and old.has_default):
        return "breaking"
    return "widening" if widening(other, one, back) else "compatible"


def _options(spec: FieldSpec, other: FieldSpec) -> str:
    own, theirs = spec.layout(), other.layout()
    return ", ".join(f"{key}={value!r}" for key, value in own.items() if theirs.get(key) != value) or "(default)"
