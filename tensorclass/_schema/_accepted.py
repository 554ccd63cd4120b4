"""Rules of a class besides its types: constraints, validators, conversions, former names; and the effect of changes.

A class and its saved schema must compare as equal, so all rules are compared in their saved form.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from annotated_types import BaseMetadata, MultipleOf

from .._options import COERCIONS, FIELD_OPTIONS, effect_of_step, names_or_none
from .._options import Effect as Effect
from ._constraints import KNOWN, LENGTH, ORDER, bound_of, flatten
from ._dtypes import Integer
from ._spec import FieldSpec

if TYPE_CHECKING:
    from ._schema import Schema

EFFECTS: tuple[Effect, ...] = ("compatible", "widening", "may break", "breaking")
MARKS: dict[str, Any] = {
    **{row[0]: mark for mark, row in ORDER.items()},
    **{row[0]: mark for mark, row in LENGTH.items()},
    "multiple_of": MultipleOf,
}
KEYS = {mark: key for key, mark in MARKS.items()}
ADDRESS = re.compile(r"<function (?:.*\.)?(\w+|<lambda>) at 0x\w+>")


@dataclasses.dataclass(frozen=True)
class OtherConstraint(BaseMetadata):
    """A constraint of a schema that was read from a dict, where only the text of the constraint is known."""

    text: str

    def __str__(self) -> str:
        return self.text


def constraint_rows(metadata: Iterable[Any]) -> list[dict[str, Any]]:
    """Extract the constraints from the metadata of a field, as plain JSON types."""
    return [_row(mark) for mark in flatten(metadata) if isinstance(mark, BaseMetadata)]


def _row(mark: Any) -> dict[str, Any]:
    bound = bound_of(mark) if isinstance(mark, KNOWN) else None
    if type(bound) is int or (type(bound) is float and math.isfinite(bound)):
        return {KEYS[type(mark)]: bound}
    return {"text": ADDRESS.sub(r"\1", str(mark))}


def read_constraints(rows: Iterable[Mapping[str, Any]]) -> tuple[Any, ...]:
    """Read the constraints that `constraint_rows` wrote."""
    marks = [MARKS.get(key, OtherConstraint)(value) for row in rows for key, value in row.items()]
    return tuple(marks)


def validator_names(spec: FieldSpec) -> list[str]:
    """The validators of a field, in the order in which they run."""
    return [f"{validator.name} (before)" if validator.before else validator.name for validator in spec.validators]


# ---- what a change does ------------------------------------------------------------------------------------------


class Difference(NamedTuple):
    """One aspect in which two declarations differ: the old and the new text, and the effect on data of the old one."""

    aspect: str
    old: str
    new: str
    effect: Effect


def field_differences(old: FieldSpec, new: FieldSpec, before: Schema, after: Schema) -> Iterator[Difference]:
    """The differences in what two declarations of a field accept, besides type, shape and default."""
    one, other = constraint_rows(old.metadata), constraint_rows(new.metadata)
    if one != other:
        yield Difference("constraints", _rows_text(one), _rows_text(other), _constraint_effect(old, new, before, after))
    yield from _validators(validator_names(old), validator_names(new))
    for option in FIELD_OPTIONS.values():
        effect = None if option.changes is None else option.changes(old, new, before, after)
        if effect is not None:
            one_text, other_text = [_text(getattr(spec, option.name)) for spec in (old, new)]
            yield Difference(option.name, one_text, other_text, effect)


def _constraint_effect(old: FieldSpec, new: FieldSpec, before: Schema, after: Schema) -> Effect:
    """The effect of other constraints; those that a class doesn't check count as none."""
    return _bounds_effect(_enforced_rows(old, before), _enforced_rows(new, after), _is_whole(new))


def _text(value: Any) -> str:
    return names_or_none(value) if isinstance(value, tuple) else str(value or "none")


def class_differences(old: Schema, new: Schema) -> Iterator[Difference]:
    """The differences between two classes in the data that they accept: options, validators, removed fields."""
    one, other = old.policy, new.policy
    levels = one.get("validate", "schema"), other.get("validate", "schema")
    if levels[0] != levels[1]:
        yield Difference("validate", *levels, _level_effect(old, new, *levels))
    policies = one.get("coerce", "exact"), other.get("coerce", "exact")
    if policies[0] != policies[1]:
        yield Difference("coerce", *policies, effect_of_step(COERCIONS, *policies))
    yield from _validators(one.get("checks", []), other.get("checks", []))
    lost = old.removed.keys() - new.removed.keys() - new.fields.keys()
    if lost or new.removed.keys() - old.removed.keys() - old.fields.keys():
        yield Difference(
            "removed", names_or_none(old.removed), names_or_none(new.removed), "may break" if lost else "widening"
        )


def _validators(old: list[str], new: list[str]) -> Iterator[Difference]:
    if old != new:
        yield Difference("validators", names_or_none(old), names_or_none(new), "may break")


def _level_effect(old: Schema, new: Schema, before: str, after: str) -> Effect:
    """The effect of a change of `validate=`. Only "values" enforces constraints on tensors."""
    if "off" in (before, after):
        return "widening" if after == "off" else "breaking"
    strict, other = (new, old) if after == "values" else (old, new)
    held = [spec for spec in strict if spec.spec is not None and constraint_rows(spec.metadata)]
    names = [{spec.name, *spec.renamed_from, new.renamed.get(spec.name, spec.name)} for spec in held]
    if not any(known & other.fields.keys() for known in names):
        return "compatible"
    return "breaking" if strict is new else "widening"


def _enforced_rows(spec: FieldSpec, schema: Schema) -> list[dict[str, Any]]:
    """The constraints of a field that its class checks."""
    level = schema.policy.get("validate", "schema")
    enforced = level == "values" or (level == "schema" and spec.spec is None)
    return constraint_rows(spec.metadata) if enforced else []


def _is_whole(spec: FieldSpec) -> bool:
    return (
        spec.annotation is int
        if spec.dtype is None
        else spec.dtype.dtypes is not None and spec.dtype.is_within(Integer)
    )


def _bounds_effect(old: list[dict[str, Any]], new: list[dict[str, Any]], whole: bool) -> Effect:
    one, other = _Bounds.of(old, whole), _Bounds.of(new, whole)
    if not one.is_within(other):
        return "breaking"
    if one.others != other.others:
        return "may break"
    return "compatible" if other.is_within(one) else "widening"


class _Bounds(NamedTuple):
    """Constraints as limits. The second number of a limit is not 0 if the limit itself is excluded."""

    low: tuple[float, int]
    high: tuple[float, int]
    shortest: int
    longest: float
    steps: tuple[float, ...]
    others: frozenset[str]

    @classmethod
    def of(cls, rows: list[dict[str, Any]], whole: bool) -> _Bounds:
        """Combine constraints into limits; for whole numbers `> 0` is `>= 1`."""
        found: dict[str, list[Any]] = {key: [row[key] for row in rows if key in row] for key in (*MARKS, "text")}
        low = [*((x, 0) for x in found["ge"]), *((x, 1) for x in found["gt"])]
        high = [*((x, 0) for x in found["le"]), *((x, -1) for x in found["lt"])]
        if whole:
            low = [(math.floor(x) + 1 if is_open else math.ceil(x), 0) for x, is_open in low]
            high = [(math.ceil(x) - 1 if is_open else math.floor(x), 0) for x, is_open in high]
        return cls(
            max(low, default=(-math.inf, 0)),
            min(high, default=(math.inf, 0)),
            max(found["min_length"], default=0),
            min(found["max_length"], default=math.inf),
            tuple(found["multiple_of"]),
            frozenset(found["text"]),
        )

    def is_within(self, other: _Bounds) -> bool:
        """Whether every value within these limits is within the others."""
        inside = self.low >= other.low and self.high <= other.high
        sized = self.shortest >= other.shortest and self.longest <= other.longest
        return inside and sized and all(any(_divides(step, own) for own in self.steps) for step in other.steps)


def _divides(step: float, number: float) -> bool:
    ratio = number / step
    return ratio >= 0.5 and math.isclose(ratio, round(ratio))


def _rows_text(rows: list[dict[str, Any]]) -> str:
    return names_or_none(str(mark) for mark in read_constraints(rows))
