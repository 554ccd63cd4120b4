"""Layouts over a device mesh: names that the mesh or the fields of a class do not have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from mypy import nodes
from mypy.plugin import FunctionContext, MethodContext
from mypy.types import Instance, Type

from ..._dims import Dim
from ...errors import did_you_mean
from . import _facts as facts
from ._codes import LAYOUT as WRONG_LAYOUT
from ._source import Source, by_name, callee_name, source_of

LAYOUT: Final = "tensorclass.parallel._layout.Layout"
_MESH: Final = "torch.distributed.device_mesh.init_device_mesh"


def check_layout(ctx: FunctionContext) -> Type:
    """A new layout over a mesh with literal names: its mesh dims are among them."""
    call, source = ctx.context, source_of(ctx.api)
    if not isinstance(call, nodes.CallExpr) or not call.args or call.arg_kinds[0] != nodes.ARG_POS:
        return ctx.default_return_type
    names = _mesh_names(source, call.args[0])
    for _, value in _keyword_arguments(call) if names is not None else ():
        for text in _texts(value):
            if text.value not in (names or ()):
                known = ", ".join(f'"{name}"' for name in names or ())
                near = did_you_mean(text.value, names or ())
                ctx.api.fail(f'the mesh has no dim "{text.value}"; it has {known}{near}', text, code=WRONG_LAYOUT)
    return ctx.default_return_type


def check_distribute(ctx: MethodContext) -> Type:
    """`batch.distribute(Layout(...))`: each dim that the layout names is a dim of a field.

    A layout in a variable may be for other classes too.
    """
    owner, layout = facts.batch_instance(ctx.type), by_name(ctx).get("layout")
    if owner is None or not isinstance(layout, nodes.CallExpr) or callee_name(layout) != LAYOUT:
        return ctx.default_return_type
    dims = _dims_below(owner, set())
    for name, value in _keyword_arguments(layout) if dims is not None else ():
        if name != "batch" and name.isidentifier() and name not in (dims or ()):
            near = did_you_mean(name, sorted(dims or ()))
            ctx.api.fail(f'no field of {owner.type.name} has the dim "{name}"{near}', value, code=WRONG_LAYOUT)
    return ctx.default_return_type


def _keyword_arguments(call: nodes.CallExpr) -> Iterator[tuple[str, nodes.Expression]]:
    return ((name, value) for name, value in zip(call.arg_names, call.args, strict=True) if name is not None)


def _mesh_names(source: Source, expr: nodes.Expression) -> list[str] | None:
    """The names of the dims of a mesh: the keys of a dict, or those for `init_device_mesh`; None if not literal."""
    value = source.follow(expr)
    given: list[Any] = []
    if isinstance(value, nodes.DictExpr):
        given = [key for key, _ in value.items]
    elif isinstance(value, nodes.CallExpr) and callee_name(value) == _MESH:
        named = source.follow(dict(_keyword_arguments(value)).get("mesh_dim_names", value))
        given = named.items if isinstance(named, (nodes.TupleExpr, nodes.ListExpr)) else []
    texts = [one.value for one in given if isinstance(one, nodes.StrExpr)]
    return texts if texts and len(texts) == len(given) else None


def _texts(value: nodes.Expression) -> Iterator[nodes.StrExpr]:
    """The literal names in a value: one, several, or those of a mapping from batch dims."""
    if isinstance(value, nodes.StrExpr):
        yield value
    items: list[Any] = []
    if isinstance(value, (nodes.TupleExpr, nodes.ListExpr)):
        items = value.items
    elif isinstance(value, nodes.DictExpr):
        items = [item for _, item in value.items]
    for item in items:
        yield from _texts(item)


def _dims_below(owner: Instance, seen: set[str]) -> set[str] | None:
    """The names of the dims of all fields of a class, nested ones too; None if a declaration is not known."""
    found, seen = set[str](), {*seen, owner.type.fullname}
    for name, declared in facts.fields_of(owner.type).items():
        shape, typ = declared.shape, facts.field_type(owner, name)
        if declared.open or typ is None:
            return None
        for token in () if shape is None else shape.tokens:
            found.update(token.size.names if isinstance(token, Dim) else (str(token).strip("*."),))
        members = facts.batch_members(typ)
        if declared.kind.is_nested and not members:
            return None
        for inner in members:
            below = set[str]() if inner.type.fullname in seen else _dims_below(inner, seen)
            if below is None:
                return None
            found |= below
    return found
