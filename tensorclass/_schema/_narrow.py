"""A child class may narrow a field and never widen it: what is valid for the child is valid for the parent."""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping
from typing import Any, Literal, Union, get_args, get_origin

from .._dims import AnyDim, Dim, Dims, Polynomial, Token, Variadic
from ._spec import TENSOR_KINDS, FieldSpec


class DimMap:
    """What the dim names of a parent class are in the child: one table for all fields, since equal names are equal."""

    def __init__(self) -> None:
        self.sizes: dict[str, Polynomial] = {}
        self.variadics: dict[str, tuple[Token, ...]] = {}

    def learn(self, parent: Dims | None, child: Dims | None) -> None:
        """Take in what one redeclared field says about the parent's names."""
        if parent is None or child is None:
            return
        for token, own in pair(parent, child) or ():
            if isinstance(token, Variadic) and token.name:
                self.variadics.setdefault(token.name, own)
            elif isinstance(token, Dim) and isinstance(own[0], Dim) and token.size == Polynomial.of(token.text):
                self.sizes.setdefault(token.text, own[0].size)

    def apply(self, dims: Dims | None) -> Dims | None:
        """The dims of an inherited field in terms of the child."""
        if dims is None or not (self.sizes or self.variadics):
            return dims
        tokens: list[Token] = []
        for token in dims.tokens:
            if isinstance(token, Variadic) and token.name in self.variadics:
                tokens += self.variadics[token.name]
            else:
                tokens.append(self._dim(token))
        return Dims(tuple(tokens))

    def _dim(self, token: Token) -> Token:
        if not isinstance(token, Dim):
            return token
        size = token.size.substitute(self.sizes)
        return token if size == token.size else Dim(size, str(size))


def pair(parent: Dims, child: Dims) -> list[tuple[Token, tuple[Token, ...]]] | None:
    """Each dim of the parent with the dims of the child that stand there; None when the ranks can't agree."""
    spare = len(child.tokens) - parent.min_rank
    if spare < 0 or (parent.variadic is None and spare):
        return None
    found, start = [], 0
    for token in parent.tokens:
        stop = start + (spare if isinstance(token, Variadic) else 1)
        found.append((token, child.tokens[start:stop]))
        start = stop
    return found


def dims_within(child: Dims | None, parent: Dims | None, table: DimMap) -> bool:
    """Whether every shape of the child's dims is one of the parent's."""
    if parent is None or (len(parent) == 1 and parent.tokens[0] == Variadic()):
        return True
    pairs = None if child is None else pair(parent, child)
    return pairs is not None and all(_token_within(own, token, table) for token, own in pairs)


def _token_within(own: tuple[Token, ...], parent: Token, table: DimMap) -> bool:
    if isinstance(parent, Variadic):
        return parent.name is None or table.variadics.get(parent.name) == own
    if isinstance(own[0], Variadic):
        return False
    if isinstance(parent, AnyDim):
        return True
    return isinstance(own[0], Dim) and parent.size.substitute(table.sizes) == own[0].size


def widening(child: FieldSpec, parent: FieldSpec, table: DimMap) -> str:
    """How a child's field is wider than its parent's; "" when it is not."""
    if child.produced and not parent.produced:
        return "the parent's field can always be read, a produced one only when it was written"
    if parent.kind == "any":
        return ""
    if child.optional and not parent.optional:
        return "the parent's field is never None"
    if child.kind != parent.kind:
        return f"a {child.kind} field is no {parent.kind} field"
    if child.kind in (*TENSOR_KINDS, "ragged"):
        return _tensor_widening(child, parent, table)
    if child.kind == "nested":
        below = child.nested is not None and parent.nested is not None and issubclass(child.nested, parent.nested)
        return "" if below or child.nested is parent.nested else f"{child} is no subclass of {parent}"
    return "" if type_within(child.annotation, parent.annotation) else f"`{child.type_text}` is wider"


def _tensor_widening(child: FieldSpec, parent: FieldSpec, table: DimMap) -> str:
    if child.dtype is not None and parent.dtype is not None and not child.dtype.is_within(parent.dtype):
        return f"the dtype {child.dtype} is not within {parent.dtype}"
    if not dims_within(child.dims, parent.dims, table):
        own = "any shape" if child.dims is None else f'the shape "{child.dims}"'
        return f'{own} is not within "{parent.dims}"'
    return ""


def type_within(child: Any, parent: Any) -> bool:
    """Whether every value of one Python type belongs to another, as far as the run-time types can tell."""
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
    if not (isinstance(own, type) and isinstance(other, type) and issubclass(own, other)):
        return False
    # Only a bare parent or the same arguments: whether a type parameter is covariant can't be known here.
    return not get_args(parent) or get_args(child) == get_args(parent)


def _literal_within(values: Iterable[Any], parent: Any) -> bool:
    if get_origin(parent) is Literal:
        return set(values) <= set(get_args(parent))
    return all(isinstance(parent, type) and isinstance(value, parent) for value in values)


def _is_union(annotation: Any) -> bool:
    return get_origin(annotation) in (Union, types.UnionType)


def redeclared(own: Mapping[str, FieldSpec], inherited: Mapping[str, FieldSpec]) -> DimMap:
    """What the redeclared fields of a child say about the dim names of a parent."""
    table = DimMap()
    for name, child in own.items():
        if name in inherited:
            table.learn(inherited[name].dims, child.dims)
    return table
