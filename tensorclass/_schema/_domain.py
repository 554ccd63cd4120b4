"""The possible instances of a class: sizes of dims, numbers in tensors. Examples and test data draw from it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any, NamedTuple, Protocol

import torch
from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen, MultipleOf

from .._dims import AnyDim, Dim, Dims, Polynomial, Variadic
from ..errors import Problem, SchemaError
from ._constraints import bound_of, broken_constraints, flatten
from ._convert import preferred_dtype
from ._schema import Schema
from ._spec import FieldSpec

REACH = (8, 64)  # limits for sizes of expressions, tried if no size up to the requested one fits
TRIES = 20_000
COMMON = (torch.float32, torch.int64, torch.bool, torch.float64, torch.int32, torch.uint8, torch.bfloat16)


class Draw(Protocol):
    """A source of choices: a random generator, or hypothesis."""

    def integer(self, low: int, high: int) -> int:
        """A number from `low` to `high`, both included."""
        ...


# ---- numbers -----------------------------------------------------------------------------------------------------


class Numbers(NamedTuple):
    """The possible values of an element of one dtype.

    `low` and `high` are the least and the greatest value; None if only the dtype limits them. With `step`, only its
    multiples are valid. For a dtype of one byte, `table` lists all values.
    """

    low: float | None = None
    high: float | None = None
    step: Fraction | None = None
    table: tuple[float, ...] | None = None

    def multiples(self, low: float, high: float) -> tuple[int, int]:
        """The least and the greatest factor whose multiple of the step is between two numbers."""
        step = self.step or Fraction(1, 2**1100)  # less than the smallest difference of two floats
        return math.ceil(Fraction(low) / step), math.floor(Fraction(high) / step)


def numbers(spec: FieldSpec, dtype: torch.dtype) -> Numbers:
    """The numbers of a dtype that the constraints of a tensor field allow.

    Raises:
        SchemaError: if no number is left.
    """
    found = _numbers(spec, dtype)
    if found is None:
        hint = f"no {dtype} meets {', '.join(map(str, flatten(spec.metadata)))}"
        raise SchemaError.of(spec.name, [Problem(spec.name, str(spec), "constraints that nothing meets", hint)])
    return found


def _numbers(spec: FieldSpec, dtype: torch.dtype) -> Numbers | None:
    """The numbers of a dtype that keep the constraints of a field; None if there are none."""
    marks = [mark for mark in flatten(spec.metadata) if isinstance(mark, Ge | Gt | Le | Lt | MultipleOf)]
    if dtype is torch.bool or dtype.is_complex:
        return Numbers()
    if dtype.is_floating_point and dtype.itemsize == 1:
        every = torch.arange(256, dtype=torch.uint8).view(dtype).double()
        table = [
            x for x in every.tolist() if math.isfinite(x) and not list(broken_constraints(marks, torch.tensor(x), 0))
        ]
        return Numbers(table=tuple(sorted(table, key=abs))) if table else None
    steps = [Fraction(str(bound_of(mark))) for mark in marks if isinstance(mark, MultipleOf)]
    step = Fraction(math.lcm(*(s.numerator for s in steps)), math.gcd(*(s.denominator for s in steps)) or 1)
    step = step if dtype.is_floating_point else Fraction(step.numerator)
    bounds = [_bound(mark, dtype) for mark in marks if not isinstance(mark, MultipleOf)]
    low = max((bound for above, bound in bounds if above), default=None)
    high = min((bound for above, bound in bounds if not above), default=None)
    found = Numbers(low, high, step if steps else None)
    least, greatest = limits(dtype)
    first, last = found.multiples(least if low is None else low, greatest if high is None else high)
    return found if first <= last else None


def limits(dtype: torch.dtype) -> tuple[float, float]:
    """The least and the greatest finite number of a dtype."""
    info = torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype)
    return info.min, info.max


def _bound(mark: Any, dtype: torch.dtype) -> tuple[bool, float]:
    """Whether a mark is a lower bound, and the extreme number of the dtype that meets it."""
    above, strict, given = isinstance(mark, Ge | Gt), isinstance(mark, Gt | Lt), bound_of(mark)
    least, greatest = limits(dtype)
    if given in (math.inf, -math.inf) or not least <= given <= greatest:
        if above:
            return True, greatest + 1 if given > greatest else least
        return False, least - 1 if given < least else greatest
    if not dtype.is_floating_point:
        number = math.ceil(given) if above else math.floor(given)
        return above, number + (1 if above else -1) * (strict and number == given)
    value, towards = (
        torch.tensor(float(given), dtype=dtype),
        torch.tensor(math.inf if above else -math.inf, dtype=dtype),
    )
    while list(broken_constraints([mark], value, 0)) or (value.item() < given if above else value.item() > given):
        value = torch.nextafter(value, towards)
    return above, value.item()


def dtypes_of(spec: FieldSpec) -> list[torch.dtype]:
    """The dtypes to draw for a tensor field: the usual one of its family first."""
    assert spec.spec is not None  # tensor kinds have one
    family = spec.spec.dtype
    first = preferred_dtype(family)
    found = [dtype for dtype in ([first] if first else []) + list(COMMON) if family.accepts(dtype)]
    if any(isinstance(mark, Ge | Gt | Le | Lt | MultipleOf) for mark in flatten(spec.metadata)):
        ordered = [dtype for dtype in found if not (dtype is torch.bool or dtype.is_complex)]
        found = [dtype for dtype in ordered if _numbers(spec, dtype) is not None] or ordered[:1]
    return list(dict.fromkeys(found))


# ---- sizes -------------------------------------------------------------------------------------------------------


class Sizes:
    """The sizes of one instance, drawn for its named dims so that every dim has a size.

    Args:
        schema: What the class declares.
        draw: Who decides.
        low: The least size of a name.
        high: The greatest size of a name, unless the declaration requires more.
        fixed: Sizes that are known.

    Raises:
        SchemaError: if no sizes up to 64 give every dim a size.
    """

    def __init__(self, schema: Schema, draw: Draw, low: int, high: int, fixed: Mapping[str, int]) -> None:
        self.draw, self.low, self.high = draw, low, high
        self.sizes = dict(fixed)
        self.schema = schema
        self.lengths: dict[str, Sequence[int]] = {}
        self.variadics: dict[str, tuple[int, ...]] = {}
        bounds: dict[str, tuple[int, int | None]] = {}
        tests: list[tuple[Polynomial, int, int | None]] = []
        for size, least, most in _named_sizes(schema):
            old = bounds.get(str(size), (0, None))
            bounds[str(size)] = max(old[0], least), min([n for n in (old[1], most) if n is not None], default=None)
            tests.append((size, least, most))
        open_ = [name for name in dict.fromkeys(n for size, _, _ in tests for n in size.names) if name not in fixed]
        involved = {n for size, _, _ in tests if str(size) not in size.names for n in size.names}
        hard = [name for name in open_ if name in involved]
        for name in open_:
            if name not in involved:
                self.sizes[name] = self._draw_between(*bounds.get(name, (0, None)))
        self._solve(schema, hard, tests)

    def _draw_between(self, least: int, most: int | None) -> int:
        low = max(self.low, least) if most is None else min(max(self.low, least), most)
        return self.draw.integer(low, max(low, self.high if most is None else min(self.high, most)))

    def _solve(self, schema: Schema, names: Sequence[str], tests: list[tuple[Polynomial, int, int | None]]) -> None:
        """Choose sizes for the names in expressions, among all solutions."""
        for high in (self.high, *REACH):
            span = range(self.low, high + 1)
            if len(span) ** len(names) > TRIES and high != self.high:
                break
            found = [c for c in product(span, repeat=len(names)) if self._fits(dict(zip(names, c, strict=True)), tests)]
            if found:
                found.sort(key=sum)
                self.sizes.update(zip(names, found[self.draw.integer(0, len(found) - 1)], strict=True))
                return
        text = ", ".join(str(size) for size, _, _ in tests)
        hint = "give sizes that fit: `sizes={...}`" if names or not self.sizes else "the given sizes don't fit"
        raise SchemaError.of(schema.name, [Problem("sizes", text, f"sizes from {self.low} to {self.high}", hint)])

    def _fits(self, chosen: Mapping[str, int], tests: list[tuple[Polynomial, int, int | None]]) -> bool:
        sizes = {**self.sizes, **chosen}
        for size, least, most in tests:
            try:
                found = size.evaluate(sizes)
            except ZeroDivisionError:
                return False
            if found < least or (most is not None and found > most):
                return False
        return True

    def event(self, dims: Dims | None, spec: FieldSpec) -> tuple[int, ...]:
        """An event shape for dims; a named variadic (`*name`) is drawn once."""
        tokens = (Variadic(),) if dims is None else dims.tokens
        shape: list[int] = []
        for position, token in enumerate(tokens):
            first = position == 0 and len(dims or ()) > 0
            if isinstance(token, Dim):
                shape.append(token.size.evaluate(self.sizes))
            elif isinstance(token, AnyDim):
                shape.append(self._draw_between(*(length_bounds(spec) if first else (0, None))))
            else:
                shape += self._variadic(token, spec if first or dims is None else None)
        return tuple(shape)

    def _variadic(self, token: Variadic, spec: FieldSpec | None) -> tuple[int, ...]:
        if token.name in self.variadics:
            return self.variadics[token.name]
        least, most = (0, None) if spec is None else length_bounds(spec)
        limited = spec is not None and (least, most) != (0, None)
        rank = self.draw.integer(int(limited), 2)
        found = tuple(self._draw_between(*((least, most) if i == 0 else (0, None))) for i in range(rank))
        if token.name is not None:
            self.variadics[token.name] = found
        return found

    def lengths_of(self, spec: FieldSpec, count: int) -> Sequence[int]:
        """The lengths of the elements of a ragged field.

        Fields whose first dims have the same name get the same lengths.
        """
        name = first_name(spec)
        if name in self.sizes:
            return [self.sizes[name]] * count
        if name not in self.lengths:
            alike = [other for other in self.schema if other.kind.is_ragged and first_name(other) == name != ""]
            bounds = [length_bounds(other) for other in alike or [spec]]
            low, most = max(low for low, _ in bounds), min(self.high if most is None else most for _, most in bounds)
            found = [self.draw.integer(low, max(low, min(most, self.high))) for _ in range(count)]
            if not name:
                return found
            self.lengths[name] = found
        return self.lengths[name]


def first_name(spec: FieldSpec) -> str:
    """The name of the first dim of a ragged field; "" without one."""
    first = spec.dims.tokens[0] if spec.dims is not None else None
    return first.text if isinstance(first, Dim) else ""


def length_bounds(spec: FieldSpec) -> tuple[int, int | None]:
    """The bounds of the constraints for the size of the first event dim."""
    marks = list(flatten(spec.metadata))
    most = [bound_of(mark) for mark in marks if isinstance(mark, MaxLen)]
    return max([bound_of(mark) for mark in marks if isinstance(mark, MinLen)], default=0), min(most, default=None)


def _named_sizes(schema: Schema) -> Iterator[tuple[Polynomial, int, int | None]]:
    """Every size with names, with its least and greatest value."""
    for spec in schema:
        tokens: Iterable[Any] = () if spec.dims is None else spec.dims.tokens
        for position, token in enumerate(tokens):
            if spec.kind.is_ragged and position == 0:
                continue
            if isinstance(token, Dim) and token.size.names:
                least, most = length_bounds(spec) if position == 0 else (0, None)
                yield token.size, least, most


def nested_lists(shape: Sequence[int], make: Callable[[], Any]) -> Any:
    """Values in nested lists of a shape; a single value for the empty shape."""
    return [nested_lists(shape[1:], make) for _ in range(shape[0])] if shape else make()
