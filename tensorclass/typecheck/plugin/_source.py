"""The source of one file: names that are bound once, and their values.

Facts are never stored on the type of a variable, where they would survive `x = x.reshape(...)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from mypy import nodes
from mypy.patterns import AsPattern, MappingPattern, Pattern, StarredPattern
from mypy.plugin import FunctionContext, MethodContext
from mypy.types import AnyType, Instance, Type, TypeOfAny, get_proper_type

# Nodes for which mypy's own list of parts is not suitable.
_PARTS: dict[type[nodes.Node], tuple[str, ...]] = {
    nodes.AssignmentStmt: ("lvalues", "rvalue"), nodes.MemberExpr: ("expr",), nodes.FuncDef: ("arguments", "body"),
    nodes.OverloadedFuncDef: ("items", "impl"), nodes.LambdaExpr: ("arguments", "body"), nodes.MypyFile: ("defs",),
    nodes.Decorator: ("decorators", "func"), nodes.Argument: ("initializer",), nodes.CallExpr: ("callee", "args"),
    nodes.ClassDef: ("decorators", "base_type_exprs", "defs"), nodes.OpExpr: ("left", "right"),
    nodes.NameExpr: (), nodes.Var: (), nodes.IntExpr: (), nodes.StrExpr: (), nodes.FloatExpr: (),
}  # fmt: skip
_PATTERN_PARTS = ("pattern", "patterns", "expr", "keys", "values", "class_ref", "positionals", "keyword_values")
# The targets of statements that bind values without an expression.
_OPAQUE: dict[type[nodes.Node], str] = {
    nodes.ForStmt: "index", nodes.OperatorAssignmentStmt: "lvalue", nodes.DelStmt: "expr", nodes.WithStmt: "target",
    nodes.TryStmt: "vars", nodes.GeneratorExpr: "indices", AsPattern: "name", StarredPattern: "capture",
    MappingPattern: "rest",
}  # fmt: skip
_NOTED = {
    nodes.AssignmentStmt, nodes.AssignmentExpr, nodes.Argument, nodes.FuncDef, nodes.LambdaExpr, nodes.Decorator,
    *_OPAQUE,
}  # fmt: skip
_CHANGING = {
    "resize_", "resize_as_", "unsqueeze_", "squeeze_", "transpose_", "t_", "swapaxes_", "swapdims_", "set_",
    "select_out_fields", "reset_out_fields",
}  # fmt: skip
_HARMLESS = ("tensorclass.", "torch.", "builtins.")
_DEPTH, _MOST = 10, 1000


class Source:
    """Bindings, uses and assignments of one file."""

    def __init__(self, tree: nodes.MypyFile) -> None:
        self.bindings: dict[nodes.Node, list[nodes.Expression | None]] = {}
        """The values that a variable is bound to; None for a value without an expression, such as a loop variable."""
        self.uses: dict[nodes.Node, list[nodes.Node]] = {}
        """The enclosing node of each use of a variable."""
        self.assigned: dict[nodes.Node, nodes.Expression] = {}
        """The value assigned to an attribute or item."""
        self.deleted: set[nodes.Node] = set()
        self.functions: set[nodes.Node] = set()
        self.unpacked: dict[nodes.Context, int] = {}
        """Each value that a loop iterates over, and the number of names into which items are unpacked."""
        self.early: dict[nodes.Node, nodes.CallExpr] | None = None
        """The result of `_early`; None before its first call."""
        self.decorated: dict[nodes.Node, nodes.Decorator] = {}
        self._module = tree.fullname
        self._names: dict[nodes.Context, str] | None = None
        stack: list[tuple[nodes.Node, nodes.Node]] = [(tree, tree)]
        while stack:
            node, parent = stack.pop()
            if isinstance(node, nodes.NameExpr):
                if node.node is not None:
                    self.uses.setdefault(node.node, []).append(parent)
                continue
            if type(node) in _NOTED:
                self._note(node)
            stack += [(part, node) for part in parts_of(node)]

    def _note(self, node: nodes.Node) -> None:
        if isinstance(node, nodes.AssignmentStmt):
            if not isinstance(node.rvalue, nodes.TempNode):
                for target in node.lvalues:
                    self._bind(target, node.rvalue)
        elif isinstance(node, nodes.AssignmentExpr):
            self._bind(node.target, node.value)
        elif isinstance(node, nodes.Argument):
            self.bindings.setdefault(node.variable, []).append(None)
        elif isinstance(node, nodes.FuncDef | nodes.LambdaExpr):
            self.functions.add(node)
        elif isinstance(node, nodes.Decorator):
            self.decorated[node.var] = node
        elif type(node) in _OPAQUE:
            if isinstance(node, nodes.DelStmt):
                self.deleted.add(node.expr)
            bound = getattr(node, _OPAQUE[type(node)])
            for opaque in bound if isinstance(bound, list) else [bound]:
                if opaque is not None:
                    self._bind(opaque, None)
            if isinstance(node, nodes.ForStmt):
                self._unpack(node.index, node.expr)
            elif isinstance(node, nodes.GeneratorExpr):
                for index, expr in zip(node.indices, node.sequences, strict=True):
                    self._unpack(index, expr)

    def _unpack(self, index: nodes.Expression, expr: nodes.Expression) -> None:
        if not isinstance(index, nodes.TupleExpr):
            return
        self.unpacked[expr] = len(index.items)
        inner = {"builtins.enumerate": index.items[1:], "builtins.zip": index.items}.get(callee_name(expr), [index])
        for item, part in zip(inner, expr.args if isinstance(expr, nodes.CallExpr) else (), strict=False):
            self._unpack(item, part)

    def _bind(self, target: nodes.Expression, value: nodes.Expression | None) -> None:
        if isinstance(target, nodes.NameExpr) and target.node is not None:
            self.bindings.setdefault(target.node, []).append(value)
        elif isinstance(target, nodes.MemberExpr | nodes.IndexExpr) and value is not None:
            self.assigned[target] = value
        elif isinstance(target, nodes.StarExpr):
            self._bind(target.expr, None)
        elif isinstance(target, nodes.TupleExpr | nodes.ListExpr):
            for item, part in zip(target.items, _spread(value, len(target.items)), strict=True):
                self._bind(item, part)

    def bound_once(self, node: object) -> bool:
        """Whether a variable of this file has a single value."""
        return isinstance(node, nodes.Var) and len(self.bindings.get(node, ())) == 1

    def name_of(self, expr: nodes.Context) -> str | None:
        """The full module-level name whose only value is an expression; None for any other expression."""
        if self._names is None:
            once = ((node, values[0]) for node, values in self.bindings.items() if self.bound_once(node))
            kept = ((node, value) for node, value in once if value is not None and self._stays(node, value))
            self._names = {value: getattr(node, "fullname", "") for node, value in kept}
            self._names |= {row: row.fullname for var, row in self.decorated.items() if var not in self.bindings}
        name = self._names.get(expr, "")
        return name if name.rpartition(".")[0] == self._module else None

    def follow(self, expr: nodes.Expression) -> nodes.Expression:
        """The expression of a name that is bound once and not changed in place."""
        for _ in range(_DEPTH):
            if not isinstance(expr, nodes.NameExpr) or not self.bound_once(expr.node):
                break
            assert expr.node is not None  # it is bound
            value = self.bindings[expr.node][0]
            if value is None or not self._stays(expr.node, value):
                break
            expr = value
        return expr

    def items(self, expr: nodes.Expression) -> list[nodes.Expression] | None:
        """The members of a list or tuple display; None if unknown."""
        value = self.follow(expr)
        found, times = _repeated(value) or (value, 1)
        if not isinstance(found, nodes.ListExpr | nodes.TupleExpr) or any(
            isinstance(item, nodes.StarExpr) for item in found.items
        ):
            return None
        return found.items * times if len(found.items) * times <= _MOST else None

    def returned(self, callee: object) -> tuple[nodes.FuncDef, nodes.Expression] | None:
        """A function of this file that only returns one expression, and that expression."""
        if not isinstance(callee, nodes.FuncDef) or callee not in self.functions:
            return None
        said = [s.expr if isinstance(s, nodes.ExpressionStmt) else None for s in callee.body.body]
        body = [s for s, text in zip(callee.body.body, said, strict=True) if not isinstance(text, nodes.StrExpr)]
        last = body[0] if len(body) == 1 and not (callee.is_generator or callee.is_coroutine) else None
        return (callee, last.expr) if isinstance(last, nodes.ReturnStmt) and last.expr is not None else None

    def _stays(self, variable: nodes.Node, value: nodes.Expression) -> bool:
        """Whether no use of a variable changes its list, or the shape of its tensor."""
        is_list = isinstance(value, nodes.ListExpr) or _repeated(value) is not None
        return all(_keeps(use, variable, is_list) for use in self.uses.get(variable, ()))


def _repeated(value: nodes.Node) -> tuple[nodes.Expression, int] | None:
    """The list and the number of `[...] * n`; a number that is not written out is too large."""
    if not isinstance(value, nodes.OpExpr) or value.op != "*" or not isinstance(value.left, nodes.ListExpr):
        return None
    return value.left, value.right.value if isinstance(value.right, nodes.IntExpr) else _MOST + 1


def _keeps(use: nodes.Node, variable: nodes.Node, is_list: bool) -> bool:
    if isinstance(use, nodes.MemberExpr):
        return not is_list and use.name not in _CHANGING and use.name != "data"
    if not is_list:
        return True
    if isinstance(use, nodes.CallExpr):
        return callee_name(use).startswith(_HARMLESS)
    if isinstance(use, nodes.ForStmt):
        return True
    return isinstance(use, nodes.AssignmentStmt) and not (
        isinstance(use.rvalue, nodes.NameExpr) and use.rvalue.node is variable
    )


def _spread(value: nodes.Expression | None, count: int) -> list[nodes.Expression | None]:
    whole = isinstance(value, nodes.TupleExpr | nodes.ListExpr) and len(value.items) == count
    if not whole or any(isinstance(item, nodes.StarExpr) for item in value.items):  # type: ignore[union-attr]  # one of the two
        return [None] * count
    return [*value.items]  # type: ignore[union-attr]  # as above


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


def anything() -> AnyType:
    """The type of an unknown value."""
    return AnyType(TypeOfAny.special_form)


def callee_name(expr: nodes.Node | None) -> str:
    """The full name of the function or class that an expression calls; empty if it is not a call, or unknown."""
    callee = expr.callee if isinstance(expr, nodes.CallExpr) else None
    if isinstance(callee, nodes.IndexExpr) and isinstance(callee.analyzed, nodes.TypeApplication):
        callee = callee.base
    alias = aliased(callee)
    if alias is not None:
        return alias.type.fullname
    return (callee.fullname or "") if isinstance(callee, nodes.RefExpr) else ""


def aliased(expr: nodes.Node | None) -> Instance | None:
    """The class that an alias of a type stands for."""
    node = expr.node if isinstance(expr, nodes.RefExpr) else None
    target = get_proper_type(node.target) if isinstance(node, nodes.TypeAlias) else None
    return target if isinstance(target, Instance) else None


def type_of(api: Any, expr: nodes.Expression) -> Type | None:
    """The type that mypy has found for an expression."""
    lookup = getattr(api, "lookup_type_or_none", None)
    found: Type | None = lookup(expr) if lookup is not None else None
    return found


def by_name(ctx: FunctionContext | MethodContext) -> dict[str, nodes.Expression]:
    """The arguments of a call that are given once, by the names of the parameters."""
    rows = zip(ctx.callee_arg_names, ctx.args, strict=True)
    return {name: values[0] for name, values in rows if name and len(values) == 1}


def call_arguments(call: nodes.CallExpr, names: tuple[str, ...]) -> dict[str, nodes.Expression] | None:
    """The arguments of a call by the names of the parameters; None with `*` or `**`, or more than there are names."""
    found: dict[str, nodes.Expression] = {}
    position = 0
    for kind, name, value in zip(call.arg_kinds, call.arg_names, call.args, strict=True):
        if kind.is_star() or (kind == nodes.ARG_POS and position >= len(names)):
            return None
        if name is None:
            name, position = names[position], position + 1
        found[name] = value
    return found


_last: list[tuple[nodes.MypyFile, object, Source]] = []


def source_of(api: Any) -> Source:
    """The source of the checked file; cached until the daemon parses it again."""
    tree: nodes.MypyFile = api.tree
    if not _last or _last[0][0] is not tree or _last[0][1] is not tree.defs:
        _last[:] = [(tree, tree.defs, Source(tree))]
    return _last[0][2]
