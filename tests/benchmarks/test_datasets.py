"""The benchmark of datasets runs at a small size, and its candidates read the same rows. Nothing here is timed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.benchmarks import _far
from tests.benchmarks._datasets import WORKS, Images, measure, table

SCALE = 0.001


def values(found: Any) -> list[Any]:
    """Arrays of what a candidate gave, in the order of its fields."""
    if isinstance(found, Images):
        return [found.image.numpy(), found.label.numpy()]
    if not isinstance(found, tuple):
        found = [found[key] for key in ("image", "label")]
    return [np.asarray(part) for part in found]


def made(work: Any, folder: Path) -> dict[str, Any]:
    """The candidates of a work."""
    (folder / "rows").mkdir()
    found: dict[str, Any] = work.make(folder / "rows", SCALE)
    return found


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the anchor
@pytest.mark.parametrize("work", WORKS, ids=lambda work: work.name)
def test_candidates_agree(work, tmp_path):
    """Each gives the rows that were asked for; the table has a line for each, and for each target."""
    if "random" in work.name:
        rows = np.random.default_rng(0).permutation(512)[:64]
        (first, *others) = [values(action(rows)) for action in made(work, tmp_path).values()]
        assert np.array_equal(first[1], rows)
        for other in others:
            assert all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))
    if "ragged" in work.name:
        rows = np.array([3, 500, 3, 0])
        (first, *others) = [np.asarray(action(rows)) for action in made(work, tmp_path).values()]
        assert len(first)
        assert all(np.array_equal(first, other) for other in others)
    found = measure(work, tmp_path / "measured", SCALE, 1)
    assert len(table(work, found).splitlines()) == 1 + len(found) + len(work.targets)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the peers
def test_candidates_of_a_server_agree(tmp_path):
    """Each reads every row once, in an order of its own."""
    _far.write(tmp_path, 600)
    for read in _far.candidates().values():
        found = _far.epoch(read, tmp_path, 0.0)
        assert sorted(found.labels) == list(range(600))
        assert found.labels[:256] != list(range(256))
