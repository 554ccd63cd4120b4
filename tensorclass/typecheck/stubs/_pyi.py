"""Stubs for modules with typed classes: the additions of the decorator are written out, everything else is copied."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ._fields import DECORATOR, Declarations, Types
from ._generated import class_head, declared, generated_lines
from ._project import Definition, Function, Project, SourceFile, is_text
from ._wrong import ClassCheck, Finding

MARK = "# Written by `tensorclass stubs` from"
QUIET = "# ty: ignore\n# ruff: noqa\n# fmt: off"
"""For tools that would change the file, and for ty, which doesn't support ignores with codes of other checkers."""
INDENT = "    "
BLOCKS = (ast.For, ast.AsyncFor, ast.With, ast.AsyncWith, ast.While)


class Stubs:
    """Writes the stubs of the modules of one project.

    Args:
        strict_keys: Whether only field names are valid string keys, so that other strings, and variables, are errors.
    """

    def __init__(self, strict_keys: bool = False) -> None:
        self.project = Project()
        self.declarations = Declarations(self.project)
        self.checker = ClassCheck(self.declarations)
        self.findings: list[Finding] = []
        """The wrong declarations in the files for which stubs were made."""
        self.strict_keys = strict_keys

    def stub(self, path: Path) -> str | None:
        """The stub of a file; None for one without typed classes.

        Raises:
            StubError: for a file that can't be read or is not Python.
        """
        file = self.project.open(path)
        nodes = (node for node in ast.walk(file.tree) if isinstance(node, ast.ClassDef))
        if not any(self.declarations.is_typed(file, node) for node in nodes):
            return None
        self.findings += self.checker.findings(file)
        return Module(self, file).text()


class Module:
    """The stub of one module."""

    def __init__(self, stubs: Stubs, file: SourceFile) -> None:
        self.stubs = stubs
        self.file = file
        self.needed: dict[str, str] = {}
        self.types = Types(file, "_t")

    def text(self) -> str:
        """The whole stub."""
        file = self.file
        statements = file.tree.body[1:] if file.docstring(file.tree) else file.tree.body
        future, lines = split_future(line for node in without_bodies(statements) for line in self.statement(node))
        modules = sorted(set(self.needed.values()))
        imports = [
            f"from {m} import {', '.join(n for n in sorted(self.needed) if self.needed[n] == m)}" for m in modules
        ]
        head = [f"{MARK} {file.path.name}; run it again after a change.", QUIET, file.docstring(file.tree)]
        text = "\n".join([*filter(None, head), *future, *imports, *lines])
        return re.sub(r"\n{3,}", "\n\n", text).rstrip() + "\n"

    def need(self, module: str, name: str, alias: str) -> str:
        """Import a name for the generated lines."""
        self.needed[f"{name} as {alias}"] = module
        return alias

    # ---- statements ----------------------------------------------------------------------------------------------

    def statement(self, node: ast.stmt) -> Iterator[str]:
        """The lines of the stub for one statement; empty for statements without types."""
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield self._import(node)
        elif isinstance(node, ast.ClassDef):
            yield from ("", *self.class_lines(node), "")
        elif isinstance(node, Function):
            yield from self.function(node)
        elif isinstance(node, ast.If):
            yield from self._condition(node)
        elif isinstance(node, ast.Try):
            yield from self._try(node)
        elif isinstance(node, BLOCKS):
            yield from self._bound(node)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if not any(isinstance(part, ast.Attribute | ast.Subscript) for t in targets for part in (t, *_items(t))):
                yield self.file.statement(node)
        elif type(node).__name__ == "TypeAlias" or is_text(node) or self._is_all(node):
            yield self.file.statement(node)

    def _is_all(self, node: ast.stmt) -> bool:
        return isinstance(node, ast.AugAssign) and self.file.text_of(node.target) == "__all__"

    def _import(self, node: ast.Import | ast.ImportFrom) -> str:
        """Copy an import. In an `__init__` without `__all__`, imported names are public: re-export them."""
        private = self.file.path.stem != "__init__" or "__all__" in self.file.text
        if private or not isinstance(node, ast.ImportFrom) or node.module == "__future__" or node.names[0].name == "*":
            return self.file.statement(node)
        names = ", ".join(f"{alias.name} as {alias.asname or alias.name}" for alias in node.names)
        return f"from {'.' * node.level}{node.module or ''} import {names}"

    def _condition(self, node: ast.If) -> Iterator[str]:
        test = self.file.text_of(node.test)
        if "__name__" in test and "__main__" in test:
            return
        yield f"if {test}:"
        yield from indent_lines(self._block(node.body))
        if node.orelse:
            yield "else:"
            yield from indent_lines(self._block(node.orelse))

    def _try(self, node: ast.Try) -> Iterator[str]:
        yield "try:"
        yield from indent_lines(self._block(node.body))
        for handler in node.handlers:
            kind = f" {self.file.text_of(handler.type)}" if handler.type is not None else ""
            yield f"except{kind}:"
            yield from indent_lines(self._block(handler.body))
        if not node.handlers:
            yield "finally:"
            yield from indent_lines(self._block(node.finalbody))

    def _block(self, statements: Sequence[ast.stmt]) -> list[str]:
        return [line for node in statements for line in self.statement(node)] or ["pass"]

    def _bound(self, node: ast.stmt) -> Iterator[str]:
        """Names that a loop or a `with` binds: of any type."""
        names = {n.id: None for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        for name in names:
            yield f"{name}: {self.need('typing', 'Any', '_Any')}"

    # ---- functions and classes -----------------------------------------------------------------------------------

    def function(self, node: Function) -> Iterator[str]:
        """Copy decorators, signature and docstring."""
        yield from (f"@{self.file.text_of(decorator)}" for decorator in node.decorator_list)
        yield from self.whole(node, *self.file.head(node), ["..."])

    def whole(self, node: Definition, head: str, comment: str, body: Sequence[str]) -> Iterator[str]:
        """A head, the docstring, and the body; on one line if the body is `...`."""
        docstring = self.file.docstring(node)
        if not docstring and list(body) == ["..."]:
            yield f"{head}: ...{comment}"
        else:
            yield f"{head}:{comment}"
            yield from indent_lines([docstring] if docstring else [])
            yield from indent_lines(body if list(body) != ["..."] else [])

    def class_lines(self, node: ast.ClassDef) -> Iterator[str]:
        """A class; a typed one with its base, constructor and keys."""
        typed = self.stubs.declarations.is_typed(self.file, node)
        kept = [d for d in node.decorator_list if self.file.full_name(d) != DECORATOR]
        yield from (f"@{self.file.text_of(decorator)}" for decorator in kept)
        head, comment = class_head(self, node) if typed else self.file.head(node)
        lines = [*self._members(node, typed), *(generated_lines(self, node) if typed else self._attributes(node))]
        yield from self.whole(node, head, comment, lines or ["..."])

    def _members(self, node: ast.ClassDef, typed: bool) -> Iterator[str]:
        for line in without_bodies(node.body[1:] if self.file.docstring(node) else node.body):
            if typed and isinstance(line, ast.AnnAssign):
                yield declared(self, node, line)
            else:
                yield from self.statement(line)

    def _attributes(self, node: ast.ClassDef) -> Iterator[str]:
        """The attributes that methods of a plain class assign to `self`; of type Any, unless annotated."""
        declared = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        declared |= {line.name for line in node.body if isinstance(line, Function)}
        for method in (line for line in node.body if isinstance(line, Function) and line.args.args):
            said = {a.arg: a.annotation for a in [*method.args.args, *method.args.kwonlyargs]}
            for line in ast.walk(method):
                for name, annotation in assigned(line, method.args.args[0].arg, said):
                    if name not in declared:
                        declared.add(name)
                        known = self.file.text_of(annotation) if annotation else self.need("typing", "Any", "_Any")
                        yield f"{name}: {known}"


def assigned(node: ast.AST, receiver: str, said: dict[str, ast.expr | None]) -> Iterator[tuple[str, ast.expr | None]]:
    """The attributes of `self` that a statement binds, with their annotations."""
    targets: list[ast.expr] = node.targets if isinstance(node, ast.Assign) else []
    if isinstance(node, ast.AnnAssign):
        targets = [node.target]
    for target in [part for t in targets for part in (t, *_items(t))]:
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == receiver:
            value = getattr(node, "value", None)
            given = said.get(value.id) if isinstance(value, ast.Name) else None
            yield target.attr, node.annotation if isinstance(node, ast.AnnAssign) else given


def _items(target: ast.expr) -> list[ast.expr]:
    return target.elts if isinstance(target, ast.Tuple | ast.List) else []


def without_bodies(statements: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements without the implementations of overloads, which stubs don't have."""
    overloaded: set[str] = set()
    for node in statements:
        if isinstance(node, Function):
            if any(ast.unparse(decorator).endswith("overload") for decorator in node.decorator_list):
                overloaded.add(node.name)
            elif node.name in overloaded:
                continue
        yield node


def indent_lines(lines: Iterable[str]) -> Iterator[str]:
    """Indent lines by one level; a string may have several lines."""
    for line in lines:
        yield "\n".join(INDENT + part if part.strip() else "" for part in line.split("\n"))


def split_future(lines: Iterable[str]) -> tuple[list[str], list[str]]:
    """Imports from `__future__`, which come first, and the others."""
    found: tuple[list[str], list[str]] = ([], [])
    for line in lines:
        found[not line.startswith("from __future__")].append(line)
    return found
