"""Batches: every row once an epoch over all ranks, and a state that goes on at the exact row."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tensorclass.io import Batches

ORDERS = st.fixed_dictionaries(
    {"rows": st.integers(0, 40), "size": st.integers(1, 9), "shuffle": st.booleans(), "seed": st.integers(-3, 2**70)}
)


def ranks(world: int, rows: int, **options: Any) -> list[Batches[Any]]:
    """The batches of every rank."""
    return [Batches(torch.arange(rows), rank=rank, world_size=world, **options) for rank in range(world)]


def epoch(batches: Any) -> list[list[int]]:
    """The rows of one epoch."""
    return [batch.tolist() for batch in batches]


@given(ORDERS, st.integers(1, 5))
def test_every_row_once(options, world):
    """Over all ranks each row comes once; ranks differ by one batch; each epoch has its own order."""
    found = [[epoch(one) for one in ranks(world, **options)], [epoch(one) for one in ranks(world, **options)]]
    assert found[0] == found[1]
    parts = found[0]
    assert sorted(row for part in parts for batch in part for row in batch) == list(range(options["rows"]))
    counts = [len(part) for part in parts]
    assert max(counts) - min(counts) <= 1
    assert counts == [len(one) for one in ranks(world, **options)]


@given(ORDERS, st.integers(1, 5))
def test_same_number_for_every_rank(options, world):
    """`drop_last` gives full batches only; `pad_last` too, and leaves no row out."""
    rows, size = options["rows"], options["size"]
    dropped = [epoch(one) for one in ranks(world, drop_last=True, **options)]
    assert {len(part) for part in dropped} == {rows // size // world}
    flat = [row for part in dropped for batch in part for row in batch]
    assert len(flat) == len(set(flat)) == rows // size // world * world * size
    padded = [epoch(one) for one in ranks(world, pad_last=True, **options)]
    assert len({len(part) for part in padded}) == 1
    assert all(len(batch) == size for part in padded for batch in part)
    assert {row for part in padded for batch in part for row in batch} == set(range(rows))


@given(ORDERS, st.integers(1, 3), st.integers(0, 30), st.data())
def test_resume_anywhere(options, world, steps, data):
    """A state taken after any number of batches goes on with the next one, in this epoch and those that follow."""
    rank = data.draw(st.integers(0, world - 1))
    whole, first = ranks(world, **options)[rank], ranks(world, **options)[rank]
    if not len(whole):
        return
    expected = [batch for _ in range(steps // len(whole) + 3) for batch in epoch(whole)]
    source = iter(first)
    for at in range(steps):
        found = next(source, None)
        if found is None:
            source = iter(first)
            found = next(source)
        assert found.tolist() == expected[at]
    state = json.loads(json.dumps(first.state_dict()))
    again = ranks(world, **options)[rank]
    again.load_state_dict(state)
    rest = [*epoch(again), *epoch(again)]
    assert rest == expected[steps : steps + len(rest)]


@given(ORDERS, st.integers(1, 4), st.integers(1, 4), st.integers(0, 6))
def test_other_world_size(options, before, after, steps):
    """With `reshard=True` other ranks go on: what is left of the epoch comes once."""
    old = ranks(before, **options)
    steps = min([steps, *map(len, old)])
    seen = []
    for one in old:
        source = iter(one)
        seen += [row for _ in range(steps) for row in next(source).tolist()]
    if len(seen) == options["rows"]:
        return
    new = ranks(after, **options)
    for one in new:
        one.load_state_dict(old[0].state_dict(), reshard=True)
    rest = [row for one in new for batch in epoch(one) for row in batch]
    assert sorted([*seen, *rest]) == list(range(options["rows"]))
    following = [row for one in new for batch in epoch(one) for row in batch]
    assert sorted(following) == list(range(options["rows"]))


def test_order():
    """The order depends on seed and epoch, not on the size of batches or on ranks."""

    def order(size: int, seed: int, at: int) -> list[int]:
        batches = Batches(torch.arange(50), size, shuffle=True, seed=seed)
        return [[row for batch in epoch(batches) for row in batch] for _ in range(at + 1)][at]

    assert order(7, 0, 0) == order(50, 0, 0)
    assert order(7, 0, 1) == order(3, 0, 1)
    assert len({tuple(order(7, seed, at)) for seed in range(3) for at in range(3)}) == 9


def test_an_epoch_that_was_broken_off():
    """`iter()` begins the next epoch, and ends an iterator of the one before."""
    batches = Batches(torch.arange(9), 2, shuffle=True)
    source = iter(batches)
    next(source)
    assert batches.epoch == 0
    other = iter(batches)
    next(other)
    assert batches.epoch == 1
    with pytest.raises(RuntimeError, match="next epoch"):
        next(source)
    assert len(list(other)) == 4


@pytest.mark.parametrize(
    "options",
    [
        {"size": 0},
        {"size": 1.5},
        {"size": True},
        {"size": 1, "rank": 1},
        {"size": 1, "rank": -1},
        {"size": 1, "world_size": 0},
        {"size": 1, "drop_last": True, "pad_last": True},
    ],
)
def test_wrong_arguments(options):
    """Arguments that make no sense are refused."""
    with pytest.raises(ValueError, match=r"size|rank|drop_last"):
        Batches(torch.arange(3), **options)
    with pytest.raises(TypeError, match="seed"):
        Batches(torch.arange(3), 1, seed="x")  # type: ignore[arg-type]  # what is tested


OTHERS: dict[str, Any] = {
    "rows": {"rows": 8}, "size": {"size": 3}, "shuffle": {"shuffle": False}, "seed": {"seed": 5},
    "world_size": {"world_size": 3}, "drop_last": {"drop_last": True},
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_the_state_of_another(name):
    """The state of another order is refused by the name of what differs."""
    options: Any = {"rows": 9, "size": 2, "shuffle": True, "seed": 1, "rank": 1, "world_size": 2}
    state = Batches(torch.arange(options.pop("rows")), **options).state_dict()
    options |= {"rows": 9} | OTHERS[name]
    with pytest.raises(ValueError, match=f"{name}="):
        Batches(torch.arange(options.pop("rows")), **options).load_state_dict(state)


@pytest.mark.parametrize(
    "change", [{"step": -1}, {"epoch": "1"}, {"version": 2}, {"more": 1}, {"base": None}, {"step": 10**30}]
)
def test_damaged_states(change):
    """A state that is none is refused."""
    batches = Batches(torch.arange(9), 2)
    with pytest.raises(ValueError, match="state"):
        batches.load_state_dict({**batches.state_dict(), **change})
    with pytest.raises(ValueError, match="not the state"):
        batches.load_state_dict([])  # type: ignore[arg-type]  # what is tested
