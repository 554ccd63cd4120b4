"""The least code of single operations does what ours do, and refuses what ours refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from tensorclass import TensorDict

from . import _least, _least_actor, _trees
from ._bounds import OPERATIONS, statements


@pytest.mark.parametrize(("name", "sample"), OPERATIONS)
def test_every_candidate_runs(name: str, sample: str) -> None:
    """The results of ours and of the least code have the same tensors in the same places."""
    results = {kind: made.once() for kind, made in statements(name, sample).items()}
    if isinstance(results["least"], _least.Nested):
        results["least"], results["ours"] = _tree(results["least"]), results["ours"].to_dict()
        ours, least = (_trees.flatten(results[kind]) for kind in ("ours", "least"))
        assert list(ours) == list(least)
        assert all(torch.equal(ours[key], least[key]) for key in ours)
    elif name.startswith("keys"):
        assert results["ours"] == results["least"]


def _tree(x: _least.Nested) -> dict[str, Any]:
    return {key: _tree(value) if isinstance(value, _least.Nested) else value for key, value in x.data.items()}


def _two() -> tuple[_least.Nested, torch.Tensor]:
    whole = torch.arange(6.0)
    return _least.nest({"a": whole[:2], "d": {"b": whole[2:4]}}, (2,)), whole


@pytest.mark.parametrize(
    "wrong", [torch.ones(3), torch.ones(2, dtype=torch.int64), {"c": torch.ones(2)}], ids=["shape", "dtype", "kind"]
)
def test_the_least_update_writes_everything_or_nothing(wrong: Any) -> None:
    """What does not fit is found before the first tensor is written, also after an update that fits."""
    x, whole = _two()
    _least.update(x, _least.nest({"a": torch.zeros(2), "d": {"b": torch.zeros(2)}}, (2,)))
    with pytest.raises((ValueError, TypeError)):
        _least.update(x, _least.nest({"a": torch.ones(2), "d": {"b": wrong}}, (2,)))
    assert whole.tolist() == [0, 0, 0, 0, 4, 5]


def test_the_least_update_reads_first_and_refuses_parameters() -> None:
    """Sources that are targets of the same update, and tensors that autograd tracks."""
    x, whole = _two()
    _least.update(x, _least.nest({"a": whole[2:4], "d": {"b": whole[:2]}}, (2,)))
    assert whole.tolist() == [2, 3, 0, 1, 4, 5]
    held = _least.nest({"a": torch.zeros(2, requires_grad=True)}, (2,))
    with pytest.raises(ValueError, match="can't be written"):
        _least.update(held, _least.nest({"a": torch.ones(2)}, (2,)))


def test_copies_of_the_least_batch_share_nothing_new() -> None:
    """A key that is added below the result of `exclude` is only there; a deep copy keeps what shares a storage."""
    x, whole = _two()
    some: Any = _least.exclude(x, "a").data["d"]
    some.data["new"] = whole
    assert "new" not in x.data["d"].data
    copied = x.__deepcopy__({})
    inner: Any = copied["d"]
    assert inner["b"].untyped_storage().data_ptr() == copied["a"].untyped_storage().data_ptr() != whole.data_ptr()


def _actor(typed: bool) -> tuple[Callable[..., Any], nn.Module]:
    net, constants = nn.Linear(4, 2), {"scale": 1.0, "validate_args": False}
    if typed:
        return _least_actor.TypedActor(net, constants), net
    step = _least_actor.Step(net, ["obs"], ["loc"])
    return _least_actor.Actor(step, _least_actor.Draw(["loc"], ["action", "action_log_prob"], constants)), net


@pytest.mark.parametrize("typed", [False, True])
def test_the_least_actor_runs_hooks_and_checks_results(typed: bool) -> None:
    """Hooks of the network run; a result of another size is refused, and nothing is written then."""
    act, net = _actor(typed)
    data, seen = _least.make({"obs": torch.rand(3, 4)}, (3,)), []
    net.register_forward_hook(lambda *_: seen.append(1))
    assert act(data)["action"].shape == (3, 2)
    assert seen == [1]
    net.register_forward_hook(lambda *_: torch.zeros(5, 2))
    before = dict(data.items())
    with pytest.raises((ValueError, TypeError)):
        act(data)
    assert dict(data.items()) == before


def test_the_keys_of_all_leaves_are_ours_too() -> None:
    """Paths come in order, and a view shows keys that are added later."""
    data = TensorDict({"a": torch.zeros(2), "d": {"b": torch.zeros(2)}, "n": "text"}, [2])
    keys = data.keys(True, True)
    data["d", "c"] = torch.zeros(2)
    assert list(keys) == ["a", ("d", "b"), ("d", "c")]
    assert len(keys) == 3
