"""The programs of tests/typing in two modules: typed classes with their stub, and everything that uses them."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

from tensorclass.typecheck._stubs import Stubs
from tests.typing._notation import Program

Spans = list[tuple[int, int]]


def split(programs: Iterable[Program], folder: Path) -> dict[str, Program]:
    """Write both modules of every program and the stub; the programs by the stem of the module that uses the classes.

    The lines keep their numbers. Marks on the lines of the classes are left out: no checker that reads a stub looks at
    the module itself.
    """
    stubs, found = Stubs(), dict[str, Program]()
    for program in programs:
        stem = f"{program.path.parent.name}_{program.path.stem}"
        schemas = folder / f"{stem}_schemas.py"
        file = stubs.project.open(program.path)
        typed = [n for n in file.tree.body if isinstance(n, ast.ClassDef) and stubs.declarations.is_typed(file, n)]
        needed = [n for n in file.tree.body if isinstance(n, (ast.Import, ast.ImportFrom)) or _is_alias(n)]
        schemas.write_text(_only(program.text, _spans([*typed, *needed])), "utf-8")
        schemas.with_suffix(".pyi").write_text(stubs.stub(schemas) or "", "utf-8")
        names = ", ".join(node.name for node in typed)
        imported = {typed[0].lineno: f"from {schemas.stem} import {names}"} if typed else {}
        (folder / f"{stem}.py").write_text(_without(program.text, _spans(typed), imported), "utf-8")
        inside = {line for first, last in _spans(typed) for line in range(first, last + 1)}
        marks = {line: mark for line, mark in program.marks.items() if line not in inside}
        found[stem] = Program(program.path, program.text, marks)
    return found


def _is_alias(node: ast.stmt) -> bool:
    called = isinstance(node, ast.Assign) and isinstance(node.value, (ast.Call, ast.Subscript))
    text = ast.unparse(node.value) if called and isinstance(node, ast.Assign) else ""
    return text.startswith(("TypeVar(", "Annotated["))


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
