"""What mypy calls no hook for: methods of `Self` and of type variables, which are checked at the end of the file.

A statement without effect, `~(-1)`, is added to each file of the user before mypy analyzes it: when mypy looks for its
imports, or, if it takes these from its cache, at the first annotation. When mypy checks the statement, the types of all
variables before it are known.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mypy import nodes
from mypy.argmap import map_actuals_to_formals
from mypy.plugin import MethodContext
from mypy.types import CallableType, ProperType, Type, TypeType, TypeVarType, get_proper_type

from .._rules import CLASSES, LINT_SETTINGS
from ._contracts import check_contracts
from ._facts import batch_instance, is_batch_class, made_by
from ._function_results import record_results
from ._given import batch_of_instance, check_augmented_write, check_named_values
from ._layers import check_layer_calls, check_layer_loops
from ._source import anything, source_of
from ._types import method_type, static_type
from ._values import Values

OPERATOR = "builtins.int.__invert__"
_MARK = -1
"""A number that no parser puts into one node."""
Hook = Callable[[MethodContext], Type]


def add_last(file: nodes.MypyFile) -> None:
    """Add the last statement to a file, before calls at its end, which may not return."""
    if file.is_stub or "site-packages" in file.path or not file.defs:
        return
    at = len(file.defs)
    while at and isinstance(file.defs[at - 1], nodes.ExpressionStmt | nodes.RaiseStmt | nodes.AssertStmt):
        at -= 1
        if _is_last(_expr(file.defs[at])):
            return
    statement = nodes.ExpressionStmt(nodes.UnaryExpr("~", nodes.IntExpr(_MARK)))
    near = file.defs[max(at - 1, 0)]
    for node in (statement, statement.expr, statement.expr.expr):  # type: ignore[attr-defined]  # as made above
        node.set_line(near)
    file.defs.insert(at, statement)


def _expr(statement: nodes.Statement) -> object:
    return statement.expr if isinstance(statement, nodes.ExpressionStmt) else None


def _is_last(expr: object) -> bool:
    return isinstance(expr, nodes.UnaryExpr) and isinstance(expr.expr, nodes.IntExpr) and expr.expr.value == _MARK


def check_rest(ctx: MethodContext, hook_of: Callable[[str], Hook | None]) -> Type:
    """At the last statement: every call of a method of a type variable."""
    if _is_last(ctx.context):
        if Path(ctx.api.options.config_file or "").name == LINT_SETTINGS:
            _note_classes(ctx)
        for call in source_of(ctx.api).method_calls:
            assert isinstance(call.callee, nodes.MemberExpr)  # they are collected by it
            receiver = get_proper_type(static_type(ctx.api, call.callee.expr))
            inner = get_proper_type(receiver.item) if isinstance(receiver, TypeType) else receiver
            if isinstance(inner, TypeVarType):
                _check(ctx.api, call, call.callee, receiver, hook_of)
        record_results(ctx.api, source_of(ctx.api), Values)
        check_contracts(ctx.api)
        check_layer_calls(ctx.api, source_of(ctx.api).calls)
        check_layer_loops(ctx.api)
        for statement in source_of(ctx.api).augmented:
            check_augmented_write(ctx.api, statement)
        for target, value in source_of(ctx.api).assigned.items():
            if isinstance(target, nodes.IndexExpr) and isinstance(target.index, nodes.StrExpr):
                _check_item(ctx.api, target, target.index.value, value)
    return ctx.default_return_type


def _note_classes(ctx: MethodContext) -> None:
    """Name the typed classes that a file may use, and the lines of its own: `tensorclass lint` reads this note."""
    names, lines = set[str](), []
    api: Any = ctx.api
    for path, tree in api.modules.items():
        if "site-packages" in tree.path or path.startswith("tensorclass."):
            continue
        for name, symbol in tree.names.items():
            if is_batch_class(symbol.node) and isinstance(symbol.node, nodes.TypeInfo):
                names |= {name, symbol.node.name}
                definition = symbol.node.defn
                if symbol.node.module_name == api.tree.fullname and definition.end_line:
                    lines.append((definition.line, definition.end_line))
    api.msg.note(CLASSES + json.dumps([sorted(names), lines]), ctx.context)


def _check_item(api: Any, target: nodes.IndexExpr, name: str, value: nodes.Expression) -> None:
    """`self["label"] = value`."""
    receiver = get_proper_type(static_type(api, target.base))
    owner = batch_instance(receiver)
    if owner is not None and isinstance(receiver, TypeVarType):
        check_named_values(api, owner, [(name, value, static_type(api, value))], batch_of_instance(api, target.base))


def _check(
    api: Any, call: nodes.CallExpr, callee: nodes.MemberExpr, receiver: Any, hook_of: Callable[[str], Hook | None]
) -> None:
    owner = batch_instance(receiver) or made_by(receiver)
    hook = None if owner is None else hook_of(f"{owner.type.fullname}.{callee.name}")
    context = None if hook is None else _context(api, call, callee, receiver)
    if owner is None or hook is None or context is None:
        return
    hook(context)
    if callee.name == "replace":
        pairs = zip(call.arg_names, call.args, strict=True)
        rows = [(name, value, static_type(api, value)) for name, value in pairs if name is not None]
        check_named_values(api, owner, rows, batch_of_instance(api, callee.expr))


def _context(api: Any, call: nodes.CallExpr, callee: nodes.MemberExpr, receiver: ProperType) -> MethodContext | None:
    """What mypy would give a hook for the call; None if its signature is unknown."""
    signature = method_type(receiver, callee.name)
    types = [static_type(api, arg) or anything() for arg in call.args]
    for item in [] if signature is None else signature.items:
        rows = map_actuals_to_formals(call.arg_kinds, call.arg_names, item.arg_kinds, item.arg_names, types.__getitem__)
        if _takes(item, rows, len(call.args)):
            return MethodContext(
                receiver,
                [[types[i] for i in row] for row in rows],
                [[call.arg_kinds[i] for i in row] for row in rows],
                list(item.arg_names),
                [[call.arg_names[i] for i in row] for row in rows],
                made_by(receiver) or item.ret_type,
                [[call.args[i] for i in row] for row in rows],
                call,
                api,
            )
    return None


def _takes(item: CallableType, rows: list[list[int]], count: int) -> bool:
    """Whether a signature takes all arguments and gets those that it needs."""
    missing = any(kind.is_required() and not row for kind, row in zip(item.arg_kinds, rows, strict=True))
    return not missing and {i for row in rows for i in row} == {*range(count)}
