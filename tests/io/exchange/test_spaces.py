"""Spaces of gymnasium: every space that a field can be, there and back, and what neither side can say."""

from __future__ import annotations

import pickle
from typing import Annotated, Any

import numpy as np
import pytest
import torch
from annotated_types import Ge, Gt, Le, Lt
from gymnasium import spaces
from gymnasium.vector.utils import batch_space
from torch import Tensor

from tensorclass import (
    PerElement,
    RaggedTensor,
    Shared,
    TensorClass,
    TensorDict,
    from_gymnasium,
    schema,
    to_gymnasium,
)
from tensorclass.errors import ArgumentError, SchemaError
from tensorclass.typing import BFloat16, Bool, Complex64, Float, Float16, Float32, Float64, Int64, UInt8

NUMBERS = (np.float16, np.float32, np.float64, np.uint8, np.int8, np.int16, np.int32, np.int64)


def _ends(kind: Any) -> tuple[float, float]:
    """The least and the greatest number of a dtype."""
    return (-np.inf, np.inf) if np.issubdtype(kind, np.floating) else (np.iinfo(kind).min, np.iinfo(kind).max)


SAME: dict[str, Any] = {
    **{f"all of {kind.__name__}": spaces.Box(*_ends(kind), (2, 3), kind) for kind in NUMBERS},
    "bounded": spaces.Box(-1, 1, (4,)),
    "half bounded": spaces.Box(0, np.inf, (4,)),
    "bounded ints": spaces.Box(2, 9, (3,), np.int32),
    "one number": spaces.Box(-1, 1, ()),
    "bools": spaces.Box(0, 1, (2,), bool),
    "discrete": spaces.Discrete(5),
    "discrete, from below 0": spaces.Discrete(3, start=-1),
    "one choice": spaces.Discrete(1),
    "nested": spaces.Dict({"x": spaces.Box(-1, 1, (2,)), "deep": spaces.Dict({"n": spaces.Discrete(2)})}),
    "empty": spaces.Box(-1, 1, (0,)),
}  # fmt: skip
WIDER: dict[str, tuple[Any, Any]] = {
    "multi-binary": (spaces.MultiBinary((2, 3)), spaces.Box(0, 1, (2, 3), np.int8)),
    "multi-discrete": (spaces.MultiDiscrete([3, 3]), spaces.Box(0, 2, (2,), np.int64)),
    "multi-discrete, uneven": (spaces.MultiDiscrete([3, 4]), spaces.Box(0, 2**63 - 1, (2,), np.int64)),
    "uneven bounds": (spaces.Box(np.float32([-1, 0]), np.float32([1, 1])), spaces.Box(-np.inf, 1, (2,))),
}
"""Spaces, and what they are after they were a class."""


@pytest.mark.parametrize("name", [*SAME, *WIDER])
def test_there_and_back(name: str):
    """A space becomes a class whose space it is, or one that holds all of its values; samples go in and come out."""
    space, back = (SAME[name], SAME[name]) if name in SAME else WIDER[name]
    whole = spaces.Dict({"one": space, "other": spaces.Discrete(2)}, seed=0)
    cls = from_gymnasium(whole, "Found")
    again = to_gymnasium(cls)
    assert again["one"] == back
    batch = cls.from_dict(whole.sample())
    assert batch.validate().batch_size == ()
    assert whole.contains(batch.to_numpy())
    assert again.contains(batch.to_numpy())
    rows = cls.from_dict(batch_space(whole, 5).sample())
    assert rows.batch_size == (5,)
    assert all(whole.contains(row.to_numpy()) for row in rows.unbind(0))


@pytest.mark.parametrize("value", [-2, 5])
def test_bounds_are_looked_at(value: int):
    """A value outside of the space is found by `validate()`."""
    cls = from_gymnasium(spaces.Dict({"gear": spaces.Discrete(6, start=-1)}))
    assert len(cls(gear=torch.tensor([-1, 4])).validate()) == 2
    with pytest.raises(SchemaError, match="gear"):
        cls(gear=torch.tensor([0, value])).validate()


class Inner(TensorClass):
    """A nested one."""

    place: Float64[Tensor, "n 2"]


class State(TensorClass):
    """All that a space can say."""

    inner: Inner
    short: Float16[Tensor, "n"]
    family: Float[Tensor, ""]
    open: Annotated[Float32[Tensor, "2"], Gt(0), Lt(1)]
    gear: Annotated[Int64[Tensor, ""], Ge(1), Le(4)]
    low: Annotated[Int64[Tensor, ""], Ge(1)]
    image: UInt8[Tensor, "1 n n"]
    flag: Bool[Tensor, ""]
    table: Shared[Float32[Tensor, "2"]]


def test_space_of_a_class():
    """Dtypes, shapes with the sizes that are given, bounds of constraints; examples of the class are in it."""
    space = to_gymnasium(State, n=3)
    below, above = np.nextafter(np.float32(0), np.float32(1)), np.nextafter(np.float32(1), np.float32(0))
    assert space == spaces.Dict(
        {
            "inner": spaces.Dict({"place": spaces.Box(-np.inf, np.inf, (3, 2), np.float64)}),
            "short": spaces.Box(-np.inf, np.inf, (3,), np.float16),
            "family": spaces.Box(-np.inf, np.inf, ()),
            "open": spaces.Box(below, above, (2,)),
            "gear": spaces.Discrete(4, start=1),
            "low": spaces.Box(1, 2**63 - 1, (), np.int64),
            "image": spaces.Box(0, 255, (1, 3, 3), np.uint8),
            "flag": spaces.Box(0, 1, (), bool),
            "table": spaces.Box(-np.inf, np.inf, (2,)),
        }
    )
    one = State.example(seed=0, sizes={"n": 3})
    assert space.contains(one.to_numpy())


class Odd(TensorClass):
    """What no space can say."""

    number: Complex64[Tensor, ""]
    short: BFloat16[Tensor, ""]
    rows: Float32[RaggedTensor, "n"]
    loose: Tensor
    rest: Float32[Tensor, "... 3"]
    inner: Inner
    tree: TensorDict
    label: PerElement[str]
    name: str = "a"
    maybe: Float32[Tensor, ""] | None = None


def test_refused_classes():
    """All fields that a space can't hold are named, nested ones by their path, with what to do."""
    with pytest.raises(SchemaError) as info:
        to_gymnasium(Odd)
    found = {problem.path: problem.hint for problem in info.value.problems}
    assert found.keys() == {*schema(Odd).names, "inner.place"} - {"inner"}
    assert "omit(Odd, 'name')" in str(found["name"])
    assert "no size for `n`" in str(found["inner.place"])
    for wrong in (3, "Odd", None, State.zeros(n=2), dict):
        with pytest.raises(ArgumentError, match="to_gymnasium takes a tensorclass"):
            to_gymnasium(wrong)


def test_refused_spaces():
    """A space without names, a key that is none, and kinds of space that no field is."""
    one = spaces.Discrete(2)
    cases = {
        "needs a name": one,
        "got Tuple": spaces.Tuple([one]),
        "got dict": {"a": one},
        "'a b' can't be": spaces.Dict({"a b": one}),
        "can't be the name": spaces.Dict({1: one}),  # type: ignore[dict-item]  # what a user may write
        "`a` is a Tuple": spaces.Dict({"a": spaces.Tuple([one])}),
        "`a` is a Sequence": spaces.Dict({"n": spaces.Dict({"a": spaces.Sequence(one)})}),
    }
    for message, space in cases.items():
        with pytest.raises(ArgumentError, match=message):
            from_gymnasium(space)


Made = from_gymnasium(spaces.Dict({"data": spaces.Discrete(2), "half": spaces.Text(5)}), "Made")


def test_the_class_is_of_the_module_that_asks():
    """It pickles under the name that it is given, as a named tuple does; fields may hide methods; text is text."""
    batch = Made.from_dict({"data": torch.tensor([0, 1]), "half": ["a", "b"]})
    assert Made.__module__ == __name__
    assert pickle.loads(pickle.dumps(batch)).half.tolist() == ["a", "b"]
