"""mypy's stubtest compares the stubs that `tensorclass stubs` writes with the classes that they describe."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests._sources import ROOT

MEANT = {
    r"points\.\w+\.__exactly__": "only for type checkers: it makes a class differ from others with its fields",
    r"points\.\w+\.__init__": "the constructor takes every call, so that it names all faults at once",
    r"points\.\w+\.update": "stubs name the fields, the method of all containers takes its options too",
    r"points\.\w+\.update_": "the same, in place",
}
"""Members that differ from the stub on purpose, and why."""


@pytest.mark.slow
def test_stubs_say_what_classes_have(tmp_path: Path) -> None:
    """Every other member is there, with the parameters of its stub; no exception is left over."""
    allowed, settings = tmp_path / "allowed.txt", tmp_path / "mypy.ini"
    allowed.write_text("".join(f"{member}  # {why}\n" for member, why in MEANT.items()), "utf-8")
    settings.write_text("[mypy]\nignore_missing_imports = True\nfollow_imports = silent\n", "utf-8")
    command = [sys.executable, "-m", "mypy.stubtest", "--concise", "--allowlist", str(allowed)]
    done = subprocess.run(
        [*command, "--mypy-config-file", str(settings), "points"],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(ROOT / "stubs"), "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'examples'}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
