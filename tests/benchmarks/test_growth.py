"""Each operation of the benchmark takes at most twice the calls for twice the fields, levels, or samples to join."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from ._cell import cell
from ._row import Candidate, Row
from ._rows import rows
from ._samples import SAMPLES, Sample

SIZES_OF: dict[str, tuple[Sample, Sample]] = {
    "fields": (Sample(120), Sample(240)),
    "levels": (Sample(2, depth=6), Sample(2, depth=12)),
}
OURS: dict[str, tuple[Candidate, ...]] = {"fields": ("our_class", "our_dict"), "levels": ("our_class", "our_dict")}
QUICK = ("construct", "x[0]", "x + y", "stack of 3")  # in levels; the other cases are slow
GROWING = [
    pytest.param(
        *(row, growth),
        id=f"{row.name}-{growth}",
        marks=() if growth == "levels" and row.name in QUICK else pytest.mark.slow,
    )
    for row in rows()
    for growth in OURS
    if not row.compiled and {"2", "8"} & {*row.samples} and (growth, row.name) != ("levels", "update of 3 keys")
]


def calls_of(run: Callable[[], object]) -> int:
    """How many functions, of Python and of C, a call makes."""
    found = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal found
        found += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return found


@pytest.mark.parametrize(("row", "growth"), GROWING)
def test_calls_grow_with_the_batch(row: Row, growth: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Typed and untyped: a constant part makes it less."""
    for candidate in [candidate for candidate in OURS[growth] if candidate in row.statements]:
        counts = []
        for sample in SIZES_OF[growth]:
            monkeypatch.setitem(SAMPLES, "8", sample)
            statement = cell(row, candidate, "8")
            statement.once()
            statement.once()
            counts.append(calls_of(statement.once))
        assert counts[1] <= 2.1 * counts[0] + 50, f"{candidate}: {counts}"
