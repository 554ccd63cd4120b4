"""A subclass may narrow a field but not widen it: a value that is valid for the child is valid for the parent."""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping
from typing import Any, Literal, Union, get_args, get_origin

from .._dims import DimMap as DimMap
from .._dims import dims_within
from ._spec import FieldSpec, is_class


def widening(child: FieldSpec, parent: FieldSpec, table: DimMap) -> str:
    """How the field of a child is wider than that of its parent; "" if it is not."""
    if child.produced and not parent.produced:
        return "the parent's field can always be read, a produced one only when it was written"
    if parent.kind.is_open:
        return ""
    if child.optional and not parent.optional:
        return "the parent's field is never None"
    if child.kind != parent.kind:
        return f"a {child.kind} field is not a {parent.kind} field"
    if child.kind.has_dtype:
        return _tensor_widening(child, parent, table)
    if child.kind.is_nested:
        below = child.nested is not None and parent.nested is not None and issubclass(child.nested, parent.nested)
        return "" if below or child.nested is parent.nested else f"{child} is not a subclass of {parent}"
    return "" if type_within(child.annotation, parent.annotation) else f"`{child.type_text}` is wider"


def _tensor_widening(child: FieldSpec, parent: FieldSpec, table: DimMap) -> str:
    if child.dtype is not None and parent.dtype is not None and not child.dtype.is_within(parent.dtype):
        return f"the dtype {child.dtype} is not within {parent.dtype}"
    if not dims_within(child.dims, parent.dims, table):
        own = "any shape" if child.dims is None else f'the shape "{child.dims}"'
        return f'{own} is not within "{parent.dims}"'
    return ""


def type_within(child: Any, parent: Any) -> bool:
    """Whether every value of one Python type belongs to another, as far as run-time types show."""
    if parent is Any or parent is object or child == parent:
        return True
    if _is_union(child):
        return all(type_within(member, parent) for member in get_args(child))
    if _is_union(parent):
        return any(type_within(child, member) for member in get_args(parent))
    if get_origin(child) is Literal:
        return _literal_within(get_args(child), parent)
    return _class_within(child, parent)


def _class_within(child: Any, parent: Any) -> bool:
    own, other = get_origin(child) or child, get_origin(parent) or parent
    if not (is_class(own) and is_class(other) and issubclass(own, other)):
        return False
    # Accept only a bare parent or equal arguments: the variance of a type parameter is unknown here.
    return not get_args(parent) or get_args(child) == get_args(parent)


def _literal_within(values: Iterable[Any], parent: Any) -> bool:
    if get_origin(parent) is Literal:
        return set(values) <= set(get_args(parent))
    return all(is_class(parent) and isinstance(value, parent) for value in values)


def _is_union(annotation: Any) -> bool:
    return get_origin(annotation) in (Union, types.UnionType)


def redeclared(own: Mapping[str, FieldSpec], inherited: Mapping[str, FieldSpec]) -> DimMap:
    """The dim names of a parent in the redeclared fields of a child."""
    return DimMap((inherited[name].dims, child.dims) for name, child in own.items() if name in inherited)
