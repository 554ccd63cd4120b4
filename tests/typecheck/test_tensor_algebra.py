"""What the plugin knows of operations of torch is what torch does: dtypes, and shapes of which a part may be known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch
from mypy import nodes
from torch import Tensor
from torch.nn import functional

from tensorclass.typecheck.plugin._call_parts import Call, Known, TensorFacts
from tensorclass.typecheck.plugin._promotion import promote_dtypes, with_number
from tensorclass.typecheck.plugin._sizes import KnownSizes, Shape, flattened, unflatten_sizes
from tensorclass.typecheck.plugin._torch_calls import called
from tensorclass.typecheck.plugin._torch_table import KINDS

DTYPES = [
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]
FIXED: dict[str, tuple[tuple[object, ...], ...]] = {
    **dict.fromkeys(("clamp", "clip"), ((0, 2), (0.5,))),
    **dict.fromkeys(("clamp_min", "clamp_max", "pow"), ((1,), (0.5,))),
    **dict.fromkeys(
        ("sum", "prod", "mean", "amax", "argmax", "all", "logsumexp", "count_nonzero"), ((-1,), (0,), (1,))
    ),
    **dict.fromkeys(("max", "min", "median", "cumsum", "sort", "cummax", "argsort"), ((-1,), (0,), (1,))),
    **dict.fromkeys(("unsqueeze", "softmax", "log_softmax"), ((-1,), (0,), (2,))),
    **dict.fromkeys(("transpose", "swapaxes"), ((0, 1), (-1, -2), (0, -1))),
    **dict.fromkeys(("add", "sub", "mul", "div", "eq", "lt", "floor_divide", "remainder"), ((2,), (2.5,), ("other",))),
    **dict.fromkeys(("maximum", "atan2", "logical_and"), (("other",),)),
    "flatten": ((), (1,), (0, 1)),
    "permute": ((2, 0, 1),),
    "reshape": ((6, 4), (-1,), (2, -1)),
    "expand": ((5, -1, -1, -1),),
    "squeeze": ((-1,),),
    "topk": ((2,), (2, 0)),
    "kthvalue": ((1,), (1, 0)),
    "select": ((0, 1), (-1, 0)),
    "narrow": ((1, 0, 2), (-1, 0, 2)),
    "norm": ((),),
    "square": ((),),
    "diff": ((), (1, -1), (2, 0), (1, 1)),
    "unfold": ((-1, 2, 1), (0, 2, 1), (1, 2, 2)),
    "repeat": ((2, 1, 1), (3, 1, 2, 1)),
    "inverse": ((),),
    "logcumsumexp": ((0,), (-1,)),
    "quantile": ((0.5,),),
    "argwhere": ((),),
    "abs": ((),),
}
"""The arguments behind the tensor, of operations that take some."""
UNARY = [
    name
    for name, kind in KINDS.items()
    if kind in ("floating", "boolean", "magnitude") and name not in (*FIXED, "isin", "softmin")
]


class Reader:
    """Reads arguments that are numbers, and `other`."""

    def __init__(self, other: TensorFacts) -> None:
        self.other = other

    def tensor(self, expr: nodes.Expression) -> TensorFacts | None:
        """The other tensor."""
        return self.other if isinstance(expr, nodes.NameExpr) else None

    def number(self, expr: nodes.Expression | None) -> int | None:
        """An integer that is written out."""
        return expr.value if isinstance(expr, nodes.IntExpr) else None

    def sizes(self, expr: nodes.Expression) -> Shape | None:
        """One integer."""
        return (expr.value,) if isinstance(expr, nodes.IntExpr) else None

    def items(self, expr: nodes.Expression) -> None:
        """No list."""

    def added(self, expr: nodes.Expression) -> None:
        """No list of any length."""

    def kind_of_number(self, expr: nodes.Expression) -> str:
        """The kind of a number."""
        return {nodes.IntExpr: "int", nodes.FloatExpr: "float"}.get(type(expr), "")  # type: ignore[call-overload,no-any-return]  # of nodes

    def dtype(self, expr: nodes.Expression) -> None:
        """No dtype."""


def _node(value: object) -> nodes.Expression:
    if isinstance(value, str):
        return nodes.NameExpr(value)
    return nodes.IntExpr(value) if isinstance(value, int) else nodes.FloatExpr(value)  # type: ignore[arg-type]  # a float


def _fits(known: Known, real: Any) -> bool:
    if isinstance(known, tuple):
        return all(one is None or _fits(one, value) for one, value in zip(known, real, strict=True))
    if known is None:
        return True
    assert isinstance(real, Tensor)
    dtype = str(real.dtype).removeprefix("torch.")
    shape, rank = known.shape, real.dim()
    if shape is None:
        return known.dtypes is None or dtype in known.dtypes
    total = rank if shape.base is None else _BATCH + shape.extra
    sizes = tuple(real.shape)[rank - len(shape.dims) :]
    same = all(size in (None, found) for size, found in zip(shape.dims, sizes, strict=True))
    return (
        total == rank
        and (shape.base is not None or len(shape.dims) == rank)
        and same
        and dtype in (known.dtypes or {dtype})
    )


_BATCH = 1
"""How many of the dims of a tensor are those of a batch, where a shape is known behind them only."""


def _calls() -> Iterator[tuple[str, tuple[object, ...]]]:
    yield from ((name, ()) for name in UNARY)
    yield from ((name, arguments) for name, rows in FIXED.items() for arguments in rows)


@pytest.mark.parametrize(("name", "arguments"), list(_calls()))
def test_an_operation_gives_what_torch_gives(name: str, arguments: tuple[object, ...]) -> None:
    """Whatever is said of the result holds, for every dtype that the operation takes, with and without batch dims."""
    ran = 0
    for dtype, shape in product(DTYPES, ((2, 3, 4), (2, 1, 1), ())):
        given = torch.ones(shape, dtype=getattr(torch, dtype))
        function = getattr(Tensor, name, None) or getattr(functional, name)
        try:
            real = function(given, *(torch.ones(4) if value == "other" else value for value in arguments))
        except (RuntimeError, IndexError, TypeError):
            continue
        ran += 1
        whole = TensorFacts(frozenset({dtype}), KnownSizes(shape))
        reader = Reader(TensorFacts(frozenset({"float32"}), KnownSizes((4,))))
        plain = [_node(value) for value in arguments]
        forms = [whole, replace(whole, dtypes=None), TensorFacts(whole.dtypes, None)]
        if shape:
            base = object()
            forms += [replace(whole, shape=KnownSizes(shape[_BATCH:], base, len(shape) - _BATCH))]
            forms += [replace(whole, shape=KnownSizes(shape[-1:], base, len(shape) - _BATCH))]
        for own in forms:
            known = called(Call(reader, name, plain, {}, own))
            assert _fits(known, real), (dtype, shape, own, str(known), real.shape if isinstance(real, Tensor) else real)
    assert ran


@pytest.mark.parametrize("known", range(1, 5))
def test_dims_that_are_merged_and_divided_behind_unknown_ones(known: int) -> None:
    """All pairs of dims from the back, of a shape of which some or all event dims are known."""
    whole = torch.zeros(2, 3, 4, 5, 6)
    sizes = KnownSizes(tuple(whole.shape[-known:]), object(), 4)
    for start, end in product(range(-4, 0), range(-4, 0)):
        if start <= end:
            merged = flattened(sizes, start, end)
            assert merged is not None
            assert _fits(TensorFacts(None, merged), whole.flatten(start, end)), (start, end, str(merged))
    for dim, wanted in ((-1, (2, 3)), (-1, (-1, 2)), (-2, (5, -1)), (-2, (1, 5, 1))):
        divided = unflatten_sizes(sizes, dim, wanted)
        assert divided is None or _fits(TensorFacts(None, divided), whole.unflatten(dim, wanted)), (dim, str(divided))
    assert unflatten_sizes(sizes, -1, (2, 3)) is not None


@pytest.mark.filterwarnings("ignore:ComplexHalf")
@pytest.mark.parametrize("one", DTYPES)
def test_promotion_is_that_of_torch(one: str) -> None:
    """Two tensors with and without dims, and a tensor with a number."""
    for other, ranks in product(DTYPES, product((0, 1), (0, 1))):
        left = torch.ones((1,) * ranks[0], dtype=getattr(torch, one))
        right = torch.ones((1,) * ranks[1], dtype=getattr(torch, other))
        real = str((left * right).dtype).removeprefix("torch.")
        known = promote_dtypes(frozenset({one}), frozenset({other}), ranks)
        assert known in (None, frozenset({real})), (other, ranks)
        unsure = promote_dtypes(frozenset({one}), frozenset({other}), (None, ranks[1]))
        assert unsure is None or real in unsure, (other, ranks)
    for number, kind in ((True, "bool"), (1, "int"), (1.5, "float")):
        real = str((torch.ones(1, dtype=getattr(torch, one)) * number).dtype).removeprefix("torch.")
        assert real in (with_number(frozenset({one}), kind) or {real})
