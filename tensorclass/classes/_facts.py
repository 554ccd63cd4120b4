"""Facts about a typed class: computed once, when it is built, and read by every operation."""

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
    """The facts of a class besides its schema and options; without arguments, those of a class that is not built yet.

    Args:
        name: of the class.
        pending: an annotation uses an undefined name; the class is finished at its first use.
        nested: the fields that hold instances of other classes.
        attributes: the names that are set through descriptors, fields included.
        setters: the setters of the fields; empty for a frozen class.
        checks: the names of the class validators.
        checked: values are validated too; a matching dtype and shape are not enough.
        direct: the constructor does nothing that `_wrap` does not do.
        post_init: `__post_init__` runs in `replace` too.
        spread: the fields that accept one value for all elements.
        casts: the dtypes to which every field may be cast, without nested classes.
        rigid: all tensors have literal event shapes and exact dtypes, so those under one key are alike in all
            instances.
        floats: rigid, and all declared dtypes are floating, so arithmetic with instances and numbers keeps them.
        keeps: 2 if the declared dtypes accept the results of arithmetic, since they are floating or any; 1 if they
            accept those of arithmetic on integers; else 0.
        ranks: what two instances give whose tensors have the same ranks has the declared shapes: they are literal or
            any.
        lengths: the named length of a ragged field also occurs in another field.
        cached: the names of its cached properties.
        quick: for a class of plain tensors, the dtype of each field, for readers that leave all checks to the
            constructor.
    """

    name: str = ""
    pending: bool = False
    nested: tuple[str, ...] = ()
    attributes: frozenset[str] = frozenset()
    setters: Mapping[str, Callable[[Any, Any], None]] = {}  # never written to
    checks: tuple[str, ...] = ()
    checked: bool = False
    direct: bool = False
    post_init: bool = False
    spread: tuple[FieldSpec, ...] = ()
    casts: frozenset[torch.dtype] = frozenset()
    rigid: bool = False
    floats: bool = False
    keeps: int = 0
    ranks: bool = False
    lengths: bool = False
    cached: tuple[str, ...] = ()
    quick: Mapping[str, DTypeFamily] | None = None

    def __reduce__(self) -> Any:  # cloudpickle would pickle classes that it can't import without their fields
        raise ArgumentError(f"other processes import tensorclasses: declare `{self.name}` in a module")


class Recipe(NamedTuple):
    """The request that made a class from other classes, which is pickled instead.

    `sources` are classes whose instances it may get.
    """

    make: Callable[..., Any]
    arguments: tuple[Any, ...]
    sources: tuple[Any, ...] = ()


CAST_TARGETS = tuple(
    dtype
    for dtype in vars(torch).values()
    if isinstance(dtype, torch.dtype) and (dtype.is_floating_point or dtype.is_complex)
)
"""The dtypes to which floating tensors are commonly cast."""


def facts_of(cls: Any, schema: Schema, options: Options, checks: tuple[str, ...], cached: tuple[str, ...]) -> Facts:
    """The facts of a class whose fields have their descriptors."""
    validated = options.validate != "off"
    tensors = [spec for spec in schema if not (spec.kind.is_value or spec.kind.is_nested)]
    dtypes = [None if spec.dtype is None else spec.dtype.exact for spec in tensors]
    families = {spec.dtype for spec in schema if spec.dtype is not None}
    root = next(base for base in cls.__mro__ if "__tensorclass_root__" in vars(base))
    own = [_set_by(base) for base in {*cls.__mro__}.difference(root.__mro__)]
    direct = not hasattr(cls, "__post_init__") and all(spec.init for spec in schema)
    spread = tuple(spec for spec in schema if _may_spread(spec))
    rigid = validated and None not in dtypes and all(map(_has_shape, tensors))
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
        casts=frozenset(dtype for dtype in CAST_TARGETS if all([family.admits_cast(dtype) for family in families])),
        rigid=rigid,
        floats=rigid and all(dtype.is_floating_point for dtype in dtypes if dtype is not None),
        keeps=min(map(_kept_dtypes, tensors), default=2) if validated else 0,
        ranks=validated and all(_has_shape(spec) or (spec.kind.is_batched and spec.dims is None) for spec in tensors),
        lengths=validated and shares_lengths(schema),
        cached=cached,
        quick=_quick_families(schema, options) if direct and not spread else None,
    )


def _may_spread(spec: FieldSpec) -> bool:
    """Whether a field accepts one value for all elements, which takes more memory than the given value."""
    return spec.kind.is_per_element or (spec.kind.is_batched and isinstance(spec.default, torch.Tensor))


def _quick_families(schema: Schema, options: Options) -> dict[str, DTypeFamily] | None:
    plain = [spec for spec in schema if spec.kind.is_batched and spec.coerce != "cast"]
    if options.autocast or schema.renamed or schema.removed or len(plain) < len(schema):
        return None
    return {spec.name: spec.spec.dtype for spec in plain if spec.spec is not None}


_FLOATS = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})


def _kept_dtypes(spec: FieldSpec) -> int:
    """The part of a field in `Facts.keeps`."""
    if not spec.kind.is_batched:
        return 0
    dtypes = None if spec.dtype is None else spec.dtype.dtypes
    if dtypes is None:
        return 2
    if all([dtype.is_floating_point for dtype in dtypes]) and (len(dtypes) == 1 or dtypes >= _FLOATS):
        return 2
    exact = next(iter(dtypes), torch.bool)  # an older torch lacks the dtypes of some families
    return 0 if len(dtypes) > 1 or exact is torch.bool or exact.is_complex else 1


def _has_shape(spec: FieldSpec) -> bool:
    """Whether a field is a tensor of literal event shape."""
    return spec.kind.is_batched and spec.dims is not None and spec.dims.literal is not None


@cache
def _attributes(root: type) -> frozenset[str]:
    """The names that are set through descriptors on every subclass of a public base."""
    return frozenset().union(*[_set_by(base) for base in root.__mro__])


def _set_by(base: type) -> list[str]:
    return [name for name, member in vars(base).items() if hasattr(type(member), "__set__")]
