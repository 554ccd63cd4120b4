"""Shared parameters stay shared, through every way out of a module and into one."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensordict
import torch
from torch import Tensor, nn

import tensorclass
from tensorclass import TensorDict, TensorDictParams
from tensorclass.nn import EnsembleModule, TensorDictModule


class Named(nn.Module):
    """Two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)


def one_weight() -> nn.Module:
    """Two layers with one weight."""
    net = Named()
    net.b.weight = net.a.weight
    return net


def one_layer() -> nn.Module:
    """One layer under two names."""
    layer = nn.Linear(3, 3)
    return nn.Sequential(layer, nn.ReLU(), layer)


def one_buffer() -> nn.Module:
    """Two layers with one buffer."""
    net = Named()
    net.a.register_buffer("scale", torch.ones(3))
    net.b.register_buffer("scale", net.a.scale)
    return net


def crossed() -> nn.Module:
    """A weight of one layer that is an attribute of the parent too, as in tied embeddings."""
    net = Named()
    net.head = net.a.weight
    return net


NETS = [one_weight, one_layer, one_buffer, crossed]
nets = pytest.mark.parametrize("make", NETS, ids=lambda make: make.__name__)


def classes(leaves: dict[Any, Tensor]) -> set[frozenset[Any]]:
    """The names that share memory."""
    found: dict[int, set[Any]] = {}
    for name, leaf in leaves.items():
        found.setdefault(leaf.data_ptr(), set()).add(name)
    return {frozenset(names) for names in found.values()}


def of_module(net: nn.Module) -> set[frozenset[Any]]:
    """The ties of a module."""
    tensors = [*net.named_parameters(remove_duplicate=False), *net.named_buffers(remove_duplicate=False)]
    return classes({tuple(name.split(".")): leaf for name, leaf in tensors})


def of_container(params: Any) -> set[frozenset[Any]]:
    """The ties of a container."""
    leaves = params.items(True, True)
    return classes({key if isinstance(key, tuple) else (key,): leaf for key, leaf in leaves})


def saved(params: Any) -> Any:
    """Written and read by `torch.save`."""
    file = io.BytesIO()
    torch.save(params, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


OUT: dict[str, Callable[[nn.Module], Any]] = {
    "container": TensorDict.from_module,
    "parameters": lambda net: TensorDict.from_module(net, as_module=True),
    "state dict": lambda net: TensorDict.from_module(net, use_state_dict=True),
    "locked": lambda net: TensorDict.from_module(net, lock=True),
    "data": lambda net: TensorDict.from_module(net).data,
    "params of a container": lambda net: TensorDictParams(TensorDict.from_module(net)),
    "params of values": lambda net: TensorDictParams(TensorDict.from_module(net).data),
    "clone": lambda net: TensorDict.from_module(net, as_module=True).clone(),
    "cast": lambda net: TensorDict.from_module(net, as_module=True).to(torch.float64),
    "deep copy": lambda net: copy.deepcopy(TensorDict.from_module(net, as_module=True)),
    "pickle": lambda net: pickle.loads(pickle.dumps(TensorDict.from_module(net, as_module=True))),
    "saved": lambda net: saved(TensorDict.from_module(net, as_module=True)),
}


def loaded(net: nn.Module) -> Any:
    """Parameters that took a state dict."""
    params = TensorDict.from_module(copy.deepcopy(net), as_module=True)
    params.load_state_dict(TensorDict.from_module(net, as_module=True).state_dict())
    return params


OUT["loaded"] = loaded


@nets
@pytest.mark.parametrize("out", OUT)
def test_out_of_a_module(make: Callable[[], nn.Module], out: str) -> None:
    """The container has the ties of the module, and no others."""
    net = make()
    assert of_container(OUT[out](net)) == of_module(net)


def params_of(make: Callable[[], nn.Module], path: Path, how: str) -> Any:
    """The values of another net of the kind, from memory or files."""
    values = TensorDict.from_module(make()).data
    if how in ("load", "load_memmap"):
        values.memmap(path / "s")
        return getattr(TensorDict, how)(path / "s")
    return values if how == "values" else TensorDictParams(values)


@nets
@pytest.mark.parametrize("how", ["values", "parameters", "load", "load_memmap"])
@pytest.mark.parametrize("way", ["for good", "in place", "in a block", "state dict"])
def test_into_a_module(make: Callable[[], nn.Module], how: str, way: str, tmp_path: Path) -> None:
    """The module has its ties while other values are in it, and afterwards; its parameters are parameters."""
    net, params = make(), params_of(make, tmp_path, how)
    ties, names = of_module(net), dict(net.named_parameters())
    if way == "in a block":
        with params.to_module(net):
            seen = of_module(net), dict(net.named_parameters())
    else:
        params.to_module(net, inplace=way == "in place" or None, use_state_dict=way == "state dict")
        seen = of_module(net), dict(net.named_parameters())
    if way != "state dict" or how in ("values", "parameters"):  # `load_state_dict` knows no ties, as torch's
        assert seen[0] == ties
    assert of_module(net) == ties or way == "state dict"
    assert seen[1].keys() == names.keys() or way == "state dict"
    assert all(type(value) is nn.Parameter for value in seen[1].values())
    for key, value in params.items(True, True):
        if way not in ("in a block",):
            name = key if isinstance(key, str) else ".".join(key)
            assert torch.equal(net.get_parameter(name) if name in seen[1] else value, value)


def modules_with_one(lib: Any) -> tuple[nn.Linear, list[nn.Module]]:
    """Three modules that share their first layer."""
    shared = nn.Linear(3, 3)
    return shared, [nn.Sequential(shared, nn.Linear(3, 4)) for _ in range(3)]


@pytest.mark.parametrize("as_module", [False, True])
@pytest.mark.parametrize("expand", [False, True])
@pytest.mark.parametrize("lib", [tensordict, tensorclass], ids=lambda lib: lib.__name__)
def test_a_layer_of_several_modules(lib: Any, expand: bool, as_module: bool) -> None:
    """Expanded, a shared layer is a view of the one parameter, which gets the gradient; else each copy is its own."""
    shared, modules = modules_with_one(lib)
    params = lib.TensorDict.from_modules(*modules, as_module=as_module, expand_identical=expand)
    weight = params["0", "weight"]
    assert weight.shape == (3, 3, 3)
    assert (weight.data_ptr() == shared.weight.data_ptr()) is expand
    for _ in range(2):
        weight.sum().backward()
    assert (shared.weight.grad is not None) is expand
    if as_module:
        own = {name for name, _ in params.named_parameters()}
        assert own == ({"1.weight", "1.bias"} if expand else {"0.weight", "0.bias", "1.weight", "1.bias"})
        assert set(params.state_dict()) == {"0.weight", "0.bias", "1.weight", "1.bias"}


def test_an_optimizer_trains_the_shared_layer() -> None:
    """A step on the shared parameter is seen through the expanded view."""
    shared, modules = modules_with_one(tensorclass)
    params = TensorDict.from_modules(*modules, as_module=True, expand_identical=True)
    optimizer = torch.optim.SGD([*params.parameters(), *shared.parameters()], lr=0.1)
    before = shared.weight.detach().clone()
    params["0", "weight"].sum().backward()
    optimizer.step()
    assert not torch.equal(shared.weight, before)
    assert torch.equal(params["0", "weight"][2], shared.weight)


@pytest.mark.parametrize(
    "twin", [copy.deepcopy, lambda params: params.clone(), lambda params: params.to(torch.float64)]
)
def test_copies_of_an_expanded_layer(twin: Callable[[Any], Any]) -> None:
    """A copy of expanded parameters has the values, and memory of its own."""
    shared, modules = modules_with_one(tensorclass)
    params = TensorDict.from_modules(*modules, as_module=True, expand_identical=True)
    made = twin(params)
    assert type(made) is TensorDictParams
    assert torch.equal(made["0", "weight"].float(), params["0", "weight"])
    assert made["0", "weight"].data_ptr() != shared.weight.data_ptr()


@nets
def test_an_ensemble_keeps_ties(make: Callable[[], nn.Module]) -> None:
    """The stacked parameters of copies of a module with ties have the same ties."""
    net = make()
    net.forward = lambda x: net.get_parameter(next(iter(dict(net.named_parameters())))) * x  # type: ignore[method-assign]
    ensemble = EnsembleModule(TensorDictModule(net, in_keys=["x"], out_keys=["y"]), num_copies=2)
    made = {tuple(sorted(k[1:] for k in group)) for group in of_container(ensemble.params_td)}
    assert made == {tuple(sorted(group)) for group in of_module(net)}


@pytest.mark.parametrize("block", [False, True])
@pytest.mark.parametrize("lib", [tensordict, tensorclass], ids=lambda lib: lib.__name__)
def test_a_parameter_for_a_buffer_is_a_buffer(lib: Any, block: bool) -> None:
    """What replaces a buffer is no parameter, whatever it was in the container."""
    norm = nn.BatchNorm1d(3)
    values = {"running_mean": nn.Parameter(torch.ones(3)), "running_var": nn.Parameter(torch.ones(3))}
    others = {"weight": norm.weight, "bias": norm.bias, "num_batches_tracked": norm.num_batches_tracked}
    params = lib.TensorDict({**values, **others})
    if block:
        with params.to_module(norm):
            kinds = {name: type(buffer) for name, buffer in norm.named_buffers()}
    else:
        params.to_module(norm)
        kinds = {name: type(buffer) for name, buffer in norm.named_buffers()}
    assert set(kinds.values()) == {Tensor}
    assert [name for name, _ in norm.named_parameters()] == ["weight", "bias"]


def test_preserving_nothing_is_seen_by_name() -> None:
    """Plain tensors that replace parameters stay in the state dict, unlike in the anchor (docs/migrating.md)."""
    net = nn.Linear(3, 3)
    TensorDict.from_module(net).data.clone().to_module(net, preserve_module_state=False)
    assert type(net.weight) is Tensor
    assert sorted(net.state_dict()) == ["bias", "weight"]
