"""The versions that the package works with: `python -m tests.matrix` tries them and prints a table.

Each combination of `COMBINATIONS` gets an environment under `build/matrix`, and the tests that are not slow run there
(`SUITES`: those of the package; not those of this repository's texts and type checkers). What pytest prints goes to a
file beside the environment. A combination whose Python is not on this machine, or whose packages the index does not
have, is a row that says so.

    python -m tests.matrix                      everything: hours
    python -m tests.matrix oldest --every 20    one combination, each 20th test
    python -m tests.matrix --tests tests/schema tests/classes

The torch is the build for the CPU. If the index has none, it is the build for CUDA, which runs on a CPU too, but takes
4 to 6 GB for each environment. PyTorch's own index, which `PIP_EXTRA_INDEX_URL` may name, has all CPU builds. The
Pythons are those on `PATH` and those of pyenv. Debian has newer ones: in the folder that `debootstrap
--include=python3.15,python3.15-venv sid FOLDER` makes, with the checkout mounted there, `chroot` runs them.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests._sources import ROOT

PACKAGES = ("torch", "numpy", "pydantic", "typing_extensions")
COMBINATIONS = {
    "oldest": ("3.10", "2.6.0", "1.26.4", "2.9.2", "4.10.0"),
    "between": ("3.12", "2.9.0", "2.1.*", "2.11.*", "4.*"),
    "pinned": ("3.13", "2.13.0", "2.*", "2.*", "4.*"),
    "newest": ("3.14", "2.15.0", "2.*", "2.*", "4.*"),
}
"""Python, then the packages. The pinned torch is that of constraints.txt, the newest what `pip install torch` gives."""
ROOMS = ("schema", "classes", "core", "ops", "store", "nn", "io", "parallel", "cli", "contract", "testing")
FILES = ("bad_input", "bounded_messages", "docs", "errors", "flags", "front_door", "quickstart")
SUITES = (*(f"tests/{room}" for room in ROOMS), *(f"tests/test_{name}.py" for name in FILES))
TOOLS = (
    "pytest>=8", "aiohttp", "annotated-types", "cloudpickle", "datasets", "distributed", "fastapi", "fsspec",
    "gymnasium", "h5py", "hypothesis", "httpx", "ipython", "jaxtyping", "matplotlib", "mypy", "networkx", "onnx",
    "onnxruntime", "onnxscript", "packaging", "pandas", "polars", "pyarrow", "pydantic-settings", "ray",
    "safetensors", "scikit-learn", "scipy", "setuptools", "tqdm", "zarr",
)  # fmt: skip
"""What the tests import, besides the anchor."""
ANCHOR = "tensordict==0.15.3"
"""What many tests compare with. It needs torch 2.11; with an older torch these tests are skipped."""


class Row(NamedTuple):
    """One combination: the versions that were installed, and what came of it."""

    python: str
    torch: str
    numpy: str
    pydantic: str
    typing_extensions: str
    result: str
    failed: bool = False


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command at the root of the project."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    parts = [*map(str, command)]
    return subprocess.run(parts, cwd=ROOT, capture_output=True, text=True, check=False, env=environment)


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    """What a command says at its end."""
    lines = [line for line in (done.stderr + "\n" + done.stdout).splitlines() if line.strip()]
    return lines[-1].strip("= ") if lines else f"exit status {done.returncode}"


def interpreter(python: str) -> str | None:
    """A program for that version of Python."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [shutil.which(f"python{python}"), *map(str, sorted(pyenv.glob(f"{python}.*/bin/python"), reverse=True))]
    # a shim of pyenv is a program that fails where its version is not active
    return next((name for name in found if name and not run(name, "-c", "").returncode), None)


def environment(name: str, python: str, packages: Sequence[str]) -> Path | str:
    """An interpreter with those packages, or why there is none."""
    program = interpreter(python)
    if program is None:
        return f"not tried: no Python {python} here"
    folder = ROOT / "build" / "matrix" / name
    inside = folder / "bin" / "python"
    pip = (inside, "-m", "pip", "install", "--quiet", "--prefer-binary")
    if not (folder / "ready").exists():
        shutil.rmtree(folder, ignore_errors=True)
        made = run(program, "-m", "venv", folder)
        if made.returncode:
            return f"not tried: {last_line(made)}"
        builds = (packages[0] + "+cpu", packages[0])
        if all(run(*pip, build).returncode for build in builds):  # the second only if there is no first
            shutil.rmtree(folder, ignore_errors=True)
            return f"not tried: the index has no {packages[0]} for this Python"
        for tool in TOOLS:  # one by one, so that a tool that can't be installed is left out
            run(*pip, *packages, tool)
        run(*pip, *packages, ANCHOR)
        run(*pip, "--no-deps", "--editable", ".")
        (folder / "ready").touch()
    done = run(*pip, "--upgrade", "--only-binary", ":all:", *packages)
    return f"not tried: {last_line(done)}" if done.returncode else inside


def tried(name: str, tests: Sequence[str], every: int) -> Row:
    """One row: make the environment, run the tests, read the result."""
    python, *versions = COMBINATIONS[name]
    made = environment(name, python, [f"{key}=={version}" for key, version in zip(PACKAGES, versions, strict=True)])
    if isinstance(made, str):
        return Row(python, *versions, result=made)
    asked = (
        "import sys; from importlib.metadata import version as v; print(sys.version.split()[0], *map(v, sys.argv[1:]))"
    )
    found = run(made, "-c", asked, *PACKAGES).stdout.split()
    done = run(
        made,
        "-m",
        "pytest",
        "-q",
        "-m",
        "not slow",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:anyio",
        "--every",
        str(every),
        "-o",
        "faulthandler_timeout=600",
        *tests,
    )
    log = made.parents[2] / f"{name}.log"
    log.write_text(done.stdout + done.stderr, "utf-8")
    result = f"{last_line(done)}, see {log.relative_to(ROOT)}" if done.returncode else last_line(done)
    return Row(*found, result=result, failed=done.returncode != 0)


def table(rows: Sequence[Row]) -> str:
    """The rows as Markdown."""
    lines = ["| Python | torch | numpy | pydantic | typing_extensions | result |", "|---|---|---|---|---|---|"]
    return "\n".join([*lines, *(f"| {' | '.join(row[:-1])} |" for row in rows)])


def main(arguments: Sequence[str]) -> int:
    """Try the combinations; 1 where the tests of one of those that can be installed fail."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.matrix", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="COMBINATION", help=", ".join(COMBINATIONS))
    parser.add_argument("--tests", nargs="+", default=SUITES, metavar="PATH", help="instead of those of the package")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="run each Nth test only")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(COMBINATIONS):
        parser.error(f"no combination {', '.join(sorted(unknown))}; there are {', '.join(COMBINATIONS)}")
    rows: list[Row] = []
    for name in options.names or COMBINATIONS:
        rows.append(tried(name, options.tests, options.every))
        print(table(rows[-1:]).rpartition("\n")[2], flush=True)
    print(f"\n{table(rows)}")
    return int(any(row.failed for row in rows))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
