"""Reads of `produced()` fields of an instance that was just made, before anything could have filled them in.

Statements of one block are followed in order. A name is known from `state = State(...)` until it is used in any way
other than reading its fields.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from mypy import nodes
from mypy.plugin import AttributeContext
from mypy.types import CallableType

from ._codes import FLOW
from ._facts import batch_instance, fields_of
from ._source import Source, own_statements, parts_of, source_of

Made = dict[nodes.Node, nodes.CallExpr]
_SIMPLE = (nodes.ExpressionStmt, nodes.AssignmentStmt, nodes.ReturnStmt, nodes.AssertStmt)
_OWN = {"__post_init__", "__new__", "__getattr__"}  # an `__init__` comes from the plugin or a stub


def read(ctx: AttributeContext, name: str) -> None:
    """`state.hidden` directly after `state = State(...)`, or `State(...).hidden`."""
    owner, where = batch_instance(ctx.type), ctx.context
    field = None if owner is None else fields_of(owner.type).get(name)
    if owner is None or field is None or not field.produced or not isinstance(where, nodes.MemberExpr):
        return
    api: Any = ctx.api
    made = (
        where.expr if isinstance(where.expr, nodes.CallExpr) else _creating_calls(source_of(api), api.tree).get(where)
    )
    if (
        isinstance(made, nodes.CallExpr)
        and _is_new(source_of(api), made, owner.type)
        and not any(map(_fills, owner.type.mro))
    ):
        text = f'"{name}" of {owner.type.name} is read before anything has produced it'
        ctx.api.fail(f"{text}; assign it first, or run the module that writes it", where, code=FLOW)


def _is_new(source: Source, call: nodes.CallExpr, info: nodes.TypeInfo) -> bool:
    """Whether a call is that of the class, or of a function of the file that only returns such calls."""
    callee = call.callee.node if isinstance(call.callee, nodes.RefExpr) else None
    if callee is info or not isinstance(callee, nodes.FuncDef) or callee not in source.functions:
        return callee is info
    if callee.is_decorated or callee.is_coroutine or callee.is_generator:
        return False
    rows = [row.expr for row in own_statements(callee) if isinstance(row, nodes.ReturnStmt)]
    made = [
        row.callee.node if isinstance(row, nodes.CallExpr) and isinstance(row.callee, nodes.RefExpr) else None
        for row in rows
    ]
    return bool(made) and all(one is info for one in made)


def _fills(base: nodes.TypeInfo) -> bool:
    """Whether a class has a user-defined method that may fill in fields."""
    own = {name for name in _OWN & base.names.keys() if not base.names[name].plugin_generated}
    return bool(own) and not base.fullname.startswith(("tensorclass.", "builtins."))


def _creating_calls(source: Source, tree: nodes.MypyFile) -> Made:
    """For each read of an attribute of a name, the call that created the value of the name at that point."""
    if source.early is None:
        source.early, shared = {}, _shared_names(source)
        bodies = [function.body.body for function in source.functions if isinstance(function, nodes.FuncDef)]
        for body in [tree.defs, *bodies]:
            _follow(body, {}, shared, source.early)
    return source.early


def _shared_names(source: Source) -> set[nodes.Node]:
    """The names that are used in a function and outside it, so that a call of it may change them."""
    shared = set[nodes.Node]()
    for function in source.functions:
        inside = Counter(name.node for name, _ in _uses([function]) if name.node is not None)
        shared |= {node for node, count in inside.items() if count < len(source.uses[node])}
    return shared


def _follow(block: Sequence[nodes.Node], made: Made, shared: set[nodes.Node], found: Made) -> None:
    """Follow statements in order: which call made the value of each name, up to where it may change."""
    for statement in block:
        blocks = [part for part in parts_of(statement) if isinstance(part, nodes.Block)]
        uses = list(_uses([statement]))
        touched = {name.node for name, member in uses if member is None or not _is_field(made.get(name.node), member)}  # type: ignore[arg-type]  # None has no creating call
        if isinstance(statement, nodes.ForStmt | nodes.WhileStmt):
            _forget(made, touched)
        if isinstance(statement, nodes.IfStmt | nodes.ForStmt | nodes.WhileStmt) or _is_torch(statement):
            for inner in blocks:
                _follow(inner.body, dict(made), shared, found)
        elif isinstance(statement, _SIMPLE):
            for name, member in uses:
                if member is not None and name.node in made and name.node not in touched:
                    found[member] = made[name.node]
        else:
            touched |= {name.node for name, _ in uses}
        _forget(made, touched)
        if isinstance(statement, nodes.AssignmentStmt) and isinstance(statement.rvalue, nodes.CallExpr):
            target = getattr(statement.lvalues[0], "node", None) if len(statement.lvalues) == 1 else None
            if isinstance(target, nodes.Var) and target not in shared:
                made[target] = statement.rvalue


def _is_field(made: nodes.CallExpr | None, member: nodes.MemberExpr) -> bool:
    """Whether an attribute of an instance is a field; a method may be called later."""
    info: object = made.callee.node if made is not None and isinstance(made.callee, nodes.RefExpr) else None
    if isinstance(info, nodes.FuncDef) and isinstance(info.type, CallableType):
        result = batch_instance(info.type.ret_type)
        info = None if result is None else result.type
    return isinstance(info, nodes.TypeInfo) and member.name in fields_of(info)


def _forget(made: Made, names: set[Any]) -> None:
    for name in names & made.keys():
        del made[name]


def _is_torch(statement: nodes.Node) -> bool:
    """Whether a `with` block surely runs, as `with torch.no_grad():`; other context managers are unknown."""
    entered = statement.expr if isinstance(statement, nodes.WithStmt) else []
    calls = [expr.callee for expr in entered if isinstance(expr, nodes.CallExpr)]
    names = [call.fullname or "" for call in calls if isinstance(call, nodes.RefExpr)]
    return bool(names) and all(name.startswith("torch.") for name in names)


def _uses(roots: Sequence[nodes.Node]) -> Iterator[tuple[nodes.NameExpr, nodes.MemberExpr | None]]:
    """Every use of a name, with the attribute if only that is read."""
    stack: list[tuple[nodes.Node, nodes.Node | None, bool]] = [(root, None, False) for root in roots]
    while stack:
        node, member, writes = stack.pop()
        if isinstance(node, nodes.NameExpr):
            yield node, None if writes or not isinstance(member, nodes.MemberExpr) else member
        for part in parts_of(node):
            stack.append((part, node, _is_written(node, part) or (writes and not isinstance(node, nodes.Statement))))


def _is_written(node: nodes.Node, part: nodes.Node) -> bool:
    """Whether a part of a node is a target, or the method that is called."""
    if isinstance(node, nodes.AssignmentStmt):
        return part in node.lvalues
    if isinstance(node, nodes.ForStmt):
        return part is node.index
    if isinstance(node, nodes.CallExpr):
        return part is node.callee and isinstance(part, nodes.MemberExpr) and isinstance(part.expr, nodes.NameExpr)
    return isinstance(node, nodes.DelStmt | nodes.OperatorAssignmentStmt)
