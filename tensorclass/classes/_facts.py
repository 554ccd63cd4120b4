"""Facts about a typed class: decided once, when it is built, and read by every operation afterwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import torch

from .._schema import DTypeFamily, FieldSpec, Options, Schema
from ..errors import ArgumentError
from ..store.entries._agreement import shares_lengths
from ._access import is_checked


class Facts(NamedTuple):
    """What a class decides besides its schema and options; without arguments, a class that is not built yet.

    Args:
        name: of the class.
        pending: a name that the annotations use is not defined yet; the class is finished at its first use.
        nested: the fields that hold instances of other classes.
        attributes: the names that are set through descriptors, fields included.
        setters: the setters of the fields; none of a frozen class.
        checks: the names of the checks of whole instances.
        checked: values are looked into: dtype and shape do not say that one is right.
        direct: the constructor does no more than reading does.
        post_init: `__post_init__` runs in `replace` too.
        spread: the fields that may have one value for all elements.
        casts: the dtypes that no field is against, nested classes aside.
        rigid: tensors have literal event shapes and exact dtypes: those under one key are alike in all instances.
        floats: declared dtypes are exact and floating, so that arithmetic among instances and numbers keeps them.
        lengths: the length of a ragged field has a name that another field has too.
        quick: the dtypes by field of a class of plain tensors, for readers that leave all checks to the constructor.
    """

    name: str = ""
    pending: bool = False
    nested: tuple[str, ...] = ()
    attributes: frozenset[str] = frozenset()
    setters: Mapping[str, Callable[[Any, Any], None]] = {}  # nobody writes to it
    checks: tuple[str, ...] = ()
    checked: bool = False
    direct: bool = False
    post_init: bool = False
    spread: tuple[FieldSpec, ...] = ()
    casts: frozenset[torch.dtype] = frozenset()
    rigid: bool = False
    floats: bool = False
    lengths: bool = False
    quick: Mapping[str, DTypeFamily] | None = None

    def __reduce__(self) -> Any:  # cloudpickle takes classes apart that it can't import: they arrive without fields
        raise ArgumentError(f"other processes import tensorclasses: declare `{self.name}` in a module")


class Recipe(NamedTuple):
    """How a class is made of others, which is how it pickles; `sources` are those whose instances it may meet."""

    make: Callable[..., Any]
    arguments: tuple[Any, ...]
    sources: tuple[Any, ...] = ()


CAST_TARGETS = tuple(
    dtype
    for dtype in vars(torch).values()
    if isinstance(dtype, torch.dtype) and (dtype.is_floating_point or dtype.is_complex)
)
"""The dtypes to which floating tensors are cast in earnest."""


def facts_of(cls: Any, schema: Schema, options: Options, checks: tuple[str, ...]) -> Facts:
    """The facts of a class whose fields have their descriptors."""
    validated = options.validate != "off"
    tensors = [spec for spec in schema if spec.kind not in ("value", "nested")]
    dtypes = [None if spec.dtype is None else spec.dtype.exact for spec in tensors]
    families = {spec.dtype.name: spec.dtype for spec in schema if spec.dtype is not None}.values()
    root = next(base for base in cls.__mro__ if "__tensorclass_root__" in vars(base))
    own = [_set_by(base) for base in cls.__mro__ if base not in root.__mro__]
    direct = not hasattr(cls, "__post_init__") and all(spec.init for spec in schema)
    spread = tuple(spec for spec in schema if _may_spread(spec))
    return Facts(
        name=cls.__qualname__,
        nested=tuple(name for name, spec in schema.fields.items() if spec.nested is not None),
        attributes=_attributes(root).union(*own),
        setters={} if options.frozen else {name: vars(cls)[name].fset for name in schema.fields},
        checks=checks,
        checked=(bool(checks) and validated) or any(is_checked(spec, options) for spec in schema),
        direct=direct,
        post_init=hasattr(cls, "__post_init__") and not schema.init_vars,
        spread=spread,
        casts=frozenset(dtype for dtype in CAST_TARGETS if all(family.admits_cast(dtype) for family in families)),
        rigid=validated and None not in dtypes and all(map(_has_shape, tensors)),
        floats=all(dtype is not None and dtype.is_floating_point for dtype in dtypes),
        lengths=validated and shares_lengths(schema),
        quick=_quick_families(schema, options) if direct and not spread else None,
    )


def _may_spread(spec: FieldSpec) -> bool:
    """Whether one value may stand for all elements, so that making it takes more than was given."""
    return spec.kind == "per_element" or (spec.kind == "tensor" and isinstance(spec.default, torch.Tensor))


def _quick_families(schema: Schema, options: Options) -> dict[str, DTypeFamily] | None:
    plain = [spec for spec in schema if spec.kind == "tensor" and spec.coerce != "cast"]
    if options.autocast or schema.renamed or schema.removed or len(plain) < len(schema):
        return None
    return {spec.name: spec.spec.dtype for spec in plain if spec.spec is not None}


def _has_shape(spec: FieldSpec) -> bool:
    """Whether a field is a tensor of literal event shape."""
    return spec.kind == "tensor" and spec.dims is not None and spec.dims.literal is not None


@cache
def _attributes(root: type) -> frozenset[str]:
    """What is set through descriptors on every class below one of the bases that users see."""
    return frozenset().union(*[_set_by(base) for base in root.__mro__])


def _set_by(base: type) -> list[str]:
    return [name for name, member in vars(base).items() if hasattr(type(member), "__set__")]
