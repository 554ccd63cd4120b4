"""The dtype families by name, and the dtypes of torch in each."""

from __future__ import annotations

_FLOAT = {
    "Float8e4m3fn": "float8_e4m3fn", "Float8e4m3fnuz": "float8_e4m3fnuz", "Float8e5m2": "float8_e5m2",
    "Float8e5m2fnuz": "float8_e5m2fnuz", "Float8e8m0fnu": "float8_e8m0fnu", "BFloat16": "bfloat16",
    "Float16": "float16", "Float32": "float32", "Float64": "float64",
}  # fmt: skip
_COMPLEX = {"Complex32": "complex32", "Complex64": "complex64", "Complex128": "complex128"}
_INT = {"Int8": "int8", "Int16": "int16", "Int32": "int32", "Int64": "int64"}
_UINT = {"UInt8": "uint8", "UInt16": "uint16", "UInt32": "uint32", "UInt64": "uint64"}
_UNIONS = {
    "Float": _FLOAT, "Complex": _COMPLEX, "Int": _INT, "UInt": _UINT, "Inexact": _FLOAT | _COMPLEX,
    "Integer": _INT | _UINT, "Real": _FLOAT | _INT | _UINT, "Num": _FLOAT | _INT | _UINT | _COMPLEX,
}  # fmt: skip

FAMILY_DTYPES: dict[str, frozenset[str] | None] = {
    **{name: frozenset((dtype,)) for name, dtype in (_FLOAT | _COMPLEX | _INT | _UINT | {"Bool": "bool"}).items()},
    **{name: frozenset(members.values()) for name, members in _UNIONS.items()},
    "Shaped": None,
}
"""The names of the dtypes of each family; None for any dtype."""
