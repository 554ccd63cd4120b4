"""The batch size of an `UnbatchedTensor` is that of the container that it is read from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tensorclass import TensorDict, UnbatchedTensor, lazy_stack

OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "the container": lambda x: x,
    "int": lambda x: x[0],
    "slice": lambda x: x[:2],
    "mask": lambda x: x[torch.tensor([True, False, True])],
    "reshape": lambda x: x.reshape(3, 1),
    "unsqueeze": lambda x: x.unsqueeze(0),
    "expand": lambda x: x.expand(2, 3),
    "clone": lambda x: x.clone(),
    "stack": lambda x: torch.stack([x, x]),
    "cat": lambda x: torch.cat([x, x]),
    "lazy_stack": lambda x: lazy_stack([x, x]),
    "apply": lambda x: x.apply(lambda leaf: leaf + 1),
    "add": lambda x: x + 1,
    "cast": lambda x: x.double(),
    "none": lambda x: x[:0],
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_size_follows_the_container(name: str):
    """It is the same by every way of reading, and the shape stays its own."""
    data = TensorDict(u=UnbatchedTensor(torch.zeros(7)), a=torch.zeros(3, 2), batch_size=[3])
    found = OPERATIONS[name](data)
    values = [found.get("u"), found["u"], dict(found.items())["u"], next(iter(found.values()))]
    assert {value.batch_size for value in values} == {found.batch_size}
    assert {value.shape for value in values} == {torch.Size([7])}
    assert data["u"].batch_size == torch.Size([3])


def test_two_containers_show_their_own_size():
    """A tensor that was read keeps its size when another container shows the same values."""
    shared = UnbatchedTensor(torch.zeros(7))
    assert shared.batch_size == torch.Size([])
    first, second = (TensorDict(u=shared, batch_size=[n]) for n in (3, 4))
    read = first["u"]
    assert second["u"].batch_size == torch.Size([4])
    assert read.batch_size == torch.Size([3])
    assert first["u"] is read
    read.batch_size = [5]
    assert read.batch_size == torch.Size([5])
