"""Classes that change: what a change does to old data, and old data read by the new class."""

from __future__ import annotations

import json
import pickle
from typing import Literal

import pytest
import torch
from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from tensorclass import PerElement, Schema, TensorClass, TensorDict, field, pick, schema, tensorclass
from tensorclass.errors import SchemaError
from tensorclass.typing import Float, Float32, Int64


class Angle(TensorClass):
    """A nested class that renamed its field."""

    radians: Float32[Tensor, ""] = field(renamed_from="value")


@tensorclass(removed={"weight": "2.0"})
class Digits(TensorClass):
    """Renamed twice, extended, and rid of a field."""

    image: Float32[Tensor, "h w"] = field(renamed_from=("pixels", "picture"), since="1.1")
    label: Int64[Tensor, ""]
    angle: Angle
    note: str = field(default="none", renamed_from="remark")
    source: str = field(default="scan", since="2.0")


OLD = {
    "pixels": torch.zeros(2, 3, 3), "label": torch.tensor([1, 2]), "weight": torch.ones(2),
    "angle": {"value": torch.ones(2)}, "remark": "old",
}  # fmt: skip


def check(batch: Digits) -> None:
    """What the old data means today."""
    assert type(batch) is Digits
    assert batch.image.shape == (2, 3, 3)
    assert batch.angle.radians.tolist() == [1.0, 1.0]
    assert (batch.note, batch.source) == ("old", "scan")
    assert list(batch.keys()) == ["image", "label", "angle", "note", "source"]


def test_old_data_is_read():
    """By every loader, nested classes included; new names are read as ever."""
    check(Digits.from_dict(OLD))
    check(Digits.from_dict({"picture" if name == "pixels" else name: value for name, value in OLD.items()}))
    text = TensorDict(OLD).to_dict()
    check(Digits.from_dict(text))
    plain = json.dumps({
        "pixels": [[[0.0] * 3] * 3] * 2, "label": [1, 2], "weight": [1.0, 1.0], "angle": {"value": [1.0, 1.0]},
        "remark": "old",
    })  # fmt: skip
    check(Digits.from_json(plain))
    check(TypeAdapter(Digits).validate_json(plain))
    rows = [
        {"pixels": [[0.0] * 3] * 3, "label": i, "weight": 1, "angle": {"value": 1.0}, "remark": "old"} for i in (1, 2)
    ]
    check(Digits.from_json(json.dumps(rows)))
    check(Digits.from_json(Digits.from_dict(OLD).to_json()))


def test_two_names_of_one_field():
    """The error names both."""
    for names in (("pixels", "image"), ("pixels", "picture"), ("image", "picture")):
        entries = {
            **{name: value for name, value in OLD.items() if name != "pixels"},
            **dict.fromkeys(names, OLD["pixels"]),
        }
        with pytest.raises(SchemaError, match="both are this field: give only `image`") as caught:
            Digits.from_dict(entries)
        assert all(f"`{name}`" in str(caught.value) for name in names)
    with pytest.raises(ValidationError, match="both are this field"):
        TypeAdapter(Digits).validate_python({**OLD, "note": "x"})


def test_the_constructor_takes_the_new_name():
    """A former name is told, not taken."""
    good = Digits.from_dict(OLD)
    with pytest.raises(SchemaError, match="it is `image` now"):
        Digits(pixels=good.image, label=good.label, angle=good.angle)
    with pytest.raises(SchemaError, match="no such field"):
        Digits(image=good.image, label=good.label, angle=good.angle, weight=torch.ones(2))


def test_children_and_parts_keep_it():
    """Inheritance adds to the table; picked classes read old data too."""

    class More(Digits, removed=("extra",)):
        score: Float32[Tensor, ""] | None = None

    assert dict(schema(More).removed) == {"weight": "2.0", "extra": ""}
    assert More.from_dict({**OLD, "extra": 3}).note == "old"
    Small = pick(Digits, "image", "label")
    small = Small.from_dict({name: OLD[name] for name in ("pixels", "label", "weight")})
    assert small.image.shape == (2, 3, 3)


@pytest.mark.parametrize(
    ("body", "options", "text"),
    [
        ({"a": field(renamed_from="b"), "b": field()}, {}, "`b` is also a current field"),
        ({"a": field(renamed_from="c"), "b": field(renamed_from="c")}, {}, "`a` was renamed from it already"),
        ({"a": field(renamed_from="c")}, {"removed": ["c"]}, "`removed` lists `c`"),
        ({"a": field()}, {"removed": {"a": "2"}}, "a field that `removed` lists"),
    ],
)
def test_wrong_declarations(body, options, text):
    """Former names that still mean something else."""
    space = {**body, "__annotations__": dict.fromkeys(body, Tensor), "__module__": __name__}
    with pytest.raises(SchemaError, match=text):
        type(TensorClass)("Wrong", (TensorClass,), space, **options)


def test_wrong_arguments():
    """Names are strings; one string is not a list of names."""
    with pytest.raises(SchemaError, match="renamed_from"):
        field(renamed_from=3)
    with pytest.raises(SchemaError, match="a former name"):
        field(renamed_from="no name")
    with pytest.raises(TypeError, match="give a tuple of names"):

        class Wrong(TensorClass, removed="weight"):
            x: Tensor


def test_it_is_part_of_the_schema():
    """It goes to a dict and back, pickles, and is no difference of data."""
    own = schema(Digits)
    again = Schema.from_dict(json.loads(json.dumps(own.to_dict())))
    assert (again.renamed, again.removed) == (own.renamed, own.removed)
    assert again["image"].since == "1.1"
    assert pickle.loads(pickle.dumps(own)).removed == {"weight": "2.0"}

    class Plain(TensorClass):
        image: Float32[Tensor, "h w"]
        label: Int64[Tensor, ""]
        angle: Angle
        note: str = "none"
        source: str = "scan"

    assert schema(Plain) == own


# ---- diff --------------------------------------------------------------------------------------------------------


def schema_of(default: object = ..., **annotations: object) -> Schema:
    """The schema of a class with these fields."""
    space = {"__annotations__": annotations, "__module__": __name__}
    space |= {} if default is ... else dict.fromkeys(annotations, default)
    return schema(type(TensorClass)("Some", (TensorClass,), space))


@pytest.mark.parametrize(
    ("old", "new", "there", "back"),
    [
        ({"x": Float32[Tensor, "3"]}, {"x": Float32[Tensor, "3"] | None}, "widening", "breaking"),
        ({"x": Float32[Tensor, "3"]}, {"x": Float[Tensor, "3"]}, "widening", "breaking"),
        ({"x": Float32[Tensor, "3"]}, {"x": Float32[Tensor, "n"]}, "widening", "breaking"),
        ({"x": Float32[Tensor, "3"]}, {"x": Tensor}, "widening", "breaking"),
        ({"x": Float32[Tensor, "3"]}, {"x": Float32[Tensor, "4"]}, "breaking", "breaking"),
        ({"x": Float32[Tensor, "n"]}, {"x": Float32[Tensor, "m"]}, "compatible", "compatible"),
        ({"x": Float32[Tensor, "n"]}, {"x": Int64[Tensor, "n"]}, "breaking", "breaking"),
        ({"x": Literal["a"]}, {"x": Literal["a", "b"]}, "widening", "breaking"),
        ({"x": Literal["a"]}, {"x": str}, "widening", "breaking"),
        ({"x": str}, {"x": PerElement[str]}, "breaking", "breaking"),
        ({"x": str}, {"x": str, "y": str}, "breaking", "breaking"),
        ({"x": str}, {"x": str, "y": Tensor | None}, "compatible", "breaking"),
        ({"x": str, "y": str}, {"y": str, "x": str}, "compatible", "compatible"),
    ],
)
def test_effects(old, new, there, back):
    """What a change does to data of the old class, in both directions."""
    assert schema_of(**old).diff(schema_of(**new)).effect == there
    assert schema_of(**new).diff(schema_of(**old)).effect == back


def test_effects_of_defaults():
    """A field with a default may be added, and its default may change; without one data has to hold it."""
    plain, one, two = schema_of(x=str), schema_of("a", x=str), schema_of("b", x=str)
    assert [plain.diff(one).effect, one.diff(two).effect, one.diff(plain).effect] == [
        "compatible",
        "compatible",
        "breaking",
    ]
    assert schema_of().diff(one).effect == "compatible"


def test_effects_of_nested_classes():
    """The changes of a nested class count where it stands."""

    class Inner(TensorClass):
        x: Float32[Tensor, "3"]

    class Wider(TensorClass):
        x: Float[Tensor, "3"]
        y: Tensor | None = None

    diff = schema_of(a=Inner).diff(schema_of(a=Wider))
    assert [(change.field, change.effect) for change in diff.changed] == [("a.y", "compatible"), ("a.x", "widening")]
    assert diff.effect == "widening"
    both = schema_of(a=Inner).diff(schema_of(a=Wider | None))
    assert [change.field for change in both.changed] == ["a", "a.y", "a.x"]


def test_declared_changes_are_compatible():
    """Renamed and removed fields that the class declares are what its loaders read."""

    class Before(TensorClass):
        pixels: Float32[Tensor, "h w"]
        label: Int64[Tensor, ""]
        angle: Angle
        weight: Float32[Tensor, ""]
        remark: str = "none"

    diff = schema(Before).diff(schema(Digits))
    assert diff.effect == "compatible"
    assert str(diff).splitlines() == [
        "Before -> Digits",
        '- weight: Float32[""]',
        "+ source: str = 'scan'",
        '~ image: Float32["h w"] as `pixels` -> Float32["h w"]',
        "~ note: str = 'none' as `remark` -> str = 'none'",
    ]
    assert schema(Digits).diff(schema(Before)).effect == "breaking"
    before = schema_of(pixels=Float32[Tensor, "8 8"], label=Int64[Tensor, ""], angle=Angle)
    changed = before.diff(schema(Digits)).changed
    assert [(change.field, change.effect) for change in changed] == [
        ("image", "widening"),
        ("class (removed)", "widening"),
    ]
