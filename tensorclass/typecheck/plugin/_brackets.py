"""Options between brackets, `class Digits(TensorClass["nocast", "shadow"])`, and `Ragged[...]`.

To mypy, brackets hold type arguments.
"""

from __future__ import annotations

from typing import Any

from mypy import nodes
from mypy.plugin import AnalyzeTypeContext, ClassDefContext
from mypy.types import AnyType, Instance, Type, TypeOfAny, UnboundType

from ._codes import DECLARATION


def base(ctx: AnalyzeTypeContext, root: str) -> Type:
    """The base class itself, whatever option stands between its brackets."""
    for given in ctx.type.args:
        if not isinstance(given, UnboundType) or given.original_str_expr is None:
            text = f'{ctx.type.name}[...] takes options in quotes, such as {ctx.type.name}["shadow"]'
            ctx.api.fail(text, ctx.context, code=DECLARATION)
    return ctx.api.named_type(root, [])


def annotated(ctx: AnalyzeTypeContext, ragged: nodes.TypeInfo | None) -> Type:
    """`Ragged[Tensor, "t d"]`, another name of `Annotated`, reads as a `RaggedTensor`."""
    api: Any = ctx.api
    found: Type = api.try_analyze_special_unbound_type(ctx.type, "typing.Annotated")
    named = ctx.type.name.rpartition(".")[2] == "Ragged" and len(ctx.type.args) == 2
    return Instance(ragged, []) if named and ragged is not None else found


def unknown(ctx: AnalyzeTypeContext) -> Type:
    """What stands for a type that could not be analysed."""
    return AnyType(TypeOfAny.from_error)


def options(ctx: ClassDefContext) -> None:
    """Make the names between the brackets of the bases of a class keywords of the class."""
    for expr in ctx.cls.base_type_exprs:
        inner = expr.index if isinstance(expr, nodes.IndexExpr) else None
        given = [
            name for name in (inner.items if isinstance(inner, nodes.TupleExpr) else [inner])
            if isinstance(name, nodes.StrExpr)
        ]  # fmt: skip
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
    """Take back what mypy has said of text between brackets, in which it looked for type variables."""
    said = api.errors.error_info_map.get(api.errors.file, []) if messages else []
    said[:] = [one for one in said if one.line != line or one.message not in messages]
