"""Nested tensors and ragged entries beside plain ones: gradients, expanded batches, compiled gathers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tensorclass import RaggedTensor, TensorDict, lazy_stack
from tensorclass.errors import BatchSizeError, TensorClassError
from tests._marks import rest_is_slow


def nested(grad: bool = False) -> Any:
    """Two rows of two and three numbers."""
    rows = [torch.arange(2.0), torch.arange(3.0)]
    return torch.nested.nested_tensor(rows, layout=torch.jagged, requires_grad=grad)


def test_gradients_reach_nested_entries() -> None:
    """`grad`, `zero_grad` and `requires_grad_` see nested tensors as they see others."""
    data = TensorDict(n=nested(grad=True), x=torch.zeros(2, requires_grad=True), batch_size=[2])
    (data["n"].values().sum() + 2 * data["x"].sum()).backward()
    gradients = data.grad
    assert gradients is not None
    assert gradients["n"].values().tolist() == [1.0] * 5
    assert gradients["x"].tolist() == [2.0, 2.0]
    data.zero_grad()
    assert data["n"].grad is None
    data.requires_grad_(False)
    assert not data["n"].requires_grad
    assert not data["x"].requires_grad


WRITES: dict[str, Callable[[Any], object]] = {
    "add_": lambda data: data.add_(1),
    "zero_": lambda data: data.zero_(),
    "update_": lambda data: data.update_(data.clone()),
    "masked_fill_": lambda data: data.masked_fill_(torch.ones(3, 2, dtype=torch.bool), 5.0),
    "[0] =": lambda data: data.__setitem__(0, data[1].clone().add(1)),
}


@pytest.mark.parametrize("write", WRITES)
def test_expanded_ragged_entries_refuse_writes(write: str) -> None:
    """Elements that lie in one memory can't be written apart: an error that names the field, and nothing changes."""
    data = TensorDict(n=RaggedTensor([torch.ones(2), torch.ones(3)]), batch_size=[2])
    wide = data.expand(3, 2)
    with pytest.raises((TensorClassError, RuntimeError), match="`n`"):
        WRITES[write](wide)
    assert data["n"].values.tolist() == [1.0] * 5


@pytest.mark.parametrize(
    "index", rest_is_slow([torch.tensor([1, 0]), torch.tensor([False, True]), slice(1, 2)]), ids=str
)
def test_compiled_gathers_of_ragged_entries(index: Any) -> None:
    """Rows that compiled code gathers are those of the eager call."""
    torch.compiler.reset()
    data = TensorDict(n=RaggedTensor([torch.arange(2.0), torch.arange(3.0)]), x=torch.ones(2), batch_size=[2])

    def fn(batch: Any) -> Any:
        return batch[index] + 1

    expected, found = fn(data), torch.compile(fn, backend="eager")(data)
    assert found.batch_size == expected.batch_size
    assert torch.equal(found["x"], expected["x"])
    assert tolist(found["n"]) == tolist(expected["n"])


SHALLOW: dict[str, Callable[[Any], object]] = {
    "cat": lambda d: torch.cat([d, d], 1),
    "cat of lazy stacks": lambda d: torch.cat([lazy_stack([d, d]), lazy_stack([d, d])], 1),
    "where": lambda d: d.where(torch.ones(3, 2, dtype=torch.bool), d.clone()),
    "masked_fill": lambda d: d.masked_fill(torch.ones(3, 2, dtype=torch.bool), 0.0),
    "an operand over the batch": lambda d: d + torch.ones(3, 2),
    "save": lambda d: d.save("unused.tcls"),
}


@pytest.mark.parametrize("name", SHALLOW)
def test_a_nested_container_with_fewer_batch_dims_than_its_holder(name: str, tmp_path: Any, monkeypatch: Any) -> None:
    """What needs the dims says so, and the hint mends it; nothing gets dims that it should not have."""
    monkeypatch.chdir(tmp_path)
    holder = TensorDict({"a": torch.ones(3, 2), "n": TensorDict({"x": torch.ones(3, 2)}, [3, 2])}, [3, 2])
    holder["n"].batch_size = []
    with pytest.raises(BatchSizeError, match=r"fewer .*than the container that holds it; .*batch_size = holder"):
        SHALLOW[name](holder)
    assert holder["n", "x"].tolist() == torch.ones(3, 2).tolist()
    holder["n"].batch_size = holder.batch_size
    SHALLOW[name](holder)


def tolist(value: Any) -> Any:
    """An element, or the elements, as lists."""
    return value.tolist() if isinstance(value, torch.Tensor) else [part.tolist() for part in value]
