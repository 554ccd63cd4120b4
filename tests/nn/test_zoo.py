"""Every kind of callable is probed: right ones pass with the notes that they should have, and nothing is touched."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch.distributions import Distribution

from tests.nn._zoo import ZOO, pipeline, random_states, state_of

pytestmark = pytest.mark.filterwarnings("ignore:warning.W2(05|07|10)")
"""Dims that are narrowed and elements that meet are in the records."""


@pytest.fixture(autouse=True)
def _validated() -> Iterator[None]:
    """`torch.compile` turns the validation of distributions off for the whole process; other tests rely on it."""
    before = Distribution._validate_args
    yield
    Distribution.set_default_validate_args(before)


@pytest.mark.parametrize("name", ZOO)
def test_verdict_and_untouched(name):
    """A right callable is not rejected, and neither it nor the random generators know that it was run."""
    animal = ZOO[name]
    torch.manual_seed(0)
    target = animal.make()
    before, randoms = state_of(target), random_states()
    built = pipeline(target, animal.ins, animal.outs)
    assert [d.code for d in built.diagnostics] == list(animal.codes)
    assert state_of(target) == before
    assert random_states() == randoms


def test_zoo_is_large():
    """The promise of the build check is about kinds of callables, so there are many."""
    assert len(ZOO) >= 60
