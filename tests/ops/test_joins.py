"""Joins of containers: what does not agree is refused with the name of the field, and the order of keys is kept."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any

import pytest
import torch

from tensorclass import NonTensorStack, RaggedTensor, TensorClass, TensorDict, cat, stack
from tensorclass.errors import BatchSizeError, StructureError

JOINS: dict[str, Callable[..., Any]] = {
    "stack": stack, "cat": cat, "torch.stack": torch.stack, "torch.cat": torch.cat, "torch.concat": torch.concat,
}  # fmt: skip
ENTRIES: dict[str, Callable[[], Any]] = {
    "tensor": lambda: torch.zeros(2),
    "container": lambda: TensorDict(b=torch.zeros(2), batch_size=[2]),
    "object": lambda: "scan",
    "objects": lambda: NonTensorStack("a", "b"),
    "ragged": lambda: RaggedTensor([torch.zeros(2), torch.zeros(3)]),
}
DIFFERENT = [pair for pair in permutations(ENTRIES, 2) if pair[0] in ("tensor", "container")]


class Open(TensorClass):
    """A tensor of any shape."""

    a: torch.Tensor


@pytest.mark.parametrize("join", JOINS)
@pytest.mark.parametrize(("first", "second"), DIFFERENT)
def test_entries_of_different_kinds(join: str, first: str, second: str) -> None:
    """The message has both positions and both kinds."""
    items = [TensorDict(batch_size=[2]).set("f", ENTRIES[kind]()) for kind in (first, second)]
    with pytest.raises(StructureError, match=r"`f`.* at position 0, .* at position 1"):
        JOINS[join](items)


@pytest.mark.parametrize("join", ["cat", "torch.cat", "torch.concat"])
@pytest.mark.parametrize("made", [TensorDict, Open])
def test_an_empty_tensor_of_another_batch_size(join: str, made: Any) -> None:
    """torch.cat skips tensors of shape (0,), whatever the shape of the others."""
    items = [made(a=torch.zeros(0), batch_size=[0]), made(a=torch.zeros(3, 4), batch_size=[3, 4])]
    for order in (items, items[::-1]):
        with pytest.raises(BatchSizeError, match="cat needs batch sizes that agree but for dim 0"):
            JOINS[join](order)


@pytest.mark.parametrize("join", ["stack", "torch.stack"])
def test_arguments_by_name(join: str) -> None:
    """In torch the sequence is called `tensors`, here `input`."""
    items = [Open(a=torch.full((2,), float(i)), batch_size=[2]) for i in range(3)]
    named = {"tensors" if join == "torch.stack" else "input": items}
    assert torch.equal(JOINS[join](**named, dim=1).a, torch.arange(3.0).expand(2, 3))
    assert torch.equal(JOINS[join](items, -1).a, torch.arange(3.0).expand(2, 3))


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_pieces_of_entries_in_any_order(count: int) -> None:
    """Containers with the same keys in another order join by key, and pieces keep the order of their source."""
    one = TensorDict(a=torch.zeros(count), b=torch.ones(count), name="x", batch_size=[count])
    two = TensorDict(name="x", b=torch.ones(count), a=torch.zeros(count), batch_size=[count])
    both = stack([one, two])
    assert torch.equal(both["a"], torch.zeros(2, count))
    assert torch.equal(both["b"], torch.ones(2, count))
    assert [list(row.keys()) for row in two.unbind(0)] == [["name", "b", "a"]] * count
    assert [row["name"] for row in one.unbind(0)] == ["x"] * count
