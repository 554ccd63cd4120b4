"""dtypes of torch and of the file format: the stored dtype name and the stored shape of a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

_NATIVE = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "U16": "uint16", "I16": "int16", "U32": "uint32", "I32": "int32",
    "U64": "uint64", "I64": "int64", "F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64",
    "C64": "complex64", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz", "F8_E8M0": "float8_e8m0fnu", "F4": "float4_e2m1fn_x2",
}  # fmt: skip
"""dtype names of the format, and the dtypes of torch. An older torch may lack the newer ones."""
_AS_BYTES = [f"{sign}int{bits}" for sign in ("u", "") for bits in range(1, 8)]
_AS_BYTES += ["bits8", "bits1x8", "bits2x4", "bits4x2"]
_CARRIERS = {"complex128": "F64", "complex32": "F16", "bcomplex32": "BF16", "bits16": "U16"}
_CARRIERS |= dict.fromkeys(_AS_BYTES, "U8")
"""dtypes that the format lacks, and the dtype name that they are stored as."""

TORCH: dict[str, torch.dtype] = {code: getattr(torch, n) for code, n in _NATIVE.items() if hasattr(torch, n)}
"""Name in the file -> dtype of torch."""
CODES: dict[torch.dtype, str] = {dtype: code for code, dtype in TORCH.items()}
"""dtype of torch -> name in the file, for dtypes that the format has."""
CARRIED: dict[str, torch.dtype] = {name: getattr(torch, name) for name in _CARRIERS if hasattr(torch, name)}
"""Name in the metadata -> dtype of torch, for dtypes that the format lacks."""
UNREADABLE = ("F6_E2M3", "F6_E3M2")
"""dtype names of the format for which torch has no dtype."""
BITS = {code: dtype.itemsize * 8 for code, dtype in TORCH.items()} | {"F4": 4}
"""Bits of one element, by name in the file."""

_PARTS = tuple(CARRIED[name] for name in ("complex128", "complex32", "bcomplex32") if name in CARRIED)
_PAIRED = TORCH.get("F4")


class StoredAs(NamedTuple):
    """How a tensor is stored: dtype name and shape in the file, and its true dtype if the format lacks it."""

    code: str
    shape: list[int]
    true: str | None


def form_of(dtype: torch.dtype, shape: Sequence[int]) -> StoredAs | None:
    """How a tensor of this dtype and shape is stored; None for a dtype that can't be stored.

    >>> form_of(torch.complex128, [3])
    StoredAs(code='F64', shape=[3, 2], true='complex128')
    """
    code = CODES.get(dtype)
    name = str(dtype).removeprefix("torch.")
    if code is not None and dtype is not _PAIRED:
        return StoredAs(code, [*shape], None)
    if code is not None:  # two numbers in each byte; a scalar has no dim that could be doubled
        return StoredAs(code, [*shape[:-1], shape[-1] * 2], None) if shape else StoredAs("U8", [], name)
    if name not in _CARRIERS:
        return None
    return StoredAs(_CARRIERS[name], [*shape, 2] if dtype in _PARTS else [*shape], name)


def shape_of(code: str, shape: list[int], true: str | None) -> tuple[torch.dtype, list[int]] | str:
    """The dtype and shape of a stored tensor, or what is wrong with its description."""
    if true is None:
        if code == "F4":
            if not shape or shape[-1] % 2:
                return f"a tensor of F4 has an even last dim, got {shape}"
            return TORCH[code], [*shape[:-1], shape[-1] // 2]
        return TORCH[code], shape
    dtype = CARRIED.get(true, _PAIRED if _PAIRED is not None and true == "float4_e2m1fn_x2" else None)
    if dtype is None:
        return f"the dtype {true!r:.40} is not known to this version of torch"
    if _CARRIERS.get(true, "U8") != code:
        return f"{true} is carried by {_CARRIERS.get(true, 'U8')}, not by {code}"
    if dtype not in _PARTS:
        return dtype, shape
    return (dtype, shape[:-1]) if shape[-1:] == [2] else f"{true} is stored with a last dim of 2, got shape {shape}"
