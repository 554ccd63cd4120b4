"""What one call of a function or method of torch makes, by the kinds of `_torch_table`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from mypy import nodes

from . import _sizes as shapes
from ._call_parts import NOTHING, Call, Known, Reader, TensorFacts
from ._promotion import BOOL, FLOATS, INT64, Dtypes, floating, magnitudes, promote_dtypes, summed, with_number
from ._sizes import KnownSizes
from ._torch_table import KINDS
from ._torch_windows import MAKERS

_BOOL_OR_BYTE = frozenset({"bool", "uint8"})


def called(call: Call) -> Known:
    """What a call makes; None if it is unknown."""
    if "out" in call.named or (call.own is None and not call.plain and not call.named):
        return None
    kind = KINDS[call.name]
    made = _MAKERS[kind](call)
    if "dtype" in call.named and isinstance(made, TensorFacts):
        given = call.named["dtype"]
        is_none = isinstance(given, nodes.NameExpr) and given.name == "None"
        return made if is_none else replace(made, dtypes=call.reader.dtype(given))
    return made


def operated(reader: Reader, kind: str, left: nodes.Expression, right: nodes.Expression) -> TensorFacts | None:
    """What an operator makes of two sides; one may be a number."""
    sides = [reader.tensor(side) for side in (left, right)]
    one, other = sides
    if one is not None and other is not None:
        dtypes, shape = (
            promote_dtypes(one.dtypes, other.dtypes, (one.rank, other.rank)),
            shapes.broadcast(one.shape, other.shape),
        )
    else:
        number = reader.kind_of_number(left if one is None else right)
        tensor = one or other
        if tensor is None or not number:
            return None
        dtypes, shape = with_number(tensor.dtypes, number), tensor.shape
    if kind == "division":
        dtypes = floating(dtypes)
    return TensorFacts(BOOL if kind == "comparison" else dtypes, shape)


def _operands_of(call: Call) -> tuple[nodes.Expression | None, nodes.Expression | None]:
    """The two operands; the first is None for a method, the second if it isn't given."""
    given = [*call.plain, *(call.named[name] for name in ("other", "exponent") if name in call.named), None, None]
    return (None, given[0]) if call.own is not None else (given[0], given[1])


def _binary(kind: str) -> Callable[[Call], Known]:
    """What a function or a method of two operands makes, such as `torch.add(a, b)` and `a.add(b)`."""

    def made(call: Call) -> Known:
        left, right = _operands_of(call)
        if right is None or {"alpha", "rounding_mode"} & call.named.keys():
            return None
        if left is not None:
            return operated(call.reader, kind, left, right)
        # A method: the left side is the tensor itself, whose facts stand for an expression.
        return operated(_Bound(call.reader, call.own), kind, _OWN, right)  # type: ignore[arg-type]  # it reads _OWN only

    return made


_OWN = nodes.NameExpr("self")


class _Bound:
    """Reads `_OWN` as the tensor of a method."""

    def __init__(self, reader: Reader, own: TensorFacts | None) -> None:
        self._reader, self._own = reader, own

    def tensor(self, expr: nodes.Expression) -> TensorFacts | None:
        """The facts of a tensor."""
        return self._own if expr is _OWN else self._reader.tensor(expr)

    def kind_of_number(self, expr: nodes.Expression) -> str:
        """The kind of a number."""
        return self._reader.kind_of_number(expr)


def _unary(change: Callable[[Dtypes], Dtypes]) -> Callable[[Call], Known]:
    def made(call: Call) -> Known:
        first = call.first()
        return replace(first, dtypes=change(first.dtypes))

    return made


def _reduce_shape(call: Call, shape: KnownSizes | None) -> KnownSizes | None:
    """The shape after a reduction over one dim, several, or all."""
    given, keep = call.get("dim"), call.flag("keepdim")
    if given is None or (isinstance(given, nodes.NameExpr) and given.name == "None"):
        return KnownSizes(()) if keep is False and "axis" not in call.named else None
    dims = call.reader.sizes(given)
    if dims is None or keep is None:
        return None
    known = [dim for dim in dims if dim is not None]
    from_end = all(dim < 0 for dim in known)
    if len(known) < len(dims) or not known or not (from_end or all(dim >= 0 for dim in known)):
        return None
    for dim in sorted(known, reverse=not from_end):  # a removed dim moves no dim that follows
        shape = shapes.remove_dim(shape, dim, keep)
    return shape


def _reduction(change: Callable[[Dtypes], Dtypes]) -> Callable[[Call], Known]:
    def made(call: Call) -> Known:
        first = call.first()
        return TensorFacts(change(first.dtypes), _reduce_shape(call, first.shape))

    return made


def _pair(call: Call) -> Known:
    """`max()` is a tensor, `max(dim)` values and indices, `max(other)` elementwise."""
    first, given = call.first(), call.get("dim")
    if given is None:
        return replace(first, shape=KnownSizes(())) if not call.named and call.name != "mode" else None
    if call.reader.tensor(given) is not None:
        return _binary("arithmetic")(call)
    if call.reader.number(given) is None:
        return None
    shape = _reduce_shape(call, first.shape)
    return TensorFacts(first.dtypes, shape), TensorFacts(INT64, shape)


def _top(call: Call) -> Known:
    first, dim = call.first(), call.number("dim", -1)
    shape = None if dim is None else shapes.resized(first.shape, dim, call.number("k", None))
    return TensorFacts(first.dtypes, shape), TensorFacts(INT64, shape)


def _kth(call: Call) -> Known:
    first, keep = call.first(), call.flag("keepdim")
    shape = None if keep is None else shapes.remove_dim(first.shape, call.number("dim", -1), keep)
    return TensorFacts(first.dtypes, shape), TensorFacts(INT64, shape)


def _members(call: Call) -> tuple[list[TensorFacts], bool] | None:
    """The tensors that are joined, and whether these are all: of a comprehension there is one for any number."""
    given = call.get("tensors")
    items = None if given is None else call.reader.items(given)
    if items:
        return [call.reader.tensor(item) or NOTHING for item in items], True
    made = None if given is None else call.reader.added_items(given)
    return ([call.reader.tensor(item) or NOTHING for item in made], False) if made else None


def _dtype_of_all(members: list[TensorFacts]) -> Dtypes:
    found = members[0].dtypes
    for member in members[1:]:
        found = promote_dtypes(found, member.dtypes)
    return found


def _join(call: Call) -> Known:
    found = _members(call)
    if found is None:
        return None
    members, all_known = found
    dim = call.number("dim", 0) if "axis" not in call.named else None
    shape = shapes.joined([one.shape for one in members], dim)
    if not all_known:
        shape = None if dim is None else shapes.resized(shape, dim, None)
    return TensorFacts(_dtype_of_all(members), shape)


def _stack_facts(call: Call) -> Known:
    found = _members(call)
    if found is None:
        return None
    members, all_known = found
    dim = call.number("dim", 0)
    shape = shapes.unsqueeze_sizes(shapes.same_rank_shapes([one.shape for one in members]), dim)
    if shape is not None:
        count = len(members) if all_known and dim is not None else None
        shape = shapes.resized(shape, dim or 0, count)
    return TensorFacts(_dtype_of_all(members), shape)


def _dtype_of_members(call: Call) -> Known:
    found = _members(call)
    return None if found is None else TensorFacts(_dtype_of_all(found[0]), None)


def _equation(call: Call) -> Known:
    """`torch.einsum("b t h, b t -> b h", x, w)`: the letters have the sizes of the operands."""
    text = call.plain[0].value if call.plain and isinstance(call.plain[0], nodes.StrExpr) else ""
    ins, arrow, out = text.replace(" ", "").partition("->")
    operands = [call.reader.tensor(operand) or NOTHING for operand in call.plain[1:]]
    if not arrow or "." in text or len(ins.split(",")) != len(operands):
        return None
    sizes: dict[str, int | None] = {}
    base, extra = None, 0
    for letters, operand in zip(ins.split(","), operands, strict=True):
        last = (None,) * len(letters) if operand.shape is None else operand.shape.last(len(letters))
        sizes |= {letter: size for letter, size in zip(letters, last, strict=True) if size is not None}
        if base is None and operand.shape is not None and operand.shape.base is not None:
            base, extra = operand.shape.base, operand.shape.extra + len(out) - len(letters)
    return TensorFacts(_dtype_of_all(operands), KnownSizes(tuple(map(sizes.get, out)), base, extra))


def _positions(call: Call) -> Known:
    """Counts and positions; with weights or `out_int32` they are something else."""
    alone = call.name != "bincount" or len(call.rest()) == 0
    return TensorFacts(INT64, None) if alone and call.named.keys() <= {"minlength", "right", "sorter"} else None


def _product(call: Call) -> Known:
    given = [*call.plain, *call.named.values()]
    other = call.reader.tensor(given[-1]) if given else None
    first = call.first()
    if other is None:
        return None
    known = [one.dtypes for one in (first, other) if one.dtypes is not None]
    dtypes = frozenset.intersection(*known) if known else None
    return TensorFacts(dtypes or None, shapes.multiply_sizes(first.shape, other.shape))


def _rows(call: Call) -> Known:
    first, dim, given = call.first(), call.number("dim", None), call.get("index")
    index = None if given is None else call.reader.tensor(given)
    size = index.shape.dims[0] if index is not None and index.shape is not None and index.shape.rank == 1 else None
    return replace(first, shape=None if dim is None else shapes.resized(first.shape, dim, size))


def _gather_facts(call: Call) -> Known:
    given = call.get("index")
    index = None if given is None else call.reader.tensor(given)
    return replace(call.first(), shape=None if index is None else index.shape)


_KINDS_OF_NUMBERS: Final = {"bool": BOOL, "int": INT64, "float": FLOATS}


def _where(call: Call) -> Known:
    """`torch.where(condition, a, b)` and `a.where(condition, b)`."""
    chosen = call.plain[1:3] if call.own is None else [_OWN, *call.plain[1:2]]
    condition = call.reader.tensor(call.plain[0]) if call.plain else None
    if len(chosen) != 2:
        return None
    reader = _Bound(call.reader, call.own)
    both = operated(reader, "arithmetic", *chosen)  # type: ignore[arg-type]  # it reads _OWN only
    if both is None and None not in (kinds := {_KINDS_OF_NUMBERS.get(reader.kind_of_number(one)) for one in chosen}):
        both = TensorFacts(FLOATS if FLOATS in kinds else max(kinds, key=INT64.__eq__), KnownSizes(()))
    if both is None:
        return None
    return replace(both, shape=shapes.broadcast(both.shape, None if condition is None else condition.shape))


def _one_hot(call: Call) -> Known:
    shape = call.first().shape
    given = call.number("num_classes", None)
    count = None if given is None or given < 0 else given
    added = None if shape is None else replace(shape, dims=(*shape.dims, count), extra=shape.extra + 1)
    return TensorFacts(INT64, added)


def _loss(call: Call) -> Known:
    dtypes = call.first().dtypes
    reduction = call.named.get("reduction")
    known = reduction is None or (isinstance(reduction, nodes.StrExpr) and reduction.value != "none")
    return TensorFacts(
        dtypes, KnownSizes(()) if known and len(call.plain) == 2 and "reduce" not in call.named else None
    )


def _flatten_facts(call: Call) -> Known:
    first = call.first()
    start, end = call.number("start_dim", 0), call.number("end_dim", -1)
    return replace(first, shape=shapes.flattened(first.shape, start, end))


def _unflatten_facts(call: Call) -> Known:
    first, given = call.first(), call.get("sizes")
    wanted = None if given is None else call.reader.sizes(given)
    return replace(first, shape=shapes.unflatten_sizes(first.shape, call.number("dim", None), wanted))


def _move_facts(call: Call) -> Known:
    first = call.first()
    shape = first.shape
    return replace(first, shape=shape and replace(shape, dims=() if shape.base else (None,) * len(shape.dims)))


def _narrow_facts(call: Call) -> Known:
    first, dim = call.first(), call.number("dim", None)
    return replace(first, shape=None if dim is None else shapes.resized(first.shape, dim, call.number("length", None)))


def _squeeze_facts(call: Call) -> Known:
    first = call.first()
    dim = call.number("dim", None)
    return replace(first, shape=shapes.squeeze_sizes(first.shape, dim))


def _shaped_by(change: Callable[[Call, KnownSizes | None], KnownSizes | None]) -> Callable[[Call], Known]:
    def made(call: Call) -> Known:
        first = call.first()
        return replace(first, shape=change(call, first.shape))

    return made


def _like_other(call: Call) -> Known:
    other = call.reader.tensor(call.plain[0]) if call.plain else None
    if call.name == "type_as":
        return replace(call.first(), dtypes=None if other is None else other.dtypes)
    return replace(call.first(), shape=None if other is None else other.shape)


def _transpose_facts(call: Call) -> Known:
    first = call.first()
    return replace(
        first, shape=None if first.shape is None or first.shape.rank != 2 else shapes.swap_sizes(first.shape, 0, 1)
    )


def _spread(call: Call) -> Known:
    """`std`, `var` and `norm`, whose further arguments mean several things."""
    first = call.first()
    alone = not call.rest() and not call.named
    by_name = not call.rest() and call.named.keys() <= {"dim", "keepdim"} and "dim" in call.named
    shape = _reduce_shape(call, first.shape) if by_name else None
    return TensorFacts(magnitudes(first.dtypes), KnownSizes(()) if alone else shape)


def _clamp_facts(call: Call) -> Known:
    """Bounds that are floats make floats of integers."""
    first = call.first()
    kinds = {call.reader.kind_of_number(value) for value in [*call.rest(), *call.named.values()]}
    dtypes = first.dtypes
    for kind in kinds - {""}:
        dtypes = with_number(dtypes, kind)
    return None if "" in kinds else replace(first, dtypes=dtypes)


def _reshape_facts(call: Call) -> Known:
    """`view` may also be given a dtype."""
    wanted = call.varargs("shape")
    if wanted is None and call.name == "view":
        return None
    first = call.first()
    return replace(first, shape=shapes.reshaped(first.shape, wanted))


def _chunk_facts(call: Call) -> Known:
    first, count, dim = call.first(), call.number("chunks", None), call.number("dim", 0)
    size = None if dim is None else shapes.size_at(first.shape, dim)
    if count is None or not 0 < count <= _PARTS:
        return None
    if dim is None or size is None or size % count:
        return None  # there may be fewer
    return (replace(first, shape=shapes.resized(first.shape, dim, size // count)),) * count


def _split_facts(call: Call) -> Known:
    """Parts of one size, the last of them perhaps smaller, or of the sizes in a list."""
    first, dim, given = call.first(), call.number("dim", 0), call.get("split_size")
    wanted = None if given is None else call.reader.sizes(given)
    if wanted is None or dim is None:
        return None
    one = call.reader.number(given)
    whole = shapes.size_at(first.shape, dim) if one is not None else None
    if one is not None:
        count = 0 if whole is None or one < 1 else whole // one
        wanted = (one,) * count + ((whole % one,) if count and whole is not None and whole % one else ())
    parts = tuple(replace(first, shape=shapes.resized(first.shape, dim, size)) for size in wanted)
    return parts if 0 < len(parts) <= _PARTS else None


def _unbind_facts(call: Call) -> Known:
    first, dim = call.first(), call.number("dim", 0)
    size = None if dim is None else shapes.size_at(first.shape, dim)
    one = replace(first, shape=shapes.remove_dim(first.shape, dim))
    return (one,) * size if size is not None and 0 < size <= _PARTS else None


_PARTS: Final = 64
_MAKERS: dict[str, Callable[[Call], Known]] = {
    **MAKERS,
    "chunk": _chunk_facts,
    "split": _split_facts,
    "unbind": _unbind_facts,
    "same": lambda call: call.first(),
    "magnitude": _unary(magnitudes),
    "floating": _unary(floating),
    "boolean": _unary(lambda _: BOOL),
    "arithmetic": _binary("arithmetic"),
    "division": _binary("division"),
    "float_binary": _binary("division"),
    "comparison": _binary("comparison"),
    "bitwise": _binary("arithmetic"),
    "reduce_sum": _reduction(summed),
    "reduce_float": _reduction(floating),
    "reduce_same": _reduction(lambda dtypes: dtypes),
    "reduce_bool": _reduction(lambda dtypes: BOOL if dtypes is not None and "uint8" not in dtypes else _BOOL_OR_BYTE),
    "spread": _spread,
    "clamped": _clamp_facts,
    "squared": _unary(lambda dtypes: with_number(dtypes, "int")),
    "reduce_index": _reduction(lambda _: INT64),
    "pair": _pair,
    "cumulative": _unary(summed),
    "cumulative_pair": lambda call: (call.first(), replace(call.first(), dtypes=INT64)),
    "topk": _top,
    "kthvalue": _kth,
    "index_same": _unary(lambda _: INT64),
    "join": _join,
    "stack": _stack_facts,
    "product": _product,
    "select_rows": _rows,
    "gathered": _gather_facts,
    "one_dim": lambda call: replace(call.first(), shape=KnownSizes((None,))),
    "unknown_dims": lambda call: replace(call.first(), shape=None),
    "where": _where,
    "one_hot": _one_hot,
    "loss": _loss,
    "drawn": lambda call: call.first(),
    "drawn_index": lambda call: TensorFacts(
        INT64, shapes.resized(call.first().shape, -1, call.number("num_samples", None))
    ),
    "indices": lambda call: TensorFacts(INT64, KnownSizes((None, None))) if not call.named else None,
    "positions": _positions,
    "equation": _equation,
    "dtype_of_members": _dtype_of_members,
    "dtype_only": lambda call: TensorFacts(call.first().dtypes, None) if "return_indices" not in call.named else None,
    "one_number": lambda call: replace(call.first(), shape=KnownSizes(())),
    "reshape": _reshape_facts,
    "unflatten": _unflatten_facts,
    "like_other": _like_other,
    "flatten": _flatten_facts,
    "unsqueeze": _shaped_by(lambda call, shape: shapes.unsqueeze_sizes(shape, call.number("dim", None))),
    "squeeze": _squeeze_facts,
    "permute": _shaped_by(lambda call, shape: shapes.permuted(shape, call.varargs("dims"))),
    "swap": _shaped_by(
        lambda call, shape: shapes.swap_sizes(shape, call.number("dim0", None), call.number("dim1", None))
    ),
    "turn": _transpose_facts,
    "move": _move_facts,
    "expand": _shaped_by(lambda call, shape: shapes.expanded(shape, call.varargs("size"))),
    "narrow": _narrow_facts,
    "select": _shaped_by(lambda call, shape: shapes.remove_dim(shape, call.number("dim", None))),
}
