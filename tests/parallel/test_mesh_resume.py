"""Loaders that are saved on one mesh and go on with another, on real ranks."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch

from tensorclass import TensorClassDataset
from tensorclass.parallel import Layout
from tests.parallel._functions import Item, items
from tests.parallel._ranks import run

MESHES: dict[str, dict[str, int]] = {"two": {"dp": 2}, "four": {"dp": 2, "tp": 2}, "three": {"tp": 1, "dp": 3}}


def _ranks(name: str) -> int:
    return torch.Size(MESHES[name].values()).numel()


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(("before", "after"), [("two", "three"), ("four", "two"), ("three", "four")])
def test_loaders_resume_on_another_mesh(tmp_path: Path, before: str, after: str, workers: int) -> None:
    """Each row of the epoch comes once over both meshes, and the next epoch is complete, with worker processes too."""
    with TensorClassDataset.create(tmp_path / "source", Item, rows_per_shard=20) as writer:
        writer.append(items(53))
    data = TensorClassDataset(tmp_path / "source", Item)
    how: dict[str, Any] = {"shuffle": True, "seed": 3, "num_workers": workers}
    how |= {"multiprocessing_context": "fork"} if workers else {}

    def begin(rank: int, world: int) -> Any:
        loader = data.loader(4, layout=Layout(MESHES[before], batch="dp"), **how)
        batches = iter(loader)
        rows = [next(batches).label.tolist() for _ in range(2)]
        return sum(rows, []), pickle.dumps(loader.state_dict())  # noqa: RUF017  # two lists

    def go_on(rank: int, world: int) -> Any:
        loader = data.loader(4, layout=Layout(MESHES[after], batch="dp"), **how)
        loader.load_state_dict(pickle.loads(states[0]), reshard=True)
        return [[row for batch in loader for row in batch.label.tolist()] for _ in range(2)]

    first = run(begin, _ranks(before), timeout=60)
    states = [state for _, state in first]
    rest = run(go_on, _ranks(after), timeout=60)
    step, end = (2 if name == "four" else 1 for name in (before, after))  # ranks beside the rows have the same ones
    assert first[0][0] == first[step - 1][0]
    assert rest[0] == rest[end - 1]
    seen = [row for rows, _ in first[::step] for row in rows] + [row for rows, _ in rest[::end] for row in rows]
    assert sorted(seen) == list(range(53))
    assert sorted(row for _, rows in rest[::end] for row in rows) == list(range(53))
