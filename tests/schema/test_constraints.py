"""Constraints of annotated-types on tensors: what breaks them, in every dtype, with the first place and the count."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
import torch
from annotated_types import Ge, Gt, Interval, Le, Len, Lt, MaxLen, MinLen, MultipleOf
from pydantic import Field
from torch import Tensor

from tensorclass import Ragged, RaggedTensor, TensorClass, TensorDict, field, schema
from tensorclass._schema._constraints import broken_constraints
from tensorclass._schema._domain import _bound
from tensorclass.errors import SchemaError
from tensorclass.typing import Float32, Int64, Shaped, UInt64
from tests.schema._helpers import field_of, only, refused

NAN = float("nan")


def hints(mark: Any, value: Tensor, start: int = 0) -> list[str]:
    """What one constraint says against a tensor."""
    return list(broken_constraints((mark,), value, start))


@pytest.mark.parametrize(
    ("mark", "right", "wrong", "text"),
    [
        (Ge(0), [0.0, 1.0], [0.0, -1.0], ">= 0; not so: 1 of 2 elements, first -1.0 at [1]"),
        (Gt(0), [0.5, 1.0], [0.0, 1.0], "> 0; not so: 1 of 2 elements, first 0.0 at [0]"),
        (Le(1), [0.0, 1.0], [2.0, 3.0], "<= 1; not so: 2 of 2 elements, first 2.0 at [0]"),
        (Lt(1), [0.0, 0.5], [0.0, 1.0], "< 1; not so: 1 of 2 elements, first 1.0 at [1]"),
        (MultipleOf(0.1), [0.3, 1e6], [0.3, 0.35], "a multiple of 0.1; not so: 1 of 2 elements, first 0.34"),
        (MultipleOf(3), [0.0, -9.0], [3.0, 4.0], "a multiple of 3; not so: 1 of 2 elements, first 4.0 at [1]"),
        (Ge(float("-inf")), [float("-inf")], [NAN], "first nan at [0]"),
        (Le(float("inf")), [float("inf")], [NAN], "first nan at [0]"),
        (MultipleOf(1), [2.0], [NAN], "first nan at [0]"),
        (MultipleOf(1), [2.0], [float("inf")], "first inf at [0]"),
    ],
)
def test_elements(mark, right, wrong, text):
    """A right tensor says nothing; a wrong one its first wrong element and how many there are; nan is always wrong."""
    assert hints(mark, torch.tensor(right)) == []
    (found,) = hints(mark, torch.tensor(wrong))
    assert text in found


def test_multiples_of_large_numbers():
    """Integers are divided exactly, by whole steps."""
    value = torch.tensor([2**60, 2**60 + 1, 2**60 + 2])
    assert hints(MultipleOf(2), value)[0].endswith(f"1 of 3 elements, first {2**60 + 1} at [1]")
    assert hints(MultipleOf(1), value) == hints(MultipleOf(0.5), value) == []


def test_groups_are_taken_apart():
    """`Interval`, `Len` and pydantic's `Field` are several constraints."""
    value = torch.tensor([[5.0, -5.0]])
    assert len(hints(Interval(ge=0, lt=5), value)) == 2
    assert len(hints(Field(ge=0, le=1), value)) == 2
    assert hints(Len(3, 4), value, 1) == ["the first event dim has at least 3 entries, here 2"]


DTYPES = [
    torch.float8_e4m3fn, torch.bfloat16, torch.float16, torch.float64, torch.int8, torch.int64, torch.uint8,
    torch.uint16, torch.uint32, torch.uint64,
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dtypes(dtype):
    """Dtypes without comparisons in torch are compared all the same."""
    value = torch.tensor([2, 4, 3]).to(dtype)
    assert hints(Ge(2), value) == []
    assert hints(Lt(4), value)[0].endswith(f"first {value[1].item()} at [1]")
    assert hints(MultipleOf(2), value)[0].endswith(f"first {value[2].item()} at [2]")
    assert hints(MultipleOf(1), value) == []


@pytest.mark.parametrize("value", [torch.ones(2, dtype=torch.complex64), torch.ones(2, dtype=torch.bool)])
def test_values_without_an_order(value):
    """Where any dtype is declared, a value may turn out to have no order."""
    assert "needs numbers with an order" in hints(Ge(0), value)[0]


@pytest.mark.parametrize("mark", [Ge(0), MultipleOf(2), MinLen(0)])
def test_empty_and_meta_tensors(mark):
    """No elements, or none that can be looked at: nothing is wrong."""
    assert hints(mark, torch.zeros(0, 3), 1) == []
    assert hints(mark, torch.full((2,), -1.0, device="meta"), 0) == []


def test_lengths():
    """A length is the size of the first event dim."""
    value = torch.zeros(5, 2)
    assert hints(MaxLen(2), value, 1) == []
    assert hints(MaxLen(1), value, 1) == ["the first event dim has at most 1 entries, here 2"]
    assert hints(MinLen(3), value, 1) == ["the first event dim has at least 3 entries, here 2"]
    assert hints(MinLen(1), value, 2) == ["the first event dim has at least 1 entries; every element is a scalar"]


@pytest.mark.parametrize("size", [0, 2, 3, 4])
@pytest.mark.parametrize("mark", [MinLen, MaxLen])
@pytest.mark.parametrize("dims", ["3", "3 n", "n 3", "_", "... 3"])
def test_lengths_of_declared_dims(dims, mark, size):
    """A length is refused if the first dim is a number outside of it; other dims are checked with the values."""
    kind = Annotated[Float32[Tensor, dims], mark(size)]
    fits = dims[0] != "3" or (size <= 3 if mark is MinLen else size >= 3)
    if fits:
        assert field_of(kind).metadata == (mark(size),)
    else:
        problem = only(refused(type("Wrong", (), {"__annotations__": {"x": kind}})))
        assert problem.given == f'{mark(size)} on the shape "{dims}"'
        assert problem.hint == "its first event dim is always 3"


class Checked(TensorClass, validate="values"):
    """Constraints on every kind of field that can have them."""

    x: Annotated[Float32[Tensor, "n"], Interval(ge=0, le=1), Len(2, 3)]
    count: Annotated[UInt64[Tensor, ""], Le(2**40)] | None = None
    words: Annotated[Ragged[Tensor, "t"], MinLen(1), Ge(0)] | None = None
    loose: Annotated[Shaped[Tensor, "..."], Gt(0)] | None = None
    step: Annotated[int, Ge(1)] = 1


def wrong(call: Any) -> list[str]:
    """The paths of the problems of a call."""
    with pytest.raises(SchemaError) as caught:
        call()
    return [problem.path for problem in caught.value.problems]


def test_every_door_is_guarded():
    """Constructor, setter, `set`, `update`, `replace`, `from_dict`, `from_tensordict`, `from_json`."""
    bad, good = torch.full((2, 2), 2.0), torch.ones(2, 2)
    batch = Checked(x=good)
    doors = [
        lambda: Checked(x=bad),
        lambda: setattr(batch, "x", bad),
        lambda: batch.set("x", bad),
        lambda: batch.update({"x": bad}),
        lambda: batch.replace(x=bad),
        lambda: Checked.from_dict({"x": bad}),
        lambda: Checked.from_tensordict(TensorDict(x=bad, batch_size=[2])),
        lambda: Checked.from_json('{"x": [[2, 2], [2, 2]]}'),
    ]
    for door in doors:
        assert wrong(door) == ["x"]
    assert torch.equal(batch.x, good)
    batch.x = good * 0.5
    assert torch.equal(batch.x, good * 0.5)


def test_all_problems_together():
    """Every field and every constraint is told in one error."""
    found = wrong(
        lambda: Checked(
            x=torch.tensor([[2.0, NAN, 0.0, 0.0]]), words=[torch.zeros(0)], loose=torch.tensor([True]), step=0
        )
    )
    assert found == ["x", "x", "x", "words[0]", "loose", "step"]


def test_without_the_option_tensors_are_not_looked_into():
    """`validate="schema"` checks dtype and shape of tensors; Python values are checked in full."""

    class Plain(TensorClass):
        x: Annotated[Float32[Tensor, ""], Ge(0)]
        step: Annotated[int, Ge(1)] = 1

    assert Plain(x=-torch.ones(2)).batch_size == (2,)
    assert wrong(lambda: Plain(x=torch.ones(2), step=0)) == ["step"]


def test_constraints_are_inherited():
    """A child has the constraints of its parent, and may add some."""

    class Child(Checked, validate="values"):
        y: Annotated[Int64[Tensor, ""], Lt(3)] = field(kw_only=True)

    good = torch.ones(2, 2)
    assert wrong(lambda: Child(x=good * 2, y=torch.tensor([1, 3]))) == ["x", "y"]
    assert Child(x=good, y=torch.tensor([1, 2])).batch_size == (2,)


def test_bounds_are_in_the_json_schema():
    """JSON Schema has words for them."""
    entry = schema(Checked).json_schema()["properties"]["x"]
    assert (entry["minimum"], entry["maximum"]) == (0, 1)


def test_lengths_of_ragged_values():
    """A `RaggedTensor` that is passed on is checked element by element, as lists are; its table may hold other rows."""

    class Words(TensorClass, validate="values"):
        words: Annotated[Ragged[Tensor, "t"], MinLen(2), Ge(0)]

    table = RaggedTensor([torch.tensor([-1.0, 0.0]), torch.ones(3)])
    assert Words(words=table[1:]).words[0].item().equal(torch.ones(3))
    assert Words(words=RaggedTensor.of([], [0], torch.empty(0)), batch_size=0).batch_size == (0,)
    with pytest.raises(SchemaError, match=r"words\[1\]"):
        Words(words=RaggedTensor([torch.ones(3), torch.ones(1)]))


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.float32, torch.float16])
@pytest.mark.parametrize(
    ("mark", "outermost"), [(Ge(3), 3), (Gt(3), 4), (Le(9), 9), (Lt(9), 8), (Gt(3.5), 4), (Lt(8.5), 8)]
)
def test_outermost_numbers_meet_their_bound(dtype, mark, outermost):
    """What examples are drawn between: the first number inside of a strict bound, the bound itself else."""
    above, number = _bound(mark, dtype)
    assert above is isinstance(mark, Ge | Gt)
    inside = torch.tensor(number, dtype=dtype)
    assert list(broken_constraints([mark], inside, 0)) == []
    if not dtype.is_floating_point:
        assert number == outermost
        assert list(broken_constraints([mark], inside - 1 if above else inside + 1, 0)) != []
