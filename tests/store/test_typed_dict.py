"""TypedTensorDict: a mapping with declared keys."""

from __future__ import annotations

import pickle
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor
from typing_extensions import NotRequired

from tensorclass import TensorDict, TensorDictBase, TypedTensorDict
from tensorclass.errors import (
    BatchSizeError,
    FieldNotProducedError,
    LockedError,
    SchemaError,
    UnknownFieldError,
    UnsupportedOperationError,
)
from tensorclass.typing import Float32


class State(TypedTensorDict):
    """Two tensors, and what is no field."""

    eta: Tensor
    x: Float32[Tensor, "n"]
    limit: ClassVar[int] = 3


class Longer(State):
    """Fields of the parent, one that may be absent, two with defaults."""

    y: NotRequired[Tensor]
    z: Tensor = None  # type: ignore[assignment]  # the default of what a pipeline fills in
    unit: str = "m"


def sample(cls: Any = Longer, **fields: Any) -> Any:
    """Five elements with the required fields."""
    return cls(eta=torch.zeros(5, 3), x=torch.zeros(5, 4), batch_size=[5], **fields)


def test_fields_are_entries_and_attributes() -> None:
    """Reads and writes by either name reach one tensor; the instance stays a mapping."""
    state = sample()
    assert state.eta is state["eta"]
    state.eta = torch.ones(5, 3)
    assert state["eta"].sum() == 15
    state["x"] = torch.ones(5, 2)
    assert state.x.shape == (5, 2)
    assert sorted({**state}) == ["eta", "x"]
    assert isinstance(state, TensorDictBase)
    assert state.limit == 3


def test_what_the_class_knows() -> None:
    """The sets of keys, inherited ones included."""
    assert State.__expected_keys__ == State.__required_keys__ == {"eta", "x"}
    assert Longer.__expected_keys__ == {"eta", "x", "y", "z", "unit"}
    assert Longer.__required_keys__ == {"eta", "x"}
    assert Longer.__optional_keys__ == {"y", "z", "unit"}
    assert Longer.__field_defaults__ == {"z": None, "unit": "m"}


def test_absent_fields_read_as_their_defaults() -> None:
    """A default is no entry; a field without one says that it was not given."""
    state = sample()
    assert (state.z, state.unit) == (None, "m")
    assert "unit" not in state
    with pytest.raises(FieldNotProducedError, match="`y`"):
        _ = state.y
    state.y = torch.ones(5)
    assert state["y"].sum() == 5
    assert sample(unit="km")["unit"] == "km"
    del state["y"]
    assert not hasattr(state, "y")


OPERATIONS: dict[str, Any] = {
    "index": lambda state: state[0],
    "slice": lambda state: state[1:3],
    "clone": lambda state: state.clone(),
    "stack": lambda state: torch.stack([state, state]),
    "cat": lambda state: torch.cat([state, state]),
    "add": lambda state: state + 1,
    "to": lambda state: state.to(torch.float64),
    "reshape": lambda state: state.reshape(1, 5),
    "apply": lambda state: state.apply(lambda leaf: leaf + 1),
    "pickle": lambda state: pickle.loads(pickle.dumps(state)),
    "from_tensordict": lambda state: Longer.from_tensordict(TensorDict(state)),
    "from_dict": lambda state: Longer.from_dict({**state}, batch_size=[5]),
}


@pytest.mark.parametrize("op", OPERATIONS)
def test_operations_keep_the_class(op: str) -> None:
    """Every container operation gives an instance with the same fields."""
    result = OPERATIONS[op](sample())
    assert type(result) is Longer
    assert sorted(result.keys()) == ["eta", "x"]
    assert result.x is result["x"]


def test_operations_on_keys_give_a_plain_container() -> None:
    """Without its fields it would be no instance."""
    assert type(sample().select("eta")) is TensorDict
    assert type(sample().to_tensordict()) is TensorDict


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: State(eta=torch.zeros(3)), ["x", "nothing"]),
        (lambda: sample(q=1), ["q", "no such field"]),
        (lambda: State(eta="a", x=torch.zeros(3, 2), batch_size=[3]), ["eta", "str 'a'"]),
        (lambda: State(eta=torch.zeros(3), x=torch.zeros(3, 2, dtype=torch.int64)), ["x", "Float32", "int64"]),
        (lambda: State(eta=torch.zeros(2), x=torch.zeros(3, 2), batch_size=[3]), ["eta", "[3]"]),
        (lambda: State.from_tensordict(TensorDict(eta=torch.zeros(3))), ["x", "nothing"]),
        (lambda: sample().set("x", torch.zeros(5, 2).int()), ["x", "Float32", "int32"]),
        (lambda: setattr(sample(), "x", torch.zeros(4, 2)), ["x", "[5]"]),
        (lambda: sample().update({"eta": "a"}), ["eta", "str 'a'"]),
    ],
)
def test_wrong_values_are_refused(make: Any, words: list[str]) -> None:
    """By the constructor, by writes and by adoption; the message names the field."""
    with pytest.raises(SchemaError) as info:
        make()
    assert all(word in str(info.value) for word in words), str(info.value)


def test_other_mistakes_are_refused() -> None:
    """No fields, unknown attributes, foreign containers, hidden names, unknown options."""
    with pytest.raises(TypeError, match="declares no fields"):
        TypedTensorDict(a=1)
    with pytest.raises(UnknownFieldError, match="did you mean `eta`"):
        sample().etta = 3
    with pytest.raises(TypeError, match="not both"):
        State({"eta": 1}, x=2)
    with pytest.raises(UnsupportedOperationError, match="TensorClass"):
        State.from_tensordict({"eta": 1})  # type: ignore[arg-type]  # what the test is about
    with pytest.raises(TypeError, match="did you mean `frozen`"):
        TypedTensorDict["frozn"]
    with pytest.raises(AttributeError, match="`sum` would hide"):
        type("Hides", (TypedTensorDict,), {"__annotations__": {"sum": Tensor}})


def test_undeclared_entries_are_kept() -> None:
    """The mapping is open: other keys may be written and adopted, and are checked as in a TensorDict."""
    state = sample()
    state["extra"] = torch.ones(5)
    assert state[2:]["extra"].shape == (3,)
    adopted = State.from_tensordict(TensorDict(state))
    assert "extra" in adopted
    with pytest.raises(BatchSizeError):
        state["more"] = torch.ones(4)


def test_adoption_shares_tensors_not_keys() -> None:
    """The tensors are those of the source; a key that is added to one is not in the other."""
    source = TensorDict(eta=torch.zeros(5, 3), x=torch.zeros(5, 2), batch_size=[5], names=["t"])
    state = State.from_tensordict(source)
    assert state.eta is source["eta"]
    assert state.names == ["t"]
    source["more"] = torch.zeros(5)
    assert "more" not in state


def test_options_are_class_keywords_or_subscripts() -> None:
    """`frozen` locks what the constructor makes, `shadow` allows any name; both are inherited."""

    class Frozen(TypedTensorDict["frozen"]):  # type: ignore[type-arg]  # the form of the original
        a: Tensor

    class Child(Frozen):
        b: Tensor

    class Shadow(TypedTensorDict, shadow=True):
        sum: Tensor

    frozen = Child(a=torch.zeros(2), b=torch.zeros(2))
    with pytest.raises(LockedError):
        frozen.a = torch.ones(2)
    assert Shadow(sum=torch.ones(2)).sum.tolist() == [1.0, 1.0]


def test_instances_nest() -> None:
    """A field may be another such class, and stays it."""

    class Outer(TypedTensorDict):
        inner: State

    outer = Outer(inner=sample(State), batch_size=[5])
    assert type(outer[0].inner) is State
    assert outer.inner.x.shape == (5, 4)
    with pytest.raises(SchemaError, match="inner"):
        Outer(inner=torch.zeros(5), batch_size=[5])
