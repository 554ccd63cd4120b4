"""The machine: random sequences of operations on a container and on a plain dict of tensors never diverge."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.contract._machine import STEPS, Sequence, draw, fails, run, shrink

LENGTH = 10
BLOCKS = 8
"""Blocks run side by side where there are several workers."""


def sequences(first: int, count: int, record_property: Callable[[str, object], None]) -> None:
    """Run sequences; of the first that diverges, report the steps that are needed."""
    done = 0
    for seed in range(first, first + count):
        sequence = draw(seed, LENGTH)
        if fails(sequence):
            done += run(shrink(sequence))
        done += LENGTH
    for name, value in {"sequences": count, "steps": done, "operations": len(STEPS), "cases": 0}.items():
        record_property(name, value)


@pytest.mark.parametrize("block", range(BLOCKS))
def test_sequences(block: int, record_property: Callable[[str, object], None]):
    """A few hundred sequences."""
    sequences(1_000_000 + 50 * block, 50, record_property)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(BLOCKS))
def test_many_sequences(block: int, record_property: Callable[[str, object], None]):
    """Twenty thousand sequences."""
    sequences(2500 * block, 2500, record_property)


def test_number_of_operations():
    """The sequences are drawn from at least seventy operations."""
    assert len(STEPS) >= 70


def test_divergence_is_found():
    """A wrong operation is noticed, and its sequence is shortened to the step that is wrong."""
    sequence = Sequence("flat", 0, (("roll(1)", 1), ("flip(0)", 2), ("clone", 3)))
    assert not fails(sequence)
    original = STEPS["flip(0)"]
    STEPS["flip(0)"] = lambda rng, container, model: (container, model.map(lambda t, s: t + 1))
    try:
        assert [name for name, _ in shrink(sequence).steps] == ["flip(0)"]
    finally:
        STEPS["flip(0)"] = original
