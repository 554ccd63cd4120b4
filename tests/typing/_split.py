"""Programs over typed classes that stand in a module of their own, with the stub that `tensorclass stubs` writes.

All lines keep their numbers, so that the marks hold: the classes are left out here, and everything else there.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from tensorclass.typecheck.stubs._pyi import Stubs
from tests._sources import ROOT
from tests.typing._notation import COMMAND, Program, sections

Spans = list[tuple[int, int]]
FINDING = re.compile(r"^(?P<path>.+?):(?P<line>\d+): error: (?P<message>.*) \[(?P<code>[\w-]+)\]$")


def split(programs: Iterable[Program], folder: Path, *options: str) -> dict[Path, Program]:
    """Write both modules of every program, and the stubs; the program of each file that uses the classes.

    Of a file with many programs the classes that they share move, those of each program stay. Marks on the lines of
    classes that move are left out: no checker that reads a stub looks at the module itself.
    """
    written, schemas = dict[Path, Program](), list[Path]()
    for program in programs:
        path = folder / f"{program.path.parent.name}_{program.path.stem}.py"
        typed, needed = _statements(program)
        if typed:
            schemas.append(path.with_stem(f"{path.stem}_schemas"))
            schemas[-1].write_text(_only(program.text, _spans([*typed, *needed])), "utf-8")
        names = ", ".join(node.name for node in typed)
        imported = {_spans(typed)[0][0]: f"from {path.stem}_schemas import {names}"} if typed else {}
        path.write_text(_without(program.text, _spans(typed), imported), "utf-8")
        inside = {line for first, last in _spans(typed) for line in range(first, last + 1)}
        marks = {line: mark for line, mark in program.marks.items() if line not in inside}
        written[path] = Program(program.path, program.text, marks)
    list(wrong_declarations(schemas, *options))
    assert all(path.with_suffix(".pyi").is_file() for path in schemas)
    return written


def wrong_declarations(files: Iterable[Path], *options: str) -> Iterator[tuple[Path, int, str, str]]:
    """What `tensorclass stubs` reports of files: file, line, code and message.

    Raises:
        RuntimeError: when it says anything else.
    """
    command = [sys.executable, "-m", "tensorclass", COMMAND, *options, *map(str, files)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    lines = done.stderr.splitlines()
    if done.returncode != bool(lines):
        raise RuntimeError(f"`tensorclass stubs` could not run:\n{done.stderr[-2000:]}")
    for line in lines:
        found = FINDING.match(line)
        if found is None:
            raise RuntimeError(f"`tensorclass stubs` says {line!r}")
        yield Path(found["path"]), int(found["line"]), found["code"], found["message"]


def _statements(program: Program) -> tuple[list[ast.ClassDef], list[ast.stmt]]:
    """The typed classes that move, with their parents, and what else they need."""
    stubs = Stubs()
    file = stubs.project.open(program.path)
    end = next((part.lines.start for part in sections(program)), len(program.text))
    classes = [node for node in file.tree.body if isinstance(node, ast.ClassDef) and node.lineno < end]
    typed = [node for node in classes if stubs.declarations.is_typed(file, node)]
    bases = {ast.unparse(base) for node in typed for base in node.bases}
    needed = [n for n in file.tree.body if isinstance(n, (ast.Import, ast.ImportFrom)) or _is_alias(n)]
    return [node for node in classes if node in typed or node.name in bases], needed


def _is_alias(node: ast.stmt) -> bool:
    called = isinstance(node, ast.Assign) and isinstance(node.value, (ast.Call, ast.Subscript, ast.Constant))
    text = ast.unparse(node.value) if called and isinstance(node, ast.Assign) else ""
    return re.match(r"TypeVar\(|Annotated\[|Float32\[|'", text) is not None


def _spans(nodes: Iterable[ast.stmt]) -> Spans:
    starts = [(min([n.lineno, *[d.lineno for d in getattr(n, "decorator_list", [])]]), n) for n in nodes]
    return [(start, node.end_lineno or start) for start, node in starts]


def _only(text: str, spans: Spans) -> str:
    kept = {line for first, last in spans for line in range(first, last + 1)}
    return "".join(line if n in kept else "\n" for n, line in enumerate(text.splitlines(keepends=True), 1))


def _without(text: str, spans: Spans, instead: dict[int, str]) -> str:
    lines = text.splitlines()
    gone = {line for first, last in spans for line in range(first, last + 1)}
    return "".join(f"{instead.get(n, '' if n in gone else line)}\n" for n, line in enumerate(lines, 1))
