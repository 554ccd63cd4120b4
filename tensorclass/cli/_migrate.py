"""`tensorclass migrate`: rewrites the imports of a `tensordict` program, and lists the known differences in it."""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import tokenize
from bisect import bisect_right
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from itertools import accumulate, groupby, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from .._content import MAX_SOURCE, read_content
from ..errors import ArgumentError, did_you_mean, page_of, printable
from ..store import find_lost_writes
from ._main import CommandError, on_disk, write_file

OLD, NEW = "tensordict", "tensorclass"
NOTEBOOK = ".ipynb"
SKIPPED = {"__pycache__", "node_modules", "site-packages", "build", "dist"}


_FOREIGN = re.compile(r"%%(?!time|capture|prun)")
"""The first line of a cell that is not Python."""
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")
"""A line as Python counts them; `splitlines` also ends lines at form feeds and others."""
_FROM = re.compile(r"from(?:\s|\\(?:\r\n|\r|\n))*")
_UNREADABLE = (
    SyntaxError, ValueError, OSError, LookupError, TypeError, AttributeError, RecursionError, MemoryError,
)  # fmt: skip
"""What reading and parsing any bytes raises: unknown encodings, text that is not Python, or nested too deeply."""
_CONTEXT = 3
"""Unchanged lines that are shown around a change."""
_HINTED = 100
"""The most unknown names for which the nearest one is searched."""


class Rule(NamedTuple):
    """A difference that can be found in a program: its pattern, and the text about it."""

    text: str
    tree: ast.AST
    message: str


@cache
def rules() -> list[Rule]:
    """The rules of `differences.txt`, next to this file."""
    lines = Path(__file__).with_name("differences.txt").read_text("utf-8").splitlines()
    rows = [line.split(" => ", 1) for line in lines if line and not line.startswith("#")]
    return [Rule(text, _pattern(text), message) for text, message in rows]


def _pattern(text: str) -> ast.AST:
    tree = ast.parse(text).body[0]
    return tree.value if isinstance(tree, ast.Expr) else tree


class ImportFinding(NamedTuple):
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
            new, findings = _rewrite_notebook(text) if file.suffix == NOTEBOOK else rewrite_program(text)
            content = new.encode(encoding)
        except _UNREADABLE as error:
            why = str(error) or type(error).__name__
            print(printable(f"{file}: can't be read: {why}"))
            status = 1
            continue
        if new != text and arguments.force:
            write_file(file, content, force=True)
        elif new != text:
            shown = text if file.suffix != NOTEBOOK else _notebook_text(json.loads(text))
            for row in _difference(_LINE.findall(shown), _LINE.findall(new), printable(str(file))):
                print(printable(row.rstrip("\r\n"), "\t"))
        changed += new != text
        status |= bool(findings)
        for line, message in sorted(set(findings)):
            print(printable(f"{file}:{line}: {message}"))
    done = "written" if arguments.force else "to be written with --force"
    print(f"{changed} {'file' if changed == 1 else 'files'} {done}; {page_of('migrating')} has every difference")
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


def rewrite_program(text: str) -> tuple[str, list[ImportFinding]]:
    """A program with rewritten imports, and the findings.

    Raises:
        SyntaxError: for text that is not Python.

    >>> rewrite_program("import tensordict")
    ('import tensorclass as tensordict', [])
    """
    tree = ast.parse(text)
    nodes = list(ast.walk(tree))
    imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom) and _modules(node)]
    if not imports:
        return text, [*_module_strings(nodes)]
    source, places, odd = _Source(text), list[tuple[int, str]](), list[ImportFinding]()
    for node in imports:
        for place, begin in _places(node, source):
            if text.startswith(OLD, begin):
                places.append((begin, place))
            else:  # Python reads other letters of Unicode as the same name
                odd.append(ImportFinding(node.lineno, f"the import is unchanged; write `{OLD}` in plain letters"))
    near: dict[str, str] = {}
    findings = [
        *odd,
        *_names(imports, near),
        *_lacking_attributes(nodes, _bound(imports), near),
        *_differences(nodes),
        *(ImportFinding(found.line, found.text) for found in find_lost_writes(tree) if found.sure),
        *_module_strings(nodes),
    ]
    return _replace_at(text, places), findings


def _replace_at(text: str, places: list[tuple[int, str]]) -> str:
    """A text with the old name replaced at some places."""
    parts, end = [], 0
    for begin, place in sorted(places):
        parts += [text[end:begin], place]
        end = begin + len(OLD)
    return "".join([*parts, text[end:]])


class _Source:
    """A program, and where its lines begin."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = _LINE.findall(text)
        self.begins = [0, *accumulate(map(len, self.lines))]
        self._widths: dict[int, list[int]] = {}

    def at(self, row: int, column: int) -> int:
        """The position of a character, from its line and its column in bytes."""
        line = self.lines[row - 1]
        if not line.isascii():
            if row not in self._widths:
                self._widths[row] = list(accumulate(len(letter.encode()) for letter in line))
            column = bisect_right(self._widths[row], column)
        return self.begins[row - 1] + column


def _difference(old: list[str], new: list[str], name: str) -> Iterator[str]:
    """The changed lines with some lines around them, for texts with the same number of lines."""
    changed = [i for i, (one, other) in enumerate(zip(old, new, strict=True)) if one != other]
    yield from (f"--- {name}", f"+++ {name} (migrated)")
    cuts = [0, *[k for k in range(1, len(changed)) if changed[k] - changed[k - 1] > 2 * _CONTEXT + 1], len(changed)]
    for low, high in pairwise(cuts):
        begin = max(0, changed[low] - _CONTEXT)
        end = min(len(old), changed[high - 1] + _CONTEXT + 1)
        where = f"{begin + 1},{end - begin}" if end - begin != 1 else f"{begin + 1}"
        yield f"@@ -{where} +{where} @@"
        for same, rows in groupby(range(begin, end), lambda i: old[i] == new[i]):
            block = list(rows)
            yield from (f" {old[i]}" for i in block if same)
            yield from (f"-{old[i]}" for i in block if not same)
            yield from (f"+{new[i]}" for i in block if not same)


def _notebook_text(notebook: Any) -> str:
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def _rewrite_notebook(text: str) -> tuple[str, list[ImportFinding]]:
    """A notebook with rewritten imports, and the findings by cell. The code cells are one program, without magics."""
    notebook = json.loads(text)
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        raise ArgumentError("it is not a notebook of format 4")
    cells = [cell for cell in notebook["cells"] if isinstance(cell, dict) and cell.get("cell_type") == "code"]
    cells = [cell for cell in cells if _is_source(cell.get("source"))]
    given = ["".join(cell["source"]).split("\n") for cell in cells]
    plain = [["pass" if _FOREIGN.match(lines[0]) else _without_magic(line) for line in lines] for lines in given]
    before = "\n".join("\n".join(lines) for lines in plain)
    after, found = rewrite_program(before)
    rest, findings, start = after.split("\n"), [], 0
    by_line = {line: list(ones) for line, ones in groupby(sorted(found), lambda one: one.line)}
    for number, (cell, lines, code) in enumerate(zip(cells, given, plain, strict=True), 1):
        new = [old if old != same else rest[start + i] for i, (old, same) in enumerate(zip(lines, code, strict=True))]
        source = "\n".join(new)
        cell["source"] = source if isinstance(cell["source"], str) else source.splitlines(keepends=True)
        inside = [one for line in range(start + 1, start + len(lines) + 1) for one in by_line.get(line, ())]
        findings += [ImportFinding(one.line - start, f"code cell {number}: {one.text}") for one in inside]
        start += len(lines)
    return text if before == after else _notebook_text(notebook), findings


def _is_source(source: Any) -> bool:
    return isinstance(source, str) or (isinstance(source, list) and all([isinstance(one, str) for one in source]))


def _without_magic(line: str) -> str:
    """A line of a notebook as Python: commands of IPython do nothing."""
    code = line.strip()
    return f"{line[: len(line) - len(line.lstrip())]}pass" if code[:1] in {*"%!?"} or code[-1:] == "?" else line


def _module_strings(nodes: list[ast.AST]) -> Iterator[ImportFinding]:
    """Strings in calls that name a module, as in `import_module("tensordict.nn")` and `patch("tensordict.stack")`."""
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    for value in [one for node in calls for one in node.args if isinstance(one, ast.Constant)]:
        if isinstance(value.value, str) and re.fullmatch(rf"{OLD}(\.\w+)*", value.value):
            yield ImportFinding(value.lineno, f"the string {value.value!r} is unchanged; write {NEW!r} for a module")


def _modules(node: ast.Import | ast.ImportFrom) -> list[str]:
    """The modules of the old library that a statement imports."""
    if isinstance(node, ast.ImportFrom):
        names = [node.module or ""] if not node.level else []
    else:
        names = [alias.name for alias in node.names]
    return [name for name in names if name.partition(".")[0] == OLD]


def _places(node: ast.Import | ast.ImportFrom, source: _Source) -> Iterator[tuple[str, int]]:
    """The replacement of each old module name, and the position of its first word."""
    if isinstance(node, ast.ImportFrom):
        found = _FROM.match(source.text, source.at(node.lineno, node.col_offset))
        yield NEW, -1 if found is None else found.end()
        return
    for alias in node.names:
        if alias.name.partition(".")[0] == OLD:
            bare = f"{NEW} as {OLD}"
            new = f"{bare}, {NEW}" if "." in alias.name else bare
            yield NEW if alias.asname else new, source.at(alias.lineno, alias.col_offset)


def _names(imports: list[Any], near: dict[str, str]) -> Iterator[ImportFinding]:
    """Modules and names that this library lacks."""
    for node in imports:
        for module in _modules(node):
            ours = _module(NEW + module[len(OLD) :])
            if ours is None:
                yield ImportFinding(node.lineno, f"tensorclass has no module `{module[len(OLD) + 1 :]}`")
            elif isinstance(node, ast.ImportFrom):
                yield from (
                    _absent(node.lineno, ours, alias.name, near) for alias in node.names if not _has(ours, alias.name)
                )


def _module(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        return None


def _has(module: Any, name: str) -> bool:
    if name == "*" or hasattr(module, name):
        return True
    return not name.startswith("_") and _module(f"{module.__name__}.{name}") is not None


def _absent(line: int, module: Any, name: str, near: dict[str, str]) -> ImportFinding:
    """The finding for an unknown name; `near` has the nearest names that were searched before."""
    if name not in near and len(near) < _HINTED:
        near[name] = did_you_mean(name, dir(module))
    known = [f"; {rule.message}" for rule in rules() if rule.text == name]
    return ImportFinding(line, f"{module.__name__} has no `{name}`{known[0] if known else near.get(name, '')}")


def _bound(imports: list[Any]) -> dict[str, Any]:
    """The names that are bound to modules of the library."""
    aliases = [alias for node in imports if isinstance(node, ast.Import) for alias in node.names]
    ours = [alias for alias in aliases if alias.name.partition(".")[0] == OLD]
    found = {alias.asname or OLD: _module(NEW + alias.name[len(OLD) :] if alias.asname else NEW) for alias in ours}
    return {name: module for name, module in found.items() if module is not None}


def _lacking_attributes(nodes: list[ast.AST], bound: dict[str, Any], near: dict[str, str]) -> Iterator[ImportFinding]:
    """Attributes of the modules that this library lacks."""
    node: Any
    for node in nodes:
        module = bound.get(getattr(node.value, "id", "")) if isinstance(node, ast.Attribute) else None
        if module is not None and not _has(module, node.attr):
            yield _absent(node.lineno, module, node.attr, near)


def _differences(nodes: list[ast.AST]) -> Iterator[ImportFinding]:
    """The places that match a rule.

    Fields are only checked in typed classes, and names of other packages are skipped.
    """
    known: dict[type, list[Rule]] = {}
    for rule in rules():
        known.setdefault(type(rule.tree), []).append(rule)
    known.pop(ast.Name, None)  # names are handled by `_lacking_attributes`
    foreign = set(_foreign(nodes))
    for node in nodes:
        if isinstance(node, ast.ClassDef) and _is_typed_class(node):
            for row in (row for row in node.body if isinstance(row, ast.AnnAssign)):
                found = [rule.message for rule in known.get(ast.AnnAssign, ()) if matches(rule.tree, row, node.name)]
                yield from (ImportFinding(row.lineno, text.replace("OWN", node.name)) for text in found)
        elif not isinstance(node, ast.AnnAssign):
            for rule in known.get(type(node), ()):
                if matches(rule.tree, node) and (_root(node) not in foreign or rule.text.startswith(f"{_root(node)}.")):
                    yield ImportFinding(getattr(node, "lineno", 0), rule.message)


def _foreign(nodes: list[ast.AST]) -> Iterator[str]:
    """The names that a program imports from elsewhere."""
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom) and not _modules(node):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)


def _root(node: Any) -> str | None:
    """The first name in a call."""
    node = getattr(node, "func", None)
    while isinstance(node, ast.Attribute):
        node = node.value
    return getattr(node, "id", None)


def _is_typed_class(node: ast.ClassDef) -> bool:
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
