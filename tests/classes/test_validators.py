"""Checks of the user's own: of fields and of instances, wherever values come in; conversion policies of fields."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from tensorclass import (
    FrozenTensorClass,
    PerElement,
    TensorClass,
    TensorDict,
    class_validator,
    field,
    field_validator,
    lazy_stack,
    schema,
    tensorclass,
)
from tensorclass.errors import SchemaError
from tensorclass.typing import Float32, Int64


@tensorclass
class Span:
    """Weights that sum to one, words in lower case, an end after the start."""

    start: Float32[Tensor, ""]
    end: Float32[Tensor, ""]
    weights: Float32[Tensor, "n"] | None = None
    word: PerElement[str] = "a"
    unit: str = "s"

    @field_validator("start", "end")
    @classmethod
    def finite(cls, value: Tensor) -> Tensor:
        """Numbers only."""
        assert issubclass(cls, Span)
        if not bool(value.isfinite().all()):
            raise ValueError("times are finite")
        return value

    @field_validator("weights")
    def normalised(cls, value: Tensor) -> Tensor:
        """Another value may be returned."""
        return value / value.sum(-1, keepdim=True)

    @field_validator("unit", mode="before")
    @staticmethod
    def lower(value: str) -> str:
        """A static method takes the value alone."""
        return value.lower()

    @class_validator
    def forward_in_time(self) -> None:
        """Two fields that must agree."""
        if bool((self.end < self.start).any()):
            raise ValueError("a span ends before it starts")


def paths(call: Any) -> list[tuple[str, str]]:
    """Paths and hints of the problems of a call."""
    with pytest.raises(SchemaError) as caught:
        call()
    assert caught.value.cls_name in ("Span", "Child")
    return [(problem.path, problem.hint) for problem in caught.value.problems]


def span(**changes: Any) -> Any:
    """A right one, changed."""
    return Span(**{"start": torch.zeros(2), "end": torch.ones(2), **changes})


def test_right_values_pass():
    """Validators return the value to store, converted or not; None is not given to them."""
    batch = span(weights=torch.ones(2, 4), unit="MS")
    assert batch.weights.tolist() == [[0.25] * 4] * 2
    assert batch.unit == "ms"
    assert batch.batch_size == (2,)
    assert span().weights is None
    batch.weights = torch.tensor([[1.0, 3.0], [2.0, 2.0]])
    assert batch.weights.tolist() == [[0.25, 0.75], [0.5, 0.5]]
    batch.weights = None
    assert batch.weights is None


BAD = torch.tensor([float("inf"), 0.0])
DOORS = {
    "constructor": lambda batch, **given: span(**given),
    "setter": lambda batch, **given: [setattr(batch, name, value) for name, value in given.items()],
    "set": lambda batch, **given: [batch.set(name, value) for name, value in given.items()],
    "update": lambda batch, **given: batch.update(given),
    "replace": lambda batch, **given: batch.replace(**given),
    "from_dict": lambda batch, **given: Span.from_dict({**batch.to_dict(), **given}),
    "from_tensordict": lambda batch, **given: Span.from_tensordict(TensorDict(batch.to_dict() | given, batch_size=[2])),
    "from_json": lambda batch, **given: Span.from_json(_patched(batch, given)),
}  # fmt: skip


def _patched(batch: Any, given: dict[str, Any]) -> str:
    """The JSON of a batch with some fields changed past its validators."""
    other = TensorDict({**batch.to_dict(retain_none=False), **given}, batch_size=[2])

    class Loose(TensorClass):
        start: Tensor
        end: Tensor

    return Loose(start=other["start"], end=other["end"], batch_size=[2]).to_json()


@pytest.mark.parametrize("door", DOORS)
def test_fields_are_checked_at_every_door(door):
    """What a validator raises is a problem of its field, and nothing is written."""
    batch = span()
    before = batch.to_json()
    assert paths(lambda: DOORS[door](batch, start=BAD)) == [("start", "times are finite")]
    assert batch.to_json() == before


@pytest.mark.parametrize("door", DOORS)
def test_instances_are_checked_at_every_door(door):
    """A class validator sees the state that would result, and nothing is written."""
    batch = span()
    before = batch.to_json()
    expected = [("forward_in_time()", "a span ends before it starts")]
    assert paths(lambda: DOORS[door](batch, end=torch.tensor([1.0, -1.0]))) == expected
    assert batch.to_json() == before


def test_two_fields_may_change_together():
    """`update` is checked in the state that results, not field by field."""
    batch = span()
    batch.update({"start": torch.full((2,), 5.0), "end": torch.full((2,), 6.0)})
    assert batch.start.tolist() == [5.0, 5.0]


def test_all_problems_together():
    """Validators of several fields and the schema itself, in one error, in field order."""
    found = paths(lambda: span(start=BAD, end=-BAD, word=[1, 2], weights=torch.zeros(2, dtype=torch.int64)))
    assert [path for path, _ in found] == ["start", "end", "weights", "weights", "word[0]", "word[1]"]


def test_results_of_operations_are_not_checked():
    """Operations keep what was valid; validators run where values come in."""
    batch = span(weights=torch.ones(2, 4))
    assert (batch * -1).start.tolist() == [0.0, 0.0]
    assert batch[0].weights.tolist() == [0.25] * 4
    assert torch.stack([batch, batch]).batch_size == (2, 2)


def test_children():
    """Validators are inherited, replaced by a method of the same name, and see the class that they check."""
    seen: list[type] = []

    @tensorclass
    class Child(Span):
        extra: Int64[Tensor, ""] | None = None

        @field_validator("start")
        def finite(cls, value: Tensor) -> Tensor:
            """Instead of the parent's, for `end` too."""
            seen.append(cls)
            return value

        @class_validator
        def short(self) -> None:
            """In addition to the parent's."""
            if bool((self.end - self.start > 10).any()):
                raise ValueError("too long")

    assert Child(start=BAD.clamp(max=1), end=torch.full((2,), 2.0)).batch_size == (2,)
    assert seen == [Child]
    assert paths(lambda: Child(start=torch.zeros(2), end=torch.full((2,), 99.0))) == [("short()", "too long")]
    found = paths(lambda: Child(start=torch.ones(2), end=torch.full((2,), -99.0)))
    assert [path for path, _ in found] == ["forward_in_time()"]
    assert paths(lambda: span(start=BAD)) == [("start", "times are finite")]


def test_results_of_validators_are_checked():
    """What a validator returns must fit as well; a forgotten `return` is told."""

    class Wrong(TensorClass):
        x: Float32[Tensor, "2"]
        y: int = 0

        @field_validator("x")
        def longer(cls, value: Tensor) -> Tensor:
            return torch.cat([value, value], -1)

        @field_validator("y")
        def forgetful(cls, value: int) -> None:
            pass

    with pytest.raises(SchemaError) as caught:
        Wrong(x=torch.zeros(3, 2))
    long, none = caught.value.problems
    assert (long.path, long.given) == ("x", "float32 [3, 4]")
    assert (none.path, none.hint) == ("y", "the validator `forgetful` returned None: return the value")


def test_parameters_of_validators():
    """A validator that can't be called is refused where it is written; a static one takes the value alone."""

    def two(a, b):
        return b

    assert field_validator("x")(staticmethod(lambda value: value)) is not None
    assert field_validator("x")(two) is not None
    for wrong in (lambda value: value, lambda cls, value, info: value, staticmethod(two)):
        with pytest.raises(SchemaError, match=r"called with \(cls, value\)"):
            field_validator("x")(wrong)
    with pytest.raises(SchemaError, match=r"write `def two\(self\):`"):
        class_validator(two)


def test_validators_may_be_called():
    """They stay what they were: a class method, a static method, a method."""
    assert Span.lower("A") == "a"
    assert Span.finite(torch.zeros(1)).tolist() == [0.0]
    assert span().forward_in_time() is None
    assert Span.finite.__doc__ == "Numbers only."


def test_options():
    """`validate="off"` runs none; frozen classes run them in the constructor and in `replace`."""

    class Off(TensorClass, validate="off"):
        x: Float32[Tensor, ""]

        @field_validator("x")
        def never(cls, value: Tensor) -> Tensor:
            raise ValueError("never")

        @class_validator
        def never_whole(self) -> None:
            raise ValueError("never")

    assert Off(x=torch.zeros(2)).batch_size == (2,)

    class Frozen(FrozenTensorClass):
        x: Float32[Tensor, ""]

        @field_validator("x")
        def positive(cls, value: Tensor) -> Tensor:
            assert bool((value > 0).all()), "positive"
            return value

    batch = Frozen(x=torch.ones(2))
    with pytest.raises(SchemaError, match="positive"):
        batch.replace(x=torch.zeros(2))


def test_pickles_stacks_and_pydantic():
    """Instances and schemas pickle; lazy stacks check their members; pydantic locates what validators say."""
    batch = pickle.loads(pickle.dumps(span()))
    assert batch.end.tolist() == [1.0, 1.0]
    assert pickle.loads(pickle.dumps(schema(Span))) == schema(Span)
    stacked = lazy_stack([span(), span()])
    assert paths(lambda: setattr(stacked, "start", torch.stack([BAD, BAD])))[0] == ("start", "times are finite")
    adapter = TypeAdapter(Span)
    with pytest.raises(ValidationError) as caught:
        adapter.validate_python({"start": ["Infinity"], "end": [1]})
    assert [error["loc"] for error in caught.value.errors()] == [("start",)]
    with pytest.raises(ValidationError) as caught:
        adapter.validate_python({"start": [1], "end": [0]})
    assert [error["loc"] for error in caught.value.errors()] == [()]


def test_generated_constructor_stays_quick_without_validators():
    """Only classes with checks take the complete way through the constructor and setters."""

    class Plain(TensorClass):
        x: Float32[Tensor, ""]

    assert not Plain.__tensorclass__.checked
    assert Span.__tensorclass__.checked


# ---- conversion policies -----------------------------------------------------------------------------------------


class Policies(TensorClass):
    """The same field under each policy."""

    strict: Int64[Tensor, ""] = field(coerce="strict", default=0)
    exact: Int64[Tensor, ""] = field(coerce="exact", default=0)
    cast: Int64[Tensor, ""] = field(coerce="cast", default=0)
    number: int = field(coerce="cast", default=0)
    plain: int = 0


VALUES: dict[str, tuple[Any, str]] = {
    "a tensor": (torch.tensor(3), "strict exact cast"),
    "a number": (3, "exact cast"),
    "an array": (np.array(3), "exact cast"),
    "a float array": (np.array(3.0), "exact cast"),
    "a float array that is rounded": (np.array(3.5), "cast"),
    "a float tensor": (torch.tensor(3.0), "cast"),
}


@pytest.mark.parametrize("name", VALUES)
def test_policies_of_fields(name):
    """Strict takes what is declared, exact converts without a loss, cast converts whatever it can."""
    value, takers = VALUES[name]
    batch = Policies()
    for policy in ("strict", "exact", "cast"):
        if policy in takers.split():
            assert getattr(Policies(**{policy: value}), policy).item() == 3
            setattr(batch, policy, value)
            assert getattr(batch, policy).item() == 3
        else:
            with pytest.raises(SchemaError):
                Policies(**{policy: value})
            with pytest.raises(SchemaError):
                setattr(batch, policy, value)


def test_policies_of_values():
    """Python values: strict as pydantic is strict, cast as pydantic is by default."""
    assert Policies(number="3").number == 3
    with pytest.raises(SchemaError):
        Policies(plain="3")


@pytest.mark.parametrize(("option", "takes"), [("autocast", True), ("nocast", False)])
def test_a_field_says_otherwise_than_its_class(option, takes):
    """The policy of a field goes before the options of the class."""

    @tensorclass(**{option: True})
    class Mixed:
        own: Float32[Tensor, ""] = field(coerce="strict" if takes else "cast", default=0.0)
        ours: Float32[Tensor, ""] = 0.0

    assert Mixed(**{"ours" if takes else "own": 1}).batch_size == ()
    with pytest.raises(SchemaError):
        Mixed(**{"own" if takes else "ours": 1})


def test_policies_are_data():
    """A schema keeps them, and compares without them: they are about what comes in."""
    own = schema(Policies)
    again = type(own).from_dict(own.to_dict())
    assert again["cast"].coerce == "cast"
    assert again["plain"].coerce is None
    assert again == own
    assert own["cast"].replace(coerce=None).layout() == own["cast"].layout()


@pytest.mark.parametrize(
    "write",
    [
        lambda batch, value: batch.set_("x", value),
        lambda batch, value: batch.update({"x": value}, inplace=True),
        lambda batch, value: batch.__setitem__(slice(None), -5.0),
    ],
)
def test_writes_into_elements_are_held_to_dtype_and_shape(write: Any) -> None:
    """As arithmetic in place is: constraints and validators see what is assigned, not what is written into it."""

    class Bounded(TensorClass):
        x: Float32[Tensor, "3"]

        @field_validator("x")
        def not_negative(cls, value: Tensor) -> Tensor:
            """Refuse negative numbers."""
            if (value < 0).any():
                raise ValueError("negative")
            return value

    batch, value = Bounded(torch.zeros(4, 3)), torch.full((4, 3), -5.0)
    before = batch.x
    with pytest.raises(SchemaError, match="negative"):
        batch.x = value
    write(batch, value)
    assert batch.x is before
    assert before.eq(-5).all()
