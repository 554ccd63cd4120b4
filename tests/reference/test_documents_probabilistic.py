"""The examples of the documents that draw from distributions, with the imports changed."""

from __future__ import annotations

import torch
from torch.distributions import Normal

from tensorclass import TensorDict
from tensorclass.nn import (
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictModule,
    TensorDictSequential,
    set_composite_lp_aggregate,
)
from tensorclass.nn.distributions import NormalParamExtractor
from tensorclass.nn.functional_modules import make_functional

SHAPES = {
    "hidden": (3, 4), "input": (3, 4), "loc": (3, 4), "output": (3, 8), "params": (3, 8), "sample_log_prob": (3, 4),
    "scale": (3, 4),
}  # fmt: skip


def model():
    """The model of document 000."""
    td_module1 = ProbabilisticTensorDictSequential(
        TensorDictModule(torch.nn.Linear(4, 8), in_keys=["input"], out_keys=["params"]),
        TensorDictModule(NormalParamExtractor(), in_keys=["params"], out_keys=["loc", "scale"]),
        ProbabilisticTensorDictModule(
            in_keys=["loc", "scale"],
            out_keys=["hidden"],
            distribution_class=Normal,
            return_log_prob=True,
            log_prob_key="sample_log_prob",  # the name of the document; tensordict 0.15 calls it `hidden_log_prob`
        ),
    )
    td_module2 = TensorDictModule(module=torch.nn.Linear(4, 8), in_keys=["hidden"], out_keys=["output"])
    return TensorDictSequential(td_module1, td_module2)


def test_000_probabilistic_sequence():
    """Entries and shapes as printed."""
    td = TensorDict({"input": torch.randn(3, 4)}, [3])
    td_module = model()
    params = TensorDict.from_module(td_module)
    with params.to_module(td_module):
        assert td_module(td) is td
    assert {key: tuple(value.shape) for key, value in td.items()} == SHAPES
    assert all(value.dtype is torch.float32 for value in td.values())
    assert td.batch_size == (3,)
    assert td.device is None


def test_000_vmap_over_parameters():
    """The same model under vmap, over parameters that are expanded."""
    td = TensorDict({"input": torch.randn(3, 4)}, [3])
    td_module = model()
    params = TensorDict.from_module(td_module).expand(4)

    def call(td, params):
        with params.to_module(td_module):
            return td_module(td)

    result = torch.vmap(call, (None, 0), randomness="same")(td, params)
    assert result.batch_size == (4, 3)
    assert result["output"].shape == (4, 3, 8)


def test_000_make_functional():
    """The old name still takes the parameters out of a module."""
    td_module = model()
    params = make_functional(td_module)
    with params.to_module(td_module):
        assert td_module(TensorDict({"input": torch.randn(3, 4)}, [3]))["output"].shape == (3, 8)


def test_the_aggregate_flag_restores_the_old_name():
    """With the sum asked for, the key is that of the document without saying so."""
    with set_composite_lp_aggregate(True):
        module = ProbabilisticTensorDictModule(["loc", "scale"], ["a"], distribution_class=Normal, return_log_prob=True)
    assert module.out_keys == ["a", "sample_log_prob"]
