"""The certain facts about the tensor of an expression such as `torch.zeros(4, 8, dtype=torch.int64)`.

None means unknown. The dtype of `torch.zeros(4)` is any floating one, since programs may set another default.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace

from mypy import nodes

from ..._dims import FAMILY_DTYPES
from ._source import Source, call_arguments

Shape = tuple[int | None, ...]
FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})
_ALIASES = {
    "long": "int64", "int": "int32", "short": "int16", "float": "float32", "double": "float64", "half": "float16",
    "cfloat": "complex64", "cdouble": "complex128", "chalf": "complex32",
}  # fmt: skip
_DTYPES = frozenset().union(*(dtypes or () for dtypes in FAMILY_DTYPES.values()))
_CASTS = {*_ALIASES, "bool", "bfloat16"}
_SAME = {"clone", "detach", "contiguous", "cpu", "cuda", "requires_grad_", "pin_memory"}
_OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul}
_SIZED = {"zeros", "ones", "empty", "rand", "randn"}
_LIKE = {"zeros_like", "ones_like", "empty_like", "rand_like", "randn_like"}
_OPTIONS = ("dtype", "device", "requires_grad", "layout", "pin_memory", "generator", "memory_format", "names")


@dataclass(frozen=True)
class TensorFacts:
    """The possible dtypes of a tensor, and its sizes; None means unknown."""

    dtypes: frozenset[str] | None
    shape: Shape | None

    def __str__(self) -> str:
        several = "float" if self.dtypes == FLOATS else "tensor"
        dtype = next(iter(self.dtypes)) if self.dtypes is not None and len(self.dtypes) == 1 else several
        sizes = "" if self.shape is None else ", ".join("?" if size is None else str(size) for size in self.shape)
        return f"{dtype} [{sizes}]" if self.shape is not None else dtype


def tensor_facts(source: Source, expr: nodes.Expression) -> TensorFacts | None:
    """The facts about the value of an expression; None if it may be anything."""
    expr = source.follow(expr)
    if isinstance(expr, nodes.CallExpr) and isinstance(expr.callee, nodes.MemberExpr | nodes.NameExpr):
        name = torch_name(expr.callee)
        if name is not None:
            return _created(source, name, expr)
        if isinstance(expr.callee, nodes.MemberExpr):
            base = tensor_facts(source, expr.callee.expr)
            return None if base is None else _method(source, base, expr.callee.name, expr)
    if isinstance(expr, nodes.IndexExpr):
        base = tensor_facts(source, expr.base)
        return None if base is None or base.shape is None else _indexed(source, base, expr.index)
    return None


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


def _dtype(source: Source, named: dict[str, nodes.Expression], default: frozenset[str] | None) -> frozenset[str] | None:
    given = named.get("dtype")
    if given is None:
        return default
    given = source.follow(given)
    if isinstance(given, nodes.NameExpr) and given.name == "None":
        return default
    name = torch_name(given)
    name = _ALIASES.get(name or "", name)
    return frozenset((name,)) if name is not None and name in _DTYPES else None


def _created(source: Source, name: str, call: nodes.CallExpr) -> TensorFacts | None:
    if any(kind.is_star() for kind in call.arg_kinds):
        return None
    pairs = list(zip(call.arg_names, call.args, strict=True))
    named = {key: value for key, value in pairs if key is not None}
    plain = [value for key, value in pairs if key is None]
    if "out" in named:
        return None
    if name in _SIZED:
        return TensorFacts(_dtype(source, named, FLOATS), _varargs(source, plain, named.get("size")))
    if name in _LIKE and plain:
        like = tensor_facts(source, plain[0]) or TensorFacts(None, None)
        return TensorFacts(_dtype(source, named, like.dtypes), like.shape)
    if name == "tensor" and plain:
        kind, shape = _literal(source, plain[0])
        return TensorFacts(_dtype(source, named, kind), shape)
    return _filled(source, name, call, named)


def _filled(source: Source, name: str, call: nodes.CallExpr, named: dict[str, nodes.Expression]) -> TensorFacts | None:
    """`full`, `eye`, `arange`, `randint` and `randperm`, whose arguments are not only sizes."""
    positional = [value for value, kind in zip(call.args, call.arg_kinds, strict=True) if kind == nodes.ARG_POS]
    integer = frozenset({"int64"})
    if name == "full":
        found = call_arguments(call, ("size", "fill_value")) or {}
        if "size" in found and "fill_value" in found:
            kind, _ = _literal(source, found["fill_value"])
            return TensorFacts(_dtype(source, named, kind), sizes_of(source, found["size"]))
    if name == "eye" and positional:
        rows = [int_of(source, value) for value in positional]
        return TensorFacts(_dtype(source, named, FLOATS), (rows[0], rows[-1]))
    if name == "randperm" and positional:
        return TensorFacts(_dtype(source, named, integer), (int_of(source, positional[0]),))
    if name == "randint":
        size = named.get("size", positional[-1] if len(positional) > 1 else None)
        return TensorFacts(_dtype(source, named, integer), None if size is None else sizes_of(source, size))
    if name == "arange" and positional and set(named) <= set(_OPTIONS):
        return _arange(source, positional, named)
    return None


def _arange(source: Source, given: list[nodes.Expression], named: dict[str, nodes.Expression]) -> TensorFacts:
    kinds = [_literal(source, value)[0] for value in given]
    dtypes = FLOATS if FLOATS in kinds else frozenset({"int64"})
    kind = None if None in kinds else dtypes
    numbers = [int_of(source, value) for value in given]
    bounds = [number for number in numbers if number is not None]
    known = len(bounds) == len(numbers) and 0 not in bounds[2:]
    return TensorFacts(_dtype(source, named, kind), (len(range(*bounds)) if known else None,))


def _varargs(source: Source, given: list[nodes.Expression], size: nodes.Expression | None = None) -> Shape | None:
    """Sizes given one by one or as one sequence."""
    if size is not None or len(given) == 1:
        return sizes_of(source, given[0] if size is None else size)
    return tuple(int_of(source, item) for item in given)


def _literal(source: Source, expr: nodes.Expression) -> tuple[frozenset[str] | None, Shape | None]:
    """The dtype and shape of `torch.tensor(...)` of nested lists of numbers."""
    items = source.items(expr)
    if items is not None:
        inner = [_literal(source, item) for item in items]
        kinds, shapes = {kind for kind, _ in inner}, {shape for _, shape in inner}
        shape = shapes.pop() if len(shapes) == 1 else None
        return kinds.pop() if len(kinds) == 1 else None, None if shape is None else (len(items), *shape)
    expr = source.follow(expr)
    if isinstance(expr, nodes.NameExpr) and expr.fullname in ("builtins.True", "builtins.False"):
        return frozenset({"bool"}), ()
    if int_of(source, expr) is not None:
        return frozenset({"int64"}), ()
    number = expr.expr if isinstance(expr, nodes.UnaryExpr) and expr.op == "-" else expr
    return (FLOATS, ()) if isinstance(number, nodes.FloatExpr) else (None, None)


def _method(source: Source, base: TensorFacts, name: str, call: nodes.CallExpr) -> TensorFacts | None:
    if any(kind.is_star() for kind in call.arg_kinds):
        return None
    if name in _SAME:
        return base
    if name in _CASTS:
        return replace(base, dtypes=frozenset((_ALIASES.get(name, name),)))
    if name == "to" and len(call.args) == 1:
        if isinstance(call.args[0], nodes.StrExpr):
            return base
        dtype = _dtype(source, {"dtype": call.args[0]}, None)
        return replace(base, dtypes=dtype) if dtype is not None else None
    if name in ("reshape", "view") and call.args and all(kind == nodes.ARG_POS for kind in call.arg_kinds):
        sizes = _varargs(source, call.args)
        return replace(base, shape=None if sizes is None else tuple(_positive(size) for size in sizes))
    if name == "unsqueeze" and base.shape is not None and len(call.args) == 1:
        return _unsqueezed(base, base.shape, int_of(source, call.args[0]))
    return None


def _positive(size: int | None) -> int | None:
    return None if size is None or size < 0 else size


def _unsqueezed(base: TensorFacts, shape: Shape, dim: int | None) -> TensorFacts:
    if dim is None or not -len(shape) - 1 <= dim <= len(shape):
        return replace(base, shape=(None,) * (len(shape) + 1))
    place = dim % (len(shape) + 1)
    return replace(base, shape=(*shape[:place], 1, *shape[place:]))


def _indexed(source: Source, base: TensorFacts, index: nodes.Expression) -> TensorFacts | None:
    """The shape after an index of numbers and slices; None for other indices."""
    assert base.shape is not None  # checked by the caller
    left, shape = list(base.shape), list[int | None]()
    for item in index.items if isinstance(index, nodes.TupleExpr) else [index]:
        if not left or isinstance(item, nodes.EllipsisExpr | nodes.ListExpr):
            return None
        size = left.pop(0)
        if isinstance(item, nodes.SliceExpr):
            shape.append(_sliced(source, size, item))
        elif int_of(source, item) is None:
            return None
    return replace(base, shape=(*shape, *left))


def _sliced(source: Source, size: int | None, item: nodes.SliceExpr) -> int | None:
    given = (item.begin_index, item.end_index, item.stride)
    numbers = [int_of(source, part) for part in given]
    if size is None or any(p is not None and n is None for p, n in zip(given, numbers, strict=True)):
        return None
    return len(range(*slice(*numbers).indices(size)))
