"""The programs over classes that stand in a module with a stub beside it, which `tensorclass stubs` writes.

The lines of a program keep their numbers, so that the marks hold: its classes and functions move to another module, and
an import stands in front of what is left.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from tests._sources import ROOT
from tests.typing._notation import Program, sections


def write(programs: Iterable[Program], folder: Path) -> dict[Path, Program]:
    """Write the programs, their classes and the stubs in a folder; the program of each file."""
    written = {folder / program.path.name: program for program in programs}
    for path, program in written.items():
        moved, left = _split(program, f"{path.stem}_classes")
        path.with_stem(f"{path.stem}_classes").write_text(moved, "utf-8")
        path.write_text(left, "utf-8")
    modules = [str(path.with_stem(f"{path.stem}_classes")) for path in written]
    subprocess.run(
        [sys.executable, "-m", "tensorclass", "stubs", "--strict-keys", *modules],
        cwd=ROOT,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return written


def _split(program: Program, module: str) -> tuple[str, str]:
    """The text of the module with the classes, and that of what uses them."""
    lines = program.text.splitlines()
    start = sections(program)[0].lines.start
    moved, names = [], []
    for statement in ast.parse("\n".join(lines[: start - 1])).body:
        first = min([statement.lineno, *(one.lineno for one in getattr(statement, "decorator_list", []))])
        span = slice(first - 1, statement.end_lineno)
        found = _names(statement)
        if found or isinstance(statement, (ast.Import, ast.ImportFrom)):
            moved += lines[span]
        if found:
            names += found
            lines[span] = [""] * len(lines[span])
    at = next(number for number, line in enumerate(lines) if number > 2 and not line and not lines[number - 1])
    lines[at] = f"from {module} import {', '.join(sorted(names))}"
    return "\n".join(moved) + "\n", "\n".join(lines) + "\n"


def _names(statement: ast.stmt) -> list[str]:
    """The name of a class, a function or a type variable."""
    if isinstance(statement, (ast.ClassDef, ast.FunctionDef)):
        return [statement.name]
    if isinstance(statement, ast.Assign) and "TypeVar" in ast.unparse(statement.value):
        return [ast.unparse(target) for target in statement.targets]
    return []
