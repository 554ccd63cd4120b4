"""One block of memory for all leaves, and one tensor for all features."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from tensorclass import NonTensorStack, PackLayout, TensorClass, TensorDict, UnbatchedTensor, equal
from tensorclass.errors import BatchDimError, BatchSizeError, LockedError, StructureError
from tensorclass.typing import Float32, Int64

DTYPES = (torch.float32, torch.float64, torch.int64, torch.bool, torch.int8, torch.complex64, torch.bfloat16)


class Pose(TensorClass):
    """A typed corner."""

    angle: Float32[torch.Tensor, "3"]


class Scan(TensorClass):
    """A typed batch with another in it."""

    pose: Pose
    value: Float32[torch.Tensor, ""]


def sample() -> TensorDict:
    """All kinds of entries."""
    data = TensorDict(
        a=torch.arange(6.0).reshape(2, 3), flag=torch.tensor([True, False]), n={"b": torch.arange(2)}, batch_size=[2]
    )
    data["table"] = UnbatchedTensor(torch.arange(3))
    data["who"] = NonTensorStack("p", "q")
    data["tag"] = "scan"
    data["none"] = torch.zeros(2, 0)
    return data.refine_names("t")


class Copies(TorchDispatchMode):
    """Counts the copies to a device."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func is torch.ops.aten._to_copy.default
        return func(*args, **(kwargs or {}))


def numbers() -> TensorDict:
    """All kinds of entries but Python objects of each element."""
    return sample().exclude("who")


def typed() -> Scan:
    """A typed batch with another in it."""
    return Scan(pose=Pose(torch.rand(2, 3)), value=torch.rand(2))


MOVES: dict[str, Callable[[Any], Any]] = {
    "to": lambda data: data.to("meta"),
    "keyword": lambda data: data.to(device="meta", non_blocking=True),
    "like": lambda data: data.to(TensorDict(device="meta")),
}


# ---- one block ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("make", [sample, numbers, typed])
def test_a_block_moves_as_one(make: Callable[[], Any], move: str) -> None:
    """One copy for all leaves, and the result is a block too; other leaves are copied one by one."""
    block = make().consolidate()
    with Copies() as copies:
        moved = MOVES[move](block)
    assert copies.count == 1
    assert moved.is_consolidated() == (make is not sample)  # the numbers of Python objects stay on the CPU
    assert type(moved) is type(block)
    plain = MOVES[move](make())
    found, expected = (dict(one.items(True, True)) for one in (moved, plain))
    assert list(found) == list(expected)
    for key, leaf in expected.items():
        same = not isinstance(leaf, torch.Tensor) or (leaf.shape, leaf.dtype) == (found[key].shape, found[key].dtype)
        assert same, key
    assert (moved.device, moved.names, moved.is_locked) == (plain.device, plain.names, plain.is_locked)
    with Copies() as copies:
        MOVES[move](block.clone())
    assert copies.count > 1
    assert block.is_consolidated()


def test_leaves_that_a_graph_or_vmap_holds_move_one_by_one() -> None:
    """A copy of the storage would lose the gradient, and has no batch dim of vmap."""
    block = TensorDict(a=torch.rand(2), b=torch.rand(2), batch_size=[2]).consolidate()
    moved = torch.vmap(lambda one: one.to("meta")["a"])(block)
    assert (moved.device.type, moved.shape) == ("meta", (2,))
    block["a"].requires_grad_()
    assert block.to("meta")["a"].requires_grad


def test_conjugates_of_a_block_are_no_block() -> None:
    """The bytes of a lazy conjugate are those of the original, and a pickle of them would be too."""
    block = TensorDict(a=torch.tensor([1 + 2j, 3j]), batch_size=[2]).consolidate()
    view = block.apply(torch.conj)
    assert not view.is_consolidated()
    assert pickle.loads(pickle.dumps(view))["a"].tolist() == [1 - 2j, -3j]
    assert view.to("meta")["a"].device.type == "meta"


def test_consolidated_leaves_share_one_block() -> None:
    """The same content, locked, in one storage; the source is as it was."""
    data = sample()
    block = data.consolidate()
    assert equal(block, data)
    assert block.names == ["t"]
    assert (block.is_consolidated(), block.is_locked) == (True, True)
    assert (data.is_consolidated(), data.is_locked) == (False, False)
    assert len({leaf.untyped_storage().data_ptr() for leaf in block.values(True, True) if torch.is_tensor(leaf)}) == 1
    block["a"].zero_()
    assert block.is_consolidated()
    assert data["a"].sum() == 15
    assert block.consolidate() is block
    with pytest.raises(LockedError):
        block["more"] = torch.zeros(2)


def test_changes_end_the_block() -> None:
    """A replaced or added leaf, a part or a clone is no such block."""
    block = sample().consolidate()
    assert not block.clone().is_consolidated()
    assert not block["n"].is_consolidated()
    block.unlock_()["a"] = torch.zeros(2, 3)
    assert not block.is_consolidated()
    assert not TensorDict().is_consolidated()
    assert not TensorDict(a=torch.zeros(3)).is_consolidated()


def test_in_place_and_shared_memory() -> None:
    """`inplace` keeps the object; `share_memory` puts the block where processes share it."""
    data = sample()
    assert data.consolidate(inplace=True) is data
    assert data.is_consolidated()
    shared = sample().consolidate(share_memory=True)
    assert shared["a"].is_shared()
    assert shared.consolidate(device="cpu") is shared


def test_a_block_is_pickled_once() -> None:
    """The pickle holds the bytes of the leaves once; the copy is consolidated, unlocked, and equal."""
    data = TensorDict({str(i): torch.arange(10_000.0) + i for i in range(8)}, batch_size=[10_000]).consolidate()
    text = pickle.dumps(data)
    assert len(text) < 1.2 * 8 * 40_000
    again = pickle.loads(text)
    assert equal(again, data)
    assert (again.is_consolidated(), again.is_locked) == (True, False)
    typed = Scan(pose=Pose(angle=torch.ones(2, 3)), value=torch.zeros(2), batch_size=[2]).consolidate()
    back = pickle.loads(pickle.dumps(typed))
    assert type(back) is Scan
    assert back.pose.angle.sum() == 6


def test_blocks_below_other_tensors_are_pickled_once():
    """At every level where the leaves are one block, beside tensors that are not, and nowhere else."""
    inner = TensorDict({str(i): torch.arange(10_000.0) + i for i in range(8)}, batch_size=[10_000]).consolidate()
    outer = TensorDict(n=TensorDict(inner=inner, batch_size=[10_000]), own=torch.zeros(10_000), batch_size=[10_000])
    for data in (outer, outer.select("n"), TensorDict(part=torch.zeros(20_000)[:10_000], n=outer["n"])):
        text = pickle.dumps(data)
        assert len(text) < 1.3 * 10 * 40_000
        back = pickle.loads(text)
        assert equal(back, data)
        assert back["n", "inner"].is_consolidated()


def test_gradients_do_not_enter_a_block() -> None:
    """Leaves that require grad are copied detached, whatever the mode."""
    data = TensorDict(a=torch.ones(2, requires_grad=True), b=torch.ones(2), batch_size=[2])
    block = data.consolidate()
    assert not block["a"].requires_grad
    assert equal(block, data.detach())


def test_leaves_that_have_no_block_are_refused() -> None:
    """Several devices without a choice, and leaves that are not dense."""
    with pytest.raises(StructureError, match="give a device"):
        TensorDict(a=torch.zeros(2), b=torch.zeros(2, device="meta")).consolidate()
    with pytest.raises(TypeError, match="dense"):
        TensorDict(a=torch.eye(2).to_sparse()).consolidate()


@given(st.lists(st.tuples(st.sampled_from(DTYPES), st.lists(st.integers(0, 3), max_size=3)), max_size=6))
def test_any_leaves_fit(specs: list[tuple[torch.dtype, list[int]]]) -> None:
    """Every dtype and shape, empty ones too, comes back bit by bit."""
    data = TensorDict(
        {str(i): torch.ones(2, *shape).to(dtype) for i, (dtype, shape) in enumerate(specs)}, batch_size=[2]
    )
    block = data.consolidate()
    assert equal(block, data)
    assert block.is_consolidated() is bool(specs)
    assert equal(pickle.loads(pickle.dumps(block)), data)


# ---- one tensor --------------------------------------------------------------------------------------------------


def features() -> TensorDict:
    """Leaves of several ranks in two levels."""
    nested = TensorDict(stress=torch.arange(90.0).reshape(5, 2, 3, 3), batch_size=[5, 2])
    return TensorDict(p=torch.arange(5.0), v=torch.ones(5, 3), nested=nested, batch_size=[5])


def test_packing_puts_leaves_into_columns() -> None:
    """In the order of the sorted keys, whatever the order of insertion; `unpack` inverts it."""
    data = features()
    flat, layout = data.pack()
    assert flat.shape == (5, 22)
    assert layout.keys == (("nested", "stress"), "p", "v")
    assert (layout.offsets, layout.numel) == ((0, 18, 19), 22)
    assert torch.equal(flat[:, 18], data["p"])
    back = layout.unpack(flat)
    assert equal(back, data.select(*layout.keys)) or (back == data).all()
    assert back["nested"].batch_size == (5, 2)
    assert layout.unpack(flat[torch.tensor([0, 2])]).batch_size == (2,)
    assert layout.unpack(flat.expand(7, 5, 22))["nested"].batch_size == (7, 5, 2)


@pytest.mark.parametrize("dim", [0, 1, -1, -2])
def test_the_packed_dim_may_stand_anywhere(dim: int) -> None:
    """As for `torch.stack`; the tensor is contiguous, the layout counts from the end."""
    flat, layout = features().pack(dim)
    assert flat.shape[dim] == 22
    assert flat.is_contiguous()
    assert layout.dim < 0
    assert (layout.unpack(flat) == features()).all()


def test_layouts_are_values() -> None:
    """Equal, hashable, and usable for another container of the same structure."""
    flat, layout = features().pack()
    _, same = features().pack(1)
    assert layout == same
    assert hash(layout) == hash(same)
    again, returned = (features() + 1).pack(layout=layout)
    assert returned is layout
    assert torch.equal(again, flat + 1)
    assert PackLayout(("b", "a"), ((2,), ())).unpack(torch.arange(3))["a"].item() == 2


def test_a_layout_of_lists():
    """What a layout is made of may come from JSON: it is hashed and compared all the same."""
    layout = PackLayout(["a", "b"], [[], [2]], nested=[("n", [3], None)])
    assert hash(layout) == hash(PackLayout(("a", "b"), ((), (2,)), nested=(("n", (3,), None),)))
    assert layout.shapes == (torch.Size([]), torch.Size([2]))


def test_typed_classes_are_rebuilt() -> None:
    """The class of the root and those of nested fields."""
    batch = Scan(pose=Pose(angle=torch.arange(6.0).reshape(2, 3)), value=torch.zeros(2), batch_size=[2])
    flat, layout = batch.pack()
    back = layout.unpack(flat)
    assert type(back) is Scan
    assert type(back.pose) is Pose
    assert equal(back, batch)
    mixed = TensorDict(pose=batch.pose, batch_size=[2])
    flat, layout = mixed.pack()
    assert type(layout.unpack(flat)["pose"]) is Pose


class Mixed(TensorClass):
    """Two dtypes."""

    a: Float32[torch.Tensor, ""]
    b: Int64[torch.Tensor, ""]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Mixed(a=torch.zeros(2), b=torch.zeros(2, dtype=torch.int64)).pack(), "one dtype"),
        (lambda: features().set_non_tensor("s", "x").pack(), r"`s`.*filter_non_tensor_data"),
        (lambda: features().pack(2), "pack: dim 2"),
        (lambda: features().pack(layout=TensorDict(p=torch.zeros(5), batch_size=[5]).pack()[1]), "no leaf"),
        (lambda: features().pack(0, layout=features().pack()[1]), "along dim"),
        (lambda: features().pack()[1].unpack(torch.zeros(5, 21)), "22 columns"),
        (lambda: PackLayout(("a",), ()), "one shape for each key, got 1 keys, 0 shapes"),
        (lambda: PackLayout(("a",), ((),), dim=1), "negative number, got dim=1"),
    ],
)
def test_what_does_not_pack_is_refused(call: Any, message: str) -> None:
    """The message names the leaf, the dim or the number of columns."""
    with pytest.raises((StructureError, BatchDimError, BatchSizeError, ValueError), match=message):
        call()


def test_gradients_flow_through_packing() -> None:
    """Packing and unpacking are differentiable."""
    data = features().requires_grad_()
    flat, layout = data.pack()
    layout.unpack(flat * 2)["v"].sum().backward()
    assert data["v"].grad is not None
    assert data["v"].grad.eq(2).all()


def test_accepted_arguments():
    """What only files and threads need is accepted for a block in memory."""
    data = TensorDict(a=torch.ones(2), batch_size=[2])
    for option in ({"return_early": True}, {"use_buffer": True}, {"num_threads": 2, "metadata": True}):
        assert data.consolidate(**option).is_consolidated()
