"""Hypothesis strategies: the builder of examples, with every size, number and value chosen by hypothesis."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from hypothesis import reject
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from torch import Tensor

from .._schema import FieldSpec
from .._schema._constraints import flatten
from .._schema._domain import Numbers, limits, numbers
from ..classes._example import build, check_sizes
from ..classes._validators import validators_of
from ..errors import SchemaError

SIZES = st.lists(st.integers(0, 3), max_size=2).map(tuple)


class Limits(NamedTuple):
    """Limits for sizes and values of instances."""

    low: int = 1
    high: int = 4
    sizes: Mapping[str, int] = {}
    allow_nan: bool = False
    allow_infinity: bool = False


class Drawn:
    """Draws every part of an instance from hypothesis."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any], limits: Limits) -> None:
        self.draw, self.limits = draw, limits
        self.low, self.high, self.sizes = limits.low, limits.high, limits.sizes

    def integer(self, low: int, high: int) -> int:
        """A number from `low` to `high`; shrinks to `low`."""
        return int(self.draw(st.integers(low, high)))

    def dtype(self, found: Sequence[torch.dtype]) -> torch.dtype:
        """One of several dtypes; shrinks to the first."""
        return self.draw(st.sampled_from(found)) if len(found) > 1 else found[0]

    def present(self, spec: FieldSpec) -> bool:
        """Whether an optional field is present; shrinks to absent."""
        return bool(self.draw(st.booleans()))

    def omitted(self, spec: FieldSpec) -> bool:
        """False: every field is drawn."""
        return False

    def value(self, spec: FieldSpec) -> Any:
        """A value that hypothesis can draw for the type, and that pydantic accepts."""
        return self.draw(_value(spec))

    def tensor(self, spec: FieldSpec, dtype: torch.dtype, shape: tuple[int, ...]) -> Tensor:
        """A tensor drawn element by element; a large tensor has mostly one value. Shrinks to zeros."""
        if 0 in shape:
            return torch.empty(shape, dtype=dtype)
        found = numbers(spec, dtype)
        elements = _elements(dtype, found, self.limits)
        array = self.draw(
            arrays.arrays(_holding_dtype(dtype), shape, elements=elements, fill=st.just(self.draw(elements)))
        )
        return torch.from_numpy(np.ascontiguousarray(array)).reshape(shape).to(dtype)


def _holding_dtype(dtype: torch.dtype) -> type[np.generic]:
    """The numpy dtype that can hold every number of a torch dtype."""
    if dtype.is_complex:
        return np.complex128
    if dtype is torch.bool:
        return np.bool_
    if dtype.is_floating_point:
        return np.float64
    if dtype is torch.uint64:
        return np.uint64
    return np.int64


def _elements(dtype: torch.dtype, found: Numbers, options: Limits) -> st.SearchStrategy[Any]:
    """The strategy for one number of a tensor."""
    if dtype is torch.bool:
        return st.booleans()
    if dtype.is_complex:
        part = _elements({4: torch.float16, 8: torch.float32}.get(dtype.itemsize, torch.float64), Numbers(), options)
        return st.builds(complex, part, part)
    if found.table is not None:
        return st.sampled_from(found.table)
    low, high = (own if own is not None else end for own, end in zip(found[:2], limits(dtype), strict=True))
    if found.step is not None:
        step, (first, last) = found.step, found.multiples(low, high)
        if not dtype.is_floating_point:
            return st.integers(first, last).map(lambda n: n * step.numerator)
        exact = 2**20  # factors whose product is a multiple to the precision of the dtype
        return st.integers(max(first, -exact), min(last, exact)).map(lambda n: float(n * step))
    if not dtype.is_floating_point:
        return st.integers(int(low), int(high))
    odd = [x for x, wanted in ((float("nan"), options.allow_nan), (float("inf"), options.allow_infinity)) if wanted]
    finite = st.floats(low, high, allow_nan=False, allow_infinity=False)
    return st.one_of(finite, st.sampled_from([*odd, *(-x for x in odd)])) if odd and found == Numbers() else finite


def _value(spec: FieldSpec) -> st.SearchStrategy[Any]:
    if spec.kind.is_open:
        return st.none() | st.integers() | st.text()
    marks = tuple(flatten(spec.metadata))
    parts = (spec.annotation, *marks)
    kind: Any = Annotated[parts] if marks else spec.annotation
    # nan is a float, but equals nothing.
    return st.from_type(kind).filter(lambda value: bool(value == value) and spec.adapter_accepts(value))


def batches(cls: Any, batch_size: Any, options: Limits, fields: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    """Instances of a class; see `tensorclass.testing.batches`."""
    check_sizes(cls, "batches", options.sizes)

    @st.composite
    def draw_batch(draw: Callable[[st.SearchStrategy[Any]], Any]) -> Any:
        sizes: Any = SIZES if batch_size is None else batch_size
        size = sizes if _is_size(sizes) else draw(sizes)
        size = (size,) if isinstance(size, int) else tuple(size)
        given = {name: draw(strategy) for name, strategy in fields.items()}
        try:
            return build(cls, size, Drawn(draw, options), given)
        except SchemaError:
            if _validates(cls, ()):
                reject()
            raise

    return draw_batch()


def _is_size(given: Any) -> bool:
    return isinstance(given, int | list | tuple | torch.Size)


def _validates(cls: Any, above: tuple[Any, ...]) -> bool:
    """Whether a class or a nested class has validators."""
    inner = [
        spec.nested for spec in cls.__tensorclass_schema__.fields.values() if spec.nested not in (None, cls, *above)
    ]
    return any(validators_of(cls)) or any(_validates(nested, (*above, cls)) for nested in inner)
