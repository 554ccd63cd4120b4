"""Python objects as JSON and back, exactly. A type that JSON lacks is an object whose only key begins with `$`."""

from __future__ import annotations

import json
import math
from base64 import b64decode, b64encode
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import torch
from torch import Tensor

from .._schema._convert import Inexact
from .._schema._json import DTYPES, NAMES, from_object
from .._schema._json import encode as encode_tensor
from ..errors import ArgumentError

_INT64 = 2**63
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
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is int:
        return value if -_INT64 <= value < _INT64 else {"$int": hex(value)}
    if kind is float:
        return value if math.isfinite(value) else {"$float": repr(value)}
    if kind is list:
        return [_encode(part) for part in value]
    if kind is dict:
        if all([type(key) is str for key in value]) and not any([key.startswith("$") for key in value]):
            return {key: _encode(part) for key, part in value.items()}
        return {"$dict": [[_encode(key), _encode(part)] for key, part in value.items()]}
    found = _FORMS.get(kind)
    if found is not None:
        return {found[0]: found[1](value)}
    if isinstance(value, np.generic) and value.dtype.kind in "biufcSUMm":
        return {"$numpy": [value.dtype.str, _base64(value.tobytes())]}
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


def _sorted(values: Any) -> list[Any]:
    return sorted([_encode(part) for part in values], key=to_text)


_FORMS: dict[type, tuple[str, Callable[[Any], Any]]] = {
    tuple: ("$tuple", lambda value: [_encode(part) for part in value]),
    set: ("$set", _sorted),
    frozenset: ("$frozenset", _sorted),
    bytes: ("$bytes", _base64),
    bytearray: ("$bytearray", _base64),
    complex: ("$complex", lambda value: [_encode(value.real), _encode(value.imag)]),
    range: ("$range", lambda value: [value.start, value.stop, value.step]),
    slice: ("$slice", lambda value: [_encode(part) for part in (value.start, value.stop, value.step)]),
    datetime: ("$datetime", lambda value: _exactly(datetime.fromisoformat, value.isoformat(), value)),
    date: ("$date", date.isoformat),
    time: ("$time", lambda value: _exactly(time.fromisoformat, value.isoformat(), value)),
    timedelta: ("$timedelta", lambda value: [value.days, value.seconds, value.microseconds]),
    Decimal: ("$decimal", str),
    UUID: ("$uuid", str),
    type(Path()): ("$path", str),
    torch.Size: ("$size", list),
    torch.dtype: ("$dtype", lambda value: str(value).removeprefix("torch.")),
    torch.device: ("$device", str),
    np.ndarray: ("$array", _array),
    Tensor: ("$tensor", _tensor),
}  # fmt: skip


def _exactly(read: Callable[[str], Any], text: str, value: Any) -> str:
    back = read(text)
    if repr(back) != repr(value):
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
    text, shape, raw = held
    dtype, data = _plain_dtype(text), bytearray(_unbase64(raw))
    count = math.prod(shape)
    if dtype.itemsize * count != len(data) or not all([type(n) is int and n >= 0 for n in shape]):
        raise ArgumentError(f"{len(data)} bytes are not an array of {dtype} and shape {shape!r:.80}")
    if not data:
        return np.empty(shape, dtype)
    found: np.ndarray[Any, Any] = np.frombuffer(data, dtype).reshape(shape)
    return found


def _read_scalar(held: Any) -> Any:
    return _read_array([held[0], [], held[1]])[()]


def _read_tensor(held: Any) -> Tensor:
    grad = held["requires_grad"]
    found = from_object({key: part for key, part in held.items() if key != "requires_grad"})
    return found.requires_grad_() if grad is True else found


def _read_dtype(text: Any) -> torch.dtype:
    found = DTYPES[text] if text in DTYPES else getattr(torch, str(text), None)
    if not isinstance(found, torch.dtype):
        raise ArgumentError(f"{text!r:.40} is not a dtype of torch")
    return found


_READERS: dict[str, Callable[[Any], Any]] = {
    "$int": lambda held: int(held, 16),
    "$float": float,
    "$dict": lambda held: {decode(key): decode(part) for key, part in held},
    "$tuple": lambda held: tuple([decode(part) for part in held]),
    "$set": lambda held: {decode(part) for part in held},
    "$frozenset": lambda held: frozenset([decode(part) for part in held]),
    "$bytes": _unbase64,
    "$bytearray": lambda held: bytearray(_unbase64(held)),
    "$complex": lambda held: complex(*map(decode, held)),
    "$range": lambda held: range(*held),
    "$slice": lambda held: slice(*map(decode, held)),
    "$datetime": datetime.fromisoformat,
    "$date": date.fromisoformat,
    "$time": time.fromisoformat,
    "$timedelta": lambda held: timedelta(*held),
    "$decimal": Decimal,
    "$uuid": UUID,
    "$path": Path,
    "$size": torch.Size,
    "$dtype": _read_dtype,
    "$device": torch.device,
    "$array": _read_array,
    "$numpy": _read_scalar,
    "$tensor": _read_tensor,
}
