"""What `diff` says about constraints, validators, conversions, checks and former names, in both directions."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any

import pytest
from annotated_types import Ge, Gt, Interval, Le, Len, Lt, MinLen, MultipleOf, Predicate
from pydantic import Field
from torch import Tensor

from tensorclass import Schema, TensorClass, class_validator, field, field_validator, schema
from tensorclass.typing import Float32, Int64

REAL = Float32[Tensor, "n"]
WHOLE = Int64[Tensor, "n"]
VALUES = {"validate": "values"}


def small(x: Any) -> bool:
    """A predicate with a name."""
    return bool(x < 3)


def make(kind: Any = REAL, options: Mapping[str, Any] = MappingProxyType({}), **body: Any) -> Schema:
    """The schema of a class with the field `x`, which is the same when it comes back from JSON."""
    space = {"__annotations__": {"x": kind}, "__module__": __name__, **body}
    own = schema(type(TensorClass)("Some", (TensorClass,), space, **options))
    again = Schema.from_dict(json.loads(json.dumps(own.to_dict(), allow_nan=False)))
    assert not own.diff(again)
    assert not again.diff(own)
    assert again.to_dict() == own.to_dict()
    return own


def real(*marks: Any) -> Any:
    """A tensor of floats with constraints."""
    return Annotated[(REAL, *marks)]


def whole(*marks: Any) -> Any:
    """A tensor of integers with constraints."""
    return Annotated[(WHOLE, *marks)]


@pytest.mark.parametrize(
    ("old", "new", "there", "back"),
    [
        (REAL, real(Ge(0)), "breaking", "widening"),
        (real(Ge(0)), real(Ge(1)), "breaking", "widening"),
        (real(Ge(0)), real(Gt(0)), "breaking", "widening"),
        (real(Ge(0), Le(9)), real(Interval(ge=0, le=9)), None, None),
        (real(Lt(1)), real(Le(1)), "widening", "breaking"),
        (real(Le(1)), real(Lt(2)), "widening", "breaking"),
        (real(Ge(0)), real(Le(0)), "breaking", "breaking"),
        (real(Gt(0)), real(Ge(1)), "breaking", "widening"),
        (whole(Gt(0), Lt(5)), whole(Ge(1), Le(4)), "compatible", "compatible"),
        (whole(Gt(0.5)), whole(Ge(1)), "compatible", "compatible"),
        (whole(MultipleOf(2)), whole(MultipleOf(4)), "breaking", "widening"),
        (whole(MultipleOf(2)), whole(MultipleOf(3)), "breaking", "breaking"),
        (real(MultipleOf(0.5)), real(MultipleOf(0.25)), "widening", "breaking"),
        (real(Len(1, 4)), real(Len(1)), "widening", "breaking"),
        (real(MinLen(1)), real(MinLen(2)), "breaking", "widening"),
        (real(Ge(0)), real(Ge(float("-inf"))), "may break", "breaking"),
        (real(Ge(0)), real(Ge(0), "metres"), None, None),
        (Annotated[int, Ge(0)], Annotated[int, Gt(-1)], "compatible", "compatible"),
        (Annotated[int, Ge(0)], Annotated[int, Field(ge=1)], "breaking", "widening"),
        (Annotated[str, Len(1, 3)], Annotated[str, Len(1, 5)], "widening", "breaking"),
        (Annotated[str, Field(pattern="^a")], Annotated[str, Field(pattern="^b")], "may break", "may break"),
        (int, Annotated[int, Predicate(small)], "may break", "may break"),
        (Annotated[datetime.date, Ge(datetime.date(2020, 1, 1))], datetime.date, "may break", "may break"),
    ],
)
def test_constraints(old, new, there, back):
    """Narrower is breaking, wider is widening, what can't be compared may break; also against saved schemas."""
    one, other = make(old, VALUES), make(new, VALUES)
    for before, after, effect in ((one, other, there), (other, one, back)):
        saved = Schema.from_dict(before.to_dict())
        for source in (before, saved):
            diff = source.diff(after)
            assert [change.field for change in diff.changed] == ([] if effect is None else ["x (constraints)"])
            assert diff.effect == (effect or "compatible")


def test_constraints_that_begin_to_be_held():
    """Those of fields that the old data has count, under a former name too; those of a new field do not."""
    values = make(real(Ge(0)), VALUES)

    class Other(TensorClass):
        y: REAL
        x: REAL | None = None

    class Former(TensorClass):
        y: REAL

    class Renamed(TensorClass, validate="values"):
        z: Annotated[REAL, Ge(0)] = field(renamed_from="y")

    def effects(diff: Any) -> dict[str, str]:
        return {change.field: change.effect for change in diff.changed}

    assert effects(schema(Former).diff(values)) == {"class (validate)": "compatible"}
    assert effects(schema(Other).diff(values))["class (validate)"] == "breaking"
    assert effects(schema(Former).diff(schema(Renamed)))["class (validate)"] == "breaking"


def test_texts_of_constraints():
    """The change says what was there and what is."""
    (change,) = make(real(Ge(0), Lt(5)), VALUES).diff(make(real(Gt(0)), VALUES)).changed
    assert str(change) == "~ x (constraints): Ge(ge=0), Lt(lt=5) -> Gt(gt=0)"
    (change,) = make(x=field(since="1.0")).diff(make(x=field(since="1.1"))).changed
    assert str(change) == "~ x (since): 1.0 -> 1.1"
    (change,) = make().diff(make(x=field(since="1.1"))).changed
    assert str(change) == "~ x (since): none -> 1.1"
    (change,) = make(x=field(coerce="cast")).diff(make()).changed
    assert str(change) == "~ x (coerce): cast -> none"
    (change,) = make(int).diff(make(Annotated[int, Predicate(small)])).changed
    assert (change.old, change.new) == ("none", "Predicate(small)")


def sums(cls: Any, value: Any) -> Any:
    """A field validator."""
    return value


def whole_check(self: Any) -> None:
    """A class validator."""


AFTER, BEFORE = {"sums": field_validator("x")(sums)}, {"sums": field_validator("x", mode="before")(sums)}
OTHER, CLASS = {"adds": field_validator("x")(sums)}, {"agree": class_validator(whole_check)}


@pytest.mark.parametrize(
    ("old", "new", "aspect", "there", "back"),
    [
        ({}, AFTER, "x (validators)", "may break", "may break"),
        (AFTER, OTHER, "x (validators)", "may break", "may break"),
        (AFTER, BEFORE, "x (validators)", "may break", "may break"),
        ({}, CLASS, "class (validators)", "may break", "may break"),
        ({}, {"options": {"autocast": True}}, "class (coerce)", "widening", "may break"),
        ({}, {"options": {"nocast": True}}, "class (coerce)", "may break", "widening"),
        ({"options": {"nocast": True}}, {"options": {"autocast": True}}, "class (coerce)", "widening", "may break"),
        ({}, {"x": field(coerce="strict")}, "x (coerce)", "may break", "widening"),
        ({"x": field(coerce="exact")}, {"x": field(coerce="cast")}, "x (coerce)", "widening", "may break"),
        ({}, {"x": field(coerce="exact")}, "x (coerce)", "compatible", "compatible"),
        ({}, {"options": {"validate": "off"}}, "class (validate)", "widening", "breaking"),
        ({}, {"options": VALUES}, "class (validate)", "compatible", "compatible"),
        ({"kind": real(Ge(0))}, {"kind": real(Ge(0)), "options": VALUES}, "class (validate)", "breaking", "widening"),
        ({"kind": real(Ge(0))}, {"kind": real(Ge(1))}, "x (constraints)", "compatible", "compatible"),
        ({}, {"x": field(renamed_from="y")}, "x (renamed_from)", "widening", "may break"),
        ({"x": field(since="1.0")}, {"x": field(since="1.1")}, "x (since)", "compatible", "compatible"),
        ({}, {"options": {"removed": ("y",)}}, "class (removed)", "widening", "may break"),
    ],
)
def test_what_is_accepted(old, new, aspect, there, back):
    """Validators by name, conversions, levels of checks, former names; with constraints that are not checked."""

    one, other = make(**old), make(**new)
    for before, after, effect in ((one, other, there), (other, one, back)):
        diff = Schema.from_dict(before.to_dict()).diff(after)
        assert [(change.field, change.effect) for change in diff.changed] == [(aspect, effect)]


def test_nested_and_recursive_classes():
    """The options of a nested class count where it stands, and are saved; a class inside itself is compared once."""

    class Part(TensorClass, validate="values", removed=("z",)):
        x: Annotated[REAL, Ge(0)]

    class Same(TensorClass):
        x: Annotated[REAL, Ge(0)]

    diff = Schema.from_dict(make(Part).to_dict()).diff(make(Same))
    assert [(change.field, change.effect) for change in diff.changed] == [
        ("x.class (validate)", "widening"),
        ("x.class (removed)", "may break"),
    ]
    assert not make(Part).diff(make(Part))
    old, new = recursive(Ge(0)), recursive(Ge(1))
    assert [(change.field, change.effect) for change in old.diff(new).changed] == [("x (constraints)", "breaking")]
    assert not Schema.from_dict(old.to_dict()).diff(old)

    class Leaf(TensorClass):
        y: REAL

    class Flat(TensorClass, validate="values"):
        x: Annotated[REAL, Ge(0)]
        child: Leaf | None = None

    there, back = old.diff(schema(Flat)), schema(Flat).diff(old)  # only one of the two holds itself
    assert {change.field for change in there.changed} >= {"child.x", "child.y", "child.child"}
    assert {change.field for change in back.changed} >= {"child.x", "child.y", "child.child"}


def recursive(mark: Any) -> Schema:
    """The schema of a class that may hold another of its kind."""

    class Node(TensorClass, validate="values"):
        x: Annotated[REAL, mark]
        child: Node | None = None

    return schema(Node)
