"""Every kind of entry in every container x every operation that picks elements or writes them, element by element.

A dense tensor of positions goes through the same operation of torch and says which element of the source stands where
in the result. That holds for entries that no dense container can hold as well.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import TensorDict
from tensorclass._operations import ROWS, Row
from tensorclass.core import VALUES
from tensorclass.errors import TensorClassError
from tests._marks import rest_is_slow
from tests.contract import _relayouts as _relayouts
from tests.contract._elements import Payload, Place, assert_elements, elements, equal, payload, same, shape_of
from tests.contract._entry_kinds import ENTRIES, UNEVEN, Size, cases, make
from tests.contract._model import Model, as_list
from tests.contract._operations import OPS, Op
from tests.contract._pointwise import by_torch

REFUSALS = (RuntimeError, TypeError, NotImplementedError, IndexError, KeyError, ValueError)
CASES = [pytest.param(*case, id="-".join(map(str, case))) for case in cases()]
MIXED = {"lazy_keys", "per_element", "ragged", "nested_class", "lazy_assorted", "lazy_typed", "jagged"}
APPLIES = {"apply_"}
"""Their function turns dim 0 of what it is given, which is another dim in the members of a stack."""
DENSE = {"contiguous", "contiguous(canonical)", "roll", "rot90", "repeat", "repeat_interleave", "tile", "gather"}
"""Operations that need one tensor of each entry: they copy, and refuse members that differ."""


MEETS = {"where", "torch.where", "method.cat(-1)", "torch.cat(-1)"}
"""Operations in which one element meets another: refused where they have other keys or shapes."""
SKIPS = {("lazy_shapes", "where"), ("lazy_sizes", "where"), ("lazy_lazy_uneven", "where")}
"""Event shapes broadcast in `where`, as in arithmetic."""


def needs_dense(op: Op) -> bool:
    """Whether an operation works on stacked values."""
    return op.name.split("(")[0] in DENSE


def positions(op: Op, size: Size) -> list[tuple[Size, list[Place]]] | None:
    """For each result the batch size and the source's place of every element; None for what is no choice of them."""
    count = torch.Size(size).numel()
    numbers = torch.arange(count, dtype=torch.float32).reshape(size)
    found: list[list[Model]] = []
    for values in (numbers.clone(), numbers * 3 + 5):
        try:
            found.append(list(as_list(op.model(Model(size, {("p",): values}, {("p",): "tensor"})))))
        except REFUSALS:
            return None
    result = []
    for one, other in zip(*found, strict=True):
        a, b = one.leaves.get(("p",)), other.leaves.get(("p",))
        if a is None or b is None or a.dtype is not torch.float32 or not torch.equal(a * 3 + 5, b):
            return None
        places = list(product(*map(range, size)))
        result.append((tuple(a.shape), [places[int(i)] for i in a.reshape(-1)]))
    return result


def picks(size: Size) -> list[tuple[Op, list[tuple[Size, list[Place]]]]]:
    """The operations that give elements of their source, and which."""
    found = []
    for op in OPS:
        wanted = (
            None
            if op.untyped or op.schemaless or op.writes or op.restructures or not op.suits(size)
            else positions(op, size)
        )
        if wanted is not None and op.name.split(".")[0] not in ("to(torch",) and op.name not in CASTS:
            found.append((op, wanted))
    return found


CASTS = {"float32", "float()", "apply(batch_size)"}
PICKS = {size: picks(size) for size in ((2,), (2, 3))}


def expected(source: dict[Place, Payload], size: Size, picked: list[Place]) -> dict[Place, Payload]:
    """The elements of a result."""
    return {at: source[place] for at, place in zip(product(*map(range, size)), picked, strict=True)}


def failures(tries: list[tuple[str, Callable[[], None]]]) -> str:
    """What went wrong in each of many tries, a line for each."""
    told = []
    for name, attempt in tries:
        try:
            attempt()
        except (Exception, pytest.fail.Exception) as error:
            told.append(f"{name}: {type(error).__name__}: {str(error)[:300]}")
    return "\n".join(told)


@pytest.mark.parametrize(("kind", "holder", "size"), rest_is_slow(CASES, each=4))
def test_picks(kind: str, holder: str, size: Size, record_property: Callable[[str, object], None]):
    """The elements are those that torch picks, and the source is as it was; what needs dense values says so."""

    def attempt(op: Op, wanted: list[tuple[Size, list[Place]]]) -> None:
        container = make(kind, holder, size)
        source = elements(container)
        uneven = kind in UNEVEN
        try:
            results = as_list(op.call(container))
        except TensorClassError:
            if not (uneven and (needs_dense(op) or op.name in MEETS)):
                raise
            assert_elements(container, source)
            return
        assert len(results) == len(wanted)
        for result, (new_size, picked) in zip(results, wanted, strict=True):
            assert tuple(result.batch_size) == new_size
            assert_elements(result, expected(source, new_size, picked))
            if holder != "stack":  # whose elements are its members
                assert_own_structure(container, result)
        assert_elements(container, source)

    tries = [
        (op.name, lambda op=op, wanted=wanted: attempt(op, wanted))
        for op, wanted in PICKS[size]
        if (kind, op.name.split(".")[-1]) not in SKIPS
    ]
    record_property("cases", len(tries))
    told = failures(tries)
    assert not told, told


def assert_own_structure(source: Any, result: Any) -> None:
    """No container of the result is one of the source's: a key that is written to one is not in the other."""
    mine = containers(source)
    assert not {id(part) for part in mine} & {id(part) for part in containers(result)}, "structure is shared"


def containers(collection: Any) -> list[Any]:
    """A container and all below it, members of stacks included."""
    store = getattr(collection, "_store", collection)
    inner = store._members if store._stacked else store._data.values()
    found = [store]
    for value in inner:
        if hasattr(type(value), "_batch_size"):
            found += containers(value)
    return found


def storages(collection: Any) -> set[int]:
    """Where the tensors of a container lie."""
    return {leaf.untyped_storage().data_ptr() for leaf in collection._leaves(VALUES) if leaf.numel()}


def shares_when_dense(op: Op, size: Size) -> bool:
    """Whether torch gives views: of a dense container, every leaf of every result that has elements."""
    dense = TensorDict(a=torch.zeros(*size, 3), batch_size=size)
    results = [result for result in as_list(op.call(dense)) if result["a"].numel()]
    return bool(results) and all(storages(result) <= storages(dense) for result in results)


VIEWS = {size: [(op, wanted) for op, wanted in PICKS[size] if shares_when_dense(op, size)] for size in PICKS}
COPIES = {"reshape(-1)", "flatten", "flatten(0, 1)", "reshape(reversed)", "contiguous", "contiguous(canonical)"}
"""What may copy, and does where the stack dim is merged: `view` never does."""
EXPANDS = {"expand(2, ...)", "expand(2, -1...)", "expand(list)", "expand_as", "broadcast_to"}
"""Whose elements share memory, so that nothing can be written to them."""


NO_MEMORY = ("absent", "per_element", "shared")
"""Entries without elements of their own in memory."""


@pytest.mark.parametrize(
    ("kind", "holder", "size"), rest_is_slow([p for p in CASES if p.values[0] not in NO_MEMORY], each=4)
)
def test_views_share_memory(kind: str, holder: str, size: Size, record_property: Callable[[str, object], None]):
    """Where torch gives a view, what is written to the result is in the source, and nothing else of it changes."""

    def attempt(op: Op, wanted: list[tuple[Size, list[Place]]]) -> None:
        container = make(kind, holder, size)
        try:
            results = as_list(op.call(container))
        except TensorClassError:
            if kind in UNEVEN and needs_dense(op):
                return
            raise
        memory = elements(container, copy=False)
        before = elements(container)
        for result, (_, picked) in zip(results, wanted, strict=True):
            result.detach().zero_()
            for at in before:
                for path, value in memory[at].items():
                    zero = isinstance(value, Tensor) and at in picked
                    wanted_value = torch.zeros_like(value) if zero else before[at][path]
                    assert path[-1] == "table" or equal(value, wanted_value), f"{path} of element {at}"
            for at in before:
                for path, value in memory[at].items():
                    if isinstance(value, Tensor):
                        value.copy_(before[at][path])

    tries = [
        (op.name, lambda op=op, wanted=wanted: attempt(op, wanted))
        for op, wanted in VIEWS[size]
        if op.name not in COPIES | EXPANDS
    ]
    record_property("cases", len(tries))
    told = failures(tries)
    assert not told, told


@pytest.mark.parametrize(("kind", "holder", "size"), CASES)
def test_writes(kind: str, holder: str, size: Size, record_property: Callable[[str, object], None]):
    """Writes in place reach every entry; elements of another shape are refused, and nothing is written then."""

    def attempt(op: Op) -> None:
        container = make(kind, holder, size)
        before = elements(container)
        memory = elements(container, copy=False)
        wanted = positions(op, size)
        if wanted is None:
            return
        after = expected(before, *wanted[0])
        fits = all(shape_of(after[at]) == shape_of(before[at]) for at in before) or kind == "ragged"
        if not fits:
            with pytest.raises(REFUSALS):
                op.call(container)
            assert_elements(container, before)
            return
        assert op.call(container) is container
        assert_elements(container, after)
        for at, value in memory.items():
            for path, tensor in value.items():
                if isinstance(tensor, Tensor) and kind != "ragged":
                    assert torch.equal(tensor, after[at][path]), f"{path} of {at} is another tensor now"

    names = [op for op in OPS if op.writes and op.suits(size) and op.name not in APPLIES]
    names = [op for op in names if op.name != "update(inplace)" or kind not in MIXED]  # which leaves objects alone
    record_property("cases", len(names))
    told = failures([(op.name, lambda op=op: attempt(op)) for op in names])
    assert not told, told


# ---- keys ------------------------------------------------------------------------------------------------------------

FLAT = {"flatten_keys", "flatten and unflatten", "flatten_keys(inplace)", "rename_keys", "rename_keys(swap)"}
"""What leaves a stack is stacked, or refused where it differs."""
LEVEL = ("lazy", "lazy_last", "lazy_lazy", "lazy_assorted", "lazy_keys", "lazy_shapes", "lazy_lazy_uneven")
LATER = {"flatten(inplace)", "roll(inplace)", "contiguous(inplace)"}


def alone(element: Payload) -> TensorDict:
    """One element as a container without batch dims."""
    result = TensorDict()
    for path, value in element.items():
        result.set(path, value)
    return result


@pytest.mark.parametrize("size", PICKS)
@pytest.mark.parametrize("holder", ["dict", "deep"])
@pytest.mark.parametrize("kind", LEVEL)
def test_keys(kind: str, holder: str, size: Size, record_property: Callable[[str, object], None]):
    """An operation on keys does to a container what it does to each of its elements; in place it reaches members."""

    def attempt(op: Op) -> None:
        container = make(kind, holder, size)
        before = elements(container)
        try:
            results = as_list(op.call(container))
        except TensorClassError:
            if not (kind in UNEVEN and op.name in FLAT):
                raise
            assert_elements(container, before)
            return
        for at in before:
            wanted = as_list(op.call(alone(before[at])))
            assert len(results) == len(wanted)
            for result, other in zip(results, wanted, strict=True):
                assert same(payload(result, at), payload(other, ())), f"{payload(result, at)}\n{payload(other, ())}"
        if op.restructures:
            assert results[-1] is container

    names = [op for op in OPS if op.untyped and op.name not in LATER and op.name != "TensorDict"]
    record_property("cases", len(names))
    told = failures([(op.name, lambda op=op: attempt(op)) for op in names])
    assert not told, told


# ---- pointwise -------------------------------------------------------------------------------------------------------

OPERANDS: dict[str, Callable[[Any], Any]] = {
    "container": lambda c: c.clone(),
    "number": lambda c: 2,
    "batch": lambda c: torch.arange(1.0, 1 + c.numel(), dtype=torch.float64).reshape(c.batch_size),
    "row": lambda c: torch.arange(1.0, 1 + c.batch_size[-1], dtype=torch.float64),
}
ROW_KINDS = [kind for kind in ENTRIES if kind not in ("absent", "per_element")]
HOLDING = [
    ("dict", (2, 3)),
    *[pytest.param(*case, marks=pytest.mark.slow) for case in (("dict", (2,)), ("class", (2, 3)), ("stack", (2, 3)))],
]


def of_element(operand: Any, at: Place, path: tuple[Any, ...]) -> Any:
    """What an operand is for one leaf of one element."""
    if isinstance(operand, Tensor):
        return operand[at[len(at) - operand.ndim :]]
    return operand if isinstance(operand, int) else payload(operand, at)[path]


def pointwise(row: Row, element: Payload, at: Place, others: list[Any]) -> Payload:
    """An operation of the table by torch on the tensors of one element."""
    found = dict(element)
    for path, leaf in element.items():
        if isinstance(leaf, Tensor):
            args = [of_element(other, at, path) for other in others]
            found[path] = by_torch(row, leaf, args)
    return found


def assert_near(container: Any, wanted: dict[Place, Payload]) -> None:
    """As `assert_elements`, but for rounding."""
    given = elements(container)
    for at, element in wanted.items():
        assert given[at].keys() == element.keys()
        for path, value in element.items():
            if isinstance(value, Tensor):
                torch.testing.assert_close(given[at][path], value, equal_nan=True)


@pytest.mark.parametrize(("holder", "size"), HOLDING)
@pytest.mark.parametrize("kind", rest_is_slow(ROW_KINDS, each=3))
def test_pointwise(kind: str, holder: str, size: Size, record_property: Callable[[str, object], None]):
    """Every row of the table does to each element what torch does to its tensors; in place it reaches the members."""
    if (kind, holder) == ("jagged", "class"):
        size = size[:1]  # a field of torch's nested tensors has one batch dim

    def attempt(row: Row, which: str) -> None:
        container = make(kind, holder, size)
        others = [OPERANDS[which](container) for _ in range(row.arity)]
        before = elements(container)
        method = getattr(container, row.name)
        in_place = getattr(container, f"{row.name}_") if row.in_place else method
        batchless = which in ("batch", "row") and kind in ("shared", "lazy_assorted")
        try:
            wanted = {at: pointwise(row, element, at, others) for at, element in before.items()}
        except REFUSALS:
            wanted = {}
        if batchless or not wanted:
            for call in (method, in_place):
                with pytest.raises(REFUSALS):
                    call(*others)
            assert_elements(container, before)
            return
        assert_near(method(*others), wanted)
        assert_elements(container, before)
        if not row.in_place:
            return
        memory = elements(container, copy=False)
        if any(
            not torch.can_cast(v.dtype, before[at][p].dtype)
            for at, e in wanted.items()
            for p, v in e.items()
            if isinstance(v, Tensor)
        ):
            with pytest.raises(REFUSALS):
                in_place(*others)
            assert_elements(container, before)
            return
        kept = {
            at: {p: v.to(before[at][p].dtype) if isinstance(v, Tensor) else v for p, v in e.items()}
            for at, e in wanted.items()
        }
        assert in_place(*others) is container
        assert_near(container, kept)
        for at, element in memory.items():
            for path, value in element.items():
                if isinstance(value, Tensor):
                    torch.testing.assert_close(value, kept[at][path], equal_nan=True)

    tries = [(row, which) for row in ROWS for which in (OPERANDS if row.arity else ["number"])]
    record_property("cases", len(tries))
    told = failures([(f"{row.name} {which}", lambda row=row, which=which: attempt(row, which)) for row, which in tries])
    assert not told, told
