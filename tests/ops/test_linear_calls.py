"""Twice the fields, members or levels take at most twice the calls, and more rows take no further call."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tensorclass import TensorDict, lazy_stack

Operation = Callable[[Any, Any], Any]


def of_fields(count: int) -> TensorDict:
    """A flat container."""
    return TensorDict({f"f{i}": torch.zeros(4, 2) for i in range(count)}, batch_size=[4])


def of_members(count: int) -> Any:
    """A lazy stack of small members."""
    return lazy_stack([TensorDict(a=torch.zeros(2), b=torch.zeros(()), batch_size=[]) for _ in range(count)])


def of_levels(count: int) -> TensorDict:
    """Containers in each other."""
    data = TensorDict(a=torch.zeros(4), b=torch.zeros(4, 2), batch_size=[4])
    for _ in range(count):
        data = TensorDict({"a": torch.zeros(4), "d": data}, batch_size=[4])
    return data


def of_rows(count: int) -> TensorDict:
    """Long tensors."""
    return TensorDict({"a": torch.zeros(count), "d": {"b": torch.zeros(count, 2)}}, batch_size=[count])


INDEX = torch.tensor([0, 2])
READS: dict[str, Operation] = {
    "x[0]": lambda x, y: x[0],
    "x[1:3]": lambda x, y: x[1:3],
    "x[index]": lambda x, y: x[INDEX],
    "clone": lambda x, y: x.clone(),
    "x + y": lambda x, y: x + y,
    "x + 1": lambda x, y: x + 1,
    "x == y": lambda x, y: x == y,
    "sum": lambda x, y: x.sum(0),
    "zeros_like": lambda x, y: torch.zeros_like(x),
    "apply": lambda x, y: x.apply(torch.neg),
    "unsqueeze": lambda x, y: x.unsqueeze(0),
    "stack": lambda x, y: torch.stack([x, y]),
    "cat": lambda x, y: torch.cat([x, y]),
    "to(dtype)": lambda x, y: x.to(torch.float64),
    "where": lambda x, y: x.where(torch.ones(x.batch_size, dtype=torch.bool), y),
    "masked_fill": lambda x, y: x.masked_fill(torch.ones(x.batch_size, dtype=torch.bool), 0),
    "to_dict": lambda x, y: x.to_dict(),
    "items": lambda x, y: list(x.items(True, True)),
    "keys": lambda x, y: list(x.keys(True)),
    "flatten_keys": lambda x, y: x.flatten_keys("."),
    "tree_map": lambda x, y: torch.utils._pytree.tree_map(torch.neg, x),
    "repr": lambda x, y: repr(x),
}
WRITES: dict[str, Operation] = {
    "update": lambda x, y: x.update(y),
    "update of keys": lambda x, y: x.update(y, keys_to_update=list(y.keys(True, True))),
    "update_": lambda x, y: x.update_(y),
    "copy_": lambda x, y: x.copy_(y),
    "zero_": lambda x, y: x.zero_(),
    "x[0] = y": lambda x, y: x.__setitem__(0, y[0]),
    "x[index] = y": lambda x, y: x.__setitem__(INDEX, y[:2]),
    "x[0] = 1": lambda x, y: x.__setitem__(0, 1.0),
    "lock_": lambda x, y: x.lock_().unlock_(),
}
OPERATIONS = READS | WRITES
GROWTHS: dict[str, tuple[Callable[[int], Any], int]] = {
    "fields": (of_fields, 250),
    "members": (of_members, 250),
    "levels": (of_levels, 10),
}


def calls_of(operation: Operation, make: Callable[[int], Any], count: int) -> int:
    """How many functions, of Python and of C, the second run of an operation calls."""
    x, y = make(count), make(count)
    operation(x, y)
    found = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal found
        found += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        operation(x, y)
    finally:
        sys.setprofile(None)
    return found


PATHS = {"flatten_keys", "update of keys"}
"""These read paths, whose length grows with the levels."""


@pytest.mark.parametrize(
    ("growth", "name"), [(g, n) for g in GROWTHS for n in OPERATIONS if not (g == "levels" and n in PATHS)]
)
def test_calls_grow_with_the_batch(growth: str, name: str) -> None:
    """Twice as much takes at most twice the calls; a constant part makes it less."""
    make, count = GROWTHS[growth]
    once, twice = (calls_of(OPERATIONS[name], make, n) for n in (count, 2 * count))
    assert twice <= 2.1 * once + 50


@pytest.mark.parametrize("name", OPERATIONS)
def test_calls_do_not_grow_with_rows(name: str) -> None:
    """Torch works on rows."""
    once, twice = (calls_of(OPERATIONS[name], of_rows, n) for n in (5_000, 10_000))
    assert abs(twice - once) <= 20
