"""Instances around untyped stores keep their declaration when they are joined."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import TensorClass, lazy_stack
from tensorclass.typing import Float32


class Inner(TensorClass):
    """A list that all elements share."""

    b: list[int]
    y: Float32[Tensor, ""]


class Outer(TensorClass):
    """A nested field."""

    v: Inner
    z: Float32[Tensor, ""]


class Outermost(TensorClass):
    """Two levels of nested fields."""

    w: Outer


JOINS: dict[str, Callable[[list[Any]], Any]] = {
    "lazy_stack": lazy_stack,
    "lazy_stack along 1": lambda items: lazy_stack(items, 1),
    "stack": torch.stack,
    "cat": torch.cat,
    "stack of lazy stacks": lambda items: torch.stack([lazy_stack(items), lazy_stack(items)]),
    "lazy stack of lazy stacks": lambda items: lazy_stack([lazy_stack(items), lazy_stack(items)]),
    "one": lambda items: items[0],
}


@pytest.mark.parametrize("join", JOINS)
def test_a_declared_list_stays_one_list(join: str):
    """A `list[int]` of the batch is read as declared at any depth, whatever the join, and goes through JSON."""
    inner = Outer(v=Inner(b=[1, 2], y=torch.zeros(2)), z=torch.zeros(2))
    store = Outermost(w=inner).to_tensordict()
    batch = JOINS[join]([Outermost.from_tensordict(store), Outermost.from_tensordict(store.clone())])
    assert isinstance(batch.w.v, Inner)
    assert batch.w.v.b == batch.w.v[0].b == batch[0].w.v.b == [1, 2]
    again = Outermost.from_json(batch.to_json())
    assert again.w.v.b == [1, 2]
    assert again.batch_size == batch.batch_size
