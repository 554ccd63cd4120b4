"""Python objects as JSON and back, exactly. A type that JSON lacks is an object whose only key begins with `$`."""

from __future__ import annotations

import json
import math
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias
from uuid import UUID

import numpy as np
import torch
from torch import Tensor

from .._schema._convert import Inexact
from .._schema._json import DTYPES, NAMES, from_object
from .._schema._json import encode as encode_tensor
from ..errors import ArgumentError

_INT64 = 2**63
_ALIKE = 64
"""The most values with the same hash in a set or dict."""
_PLAIN = (str, bool, type(None))


class Unstorable(Exception):
    """Raised for a Python object that has no exact form in a file; the message says which."""


def dumps(value: Any) -> str:
    """A Python object as JSON text.

    Raises:
        Unstorable: for an object of a type that JSON can't restore exactly.
    """
    return to_text(encode(value))


def to_text(value: Any) -> str:
    """JSON types as text; equal values give equal texts."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def encode(value: Any) -> Any:
    """A Python object as JSON types."""
    try:
        return _encode(value)
    except RecursionError:
        raise Unstorable("it contains itself, or is nested too deeply") from None


def _encode(value: Any) -> Any:
    """A value of JSON that `_decode` turns back into this one."""
    kind = type(value)
    is_exact_number = (kind is int and -_INT64 <= value < _INT64) or (kind is float and math.isfinite(value))
    if kind in _PLAIN or is_exact_number:
        return value
    if kind is list:
        return [_encode(part) for part in value]
    if kind is dict and all([type(key) is str and not key.startswith("$") for key in value]):
        return {key: _encode(part) for key, part in value.items()}
    scalar = isinstance(value, np.generic) and value.dtype.kind in "biufcSUMm"
    found = _WRITERS.get(np.generic if scalar else kind)
    if found is not None:
        return {found[0]: found[1](value)}
    raise Unstorable(f"a {kind.__module__}.{kind.__qualname__} has no form in JSON that comes back as it was")


def _base64(raw: bytes) -> str:
    return b64encode(raw).decode()


def _array(value: np.ndarray[Any, Any]) -> Any:
    if value.dtype.kind not in "biufcSUMm":
        raise Unstorable(f"a numpy array of {value.dtype} has no form in JSON")
    return [value.dtype.str, list(value.shape), _base64(np.ascontiguousarray(value).tobytes())]


def _tensor(value: Tensor) -> Any:
    if value.layout is not torch.strided or value.is_nested or value.dtype not in NAMES:
        raise Unstorable(f"a tensor of {value.dtype} and {value.layout} in a Python object has no form in JSON")
    return {**encode_tensor(value.resolve_conj().resolve_neg()), "requires_grad": value.requires_grad}


def _sort_encoded(values: Any) -> list[Any]:
    return sorted([_encode(part) for part in values], key=to_text)


def _exactly(read: Callable[[str], Any], value: Any) -> str:
    text: str = value.isoformat()
    if repr(read(text)) != repr(value):
        raise Unstorable(f"{value!r:.80} has no form in JSON that comes back as it was")
    return text


# ---- back --------------------------------------------------------------------------------------------------------


def decode(value: Any) -> Any:
    """The Python object that JSON types encode.

    Raises:
        ValueError: for an unknown or malformed encoding.
    """
    kind = type(value)
    if kind is list:
        return [decode(part) for part in value]
    if kind is not dict:
        return value
    if len(value) == 1:
        ((key, held),) = value.items()
        if key.startswith("$"):
            return _read_form(key, held)
    if any([key.startswith("$") for key in value]):
        raise ArgumentError(f"an object with the keys {[*value]!r:.80} stands for nothing")
    return {key: decode(part) for key, part in value.items()}


def _read_form(key: str, held: Any) -> Any:
    read = _READERS.get(key)
    if read is None:
        raise ArgumentError(f"the form {key!r:.40} is not known")
    try:
        return read(held)
    except (Inexact, TypeError, KeyError, AttributeError, OverflowError, ArithmeticError, RuntimeError) as error:
        raise ArgumentError(f"{key} can't be read: {error!s:.120}") from None


def _unbase64(text: str) -> bytes:
    return b64decode(text.encode("ascii"), validate=True)


def _plain_dtype(text: str) -> np.dtype[Any]:
    found = np.dtype(str(text))
    if found.kind not in "biufcSUMm":
        raise ArgumentError(f"the dtype {text!r:.40} is refused")
    return found


def _read_array(held: Any) -> np.ndarray[Any, Any]:
    """An array of numpy from its dtype, shape and bytes, which must agree."""
    text, shape, raw = held
    dtype, data = _plain_dtype(text), bytearray(_unbase64(raw))
    count = math.prod(shape)
    if (
        dtype.itemsize * count != len(data)
        or (count and not dtype.itemsize)
        or not all([type(n) is int and n >= 0 for n in shape])
    ):
        raise ArgumentError(f"{len(data)} bytes are not an array of {dtype} and shape {shape!r:.80}")
    if not data:
        return np.empty(shape, dtype)
    found: np.ndarray[Any, Any] = np.frombuffer(data, dtype).reshape(shape)
    return found


def _read_tensor(held: Any) -> Tensor:
    grad = held["requires_grad"]
    found = from_object({key: part for key, part in held.items() if key != "requires_grad"})
    return found.requires_grad_() if grad is True else found


def _spread(keys: list[Any]) -> list[Any]:
    """Keys of a set or dict. Keys with one hash are all compared with each other, and numbers choose their hash."""
    most = max(Counter(map(hash, keys)).values(), default=0)
    if most > _ALIKE:
        raise ArgumentError(f"{most} values have the same hash, {_ALIKE} at most are read")
    return keys


def _read_dict(held: Any) -> dict[Any, Any]:
    return dict(zip(_spread([decode(key) for key, _ in held]), [decode(part) for _, part in held], strict=True))


def _read_dtype(text: Any) -> torch.dtype:
    found = DTYPES[text] if text in DTYPES else getattr(torch, str(text), None)
    if not isinstance(found, torch.dtype):
        raise ArgumentError(f"{text!r:.40} is not a dtype of torch")
    return found


_Coding: TypeAlias = "tuple[str, type, Callable[[Any], Any], Callable[[Any], Any]]"
_CODINGS: list[_Coding] = [
    ("$int", int, hex, lambda held: int(held, 16)),
    ("$float", float, repr, float),
    ("$dict", dict, lambda value: [[_encode(key), _encode(part)] for key, part in value.items()], _read_dict),
    ("$tuple", tuple, lambda value: [_encode(part) for part in value],
     lambda held: tuple([decode(part) for part in held])),
    ("$set", set, _sort_encoded, lambda held: set(_spread([decode(part) for part in held]))),
    ("$frozenset", frozenset, _sort_encoded, lambda held: frozenset(_spread([decode(part) for part in held]))),
    ("$bytes", bytes, _base64, _unbase64),
    ("$bytearray", bytearray, _base64, lambda held: bytearray(_unbase64(held))),
    ("$complex", complex, lambda value: [_encode(value.real), _encode(value.imag)],
     lambda held: complex(*map(decode, held))),
    ("$range", range, lambda value: [value.start, value.stop, value.step], lambda held: range(*held)),
    ("$slice", slice, lambda value: [_encode(part) for part in (value.start, value.stop, value.step)],
     lambda held: slice(*map(decode, held))),
    ("$datetime", datetime, partial(_exactly, datetime.fromisoformat), datetime.fromisoformat),
    ("$date", date, date.isoformat, date.fromisoformat),
    ("$time", time, partial(_exactly, time.fromisoformat), time.fromisoformat),
    ("$timedelta", timedelta, lambda value: [value.days, value.seconds, value.microseconds],
     lambda held: timedelta(*held)),
    ("$decimal", Decimal, str, Decimal),
    ("$uuid", UUID, str, UUID),
    ("$path", type(Path()), str, Path),
    ("$size", torch.Size, list, torch.Size),
    ("$dtype", torch.dtype, lambda value: str(value).removeprefix("torch."), _read_dtype),
    ("$device", torch.device, str, torch.device),
    ("$array", np.ndarray, _array, _read_array),
    ("$numpy", np.generic, lambda value: [value.dtype.str, _base64(value.tobytes())],
     lambda held: _read_array([held[0], [], held[1]])[()]),
    ("$tensor", Tensor, _tensor, _read_tensor),
]  # fmt: skip
"""Key, type, writer and reader of each form."""
_WRITERS = {kind: (key, write) for key, kind, write, _ in _CODINGS}
_READERS = {key: read for key, _, _, read in _CODINGS}
