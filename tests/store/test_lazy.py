"""Lazy stacks: members, reading, writing, list methods, shapes, joins, conversions, locking, copies."""

from __future__ import annotations

import copy
import pickle
import threading

import pytest
import torch

import tensorclass
from tensorclass import (
    LazyStackedTensorDict,
    NonTensorStack,
    TensorDict,
    dense_stack_tds,
    equal,
    lazy_legacy,
    lazy_stack,
    maybe_dense_stack,
    set_lazy_legacy,
)
from tensorclass.errors import LockedError, MissingKeyError, StructureError


def members(count: int = 3) -> list[TensorDict]:
    """Containers of one structure whose values tell them apart."""
    return [
        TensorDict({"a": torch.full((4, 2), float(i)), "b": {"c": torch.full((4,), i)}}, batch_size=[4])
        for i in range(count)
    ]


def uneven() -> LazyStackedTensorDict:
    """Members of different event shapes, each with a key of its own."""
    parts = [TensorDict(a=torch.arange(i + 1.0)) for i in range(3)]
    parts[1]["only"] = torch.ones(2)
    stack: LazyStackedTensorDict = lazy_stack(parts)
    return stack


def ragged() -> LazyStackedTensorDict:
    """Members of different batch sizes."""
    stack: LazyStackedTensorDict = lazy_stack(
        [TensorDict(a=torch.arange(i + 1.0), b=torch.zeros(i + 1, 2), batch_size=[i + 1]) for i in range(3)]
    )
    return stack


# ---- what a stack is -------------------------------------------------------------------------------------------------


def test_members_are_kept_as_they_are():
    """Nothing is copied: an int along the stack dim gives the member itself."""
    parts = members()
    stack = lazy_stack(parts, 1)
    assert (stack.batch_size, stack.stack_dim, len(stack)) == (torch.Size([4, 3]), 1, 4)
    assert all(stack[:, i] is part for i, part in enumerate(parts))
    assert all(a is b for a, b in zip(stack.unbind(1), parts, strict=True))
    assert all(a is b for a, b in zip(lazy_stack(parts), parts, strict=True))
    assert stack.tensordicts is not stack.tensordicts


def test_entries_are_stacked_when_they_are_read():
    """A read gives a new tensor; writes to it do not reach the members, writes to the stack do."""
    parts = members()
    stack = lazy_stack(parts, 1)
    assert torch.equal(stack["a"], torch.stack([part["a"] for part in parts], 1))
    stack["a"].zero_()
    assert (parts[2]["a"] == 2).all()
    assert type(stack["b"]) is LazyStackedTensorDict
    stack["b"]["c"] = torch.zeros(4, 3)
    assert (parts[2]["b", "c"] == 0).all()


def test_keys_are_those_that_all_members_have():
    """Others are printed, and named by the error of a read."""
    stack = uneven()
    assert list(stack.keys()) == ["a"] == list(stack.valid_keys())
    assert "only" not in stack
    assert "a" in stack
    assert stack.get("only") is None
    assert stack.get("only", 3) == 3
    assert "exclusive_fields={'only': [1]}" in repr(stack)
    assert "a: f32[-1]" in repr(stack)
    with pytest.raises(MissingKeyError, match=r"positions 1 .*stack\[1\]\['only'\]"):
        stack["only"]


def test_sizes_that_differ_show_as_minus_one():
    """In the batch size, in the shape of an entry, and in print."""
    stack = ragged()
    assert stack.batch_size == torch.Size([3, -1])
    assert stack.get_item_shape("b") == torch.Size([3, -1, 2])
    assert uneven().get_item_shape("a") == torch.Size([3, -1])
    assert "batch_size=[3,-1]" in repr(stack)
    assert stack.numel() == 6


def test_entries_of_different_shapes_are_read_in_other_forms():
    """As a list, padded on either side, nested in either layout."""
    stack = uneven()
    assert [value.tolist() for value in stack.get("a", as_list=True)] == [[0.0], [0.0, 1.0], [0.0, 1.0, 2.0]]
    padded = stack.get("a", as_padded_tensor=True, padding_value=-1.0)
    assert padded.tolist() == [[0, -1, -1], [0, 1, -1], [0, 1, 2]]
    left = stack.get("a", as_padded_tensor=True, padding_side="left", padding_value=-1.0)
    assert left.tolist() == [[-1, -1, 0], [-1, 0, 1], [0, 1, 2]]
    assert stack.get("a", as_nested_tensor=True).layout is torch.jagged
    assert [part.shape[0] for part in stack.get_nestedtensor("a", layout=torch.jagged).unbind()] == [1, 2, 3]
    filled = stack.get_nestedtensor("only", torch.zeros(1), layout=torch.jagged)
    assert [part.tolist() for part in filled.unbind()] == [[0.0], [1.0, 1.0], [0.0]]
    assert stack.get_nestedtensor("only", None) is None
    assert stack.get("absent", 7, as_list=True) == 7


def test_other_forms_of_even_and_dense_entries():
    """They apply where the shapes agree as well, along the stack dim, and to dense containers."""
    stack = lazy_stack(members(), 1)
    assert torch.equal(stack.get("a", as_padded_tensor=True), stack["a"])
    assert torch.equal(stack.get(("b", "c"), as_list=True)[2], stack[:, 2]["b", "c"])
    dense = stack.densify()
    assert [value.shape for value in dense.get("a", as_list=True)] == [torch.Size([3, 2])] * 4
    assert dense.get("a", as_nested_tensor=True).is_nested


def test_stacks_of_stacks():
    """They pad across levels and read as one tensor where they can."""
    nested = lazy_stack([lazy_stack(members(2)), lazy_stack(members(2))], 0)
    assert nested["a"].shape == (2, 2, 4, 2)
    deep = lazy_stack([uneven().select("a"), uneven().select("a")], 1)
    assert deep.get_item_shape("a") == torch.Size([3, 2, -1])
    assert deep.get("a", as_padded_tensor=True).shape == (3, 2, 3)
    assert [len(row) for row in deep.get("a", as_list=True)] == [3, 3]


def test_objects_of_members():
    """They are read as one object for each element; a list is taken apart over the members."""
    stack = LazyStackedTensorDict(TensorDict(), TensorDict(), stack_dim=0)
    stack["a"] = [torch.ones(2), torch.zeros(1)]
    stack["b"] = ["a string", "another string"]
    assert torch.equal(stack[1]["a"], torch.zeros(1))
    assert stack[1]["b"] == "another string"
    assert stack["b"].tolist() == ["a string", "another string"]
    across = lazy_stack([TensorDict(batch_size=[2]), TensorDict(batch_size=[2])], 1)
    across["n"] = [[1, 2], [3, 4]]
    assert across["n"].tolist() == [[1, 2], [3, 4]]
    assert across[:, 1]["n"].tolist() == [2, 4]


# ---- as a list -------------------------------------------------------------------------------------------------------


def test_append_insert_extend():
    """As on a list, the batch size grows; members are the objects that were given."""
    stack = LazyStackedTensorDict(TensorDict(a=torch.zeros(3)))
    late = TensorDict(a=torch.ones(3))
    stack.append(late)
    stack.insert(0, TensorDict(a=torch.full((3,), 2.0)))
    stack.extend([TensorDict(a=torch.full((4,), 3.0))])
    assert [float(part["a"][0]) for part in stack] == [2, 0, 1, 3]
    assert stack[2] is late
    stack.insert(-1, TensorDict(a=torch.full((3,), 9.0)))
    assert float(stack[3]["a"][0]) == 9
    stack.extend(lazy_stack([late, late]))
    assert stack.batch_size == torch.Size([7])


def test_an_empty_stack_takes_members_of_its_batch_size():
    """What the members to come look like is given when there are none."""
    stack = LazyStackedTensorDict(stack_dim=1, batch_size=[4], device="cpu", names=["row"], stack_dim_name="member")
    assert (stack.batch_size, stack.names, stack.device) == (torch.Size([4, 0]), ["row", "member"], torch.device("cpu"))
    assert list(stack.keys()) == []
    stack.append(TensorDict(a=torch.zeros(4), batch_size=[4], device="cpu"))
    assert stack["a"].shape == (4, 1)


def test_members_may_differ_where_they_differ_already():
    """A size that is -1 takes any; one that all share takes no other."""
    stack = ragged()
    stack.append(TensorDict(a=torch.zeros(9), b=torch.zeros(9, 2), batch_size=[9]))
    assert stack[3].batch_size == torch.Size([9])


# ---- writes ----------------------------------------------------------------------------------------------------------


def test_a_write_is_cut_over_the_members():
    """Tensors, containers and mappings are cut along the stack dim, by reference."""
    parts = members()
    stack = lazy_stack(parts, 1)
    value = torch.arange(12.0).reshape(4, 3)
    stack.set("x", value)
    assert parts[1]["x"].data_ptr() == value[:, 1].data_ptr()
    stack.set(("deep", "er"), value)
    assert torch.equal(parts[2]["deep", "er"], value[:, 2])
    stack["m"] = {"p": value, "q": TensorDict(r=value, batch_size=[4, 3])}
    assert torch.equal(parts[0]["m", "q", "r"], value[:, 0])
    stack.update({"x": value + 1, "b": {"d": value}})
    assert torch.equal(parts[0]["b", "d"], value[:, 0])
    assert "c" in parts[0]["b"]


def test_a_write_in_place_reaches_the_tensors_of_the_members():
    """`set_`, `update_`, `copy_`, index assignment, augmented operators, `apply_`, `zero_`, `fill_`."""
    parts = members()
    tensors = [part["a"] for part in parts]
    stack = lazy_stack(parts, 0)
    stack.set_("a", torch.ones(3, 4, 2))
    stack.update_({"a": 2.0, ("b", "c"): torch.zeros(3, 4, dtype=torch.int64)})
    stack += 1
    assert all((tensor == 3).all() for tensor in tensors)
    assert all((part["b", "c"] == 1).all() for part in parts)
    stack.copy_(lazy_stack(members()))
    stack.apply_(lambda tensor: tensor * 2)
    assert [float(tensor[0, 0]) for tensor in tensors] == [0, 2, 4]
    stack.fill_("a", 7).fill_("b", 1)
    assert (tensors[1] == 7).all()
    assert (parts[1]["b", "c"] == 1).all()
    stack.zero_()
    assert not tensors[2].any()


def test_index_assignment_reaches_the_members():
    """Along the stack dim, across it, by tensors that touch both, and into ragged members."""
    parts = members()
    stack = lazy_stack(parts, 0)
    stack[0] = parts[2].clone()
    assert (parts[0]["a"] == 2).all()
    stack[1:, 0] = stack[0, 0].clone()
    assert parts[1]["a"][:, 0].tolist() == [2, 1, 1, 1]
    stack[torch.tensor([0, 1]), torch.tensor([3, 2])] = stack[2, 0].clone() * 0 + 5
    assert parts[0]["a"][3, 0] == 5
    assert parts[1]["a"][2, 0] == 5
    assert parts[1]["a"][3, 0] == 1
    stack[torch.eye(3, 4, dtype=torch.bool)] = TensorDict({"a": torch.full((2,), -1.0), "b": {"c": torch.tensor(-1)}})
    assert [float(parts[i]["a"][i, 0]) for i in range(3)] == [-1, -1, -1]
    rows = ragged()
    rows[1:, 0] = TensorDict(a=torch.tensor(9.0), b=torch.ones(2))
    assert [float(row["a"][0]) for row in rows] == [0, 9, 9]


def test_a_failed_write_changes_nothing():
    """Members are all checked before the first is written."""
    parts = members()
    parts[2]["a"] = torch.zeros(4, 3)
    stack = lazy_stack(parts)
    before = [part.clone() for part in parts]
    for write in (
        lambda: stack.update_({"a": torch.ones(3, 4, 2)}),
        lambda: stack.update({"x": torch.zeros(3, 4), "y": torch.zeros(3, 5)}),
        lambda: stack.set(("a", "x"), torch.zeros(3, 4)),
        lambda: stack.__setitem__(slice(0, 3), {"a": torch.ones(2), "b": {"c": 1}}),
        lambda: stack.apply_(lambda tensor: torch.zeros(7)),
        lambda: stack.rename_key_("a", ("b", "c"), safe=True),
        lambda: stack.add_(torch.ones(5)),
    ):
        with pytest.raises((RuntimeError, TypeError, ValueError, KeyError)):
            write()
        assert all(equal(part, old) for part, old in zip(parts, before, strict=True))


def test_hooks_see_what_is_written_and_read():
    """One before a value is cut, one after it is stacked; they stay with results of operations."""
    stack = LazyStackedTensorDict(*members(), hook_in=lambda value: value + 1, hook_out=lambda value: value.sum())
    stack["x"] = torch.zeros(3, 4)
    assert (stack[0]["x"] == 1).all()
    assert stack["x"] == 12
    assert stack[1:]["x"] == 8


# ---- shapes and joins ------------------------------------------------------------------------------------------------


def test_ragged_stacks_keep_to_what_members_can_do():
    """Indices, cuts, permutations, flattening; sizes stay -1 where they differ."""
    stack = ragged()
    assert stack[:, 0]["a"].tolist() == [0, 0, 0]
    assert stack[:, -1]["a"].tolist() == [0, 1, 2]
    assert stack[1:].batch_size == torch.Size([2, -1])
    assert stack[torch.tensor([2, 0])][0]["a"].tolist() == [0, 1, 2]
    assert stack[torch.tensor([True, False, True])].batch_size == torch.Size([2, -1])
    assert stack[torch.tensor([[0], [1]])].batch_size[:2] == torch.Size([2, 1])
    assert stack[torch.tensor([2, 1]), torch.tensor([0, 0])]["a"].tolist() == [0, 0]
    assert stack[..., None].batch_size == torch.Size([3, -1, 1])
    assert stack.permute(1, 0).batch_size == torch.Size([-1, 3])
    assert stack.flatten()["a"].tolist() == [0, 0, 1, 0, 1, 2] == stack.reshape(-1)["a"].tolist()
    assert stack.expand(2, *stack.batch_size).batch_size == torch.Size([2, 3, -1])
    assert [part.batch_size[0] for part in stack.split(2)] == [2, 1]
    assert stack[0:0].batch_size[0] == 0
    assert "a" in stack[0:0]


def test_views_of_elements_write_through():
    """A view over the stack dim is a stack of elements, which are views of the members."""
    parts = members()
    lazy_stack(parts).view(12).zero_()
    assert not any(part["a"].any() for part in parts)


def test_joins_with_dense_containers():
    """A lazy stack beside a dense container joins as its dense form, or member by member if it has none."""
    one = lazy_stack([TensorDict(a=torch.zeros(3)), TensorDict(a=torch.ones(3))])
    two = TensorDict(a=torch.full((2, 3), 2.0), batch_size=[2])
    for parts in ([one, two], [two, one]):
        wanted = torch.stack([part["a"] for part in parts])
        assert torch.equal(torch.stack(parts)["a"], wanted)
        assert torch.equal(torch.cat(parts)["a"], wanted.flatten(0, 1))
    holders = [TensorDict(n=part, batch_size=[2]) for part in (one, two)]
    assert torch.equal(torch.cat(holders)["n", "a"], torch.cat([one["a"], two["a"]]))
    mixed = torch.cat([two, lazy_stack([TensorDict(a=torch.zeros(3)), TensorDict(a=torch.zeros(4))])])
    assert [tuple(part["a"].shape) for part in mixed.unbind(0)] == [(3,), (3,), (3,), (4,)]


def test_joins_stay_lazy():
    """Stacks along one dim join member by member; cat along it puts members behind each other."""
    one, two = lazy_stack(members()), lazy_stack(members())
    assert torch.stack([one, two]).batch_size == torch.Size([2, 3, 4])
    assert torch.cat([one, two]).batch_size == torch.Size([6, 4])
    assert type(torch.cat([one, two], 1)) is LazyStackedTensorDict
    several = torch.stack([uneven(), uneven()])
    assert several.stack_dim == 1
    assert several[0, 2]["a"].tolist() == [0, 1, 2]
    different = torch.stack([lazy_stack(members(), 0), lazy_stack(members(4), 1)[:3, :4]])
    assert different.batch_size == torch.Size([2, 3, 4])


def test_a_stack_of_locked_members_is_locked():
    """What is read from a locked stack shows that it is locked; unlocking the stack frees it."""
    stack = lazy_stack(members()).lock_()
    inner = stack["b"]
    assert inner.is_locked
    with pytest.raises(LockedError, match="outermost"):
        inner.unlock_()
    stack.unlock_()
    assert not inner.is_locked
    parts = [part.lock_() for part in members()]
    with pytest.raises(LockedError, match="insert a member"):
        lazy_stack(parts).append(members()[0])
    assert not lazy_stack(parts).unlock_().is_locked
    assert not parts[0].is_locked


def test_maybe_dense_stack():
    """Dense where keys and shapes agree, else lazy."""
    assert type(maybe_dense_stack(members())) is TensorDict
    assert type(TensorDict.maybe_dense_stack([TensorDict(a=1), TensorDict(b=1)])) is LazyStackedTensorDict
    out = TensorDict(a=torch.zeros(2, 3), batch_size=[2])
    maybe_dense_stack([TensorDict(a=torch.ones(3)), TensorDict(a=torch.ones(3))], out=out)
    assert (out["a"] == 1).all()


def test_dense_stack_tds():
    """A dense container comes back; inner stacks keep their members' keys along their own dim."""
    stack = lazy_stack([TensorDict({"a": torch.zeros(3)}), TensorDict({"a": torch.zeros(4), "b": torch.zeros(2)})])
    holder = TensorDict({"lazy": stack})
    dense = dense_stack_tds(lazy_stack([holder, holder.clone()], 0))
    assert (type(dense), dense.batch_size, dense["lazy"].stack_dim) == (TensorDict, torch.Size([2]), 1)
    assert dense["lazy"][:, 1]["b"].shape == (2, 2)
    assert dense_stack_tds(holder) is holder
    assert dense_stack_tds([holder, holder.clone()], dim=0).batch_size == torch.Size([2])


def test_densify_and_pad():
    """Even entries become tensors, others nested ones; what is absent is empty; padding gives a mask."""
    dense = uneven().densify(layout=torch.jagged)
    assert type(dense) is TensorDict
    assert dense["a"].is_nested
    assert [part.numel() for part in dense["only"].unbind()] == [0, 2, 0]
    padded = ragged().densify(layout=torch.jagged).to_padded_tensor(padding=-1.0, mask_key="mask")
    assert padded.batch_size == torch.Size([3, 3])
    assert padded["mask"].sum(1).tolist() == [1, 2, 3]
    assert padded["a"][0].tolist() == [0, -1, -1]
    assert "a: f32[-1]" in repr(uneven().densify())
    plain = TensorDict(a=torch.zeros(2), batch_size=[2])
    assert plain.densify() is plain
    held = TensorDict({"s": lazy_stack(members())}).densify()
    assert type(held["s"]) is TensorDict


def test_to_lazystack():
    """Slices are views; a stack along the dim comes back as it is, along another it is cut anew."""
    dense = TensorDict(a=torch.zeros(2, 3), batch_size=[2, 3])
    stack = dense.to_lazystack(1)
    stack[:, 0]["a"].fill_(1)
    assert dense["a"].sum() == 2
    assert stack.to_lazystack(1) is stack
    assert stack.to_lazystack(0).stack_dim == 0


def test_names():
    """Those of the members around that of the stack dim; setting them reaches the members."""
    parts = [TensorDict(a=torch.zeros(3), batch_size=[3], names=["x"]) for _ in range(2)]
    stack = lazy_stack(parts, 1, stack_dim_name="y")
    assert stack.names == ["x", "y"]
    assert stack.permute("y", "x").names == ["y", "x"]
    stack.names = ["p", "q"]
    assert parts[0].names == ["p"]
    assert stack[0].names == ["q"]


# ---- conversions, copies, locking ------------------------------------------------------------------------------------


def test_conversions_are_dense():
    """They hold what the stack shows."""
    stack = lazy_stack(members())
    assert type(stack.to_tensordict()) is TensorDict
    assert type(stack.contiguous()) is TensorDict
    assert torch.equal(stack.to_dict()["b"]["c"], stack["b", "c"])
    assert set(stack.state_dict()) == {"a", "b.c"}
    assert not stack.is_contiguous()


def test_reductions():
    """Over the stacked values; one number also of what can't be stacked."""
    stack, dense = lazy_stack(members()), lazy_stack(members()).densify()
    assert equal(stack.sum(), dense.sum())
    assert equal(stack.float().mean(1), dense.float().mean(1))
    assert equal(stack.max(0).values, dense.max(0).values)
    assert stack.any()
    assert not stack.all()
    assert uneven().select("a").sum(reduce=True) == 4


def test_gradients():
    """They come as a stack beside the members; a read of an entry is differentiable."""
    parts = [TensorDict(a=torch.ones(2, requires_grad=True)) for _ in range(2)]
    stack = lazy_stack(parts)
    (stack["a"].sum() * 3).backward()
    assert (stack.grad["a"] == 3).all()
    assert stack.requires_grad
    assert (parts[1]["a"].grad == 3).all()


@pytest.mark.parametrize("make", [uneven, ragged, lambda: lazy_stack(members(), 1)])
def test_copies_are_stacks_of_copies(make):
    """Pickle, deepcopy and clone keep the members apart from those of the source; a shallow copy shares tensors."""
    stack = make()
    for copied in (pickle.loads(pickle.dumps(stack)), copy.deepcopy(stack), stack.clone()):
        assert type(copied) is LazyStackedTensorDict
        assert equal(copied, stack)
        copied.zero_()
        assert stack[-1 if stack.stack_dim == 0 else 1].any()
    shallow = stack.copy()
    for member in shallow.tensordicts:
        member["new"] = torch.zeros(member.batch_size)
    assert "new" in shallow
    assert "new" not in stack
    shallow.zero_()
    assert not any(member["a"].any() for member in stack.tensordicts)


def test_locking_reaches_the_members():
    """Structure is guarded at both levels; values may be written; one lock of a member guards the whole stack."""
    parts = members()
    stack = lazy_stack(parts).lock_()
    assert parts[0].is_locked
    for write in (
        lambda: stack.append(members(1)[0]),
        lambda: stack.set("x", torch.zeros(3, 4)),
        lambda: stack.del_("a"),
        lambda: stack.select("a", inplace=True),
        lambda: parts[0].set("x", torch.zeros(4)),
        parts[0].unlock_,
    ):
        with pytest.raises(LockedError):
            write()
    stack.zero_()
    assert pickle.loads(pickle.dumps(stack)).is_locked
    assert not stack.clone().is_locked
    with stack.unlock_():
        stack["x"] = torch.zeros(3, 4)
    assert stack.is_locked
    assert "x" in parts[1]
    stack.unlock_()
    parts[2].lock_()
    with pytest.raises(LockedError):
        stack["y"] = torch.zeros(3, 4)
    assert "y" not in parts[0]


def test_keys_are_rearranged_in_every_member():
    """Select, exclude, rename, flatten, split: also keys that only some members have."""
    stack = uneven()
    assert list(stack.select("a").keys()) == ["a"]
    assert not stack.select("a")[1].get("only")
    assert "only" in stack.exclude("a")[1]
    stack.rename_key_("a", "z")
    assert [list(part.keys()) for part in stack] == [["z"], ["only", "z"], ["z"]]
    flat = lazy_stack(members()).flatten_keys()
    assert list(flat.keys()) == ["a", "b.c"]
    assert "c" in flat.unflatten_keys()["b"]
    first, rest = lazy_stack(members()).split_keys(["a"])
    assert (type(first), list(rest.keys())) == (LazyStackedTensorDict, ["b"])
    whole = lazy_stack(members())
    taken = whole.separates("a")
    assert (list(taken.keys()), list(whole.keys())) == (["a"], ["b"])
    whole.del_(("b", "c"))
    assert whole[0]["b"].is_empty()
    assert whole.is_empty()


def test_devices_and_casts():
    """They reach every member."""
    stack = lazy_stack(members())
    assert stack.to(torch.float64)["a"].dtype is torch.float64
    moved = stack.to("cpu")
    assert moved.device == torch.device("cpu")
    assert moved[0].device == torch.device("cpu")
    assert stack.device is None
    assert stack.bytes() == 3 * members(1)[0].bytes()


def test_a_shared_tensor_is_one_for_each_member():
    """An operation in place touches each element's once."""
    stack = lazy_stack([TensorDict(a=torch.zeros(2)), TensorDict(a=torch.zeros(2))])
    stack["t"] = tensorclass.UnbatchedTensor(torch.ones(3))
    stack.add_(1)
    assert (stack[0].get("t").reshape(-1) == 2).all()
    assert (stack[1].get("t").reshape(-1) == 2).all()


def test_items_of_a_stack_with_one_object():
    """`lazy_stack` of tensors stacks them, or gives them in another form."""
    tensors = [torch.zeros(1), torch.ones(2)]
    assert lazy_stack(tensors, as_list=True)[1] is tensors[1]
    assert lazy_stack(tensors, as_padded_tensor=True).tolist() == [[0, 0], [1, 1]]
    assert lazy_stack(tensors, as_nested_tensor=True).is_nested
    assert lazy_stack([tensors[1], tensors[1]], 1).shape == (2, 2)


def test_legacy_mode():
    """The mode of old versions can be switched off, which it always is."""
    assert lazy_legacy() is False
    assert lazy_legacy(allow_none=True) is None
    with set_lazy_legacy(False):
        assert lazy_legacy(allow_none=True) is False
    assert lazy_legacy(allow_none=True) is None


def test_readers_beside_a_writer_see_whole_entries():
    """While one thread appends, others read: old or new length, never a broken tensor."""
    stack = lazy_stack([TensorDict(a=torch.full((2,), float(i))) for i in range(3)])
    failures: list[BaseException] = []

    def read() -> None:
        try:
            for _ in range(100):
                value = stack["a"]
                assert torch.equal(value[:, 0], torch.arange(value.shape[0], dtype=torch.float32))
        except BaseException as error:  # the test reports whatever a thread dies of
            failures.append(error)

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for i in range(3, 60):
        stack.append(TensorDict(a=torch.full((2,), float(i))))
    for thread in threads:
        thread.join()
    assert not failures


def test_equal_looks_at_members():
    """Stacks of different shapes compare; one that differs in a value or in length does not."""
    assert equal(uneven(), uneven())
    assert not equal(uneven(), uneven()[:2])
    changed = uneven()
    changed[2]["a"] += 1
    assert not equal(changed, uneven())


def test_a_joined_object_of_differing_members():
    """Objects that differ are one for each element; those that only some have can't be read."""
    stack = lazy_stack([TensorDict(s="x"), TensorDict(s="y")])
    assert isinstance(stack.get("s"), NonTensorStack) or stack["s"] == ["x", "y"]
    with pytest.raises(StructureError, match="`a`"):
        lazy_stack([TensorDict(a=torch.zeros(1)), TensorDict(a={"b": 1})])["a"]


@pytest.mark.parametrize(
    "read",
    [
        lambda s: s["a"],
        lambda s: s.get("a"),
        lambda s: s["n", "b"],
        lambda s: s["n"]["b"],
        lambda s: s.get(("n", "b")),
        lambda s: dict(s.items())["a"],
        lambda s: list(s.values(True, True))[-1],
        lambda s: dict(s.items(True, True))["n", "b"],
    ],
)
def test_hooks_see_every_read(read: Any) -> None:
    """By key, nested or not, and by view; the members do not change."""
    parts = [TensorDict({"a": torch.ones(3), "n": {"b": torch.ones(3)}}) for _ in range(2)]
    stack = LazyStackedTensorDict(*parts, hook_out=lambda value: value * 100)
    assert (read(stack) == 100).all()
    assert (parts[0]["n", "b"] == 1).all()
