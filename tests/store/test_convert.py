"""Conversions: round trips, agreement with the anchor, typed classes held to their declaration, state dicts."""

from __future__ import annotations

import collections
import copy
import dataclasses
import datetime
import io
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensordict
import torch
import torch.utils._pytree as pytree
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

import tensorclass
from tensorclass import (
    FrozenTensorClass,
    NonTensorStack,
    PerElement,
    Ragged,
    RaggedTensor,
    Shared,
    TensorClass,
    TensorDict,
    equal,
    from_any,
    from_dataclass,
    from_dict,
    from_namedtuple,
    from_pytree,
    from_struct_array,
    from_tuple,
    is_tensor_collection,
    make_tensordict,
    produced,
)
from tensorclass.errors import SchemaError
from tensorclass.typing import BFloat16, Complex64, Float8e4m3fn, Float32, Int64
from tests.ops._anchor import DTYPES, Tree, plain, same, trees

NUMPY_DTYPES = tuple(dtype for dtype in DTYPES if dtype is not torch.bfloat16)
zeros = torch.zeros


class Pose(TensorClass):
    angle: Float32[Tensor, ""]
    axis: Float32[Tensor, "3"]


class Frame(TensorClass):
    pose: Pose
    label: Int64[Tensor, ""]
    scale: Shared[Float32[Tensor, "3"]]
    name: PerElement[str]
    note: str = "plain"
    mask: Float32[Tensor, ""] | None = None
    score: Float32[Tensor, ""] = produced()


class Frozen(FrozenTensorClass):
    x: Float32[Tensor, ""]


class Loose(TensorClass):
    x: Tensor
    y: Tensor | None = None


def frame(size: int = 3, **changes: Any) -> Frame:
    """A batch with every kind of field."""
    values: dict[str, Any] = {
        "pose": Pose(torch.rand(size), torch.rand(size, 3)), "label": torch.arange(size), "scale": torch.rand(3),
        "name": [f"n{i}" for i in range(size)],
    }  # fmt: skip
    return Frame(**{**values, **changes})


def agree(ours: Any, theirs: Any) -> bool:
    """Whether two nestings of dicts, lists, arrays and tensors are the same."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return list(ours) == list(theirs) and all(agree(ours[key], theirs[key]) for key in ours)
    if isinstance(ours, (list, tuple)) and isinstance(theirs, (list, tuple)):
        return len(ours) == len(theirs) and all(map(agree, ours, theirs))
    if isinstance(ours, np.ndarray):
        return ours.dtype == theirs.dtype and ours.shape == theirs.shape and bool((ours == theirs).all())
    return same(ours, theirs)


# ---- dicts -------------------------------------------------------------------------------------------------------


@given(trees())
def test_dicts_come_and_go_as_with_the_anchor(tree: Tree) -> None:
    """`to_dict` in every form, and what `from_dict` makes of it with and without a batch size."""
    ours, theirs = tree.both()
    for options in ({}, {"convert_tensors": True}, {"tolist_first": True}):
        assert agree(ours.to_dict(**options), theirs.to_dict(**options))
    for sizing in ({}, {"batch_size": tree.size}, {"auto_batch_size": True}, {"batch_dims": 1}):
        mine, other = (
            TensorDict.from_dict(ours.to_dict(), **sizing),
            tensordict.TensorDict.from_dict(theirs.to_dict(), **sizing),
        )
        assert same(plain(mine), plain(other))


@given(trees(dims=(0, 2)))
def test_lists_come_and_go_as_with_the_anchor(tree: Tree) -> None:
    """One level a batch dim, dicts or containers inside; a list of dicts stacks to what it came from."""
    ours, theirs = tree.both()
    for options in (
        {},
        {"convert_tensors": True},
        {"tolist_first": True},
        {"tolist_first": True, "convert_tensors": True},
    ):
        assert agree(ours.tolist(**options), theirs.tolist(**options))
    if len(tree.size) == 1 and tree.size[0]:
        items = ours.tolist()
        assert agree(TensorDict.from_list(items, lazy=False).to_dict(), ours.to_dict())
        assert same(plain(TensorDict.from_list(items)), plain(tensordict.TensorDict.from_list(theirs.tolist())))


@given(trees(dtypes=NUMPY_DTYPES))
def test_arrays_are_the_anchors_and_share_memory(tree: Tree) -> None:
    """`numpy` gives views, `to_struct_array` a copy that reads back."""
    ours, theirs = tree.both()
    assert agree(ours.numpy(), theirs.numpy())
    if ours["b"].numel():
        assert ours.numpy()["b"].__array_interface__["data"][0] == ours["b"].data_ptr()
    array = ours.to_struct_array()
    assert array.dtype == theirs.to_struct_array().dtype
    back = TensorDict.from_struct_array(array)
    assert (back.batch_size, back.to_dict().keys()) == (ours.batch_size, ours.to_dict().keys())
    assert agree(back.to_dict(), ours.to_dict())


@given(trees())
def test_named_tuples_come_and_go(tree: Tree) -> None:
    """Nested ones too; one class for each set of keys."""
    ours, theirs = tree.both()
    mine = ours.to_namedtuple()
    assert mine._fields == theirs.to_namedtuple()._fields
    assert type(mine) is type(ours.clone().to_namedtuple())
    assert agree(TensorDict.from_namedtuple(mine).to_dict(), ours.to_dict())


@given(trees())
def test_pytrees_come_and_go(tree: Tree) -> None:
    """A container that no pytree made gives nested dicts of its tensors."""
    ours = tree.make(tensorclass)
    assert agree(ours.to_pytree(), ours.to_dict())


@given(trees())
def test_copies_without_a_class_share_nothing(tree: Tree) -> None:
    """`to_tensordict` keeps batch size, names and device, unlocks, and clones every tensor."""
    data = tree.make(tensorclass)
    data.names = [f"d{i}" for i in range(data.ndim)]
    twin = data.lock_().to_tensordict()
    assert (twin.batch_size, twin.names, twin.device, twin.is_locked) == (data.batch_size, data.names, None, False)
    assert equal(twin, data) or any(leaf.is_complex() for leaf in data._leaves())
    assert not {leaf.data_ptr() for leaf in twin._leaves() if leaf.numel()} & {
        leaf.data_ptr() for leaf in data._leaves()
    }


def test_tuples_dataclasses_and_torch_results_nest() -> None:
    """All the way down, whatever the order of kinds; lists and objects stay what a container makes of them."""

    @dataclasses.dataclass
    class Data:
        obs: Tensor
        extra: tuple[Any, ...]

    data = from_any(Data(zeros(3, 4), (zeros(3), {"x": zeros(3)})), auto_batch_size=True)
    assert (data.batch_size, set(data.keys(True, True))) == ((3,), {"obs", ("extra", "0"), ("extra", "1", "x")})
    best = torch.tensor([[2.0, 0.0], [1.0, 3.0]]).max(1)
    assert agree(from_any({"best": best})["best"].to_dict(), from_namedtuple(best).to_dict())
    assert list(from_namedtuple(best).keys()) == ["values", "indices"]
    assert list(from_tuple((zeros(2), 1)).keys()) == ["0", "1"]
    assert from_any([1, 2]).tolist() == [1, 2]
    assert from_any(["a", "b"]).tolist() == ["a", "b"]
    assert from_any("text") == "text"
    assert from_any(data) is data


def test_keys_may_be_paths() -> None:
    """A path and a mapping meet in one nested container, in either order."""
    for source in ({("n", "a"): zeros(2), "n": {"b": zeros(2)}}, {"n": {"a": zeros(2)}, ("n", "b"): zeros(2)}):
        assert list(TensorDict.from_dict(source, batch_size=[2])["n"].keys()) == ["a", "b"]


def test_numbers_among_batch_dims_stay_numbers() -> None:
    """So that the output of `to_dict` converts back; without batch dims they are tensors."""
    data = TensorDict.from_dict({"a": 1, "b": {"c": 2.5}, "t": zeros(3)}, batch_size=[3])
    assert (data["a"], data["b", "c"]) == (1, 2.5)
    assert TensorDict.from_dict({"a": 1})["a"].dtype is torch.int64


def test_what_the_format_can_carry_is_kept() -> None:
    """Batch size, device and names from a container; names and device from arguments."""
    data = TensorDict(a=zeros(2, 3), batch_size=[2, 3], device="cpu", names=["x", "y"])
    again = TensorDict.from_dict(data)
    assert (again.batch_size, again.names, again.device) == (data.batch_size, data.names, data.device)
    assert again is not data
    assert TensorDict.from_dict(data, batch_dims=1).batch_size == (2,)
    named = from_dict(data.to_dict(), batch_size=[2], names=["x"], device="meta")
    assert (named.names, named["a"].device.type) == (["x"], "meta")
    assert make_tensordict({"a": zeros(2)}, b=zeros(2, 3), auto_batch_size=True).batch_size == (2,)


def test_a_dict_takes_the_classes_of_an_instance() -> None:
    """Nested dicts become what the container holds under their keys; other ones become containers."""
    data = TensorDict({"pose": frame().pose, "deep": {"pose": frame().pose}}, batch_size=[3])
    back = data.from_dict_instance({**data.to_dict(), "new": {"x": zeros(3)}}, batch_size=[3])
    assert type(back["pose"]) is type(back["deep", "pose"]) is Pose
    assert type(back["new"]) is TensorDict
    assert type(frame().from_dict_instance(frame().to_dict())) is Frame


def test_linked_lists_write_back() -> None:
    """What the container refuses changes neither."""
    data = TensorDict(a=zeros(2), batch_size=[2])
    items = data.tolist(as_linked_list=True)
    items[1] = {"a": torch.tensor(5.0)}
    assert data["a"].tolist() == [0.0, 5.0]
    with pytest.raises(KeyError):
        items[0] = {"b": torch.tensor(5.0)}
    assert items[0] == {"a": torch.tensor(0.0)}


# ---- structured arrays -------------------------------------------------------------------------------------------


def test_structured_arrays_share_memory_where_torch_can_read_them() -> None:
    """A write to the array is seen; strings become objects; byte order and packing are no obstacle."""
    fields = [("name", "U10"), ("age", "i4"), ("pos", [("x", "f4"), ("y", "f4", (2,))], (3,))]
    array = np.zeros(2, dtype=fields)
    array["name"] = ["Rex", "Fido"]
    data = from_struct_array(array)
    array["age"] += 1
    assert data["age"].tolist() == [1, 1]
    assert data["name"].tolist() == ["Rex", "Fido"]
    assert (data["pos"].batch_size, data["pos", "y"].shape) == ((2, 3), (2, 3, 2))
    assert data.to_struct_array().dtype == array.dtype
    packed = np.zeros(3, dtype=[("big", ">i8"), ("small", "f4")])
    packed["big"] = [1, 2, 3]
    assert from_struct_array(packed)["big"].tolist() == [1, 2, 3]
    assert from_any({"inner": array})["inner", "age"].tolist() == [1, 1]


def test_objects_of_any_kind_fill_structured_arrays() -> None:
    """Strings and numbers have types of their own, anything else is an object."""
    mixed: NonTensorStack[Any] = NonTensorStack({"a": 1}, [2])
    data = TensorDict(n=NonTensorStack("a" * 12, "b"), i=NonTensorStack(1, 2), o=mixed, s="x", batch_size=[2])
    array = data.to_struct_array()
    assert [array.dtype[key].str for key in ("n", "i", "o", "s")] == ["<U12", "<i8", "|O", "<U10"]
    assert array["o"].tolist() == [{"a": 1}, [2]]


class Kinds(TensorClass):
    """A field of each kind that a record can hold."""

    brief: BFloat16[Tensor, "2"]
    tiny: Float8e4m3fn[Tensor, ""]
    wave: Complex64[Tensor, ""]
    count: PerElement[int]
    day: PerElement[datetime.date]
    words: Ragged[Tensor, "n"]
    scale: Shared[Float32[Tensor, "3"]]
    inner: Pose
    note: str = "plain"
    level: float = 0.5
    mask: Float32[Tensor, ""] | None = None


def kinds(size: list[int], **changes: Any) -> Kinds:
    """An instance of a batch size."""
    count = torch.Size(size).numel()
    days = [datetime.date(2020, 1, 1 + i) for i in range(count)]
    values: dict[str, Any] = {
        "brief": torch.rand(count, 2).bfloat16(), "tiny": torch.rand(count).to(torch.float8_e4m3fn),
        "wave": torch.rand(count, dtype=torch.complex64), "count": list(range(2**40, 2**40 + count)), "day": days,
        "words": RaggedTensor([torch.rand(i % 3) for i in range(count)] or torch.nested.nested_tensor([])),
        "scale": torch.rand(3), "inner": Pose(torch.rand(count), torch.rand(count, 3)), "note": "other",
    }  # fmt: skip
    return Kinds(**{**values, **changes}, batch_size=[count]).reshape(size)


@pytest.mark.parametrize("size", [[3], [1], [2, 2], []])
@pytest.mark.parametrize("changes", [{}, {"mask": 0}], ids=["absent", "present"])
def test_records_hold_every_kind_of_field(size: list[int], changes: dict[str, Any]) -> None:
    """Numbers that numpy lacks, objects, lengths that differ, and what is one value for the batch come back."""
    changes = {name: torch.zeros(torch.Size(size).numel()) for name in changes}
    batch = kinds(size, **changes)
    array = batch.to_struct_array()
    assert (array.shape, array["brief"].dtype, array["scale"].shape) == (tuple(size), np.float32, (*size, 3))
    back = Kinds.from_struct_array(array)
    assert back.batch_size == batch.batch_size
    assert bool((back == batch).all())
    assert back.brief.dtype is torch.bfloat16
    assert (back.note, back.level, back.mask is None) == ("other", 0.5, not changes)


def test_records_that_do_not_fit_are_refused() -> None:
    """All problems together: numbers that a conversion would change, values of the batch that differ."""
    array = kinds([2]).to_struct_array()
    array["brief"] = 1 + 2**-20
    array["note"] = ["a", "b"]
    array["scale"][0] += 1
    with pytest.raises(SchemaError) as caught:
        Kinds.from_struct_array(array)
    assert {problem.path for problem in caught.value.problems} == {"brief", "note", "scale"}


# ---- pytrees -----------------------------------------------------------------------------------------------------

Point = collections.namedtuple("Point", "x y")


@pytest.mark.parametrize(
    "tree",
    [
        {"a": [zeros(2), torch.ones(2)], "b": (zeros(2), [zeros(2)])},
        (zeros(2), {"c": zeros(2)}),
        [Point(zeros(2), {"z": (zeros(2),)})],
        OrderedDict(b=zeros(2), a=[zeros(2)]),
        {1: zeros(2), ("a", 2): [zeros(2)], "s": "text"},
        {"best": torch.tensor([[1.0, 2.0]]).max(1)},
        [zeros(1) + i for i in range(12)],
        {"empty": [], "none": ()},
    ],
    ids=str,
)
def test_pytrees_keep_their_types(tree: Any) -> None:
    """Lists, tuples, named tuples, dicts of any keys; also through a clone and an index."""
    data = TensorDict.from_pytree(tree)
    for back in (data.to_pytree(), data.clone().to_pytree()):
        assert pytree.tree_structure(back) == pytree.tree_structure(tree)
        leaves = zip(pytree.tree_leaves(back), pytree.tree_leaves(tree), strict=True)
        assert all(same(mine, theirs) or mine == theirs for mine, theirs in leaves)


def test_pytrees_of_other_kinds() -> None:
    """A default factory is not kept; a tensor comes back as it is; sizes are found."""
    back = TensorDict.from_pytree(defaultdict(list, a=zeros(2))).to_pytree()
    assert type(back) is defaultdict
    assert back.default_factory is None
    leaf = zeros(2)
    assert from_pytree(leaf) is leaf
    data = from_pytree({"a": zeros(3), "b": (zeros(3), zeros(3, 2))}, auto_batch_size=True)
    assert (data.batch_size, data["b", "1"].shape) == ((3,), (3, 2))
    assert [type(part) for part in data[0].to_pytree()["b"]] == [Tensor, Tensor]


# ---- typed classes -----------------------------------------------------------------------------------------------


@given(st.integers(0, 3), st.booleans())
def test_typed_round_trips_keep_class_and_values(size: int, optional: bool) -> None:
    """Through dicts, named tuples, lists and state dicts; produced and optional fields included."""
    batch = frame(size, **({"mask": zeros(size)} if optional else {}))
    batch.score = zeros(size)
    for source, given_size in ((batch.to_dict(), None), (batch.to_dict(retain_none=False), [size])):
        back = Frame.from_dict(source, batch_size=given_size)
        assert (type(back), type(back.pose), back.batch_size) == (Frame, Pose, (size,))
        assert agree(back.to_dict(), batch.to_dict())
    assert agree(Frame.from_namedtuple(batch.to_namedtuple()).to_dict(), batch.to_dict())
    assert agree(Frame.from_any(batch.to_tensordict()).to_dict(), batch.to_dict())
    twin = batch.clone().load_state_dict(batch.state_dict())
    assert agree(twin.to_dict(), batch.to_dict())
    if size:
        assert agree(Frame.from_list(batch.tolist()).to_dict(), batch.to_dict())


def test_to_dict_of_a_typed_class_is_plain() -> None:
    """Nested classes are dicts, shared tensors tensors, objects lists; absent fields None unless they are left out."""
    found = frame(2).to_dict()
    assert list(found) == ["pose", "label", "scale", "name", "note", "mask"]
    assert (type(found["pose"]), type(found["scale"]), found["name"], found["mask"]) == (
        dict,
        Tensor,
        ["n0", "n1"],
        None,
    )
    assert "mask" not in frame(2).to_dict(retain_none=False)
    assert "mask" in frame(2).to_tensordict(retain_none=True)


def test_positions_of_a_tuple_are_fields() -> None:
    """In the order of the declaration, nested ones as well."""
    batch = Pose.from_tuple((zeros(2), zeros(2, 3)))
    assert batch.batch_size == (2,)
    assert Frame.from_any({**frame(2).to_dict(), "pose": (zeros(2), zeros(2, 3))}).pose.axis.shape == (2, 3)


def test_every_problem_of_a_dict_is_told_at_once() -> None:
    """Unknown, missing and misfitting fields, at every level, each with its path."""
    source = {
        "pose": {"angel": zeros(2), "axis": zeros(2, 4)},
        "label": zeros(2),
        "nmae": ["a", "b"],
        "scale": zeros(3),
    }
    with pytest.raises(SchemaError) as caught:
        Frame.from_dict(source)
    paths = [problem.path for problem in caught.value.problems]
    assert sorted(paths) == ["label", "name", "nmae", "pose.angel", "pose.angle", "pose.axis"]
    assert "did you mean `angle`" in str(caught.value)
    assert "did you mean `name`" in str(caught.value)


def test_batch_sizes_that_nothing_declares_are_given_or_found() -> None:
    """A bare tensor says nothing about the batch."""
    assert Loose.from_dict({"x": zeros(3, 2)}).batch_size == ()
    assert Loose.from_dict({"x": zeros(3, 2), "y": zeros(3)}, auto_batch_size=True).batch_size == (3,)
    assert Loose.from_dict({"x": zeros(3, 2)}, batch_dims=1).batch_size == (3,)
    assert Loose.from_dict({"x": zeros(3, 2)}, batch_size=[3], names=["n"], device="cpu").names == ["n"]
    assert Pose.from_dict({"angle": zeros(4), "axis": zeros(4, 3)}, auto_batch_size=True).batch_size == (4,)


class Mixed(TensorClass):
    extra: TensorDict
    pose: Pose


def test_untyped_corners_of_typed_classes_take_the_batch_size() -> None:
    """Also where it is inferred from a field that is declared later; states of other sizes are assigned all over."""
    few, many = (
        Mixed.from_dict({"extra": {"q": {"r": zeros(n)}}, "pose": {"angle": zeros(n), "axis": zeros(n, 3)}})
        for n in (3, 4)
    )
    assert (few.batch_size, few.extra.batch_size, few.extra["q"].batch_size) == ((3,), (3,), (3,))
    for flatten in (True, False):
        loaded = few.clone().load_state_dict(many.state_dict(flatten=flatten), assign=True)
        assert (loaded.extra["q"].batch_size, loaded.pose.batch_size) == ((4,), (4,))
        assert agree(loaded.to_dict(), many.to_dict())


def test_frozen_classes_convert_too() -> None:
    """Making is not writing; loading a state is."""
    batch = Frozen.from_dict({"x": zeros(2)}, names=["n"])
    assert (batch.names, Frozen.from_list([batch[0], batch[1]]).batch_size) == (["n"], (2,))
    with pytest.raises(dataclasses.FrozenInstanceError, match="Frozen"):
        batch.load_state_dict(batch.state_dict(), assign=True)


class Named(NamedTuple):
    angle: Tensor
    axis: Tensor


@dataclasses.dataclass
class Posed:
    angle: Tensor
    axis: Tensor


@dataclasses.dataclass
class Plain:
    obs: Tensor
    count: int = 3
    tags: list[str] = dataclasses.field(default_factory=list)

    def double(self) -> Tensor:
        """Twice the observations."""
        return self.obs * 2


def test_dataclasses_become_typed_and_come_back() -> None:
    """A class keeps its name, defaults and methods; its instances share one class; `to_dict` gives the arguments."""
    first = from_dataclass(Plain(torch.ones(2, 3), tags=["a"]), batch_size=[2])
    second = TensorDict.from_dataclass(Plain(zeros(2, 3)), as_tensorclass=True, auto_batch_size=True)
    assert type(first) is type(from_dataclass(Plain(zeros(1)))) is from_dataclass(Plain)
    assert (type(first).__name__, first.count, first.tags, second.batch_size) == ("Plain_tc", 3, ["a"], (2, 3))
    assert first.double().sum() == 12
    back = Plain(**first.to_dict())
    assert (back.count, back.tags) == (3, ["a"])
    assert torch.equal(back.obs, torch.ones(2, 3))
    made = from_dataclass(Plain)(zeros(2))
    assert (made.tags, made.count) == ([], 3)
    assert from_dataclass(Pose) is Pose
    assert type(from_dataclass(Posed(zeros(2), zeros(2, 3)), dest_cls=Pose)) is Pose
    assert from_dataclass(Plain, frozen=True) is not from_dataclass(Plain)
    assert TensorDict.from_dataclass(Plain(zeros(2)))["count"] == 3


# ---- state dicts -------------------------------------------------------------------------------------------------


@given(trees())
def test_state_dicts_are_the_anchors(tree: Tree) -> None:
    """Keys, tensors and metadata, flat and nested; what it gives, it loads."""
    ours, theirs = tree.both()
    for flatten in (True, False):
        mine, other = ours.state_dict(flatten=flatten), theirs.state_dict(flatten=flatten)
        assert agree(dict(mine), dict(other))
        assert vars(mine)["_metadata"] == vars(other)["_metadata"]
        for assign in (True, False):
            empty = ours.clone().zero_()
            assert agree(empty.load_state_dict(mine, assign=assign).to_dict(), ours.to_dict())
    assert list(ours.state_dict(prefix="p.")) == list(theirs.state_dict(prefix="p."))


@given(trees(dims=(1, 2)), st.integers(1, 4))
def test_assigned_states_bring_their_batch_size(tree: Tree, repeat: int) -> None:
    """The tensors of the state take the place of the present ones, nested containers stay the same objects."""
    small = tree.make(tensorclass)
    big = TensorDict.cat([small] * repeat)
    nested = small.get("n")
    small.load_state_dict(big.state_dict(), assign=True)
    assert small.batch_size == big.batch_size
    assert small.get("n") is nested
    assert [a.data_ptr() for a in small._leaves()] == [b.data_ptr() for b in big._leaves()]


def test_copying_keeps_storage_and_assigning_replaces_it() -> None:
    """As for modules; dtypes are kept by copies."""
    data = TensorDict(a=zeros(2), batch_size=[2])
    old = data["a"]
    data.load_state_dict({"a": torch.ones(2, dtype=torch.float64)})
    assert data["a"] is old
    assert (old.tolist(), old.dtype) == ([1.0, 1.0], torch.float32)
    new = torch.ones(2, dtype=torch.float64)
    assert data.load_state_dict({"a": new}, assign=True)["a"] is new


def test_objects_travel_in_the_metadata() -> None:
    """Values and objects for each element, through `torch.save` that unpickles no code."""
    data = TensorDict({"a": zeros(2), "n": {"text": "x", "names": NonTensorStack("p", "q")}}, batch_size=[2])
    buffer = io.BytesIO()
    torch.save(data.state_dict(), buffer)
    buffer.seek(0)
    state = torch.load(buffer, weights_only=True)
    other = TensorDict({"a": torch.ones(2), "n": {"text": "y", "names": NonTensorStack("r", "s")}}, batch_size=[2])
    other.load_state_dict(state)
    assert (other["n", "text"], other["n", "names"].tolist(), other["a"].sum().item()) == ("x", ["p", "q"], 0.0)
    assert TensorDict(data).load_state_dict(other.to_dict())["n", "names"].tolist() == ["p", "q"]


def test_state_without_strictness_writes_what_is_there() -> None:
    """New keys too in an untyped container; a typed class leaves out what it does not declare."""
    data = TensorDict({"a": zeros(2), "n": {"b": zeros(2)}}, batch_size=[2])
    data.load_state_dict({"n.c": torch.ones(2)}, strict=False)
    assert data["n", "c"].tolist() == [1.0, 1.0]
    pose = Pose(zeros(2), zeros(2, 3))
    pose.load_state_dict({"angle": torch.ones(2), "other": zeros(5)}, strict=False)
    assert pose.angle.tolist() == [1.0, 1.0]
    batch = frame(2)
    batch.load_state_dict({"mask": torch.ones(2)}, strict=False)
    assert batch.mask is not None


def test_keys_with_dots_load_where_they_were() -> None:
    """The present keys decide what a dot means; two entries of one key are refused."""
    data = TensorDict({"a.b": zeros(2), "c": {"d": zeros(2)}})
    twin = data.clone().load_state_dict(OrderedDict({"a.b": torch.ones(2), "c.d": torch.ones(2)}))
    assert twin["a.b"].sum() == twin["c", "d"].sum() == 2
    with pytest.raises(RuntimeError, match=r"`a\.b`.*flatten=False"):
        TensorDict({"a.b": zeros(2), "a": {"b": zeros(2)}}).state_dict()


def test_states_join_those_of_modules() -> None:
    """A destination with metadata of its own receives the entries below a prefix."""
    state = nn.Linear(2, 2).state_dict()
    found = TensorDict(a=zeros(2), batch_size=[2]).state_dict(destination=state, prefix="batch.")
    assert found is state
    assert list(state) == ["weight", "bias", "batch.a"]
    assert state._metadata["batch"]["batch_size"] == (2,)  # type: ignore[attr-defined]  # as modules have it
    weights = TensorDict(a=zeros(2).requires_grad_())
    assert not weights.state_dict()["a"].requires_grad
    assert weights.state_dict(keep_vars=True)["a"] is weights["a"]


# ---- bad input ---------------------------------------------------------------------------------------------------

BAD: dict[str, tuple[Callable[[], object], type[Exception], list[str]]] = {
    "no mapping": (lambda: TensorDict.from_dict(5), ValueError, ["from_dict", "mapping", "int"]),  # type: ignore[arg-type]  # refused
    "both sizes": (lambda: from_dict({}, batch_size=[2], batch_dims=1), ValueError, ["batch_size", "batch_dims"]),
    "size and auto": (lambda: from_tuple((), batch_size=[2], auto_batch_size=True), TypeError, ["batch_size", "auto"]),
    "negative dims": (lambda: from_dict({}, batch_dims=-1), ValueError, ["batch_dims", "-1"]),
    "int key": (lambda: from_dict({1: zeros(2)}), TypeError, ["key", "string", "1"]),
    "short leaf": (lambda: from_dict({"n": {"a": zeros(2)}}, batch_size=[3]), ValueError, ["`n`", "`a`", "[3]", "[2]"]),
    "twice": (lambda: from_dict({"a": zeros(2), ("a", "b"): zeros(2)}), ValueError, ["`a.b`", "twice"]),
    "names": (lambda: from_dict({"a": zeros(2)}, batch_size=[2], names=["a", "b"]), ValueError, ["names", "1 batch"]),
    "no dataclass": (lambda: TensorDict.from_dataclass(5), TypeError, ["dataclass", "5", "from_any"]),
    "dataclass type": (lambda: TensorDict.from_dataclass(Plain), TypeError, ["instance", "Plain"]),
    "no dataclass at all": (lambda: from_dataclass(5), TypeError, ["dataclass", "5"]),
    "inplace": (lambda: from_dataclass(Plain, inplace=True), TypeError, ["inplace", "@tensorclass"]),
    "dest_cls": (lambda: from_dataclass(Plain(zeros(1)), dest_cls=dict), TypeError, ["dest_cls", "typed class"]),
    "dest_cls fields": (lambda: from_dataclass(Plain(zeros(1)), dest_cls=Loose), TypeError, ["obs", "Loose"]),
    "no named tuple": (lambda: from_namedtuple((1, 2)), TypeError, ["named tuple", "tuple", "from_any"]),
    "no tuple": (lambda: from_tuple(5), TypeError, ["tuple", "int"]),  # type: ignore[arg-type]  # refused
    "too many": (lambda: Pose.from_tuple((1, 2, 3)), ValueError, ["Pose", "2 fields", "3 items"]),
    "empty list": (lambda: TensorDict.from_list([]), ValueError, ["from_list", "non-empty"]),
    "list of ints": (lambda: TensorDict.from_list([{}, 1]), ValueError, ["from_list", "int", "at 1"]),
    "list size": (lambda: TensorDict.from_list([{}], batch_size=[3]), ValueError, ["[3]", "number of elements, 1"]),
    "list dims": (lambda: TensorDict.from_list([{}], batch_dims=0), ValueError, ["batch_dims", "at least 1"]),
    "element size": (lambda: TensorDict.from_list([TensorDict()], batch_size=[1, 2]), ValueError, ["element 0", "[2]"]),
    "plain array": (lambda: from_struct_array(np.ones(3)), TypeError, ["structured", "from_any"]),
    "bfloat16": (lambda: TensorDict(a=zeros(1).bfloat16()).numpy(), TypeError, ["`a`", "bfloat16", "float()"]),
    "gradient": (lambda: TensorDict(a=zeros(1).requires_grad_()).numpy(), TypeError, ["`a`", "detach()"]),
    "meta": (lambda: TensorDict(a=zeros(1, device="meta")).numpy(), TypeError, ["`a`", "meta", "cpu()"]),
    "no identifier": (lambda: TensorDict({"a b": 1}).to_namedtuple(), ValueError, ["a b", "to_dict"]),
    "tuple fields": (lambda: TensorDict(axs=1, angle=1).to_namedtuple(Named), ValueError, ["axs", "mean `axis`"]),
    "tuple class": (lambda: TensorDict(a=1).to_namedtuple(dict), TypeError, ["dest_cls", "named tuple"]),
    "conversion": (lambda: TensorDict(a=1).to_dict(convert_tensors="np"), ValueError, ["convert_tensors", "'np'"]),  # type: ignore[arg-type]  # refused
    "nodes": (lambda: TensorDict(a=1).tolist(convert_nodes=False, convert_tensors=True), TypeError, ["convert_nodes"]),
    "given twice": (lambda: make_tensordict({"a": 1}, a=2), TypeError, ["`a`", "twice"]),
    "pytree leaf": (lambda: from_pytree("text"), ValueError, ["from_pytree", "str"]),
    "pytree key": (lambda: from_pytree({"_pytree_type": zeros(1)}), ValueError, ["_pytree_type", "rename"]),
    "typed leaf": (lambda: Pose.from_any(zeros(1)), ValueError, ["Pose.from_any", "Tensor"]),
    "typed dims": (lambda: Pose.from_dict({"angle": zeros(2, 2), "axis": zeros(2, 2, 3)}, batch_dims=1), ValueError,
                   ["Pose", "[2, 2]", "batch_dims=1"]),
    "typed twice": (lambda: Frame.from_dict({"pose": zeros(2), ("pose", "angle"): zeros(2)}), ValueError, ["`pose`"]),
    "state missing": (lambda: TensorDict(a=zeros(2), b=zeros(2)).load_state_dict({"a": zeros(2)}), RuntimeError,
                      ["missing: `b`", "strict=False"]),
    "state unexpected": (lambda: TensorDict(label=zeros(2)).load_state_dict({"lable": zeros(2)}), RuntimeError,
                         ["unexpected: `lable`", "did you mean `label`", "missing"]),
    "state shape": (lambda: TensorDict(a=zeros(2)).load_state_dict({"a": zeros(3)}), RuntimeError,
                    ["`a`: [2]", "[3]", "assign=True"]),
    "state dtype": (lambda: TensorDict(a=torch.arange(2)).load_state_dict({"a": zeros(2)}), RuntimeError,
                    ["`a`", "int64", "float32"]),
    "state batch": (lambda: TensorDict(a=zeros(2), batch_size=[2]).load_state_dict({"a": zeros(3)}, assign=True),
                    RuntimeError, ["`a`", "[2]", "[3]"]),
    "state typed": (lambda: Pose(zeros(2), zeros(2, 3)).load_state_dict(
                        {"angle": torch.arange(2), "axis": zeros(2, 3)}, assign=True), ValueError, ["angle", "int64"]),
    "state locked": (lambda: TensorDict(a=zeros(2)).lock_().load_state_dict({"a": zeros(2)}, assign=True), RuntimeError,
                     ["locked"]),
    "no state": (lambda: TensorDict(a=zeros(2)).load_state_dict([("a", 1)]), RuntimeError, ["load_state_dict", "list"]),  # type: ignore[arg-type]  # refused
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input_says_what_is_wrong(case: str) -> None:
    """What was given, what was expected, where, and what to do."""
    call, error, words = BAD[case]
    with pytest.raises(error) as caught:
        call()
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize("assign", [True, False])
def test_a_state_that_does_not_fit_changes_nothing(assign: bool) -> None:
    """The last of several entries is wrong; the first ones were not written."""
    batch = frame(2)
    before = copy.deepcopy(batch.to_dict())
    good = frame(2).state_dict()
    for change in ({"pose.axis": zeros(2, 4)}, {"label": zeros(2)}, {"name": ["a"]}):
        with pytest.raises(ValueError):
            batch.load_state_dict({**good, **change}, assign=assign)
        assert agree(batch.to_dict(), before)


def test_containers_are_told_from_everything_else() -> None:
    """Classes and instances, typed and not."""
    assert all(map(is_tensor_collection, (TensorDict, TensorDict(), Pose, frame())))
    assert not any(map(is_tensor_collection, (zeros(2), {"a": 0}, dict, NonTensorStack("a"), None)))
