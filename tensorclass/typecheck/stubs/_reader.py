"""The certain meaning of names and annotations of a module; a name that is bound twice may be anything."""

from __future__ import annotations

import ast
import builtins
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import partial, reduce
from typing import NamedTuple

from ..._dims import FAMILY_DTYPES
from ..._kinds import ANY, NESTED, TENSOR, UNREAD, VALUE, kind_of_mark
from .._rules import ANNOTATED, ClassDeclaration, WrongAnnotation, shape_of
from ._fields import FAMILIES, Declarations
from ._project import SourceFile, items_of

Class = tuple[SourceFile, ast.ClassDef]
OPTIONAL = ("typing.Optional", "typing.Union")
SHAPE = "tensorclass.typing.Shape"
ELSEWHERE = frozenset((*sys.stdlib_module_names, "torch", "tensorclass", "jaxtyping", "numpy"))
"""Packages without typed classes, whose sources are not read."""
EXACT = {
    f"torch.{next(iter(dtypes))}": name
    for name, dtypes in FAMILY_DTYPES.items()
    if dtypes is not None and len(dtypes) == 1
}


class Said(NamedTuple):
    """The declaration in an annotation, and the typed class that it names."""

    declared: ClassDeclaration
    nested: Class | None = None


class Bound:
    """The names that one file binds, anywhere in it.

    Args:
        file: The file.
    """

    def __init__(self, file: SourceFile) -> None:
        self.file = file
        self.meanings: dict[str, set[str]] = defaultdict(set)
        self.real: set[str] = set()
        """The names that exist at run time."""
        nodes = list(ast.walk(file.tree))
        hidden = [part for node in nodes if isinstance(node, ast.If) and is_for_checkers(node) for part in node.body]
        inside = {id(part) for node in hidden for part in ast.walk(node)}
        for node in nodes:
            for name, meaning in self._bindings(node):
                self.meanings[name].add(meaning)
                self.real |= {name} if id(node) not in inside else set()

    def _bindings(self, node: ast.AST) -> Iterator[tuple[str, str]]:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from self.file.imported([node])
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, f"line {node.lineno}"
        elif isinstance(node, ast.arg):
            yield node.arg, "an argument"
        elif not isinstance(node, ast.alias) and isinstance(name := getattr(node, "name", None), str):
            yield name, f"line {getattr(node, 'lineno', 0)}"

    def name(self, node: ast.expr) -> str:
        """The certain full name of a dotted expression; "" for anything else."""
        head = node
        while isinstance(head, ast.Attribute | ast.Subscript | ast.Call):
            head = head.func if isinstance(head, ast.Call) else head.value
        if not isinstance(head, ast.Name) or len(self.meanings.get(head.id, ())) > 1 or "*" in self.meanings:
            return ""
        if head.id in self.meanings:
            return self.file.full_name(node)
        return f"builtins.{head.id}" if node is head and hasattr(builtins, head.id) else ""


def is_for_checkers(node: ast.If) -> bool:
    """Whether a block is only for checkers."""
    return ast.unparse(node.test).rpartition(".")[2] == "TYPE_CHECKING"


class SourceReader:
    """Reads annotations as `ClassDeclaration`, across the files of a project."""

    def __init__(self, declarations: Declarations) -> None:
        self.declarations = declarations
        self._bound: dict[int, Bound] = {}

    def bound(self, file: SourceFile) -> Bound:
        """The names that a file binds."""
        if id(file) not in self._bound:
            self._bound[id(file)] = Bound(file)
        return self._bound[id(file)]

    def known_class(self, file: SourceFile, node: ast.expr) -> Class | None:
        """The class that an expression certainly names."""
        name = self.bound(file).name(node)
        found = self.declarations.project.class_of(file, name) if name.partition(".")[0] not in ELSEWHERE else None
        once = found is not None and len(self.bound(found[0]).meanings[found[1].name]) == 1
        return found if once and not isinstance(node, ast.Call) else None

    def typed_class(self, file: SourceFile, node: ast.expr) -> Class | None:
        """The typed class that an expression certainly names."""
        found = self.known_class(file, node)
        return found if found is not None and self.declarations.is_typed(*found) else None

    def read(self, file: SourceFile, node: ast.expr) -> Said:
        """What a field declares.

        Raises:
            WrongAnnotation: for dims outside the grammar, two dtypes, a family without its two arguments.
        """
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return self._text(file, node.value)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            return self._union(file, [node])
        if isinstance(node, ast.Subscript) and items_of(node.slice):
            return self._brackets(file, self.bound(file).name(node.value), items_of(node.slice))
        name = self.bound(file).name(node) if isinstance(node, ast.Name | ast.Attribute) else ""
        if name == "torch.Tensor":
            return Said(ClassDeclaration(TENSOR))
        if name.startswith("builtins.") and isinstance(getattr(builtins, name[9:]), type):
            return Said(ClassDeclaration(ANY if name == "builtins.object" else VALUE, type=name[9:]))
        found = self.typed_class(file, node)
        return Said(ClassDeclaration() if found is None else ClassDeclaration(NESTED), found)

    def _text(self, file: SourceFile, text: str) -> Said:
        try:
            return self.read(file, ast.parse(text.strip(), mode="eval").body)
        except SyntaxError:
            raise WrongAnnotation(f'"{text}" is not a type') from None

    def _union(self, file: SourceFile, items: list[ast.expr]) -> Said:
        flat = [part for item in items for part in _members(item)]
        members = [part for part in flat if not (isinstance(part, ast.Constant) and part.value is None)]
        said = self.read(file, members[0]) if len(members) == 1 else Said(ClassDeclaration())
        return Said(replace(said.declared, optional=len(flat) > 1 or said.declared.optional), said.nested)

    def _brackets(self, file: SourceFile, name: str, items: list[ast.expr]) -> Said:
        package, _, family = name.rpartition(".")
        kind = kind_of_mark(name.removeprefix("tensorclass.")) if name.startswith("tensorclass.") else None
        if package in FAMILIES and family in FAMILY_DTYPES:
            return self._family(file, family, items)
        if name in OPTIONAL:
            return self._union(file, [*items, ast.Constant(None)] if name == OPTIONAL[0] else items)
        if name not in ANNOTATED and (kind is None or kind.is_per_element):
            return Said(ClassDeclaration(VALUE if package == "builtins" else kind or UNREAD))
        field, nested = self.read(file, items[0])
        if kind is None:
            return Said(reduce(partial(self._add_mark, file), items[1:], field), nested)
        field = field if kind.is_shared else self._shaped(replace(field, dims=None), items[1:])
        return Said(replace(field, kind=kind) if field.kind.is_batched else field, nested)

    def _family(self, file: SourceFile, family: str, items: list[ast.expr]) -> Said:
        shape = items[-1]
        if len(items) == 2 and not isinstance(shape, ast.Constant):
            return Said(ClassDeclaration())
        dims = shape_of(family, len(items), getattr(shape, "value", None))
        plain = self.bound(file).name(items[0]) == "torch.Tensor"
        return Said(ClassDeclaration(TENSOR, family, dims) if plain else ClassDeclaration())

    def _add_mark(self, file: SourceFile, field: ClassDeclaration, mark: ast.expr) -> ClassDeclaration:
        """A field with another mark of `Annotated[...]`; `open` if the mark may be anything."""
        name = self.bound(file).name(mark)
        if isinstance(mark, ast.Call):
            return self._shaped(field, mark.args) if name == SHAPE else replace(field, open=True)
        dtype = EXACT.get(name)
        if dtype is not None and field.dtype not in (None, "Shaped"):
            raise WrongAnnotation(f"two dtypes: {field.dtype} and {dtype}; declare the dtype once")
        return replace(field, dtype=dtype or field.dtype, open=field.open or dtype is None)

    def _shaped(self, field: ClassDeclaration, items: list[ast.expr]) -> ClassDeclaration:
        """A field with the shape that follows its type."""
        text = items[0].value if len(items) == 1 and isinstance(items[0], ast.Constant) else None
        if text is None:
            return replace(field, open=True)
        dims = shape_of("Shape", 2, text)
        if field.dims is not None:
            raise WrongAnnotation(f'two shapes: "{field.dims}" and {text!r}; declare the shape once')
        return replace(field, dims=dims)


def _members(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        yield from _members(node.left)
        yield from _members(node.right)
    else:
        yield node
