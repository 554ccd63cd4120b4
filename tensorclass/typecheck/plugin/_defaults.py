"""`field(default=...)` and `field(default_factory=...)` against the type of the field."""

from __future__ import annotations

from mypy import nodes
from mypy.erasetype import erase_type
from mypy.plugin import FunctionContext
from mypy.subtypes import is_subtype
from mypy.types import FunctionLike, Instance, NoneType, ProperType, Type, UnionType, get_proper_type

from ._codes import DECLARATION
from ._facts import batch_instance
from ._source import source_of

FIELD = "tensorclass._schema._fields.field"
_NO_TENSOR = ("builtins.str", "builtins.dict", "builtins.set")


def checked(ctx: FunctionContext) -> Type:
    """A default whose type is certainly not the field's; what the run time converts passes."""
    rows = dict(zip(ctx.callee_arg_names, ctx.arg_types, strict=True))
    default, factory = rows.get("default"), rows.get("default_factory")
    made = get_proper_type(factory[0] if factory else default[0] if default else None)
    if factory:
        made = get_proper_type(made.items[0].ret_type) if isinstance(made, FunctionLike) and made.items else None
    bindings = source_of(ctx.api).bindings
    field = next((var for var, values in bindings.items() if ctx.context in values), None)
    declared = get_proper_type(field.type) if isinstance(field, nodes.Var) else None
    if made is not None and declared is not None and _wrong(made, declared):
        text = f"The default of this field is a {_name(made)}, and its type is {_name(declared)}"
        ctx.api.fail(text.replace("builtins.", ""), ctx.context, code=DECLARATION)
    return ctx.default_return_type


def _name(typ: ProperType) -> str:
    return typ.type.name if isinstance(typ, Instance) and not typ.type.is_generic() else str(erase_type(typ))


def _wrong(made: ProperType, declared: ProperType) -> bool:
    members = [get_proper_type(t) for t in (declared.items if isinstance(declared, UnionType) else [declared])]
    return isinstance(made, Instance) and all(_refused(made, member) for member in members)


def _refused(made: Instance, declared: ProperType) -> bool:
    if not isinstance(declared, Instance):
        return isinstance(declared, NoneType)
    if declared.type.fullname == "torch._tensor.Tensor":
        return made.type.fullname in _NO_TENSOR or batch_instance(made) is not None
    known = declared.type.fullname.startswith("builtins.") or batch_instance(declared) is not None
    return known and not is_subtype(erase_type(made), erase_type(declared))
