"""Workers and drivers that are killed at random: two of each, or as many as the variable `KILLS` says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.parallel._kills import kill_drivers, kill_workers

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
KILLS = int(os.environ.get("KILLS", "2"))
PACKAGES = {"dask": "distributed", "ray": "ray"}


@pytest.mark.parametrize("engine", ["processes", "ray", "dask"])
def test_killed_workers(engine: str, tmp_path: Path) -> None:
    """A map has all rows, once and in order, with the same random numbers, whichever workers die."""
    pytest.importorskip(PACKAGES.get(engine, "torch"))
    assert kill_workers(engine, KILLS, tmp_path) == KILLS


@pytest.mark.parametrize("engine", ["threads", "ray", "dask"])
def test_killed_drivers(engine: str, tmp_path: Path) -> None:
    """A map whose process was killed leaves a committed prefix, and the next one continues it."""
    pytest.importorskip(PACKAGES.get(engine, "torch"))
    assert kill_drivers(engine, KILLS, tmp_path) == KILLS
