"""Type checkers know the types of the public names, as `pyright --verifytypes` counts them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests._sources import ROOT


@pytest.mark.slow
def test_public_names_have_types() -> None:
    """99 % of the public names have a type that each checker reads in the same way; what torch leaves open is torch's."""
    first = [str(Path(sys.executable).parent), os.environ["PATH"]]  # pyright takes the packages of the first python
    environment = {**os.environ, "PATH": os.pathsep.join(first), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "pyright", "--verifytypes", "tensorclass", "--ignoreexternal", "--outputjson"]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    report = json.loads(result.stdout)["typeCompleteness"]
    assert Path(report["packageRootDirectory"]) == ROOT / "tensorclass"
    names = [symbol for symbol in report["symbols"] if symbol["isExported"]]
    wrong = [symbol["name"] for symbol in names if not symbol["isTypeKnown"]]
    assert len(names) > 500
    assert report["completenessScore"] >= 0.99, wrong
