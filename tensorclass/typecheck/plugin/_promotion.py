"""The dtypes that operations of torch give, as sets of possible ones; None for unknown. No torch and no mypy here."""

from __future__ import annotations

from itertools import product

from ..._dims import FAMILY_DTYPES

Dtypes = frozenset[str] | None
FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})
"""The dtypes of `torch.zeros(4)`, since a program may set another default dtype."""
BOOL, INT64 = frozenset({"bool"}), frozenset({"int64"})
_INEXACT = FAMILY_DTYPES["Inexact"] or frozenset()
_COMPLEX = FAMILY_DTYPES["Complex"] or frozenset()
_ORDER = ("bool", "integer", "float", "complex")
_SIGNED = ("int8", "int16", "int32", "int64")
_WIDE = ("float32", "float64")
_PARTS = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}


def category_of(dtype: str) -> str:
    """`bool`, `integer`, `float` or `complex`."""
    if dtype == "bool":
        return "bool"
    if dtype in _COMPLEX:
        return "complex"
    return "float" if dtype in _INEXACT else "integer"


def kind_rank(dtype: str) -> int:
    """Higher for kinds that an operation in place can't write into a tensor of a lower one."""
    return _ORDER.index(category_of(dtype))


def floating(dtypes: Dtypes) -> Dtypes:
    """What `exp`, `sqrt` and a division make: integers become floating."""
    if dtypes is None:
        return None
    return frozenset().union(*({dtype} if dtype in _INEXACT else FLOATS for dtype in dtypes))


def summed(dtypes: Dtypes) -> Dtypes:
    """What `sum` and `cumsum` make: integers become int64."""
    if dtypes is None:
        return None
    return frozenset(dtype if dtype in _INEXACT else "int64" for dtype in dtypes)


def magnitudes(dtypes: Dtypes) -> Dtypes:
    """What `abs` makes: complex numbers become real ones."""
    return None if dtypes is None else frozenset(_PARTS.get(dtype, dtype) for dtype in dtypes)


def promote_dtypes(one: Dtypes, other: Dtypes, ranks: tuple[int | None, int | None] = (1, 1)) -> Dtypes:
    """The dtype of two tensors in one operation; ranks are 0, 1 for any other, or None for unknown.

    A tensor without dims counts less than one with dims.
    """
    if one is None or other is None:
        return None
    found = set[str]()
    for left, right in product(one, other):
        both, same = _pair(left, right), category_of(left) == category_of(right)
        mixed = None in ranks or ranks in ((0, 1), (1, 0))
        if both is None or (mixed and {category_of(left), category_of(right)} == {"float", "complex"}):
            return None
        if same and None in ranks:
            found |= {both, left, right}
        else:
            wide = left if ranks[0] else right
            found.add(wide if same and mixed else both)
    return frozenset(found)


def _pair(left: str, right: str) -> str | None:
    """The dtype of two with dims; None if torch has none."""
    if left == right:
        return left
    kinds = [category_of(dtype) for dtype in (left, right)]
    if kinds[0] != kinds[1]:
        higher, lower = (left, right) if _ORDER.index(kinds[0]) > _ORDER.index(kinds[1]) else (right, left)
        wide = category_of(higher) == "complex" and lower == "float64"
        return "complex128" if wide else higher
    if kinds[0] == "integer":
        return _integers(left, right)
    table = _WIDE if kinds[0] == "float" else ("complex32", "complex64", "complex128")
    ranked = [dtype for dtype in table if dtype in (left, right)]
    if {left, right} == {"float16", "bfloat16"}:
        return "float32"
    return ranked[-1] if ranked else None


def _integers(left: str, right: str) -> str | None:
    if "uint8" in (left, right):
        other = right if left == "uint8" else left
        wide = "int16" if other == "int8" else other
        return wide if wide in _SIGNED else None
    both = [dtype for dtype in _SIGNED if dtype in (left, right)]
    return both[-1] if len(both) == 2 else None


def with_number(dtypes: Dtypes, kind: str) -> Dtypes:
    """The dtype of a tensor and a number of Python: `bool`, `int`, `float`, or `real` for an int or a float."""
    if dtypes is None or kind not in ("bool", "int", "float", "real"):
        return None
    if kind == "bool":
        return dtypes
    whole = frozenset("int64" if dtype == "bool" else dtype for dtype in dtypes)
    if kind == "int":
        return whole
    return (floating(dtypes) or frozenset()) | (whole if kind == "real" else frozenset())
