"""`expand_as` gives tensors the shape that another container has under the same key, as in the anchor."""

from __future__ import annotations

from typing import Any

import pytest
import tensordict
import torch

import tensorclass
from tensorclass import TensorDict, lazy_stack
from tensorclass.errors import StructureError


def _pair(library: Any, size: tuple[int, ...], events: tuple[tuple[int, ...], tuple[int, ...]]) -> Any:
    """The shapes after `expand_as`, at the top level and below."""

    def made(lead: tuple[int, ...], event: tuple[int, ...]) -> Any:
        inner = library.TensorDict({"b": torch.zeros(*lead, *event)}, lead)
        return library.TensorDict({"a": torch.zeros(*lead, *event), "n": inner}, lead)

    found = made(size[-1:], events[0]).expand_as(made(size, events[1]))
    return found["a"].shape, found["n", "b"].shape, found.batch_size, found["n"].batch_size


@pytest.mark.parametrize("size", [(3,), (2, 3), (4, 2, 3)])
@pytest.mark.parametrize("events", [((), ()), ((1,), (5,)), ((1, 4), (5, 4)), ((5,), (5,)), ((1, 1), (5, 4))])
def test_event_dims_expand_too(size: Any, events: Any):
    """Batch and event dims become those of the other container."""
    assert _pair(tensorclass, size, events) == _pair(tensordict, size, events)


def test_other_keys_keep_their_event_dims():
    """A tensor that the other container lacks expands over the batch only."""
    found = TensorDict(a=torch.zeros(3, 1), b=torch.zeros(3, 1), batch_size=[3]).expand_as(
        TensorDict(a=torch.zeros(2, 3, 5), c=torch.zeros(2, 3), batch_size=[2, 3])
    )
    assert {key: tuple(value.shape) for key, value in found.items()} == {"a": (2, 3, 5), "b": (2, 3, 1)}


def test_a_shape_that_does_not_fit_is_named():
    """The error has the key and both shapes."""
    with pytest.raises(StructureError, match=r"`a` of shape \[3, 2\] does not broadcast to \[3, 5\]"):
        TensorDict(a=torch.zeros(3, 2), batch_size=[3]).expand_as(TensorDict(a=torch.zeros(3, 5), batch_size=[3]))


def test_lazy_stacks_expand_member_by_member():
    """A stack of unlike shapes takes the shapes of another one."""
    stack = lazy_stack([TensorDict(a=torch.zeros(2, 1), batch_size=[2]) for _ in range(2)])
    other = lazy_stack([TensorDict(a=torch.zeros(2, n), batch_size=[2]) for n in (3, 4)])
    assert [tuple(part["a"].shape) for part in stack.expand_as(other).unbind(0)] == [(2, 3), (2, 4)]
