"""Values against a schema: what is accepted, converted, filled in; every problem and its hint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import annotated_types
import numpy as np
import pydantic
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tensorclass import PerElement, Shared, field, produced
from tensorclass._schema import (
    MISSING,
    Options,
    build_schema,
    cast_problem,
    check_field,
    check_fields,
    non_tensor_problems,
    schema,
)
from tensorclass.errors import BatchSizeError, SchemaError, UnknownFieldError
from tensorclass.typing import Bool, Complex64, Float, Float16, Float32, Int64, UInt8
from tests.schema._helpers import Collection, Plain, declare, field_of, misfits, only, schema_for, stable


@declare
class Point(Plain):
    x: Float32[Tensor, "2"]


@declare
class Special(Point):
    pass


@declare
class Digits(Plain):
    image: Float32[Tensor, "1 8 8"]
    label: Int64[Tensor, ""]
    weight: Float32[Tensor, ""] | None = None
    source: str = "scan"


DIGITS = schema(Digits)
AUTOCAST = Options(autocast=True)


def images(*batch: int, **options: Any) -> Tensor:
    """Images of a batch."""
    return torch.zeros(*batch, 1, 8, 8, **options)


def labels(*batch: int) -> Tensor:
    """Labels of a batch."""
    return torch.zeros(batch, dtype=torch.int64)


# ---- batch size ------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 3), max_size=3))
def test_batch_size_is_inferred(batch):
    """It is what stands before the event dims."""
    values, size = check_fields(DIGITS, {"image": images(*batch), "label": labels(*batch)})
    assert size == torch.Size(batch)
    assert list(values) == ["image", "label", "weight", "source"]


@pytest.mark.parametrize(
    ("fields", "values", "size"),
    [
        ({"x": Tensor}, {"x": torch.zeros(3, 4)}, ()),
        ({"x": Float32[Tensor, "... 3"]}, {"x": torch.zeros(5, 3)}, ()),
        ({"x": Tensor, "y": Float32[Tensor, "2"]}, {"x": torch.zeros(4, 9), "y": torch.zeros(4, 2)}, (4,)),
        ({"x": Float32[Tensor, ""] | None, "y": Float32[Tensor, ""]}, {"x": None, "y": torch.zeros(2)}, (2,)),
        ({"x": Shared[Float32[Tensor, "n"]], "y": Int64[Tensor, ""]}, {"x": torch.ones(9), "y": labels(2)}, (2,)),
        ({"x": Point, "y": Float32[Tensor, ""]}, {"x": Point(2, 3), "y": torch.zeros(2, 3)}, (2, 3)),
        ({"x": Collection, "y": Float32[Tensor, ""]}, {"x": Collection(2, 3), "y": torch.zeros(2)}, (2,)),
        ({"x": Collection}, {"x": Collection(2, 3)}, (2, 3)),
        ({"x": str}, {"x": "a"}, ()),
    ],
    ids=stable,
)
def test_who_says_the_batch_size(fields, values, size):
    """The first present field with a declared rank, a nested instance, an untyped container at last, else nothing."""
    assert check_fields(schema_for(**fields), values)[1] == torch.Size(size)


@pytest.mark.parametrize(("given_size", "size"), [(3, (3,)), ([3], (3,)), (torch.Size([3]), (3,)), ([], ())])
def test_given_batch_size(given_size, size):
    """A batch size is a number or a sequence; a smaller one leaves dims to fields without a rank."""
    checked = check_fields(schema_for(x=Tensor), {"x": torch.zeros(3, 4)}, batch_size=given_size)
    assert checked[1] == torch.Size(size)


@pytest.mark.parametrize("wrong", [-1, [2, -3], [True], [1.5], True])
def test_wrong_batch_size(wrong):
    """A batch size that is none is refused."""
    with pytest.raises(BatchSizeError, match="a number or a sequence of numbers from 0"):
        check_fields(DIGITS, {"image": images(2), "label": labels(2)}, batch_size=wrong)


def test_batch_size_mismatch():
    """The message says where the batch size comes from."""
    problem = only(misfits(DIGITS, {"image": images(3), "label": labels(4)}))
    assert problem == ("label", 'Int64[""]', "int64 [4]", "the batch size is [3] (inferred from `image`), here [4]")
    given = only(misfits(schema_for(x=Tensor), {"x": torch.zeros(4)}, batch_size=[3]))
    assert given.hint == "the batch size is [3], here [4]; a tensor without batch dims is declared `Shared[...]`"


def test_a_wrong_field_does_not_set_the_batch_size():
    """A field whose own event dims do not fit would make all others look wrong."""
    problem = only(misfits(DIGITS, {"image": torch.zeros(3, 8, 8), "label": labels(3)}))
    assert problem.path == "image"
    assert "the batch size is [3] (inferred from `label`)" in problem.hint


# ---- tensors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("annotation", "value", "hint"),
    [
        (Float32[Tensor, "3"], torch.zeros(2, 3).long(), "convert with `.to(torch.float32)` or declare `Int64[...]`"),
        (
            Float32[Tensor, "3"],
            torch.zeros(2, 3).double(),
            "convert with `.to(torch.float32)`, declare `Float64[...]`, or the family `Float[...]` for any of them",
        ),
        (Float[Tensor, "3"], torch.zeros(2, 3).long(), "convert with `.to(torch.float32)` or declare `Int64[...]`"),
        (Bool[Tensor, "3"], torch.zeros(2, 3), "convert with `.to(torch.bool)` or declare `Float32[...]`"),
        (UInt8[Tensor, "3"], torch.zeros(2, 3).char(), "convert with `.to(torch.uint8)` or declare `Int8[...]`"),
    ],
    ids=stable,
)
def test_dtype(annotation, value, hint):
    """Another dtype is refused, with both ways out."""
    problem = only(misfits(schema_for(x=annotation), {"x": value}))
    assert problem.hint == hint


@pytest.mark.parametrize(
    ("dims", "shape", "batch", "words"),
    [
        ("1 8 8", (3, 8, 8), [3], ["4 dims are expected, 3 given", "`.unsqueeze(1)` would fit"]),
        ("8 8", (3, 1, 8, 8), [3], ["3 dims are expected, 4 given", "`.squeeze(1)` would fit"]),
        ("", (3, 1), [3], ["every element is a scalar: 1 dims are expected, 2 given", "`.squeeze(1)` would fit"]),
        ("1 8 8", (1, 8, 8), [3], ["4 dims are expected, 3 given", "`.expand(3, 1, 8, 8)`, or declare `Shared[...]`"]),
        ("3 h w", (2, 9), [2], ['the event dims are "3 h w": 4 dims are expected, 2 given']),
        ("... 3", (2,), [2], ["2 or more dims are expected, 1 given"]),
        ("3 h w", (2, 8, 9, 3), [2], ["event dim 0 is `3`: 3 is declared, here 8", "`.permute(0, 3, 1, 2)` would fit"]),
        ("3 4", (2, 4, 4), [2], ["event dim 0 is `3`: 3 is declared, here 4"]),
        ("n n", (2, 4, 5), [2], ["event dim 1 is `n`: `n` is 4 (bound by `x`), here 5"]),
        ("3", (4, 3), [2], ["the batch size is [2], here [4]"]),
    ],
)
def test_shape(dims, shape, batch, words):
    """A wrong shape says which dims are batch, which are event, and the call that mends it."""
    problem = only(misfits(schema_for(x=Float32[Tensor, dims]), {"x": torch.zeros(shape)}, batch_size=batch))
    assert problem.declared == f'Float32["{dims}"]'
    assert problem.given == f"float32 {list(shape)}"
    assert all(word in problem.hint for word in words), problem.hint


def test_dims_across_fields():
    """A name is one size in the whole instance; the message says which field bound it."""
    own = schema_for(image=Float32[Tensor, "3 h w"], mask=Bool[Tensor, "h w"], flat=Float32[Tensor, "h*w"])
    good = {"image": torch.zeros(2, 3, 4, 5), "mask": torch.zeros(2, 4, 5).bool(), "flat": torch.zeros(2, 20)}
    assert check_fields(own, good)[1] == torch.Size([2])
    problem = only(misfits(own, {**good, "mask": torch.zeros(2, 4, 6).bool()}))
    assert problem.path == "mask"
    assert problem.hint == "event dim 1 is `w`: `w` is 5 (bound by `image`), here 6"
    flat = only(misfits(own, {**good, "flat": torch.zeros(2, 21)}))
    assert flat.path == "flat"


def test_shared_tensors_have_no_batch_dims():
    """The whole shape is the declared one, and its names are those of the other fields."""
    own = schema_for(x=Float32[Tensor, "n"], table=Shared[Float32[Tensor, "n 2"]])
    assert check_fields(own, {"x": torch.zeros(5, 3), "table": torch.zeros(3, 2)})[1] == torch.Size([5])
    problem = only(misfits(own, {"x": torch.zeros(5, 3), "table": torch.zeros(5, 3, 2)}))
    assert problem.declared == 'Shared[Float32["n 2"]]'


@pytest.mark.parametrize(
    ("value", "given", "hint"),
    [
        (None, "None", "pass a value, or add `| None` to its declaration"),
        ("abc", "str 'abc'", "declare `str` for a Python value"),
        ([1.0, 2.0], "list [1.0, 2.0]", "`torch.tensor(value, dtype=torch.float32)`"),
        (Collection(2), "Collection of batch size [2]", "for a container declare `Collection`"),
        (object, "type ", "pass a tensor"),
    ],
    ids=stable,
)
def test_no_tensor(value, given, hint):
    """What is no tensor is refused, and the way to one is shown."""
    problem = only(misfits(schema_for(x=Float32[Tensor, "2"]), {"x": value}))
    assert problem.given.startswith(given)
    assert hint in problem.hint


# ---- conversion ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("annotation", "value", "expected"),
    [
        (Float32[Tensor, ""], 1.5, torch.tensor(1.5)),
        (Float32[Tensor, ""], 0.1, torch.tensor(0.1)),
        (Float32[Tensor, ""], 2, torch.tensor(2.0)),
        (Float32[Tensor, ""], float("nan"), torch.tensor(float("nan"))),
        (Int64[Tensor, ""], 2, torch.tensor(2)),
        (Int64[Tensor, ""], 2.0, torch.tensor(2)),
        (Bool[Tensor, ""], True, torch.tensor(True)),
        (Complex64[Tensor, ""], 1 + 2j, torch.tensor(1 + 2j)),
        (Float[Tensor, ""], 3, torch.tensor(3.0)),
        (Tensor, 3, torch.tensor(3)),
        (Float32[Tensor, "2"], np.array([1.0, 2.0]), torch.tensor([1.0, 2.0])),
        (Int64[Tensor, "2"], np.array([1, 2], dtype=np.int16), torch.tensor([1, 2])),
        (Int64[Tensor, "2"], np.array([1, 2], dtype=">i8"), torch.tensor([1, 2])),
        (Float32[Tensor, "2"], np.array([1.0, np.nan]), torch.tensor([1.0, float("nan")])),
        (Float32[Tensor, ""], np.float64(0.5), torch.tensor(0.5)),
        (Tensor, np.arange(6)[::-2], torch.tensor([5, 3, 1])),
    ],
    ids=stable,
)
def test_exact_conversions(annotation, value, expected):
    """Numbers and arrays become the declared tensor where nothing is lost."""
    value = check_fields(schema_for(x=annotation), {"x": value}, batch_size=[])[0]["x"]
    torch.testing.assert_close(value, expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(
    ("annotation", "value", "hint"),
    [
        (Int64[Tensor, ""], 1.5, "1.5 would become 1 in torch.int64"),
        (UInt8[Tensor, ""], 300, "300 does not fit torch.uint8"),
        (Float16[Tensor, ""], 1e9, "1000000000.0 would become inf in torch.float16"),
        (Float16[Tensor, ""], 2049, "2049 would become 2048.0 in torch.float16"),
        (Float32[Tensor, ""], True, "True would become 1.0 in torch.float32"),
        (Bool[Tensor, ""], 1, "1 would become True in torch.bool"),
        (Float32[Tensor, ""], 1j, "1j does not fit torch.float32"),
        (Float32[Tensor, "1"], np.array([0.1]), "would change its values"),
        (Int64[Tensor, "1"], np.array([0.5]), "would change its values"),
        (Float32[Tensor, "1"], np.array(["a"]), "pass a tensor"),
    ],
    ids=stable,
)
def test_inexact_conversions(annotation, value, hint):
    """A value that would change is refused, never rounded."""
    assert hint in only(misfits(schema_for(x=annotation), {"x": value}, batch_size=[])).hint


@pytest.mark.parametrize(
    ("annotation", "value", "expected"),
    [
        (Float32[Tensor, "2"], torch.tensor([1, 2]), torch.tensor([1.0, 2.0])),
        (Int64[Tensor, "2"], torch.tensor([1.5, 2.0]), torch.tensor([1, 2])),
        (Int64[Tensor, "2"], [1.5, 2], torch.tensor([1, 2])),
        (Float32[Tensor, "1"], np.array([0.1]), torch.tensor([0.1])),
        (Float[Tensor, "2"], torch.tensor([1, 2]), torch.tensor([1.0, 2.0])),
        (Float[Tensor, "1"], torch.tensor([1.0]).half(), torch.tensor([1.0]).half()),
        (str, "a", "a"),
        (int, "3", 3),
        (int, torch.tensor(3), 3),
    ],
    ids=stable,
)
def test_autocast(annotation, value, expected):
    """With the option anything numeric becomes what is declared."""
    value = check_fields(schema_for(x=annotation), {"x": value}, batch_size=[], options=AUTOCAST)[0]["x"]
    assert (
        torch.equal(value, expected) and value.dtype == expected.dtype
        if isinstance(value, Tensor)
        else value == expected
    )


def test_autocast_still_validates():
    """What can't be converted is refused with the option too."""
    assert only(misfits(schema_for(x=Float32[Tensor, "2"]), {"x": "a"}, options=AUTOCAST)).given == "str 'a'"
    assert "is declared" in only(misfits(schema_for(x=Float32[Tensor, "2"]), {"x": [1, 2, 3]}, options=AUTOCAST)).hint


def test_nocast():
    """With the option numbers stay numbers, so a tensor field refuses them."""
    assert (
        only(misfits(schema_for(x=Float32[Tensor, ""]), {"x": 1.0}, options=Options(nocast=True))).given == "float 1.0"
    )


# ---- defaults, missing and unknown fields ----------------------------------------------------------------------------


def test_tensor_defaults_are_spread_and_copied():
    """A default has the event shape; each instance has its own copy over the batch."""
    default = torch.tensor([1.0, 2.0])
    body = {
        "__annotations__": {"x": Float32[Tensor, ""], "y": Float32[Tensor, "2"], "z": Shared[Tensor]},
        "y": default,
        "z": default,
    }
    own = build_schema(type("Some", (), body))
    values = check_fields(own, {"x": torch.zeros(3)})[0]
    assert values["y"].shape == (3, 2)
    assert torch.equal(values["z"], default)
    values["y"].zero_()
    values["z"].zero_()
    assert default.tolist() == [1.0, 2.0]
    assert check_fields(own, {"x": torch.zeros(())})[0]["y"].tolist() == [1.0, 2.0]


def test_factories_run_each_time():
    """A factory's value is checked like a given one."""
    own = build_schema(type("Some", (), {"__annotations__": {"x": list[int]}, "x": field(default_factory=list)}))
    first, second = (check_fields(own, {})[0]["x"] for _ in range(2))
    assert first == second == []
    assert first is not second
    wrong = build_schema(type("Some", (), {"__annotations__": {"x": str}, "x": field(default_factory=list)}))
    assert only(misfits(wrong, {})).path == "x"


def test_missing_and_unknown_fields():
    """Both in one error, unknown ones last, with the nearest name."""
    label, lable = misfits(DIGITS, {"image": images(2), "lable": labels(2)})
    assert (label.path, label.given, label.hint) == ("label", "nothing", "pass `label=`")
    assert lable.path == "lable"
    assert lable.hint == "its fields are image, label, weight, source; did you mean `label`?"


def test_missing_marker():
    """`MISSING` stands for a field that was not given."""
    assert check_fields(DIGITS, {"image": images(2), "label": labels(2), "source": MISSING})[0]["source"] == "scan"


def test_produced_fields_may_be_absent():
    """A produced field is left out when it was not given, and checked when it was."""
    body = {"__annotations__": {"x": Float32[Tensor, "n"], "y": Float32[Tensor, "n"]}, "y": produced()}
    own = build_schema(type("Some", (), body))
    assert list(check_fields(own, {"x": torch.zeros(2, 3)})[0]) == ["x"]
    assert "bound by `x`" in only(misfits(own, {"x": torch.zeros(2, 3), "y": torch.zeros(2, 4)})).hint


def test_all_problems_in_field_order():
    """One error lists everything, in the order of the declaration."""
    wrong = {"source": 3, "weight": "x", "label": torch.zeros(2), "image": images(2).double()}
    assert [problem.path for problem in misfits(DIGITS, wrong)] == ["image", "label", "weight", "source"]


def test_the_error_is_a_value_error_and_a_type_error():
    """Callers may catch either; the text names the class."""
    for kind in (ValueError, TypeError):
        with pytest.raises(kind, match="Digits: 2 problems"):
            check_fields(DIGITS, {})


# ---- Python values ---------------------------------------------------------------------------------------------------


class Config(pydantic.BaseModel):
    size: int


@dataclass
class Record:
    size: int


class Odd:
    pass


ODD = Odd()


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (str, "a"),
        (int, 3),
        (float, 2.5),
        (float, 3),
        (bool, True),
        (dict[str, int], {"a": 1}),
        (list, [1, "a"]),
        (str | None, None),
        (tuple[int, str], (1, "a")),
        (Config, Config(size=3)),
        (Record, Record(3)),
        (Odd, ODD),
        (Annotated[int, annotated_types.Gt(0)], 3),
        (object, ODD),
        (type(None), None),
        (list[Tensor], []),
    ],
    ids=stable,
)
def test_values(annotation, value):
    """A value of the declared type is stored as it is."""
    assert check_fields(schema_for(x=annotation), {"x": value})[0]["x"] == value


@pytest.mark.parametrize(
    ("annotation", "value", "path", "hint"),
    [
        (str, 3, "x", "valid string"),
        (str, None, "x", "valid string"),
        (int, True, "x", "valid integer"),
        (int, "3", "x", "valid integer"),
        (dict[str, int], {"a": "b"}, "x.a", "valid integer"),
        (list[int], [1, "b"], "x[1]", "valid integer"),
        (Annotated[int, annotated_types.Gt(0)], -1, "x", "greater than 0"),
        (Odd, 3, "x", "instance of Odd"),
        (str, ["a", "b"], "x", "for one value per element declare `PerElement[str]`"),
        (str, torch.zeros(2), "x", 'declare a tensor: `Float32[Tensor, "..."]`'),
        (int, torch.tensor(3), "x", "take the number with `.item()`, or declare a tensor: `Int64"),
    ],
    ids=stable,
)
def test_wrong_values(annotation, value, path, hint):
    """Types are strict: nothing is converted silently; the path goes down into the value."""
    problem = only(misfits(schema_for(x=annotation), {"x": value}))
    assert problem.path == path
    assert hint in problem.hint


def test_tensors_inside_values():
    """A value field may hold tensors where its type says so."""
    tensors = [torch.zeros(2)]
    assert check_fields(schema_for(x=list[Tensor], y=object), {"x": tensors, "y": tensors[0]})[0]["x"][0] is tensors[0]


@pytest.mark.parametrize(
    ("annotation", "batch", "value", "stored"),
    [
        (PerElement[str], [2], ["a", "b"], ["a", "b"]),
        (PerElement[str], [2], ("a", "b"), ["a", "b"]),
        (PerElement[str], [2], "a", "a"),
        (PerElement[str], [], "a", "a"),
        (PerElement[str], [2, 1], [["a"], ["b"]], [["a"], ["b"]]),
        (PerElement[list[int]], [2], [[1], []], [[1], []]),
        (PerElement[tuple[int, int]], [2], (1, 2), [(1, 2), (1, 2)]),
        (PerElement[tuple[int, int]], [1], [(1, 2)], [(1, 2)]),
        (PerElement[str | None], [2], ["a", None], ["a", None]),
        (PerElement[str] | None, [2], None, None),
        (PerElement[str], [0], [], []),
    ],
    ids=stable,
)
def test_per_element(annotation, batch, value, stored):
    """Nested lists of the batch shape, or one value for all elements."""
    assert check_fields(schema_for(x=annotation), {"x": value}, batch_size=batch)[0]["x"] == stored


@pytest.mark.parametrize(
    ("batch", "value", "path", "words"),
    [
        ([2], ["a"], "x", "the batch size is [2]: pass 2 values here"),
        ([2], ["a", 3], "x[1]", "valid string"),
        ([2, 1], ["a", "b"], "x[0]", "pass 1 values here"),
        ([2, 1], [["a"], ["b", "c"]], "x[1]", "pass 1 values here"),
        ([], ["a"], "x", "valid string"),
        ([2], torch.zeros(2), "x", "`value.tolist()`"),
        ([2], 3, "x", "valid string"),
    ],
    ids=stable,
)
def test_wrong_elements(batch, value, path, words):
    """The path says which element, and what the batch wants."""
    problem = misfits(schema_for(x=PerElement[str]), {"x": value}, batch_size=batch)[0]
    assert problem.path == path
    assert words in problem.hint


def test_stacks_of_objects():
    """What already holds one object per element is kept, and its elements are checked."""

    class Stack(Plain):
        def tolist(self) -> list[Any]:
            return ["a", 3]

    stack = Stack(2)
    assert check_fields(schema_for(x=PerElement[str | int]), {"x": stack}, batch_size=[2])[0]["x"] is stack
    assert only(misfits(schema_for(x=PerElement[str]), {"x": stack}, batch_size=[2])).path == "x[1]"
    assert "here [2]" in only(misfits(schema_for(x=PerElement[str]), {"x": stack}, batch_size=[3])).hint


def test_problems_of_elements_are_not_endless():
    """A thousand wrong elements are not a thousand blocks."""
    assert len(misfits(schema_for(x=PerElement[str]), {"x": [1] * 1000}, batch_size=[1000])) == 21


# ---- containers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("annotation", "value"),
    [(Point, Point(2)), (Point, Special(2)), (Point, Point(2, 5)), (Collection, Collection(2)), (Any, 3), (Any, None)],
    ids=stable,
)
def test_containers(annotation, value):
    """An instance of the class or of a child, with at least the batch dims; `Any` takes anything."""
    assert check_fields(schema_for(x=annotation), {"x": value}, batch_size=[2])[0]["x"] is value


@pytest.mark.parametrize(
    ("annotation", "value", "hint"),
    [
        (Point, Point(3), "the batch size is [2], here [3]"),
        (Point, Digits(2), "pass a `Point`"),
        (Special, Point(2), "pass a `Special`"),
        (Point, {"x": 1}, "build it: `Point(**value)`"),
        (Point, Collection(2), "wrap it: `Point.from_tensordict(value)`"),
        (Point, torch.zeros(2), "pass a `Point`"),
        (Collection, Collection(3), "the batch size is [2], here [3]"),
        (Collection, Point(2), "`.to_tensordict()`, or declare `Point`"),
        (Collection, {"x": 1}, "`TensorDict(value, batch_size=[2])`"),
    ],
    ids=stable,
)
def test_wrong_containers(annotation, value, hint):
    """Another class is refused, with the way to the right one."""
    assert hint in only(misfits(schema_for(x=annotation), {"x": value}, batch_size=[2])).hint


# ---- validate= -------------------------------------------------------------------------------------------------------


def bounded(*marks: Any) -> Any:
    """The schema of a tensor with constraints."""
    return schema_for(x=Annotated[(Float32[Tensor, "n"], *marks)])


@pytest.mark.parametrize(
    ("marks", "good", "bad"),
    [
        ((annotated_types.Ge(0),), [0.0, 1.0], [0.0, -1.0]),
        ((annotated_types.Gt(0),), [0.5, 1.0], [0.5, 0.0]),
        ((annotated_types.Le(1),), [0.0, 1.0], [0.0, 1.5]),
        ((annotated_types.Lt(1),), [0.0, 0.5], [0.5, 1.0]),
        ((annotated_types.Interval(ge=0, lt=1),), [0.0, 0.5], [0.0, 1.0]),
        ((annotated_types.Ge(0), annotated_types.Le(1)), [0.0, 1.0], [0.0, 2.0]),
        ((annotated_types.Ge(0),), [0.0], [float("nan")]),
    ],
    ids=stable,
)
def test_values_of_tensors(marks, good, bad):
    """Bounds hold for every element, nan included, and only on request."""
    values = Options(validate="values")
    own = bounded(*marks)
    assert check_fields(own, {"x": torch.tensor([good])}, options=values)[1] == torch.Size([1])
    problem = only(misfits(own, {"x": torch.tensor([bad])}, options=values))
    assert f"1 of {len(bad)} elements, first {bad[-1]} at [0, {len(bad) - 1}]" in problem.hint
    assert check_fields(own, {"x": torch.tensor([bad])})[1] == torch.Size([1])


def test_bounds_of_empty_tensors():
    """No element is out of bounds."""
    own = bounded(annotated_types.Ge(0))
    assert check_fields(own, {"x": torch.zeros(0, 3)}, options=Options(validate="values"))[1] == torch.Size([0])


def test_validation_off():
    """Without validation dtype, dims and values pass; what a container is built on does not."""
    off = Options(validate="off")
    fields = {"image": torch.zeros(2, 9, 9, 9).int(), "label": torch.zeros(2), "source": 3}
    assert check_fields(DIGITS, fields, options=off)[1] == torch.Size([2])
    assert only(misfits(DIGITS, {**fields, "label": torch.zeros(3)}, options=off)).path == "label"
    assert only(misfits(DIGITS, {**fields, "label": "a"}, options=off)).path == "label"
    assert only(misfits(DIGITS, {"image": images(2)}, options=off)).given == "nothing"


# ---- one field -------------------------------------------------------------------------------------------------------

PAIR = schema_for(image=Float32[Tensor, "3 h w"], mask=Bool[Tensor, "h w"] | None, name=str)
OTHERS = {"image": torch.zeros(2, 3, 4, 5), "name": "a"}


def test_one_field():
    """A new value is checked against the batch size and the dims of the others."""
    mask = torch.zeros(2, 4, 5).bool()
    assert check_field(PAIR, "mask", mask, batch_size=[2], others=OTHERS) is mask
    assert check_field(PAIR, "mask", None, batch_size=[2], others=OTHERS) is None
    assert check_field(PAIR, "name", "b", batch_size=[2], others=OTHERS) == "b"
    with pytest.raises(SchemaError, match=r"`w` is 5 \(bound by `image`\), here 6"):
        check_field(PAIR, "mask", torch.zeros(2, 4, 6).bool(), batch_size=[2], others=OTHERS)
    with pytest.raises(SchemaError, match=r"the batch size is \[2\], here \[3\]"):
        check_field(PAIR, "mask", torch.zeros(3, 4, 5).bool(), batch_size=[2], others=OTHERS)
    with pytest.raises(SchemaError, match="pass a value"):
        check_field(PAIR, "image", None, batch_size=[2], others=OTHERS)


def test_one_field_alone_may_change_its_dims():
    """The old value of the field itself binds nothing."""
    image = torch.zeros(2, 3, 9, 9)
    assert check_field(PAIR, "image", image, batch_size=[2], others=OTHERS) is image


def test_one_field_is_converted():
    """Setters convert as the constructor does."""
    own = schema_for(x=Float32[Tensor, ""])
    assert torch.equal(check_field(own, "x", 2, batch_size=[], others={}), torch.tensor(2.0))
    with pytest.raises(SchemaError, match="True would become"):
        check_field(own, "x", True, batch_size=[], others={})


def test_one_field_that_is_none():
    """An unknown name is an AttributeError with the nearest one."""
    with pytest.raises(
        UnknownFieldError, match="Some has no field `imag`; its fields are image, mask, name; did you mean `image`"
    ):
        check_field(PAIR, "imag", 3, batch_size=[2], others={})


def test_one_field_with_variadic_dims():
    """Named variadic dims are held to those of the others."""
    own = schema_for(x=Float32[Tensor, "*s 3"], y=Float32[Tensor, "*s"])
    others = {"x": torch.zeros(2, 4, 5, 3)}
    assert check_field(own, "y", torch.zeros(2, 4, 5), batch_size=[2], others=others).ndim == 3
    with pytest.raises(SchemaError, match=r"`\*s` is \[4, 5\] \(bound by `x`\), here \[4\]"):
        check_field(own, "y", torch.zeros(2, 4), batch_size=[2], others=others)


# ---- the rest --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("annotation", "dtype", "hint"),
    [
        (Float32[Tensor, "3"], torch.float16, "declare the family `Float[...]`, or `cast(x=torch.float16)`"),
        (Complex64[Tensor, "3"], torch.complex128, "declare the family `Num[...]`"),
        (Complex64[Tensor, "3"], torch.float32, "declare the family `Num[...]`"),
        (Float32[Tensor, "3"], torch.complex64, "declare the family `Num[...]`"),
        (Float[Tensor, "3"], torch.float16, None),
        (Int64[Tensor, "3"], torch.float16, None),
        (Tensor, torch.float16, None),
        (str, torch.float16, None),
    ],
    ids=stable,
)
def test_casts(annotation, dtype, hint):
    """A cast that breaks a declared dtype is a problem with the way out; others are none."""
    problem = cast_problem(field_of(annotation), dtype)
    assert (problem is None) == (hint is None)
    assert hint is None or hint in problem.hint


def test_tensor_only():
    """The fields that a tensor-only class can't have are listed."""
    found = non_tensor_problems(schema_for(x=Tensor, y=str, z=PerElement[int], p=Point, c=Collection))
    assert [problem.path for problem in found] == ["y", "z"]
