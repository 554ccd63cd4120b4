"""Containers of parameters under `torch.vmap`, `torch.func` and `torch.compile`."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tensorclass import TensorDict, TensorDictParams, from_module, from_modules
from tensorclass.errors import StructureError, UnsupportedOperationError
from tests._marks import rest_is_slow

X = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
NET: Any = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def call(params: Any, x: Tensor) -> Tensor:
    """The network with these parameters."""
    with params.to_module(NET):
        found: Tensor = NET(x)
        return found


def loss(params: Any, x: Tensor) -> Tensor:
    """A number."""
    return call(params, x).pow(2).sum()


def flat(params: Any) -> dict[str, Tensor]:
    """The same for `torch.func.functional_call`."""
    return {key: value.detach() for key, value in params.flatten_keys(".").items()}


def plain_loss(params: dict[str, Tensor], x: Tensor) -> Tensor:
    """The same by means of torch alone."""
    found: Tensor = torch.func.functional_call(NET, params, (x,)).pow(2).sum()
    return found


@pytest.fixture(autouse=True)
def _restored() -> Any:
    """Every test leaves the network as it was."""
    before = [id(p) for p in NET.parameters()]
    yield
    assert [id(p) for p in NET.parameters()] == before


@pytest.mark.parametrize("lazy", [False, True])
def test_vmap_over_parameters_is_a_loop_over_modules(lazy: bool) -> None:
    """With one input for all and with one for each; gradients reach the stack, or the members of a lazy one."""
    modules = [nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)) for _ in range(3)]
    params = from_modules(*modules, lazy_stack=lazy)
    shared = torch.vmap(call, (0, None))(params, X)
    torch.testing.assert_close(shared, torch.stack([module(X) for module in modules]))
    own = torch.stack([X, X + 1, X * 2])
    torch.testing.assert_close(
        torch.vmap(call)(params, own), torch.stack([module(x) for module, x in zip(modules, own, strict=True)])
    )
    shared.sum().backward()
    assert (modules[0][0].weight.grad is not None) is lazy
    assert lazy or params["0", "weight"].grad is not None


def test_vmap_over_an_empty_module_on_the_meta_device() -> None:
    """The module need not have memory of its own."""
    empty = nn.Linear(3, 4, device="meta")

    def run(params: Any, x: Tensor) -> Tensor:
        with params.to_module(empty):
            found: Tensor = empty(x)
            return found

    params = from_modules(nn.Linear(3, 4), nn.Linear(3, 4))
    assert torch.vmap(run, (0, None))(params, X).shape == (2, 5, 4)
    assert empty.weight.is_meta


def test_gradients_jacobians_and_hessians_are_those_of_torch() -> None:
    """`grad`, `jacrev`, `jacfwd`, `hessian`, `jvp` over a container of parameters."""
    params = from_module(NET).data.clone()
    dense = flat(params)
    for transform in (torch.func.grad, torch.func.jacrev, torch.func.jacfwd):
        ours, theirs = transform(loss)(params, X), transform(plain_loss)(dense, X)
        for key, value in theirs.items():
            torch.testing.assert_close(ours[tuple(key.split("."))], value)
    hessian = torch.func.hessian(loss)(params, X)["0"]["weight"]["2"]["bias"]
    torch.testing.assert_close(hessian, torch.func.hessian(plain_loss)(dense, X)["0.weight"]["2.bias"])
    tangents = params.apply(torch.ones_like)
    ours = torch.func.jvp(lambda p: loss(p, X), (params,), (tangents,))[1]
    torch.testing.assert_close(ours, torch.func.jvp(lambda p: plain_loss(p, X), (dense,), (flat(tangents),))[1])


def test_forward_mode_without_a_transform() -> None:
    """Dual tensors take the place of parameters as they are."""
    params = from_module(NET).data.clone()
    with torch.autograd.forward_ad.dual_level():
        dual = params.apply(lambda t: torch.autograd.forward_ad.make_dual(t, torch.ones_like(t)))
        tangent = torch.autograd.forward_ad.unpack_dual(loss(dual, X)).tangent
    assert tangent is not None


def test_per_sample_gradients() -> None:
    """`vmap` over inputs of `grad` over parameters."""
    params = from_module(NET).data.clone()
    found = torch.vmap(torch.func.grad(loss), (None, 0))(params, X)
    assert found.batch_size == torch.Size([]) or found["0", "weight"].shape[0] == 5
    for i in range(5):
        one = torch.func.grad(loss)(params, X[i])
        torch.testing.assert_close(found["0", "weight"][i], one["0", "weight"])


def test_parameters_of_a_module_are_an_argument() -> None:
    """A TensorDictParams goes through vmap and grad as a container."""
    params = TensorDictParams(from_modules(NET, NET))
    assert torch.vmap(call, (0, None))(params, X).shape == (2, 5, 2)
    assert type(torch.func.grad(loss)(TensorDictParams(from_module(NET)), X)) is TensorDict


@pytest.mark.parametrize("transform", rest_is_slow(["plain", "vmap", "grad"]))
def test_compiled_code_is_one_graph_with_the_same_results(transform: str) -> None:
    """`torch.compile(fullgraph=True)` of a block, alone and inside a transform, with other values again."""
    functions: dict[str, Any] = {
        "plain": call,
        "vmap": torch.vmap(call, (0, None)),
        "grad": lambda p, x: torch.func.grad(loss)(p, x)["0", "weight"],
    }
    params = from_module(NET).data.clone()
    params = params.expand(3).clone() if transform == "vmap" else params
    compiled = torch.compile(functions[transform], fullgraph=True, backend="eager")
    for values in (params, params * 2):
        torch.testing.assert_close(compiled(values, X), functions[transform](values, X))


def test_compiled_code_refuses_what_does_not_fit() -> None:
    """Missing and unknown names, and options that copy, with the words of eager code where dynamo lets them through."""
    params = from_module(NET).data.clone()
    del params["0", "bias"]
    with pytest.raises((StructureError, torch._dynamo.exc.Unsupported), match=r"0\.bias"):
        torch.compile(call, fullgraph=True, backend="eager")(params, X)

    def copied(params: Any, x: Tensor) -> Tensor:
        with params.to_module(NET, inplace=True):
            found: Tensor = NET(x)
            return found

    with pytest.raises((UnsupportedOperationError, torch._dynamo.exc.Unsupported), match="inplace"):
        torch.compile(copied, fullgraph=True, backend="eager")(from_module(NET).data.clone(), X)


def test_a_compiled_module_is_called_in_a_block() -> None:
    """The block is eager, the module compiled: it computes with the container, and is not compiled again."""
    net = nn.Linear(3, 4)
    compiled = torch.compile(net, backend="eager")
    params = from_module(nn.Linear(3, 4))
    before = compiled(X)
    with params.to_module(net):
        inside = compiled(X)
    torch.testing.assert_close(inside, X @ params["weight"].T + params["bias"])
    torch.testing.assert_close(compiled(X), before)


def test_out_dims_are_a_number_for_one_container() -> None:
    """Torch compares the structure of `out_dims` with that of the result, where a container is a node of its own.

    The anchor takes `(0,)` too (docs/migrating.md).
    """
    batch = TensorDict(a=torch.arange(6.0).reshape(3, 2), batch_size=[3])
    assert torch.equal(torch.vmap(lambda row: row + 1, (0,), 0)(batch)["a"], batch["a"] + 1)
    with pytest.raises(ValueError, match="out_dims"):
        torch.vmap(lambda row: row + 1, (0,), (0,))(batch)
