"""A module for the stub generator: its tree, its text, and the meaning of its names. Nothing is executed."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from importlib.machinery import PathFinder
from io import BytesIO, StringIO
from pathlib import Path
from tokenize import detect_encoding
from typing import TypeAlias

from ..._content import MAX_SOURCE, read_content
from ...errors import TensorClassError

BODY_START = re.compile(r":(?=[ \t]*(?P<mark>#[^\n]*)?(?:\s*#[^\n]*\n)*\s*\Z)")
"""A candidate for the colon that ends the head of a class or function: only comments follow. A string may match too."""
Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Definition: TypeAlias = ast.ClassDef | Function


class StubError(TensorClassError):
    """Raised for a file for which no stub can be made."""


def _decode(content: bytes) -> str:
    """The text of a module, in the encoding that it declares."""
    encoding, _ = detect_encoding(BytesIO(content).readline)  # raises a SyntaxError if it is unknown
    return StringIO(content.decode(encoding), newline=None).read()


class SourceFile:
    """A parsed file.

    Args:
        path: Where it is.
        name: Its dotted name; by default derived from the enclosing folders with an `__init__.py`.

    Raises:
        StubError: for a file that can't be read or is not Python.
    """

    def __init__(self, path: Path, name: str | None = None) -> None:
        self.path = path
        try:
            self.text = _decode(read_content(path, MAX_SOURCE))
            self.tree = ast.parse(self.text)
        except OSError as error:
            raise StubError(f"{path}: can't be read: {error.strerror}") from None
        except UnicodeDecodeError as error:
            raise StubError(f"{path}: not text in {error.encoding}: {error.reason} at byte {error.start}") from None
        except (RecursionError, MemoryError):
            raise StubError(f"{path}: nested too deeply to be read") from None
        except (SyntaxError, ValueError) as error:  # a ValueError for null bytes
            line = getattr(error, "lineno", None)
            at = f"line {line}: " if line else ""
            raise StubError(f"{path}: {at}{getattr(error, 'msg', error)}; put it right and run again") from None
        self.name = module_name(path) if name is None else name
        self._lines = [line.encode() for line in self.text.splitlines(keepends=True)]
        self.package = self.name if path.stem == "__init__" else self.name.rpartition(".")[0]
        defined = [node for node in _flat(self.tree.body) if isinstance(node, Definition)]
        own = {node.name: f"{self.name}.{node.name}" for node in defined}
        self.names = {**dict(self.imported(self.tree.body)), **own}
        """The meaning of each module-level name, as a dotted path."""
        self.classes = {node.name: node for node in defined if isinstance(node, ast.ClassDef)}

    def imported(self, body: Iterable[ast.stmt]) -> Iterator[tuple[str, str]]:
        """The names that imports bind, each with the object that it refers to."""
        for node in _flat(body):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    top = alias.name.partition(".")[0]
                    yield alias.asname or top, alias.name if alias.asname else top
            elif isinstance(node, ast.ImportFrom):
                origin = absolute(node, self.package)
                for alias in node.names:
                    yield alias.asname or alias.name, f"{origin}.{alias.name}"

    def full_name(self, node: ast.expr) -> str:
        """The full name of a dotted expression, without brackets and calls; empty for anything else."""
        while isinstance(node, ast.Subscript | ast.Call):
            node = node.value if isinstance(node, ast.Subscript) else node.func
        if isinstance(node, ast.Attribute):
            head = self.full_name(node.value)
            return f"{head}.{node.attr}" if head else ""
        return self.names.get(node.id, node.id) if isinstance(node, ast.Name) else ""

    # ---- text ----------------------------------------------------------------------------------------------------

    def slice(self, start: tuple[int, int], end: tuple[int, int]) -> str:
        """The text between two positions: lines from 1, columns in bytes."""
        rows = self._lines[start[0] - 1 : end[0]]
        if not rows:
            return ""
        rows[-1] = rows[-1][: end[1]]
        rows[0] = rows[0][start[1] :]
        return b"".join(rows).decode()

    def text_of(self, node: ast.expr | ast.stmt) -> str:
        """An expression or statement as it is written; an expression of several lines may need its brackets."""
        text = self.slice((node.lineno, node.col_offset), _end(node))
        return ast.unparse(node) if "\n" in text and isinstance(node, ast.expr) else text

    def statement(self, node: ast.stmt) -> str:
        """The source of a statement with its trailing comment, without its indentation."""
        line = self._lines[_end(node)[0] - 1].decode()
        rest = line[len(line.encode()[: _end(node)[1]].decode()) :].strip()
        comment = f"  {rest}" if rest.startswith("#") else ""
        return dedent_text(self.text_of(node) + comment, node.col_offset)

    def head(self, node: Definition) -> tuple[str, str]:
        """The head, `def f(x: int) -> str`, and the comment for checkers after the colon."""
        first = node.body[0]
        decorators: list[ast.expr] = getattr(first, "decorator_list", [])
        start = min([(first.lineno, first.col_offset), *[(d.lineno, d.col_offset - 1) for d in decorators]])
        text = self.slice((node.lineno, node.col_offset), start)
        found = next(match for match in BODY_START.finditer(text) if _parses(f"{text[: match.start()]}: ..."))
        mark = (found["mark"] or "").strip()
        comment = f"  {mark}" if re.match(r"#\s*(type|pyright):", mark) else ""
        return dedent_text(text[: found.start()], node.col_offset), comment

    def docstring(self, node: ast.Module | Definition) -> str:
        """The source of the docstring; empty if there is none."""
        first = node.body[0] if node.body else None
        return self.statement(first) if first is not None and is_text(first) else ""


class Project:
    """Finds the modules that a file imports, on the path, without executing any of them."""

    def __init__(self) -> None:
        self._modules: dict[tuple[str, str], SourceFile | None] = {}

    def open(self, path: Path) -> SourceFile:
        """A file by its path.

        Raises:
            StubError: for a file that can't be read or is not Python.
        """
        file = SourceFile(path)
        self._modules[str(root_of(path)), file.name] = file
        return file

    def class_of(self, file: SourceFile, name: str) -> tuple[SourceFile, ast.ClassDef] | None:
        """The class with a full name, found through re-exports; None if its source is not found."""
        for _ in range(8):  # the most re-exports in a chain
            module, _, last = name.rpartition(".")
            found = self.module(file, module) if module else None
            if found is None:
                return None
            if last in found.classes:
                return found, found.classes[last]
            if found.names.get(last, name) == name:
                return None
            file, name = found, found.names[last]
        return None

    def module(self, near: SourceFile, name: str) -> SourceFile | None:
        """The source of a module that a file may import; None if it is not found."""
        if near.name == name:
            return near
        key = (str(root_of(near.path)), name)
        if key not in self._modules:
            self._modules[key] = self._find(Path(key[0]), name)
        return self._modules[key]

    def _find(self, root: Path, name: str) -> SourceFile | None:
        where: list[str] | None = [str(root), *sys.path]
        found = None
        for count in range(name.count(".") + 1):
            full = ".".join(name.split(".")[: count + 1])
            found = PathFinder.find_spec(full, where)
            if found is None:
                return None
            where = list(found.submodule_search_locations or ())
        origin = found.origin if found is not None else None
        try:
            return SourceFile(Path(origin), name) if origin and origin.endswith(".py") else None
        except StubError:
            return None


def root_of(path: Path) -> Path:
    """The folder from which a file is imported."""
    folder = path.resolve().parent
    while (folder / "__init__.py").is_file() and folder != folder.parent:
        folder = folder.parent
    return folder


def module_name(path: Path) -> str:
    """The dotted name under which a file is imported."""
    parts = path.resolve().relative_to(root_of(path)).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def absolute(node: ast.ImportFrom, package: str) -> str:
    """The module of `from ... import`, relative ones too."""
    if not node.level:
        return node.module or ""
    parts = package.split(".")
    base = ".".join(parts[: len(parts) - node.level + 1])
    return f"{base}.{node.module}" if node.module else base


def is_text(node: ast.stmt) -> bool:
    """Whether a statement is a string, as docstrings are."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def items_of(node: ast.expr) -> list[ast.expr]:
    """The items in brackets."""
    return node.elts if isinstance(node, ast.Tuple) else [node]


def dedent_text(text: str, columns: int) -> str:
    """Remove the indentation of all lines but the first, which has none."""
    return re.sub(rf"\n {{1,{columns}}}", "\n", text) if columns else text


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def _end(node: ast.expr | ast.stmt) -> tuple[int, int]:
    return node.end_lineno or node.lineno, node.end_col_offset or 0


def _flat(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module, with those of conditions and of `try`."""
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try):
            yield from _flat([*node.body, *node.orelse])
        if isinstance(node, ast.Try):
            yield from _flat([*[s for handler in node.handlers for s in handler.body], *node.finalbody])
