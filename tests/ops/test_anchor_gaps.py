"""What programs written for the anchor use: arguments, locks, classes of results, losses and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensordict
import torch
from torch import Tensor
from torch.nn import functional

from tensorclass import TensorClass, TensorDict, TypedTensorDict, lazy_stack, tensorclass
from tensorclass.errors import ArgumentError, KeySetError, SchemaError
from tensorclass.typing import Float32


class Own(TensorDict):
    """A class of a user."""


class Theirs(tensordict.TensorDict):
    """The same, of the anchor's container."""


class Point(TensorClass):
    """A declared class."""

    a: Float32[Tensor, "3"]
    b: Float32[Tensor, ""]


def make(cls: Any = TensorDict) -> Any:
    """Two tensors, one of them below."""
    return cls({"a": torch.arange(6.0).reshape(2, 3), "n": {"b": torch.ones(2, 3)}}, batch_size=[2, 3])


@pytest.mark.parametrize("size", [(6,), [3, 2], -1, (1, -1, 3)])
def test_reshape_by_name_and_in_place(size: Any):
    """As by position; a lazy stack too."""
    for data in (make(), lazy_stack([make()[0], make()[1]])):
        wanted = make().reshape(size)
        assert data.reshape(size=size).batch_size == wanted.batch_size
    data = make()
    data.reshape(size=size, inplace=True)
    assert torch.equal(data["n", "b"], wanted["n", "b"])
    with pytest.raises(ArgumentError, match="by position or as `size`"):
        make().reshape(6, size=(6,))
    with pytest.raises(ArgumentError, match="`inplace` is True or False"):
        make().reshape(6, inplace="no")


def test_arguments_that_the_anchor_takes():
    """`num_threads`, entries beside a mapping, a lock that is set, an unchecked typed dict."""
    assert make().apply(lambda t: t + 1, num_threads=2)["a"][0, 0] == 1
    with pytest.raises(TypeError, match="in_place"):
        make().apply(lambda t: t, in_place=True)
    assert sorted(make().update({"a": torch.zeros(2, 3)}, c=torch.zeros(2, 3)).keys()) == ["a", "c", "n"]
    assert sorted(TensorDict(batch_size=[2, 3]).update(make(), c=torch.zeros(2, 3)).keys()) == ["a", "c", "n"]

    class State(TypedTensorDict):
        eta: Tensor

    wrong = TensorDict(other=torch.zeros(2), batch_size=[2])
    assert list(State.from_tensordict(wrong, check=False).keys()) == ["other"]
    with pytest.raises(SchemaError):
        State.from_tensordict(wrong)


@pytest.mark.parametrize("data", [make(), Point(torch.zeros(2, 3), torch.zeros(2)), lazy_stack([make(), make()])])
def test_a_lock_that_is_set(data: Any):
    """`is_locked = True` is `lock_()`, also of nested containers."""
    data.is_locked = True
    assert data.is_locked
    data.is_locked = False
    assert not data.is_locked
    with pytest.raises(ArgumentError, match="True or False"):
        data.is_locked = "no"


LOCKED: dict[str, Callable[[Any], Any]] = {
    "+ 1": lambda c: c + 1, "+": lambda c: c + c, "1 -": lambda c: 1 - c, "abs": lambda c: c.abs(), "-": lambda c: -c,
    "==": lambda c: c == c, "== 1": lambda c: c == 1, "<": lambda c: c < 1, "isnan": lambda c: c.isnan(),
    "sum": lambda c: c.sum(0), "lerp": lambda c: c.lerp(c, 0.5), "addcmul": lambda c: c.addcmul(c, c),
    "**": lambda c: c**2, "exp": lambda c: c.exp(), "maximum": lambda c: c.maximum(c), "clone": lambda c: c.clone(),
    "unlocked + locked": lambda c: c.clone() + c, "where": lambda c: c.where(torch.ones(2, 3, dtype=torch.bool), c),
}  # fmt: skip


@pytest.mark.parametrize("name", LOCKED)
def test_arithmetic_on_a_locked_container(name: str):
    """The result is locked where the anchor's is, at every depth, and can be unlocked."""
    found, wanted = (LOCKED[name](make(cls).lock_()) for cls in (TensorDict, tensordict.TensorDict))
    assert found.is_locked == wanted.is_locked
    if found.is_locked:
        assert found["n"].is_locked
        assert not found.unlock_()["n"].is_locked


KEPT: dict[str, Callable[[Any], Any]] = {
    "select": lambda c: c.select("a"), "exclude": lambda c: c.exclude("a"), "flatten_keys": lambda c: c.flatten_keys(),
    "unflatten_keys": lambda c: c.unflatten_keys(), "rename_keys": lambda c: c.rename_keys({"a": "z"}),
    "split_keys": lambda c: c.split_keys(["a"])[0], "rest": lambda c: c.split_keys(["a"])[1],
    "separates": lambda c: c.separates("a"), "empty": lambda c: c.empty(), "clone": lambda c: c.clone(),
    "[0]": lambda c: c[0], "stack": lambda c: torch.stack([c, c]), "to_tensordict": lambda c: c.to_tensordict(),
}  # fmt: skip


@pytest.mark.parametrize("name", KEPT)
def test_a_class_of_a_user_is_kept(name: str):
    """By operations on keys too, where the anchor keeps it."""
    found, wanted = KEPT[name](make(Own)), KEPT[name](make(Theirs))
    assert (type(found) is Own) == (type(wanted) is Theirs)


def test_names_that_are_members_elsewhere():
    """A field may not have the name of a function or a method of containers, unless it says `shadow=True`."""
    for name in ("pad", "to_module", "save", "load", "map", "mean"):
        with pytest.raises(SchemaError, match="shadow=True"):
            tensorclass(type("Hiding", (), {"__annotations__": {name: Tensor}}))
        tensorclass(type("Hiding", (), {"__annotations__": {name: Tensor}}), shadow=True)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"])
def test_losses(name: str, reduction: str):
    """Leaf by leaf; with a reduction there are no batch dims left. Gradients flow."""
    function = getattr(functional, name)
    data, target = make().requires_grad_(), make() * 2
    found = function(data, target, reduction=reduction)
    assert found.batch_size == (() if reduction != "none" else (2, 3))
    for key in ("a", ("n", "b")):
        assert torch.equal(found[key], function(data[key], target[key], reduction=reduction))
    found.sum(reduce=True).backward()
    assert data["n", "b"].grad is not None
    point = Point(torch.ones(2, 3), torch.ones(2))
    assert isinstance(function(point, point * 2), TensorDict)
    with pytest.raises(KeySetError, match="same tensors"):
        function(make(), make().select("a"))
    with pytest.raises(ArgumentError, match="containers of the same keys"):
        function(make(), torch.zeros(2, 3))
    with pytest.raises(ArgumentError, match="one batch size"):
        function(make(), make()[:1])


def test_gradients_of_containers():
    """`torch.autograd.grad` takes containers on all sides, and gives one for one."""
    data = make().requires_grad_()
    found = torch.autograd.grad(data * 2, data, make())
    assert torch.equal(found["a"], make()["a"] * 2)
    total = (data["a"] * 3).sum()
    partly = torch.autograd.grad(total, data, allow_unused=True)
    assert list(partly.keys(True, True)) == ["a"]
    other = torch.ones(3, requires_grad=True)
    gradients = torch.autograd.grad((data["a"] * other).sum(), [data.select("a"), other])
    assert gradients[0]["a"].shape == (2, 3)
    assert gradients[1].shape == (3,)
    with pytest.raises(RuntimeError, match="not have been used"):
        torch.autograd.grad((make().requires_grad_()["a"]).sum(), data)
