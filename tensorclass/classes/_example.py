"""Example instances: one builder walks over a declaration, and a source chooses the values."""

from __future__ import annotations

import datetime
import enum
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from inspect import isabstract
from typing import Annotated, Any, NamedTuple, Protocol, get_args, get_origin

import torch
from torch import Tensor
from typing_extensions import Self

from .._flags import flags
from .._schema import Bindings, Dim, Dims, FieldSpec
from .._schema._constraints import flatten
from .._schema._domain import Draw, Sizes, dtypes_of, first_name, limits, nested_lists, numbers
from ..core import as_batch_size
from ..errors import ArgumentError, Problem, SchemaError, did_you_mean
from ..store import RaggedTensor, TensorDict
from ._build import complete

EPOCH = datetime.datetime(1970, 1, 1)
SPREAD = 9  # how far example numbers are from a single bound


class ValueSource(Draw, Protocol):
    """Chooses the parts of an instance."""

    low: int
    high: int
    sizes: Mapping[str, int]

    def dtype(self, found: Sequence[torch.dtype]) -> torch.dtype:
        """One of several dtypes."""
        ...

    def tensor(self, spec: FieldSpec, dtype: torch.dtype, shape: tuple[int, ...]) -> Tensor:
        """A tensor that meets the constraints of a field."""
        ...

    def value(self, spec: FieldSpec) -> Any:
        """A Python value of the type of a field, or of one element of it."""
        ...

    def present(self, spec: FieldSpec) -> bool:
        """Whether an optional field has a value."""
        ...

    def omitted(self, spec: FieldSpec) -> bool:
        """Whether a field gets its default."""
        ...


def build(
    cls: Any, size: tuple[int, ...], source: ValueSource, given: Mapping[str, Any], above: tuple[Any, ...] = ()
) -> Any:
    """Build an instance of a class from a source and from given values."""
    complete(cls)
    schema = cls.__tensorclass_schema__
    _require_concrete(cls)
    sizes = Sizes(schema, source, source.low, source.high, {**source.sizes, **_given_sizes(schema, size, given)})
    sizes.lengths.update(_given_lengths(schema, size, given))
    surroundings = _Surroundings(size, source, sizes, (*above, cls))
    values = dict(given)
    for spec in schema:
        if spec.name not in given and spec.init and not source.omitted(spec):
            values[spec.name] = _field_example(spec, surroundings)
    return cls(**values, batch_size=size)


def check_sizes(cls: Any, op: str, sizes: Mapping[str, Any]) -> None:
    """Refuse sizes other than whole numbers, and names of dims that the class lacks.

    Raises:
        ArgumentError: names the dim, and the dims of the class.
    """
    if not isinstance(sizes, Mapping):
        raise ArgumentError(f"{op}: `sizes` is a dict from the names of dims to sizes, got {sizes!r:.80}")
    for name, size in sizes.items():
        if type(size) is not int or size < 0:
            raise ArgumentError(f"{op}: the size of `{name}` is a whole number from 0, got {size!r:.80}")
    known = dict.fromkeys(_dim_names(cls, ()))
    unknown = [name for name in sizes if name not in known]
    if unknown:
        way = f"; the batch size comes first: `{op}({sizes[unknown[0]]})`" if unknown[0] == "batch_size" else ""
        near = way or did_you_mean(str(unknown[0]), known)
        raise ArgumentError(
            f"{cls.__name__}.{op}: no field has a dim `{unknown[0]!s:.80}`{near}; the dims are {[*known]}"
        )


def _dim_names(cls: Any, above: tuple[Any, ...]) -> Iterator[str]:
    """The dim names of a class and its nested classes."""
    complete(cls)
    for spec in cls.__tensorclass_schema__:
        for token in () if spec.dims is None else spec.dims.tokens:
            yield from token.size.names if isinstance(token, Dim) else ()
        if spec.nested is not None and spec.nested not in above:
            yield from _dim_names(spec.nested, (*above, cls))


def _require_concrete(cls: Any) -> None:
    """Refuse an abstract class."""
    if isabstract(cls):
        hint = "give an instance of a class below it: `fields={...}`"
        lacks = f"an abstract class, which lacks {', '.join(sorted(cls.__abstractmethods__))}"
        raise SchemaError.of("example", [Problem("", cls.__name__, lacks, hint)])


def _field_example(spec: FieldSpec, surroundings: _Surroundings) -> Any:
    """The value of one field; errors of a nested class get the path of the field."""
    classes = surroundings.above
    if spec.optional and (classes.count(spec.nested) > 1 or not surroundings.source.present(spec)):
        return None  # an optional field of the class itself would have one of its own, and so on
    try:
        return _example_by_kind(spec, surroundings)
    except SchemaError as error:
        start = f"{spec.name}." if spec.kind.is_nested else ""
        problems = [problem._replace(path=start + problem.path) for problem in error.problems]
        raise SchemaError.of(classes[-1].__name__, problems) from None


def _given_sizes(schema: Any, size: tuple[int, ...], given: Mapping[str, Any]) -> dict[str, int]:
    """The sizes of dims in given tensors."""
    bindings = Bindings()
    for name, value in given.items():
        spec = schema.fields.get(name)
        if spec is not None and spec.dims is not None and isinstance(value, Tensor):
            bindings.bind(name, spec.dims, value.shape[len(size) if spec.kind.is_batched else 0 :])
    return bindings.sizes


def _given_lengths(schema: Any, size: tuple[int, ...], given: Mapping[str, Any]) -> dict[str, list[int]]:
    """The lengths of elements in given ragged fields."""
    specs = [schema.fields[name] for name in given if name in schema.fields and schema.fields[name].kind.is_ragged]
    values = {
        first_name(spec): RaggedTensor.of(given[spec.name], size) for spec in specs if given[spec.name] is not None
    }
    return {name: value.lengths.flatten().tolist() for name, value in values.items() if name}


class _Surroundings(NamedTuple):
    """What the example of a field depends on."""

    size: tuple[int, ...]
    source: ValueSource
    sizes: Sizes
    above: tuple[Any, ...]


def _example_tensor(spec: FieldSpec, place: _Surroundings) -> Any:
    event = place.sizes.event(spec.dims, spec)
    shape = event if spec.kind.is_shared else (*place.size, *event)
    return place.source.tensor(spec, place.source.dtype(dtypes_of(spec)), shape)


def _example_elements(spec: FieldSpec, place: _Surroundings) -> Any:
    size, source, sizes, _ = place
    dtype = source.dtype(dtypes_of(spec))
    rest = () if spec.dims is None else sizes.event(Dims(spec.dims.tokens[1:]), spec.replace(metadata=()))
    lengths = iter(sizes.lengths_of(spec, math.prod(size)))
    elements = nested_lists(size, lambda: source.tensor(spec, dtype, (next(lengths), *rest)))
    return RaggedTensor.of(elements, size, torch.empty(0, *rest, dtype=dtype))


def _example_by_kind(spec: FieldSpec, place: _Surroundings) -> Any:
    if spec.kind.has_dtype:
        return _example_elements(spec, place) if spec.kind.is_ragged else _example_tensor(spec, place)
    if spec.kind.is_nested:
        return build(spec.nested, place.size, place.source, {}, place.above)
    if spec.kind.is_collection:
        return TensorDict({}, batch_size=place.size)
    value = partial(place.source.value, spec)
    return nested_lists(place.size, value) if spec.kind.is_listed else value()


class SeededSource:
    """Draws from its own random generator."""

    def __init__(self, seed: int, sizes: Mapping[str, int]) -> None:
        self.low, self.high, self.sizes = 2, 5, sizes
        self.generator = torch.Generator().manual_seed(seed)

    def integer(self, low: int, high: int) -> int:
        """A number from `low` to `high`."""
        return int(torch.randint(low, high + 1, (), generator=self.generator))

    def dtype(self, found: Sequence[torch.dtype]) -> torch.dtype:
        """The usual dtype of the family."""
        return found[0]

    def tensor(self, spec: FieldSpec, dtype: torch.dtype, shape: tuple[int, ...]) -> Tensor:
        """A tensor with values spread evenly between two bounds, near a single bound, and else near zero."""
        if dtype.is_complex:
            return torch.view_as_complex(torch.randn(*shape, 2, generator=self.generator)).to(dtype)
        if dtype is torch.bool:
            return torch.randint(2, shape, generator=self.generator).to(dtype)
        found = numbers(spec, dtype)
        if found.table is not None:
            table = torch.tensor(found.table, dtype=dtype).unsqueeze(-1).view(torch.uint8)  # no index of float8 in 2.6
            return table[self._integers(0, len(found.table) - 1, shape)].view(dtype).squeeze(-1)
        if dtype.is_floating_point and found.low is None and found.high is None and found.step is None:
            return torch.randn(shape, generator=self.generator).to(dtype)
        low, high = _fill_in_bounds(found.low, found.high, dtype, found.step)
        if found.step is not None:
            first, last = found.multiples(low, high)
            factors = self._integers(first, last, shape)
            factors = factors.double() / found.step.denominator if found.step.denominator > 1 else factors
            return (factors * found.step.numerator).to(dtype)
        if not dtype.is_floating_point:
            return self._integers(int(low), int(high), shape).to(dtype)
        drawn = torch.rand(shape, generator=self.generator, dtype=torch.float64) * (high - low) + low
        return drawn.clamp(low, high).to(dtype)

    def _integers(self, low: int, high: int, shape: tuple[int, ...]) -> Tensor:
        drawn = torch.randint(min(high - low, 2**63 - 2) + 1, shape, generator=self.generator)
        return drawn + (low if low < 2**63 else low - 2**64)  # for uint64 the same bits

    def present(self, spec: FieldSpec) -> bool:
        """Optional fields are filled."""
        return True

    def omitted(self, spec: FieldSpec) -> bool:
        """Python values get their default, if they have one."""
        return spec.has_default and not (spec.kind.has_dtype or spec.kind.holds_container)

    def value(self, spec: FieldSpec) -> Any:
        """The first plain value that the type accepts."""
        for candidate in _candidates(spec):
            if spec.annotation is Any or (not spec.kind.is_open and spec.adapter_accepts(candidate)):
                return candidate
        hint = f"no example of this type is known; give one: `fields={{{spec.name!r}: ...}}`"
        raise SchemaError.of("example", [Problem(spec.name, str(spec), "nothing", hint)])


def _fill_in_bounds(low: float | None, high: float | None, dtype: torch.dtype, step: Any) -> tuple[float, float]:
    """Fill in missing bounds."""
    least, greatest = limits(dtype)
    spread = SPREAD * float(step or 1)
    if low is None and high is None:
        return (0, min(spread, greatest))
    if low is None and high is not None:
        low = max(high - spread, least)
    if high is None and low is not None:
        high = min(low + spread, greatest)
    assert low is not None  # at least one bound is given
    assert high is not None
    return low, high


def _candidates(spec: FieldSpec) -> list[Any]:
    """Values that a field may accept: members of its type, values near its bounds, and values of common types."""
    kind, marks = spec.annotation, spec.metadata
    if get_origin(kind) is Annotated:  # of one element
        kind, marks = get_args(kind)[0], (*marks, *kind.__metadata__)
    members = list(kind) if isinstance(kind, type) and issubclass(kind, enum.Enum) else list(get_args(kind))
    bounds: list[Any] = []
    for mark in flatten(marks):
        bound = next(
            (getattr(mark, name) for name in ("ge", "gt", "le", "lt", "multiple_of") if hasattr(mark, name)), None
        )
        if isinstance(bound, int | float) and math.isfinite(bound):
            bounds += [bound, bound + 1, bound - 1]
        length = next((getattr(mark, name) for name in ("min_length", "max_length") if hasattr(mark, name)), None)
        bounds += ["x" * length, b"x" * length] if isinstance(length, int) else []
    plain: list[Any] = ["example", 0, 1, 0.0, 1.0, False, b"", [], (), {}, set(), frozenset(), 0j, None]
    return [*members, *bounds, *plain, EPOCH.date(), EPOCH]


@flags
class ExampleMethods:
    """Example instances, for tests and documentation."""

    __slots__ = ()

    @classmethod
    def example(
        cls,
        batch_size: Sequence[int] | int = (),
        *,
        seed: int = 0,
        sizes: Mapping[str, int] | None = None,
        fields: Mapping[str, Any] | None = None,
    ) -> Self:
        """Make a random instance that meets the declaration and its constraints. Equal seeds give equal instances.

        Dims without a size get one from 2 to 5. Optional fields are filled, Python values get their default.

        Args:
            batch_size: The leading dims that all fields share.
            seed: The seed of the random numbers. The default generator of torch is not used.
            sizes: The sizes of some named dims.
            fields: Values of some fields.

        Raises:
            SchemaError: if no sizes fit the dims, if no number meets the constraints, and for a type without an
                example.
            ArgumentError: for the size of a dim that the class doesn't have.
            BatchSizeError: for a negative size.

        >>> from typing import Annotated
        >>> from annotated_types import Ge, Lt
        >>> from torch import Tensor
        >>> from tensorclass import TensorClass
        >>> from tensorclass.typing import Float32, Int64
        >>> class Digits(TensorClass):
        ...     image: Float32[Tensor, "h 2*h"]
        ...     label: Annotated[Int64[Tensor, ""], Ge(0), Lt(10)]
        >>> Digits.example([4], sizes={"h": 3})
        Digits(batch_size=[4], fields={image: f32[3,6], label: i64[]})
        """
        size = as_batch_size(batch_size)
        check_sizes(cls, "example", {} if sizes is None else sizes)
        new: Self = build(cls, size, SeededSource(seed, sizes or {}), fields or {})
        return new
