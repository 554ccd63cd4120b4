"""Checks the calls of constructors, also those that unpack a dict that is written out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mypy import nodes
from mypy.plugin import FunctionContext, FunctionSigContext
from mypy.types import FunctionLike, Instance, Type

from . import _facts as facts
from ._batch_dims import tensor_dims
from ._call_parts import Known, TensorFacts
from ._codes import BATCH, UNKNOWN_KEY
from ._given import GivenCheck, batch_argument, check_named_values, device
from ._sizes import KnownSizes
from ._source import anything, named_items, source_of
from ._types import static_type
from ._values import Values


class _ConstructorCheck(GivenCheck):
    """Checks the fields of a new instance."""

    def known(self, value: nodes.Expression) -> Known:
        """What is known of a value; all dims, if it comes from an instance whose batch dims are known."""
        found = Values(self.api).known(value)
        if not isinstance(found, TensorFacts) or found.shape is None or found.shape.base is None:
            return found
        dims = tensor_dims(self.api, value, found)
        if dims is None or found.shape.base == self.lead:
            return found
        sizes = tuple(size if isinstance(size, int) else None for size in dims)
        return TensorFacts(found.dtypes, KnownSizes(sizes))

    lead: object = None
    """The batch dims that the instance has, if they are those of another one."""


def signature(ctx: FunctionSigContext) -> FunctionLike:
    """The signature of a constructor.

    It handles classes made from classes, values for `PerElement[str] | None`, and `**values`: only fields come from a
    mapping whose values are tensors, and each value of a dict that is written out is compared with its own field.
    """
    found, made = ctx.default_signature, facts.batch_instance(ctx.default_signature.ret_type)
    if made is None:
        return found
    if any(facts.MADE_OF in base.names for base in made.type.mro):
        found = facts.with_fields(found, made)
    types: list[Type] = [*found.arg_types]
    if any(field.kind.is_listed for field in facts.fields_of(made.type).values()):
        types = [facts.set_type(typ) for typ in types]
    call = ctx.context
    if isinstance(call, nodes.CallExpr) and nodes.ARG_STAR2 in call.arg_kinds:
        known = _unpack(ctx.api, call)
        open_ = facts.EXTRAS if known is None else {*facts.EXTRAS, *known}
        own = {name for name in call.arg_names if name is not None}
        pairs = zip(found.arg_names, types, strict=True)
        types = [anything() if name in open_ and name not in own else typ for name, typ in pairs]
    return found.copy_modified(arg_types=types)


def _unpack(api: Any, call: nodes.CallExpr) -> dict[str, nodes.Expression] | None:
    """The values of `**values` by name; None if one mapping is not written out."""
    rows = [value for kind, value in zip(call.arg_kinds, call.args, strict=True) if kind == nodes.ARG_STAR2]
    found = [named_items(source_of(api), value) for value in rows]
    return {name: value for pairs, _ in found for name, value in pairs} if all(whole for _, whole in found) else None


def _is_of_field(name: str, kind: nodes.ArgKind) -> bool:
    """Whether an argument of a constructor is the value of a field: not unpacked, and no batch size or the like."""
    return not kind.is_star() and (kind.is_named() or name not in facts.EXTRAS)


def check_construction(ctx: FunctionContext) -> Type:
    """Check the arguments of a constructor call against the fields."""
    made, call = facts.batch_instance(ctx.default_return_type), ctx.context
    if made is None:
        return ctx.default_return_type
    info, init = made.type, made.type.get("__init__")
    ours = facts.MADE_OF in info.names or (init is not None and init.plugin_generated)
    if not ours:
        return ctx.default_return_type  # a user-defined constructor
    given = {
        name: values[0]
        for name, values, kinds in zip(ctx.callee_arg_names, ctx.args, ctx.arg_kinds, strict=True)
        if name is not None and len(values) == 1 and _is_of_field(name, kinds[0])
    }
    starred = isinstance(call, nodes.CallExpr) and nodes.ARG_STAR2 in call.arg_kinds
    if starred and isinstance(call, nodes.CallExpr):
        _check_unpacked(ctx.api, made, call, given)
        given = {**(_unpack(ctx.api, call) or {}), **given}
    _check_given(ctx.api, info, given)
    return ctx.default_return_type


def _check_given(api: Any, info: nodes.TypeInfo, given: Mapping[str, nodes.Expression]) -> None:
    """Check the values that a constructor gets, its batch size, and its names."""
    checker = _ConstructorCheck(api, info)
    batch = batch_argument(api, given)
    checker.lead = None if batch is None else batch.sizes.base
    if "device" in given:
        device(api, given["device"])
    fields = {name: value for name, value in given.items() if name not in facts.EXTRAS}
    checker.check(fields, batch, whole=True)
    known = batch or checker.infer(fields)
    names = checker.source.items(given["names"]) if "names" in given else None
    if known is not None and known.sizes.rank is not None and names is not None and len(names) != known.sizes.rank:
        text = f"{info.name}: {len(names)} names are given, and the batch size is {known.sizes}{known.source}"
        api.fail(text, given["names"], code=BATCH)


def _check_unpacked(api: Any, made: Instance, call: nodes.CallExpr, given: Mapping[str, nodes.Expression]) -> None:
    """Names and types in `C(**values)` of a dict that is written out, and fields that it lacks."""
    found = _unpack(api, call)
    if found is None:
        return
    rows = [(name, value, static_type(api, value)) for name, value in found.items() if name not in facts.EXTRAS]
    check_named_values(api, made, rows, values=False)
    if any(kind in (nodes.ARG_POS, nodes.ARG_STAR) for kind in call.arg_kinds):
        return
    missing = sorted(facts.required(made.type) - found.keys() - given.keys())
    if missing and found.keys() <= {*facts.fields_of(made.type), *facts.EXTRAS}:  # else a misspelled name was reported
        api.fail(f"{made.type.name} needs {', '.join(missing)}", call, code=UNKNOWN_KEY)
