"""Libraries that import `tensordict`, unmodified: their programs and tests give what they give with `tensordict`."""

from __future__ import annotations

import pytest

from tests.compat._clients import FOLDER, PROGRAMS, SOURCES, SUITES, passed_tests, run_program, source_of


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_equal_numbers(name):
    """Losses, rewards and parameters of a seeded training are equal to the last bit."""
    if not (FOLDER / PROGRAMS[name]).is_dir():
        pytest.skip(f"{PROGRAMS[name]} is not installed in {FOLDER}: `make clients` installs it")
    numbers = run_program(name, layer=True)
    assert len(numbers.split()) >= 16
    assert numbers == run_program(name, layer=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", SUITES)
def test_own_tests(name):
    """Each test of the library that passes with `tensordict` passes with the layer."""
    folder = source_of(name)
    if folder is None:
        pytest.skip(f"{name} is not unpacked in {SOURCES}: `make clients` unpacks it")
    theirs = passed_tests(name, folder, layer=False)
    assert len(theirs) >= 76
    assert not theirs - passed_tests(name, folder, layer=True)
