"""Turns one line of a class body into a field record; checks annotation, default and options against each other."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor

from .._deferred import is_pydantic_field
from .._dims import Bindings
from .._kinds import INIT_VAR, PENDING
from .._options import FIELD_OPTIONS
from ..errors import SchemaError
from ._annotations import Parsed, WrongDeclaration, is_collection, is_tensorclass, parse_annotation
from ._constraints import broken_constraints, check_constraints
from ._convert import NUMBERS, Inexact, to_tensor
from ._fields import MISSING, FieldInfo
from ._spec import FieldSpec, describe_tensor, is_class, short, type_name


@dataclasses.dataclass(frozen=True)
class AnnotatedName:
    """One annotated name of a class body, before its annotation is read."""

    name: str
    annotation: Any
    info: FieldInfo
    kw_only: bool
    init_var: bool = False

    def pending(self) -> FieldSpec:
        """The field, while a name in its annotation is undefined."""
        return _plain(self).replace(produced=self.info.produced)


def make_field(row: AnnotatedName, annotation: Any, parsed: Parsed | None) -> FieldSpec:
    """Make the record of a field.

    Args:
        row: The line of the class body.
        annotation: The evaluated annotation.
        parsed: Its content; None for an `InitVar`.

    Raises:
        WrongDeclaration: if annotation, default and options don't fit together.
    """
    if parsed is None:
        return _plain(row).replace(kind=INIT_VAR, annotation=annotation, declared=annotation)
    join = join_policy(parsed, row.info.join)
    spec = apply_parsed(_plain(row), annotation, parsed, join=join, produced=row.info.produced)
    check_fill(spec)
    default = check_default(spec)
    return spec if default is spec.default else spec.replace(default=default)


_OPTIONS_OF = attrgetter(*FIELD_OPTIONS)


def _plain(row: AnnotatedName) -> FieldSpec:
    given = dict(zip(FIELD_OPTIONS, _OPTIONS_OF(row.info), strict=True))
    given.update(annotation=row.annotation, declared=row.annotation, kw_only=row.kw_only, options=row.info.metadata)
    return FieldSpec(row.name, PENDING, **{**given, "join": "stack"})  # the policy depends on the kind


def apply_parsed(spec: FieldSpec, declared: Any, parsed: Parsed, **more: Any) -> FieldSpec:
    """The field with another annotation.

    Raises:
        WrongDeclaration: for constraints that it can't have.
    """
    changed = spec.replace(declared=declared, **vars(parsed), **more)
    check_constraints(changed)
    return changed


def join_policy(parsed: Parsed, join: str | None) -> str:
    """The join policy of a field, checked against its kind.

    Raises:
        WrongDeclaration: if the policy needs another kind of field.
    """
    kind = parsed.kind
    if join == "same" and not (kind.is_one_for_all or kind.is_open):
        raise WrongDeclaration(
            'join="same" on a field with batch dims',
            'equal values are joined where the batch shares one: declare `Shared[...]`, or join="stack"',
        )
    if join == "stack" and kind.is_one_for_all:
        raise WrongDeclaration(
            'join="stack" on a value that the batch shares', "declare `PerElement[...]` for one value per element"
        )
    if join == "fill" and not (parsed.optional and (kind.is_batched or kind.is_nested)):
        raise WrongDeclaration(
            'join="fill"' + ("" if parsed.optional else " on a field that is never None"),
            "fill replaces tensors that some batches lack: declare an optional tensor, `... | None`",
        )
    if join == "pad" or (join == "ragged") != kind.is_ragged:
        _check_shape_policy(parsed, join)
    return join or kind.default_join


def _check_shape_policy(parsed: Parsed, join: str | None) -> None:
    """Check policies about event sizes: "pad" needs sizes that may differ, "ragged" one size per element."""
    kind, dims = parsed.kind, None if parsed.spec is None else parsed.spec.dims
    if kind.is_ragged and join is not None:
        raise WrongDeclaration(
            f'join="{join}" on a ragged field', 'it joins by its lengths: leave `join` out, or write "ragged"'
        )
    if join == "ragged":
        raise WrongDeclaration(
            'join="ragged" on a field with one shape for all', 'declare `Ragged[Tensor, "t d"]` for one length each'
        )
    if join == "pad" and (not kind.is_batched or (dims is not None and dims.literal is not None)):
        what = f'of the shape "{dims}"' if kind.is_batched else "that is not a tensor with batch dims"
        raise WrongDeclaration(
            f'join="pad" on a field {what}', "padding is for tensors whose event sizes may differ: name those dims"
        )


def check_fill(spec: FieldSpec) -> None:
    """Check that the tensor can hold the number of `field(fill=...)`.

    Raises:
        WrongDeclaration: if it can't.
    """
    if spec.join not in ("fill", "pad") or spec.spec is None:
        return
    if not isinstance(spec.fill, NUMBERS):
        raise WrongDeclaration(f"fill={short(spec.fill)}", "the fill is a number")
    dtype = spec.spec.dtype.exact
    if dtype is None:
        return
    try:
        number = torch.tensor(spec.fill, dtype=dtype)
    except (RuntimeError, OverflowError):  # too large, nan for an integer, complex for a real dtype
        number = None
    if number is None or not (number.is_floating_point() or number.is_complex() or number.item() == spec.fill):
        raise WrongDeclaration(f"fill={spec.fill!r}", f"the field is {spec}, which can't hold it")


def check_default(spec: FieldSpec) -> Any:
    """Check the default of a field; a number becomes the declared tensor.

    Raises:
        WrongDeclaration: if it doesn't fit the annotation, or if instances would share a mutable default.
    """
    default = spec.default
    if default is MISSING:
        return default
    if is_pydantic_field(default):
        hint = f"it is in the annotation, `Annotated[{spec}, Field(...)]`; the default is `= value` or `field(...)`"
        raise WrongDeclaration("pydantic's `Field(...)` as the default", hint)
    if default is None:
        if spec.optional or not _never_none(spec):
            return default
        raise WrongDeclaration("the default None", spec.optional_hint)
    if spec.kind.is_dense:
        return _tensor_default(spec, default)
    if spec.kind.is_ragged:
        raise WrongDeclaration(
            f"the default {short(default)}", "a ragged field has a tensor for each element: use `default_factory`"
        )
    if isinstance(default, Tensor) and spec.kind.is_value:
        raise WrongDeclaration(f"the default {short(default)}", f"the field holds {spec}; declare a tensor type")
    if type(default).__hash__ is None or is_collection(type(default)) or is_tensorclass(type(default)):
        raise WrongDeclaration(
            f"the mutable default {short(default)}",
            f"instances would share it; write `field(default_factory={_factory_text(default)})`",
        )
    return default


def _never_none(spec: FieldSpec) -> bool:
    plain = spec.kind.is_value and is_class(spec.annotation)
    return not spec.kind.takes_none or (plain and spec.annotation not in (object, type(None)))


def _factory_text(default: object) -> str:
    empty = isinstance(default, list | dict | set) and not default
    return type(default).__name__ if empty else f"lambda: {short(default)}"


def _tensor_default(spec: FieldSpec, default: Any) -> Tensor:
    """The default of a tensor field as a tensor of its event shape; anything that the field refuses is an error."""
    assert spec.spec is not None  # tensor kinds have one
    try:
        value = to_tensor(spec.spec, default)
    except Inexact as error:
        raise WrongDeclaration(f"the default {short(default)}", str(error)) from None
    if value is None:
        raise WrongDeclaration(f"the default {short(default)}", f"a default of `{spec}` is a tensor of the event shape")
    if not spec.spec.dtype.accepts(value.dtype):
        raise WrongDeclaration(f"the default {describe_tensor(value)}", f"its dtype is not {spec.spec.dtype}")
    found = Bindings().bind(spec.name, spec.spec.dims, value.shape) if spec.spec.dims is not None else []
    if found:
        raise WrongDeclaration(
            f"the default {describe_tensor(value)}",
            f"{found[0].hint}; a default has the event shape, it is spread over the batch",
        )
    for hint in broken_constraints(spec.metadata, value, 0):
        raise WrongDeclaration(f"the default {short(default)}", hint)
    return value


def substitute_field(spec: FieldSpec, arguments: Mapping[Any, Any]) -> FieldSpec:
    """The field with type variables replaced by types.

    Raises:
        WrongDeclaration: if the result is not a valid field.
    """
    declared = _substitute(spec.declared, arguments)
    if declared is spec.declared or spec.kind is PENDING:
        return spec
    if spec.kind is INIT_VAR:
        return spec.replace(annotation=declared, declared=declared)
    parsed = parse_annotation(declared)
    implied = spec.join == spec.kind.default_join
    join = join_policy(parsed, None if implied else spec.join)
    changed = apply_parsed(spec, declared, parsed).replace(join=join)
    return changed.replace(default=check_default(changed))


def _substitute(declared: Any, arguments: Mapping[Any, Any]) -> Any:
    if not is_class(declared) and declared in arguments:
        return arguments[declared]
    parameters = getattr(declared, "__parameters__", ())
    if is_class(declared) or not any(parameter in arguments for parameter in parameters):
        return declared
    return declared[tuple(arguments.get(parameter, parameter) for parameter in parameters)]


def check_argument(variable: Any, argument: Any) -> None:
    """Check that a type argument fits its variable.

    Raises:
        SchemaError: if it is outside the bound or the constraints.
    """
    bound, constraints = getattr(variable, "__bound__", None), getattr(variable, "__constraints__", ())
    if not is_class(argument):
        return
    if is_class(bound) and not issubclass(argument, bound):
        raise SchemaError(f"{type_name(argument)} is not an argument for {variable}: its bound is {type_name(bound)}")
    if constraints and not any(is_class(c) and issubclass(argument, c) for c in constraints):
        allowed = ", ".join(type_name(c) for c in constraints)
        raise SchemaError(f"{type_name(argument)} is not an argument for {variable}: it is one of {allowed}")
