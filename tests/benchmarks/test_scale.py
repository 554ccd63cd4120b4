"""The benchmark of workers and ranks runs at a small size; what comes is checked. Not timed."""

from __future__ import annotations

import pytest

from tests.benchmarks._scale import WORKS, line


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("work", [work for work in WORKS if work.name != "ray"], ids=lambda work: work.name)
def test_works_run(work):
    """One short round of each but Ray, whose processes end later; what comes is checked, and the line has the limit."""
    pairs = list(work.pairs(0.001, 1))
    assert len(pairs) == 1
    assert f"≤ {work.limit:g}" in line(work, pairs)
