"""EnsembleModule: copies side by side, chains of ensembles, reset, training."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import tensordict
import tensordict.nn
import torch
from torch import Tensor, nn

from tensorclass import TensorDict, TensorDictParams
from tensorclass.errors import ModuleError
from tensorclass.nn import EnsembleModule, TensorDictModule, TensorDictSequential

DATA = TensorDict(a=torch.randn(10, 4), batch_size=[10])


class Scale(nn.Module):
    """A module that can't reset its parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight


def keyed(*layers: nn.Module) -> Any:
    """A sequence from `a` to `b`."""
    return TensorDictModule(nn.Sequential(*(layers or (nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)))), ["a"], ["b"])


def member(ensemble: Any, number: int, data: Any) -> Any:
    """What one copy computes by itself."""
    with ensemble.params_td[number].to_module(ensemble.module):
        return ensemble.module(data.clone())["b"]


def test_copies_compute_as_they_do_alone() -> None:
    """The outputs have a new first dim; the input is not changed."""
    ensemble = EnsembleModule(keyed(), 3)
    result = ensemble(DATA)
    assert result.batch_size == torch.Size([3, 10])
    assert sorted(DATA.keys()) == ["a"]
    for number in range(3):
        torch.testing.assert_close(result["b"][number], member(ensemble, number, DATA))
    assert not torch.equal(result["b"][0], result["b"][1])


def test_the_result_agrees_with_the_anchor() -> None:
    """With the same parameters, and the same keys and batch sizes."""
    ours = EnsembleModule(keyed(), 3)
    theirs = tensordict.nn.EnsembleModule(
        tensordict.nn.TensorDictModule(ours.module.module, in_keys=["a"], out_keys=["b"]), 3
    )
    theirs.load_state_dict(ours.state_dict(), strict=False)
    expected = theirs(tensordict.TensorDict({"a": DATA["a"]}, [10]))
    got = ours(DATA)
    assert (got.batch_size, sorted(got.keys())) == (expected.batch_size, sorted(expected.keys()))
    torch.testing.assert_close(got["b"], expected["b"])
    assert (ours.in_keys, ours.out_keys) == (theirs.in_keys, theirs.out_keys)
    assert theirs.params_td.batch_size == ours.params_td.batch_size


def test_ensembles_chain() -> None:
    """A second one takes an input for each copy."""
    first = EnsembleModule(TensorDictModule(nn.Linear(4, 3), ["a"], ["h"]), 3)
    second = EnsembleModule(TensorDictModule(nn.Linear(3, 1), ["h"], ["b"]), 3, expand_input=False)
    result = TensorDictSequential(first, second)(DATA)
    assert result["b"].shape == (3, 10, 1)
    torch.testing.assert_close(result["b"][1], member(second, 1, result[1].select("h")))
    with pytest.raises(ModuleError, match="num_copies, 3; the batch size is \\[10\\]"):
        second(TensorDict(h=torch.zeros(10, 3), batch_size=[10]))


def test_only_the_stacked_parameters_are_trained() -> None:
    """An optimizer over them changes each copy by its own gradient."""
    ensemble = EnsembleModule(keyed(), 3)
    assert isinstance(ensemble.params_td, TensorDictParams)
    assert all(name.startswith("params_td.") and p.shape[0] == 3 for name, p in ensemble.named_parameters())
    before = ensemble.params_td.data.clone()
    optimizer = torch.optim.SGD(ensemble.parameters(), lr=0.1)
    ensemble(DATA)["b"][0].pow(2).sum().backward()
    optimizer.step()
    moved = ensemble.params_td.data != before
    assert moved[0].any()
    assert not moved[1:].any()


def test_buffers_and_modes_of_the_copies() -> None:
    """Batch statistics are kept for each copy; eval mode reaches the module that is run."""
    ensemble = EnsembleModule(keyed(nn.Linear(4, 3), nn.BatchNorm1d(3)), 2)
    ensemble(DATA)
    statistics = ensemble.params_td["module", "1", "running_mean"]
    assert not torch.equal(statistics[0], statistics[1])
    kept = statistics.clone()
    ensemble.eval()(DATA)
    assert torch.equal(statistics, kept)
    assert not ensemble.module.training
    assert ensemble.train().module.training


def test_random_operations_need_a_word() -> None:
    """As under `torch.vmap`."""
    with pytest.raises(RuntimeError, match="randomness"):
        EnsembleModule(keyed(nn.Linear(4, 4), nn.Dropout()), 2)(DATA)
    ensemble = EnsembleModule(keyed(nn.Linear(4, 4), nn.Dropout()), 2, randomness="different")
    zeros = ensemble(DATA)["b"] == 0
    assert not torch.equal(zeros[0], zeros[1])


def test_parameters_are_initialised_by_a_function_or_by_the_module() -> None:
    """A module that can't gets a warning, unless there is a function for it."""
    with pytest.warns(UserWarning, match="give `parameter_init_fn`"):
        ensemble = EnsembleModule(TensorDictModule(Scale(), ["a"], ["b"]), 2)
    assert torch.equal(*ensemble.params_td["module", "weight"].unbind(0))

    def init(module: Any) -> None:
        nn.init.normal_(module.module.weight)

    ensemble = EnsembleModule(TensorDictModule(Scale(), ["a"], ["b"]), 2, parameter_init_fn=init)
    assert not torch.equal(*ensemble.params_td["module", "weight"].unbind(0))


def test_reset_gives_each_copy_new_values_in_place() -> None:
    """Of its own parameters, and of others with more batch dims."""
    ensemble = EnsembleModule(keyed(), 3)
    parameter = ensemble.params_td["module", "0", "weight"]
    before = parameter.detach().clone()
    assert ensemble.reset_parameters_recursive() is None
    assert ensemble.params_td["module", "0", "weight"] is parameter
    assert not (parameter == before).any()
    more = torch.stack([ensemble.params_td.data.clone()] * 2)
    kept = more.clone()
    result = ensemble.reset_parameters_recursive(more)
    assert result.batch_size == torch.Size([2, 3])
    assert not (more == kept).any()
    assert (result == more).all()


def test_ensembles_copy_pickle_and_load() -> None:
    """With the same outputs."""
    ensemble = EnsembleModule(keyed(), 3)
    other = EnsembleModule(keyed(), 3)
    other.load_state_dict(ensemble.state_dict())
    for twin in (copy.deepcopy(ensemble), pickle.loads(pickle.dumps(ensemble)), other):
        torch.testing.assert_close(twin(DATA)["b"], ensemble(DATA)["b"])


def test_what_is_no_keyed_module_is_refused() -> None:
    """And so is an ensemble of nothing."""
    with pytest.raises(ModuleError, match="wrap it"):
        EnsembleModule(nn.Linear(2, 2), 2)  # type: ignore[arg-type]  # the test's point
    with pytest.raises(ModuleError, match="at least 1"):
        EnsembleModule(keyed(), 0)
