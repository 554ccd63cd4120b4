"""Read and write tensors as JSON: base64 of the bytes with dtype and shape, or nested lists. Input is not trusted.

An object has the keys `dtype`, `shape` and `data`; `data` is base64 of the little-endian bytes, or lists. Plain
lists represent a tensor whose dtype is declared. nan and infinities are the strings "NaN", "Infinity" and
"-Infinity"; a complex number is the list of its parts. The reader compares sizes with the length of the data
before it allocates anything.
"""

from __future__ import annotations

import math
import sys
from base64 import b64decode
from binascii import a2b_base64, b2a_base64
from collections.abc import Iterable, Sequence
from functools import cache, partial
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._budget import reserve
from .._deferred import pydantic_core
from ._convert import Inexact, changed_elements, torch_dtype_for
from ._dtypes import FAMILIES, DTypeFamily, dtype_name, family_of

DTYPES = {dtype_name(family.exact): family.exact for family in FAMILIES.values() if family.exact is not None}
NUMPY = {
    dtype: np.dtype(name)
    for name, dtype in DTYPES.items()
    if name not in ("bfloat16", "complex32") and not name.startswith("float8")
}
INTEGERS = frozenset(dtype for dtype, form in NUMPY.items() if form.kind in "iu")
NAMES = {dtype: name for name, dtype in DTYPES.items()}
OBJECT = {"dtype", "shape", "data"}
_BYTES = {NAMES[dtype]: form for dtype, form in NUMPY.items() if dtype is not torch.bool}
LEAVES = {"b": "bool", "i": "int", "u": "int", "f": "float"}
WORDS = ("NaN", "Infinity", "-Infinity")
SAMPLES: dict[str, complex] = {"b": True, "i": 1, "u": 1, "f": 1.0}
MAX_RANK = 64


def is_tensor_object(value: object) -> bool:
    """Whether a JSON value is an object that represents a tensor."""
    return isinstance(value, dict) and value.keys() == OBJECT


# ---- out ---------------------------------------------------------------------------------------------------------


def encode(value: Tensor) -> dict[str, Any]:
    """Write a tensor, on any device, as an object with base64 of its bytes."""
    try:
        array: Any = value.numpy()
        shape, data = array.shape, b2a_base64(array, newline=False)
    except (RuntimeError, TypeError, ValueError, BufferError):  # of strides, a dtype or device that numpy lacks
        shape, data = tuple(value.shape), b2a_base64(_bytes_of(value), newline=False)
    return {"dtype": NAMES[value.dtype], "shape": shape, "data": data.decode()}


def _bytes_of(value: Tensor) -> Any:
    if value.dtype in NUMPY:
        return _array_of(value).tobytes()
    flat = value.detach().cpu().contiguous().as_strided((value.numel(),), (1,))  # a dim of size 1 has any stride
    return flat.view(torch.uint8).numpy()


def _array_of(value: Tensor) -> np.ndarray[Any, Any]:
    try:
        return value.numpy()
    except (RuntimeError, TypeError):  # on another device, part of a graph, conjugated lazily
        return value.numpy(force=True)


def encode_lists(value: Tensor, family: DTypeFamily | None) -> Any:
    """Write a tensor as nested lists, or as an object if readers could not infer its dtype from lists."""
    dtype = value.dtype
    numbers = _array_of(value if dtype in NUMPY else _widen(value))
    kind = numbers.dtype.kind
    if kind == "c":
        kind, numbers = "f", np.stack([numbers.real, numbers.imag], -1)
    data = numbers.tolist()
    if kind == "f" and not _all_finite(numbers):
        data = spell(data)
    elif numbers.ndim:
        data = _lists_of(kind, numbers.ndim)(data)
    if family is not None and numbers.size and (family.exact or _implied_dtype(family, kind)) is dtype:
        return data
    return {"dtype": NAMES[dtype], "shape": tuple(value.shape), "data": data}


def _widen(value: Tensor) -> Tensor:
    return value.detach().to(torch.complex64 if value.is_complex() else torch.float32)


@cache
def _lists_of(kind: str, depth: int) -> type[list[Any]]:
    """A list type that pydantic writes without inspecting the type of every number."""
    schema: Any = {"type": LEAVES[kind]}
    for _ in range(depth):
        schema = pydantic_core.core_schema.list_schema(schema)
    return type("Lists", (list,), {"__slots__": (), "__pydantic_serializer__": pydantic_core.SchemaSerializer(schema)})


def _all_finite(numbers: np.ndarray[Any, Any]) -> bool:
    """Whether no number is nan or infinite; for most finite numbers the high byte is proof enough."""
    size = numbers.itemsize
    if size > 2:
        high = numbers.tobytes()[size - 1 if sys.byteorder == "little" else 0 :: size]
        if 0x7F not in high and 0xFF not in high:
            return True
    return bool(np.isfinite(numbers).all())


def _implied_dtype(family: DTypeFamily, kind: str) -> torch.dtype:
    """The dtype that a reader infers for lists."""
    return torch_dtype_for(family, SAMPLES[kind]) or natural(kind)


def natural(kind: str) -> torch.dtype:
    """The dtype of numbers in lists if any dtype is declared."""
    if kind == "b":
        return torch.bool
    if kind == "f":
        return torch.get_default_dtype()
    return torch.int64


def spell(data: Any) -> Any:
    """Replace nan and infinities in nested lists by their strings."""
    if isinstance(data, list):
        return [spell(part) for part in data]
    if not isinstance(data, float) or math.isfinite(data):
        return data
    if math.isnan(data):
        return "NaN"
    if data > 0:
        return "Infinity"
    return "-Infinity"


# ---- in ----------------------------------------------------------------------------------------------------------


def decode(value: Any, family: DTypeFamily, cast: bool = False, json: bool = False) -> Tensor:
    """Read a tensor from a JSON value.

    Args:
        value: An object with `dtype`, `shape` and `data`, nested lists, or a number.
        family: The declared dtypes, for lists; an object has its own dtype.
        cast: Convert numbers in lists even if that changes them. Objects are not cast.
        json: Whether the value was read from JSON text. There nan and infinities are strings, so an infinite number
            means that it was too large for a float.

    Raises:
        Inexact: if the value is not a tensor; the message gives the reason.
    """
    return from_object(value, json) if isinstance(value, dict) else _from_lists(value, family, cast, json)


def from_object(value: dict[Any, Any], json: bool = False) -> Tensor:
    """Read a tensor from an object with `dtype`, `shape` and `data`.

    Raises:
        Inexact: if the object is not a tensor.
    """
    try:
        shape = value["shape"]
        reserve(len(value["data"]), "a tensor in base64")
        raw = bytearray(_unbase64(value["data"]))  # writable, because the tensor shares its memory
        array = np.ndarray(shape, _BYTES[value["dtype"]], raw)
        whole = array.nbytes == len(raw) and raw and len(value) == 3 and type(shape) is list
        if whole and not (1 in shape and bool in map(type, shape)):  # True is 1
            return torch.from_numpy(array)
    except (KeyError, TypeError, ValueError):
        pass  # the code below finds the fault, or reads another form
    return _from_any_object(value, json)


def _from_any_object(value: dict[Any, Any], json: bool) -> Tensor:
    """A tensor from an object with `dtype`, `shape` and `data`, which is base64 or nested lists."""
    try:
        name, shape, data = value["dtype"], value["shape"], value["data"]
        dtype = DTYPES[name]
        count = math.prod(shape)
        size = count * dtype.itemsize
        sized = len(value) == 3 and len(shape) <= MAX_RANK
        for n in shape:
            if type(n) is not int or n < 0:
                sized = False
    except (KeyError, TypeError):
        raise Inexact(_wrong_object(value)) from None
    if not sized:
        raise Inexact(_wrong_object(value))
    if type(data) is not str or data in WORDS:
        found = _from_lists(data, family_of(dtype), False, json)
        if found.numel() != count:
            raise Inexact(f"the shape {list(shape)} has {count} elements, `data` holds {found.numel()}")
        return _reshape_or_raise(found, shape)
    if len(data) != (size + 2) // 3 * 4:  # refuse before decoding, whatever the length
        raise Inexact(_wrong_size(name, shape, size, len(data) * 3 // 4))
    try:
        raw = bytearray(_unbase64(data))
    except ValueError as error:
        raise Inexact(f"`data` is not base64: {error}") from None
    if len(raw) != size:
        raise Inexact(_wrong_size(name, shape, size, len(raw)))
    if dtype is torch.bool and raw.translate(None, b"\0\1"):
        raise Inexact("the bytes of a bool are 0 and 1")
    if not count:
        return _reshape_or_raise(torch.empty(0, dtype=dtype), shape)
    return torch.frombuffer(raw, dtype=torch.uint8).view(dtype).reshape(shape)


def _wrong_object(value: dict[Any, Any]) -> str:
    if value.keys() != OBJECT:
        return "a tensor is lists, or an object with exactly the keys dtype, shape and data"
    if not isinstance(value["dtype"], str) or value["dtype"] not in DTYPES:
        return f"the dtype {value['dtype']!r:.40} is not one of {', '.join(DTYPES)}"
    return f"the shape is a list of at most {MAX_RANK} numbers from 0, got {value['shape']!r:.60}"


def _wrong_size(name: str, shape: list[int], size: int, held: int) -> str:
    return f"{name} {list(shape)} are {size} bytes in base64, `data` holds {held}"


if sys.version_info >= (3, 11):
    _unbase64 = partial(a2b_base64, strict_mode=True)
else:
    _unbase64 = partial(b64decode, validate=True)


def _reshape_or_raise(value: Tensor, shape: list[int]) -> Tensor:
    try:
        return value.reshape(shape)
    except (RuntimeError, OverflowError):
        raise Inexact(f"the shape {list(shape)} is too large") from None


def _from_lists(value: Any, family: DTypeFamily, cast: bool, json: bool) -> Tensor:
    """A tensor from nested lists; with `cast`, numbers of other dtypes are converted."""
    array = _array(value)
    reserve(array.nbytes, "a tensor in lists")
    kind = array.dtype.kind
    if json and kind == "f" and not _all_finite(array):
        refuse_literals(value)
    target: torch.dtype = family.exact or _implied_dtype(family, kind)
    if kind == "f" and target in INTEGERS:
        array = _whole(value, array, target)
    if array.size and not cast:
        if (kind == "b") != (target is torch.bool):
            given = "booleans" if kind == "b" else "numbers"
            raise Inexact(f'{given} are not {family}; nothing is converted without `coerce="cast"`')
        # numpy converts a boolean among numbers to 0 or 1
        if kind != "b" and b"\1" in ((array == 0) | (array == 1)).tobytes() and _holds_booleans(value):
            raise Inexact('booleans are among the numbers; nothing is converted without `coerce="cast"`')
    if not array.size:
        return torch.zeros(array.shape, dtype=target)
    if target.is_complex:
        return _from_parts(array, target)
    if target is torch.float32 or target is torch.float64:
        return torch.from_numpy(_round_to_floats(array, NUMPY[target], cast))
    numbers = torch.from_numpy(array)
    found = numbers.to(target)
    if not cast and found.dtype is not numbers.dtype:
        floats = target.is_floating_point
        wrong = found.double().isfinite() != numbers.isfinite() if floats else changed_elements(numbers, found)
        _refuse(array, wrong.numpy(), dtype_name(target))
    return found


@np.errstate(over="ignore")
def _round_to_floats(array: np.ndarray[Any, Any], dtype: np.dtype[Any], cast: bool) -> np.ndarray[Any, Any]:
    """Convert numbers to floats. Rounding to the dtype is allowed, as long as finite numbers stay finite."""
    found = array.astype(dtype, copy=False)
    if not cast and not _all_finite(found):
        _refuse(array, np.isfinite(found) != np.isfinite(array), dtype.name)
    return found


def _refuse(array: np.ndarray[Any, Any], wrong: np.ndarray[Any, Any], name: str) -> None:
    """Raise an error for the first number that a conversion would change."""
    if wrong.any():
        first = tuple(np.argwhere(wrong)[0].tolist())
        raise Inexact(f"{name} can't hold {array[first].item()!r}{_place(first)}")


def _place(path: Sequence[int]) -> str:
    return " at " + "".join(f"[{i}]" for i in path) if path else ""


def _array(value: Any) -> np.ndarray[Any, Any]:
    """Convert nested lists to an array of numbers or booleans."""
    try:
        texts = holds_text(value)
        if texts and not _spelt(value):  # numpy would make all elements as wide as the longest text
            raise Inexact(_why_not_rectangular(value))
        array = np.asarray(value, dtype=np.float64 if texts else None)
        if array.dtype.kind == "u":
            array = array.view(np.uint64)  # torch supports only this one of two equal dtypes
    except (ValueError, TypeError, OverflowError, RecursionError):
        raise Inexact(_why_not_rectangular(value)) from None
    if array.dtype.kind not in SAMPLES:
        raise Inexact(_why_not_rectangular(value))
    return array


def _why_not_rectangular(value: Any) -> str:
    """Why nested lists are not numbers in a rectangular shape: the first such entry, with its position."""
    shape: list[int] = []
    first = value
    while isinstance(first, list | tuple) and len(shape) < MAX_RANK:
        shape.append(len(first))
        first = first[0] if first else None

    def search(part: Any, path: tuple[int, ...]) -> str:
        expected = shape[len(path)] if len(path) < len(shape) else None
        if isinstance(part, list | tuple):
            if expected is None:
                return f"nested lists{_place(path)} where others hold a number"
            if len(part) != expected:
                return f"a list of {len(part)}{_place(path)} where others have {expected} entries"
            return next(filter(None, (search(inner, (*path, i)) for i, inner in enumerate(part))), "")
        if isinstance(part, int | float) or part in WORDS:
            return "" if expected is None else f"{part!r}{_place(path)} where others hold {expected} entries"
        return f"{part!r:.40}{_place(path)} is not a number; nan and infinities are {', '.join(WORDS)}"

    return search(value, ()) or "numbers in nested lists are expected, up to 64 bits each and 64 lists deep"


def refuse_literals(value: Any, path: tuple[int, ...] = ()) -> None:
    """Raise an error for a float in nested lists and objects that is not finite.

    Raises:
        Inexact: gives its position.
    """
    if isinstance(value, float) and not math.isfinite(value):
        raise Inexact(
            f"{value!r}{_place(path)} is not a JSON number: it was too large for a float, or was not quoted; write nan "
            f"and infinities as the strings {', '.join(WORDS)}"
        )
    if isinstance(value, dict):
        parts: Iterable[Any] = value.values()
    elif isinstance(value, list | tuple):
        parts = value
    else:
        parts = ()
    for position, part in enumerate(parts):
        refuse_literals(part, (*path, position))


def refuse_overflow(value: Any, found: Any) -> None:
    """Raise an error for an integer in nested lists and objects that became an infinity when it was read as a float.

    Raises:
        Inexact: gives its position.
    """
    if type(value) is int and isinstance(found, float) and not math.isfinite(found):
        raise Inexact(f"an integer of {value.bit_length()} bits is too large for a float")
    if isinstance(value, list) and isinstance(found, list | tuple) and len(value) == len(found):
        for part, made in zip(value, found, strict=True):
            refuse_overflow(part, made)
    elif isinstance(value, dict) and isinstance(found, dict):
        for key, made in found.items():
            refuse_overflow(value.get(key), made)


def _holds_booleans(value: Any) -> bool:
    """Whether there is a boolean in nested lists."""
    if not isinstance(value, list | tuple):
        return type(value) is bool
    kinds = set(map(type, value))
    return bool in kinds or (not kinds.isdisjoint((list, tuple)) and any(map(_holds_booleans, value)))


def holds_text(value: Any) -> bool:
    """Whether there is a text in nested lists, at most `MAX_RANK` deep."""
    level = value if isinstance(value, list | tuple) else [value]
    for _ in range(MAX_RANK + 1):
        kinds = set(map(type, level))
        if any([issubclass(kind, str | bytes) for kind in kinds]):
            return True
        inner = [kind for kind in kinds if issubclass(kind, list | tuple)]
        if not inner:
            return False
        flat = level if len(inner) == len(kinds) else [part for part in level if isinstance(part, list | tuple)]
        level = list(chain.from_iterable(flat))
    return False


def _spelt(value: Any) -> bool:
    """Whether all strings in nested lists are "NaN", "Infinity" or "-Infinity"."""
    return all(map(_spelt, value)) if isinstance(value, list | tuple) else not isinstance(value, str) or value in WORDS


def _whole(value: Any, array: np.ndarray[Any, Any], target: torch.dtype) -> np.ndarray[Any, Any]:
    """Restore integers that numpy read as floats because of floats or even larger integers among them."""
    if not array.size or np.abs(array).max() < 2**53:
        return array
    numbers = [int(n) if float(n).is_integer() else n for n in np.asarray(value, dtype=object).reshape(-1).tolist()]
    limits = torch.iinfo(target)
    if not all(type(number) is int and limits.min <= number <= limits.max for number in numbers):
        return array
    found: np.ndarray[Any, Any] = np.array(numbers, dtype=NUMPY[target]).reshape(array.shape)
    return found


def _from_parts(array: np.ndarray[Any, Any], target: torch.dtype) -> Tensor:
    if not array.ndim or array.shape[-1] != 2:
        raise Inexact("a complex number is the list of its parts: [real, imaginary]")
    return torch.view_as_complex(torch.from_numpy(array.astype(np.float64))).to(target)
