"""Constraints of annotated-types on fields: the fields that can have them, and the elements that break them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from numbers import Real
from typing import Any, get_origin

import torch
from annotated_types import Ge, GroupedMetadata, Gt, Le, Lt, MaxLen, MinLen, MultipleOf, Predicate, Timezone
from torch import Tensor

from .._deferred import is_pydantic_field
from .._dims import Dim
from ._annotations import WrongDeclaration
from ._dtypes import Bool, Complex
from ._spec import FieldSpec, type_name

ORDER = {Ge: ("ge", ">=", torch.ge), Gt: ("gt", ">", torch.gt), Le: ("le", "<=", torch.le), Lt: ("lt", "<", torch.lt)}
LENGTH = {MinLen: ("min_length", "at least"), MaxLen: ("max_length", "at most")}
KNOWN = (*ORDER, *LENGTH, MultipleOf)
UNORDERED = (str, bytes, bytearray, list, tuple, dict, set, frozenset)


def flatten(metadata: Iterable[Any]) -> Iterator[Any]:
    """Split `Interval`, `Len` and the `Field(...)` of pydantic into single constraints."""
    for mark in metadata:
        if is_pydantic_field(mark):
            yield from flatten(mark.metadata)
        elif isinstance(mark, GroupedMetadata):
            yield from flatten(mark)
        else:
            yield mark


# ---- at class definition -----------------------------------------------------------------------------------------


def check_constraints(spec: FieldSpec) -> None:
    """Refuse constraints that a field of this kind can't have, or that no value meets.

    Raises:
        WrongDeclaration: for the first such constraint.
    """
    if not spec.metadata:
        return
    marks = list(flatten(spec.metadata))
    for mark in marks:
        if spec.kind.has_dtype:
            _check_on_tensor(spec, mark)
        elif isinstance(mark, KNOWN):
            _check_on_value(spec, mark)
    _check_bounds(marks)


def _check_on_tensor(spec: FieldSpec, mark: Any) -> None:
    """Refuse a constraint that the numbers of a tensor can't keep or break."""
    assert spec.spec is not None  # tensor kinds have one
    if isinstance(mark, Predicate | Timezone):
        raise WrongDeclaration(f"{mark} on a tensor", f'check it with `@field_validator("{spec.name}")`')
    if not isinstance(mark, KNOWN):
        return
    if isinstance(mark, tuple(LENGTH)):
        _check_length(spec, mark)
        return
    family = spec.spec.dtype
    if family.dtypes is not None and (family.is_within(Bool) or family.is_within(Complex)):
        raise WrongDeclaration(f"{mark} on {family}", "numbers of this dtype have no order; drop the constraint")
    bound = bound_of(mark)
    if not isinstance(bound, Real) or isinstance(bound, bool):
        raise WrongDeclaration(f"{mark} on a tensor", f"the bound is a number, not a {type_name(type(bound))}")
    if isinstance(mark, MultipleOf) and not float(bound) > 0:
        raise WrongDeclaration(str(mark), "the step is a number above 0")


def _check_length(spec: FieldSpec, mark: Any) -> None:
    dims = spec.dims
    if dims is None or not len(dims):
        if dims is not None:
            raise WrongDeclaration(f"{mark} on a scalar", "a length is the size of the first event dim; declare one")
        return
    token, bound = dims.tokens[0], bound_of(mark)
    size = token.size.constant if isinstance(token, Dim) else None
    if size is not None and (size < bound if isinstance(mark, MinLen) else size > bound):
        raise WrongDeclaration(f'{mark} on the shape "{dims}"', f"its first event dim is always {size}")


def _check_on_value(spec: FieldSpec, mark: Any) -> None:
    """Refuse a constraint that values of the annotated type can't be compared with."""
    if spec.kind.is_per_element:
        inner = type_name(spec.annotation)
        raise WrongDeclaration(f"{mark} on PerElement[...]", f"write `PerElement[Annotated[{inner}, {mark}]]`")
    if not spec.kind.is_value:
        raise WrongDeclaration(f"{mark} on {spec}", "constraints are for tensors and Python values; drop it here")
    kind: Any = get_origin(spec.annotation) or spec.annotation
    if not isinstance(kind, type):
        return
    bound = bound_of(mark)
    if isinstance(mark, tuple(LENGTH)):
        fits = hasattr(kind, "__len__")
    elif isinstance(mark, MultipleOf):
        fits = hasattr(kind, "__mod__") and not issubclass(kind, UNORDERED)
    else:
        fits = getattr(kind, "__ge__", None) is not vars(object)["__ge__"] and not (
            isinstance(bound, Real) and issubclass(kind, UNORDERED)
        )
        fits = fits and (issubclass(kind, UNORDERED) or not isinstance(bound, UNORDERED))
    if not fits:
        what = "length" if isinstance(mark, tuple(LENGTH)) else "order against this bound"
        raise WrongDeclaration(f"{mark} on {type_name(spec.annotation)}", f"such values have no {what}; drop it")


def _check_bounds(marks: list[Any]) -> None:
    """Refuse lower bounds above an upper bound."""
    low = [(bound_of(mark), isinstance(mark, Gt)) for mark in marks if isinstance(mark, Ge | Gt)]
    high = [(bound_of(mark), isinstance(mark, Lt)) for mark in marks if isinstance(mark, Le | Lt)]
    shortest = [bound_of(mark) for mark in marks if isinstance(mark, MinLen)]
    longest = [bound_of(mark) for mark in marks if isinstance(mark, MaxLen)]
    empty = any(a > b or (a == b and (open_a or open_b)) for a, open_a in low for b, open_b in high)
    if empty or any(a > b for a in shortest for b in longest):
        raise WrongDeclaration(" with ".join(str(m) for m in marks if isinstance(m, KNOWN)), "nothing meets both")


def bound_of(mark: Any) -> Any:
    """The number of a single constraint."""
    if isinstance(mark, MultipleOf):
        return mark.multiple_of
    return getattr(mark, (ORDER.get(type(mark)) or LENGTH[type(mark)])[0])


# ---- on values ---------------------------------------------------------------------------------------------------


def broken_constraints(metadata: Iterable[Any], value: Tensor, start: int, name: str = "") -> Iterator[str]:
    """The constraints that elements of a tensor break, with a count and the first element. nan breaks every bound.

    Args:
        metadata: The metadata of the annotation.
        value: The tensor, batch dims included.
        start: Where its event dims begin; a length is the size of the first.
        name: The field, for the message under `torch.compile`.
    """
    for mark in flatten(metadata):
        if not isinstance(mark, KNOWN) or value.is_meta:
            continue
        if isinstance(mark, tuple(LENGTH)):
            yield from _wrong_length(mark, value, start)
        elif value.is_complex() or value.dtype is torch.bool:
            yield f"{mark} needs numbers with an order, here {value.dtype}"
        elif value.numel():
            eager_only(f"`{name}`: {mark} depends on the values of a tensor")
            yield from _wrong_elements(mark, value)


def eager_only(what: str) -> None:
    """Break the graph before an operation that can't be compiled; with `fullgraph=True`, the error gives the reason."""
    if torch.compiler.is_compiling():
        torch._dynamo.graph_break(f"{what}, which only eager code can do")


def _wrong_length(mark: Any, value: Tensor, start: int) -> Iterator[str]:
    bound, words = bound_of(mark), LENGTH[type(mark)][1]
    if value.ndim <= start:
        yield f"the first event dim has {words} {bound} entries; every element is a scalar"
    elif value.shape[start] < bound if isinstance(mark, MinLen) else value.shape[start] > bound:
        yield f"the first event dim has {words} {bound} entries, here {value.shape[start]}"


def _wrong_elements(mark: Any, value: Tensor) -> Iterator[str]:
    bound, numbers = bound_of(mark), _comparable(value.detach())
    if isinstance(mark, MultipleOf):
        text, wrong = f"a multiple of {bound}", ~_is_multiple(numbers, bound, value.dtype)
    else:
        _, sign, holds = ORDER[type(mark)]
        text, wrong = f"{sign} {bound}", ~holds(numbers, bound)  # nan compares false, and so breaks the bound
    if bool(wrong.any()):
        first = [int(i) for i in wrong.nonzero()[0]]
        count = f"{int(wrong.sum())} of {value.numel()} elements, first {value[tuple(first)].item()} at {first}"
        yield f"every element is {text}; not so: {count}"


def _comparable(value: Tensor) -> Tensor:
    """The numbers in a dtype that torch can compare."""
    if value.dtype in (torch.uint16, torch.uint32):
        return value.to(torch.int64)
    return (
        value.double() if value.dtype is torch.uint64 or (value.is_floating_point() and value.itemsize == 1) else value
    )


def _is_multiple(value: Tensor, step: float, dtype: torch.dtype) -> Tensor:
    """Which elements are multiples: exact for integers; for floats, to the precision of the dtype."""
    if not dtype.is_floating_point and float(step).is_integer():
        return torch.remainder(value, int(step)) == 0
    ratio = value.double() / step
    eps = torch.finfo(dtype).eps if dtype.is_floating_point else 1e-12
    return (ratio - ratio.round()).abs() <= 2 * eps * ratio.abs().clamp(min=1)
