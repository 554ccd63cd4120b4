"""Tracebacks of the package's own errors in pytest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import torch
from torch import Tensor
from tensorclass import TensorClass, TensorDict

class Row(TensorClass):
    x: Tensor

def test_ours():
    Row(x=torch.zeros(2), batch_size=3)

def test_theirs():
    TensorDict(a=1).apply(lambda t: 1 / 0)
"""


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--full-trace"]])
def test_frames(options: list[str], tmp_path: Path):
    """Frames of the package are left out of its own errors only, and shown on request."""
    (tmp_path / "test_program.py").write_text(PROGRAM)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--tb=short",
        *options,
        "test_program.py",
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    ours, _, theirs = done.stdout.partition("test_theirs")
    assert "SchemaError" in ours or "BatchSizeError" in ours, done.stdout + done.stderr
    assert ("_build.py" in ours or "_init.py" in ours) == bool(options)
    assert "_apply.py" in theirs
