"""Workers and drivers that are killed at random; `python -m tests.parallel._kills` kills more of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.parallel._kills import kill_drivers, kill_workers

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.mark.parametrize("engine", ["processes", "ray", "dask"])
def test_killed_workers(engine: str, tmp_path: Path) -> None:
    """A map has all rows, once and in order, with the same random numbers, whichever workers die."""
    pytest.importorskip({"dask": "distributed"}.get(engine, "torch" if engine == "processes" else engine))
    assert kill_workers(engine, 2, tmp_path) == 2


def test_killed_drivers(tmp_path: Path) -> None:
    """A map whose process was killed leaves a committed prefix, and the next one continues it."""
    pytest.importorskip("distributed")
    assert kill_drivers("dask", 2, tmp_path) == 2
