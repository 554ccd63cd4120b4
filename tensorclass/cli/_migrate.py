"""`tensorclass migrate`: rewrites the imports of a `tensordict` program, and lists the known differences in it."""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import tokenize
from collections.abc import Iterator
from difflib import unified_diff
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from .._content import MAX_SOURCE, read_content
from ..errors import ArgumentError, did_you_mean
from ._main import CommandError, on_disk, write_file

OLD, NEW = "tensordict", "tensorclass"
NOTEBOOK = ".ipynb"
SKIPPED = {"__pycache__", "node_modules", "site-packages", "build", "dist"}


_MAGIC = re.compile(r"^(\s*)(?:[%!?].*|.*\?\s*)$")
"""A line of a notebook that is not Python."""
_FOREIGN = re.compile(r"%%(?!time|capture|prun)")
"""The first line of a cell that is not Python."""


class Rule(NamedTuple):
    """A difference that can be found in a program: its pattern, and the text about it."""

    text: str
    tree: ast.AST
    message: str


def rules() -> list[Rule]:
    """The rules of `differences.txt`, next to this file."""
    lines = Path(__file__).with_name("differences.txt").read_text("utf-8").splitlines()
    rows = [line.split(" => ", 1) for line in lines if line and not line.startswith("#")]
    return [Rule(text, _pattern(text), message) for text, message in rows]


def _pattern(text: str) -> ast.AST:
    tree = ast.parse(text).body[0]
    return tree.value if isinstance(tree, ast.Expr) else tree


class Finding(NamedTuple):
    """A place that a person has to check."""

    line: int
    text: str


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("paths", nargs="+", type=on_disk, metavar="PATH", help="programs, or folders with programs")
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--diff", action="store_true", help="show what would change and write nothing; the default")
    choice.add_argument("--force", action="store_true", help="write the changed files")


def run(arguments: argparse.Namespace) -> int:
    """Show or write the changes; 1 if places are left that a person has to check."""
    missing = [path for path in arguments.paths if not path.exists()]
    if missing:
        raise CommandError(f"no file or folder `{missing[0]}`")
    status = changed = 0
    for file in (file for path in arguments.paths for file in _sources(path)):
        try:
            raw = read_content(file, MAX_SOURCE)
            encoding = tokenize.detect_encoding(io.BytesIO(raw).readline)[0]
            text = raw.decode(encoding)
            new, findings = _migrated_notebook(text) if file.suffix == NOTEBOOK else migrated(text)
        except (SyntaxError, ValueError, OSError, tokenize.TokenError) as error:
            print(f"{file}: can't be read: {error}")
            status = 1
            continue
        if new != text and arguments.force:
            write_file(file, new.encode(encoding), force=True)
        elif new != text:
            rows = unified_diff(text.splitlines(True), new.splitlines(True), f"{file}", f"{file} (migrated)")
            print("".join(row if row.endswith("\n") else f"{row}\n" for row in rows), end="")
        changed += new != text
        status |= bool(findings)
        for line, message in sorted(set(findings)):
            print(f"{file}:{line}: {message}")
    done = "written" if arguments.force else "to be written with --force"
    print(f"{changed} {'file' if changed == 1 else 'files'} {done}; docs/migrating.md has every difference")
    return status


def _sources(path: Path) -> Iterator[Path]:
    if path.is_file():
        if path.suffix not in ("", ".py", ".pyi", ".pyw", NOTEBOOK):
            raise CommandError(f"{path} is not a program or a notebook of Python")
        yield path
        return
    for file in sorted([*path.rglob("*.py"), *path.rglob(f"*{NOTEBOOK}")]):
        inner = file.relative_to(path).parts
        if not any(part in SKIPPED or part.startswith(".") for part in inner):
            yield file


def migrated(text: str) -> tuple[str, list[Finding]]:
    """A program with rewritten imports, and the findings.

    Raises:
        SyntaxError: for text that is not Python.

    >>> migrated("import tensordict")
    ('import tensorclass as tensordict', [])
    """
    tree = ast.parse(text)
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom) and _modules(node)]
    if not imports:
        return text, [*_texts(tree)]
    lines = text.splitlines(keepends=True)
    words = [token for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type == tokenize.NAME]
    for node in sorted(imports, key=lambda node: (node.lineno, node.col_offset), reverse=True):
        for place, (row, column) in reversed([*_places(node, words, lines)]):
            line = lines[row - 1]
            lines[row - 1] = line[:column] + place + line[column + len(OLD) :]
    return "".join(lines), [*_names(imports), *_uses(tree, _bound(imports)), *_differences(tree), *_texts(tree)]


def _migrated_notebook(text: str) -> tuple[str, list[Finding]]:
    """A notebook with rewritten imports, and the findings by cell. The code cells are one program, without magics."""
    notebook = json.loads(text)
    if not isinstance(notebook, dict) or "cells" not in notebook:
        raise ArgumentError("it is not a notebook of format 4")
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    given = ["".join(cell["source"]).split("\n") for cell in cells]
    plain = [[_MAGIC.sub(r"\1pass", "%" if _FOREIGN.match(lines[0]) else line) for line in lines] for lines in given]
    before = "\n".join("\n".join(lines) for lines in plain)
    after, found = migrated(before)
    rest, findings, start = after.split("\n"), [], 0
    for number, (cell, lines, code) in enumerate(zip(cells, given, plain, strict=True), 1):
        new = [old if old != same else rest[start + i] for i, (old, same) in enumerate(zip(lines, code, strict=True))]
        source = "\n".join(new)
        cell["source"] = source if isinstance(cell["source"], str) else source.splitlines(keepends=True)
        inside = [one for one in found if start < one.line <= start + len(lines)]
        findings += [Finding(one.line - start, f"code cell {number}: {one.text}") for one in inside]
        start += len(lines)
    return text if before == after else json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", findings


def _texts(tree: ast.AST) -> Iterator[Finding]:
    """Strings in calls that name a module, as in `import_module("tensordict.nn")` and `patch("tensordict.stack")`."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    for value in [one for node in calls for one in node.args if isinstance(one, ast.Constant)]:
        if isinstance(value.value, str) and re.fullmatch(rf"{OLD}(\.\w+)*", value.value):
            yield Finding(value.lineno, f"the string {value.value!r} is unchanged; write {NEW!r} for a module")


def _modules(node: ast.Import | ast.ImportFrom) -> list[str]:
    """The modules of the old library that a statement imports."""
    if isinstance(node, ast.ImportFrom):
        names = [node.module or ""] if not node.level else []
    else:
        names = [alias.name for alias in node.names]
    return [name for name in names if name.partition(".")[0] == OLD]


def _places(node: ast.Import | ast.ImportFrom, words: list[Any], lines: list[str]) -> Iterator[tuple[str, Any]]:
    """The replacement of each old module name, and the position of its first word."""
    end = (node.end_lineno or node.lineno, len(lines[(node.end_lineno or node.lineno) - 1]))
    start = (node.lineno, len(lines[node.lineno - 1].encode()[: node.col_offset].decode()))
    found = [word for word in words if word.string == OLD and start <= word.start < end]
    if isinstance(node, ast.ImportFrom):
        yield NEW, found[0].start
        return
    for alias in node.names:
        if alias.name.partition(".")[0] == OLD:
            word = next(
                w for w in found if w.line[w.start[1] :].startswith(alias.name) and w.line[w.start[1] - 1 :][:1] in " ,"
            )
            found = found[found.index(word) + 1 :]
            dotted = "." in alias.name
            bare = f"{NEW} as {OLD}"
            yield (NEW if alias.asname else f"{bare}, {NEW}" if dotted else bare), word.start


def _names(imports: list[Any]) -> Iterator[Finding]:
    """Modules and names that this library lacks."""
    for node in imports:
        for module in _modules(node):
            ours = _module(NEW + module[len(OLD) :])
            if ours is None:
                yield Finding(node.lineno, f"tensorclass has no module `{module[len(OLD) + 1 :]}`")
            elif isinstance(node, ast.ImportFrom):
                yield from (
                    _absent(node.lineno, ours, alias.name) for alias in node.names if not _has(ours, alias.name)
                )


def _module(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        return None


def _has(module: Any, name: str) -> bool:
    return name == "*" or hasattr(module, name) or _module(f"{module.__name__}.{name}") is not None


def _absent(line: int, module: Any, name: str) -> Finding:
    hint = next((f"; {rule.message}" for rule in rules() if rule.text == name), did_you_mean(name, dir(module)))
    return Finding(line, f"{module.__name__} has no `{name}`{hint}")


def _bound(imports: list[Any]) -> dict[str, Any]:
    """The names that are bound to modules of the library."""
    aliases = [alias for node in imports if isinstance(node, ast.Import) for alias in node.names]
    ours = [alias for alias in aliases if alias.name.partition(".")[0] == OLD]
    found = {alias.asname or OLD: _module(NEW + alias.name[len(OLD) :] if alias.asname else NEW) for alias in ours}
    return {name: module for name, module in found.items() if module is not None}


def _uses(tree: ast.AST, bound: dict[str, Any]) -> Iterator[Finding]:
    """Attributes of the modules that this library lacks."""
    node: Any
    for node in ast.walk(tree):
        module = bound.get(getattr(node.value, "id", "")) if isinstance(node, ast.Attribute) else None
        if module is not None and not _has(module, node.attr):
            yield _absent(node.lineno, module, node.attr)


def _differences(tree: ast.AST) -> Iterator[Finding]:
    """The places that match a rule.

    Fields are only checked in typed classes, and names of other packages are skipped.
    """
    known = [rule for rule in rules() if not isinstance(rule.tree, ast.Name)]  # names are handled by `_uses`
    foreign = set(_foreign(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and _typed(node):
            for row in (row for row in node.body if isinstance(row, ast.AnnAssign)):
                found = [rule.message for rule in known if matches(rule.tree, row, node.name)]
                yield from (Finding(row.lineno, text.replace("OWN", node.name)) for text in found)
        elif not isinstance(node, ast.AnnAssign):
            for rule in known:
                if matches(rule.tree, node) and (_root(node) not in foreign or rule.text.startswith(f"{_root(node)}.")):
                    yield Finding(getattr(node, "lineno", 0), rule.message)


def _foreign(tree: ast.AST) -> Iterator[str]:
    """The names that a program imports from elsewhere."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom) and not _modules(node):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)


def _root(node: Any) -> str | None:
    """The first name in a call."""
    node = getattr(node, "func", None)
    while isinstance(node, ast.Attribute):
        node = node.value
    return getattr(node, "id", None)


def _typed(node: ast.ClassDef) -> bool:
    parts = [part for top in (*node.bases, *node.decorator_list) for part in ast.walk(top)]
    names = {getattr(part, "id", getattr(part, "attr", None)) for part in parts}
    return not names.isdisjoint({"tensorclass", "TensorClass", "TypedTensorDict"})


def matches(pattern: Any, node: Any, own: str = "") -> bool:
    """Whether a part of a program matches a pattern; parts that the pattern omits may be anything."""
    if pattern is None or isinstance(pattern, ast.Load | ast.Store):
        return True
    if isinstance(pattern, ast.Name) and pattern.id == "_":
        return isinstance(node, ast.AST)
    if isinstance(pattern, ast.Dict):
        return isinstance(node, ast.Dict)
    if isinstance(pattern, ast.Name):
        name = own if pattern.id == "OWN" else pattern.id
        return name in (getattr(node, "id", None), getattr(node, "attr", None), getattr(node, "value", None))
    if type(pattern) is not type(node):
        return False
    if isinstance(pattern, ast.Call):
        given = {word.arg: word.value for word in node.keywords}
        return (
            matches(pattern.func, node.func, own)
            and len(node.args) >= len(pattern.args)
            and all(matches(one, other, own) for one, other in zip(pattern.args, node.args, strict=False))
            and all(matches(word.value, given.get(word.arg), own) for word in pattern.keywords)
        )
    if isinstance(pattern, ast.With):
        return any(matches(pattern.items[0].context_expr, item.context_expr, own) for item in node.items)
    if isinstance(pattern, list):
        return len(pattern) == len(node) and all(map(matches, pattern, node))
    if isinstance(pattern, ast.Constant) or not isinstance(pattern, ast.AST):
        return bool(getattr(pattern, "value", pattern) == getattr(node, "value", node))
    return all(matches(value, getattr(node, name), own) for name, value in ast.iter_fields(pattern))
