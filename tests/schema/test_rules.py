"""Rules of the schema that rarely meet: bounds of drawn sizes, limits at the ends of dtypes, names, types and texts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import InitVar
from typing import Annotated, Any, Generic, Literal, Protocol, TypeVar

import numpy as np
import pytest
import torch
from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen, MultipleOf
from torch import Tensor

from tensorclass import Ragged, RaggedTensor, TensorClass, TensorDict, field, schema
from tensorclass._schema import build_schema, infer_batch_size, parse_dims
from tensorclass._schema._annotations import missing_members
from tensorclass._schema._check import describe
from tensorclass._schema._constraints import broken_constraints
from tensorclass._schema._domain import Sizes, dtypes_of, numbers
from tensorclass._schema._dtypes import Shape, family_of
from tensorclass._schema._json import decode, encode, encode_lists
from tensorclass._schema._resolve import substitute
from tensorclass._schema._spec import TypeName, encode_default, short, type_name
from tensorclass.errors import DimSyntaxError, SchemaError
from tensorclass.typing import Float, Float16, Float32, Int8, Int64, Num, UInt8

T = TypeVar("T")


class Ends:
    """Draws the least or the greatest number, and notes what it was asked."""

    def __init__(self, high: bool) -> None:
        self.high, self.asked = high, list[tuple[int, int]]()

    def integer(self, low: int, high: int) -> int:
        assert low <= high
        self.asked.append((low, high))
        return high if self.high else low


def sizes(cls: Any, high: bool, low: int = 2, most: int = 5, **fixed: int) -> Sizes:
    """The sizes of one instance."""
    return Sizes(schema(cls), Ends(high), low, most, fixed)


# ---- what instances can be ---------------------------------------------------------------------------------------


class Lengths(TensorClass):
    short: Annotated[Float32[Tensor, "s d"], MaxLen(1)]
    long: Annotated[Float32[Tensor, "n d"], MinLen(7)]
    between: Annotated[Float32[Tensor, "b"], MinLen(3), MaxLen(4)]
    loose: Annotated[Float32[Tensor, "_ _"], MaxLen(1)]
    flat: Annotated[Float32[Tensor, "*any"], MinLen(6)]
    again: Float32[Tensor, "*any"]
    some: Float32[Tensor, "..."]


@pytest.mark.parametrize("high", [False, True])
def test_drawn_sizes_keep_lengths(high):
    """A length wins over the wanted sizes, a name has one size, and named dims of any number stand for the same."""
    found, spec = sizes(Lengths, high), schema(Lengths)
    assert {n: found.sizes[n] for n in "snb"} == ({"s": 1, "n": 7, "b": 4} if high else {"s": 1, "n": 7, "b": 3})
    assert found.sizes["d"] == (5 if high else 2)
    assert sizes(Lengths, high, 0, 0).sizes == {"s": 0, "n": 7, "b": 3, "d": 0}
    assert found.event(spec["loose"].dims, spec["loose"]) == ((1, 5) if high else (1, 2))
    flat = found.event(spec["flat"].dims, spec["flat"])
    assert flat == ((6, 5) if high else (6,))  # one dim at least, which has the length
    assert found.event(spec["again"].dims, spec["again"]) == flat
    asked = len(found.draw.asked)  # type: ignore[attr-defined]
    assert found.event(spec["some"].dims, spec["some"]) == ((5, 5) if high else ())
    assert len(found.draw.asked) > asked  # type: ignore[attr-defined]


def test_sizes_of_expressions():
    """Names in expressions get sizes that fit all of them, the smallest first; given ones stay."""

    class Halves(TensorClass):
        a: Annotated[Float32[Tensor, "h//2"], MinLen(4)]
        b: Float32[Tensor, "h-6"]
        c: Float32[Tensor, "12//w"]

    for high in (False, True):
        found = sizes(Halves, high)
        assert found.sizes["h"] >= 8
        assert found.sizes["w"] > 0
    assert sizes(Halves, False, w=12).sizes == {"w": 12, "h": 8}
    assert [sizes(Halves, high, 1, 10).sizes for high in (False, True)] == [{"h": 8, "w": 1}, {"h": 10, "w": 10}]
    with pytest.raises(SchemaError, match=r"the given sizes don't fit"):
        sizes(Halves, False, h=5, w=1)
    with pytest.raises(SchemaError, match="give sizes that fit"):
        sizes(Halves, False, w=0)


def test_lengths_of_ragged_fields():
    """Ragged fields whose first dims have one name have the same lengths, within the limits of all of them."""

    class Words(TensorClass):
        words: Ragged[Tensor, "t d"]
        marks: Ragged[Tensor, "t"]
        free: Ragged[Tensor, "_"]
        table: Float32[Tensor, "d"]

    class Limited(TensorClass):
        free: Annotated[RaggedTensor, MinLen(6)]
        other: Annotated[Ragged[Tensor, "u"], MinLen(9)]
        words: Annotated[Ragged[Tensor, "t d"], MinLen(3)]
        marks: Annotated[Ragged[Tensor, "t"], MaxLen(4)]

    for high, lengths in (
        (False, {"words": [3, 3], "marks": [3, 3], "other": [9, 9], "free": [6, 6]}),
        (True, {"marks": [4, 4]}),
    ):
        drawn = sizes(Limited, high)
        assert {name: drawn.lengths_of(schema(Limited)[name], 2) for name in lengths} == lengths

    class Named(TensorClass):
        words: Ragged[Tensor, "d"]
        table: Float32[Tensor, "d"]

    assert sizes(Named, True, d=7).lengths_of(schema(Named)["words"], 2) == [7, 7]
    found, spec = sizes(Words, True), schema(Words)
    assert found.lengths_of(spec["words"], 3) is found.lengths_of(spec["marks"], 3)
    assert found.lengths_of(spec["free"], 2) == [5, 5]
    assert "" not in found.lengths
    assert "t" not in found.sizes


@pytest.mark.parametrize(
    ("kind", "marks", "low", "high"),
    [
        (UInt8, (Ge(3), Lt(7)), 3, 6),
        (UInt8, (Gt(3.5), Le(6.5)), 4, 6),
        (UInt8, (Ge(3), Le(3)), 3, 3),
        (Float32, (Ge(0.5), Le(0.5)), 0.5, 0.5),
        (UInt8, (Ge(-5), Le(300)), 0, 255),
        (Int8, (Gt(float("-inf")), Lt(float("inf"))), -128, 127),
        (Float32, (Ge(-1), Le(1)), -1.0, 1.0),
        (Float16, (Ge(float("-inf")),), -65504.0, None),
    ],
)
def test_limits(kind, marks, low, high):
    """The outermost numbers of a dtype that meet all bounds."""
    cls = type("Limits", (TensorClass,), {"__annotations__": {"x": Annotated[(kind[Tensor, ""], *marks)]}})
    found = numbers(schema(cls)["x"], schema(cls)["x"].spec.dtype.exact)
    assert (found.low, found.high, found.step) == (low, high, None)


@pytest.mark.parametrize("marks", [(Ge(300),), (Lt(0),), (Gt(255),), (Ge(9), Le(8)), (MultipleOf(7), Ge(1), Lt(7))])
def test_limits_that_nothing_meets(marks):
    """Bounds outside of the dtype, that cross, or between which no multiple lies."""
    spec = schema(Lengths)["long"].replace(metadata=marks)
    with pytest.raises(SchemaError, match=r"no torch.uint8 meets"):
        numbers(spec, torch.uint8)


def test_dtypes_that_are_drawn():
    """The usual dtype of a family first; with bounds only those that have an order and a number between them."""

    class Families(TensorClass):
        every: Num[Tensor, ""]
        small: Annotated[Num[Tensor, ""], Ge(200), Le(250)]

    assert torch.bool not in dtypes_of(schema(Families)["small"])
    assert all(spec.dtype.accepts(dtype) for spec in schema(Families) for dtype in dtypes_of(spec))
    assert dtypes_of(schema(Families)["every"])[0] == dtypes_of(schema(Families)["small"])[0]


def test_multiples_are_as_close_as_the_dtype_can_say():
    """A float is off by two units in the last place at most."""
    eps = torch.finfo(torch.float32).eps
    assert list(broken_constraints((MultipleOf(1),), torch.tensor([1 + 2 * eps]), 0)) == []
    assert len(list(broken_constraints((MultipleOf(1),), torch.tensor([1 + 3 * eps]), 0))) == 1


# ---- declarations ------------------------------------------------------------------------------------------------


def test_first_dims_of_ragged_fields_are_names_of_their_own():
    """The length is no size of another dim, no number and no expression."""

    class Fine(TensorClass):
        x: Ragged[Tensor, "t d"]
        y: Ragged[Tensor, "_ t"]
        z: Ragged[Tensor, "t"]

    assert schema(Fine)["x"].dims == parse_dims("t d")
    for text in ("t t", "3 d", "2*t", "...", "t 2*t"):
        with pytest.raises(SchemaError, match="give it a name of its own"):
            type("Wrong", (TensorClass,), {"__annotations__": {"x": Ragged[Tensor, text]}})


def test_inherited_dims_of_any_number():
    """A child may say what `*name` of its parent is, once for all fields that have the name."""

    class Parent(TensorClass):
        image: Float32[Tensor, "*size c"]
        mask: Float32[Tensor, "*size"]
        edge: Float32[Tensor, "c *size"]

    class Flat(Parent):
        image: Float32[Tensor, "h w 3"]

    assert [str(spec.dims) for spec in schema(Flat)] == ["h w 3", "h w", "3 h w"]

    class Other(Parent):
        image: Float32[Tensor, "*any 3"]

    assert [str(spec.dims) for spec in schema(Other)] == ["*any 3", "*any", "3 *any"]
    for text in ("... 3", "_ 3", "h _ 3"):  # an instance could have other sizes in each field
        with pytest.raises(SchemaError, match="is not within"):
            type("Loose", (Parent,), {"__annotations__": {"image": Float32[Tensor, text]}})
    for text in ("h w", "h w c"):
        cls = {"__annotations__": {"image": Float32[Tensor, "h w 3"], "mask": Float32[Tensor, text]}}
        if text == "h w":
            assert str(schema(type("Both", (Parent,), cls))["edge"].dims) == "3 h w"
        else:
            with pytest.raises(SchemaError, match="is not within"):
                type("Both", (Parent,), cls)
    with pytest.raises(SchemaError, match="is not within"):
        type("Short", (Parent,), {"__annotations__": {"image": Float32[Tensor, ""]}})


def test_padding_joins_sizes_that_may_differ():
    """`join="pad"` is for tensors with a name or any number among their dims, and its fill is one of the dtype."""
    for kind in (Float[Tensor, "t d"], Float[Tensor, "..."], Tensor, Float[Tensor, "_ 3"]):
        cls = type("Padded", (TensorClass,), {"__annotations__": {"x": kind}, "x": field(join="pad", fill=-1)})
        assert (schema(cls)["x"].join, schema(cls)["x"].fill) == ("pad", -1)
        assert schema(cls).to_dict()["fields"][0]["fill"] == {"value": -1}
    for kind, fill in ((Float[Tensor, "3 4"], 0), (Ragged[Tensor, "t"], 0), (Int64[Tensor, "t"], 0.5), (str, 0)):
        with pytest.raises(SchemaError, match=r"pad|fill|lengths"):
            type("Wrong", (TensorClass,), {"__annotations__": {"x": kind}, "x": field(join="pad", fill=fill)})
    assert "fill" not in schema(Lengths).to_dict()["fields"][0]


def test_substituted_fields_keep_what_they_say():
    """A class with type arguments keeps join policies, and takes the implied one of the new kind."""

    class Pair(TensorClass, Generic[T]):
        one: T
        two: Tensor | None = field(default=None, join="fill", fill=2)
        later: Later | None = None  # never defined

    made = substitute(Pair.__tensorclass_schema__, {T: Tensor})
    assert made.pending == ("later",)
    assert made.declared["one"].join == "stack"
    assert (made.declared["two"].join, made.declared["two"].fill) == ("fill", 2)


def test_defaults_that_fail_to_convert():
    """With `autocast` a mapping becomes the declared container; of one that can't there is one problem."""

    class Box(TensorClass, autocast=True):
        inner: TensorDict
        x: Float32[Tensor, ""]

    assert Box(inner={"a": torch.zeros(2)}, x=torch.zeros(2)).inner["a"].shape == (2,)
    with pytest.raises(SchemaError) as caught:
        Box(inner={"a": torch.zeros(3)}, x=torch.zeros(2))
    assert [problem.path for problem in caught.value.problems] == ["inner"]


# ---- texts and equality ------------------------------------------------------------------------------------------


def test_short_texts():
    """A text that is cut is as long as it may be."""
    assert len(short("x" * 100)) == 60
    assert short("x" * 100, 10) == "'xxxxxx..."
    assert short("x" * 8, 10) == "'xxxxxxxx'"


def test_what_is_equal_to_nothing_else():
    """Fields, shapes and schemas compare with their like."""
    spec = schema(Lengths)["short"]
    assert (spec == 3) is False
    assert spec.__eq__(3) is schema(Lengths).__eq__(3) is NotImplemented
    assert Shape("h w") == Shape("h  w") != Shape("h")
    assert (Shape("h") == "h") is False
    for item in ("h", (Tensor,), (Tensor, "h", "w")):
        with pytest.raises((TypeError, ValueError, DimSyntaxError)):
            Float32[item]


def test_defaults_by_name():
    """What JSON can't hold is named by its type, also when it was read before."""

    class Thing:
        pass

    written = encode_default(Thing())
    assert written["object"].endswith("Thing")
    cls = type("Holds", (TensorClass,), {"__annotations__": {"x": object}, "x": field(default=Thing())})
    read = type(schema(cls)).from_dict(schema(cls).to_dict())
    assert encode_default(read["x"].default)["object"].endswith("Thing")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.complex64, torch.bool, torch.uint16])
def test_tensors_of_any_stride_as_json(dtype):
    """Strided, differentiable and lazily conjugated tensors are written as they are read."""
    value = torch.arange(6).reshape(2, 3).to(dtype).T
    assert torch.equal(decode(encode(value), schema(Lengths)["some"].spec.dtype), value)
    if dtype.is_complex:
        value = (value + 1j * value).conj()
        assert torch.equal(decode(encode(value), schema(Lengths)["some"].spec.dtype), value)
    if dtype is torch.float32:
        special = torch.tensor([[float("nan"), 1.0], [float("inf"), -2.0]], requires_grad=True)
        assert encode_lists(special, None)["data"] == [["NaN", 1.0], ["Infinity", -2.0]]
        one = {"dtype": "float32", "shape": [True], "data": encode(torch.ones(1))["data"]}
        with pytest.raises(Exception, match="shape is a list"):
            decode(one, schema(Lengths)["some"].spec.dtype)


def test_literals_and_lists():
    """Booleans are no numbers in JSON, at any depth, and empty lists are of any dtype."""
    family = schema(Lengths)["short"].spec.dtype
    assert decode([], family).shape == (0,)
    assert decode([[]], family).dtype is torch.float32
    for wrong in ([True, False], [1.0, True], [[1, 2], [3, True]]):
        with pytest.raises(Exception, match="boolean"):
            decode(wrong, family)
    assert decode([[True], [False]], family, cast=True).tolist() == [[1.0], [0.0]]


def test_narrower_python_types():
    """A literal or a subclass is within its parent, arguments must be the same, and a union within a wider one."""

    class Parent(TensorClass):
        a: str
        b: int | str
        c: list[int]
        d: list[Any] | None = None

    type("Fine", (Parent,), {"__annotations__": {"a": Literal["x"], "b": int, "c": list[int]}})
    for name, kind in {"a": Literal[3], "b": float, "c": list[str]}.items():
        with pytest.raises(SchemaError, match="is wider"):
            type("Wrong", (Parent,), {"__annotations__": {name: kind}})


def test_families_of_several_dtypes_are_read_back():
    """A family without a name of its own is written by those of its dtypes."""
    several = family_of(torch.int32, torch.float16)
    cls = type("Several", (TensorClass,), {"__annotations__": {"x": Annotated[Tensor, several]}})
    assert str(schema(cls)["x"].dtype) == "Float16|Int32"
    assert type(schema(cls)).from_dict(schema(cls).to_dict()) == schema(cls)


def test_ranks_in_json_end():
    """A tensor in JSON has at most 64 dims, as numpy and torch have."""
    family = schema(Lengths)["some"].spec.dtype
    data = encode(torch.zeros(1))["data"]
    assert decode({"dtype": "float32", "shape": [1] * 64, "data": data}, family).ndim == 64
    with pytest.raises(Exception, match="at most 64 numbers"):
        decode({"dtype": "float32", "shape": [1] * 65, "data": data}, family)


def test_members_of_interfaces():
    """A member counts where the class has it and where only the instance has it; what is lacking is told by name."""

    class Made(Protocol):
        size: int

        def run(self) -> None: ...

    class Own:
        def __init__(self) -> None:
            self.size = 3

        def run(self) -> None:
            pass

    assert missing_members(Own(), Made) == []
    assert missing_members(3, Made) == ["run", "size"]


def test_values_in_messages():
    """A value is told by its kind: nothing, a tensor, a batch, or a type and what it looks like."""
    batch = TensorDict(a=torch.zeros(2), batch_size=[2])
    told = [describe(value) for value in (None, torch.zeros(2, 3), batch, 3)]
    assert told == ["None", "tensor float32 [2, 3]", "TensorDict of batch size [2]", "int 3"]


def test_scalars_say_an_empty_batch():
    """The first field with a declared rank says the batch size, also that there are no batch dims."""

    class Points(TensorClass):
        x: Float32[Tensor, "3"]
        z: Float32[Tensor, "3"]

    found = infer_batch_size(schema(Points), {"x": torch.zeros(3), "z": torch.zeros(2, 3)})
    assert found == (torch.Size(), " (inferred from `x`)")


def test_ragged_fields_of_any_shape():
    """A ragged field may say nothing about its elements, takes arrays, and shares its lengths by name."""

    class Words(TensorClass):
        free: RaggedTensor
        words: Ragged[Tensor, "t"]
        marks: Ragged[Tensor, "t"]

    spec = schema(Words)["free"].spec
    assert spec is not None
    assert spec.dims is None
    rows = [np.ones(2, "f4"), np.ones(1, "f4")]
    meta = Words(free=rows, words=rows, marks=rows).to("meta")
    assert Words(free=meta.free, words=meta.words, marks=meta.marks).batch_size == (2,)  # unknown lengths pass
    assert Words(free=rows, words=rows, marks=rows).words.lengths.tolist() == [2, 1]
    packed = RaggedTensor([torch.ones(1), torch.ones(2)])
    with pytest.raises(SchemaError, match="`t` is 2 in element"):
        Words(free=rows, words=RaggedTensor([torch.ones(2), torch.ones(1)]), marks=packed)


# ---- declarations ------------------------------------------------------------------------------------------------


def test_strings_inside_init_vars():
    """The type of an `InitVar` is evaluated as any other, also when it is a string or defined later."""
    own = type("Some", (), {"__annotations__": {"x": InitVar["int"], "y": InitVar["list[Undefined]"]}})
    declared = build_schema(own).declared
    assert (declared["x"].kind, declared["x"].annotation) == ("init_var", int)
    assert declared["y"].kind == "pending"


class Pair(TensorClass, Generic[T]):
    one: T
    two: T | None = None


class Pairs(TensorClass, Generic[T]):
    pair: Pair[T]
    other: Pair[T] | None = None


def test_arguments_reach_nested_classes():
    """The arguments of a class reach the generic classes that it holds."""
    own = schema(Pairs[Lengths])
    assert [spec.nested for spec in own] == [Pair[Lengths], Pair[Lengths]]
    assert own["pair"].nested_schema["one"].nested is Lengths


class Tree(TensorClass, Generic[T]):
    value: T
    child: Tree[T] | None = None
    forest: Forest[T] | None = None


class Forest(TensorClass, Generic[T]):
    first: Tree[T]


@pytest.mark.parametrize("argument", [Float32[Tensor, "n"], Lengths, str], ids=["tensor", "class", "value"])
def test_arguments_of_recursive_classes(argument):
    """A generic class that holds itself, directly or through another, is the same class with the same arguments."""
    own = schema(Tree[argument])
    assert own["child"].nested is Tree[argument]
    assert schema(Forest[argument])["first"].nested is Tree[argument]
    assert own["forest"].nested_schema["first"].nested is Tree[argument]
    assert own["child"].nested_schema["value"].kind == own["value"].kind != "any"


def test_an_instance_of_a_recursive_generic_class():
    """It is checked on every level."""
    leaf = Tree[Float32[Tensor, "n"]](value=torch.zeros(2, 3))
    whole = type(leaf)(value=torch.ones(2, 4), child=leaf, forest=Forest[Float32[Tensor, "n"]](first=leaf))
    assert whole[0].forest.first.value.shape == (3,)
    with pytest.raises(SchemaError, match="convert with"):
        type(leaf)(value=torch.zeros(2, 3, dtype=torch.int64))
    with pytest.raises(SchemaError, match="pass a"):
        type(leaf)(value=torch.zeros(2, 3), child=Tree[str](value="a", batch_size=[2]))


def test_other_arguments_of_the_class_itself():
    """In its own body a generic class is known without its arguments only."""

    class Own(Generic[T]):
        value: T
        child: Own[int] | None = None

    assert build_schema(Own)["child"].nested is Own


def test_slots_are_no_defaults():
    """The descriptor of a slot is not the default of the field with its name."""

    class Slotted:
        __slots__ = ("x",)
        x: Tensor

    assert build_schema(Slotted).fields["x"].required


def test_texts_of_types():
    """A type is told as it is written; in full with the modules of classes that are not builtin."""
    texts = {
        "Later": "Later", "Float32": Float32, "int | None": int | None, "list[int]": list[int], "Any": Any,
        "Callable[[int, str], None]": Callable[[int, str], None], "tuple[int, ...]": tuple[int, ...],
        "Literal['a', 3]": Literal["a", 3], "Annotated[int, Ge(ge=0)]": Annotated[int, Ge(0)], "Lengths": Lengths,
        "dict[str, Lengths]": dict[str, Lengths], "T": T, "list": list,
    }  # fmt: skip
    assert [type_name(kind) for kind in texts.values()] == list(texts)
    assert type_name(dict[str, Lengths], full=True) == f"dict[str, {__name__}.Lengths]"
    assert type_name(TypeName("some.module.Lengths")) == "Lengths"
    assert type_name(TypeName("some.module.Lengths"), full=True) == "some.module.Lengths"
    assert type_name(TypeName("list[some.Lengths]")) == "list[some.Lengths]"


def test_a_class_of_no_module():
    """A class whose module is not imported gets the same error for a name that is not defined."""
    own = type("Some", (), {"__annotations__": {"x": "Undefined"}, "__module__": "nowhere"})
    with pytest.raises(SchemaError, match="define or import `Undefined` in `nowhere`; an import under TYPE_CHECKING"):
        build_schema(own).resolve()


def test_the_json_schema_of_a_ragged_field():
    """Lists, or an object with the lengths and the values of all elements."""

    class Words(TensorClass):
        words: Ragged[Tensor, "t 2"]

    assert schema(Words).json_schema()["properties"]["words"] == {
        "anyOf": [
            {"type": ["array", "number", "string"]},
            {
                "type": "object",
                "properties": {"lengths": {"type": ["array", "integer"]}, "values": {"type": "object"}},
                "required": ["lengths", "values"],
                "additionalProperties": False,
            },
        ],
        "dtype": "Shaped",
        "dims": "t 2",
        "shape": ["t", 2],
    }
