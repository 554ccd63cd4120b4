"""Arithmetic with a container without batch dims: its entries may have fewer event dims, as torch broadcasts them."""

from __future__ import annotations

import operator

import pytest
import tensordict
import torch
from torch import Tensor

import tensorclass
from tensorclass import TensorClass, TensorDict
from tensorclass.errors import StructureError
from tensorclass.typing import Float32

OPERATORS = [operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, operator.lt, operator.eq]


@pytest.mark.parametrize("call", OPERATORS, ids=lambda call: call.__name__)
@pytest.mark.parametrize(("left", "right"), [((4, 3, 1), ()), ((4, 3, 2), (2,)), ((4, 3, 2), (3, 1)), ((4, 2), ())])
def test_results_are_those_of_torch_and_of_the_original(call, left, right):
    """The batch dims of the left side are kept."""
    a, b = torch.rand(left), torch.rand(right)
    found, same = (
        call(library.TensorDict({"a": a}, batch_size=[4]), library.TensorDict({"a": b}, batch_size=[]))
        for library in (tensorclass, tensordict)
    )
    assert torch.equal(found["a"], call(a, b))
    assert torch.equal(found["a"], same["a"])
    assert found.batch_size == same.batch_size == torch.Size([4])


@pytest.mark.parametrize(("left", "right", "size"), [((4,), (2,), []), ((4, 3), (5, 3), []), ((4, 3, 1), (4,), [4])])
def test_event_dims_never_meet_batch_dims(left, right, size):
    """More event dims on the right, or fewer behind batch dims, would be paired with the batch."""
    a, b = TensorDict(a=torch.rand(left), batch_size=[4]), TensorDict(a=torch.rand(right), batch_size=size)
    with pytest.raises(StructureError, match="the same number of dims"):
        a / b


def test_declared_shapes_are_kept():
    """A typed side declares its event dims, so they must be equal."""

    class Row(TensorClass):
        a: Float32[Tensor, "3 1"]

    class One(TensorClass):
        a: Float32[Tensor, ""]

    with pytest.raises(StructureError, match="the same number of dims"):
        Row(a=torch.rand(4, 3, 1)).to_tensordict() / One(a=torch.rand(()))
