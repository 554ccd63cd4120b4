"""examples/distributed.py under torchrun: killed within an epoch, it ends with the loss of an undisturbed run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests._sources import ROOT


def torchrun(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """Two ranks."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    program = [str(ROOT / "examples/distributed.py"), "--folder", str(folder), *more]
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [*command, *program], env=environment, capture_output=True, text=True, check=False, timeout=200
    )


@pytest.mark.slow
def test_killed_and_resumed(tmp_path: Path) -> None:
    """The same loss to the last digit; the run that was killed ends with an error, behind a checkpoint."""
    whole = torchrun(tmp_path / "whole")
    assert whole.returncode == 0, whole.stderr
    killed = torchrun(tmp_path / "killed", "--die-at", "32")
    assert killed.returncode != 0
    assert json.loads((tmp_path / "killed" / "latest.json").read_text())["step"] == 28
    resumed = torchrun(tmp_path / "killed")
    assert resumed.returncode == 0, resumed.stderr
    assert resumed.stdout.splitlines()[-1] == whole.stdout.splitlines()[-1]
    assert "after 50 steps on 2 ranks" in whole.stdout
