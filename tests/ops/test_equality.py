"""Comparing containers: what `==` and its kin make of Python objects, and the truth of `a == b`."""

from __future__ import annotations

import dataclasses
import operator
from typing import Any

import numpy as np
import pytest
import tensordict
import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor

from tensorclass import (
    NonTensorData,
    NonTensorStack,
    PerElement,
    Ragged,
    RaggedTensor,
    Shared,
    TensorClass,
    TensorDict,
    assert_close,
    lazy_stack,
)
from tensorclass.core import VALUES
from tensorclass.errors import StructureError, UnsupportedOperationError
from tests.contract._kinds import mixed
from tests.contract._typed_kinds import ALL_KINDS

OPERATIONS = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "ge": operator.ge,
    "or": operator.or_, "xor": operator.xor, "and": operator.and_,
}  # fmt: skip


class Point:
    def __init__(self, x: Any) -> None:
        self.x = x

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("never compared")

    __hash__ = None  # type: ignore[assignment]


@dataclasses.dataclass
class Holder:
    batch: Any
    name: str = "x"


class Frame:
    """As a table of pandas: `==` gives no bool, and raises for other shapes."""

    def __init__(self, *values: int) -> None:
        self.values = list(values)

    def __eq__(self, other: Any) -> Any:
        if len(self.values) != len(other.values):
            raise ValueError("can only compare frames of one shape")
        return NoTruth()

    __hash__ = None  # type: ignore[assignment]

    def equals(self, other: Any) -> bool:
        return bool(self.values == other.values)


class NoTruth:
    def __bool__(self) -> bool:
        raise ValueError("ambiguous")


def _batch(value: float) -> TensorDict:
    return TensorDict(a=torch.full((2,), float(value)), batch_size=[2])


nan = float("nan")
VALUES_OF = {  # three makers' results: the first two hold the same
    "str": lambda i: f"s{i}",
    "int": lambda i: i + 7,
    "float": lambda i: nan if not i else 1.5,
    "none": lambda i: None if not i else "some",
    "dict": lambda i: {"k": [i, {"deep": torch.arange(3) + i}]},
    "tensor": lambda i: torch.tensor([1.0, nan, i]),
    "array": lambda i: np.array([1.0, nan, i]),
    "object array": lambda i: np.array([torch.zeros(2), f"s{i}"], dtype=object),
    "tensors": lambda i: [torch.zeros(2), torch.full((2,), float(i))],
    "container": _batch,
    "containers": lambda i: (_batch(0), _batch(i)),
    "model": lambda i: Holder(torch.full((3,), float(i))),
    "raises": lambda i: Point(torch.full((3,), float(i))),
    "frame": lambda i: Frame(1, i),
    "longer frame": lambda i: Frame(*[1] * (i + 1)),
    "set": lambda i: {1, i + 2},
    "class": lambda i: [int, str][i],
}


@pytest.mark.parametrize("kind", VALUES_OF)
def test_shared_objects_compare_by_content(kind: str):
    """Whatever the class of an object, `==` gives one bool for each element, and `!=` its opposite."""
    make = VALUES_OF[kind]
    one, same, other = [
        TensorDict({"a": torch.zeros(2), "n": {"s": NonTensorData(make(i))}}, batch_size=[2]) for i in (0, 0, 1)
    ]
    for right, expected in ((same, True), (other, False)):
        assert (one == right)["n", "s"].tolist() == [expected] * 2
        assert (one != right)["n", "s"].tolist() == [not expected] * 2
        assert bool(one == right) is expected
        assert bool(one != right) is not expected


@pytest.mark.parametrize("kind", [kind for kind in VALUES_OF if kind != "tensors"])  # nested lists are several dims
def test_objects_of_elements_compare_one_by_one(kind: str):
    """Each element has its own bool, against another stack of objects and against one object for all."""
    make = VALUES_OF[kind]
    mixed = TensorDict(s=NonTensorStack(make(0), make(1), make(0)), batch_size=[3])
    other = TensorDict(s=NonTensorStack(make(0), make(1), make(1)), batch_size=[3])
    one = TensorDict(s=NonTensorData(make(0)), batch_size=[3])
    assert (mixed == other)["s"].tolist() == [True, True, False]
    assert (mixed != other)["s"].tolist() == [False, False, True]
    assert (mixed == one)["s"].tolist() == (one == mixed)["s"].tolist() == [True, False, True]


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_a_comparison_is_bools_everywhere(kind: str):
    """Of every kind of container, the result has one bool for each element of each entry, objects included."""
    data = ALL_KINDS[kind](mixed())
    equal, unequal = data == data.clone(), data != data.clone()
    assert bool(equal)
    assert not bool(unequal)
    for result in (equal, unequal):
        assert type(result) is type(data)
        assert result.batch_size == data.batch_size
        assert result.names == data.names
        assert all(leaf.dtype is torch.bool for leaf in result._leaves(VALUES))
        assert not result.non_tensor_items(include_nested=True)


def both(library: Any, **entries: Any) -> Any:
    """A container of either library, of two elements."""
    made = {
        key: library.NonTensorStack(*value)
        if isinstance(value, list)
        else library.TensorDict(value, batch_size=[2])
        if isinstance(value, dict)
        else value
        for key, value in entries.items()
    }
    return library.TensorDict(made, batch_size=[2])


FLAGS = torch.tensor([True, False])
SIDES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "same": ({"a": FLAGS, "s": "x"}, {"a": FLAGS, "s": "x"}),
    "differ": ({"a": FLAGS, "s": "x"}, {"a": FLAGS, "s": "y"}),
    "none": ({"a": FLAGS, "s": None}, {"a": FLAGS, "s": None}),
    "left only": ({"a": FLAGS, "s": "x"}, {"a": FLAGS}),
    "right only": ({"a": FLAGS}, {"a": FLAGS, "s": "x"}),
    "tensor right only": ({"a": FLAGS, "s": "x"}, {"a": FLAGS, "s": "x", "b": FLAGS}),
    "elements": ({"a": FLAGS, "s": ["x", "y"]}, {"a": FLAGS, "s": ["x", "z"]}),
    "elements and one": ({"a": FLAGS, "s": ["x", "y"]}, {"a": FLAGS, "s": "x"}),
    "nested": ({"n": {"a": FLAGS, "s": "x"}}, {"n": {"a": FLAGS, "s": "y"}}),
    "nested left only": ({"n": {"a": FLAGS, "s": "x"}}, {"n": {"a": FLAGS}}),
}


@pytest.mark.parametrize("name", ["eq", "ne"])
@pytest.mark.parametrize("case", SIDES)
def test_comparisons_follow_the_anchor(name: str, case: str):
    """The anchor's bools, and an error where it refuses."""
    left, right = SIDES[case]
    try:
        expected = OPERATIONS[name](both(tensordict, **left), both(tensordict, **right))
    except KeyError:
        with pytest.raises(StructureError, match=r"only the (left|right) TensorDict has `(n\.)?[sb]`"):
            OPERATIONS[name](both(tensorclass_names, **left), both(tensorclass_names, **right))
        return
    found = OPERATIONS[name](both(tensorclass_names, **left), both(tensorclass_names, **right))
    assert set(found.keys(True, True)) == set(expected.keys(True, True))
    assert all(torch.equal(found[key], expected[key]) for key in expected.keys(True, True))


class tensorclass_names:  # stands for the module, as `tensordict` does
    TensorDict = TensorDict
    NonTensorStack = NonTensorStack


@pytest.mark.parametrize("name", ["lt", "ge"])
def test_objects_have_no_order(name: str):
    """`<` and its kin keep the objects of the left, and refuse those that only one side has."""
    for case, (left, right) in SIDES.items():
        run = [both(tensorclass_names, **side) for side in (left, right)]
        if "only" in case:
            with pytest.raises(StructureError, match="both containers have the same entries"):
                OPERATIONS[name](*run)
        else:
            key = ("n", "s") if case == "nested" else "s"
            assert OPERATIONS[name](*run)[key] == run[0][key]


@pytest.mark.parametrize("name", ["or", "xor", "and"])
def test_bitwise_operations_keep_objects_that_agree(name: str):
    """The anchor raises for `|` and `^` of strings and keeps the left ones for `&`; here they have to agree."""
    for case, (left, right) in SIDES.items():
        run = [both(tensorclass_names, **side) for side in (left, right)]
        if case in ("same", "none"):
            assert OPERATIONS[name](*run)["s"] == left["s"]
        else:
            with pytest.raises(StructureError, match=r"differ: 'x' on the left|differ: NonT|same entries"):
                OPERATIONS[name](*run)


def test_a_default_stands_for_objects_of_one_side():
    """With a default, nothing that only one side has is refused."""
    left, right = TensorDict(a=FLAGS, s="x", batch_size=[2]), TensorDict(a=FLAGS, b=FLAGS, batch_size=[2])
    assert left.bitwise_or(right, default=False)["s"] == "x"
    assert set(left.bitwise_or(right, default="intersection").keys()) == {"a", "s"}


SIZES = [([2], [2, 3]), ([3], [2, 3]), ([1, 3], [2, 3]), ([1, 3], [2, 1]), ([], [2]), ([2], []), ([2, 3], [2]),
         ([2, 2], [2]), ([1], [2]), ([2], [3])]  # fmt: skip


@pytest.mark.parametrize("name", ["eq", "ne", "lt", "or", "xor"])
@pytest.mark.parametrize(("left", "right"), SIZES)
def test_batch_sizes_broadcast_as_those_of_the_anchor(name: str, left: list[int], right: list[int]):
    """Two batch sizes broadcast as shapes do, and event dims never take part."""

    def made(library: Any) -> list[Any]:
        return [
            library.TensorDict({"a": torch.arange(torch.Size([*size, 4]).numel()).reshape([*size, 4])}, size)
            for size in (left, right)
        ]

    try:
        expected = OPERATIONS[name](*made(tensordict))
    except RuntimeError:
        with pytest.raises(StructureError, match="does not broadcast"):
            OPERATIONS[name](*made(tensorclass_names))
        return
    found = OPERATIONS[name](*made(tensorclass_names))
    assert found.batch_size == expected.batch_size
    assert torch.equal(found["a"], expected["a"])


def test_objects_of_elements_broadcast_with_the_batch():
    """Objects of elements are compared where the broadcast puts them, in dense and in lazy containers."""
    wide = TensorDict(s=NonTensorStack.from_list([["a", "b"], ["a", "c"]]), batch_size=[2, 2])
    row = TensorDict(s=NonTensorStack("a", "b"), batch_size=[2])
    lazy = lazy_stack([TensorDict(s=NonTensorStack("a", "b"), batch_size=[2])] * 2)
    assert (wide == row)["s"].tolist() == (row == wide)["s"].tolist() == [[True, True], [True, False]]
    assert (wide == lazy)["s"].tolist() == (lazy == wide)["s"].tolist() == [[True, True], [True, False]]
    assert (lazy == row)["s"].tolist() == [[True, True], [True, True]]


class Inner(TensorClass):
    c: Tensor
    tag: str = "t"


class Sample(TensorClass):
    a: Tensor
    inner: Inner
    boxes: Ragged[Tensor, "n 2"]
    table: Shared[Tensor]
    people: PerElement[str]
    note: str = "x"
    maybe: str | None = None
    extra: Tensor | None = None


def _sample(**changes: Any) -> Sample:
    fields = {"a": torch.arange(2.0), "inner": Inner(c=torch.zeros(2), batch_size=[2]), "table": torch.ones(5),
              "boxes": [torch.zeros(1, 2), torch.zeros(3, 2)], "people": ["p", "q"], "batch_size": [2]}  # fmt: skip
    return Sample(**{**fields, **changes})


CHANGES: dict[str, tuple[dict[str, Any], Any]] = {
    "note": ({"note": "y"}, [False, False]),
    "people": ({"people": ["p", "z"]}, [True, False]),
    "a": ({"a": torch.tensor([0.0, 5.0])}, [True, False]),
}


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("field", CHANGES)
def test_every_field_of_a_class_is_compared(field: str, lazy: bool):
    """Of a class with every kind of field, dense or over a lazy stack, a comparison sees what differs."""
    changes, expected = CHANGES[field]
    one, other = _sample(), _sample(**changes)
    if lazy:
        one, other = lazy_stack([one, one]), lazy_stack([one, other])
        expected = [[True, True], expected]
    result: Any = one == other
    assert type(result) is Sample
    assert result.get(field).tolist() == expected
    assert not bool(result)
    assert bool(one != other)
    assert bool(one == one.clone())
    inner = one.clone()
    inner.inner.tag = "other"
    assert not (one == inner).inner.get("tag").any()
    assert (one == inner).get("note").all()


def test_a_field_that_only_one_side_has_is_named():
    """An optional field that one side lacks is an error, as in the anchor, whether a tensor or an object."""
    with pytest.raises(StructureError, match="only the right Sample has `extra`"):
        _sample() == _sample(extra=torch.zeros(2))  # noqa: B015  # the comparison itself raises
    with pytest.raises(StructureError, match="only the left Sample has `maybe`"):
        _sample(maybe="y") == _sample()  # noqa: B015


# ---- truth -----------------------------------------------------------------------------------------------------------


class Job(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    batch: Sample
    store: TensorDict
    name: str = "x"


def test_holders_of_containers_compare():
    """Models, dataclasses, tuples, dicts and lists of containers are compared and searched as those of numbers."""
    store = TensorDict(a=torch.zeros(2), s="x", batch_size=[2])
    job = Job(batch=_sample(), store=store)
    assert job == Job(batch=_sample(), store=store.clone())
    assert job != Job(batch=_sample(note="y"), store=store)
    assert job != Job(batch=_sample(), store=TensorDict(a=torch.zeros(2), s="y", batch_size=[2]))
    assert Holder(_sample()) == Holder(_sample())
    assert Holder(_sample()) != Holder(_sample(people=["p", "z"]))
    batches = [1, None, "x", _sample(note="y"), _sample()]
    assert _sample() in batches
    assert batches.index(_sample()) == 4
    assert _sample(note="z") not in batches
    assert {"k": _sample()} == {"k": _sample()}
    assert (1, _sample()) != (1, _sample(note="y"))


def test_only_a_test_of_equality_has_a_truth_value():
    """Any other container is as ambiguous as before, whatever it holds, and so is what is made of a comparison."""
    data = TensorDict(a=torch.ones(2), batch_size=[2])
    wide = TensorDict(a=torch.ones(3, 2), batch_size=[3, 2])
    equal = data == data.clone()
    for ambiguous in (
        data,
        data > 0,
        data.bool(),
        equal.clone(),
        equal & equal,
        ~equal,
        equal[0],
        data == torch.ones(2),
        data == wide,
    ):
        with pytest.raises(UnsupportedOperationError, match="truth value of a TensorDict is ambiguous"):
            bool(ambiguous)
    assert bool(data == 1)
    assert not bool(data == 2)
    assert bool(data != 2)


# ---- one value for several -------------------------------------------------------------------------------------------


class Held(TensorClass):
    a: Tensor
    meta: dict  # type: ignore[type-arg]  # of anything


@pytest.mark.parametrize("kind", VALUES_OF)
@pytest.mark.parametrize("join", ["stack", "cat", "lazy"])
def test_joins_compare_shared_objects_by_content(kind: str, join: str):
    """Values that hold the same become one; those that differ are refused with the name of the field."""
    make = VALUES_OF[kind]
    one, same, other = [Held(a=torch.zeros(2), meta={"k": (make(i),)}, batch_size=[2]) for i in (0, 0, 1)]
    function: Any = {"stack": torch.stack, "cat": torch.cat, "lazy": lazy_stack}[join]
    assert function([one, same]).meta is one.meta
    with pytest.raises(StructureError, match=r"field `meta` is one value shared by the batch, and the values differ"):
        function([one, other]).meta  # a lazy stack joins when it is read


@pytest.mark.parametrize("kind", VALUES_OF)
def test_untyped_joins_and_choices_compare_by_content(kind: str):
    """Equal values stay one in `cat` and `where`; others become one for each element."""
    make = VALUES_OF[kind]
    one, same, other = [TensorDict(a=torch.zeros(2), s=NonTensorData(make(i)), batch_size=[2]) for i in (0, 0, 1)]
    assert isinstance(torch.cat([one, same]).get("s"), NonTensorData)
    assert isinstance(torch.cat([one, other]).get("s"), NonTensorStack)
    assert isinstance(one.where(FLAGS, same).get("s"), NonTensorData)
    assert isinstance(one.where(FLAGS, other).get("s"), NonTensorStack)


def test_a_ragged_field_is_compared_by_value():
    """Rows that differ in a value differ; other lengths are refused, as for any operation."""
    one = TensorDict(r=RaggedTensor([torch.zeros(1), torch.zeros(2)]), s="x", batch_size=[2])
    other = one.clone()
    other.get("r").values[2] = 1.0
    assert bool(one == one.clone())
    assert not bool(one == other)


@pytest.mark.parametrize("kind", VALUES_OF)
def test_assert_close_sees_objects(kind: str):
    """Objects are compared by content, shared and of elements; the anchor passes whatever they are."""
    make = VALUES_OF[kind]
    one, same, other = [TensorDict({"n": {"s": NonTensorData((make(i),))}}, batch_size=[2]) for i in (0, 0, 1)]
    assert assert_close(one, same)
    with pytest.raises(AssertionError, match=r"`n.s` does not match"):
        assert_close(one, other)


def test_assert_close_sees_ragged_entries():
    """Lengths and values of ragged entries are compared, values with the tolerance."""
    one, close, longer = [
        TensorDict(r=RaggedTensor([torch.full((1,), value), torch.zeros(count)]), batch_size=[2])
        for value, count in ((0.0, 2), (0.01, 2), (0.0, 3))
    ]
    assert assert_close(one, close, atol=0.1, rtol=0)
    for wrong in (close, longer):
        with pytest.raises(AssertionError, match="`r` does not match"):
            assert_close(one, wrong)
