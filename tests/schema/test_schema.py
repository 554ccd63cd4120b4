"""The schema as data: text, equality, digest, diff, dict and JSON Schema."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from typing import Any, Literal

import jaxtyping
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tensorclass import PerElement, Shared, field, produced, schema
from tensorclass._schema import FAMILIES, Schema, build_schema, schema_of
from tensorclass.errors import SchemaError, UnknownFieldError
from tensorclass.typing import Float, Float32, Int64
from tests.schema._helpers import Collection, declare, field_of, schema_for


@declare
class Inner:
    x: Float32[Tensor, "n"]


@declare
class Digits:
    image: Float32[Tensor, "1 h h//2"]
    label: Int64[Tensor, ""] = field(doc="the digit")
    weight: Float32[Tensor, ""] | None = field(default=None, join="fill", fill=-1.5)
    source: str = "scan"
    split: Literal["train", "test"] = "train"
    names: PerElement[str] | None = None
    table: Shared[Float[Tensor, "n n"]] = torch.eye(2)  # type: ignore[assignment]  # checkers see a tensor
    inner: Inner | None = None
    corner: Collection | None = None
    anything: Any = None
    limit: float = float("inf")
    tags: list[str] = field(default_factory=list)
    hidden: Float32[Tensor, "8"] = produced()


@declare
class Node:
    x: Tensor
    inner: Inner
    child: Node | None = None


DIGITS = schema(Digits)


def test_text():
    """A schema prints as an aligned table, with defaults and docs."""

    class Small:
        image: Float32[Tensor, "1 8 8"]
        label: Int64[Tensor, ""] = field(doc="the digit")
        source: str | None = None
        tags: list[str] = field(default_factory=list)
        hidden: Float32[Tensor, "8"] = produced()

    assert str(build_schema(Small)) == (
        "Small\n"
        '  image   Float32["1 8 8"]\n'
        '  label   Int64[""]                       # the digit\n'
        "  source  str | None        = None\n"
        "  tags    list[str]         = list()\n"
        '  hidden  Float32["8"]      = produced()'
    )
    assert repr(build_schema(Small)) == "<Schema of Small: image, label, source, tags, hidden>"


def test_it_is_a_sequence_of_fields():
    """Iteration gives the records; names are found with `in` and with brackets."""
    assert [spec.name for spec in DIGITS] == list(DIGITS.names) == list(DIGITS.fields)
    assert len(DIGITS) == 13
    assert "label" in DIGITS
    assert "lable" not in DIGITS
    assert DIGITS["label"] is DIGITS.fields["label"]
    with pytest.raises(
        UnknownFieldError, match=r"Digits has no field `lable`; its fields are image, .*; did you mean `label`"
    ):
        DIGITS["lable"]


def test_it_is_immutable():
    """Neither attributes nor fields can be changed."""
    with pytest.raises(AttributeError, match="immutable"):
        DIGITS.name = "x"
    with pytest.raises(AttributeError):
        del DIGITS.name
    with pytest.raises(TypeError):
        DIGITS.fields["x"] = DIGITS["label"]
    with pytest.raises(AttributeError):
        DIGITS["label"].name = "x"


def test_schema_of_classes_and_instances():
    """`schema()` takes a class or an instance, and refuses the rest by name."""
    assert schema(Digits) is schema(Digits()) is DIGITS
    assert schema_of(int) is None
    with pytest.raises(TypeError, match="got int"):
        schema(int)
    with pytest.raises(TypeError, match="got an instance of int"):
        schema(3)


def test_schema_by_function():
    """A class may compute its schema when asked."""
    lazy = type("Lazy", (), {"__tensorclass_schema__": staticmethod(lambda: DIGITS)})
    assert schema(lazy) is DIGITS
    assert field_of(lazy).nested_schema is DIGITS


def test_equality_is_that_of_data():
    """Class names and docs do not count; everything else does, order included."""
    assert schema_for(x=Tensor, y=str) == build_schema(type("Other", (), {"__annotations__": {"x": Tensor, "y": str}}))
    # By jaxtyping, because `Annotated` gives one object for equal annotations and so one spelling.
    assert schema_for(x=Float32[Tensor, "h+1"]) == schema_for(x=jaxtyping.Float32[Tensor, "1+h"])
    documented = build_schema(type("Some", (), {"__annotations__": {"x": Tensor}, "x": field(doc="a")}))
    assert documented == schema_for(x=Tensor)
    assert hash(documented) == hash(schema_for(x=Tensor))
    assert schema_for(x=Tensor) != "x"


DIFFERENT = [
    {"x": Float32[Tensor, "3"]},
    {"y": Float32[Tensor, "3"]},
    {"x": Float32[Tensor, "4"]},
    {"x": Float32[Tensor, "n"]},
    {"x": Float32[Tensor, "..."]},
    {"x": Float[Tensor, "3"]},
    {"x": Float32[Tensor, "3"] | None},
    {"x": Shared[Float32[Tensor, "3"]]},
    {"x": Tensor},
    {"x": str},
    {"x": dict},
    {"x": dict[str, int]},
    {"x": dict[str, str]},
    {"x": PerElement[str]},
    {"x": Any},
    {"x": Inner},
    {"x": Node},
    {"x": Collection},
    {"x": Tensor, "y": Tensor},
    {"y": Tensor, "x": Tensor},
]


def test_different_schemas_differ():
    """Every difference of data shows in equality, digest and diff."""
    schemas = [schema_for(**fields) for fields in DIFFERENT]
    assert len({one.digest for one in schemas}) == len(schemas)
    for i, one in enumerate(schemas):
        for k, other in enumerate(schemas):
            assert (one == other) == (i == k) == (not one.diff(other)), (i, k)


def test_options_count():
    """Defaults, policies and arguments are part of the data."""

    def make(value: Any, annotation: Any = Tensor | None) -> Schema:
        return build_schema(type("Some", (), {"__annotations__": {"x": annotation}, "x": value}))

    variants = [
        make(field()), make(None), make(field(default=None, kw_only=True)), make(field(default=None, init=False)),
        make(field(default=None, join="fill")), make(field(default=None, join="fill", fill=1)), make(produced()),
        make(torch.zeros(2)), make(torch.ones(2)), make(field(default_factory=list)),
    ]  # fmt: skip
    assert len({one.digest for one in variants}) == len(variants)
    assert all(one.diff(other) for one in variants for other in variants if one is not other)


@pytest.mark.slow
def test_digest_is_the_same_in_every_process():
    """The digest does not depend on hash seeds, ids or import order."""
    code = "from tests.schema.test_schema import DIGITS, schema, Node; print(DIGITS.digest, schema(Node).digest)"
    out = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        env={"PYTHONHASHSEED": "7", "PYTHONPATH": ":".join(sys.path)},
    ).stdout
    assert out.split() == [DIGITS.digest, schema(Node).digest]
    assert len(DIGITS.digest) == 64


def test_diff_lists_changes():
    """Added, removed and changed fields, those of nested classes, and the order."""

    @declare
    class Deep:
        x: Float32[Tensor, "m"]
        y: str

    old = schema_for(a=Tensor, b=str, c=Inner, d=int)
    new = schema_for(b=str | None, c=Deep, e=int, d=int)
    assert str(old.diff(new)).splitlines() == [
        "Some -> Some",
        "- a: Tensor",
        "+ e: int",
        "~ b: str -> str | None",
        "+ c.y: str",
        '~ c.x: Float32["n"] -> Float32["m"]',
    ]
    diff = old.diff(new)
    assert [change.field for change in diff.changed] == ["b", "c.y", "c.x"]


def test_diff_of_order_and_of_nothing():
    """A different order is a difference; no difference is falsy and says so."""
    old, new = schema_for(a=Tensor, b=str), schema_for(b=str, a=Tensor)
    assert old.diff(new).reordered == ("b", "a")
    assert not old.diff(old)
    assert str(old.diff(old)) == "Some -> Some\nno difference"


def test_diff_shows_options():
    """Where the types look alike, the options that differ are shown."""
    old = build_schema(type("Some", (), {"__annotations__": {"x": Tensor}, "x": field(kw_only=True)}))
    assert str(old.diff(schema_for(x=Tensor)).changed[0]) == "~ x: kw_only=True -> kw_only=False"


@pytest.mark.parametrize("cls", [Digits, Node, Inner], ids=lambda cls: cls.__name__)
def test_dict_round_trip(cls):
    """A schema survives JSON, nested and recursive classes included."""
    own = schema(cls)
    text = json.dumps(own.to_dict(), allow_nan=False)
    again = Schema.from_dict(json.loads(text))
    assert again == own
    assert again.digest == own.digest
    assert not own.diff(again)
    assert again.to_dict() == own.to_dict()
    assert str(again) == str(own)


def test_dict_keeps_what_a_reader_needs():
    """Docs, dims and defaults are in the dict; nested classes stand once."""
    entries = schema(Digits).to_dict()
    label = entries["fields"][1]
    assert (label["name"], label["dtype"], label["dims"], label["doc"]) == ("label", "Int64", "", "the digit")
    assert list(entries["classes"]) == ["Inner"]
    assert set(schema(Node).to_dict()["classes"]) == {"Node", "Inner"}


def test_two_classes_of_one_name():
    """Nested classes with the same name stay apart."""
    one = declare(type("Part", (), {"__annotations__": {"x": Tensor}}))
    two = declare(type("Part", (), {"__annotations__": {"y": str}}))
    own = schema_for(a=one, b=two)
    again = Schema.from_dict(own.to_dict())
    assert again == own
    assert again["a"].nested_schema.names == ("x",)
    assert again["b"].nested_schema.names == ("y",)
    assert again["b"].nested_schema.name == "Part"


def test_read_fields_keep_defaults():
    """Tensors, floats and plain values come back; others are named."""
    again = Schema.from_dict(DIGITS.to_dict())
    assert torch.equal(again["table"].default, torch.eye(2))
    assert again["limit"].default == float("inf")
    assert again["weight"].fill == -1.5
    assert repr(again["tags"].default_factory) == "<list>"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda entries: entries.pop("fields"), "KeyError: 'fields'"),
        (lambda entries: entries["fields"][0].update(kind="pickle"), "has kind 'pickle'"),
        (lambda entries: entries["fields"][0].update(dims="3,4"), "field `x`: dim 1"),
        (lambda entries: entries["fields"][0].update(dtype="Float33"), "Float33"),
        (lambda entries: entries["fields"][0].pop("join"), "KeyError: 'join'"),
        (lambda entries: entries.update(fields=3), "TypeError"),
        (lambda entries: entries["fields"][0].update({"class": "Gone"}), "Gone"),
    ],
)
def test_a_mapping_that_is_no_schema(change, words):
    """A damaged manifest is an error that says where."""
    entries = schema_for(x=Float32[Tensor, "3"]).to_dict()
    change(entries)
    with pytest.raises(SchemaError, match=words):
        Schema.from_dict(entries)


ANNOTATIONS = st.one_of(
    st.builds(
        lambda family, dims, optional: family[Tensor, dims] | None if optional else family[Tensor, dims],
        st.sampled_from(list(FAMILIES.values())),
        st.sampled_from(["", "3", "h w", "... 2*n", "_ h//2"]),
        st.booleans(),
    ),
    st.sampled_from([Tensor, str, int | None, list[str], Inner, Node | None, PerElement[int], Shared[Tensor], Any]),
)


@given(st.dictionaries(st.sampled_from("abcdef"), ANNOTATIONS, max_size=5))
def test_any_schema_survives_json(fields):
    """The round trip holds for any mix of fields."""
    own = schema_for(**fields)
    again = Schema.from_dict(json.loads(json.dumps(own.to_dict())))
    assert (again, again.digest, str(again)) == (own, own.digest, str(own))


def test_json_schema():
    """Properties with types, what is required, nested classes under `$defs`."""
    found = DIGITS.json_schema()
    assert found["title"] == "Digits"
    assert found["required"] == ["image", "label"]
    assert found["additionalProperties"] is False
    image = found["properties"]["image"]
    assert (image["dtype"], image["dims"], image["shape"]) == ("Float32", "1 h h//2", [1, "h", "h//2"])
    lists, whole = image["anyOf"]
    assert lists == {"type": ["array", "number", "string"]}
    assert whole["properties"]["dtype"] == {"enum": ["float32"]}
    assert whole["required"] == ["dtype", "shape", "data"]
    assert found["properties"]["label"]["description"] == "the digit"
    assert found["properties"]["split"] == {"enum": ["train", "test"], "type": "string"}
    assert found["properties"]["inner"] == {"anyOf": [{"$ref": "#/$defs/Inner"}, {"type": "null"}]}
    assert found["$defs"]["Inner"]["required"] == ["x"]
    assert found["properties"]["batch_size"] == {"type": "array", "items": {"type": "integer", "minimum": 0}}
    assert found["properties"]["names"] == {"type": "array", "items": {"type": ["string", "null"]}}
    assert "hidden" in found["properties"]  # a batch on its way through a pipeline may carry it
    recursive = schema(Node).json_schema()
    assert recursive["$defs"].keys() == {"Node", "Inner"}
    assert recursive["$ref"] == "#/$defs/Node"
    assert json.dumps(found)


def test_json_schema_of_types_without_one():
    """A class that JSON can't hold is named."""

    class Odd:
        pass

    assert schema_for(x=Odd).json_schema()["properties"]["x"] == {"title": "Odd"}


def test_pickle():
    """A schema survives pickling, after its validators were built too."""
    assert DIGITS["source"].adapter_accepts("x")
    assert pickle.loads(pickle.dumps(schema_for(x=Tensor, y=str, z=Float32[Tensor, "n"]))) == schema_for(
        x=Tensor, y=str, z=Float32[Tensor, "n"]
    )


def test_field_equality():
    """Fields compare by what they declare."""
    assert field_of(Tensor) == field_of(Tensor)
    assert field_of(Tensor) != field_of(Tensor | None)
    assert field_of(Inner) != field_of(Node)
    assert field_of(Inner) != 3
    assert len({field_of(Tensor), field_of(Tensor)}) == 1
