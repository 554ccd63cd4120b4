"""The direct children of a node of mypy's tree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mypy import nodes
from mypy.patterns import Pattern

# Nodes for which mypy's own list of parts is not suitable.
_PARTS: dict[type[nodes.Node], tuple[str, ...]] = {
    nodes.AssignmentStmt: ("lvalues", "rvalue"), nodes.MemberExpr: ("expr",), nodes.FuncDef: ("arguments", "body"),
    nodes.OverloadedFuncDef: ("items", "impl"), nodes.LambdaExpr: ("arguments", "body"), nodes.MypyFile: ("defs",),
    nodes.Decorator: ("decorators", "func"), nodes.Argument: ("initializer",), nodes.CallExpr: ("callee", "args"),
    nodes.ClassDef: ("decorators", "base_type_exprs", "defs"), nodes.OpExpr: ("left", "right"),
    nodes.NameExpr: (), nodes.Var: (), nodes.IntExpr: (), nodes.StrExpr: (), nodes.FloatExpr: (),
}  # fmt: skip
_PATTERN_PARTS = ("pattern", "patterns", "expr", "keys", "values", "class_ref", "positionals", "keyword_values")


def parts_of(node: nodes.Node) -> list[nodes.Node]:
    """The direct children of a node, without code that never runs."""
    if isinstance(node, nodes.Block) and node.is_unreachable:
        return []
    names = _PARTS.get(type(node))
    if names is None:
        names = _PATTERN_PARTS if isinstance(node, Pattern) else getattr(node, "__match_args__", ())
        _PARTS[type(node)] = names
    return [*_flat(getattr(node, name, None) for name in names)]


def _flat(parts: Iterable[object]) -> Iterator[nodes.Node]:
    for part in parts:
        if isinstance(part, nodes.Node):
            yield part
        elif isinstance(part, list | tuple):
            yield from _flat(part)
