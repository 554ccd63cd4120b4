"""Wrong class bodies, one a row: each is a SchemaError that names the class, the field and what to do."""

# ruff: noqa: E501  # a row of the table is one line

from __future__ import annotations

from dataclasses import KW_ONLY, InitVar
from typing import Annotated, Any, ClassVar

import pytest
import torch
from annotated_types import Ge, Interval, Le, Len, Lt, MinLen, MultipleOf, Predicate
from pydantic import Field
from torch import Tensor

from tensorclass import (
    PerElement,
    Ragged,
    Shared,
    TensorClass,
    TensorDict,
    class_validator,
    field,
    field_validator,
    produced,
    tensorclass,
)
from tensorclass.errors import SchemaError
from tensorclass.typing import Bool, Complex64, Float, Float32, Int64, Shape

__all__ = ["ClassVar", "Float", "InitVar", "class_validator", "field_validator", "produced"]  # for the bodies below


class Parent(TensorClass):
    image: Float32[Tensor, "3 h w"]
    label: Int64[Tensor, ""]
    note: str = ""


def _with(annotation: Any, **default: Any) -> Any:
    """A class with one field `x`; the annotation may be a function that makes it, and that may already refuse."""

    def declare() -> Any:
        made = (
            annotation() if callable(annotation) and getattr(annotation, "__name__", "") == "<lambda>" else annotation
        )
        return type("Wrong", (TensorClass,), {"__annotations__": {"x": made}, "__module__": __name__, **default})

    return declare


def _body(text: str) -> Any:
    """A class body as a user writes it."""

    def declare() -> Any:
        names = dict(globals())
        exec(f"class Wrong(TensorClass):\n    {text}", names)
        names["Wrong"].__name__  # what was postponed is found at the first use
        return names["Wrong"].x

    return declare


ROWS = {
    # ---- dims and dtypes
    "an unknown dim token": (_with(lambda: Float32[Tensor, "3 h?"]), "h?", ""),
    "a dim that divides by zero": (_with(lambda: Float32[Tensor, "h//0"]), "zero", ""),
    "two variadics": (_with(lambda: Float32[Tensor, "... *rest"]), "...", ""),
    "a shape that is not a string": (_with(lambda: Float32[Tensor, 3]), "string", ""),
    "a dtype twice": (_with(Annotated[Tensor, torch.float32, torch.int64]), "two dtypes", "declare the dtype once"),
    "a shape twice": (_with(Annotated[Tensor, Shape("3"), Shape("4")]), "two shapes", "declare the shape once"),
    "a dtype on a str": (_with(Annotated[str, torch.float32]), "on the type str", "belong to a `Tensor`"),
    "a union of tensors": (_with(Float32[Tensor, ""] | Int64[Tensor, ""]), "a union of", "two optional fields"),
    "a dtype alone": (_with(lambda: Float32), "Float32 without a tensor", 'write `Float32[Tensor, "3 h w"]`'),
    "a dtype of torch alone": (_with(torch.float32), "float32 without a tensor", 'write `Float32[Tensor, "3 h w"]`'),
    "a shape alone": (_with(Shape("3")), 'Shape("3") without a tensor', 'write `Float32[Tensor, "3 h w"]`'),
    "a shared str": (_with(Shared[str]), "Shared[str]", "shared by the batch already"),
    "a ragged field without a first dim of its own": (_with(Ragged[Tensor, "3 d"]), "a ragged field", "a name of its own"),
    "a ragged str": (_with(lambda: Ragged[str, "t"]), "Ragged[str]", 'Ragged[Tensor, "t d"]'),
    # ---- names
    "a field that hides a method": (_body('clone: Float32[Tensor, ""]'), "clone", "rename the field"),
    "a field that hides a new method": (_body("to_json: str"), "to_json", "rename the field"),
    "a reserved name": (_body("batch_size: int"), "batch_size", "rename the field"),
    "field() without a type": (_body("x = field(default=1)"), "without a type", "x: <type> = field(...)"),
    "a ClassVar with options": (_body("x: ClassVar[int] = field(default=1)"), "ClassVar", "drop `ClassVar`"),
    "a forward reference to nothing": (_body("x: 'Nowhere'"), "Nowhere", "define or import `Nowhere`"),
    "a forward reference with a slip": (_body("x: 'Parnet'"), "Parnet", "did you mean `Parent`"),
    "an annotation that is not a type": (_body('x: "1 +"'), "SyntaxError", "an annotation is a type"),
    # ---- defaults
    "a mutable default": (_with(list[int], x=[]), "mutable default", "default_factory=list"),
    "a container default": (_with(TensorDict, x=TensorDict()), "mutable default", "default_factory"),
    "None where a tensor is declared": (_with(Float32[Tensor, ""], x=None), "default None", "| None"),
    "a default of another dtype": (_with(Int64[Tensor, ""], x=0.5), "0.5", "would become"),
    "a default of another shape": (_with(Float32[Tensor, "3"], x=torch.zeros(4)), "[4]", "event shape"),
    "a default for a ragged field": (_with(Ragged[Tensor, "t"], x=torch.zeros(3)), "the default", "default_factory"),
    "two defaults": (_body("x: int = field(default=1, default_factory=int)"), "not both", ""),
    "required after default": (_body('y: int = 1\n    x: int'), "a required field after `y`", "move it before `y`"),
    "produced() with a default": (_body('x: Float32[Tensor, ""] = produced(default=0.0)'), "default=0.0", "`field(default=...)`"),
    "produced() as an argument": (_body('x: Float32[Tensor, ""] = produced(init=True)'), "`init` is False", ""),
    # ---- classes
    "recursion without end": (_body("x: 'Wrong'"), "a Wrong again", "| None"),
    "a wider dtype": (_body('x: int = 0\n    __qualname__ = "Wrong"\nclass Wrong(Parent):\n    label: Float[Tensor, ""]\n    x: int = 0'), "narrow", "never widen"),
    "a wider shape": (_body('x: int = 0\nclass Wrong(Parent):\n    image: Float32[Tensor, "c h w"]\n    x: int = 0'), "is not within", "never widen"),
    "an optional child": (_body('x: int = 0\nclass Wrong(Parent):\n    label: Int64[Tensor, ""] | None = None\n    x: int = 0'), "never None", "never widen"),
    "an __init__ of its own": (_body("x: int\n    def __init__(self): pass"), "__init__", "__post_init__"),
    # ---- policies
    "an unknown join": (_body("x: int = field(join='sum')"), "join='sum'", "'stack'"),
    "an unknown conversion": (_body("x: int = field(coerce='guess')"), "coerce='guess'", "'strict'"),
    "fill on a required field": (_with(Float32[Tensor, ""], x=field(join="fill")), "never None", "optional"),
    "a fill that does not fit": (_with(Int64[Tensor, ""] | None, x=field(join="fill", fill=0.5)), "fill=0.5", "can't hold"),
    # ---- constraints
    "an order on booleans": (_with(Annotated[Bool[Tensor, ""], Ge(0)]), "Ge(ge=0) on Bool", "drop the constraint"),
    "an order on complex numbers": (_with(Annotated[Complex64[Tensor, ""], Lt(1)]), "on Complex64", "no order"),
    "an optional tensor too": (_with(Annotated[Bool[Tensor, ""], Ge(0)] | None), "Ge(ge=0) on Bool", "drop"),
    "a bound that is not a number": (_with(Annotated[Float32[Tensor, ""], Ge("a")]), "on a tensor", "a number, not a str"),
    "a step of zero": (_with(Annotated[Float32[Tensor, ""], MultipleOf(0)]), "MultipleOf", "above 0"),
    "a length of scalars": (_with(Annotated[Float32[Tensor, ""], Len(2)]), "on a scalar", "first event dim"),
    "a length that is never met": (_with(Annotated[Float32[Tensor, "3"], MinLen(4)]), 'the shape "3"', "always 3"),
    "an empty interval": (_with(Annotated[Float32[Tensor, ""], Interval(gt=1, lt=1)]), "Gt(gt=1) with Lt(lt=1)", "nothing meets both"),
    "a predicate on a tensor": (_with(Annotated[Float32[Tensor, ""], Predicate(bool)]), "on a tensor", '@field_validator("x")'),
    "an order of a str": (_with(Annotated[str, Ge(0)]), "Ge(ge=0) on str", "no order"),
    "an int against a str": (_with(Annotated[int, Ge("a")]), "on int", "no order"),
    "a length of an int": (_with(Annotated[int, MinLen(1)]), "MinLen(min_length=1) on int", "no length"),
    "a constraint on a container": (_with(Annotated[TensorDict, Ge(0)]), "on TensorDict", "drop it here"),
    "a constraint on a class": (_with(Annotated[Parent, Le(0)]), "on Parent", "drop it here"),
    "a constraint outside PerElement": (_with(Annotated[PerElement[int], Ge(0)]), "on PerElement", "PerElement[Annotated[int, Ge(ge=0)]]"),
    "a default outside the bounds": (_with(Annotated[Float32[Tensor, ""], Ge(0)], x=-1.0), "the default", "every element is >= 0"),
    "a Field of pydantic for a default": (_with(str, x=Field("a", max_length=3)), "pydantic's `Field(...)`", "Annotated[str, Field(...)]"),
    # ---- validators
    "a validator of nothing": (_body("x: int\n    @field_validator('y')\n    def check(cls, value): return value"), "`y` in `@field_validator`", "its fields are x"),
    "a validator without fields": (_body("x: int\n    @field_validator\n    def check(cls, value): return value"), "names of fields", '@field_validator("image")'),
    "an unknown mode": (_body("x: int\n    @field_validator('x', mode='wrap')\n    def check(cls, value): return value"), "mode='wrap'", '"before"'),
    "a validator of pydantic": (_body("x: int\n    from pydantic import field_validator\n    @field_validator('x')\n    def check(cls, value): return value"), "a validator of pydantic", "tensorclass.field_validator"),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_wrong_declarations(name):
    """The class body is refused; the message names class and field where there is one, and says what to do."""
    declare, given, fix = ROWS[name]
    with pytest.raises(SchemaError) as caught:
        declare()
    text = str(caught.value)
    assert given in text
    assert fix in text
    for problem in getattr(caught.value, "problems", ()):
        assert text.startswith(("Wrong: ", "Parent: "))
        assert problem.path
        assert problem.hint


def test_all_wrong_fields_are_told_together():
    """One error for the whole body, in the order of the fields."""
    with pytest.raises(SchemaError) as caught:

        @tensorclass
        class Wrong:
            image: Annotated[Bool[Tensor, "3"], Ge(0)]
            tags: list[str] = []
            size: Annotated[str, Len(0, 3), MultipleOf(2)] = ""

    assert [problem.path for problem in caught.value.problems] == ["image", "tags", "size"]
    assert caught.value.cls_name == "Wrong"


def test_right_bodies_pass():
    """What the table's neighbours look like when they are right."""

    @tensorclass
    class Right:
        x: Annotated[Float32[Tensor, "n"], Interval(ge=0, le=1), Len(1, 4)]
        n: Annotated[int, Ge(0), MultipleOf(2)] = 2
        name: Annotated[str, Len(1, 3)] = "a"
        extra: InitVar[int] = 0
        shared: ClassVar[int] = 1
        _: KW_ONLY
        words: Annotated[PerElement[str], "a note"] = "a"

        @class_validator
        def fits(self) -> None:
            assert self.n >= 0

    assert Right(x=torch.zeros(2, 3)).n == 2
