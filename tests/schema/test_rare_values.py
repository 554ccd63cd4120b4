"""Values and declarations that are rarely met: arrays of odd dtypes, ragged values in every form, mappings, names."""

from __future__ import annotations

import re
import warnings
from dataclasses import InitVar
from typing import Annotated, Any, ClassVar, TypeVar

import numpy as np
import pytest
import torch
from annotated_types import Ge
from torch import Tensor

from tensorclass import Ragged, RaggedTensor, Schema, Shared, TensorClass, TensorDict, field_validator, schema
from tensorclass._schema import check_field, check_fields, dims_problems, family_of, infer_batch_size, substitute
from tensorclass._schema._check import Options
from tensorclass.errors import ArgumentError, SchemaError
from tensorclass.typing import Complex64, Float32, Int64, UInt64
from tests.schema._helpers import field_of, misfits, only, refused, schema_for

T = TypeVar("T")
z = torch.zeros
ROWS, FLOATS = Ragged[Tensor, "t 2"], Float32[RaggedTensor, "t"]
CAST = Options(autocast=True)


class Point(TensorClass):
    """A nested class."""

    y: Float32[Tensor, ""]


def checked(annotation: Any, value: Any, batch: Any = None, options: Options = Options()) -> Any:  # noqa: B008  # immutable
    """The stored form of one value, and the batch size that it says."""
    values, size = check_fields(schema_for(x=annotation), {"x": value}, batch_size=batch, options=options)
    return values["x"], tuple(size)


def nested_tensor(*lengths: int) -> Tensor:
    """A nested tensor of torch, whose elements have two columns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the API of torch is a prototype, and says so
        return torch.nested.nested_tensor([z(n, 2) for n in lengths])


# ---- arrays ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("annotation", "array", "expected"),
    [
        (Float32[Tensor, "2"], np.array([1, 3], "f8"), torch.tensor([1.0, 3.0])),
        (Float32[Tensor, "2"], np.array([1, np.nan], ">f4"), torch.tensor([1.0, float("nan")])),
        (Complex64[Tensor, "2"], np.array([1, 3], "f4"), torch.tensor([1 + 0j, 3 + 0j])),
        (Int64[Tensor, "2"], np.array([1, 2**63 - 1], "u8"), torch.tensor([1, 2**63 - 1])),
        (UInt64[Tensor, "2"], np.array([1, 2**62]), torch.tensor([1, 2**62], dtype=torch.uint64)),
    ],
)
def test_arrays_that_keep_their_values(annotation, array, expected):
    """They are converted to the declared dtype."""
    found, size = checked(annotation, array)
    assert size == ()
    torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(
    ("annotation", "array"),
    [
        (Float32[Tensor, "2"], np.array([1, 2**24 + 1])),
        (Complex64[Tensor, "2"], np.array([1, 2**60 + 1])),
        (Int64[Tensor, "2"], np.array([1, 2**63 + 1], "u8")),
        (Int64[Tensor, "2"], np.array([1, 1.5])),
        (UInt64[Tensor, "2"], np.array([1, -1])),
    ],
)
def test_arrays_that_would_change(annotation, array):
    """They are refused, with the dtype that they would get; `autocast` converts them."""
    hint = f"converting it to {field_of(annotation).dtype.exact} would change its values; convert it first"
    assert only(misfits(schema_for(x=annotation), {"x": array})).hint == hint
    assert checked(annotation, array, options=CAST)[0].dtype is field_of(annotation).dtype.exact


@pytest.mark.parametrize("array", [np.array(["a", "b"]), np.array([1, None]), np.ones(2, dtype=np.longdouble)], ids=str)
@pytest.mark.parametrize("options", [Options(), CAST])
def test_arrays_that_are_no_tensors(array, options):
    """Strings, objects and dtypes that torch lacks."""
    hint = "pass a tensor, or declare `ndarray` for a Python value"
    assert only(misfits(schema_for(x=Float32[Tensor, "2"]), {"x": array}, options=options)).hint == hint


def test_numbers_of_families_with_booleans():
    """A number gets the dtype of its kind, where the family has it."""
    kind = Annotated[Tensor, family_of(torch.bool, torch.int64, torch.float32)]
    found = [checked(kind, value)[0].dtype for value in (True, 3, 1.5)]
    assert found == [torch.bool, torch.int64, torch.float32]


def test_lists_that_are_no_tensors():
    """`autocast` converts lists of numbers; others get the call that would make a tensor."""
    problem = only(misfits(schema_for(x=Float32[Tensor, "2"]), {"x": [1, "a"]}, options=CAST))
    assert problem.hint == "make a tensor: `torch.tensor(value, dtype=torch.float32)`"
    assert checked(Float32[Tensor, "2"], (1, 2), options=CAST)[0].tolist() == [1.0, 2.0]


def test_lists_of_tensors():
    """The call in the hint makes a tensor that fits; tensors of different shapes get no call that would fail."""
    for value in ([torch.zeros(2), torch.ones(2)], [torch.tensor(1.0), torch.tensor(2.0)]):
        annotation = Float32[Tensor, "2"] if value[0].ndim else Float32[Tensor, ""]
        (call,) = re.findall("make a tensor: `(.+)`", only(misfits(schema_for(x=annotation), {"x": value})).hint)
        assert checked(annotation, eval(call, {"torch": torch, "value": value}))[0].shape == (2, *value[0].shape)
    uneven = {"x": [torch.zeros(2), torch.zeros(3)]}
    assert "`Ragged[" in only(misfits(schema_for(x=Float32[Tensor, "n"]), uneven)).hint


# ---- one length per element --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "batch", "expected"),
    [
        ([[1, 2], [3]], (2,), [[1.0, 2.0], [3.0]]),
        ([[], [1]], (2,), [[], [1.0]]),
        ([[[1, 2], [3]], [[5], []]], (2, 2), [[[1.0, 2.0], [3.0]], [[5.0], []]]),
        ([z(2, dtype=torch.int64), z(1, dtype=torch.float64)], (2,), [[0.0, 0.0], [0.0]]),
        ([[np.ones(2)], [np.ones(1, "i8")]], (2, 1), [[[1.0, 1.0]], [[1.0]]]),
    ],
)
def test_numbers_become_elements(value, batch, expected):
    """With `autocast`, lists and arrays become one tensor for each element of the batch."""

    def told(part: Any) -> Any:
        assert not isinstance(part, Tensor) or part.dtype is torch.float32
        return part.tolist() if isinstance(part, Tensor) else [told(inner) for inner in part]

    found, size = checked(FLOATS, value, batch, CAST)
    assert (told(found), size) == (expected, batch)


def test_nested_tensors_are_ragged_values():
    """Their elements are checked one by one, and say the batch size."""
    assert checked(ROWS, nested_tensor(2, 3))[1] == (2,)
    problem = only(misfits(schema_for(x=FLOATS), {"x": nested_tensor(2, 3)}))
    assert (problem.path, problem.given) == ("x[0]", "float32 [2, 2]")


def test_ragged_values_without_validation():
    """The batch shape is checked, the elements are not."""
    off = Options(validate="off")
    wrong = [z(3).long(), z(2, 5)]
    assert checked(Annotated[FLOATS, Ge(1)], wrong, options=off) == (wrong, (2,))
    assert only(misfits(schema_for(x=FLOATS), {"x": wrong}, batch_size=[3], options=off)).given == "2 entries"


def test_ragged_and_dense_fields_that_disagree():
    """Entries that are valid by themselves: a size of `d` differs, and a length is not that of the dense field."""
    own = schema_for(x=ROWS, y=Float32[Tensor, "d t"], s=Shared[Float32[Tensor, "d"]])
    words = RaggedTensor([z(1, 2), z(2, 2)])
    assert dims_problems(own, {"x": words[:1], "y": z(1, 3, 1), "s": z(3)}, [1]) == []
    assert [p.path for p in dims_problems(own, {"x": words, "y": z(2, 3, 1), "s": z(3)}, [2])] == ["x[1]"]
    assert [p.path for p in dims_problems(own, {"x": words, "y": z(2, 3, 1), "s": z(4)}, [2])] == ["s", "x[1]"]
    other = RaggedTensor([z(1, 3), z(1, 3)])
    assert [p.path for p in dims_problems(own, {"x": other, "y": z(2, 3, 1)}, [2])] == ["x"]


# ---- containers and validators -----------------------------------------------------------------------------------


def test_who_says_the_batch_size_of_a_container():
    """A mapping for a nested class by its own fields, a typed instance in any kind of field."""
    assert infer_batch_size(schema_for(x=Point), {"x": {"y": z(4)}}) == (
        (4,),
        " (inferred from `x`; give `batch_size=` if `x` has more batch dims)",
    )
    assert infer_batch_size(schema_for(x=Point), {"x": {}}) == ((), " (no field says another)")
    assert infer_batch_size(schema_for(x=Point), {"x": {"other": z(4)}})[0] == ()
    assert infer_batch_size(schema_for(x=TensorDict), {"x": Point(y=z(4))})[0] == (4,)
    assert infer_batch_size(schema_for(x=Any), {"x": Point(y=z(4))})[0] == ()


def test_a_container_becomes_the_declared_class():
    """With `autocast`; it keeps its own batch size and the names of its dims."""
    value = TensorDict(y=z(2, 3), batch_size=[2, 3], names=["a", "b"])
    found = checked(Point, value, [2], CAST)[0]
    assert (type(found), found.batch_size, found.names) == (Point, (2, 3), ["a", "b"])
    assert checked(Point, {"y": z(2)}, [2], CAST)[0].batch_size == (2,)


def test_when_validators_run():
    """Those before a conversion see the value as given, once; those after see it converted, unless it is wrong."""
    seen: list[Any] = []

    class Noted(TensorClass):
        x: Int64[Tensor, ""]
        y: int = 0

        @field_validator("x", mode="before")
        def early(cls, value: Any) -> Any:
            seen.append(("before", type(value)))
            return value + 1

        @field_validator("x")
        def late(cls, value: Any) -> Any:
            seen.append(("after", type(value)))
            return value * 2

        @field_validator("y")
        def forgetful(cls, value: Any) -> Any:
            return None if value == 3 else value

    assert Noted(x=np.array([1, 2])).x.tolist() == [4, 6]
    assert seen == [("before", np.ndarray), ("after", Tensor)]
    with pytest.raises(SchemaError, match="convert with"):
        Noted(x=torch.ones(2))
    assert seen[2:] == [("before", Tensor)]
    value, fields = np.array([1, 2]), schema(Noted)
    assert check_fields(fields, {"x": value}, options=Options(validate="off"))[0]["x"].tolist() == [1, 2]
    assert len(seen) == 3
    with pytest.raises(SchemaError, match="the validator `forgetful` returned None: return the value"):
        Noted(x=torch.ones(2, dtype=torch.int64), y=3)


# ---- declarations ------------------------------------------------------------------------------------------------


def test_members_that_would_hide_an_inherited_field():
    """A constant, a property or a ClassVar with its name is refused."""
    for body, what in (
        ({"y": 3}, "a int in the class body"),
        ({"y": property(lambda self: 3)}, "a property in the class body"),
        ({"__annotations__": {"y": ClassVar[int]}}, "a ClassVar"),
    ):
        with pytest.raises(SchemaError) as caught:
            type("Child", (Point,), body)
        (problem,) = caught.value.problems
        hint = "it would hide the inherited field; take another name, or annotate it: `y: ... = ...`"
        assert problem == ("y", 'Float32[""], a field of a base', what, hint)


def test_one_problem_of_one_value():
    """A value that can't be converted is not checked any further."""
    with pytest.raises(SchemaError) as caught:
        check_field(schema_for(x=Int64[Tensor, ""]), "x", np.array([1.5]), batch_size=[1], others={})
    assert [problem.hint[:13] for problem in caught.value.problems] == ["converting it"]


def test_a_wrong_part_of_a_saved_schema():
    """The error names the wrong field, as for a class. Data of another kind is refused as a whole."""
    entries = schema_for(x=Float32[Tensor, "n"]).to_dict()
    entries["fields"][0]["dims"] = "n,m"
    with pytest.raises(SchemaError, match=r'^field `x`: dim 1 of "n,m" is `n,m`: write spaces'):
        Schema.from_dict(entries)
    with pytest.raises(SchemaError, match=r"^this dict is not a schema: KeyError: 'fields'; see Schema.to_dict\(\)$"):
        Schema.from_dict({"name": "x"})


def test_names_that_no_field_can_have():
    """They are told together, in a class body and in a saved schema."""
    found = refused(type("Wrong", (), {"__annotations__": {"class": Tensor, "a b": Tensor, "x": Tensor}}))
    assert [(problem.path, problem.hint) for problem in found] == [
        ("'class'", "`class` is a keyword of Python"),
        ("'a b'", "a name is made of letters, digits and `_`, and begins with no digit"),
    ]
    entries = schema_for(x=Tensor).to_dict()
    entries["fields"][0]["name"] = "a b"
    with pytest.raises(SchemaError, match="begins with no digit"):
        Schema.from_dict(entries)


def test_type_arguments_of_init_vars():
    """They are replaced as those of fields are."""
    made = substitute(schema_for(x=InitVar[list[T]], y=T), {T: int})
    assert [spec.annotation for spec in made.init_vars] == [list[int]]
    assert made["y"].annotation is int


def test_a_change_of_order_inside_a_nested_class():
    """It is told with both orders, and is compatible."""
    one = type("One", (TensorClass,), {"__annotations__": {"a": Tensor, "b": Tensor}})
    other = type("One", (TensorClass,), {"__annotations__": {"b": Tensor, "a": Tensor}})
    diff = schema_for(x=one).diff(schema_for(x=other))
    assert str(diff) == "Some -> Some\n~ x (order): a, b -> b, a"
    assert diff.effect == "compatible"
    assert schema(one).diff(schema(other)).reordered == ("b", "a")


def test_a_field_has_no_other_entries():
    """`replace` of a field knows its entries."""
    with pytest.raises(ArgumentError, match="a field has no entry 'nme'"):
        field_of(Tensor).replace(nme=3)
