"""Counts what the contract suite has run, for the terminal summary."""

from __future__ import annotations

from typing import Any

COUNTED = ("cases", "sequences", "steps", "operations")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """One line: how many cases of operation x container x operand were compared, how many random sequences."""
    totals = dict.fromkeys(COUNTED, 0)
    for report in terminalreporter.stats.get("passed", []):
        if report.when != "call" or "tests/contract/" not in report.nodeid:
            continue
        given = dict(report.user_properties)
        totals["cases"] += given.get("cases", 1)
        totals["sequences"] += given.get("sequences", 0)
        totals["steps"] += given.get("steps", 0)
        totals["operations"] = max(totals["operations"], given.get("operations", 0))
    if totals["cases"] or totals["sequences"]:
        text = f"contract: {totals['cases']:,} cases"
        if totals["sequences"]:
            text += f"; {totals['sequences']:,} random sequences ({totals['steps']:,} steps) over "
            text += f"{totals['operations']} operations"
        terminalreporter.write_line(text)
