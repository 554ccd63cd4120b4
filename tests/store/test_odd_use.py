"""Uses that no example shows: absent keys, odd indices, odd leaves, containers inside themselves."""

import copy
import pickle
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.data import DataLoader

from tensorclass import NonTensorStack, RaggedTensor, TensorDict, equal, errors, lazy_stack, pad, tensorclass
from tensorclass.errors import (
    BatchIndexError,
    MissingKeyError,
    StructureError,
    UnknownFieldError,
    UnsupportedOperationError,
)


@tensorclass
class Row:
    """A class whose property fails inside."""

    x: Tensor

    @property
    def broken(self) -> Tensor:
        """Reads what is not there."""
        return self.nothing  # type: ignore[attr-defined, no-any-return]  # the point of the test


@tensorclass
class Node:
    """A recursive class."""

    x: Tensor
    child: "Node | None" = None


def batch(**entries: object) -> TensorDict:
    """Three rows."""
    return TensorDict({"a": torch.arange(6.0).reshape(3, 2), "b": {"c": torch.ones(3)}, **entries}, batch_size=[3])


# ---- absent keys -----------------------------------------------------------------------------------------------------


def test_asking_for_what_is_absent_compares_no_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """`get`, `hasattr` and a caught error look for no nearest name: that takes longer than the rest by far."""

    def refuse(*_: object) -> str:
        raise AssertionError("names were compared")

    monkeypatch.setattr(errors, "SequenceMatcher", refuse)
    data, row = batch(), Row(x=torch.zeros(3), batch_size=[3])
    assert data.get("q") is None
    assert data.get(("b", "q"), 1) == 1
    assert data.get(("q", "r")) is None
    assert not hasattr(row, "nothing")
    assert row.get("nothing", 2) == 2
    with pytest.raises(MissingKeyError):
        data["q"]


def test_the_error_of_an_absent_key_survives_a_pickle() -> None:
    """The text is put together when it is read, and travels as text."""
    with pytest.raises(MissingKeyError) as caught:
        batch()["b", "d"]
    text = "no entry `b.d`: TensorDict has no key `d`; its keys are ['c']"
    assert str(caught.value) == text
    assert str(pickle.loads(pickle.dumps(caught.value))) == text
    assert str(copy.copy(caught.value)) == text


def test_an_absent_key_among_many_names_the_nearest_and_not_all() -> None:
    """A message of ten thousand keys helps nobody."""
    data = TensorDict({f"key{i}": torch.zeros(()) for i in range(1000)})
    with pytest.raises(MissingKeyError, match=r"did you mean `key99`\?.*\.\.\.\], 1000 in all") as caught:
        data["kez99"]
    assert len(str(caught.value)) < 600


def test_an_error_inside_a_property_is_its_own() -> None:
    """`hasattr` falls back to the property, whose error says what was missing there."""
    with pytest.raises(UnknownFieldError, match="no field or attribute `nothing`"):
        Row(x=torch.zeros(3), batch_size=[3]).broken  # reading it is the test


# ---- one object for each element, of a large batch -------------------------------------------------------------------


def texts(count: int) -> TensorDict:
    """A batch with a text for each element."""
    return TensorDict(text=[f"t{i}" for i in range(count)], x=torch.arange(count), batch_size=[count])


def test_rows_of_a_large_batch_carry_their_own_objects() -> None:
    """A pickled, copied, joined or merged row does not take the objects of all others along."""
    data = texts(500)
    row = data[7]
    assert b"t9" not in pickle.dumps(row)
    assert pickle.loads(pickle.dumps(row))["text"] == "t7"
    assert len(copy.deepcopy(row).get("text")._table) == 1
    assert "PerElement" in repr(data[:2])
    joined = torch.stack([row, texts(400)[3]])
    assert joined["text"] == ["t7", "t3"]
    assert len(joined.get("text")._table) == 2
    chosen = data[:2].where(torch.tensor([True, False]), texts(300)[5:7])
    assert chosen["text"] == ["t0", "t6"]
    assert len(chosen.get("text")._table) <= 4


def test_joined_rows_of_one_batch_share_its_objects() -> None:
    """A collated sample of a data set copies no table."""
    data = texts(500)
    sample = torch.stack([data[i] for i in (3, 499, 3)])
    assert sample["text"] == ["t3", "t499", "t3"]
    assert sample.get("text")._table is data.get("text")._table


def test_kinds_are_those_of_the_elements_that_are_there() -> None:
    """What is printed of a row says nothing of other rows."""
    data = TensorDict(note=["a", None, 3, 4, 5], batch_size=[5])
    assert "PerElement[str]" in repr(data[:1])


def test_a_buffer_of_texts_is_written_an_element_at_a_time() -> None:
    """Many writes, views show them and copies do not, and what is overwritten is let go in the end."""
    data = texts(200)
    before = data[:3].clone()
    early = data.get("text")[5]
    for round in range(5):
        for i in range(200):
            data[i] = TensorDict(text=f"{round}-{i}", x=torch.tensor(-i))
    assert data["text"] == [f"4-{i}" for i in range(200)]
    assert before["text"] == ["t0", "t1", "t2"]
    assert early.item() == "4-5"
    assert len(data.get("text")._table) <= 402


def test_two_stacks_that_grow_from_one_table_do_not_see_each_other() -> None:
    """The longest table grows in place; a shorter one that is written makes its own."""
    data = texts(100)
    data[0] = TensorDict(text="first", x=torch.tensor(0))
    twin = data.clone()
    data[1] = TensorDict(text="mine", x=torch.tensor(0))
    twin[1] = TensorDict(text="theirs", x=torch.tensor(0))
    data[2] = TensorDict(text="more", x=torch.tensor(0))
    assert data["text"][:4] == ["first", "mine", "more", "t3"]
    assert twin["text"][:4] == ["first", "theirs", "t2", "t3"]
    assert pickle.loads(pickle.dumps(twin))["text"] == twin["text"]
    leaves, spec = torch.utils._pytree.tree_flatten(twin)
    assert spec == torch.utils._pytree.tree_structure(twin.clone())
    assert torch.utils._pytree.tree_unflatten(leaves, spec)["text"] == twin["text"]
    with pytest.raises(AttributeError):
        twin.get("text")._table.append("more")


# ---- odd indices and sizes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", [["a", "b"], np.array(["a"]), np.array([1, None]), [None], [[0], [1, 2]]])
def test_a_sequence_that_is_no_index_is_named(index: object) -> None:
    """What torch says of it alone does not say that it was taken for an index."""
    with pytest.raises(BatchIndexError, match=r"a sequence as an index holds ints or bools, got .*select"):
        batch()[index]


def test_numpy_bytes_are_ints_and_numpy_bools_are_bools() -> None:
    """Torch takes an array of bytes for a mask, with a warning; numpy and its users do not."""
    data = batch()
    assert data[np.array([2, 0], dtype=np.uint8)]["a"].tolist() == data["a"][[2, 0]].tolist()
    assert data[np.True_].batch_size == (1, 3)
    assert data[np.array([], dtype=np.int8)].batch_size == (0,)
    with pytest.raises(BatchIndexError, match="mask"):
        data[np.array([], dtype=bool)]


def test_an_index_does_not_follow_the_default_device() -> None:
    """Lists made into tensors of the default device picked arbitrary memory of leaves elsewhere."""
    data = batch(name=["x", "y", "z"])
    with torch.device("meta"):
        assert data[[2, 0]]["a"].tolist() == [[4.0, 5.0], [0.0, 1.0]]
        assert data.__getitems__([1])["a"].tolist() == [[2.0, 3.0]]
        named = TensorDict(name=["x", "y"], batch_size=[2])
        named[0] = named[1]
        assert torch.cat([named, named])["name"] == ["y", "y", "y", "y"]
        assert TensorDict(name="x", batch_size=[2]).expand(3, 2)[0, 0]["name"] == "x"
        assert lazy_stack([data, data])[[1]].split(1)[0]["a"].shape == (1, 3, 2)


def test_objects_follow_an_index_of_another_device() -> None:
    """A batch on an accelerator whose `device` is not set keeps the index of its objects on the CPU."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        data = TensorDict(x=torch.zeros(3, 2, device="cuda"), name=NonTensorStack("a", "b", "c"), batch_size=[3])
        at = torch.zeros(2, dtype=torch.int64, device="cuda")
        assert data.gather(0, at).get("name").shape == (2,)
        assert data.where(torch.ones(3, dtype=torch.bool, device="cuda"), data).get("name").shape == (3,)


@pytest.mark.parametrize(
    "size", [np.int64(3), [np.int64(3)], np.array([3]), torch.tensor(3), torch.tensor([3]), [True + 2]]
)
def test_a_batch_size_is_made_of_ints(size: object) -> None:
    """Numbers of numpy in it would come out in JSON, in messages and in comparisons of types."""
    made = TensorDict(a=torch.zeros(3), batch_size=size).batch_size  # type: ignore[arg-type]  # anything like ints
    assert made == (3,)
    assert [type(n) for n in made] == [int]


def test_a_lazy_stack_that_vmap_returns_has_the_mapped_dim_in_front() -> None:
    """The dim of the stack moves back by one, as the dims of a tensor do."""
    data = batch()
    made = torch.vmap(lambda row: lazy_stack([row, row * 2]))(data)
    assert made.batch_size == (3, 2)
    assert made[1]["b", "c"].tolist() == [1.0, 2.0]
    stack = lazy_stack([data, data], 1)
    assert torch.utils._pytree.tree_map(lambda leaf: leaf.unsqueeze(0), stack)["b", "c"].shape == (1, 3, 2)


# ---- odd leaves ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.complex64, torch.uint64, torch.uint16, torch.bool, torch.float8_e4m3fn])
def test_every_dtype_is_padded(dtype: torch.dtype) -> None:
    """Torch pads complex numbers and wide unsigned ints with zero alone."""
    data = TensorDict(a=torch.zeros(1).to(dtype), batch_size=[1])
    padded = pad(data, [1, 1], value=1)["a"]
    assert padded.dtype is dtype
    assert padded.to(torch.complex64).real.tolist() == [1.0, 0.0, 1.0]
    assert pad(data, [0, 1])["a"].shape == (2,)


# ---- numbers of numpy as dims and sizes ------------------------------------------------------------------------------

TWO = np.int64(2)
ZERO = np.int32(0)
NUMBERS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda d: d.sum(ZERO),
    "mean": lambda d: d.mean((ZERO, np.int64(1))),
    "max": lambda d: d.max(ZERO).values,
    "all": lambda d: d.all(ZERO),
    "softmax": lambda d: d.softmax(ZERO),
    "unbind": lambda d: d.unbind(ZERO)[0],
    "split": lambda d: d.split(TWO)[0],
    "split sizes": lambda d: d.split(np.array([2, 2]))[1],
    "unsqueeze": lambda d: d.unsqueeze(TWO),
    "squeeze": lambda d: d[:1].squeeze(ZERO),
    "reshape": lambda d: d.reshape(np.int64(12)),
    "reshape by array": lambda d: d.reshape(np.array([6, 2])),
    "view": lambda d: d.view(TWO, -1),
    "expand": lambda d: d.expand(TWO, 4, 3),
    "permute": lambda d: d.permute(np.int64(1), ZERO),
    "transpose": lambda d: d.transpose(ZERO, np.int64(1)),
    "flatten": lambda d: d.flatten(ZERO, np.int64(1)),
    "unflatten": lambda d: d.unflatten(ZERO, (TWO, TWO)),
    "repeat": lambda d: d.repeat(TWO, np.int64(1)),
    "tile": lambda d: d.tile(TWO),
    "flip": lambda d: d.flip(ZERO),
    "roll": lambda d: d.roll(TWO, ZERO),
    "stack": lambda d: torch.stack([d, d], ZERO),
    "cat": lambda d: torch.cat([d, d], ZERO),
    "narrow": lambda d: d.narrow(ZERO, np.int64(1), TWO),
    "lazy stack": lambda d: lazy_stack([d, d], TWO),
    "lazy flip": lambda d: lazy_stack([d, d]).flip(ZERO),
    "lazy reshape": lambda d: lazy_stack([d, d]).reshape(np.int64(8), 3),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_dims_and_sizes_may_be_ints_of_numpy(name: str) -> None:
    """As in torch; sizes that are made of them are plain ints."""
    data = TensorDict(a=torch.arange(24.0).reshape(4, 3, 2), batch_size=[4, 3])
    made = NUMBERS[name](data)
    plain = NUMBERS[name].__code__  # the same call with plain ints
    values = {"ZERO": 0, "TWO": 2, "np": _Plain, "torch": torch, "lazy_stack": lazy_stack}
    expected = FunctionType(plain, values)(data)
    assert equal(made, expected)
    assert [type(n) for n in made.batch_size] == [int] * len(made.batch_size)


class _Plain:
    """Stands for numpy where the same call is made without it."""

    int64 = int
    array = staticmethod(list)


@pytest.mark.parametrize("size", [2.0, "a", None])
def test_what_is_no_size_of_a_piece_is_named(size: object) -> None:
    """Neither "not iterable" nor a comparison of strings says what was wrong."""
    with pytest.raises(TypeError, match="split: pieces have a size, or a sequence of them, got"):
        batch().split(size)  # type: ignore[arg-type]  # the point of the test


# ---- nested tensors of torch as entries ------------------------------------------------------------------------------


def prompts() -> TensorDict:
    """Three prompts of different lengths, each with a number and a name."""
    rows = [torch.arange(3.0), torch.arange(1.0), torch.arange(2.0)]
    ids = torch.nested.as_nested_tensor(rows, layout=torch.jagged)
    return TensorDict(ids=ids, at=torch.arange(3), name=["a", "b", "c"], batch_size=[3])


def lengths(data: TensorDict) -> list[int]:
    """How long the prompts are."""
    return [len(row) for row in data["ids"].unbind()]


CUTS: dict[str, tuple[Callable[[TensorDict], TensorDict], list[int], list[str]]] = {
    "slice": (lambda d: d[1:], [1, 2], ["b", "c"]),
    "mask": (lambda d: d[torch.tensor([True, False, True])], [3, 2], ["a", "c"]),
    "list": (lambda d: d[[2, 0]], [2, 3], ["c", "a"]),
    "tensor": (lambda d: d[torch.tensor([2, 2])], [2, 2], ["c", "c"]),
    "none": (lambda d: d[:0], [], []),
    "everything": (lambda d: d[...], [3, 1, 2], ["a", "b", "c"]),
    "clone": (lambda d: d.clone(), [3, 1, 2], ["a", "b", "c"]),
    "cat": (lambda d: torch.cat([d, d[:1]]), [3, 1, 2, 3], ["a", "b", "c", "a"]),
    "split": (lambda d: d.split(2)[1], [2], ["c"]),
    "split sizes": (lambda d: d.split([0, 3])[1], [3, 1, 2], ["a", "b", "c"]),
    "chunk": (lambda d: d.chunk(2)[0], [3, 1], ["a", "b"]),
    "masked_select": (lambda d: d.masked_select(torch.tensor([False, True, False])), [1], ["b"]),
    "loader": (lambda d: next(iter(DataLoader(d, batch_size=2))), [3, 1], ["a", "b"]),  # type: ignore[arg-type]  # a map-style data set
}


@pytest.mark.parametrize("name", CUTS)
def test_nested_tensors_are_cut_and_joined_by_rows(name: str) -> None:
    """What torch's jagged layout lacks; the entries beside it stay beside it."""
    cut, long, names = CUTS[name]
    made = cut(prompts())
    assert made.batch_size == (len(long),)
    assert made["ids"].is_nested
    assert lengths(made) == long
    assert made["name"] == names
    assert lengths(made.clone()) == long


def test_nested_tensors_keep_gradients_and_are_ragged_over_two_batch_dims() -> None:
    """Rows are views of the leaf; torch has no nested tensor of rows over two batch dims."""
    row = torch.ones(3, requires_grad=True)
    ids = torch.nested.as_nested_tensor([row, torch.ones(1)], layout=torch.jagged)
    data = TensorDict(ids=ids, at=torch.arange(2), batch_size=[2])
    data[[1, 0]]["ids"].values().sum().backward()
    assert row.grad is not None
    assert row.grad.tolist() == [1.0, 1.0, 1.0]
    assert prompts().zero_()["ids"].values().tolist() == [0.0] * 6
    square = data[torch.tensor([[0, 1]])].get("ids")
    assert isinstance(square, RaggedTensor)
    assert square.lengths.tolist() == [[3, 1]]
    assert torch.stack([data, data]).get("ids").lengths.tolist() == [[3, 1], [3, 1]]


def test_get_gives_a_ragged_entry_as_it_is() -> None:
    """It is neither a tensor nor an object: `get` wrapped it as one."""
    ragged = RaggedTensor([torch.arange(3), torch.arange(1)])
    data = TensorDict(ids=ragged, batch_size=[2])
    assert isinstance(data.get("ids"), RaggedTensor)
    assert data.get("ids").lengths.tolist() == [3, 1]


# ---- values of all kinds ---------------------------------------------------------------------------------------------


def test_arrays_of_numpy_in_any_layout() -> None:
    """Reversed views, another byte order, arrays that can't be written: torch refuses the first two."""
    fixed = np.arange(3)
    fixed.flags.writeable = False
    data = TensorDict(
        reverse=np.arange(3)[::-1],
        big=np.arange(3, dtype=">f4"),
        fixed=fixed,
        one=np.broadcast_to(np.array(1), (3,)),
        batch_size=[3],
    )
    assert data["reverse"].tolist() == [2, 1, 0]
    assert data["big"].dtype is torch.float32
    assert data["big"].tolist() == [0.0, 1.0, 2.0]
    data["fixed"].zero_()
    assert fixed.tolist() == [0, 1, 2]
    assert data["one"].tolist() == [1, 1, 1]


def test_a_list_of_tensors_is_stacked() -> None:
    """As in the constructor of the original, gradients included; what has no one shape stays a list of objects."""
    part = torch.ones(2, requires_grad=True)
    data = TensorDict(rows=[part, torch.zeros(2)], pairs=[(part, part), (part, part)], batch_size=[2])
    assert data["rows"].tolist() == [[1.0, 1.0], [0.0, 0.0]]
    assert data["pairs"].shape == (2, 2, 2)
    assert data["rows"].requires_grad
    assert TensorDict(x=[part.sum(), part.sum()], batch_size=[2])["x"].requires_grad
    uneven = TensorDict(rows=[torch.ones(2), torch.ones(3)], batch_size=[2])
    assert [len(row) for row in uneven["rows"]] == [2, 3]
    nested = TensorDict(steps=[batch(), batch()], batch_size=[2])
    assert nested["steps", "b", "c"].shape == (2, 3)
    assert TensorDict(steps=[batch(), batch(d=torch.ones(3))], batch_size=[2])["steps"][1]["d"].shape == (3,)


@pytest.mark.parametrize(
    "put",
    [
        lambda d: d.set("self", d),
        lambda d: d.set(("new", "self"), d),
        lambda d: d["b"].set("up", d),
        lambda d: d.update({"x": {"y": d}}),
        lambda d: d.set("x", TensorDict(up=d, batch_size=[3])),
        lambda d: lazy_stack([d, d.clone()]).set("x", lazy_stack([d, d])),
    ],
)
def test_a_container_does_not_hold_itself(put: Callable[[TensorDict], Any]) -> None:
    """Every later operation on it would run until the stack is full."""
    data = batch()
    with pytest.raises(StructureError, match="a container can't be put inside itself"):
        put(data)
    assert sorted(data.keys()) == ["a", "b"]
    assert sorted(data["b"].keys()) == ["c"]


def test_an_instance_does_not_hold_itself() -> None:
    """Classes may be recursive, instances may not."""
    node = Node(x=torch.zeros(2), batch_size=[2])
    with pytest.raises(StructureError, match="inside itself"):
        node.child = node
    node.child = Node(x=torch.zeros(2), batch_size=[2])
    with pytest.raises(StructureError, match="inside itself"):
        node.child.child = node
    assert node.child.child is None


def test_a_buffer_of_ragged_elements_is_written_an_element_at_a_time() -> None:
    """What is overwritten stays for a while, and is let go before it is more than what is there."""
    data = TensorDict(ids=RaggedTensor([torch.full((2,), float(i)) for i in range(50)]), batch_size=[50])
    early = data[3:5]
    for round in range(6):
        for i in range(50):
            data[i] = TensorDict(ids=RaggedTensor([torch.full((1 + i % 3,), float(round * 100 + i))])[0])
    assert data["ids"][7].item().tolist() == [507.0, 507.0]
    assert data["ids"].lengths.tolist() == [1 + i % 3 for i in range(50)]
    assert early["ids"][0].item().tolist() == [503.0]  # a view
    rows = int(data["ids"].lengths.sum())
    assert len(data.get("ids")._parts[0]) <= 2 * rows + 3
    assert len(data["ids"].values) == rows


# ---- trees and functions of torch ------------------------------------------------------------------------------------


def test_objects_of_elements_go_through_vmap() -> None:
    """With a tensor before them, after them, and nested."""
    for entries in ({"a": torch.zeros(3)}, {}):
        data = TensorDict({**entries, "name": ["x", "y", "z"], "b": {"of": ["u", "v", "w"]}, "c": torch.ones(3)}, [3])
        made = torch.vmap(lambda row: row)(data)
        assert made["name"] == ["x", "y", "z"]
        assert made["b", "of"] == ["u", "v", "w"]


@pytest.mark.parametrize("function", [lambda leaf: leaf + 1, lambda leaf: leaf.double(), lambda leaf: leaf - 9])
def test_a_tree_map_that_computes_does_not_change_objects(function: Callable[[Tensor], Tensor]) -> None:
    """It read other objects than before, or failed when they were read."""
    data = TensorDict(a=torch.zeros(2), name=["x", "y"], batch_size=[2])
    with pytest.raises(StructureError, match=r"tree_map: the index of objects.*batch\.apply"):
        torch.utils._pytree.tree_map(function, data)
    assert torch.utils._pytree.tree_map(lambda leaf: leaf.flip(0), data)["name"] == ["y", "x"]


@pytest.mark.parametrize(
    ("call", "instead"),
    [
        (lambda d: torch.hstack([d, d]), "torch.cat"),
        (lambda d: torch.index_select(d, 0, torch.tensor([0])), r"batch\[index\]"),
        (lambda d: torch.nn.functional.pad(d, [0, 1]), "batch.pad"),
        (torch.detach, "batch.detach"),
    ],
)
def test_torch_functions_that_have_another_name_here(call: Callable[[Any], Any], instead: str) -> None:
    """The way out that was given, `apply` with the function, is none for these."""
    with pytest.raises(UnsupportedOperationError, match=instead):
        call(batch())
