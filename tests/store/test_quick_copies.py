"""Quick copies into containers, and into the members of stacks, give what the general ways give, errors included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import FrozenTensorClass, TensorClass, TensorDict, lazy_stack
from tensorclass.errors import TensorClassError
from tensorclass.ops._inplace import InplaceOps
from tensorclass.store.lazy._write import LazyWrites


class Point(TensorClass):
    """Two tensors."""

    a: Tensor
    b: Tensor | None = None


class Frozen(FrozenTensorClass):
    """The same, not to be written."""

    a: Tensor
    b: Tensor | None = None


def row(start: float, size: int = 3) -> dict[str, Tensor]:
    """Two tensors of other values for each start."""
    return {"a": torch.arange(size * 2.0).view(size, 2) + start, "b": torch.arange(size) + int(start)}


def members(start: float, kind: Any = TensorDict) -> list[Any]:
    """What a stack is made of."""
    if kind is Point:
        return [Point(**row(start + i), batch_size=[3]) for i in range(2)]
    return [TensorDict(row(start + i), batch_size=[3]) for i in range(2)]


TARGETS: dict[str, Callable[[float], Any]] = {
    "plain": lambda s: TensorDict(row(s), batch_size=[3]),
    "one entry": lambda s: TensorDict(a=row(s)["a"], batch_size=[3]),
    "locked": lambda s: TensorDict(row(s), batch_size=[3]).lock_(),
    "with a str": lambda s: TensorDict(row(s), batch_size=[3]).set("name", f"{s}"),
    "nested": lambda s: TensorDict(**row(s), n=TensorDict(row(s + 9), batch_size=[3]), batch_size=[3]),
    "typed": lambda s: Point(**row(s), batch_size=[3]),
    "typed, absent": lambda s: Point(row(s)["a"], batch_size=[3]),
    "frozen": lambda s: Frozen(**row(s), batch_size=[3]),
    "leaves": lambda s: TensorDict(a=row(s)["a"].requires_grad_(), b=row(s)["b"], batch_size=[3]),
    "expanded": lambda s: TensorDict(a=torch.full((1, 2), s).expand(3, 2), b=row(s)["b"], batch_size=[3]),
    "stack": lambda s: lazy_stack(members(s)),
    "stack along dim 1": lambda s: lazy_stack(members(s), 1),
    "typed stack": lambda s: lazy_stack(members(s, Point)),
    "stack of stacks": lambda s: lazy_stack([lazy_stack(members(s)), lazy_stack(members(s + 9))]),
    "other keys in members": lambda s: lazy_stack([*members(s), TensorDict(a=row(s)["a"], batch_size=[3])]),
    "stack of leaves": lambda s: lazy_stack([TARGETS["leaves"](s), TARGETS["leaves"](s + 1)]),
    "stack of one tensor": lambda s: lazy_stack([TensorDict(t, batch_size=[3]) for t in [row(s)] * 2]),
    "no members": lambda s: lazy_stack(members(s))[:0],
}  # fmt: skip


def _told(state: Any, size: Any) -> Any:
    state._metadata[""]["batch_size"] = size
    return state


GIVEN: dict[str, Callable[[Any, Any], Any]] = {
    "its state": lambda state, target: state,
    "a plain dict": lambda state, target: dict(state),
    "other dtype": lambda state, target: {key: value.double() for key, value in state.items()},
    "a dtype that is too wide": lambda state, target: {key: value.to(torch.complex64) for key, value in state.items()},
    "one more dim": lambda state, target: {key: value[None] for key, value in state.items()},
    "one row": lambda state, target: {key: value[:1] for key, value in state.items()},
    "one entry only": lambda state, target: {"a": state["a"]},
    "one entry more": lambda state, target: {**state, "c": state["a"]},
    "another entry": lambda state, target: {"a": state["a"], "c": state["a"]},
    "another batch size": lambda state, target: _told(state, (2,)),
    "an object": lambda state, target: {**state, "a": "text"},
    "lists": lambda state, target: {key: value.tolist() for key, value in state.items()},
    "its own tensors": lambda state, target: target.state_dict(),
    "rows in another order": lambda state, target: {key: value.flip(0) for key, value in target.state_dict().items()},
    "in inference mode": lambda state, target: {key: value.clone() for key, value in state.items()},
}
USES: dict[str, Callable[[Any, Any], Any]] = {
    "load": lambda target, given: target.load_state_dict(given),
    "load, not strict": lambda target, given: target.load_state_dict(given, strict=False),
    "update": lambda target, given: target.update_(given),
    "update from a container": lambda target, given: target.update_(TensorDict(given, batch_size=target.batch_size)),
}


def outcome(make: Callable[[float], Any], given: Any, use: Any) -> Any:
    """What came of a use: values, whether the tensors are those that were there before, and the error."""
    target, other = make(0.0), make(5.0)
    before = target._leaves(2)
    try:
        result: Any = use(target, given(other.state_dict(), target))
        said = result is target
    except (TensorClassError, RuntimeError, TypeError, ValueError) as error:
        said = (type(error), str(error))
    after = target._leaves(2)
    kept = [any(leaf is old for old in before) for leaf in after]
    return [leaf.tolist() for leaf in after], kept, tuple(target.batch_size), said


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize("given", GIVEN.values(), ids=GIVEN)
@pytest.mark.parametrize("name", TARGETS)
def test_quick_and_general_ways_agree(name: str, given: Any, use: Any, monkeypatch: pytest.MonkeyPatch):
    """Where the quick ways see to it, and where they leave it to the others."""
    quick = outcome(TARGETS[name], given, use)
    for cls in {*TensorDict.__mro__, *LazyWrites.__mro__, *Point.__mro__}:
        if "_copied_alike" in vars(cls) and issubclass(cls, InplaceOps):
            monkeypatch.setattr(cls, "_copied_alike", lambda *_: False)
    monkeypatch.setattr(LazyWrites, "_plan_rows", lambda *_: False)
    general = outcome(TARGETS[name], given, use)
    assert quick == general


@pytest.mark.parametrize("name", ["plain", "typed", "stack", "typed stack", "stack along dim 1"])
def test_the_quick_ways_are_taken(name: str, monkeypatch: pytest.MonkeyPatch):
    """For a state of the same keys, dtypes and shapes nothing is planned tensor by tensor."""
    monkeypatch.setattr(InplaceOps, "_plan_entry", None)
    target = TARGETS[name](0.0)
    assert target.load_state_dict(TARGETS[name](5.0).state_dict()) is target
    assert target.update_({key: value + 1 for key, value in target.items()})["a"].flatten()[0] == 6


def test_a_wrong_row_leaves_all_members_as_they_are():
    """One member that can't be written, or one tensor that does not fit, and nothing is written."""
    rows = members(0.0)
    rows[1]["b"] = rows[1]["b"].bool()
    for given in (dict(lazy_stack(members(5.0)).items()), TensorDict(lazy_stack(members(5.0)).to_dict(), [2, 3])):
        with pytest.raises(TensorClassError, match="bool"):
            lazy_stack(rows).update_(given)
        assert rows[0]["a"].equal(row(0.0)["a"])
    rows = [rows[0], TensorDict(row(1.0), batch_size=[3])]
    rows[1]["a"] = torch.zeros(1, 2).expand(3, 2)
    with pytest.raises(TensorClassError, match="expanded"):
        lazy_stack(rows).update_(dict(lazy_stack(members(5.0)).items()))
    assert rows[0]["b"].equal(row(0.0)["b"])
