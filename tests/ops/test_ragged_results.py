"""`apply(batch_size=[n, -1])`: the function returns ragged tensors of n elements."""

from __future__ import annotations

import pytest
import tensordict
import torch

import tensorclass
from tensorclass import lazy_stack
from tensorclass.errors import BatchSizeError


def data(library):
    """Five steps of two episodes, with a nested container."""
    nested = library.TensorDict({"b": torch.arange(5.0)}, batch_size=[5])
    return library.TensorDict({"a": torch.arange(10.0).reshape(5, 2), "n": nested}, batch_size=[5])


def episodes(layout):
    """Cuts a tensor into its episodes."""
    return lambda x: torch.nested.nested_tensor([x[:2], x[2:]], layout=layout)


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged], ids=str)
@pytest.mark.parametrize("named", [False, True])
def test_episodes(layout, named):
    """The elements are those of the original, which takes the strided layout only."""
    split = episodes(layout)
    function = (lambda key, x: split(x)) if named else split
    found = data(tensorclass).apply(function, batch_size=[2, -1], named=named)
    original = data(tensordict).apply(episodes(torch.strided), batch_size=[2, -1])
    assert found.batch_size == found["n"].batch_size == torch.Size([2])
    for i in range(2):
        assert torch.equal(found[i]["a"], original[i]["a"])
        assert torch.equal(found[i]["n", "b"], original[i]["n", "b"])


def test_even_results_are_refused():
    """A -1 says that the sizes differ; a tensor that has one size names its entry."""
    with pytest.raises(BatchSizeError, match=r"`b` is a Tensor of shape \[5\]"):
        data(tensorclass)["n"].apply(lambda x: x + 1, batch_size=[5, -1])
    with pytest.raises(BatchSizeError, match="no negative entries"):
        data(tensorclass).apply(episodes(torch.jagged), batch_size=[2, -2])


def test_lazy_stacks_keep_their_size():
    """The batch size of a stack of unlike members has a -1 itself."""
    row = data(tensorclass)
    stack = lazy_stack([row, row[:3]])
    assert stack.apply(lambda x: x + 1, batch_size=stack.batch_size).batch_size == stack.batch_size
