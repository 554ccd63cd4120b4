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
    TypeVarType,
    UnionType,
    get_proper_type,
)
from mypy.typevars import fill_typevars_with_any

from ._facts import batch_instance, bounded, field_type, made_by
from ._source import callee_name, source_of, type_of

_DEPTH = 12
_ITERATED = (
    "builtins.list", "builtins.tuple", "builtins.set", "typing.Sequence", "typing.Iterable", "typing.Iterator",
    "collections.deque",
)  # fmt: skip


def static_type(api: Any, expr: nodes.Node, depth: int = 0) -> Type | None:
    """The type of an expression; of a name without a found type, that of its variable."""
    found = type_of(api, expr) if isinstance(expr, nodes.Expression) else None
    if found is not None or depth > _DEPTH:
        return found
    if isinstance(expr, nodes.NameExpr):
        return _of_name(expr.node) or _of_loop_variable(api, expr, depth + 1) or _of_value(api, expr, depth + 1)
    if isinstance(expr, nodes.MemberExpr):
        owner = instance_of(api, expr.expr, depth + 1)
        if owner is not None:
            return field_type(owner, expr.name)
        return _of_name(expr.node) or _of_attribute(static_type(api, expr.expr, depth + 1), expr.name)
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


def _of_attribute(receiver: Type | None, name: str) -> Type | None:
    """The declared type of an attribute of any object, such as `self.batch`."""
    found = get_proper_type(receiver)
    symbol = found.type.get(name) if isinstance(found, Instance) else None
    if not isinstance(found, Instance) or symbol is None or not isinstance(symbol.node, nodes.Var):
        return None
    typ, holder = symbol.node.type, symbol.node.info
    if typ is None or not isinstance(holder, nodes.TypeInfo) or not found.type.has_base(holder.fullname):
        return typ
    return expand_type_by_instance(typ, map_instance_to_supertype(found, holder))


def _of_loop_variable(api: Any, name: nodes.NameExpr, depth: int) -> Type | None:
    """The type of the items of a list, a tuple of any length or a batch that a loop or a comprehension goes over."""
    over = source_of(api).loops.get(name.node, ()) if name.node is not None else ()
    if len(over) == 1 and callee_name(over[0]) == "builtins.range":
        number: Type = api.named_generic_type("builtins.int", [])
        return number
    found = get_proper_type(static_type(api, over[0], depth)) if len(over) == 1 else None
    if not isinstance(found, Instance):
        return None
    one = found.args[0] if len(found.args) == 1 and found.type.fullname in _ITERATED else None
    return batch_instance(found) or one


def _of_value(api: Any, name: nodes.NameExpr, depth: int) -> Type | None:
    """The type of the only value of a name."""
    value = source_of(api).follow(name)
    return None if value is name else static_type(api, value, depth)


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
        receiver = (
            get_proper_type(static_type(api, callee.expr, depth)) if isinstance(callee, nodes.MemberExpr) else None
        )
        if isinstance(receiver, TypeVarType) and found.ret_type == receiver.upper_bound:
            return receiver  # `clone` of a type variable
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
