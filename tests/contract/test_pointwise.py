"""Every row of the pointwise table x every kind of operand x every kind of container, against torch on each leaf."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass._operations import ROWS, Row
from tensorclass.core import VALUES
from tensorclass.errors import StructureError, TensorClassError
from tensorclass.ops._kernels import KERNELS
from tests.contract._invariants import check
from tests.contract._kinds import Maker
from tests.contract._model import Model, assert_same
from tests.contract._pointwise import expected, overlaps, spans_batch
from tests.contract._typed_kinds import ALL_KINDS
from tests.contract.test_operations import assert_new

NUMBERS = {"any": 0.5, "positive": 2.0, "unit": 0.25, "nonzero": -3.0, "int": 3, "bool": True}
OPERANDS = ("container", "number", "scalar", "batch", "row")


def maker(domain: str) -> Maker:
    """Tensors on which an operation of this domain is well defined."""

    def make(*shape: int) -> Tensor:
        if domain == "bool":
            return torch.rand(shape) > 0.5
        if domain == "int":
            return torch.randint(-5, 6, shape)
        raw = torch.rand(shape, dtype=torch.float64)
        if domain in ("any", "nonzero"):
            return (raw + 0.1) * torch.where(torch.rand(shape) > 0.5, 3.0, -3.0)
        return raw * 0.8 + 0.1

    return make


def operand(which: str, domain: str, container: Any, kind: str) -> Any:
    """A second operand of one kind for a container."""
    size, make = tuple(container.batch_size), maker(domain)
    if which == "container":
        return ALL_KINDS[kind](make).unlock_()
    if which == "number":
        return NUMBERS[domain]
    return make(*{"scalar": (), "batch": size, "row": size[-1:]}[which])


def cases(row: Row) -> Iterator[tuple[str, ...]]:
    """The combinations of operand kinds: all of them for two operands, every kind twice and mixed for three."""
    if row.arity == 0:
        yield ()
    for first in OPERANDS if row.arity else ():
        if row.arity == 1:
            yield (first,)
        else:
            yield from ((first, second) for second in OPERANDS)


@pytest.mark.parametrize("kind", ALL_KINDS)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_pointwise(row: Row, kind: str, record_property: Callable[[str, object], None]):
    """Torch's result for each leaf, in a new container or in the same tensors; what is no value stays."""
    count = 0
    for combination in cases(row):
        container = ALL_KINDS[kind](maker(row.domain))
        others = [operand(which, row.other_domain, container, kind) for which in combination]
        out_of_place(row, container, others)
        count += 1
        if row.in_place:
            in_place(row, container, others)
            count += 1
    record_property("cases", count)


def out_of_place(row: Row, container: Any, others: list[Any]) -> None:
    """A new container of the same class, names and batch size; the source is as it was."""
    source = Model.of(container)
    before = source.frozen()
    if spans_batch(others) and "shared" in source.roles.values():
        with pytest.raises(StructureError, match="has no batch dims"):
            getattr(container, row.name)(*others)
    else:
        result = getattr(container, row.name)(*others)
        check(result)
        assert_same(result, expected(row, source, others))
        assert (type(result), result.names, result.device) == (type(container), container.names, container.device)
        assert result.is_locked == (container.is_locked and (row.arity != 1 or KERNELS[row.name].checked))
        result.unlock_()
        assert_new(container, [result], False)
    check(container)
    assert_same(container, before)


def in_place(row: Row, container: Any, others: list[Any]) -> None:
    """The same tensors with new values, or an error and nothing written."""
    before = Model.of(container).frozen()
    tensors = container._leaves(VALUES)
    nameless = spans_batch(others) and "shared" in before.roles.values()
    if nameless or overlaps(container):
        with pytest.raises(TensorClassError):
            getattr(container, f"{row.name}_")(*others)
        assert_same(container, before)
    else:
        assert getattr(container, f"{row.name}_")(*others) is container
        assert_same(container, expected(row, before, others))
        assert all(a is b for a, b in zip(container._leaves(VALUES), tensors, strict=True))
    check(container)
