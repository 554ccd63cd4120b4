"""The pytest plugin: a failing assertion about two batches prints their differences; tracebacks are short."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any


def pytest_runtest_makereport(item: Any, call: Any) -> None:
    """Leave internal frames out of tracebacks of the package's errors; `--full-trace` shows them."""
    errors = sys.modules.get("tensorclass.errors")
    if call.excinfo is None or errors is None or item.config.option.fulltrace:
        return
    if isinstance(call.excinfo.value, errors.TensorClassError):
        entries = call.excinfo.traceback
        call.excinfo.traceback = type(entries)(errors.program_frames(call.excinfo.tb))


def pytest_assertrepr_compare(op: str, left: Any, right: Any) -> list[str] | None:
    """Explain `batch == same(expected)`, and `is` between two containers.

    Args:
        op: The comparison.
        left: The left operand.
        right: The right operand.
    """
    if op not in ("==", "is") or "tensorclass._api" not in sys.modules:
        return None
    doors, core = import_module("tensorclass.testing._doors"), import_module("tensorclass.core")
    for one, other in ((left, right), (right, left)):
        if isinstance(other, doors.Same):
            return [f"{_name(left)} {op} {_name(right)}", *other.report(one)]
    if isinstance(left, core.TensorCollection) and isinstance(right, core.TensorCollection):
        lines = doors.same(right).report(left) or ["they hold the same values, and are two objects"]
        return [f"{_name(left)} {op} {_name(right)}", *lines]
    return None


def _name(value: Any) -> str:
    expected = getattr(value, "expected", None)
    return type(value).__name__ if expected is None else f"same({type(expected).__name__})"
