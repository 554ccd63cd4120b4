"""Tensors that calls make of numbers, such as `torch.zeros(4, 8, dtype=torch.int64)`, and the numbers themselves.

None means unknown. The dtype of `torch.zeros(4)` is any floating one, since programs may set another default.
"""

from __future__ import annotations

import operator
from typing import Protocol

from mypy import nodes

from ..._dims import FAMILY_DTYPES
from ._call_parts import TensorFacts
from ._promotion import BOOL, FLOATS, INT64, Dtypes
from ._sizes import KnownSizes, Shape
from ._source import Source, call_arguments

ALIASES = {
    "long": "int64", "int": "int32", "short": "int16", "float": "float32", "double": "float64", "half": "float16",
    "cfloat": "complex64", "cdouble": "complex128", "chalf": "complex32",
}  # fmt: skip
_DTYPES = frozenset().union(*(dtypes or () for dtypes in FAMILY_DTYPES.values()))
_OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul}
_SIZED = {"zeros", "ones", "empty", "rand", "randn"}
_LIKE = {"zeros_like", "ones_like", "empty_like", "rand_like", "randn_like", "full_like", "randint_like"}
_SPACED = {"linspace": 100, "logspace": 100}
_OPTIONS = ("dtype", "device", "requires_grad", "layout", "pin_memory", "generator", "memory_format", "names")
_ARRAYS = {"zeros", "ones", "empty"}


class _Tensors(Protocol):
    """What reads tensors and numbers among the arguments."""

    def tensor(self, expr: nodes.Expression) -> TensorFacts | None:
        """The facts of a tensor."""
        ...

    def kind_of_number(self, expr: nodes.Expression) -> str:
        """The kind of a number of Python."""
        ...

    def kind_of_items(self, expr: nodes.Expression) -> str:
        """The kind of the numbers in a list."""
        ...


def torch_name(expr: nodes.Expression) -> str | None:
    """The name of a function or dtype of torch itself: `zeros` for `torch.zeros`."""
    module, _, name = (expr.fullname if isinstance(expr, nodes.RefExpr) else "").rpartition(".")
    return name if module in ("torch", "torch._C", "torch._C._VariableFunctions") else None


def int_of(source: Source, expr: nodes.Expression | None) -> int | None:
    """The certain value of an integer expression."""
    if isinstance(expr, nodes.RefExpr) and isinstance(expr.node, nodes.Var) and type(expr.node.final_value) is int:
        return expr.node.final_value
    if expr is None:
        return None
    expr = source.follow(expr)
    if isinstance(expr, nodes.IntExpr):
        return expr.value
    if isinstance(expr, nodes.UnaryExpr) and expr.op == "-":
        inner = int_of(source, expr.expr)
        return None if inner is None else -inner
    if isinstance(expr, nodes.OpExpr) and expr.op in _OPERATORS:
        left, right = int_of(source, expr.left), int_of(source, expr.right)
        return None if left is None or right is None else int(_OPERATORS[expr.op](left, right))
    return None


def sizes_of(source: Source, expr: nodes.Expression) -> Shape | None:
    """The sizes in a list or tuple, or the one size that a number is."""
    number = int_of(source, expr)
    if number is not None:
        return (number,)
    items = source.items(expr)
    return None if items is None else tuple(int_of(source, item) for item in items)


def dtype_of(source: Source, named: dict[str, nodes.Expression], default: Dtypes) -> Dtypes:
    """The dtype that an argument names."""
    given = named.get("dtype")
    if given is None:
        return default
    given = source.follow(given)
    if isinstance(given, nodes.NameExpr) and given.name == "None":
        return default
    name = torch_name(given)
    name = ALIASES.get(name or "", name)
    return frozenset((name,)) if name is not None and name in _DTYPES else None


def created(values: _Tensors, source: Source, name: str, call: nodes.CallExpr) -> TensorFacts | None:
    """What a factory makes; None for any other function."""
    pairs = list(zip(call.arg_names, call.args, strict=True))
    named = {key: value for key, value in pairs if key is not None}
    plain = [value for key, value in pairs if key is None]
    if "out" in named:
        return None
    if name in _SIZED:
        return _facts_of_shape(dtype_of(source, named, FLOATS), _varargs(values, source, plain, named.get("size")))
    if name in _LIKE and plain:
        like = values.tensor(plain[0]) or TensorFacts(None, None)
        return TensorFacts(dtype_of(source, named, like.dtypes), like.shape)
    if name in ("tensor", "as_tensor", "asarray") and plain:
        return _of_data(values, source, plain[0], named)
    if name == "from_numpy" and plain:
        return _of_array(source, plain[0])
    if name in _SPACED:
        return _facts_of_shape(
            dtype_of(source, named, FLOATS), (int_of(source, named.get("steps", [*plain, None, None, None][2])),)
        )
    return _facts_of_factory(source, name, call, named)


def _facts_of_shape(dtypes: Dtypes, shape: Shape | None) -> TensorFacts:
    return TensorFacts(dtypes, None if shape is None else KnownSizes(shape))


def _of_data(
    values: _Tensors, source: Source, data: nodes.Expression, named: dict[str, nodes.Expression]
) -> TensorFacts | None:
    """`torch.tensor(...)` of nested lists, numbers, other tensors and arrays."""
    found = values.tensor(data) or _of_array(source, data)
    if found is not None:
        return TensorFacts(dtype_of(source, named, found.dtypes), found.shape)
    kind, shape = literal(source, data)
    if kind is None and shape is None:
        number, items = values.kind_of_number(data), values.kind_of_items(data)
        kind = _OF_KIND.get(number or items)
        if (number or items) == "int" and _is_computed(source, data):
            kind = INT64
        listed = (None,) if items else None
        shape = () if number else listed
    return _facts_of_shape(dtype_of(source, named, kind), shape)


def _is_computed(source: Source, data: nodes.Expression) -> bool:
    """Whether an integer, or each in a comprehension, is the result of a call or of arithmetic, and so not a bool."""
    made = source.follow(data)
    number = made.generator.left_expr if isinstance(made, nodes.ListComprehension) else made
    return isinstance(number, nodes.CallExpr | nodes.OpExpr)


_OF_KIND: dict[str, Dtypes] = {"bool": BOOL, "int": INT64 | BOOL, "float": FLOATS, "real": FLOATS | INT64 | BOOL}


def _of_array(source: Source, expr: nodes.Expression) -> TensorFacts | None:
    """An array that numpy makes of sizes; the dtype is float64 if none is given."""
    call = source.follow(expr)
    callee = call.callee if isinstance(call, nodes.CallExpr) else None
    fullname = callee.fullname if isinstance(callee, nodes.RefExpr) else ""
    if (
        not isinstance(call, nodes.CallExpr)
        or not fullname.startswith("numpy.")
        or fullname.rpartition(".")[2] not in _ARRAYS
    ):
        return None
    given = call_arguments(call, ("shape", "dtype", "order")) or {}
    dtype = given.get("dtype")
    name = dtype.name if isinstance(dtype, nodes.MemberExpr) else ""
    told = frozenset({name}) if name in _DTYPES else None
    kinds = frozenset({"float64"}) if dtype is None else told
    return _facts_of_shape(kinds, sizes_of(source, given["shape"]) if "shape" in given else None)


def _facts_of_factory(
    source: Source, name: str, call: nodes.CallExpr, named: dict[str, nodes.Expression]
) -> TensorFacts | None:
    """`full`, `eye`, `arange`, `randint` and `randperm`, whose arguments are not only sizes."""
    positional = [value for value, kind in zip(call.args, call.arg_kinds, strict=True) if kind == nodes.ARG_POS]
    integer = INT64
    if name == "full":
        found = call_arguments(call, ("size", "fill_value")) or {}
        if "size" in found and "fill_value" in found:
            kind, _ = literal(source, found["fill_value"])
            return _facts_of_shape(dtype_of(source, named, kind), sizes_of(source, found["size"]))
    if name == "eye" and positional:
        rows = [int_of(source, value) for value in positional]
        return _facts_of_shape(dtype_of(source, named, FLOATS), (rows[0], rows[-1]))
    if name == "randperm" and positional:
        return _facts_of_shape(dtype_of(source, named, integer), (int_of(source, positional[0]),))
    if name == "randint":
        size = named.get("size", positional[-1] if len(positional) > 1 else None)
        return _facts_of_shape(dtype_of(source, named, integer), None if size is None else sizes_of(source, size))
    if name == "arange" and positional and set(named) <= set(_OPTIONS):
        return _arange(source, positional, named)
    return None


def _arange(source: Source, given: list[nodes.Expression], named: dict[str, nodes.Expression]) -> TensorFacts:
    kinds = [literal(source, value)[0] for value in given]
    whole: Dtypes = FLOATS if FLOATS in kinds else INT64
    kind = None if None in kinds else whole
    numbers = [int_of(source, value) for value in given]
    bounds = [number for number in numbers if number is not None]
    known = len(bounds) == len(numbers) and 0 not in bounds[2:]
    return _facts_of_shape(dtype_of(source, named, kind), (len(range(*bounds)) if known else None,))


def _varargs(
    values: _Tensors, source: Source, given: list[nodes.Expression], size: nodes.Expression | None = None
) -> Shape | None:
    """Sizes given one by one or as one sequence."""
    if size is not None or len(given) == 1:
        one = given[0] if size is None else size
        found = sizes_of(source, one)
        return (None,) if found is None and values.kind_of_number(one) == "int" else found
    return tuple(int_of(source, item) for item in given)


def literal(source: Source, expr: nodes.Expression) -> tuple[Dtypes, Shape | None]:
    """The dtype and shape of `torch.tensor(...)` of nested lists of numbers."""
    items = source.items(expr)
    if items is not None:
        inner = [literal(source, item) for item in items]
        kinds, shapes = {kind for kind, _ in inner}, {shape for _, shape in inner}
        shape = shapes.pop() if len(shapes) == 1 else None
        return kinds.pop() if len(kinds) == 1 else None, None if shape is None else (len(items), *shape)
    expr = source.follow(expr)
    if isinstance(expr, nodes.NameExpr) and expr.fullname in ("builtins.True", "builtins.False"):
        return BOOL, ()
    if int_of(source, expr) is not None:
        return INT64, ()
    number = expr.expr if isinstance(expr, nodes.UnaryExpr) and expr.op == "-" else expr
    return (FLOATS, ()) if isinstance(number, nodes.FloatExpr) else (None, None)
