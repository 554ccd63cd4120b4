"""The documents' examples on parameters outside of modules, result for result, with the import changed."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn, vmap

from tensorclass import LazyStackedTensorDict, TensorDict, from_modules
from tensorclass.nn import TensorDictModule, TensorDictSequential, make_functional
from tensorclass.nn.functional_modules import extract_weights_and_buffers, get_functional, is_functional


def layers() -> tuple[nn.Linear, nn.Linear, nn.Module]:
    """Two layers and the model of both."""
    layer1, layer2 = nn.Linear(3, 4), nn.Linear(4, 4)
    return layer1, layer2, nn.Sequential(layer1, layer2)


def gru() -> tuple[Any, Any]:
    """A keyed cell and its input."""
    data = TensorDict({"input": torch.randn(3, 4), "hidden": torch.randn(3, 8)}, [3])
    return data, TensorDictModule(module=nn.GRUCell(4, 8), in_keys=["input", "hidden"], out_keys=["output"])


def test_functional_programming_of_the_readme() -> None:
    """Document 003: parameters of a model, a functional call, an ensemble."""
    layer1, layer2, model = layers()
    params = TensorDict.from_module(model)
    weights1 = TensorDict(layer1.state_dict(), []).unflatten_keys(".")
    weights2 = TensorDict(layer2.state_dict(), []).unflatten_keys(".")
    assert (params == TensorDict({"0": weights1, "1": weights2}, [])).all()
    x = torch.randn(10, 3)
    with params.to_module(model):
        out = model(x)
    torch.testing.assert_close(out, model(x))
    params_stack = torch.stack([params, params], 0)

    def func(x: Tensor, params: Any) -> Tensor:
        with params.to_module(model):
            found: Tensor = model(x)
            return found

    y = vmap(func, (None, 0))(x, params_stack)
    assert y.shape == torch.Size([2, 10, 4])


def test_parameters_onto_a_model_and_onto_a_slice_of_it() -> None:
    """Document 003: the values go to the whole model, or to one layer."""
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 3))
    params = TensorDict.from_module(model).data.clone()
    params.to_module(model)
    params["0"].zero_()
    params["0"].to_module(model[0])
    assert not model[0].weight.any()
    assert model[1].weight.any()


def test_make_functional_of_the_early_readme() -> None:
    """Document 004: parameters as the last argument or by name, and vmap over them."""
    layer1, layer2, model = layers()
    weights1 = TensorDict(layer1.state_dict(), []).unflatten_keys(separator=".")
    weights2 = TensorDict(layer2.state_dict(), []).unflatten_keys(separator=".")
    x = torch.randn(10, 3)
    expected = model(x)
    params = make_functional(model)
    assert (params == TensorDict({"0": weights1, "1": weights2}, [])).all()
    out = model(x, params=params)
    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(model(x, params), expected)
    params_stack = torch.stack([params, params], 0)
    y = vmap(model, (None, 0))(x, params_stack)
    assert y.shape == torch.Size([2, 10, 4])
    with pytest.raises(RuntimeError, match="call it with `params=`"):
        model(x)


def test_functional_modules_keep_parameters_on_request() -> None:
    """The old names beside `make_functional`."""
    model = get_functional(nn.Linear(3, 4))
    assert is_functional(model)
    assert isinstance(model, nn.Linear)
    x = torch.randn(2, 3)
    zeros = extract_weights_and_buffers(model).data.clone().zero_()
    assert not model(x, zeros).any()
    assert model(x).any()
    assert make_functional(model, return_params=False) is None


def test_functional_calls_of_a_keyed_module() -> None:
    """Document 001: a call with parameters gives what the stateful call gives."""
    td, td_module = gru()
    params = TensorDict.from_module(td_module)
    with params.to_module(td_module):
        td_functional = td_module(td.clone())
    td_stateful = td_module(td.clone())
    for result in (td_functional, td_stateful):
        assert result.batch_size == torch.Size([3])
        shapes = {key: tuple(value.shape) for key, value in result.items()}
        assert shapes == {"hidden": (3, 8), "input": (3, 4), "output": (3, 8)}
    torch.testing.assert_close(td_functional["output"], td_stateful["output"])


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # of torch, about its GRU cell under vmap
def test_vmap_over_a_keyed_module() -> None:
    """Document 001: expanded parameters, one output for each."""
    td, td_module = gru()
    params_repeat = extract_weights_and_buffers(td_module).expand(4)
    assert params_repeat.batch_size == torch.Size([4])
    shapes = {key: tuple(value.shape) for key, value in params_repeat["module"].items()}
    assert shapes == {"bias_hh": (4, 24), "bias_ih": (4, 24), "weight_hh": (4, 24, 8), "weight_ih": (4, 24, 4)}

    def func(td: Any, params: Any) -> Any:
        with params.to_module(td_module):
            return td_module(td)

    td_vmap = vmap(func, (None, 0))(td.clone(), params_repeat)
    assert td_vmap.batch_size == torch.Size([4, 3])
    shapes = {key: tuple(value.shape) for key, value in td_vmap.items()}
    assert shapes == {"hidden": (4, 3, 8), "input": (4, 3, 4), "output": (4, 3, 8)}


def test_vmap_over_a_keyed_sequence() -> None:
    """Document 000: the sequence's parameters, for a block and under vmap."""
    td = TensorDict({"input": torch.randn(3, 4)}, [3])
    td_module = TensorDictSequential(
        TensorDictModule(nn.Linear(4, 8), in_keys=["input"], out_keys=["params"]),
        TensorDictModule(lambda t: t.chunk(2, -1), in_keys=["params"], out_keys=["loc", "scale"]),
        TensorDictModule(nn.Linear(4, 8), in_keys=["loc"], out_keys=["output"]),
    )
    params = TensorDict.from_module(td_module)
    with params.to_module(td_module):
        _ = td_module(td)
    assert td["output"].shape == (3, 8)

    def func(td: Any, params: Any) -> Any:
        with params.to_module(td_module):
            return td_module(td)

    td_vmap = vmap(func, (None, 0))(td, params.expand(4))
    assert td_vmap.batch_size == torch.Size([4, 3])
    assert td_vmap["output"].shape == (4, 3, 8)


def test_from_modules_dense() -> None:
    """Document 002: new parameters, whose gradients do not reach the modules."""
    torch.manual_seed(0)
    empty_module = nn.Linear(3, 4, device="meta")
    n_models = 2
    modules = [nn.Linear(3, 4) for _ in range(n_models)]
    params = from_modules(*modules)
    assert {k: (type(v), tuple(v.shape)) for k, v in params.items()} == {
        "bias": (nn.Parameter, (2, 4)),
        "weight": (nn.Parameter, (2, 4, 3)),
    }

    def exec_module(params: Any, x: Tensor) -> Tensor:
        with params.to_module(empty_module):
            found: Tensor = empty_module(x)
            return found

    x = torch.randn(3)
    y = torch.vmap(exec_module, (0, None))(params, x)
    assert y.shape == (n_models, 4)
    y.sum().backward()
    assert params["weight"].grad.norm() > 0
    assert modules[0].weight.grad is None


def test_from_modules_lazy() -> None:
    """Document 002: the modules' own parameters; vmap takes the dense form, and gradients go through it."""
    modules = [nn.Linear(3, 4) for _ in range(2)]
    empty_module = nn.Linear(3, 4, device="meta")
    params = TensorDict.from_modules(*modules, lazy_stack=True)
    assert isinstance(params, LazyStackedTensorDict)
    assert params.stack_dim == 0
    assert {k: (type(v), tuple(v.shape)) for k, v in params.items()} == {
        "bias": (Tensor, (2, 4)),
        "weight": (Tensor, (2, 4, 3)),
    }

    def exec_module(params: Any, x: Tensor) -> Tensor:
        with params.to_module(empty_module):
            found: Tensor = empty_module(x)
            return found

    y = torch.vmap(exec_module, (0, None))(params.densify(), torch.randn(3))
    assert y.shape == (2, 4)
    y.sum().backward()
    assert modules[0].weight.grad is not None
