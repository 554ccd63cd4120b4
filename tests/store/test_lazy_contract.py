"""Every operation of the contract suite on lazy stacks, against the same operation on plain dense data."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tensorclass import LazyStackedTensorDict, TensorCollection, TensorDict, lazy_stack
from tensorclass._operations import ROWS, Row
from tensorclass.errors import BatchSizeError, TensorClassError, UnsupportedOperationError
from tests.contract import _relayouts as _relayouts
from tests.contract._kinds import KINDS, mixed
from tests.contract._model import Model, as_list, assert_same
from tests.contract._operations import OPS, Op
from tests.contract._pointwise import expected, overlaps
from tests.contract.test_operations import wanted_of
from tests.contract.test_pointwise import NUMBERS, maker

BASES = ("flat", "nested", "assorted", "line", "thin", "named")
REFUSED: dict[str, type[Exception]] = {
    "to(batch_size=[])": BatchSizeError,  # the members give the batch size
    "flatten(inplace)": UnsupportedOperationError,
    "roll(inplace)": UnsupportedOperationError,
    "contiguous(inplace)": UnsupportedOperationError,
}
MEMBERWISE = {"apply_", "apply"}  # their function reverses dim 0, which is another dim in the members
LAZY = {
    "permute(reversed)", "transpose(0, -1)", "unsqueeze(0)", "unsqueeze(-1)", "flip(0)", "expand(2, ...)", "[slice]",
    "[tensor]", "[mask0]", "[new]", "[dots]", "split(1)", "chunk(2)", "clone", "copy", "to(torch.float64)", "apply(==)",
    "torch.stack", "method.cat", "masked_fill", "where", "view(1, *size)", "zeros_like", "deepcopy", "flatten_keys",
    "exclude(a)", "select(a)", "named_apply", "reshape(1, *size)",
}  # fmt: skip
"""Operations whose result is a lazy stack again."""


def stack_of(kind: str, dim: int) -> LazyStackedTensorDict:
    """A lazy stack that holds what a dense container of the contract suite holds."""
    dense = KINDS[kind](mixed())
    stack: LazyStackedTensorDict = lazy_stack(
        [part.clone() for part in dense.unbind(dim)], dim, stack_dim_name=dense.names[dim]
    )
    return stack


def cases() -> list[Any]:
    """Every operation whose arguments suit, on every base along every dim of it that comes to two."""
    found = []
    for kind in BASES:
        size = tuple(KINDS[kind](mixed()).batch_size)
        for dim in range(min(2, len(size))):
            found += [
                pytest.param(op, kind, dim, id=f"{kind}-{dim}-{op.name}")
                for op in OPS
                if op.suits(size) and op.name not in MEMBERWISE
            ]
    return found


def sizes_agree(collection: TensorCollection) -> None:
    """Every entry that can be read has the batch dims first."""
    size = collection.batch_size
    for value in collection._entries().values():
        shape = getattr(value, "shape", None)
        assert shape is None or shape[: len(size)] == size or not hasattr(value, "batch_size")
        if isinstance(value, TensorCollection):
            assert value.batch_size[: len(size)] == size
            sizes_agree(value)


@pytest.mark.parametrize(("op", "kind", "dim"), cases())
def test_operation_on_a_lazy_stack(op: Op, kind: str, dim: int):
    """What torch does to the stacked data; writes reach the members, and other operations leave them alone."""
    stack = stack_of(kind, dim)
    members = stack.tensordicts
    before = Model.of(stack).frozen()
    if op.name in REFUSED:
        with pytest.raises(REFUSED[op.name]):
            op.call(stack)
        assert_same(stack, before)
        return
    wanted = wanted_of(op, before)
    if isinstance(wanted, Exception):
        with pytest.raises((RuntimeError, TypeError, NotImplementedError)):
            op.call(stack)
        return
    results = op.call(stack)
    assert len(as_list(results)) == len(as_list(wanted))
    for result, model in zip(as_list(results), as_list(wanted), strict=True):
        sizes_agree(result)
        assert_same(result, model, nests=not op.loose)
        assert not op.names or result.names == stack.names
    if op.writes or op.restructures:
        assert all(a is b for a, b in zip(stack.tensordicts, members, strict=True))
        assert_same(lazy_stack(members, dim), as_list(wanted)[-1], nests=not op.loose)
    else:
        assert_same(stack, before)


@pytest.mark.parametrize("op", [op for op in OPS if op.name in LAZY], ids=lambda op: op.name)
@pytest.mark.parametrize("dim", [0, 1])
def test_results_stay_lazy(op: Op, dim: int):
    """What the members can do one by one gives a lazy stack."""
    results = as_list(op.call(stack_of("flat", dim)))
    assert all(type(result) is LazyStackedTensorDict for result in results)


def test_every_lazy_operation_is_looked_at():
    """The names in the list above are operations of the suite, but for spelling that would make the test empty."""
    names = {op.name for op in OPS}
    assert len(LAZY & names) > 20
    assert {*REFUSED, *MEMBERWISE} - names <= {"apply"}


def operands(row: Row, stack: Any, dim: int) -> list[Any]:
    """Operands of each kind for a stack: another stack, a dense container, a tensor over the batch, a number."""
    make = maker(row.domain)
    dense = KINDS["nested"](make)
    lazy = lazy_stack(list(KINDS["nested"](make).unbind(dim)), dim)
    return [lazy, dense, make(2, 3), make(3), NUMBERS[row.domain], make()]


def pointwise_cases() -> list[Any]:
    """Each row of the table with each kind of operand."""
    return [
        pytest.param(row, which, dim, id=f"{row.name}-{which}-{dim}")
        for row in ROWS
        for dim in (0, 1)
        for which in (range(6) if row.arity == 1 else (0,))
    ]


@pytest.mark.parametrize(("row", "which", "dim"), pointwise_cases())
def test_pointwise_rows(row: Row, which: int, dim: int):
    """The result is what torch gives on the stacked leaves, and lazy; in place it reaches the members."""
    make = maker(row.domain)
    stack = lazy_stack([part.clone() for part in KINDS["nested"](make).unbind(dim)], dim)
    chosen = operands(row, stack, dim)
    others = [] if row.arity == 0 else [chosen[which]] if row.arity == 1 else [chosen[0], chosen[1]]
    source = Model.of(stack).frozen()
    try:
        wanted = expected(row, source, others)
    except (RuntimeError, TypeError, NotImplementedError):
        with pytest.raises((RuntimeError, TypeError, TensorClassError)):
            getattr(stack, row.name)(*others)
        return
    result = getattr(stack, row.name)(*others)
    assert type(result) is LazyStackedTensorDict
    assert_same(result, wanted, exact=False)
    writes = getattr(stack, f"{row.name}_", None)
    if writes is None or overlaps(stack):
        return
    try:
        writes(*others)
    except TensorClassError:
        assert_same(stack, source)
        return
    assert_same(stack, Model.of(wanted_as(stack, wanted)), exact=False)


def wanted_as(stack: Any, wanted: Model) -> Any:
    """The wanted values in the dtypes of the members, which an in-place operation keeps."""
    dense = stack.densify()
    for path, leaf in wanted.leaves.items():
        dense.set(path, leaf.to(dense.get(path).dtype))
    return dense


def test_an_operation_on_a_dense_container_takes_a_lazy_operand():
    """The left operand says of which kind the result is."""
    dense = TensorDict(a=torch.ones(2, 3), n={"b": torch.ones(2)}, batch_size=[2])
    stack = lazy_stack([part.clone() for part in dense.unbind(0)])
    assert type(dense + stack) is TensorDict
    assert ((dense + stack)["n", "b"] == 2).all()
    holder = TensorDict({"s": stack, "t": torch.ones(2)}, batch_size=[2])
    assert ((holder + TensorDict({"s": dense, "t": torch.ones(2)}, batch_size=[2]))["s", "a"] == 2).all()
    assert ((TensorDict({"s": dense, "t": torch.ones(2)}, batch_size=[2]) * holder)["s", "n", "b"] == 1).all()
