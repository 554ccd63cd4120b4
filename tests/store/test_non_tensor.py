"""Python objects as entries of a TensorDict: one value, one for each element, one for the batch as a whole."""

from __future__ import annotations

import pickle
import threading
from copy import copy, deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tensorclass import (
    LinkedList,
    MetaData,
    NonTensorData,
    NonTensorDataBase,
    NonTensorStack,
    PerElement,
    TensorClass,
    TensorDict,
    UnbatchedTensor,
    capture_non_tensor_stack,
    get_defaults_to_none,
    is_non_tensor,
    list_to_stack,
    set_capture_non_tensor_stack,
    set_get_defaults_to_none,
    set_list_to_stack,
)
from tensorclass.errors import BatchSizeError, LockedError, MissingKeyError, StructureError, UnsupportedOperationError

CONFIG = {"lr": 0.1}


class Tagged(TensorClass):
    x: torch.Tensor
    who: PerElement[str]


def sample() -> TensorDict:
    """Three elements with a shared string, one string for each, metadata and a number kept as an object."""
    data = TensorDict(a=torch.arange(3.0), batch_size=[3])
    data["s"] = "x"
    data["l"] = ["a", "b", "c"]
    data["m"] = MetaData(CONFIG)
    data["n"] = NonTensorData(5)
    return data


# ---- reading and writing -----------------------------------------------------------------------------------------


def test_reading_by_key_gives_objects_and_get_gives_entries() -> None:
    """`data[key]` is the object or a list of them; `get` the wrapper with the batch size of the holder."""
    data = sample()
    assert (data["s"], data["l"], data["m"], data["n"]) == ("x", ["a", "b", "c"], CONFIG, 5)
    assert [type(data.get(key)) for key in "slmn"] == [NonTensorData, NonTensorStack, MetaData, NonTensorData]
    assert data.get("s").batch_size == (3,)
    assert data.get("n").data == 5
    assert data.get("m").data is CONFIG
    assert [is_non_tensor(data.get(key)) for key in "aslmn"] == [False, True, True, True, True]
    assert data.get("absent") is None


@pytest.mark.parametrize("value", ["x", 3, 2.5, [1, 2], {"a": 1}, (1, 2), None, np.arange(2), torch.ones(5)], ids=repr)
def test_any_object_is_stored_as_it_is(value: Any) -> None:
    """`set_non_tensor` and `NonTensorData` keep what would otherwise become a tensor or a container."""
    data = TensorDict(batch_size=[3]).set_non_tensor(("deep", "k"), value)
    data["w"] = NonTensorData(value)
    for read in (data["deep", "k"], data.get_non_tensor("w"), data[0]["w"], data.reshape(3, 1)["deep", "k"]):
        assert read is value
    assert TensorDict(batch_size=[3]).update(data)["w"] is value
    assert pickle.loads(pickle.dumps(data)).is_non_tensor("w")
    assert deepcopy(data).is_non_tensor(("deep", "k"))
    assert list(data.filter_non_tensor_data().keys(True, True)) == []
    assert torch.utils._pytree.tree_map(lambda leaf: leaf, data)["w"] is value


def test_the_questions_about_entries() -> None:
    """`is_non_tensor`, `get_non_tensor` and `non_tensor_items`, nested and absent keys included."""
    data = TensorDict(t=torch.zeros(2), s="a", deep=TensorDict(u="b", v=torch.ones(2)))
    assert data.is_non_tensor("s")
    assert data.is_non_tensor(("deep", "u"))
    assert not data.is_non_tensor("t")
    assert not data.is_non_tensor("deep")
    assert [key for key, _ in data.non_tensor_items()] == ["s"]
    pairs = data.non_tensor_items(include_nested=True)
    assert [(key, value.data) for key, value in pairs] == [("s", "a"), (("deep", "u"), "b")]
    assert data.get_non_tensor("absent", "default") == "default"
    assert data.get_non_tensor("t") is data["t"]
    with pytest.raises(MissingKeyError, match="absent"):
        data.get_non_tensor("absent")
    with pytest.raises(MissingKeyError, match="absent"):
        data.is_non_tensor("absent")
    with pytest.raises(LockedError):
        data.lock_().set_non_tensor("s", 3)


def test_a_typed_class_takes_objects_by_the_same_names() -> None:
    """On a declared field the object is validated and read as it is."""

    class Scan(TensorClass):
        image: torch.Tensor
        source: str = "scan"

    batch = Scan(image=torch.zeros(2, 3), batch_size=[2]).set_non_tensor("source", "web")
    assert batch.source == batch.get("source") == batch.get_non_tensor("source") == "web"
    assert [key for key, _ in batch.non_tensor_items()] == ["source"]
    with pytest.raises(ValueError, match="source"):
        batch.set_non_tensor("source", 3)


def test_a_list_reads_back_and_writes_through() -> None:
    """An item that is assigned reaches the container, at every depth; a change of length ends the link."""
    data = TensorDict(batch_size=[2, 2])
    data["k"] = [["a", "b"], ["c", "d"]]
    data["k"][1][0] = "z"
    assert data["k"].tolist() == [["a", "b"], ["z", "d"]]
    assert type(data["k"].tolist()[0]) is list
    copied = data["k"]
    copied.append(["e", "f"])
    copied[0] = "unlinked"
    assert data["k"] == [["a", "b"], ["z", "d"]]
    assert LinkedList([1, 2]).tolist() == [1, 2]
    assert pickle.loads(pickle.dumps(data["k"])) == [["a", "b"], ["z", "d"]]
    with pytest.raises(IndexError):
        data["k"][7] = "q"


def test_lists_that_do_not_fit_are_refused() -> None:
    """A list is one object for each element; another length names the way to store it as one value."""
    data = TensorDict(batch_size=[3])
    for wrong in (["a", "b"], ["a", "b", "c", "d"]):
        with pytest.raises(BatchSizeError, match=r"field `k`.*set_non_tensor\('k', value\)"):
            data["k"] = wrong
    with pytest.raises(BatchSizeError, match="field `k`"):
        TensorDict(batch_size=[2, 2])["k"] = ["a", "b"]
    with pytest.raises(BatchSizeError, match=r"batch size \[2\] does not fit"):
        data["k"] = NonTensorData("x", batch_size=[2])
    with pytest.raises(BatchSizeError):
        data["k"] = NonTensorStack("x", "y")
    assert "k" not in data


def test_a_list_without_batch_dims_keeps_its_own() -> None:
    """In a container without batch dims a list becomes a stack of its length."""
    data = TensorDict(k=["x", "y"])
    assert data.get("k").shape == (2,)
    assert data["k"] == ["x", "y"]


# ---- joining -----------------------------------------------------------------------------------------------------


def test_stacking_gives_one_value_for_each_element() -> None:
    """Also where all are equal: what is read does not depend on the values; metadata stays one."""
    stacked = torch.stack([sample(), sample()])
    assert stacked["s"] == [["x"] * 3] * 2
    assert stacked["n"] == [[5] * 3] * 2
    assert stacked["l"] == [["a", "b", "c"]] * 2
    assert stacked["m"] is CONFIG
    assert stacked[1, 2]["s"] == "x"
    assert stacked[1]["l"] == ["a", "b", "c"]


def test_concatenating_equal_values_keeps_the_one() -> None:
    """`cat` makes one for each element only where the values differ."""
    other = sample()
    other["s"], other["m"] = "y", MetaData(dict(CONFIG))
    same, mixed = torch.cat([sample(), sample()]), torch.cat([sample(), other])
    assert (same["s"], same["n"]) == ("x", 5)
    assert mixed["s"] == ["x"] * 3 + ["y"] * 3
    assert mixed["m"] == [CONFIG] * 6
    assert mixed["n"] == 5


def test_equal_values_are_captured_on_request() -> None:
    """The mode of the original, in force in its block, its thread and its function only."""
    seen: list[bool | None] = []
    with set_capture_non_tensor_stack(True):
        assert capture_non_tensor_stack() is True
        assert torch.stack([sample(), sample()])["s"] == "x"
        assert isinstance(torch.stack([NonTensorData("a"), NonTensorData("a")]), NonTensorData)
        thread = threading.Thread(target=lambda: seen.append(capture_non_tensor_stack()))
        thread.start()
        thread.join()
    assert seen == [False]
    assert capture_non_tensor_stack() is False
    assert capture_non_tensor_stack(allow_none=True) is None
    assert set_capture_non_tensor_stack(True)(capture_non_tensor_stack)() is True


def test_lists_are_one_value_on_request() -> None:
    """`set_list_to_stack(False)` stores a list as it is."""
    data = TensorDict(batch_size=[2])
    with set_list_to_stack(False):
        data["k"] = ["a", "b", "c"]
    assert data["k"] == data[0]["k"] == ["a", "b", "c"]
    assert list_to_stack() is True
    with pytest.raises(TypeError, match="True or False"):
        set_list_to_stack("yes")  # type: ignore[arg-type]  # what the test is about


def test_absent_keys_raise_on_request() -> None:
    """`set_get_defaults_to_none(False)` makes a `get` without a default raise, until its block ends."""
    with set_get_defaults_to_none(False):
        assert get_defaults_to_none() is False
        assert sample().get("absent", None) is None
        with pytest.raises(MissingKeyError, match="absent"):
            sample().get("absent")
    assert sample().get("absent") is None


# ---- writing elements --------------------------------------------------------------------------------------------


def test_writing_an_element_makes_one_value_for_each() -> None:
    """A shared value becomes a stack, at any index; equal values leave it as it is."""
    data = TensorDict(val=NonTensorData(0, batch_size=[10]), batch_size=[10])
    data[2:4] = TensorDict(val=NonTensorData(0), batch_size=[2])
    assert data["val"] == 0
    data[1::2] = TensorDict(val=NonTensorData(1, batch_size=[5]), batch_size=[5])
    assert data["val"] == [0, 1] * 5
    data[torch.tensor([0, 2])] = TensorDict(val=["p", "q"], batch_size=[2])
    assert data["val"][:3] == ["p", 1, "q"]
    data["n"] = TensorDict(s="x", batch_size=[10])
    data.set_at_(("n", "s"), "y", 0)
    assert data["n", "s"] == ["y"] + ["x"] * 9


def test_update_in_place_replaces_a_shared_object() -> None:
    """`update_` and `set_` write the whole value; what is no object is refused."""
    data = sample()
    assert data.update_({"s": "y"})["s"] == "y"
    assert data.lock_().set_("n", 6)["n"] == 6
    with pytest.raises(StructureError, match="`s`"):
        data.set_("s", torch.zeros(3))
    with pytest.raises(StructureError, match="`s`"):
        data.update_({"a": torch.ones(3), "s": {"b": 1}})
    assert data["a"].tolist() == [0.0, 1.0, 2.0]


def test_where_chooses_among_objects() -> None:
    """Objects that differ become one for each element; a typed class, which declared one, refuses."""

    class Scan(TensorClass):
        image: torch.Tensor
        source: str

    mine, theirs = sample(), sample()
    theirs["s"], theirs["l"] = "y", ["p", "q", "r"]
    chosen = torch.where(torch.tensor([True, False, True]), mine, theirs)
    assert (chosen["s"], chosen["l"], chosen["n"]) == (["x", "y", "x"], ["a", "q", "c"], 5)
    a, b = (Scan(image=torch.zeros(2), source=name, batch_size=[2]) for name in "ab")
    with pytest.raises(StructureError, match="`source`"):
        a.where(torch.tensor([True, False]), b)


# ---- the entries on their own ------------------------------------------------------------------------------------


def test_non_tensor_data_stands_alone() -> None:
    """Shape, nested lists, comparison, calls, and joins by torch functions."""
    node = NonTensorData("a", batch_size=[3])
    assert node.tolist() == ["a"] * 3
    assert NonTensorData("a").tolist() == "a"
    assert NonTensorData(node).data == "a"
    assert (node[0].shape, node[1:].shape, node.reshape(3, 1).shape, len(node)) == ((), (2,), (3, 1), 3)
    assert isinstance(node, NonTensorDataBase)
    assert (node == node).tolist() == [True] * 3
    assert (node == "b").tolist() == [False] * 3
    assert (node != NonTensorStack("a", "b", "a")).tolist() == [False, True, False]
    assert NonTensorData(lambda x: x + 1)(2) == 3
    assert (NonTensorData(True, batch_size=[2]) ^ NonTensorData(True, batch_size=[2])).tolist() == [False] * 2
    assert (NonTensorData(True) | NonTensorData(False)).item() is True
    assert torch.stack([node, node]).tolist() == [["a"] * 3] * 2
    assert torch.stack([NonTensorData("a"), NonTensorStack("a", "b")[1]]).tolist() == ["a", "b"]
    assert torch.cat([node, node]).shape == (6,)
    assert [part.shape for part in node.split(2)] == [(2,), (1,)]
    assert repr(node) == "NonTensorData(data='a', batch_size=torch.Size([3]), device=None)"
    with pytest.raises(BatchSizeError, match=r"\[3\] and \[2\]"):
        _ = node == NonTensorData("a", batch_size=[2])
    with pytest.raises(StructureError, match="NonTensorStack"):
        NonTensorData(NonTensorStack("a"))


def test_functions_in_a_container_are_applied() -> None:
    """An apply over tensors and functions calls each with its own."""
    data = TensorDict(a=1, b=1)
    functions = TensorDict(a=lambda v: v - 1, b=lambda v: v + 1)
    out = data.apply(lambda value, fn: fn(value), functions)
    assert (out["a"].item(), out["b"].item()) == (0, 2)
    assert sample().apply(lambda leaf: leaf + 1)["n"] == 5


def test_metadata_of_a_class() -> None:
    """`MetaData[cls]` holds instances of the class only; joins go by identity."""
    assert MetaData[str]("a").data == "a"
    with pytest.raises(TypeError, match="holds a str, got a int"):
        MetaData[str](1)
    config = MetaData(CONFIG, batch_size=[2])
    assert torch.stack([config, config]).data is CONFIG
    assert torch.stack([config, MetaData(dict(CONFIG), batch_size=[2])]).shape == (2, 2)
    assert config[0].unsqueeze(0).data is CONFIG


def test_stacks_of_objects_stand_alone() -> None:
    """Every shape operation, `data`, `from_list`, and errors that name the way out."""
    stack = NonTensorStack.from_list([["a", "b", "c"], ["d", "e", "f"]])
    assert stack.permute(1, 0).tolist() == [["a", "d"], ["b", "e"], ["c", "f"]]
    assert stack.flatten().tolist() == list("abcdef")
    assert torch.cat([stack, stack], 1).shape == (2, 6)
    assert [part.tolist() for part in stack.unbind(0)] == [["a", "b", "c"], ["d", "e", "f"]]
    assert NonTensorStack("a", NonTensorData("b")).tolist() == ["a", "b"]
    assert NonTensorStack.from_nontensordata(NonTensorData("a", batch_size=[2])).data == "a"
    with pytest.raises(ValueError, match="tolist"):
        _ = stack.data
    with pytest.raises(UnsupportedOperationError, match=r"torch\.sin"):
        torch.sin(stack)  # type: ignore[call-overload]  # what the test is about
    with pytest.raises(BatchSizeError, match="stack needs the same batch size"):
        torch.stack([stack, stack[0]])
    with pytest.raises(BatchSizeError):
        _ = stack == stack[0]


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=3),
    st.sampled_from(["flatten", "unsqueeze", "reversed", "unbind", "repeat"]),
)
def test_stacks_follow_numpy(sizes: list[int], op: str) -> None:
    """Objects under shape operations are where numpy puts them."""
    array = np.array([f"o{i}" for i in range(int(np.prod(sizes)))], dtype=object).reshape(sizes)
    data = TensorDict(
        k=NonTensorStack._of(tuple(array.reshape(-1)), torch.arange(array.size).reshape(sizes)), batch_size=sizes
    )
    moved: dict[str, tuple[Any, Any]] = {
        "flatten": (lambda: data.reshape(-1), lambda: array.reshape(-1)),
        "unsqueeze": (lambda: data.unsqueeze(1), lambda: array[:, None]),
        "reversed": (lambda: data.permute(*reversed(range(len(sizes)))), array.transpose),
        "unbind": (lambda: data.unbind(0)[0], lambda: array[0]),
        "repeat": (lambda: data.repeat(*[2] * len(sizes)), lambda: np.tile(array, [2] * len(sizes))),
    }
    if op == "unbind" and sizes[0] == 0:
        assert data.unbind(0) == ()
        return
    ours, theirs = moved[op]
    shown = ours().get("k")
    assert shown.tolist() == np.asarray(theirs(), dtype=object).tolist()


# ---- tensors without batch dims ----------------------------------------------------------------------------------


def test_unbatched_tensors_are_left_alone() -> None:
    """Shape, index and join operations of the holder leave them; arithmetic and casts reach them."""
    table = UnbatchedTensor(torch.arange(4.0))
    data = TensorDict(a=table, b=torch.zeros(2, 3), batch_size=[2])
    assert data["a"] is table
    for other in (
        data[0],
        data.reshape(1, 2),
        data[torch.tensor([0, 0])],
        data.expand(5, 2),
        torch.stack([data, data]),
    ):
        assert torch.equal(other["a"], table)
        assert isinstance(other["a"], UnbatchedTensor)
    assert (data + 1)["a"].tolist() == [1.0, 2.0, 3.0, 4.0]
    assert data.double()["a"].dtype is torch.float64
    again = TensorDict(batch_size=[7]).set("table", data["a"])
    assert again["table"].shape == (4,)
    assert not data.is_non_tensor("a")
    assert torch.equal(pickle.loads(pickle.dumps(data))["a"], table)


def test_unbatched_tensors_are_tensors() -> None:
    """Numbers, arrays, arithmetic, and what the printed form says."""
    table = UnbatchedTensor([1, 2], batch_size=[3])
    assert isinstance(table, torch.Tensor)
    assert table.batch_size == (3,)
    assert isinstance(table + 1, UnbatchedTensor)
    assert (table + 1).tolist() == [2, 3]
    assert float(UnbatchedTensor(3.0)) == 3.0
    assert table.copy().data_ptr() == table.data_ptr()
    assert np.array_equal(table.numpy(), [1, 2])
    assert repr(table) == "UnbatchedTensor(tensor([1, 2]))"


def test_unbatched_tensors_that_differ_do_not_join() -> None:
    """The original keeps the first one silently."""
    data = TensorDict(a=UnbatchedTensor(torch.zeros(3)), batch_size=[2])
    with pytest.raises(StructureError, match="`a`"):
        torch.stack([data, data + 1])


def test_objects_pass_through_a_compiled_function() -> None:
    """Joins, reads and absent keys of a container with objects trace without a break."""

    @torch.compile(fullgraph=True, backend="eager")
    def step(data: TensorDict) -> tuple[torch.Tensor, TensorDict, str, object]:
        joined = torch.stack([data, data])
        return joined["a"].sum(), joined, data["s"], data.get("absent")

    data = TensorDict(a=torch.arange(3.0), s="x", batch_size=[3])
    total, joined, tag, absent = step(data)
    assert (total.item(), tag, absent) == (6.0, "x", None)
    assert joined["s"] == [["x"] * 3] * 2


def test_stacks_grow():
    """A stack of one's own is a list: objects, lists and stacks of the element's shape go in."""
    names = NonTensorStack("b", "d")
    names.append("e")
    names.insert(0, "a")
    names.insert(-2, "c")
    names.extend(["f", "g"])
    assert names.tolist() == list("abcdefg")
    pairs = NonTensorStack.from_list([["a", "b"], ["c", "d"]])
    pairs.append(["e", "f"])
    pairs.extend([NonTensorStack("g", "h")])
    assert pairs.tolist() == [["a", "b"], ["c", "d"], ["e", "f"], ["g", "h"]]
    with pytest.raises(BatchSizeError):
        pairs.append(["x"])
    with pytest.raises(BatchSizeError):
        pairs.extend([["i", "j"], ["k"]])
    assert pairs.shape == (4, 2)
    with pytest.raises(BatchSizeError, match="without dims"):
        names[0].append("x")


@pytest.mark.parametrize("place", ["TensorDict", "made", "indexed", "typed", "nested"])
def test_stacks_of_containers_do_not_grow(place):
    """The stack of a container has as many objects as the batch has elements; a copy may grow."""
    data = TensorDict({"names": ["a", "b"], "n": {"names": ["c", "d"]}}, batch_size=[2])
    mine = NonTensorStack("a", "b")
    data["mine"] = mine
    held = {
        "TensorDict": lambda: data.get("names"),
        "made": lambda: mine,
        "indexed": lambda: data[:1].get("mine"),
        "typed": lambda: Tagged(who=NonTensorStack("a", "b"), x=torch.zeros(2), batch_size=[2]).who,
        "nested": lambda: data.get(("n", "names")),
    }[place]()
    for grow in (lambda s: s.append("x"), lambda s: s.insert(0, "x"), lambda s: s.extend(["x"])):
        with pytest.raises(StructureError, match=r"stack\.clone\(\)"):
            grow(held)
    grown = held.clone()
    grown.append("x")
    assert len(grown) == len(held) + 1
    assert data["names"] == ["a", "b"]


SHAPES = {
    "swapaxes": (0, 1),
    "swapdims": (0, 1),
    "movedim": (0, 1),
    "moveaxis": (0, -1),
    "unflatten": (1, (3, 1)),
    "flip": ((0,),),
    "fliplr": (),
    "flipud": (),
    "roll": (1, 0),
    "rot90": (1, (0, 1)),
    "tile": ((1, 2),),
    "repeat_interleave": (2, 1),
    "narrow": (1, 0, 2),
    "gather": (1, torch.tensor([[0, 2], [1, 1]])),
    "masked_select": (torch.tensor([[True, False, True], [False, True, False]]),),
    "broadcast_to": ((4, 2, 3),),
    "tensor_split": (2, 1),
    "chunk": (2, 1),
}


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_of_stacks(name):
    """What a tensor of the batch shape does, the objects do, by method and by torch function."""
    stack = NonTensorStack.from_list([["0", "1", "2"], ["3", "4", "5"]])
    numbers = torch.arange(6).reshape(2, 3)
    wanted = getattr(numbers, name)(*SHAPES[name])
    for found in (getattr(stack, name)(*SHAPES[name]), getattr(torch, name)(stack, *SHAPES[name])):
        pieces = zip(found, wanted, strict=True) if isinstance(wanted, tuple) else [(found, wanted)]
        assert all(mine.tolist() == nested_text(theirs.tolist()) for mine, theirs in pieces)
    one = NonTensorData("a", batch_size=[2, 3])
    result = getattr(one, name)(*SHAPES[name])
    sizes = [part.shape for part in result] if isinstance(wanted, tuple) else [result.shape]
    assert sizes == ([part.shape for part in wanted] if isinstance(wanted, tuple) else [wanted.shape])


def nested_text(values: Any) -> Any:
    """Numbers in nested lists as text."""
    return [nested_text(value) for value in values] if isinstance(values, list) else str(values)


@pytest.mark.parametrize("value", ["text", "", 0, 7, 2.5, True, False, None, (1, 2), []])
def test_one_object_without_dims_is_used_as_itself(value: Any):
    """It prints, counts and is true as its object; it stays an entry, whose object is `item()`."""
    (one,) = NonTensorStack(value).unbind(0) if not isinstance(value, list) else (NonTensorStack.of_one(value, ()),)
    assert f"{one}" == f"{value}"
    assert bool(one) is bool(value)
    assert one.item() is value
    if isinstance(value, int | float):
        assert (int(one), float(one), f"{one:05.1f}") == (int(value), float(value), f"{value:05.1f}")
    else:
        with pytest.raises((TypeError, ValueError)):
            int(one)


def test_several_objects_are_a_list():
    """With dims it is true where it has elements, and prints as what it is."""
    many = NonTensorStack(0, 0)
    assert many
    assert not many[:0]
    assert f"{many}" == "NonTensorStack([0, 0])"
    with pytest.raises(TypeError):
        f"{many:d}"
    with pytest.raises(AttributeError, match=r"no attribute `upper`; .*`.item\(\)`"):
        many.upper  # type: ignore[attr-defined]  # what a user may write
    for made in (pickle.loads(pickle.dumps(many)), deepcopy(many), copy(many)):
        assert made.tolist() == [0, 0]


WRITES = {
    "row": lambda data, value: data.__setitem__(1, TensorDict(o=value)),
    "rows": lambda data, value: data.__setitem__(slice(0, 2), TensorDict(o=value).expand(2)),
    "mask": lambda data, value: data.__setitem__(torch.tensor([True, False, False]), TensorDict(o=value).expand(1)),
    "set_at_": lambda data, value: data.set_at_("o", value, 0),
    "update_at_": lambda data, value: data.update_at_(TensorDict(o=value), 2),
    "update_": lambda data, value: data.update_(TensorDict(o=value).expand(3)),
    "stack": lambda data, value: data.get("o").__setitem__(0, value),
}


@pytest.mark.parametrize("held", ["one", "each"])
@pytest.mark.parametrize("write", WRITES)
def test_a_container_is_no_object_in_place(held: str, write: str):
    """A container that a write in place would put among objects is an error, and nothing is written."""
    each = NonTensorStack({"k": 1}, {"k": 2}, "s")
    data = TensorDict(o=NonTensorData({"k": 1}, batch_size=[3]) if held == "one" else each, batch_size=[3])
    if (held, write) == ("one", "stack"):
        data.set("o", data.get("o").maybe_to_stack())
    before = data.get("o").tolist()
    with pytest.raises(RuntimeError, match=r"(`o`|stack) .*objects?"):
        WRITES[write](data, TensorDict(k=torch.ones(())))
    assert data.get("o").tolist() == before
