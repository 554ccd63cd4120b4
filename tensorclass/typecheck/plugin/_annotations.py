"""What annotations and brackets declare, read from the text that mypy keeps; to mypy `Float32[...]` is a `Tensor`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from mypy import nodes
from mypy.exprtotype import TypeTranslationError, expr_to_unanalyzed_type
from mypy.plugin import AnalyzeTypeContext, ClassDefContext, SemanticAnalyzerPluginInterface
from mypy.types import Instance, RawExpressionType, Type, UnboundType, UnionType

from ..._dims import FAMILY_DTYPES
from ..._kinds import RAGGED, TENSOR, kind_of_mark
from .._rules import ANNOTATED, ClassDeclaration, shape_of
from ._codes import DECLARATION
from ._contract_calls import with_contract

WRONG = ClassDeclaration(TENSOR, open=True)
"""The declaration of a field with wrong dims or a wrong dtype, which is reported."""
NO_FIELDS = ("ClassVar", "InitVar", "KW_ONLY")


class AnnotationReader:
    """Reads the annotations of one file; names are followed through its imports and module-level aliases."""

    def __init__(self, api: SemanticAnalyzerPluginInterface) -> None:
        self.api = api
        self.file = api.modules[api.cur_mod_id]
        imports = [node for node in self.file.imports if isinstance(node, nodes.ImportFrom)]
        self.originals = {local or name: name for node in imports for name, local in node.names}

    def read(self, annotation: Type) -> ClassDeclaration:
        """What a field declares.

        Raises:
            WrongAnnotation: for dims outside the grammar, and a family without its two arguments.
        """
        if isinstance(annotation, UnionType):
            return self._union(annotation.items)
        if not isinstance(annotation, UnboundType):
            return ClassDeclaration()
        name, fullname = self._name(annotation)
        if name in FAMILY_DTYPES and fullname in ANNOTATED:
            return self._tensor(name, annotation.args)
        if name == "Optional" or fullname in ANNOTATED:
            return self._first(annotation, "tensor" if name == "Ragged" else None)
        kind = kind_of_mark(name) if fullname.startswith("tensorclass.") else None
        if kind is not None:
            return replace(self._first(annotation, None), kind=kind)
        return ClassDeclaration(TENSOR) if fullname == "torch._tensor.Tensor" else self._alias(annotation.name)

    def is_field(self, annotation: Type) -> bool:
        """Whether an annotated name is a field: no class variable and no argument of `__post_init__` only."""
        return not (isinstance(annotation, UnboundType) and annotation.name.rpartition(".")[2] in NO_FIELDS)

    def _name(self, annotation: UnboundType) -> tuple[str, str]:
        """The name of a type in its module, and its full name."""
        head, _, last = annotation.name.rpartition(".")
        name = last if head else self.originals.get(last, last)
        symbol = self.api.lookup_qualified(annotation.name, annotation, suppress_errors=True)
        return name, (symbol.fullname or "") if symbol is not None else ""

    def _first(self, annotation: UnboundType, kind: str | None) -> ClassDeclaration:
        found = self.read(annotation.args[0]) if annotation.args else ClassDeclaration()
        marked = len(annotation.args) > 1 and (found.dtype is None or found.dims is None)
        if kind is not None:
            text = _literal(annotation.args[1]) if len(annotation.args) == 2 else None
            dims = text if isinstance(text, str) else None
            return replace(found, kind=RAGGED, dims=dims if found.dims is None else found.dims)
        return replace(found, open=found.open or marked)

    def _union(self, items: Iterable[Type]) -> ClassDeclaration:
        members = [item for item in items if not (isinstance(item, UnboundType) and item.name == "None")]
        return self.read(members[0]) if len(members) == 1 else ClassDeclaration()

    def _tensor(self, family: str, args: tuple[Type, ...]) -> ClassDeclaration:
        text = _literal(args[-1]) if args else None
        if len(args) == 2 and isinstance(text, UnboundType):
            return ClassDeclaration()  # a name for a shape
        dims = shape_of(family, len(args), text)
        array = args[0]
        name, fullname = self._name(array) if isinstance(array, UnboundType) else ("", "")
        ragged = name == "RaggedTensor" and fullname.startswith("tensorclass.")
        if fullname != "torch._tensor.Tensor" and not ragged:
            return ClassDeclaration()
        return ClassDeclaration(RAGGED if ragged else TENSOR, family, dims)

    def _alias(self, name: str) -> ClassDeclaration:
        """The declaration of a module-level alias in the same file."""
        symbol = self.file.names.get(name)
        if symbol is None or not isinstance(symbol.node, nodes.TypeAlias):
            return ClassDeclaration()
        for statement in self.file.defs:
            if isinstance(statement, nodes.AssignmentStmt) and _assigns(statement, name):
                try:
                    return self.read(expr_to_unanalyzed_type(statement.rvalue, self.api.options))
                except (TypeTranslationError, RecursionError):
                    break
        return ClassDeclaration()


def _literal(item: Type) -> object:
    """A string in brackets, which mypy parses as a type name if possible; a real name unchanged."""
    if isinstance(item, RawExpressionType):
        return item.literal_value if item.base_type_name == "builtins.str" else None
    text = item.original_str_expr if isinstance(item, UnboundType) else None
    return item if text is None else text


def _assigns(statement: nodes.AssignmentStmt, name: str) -> bool:
    target = statement.lvalues[0]
    return len(statement.lvalues) == 1 and isinstance(target, nodes.NameExpr) and target.name == name


# ---- brackets: to mypy those of `TensorClass["nocast", "shadow"]` and `Ragged[...]` hold type arguments --------------


def base(ctx: AnalyzeTypeContext, root: str) -> Type:
    """The base class itself, for any option in its brackets."""
    for given in ctx.type.args:
        if not isinstance(given, UnboundType) or given.original_str_expr is None:
            text = f'{ctx.type.name}[...] takes options in quotes, such as {ctx.type.name}["shadow"]'
            ctx.api.fail(text, ctx.context, code=DECLARATION)
    return ctx.api.named_type(root, [])


def read_annotated(ctx: AnalyzeTypeContext, ragged: nodes.TypeInfo | None) -> Type:
    """Aliases of `Annotated`: `Ragged[Tensor, "t d"]` is a `RaggedTensor`, `Shaped[Step, "t b"]` keeps the dims."""
    api: Any = ctx.api
    found: Type = api.try_analyze_special_unbound_type(ctx.type, "typing.Annotated")
    name = ctx.type.name.rpartition(".")[2] if len(ctx.type.args) == 2 else ""
    if name == "Ragged" and ragged is not None:
        return Instance(ragged, [])
    text = _literal(ctx.type.args[1]) if name == "Shaped" else None
    return with_contract(api, found, text) if isinstance(text, str) else found


def read_brackets(ctx: ClassDefContext) -> None:
    """Turn the names in brackets of base classes into class keywords."""
    for expr in ctx.cls.base_type_exprs:
        inner = expr.index if isinstance(expr, nodes.IndexExpr) else None
        given = [
            name
            for name in (inner.items if isinstance(inner, nodes.TupleExpr) else [inner])
            if isinstance(name, nodes.StrExpr)
        ]
        for name in given:
            ctx.cls.keywords.setdefault(name.value, _true(ctx, name))
        _forget(ctx.api, expr.line, {f'Name "{name.value}" is not defined' for name in given})


def _true(ctx: ClassDefContext, where: nodes.Context) -> nodes.NameExpr:
    value = nodes.NameExpr("True")
    value.set_line(where)
    found = ctx.api.lookup_fully_qualified_or_none("builtins.True")
    if found is not None:
        value.node, value.kind, value.fullname = found.node, found.kind, "builtins.True"
    return value


def _forget(api: Any, line: int, messages: set[str]) -> None:
    """Remove errors of mypy about text in brackets, in which it expected type variables."""
    said = api.errors.error_info_map.get(api.errors.file, []) if messages else []
    said[:] = [one for one in said if one.line != line or one.message not in messages]
