"""What the tests of modules restore."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from torch.distributions import Distribution


@pytest.fixture(autouse=True)
def _validation() -> Iterator[None]:
    """`torch.compile` turns the validation of distributions off for the whole process."""
    Distribution.set_default_validate_args(True)
    yield
    Distribution.set_default_validate_args(True)
