"""Lazy stacks whose members differ in shapes: what works member by member needs no dense tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import tensorclass.testing
from tensorclass import NonTensorStack, TensorClass, TensorDict, assert_close, cat, lazy_stack, stack
from tensorclass.typing import Float


class Step(TensorClass):
    """A class that takes any floating dtype and any length."""

    a: Float[Tensor, ""]
    b: Float[Tensor, "t"]


class Episode(TensorClass):
    """A class with a nested one."""

    step: Step
    b: Float[Tensor, "t"]


def _step(i: int) -> Step:
    return Step(a=torch.full((2,), float(i)), b=torch.full((2, i + 1), float(i)))


def _plain(i: int) -> TensorDict:
    return _step(i).to_tensordict().update({"n": {"y": torch.full((2, i + 2), float(i))}})


STACKS: dict[str, Callable[[], Any]] = {
    "plain": lambda: lazy_stack([_plain(i) for i in range(3)]),
    "along the second dim": lambda: lazy_stack([_plain(i) for i in range(3)], 1),
    "two levels": lambda: lazy_stack([lazy_stack([_plain(i), _plain(i + 1)], 1) for i in range(2)]),
    "typed": lambda: lazy_stack([_step(i) for i in range(3)]),
    "nested typed": lambda: lazy_stack([Episode(step=_step(i), b=torch.zeros(2, i + 1)) for i in range(3)]),
}


def _members(batch: Any) -> list[Any]:
    """The innermost members, in order."""
    parts = list(batch.unbind(getattr(batch, "stack_dim", 0)))
    return [inner for part in parts for inner in (_members(part) if hasattr(part, "stack_dim") else [part])]


def _same(left: Any, right: Any) -> bool:
    pairs = zip(_members(left), _members(right), strict=True)
    return left.batch_size == right.batch_size and all(bool((a == b).all()) for a, b in pairs)


@pytest.fixture(params=STACKS)
def uneven(request: pytest.FixtureRequest) -> Any:
    """A stack that can't be dense."""
    return STACKS[request.param]()


def test_comparisons_look_at_each_member(uneven: Any):
    """Both forms of `assert_close` pass for a copy, and name the member and the field that differ."""
    other = uneven.clone()
    assert assert_close(uneven, other)
    tensorclass.testing.assert_close(uneven, other)
    _members(other)[-1].b.add_(1) if isinstance(uneven, TensorClass) else _members(other)[-1]["b"].add_(1)
    for compare in (assert_close, tensorclass.testing.assert_close):
        with pytest.raises(AssertionError, match=r"\[\d\]\.(\[\d\]\.)?b"):
            compare(uneven, other)
    with pytest.raises(AssertionError):
        assert_close(uneven, uneven[:1])
    with pytest.raises(AssertionError):
        tensorclass.testing.assert_close(uneven, uneven[:1])


EMPTY: dict[str, Callable[[int], Any]] = {
    "slice": lambda size: slice(0, 0),
    "mask": lambda size: torch.zeros(size, dtype=torch.bool),
    "positions": lambda size: torch.zeros(0, dtype=torch.int64),
}


@pytest.mark.parametrize("index", EMPTY)
@pytest.mark.parametrize("dim", [0, 1])
def test_cat_takes_parts_without_elements(uneven: Any, dim: int, index: str):
    """An empty part, before or after, adds nothing along any dim."""
    none = uneven[(slice(None),) * dim + (EMPTY[index](uneven.shape[dim]),)]
    for parts in ([uneven, none], [none, uneven], [none, uneven, none]):
        assert _same(cat(parts, dim), uneven)
        assert _same(torch.cat(parts, dim), uneven)


def test_cat_takes_dense_parts(uneven: Any):
    """A dense container among lazy stacks becomes one of its members."""
    first = uneven[:1]
    dense = stack([part.clone() for part in first.unbind(0)]) if not hasattr(first[0], "stack_dim") else first
    assert _same(cat([dense, uneven], 0), cat([first, uneven], 0))


def test_casts_of_typed_stacks_convert_each_member():
    """A class that declares a family is cast by every method, whatever the shapes."""
    for name in ("typed", "nested typed"):
        for cast in ("double", "half", "bfloat16"):
            batch = getattr(STACKS[name](), cast)()
            assert {part.b.dtype for part in _members(batch)} == {getattr(torch, {"half": "float16"}.get(cast, cast))}
        assert STACKS[name]().to(torch.float64)[1].b.dtype is torch.float64


def test_where_stays_lazy(uneven: Any):
    """The result is a stack, with values of each side, also in `out`, whose old tensors keep their values."""
    condition = torch.zeros(uneven.batch_size, dtype=torch.bool)
    other, out = uneven.clone().zero_(), uneven.clone()
    held = [tensor for part in _members(out) for tensor in part.values(True, True)]
    before = [tensor.clone() for tensor in held]
    assert _same(uneven.where(condition, other), other)
    assert _same(torch.where(~condition, uneven, other), uneven)
    assert uneven.where(condition, other, out=out) is out
    assert _same(out, other)
    assert all(torch.equal(a, b) for a, b in zip(held, before, strict=True))


@pytest.mark.parametrize("name", ["plain", "along the second dim", "two levels"])
def test_entries_are_deleted_and_selected_in_each_member(name: str):
    """`del`, `del_`, `select` and `exclude` read no entry."""
    for delete in (lambda x, key: x.__delitem__(key), lambda x, key: x.del_(key)):
        batch = STACKS[name]()
        delete(batch, "b")
        delete(batch, ("n", "y"))
        assert all(set(part.keys(True, True)) == {"a"} for part in _members(batch))
        with pytest.raises(KeyError, match="n"):
            delete(batch, ("n", "z"))
        with pytest.raises(KeyError):
            delete(batch, "b")
    assert set(STACKS[name]().select("b").keys()) == {"b"}
    assert set(STACKS[name]().exclude("b").keys()) == {"a", "n"}


def test_update_takes_over_values_and_sizes(uneven: Any):
    """`update_batch_size=True` takes a source of other sizes, or with another number of members."""
    twice = cat([uneven, uneven.clone().zero_()], 0)
    for source in (uneven.clone().zero_(), twice, uneven[:, :1].clone()):
        for clone in (False, True):
            batch = uneven.clone()
            assert batch.update(source, clone=clone, update_batch_size=True) is batch
            assert _same(batch, source)


def test_update_with_other_keys_is_refused():
    """Entries that the source lacks would keep the old size, so nothing changes."""
    batch = STACKS["plain"]()
    with pytest.raises(ValueError, match="batch size"):
        batch.update(TensorDict(a=torch.zeros(5, 2), batch_size=[5, 2]), update_batch_size=True)
    assert _same(batch, STACKS["plain"]())


def test_typed_update_checks_the_class():
    """The values of an untyped source are checked against the declaration before a member changes."""
    batch = STACKS["typed"]()
    source = lazy_stack([TensorDict(a=torch.zeros(2), b=torch.zeros(2, 3, dtype=torch.int64), batch_size=[2])] * 3)
    with pytest.raises(TypeError):
        batch.update(source, update_batch_size=True)
    assert _same(batch, STACKS["typed"]())


def test_stacks_are_written_to_stacks():
    """`lazy_stack(..., out=)` copies into the members of `out`, and adds entries that they lack."""
    parts = [_plain(i).zero_() for i in range(3)]
    out = STACKS["plain"]()
    held = [part["b"] for part in out.unbind(0)]
    assert lazy_stack(parts, out=out) is out
    assert all(not tensor.any() for tensor in held)
    empty = lazy_stack([TensorDict(batch_size=[2]) for _ in range(3)])
    assert _same(lazy_stack(parts, out=empty), out)


KEYED: dict[str, Callable[[Any], Any]] = {
    "exclude": lambda d: d.exclude("b", inplace=True),
    "select": lambda d: d.select("d", "who", inplace=True),
    "flatten_keys": lambda d: d.flatten_keys(inplace=True),
    "unflatten_keys": lambda d: d.unflatten_keys("/", inplace=True),
    "rename_key_": lambda d: d.rename_key_("b", "z"),
    "split_keys": lambda d: d.split_keys(["b"], inplace=True),
    "separates": lambda d: d.separates("b"),
    "clear": lambda d: d.clear(),
}


def _odd(i: int) -> TensorDict:
    """A member without batch dims that has an object of its own, and an entry that others lack."""
    made = TensorDict({"b": torch.tensor(1.0), "d": torch.ones(2 + i), "n": {"x": torch.ones(1)}, f"only{i}": 1})
    return made.set("who", NonTensorStack.of(f"o{i}", [])).set("p/q", torch.ones(i))


@pytest.mark.parametrize("name", KEYED)
def test_keys_of_stacks_of_stacks_change_member_by_member(name: str):
    """The innermost members stay the same containers, and each becomes what the operation makes of it alone."""
    parts = [_odd(i) for i in range(4)]
    whole = lazy_stack([lazy_stack(parts[:2]), lazy_stack(parts[2:])])
    alone = [_odd(i) for i in range(4)]
    KEYED[name](whole)
    for part, single, held in zip(parts, alone, _members(whole), strict=True):
        KEYED[name](single)
        assert held is part
        assert repr(part) == repr(single)
