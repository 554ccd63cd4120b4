"""Runs the checkers over modules with stubs, with torch's overlay found as docs/typing.md says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from tests._sources import ROOT
from tests.typing._checkers import _read_mypy, _read_pyrefly, _read_pyright, _read_ty
from tests.typing._notation import HERE

Lines = dict[str, dict[int, list[str]]]
"""stem of a module -> line -> codes"""
PROJECT = {"stubPath": "typings", "extraPaths": [str(ROOT)], "typeCheckingMode": "standard"}
READERS = {
    "mypy": _read_mypy,
    "mypy+plugin": _read_mypy,
    "pyright": _read_pyright,
    "ty": _read_ty,
    "pyrefly": _read_pyrefly,
}
SPLITTING = {"reportUnusedImport"}
"""What is said of the imports that stay behind when the classes of a program move out of it."""


def run(checker: str, folder: Path, stems: Iterable[str]) -> Lines:
    """What a checker says about modules of a folder in which `tensorclass stubs --torch --out .` was called."""
    packages = str(folder / "packages")
    commands = {
        "mypy": ["--strict", "--output=json", "--python-version=3.10", f"--cache-dir={folder / 'cache'}"],
        "pyright": ["--outputjson", f"--pythonpath={sys.executable}"],
        "ty": [
            "check", "--output-format=gitlab", f"--python={sys.executable}", f"--extra-search-path={packages}",
            f"--extra-search-path={ROOT}",
        ],
        "pyrefly": [
            "check", "--output-format=json", "--preset=strict", f"--python-interpreter-path={sys.executable}",
            f"--site-package-path={packages}", f"--search-path={ROOT}", f"--search-path={folder}",
        ],
    }  # fmt: skip
    commands["mypy+plugin"] = [*commands["mypy"], f"--config-file={HERE / 'mypy_plugin.ini'}"]
    (folder / "pyrightconfig.json").write_text(json.dumps(PROJECT), "utf-8")
    (folder / "pyrefly.toml").write_text("", "utf-8")
    command = [sys.executable, "-m", checker.partition("+")[0], *commands[checker], *(f"{stem}.py" for stem in stems)]
    path = os.pathsep.join([packages, str(ROOT)])
    env = {**os.environ, "PYTHONPATH": path if checker.startswith("mypy") else str(ROOT)}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stdout[-2000:] + done.stderr[-2000:]
    found: Lines = defaultdict(lambda: defaultdict(list))
    for file, line, code, _ in READERS[checker.partition("+")[0]](done.stdout):
        if code not in SPLITTING:
            found[Path(file).stem][line].append(code)
    return found
