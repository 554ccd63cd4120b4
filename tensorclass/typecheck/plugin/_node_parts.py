"""The direct children of a node of mypy's tree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mypy import nodes
from mypy.patterns import Pattern

# Nodes for which mypy's own list of parts is not suitable.
_PARTS: dict[type[nodes.Node], tuple[str, ...]] = {
    nodes.OverloadedFuncDef: ("items", "impl"), nodes.LambdaExpr: ("arguments", "body"), nodes.MypyFile: ("defs",),
    nodes.ClassDef: ("decorators", "base_type_exprs", "defs"), nodes.OpExpr: ("left", "right"),
    **dict.fromkeys((nodes.NameExpr, nodes.Var, nodes.IntExpr, nodes.StrExpr, nodes.FloatExpr), ()),
}  # fmt: skip
_PATTERN_PARTS = ("pattern", "patterns", "expr", "keys", "values", "class_ref", "positionals", "keyword_values")
# The classes that most nodes of a program have: the walk over every file of a project is the plugin's largest cost.
_FREQUENT: dict[type[nodes.Node], Callable[[Any], list[nodes.Node]]] = {
    nodes.MemberExpr: lambda node: [node.expr],
    nodes.CallExpr: lambda node: [node.callee, *node.args],
    nodes.Block: lambda node: [] if node.is_unreachable else node.body,
    nodes.Argument: lambda node: [] if node.initializer is None else [node.initializer],
    nodes.AssignmentStmt: lambda node: [*node.lvalues, node.rvalue],
    nodes.ExpressionStmt: lambda node: [node.expr],
    nodes.FuncDef: lambda node: [*node.arguments, node.body],
    nodes.Decorator: lambda node: [*node.decorators, node.func],
    nodes.TupleExpr: lambda node: node.items,
    nodes.ListExpr: lambda node: node.items,
    nodes.IndexExpr: lambda node: [node.base, node.index],
    nodes.ReturnStmt: lambda node: [] if node.expr is None else [node.expr],
}


def parts_of(node: nodes.Node) -> list[nodes.Node]:
    """The direct children of a node, without code that never runs."""
    frequent = _FREQUENT.get(type(node))
    if frequent is not None:
        return frequent(node)
    names = _PARTS.get(type(node))
    if names is None:
        names = _PATTERN_PARTS if isinstance(node, Pattern) else getattr(node, "__match_args__", ())
        _PARTS[type(node)] = names
    found: list[nodes.Node] = []
    for name in names:
        _add(found, getattr(node, name, None))
    return found


def _add(found: list[nodes.Node], part: object) -> None:
    if isinstance(part, nodes.Node):
        found.append(part)
    elif isinstance(part, list | tuple):
        for item in part:
            _add(found, item)
