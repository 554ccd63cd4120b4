"""Checks operands of an operation: two typed instances, a class and its new fields, leaves and a function, a device."""

from __future__ import annotations

from mypy import nodes
from mypy.plugin import MethodContext, MethodSigContext
from mypy.subtypes import is_subtype
from mypy.types import CallableType, FunctionLike, Instance, NoneType, Type, get_proper_type

from ..._operations import COMBINING
from ._codes import JOIN, UNKNOWN_KEY, VALUE
from ._facts import MADE_OF, batch_instance, field_type, fields_of, required
from ._given import NO_TENSOR, check_named_values, device
from ._joins import are_unlike, is_exact
from ._source import anything

COMPARED = ("__eq__", "__ne__")
WRITES = ("update", "update_", "copy_", "__setitem__", "set_at_", "update_at_")
BETWEEN = {*COMBINING, *WRITES, "where", "apply", "apply_"}
"""The methods that combine two instances."""


def different(one: Instance, other: Instance) -> bool:
    """Whether two classes are unrelated: neither is a parent of the other, or made from classes."""
    kinds = (one.type, other.type)
    made = any(MADE_OF in base.names for kind in kinds for base in kind.mro)
    return not made and one.type not in other.type.mro and other.type not in one.type.mro


def _report_unrelated(ctx: MethodContext, owner: Instance, name: str) -> None:
    """Report a class and its child where the operation needs a field that one of the two never has."""
    receiver = _receiver(ctx.context)
    if receiver is None or not is_exact(ctx.api, receiver):
        return
    rows = [
        (batch_instance(typ), arg)
        for types, args in zip(ctx.arg_types, ctx.args, strict=True)
        for typ, arg in zip(types, args, strict=True)
    ]
    for other, arg in rows:
        if other is None or different(owner, other):  # which is the cause of what is missing
            continue
        if not are_unlike(owner.type, other.type) or not is_exact(ctx.api, arg):
            continue
        lacks = [] if name in _TAKING_PARTS else sorted(always_there(owner) - fields_of(other.type).keys())
        extra = [] if name in ("apply", "apply_") else sorted(always_there(other) - fields_of(owner.type).keys())
        names, holder, without = (lacks, owner, other) if lacks else (extra, other, owner)
        if names:
            text = f"{name.strip('_')} of a {owner.type.name} and a {other.type.name}"
            ctx.api.fail(
                f'{text}: a {without.type.name} has no "{names[0]}", a {holder.type.name} has it',
                ctx.context,
                code=JOIN,
            )


_TAKING_PARTS = ("update", "update_", "set_at_", "update_at_")
"""The methods that take a part of the fields."""


def _receiver(where: nodes.Context) -> nodes.Expression | None:
    if isinstance(where, nodes.OpExpr):
        return where.left
    if isinstance(where, nodes.IndexExpr):
        return where.base
    callee = where.callee if isinstance(where, nodes.CallExpr) else None
    return callee.expr if isinstance(callee, nodes.MemberExpr) else None


def always_there(owner: Instance) -> set[str]:
    """The tensor fields that every instance holds."""
    found = set[str]()
    for name, field in fields_of(owner.type).items():
        typ = field_type(owner, name)
        if field.kind.is_batched and not field.produced and typ is not None and not is_subtype(NoneType(), typ):
            found.add(name)
    return found


def compared(ctx: MethodContext, owner: Instance, name: str) -> None:
    """Check another typed instance among the arguments of an operation."""
    _report_unrelated(ctx, owner, name)
    others = (batch_instance(typ) for types in ctx.arg_types for typ in types)
    for other in (one for one in others if one is not None and different(owner, one)):
        names = f"a {owner.type.name} and a {other.type.name}"
        same = "True" if name == "__ne__" else "False"
        text = (
            f"{names} are never equal, so that this is {same}"
            if name in COMPARED
            else (f"{name.strip('_')} of {names}: operands are of one class, or of a class and its parent")
        )
        ctx.api.fail(f"{text}; convert with {owner.type.name}.from_tensordict(...)", ctx.context, code=JOIN)


def extended(ctx: MethodContext, owner: Instance) -> None:
    """`batch.extend(Scored, score=...)`: check names and values of the new fields, and that no field is missing."""
    target = batch_instance(ctx.default_return_type)
    if target is None or len(ctx.args) != 2:
        return
    pairs = list(zip(ctx.arg_names[1], ctx.args[1], ctx.arg_types[1], strict=True))
    old, new = fields_of(owner.type), fields_of(target.type)
    check_named_values(ctx.api, target, [(name, value, typ) for name, value, typ in pairs if name is not None])
    for name in old.keys() - new.keys():
        text = f'{target.type.name} declares no "{name}", which extend would lose; pick the other fields first'
        ctx.api.fail(text, ctx.context, code=UNKNOWN_KEY)
    missing = sorted(required(target.type) - old.keys() - {name for name, *_ in pairs})
    if missing and None not in ctx.arg_names[1]:
        ctx.api.fail(f"extend needs {', '.join(missing)} of {target.type.name}", ctx.context, code=UNKNOWN_KEY)


def applied(ctx: MethodSigContext, tensor: nodes.TypeInfo, named: bool) -> FunctionLike:
    """The function of `apply` takes tensors, one of each container; that of `named_apply` the key before them."""
    signature, call = ctx.default_signature, ctx.context
    rows = dict(zip(signature.arg_names, ctx.args, strict=True))
    others = {"default", "call_on_nested", "is_leaf", "kwargs"} & {name for name, values in rows.items() if values}
    stars = isinstance(call, nodes.CallExpr) and any(kind.is_star() for kind in call.arg_kinds)
    if others or stars or "fn" not in rows:
        return signature
    count = 1 + len(rows.get("others", ()))
    taken: list[Type] = [*([anything()] if named else []), *[Instance(tensor, [])] * count]
    fn = CallableType(taken, [nodes.ARG_POS] * len(taken), [None] * len(taken), anything(), signature.fallback)
    types: list[Type] = [fn if n == "fn" else t for n, t in zip(signature.arg_names, signature.arg_types, strict=True)]
    return signature.copy_modified(arg_types=types)


def returned(ctx: MethodContext, owner: Instance) -> None:
    """What the function of `apply` certainly returns goes into the fields; a number fits scalars without batch dims."""
    fn = get_proper_type(ctx.arg_types[0][0]) if ctx.arg_types and ctx.arg_types[0] else None
    made = get_proper_type(fn.ret_type) if isinstance(fn, CallableType) else None
    name = made.type.fullname if isinstance(made, Instance) else ""
    shapes = [field.shape for field in fields_of(owner.type).values() if field.kind.is_batched]
    wide = any(shape is not None and shape.rank for shape in shapes)
    if name in (*NO_TENSOR, "builtins.list") or (wide and name in ("builtins.int", "builtins.float", "builtins.bool")):
        text = f"the function returns a {name.rpartition('.')[2]}, and the fields of {owner.type.name} hold tensors"
        ctx.api.fail(text, ctx.context, code=VALUE)


def moved(ctx: MethodContext, name: str) -> None:
    """`batch.to("cuda")`, and `device="cuda"` of any method."""
    for formal, values in zip(ctx.callee_arg_names, ctx.args, strict=True):
        for value in values if formal == "device" or (formal == "args" and name == "to") else ():
            device(ctx.api, value)
