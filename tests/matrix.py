"""The versions that the package works with: `python -m tests.matrix` tries them and prints a table.

Each combination gets an environment under `build/matrix` and runs a part of the tests there. A version that the
package index does not have is a row that says so. The torch is the build for the CPU. If the index has none, it is the
build for CUDA, which runs on a CPU too, but takes 4 to 6 GB for each environment. PyTorch's own index, which
`PIP_EXTRA_INDEX_URL` may name, has all CPU builds. The Pythons are those on `PATH`; with pyenv,
`PYENV_VERSION=3.10.13:3.13.0` puts several there.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests._sources import ROOT

PYTHONS = ("3.10", "3.11", "3.12", "3.13")
TORCHES = ("2.6.0", "2.13.0")
SUITES = ("tests/schema", "tests/classes", "tests/core", "--ignore=tests/classes/test_pydantic.py")
"""What runs in each environment; the tests left out need a FastAPI that needs a newer pydantic."""
TOOLS = ("pytest>=8", "hypothesis", "annotated-types", "ipython", "jaxtyping", "packaging", "setuptools")
ANCHOR = "tensordict==0.15.3"
"""What these tests import. Without the anchor, which needs torch 2.11, files that import it are left out."""
ROWS = (
    {"numpy": "1.26.4", "pydantic": "2.9.2", "typing_extensions": "4.10.0"},
    {"numpy": "2.*", "pydantic": "2.9.2", "typing_extensions": "4.10.0"},
    {"numpy": "1.26.4", "pydantic": "2.*", "typing_extensions": "4.*"},
    {"numpy": "2.*", "pydantic": "2.*", "typing_extensions": "4.*"},
)


class Row(NamedTuple):
    """One combination: the versions that were installed, and what came of it."""

    python: str
    torch: str
    numpy: str
    pydantic: str
    typing_extensions: str
    result: str


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command at the root of the project."""
    return subprocess.run([*map(str, command)], cwd=ROOT, capture_output=True, text=True, check=False)


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    """What a command says at its end."""
    lines = [line for line in (done.stdout + "\n" + done.stderr).splitlines() if line.strip()]
    return lines[-1].strip("= ") if lines else f"exit status {done.returncode}"


def environment(python: str, torch: str) -> Path | str:
    """An interpreter with that torch, or why there is none."""
    program = shutil.which(f"python{python}")
    if program is None:
        return f"no python{python}"
    folder = ROOT / "build" / "matrix" / f"{python}-{torch}"
    if not (folder / "ready").exists():
        shutil.rmtree(folder, ignore_errors=True)
        made = run(program, "-m", "venv", folder)
        if made.returncode:  # a shim of pyenv for a version that is not active
            return f"no python{python}: {last_line(made)}"
        pip = (folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--prefer-binary")
        builds = (f"torch=={torch}+cpu", f"torch=={torch}")
        if all(run(*pip, build).returncode for build in builds):  # the second only if there is no first
            shutil.rmtree(folder, ignore_errors=True)
            return f"the index has no torch {torch} for this Python"
        done = run(*pip, *TOOLS)
        if done.returncode:
            return f"not installed: {last_line(done)}"
        run(*pip, f"torch=={torch}", ANCHOR)  # refused where it needs a newer torch
        (folder / "ready").touch()
    return folder / "bin" / "python"


def without_anchor(python: Path, suites: Sequence[str]) -> list[str]:
    """Options that leave out the files that import the anchor, where it is not installed."""
    if not run(python, "-c", "import tensordict").returncode:
        return []
    files = [file for suite in suites for file in sorted((ROOT / suite).rglob("*.py"))]
    imports = re.compile(r"(?m)^ *(import tensordict|from tensordict|from tests\.ops\._anchor)\b")
    return [f"--ignore={file.relative_to(ROOT)}" for file in files if imports.search(file.read_text())]


def tried(python: Path, name: tuple[str, str], versions: dict[str, str], suites: Sequence[str]) -> Row:
    """One row: install the versions, run the suites, read the result."""
    done = run(
        python, "-m", "pip", "install", "--quiet", "--upgrade", "--only-binary", ":all:",
        *(f"{key}=={version}" for key, version in versions.items()),
    )  # fmt: skip
    if done.returncode:
        return Row(*name, **versions, result=f"not installed: {last_line(done)}")
    listed = run(python, "-m", "pip", "list", "--format", "freeze").stdout.replace("-", "_")
    found = {key: re.search(rf"(?m)^{key}==(\S+)", listed) for key in versions}
    left_out = without_anchor(python, suites)
    tests = run(python, "-m", "pytest", "-q", "-m", "not slow", "-p", "no:cacheprovider", *suites, *left_out)
    return Row(*name, **{key: match[1] if match else "?" for key, match in found.items()}, result=last_line(tests))


def table(rows: Sequence[Row]) -> str:
    """The rows as Markdown."""
    lines = ["| Python | torch | numpy | pydantic | typing_extensions | result |", "|---|---|---|---|---|---|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def main(arguments: Sequence[str]) -> int:
    """Try every combination; 1 where one of those that can be installed fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.matrix", description=__doc__)
    parser.add_argument("--python", nargs="+", default=PYTHONS, metavar="VERSION")
    parser.add_argument("--torch", nargs="+", default=TORCHES, metavar="VERSION")
    parser.add_argument("--suites", nargs="+", default=SUITES, metavar="PATH")
    options = parser.parse_args(arguments)
    rows: list[Row] = []
    for python in options.python:
        for torch in options.torch:
            made = environment(python, torch)
            if isinstance(made, str):
                rows.append(Row(python, torch, "", "", "", made))
            else:
                rows += [tried(made, (python, torch), versions, options.suites) for versions in ROWS]
            print(table(rows[-1:]).rpartition("\n")[2], flush=True)
    print(f"\n{table(rows)}")
    return int(any("failed" in row.result or "error" in row.result for row in rows))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
