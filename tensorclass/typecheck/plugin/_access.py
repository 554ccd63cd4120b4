"""Access by key, writes to frozen classes, and operations that break declared dtypes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mypy import nodes
from mypy.plugin import AttributeContext, FunctionContext, MethodContext, MethodSigContext
from mypy.subtypes import is_subtype
from mypy.typeops import make_simplified_union, try_getting_str_literals
from mypy.types import CallableType, FunctionLike, Instance, NoneType, Type, get_proper_type

from ..._dims import FAMILY_DTYPES
from ..._operations import BY_FIELD, FLOATING, IN_PLACE, POINTWISE, SCALED
from . import _facts as facts
from ._codes import CAST, FROZEN, UNKNOWN_KEY
from ._given import Batch, GivenCheck, batch_of_instance, check_named_values, device, written
from ._joins import result
from ._meet import BETWEEN, compared, extended, moved, returned
from ._refs import reference
from ._shapes import torch_name
from ._source import anything, by_name, named_items, source_of, type_of
from ._values import tensor_facts

READS = ("__getitem__", "get", "pop")
KEYED = (
    *READS, "__setitem__", "__delitem__", "set", "set_", "rename_key_", "rename_keys", "select", "get_item_shape",
    "get_at", "set_at_", "get_non_tensor", "set_non_tensor", "is_non_tensor", "entry_class", "setdefault", "del_",
    "fill_", "create_nested", "make_memmap", "make_memmap_from_storage", "make_memmap_from_tensor", "separates",
    "split_keys", "stack_tensors", "cat_tensors", *BY_FIELD,
)  # fmt: skip
"""The methods that refuse a name that is not a field."""
KEYED_FUNCTIONS = tuple(f"tensorclass.store._helpers.{name}" for name in ("group_by", "isin", "remove_duplicates"))
_NAMES = ("key", "keys", "old_key", "new_key", "out_key")
_SETS = ("key_sets", "mapping")
_LENIENT = ("default", "strict")
MAPPINGS = {"from_dict": "input_dict", **dict.fromkeys(("zeros", "ones", "full", "empty", "example"), "fields")}
"""Class methods, and the parameter that accepts values by field name."""
UPDATES = ("update", "update_")
ALWAYS_WRITE = ("set", "update", "pop", "popitem", "clear", "__setitem__", "__delitem__", "refine_names")
NO_WRITES = (
    "auto_device_", "clear_device_", "clear_refs_for_compile_", "detach_", "lock_", "pin_memory_",
    "requires_grad_", "share_memory_", "unlock_",
)  # fmt: skip
_OPERANDS = ("other", "min", "max", None)
_TO = {"double": "float64", "half": "float16", "bfloat16": "bfloat16", "float": "float32"}
_TAKE_DEVICE = ("from_", "load", "new_")
_OTHERS = ("to", "replace", "stack", "cat", "pick", "omit", "merge", "extend")
METHODS = {
    *KEYED, *MAPPINGS, *UPDATES, *IN_PLACE, *FLOATING, *SCALED, *_TO, *ALWAYS_WRITE, *_OTHERS, *BETWEEN,
}  # fmt: skip


def wants(name: str) -> bool:
    """Whether the plugin checks a method of a container."""
    return name in METHODS or name.startswith(_TAKE_DEVICE) or (name.endswith("_") and not name.startswith("_"))


def called(ctx: MethodContext, name: str) -> Type:
    """A method call on a typed instance."""
    owner = facts.batch_instance(ctx.type)
    moved(ctx, name)
    if name in MAPPINGS:
        _from_names(ctx, name)
    if owner is None:
        return ctx.default_return_type
    writes = name in ALWAYS_WRITE or name in IN_PLACE
    if writes or (name.endswith("_") and not name.startswith("_") and name not in NO_WRITES):
        refuse_frozen(ctx.api, owner, name, ctx.context)
    if name in BETWEEN:
        compared(ctx, owner, name)
    if name in ("apply", "apply_"):
        returned(ctx, owner)
    if name in KEYED:
        return _keyed_type(ctx, owner, name)
    if name in UPDATES:
        _check_update(ctx, owner)
    elif name == "replace":
        GivenCheck(ctx.api, owner.type).check(by_name(ctx), _own_batch(ctx))
    elif name == "extend":
        extended(ctx, owner)
    else:
        _cast(ctx, owner, name)
    return ctx.default_return_type


def torch_called(ctx: FunctionContext, name: str) -> Type:
    """A call of a torch function: on a typed instance it is the method of the table."""
    given = next((owner for types in ctx.arg_types for typ in types if (owner := facts.batch_instance(typ))), None)
    if given is not None and name in POINTWISE:
        _cast(ctx, given, POINTWISE[name])
    return result(ctx, name)


def _own_batch(ctx: MethodContext | FunctionContext) -> Batch | None:
    """The batch dims of the instance whose method is called."""
    callee = ctx.context.callee if isinstance(ctx.context, nodes.CallExpr) else ctx.context
    if isinstance(callee, nodes.MemberExpr):
        return batch_of_instance(ctx.api, callee.expr)
    return batch_of_instance(ctx.api, callee.base) if isinstance(callee, nodes.IndexExpr) else None


def refuse_frozen(api: Any, owner: Instance, what: str, where: nodes.Context) -> bool:
    """Report a write to an instance of a frozen class; returns whether it is one."""
    frozen = bool(owner.type.metadata.get("dataclass", {}).get("frozen") or facts.option(owner.type, "frozen"))
    if frozen:
        text = f"{owner.type.name} is frozen, so that {what} raises; make a changed copy with replace(...)"
        api.fail(text, where, code=FROZEN)
    return frozen


def attribute(ctx: AttributeContext, name: str) -> Type:
    """Writes and deletions of attributes: `batch.batch_size = ...` of a frozen class, `del` of a required field."""
    owner = facts.batch_instance(ctx.type)
    if owner is None:
        return ctx.default_attr_type
    if not ctx.is_lvalue and ctx.context in source_of(ctx.api).deleted:
        field, typ = facts.fields_of(owner.type).get(name), facts.field_type(owner, name)
        if refuse_frozen(ctx.api, owner, f"deleting {name}", ctx.context):
            return ctx.default_attr_type
        if field is not None and not field.produced and typ is not None and not _takes_none(typ):
            text = f'"{name}" of {owner.type.name} is required and can\'t be deleted'
            ctx.api.fail(text, ctx.context, code=UNKNOWN_KEY)
    elif ctx.is_lvalue and name in facts.EXTRAS:
        value = source_of(ctx.api).assigned.get(ctx.context)  # type: ignore[call-overload]  # a node
        if value is not None and name == "device":
            device(ctx.api, value)
        refuse_frozen(ctx.api, owner, f"setting {name}", ctx.context)
    return ctx.default_attr_type


def replaced(ctx: MethodSigContext) -> FunctionLike:
    """The signature of `batch.replace(label=...)`: the fields, with their types."""
    owner = facts.batch_instance(ctx.type)
    takes = None if owner is None else owner.type.get_method("__mypy-replace")
    typ = None if takes is None else get_proper_type(takes.type)
    if owner is None or not isinstance(typ, CallableType) or owner.args:
        return ctx.default_signature
    rows = [(n, t) for n, t in zip(typ.arg_names, typ.arg_types, strict=True) if n and n not in facts.EXTRAS]
    rows += [(name, typ) for name, typ, _ in facts.parameters(owner)] if facts.MADE_OF in owner.type.names else []
    first = ctx.default_signature.arg_types[0]
    return ctx.default_signature.copy_modified(
        arg_types=[first, *(t for _, t in rows)],
        arg_kinds=[nodes.ARG_STAR, *(nodes.ARG_NAMED_OPT for _ in rows)],
        arg_names=[None, *(n for n, _ in rows)],
    )


# ---- keys ------------------------------------------------------------------------------------------------------------


def function(ctx: FunctionContext) -> Type:
    """`isin(batch, other, "label")`: a function of a container and names."""
    owner = facts.batch_instance(ctx.arg_types[0][0]) if ctx.arg_types and ctx.arg_types[0] else None
    return ctx.default_return_type if owner is None else _keyed_type(ctx, owner, "")


def _keyed_type(ctx: MethodContext | FunctionContext, owner: Instance, name: str) -> Type:
    """The type that an access by key has, and the errors for keys that no field has."""
    found: list[facts.Found | None] = []
    lenient = name != "setdefault" and any(
        given for formal, given in zip(ctx.callee_arg_names, ctx.args, strict=True) if formal in _LENIENT
    )
    for key, typ in _keys(ctx, name):
        for path in _paths(ctx.api, key, typ):
            place, meant = facts.at_path(owner, path), None
            if isinstance(place, facts.NoField):
                if not lenient:
                    ctx.api.fail(str(place), key, code=UNKNOWN_KEY)
                    meant = facts.meant_field(place)  # its type, so that nothing else is said
                place = None
            found.append(place or meant)
            if place is not None and name in ("__setitem__", "set") and len(ctx.args) > 1 and ctx.args[1]:
                value = source_of(ctx.api).assigned.get(ctx.context, ctx.args[1][0])  # type: ignore[call-overload]  # a node
                written(ctx.api, owner, path, place, value, ctx.arg_types[1][0], ctx.context, _own_batch(ctx))
    if name not in READS or not found or (name == "pop") or any(ctx.args[2:]):
        return ctx.default_return_type
    places = [place for place in found if place is not None]
    if len(places) != len(found) or any(place.declared.kind.is_listed for place in places):
        return ctx.default_return_type
    types: list[Type] = [place.type for place in places]
    if name == "get" and any(place.declared.produced or _takes_none(place.type) for place in places):
        types += ctx.arg_types[1] if len(ctx.arg_types) > 1 else []  # an absent key returns the default
    return make_simplified_union(types) if len(types) > 1 else types[0]


def _keys(ctx: MethodContext | FunctionContext, name: str) -> Iterator[tuple[nodes.Expression, Type]]:
    """The keys among the arguments; of a list or mapping that is written out, its members."""
    for position, (formal, values, types) in enumerate(zip(ctx.callee_arg_names, ctx.args, ctx.arg_types, strict=True)):
        if formal in _NAMES or (position == 0 and name.startswith("__")):
            yield from zip(values, types, strict=True)
        elif formal in _SETS:
            for value in map(source_of(ctx.api).follow, values):
                items = value.items if isinstance(value, nodes.ListExpr | nodes.TupleExpr | nodes.DictExpr) else ()
                for item in items:
                    key = item[0] if isinstance(item, tuple) else item
                    if isinstance(key, nodes.StrExpr):
                        yield key, anything()


def _paths(api: Any, key: nodes.Expression, typ: Type) -> list[tuple[str, ...]]:
    """The paths of a key; empty if they are unknown."""
    ref = reference(api, key)
    if ref is not None:
        return [ref.path]
    if isinstance(key, nodes.TupleExpr):
        parts = [item.value for item in key.items if isinstance(item, nodes.StrExpr)]
        return [tuple(parts)] if parts and len(parts) == len(key.items) else []
    literals = try_getting_str_literals(key, typ)
    return [(literal,) for literal in literals or ()]


def _check_update(ctx: MethodContext, owner: Instance) -> None:
    """The keys of `update({...})` and `update(label=...)`."""
    pairs: list[tuple[str, nodes.Expression]] = []
    for values, names, formal in zip(ctx.args, ctx.arg_names, ctx.callee_arg_names, strict=False):
        if formal == "kwargs":
            pairs += [(name, value) for name, value in zip(names, values, strict=True) if name is not None]
    pairs += named_items(source_of(ctx.api), ctx.args[0][0])[0] if ctx.args and ctx.args[0] else []
    rows = [(name, value, type_of(ctx.api, value)) for name, value in pairs]
    check_named_values(ctx.api, owner, rows, _own_batch(ctx))


def _from_names(ctx: MethodContext, name: str) -> None:
    """`Digits.from_dict({...})` and `Digits.zeros(4, fields={...})`: check names and values, and missing fields."""
    owner = facts.batch_instance(ctx.default_return_type)
    if owner is None or facts.option(owner.type, "removed"):  # it accepts former names
        return
    given = dict(zip(ctx.callee_arg_names, ctx.args, strict=True)).get(MAPPINGS[name]) or []
    pairs, whole = named_items(source_of(ctx.api), given[0]) if given else ([], False)
    check_named_values(ctx.api, owner, [(n, value, type_of(ctx.api, value)) for n, value in pairs if "." not in n])
    if whole and name == "from_dict":
        names = {n for n, _ in pairs}
        missing = sorted(facts.required(owner.type) - names)
        if missing and names <= facts.fields_of(owner.type).keys():  # else a misspelled name was reported
            ctx.api.fail(f"{owner.type.name} needs {', '.join(missing)}", given[0], code=UNKNOWN_KEY)


# ---- dtypes ----------------------------------------------------------------------------------------------------------


def _takes_none(typ: Type) -> bool:
    return is_subtype(NoneType(), typ)


def _required_dtypes(owner: Instance) -> Iterator[tuple[str, frozenset[str]]]:
    """The tensor fields that every instance holds and whose dtypes are declared."""
    for name, field in facts.fields_of(owner.type).items():
        typ = facts.field_type(owner, name)
        held = typ is not None and not field.produced and not _takes_none(typ)
        if held and field.kind.is_batched and field.dtypes:
            yield name, field.dtypes


def _cast(ctx: MethodContext | FunctionContext, owner: Instance, name: str) -> None:
    """Report a cast, or an operation with floating results, that breaks a declared dtype."""
    if name in _TO or name == "to":
        target = _target(ctx, _TO.get(name))
        inexact = [] if target is None else [(f, dtypes) for f, dtypes in _required_dtypes(owner) if dtypes & _INEXACT]
        broken = [f for f, dtypes in inexact if target not in dtypes]
        what = f"a cast to {target}"
    else:
        if not ((name in FLOATING and not _has_dtype(ctx)) or (name in SCALED and _by_float(ctx))):
            return
        broken = [f for f, dtypes in _required_dtypes(owner) if not dtypes & _INEXACT]
        what = f"{name.strip('_')} by a float" if name in SCALED else name.strip("_")
    if broken:
        text = f"{what} breaks the declared dtype of {', '.join(broken)} in {owner.type.name}"
        ctx.api.fail(text, ctx.context, code=CAST)


_INEXACT = FAMILY_DTYPES["Inexact"] or frozenset()


def _target(ctx: MethodContext | FunctionContext, named: str | None) -> str | None:
    """The dtype in `.to(torch.float64)`, or the one that a method is named after; None behind a filter."""
    call = ctx.context
    if named is not None:
        return named if isinstance(call, nodes.CallExpr) and not call.args else None
    if not isinstance(call, nodes.CallExpr) or len(call.args) != 1 or call.arg_names[0] not in (None, "dtype"):
        return None
    name = torch_name(source_of(ctx.api).follow(call.args[0]))
    name = _TO.get(name or "", name)
    return name if name in _INEXACT else None


def _has_dtype(ctx: MethodContext | FunctionContext) -> bool:
    return any(values for name, values in zip(ctx.callee_arg_names, ctx.args, strict=True) if name == "dtype")


def _by_float(ctx: MethodContext | FunctionContext) -> bool:
    """Whether an operand is a float or a tensor of floats; `out=` and options are none."""
    rows = zip(ctx.callee_arg_names, ctx.args, strict=True)
    return any(_is_floating(ctx, value) for name, values in rows if name in _OPERANDS for value in values)


def _is_floating(ctx: MethodContext | FunctionContext, value: nodes.Expression) -> bool:
    known = tensor_facts(ctx.api, value)
    return isinstance(value, nodes.FloatExpr) or (
        known is not None and known.dtypes is not None and known.dtypes <= _INEXACT
    )
