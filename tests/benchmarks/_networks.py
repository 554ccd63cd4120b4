"""The data of the rows on parameters: a network of Linear layers, and its parameters in a container of each kind."""

from __future__ import annotations

import importlib.util
from typing import Any

import tensordict
import torch
from torch import Tensor, nn

import tensorclass

from ._row import Candidate

PARAMETERS = {"12 parameters": 6, "64 parameters": 32}
COPIES = 4


def network(candidate: Candidate, sample: str) -> dict[str, Any]:
    """What a statement may mention.

    net, x: the network and its input; params, loose, plain: its parameters in a locked and an unlocked container, and
    their values; one(net, params, x): a functional call; batched(stacked, x): the same over copies of the values.
    """
    generator = torch.Generator().manual_seed(0)
    layers = [layer for _ in range(PARAMETERS[sample]) for layer in (nn.Linear(8, 8), nn.Tanh())]
    net, x = nn.Sequential(*layers), torch.rand(4, 8, generator=generator)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.rand(parameter.shape, generator=generator))
    if candidate == "raw":
        params: Any = dict(net.named_parameters())
        stacked: Any = {name: value.detach().expand(COPIES, *value.shape).clone() for name, value in params.items()}
        return {"net": net, "x": x, "params": params, "stacked": stacked, **_calls(net, _raw, _vmap_of_torch)}
    library: Any = tensordict if candidate in ("anchor_class", "anchor_dict") else tensorclass
    params = library.from_module(net)
    stacked = params.data.expand(COPIES).clone()
    made = {"params": params, "loose": library.TensorDict.from_module(net), "plain": params.data.clone()}
    vmap: Any = torch.vmap if library is tensordict else _vmap_of_torch
    return {"net": net, "x": x, **made, "stacked": stacked, **_calls(net, _swapped, vmap)}


def _raw(net: Any, params: Any, x: Tensor) -> Any:
    return torch.func.functional_call(net, params, (x,))


def _swapped(net: Any, params: Any, x: Tensor) -> Any:
    with params.to_module(net):
        return net(x)


def _calls(net: Any, one: Any, vmap: Any) -> dict[str, Any]:
    return {"one": one, "batched": vmap(lambda params, x: one(net, params, x), (0, None))}


def _vmap_of_torch(func: Any, in_dims: Any) -> Any:
    """`torch.vmap` as torch ships it: the anchor replaces parts of it for all callers when it is imported."""
    spec: Any = importlib.util.find_spec("torch._functorch.vmap")
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return lambda *args: module.vmap_impl(func, in_dims, 0, "error", None, *args)
