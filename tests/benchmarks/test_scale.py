"""The benchmark of workers and ranks runs at a small size; what comes is checked. Not timed."""

from __future__ import annotations

import pytest

from tests.benchmarks._scale import WORKS, line


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("work", WORKS, ids=lambda work: work.name)
def test_works_run(work):
    """One short round of each: what it gives is checked inside; the line says what it took and what it may."""
    pairs = list(work.pairs(0.001, 1))
    assert len(pairs) == 1
    assert f"≤ {work.limit:g}" in line(work, pairs)
