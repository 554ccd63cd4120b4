"""No error keeps its own traceback alive: a batch that a failed call held is let go at once, without the collector."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests._sources import sources

Function = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
KEEPERS = {"append", "put", "put_nowait", "add", "setdefault", "set_exception"}


def handed(value: ast.expr | None) -> Iterator[str]:
    """The names whose values an expression passes on as they are."""
    if isinstance(value, ast.Name):
        yield value.id
    elif isinstance(value, (ast.Tuple, ast.List, ast.Set)):
        for part in value.elts:
            yield from handed(part)
    elif isinstance(value, (ast.Dict, ast.BoolOp)):
        for part in value.values:
            yield from handed(part)
    elif isinstance(value, ast.IfExp):
        yield from handed(value.body)
        yield from handed(value.orelse)
    elif isinstance(value, (ast.NamedExpr, ast.Starred)):
        yield from handed(value.value)


def kept(handler: ast.ExceptHandler) -> Iterator[int]:
    """The lines of a handler that give its error to something that outlives the handler."""
    for node in ast.walk(handler):
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) and handler.name in handed(node.value):
            yield node.lineno
        elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in KEEPERS:
            yield from (node.lineno for argument in node.args if handler.name in handed(argument))


def handlers(tree: ast.AST) -> list[ast.ExceptHandler]:
    """The handlers that name their error; Python deletes that name at their end."""
    return [node for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler) and node.name]


def deleted(tree: ast.AST) -> set[ast.Raise]:
    """The `raise name` inside of `try: ... finally: del name`."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Try):
            gone = {
                name
                for last in node.finalbody
                if isinstance(last, ast.Delete)
                for name in map(ast.unparse, last.targets)
            }
            found |= {
                inner
                for inner in ast.walk(node)
                if isinstance(inner, ast.Raise) and inner.exc is not None and ast.unparse(inner.exc) in gone
            }
    return found


def raised(tree: ast.AST) -> Iterator[int]:
    """The lines that raise an error which a variable or an attribute still holds: parameters, locals, `self.error`."""
    safe = deleted(tree) | {
        node
        for handler in handlers(tree)
        for node in ast.walk(handler)
        if isinstance(node, ast.Raise) and set(handed(node.exc)) == {handler.name}
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and node not in safe:
            names = set(handed(node.exc)) | ({node.exc.attr} if isinstance(node.exc, ast.Attribute) else set())
            if any(not name.lstrip("_")[:1].isupper() for name in names):
                yield node.lineno


def faults(tree: ast.AST) -> list[int]:
    """All lines that keep an error."""
    return sorted({*raised(tree), *(line for handler in handlers(tree) for line in kept(handler))})


def test_no_function_keeps_an_error() -> None:
    """No function raises its own parameter or a variable, and no handler keeps its error: `HeldError` does both."""
    found = {source.name: faults(source.tree) for source in sources()}
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "text",
    [
        "def f(error): raise error",
        "def f(self): raise self.error",
        "def f():\n    error = ValueError()\n    raise error",
        "def f(problem): raise problem or ValueError()",
        "try: f()\nexcept E as error:\n    kept = error",
        "try: f()\nexcept E as error:\n    self.kept = error",
        "try: f()\nexcept E as error:\n    kept = 1, error",
        "try: f()\nexcept E as error:\n    kept = error if x else None",
        "try: f()\nexcept E as error:\n    kept.append(error)",
        "try: f()\nexcept E as error:\n    future.set_exception(error)",
    ],
)
def test_the_check_finds(text: str) -> None:
    """Each way to keep an error is found."""
    assert faults(ast.parse(text))


@pytest.mark.parametrize(
    "text",
    [
        "def f():\n    raise ValueError",
        "def f():\n    raise _Private('text')",
        "def f():\n    try:\n        raise error\n    finally:\n        del error",
        "try: f()\nexcept E as error:\n    raise E(str(error)) from error",
        "try: f()\nexcept E as error:\n    blame(error)\n    raise",
        "try: f()\nexcept E as error:\n    raise error from None",
        "try: f()\nexcept E as error:\n    kept = HeldError(error)",
        "try: f()\nexcept E as error:\n    text = str(error)",
    ],
)
def test_the_check_lets_pass(text: str) -> None:
    """What keeps nothing is allowed."""
    assert faults(ast.parse(text)) == []
