"""Which cases of a rule run in `make test`, and which with the slow tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from _pytest.mark import ParameterSet


def rest_is_slow(cases: Iterable[Any], quick: int = 1, each: int = 0) -> list[Any]:
    """The first cases, and each Nth, as they are; the others repeat the rule for other inputs: they are slow."""
    return [
        case if place < quick or (each and place % each == 0) else _as_slow(case) for place, case in enumerate(cases)
    ]


def _as_slow(case: Any) -> ParameterSet:
    if isinstance(case, ParameterSet):
        return pytest.param(*case.values, marks=[*case.marks, pytest.mark.slow], id=case.id)
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
