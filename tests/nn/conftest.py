"""What tests of modules ask for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from torch.distributions import Distribution


@pytest.fixture
def validated() -> Iterator[None]:
    """Distributions validate: importing the compiler of torch turns that off for the whole process."""
    before = Distribution._validate_args
    Distribution.set_default_validate_args(True)
    yield
    Distribution.set_default_validate_args(before)
