"""Programs as users of `tensordict` write them: with nothing but the name of the import changed, they run."""

from __future__ import annotations

import re
import sys
import types
import warnings
from pathlib import Path

import pytest

PROGRAMS = sorted(Path(__file__).with_name("programs").glob("*.py"))
SLOW = {"helpers", "printing"}  # compile
IMPORT = re.compile(r"^(from|import) tensordict\b", re.M)


def run(path: Path, package: str) -> None:
    """Run a program with the imports of a package, as a module of its own."""
    source, count = IMPORT.subn(rf"\1 {package}", path.read_text("utf-8"))
    assert count
    module = types.ModuleType(f"{path.stem}_with_{package}")
    sys.modules[module.__name__] = module  # classes look their module up
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(compile(source, str(path), "exec"), vars(module))
    finally:
        del sys.modules[module.__name__]


def marked(path: Path) -> object:
    """A program, slow where it takes seconds."""
    return pytest.param(path, id=path.stem, marks=[pytest.mark.slow] if path.stem in SLOW else [])


@pytest.mark.parametrize("package", ["tensordict", "tensorclass"])
@pytest.mark.parametrize("path", [marked(path) for path in PROGRAMS])
def test_programs_run(path, package):
    """The original runs it, and so does this library."""
    run(path, package)


@pytest.mark.slow
def test_programs_print_the_same(capsys):
    """Every line of 44 small programs is the same with both."""
    path = Path(__file__).parent / "programs" / "printing.py"
    lines = []
    for package in ("tensordict", "tensorclass"):
        run(path, package)
        lines.append(capsys.readouterr().out.splitlines())
    assert len({line.split()[0] for line in lines[0]}) == 44
    assert lines[0] == lines[1]


def test_programs_are_many():
    """Each is about something else."""
    assert len(PROGRAMS) >= 10
