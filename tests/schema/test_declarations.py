"""Class bodies: order, defaults, `field(...)`, `produced()`, and every declaration that is wrong."""

from __future__ import annotations

import dataclasses
from dataclasses import KW_ONLY, InitVar
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

from tensorclass import Ragged, Shared, field, produced
from tensorclass._schema import MISSING, build_schema
from tensorclass.errors import SchemaError
from tensorclass.typing import Bool, Float, Float32, Int64
from tests.schema._helpers import Collection, declare, only, refused, stable


def test_fields_in_order():
    """Fields keep the order of the body, with their defaults and options."""

    class Digits:
        image: Float32[Tensor, "1 8 8"]
        label: Int64[Tensor, ""] = field(
            doc="the digit", kw_only=True, metadata={"unit": "px"}, repr=False, compare=False
        )
        weight: Float32[Tensor, ""] | None = field(default=None, join="fill", fill=1)
        source: str = "scan"
        tags: list[str] = field(default_factory=list)

    schema = build_schema(Digits)
    image, label, weight, source, tags = schema
    assert schema.names == ("image", "label", "weight", "source", "tags")
    assert (image.required, image.default, image.init) == (True, MISSING, True)
    assert (label.doc, label.kw_only, dict(label.options)) == ("the digit", True, {"unit": "px"})
    assert (label.repr, label.compare) == (False, False)
    assert (weight.join, weight.fill, weight.default, weight.required) == ("fill", 1, None, False)
    assert (source.join, source.default) == ("same", "scan")
    assert tags.default_factory is list


def test_join_policies_follow_the_kind():
    """Without a policy, what the batch shares must be the same; the rest is stacked."""

    class Batch:
        x: Tensor
        table: Shared[Tensor]
        name: str
        inner: Collection

    assert [spec.join for spec in build_schema(Batch)] == ["stack", "same", "same", "stack"]


def test_produced_fields():
    """A produced field is no constructor argument and may follow a default."""

    class State:
        x: Float32[Tensor, "8"]
        name: str = "a"
        hidden: Float32[Tensor, "4"] = produced("what the encoder sees")

    hidden = build_schema(State).fields["hidden"]
    assert (hidden.produced, hidden.init, hidden.required) == (True, False, False)
    assert hidden.doc == "what the encoder sees"


def test_produced_takes_no_default():
    """The signature has no default, and `init` can't be switched on."""
    with pytest.raises(TypeError):
        produced(default=3)
    with pytest.raises(SchemaError, match="`init` is False"):
        produced(init=True)


def test_marks_of_dataclasses():
    """ClassVar is no field, InitVar goes to `__post_init__` only, KW_ONLY makes the rest keyword-only."""

    class Some:
        kind: ClassVar[str] = "digits"
        x: Tensor
        scale: InitVar[float] = 2.0
        _: KW_ONLY
        y: Tensor
        z: Tensor = field(kw_only=False, default=None)  # type: ignore[assignment]  # only the order matters

    Some.__annotations__["z"] = Tensor | None
    schema = build_schema(Some)
    assert schema.names == ("x", "y", "z")
    assert [spec.kw_only for spec in schema] == [False, True, False]
    assert [(spec.name, spec.default) for spec in schema.init_vars] == [("scale", 2.0)]


def test_marks_of_dataclasses_as_objects():
    """The same marks where annotations are not strings."""
    body = {"k": ClassVar[int], "x": Tensor, "s": InitVar[int], "_": KW_ONLY, "y": Tensor}
    schema = build_schema(type("Some", (), {"__annotations__": body}))
    assert schema.names == ("x", "y")
    assert schema.fields["y"].kw_only
    assert [spec.annotation for spec in schema.init_vars] == [int]


def test_kw_only_class():
    """Every field of the body is keyword-only, so order does not matter."""

    class Some:
        a: str = "x"
        b: str

    assert [spec.kw_only for spec in build_schema(Some, kw_only=True)] == [True, True]


def test_fields_of_dataclasses_are_accepted():
    """`dataclasses.field` works, for those who are used to it."""

    class Some:
        tags: list[str] = dataclasses.field(default_factory=list, metadata={"a": 1})
        name: str = dataclasses.field(default="x", kw_only=True)

    tags, name = build_schema(Some)
    assert tags.default_factory is list
    assert dict(tags.options) == {"a": 1}
    assert (name.default, name.kw_only) == ("x", True)


@pytest.mark.parametrize(
    ("default", "dtype"),
    [(1.5, torch.float32), (2, torch.float32), (np.float32(3), torch.float32), (torch.tensor(1.0), torch.float32)],
)
def test_tensor_defaults(default, dtype):
    """Numbers become the declared tensor where that is exact."""
    schema = build_schema(type("Some", (), {"__annotations__": {"x": Float32[Tensor, ""]}, "x": default}))
    assert isinstance(schema.fields["x"].default, Tensor)
    assert schema.fields["x"].default.dtype is dtype


@pytest.mark.parametrize(
    ("annotation", "default", "given", "hint"),
    [
        (list, [], "the mutable default []", "field(default_factory=list)"),
        (dict, {"a": 1}, "the mutable default {'a': 1}", "field(default_factory=lambda: {'a': 1})"),
        (Collection, Collection(2), "the mutable default", "default_factory"),
        (Float32[Tensor, ""], None, "the default None", "add `| None` to its declaration"),
        (str, None, "the default None", "declare `str | None`"),
        (Float32[Tensor, "3"], torch.zeros(4), "the default float32 [4]", "a default has the event shape"),
        (Float32[Tensor, ""], torch.tensor(1), "the default int64 []", "its dtype is not Float32"),
        (Int64[Tensor, ""], 1.5, "the default 1.5", "1.5 would become 1"),
        (Float[Tensor, ""], "a", "the default 'a'", "is a tensor of the event shape"),
        (str, torch.zeros(2), "the default tensor([0., 0.])", "declare a tensor type"),
    ],
    ids=stable,
)
def test_wrong_defaults(annotation, default, given, hint):
    """A default that does not fit, or that instances would share, is refused at class definition."""
    problem = only(refused(type("Wrong", (), {"__annotations__": {"x": annotation}, "x": default})))
    assert problem.given.startswith(given)
    assert hint in problem.hint


def test_required_after_default():
    """As dataclasses do, with the way out."""

    class Wrong:
        a: str = "x"
        b: Tensor

    problem = only(refused(Wrong))
    assert problem.path == "b"
    assert problem.given == "a required field after `a`, which has a default"
    assert "kw_only=True" in problem.hint


@pytest.mark.parametrize(
    ("annotation", "join", "given"),
    [
        (Float32[Tensor, "3"], "same", 'join="same" on a field with batch dims'),
        (str, "stack", 'join="stack" on a value that the batch shares'),
        (Shared[Tensor], "stack", 'join="stack" on a value that the batch shares'),
        (Float32[Tensor, "3"], "fill", 'join="fill" on a field that is never None'),
        (str | None, "fill", 'join="fill"'),
        (Float32[Tensor, "3"], "pad", 'join="pad" on a field of the shape "3"'),
        (str, "pad", 'join="pad" on a field that is not a tensor with batch dims'),
        (Float32[Tensor, "n"], "ragged", 'join="ragged" on a field with one shape for all'),
        (Ragged[Tensor, "t"], "stack", 'join="stack" on a ragged field'),
        (Ragged[Tensor, "t"], "pad", 'join="pad" on a ragged field'),
        (Ragged[Tensor, "t"], "same", 'join="same" on a field with batch dims'),
    ],
    ids=stable,
)
def test_wrong_join_policies(annotation, join, given):
    """A policy that the kind of field can't follow is refused at class definition."""
    body = {"__annotations__": {"x": annotation}, "x": field(join=join)}
    assert only(refused(type("Wrong", (), body))).given == given


@pytest.mark.parametrize(
    ("annotation", "join", "fill"),
    [
        (Int64[Tensor, "n"], "pad", 0.5),
        (Int64[Tensor, "n"], "pad", float("nan")),
        (Bool[Tensor, "n"] | None, "fill", 2),
        (Float32[Tensor, "n"], "pad", "-"),
    ],
    ids=stable,
)
def test_a_fill_that_the_field_cannot_hold(annotation, join, fill):
    """What stands for missing elements is a number of the declared dtype."""
    body = {"__annotations__": {"x": annotation}, "x": field(join=join, fill=fill)}
    assert only(refused(type("Wrong", (), body))).given == f"fill={fill!r}"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: field(join="sum"), "the policies are 'stack', 'same', 'fill', 'pad', 'ragged'"),
        (lambda: field(default=1, default_factory=int), "`default` or `default_factory`, not both"),
        (lambda: field(default_factory=3), "`default_factory` is a function"),
    ],
)
def test_wrong_options(make, words):
    """Options that can't be meant are refused where they are written."""
    with pytest.raises(SchemaError, match=words):
        make()


def test_field_without_type():
    """An option without annotation would be lost silently."""

    class Wrong:
        a = field(default=2)
        b = produced()

    a, b = refused(Wrong)
    assert a.hint == "write `a: <type> = field(...)`"
    assert b.hint == "write `b: <type> = produced()`"


def test_class_var_with_options():
    """A ClassVar is no field, so options on it are a mistake."""

    class Wrong:
        a: ClassVar[int] = field(default=2)

    assert only(refused(Wrong)).given == "a ClassVar with field options"


def test_all_problems_are_reported_together():
    """One error for the whole class body."""

    class Wrong:
        a: list[int] = []
        b: Float32[Tensor, "3"] = torch.zeros(4)
        c: "Float32[Tensor, '3,4']"
        d: "3 h w"

    assert [problem.path for problem in refused(Wrong)] == ["a", "b", "c", "d"]


def test_a_string_that_is_no_type():
    """The most likely slip, a shape alone, gets an example."""
    problem = only(refused(type("Wrong", (), {"__annotations__": {"x": "3 h w"}})))
    assert problem.declared == "3 h w"
    assert problem.given.startswith("SyntaxError")
    assert 'Float32[Tensor, "3 h w"]' in problem.hint


def test_recursion_must_end():
    """A required field of its own class could never be built."""

    class Node:
        child: Node

    assert only(refused(Node)).hint == "an instance could never end; declare `Node | None`"


def test_recursion_over_two_classes():
    """The path of the cycle is named."""

    class Left:
        right: Right  # defined below

    left = build_schema(Left)

    Left.__tensorclass_schema__ = left

    @declare
    class Right:
        left: Left

    with pytest.raises(SchemaError, match=r"`right\.left` is a Left again"):
        left.resolve()


def test_optional_recursion():
    """An optional field of its own class is a tree."""

    @declare
    class Node:
        x: Tensor
        child: Node | None = None

    assert Node.__tensorclass_schema__.fields["child"].nested is Node
    assert Node.__tensorclass_schema__.pending == ()
