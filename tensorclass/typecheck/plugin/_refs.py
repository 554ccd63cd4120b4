"""Field references in expressions: `Digits.image`, through names, lists, tuples and functions that return one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mypy import nodes
from mypy.plugin import AttributeContext
from mypy.types import Instance, Type
from mypy.typevars import fill_typevars_with_any

from ._carried import carry, cross_file_facts
from ._facts import Found, at_path, is_batch_class
from ._source import Source, call_arguments, callee_name, source_of

Env = Mapping[nodes.Node, nodes.Expression]
"""The arguments of the parameters of a function in one call."""
_DEPTH = 8
PARTIAL = "functools.partial"


@dataclass(frozen=True)
class FieldReference:
    """A field of a class: `Digits.inputs.image` has the path `("inputs", "image")`."""

    owner: Instance
    path: tuple[str, ...]
    found: Found

    @property
    def name(self) -> str:
        """The path as text."""
        return ".".join(self.path)

    def __str__(self) -> str:
        return f"{self.owner.type.name}.{self.name}"


def class_of(expr: nodes.Expression) -> Instance | None:
    """The typed class that an expression names."""
    node = expr.node if isinstance(expr, nodes.RefExpr) else None
    if not isinstance(node, nodes.TypeInfo) or not is_batch_class(node):
        return None
    typ = fill_typevars_with_any(node)
    return typ if isinstance(typ, Instance) else None


def reference(api: Any, expr: nodes.Expression, env: Env | None = None) -> FieldReference | None:
    """The field that an expression certainly refers to."""
    return _resolve(source_of(api), expr, env or {}, 0)


def _resolve(source: Source, expr: nodes.Expression, env: Env, depth: int) -> FieldReference | None:
    value = resolved(source, expr, env)
    path: list[str] = []
    while True:
        known = cross_file_facts(value)
        base = from_row(known[0]["field"], known[1]) if known is not None and "field" in known[0] else None
        if base is not None:
            found = at_path(base.owner, (*base.path, *path))
            return FieldReference(base.owner, (*base.path, *path), found) if isinstance(found, Found) else None
        if not isinstance(value, nodes.MemberExpr):
            break
        path.insert(0, value.name)
        owner = class_of(value.expr)
        if owner is not None:
            found = at_path(owner, tuple(path))
            return FieldReference(owner, tuple(path), found) if isinstance(found, Found) else None
        value = resolved(source, value.expr, env)
    if isinstance(value, nodes.CallExpr) and not path and depth < _DEPTH:
        inner = entered(source, value)
        if inner is not None:
            result, names = inner
            return _resolve(source, result, {k: resolved(source, v, env) for k, v in names.items()}, depth + 1)
    return None


def known_elsewhere(ctx: AttributeContext) -> Type:
    """The type of a reference, with the field if it has a name that other files may use."""
    ref = reference(ctx.api, ctx.context) if source_of(ctx.api).name_of(ctx.context) is not None else None  # type: ignore[arg-type]  # an expression
    classes: list[Instance] = []
    if ref is None:
        return ctx.default_attr_type
    return carry(ctx.api, ctx.default_attr_type, ctx.context, {"field": to_row(ref, classes)}, classes)


def to_row(ref: FieldReference, classes: list[Instance]) -> list[Any]:
    """A reference for the cache, with its class separately; with the declaration, so that a change is noticed."""
    if ref.owner not in classes:
        classes.append(ref.owner)
    return [classes.index(ref.owner), list(ref.path), f"{ref.found.declared} {ref.found.type}"]


def from_row(row: list[Any], classes: list[Instance]) -> FieldReference | None:
    """The stored reference; None if the field no longer exists."""
    owner, path = classes[row[0]], tuple(row[1])
    found = at_path(owner, path)
    return FieldReference(owner, path, found) if isinstance(found, Found) else None


def resolved(source: Source, expr: nodes.Expression, env: Env) -> nodes.Expression:
    """The value of a name: an argument of the call, or its only value."""
    if isinstance(expr, nodes.NameExpr) and expr.node is not None and expr.node in env:
        return env[expr.node]
    return source.follow(expr)


def entered(source: Source, call: nodes.CallExpr) -> tuple[nodes.Expression, dict[nodes.Node, nodes.Expression]] | None:
    """The returned expression of a call of a one-line function, with its parameters bound to the arguments."""
    found = source.returned(call.callee.node) if isinstance(call.callee, nodes.RefExpr) else None
    if found is None:
        return None
    function, result = found
    given = call_arguments(call, tuple(argument.variable.name for argument in function.arguments))
    if given is None:
        return None
    names: dict[nodes.Node, nodes.Expression] = {}
    for argument in function.arguments:
        value = given.get(argument.variable.name, argument.initializer)
        if value is None or argument.kind.is_star():
            return None
        names[argument.variable] = value
    return result, names


def call_of_partial(partial: nodes.CallExpr, call: nodes.CallExpr) -> nodes.CallExpr:
    """`f(1, 2, key=3)` for `g = partial(f, 1, key=3)` and `g(2)`."""
    kept = [at for at, key in enumerate(partial.arg_names) if at and (key is None or key not in call.arg_names)]
    made = nodes.CallExpr(
        partial.args[0],
        [*(partial.args[at] for at in kept), *call.args],
        [*(partial.arg_kinds[at] for at in kept), *call.arg_kinds],
        [*(partial.arg_names[at] for at in kept), *call.arg_names],
    )
    made.set_line(call)
    return made


def written_out(source: Source, expr: nodes.Expression, depth: int = 0) -> nodes.Expression:
    """The value of an expression, also behind `functools.partial` and functions that return one expression."""
    value = source.follow(expr)
    if not isinstance(value, nodes.CallExpr) or depth > _DEPTH:
        return value
    callee = source.follow(value.callee)
    if isinstance(callee, nodes.CallExpr) and callee_name(callee) == PARTIAL and callee.args:
        return written_out(source, call_of_partial(callee, value), depth + 1)
    inner = entered(source, value)
    return value if inner is None else written_out(source, _with_arguments(source, *inner, value), depth + 1)


def _with_arguments(source: Source, expr: nodes.Expression, env: Env, where: nodes.Context) -> nodes.Expression:
    """A copy of an expression of a function, with the arguments of one call instead of parameters and local names."""
    value = resolved(source, expr, env)
    if value is not expr and not (isinstance(expr, nodes.NameExpr) and expr.node in env):
        return _with_arguments(source, value, env, where)
    made: nodes.Expression
    if isinstance(value, nodes.CallExpr):
        args = [_with_arguments(source, arg, env, where) for arg in value.args]
        made = nodes.CallExpr(resolved(source, value.callee, env), args, value.arg_kinds, value.arg_names)
    elif isinstance(value, nodes.ListExpr | nodes.TupleExpr):
        made = type(value)([_with_arguments(source, item, env, where) for item in value.items])
    elif isinstance(value, nodes.OpExpr):
        left, right = (_with_arguments(source, side, env, where) for side in (value.left, value.right))
        made = nodes.OpExpr(value.op, left, right)
    else:
        return value
    made.set_line(where)
    return made


def references(api: Any, expr: nodes.Expression, env: Env | None = None) -> list[FieldReference | None] | None:
    """The references in an expression or a list; None in the list for `None`; None if one is unknown."""
    source = source_of(api)
    value = resolved(source, expr, env or {})
    items = source.items(value)
    if items is None:
        single = reference(api, value, env)
        return None if single is None else [single]
    found: list[FieldReference | None] = []
    for item in items:
        if isinstance(item, nodes.NameExpr) and item.fullname == "builtins.None":
            found.append(None)
            continue
        ref = reference(api, item, env)
        if ref is None:
            return None
        found.append(ref)
    return found
