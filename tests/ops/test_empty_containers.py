"""What counts as an entry: containers of Python objects, shared tensors or entries of single members are not empty."""

from __future__ import annotations

import pytest
import torch

from tensorclass import NonTensorStack, TensorDict, UnbatchedTensor, lazy_stack


@pytest.mark.parametrize("size", [(2,), (0,), (), (2, 1)], ids=str)
@pytest.mark.parametrize("kind", ["object", "object of each", "shared", "deeper", "members"])
def test_a_container_of_anything_is_not_empty(kind: str, size: tuple[int, ...]) -> None:
    """Only containers without any entry are dropped: Python objects and entries of single members are entries."""
    inner = {
        "object": TensorDict(o="x", batch_size=size),
        "object of each": TensorDict(o=NonTensorStack.of(["x", "y"], [2])).expand(*size, 2),
        "shared": TensorDict(u=UnbatchedTensor(torch.zeros(3)), batch_size=size),
        "deeper": TensorDict(m={"o": None}, batch_size=size),
        "members": lazy_stack([TensorDict({f"only{i}": "x"}, size) for i in range(2)], len(size)),
    }[kind]
    batch = TensorDict({"a": torch.zeros(size), "n": inner, "none": {}}, batch_size=size)
    assert list(batch.clone().filter_empty_().keys()) == ["a", "n"]
    assert [list(part.keys()) for part in batch.split_keys(["a"])] == [["a"], ["n"]]
    assert list(batch.apply(lambda leaf: leaf, filter_empty=True).keys()) == ["a", "n"]
    assert list(batch.apply(lambda leaf: leaf).keys()) == ["a", "n", "none"]
