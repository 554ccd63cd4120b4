"""Sizes that torch can't count are refused wherever they come in; so are samples without a number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tensorclass import PerElement, TensorClass, TensorDict, lazy_stack
from tensorclass.errors import ArgumentError, BatchSizeError, SchemaError
from tensorclass.nn import ProbabilisticTensorDictModule
from tensorclass.typing import Float32

HUGE = [2**62, 4]


class Word(TensorClass):
    """A class whose instances need no memory for each element."""

    text: PerElement[str] = "a"


def _set_size() -> None:
    TensorDict().batch_size = HUGE


WAYS: dict[str, Callable[[], Any]] = {
    "constructor": lambda: TensorDict(batch_size=HUGE),
    "typed": lambda: Word(batch_size=HUGE),
    "from_dict": lambda: TensorDict.from_dict({}, batch_size=HUGE),
    "batch_size=": _set_size,
    "expand": lambda: TensorDict().expand(*HUGE),
    "expand, one argument": lambda: TensorDict().expand(HUGE),
    "reshape": lambda: TensorDict(batch_size=[0]).reshape(0, *HUGE),
    "lazy": lambda: lazy_stack([TensorDict(batch_size=[4])]).expand(2**62, 1, 4),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_product_over_63_bits(way: str) -> None:
    """The number of elements must fit too, not only each size."""
    with pytest.raises(BatchSizeError, match=r"below 2\*\*63|2\*\*63"):
        WAYS[way]()


def test_sizes_that_fit() -> None:
    """The largest product, and a size of 0 beside any that fit."""
    assert TensorDict(batch_size=[2**61, 3]).batch_size == (2**61, 3)
    assert TensorDict(batch_size=[0, 2**61]).numel() == 0


@pytest.mark.parametrize("given", [-1, [2, -3], 1.5, "2", True])
def test_a_number_of_samples(given: Any) -> None:
    """Numbers from 0, or a shape of them."""
    with pytest.raises((ArgumentError, BatchSizeError), match="num_samples"):
        ProbabilisticTensorDictModule(
            in_keys=["loc", "scale"], out_keys=["x"], distribution_class=torch.distributions.Normal, num_samples=given
        )


@pytest.mark.parametrize("count", [51, 500, 5000])
def test_nested_divisions(count: int) -> None:
    """A dim of many divisions is refused at the definition: each contains the one before."""
    with pytest.raises(SchemaError, match="more than 50 divisions"):
        Float32[Tensor, "//".join(["h"] * (count + 1))]


def test_some_nested_divisions() -> None:
    """Fifty are bound and printed."""

    class Deep(TensorClass):
        x: Float32[Tensor, "h"]
        y: Float32[Tensor, "//".join(["h", *["1"] * 50])]
        z: Float32[Tensor, "//".join(["h"] * 51)]

    assert Deep(x=torch.ones(2, 1), y=torch.ones(2, 1), z=torch.ones(2, 1)).batch_size == (2,)


@pytest.mark.parametrize("inplace", [False, True])
def test_parameters_of_another_shape(inplace: bool) -> None:
    """`to_module` names the parameter and both shapes, and changes nothing."""
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    params = TensorDict.from_module(net).data.clone()
    before = [tensor.clone() for tensor in net.state_dict().values()]
    for key, value in {("0", "weight"): torch.ones(5, 3), ("1", "running_mean"): torch.ones(1)}.items():
        with pytest.raises(ValueError, match=rf"`{'.'.join(key)}` has shape .* in the module, .* in the container"):
            params.clone().set(key, value).to_module(net, inplace=inplace)
    assert all(map(torch.equal, before, net.state_dict().values()))
    stacked = torch.stack([params, params])
    outputs = torch.vmap(lambda one, x: torch.func.functional_call(net.eval(), one, x), (0, None))
    assert outputs(dict(stacked.flatten_keys(".").items()), torch.ones(1, 3)).shape == (2, 1, 4)


def test_the_first_of_a_view() -> None:
    """`next` of keys, values and items goes on from one to the next; a loop over the view begins anew."""
    data = TensorDict(a=torch.zeros(2), n={"b": torch.ones(2)})
    assert next(data.values(True, True)).tolist() == [0, 0]
    assert next(data.keys(True, True)) == "a"
    assert next(data.items(True, True))[0] == "a"
    keys = data.keys(True, True)
    assert [next(keys), next(keys), next(keys, None)] == ["a", ("n", "b"), None]
    assert [*keys] == ["a", ("n", "b")]


@pytest.mark.parametrize("data", [TensorDict(a=torch.zeros(2)), TensorDict(a=torch.zeros(2), n={"b": torch.ones(2)})])
def test_items_and_values_are_snapshots(data: TensorDict) -> None:
    """Values and pairs of the top level are those at the time of the call, whether or not all entries are tensors."""
    items, values, count = data.items(), data.values(), len(data.keys())
    data["late"] = torch.ones(2)
    assert len(items) == len(values) == len([*items]) == count
    assert len([*data.items()]) == count + 1
