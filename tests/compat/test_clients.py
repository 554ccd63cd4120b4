"""Whole programs of torchrl and rsl-rl, unmodified, give the numbers that they give with `tensordict`."""

from __future__ import annotations

import pytest

from tests.compat._clients import FOLDER, PROGRAMS, run_program


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_equal_numbers(name):
    """Losses, rewards and parameters of a seeded training are equal to the last bit."""
    if not (FOLDER / PROGRAMS[name]).is_dir():
        pytest.skip(f"{PROGRAMS[name]} is not installed in {FOLDER}: `make clients` installs it")
    numbers = run_program(name, layer=True)
    assert len(numbers.split()) >= 16
    assert numbers == run_program(name, layer=False)
