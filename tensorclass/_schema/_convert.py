"""Converts numbers and numpy arrays to declared tensors, if the conversion is exact."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ._dtypes import Bool, Complex, DTypeFamily, Float, Integer, TensorSpec

NUMBERS = (bool, int, float, complex)


class Inexact(Exception):
    """The value can't be represented exactly in the declared dtype; the message gives the reason."""


def to_tensor(spec: TensorSpec, value: object, autocast: bool = False) -> Tensor | None:
    """Convert a value to a tensor of the declared dtype; None if the value is not numeric.

    Args:
        spec: The declaration; only its dtype is used.
        value: A tensor, a Python number or a numpy array.
        autocast: Convert any numeric value, lists included, to the declared dtype, exact or not.

    Raises:
        Inexact: if the value would change.
    """
    if isinstance(value, Tensor):
        return _cast(spec.dtype, value) if autocast else value
    if isinstance(value, np.ndarray | np.generic):
        return _from_numpy(spec.dtype, np.asarray(value), autocast)
    if isinstance(value, NUMBERS):
        return _from_number(spec.dtype, value, autocast)
    return _from_list(spec.dtype, value) if autocast and isinstance(value, list | tuple) else None


def _cast(family: DTypeFamily, value: Tensor) -> Tensor:
    if family.accepts(value.dtype):
        return value
    target = preferred_dtype(family)
    return value if target is None else value.to(target)


def preferred_dtype(family: DTypeFamily) -> torch.dtype | None:
    """The dtype for conversions to a family; None if any dtype fits."""
    if family.exact is not None or family.dtypes is None:
        return family.exact
    defaults = (torch.get_default_dtype(), torch.int64, torch.bool, torch.complex64, torch.uint8)
    return next((dtype for dtype in defaults if dtype in family.dtypes), None) or next(iter(family.dtypes), None)


def _from_numpy(family: DTypeFamily, array: np.ndarray[Any, Any], autocast: bool) -> Tensor | None:
    if array.dtype.kind not in "biufc":
        return None
    try:
        # Writes to a tensor over a read-only array are undefined behaviour; torch can't read a foreign byte order.
        tensor = torch.from_numpy(np.require(array, array.dtype.newbyteorder("="), ["C", "W"]))
    except (TypeError, ValueError):
        return None
    converted = _cast(family, tensor)
    if autocast or converted is tensor or not bool(changed_elements(tensor, converted).any()):
        return converted
    raise Inexact(f"converting it to {converted.dtype} would change its values; convert it first")


def changed_elements(tensor: Tensor, converted: Tensor) -> Tensor:
    """Which elements a conversion has changed; nan equals nan."""
    if tensor.is_complex() and not converted.is_complex():
        return (tensor.imag != 0) | changed_elements(tensor.real, converted)
    if converted.is_complex() and not tensor.is_complex():
        converted = converted.real
    back = converted.to(tensor.dtype)
    found = (back != tensor) & ((back == back) | (tensor == tensor))
    if torch.uint64 in (tensor.dtype, converted.dtype):  # a round trip keeps the bits, but not the sign
        found |= (tensor.double() < 0) != (converted.double() < 0)
    return found


def _from_number(family: DTypeFamily, value: complex, autocast: bool) -> Tensor:
    dtype = torch_dtype_for(family, value)
    try:
        tensor = torch.tensor(value, dtype=dtype)
    except (OverflowError, RuntimeError, TypeError, ValueError):
        raise Inexact(f"{value!r} does not fit {dtype}") from None
    if not autocast and not _exact_number(tensor, value):
        raise Inexact(f"{value!r} would become {tensor.item()!r} in {tensor.dtype}")
    return tensor


def torch_dtype_for(family: DTypeFamily, value: complex) -> torch.dtype | None:
    """The dtype of a family for a Python number of this type; None if any dtype is declared."""
    if family.exact is not None or family.dtypes is None:
        return family.exact
    if isinstance(value, bool):
        order: tuple[DTypeFamily, ...] = (Bool,)
    elif isinstance(value, int):
        order = (Integer, Float)
    else:
        order = (Float, Complex)
    natural = {Bool: torch.bool, Integer: torch.int64, Float: torch.get_default_dtype(), Complex: torch.complex64}
    return next((natural[kind] for kind in order if natural[kind] in family.dtypes), preferred_dtype(family))


def _exact_number(tensor: Tensor, value: complex) -> bool:
    """Whether a number is kept. Floats may be rounded to the dtype, as torch does; anything else must be exact."""
    kept = tensor.item()
    if isinstance(value, bool) != (tensor.dtype is torch.bool):
        return False
    if isinstance(value, float) and (tensor.is_floating_point() or tensor.is_complex()):
        return math.isfinite(value) == math.isfinite(abs(kept)) or math.isnan(value)
    return bool(kept == value) or isinstance(value, complex)


def _from_list(family: DTypeFamily, value: list[Any] | tuple[Any, ...]) -> Tensor | None:
    try:
        return torch.tensor(value, dtype=preferred_dtype(family))
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return None
