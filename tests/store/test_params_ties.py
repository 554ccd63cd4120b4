"""Parameters that stand in several places, through every way to copy; hooks through every way to read."""

import copy
import io
import pickle

import pytest
import torch
import torch.utils._pytree as pytree
from torch import Tensor, nn

from tensorclass import TensorDict, TensorDictParams, from_module, from_modules
from tensorclass.nn import TensorDictModule


class Tied(nn.Module):
    """A weight of two layers, and a buffer under two names."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(2, 2), nn.Linear(2, 2)
        self.b.weight = self.a.weight
        self.register_buffer("u", torch.ones(2))
        self.register_buffer("v", self.u)


class Holder(nn.Module):
    """A module with such parameters beside it."""

    def __init__(self, params):
        super().__init__()
        self.params = params


def saved(params):
    """Written to a file and read."""
    file = io.BytesIO()
    torch.save(params, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


def loaded(params):
    """Another one of the same structure, with the state of this one."""
    other = make()
    other.load_state_dict(params.state_dict())
    return other


def make():
    """Parameters of a module with ties."""
    return from_module(Tied(), as_module=True)


WAYS = {
    "itself": lambda p: p,
    "clone": lambda p: p.clone(),
    "clone of the structure": lambda p: p.clone(recurse=False),
    "copy": lambda p: p.copy(),
    "copy.copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda p: pickle.loads(pickle.dumps(p)),
    "torch.save": saved,
    "another dtype": lambda p: p.to(torch.float64),
    "the same device": lambda p: p.to("cpu"),
    "another device": lambda p: p.to("meta"),
    "cpu": lambda p: p.cpu(),
    "constructor": TensorDictParams,
    "state dict": loaded,
    "in a module, deepcopy": lambda p: copy.deepcopy(Holder(p)).params,
    "in a module, double": lambda p: Holder(p).double().params,
    "from_modules": lambda p: from_modules(Tied(), Tied(), as_module=True),
    "from_modules, state dicts": lambda p: from_modules(Tied(), Tied(), as_module=True, use_state_dict=True),
}


@pytest.mark.parametrize("way", list(WAYS))
def test_ties_are_kept(way):
    """One parameter under two keys is one afterwards: an optimizer steps it once, a network stays tied."""
    made = WAYS[way](make())
    assert isinstance(made, TensorDictParams)
    assert made["a", "weight"] is made["b", "weight"]
    assert made["u"] is made["v"] or way == "in a module, double"  # where torch makes a buffer of each
    assert made["a", "bias"] is not made["b", "bias"]
    assert len(list(made.parameters())) == 3


def test_plain_tensors_that_are_one_become_one_parameter():
    """In the constructor, where tensors are converted."""
    tensor = torch.ones(2)
    params = TensorDictParams({"a": tensor, "n": {"b": tensor}, "c": tensor.clone()})
    assert params["a"] is params["n", "b"]
    assert len(list(params.parameters())) == 2


def test_tied_parameters_are_trained_as_one():
    """Stacked parameters of tied modules still fit the module after a step."""
    params = from_modules(Tied(), Tied(), as_module=True)
    net = Tied()

    def run(params, x):
        with params.to_module(net):
            return net.b(net.a(x))

    optimizer = torch.optim.SGD(params.parameters(), 0.1)
    for _ in range(2):
        optimizer.zero_grad()
        torch.vmap(run, (0, None))(params, torch.ones(2)).sum().backward()
        optimizer.step()
    assert params["a", "weight"].grad is not None


# ---- state dicts -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("from_flatten", [None, True, False])
@pytest.mark.parametrize("flatten", [True, False])
def test_flat_and_nested_state_dicts(flatten, from_flatten):
    """Both are written and read, whatever is said of them."""
    params = TensorDictParams({"a": torch.ones(2), "n": {"b": torch.ones(2), "m": {"c": torch.ones(1)}}})
    state = params.state_dict(flatten=flatten)
    assert list(state) == (["a", "n.b", "n.m.c"] if flatten else ["a", "n"])
    other = params.clone()
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    assert not other.load_state_dict(state, from_flatten=from_flatten).missing_keys
    assert (other["n", "m", "c"].item(), other["a"][0].item()) == (1, 1)
    with pytest.raises(RuntimeError, match=r"n\.z"):
        other.load_state_dict({**state, "n": {"z": torch.ones(1)}}, from_flatten=from_flatten)


# ---- hooks -----------------------------------------------------------------------------------------------------------


def hooked(batch_size=()):
    """Parameters that read as 100, and the containers that the hook was called with."""
    ones = [torch.ones(*batch_size, 3) for _ in range(3)]
    params = TensorDictParams(TensorDict({"a": ones[0], "n": {"b": ones[1], "m": {"c": ones[2]}}}, batch_size))
    owners = []
    params.register_get_post_hook(lambda owner, value: owners.append(owner) or value.detach() * 100)
    return params, owners


READS = {
    "key": lambda p: p["a"],
    "get": lambda p: p.get("a"),
    "nested key": lambda p: p["n", "b"],
    "deeper key": lambda p: p["n", "m", "c"],
    "nested get": lambda p: p.get(("n", "b")),
    "container, then key": lambda p: p["n"]["b"],
    "container, then nested key": lambda p: p["n"]["m", "c"],
    "get of get": lambda p: p.get("n").get("m").get("c"),
    "attribute": lambda p: p.a,
    "nested attribute": lambda p: p.n.m.c,
    "values": lambda p: next(iter(p.values())),
    "items": lambda p: dict(p.items())["a"],
    "nested values": lambda p: list(p.values(True, True)),
    "nested items": lambda p: [value for _, value in p.items(True, True)],
    "values of a container": lambda p: list(p["n"].values(True, True)),
    "setdefault": lambda p: p.setdefault(("n", "b"), torch.zeros(3)),
    "to_dict": lambda p: [p.to_dict()["a"], p.to_dict()["n"]["m"]["c"]],
    "to_namedtuple": lambda p: p.to_namedtuple().n.b,
    "select": lambda p: p.select(("n", "b"))["n", "b"],
    "flatten_keys": lambda p: list(p.flatten_keys().values()),
    "another container": lambda p: TensorDict(p)["n", "b"],
    "update of another container": lambda p: TensorDict().update(p)["n", "m", "c"],
    "pytree": pytree.tree_leaves,
    "keyed module": lambda p: TensorDictModule(lambda x: x, [("n", "b")], ["o"], inplace=False)(p)["o"],
    "inside another container": lambda p: TensorDict(p=p)["p", "n", "b"],
}


@pytest.mark.parametrize("name", list(READS))
def test_hooks_see_every_read(name):
    """By key, nested or not, by view, by pytree; the hook gets the container that it was registered on."""
    params, owners = hooked()
    found = READS[name](params)
    for value in found if isinstance(found, list) else [found]:
        assert (value == 100).all()
    assert owners
    assert all(owner is params for owner in owners)


COMPUTES = {
    "arithmetic": lambda p: (p * 1)["n", "b"],
    "apply": lambda p: p.apply(lambda x: x * 1)["n", "b"],
    "clone": lambda p: p.clone()["n", "b"],
    "data": lambda p: p.data["n", "b"],
    "detach": lambda p: p.detach()["n", "b"],
    "state_dict": lambda p: p.state_dict()["n.b"],
    "parameters": lambda p: next(iter(p.parameters())),
    "named_parameters": lambda p: dict(p.named_parameters())["n.b"],
    "index": lambda p: hooked((2,))[0][0]["n", "b"],
    "unbind": lambda p: hooked((2,))[0].unbind(0)[0]["n", "b"],
}


@pytest.mark.parametrize("name", list(COMPUTES))
def test_operations_see_the_tensors(name):
    """What works on all tensors at once does not read them one by one."""
    assert (COMPUTES[name](hooked()[0]) == 1).all()


def test_writes_below_hooks_reach_the_parameters():
    """A nested container that was read through a hook is the one that is stored."""
    params, _ = hooked()
    params["n"]["new"] = torch.zeros(2)
    params["n", "m", "d"] = torch.zeros(2)
    assert sorted(name for name, _ in params.named_parameters()) == ["a", "n.b", "n.m.c", "n.m.d", "n.new"]
    assert isinstance(dict(params.named_parameters())["n.new"], Tensor)
