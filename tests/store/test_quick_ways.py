"""Short ways of writes and reads give what the general ways give, and leave everything else to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import LazyStackedTensorDict, TensorClass, TensorDict, lazy_stack
from tensorclass.errors import BatchSizeError, FrozenError, MissingKeyError, StructureError, UnsupportedOperationError
from tensorclass.ops._writable import takes


def _data() -> TensorDict:
    return TensorDict({"a": torch.zeros(4, 3), "n": {"b": torch.zeros(4, dtype=torch.int64)}}, batch_size=[4])


MASK = torch.tensor([True, False, True, False])
WRITES: list[Callable[[Any, Any], Any]] = [
    lambda t, v: t.__setitem__(0, v),
    lambda t, v: t.__setitem__(slice(1, 3), v),
    lambda t, v: t.__setitem__(MASK, v),
    lambda t, v: t.masked_fill_(MASK, v),
    lambda t, v: t.set_at_("a", v, -1),
    lambda t, v: t.fill_("a", v),
    lambda t, v: t.fill_("n", v),
]
SPOTS: list[Any] = [0, slice(1, 3), MASK, MASK, -1, slice(None), slice(None)]


@pytest.mark.parametrize("position", range(len(WRITES)))
@pytest.mark.parametrize("number", [2, True, 3.0])
def test_numbers_are_written_as_to_one_tensor(position: int, number: float) -> None:
    """Into floating and integer leaves, here and below, and nowhere else; whole floats fit integers."""
    data, due = _data(), _data()
    WRITES[position](data, number)
    for path in (("a",), ("n", "b")):
        if position not in (4, 5, 6) or (path == ("a",)) == (position != 6):
            due[path][SPOTS[position]] = number
        assert data[path].equal(due[path])


def _refused() -> list[tuple[Any, Any, type[Exception]]]:
    expanded = TensorDict(a=torch.zeros(1).expand(4), batch_size=[4])
    leaf = TensorDict(a=torch.zeros(4, requires_grad=True), batch_size=[4])
    view = TensorDict(a=torch.zeros(4, requires_grad=True)[:], batch_size=[4])
    small = TensorDict(a=torch.zeros(4, dtype=torch.uint8), batch_size=[4])
    return [
        (expanded, 1.0, UnsupportedOperationError),
        (leaf, 1.0, UnsupportedOperationError),
        (view, 1.0, UnsupportedOperationError),
        (small, 300, StructureError),
        (_data(), 0.5, StructureError),
    ]


@pytest.mark.parametrize("case", range(5))
@pytest.mark.parametrize("write", WRITES[:4])
def test_what_can_not_be_written_is_refused_whole(case: int, write: Callable[[Any, Any], Any]) -> None:
    """With the errors of the general way, and nothing is written."""
    data, number, error = _refused()[case]
    with pytest.raises(error):
        write(data, number)
    assert all(not value.any() for value in data.values(True, True))


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 2**40, -(2**25), 1e300])
def test_numbers_in_doubt_go_the_general_way(number: float) -> None:
    """What is large or not finite is no case for the short way, and is written nevertheless where it fits."""
    data = TensorDict(a=torch.zeros(3, dtype=torch.float64), batch_size=[3])
    assert not takes(data["a"], number)
    data[0] = number
    assert data["a"][0].equal(torch.tensor(number, dtype=torch.float64)) or number != number


class Frozen(TensorClass, frozen=True):
    """No write in place."""

    a: Tensor


@pytest.mark.parametrize("write", [WRITES[0], WRITES[2], WRITES[3], WRITES[4], WRITES[5]])
def test_frozen_classes_refuse_numbers(write: Callable[[Any, Any], Any]) -> None:
    """By themselves and inside a container."""
    item = Frozen(a=torch.zeros(4), batch_size=[4])
    with pytest.raises(FrozenError):
        write(item, 1.0)
    with pytest.raises(FrozenError):
        TensorDict(n=item, batch_size=[4])[0] = 1.0
    assert not item.a.any()


def test_copies_of_stacks_reach_their_members() -> None:
    """Member by member, when the stacks stand alike; missing keys and sizes are refused before the first write."""
    stack = lazy_stack([TensorDict(a=torch.zeros(3), batch_size=[3]) for _ in range(2)])
    stack.copy_(lazy_stack([TensorDict(a=torch.full((3,), float(i)), batch_size=[3]) for i in (1, 2)]))
    assert [member["a"].tolist() for member in stack.tensordicts] == [[1.0] * 3, [2.0] * 3]
    with pytest.raises(MissingKeyError):
        stack.update_(lazy_stack([TensorDict(b=torch.zeros(3), batch_size=[3])] * 2))
    with pytest.raises(BatchSizeError):
        stack.update_at_({"a": torch.zeros(5)}, 0)
    stack.update_at_({"a": torch.zeros(3)}, 0).set_at_("a", 4, -1).fill_("a", 7).set_at_("a", 5.0, 0)
    assert stack["a"].tolist() == [[5.0] * 3, [7.0] * 3]
    across = lazy_stack([TensorDict(a=torch.ones(2), batch_size=[2]) for _ in range(3)], 1)
    assert stack.update_(across)["a"].eq(1).all()


def test_a_nested_stack_is_written_at_an_index() -> None:
    """The index is over the container's dims, not over the members'."""
    stack = lazy_stack([TensorDict(a=torch.zeros(3), batch_size=[3]) for _ in range(2)])
    data = TensorDict(n=stack, batch_size=[2])
    data[1] = 3.0
    data[0] = TensorDict(n=lazy_stack([TensorDict(a=torch.tensor(float(i))) for i in range(3)]))
    assert data["n", "a"].tolist() == [[0.0, 1.0, 2.0], [3.0] * 3]


@pytest.mark.parametrize("cut", [("split", 2), ("split", [1, 4]), ("split", [0, 5]), ("chunk", 3), ("chunk", 9)])
def test_stacks_are_cut_like_tensors(cut: tuple[str, Any]) -> None:
    """Pieces have the sizes that torch gives them, whatever the argument."""
    _same_pieces(*cut)


@pytest.mark.parametrize("argument", [1, 2, 3, 5, 7, [1, 3], [2, 2], [-1]])
def test_stacks_are_split_at_positions(argument: Any) -> None:
    """Also more pieces than members, and empty pieces."""
    _same_pieces("tensor_split", argument)


def _same_pieces(op: str, argument: Any) -> None:
    values = torch.arange(5.0)
    pieces = getattr(lazy_stack([TensorDict(a=value) for value in values]), op)(argument)
    assert [piece["a"].tolist() for piece in pieces] == [part.tolist() for part in getattr(values, op)(argument)]


@pytest.mark.parametrize("dim", [0, 1])
def test_the_stack_dim_is_unflattened_by_members(dim: int) -> None:
    """Into stacks of stacks, in order, around the same tensors; names and wrong sizes as for a dense container."""
    dense = TensorDict(a=torch.arange(24.0).view(6, 4), batch_size=[6, 4], names=["x", "y"])
    stack = lazy_stack([part.clone() for part in dense.unbind(dim)], dim)
    new, due = stack.unflatten(dim, (2, -1)), dense.unflatten(dim, (2, -1))
    assert (new.batch_size, new["a"].tolist()) == (due.batch_size, due["a"].tolist())
    assert new.names[-1 if dim == 0 else 0] == ("y" if dim == 0 else "x")
    new.zero_()
    assert not stack["a"].any()
    with pytest.raises(BatchSizeError):
        stack.unflatten(dim, (5, -1))


def test_what_changes_nothing_is_a_container_of_its_own() -> None:
    """Keys written to the result do not reach the source."""
    data = TensorDict(a=torch.zeros(4, 2, 3), batch_size=[4, 2], names=["x", "y"])
    stack = lazy_stack([data.clone(), data.clone()])
    for source in (data, stack):
        size = source.batch_size
        for new in (
            source.reshape(*size),
            source.view(*size),
            source.squeeze(),
            source.transpose(0, 0),
            source.permute(*range(len(size))),
            source.movedim(0, 0),
        ):
            assert new is not source
            assert (new.batch_size, new.names) == (size, source.names)
            new["b"] = torch.zeros(size)
            assert "b" not in source


def test_views_list_tensors_alone_as_others() -> None:
    """Views of a container of tensors alone have keys, values and lengths of a walk; `in` knows them."""
    data = TensorDict(b=torch.zeros(2), a=torch.ones(2), batch_size=[2])
    for flags in ((False, False), (True, False), (False, True), (True, True)):
        assert list(data.keys(*flags)) == ["b", "a"]
        assert list(data.keys(*flags, sort=True)) == ["a", "b"]
        assert [key for key, _ in data.items(*flags)] == ["b", "a"]
        assert [len(view) for view in (data.keys(*flags), data.values(*flags))] == [2, 2]
        assert all(x is y for x, y in zip(data.values(*flags), (data["b"], data["a"]), strict=True))
    assert not list(data.keys(True, True, is_leaf=lambda cls: False))
    assert "a" in data
    assert "c" not in data
    assert data.is_empty() is False
    assert TensorDict(n={}).is_empty() is True
    uneven = lazy_stack([data, data.select("a")])
    assert ("a" in uneven, "b" in uneven, len(uneven)) == (True, False, 2)


PARTS: dict[str, Callable[[Any], Any]] = {
    "exclude": lambda t: t.exclude("a"),
    "exclude below": lambda t: t.exclude(("n", "b")),
    "exclude, several": lambda t: t.exclude("a", ("n", "m", "c"), "absent", ("a",)),
    "select": lambda t: t.select("n"),
    "select below": lambda t: t.select(("n", "m")),
    "copy": lambda t: t.copy(),
    "replace": lambda t: t.replace(a=t["a"]),
    "rename_keys": lambda t: t.rename_keys({"a": "z"}),
    "split_keys": lambda t: t.split_keys(["a"])[1],
    "view": lambda t: t.view(-1),
}


@pytest.mark.parametrize("stacked", [False, True])
@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_nested_containers_are_never_shared(part: Callable[[Any], Any], stacked: bool):
    """A key that is added below the result is not in the source, nor the other way round; the tensors are the same."""
    inner = TensorDict({"b": torch.zeros(4), "m": {"c": torch.ones(4), "d": torch.ones(4)}}, batch_size=[4])
    source: Any = TensorDict(a=torch.zeros(4), n=inner, batch_size=[4])
    whole = lazy_stack([source, source.clone()]) if stacked else source
    result = part(whole)
    result = result[0] if stacked else result
    assert result["n", "m", "d"].data_ptr() == inner["m", "d"].data_ptr()
    result["n", "m", "new"] = torch.zeros(4)
    source["n", "other"] = torch.zeros(4)
    assert ("n", "m", "new") not in source
    assert ("n", "other") not in result


def test_keys_of_a_stack_are_those_of_all_members():
    """In the order of the first, whatever order the others have; counted, listed and looked up alike."""
    rows = [TensorDict(dict.fromkeys(keys, torch.zeros(3)), batch_size=[3]) for keys in ("abcd", "dcba", "bca")]
    for members, due in ((rows[:1], "abcd"), (rows[:2], "abcd"), (rows, "abc"), (rows[::-1], "bca"), ([], "")):
        stack = LazyStackedTensorDict(*members)
        assert list(stack.keys()) == list(due)
        assert len(stack.keys()) == len(due)
        assert [key for key in "abcde" if key in stack] == sorted(due)
        nested = TensorDict(s=stack, batch_size=stack.batch_size)
        assert list(nested.keys(True, True)) == [("s", key) for key in due]
