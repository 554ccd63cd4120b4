"""The short path of arithmetic, copies and `apply`: its results are those of the general path, leaf by leaf."""

from __future__ import annotations

import operator
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import TensorClass, TensorDict, lazy_stack
from tensorclass._operations import ROWS
from tensorclass.errors import SchemaError, StructureError
from tensorclass.typing import Bool, Float, Float32, Int64, Num


class Inner(TensorClass):
    a: Float32[Tensor, "2"]


class Counted(TensorClass):
    n: Int64[Tensor, ""]


class Plain(TensorClass):
    a: Float32[Tensor, ""]
    b: Float32[Tensor, "2"]


class Mixed(TensorClass):
    a: Float32[Tensor, ""]
    inner: Inner
    name: str
    extra: Float32[Tensor, ""] | None = None


class Whole(TensorClass):
    a: Float32[Tensor, ""]
    counted: Counted


class Open(TensorClass):
    """Any dtype and shape, a family, named dims, an integer and a nested batch."""

    a: Tensor
    b: Float[Tensor, "n"]
    c: Num[Tensor, "n m"]
    n: Int64[Tensor, ""]
    counted: Counted


class Loose(TensorClass):
    """Anything that arithmetic makes of tensors."""

    a: Tensor
    c: Num[Tensor, "..."]


class Narrow(TensorClass):
    """A named dim."""

    a: Float32[Tensor, "n"]


def inner() -> Inner:
    """A nested batch of random values."""
    return Inner(torch.rand(3, 2), batch_size=[3])


BATCHES = {
    "plain": lambda: Plain(torch.rand(3), torch.rand(3, 2), batch_size=[3]),
    "named": lambda: Plain(torch.rand(3), torch.rand(3, 2), batch_size=[3], names=["time"]),
    "device": lambda: Plain(torch.rand(3), torch.rand(3, 2), batch_size=[3], device="cpu"),
    "mixed": lambda: Mixed(torch.rand(3), inner(), "scan", batch_size=[3]),
    "optional": lambda: Mixed(torch.rand(3), inner(), "scan", torch.rand(3), batch_size=[3]),
    "whole": lambda: Whole(torch.rand(3), Counted(torch.arange(3), batch_size=[3]), batch_size=[3]),
    "counted": lambda: Counted(torch.randint(10**9, (3,)), batch_size=[3]),
    "open": lambda: Open(
        torch.arange(6).reshape(3, 2),
        torch.rand(3, 2).double(),
        torch.randint(5, (3, 2, 4)),
        torch.arange(3),
        Counted(torch.arange(3)),
        batch_size=[3],
    ),
    "tracked": lambda: Plain(torch.rand(3).requires_grad_(), torch.rand(3, 2), batch_size=[3]),
    "adopted": lambda: Mixed.from_tensordict(
        TensorDict(name="scan", inner=TensorDict(a=torch.rand(3, 2), batch_size=[3]), a=torch.rand(3), batch_size=[3])
    ),
    "untyped": lambda: TensorDict(a=torch.rand(3), n={"b": torch.rand(3), "s": "text"}, batch_size=[3]),
}
PAIRS = {"add": operator.add, "mul": operator.mul, "eq": operator.eq, "lt": operator.lt}
SINGLES = {
    "neg": lambda x: x.neg(),
    "isnan": lambda x: x.isnan(),
    "clone": lambda x: x.clone(),
    "detach": lambda x: x.detach(),
    "x + 1": lambda x: x + 1,
    "apply": lambda x: x.apply(torch.neg),
}


def leaves(batch: Any) -> dict[Any, Tensor]:
    """Its tensors by path."""
    return {key: value for key, value in batch.items(True, True) if isinstance(value, Tensor)}


@pytest.mark.parametrize("kind", BATCHES)
@pytest.mark.parametrize("op", PAIRS)
def test_pairs(kind: str, op: str):
    """Two batches of a class."""
    left, right = BATCHES[kind](), BATCHES[kind]()
    found = PAIRS[op](left, right)
    mine, theirs, got = leaves(left), leaves(right), leaves(found)
    assert {key: torch.equal(got[key], PAIRS[op](mine[key], theirs[key])) for key in mine} == dict.fromkeys(mine, True)
    assert type(found) is type(left)
    assert list(found.keys()) == list(left.keys())
    assert (found.batch_size, found.names, found.device) == (left.batch_size, left.names, left.device)
    assert [value.requires_grad for value in got.values()] == [
        op in ("add", "mul") and value.requires_grad for value in mine.values()
    ] + [False] * (len(got) - len(mine))
    if op == "eq":
        assert not found
        assert left == left.clone()


@pytest.mark.parametrize("name", [row.name for row in ROWS if row.arity == 1])
def test_pairs_of_many_tensors(name: str):
    """Many tensors, which one call of torch combines, and few give the same; the members of lazy stacks too."""
    values = torch.tensor([[1, 3], [2, 4]]) if name.startswith("bitwise") else torch.tensor([[1.5, 3.0], [2.0, 4.5]])
    few, others = (TensorDict(a=side, batch_size=[2]) for side in (values, values.flip(1)))
    many, others_of_many = (TensorDict({str(i): x["a"] for i in range(9)}, [2]) for x in (few, others))
    stack, others_of_stack = (lazy_stack(list(x.unbind(0))) for x in (many, others_of_many))
    wanted = getattr(few, name)(others)["a"]
    assert all(torch.equal(value, wanted) for value in getattr(many, name)(others_of_many).values())
    assert all(torch.equal(value, wanted) for value in getattr(stack, name)(others_of_stack).values())


@pytest.mark.parametrize("kind", BATCHES)
@pytest.mark.parametrize("op", SINGLES)
def test_singles(kind: str, op: str):
    """One batch, alone or with a number."""
    batch = BATCHES[kind]()
    before, found = leaves(batch), SINGLES[op](batch)
    got = leaves(found)
    assert {key: torch.equal(got[key], SINGLES[op](before[key]) if op != "apply" else -before[key]) for key in got} == (
        dict.fromkeys(before, True)
    )
    assert type(found) is type(batch)
    assert list(found.keys()) == list(batch.keys())
    assert (found.batch_size, found.names, found.device) == (batch.batch_size, batch.names, batch.device)


def test_other_order_of_keys():
    """Tensors are paired by key, also if the stores hold them in another order."""
    left = Plain.from_tensordict(TensorDict(b=torch.ones(3, 2), a=torch.zeros(3), batch_size=[3]))
    right = Plain(torch.ones(3), torch.full((3, 2), 5.0), batch_size=[3])
    assert torch.equal((left + right).b, torch.full((3, 2), 6.0))
    assert torch.equal((right + left).a, torch.ones(3))


def test_an_entry_of_another_kind():
    """A container, a tensor and None under one key are not combined."""
    kinds = [{"k": torch.zeros(3)}, {"k": {"a": torch.zeros(3)}}, {}]
    made = [TensorDict(entries, batch_size=[3]) for entries in kinds]
    made[2].set_non_tensor("k", None)
    for left in made:
        for right in made:
            if left is not right:
                with pytest.raises(StructureError, match=r"`k[.`]"):
                    left + right


def test_apply_of_an_operation():
    """As any other function: the result is not locked, and a function of two tensors is refused by torch."""
    batch = BATCHES["plain"]().lock_()
    assert batch.neg().is_locked
    assert not batch.apply(torch.neg).is_locked
    assert batch.apply(torch.neg, propagate_lock=True).is_locked
    with pytest.raises(TypeError, match="sub"):
        batch.apply(torch.sub)
    with pytest.raises(SchemaError, match="bool"):
        batch.apply(torch.isnan)


def test_results_share_no_structure():
    """A key that is added to a result is not in its source, at any depth."""
    source = BATCHES["untyped"]()
    for made in (source + source, source.neg(), source.clone(), source.detach(), source == source):
        made["n", "new"] = torch.zeros(3)
        assert "new" not in set(source["n"].keys())


def test_results_that_the_declaration_refuses():
    """Where a dtype or a shape changes, the general path decides by declaration: it accepts, or names the field."""
    batch = BATCHES["open"]()
    with pytest.raises(SchemaError, match=r"(?s)n\n.*float32.*counted\.n"):
        batch / 2
    with pytest.raises(SchemaError, match=r"n\n"):
        batch + 0.5
    loose = Loose(batch.a, batch.c, batch_size=[3])
    assert (loose / 2).a.dtype is torch.float32
    assert (loose + 1).c.dtype is torch.int64
    assert (Loose(torch.ones(3, 1), batch.c, batch_size=[3]) + loose).a.shape == (3, 2)
    with pytest.raises(SchemaError, match="broadcast"):
        Narrow(torch.ones(3, 1), batch_size=[3]) + Narrow(torch.ones(3, 4), batch_size=[3])


@pytest.mark.parametrize("number", [3, 2**40, 2**62, -(2**63), 1.5])
@pytest.mark.parametrize("op", ["add", "sub", "mul", "truediv"])
def test_numbers_and_integers(op: str, number: float):
    """A number combines with floats and integers in one call as with each of them alone."""
    tensors = {"f": torch.rand(3), "d": torch.rand(3).double(), "n": torch.arange(3), "m": torch.arange(6).view(3, 2)}
    call = getattr(operator, op)
    found = leaves(call(TensorDict(tensors, [3]), number))
    wanted = {key: call(value, number) for key, value in tensors.items()}
    assert all(torch.equal(found[key], wanted[key]) and found[key].dtype is wanted[key].dtype for key in wanted)


def test_fields_of_any_shape_are_broadcast():
    """Event dims of fields that take any shape and dtype are broadcast, and dtypes promoted, as torch does."""
    cls = type("Any", (TensorClass,), {"__annotations__": dict.fromkeys("abcd", Tensor), "__module__": __name__})
    one = cls(**{key: torch.rand(3, 1) for key in "abcd"}, batch_size=[3])
    two = cls(**{key: torch.rand(3, 2).double() for key in "abcd"}, batch_size=[3])
    assert torch.equal((one + two).a, one.a + two.a)


def test_bools_and_integers_under_declarations():
    """Bools become integers with a number, and integers floats with a float, which their declarations refuse."""
    kinds = {"b": Bool[Tensor, ""], "n": Int64[Tensor, ""]}
    for key, kind in kinds.items():
        cls = type("One", (TensorClass,), {"__annotations__": {key: kind}, "__module__": __name__})
        batch = cls(**{key: torch.arange(3) if key == "n" else torch.ones(3, dtype=torch.bool)}, batch_size=[3])
        with pytest.raises(SchemaError, match=key):
            batch + (1.5 if key == "n" else 1)
