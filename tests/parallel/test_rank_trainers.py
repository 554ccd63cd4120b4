"""Trainers on two ranks: the loaders find out by themselves which rank they are, and every row comes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tensorclass import TensorClassDataset
from tests._sources import ROOT
from tests.parallel._functions import Item, items


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["lightning", "accelerate", "prepare", "fabric", "stateful"])
def test_every_row_comes(kind: str, tmp_path: Path) -> None:
    """53 rows in batches of 4 over 2 ranks: each rank gets as many, and none is left out."""
    one, two = run(kind, 2, tmp_path)
    assert len(one) == len(two) == (27 if kind == "stateful" else 28)
    assert set(one) | set(two) == set(range(53))
    assert len(set(one) & set(two)) <= 3


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["prepare", "fabric"])
def test_one_rank(kind: str, tmp_path: Path) -> None:
    """A process alone goes on from the states of accelerate and Fabric, too."""
    (rows,) = run(kind, 1, tmp_path)
    assert len(rows) == 56
    assert set(rows) == set(range(53))


def run(kind: str, ranks: int, folder: Path) -> list[list[int]]:
    """The rows that each rank of a trainer was given."""
    pytest.importorskip({"prepare": "accelerate", "fabric": "lightning", "stateful": "torchdata"}.get(kind, kind))
    with TensorClassDataset.create(folder / "source", Item, rows_per_shard=20) as writer:
        writer.append(items(53))
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    program = [str(ROOT / "tests/parallel/_trainers.py"), kind, str(folder)]
    done = subprocess.run(
        [*command, *program], env=environment, capture_output=True, text=True, check=False, timeout=180
    )
    assert done.returncode == 0, done.stderr
    return [json.loads((folder / f"seen-{rank}.json").read_text()) for rank in range(ranks)]
