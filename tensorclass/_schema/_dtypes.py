"""Dtype families: `Float32` is one dtype, `Float` every floating one, `Float32[Tensor, "3 h w"]` an annotation."""

from __future__ import annotations

import copyreg
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Any, ForwardRef, TypeVar

import torch
from torch import Tensor
from typing_extensions import Self

from .._dims import FAMILY_DTYPES, Bindings, Dims, parse_dims
from ..errors import DimSyntaxError, SchemaError


def is_ragged(array: type) -> bool:
    """Whether a type holds a tensor of a different length for each element."""
    return getattr(array, "__ragged_tensor__", False) is True


def _names_batches(array: Any) -> bool:
    """Whether the first argument of an annotation is a class of batches, or a name that may become one."""
    if isinstance(array, type):
        return getattr(array, "__tensor_collection__", False) is True
    return isinstance(array, str | ForwardRef | TypeVar) or array is Self


def _name(array: Any) -> str:
    return getattr(array, "__name__", None) or repr(array)


@dataclass(frozen=True)
class DTypeFamily:
    """A set of dtypes under one name; `dtypes` is None for any dtype.

    >>> Float32.exact, Float.accepts(torch.bfloat16), Int64.is_within(Int)
    (torch.float32, True, True)
    """

    name: str
    dtypes: frozenset[torch.dtype] | None
    exact: torch.dtype | None = field(init=False, repr=False, compare=False)
    """The dtype, if there is only one; else None."""

    def __post_init__(self) -> None:
        exact = next(iter(self.dtypes)) if self.dtypes is not None and len(self.dtypes) == 1 else None
        object.__setattr__(self, "exact", exact)

    def accepts(self, dtype: torch.dtype) -> bool:
        """Whether a tensor of this dtype belongs to the family."""
        return self.dtypes is None or dtype in self.dtypes

    def is_within(self, other: DTypeFamily) -> bool:
        """Whether every dtype of this family belongs to the other."""
        return other.dtypes is None or (self.dtypes is not None and self.dtypes <= other.dtypes)

    def admits_cast(self, dtype: torch.dtype) -> bool:
        """Whether the declaration still holds after `.to(dtype)`, which converts only floating and complex tensors."""
        return self.accepts(dtype) or True not in [d.is_floating_point or d.is_complex for d in self.dtypes or ()]

    def __getitem__(self, item: Any) -> Any:
        """The annotation of a tensor, `Float32[Tensor, "3 h w"]`, or of the batch dims of a batch, `Shaped[Step, "t"]`.

        Raises:
            SchemaError: if the item is not a tensor type or a class of batches, and a shape.
        """
        if not isinstance(item, tuple) or len(item) != 2:
            raise SchemaError(
                f'{self.name}[...] takes a tensor type and a shape; write {self.name}[Tensor, "..."] for any shape'
            )
        array, shape = item
        batches = _names_batches(array)
        if batches and self.dtypes is not None:
            raise SchemaError(
                f"{self.name}[{_name(array)}, {shape!r}]: the fields of a batch declare their dtypes; write "
                f"Shaped[{_name(array)}, {shape!r}] for its batch dims"
            )
        if not batches and not (isinstance(array, type) and (issubclass(array, Tensor) or is_ragged(array))):
            raise SchemaError(
                f"{self.name}[{_name(array)}, {shape!r}]: the first argument is `Tensor`; an optional field is "
                f"{self.name}[Tensor, {shape!r}] | None, a ragged one {self.name}[RaggedTensor, {shape!r}]"
            )
        spec = TensorSpec(self, _parse(self.name, shape))
        if array is Tensor:
            return Annotated[_fitting_tensors(spec), spec]
        return Annotated[array, spec]

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class TensorSpec:
    """The declaration of a tensor field: dtype and event dims. `dims` is None for any shape.

    >>> print(TensorSpec(Float32, parse_dims("1 8 8")))
    Float32["1 8 8"]
    """

    dtype: DTypeFamily
    dims: Dims | None = None

    def __str__(self) -> str:
        if self.dims is None and self.dtype.dtypes is None:
            return "Tensor"
        return f'{self.dtype}["{"..." if self.dims is None else self.dims}"]'


class _Fitting(type(Tensor)):  # type: ignore[misc]  # the metaclass of tensors
    """The metaclass of the types in annotations: `isinstance`, and so beartype, looks at the dtype and the sizes."""

    __tensor_spec__: TensorSpec

    def __instancecheck__(cls, value: object) -> bool:
        spec = cls.__tensor_spec__
        if not isinstance(value, Tensor) or not spec.dtype.accepts(value.dtype):
            return False
        return spec.dims is None or not Bindings().bind("", spec.dims, value.shape)

    def __reduce__(cls) -> Any:
        return _fitting_tensors, (cls.__tensor_spec__,)


copyreg.pickle(_Fitting, _Fitting.__reduce__)


@lru_cache(maxsize=4096)
def _fitting_tensors(spec: TensorSpec) -> type:
    """The type of the tensors that fit a declaration, for those who ask `isinstance`."""
    return _Fitting("Tensor", (Tensor,), {"__slots__": (), "__module__": "torch", "__tensor_spec__": spec})


def without_spec(core: Any) -> Any:
    """`Tensor` for the type of the tensors that fit a declaration; other types are returned."""
    return Tensor if type(core) is _Fitting else core


class Shape:
    """Event dims in an `Annotated` type: `Annotated[Tensor, Shape("3 h w"), torch.float32]`.

    Args:
        text: Dims separated by spaces; "" is the shape of a scalar.

    Raises:
        SchemaError: if the text is outside the grammar of dims.

    >>> Shape("3 h w").dims.rank
    3
    """

    def __init__(self, text: str) -> None:
        self.dims: Dims = _parse("Shape", text)

    def __eq__(self, other: object) -> bool:
        return self.dims == other.dims if isinstance(other, Shape) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.dims)

    def __repr__(self) -> str:
        return f'Shape("{self.dims}")'


def _parse(where: str, text: str) -> Dims:
    try:
        return parse_dims(text)
    except (DimSyntaxError, TypeError) as error:
        # TypeError: an unhashable "shape" fails in the cache, before the parser.
        reason = (
            str(error) if isinstance(error, DimSyntaxError) else f'a shape is a string such as "3 h w", got {text!r}'
        )
        raise SchemaError(f"{where}: {reason}") from None


def _family(name: str) -> DTypeFamily:
    dtypes = FAMILY_DTYPES[name]
    if dtypes is None:
        return DTypeFamily(name, None)
    # On older versions of torch, newer dtypes are empty families: no tensor has them.
    found = (getattr(torch, dtype, None) for dtype in dtypes)
    return DTypeFamily(name, frozenset(dtype for dtype in found if dtype is not None))


FAMILIES: dict[str, DTypeFamily] = {name: _family(name) for name in FAMILY_DTYPES}

# In the order of the table.
(
    Float8e4m3fn,
    Float8e4m3fnuz,
    Float8e5m2,
    Float8e5m2fnuz,
    Float8e8m0fnu,
    BFloat16,
    Float16,
    Float32,
    Float64,
    Complex32,
    Complex64,
    Complex128,
    Int8,
    Int16,
    Int32,
    Int64,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
    Bool,
    Float,
    Complex,
    Int,
    UInt,
    Inexact,
    Integer,
    Real,
    Num,
    Shaped,
) = FAMILIES.values()

_BY_DTYPES = {family.dtypes: family for family in FAMILIES.values() if family.dtypes}


def family_of(*dtypes: torch.dtype) -> DTypeFamily:
    """The family of some dtypes, under its own name if it has one.

    >>> str(family_of(torch.int64)), str(family_of(torch.int32, torch.int64))
    ('Int64', 'Int32|Int64')
    """
    members = frozenset(dtypes)
    if members in _BY_DTYPES:
        return _BY_DTYPES[members]
    singles = sorted(_single_name(dtype) for dtype in members)
    return DTypeFamily("|".join(singles), members)


def _single_name(dtype: torch.dtype) -> str:
    known = _BY_DTYPES.get(frozenset((dtype,)))
    return known.name if known is not None else dtype_name(dtype)


def dtype_name(dtype: torch.dtype) -> str:
    """The name of a dtype without its module: `float32`."""
    return str(dtype).removeprefix("torch.")


class Alike(list[Tensor]):
    """Plain tensors for one batch dim that differ only in length: the first one says all but the lengths."""

    __slots__ = ("lengths",)
    lengths: list[int]


def as_alike(values: Any, size: torch.Size) -> Alike | None:
    """A list whose tensors differ only in length; None for any other, which is to be checked one by one."""
    if type(values) is Alike:
        return values
    if type(values) is not list or len(size) != 1 or len(values) != size[0] or not values:
        return None
    first, found = values[0], Alike(values)
    if type(first) is not Tensor or first.is_nested or not first.ndim:
        return None
    dtype, ndim, event, device = first.dtype, first.ndim, first.shape[1:], first.device
    for one in found:
        if type(one) is not Tensor or one.ndim != ndim or one.dtype is not dtype or one.device != device:
            return None
        if ndim > 1 and (one.is_nested or one.shape[1:] != event):
            return None
    found.lengths = [one.size(0) for one in found]
    return found
