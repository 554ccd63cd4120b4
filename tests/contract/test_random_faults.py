"""Faults in operations on random structures: keys, depths, dtypes, objects and classes that no list of kinds has."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tensorclass._operations import ROWS
from tests.contract import _random
from tests.contract._faults import FAULTS, inject
from tests.contract._machine import STARTS, Sequence, begin
from tests.contract._operations import OPS


def first(container: Any) -> Any:
    """The first key."""
    return next(iter(container.keys()))


def last(container: Any) -> Any:
    """The path of the last leaf."""
    return list(container.keys(True, True))[-1]


def whole(container: Any) -> torch.Tensor:
    """A mask of all elements."""
    return torch.ones(container.batch_size, dtype=torch.bool)


CHANGES: dict[str, Callable[[Any], Any]] = {
    "names=": lambda c: setattr(c, "names", [f"d{i}" for i in range(c.ndim)]),
    "batch_size=": lambda c: setattr(c, "batch_size", c.batch_size[:1]),
    "auto_batch_size_": lambda c: c.auto_batch_size_(),
    "clear_device_": lambda c: c.clear_device_(),
    "lock_": lambda c: c.lock_(),
    "unlock_": lambda c: c.unlock_(),
    "update": lambda c: c.update(c.clone()),
    "update(clone)": lambda c: c.update(c.clone(), clone=True),
    "update(inplace)": lambda c: c.update({first(c): c[first(c)]}, inplace=True),
    "update_": lambda c: c.update_(c.clone()),
    "update_at_": lambda c: c.update_at_(c[0].clone(), 0),
    "copy_": lambda c: c.copy_(c.clone()),
    "copy_at_": lambda c: c.copy_at_(c[0].clone(), 0),
    "x[0] =": lambda c: c.__setitem__(0, c[0].clone()),
    "x[mask] =": lambda c: c.__setitem__(whole(c), c.clone()),
    "x[positions] =": lambda c: c.__setitem__(torch.tensor([0]), c[:1].clone()),
    "|=": lambda c: c.__ior__(c.clone()),
    "set": lambda c: c.set(("p", "q", "r"), torch.zeros(c.batch_size)),
    "set_non_tensor": lambda c: c.set_non_tensor("p", "v"),
    "setdefault": lambda c: c.setdefault(("p", "k"), torch.zeros(c.batch_size)),
    "create_nested": lambda c: c.create_nested(("p", "q")),
    "fill_": lambda c: c.fill_(last(c), 1),
    "clear": lambda c: c.clear(),
    "popitem": lambda c: c.popitem(),
    "pop": lambda c: c.pop(last(c)),
    "del_": lambda c: c.del_(first(c)),
    "rename_key_": lambda c: c.rename_key_(last(c), ("p", "y")),
    "flatten_keys": lambda c: c.flatten_keys(inplace=True),
    "select": lambda c: c.select(first(c), inplace=True),
    "exclude": lambda c: c.exclude(first(c), inplace=True),
    "split_keys": lambda c: c.split_keys([last(c)], inplace=True),
    "separates": lambda c: c.separates(last(c)),
    "filter_empty_": lambda c: c.filter_empty_(),
    "apply_": lambda c: c.apply_(lambda leaf: leaf * 1),
    "apply(inplace)": lambda c: c.apply(lambda leaf: torch.stack([leaf, leaf], -1), inplace=True),
    "load_state_dict": lambda c: c.load_state_dict(c.clone().state_dict()),
    "load_state_dict(assign)": lambda c: c.load_state_dict(c.clone().state_dict(), assign=True),
    "masked_fill_": lambda c: c.masked_fill_(whole(c), 0),
    "requires_grad_": lambda c: c.requires_grad_(),
    "share_memory_": lambda c: c.share_memory_(),
    "memmap_": lambda c: c.memmap_(),
    **{op.name: op.call for op in OPS if op.writes or op.restructures},
    **{
        f"{row.name}_": lambda c, row=row: getattr(c, f"{row.name}_")(*[2] * row.arity)
        for row in ROWS
        if row.in_place and row.arity < 2
    },
}


def maker(kind: str, seed: int) -> Callable[[], Any]:
    """A function that makes the same random container each time, of classes of the same names."""

    def make() -> Any:
        _random._COUNT = itertools.count()
        return begin(Sequence(kind, seed, ()))

    return make


def half_written(name: str, seeds: range) -> dict[Any, list[str]]:
    """The containers that a fault leaves half written, and where it was."""
    found: dict[Any, list[str]] = {}
    for seed, kind, fault in itertools.product(seeds, STARTS, FAULTS):
        every = random.Random(seed).randint(23, 61) if fault == "line" else 1
        report = inject(maker(kind, seed), CHANGES[name], FAULTS[fault], every)
        if report.half:
            found[kind, seed, fault] = report.half
    return found


@pytest.mark.parametrize("name", list(CHANGES)[::16])
def test_random_structures(name: str) -> None:
    """Whatever a container holds, a fault leaves the old state or the new one; every sixteenth operation."""
    assert not half_written(name, range(1))


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANGES)
def test_many_random_structures(name: str) -> None:
    """The same for every operation."""
    assert not half_written(name, range(100, 101))
