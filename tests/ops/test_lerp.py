"""`lerp` over leaves that torch does not interpolate: the counters and flags of a moving average of parameters."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from tensorclass import TensorClass, TensorDict, lazy_stack
from tensorclass.typing import Float32, Int64

INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]


@pytest.mark.parametrize("dtype", [*INTEGERS, torch.bool])
@pytest.mark.parametrize("weight", [0.0, 0.25, 0.5, 1.0])
@pytest.mark.parametrize("beside", [False, True], ids=["integers alone", "beside floats"])
def test_integers_are_interpolated_and_cut(dtype, weight, beside):
    """In place and not, alone and beside floats: what float64 gives, cut to the dtype; the ends are exact."""
    start, end = torch.tensor([0, 1, 7, 100]).to(dtype), torch.tensor([9, 1, 3, 101]).to(dtype)
    more = {"w": torch.ones(4)} if beside else {}
    data, other = TensorDict(n=start.clone(), **more, batch_size=[4]), TensorDict(n=end, **more, batch_size=[4])
    expected = torch.lerp(start.double(), end.double(), weight).to(dtype)
    result = data.lerp(other, weight)
    assert torch.equal(result["n"], expected)
    assert result["n"].dtype == dtype
    held = data["n"]
    assert data.lerp_(other, weight) is data
    assert data["n"] is held
    assert torch.equal(held, expected)


@pytest.mark.parametrize("weight", [torch.tensor(0.5), torch.tensor([0.25, 0.75])], ids=["0-d", "batch"])
def test_weights_that_are_tensors(weight):
    """A tensor over the batch dims weighs integers as it weighs floats."""
    data = TensorDict(n=torch.tensor([0, 8]), w=torch.tensor([0.0, 8.0]), batch_size=[2])
    result = data.lerp(data + 8, weight)
    assert torch.equal(result["n"], result["w"].long())


def test_equal_counters_stay():
    """Rounding never takes one off a value that does not change."""
    data = TensorDict(n=torch.arange(1000), batch_size=[1000])
    for weight in (0.001, 0.1, 0.3, 0.999):
        assert torch.equal(data.lerp(data, weight)["n"], data["n"])


class Counted(TensorClass):
    """A weight and a counter."""

    w: Float32[Tensor, "2"]
    n: Int64[Tensor, ""]


@pytest.mark.parametrize("kind", ["typed", "lazy", "nested"])
def test_containers(kind):
    """Typed batches keep their dtypes; lazy stacks and nested containers are written where they are."""
    batch = Counted(w=torch.zeros(3, 2), n=torch.tensor([0, 10, 20]))
    target = {"typed": batch, "lazy": lazy_stack(list(batch.unbind())), "nested": TensorDict(x=batch, batch_size=[3])}[
        kind
    ]
    target.lerp_(target + 10, 0.5)
    found = target["x"] if kind == "nested" else target
    assert found.n.tolist() == [5, 15, 25]
    assert torch.equal(found.w, torch.full((3, 2), 5.0))


def test_moving_average_of_a_module():
    """Parameters and buffers in one call, as torch's own averaging does it where the counter does not fall between."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4))
    torchs = AveragedModel(module, multi_avg_fn=get_ema_multi_avg_fn(0.5), use_buffers=True)
    torchs.update_parameters(module)
    average = TensorDict.from_module(module).data.clone()
    for _ in range(3):
        for _ in range(2):
            module(torch.randn(5, 2))
        torchs.update_parameters(module)
        average.lerp_(TensorDict.from_module(module).data, 0.5)
    expected = TensorDict.from_module(torchs.module).data
    assert average["1", "num_batches_tracked"].dtype == torch.int64
    assert average["1", "num_batches_tracked"] == expected["1", "num_batches_tracked"]
    torch.testing.assert_close(average["1", "running_mean"], expected["1", "running_mean"])
    torch.testing.assert_close(average["0", "weight"], expected["0", "weight"])
