"""What meets in one operation: two typed instances, a class and its new fields, leaves and a function, a device."""

from __future__ import annotations

from mypy import nodes
from mypy.plugin import MethodContext, MethodSigContext
from mypy.types import CallableType, FunctionLike, Instance, Type

from ._codes import JOIN, UNKNOWN_KEY
from ._facts import MADE_OF, batch_instance, fields_of, required
from ._given import device, named
from ._source import anything

COMPARED = ("__eq__", "__ne__")
OPERATORS = tuple(
    f"__{form}{name}__"
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor")
    for form in ("", "r", "i")
)
ORDERED = ("__lt__", "__le__", "__gt__", "__ge__")
NAMED = (
    "add", "sub", "mul", "div", "pow", "maximum", "minimum", "clamp", "lerp", "addcmul", "addcdiv", "where",
    "logical_and", "logical_or", "logical_xor", "eq", "ne", "lt", "le", "gt", "ge", "floor_divide",
)  # fmt: skip
WRITES = ("update", "update_", "copy_", "__setitem__", "set_at_", "update_at_")
BETWEEN = {*COMPARED, *OPERATORS, *ORDERED, *NAMED, *(f"{name}_" for name in NAMED), *WRITES, "apply", "apply_"}
"""The methods in which two instances meet."""


def different(one: Instance, other: Instance) -> bool:
    """Whether instances of two classes never meet: neither is the other's parent, or made of other classes."""
    kinds = (one.type, other.type)
    made = any(MADE_OF in base.names for kind in kinds for base in kind.mro)
    return not made and one.type not in other.type.mro and other.type not in one.type.mro


def compared(ctx: MethodContext, owner: Instance, name: str) -> None:
    """Another typed instance among the arguments of an operation."""
    others = (batch_instance(typ) for types in ctx.arg_types for typ in types)
    for other in (one for one in others if one is not None and different(owner, one)):
        names = f"a {owner.type.name} and a {other.type.name}"
        same = "True" if name == "__ne__" else "False"
        text = f"{names} are never equal, so that this is {same}" if name in COMPARED else (
            f"{name.strip('_')} of {names}: operands are of one class, or of a class and its parent"
        )  # fmt: skip
        ctx.api.fail(f"{text}; convert with {owner.type.name}.from_tensordict(...)", ctx.context, code=JOIN)


def extended(ctx: MethodContext, owner: Instance) -> None:
    """`batch.extend(Scored, score=...)`: names and values of the new fields, and that every field has a place."""
    target = batch_instance(ctx.default_return_type)
    if target is None or len(ctx.args) != 2:
        return
    pairs = list(zip(ctx.arg_names[1], ctx.args[1], ctx.arg_types[1], strict=True))
    old, new = fields_of(owner.type), fields_of(target.type)
    named(ctx.api, target, [(name, value, typ) for name, value, typ in pairs if name is not None])
    for name in old.keys() - new.keys():
        text = f'{target.type.name} declares no "{name}", which extend would lose; pick the other fields first'
        ctx.api.fail(text, ctx.context, code=UNKNOWN_KEY)
    missing = sorted(required(target.type) - old.keys() - {name for name, *_ in pairs})
    if missing and None not in ctx.arg_names[1]:
        ctx.api.fail(f"extend needs {', '.join(missing)} of {target.type.name}", ctx.context, code=UNKNOWN_KEY)


def applied(ctx: MethodSigContext, tensor: nodes.TypeInfo) -> FunctionLike:
    """The function of `apply` takes tensors, one of each container."""
    signature, call = ctx.default_signature, ctx.context
    rows = dict(zip(signature.arg_names, ctx.args, strict=True))
    others = {"default", "call_on_nested", "is_leaf", "kwargs"} & {name for name, values in rows.items() if values}
    stars = isinstance(call, nodes.CallExpr) and any(kind.is_star() for kind in call.arg_kinds)
    if others or stars or "fn" not in rows:
        return signature
    count = 1 + len(rows.get("others", ()))
    fn = CallableType(
        [Instance(tensor, [])] * count, [nodes.ARG_POS] * count, [None] * count, anything(),
        signature.fallback,
    )  # fmt: skip
    types: list[Type] = [fn if n == "fn" else t for n, t in zip(signature.arg_names, signature.arg_types, strict=True)]
    return signature.copy_modified(arg_types=types)


def moved(ctx: MethodContext) -> None:
    """`batch.to("cuda")` and `batch.to(device="cuda")`."""
    for formal, values in zip(ctx.callee_arg_names, ctx.args, strict=True):
        for value in values if formal in ("args", "device") else ():
            device(ctx.api, value)
