"""Which cases of a rule run in `make test`, and which with the slow tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def rest_is_slow(cases: Iterable[Any], quick: int = 1) -> list[Any]:
    """The first cases as they are; the others, which repeat the rule for other inputs, are marked as slow."""
    listed = list(cases)
    slow = [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow) for case in listed[quick:]
    ]
    return [*listed[:quick], *slow]
