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
@pytest.mark.parametrize("kind", ["lightning", "accelerate", "stateful"])
def test_every_row_comes(kind: str, tmp_path: Path) -> None:
    """53 rows in batches of 4 over 2 ranks: each rank gets as many, and none is left out."""
    with TensorClassDataset.create(tmp_path / "source", Item, rows_per_shard=20) as writer:
        writer.append(items(53))
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    program = [str(ROOT / "tests/parallel/_trainers.py"), kind, str(tmp_path)]
    done = subprocess.run(
        [*command, *program], env=environment, capture_output=True, text=True, check=False, timeout=180
    )
    assert done.returncode == 0, done.stderr
    one, two = (json.loads((tmp_path / f"seen-{rank}.json").read_text()) for rank in (0, 1))
    assert len(one) == len(two) == (27 if kind == "stateful" else 28)
    assert set(one) | set(two) == set(range(53))
    assert len(set(one) & set(two)) <= 3
