"""Writes at an index tensor or a mask give what a loop over single rows gives, and write all leaves or none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import TensorClass, TensorDict
from tensorclass.errors import MissingKeyError, UnsupportedOperationError
from tensorclass.typing import Float32, Int64


class Step(TensorClass):
    """A typed row."""

    a: Float32[Tensor, "3"]
    b: Int64[Tensor, ""]


def untyped(rows: int, start: int = 0) -> TensorDict:
    """Two levels, two dtypes."""
    b = torch.arange(start, start + rows)
    return TensorDict(
        {"a": b.float()[:, None].repeat(1, 3), "n": {"b": b.clone(), "c": b.double()}, "d": b + 0.5}, batch_size=[rows]
    )


def typed(rows: int, start: int = 0) -> Step:
    """One level."""
    b = torch.arange(start, start + rows)
    return Step(b.float()[:, None].repeat(1, 3), b.clone())


MAKERS: list[Callable[..., Any]] = [untyped, typed]
MASK = torch.tensor([False, True, False, True, True, False])
INDICES = [torch.tensor([4, 0, 5]), torch.tensor([-1, 2, 0]), torch.tensor([1]), torch.arange(6)[::2], MASK]
WAYS: list[Callable[[Any, Any, Tensor], Any]] = [
    lambda batch, rows, index: batch.__setitem__(index, rows),
    lambda batch, rows, index: batch.update_at_(rows, index),
    lambda batch, rows, index: batch.copy_at_(rows, index),
    lambda batch, rows, index: [batch.set_at_(key, rows.get(key), index) for key in rows.keys(True, True)],
]


def columns(batch: Any) -> list[Tensor]:
    """All tensors."""
    return list(batch.values(True, True))


@pytest.mark.parametrize("index", INDICES)
@pytest.mark.parametrize("write", WAYS)
@pytest.mark.parametrize("make", MAKERS)
def test_a_write_at_a_tensor_is_a_write_of_its_rows(make: Any, write: Any, index: Tensor) -> None:
    """Whatever writes: the rows at the index change, into the same tensors, the first time and later."""
    batch, due = make(6), make(6)
    held = columns(batch)
    for turn in range(4):
        at = index.nonzero()[:, 0] if index.dtype is torch.bool else index
        rows = make(len(at), 10 * turn)
        write(batch, rows, index)
        for i, place in enumerate(at.tolist()):
            due[place] = rows[i]
        assert all(a is b for a, b in zip(held, columns(batch), strict=True))
        assert all(a.equal(b) for a, b in zip(held, columns(due), strict=True))


@pytest.mark.parametrize("index", [torch.tensor([0, 6]), torch.tensor([1, -7]), torch.tensor([[0], [9]])])
@pytest.mark.parametrize("write", WAYS)
@pytest.mark.parametrize("make", MAKERS)
def test_an_index_out_of_range_writes_nothing(make: Any, write: Any, index: Tensor) -> None:
    """Torch would write the rows before it."""
    batch, before = make(6), columns(make(6))
    rows = make(2, 10) if index.ndim == 1 else make(2, 10).reshape(2, 1)
    with pytest.raises(IndexError):
        write(batch, rows, index)
    assert all(a.equal(b) for a, b in zip(columns(batch), before, strict=True))


def _tracked(batch: Any) -> None:
    batch["d"].requires_grad_()


def _expanded(batch: Any) -> None:
    batch["d"] = torch.zeros(()).expand(6)


@pytest.mark.parametrize("spoil", [_tracked, _expanded])
@pytest.mark.parametrize("write", WAYS[:3])
def test_what_can_not_be_written_leaves_the_others(write: Any, spoil: Any) -> None:
    """The last leaf refuses, and the first is not written."""
    batch = untyped(6)
    spoil(batch)
    with pytest.raises(UnsupportedOperationError, match="`d`"):
        write(batch, untyped(2, 10), torch.tensor([0, 1]))
    assert batch["a"].equal(untyped(6)["a"])


@pytest.mark.parametrize("write", WAYS)
@pytest.mark.parametrize("make", MAKERS)
def test_rows_of_the_batch_itself_are_read_before_they_are_written(make: Any, write: Any) -> None:
    """The source overlaps the target: rows move as if they had been copied."""
    batch, index = make(6), torch.tensor([1, 2, 3])
    write(batch, batch[:3], index)
    assert columns(batch)[0][:, 0].tolist() == [0, 0, 1, 2, 4, 5]


def test_an_index_that_is_written_is_read_first() -> None:
    """The index is an entry of the batch."""
    batch = TensorDict(at=torch.tensor([2, 1, 0]), a=torch.zeros(3), batch_size=[3])
    batch[batch["at"]] = TensorDict(at=torch.tensor([0, 0, 0]), a=torch.tensor([1.0, 2.0, 3.0]), batch_size=[3])
    assert batch["a"].tolist() == [3.0, 2.0, 1.0]
    assert batch["at"].tolist() == [0, 0, 0]


def test_gradients_flow_into_written_rows() -> None:
    """Of tracked sources, as for one tensor."""
    source = TensorDict({k: torch.ones(2, requires_grad=True) for k in "abcde"}, batch_size=[2])
    batch = TensorDict({k: torch.zeros(4) for k in "abcde"}, batch_size=[4])
    batch[torch.tensor([0, 2])] = source
    batch[3] = source[1]
    torch.stack(columns(batch)).sum().backward()
    grads: list[Any] = [value.grad for value in columns(source)]
    assert all(grad.tolist() == [1.0, 2.0] for grad in grads)


@pytest.mark.parametrize("count", [2, 6])
def test_an_update_of_some_keys_writes_these(count: int) -> None:
    """At both levels; the containers stay the same."""
    batch, rows = untyped(6), untyped(6, 10)
    inner = batch["n"]
    keys: list[Any] = ["a", ("n", "b"), "d", ("n", "c")][:count]
    batch.update(rows, keys_to_update=keys)
    assert batch["n"] is inner
    for key in ("a", "d", ("n", "b"), ("n", "c")):
        assert (batch[key] is rows[key]) == (key in keys)


def test_an_update_that_fails_below_writes_nothing() -> None:
    """A nested value does not fit: neither level changes, and the error names the place."""
    batch = untyped(6)
    before = columns(batch)
    with pytest.raises(Exception, match=r"`n`"):
        batch.update({"a": torch.ones(6, 3), "n": {"b": torch.ones(5)}})
    batch["n"].lock_()
    with pytest.raises(Exception, match="locked"):
        batch.update({"a": torch.ones(6, 3), "n": {"b": torch.ones(6)}})
    assert all(a is b for a, b in zip(columns(batch), before, strict=True))


@pytest.mark.parametrize("keys", [["z"], ["a", ("n", "z")], ["n"], [("n", "b"), "n"]])
def test_keys_that_are_no_tensors_go_the_general_way(keys: list[Any]) -> None:
    """A container is merged whole, and an absent key is an error that changes nothing."""
    batch, rows = untyped(6), untyped(6, 10)
    before = columns(batch)
    if "n" in keys:
        batch.update(rows, keys_to_update=keys)
        assert batch["n", "c"] is rows["n", "c"]
        assert batch["a"] is before[0]
        return
    with pytest.raises(MissingKeyError, match="keys_to_update"):
        batch.update(rows, keys_to_update=keys)
    assert all(a is b for a, b in zip(columns(batch), before, strict=True))
