"""`tensorclass migrate`: a program of `tensordict` with the imports of this library, and what is different in it."""

from __future__ import annotations

import argparse
import ast
import io
import tokenize
from collections.abc import Iterator
from difflib import unified_diff
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from .._content import MAX_SOURCE, read_content, write_content
from ..errors import did_you_mean
from ._main import CommandError

OLD, NEW = "tensordict", "tensorclass"
SKIPPED = {"__pycache__", "node_modules", "site-packages", "build", "dist"}
GONE = {
    "NO_DEFAULT": "write `td[key]`, which raises for an absent key",
    "TruncatedStandardNormal": "write `TruncatedNormal(0.0, 1.0, a, b)`",
    "MetaTensor": "read `TensorDict.attrs`",
    "TensorDictStore": "servers are not supported", "LazyStackedTensorDictStore": "servers are not supported",
    "symbolic_trace": "export modules with `torch.export`",
}  # fmt: skip
"""Names that are not here, and what to write."""
METHODS = {
    **dict.fromkeys(("half", "bfloat16"), "of a typed class casts floating fields only, and breaks no declared dtype"),
    "load_memmap": "maps the file and writes through; `mode=\"r\"` keeps writes in memory",
    "memmap": "makes the one file that `save` writes, not a folder with a file for each tensor",
    "memmap_": "makes the one file that `save` writes, not a folder with a file for each tensor",
    "save": "writes one file, whole or not at all, and refuses objects that JSON can't hold",
    "load": "gives tensors whose writes stay in memory; `mode=\"r+\"` writes to the file",
    "update_": "is an error for keys that the container lacks",
    "copy_": "is an error for unknown and for missing keys",
    "valid_keys": "takes no `sort`; call `sorted`",
}  # fmt: skip
"""Methods that do something else on containers; docs/migrating.md has all differences."""
KEYWORDS = {
    "safe": "`from_tensordict` always validates", "handler": "a mapped tensor opens the file by its name",
    "robust_key": "is not an argument here",
}  # fmt: skip


class Finding(NamedTuple):
    """Something that a person has to look at."""

    line: int
    text: str


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="programs, or folders with programs")
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--diff", action="store_true", help="show what would change and write nothing; the default")
    choice.add_argument("--force", action="store_true", help="write the changed files")


def run(arguments: argparse.Namespace) -> int:
    """Show or write; 1 when something is left that a person has to look at."""
    missing = [path for path in arguments.paths if not path.exists()]
    if missing:
        raise CommandError(f"no file or folder `{missing[0]}`")
    status = changed = 0
    for file in (file for path in arguments.paths for file in _sources(path)):
        try:
            text = read_content(file, MAX_SOURCE).decode()
            new, findings = migrated(text)
        except (SyntaxError, ValueError, OSError, tokenize.TokenError) as error:
            print(f"{file}: can't be read: {error}")
            status = 1
            continue
        if new != text and arguments.force:
            try:
                write_content(file, new)
            except OSError as error:
                raise CommandError(f"can't write {file}: {error.strerror}") from None
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
        yield path
        return
    for file in sorted(path.rglob("*.py")):
        inner = file.relative_to(path).parts
        if not any(part in SKIPPED or part.startswith(".") for part in inner):
            yield file


def migrated(text: str) -> tuple[str, list[Finding]]:
    """A program with other imports, and what is left to do.

    Raises:
        SyntaxError: for what is no Python.

    >>> migrated("import tensordict")
    ('import tensorclass as tensordict', [])
    """
    tree = ast.parse(text)
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom) and _modules(node)]
    if not imports:
        return text, []
    lines = text.splitlines(keepends=True)
    words = [token for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type == tokenize.NAME]
    for node in sorted(imports, key=lambda node: (node.lineno, node.col_offset), reverse=True):
        for place, (row, column) in reversed([*_places(node, words, lines)]):
            line = lines[row - 1]
            lines[row - 1] = line[:column] + place + line[column + len(OLD) :]
    return "".join(lines), [*_names(imports), *_uses(tree, _bound(imports))]


def _modules(node: ast.Import | ast.ImportFrom) -> list[str]:
    """The modules of the old library that a statement imports."""
    if isinstance(node, ast.ImportFrom):
        names = [node.module or ""] if not node.level else []
    else:
        names = [alias.name for alias in node.names]
    return [name for name in names if name.partition(".")[0] == OLD]


def _places(node: ast.Import | ast.ImportFrom, words: list[Any], lines: list[str]) -> Iterator[tuple[str, Any]]:
    """What replaces the old name, and where it is: the first word of the module of each import."""
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
    """Modules and names that this library does not have."""
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
    hint = f"; {GONE[name]}" if name in GONE else did_you_mean(name, dir(module))
    return Finding(line, f"{module.__name__} has no `{name}`{hint}")


def _bound(imports: list[Any]) -> dict[str, Any]:
    """The names that stand for modules of the library."""
    aliases = [alias for node in imports if isinstance(node, ast.Import) for alias in node.names]
    ours = [alias for alias in aliases if alias.name.partition(".")[0] == OLD]
    found = {alias.asname or OLD: _module(NEW + alias.name[len(OLD) :] if alias.asname else NEW) for alias in ours}
    return {name: module for name, module in found.items() if module is not None}


def _uses(tree: ast.AST, bound: dict[str, Any]) -> Iterator[Finding]:
    """Attributes of the modules that are not here, and calls that do something else."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in bound:
            if not _has(bound[node.value.id], node.attr):
                yield _absent(node.lineno, bound[node.value.id], node.attr)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            name, owner = node.func.attr, node.func.value
            if name in METHODS and not (isinstance(owner, ast.Name) and owner.id in ("torch", "np", "json", "pickle")):
                yield Finding(node.lineno, f"`{name}` of a container {METHODS[name]}")
            yield from (
                Finding(node.lineno, f"`{word.arg}=`: {KEYWORDS[word.arg]}")
                for word in node.keywords
                if word.arg in KEYWORDS
            )
