"""The types of expressions: those that mypy has found; where it has none, those of variables."""

from __future__ import annotations

from typing import Any

from mypy import nodes
from mypy.expandtype import expand_type_by_instance
from mypy.maptype import map_instance_to_supertype
from mypy.typeops import bind_self
from mypy.types import (
    CallableType,
    FunctionLike,
    Instance,
    NoneType,
    ProperType,
    Type,
    TypeType,
    UnionType,
    get_proper_type,
)
from mypy.typevars import fill_typevars_with_any

from ._facts import batch_instance, bounded, field_type, made_by
from ._source import type_of

_DEPTH = 12


def static_type(api: Any, expr: nodes.Node, depth: int = 0) -> Type | None:
    """The type of an expression; of a name without a found type, that of its variable."""
    found = type_of(api, expr) if isinstance(expr, nodes.Expression) else None
    if found is not None or depth > _DEPTH:
        return found
    if isinstance(expr, nodes.NameExpr):
        return _of_name(expr.node)
    if isinstance(expr, nodes.MemberExpr):
        owner = instance_of(api, expr.expr, depth + 1)
        return _of_name(expr.node) if owner is None else field_type(owner, expr.name)
    if isinstance(expr, nodes.IndexExpr):
        owner = instance_of(api, expr.base, depth + 1)
        return owner if isinstance(expr.index, nodes.IntExpr | nodes.SliceExpr) else None
    return _of_call(api, expr, depth + 1) if isinstance(expr, nodes.CallExpr) else None


def instance_of(api: Any, expr: nodes.Node, depth: int = 0) -> Instance | None:
    """The typed instance that an expression is, or is unless it is None."""
    found = get_proper_type(static_type(api, expr, depth))
    members = [get_proper_type(item) for item in found.items] if isinstance(found, UnionType) else []
    some = [item for item in members if not isinstance(item, NoneType)]
    return batch_instance(some[0] if len(some) == 1 < len(members) else found)


def owner_of(typ: Type | None) -> Instance | None:
    """The instance whose class has the methods of a value: of an instance, a class object, a type variable."""
    found = bounded(typ)
    if isinstance(found, FunctionLike) and found.is_type_obj():
        found = bounded(found.items[0].ret_type)
    found = bounded(found.item) if isinstance(found, TypeType) else found
    return found if isinstance(found, Instance) else None


def _of_name(node: object) -> Type | None:
    if isinstance(node, nodes.Var):
        return node.type
    if isinstance(node, nodes.FuncDef | nodes.OverloadedFuncDef):
        return node.type
    made = fill_typevars_with_any(node) if isinstance(node, nodes.TypeInfo) else None
    return TypeType.make_normalized(made) if isinstance(made, Instance) else None


def _of_call(api: Any, call: nodes.CallExpr, depth: int) -> Type | None:
    callee = call.callee
    if isinstance(callee, nodes.RefExpr) and callee.fullname == "builtins.type" and len(call.args) == 1:
        inner = static_type(api, call.args[0], depth)
        return None if inner is None else TypeType.make_normalized(inner)
    found = get_proper_type(static_type(api, callee, depth))
    if isinstance(callee, nodes.MemberExpr) and found is None:
        found = get_proper_type(method_type(static_type(api, callee.expr, depth), callee.name))
    if isinstance(found, Instance):
        found = _called_as(found)
    if isinstance(found, CallableType) and not found.variables and not found.is_type_obj():
        return found.ret_type
    return made_by(found)


def _called_as(callee: Instance) -> ProperType | None:
    """The signature of an object that is called, such as a pipeline."""
    method = callee.type.get_method("__call__")
    signature = None if method is None else get_proper_type(method.type)
    if method is None or not isinstance(signature, CallableType):
        return None
    own = bind_self(signature, callee)
    return get_proper_type(expand_type_by_instance(own, map_instance_to_supertype(callee, method.info)))


def method_type(receiver: Type | None, name: str) -> FunctionLike | None:
    """The signature of a method of an instance or a class, without its first parameter."""
    proper = get_proper_type(receiver)
    owner = owner_of(proper)
    symbol = None if owner is None else owner.type.get(name)
    node = None if symbol is None else symbol.node
    first = node.items[0] if isinstance(node, nodes.OverloadedFuncDef) else node
    function = first.func if isinstance(first, nodes.Decorator) else first
    typ = get_proper_type(getattr(node.var if isinstance(node, nodes.Decorator) else node, "type", None))
    if not isinstance(typ, FunctionLike) or not isinstance(function, nodes.FuncDef) or owner is None:
        return None
    return typ if function.is_static else bind_self(typ, owner, is_classmethod=function.is_class)
