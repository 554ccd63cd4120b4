"""From class bodies to schemas: inheritance and narrowing, generics, forward references."""

from __future__ import annotations

import dataclasses
import gc
import sys
import types
import weakref
from typing import Any, Generic, Literal, TypeVar

import pytest
import torch
from torch import Tensor

from tensorclass import PerElement, field, produced
from tensorclass._schema import Schema, build_schema, substitute
from tensorclass.errors import SchemaError
from tensorclass.typing import Float, Float32, Float64, Int64
from tests.schema._helpers import Collection, declare, only, refused, stable

T = TypeVar("T")
B = TypeVar("B", bound="Base")
N = TypeVar("N", int, str)


@declare
class Base:
    image: Float[Tensor, "c h w"]
    mask: Float[Tensor, "h w"] | None
    name: str | None


@declare
class Sub(Base):
    pass


def lines(schema: Schema) -> list[str]:
    """The fields as text."""
    return [f"{spec.name}: {spec}" for spec in schema]


# ---- inheritance -----------------------------------------------------------------------------------------------------


def test_fields_accumulate():
    """Inherited fields come first, in their order; a mixin without schema adds nothing."""

    class Mixin:
        y: int

    @declare
    class Child(Base, Mixin):
        label: Int64[Tensor, ""]

    assert Child.__tensorclass_schema__.names == ("image", "mask", "name", "label")


def test_redeclared_fields_keep_their_place():
    """A narrowed field stands where the parent's stood."""

    @declare
    class Child(Base):
        label: Int64[Tensor, ""]
        mask: Float32[Tensor, "h w"]

    assert lines(Child.__tensorclass_schema__) == [
        'image: Float["c h w"]',
        'mask: Float32["h w"]',
        "name: str | None",
        'label: Int64[""]',
    ]


def test_annotations_that_repeat_are_those_of_each_field():
    """As objects, as text and as an `InitVar`; each field keeps its own default, and each wrong one is reported."""
    shared: Any = Float32[Tensor, "h w"]
    given = {"a": shared, "b": shared, "e": dataclasses.InitVar[int], "f": shared, "c": "int | None", "d": "int | None"}
    options = {"c": 1, "d": None, "f": field(join="pad", fill=2.0)}
    schema = build_schema(declare(type("Repeated", (), {"__annotations__": given, "__module__": __name__, **options})))
    assert lines(schema) == [
        'a: Float32["h w"]',
        'b: Float32["h w"]',
        'f: Float32["h w"]',
        "c: int | None",
        "d: int | None",
    ]
    assert [schema.fields[name].default for name in "cd"] == [1, None]
    assert [schema.fields[name].join for name in "abf"] == ["stack", "stack", "pad"]
    wrong = {"a": Float32[Tensor, "h w"] | int}
    wrong["b"] = wrong["a"]
    with pytest.raises(SchemaError) as caught:
        build_schema(type("Wrong", (), {"__annotations__": wrong}))
    assert [problem.path for problem in caught.value.problems] == ["a", "b"]


def test_a_narrowed_dim_reaches_inherited_fields():
    """`h` is one size in the whole class, so a child that fixes it in one field fixes it in all."""

    @declare
    class Child(Base):
        image: Float32[Tensor, "3 8 8"]

    assert lines(Child.__tensorclass_schema__)[:2] == ['image: Float32["3 8 8"]', 'mask: Float["8 8"] | None']


def test_renamed_dims_reach_inherited_fields():
    """Dims may be renamed: what was equal stays equal."""

    @declare
    class Child(Base):
        image: Float[Tensor, "c rows 2*cols"]

    assert lines(Child.__tensorclass_schema__)[1] == 'mask: Float["rows 2*cols"] | None'


def test_a_child_of_a_child_narrows():
    """What a child made of a dim, its own child narrows again: the names of the first class are asked for anew."""

    @declare
    class Child(Base):
        image: Float32[Tensor, "3 2*k w"]

    @declare
    class Grandchild(Child):
        image: Float32[Tensor, "3 2*k 8"]

    assert lines(Grandchild.__tensorclass_schema__)[:2] == ['image: Float32["3 2*k 8"]', 'mask: Float["2*k 8"] | None']


@pytest.mark.parametrize(
    ("parent", "child"),
    [
        (Tensor, Float32[Tensor, "3"]),
        (Float[Tensor, "..."], Float32[Tensor, "3 h"]),
        (Float32[Tensor, "_ 3"], Float32[Tensor, "h 3"]),
        (Float32[Tensor, "a b"], Float32[Tensor, "n n"]),
        (Float32[Tensor, "*s 3"], Float32[Tensor, "4 4 3"]),
        (Float32[Tensor, "... 3"], Float32[Tensor, "*s 3"]),
        (Float32[Tensor, "n 2*n"], Float32[Tensor, "4 8"]),
        (Tensor | None, Tensor),
        (Any, Float32[Tensor, "3"]),
        (Any, str | None),
        (Base, Sub),
        (Base | None, Sub),
        (str | int, str),
        (str | None, str),
        (object, str),
        (int, bool),
        (str, Literal["a", "b"]),
        (Literal["a", "b"], Literal["a"]),
        (dict, dict[str, int]),
        (PerElement[str | int], PerElement[str]),
        (PerElement[Any], PerElement[str]),
        (PerElement[object], PerElement[str | None]),
        (Collection, Collection),
    ],
    ids=stable,
)
def test_narrowing(parent, child):
    """A child may say more about a field."""
    above = declare(type("Above", (), {"__annotations__": {"x": parent}}))
    below = build_schema(type("Below", (above,), {"__annotations__": {"x": child}}))
    assert below.fields["x"] == build_schema(type("Alone", (), {"__annotations__": {"x": child}})).fields["x"]


@pytest.mark.parametrize(
    ("parent", "child", "reason"),
    [
        (Float32[Tensor, "3"], Float64[Tensor, "3"], "the dtype Float64 is not within Float32"),
        (Float32[Tensor, "3"], Float[Tensor, "3"], "the dtype Float is not within Float32"),
        (Float32[Tensor, "3"], Float32[Tensor, "n"], 'the shape "n" is not within "3"'),
        (Float32[Tensor, "n"], Float32[Tensor, "_"], 'the shape "_" is not within "n"'),
        (Float32[Tensor, "n"], Float32[Tensor, "n n"], 'the shape "n n" is not within "n"'),
        (Float32[Tensor, "n n"], Float32[Tensor, "a b"], 'the shape "a b" is not within "n n"'),
        (Float32[Tensor, "n 2*n"], Float32[Tensor, "4 9"], 'the shape "4 9" is not within "n 2*n"'),
        (Float32[Tensor, "n"], Float32[Tensor, "..."], 'the shape "..." is not within "n"'),
        (Float32[Tensor, "3 ..."], Float32[Tensor, "..."], 'the shape "..." is not within "3 ..."'),
        (Float32[Tensor, "n"], Tensor, "not within"),
        (Tensor, Tensor | None, "the parent's field is never None"),
        (Tensor, str, "a value field is not a tensor field"),
        (Sub, Base, "is not a subclass of"),
        (str, str | int, "`str | int` is wider"),
        (str, object, "`object` is wider"),
        (Literal["a"], Literal["a", "b"], "is wider"),
        (str, Literal[1], "is wider"),
        (dict[str, int], dict, "is wider"),
        (dict[str, int], dict[str, bool], "is wider"),
        (PerElement[str], PerElement[str | int], "is wider"),
    ],
    ids=stable,
)
def test_widening_is_refused(parent, child, reason):
    """A child must stay valid wherever its parent is; the message names both."""
    above = declare(type("Above", (), {"__annotations__": {"x": parent}}))
    problem = only(refused(type("Below", (above,), {"__annotations__": {"x": child}})))
    assert problem.path == "x"
    assert problem.declared.endswith(" in `Above`")
    assert reason in problem.hint
    assert "may narrow a field of `Above`, never widen it" in problem.hint


def test_produced_is_wider():
    """A field that can always be read can't become one that may not be there; the reverse is fine."""

    @declare
    class Above:
        x: Tensor
        y: Tensor = produced()

    class Below(Above):
        x: Tensor = produced()

    class Fine(Above):
        y: Tensor

    assert "a produced one only when it was written" in only(refused(Below)).hint
    assert build_schema(Fine).fields["y"].required


def test_two_parents_must_agree():
    """A field of two parents is held to both of them."""

    @declare
    class Left:
        x: Float32[Tensor, "3"]

    @declare
    class Right:
        x: Float64[Tensor, "3"]

    class Wrong(Left, Right):
        pass

    assert only(refused(Wrong)).declared == 'Float64["3"] in `Right`'


def test_a_child_does_not_inherit_defaults_it_redeclares():
    """A redeclared field says all about itself."""

    @declare
    class Above:
        x: Float32[Tensor, ""] | None = None

    class Below(Above):
        x: Float32[Tensor, ""]

    assert build_schema(Below).fields["x"].required


# ---- generics --------------------------------------------------------------------------------------------------------


@declare
class Pair(Generic[T]):
    left: T
    right: T | None
    many: PerElement[T]
    label: Int64[Tensor, ""]


def test_a_free_variable_is_any():
    """Without an argument a field of the variable's type takes anything."""
    assert lines(Pair.__tensorclass_schema__)[:2] == ["left: Any", "right: Any | None"]


def test_substitution():
    """Arguments take the place of the variables; kind and join policy follow."""
    schema = substitute(Pair.__tensorclass_schema__, {T: Sub}, "Pair[Sub]")
    assert schema.name == "Pair[Sub]"
    assert [(spec.kind, spec.optional, spec.join) for spec in schema] == [
        ("nested", False, "stack"),
        ("nested", True, "stack"),
        ("per_element", False, "stack"),
        ("tensor", False, "stack"),
    ]
    assert schema.fields["left"].nested is Sub
    values = substitute(Pair.__tensorclass_schema__, {T: str})
    assert [spec.join for spec in values] == ["same", "same", "stack", "stack"]
    assert str(values.fields["many"]) == "PerElement[str]"


def test_base_with_arguments():
    """`class Child(Pair[str])` has the fields of `Pair[str]`."""

    @declare
    class Child(Pair[str]):
        extra: Tensor

    assert lines(Child.__tensorclass_schema__)[:2] == ["left: str", "right: str | None"]
    assert Child.__tensorclass_schema__.names[-1] == "extra"


def test_bounds_and_constraints():
    """A variable is its bound until it is known; an argument outside the bound is refused."""

    @declare
    class Holder(Generic[B, N]):
        inner: B
        key: N

    assert Holder.__tensorclass_schema__.fields["key"].kind == "any"
    assert Holder.__tensorclass_schema__.fields["inner"].nested is Base
    with pytest.raises(SchemaError, match=r"float is not an argument for ~N: it is one of int, str"):
        substitute(Holder.__tensorclass_schema__, {N: float})


def test_class_bound():
    """A bound that is a class is what the field is, and what arguments are held to."""
    bounded = TypeVar("bounded", bound=Base)
    schema = build_schema(type("Some", (), {"__annotations__": {"x": bounded}}))
    assert schema.fields["x"].nested is Base
    assert substitute(schema, {bounded: Sub}).fields["x"].nested is Sub
    with pytest.raises(SchemaError, match="str is not an argument for ~bounded: its bound is Base"):
        substitute(schema, {bounded: str})


def test_substitution_may_be_refused():
    """Options that do not fit the argument are found when it is known."""
    schema = build_schema(type("Some", (), {"__annotations__": {"x": T}, "x": field(join="same")}))
    with pytest.raises(SchemaError, match='join="same" on a field with batch dims'):
        substitute(schema, {T: Tensor})


# ---- forward references ----------------------------------------------------------------------------------------------


class Early:
    """Names a class of this module that is defined below."""

    x: Tensor
    later: Later | None  # defined below
    unknown: ClearlyUndefined  # type: ignore[name-defined]  # what is tested


class Mid:
    """The same without the unknown name."""

    later: Later  # defined below
    listed: list[Later]  # defined below


EARLY = build_schema(Early)
MID = build_schema(Mid)
PENDING = (EARLY.pending, MID.pending)


@declare
class Later:
    y: Tensor


def test_a_later_class_is_pending():
    """A name that is not defined yet leaves its field open, and nothing else."""
    assert PENDING == (("later", "unknown"), ("later", "listed"))
    assert EARLY.names == ("x", "later", "unknown")
    assert build_schema(Early).declared["x"].kind == "tensor"


def test_pending_fields_resolve_at_first_use():
    """Reading the fields resolves them, once."""
    schema = build_schema(Mid)
    assert schema.fields["later"].nested is Later
    assert schema.fields["listed"].annotation == list[Later]
    assert MID.resolve() is MID
    assert MID.pending == ()


def test_an_unknown_name_is_explained():
    """The error names class, field, name and the usual reason."""
    with pytest.raises(SchemaError) as caught:
        EARLY.resolve()
    problem = only(caught.value.problems)
    assert (caught.value.cls_name, problem.path) == ("Early", "unknown")
    assert problem.given == "the name `ClearlyUndefined`, which is not defined"
    assert "an import under TYPE_CHECKING does not exist at run time" in problem.hint


def test_a_near_name_is_suggested():
    """A slip in a type name is recognised."""

    class Some:
        x: Tensr  # type: ignore[name-defined]  # what is tested

    with pytest.raises(SchemaError, match="did you mean `Tensor`"):
        build_schema(Some).resolve()


def test_classes_of_one_function():
    """Two classes in a function may name each other, the later one too."""

    @declare
    class First:
        second: Second | None = None  # defined below

    @declare
    class Second:
        first: First | None = None

    assert First.__tensorclass_schema__.fields["second"].nested is Second
    assert Second.__tensorclass_schema__.fields["first"].nested is First


def test_children_of_pending_classes():
    """An inherited field resolves with the child's."""
    module = types.ModuleType("tests_of_forward_references")
    sys.modules[module.__name__] = module
    try:
        body = {"__annotations__": {"later": "Defined"}, "__module__": module.__name__}
        parent = type("Parent", (), body)
        parent.__tensorclass_schema__ = build_schema(parent)
        child = type("Child", (parent,), {"__annotations__": {"y": Tensor}, "__module__": module.__name__})
        schema = build_schema(child)
        assert schema.pending == ("later",)
        module.Defined = Later
        assert schema.fields["later"].nested is Later
    finally:
        del sys.modules[module.__name__]


def test_names_of_the_class_body():
    """A class nested in the body is found; a default that is named like a type does not hide it."""

    class Outer:
        @declare
        class Inner:
            x: Tensor

        inner: Inner
        str: str = "a"
        other: str = "b"

    assert lines(build_schema(Outer)) == ["inner: Inner", "str: str", "other: str"]


def test_quoted_parts():
    """A forward reference inside another type is resolved; a string in `Literal` is none."""
    body = {"x": list["Later"], "y": "Literal['Later']", "z": PerElement["str"], "w": dict[str, "int"]}
    schema = build_schema(type("Some", (), {"__annotations__": body, "__module__": __name__}))
    assert schema.fields["x"].annotation == list[Later]
    assert schema.fields["y"].annotation == Literal["Later"]
    assert schema.fields["w"].annotation == dict[str, int]
    assert str(schema.fields["z"]) == "PerElement[str]"


def test_dtypes_of_torch_in_strings():
    """An annotation that is a string may use whatever the module has."""
    body = {"x": "Float32[Tensor, '3 h']", "y": "torch.Tensor"}
    schema = build_schema(type("Some", (), {"__annotations__": body, "__module__": __name__}))
    assert lines(schema) == ['x: Float32["3 h"]', "y: Tensor"]
    assert torch.Tensor is Tensor


def test_a_class_is_not_asked_while_it_resolves():
    """A class may answer unknown attributes by resolving itself; reading its annotations must not ask."""

    class Meta(type):
        def __getattr__(cls, name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            raise AssertionError(f"asked for {name}")

    root = Meta("Root", (), {"__tensor_collection__": True, "__tensorclass_schema__": None})
    node = Meta("Node", (root,), {"__annotations__": {"child": "Node | None"}, "__module__": __name__})
    assert build_schema(node).fields["child"].nested is node


def test_locals_are_let_go():
    """A schema that is resolved keeps nothing of the function where the class stands."""

    class Held:
        pass

    held = Held()
    alive = weakref.ref(held)
    schema = build_schema(type("Some", (), {"__annotations__": {"x": "int"}}), localns={"held": held})
    del held
    gc.collect()
    assert schema.names == ("x",)
    assert alive() is None
