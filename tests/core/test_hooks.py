"""Private methods that containers refine: each has one meaning, which stands in docs/internals.md."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import tensorclass.io  # its containers too
import tensorclass.nn  # noqa: F401  # as above
from tensorclass import TensorCollection
from tests._sources import sources

INTERNALS = Path(__file__).parents[2] / "docs" / "internals.md"
MOST = 55
"""A hook that goes lowers this; one that comes needs another to go."""


def _kinds(cls: type) -> Iterator[type]:
    for kind in cls.__subclasses__():
        yield kind
        yield from _kinds(kind)


def _is_stub(statement: ast.stmt) -> bool:
    """Whether a method is declared for classes that are written later, and does nothing itself."""
    if not isinstance(statement, ast.FunctionDef):
        return False
    last = statement.body[-1]
    return isinstance(last, ast.Raise) and last.exc is not None and ast.unparse(last.exc) == "NotImplementedError"


def _given(statement: ast.stmt) -> list[str]:
    """The private names that a statement of a class body gives a value."""
    if isinstance(statement, ast.FunctionDef):
        names = [statement.name]
    elif isinstance(statement, ast.Assign):
        names = [target.id for target in statement.targets if isinstance(target, ast.Name)]
    else:
        known = isinstance(statement, ast.AnnAssign) and statement.value is not None
        names = [statement.target.id] if known and isinstance(statement.target, ast.Name) else []
    return [name for name in names if name.startswith("_") and not name.startswith("__")]


def hooks() -> set[str]:
    """Names that a class of containers has from a base and gives anew, read from the source.

    What one class declares and one other writes is no hook: nobody refines it.
    """
    own = {
        (f"tensorclass.{source.name.removesuffix('.py').replace('/', '.')}", node.name): {
            name: not _is_stub(statement) for statement in node.body for name in _given(statement)
        }
        for source in sources()
        for node in source.tree.body
        if isinstance(node, ast.ClassDef)
    }

    def named(cls: type) -> dict[str, bool]:
        if getattr(sys.modules.get(cls.__module__), cls.__name__, None) is not cls:
            return {}  # what a test made under the same name
        return own.get((cls.__module__, cls.__name__), {})

    classes = {TensorCollection, *_kinds(TensorCollection)}
    again = {name for cls in classes for name in named(cls) for base in cls.__mro__[1:] if name in named(base)}
    return {name for name in again if sum([named(cls).get(name, False) for cls in classes]) > 1}


def test_every_hook_has_a_line():
    """The tables of the page have each hook, and nothing that is not one."""
    text = INTERNALS.read_text("utf-8").partition("## Containers")[2].partition("\n## ")[0]
    rows = {name for row in re.findall(r"^\| (.*?) \|", text, re.M) for name in re.findall(r"`(_[a-z]\w*)", row)}
    attributes = {"_batch_size", "_device", "_names", "_locked"}  # data, and no operation asks how it is kept
    assert hooks() - rows == set()
    assert rows - hooks() - attributes == set()


def test_hooks_are_few():
    """Whoever writes a container reads all of them."""
    assert len(hooks()) <= MOST
