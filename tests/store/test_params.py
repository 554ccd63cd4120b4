"""TensorDictParams: a container and a module at once."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import tensordict
import tensordict.nn
import torch
from torch import nn

import tensorclass
from tensorclass import Buffer, LazyStackedTensorDict, TensorDict, TensorDictParams, from_module
from tensorclass.errors import LockedError, StructureError


def source(lib: Any = tensorclass) -> Any:
    """Parameters to be, integers, and an object, at two levels."""
    inner = {"i": torch.arange(3), "w": torch.ones(3, 2), "half": torch.ones(3, dtype=torch.bfloat16)}
    return lib.TensorDict({"a": torch.ones(3), "n": inner, "s": "text"}, batch_size=[3])


class Holder(nn.Module):
    """A module with a container of parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.params = TensorDictParams(source())
        self.layer = nn.Linear(2, 2)


def kinds(params: Any) -> dict[str, str]:
    """Which tensors are parameters, and which buffers."""
    return {
        str(key): "parameter" if isinstance(value, nn.Parameter) else "buffer" if isinstance(value, Buffer) else "?"
        for key, value in params.items(True, True)
        if isinstance(value, torch.Tensor)
    }


@pytest.mark.parametrize("no_convert", [False, True])
def test_kinds_and_names_agree_with_the_anchor(no_convert: bool) -> None:
    """What becomes a parameter and what a buffer, and under which dotted names."""
    ours = TensorDictParams(source(), no_convert=no_convert)
    theirs = tensordict.TensorDictParams(source(tensordict), no_convert=no_convert)
    assert kinds(ours) == kinds(theirs)
    for names in ("named_parameters", "named_buffers"):
        assert {k for k, _ in getattr(ours, names)()} == {k for k, _ in getattr(theirs, names)()}
    assert ours.batch_size == theirs.batch_size
    assert ours["s"] == "text"


OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "clone": lambda p: p.clone(),
    "shallow": lambda p: p.clone(recurse=False),
    "copy": lambda p: p.copy(),
    "to": lambda p: p.to("cpu"),
    "cpu": lambda p: p.cpu(),
    "double": lambda p: p.double(),
    "index": lambda p: p[0],
    "reshape": lambda p: p.reshape(3, 1),
    "apply": lambda p: p.apply(lambda t: t + 1),
    "data": lambda p: p.data,
    "detach": lambda p: p.detach(),
    "select": lambda p: p.select("a"),
    "exclude": lambda p: p.exclude("a"),
    "flatten_keys": lambda p: p.flatten_keys(),
    "stack": lambda p: torch.stack([p, p]),
    "unbind": lambda p: p.unbind(0)[0],
    "expand": lambda p: p.expand(2, 3),
    "deepcopy": copy.deepcopy,
    "shallow copy": copy.copy,
    "pickle": lambda p: pickle.loads(pickle.dumps(p)),
    "compare": lambda p: p.exclude("s") == p.exclude("s"),
    "zeros_like": torch.zeros_like,
    "empty": lambda p: p.empty(),
    "nested": lambda p: p["n"],
    "to_tensordict": lambda p: p.to_tensordict(),
    "state_dict": lambda p: dict(p.state_dict()),
    "to_dict": lambda p: p.to_dict(),
    "sum": lambda p: p.select("a").sum(),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_give_what_the_anchor_gives(name: str) -> None:
    """The class of the result, its batch size, keys and values."""
    found = []
    for lib in (tensorclass, tensordict):
        result = OPERATIONS[name](lib.TensorDictParams(source(lib)))
        if isinstance(result, dict):
            found.append((sorted(result), None, None))
            continue
        values = {str(k): v.tolist() for k, v in result.items(True, True) if isinstance(v, torch.Tensor)}
        found.append((type(result).__name__, tuple(result.batch_size), values))
    assert found[0] == found[1]


@pytest.mark.parametrize("name", ["clone", "to", "deepcopy", "pickle"])
def test_copies_have_parameters_of_their_own(name: str) -> None:
    """Of the same kinds, and leaves of autograd; frozen ones stay frozen."""
    params = TensorDictParams(source())
    params["a"].requires_grad_(False)
    twin = OPERATIONS[name](params)
    assert kinds(twin) == kinds(params)
    assert all(p.is_leaf for p in twin.parameters())
    assert not {id(p) for p in twin.parameters()} & {id(p) for p in params.parameters()}
    assert not twin["a"].requires_grad


def test_the_container_that_was_given_is_left_alone() -> None:
    """Its tensors are shared, its structure is not; `lock` locks it."""
    given = source()
    params = TensorDictParams(given, lock=True)
    assert type(given["a"]) is torch.Tensor
    assert params["a"].data_ptr() == given["a"].data_ptr()
    params["more"] = torch.zeros(3)
    assert "more" not in given
    with pytest.raises(LockedError):
        given["more"] = torch.zeros(3)


def test_writes_make_parameters_and_buffers() -> None:
    """Whatever way they take; a locked container refuses them."""
    params = TensorDictParams(source())
    params["b"] = torch.zeros(3)
    params["n", "deep", "c"] = torch.zeros(3)
    params.set("i", torch.arange(3))
    params.update({"n": {"w": torch.zeros(3)}, "u": {"v": torch.zeros(3)}})
    params.register_buffer("buffer", torch.zeros(3))
    params.register_parameter("parameter", nn.Parameter(torch.zeros(3)))
    params.attribute = torch.zeros(3)
    assert set(kinds(params).values()) == {"parameter", "buffer"}
    names = {name for name, _ in params.named_parameters()}
    assert names == {"a", "n.w", "b", "n.deep.c", "u.v", "parameter", "attribute"}
    assert {name for name, _ in params.named_buffers()} == {"n.i", "n.half", "i", "buffer"}
    del params["b"]
    assert "b" not in dict(params.named_parameters())
    params.lock_()
    with pytest.raises(LockedError):
        params["z"] = torch.zeros(3)
    with pytest.raises(LockedError):
        params["n", "z"] = torch.zeros(3)


def test_a_module_sees_its_parameters() -> None:
    """Names, casts in place, state dict both ways, zero_grad, an optimizer step, copies."""
    module = Holder()
    assert [name for name, _ in module.named_parameters()] == ["params.a", "params.n.w", "layer.weight", "layer.bias"]
    parameter = module.params["a"]
    module.double()
    assert module.params["a"] is parameter
    assert parameter.dtype is torch.float64
    assert module.params["n", "i"].dtype is torch.int64
    (module.params["a"].sum() + module.params["n", "w"].sum()).backward()
    torch.optim.SGD(module.parameters(), lr=1.0).step()
    assert not module.params["a"].any()
    module.zero_grad()
    assert parameter.grad is None
    for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert torch.equal(twin.params["a"], module.params["a"])
        assert twin.params["a"] is not module.params["a"]


@pytest.mark.parametrize("assign", [False, True])
def test_state_dicts_round_trip(assign: bool) -> None:
    """Copied, or put in place as they are; keys that do not fit are torch's error."""
    module, other = Holder(), Holder()
    with torch.no_grad():
        other.params["n", "w"].zero_()
    state = other.state_dict()
    assert set(state) == {f"params.{k}" for k in ("a", "n.i", "n.w", "n.half")} | {"layer.weight", "layer.bias"}
    parameter = module.params["n", "w"]
    module.load_state_dict(state, assign=assign)
    assert not module.params["n", "w"].any()
    assert (module.params["n", "w"] is parameter) is not assign
    assert isinstance(module.params["n", "w"], nn.Parameter)
    for change in ({"params.n.x": torch.zeros(1)}, {"params.n.w": None}):
        wrong = {k: v for k, v in {**state, **change}.items() if v is not None}
        with pytest.raises(RuntimeError, match=next(iter(change)).replace(".", r"\.")):
            module.load_state_dict(wrong)
        module.load_state_dict(wrong, strict=False)


def test_hooks_change_what_is_read() -> None:
    """By key and by iteration; operations see the tensors themselves."""
    params = TensorDictParams(a=torch.ones(2))
    params.register_get_post_hook(lambda params, value: None)
    params.register_get_post_hook(lambda params, value: value.detach() * 2)
    assert params["a"].tolist() == params.get("a").tolist() == [2.0, 2.0]
    assert [value.tolist() for value in params.values()] == [[2.0, 2.0]]
    assert params.data["a"].tolist() == [1.0, 1.0]
    layer = nn.Linear(1, 2)
    both = TensorDictParams(from_module(layer))
    both.register_get_post_hook(lambda params, value: value * 0)
    with both.to_module(layer):
        assert not layer(torch.ones(1, 1)).any()


def test_parameters_in_and_out_of_modules() -> None:
    """`from_module` reaches into containers that a module holds, and `to_module` too."""
    module = Holder()
    found = from_module(module)
    assert found["params", "n", "w"] is module.params["n", "w"]
    before = module.params["n", "w"]
    with found.data.clone().zero_().to_module(module):
        assert not module.params["n", "w"].any()
        assert "n.w" in dict(module.params.named_parameters())
    assert module.params["n", "w"] is before
    layer = nn.Linear(2, 2)
    params = TensorDictParams(from_module(nn.Linear(2, 2)))
    for _ in range(2):
        with params.to_module(layer):
            assert layer.weight is params["weight"]
        params["weight"] = torch.zeros(2, 2)


def test_what_has_no_parameters_of_its_own_is_refused() -> None:
    """A lazy stack, and entries given twice."""
    stack = LazyStackedTensorDict(TensorDict(a=1.0), TensorDict(a=2.0))
    with pytest.raises(StructureError, match="densify"):
        TensorDictParams(stack)
    assert TensorDictParams(stack.densify())["a"].tolist() == [1.0, 2.0]
    with pytest.raises(TypeError, match="not both"):
        TensorDictParams({"a": 1.0}, b=2.0)


def test_repr_names_both_classes() -> None:
    """As the anchor's does."""
    assert repr(TensorDictParams(a=torch.zeros(2))).startswith("TensorDictParams(params=TensorDict(")


@pytest.mark.parametrize("name", ["head", "filter", "sample", "shuffle"])
def test_entries_come_before_methods_of_rows(name: str) -> None:
    """Modules are called `head`: dotted names of parameters lead to the entry, and the method is there without one."""
    params = TensorDictParams(TensorDict({name: {"weight": torch.zeros(2)}}))
    assert torch.equal(getattr(params, name)["weight"], torch.zeros(2))
    assert params.get_parameter(f"{name}.weight") is params[name, "weight"]
    assert callable(getattr(TensorDictParams(TensorDict(other=torch.zeros(2))), name))
