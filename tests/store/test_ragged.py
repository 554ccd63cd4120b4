"""`RaggedTensor`: against a list of tensors, which is what it means; and as an entry of containers."""

from __future__ import annotations

import copy
import operator
import pickle
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils._pytree as pytree
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tensorclass import RaggedTensor, TensorDict, cat, equal, stack
from tensorclass.errors import BatchIndexError, BatchSizeError, StructureError, UnsupportedOperationError

LENGTHS = st.lists(st.integers(0, 4), min_size=1, max_size=6)


def rows(lengths: list[int], *event: int) -> list[Tensor]:
    """Tensors of these lengths whose numbers all differ."""
    count, found = 0, []
    for length in lengths:
        numel = length * torch.Size(event).numel()
        found.append(torch.arange(count, count + numel, dtype=torch.float32).reshape(length, *event))
        count += numel
    return found


def same(ragged: Any, expected: list[Tensor]) -> bool:
    """Whether a ragged tensor of one batch dim is these tensors."""
    found = ragged.tolist()
    assert ragged.lengths.tolist() == [len(t) for t in expected]
    return len(found) == len(expected) and all(map(torch.equal, found, expected))


def holder(ragged: RaggedTensor) -> TensorDict:
    """A container with the ragged entry and a tensor beside it."""
    return TensorDict(r=ragged, at=torch.arange(ragged.shape.numel()).reshape(ragged.shape), batch_size=ragged.shape)


# ---- construction ----------------------------------------------------------------------------------------------------


def test_from_nested_lists() -> None:
    """Nested lists are batch dims; arrays are tensors."""
    ragged = RaggedTensor([[torch.zeros(2, 3)], [torch.ones(1, 3)]])
    assert ragged.shape == torch.Size([2, 1])
    assert ragged.event_shape == torch.Size([3])
    assert ragged.lengths.tolist() == [[2], [1]]
    assert ragged.tolist()[1][0].tolist() == [[1.0, 1.0, 1.0]]
    assert RaggedTensor([np.zeros(2), np.ones(1)]).dtype is torch.float64  # type: ignore[arg-type]  # arrays too
    assert RaggedTensor([]).shape == torch.Size([0])
    assert RaggedTensor([]).tolist() == []


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")  # torch says so of the strided layout
@pytest.mark.parametrize("layout", [torch.jagged, torch.strided])
def test_from_and_to_nested(layout: torch.layout) -> None:
    """A nested tensor of torch goes in, a jagged one comes out."""
    expected = rows([2, 0, 3], 2)
    ragged = RaggedTensor(torch.nested.nested_tensor(expected, layout=layout))
    assert same(ragged, expected)
    back = ragged[[2, 0, 1]].to_nested()
    assert all(map(torch.equal, back.unbind(), [expected[2], expected[0], expected[1]]))


@given(LENGTHS, st.integers(-3, 3))
def test_pad_and_unpad(lengths: list[int], value: int) -> None:
    """Padding fills behind each element and nothing else; unpadding takes it away again."""
    expected = rows(lengths, 2)
    padded = RaggedTensor(expected).pad(value)
    assert padded.shape == (len(lengths), max(lengths), 2)
    for i, part in enumerate(expected):
        assert torch.equal(padded[i, : len(part)], part)
        assert bool((padded[i, len(part) :] == value).all())
    assert same(RaggedTensor.unpad(padded, lengths), expected)


def test_unpad_shares_memory() -> None:
    """The padded tensor is the table: nothing is copied."""
    padded = torch.zeros(2, 3)
    ragged = RaggedTensor.unpad(padded, torch.tensor([1, 2]))
    padded[1, 0] = 7
    assert ragged[1].item().tolist() == [7, 0]


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: RaggedTensor([torch.zeros(1), torch.zeros(1, dtype=torch.int64)]), StructureError, "int64.* at 1"),
        (lambda: RaggedTensor([torch.zeros(1, 2), torch.zeros(1, 3)]), StructureError, r"\[t, 3\].* at 1"),
        (lambda: RaggedTensor([torch.tensor(1.0)]), StructureError, r"at least one dim.*shape \[\] at \[0\]"),
        (lambda: RaggedTensor([torch.zeros(1), 3]), StructureError, r"a int: 3 at \[1\]"),  # type: ignore[arg-type]  # the point
        (lambda: RaggedTensor([[torch.zeros(1)], []]), BatchSizeError, r"shape \[1\] are expected at \[1\], got 0"),
        (lambda: RaggedTensor.unpad(torch.zeros(2, 3), [1, 4]), ValueError, "from 0 to 3.*got 4"),
        (lambda: RaggedTensor.unpad(torch.zeros(2, 3), [-1, 4]), ValueError, "got -1"),
        (lambda: RaggedTensor.unpad(torch.zeros(2, 3), [1]), BatchSizeError, r"got shape \[2, 3\]"),
        (lambda: RaggedTensor.unpad(torch.zeros(2, 3), torch.ones(2)), ValueError, "integers, got torch.float32"),
        (lambda: RaggedTensor(rows([1, 2])).item(), ValueError, "tolist"),
        (lambda: RaggedTensor([rows([1, 2])]).to_nested(), StructureError, "one batch dim"),
        (lambda: RaggedTensor([torch.zeros(1).long()]).pad(0.5), StructureError, "can't hold 0.5"),
        (lambda: RaggedTensor([torch.zeros(1).to(torch.uint8)]).pad(300), StructureError, "can't hold 300"),
        (lambda: RaggedTensor(rows([1, 2]))[:, 0], BatchIndexError, "2 indices"),
        (lambda: len(RaggedTensor(rows([1, 2]))[0]), TypeError, "item"),
        (lambda: RaggedTensor(rows([1, 2])) + RaggedTensor(rows([2, 1])), StructureError, r"at \[0\] they are 1 and 2"),
        (lambda: RaggedTensor(rows([1, 2])) + RaggedTensor(rows([1])), BatchSizeError, "batch shapes differ"),
        (lambda: RaggedTensor(rows([1, 2])) + RaggedTensor(rows([1, 2], 3)), StructureError, "number of dims"),
        (lambda: RaggedTensor(rows([1, 2])) == RaggedTensor(rows([1])), BatchSizeError, "batch shapes differ"),
        (lambda: RaggedTensor(rows([1])) + "a", TypeError, "unsupported"),
    ],
)
def test_what_is_refused(make: Any, error: type[Exception], words: str) -> None:
    """Every wrong input is named."""
    with pytest.raises(error, match=words):
        make()


# ---- one element and all of them -------------------------------------------------------------------------------------


def test_reading() -> None:
    """Items, iteration, length and repr."""
    ragged = RaggedTensor(rows([2, 1]))
    assert ragged[0].item().tolist() == [0, 1]
    assert [len(t) for t in ragged] == [2, 1]
    assert [part.shape for part in RaggedTensor([rows([2, 1])])] == [torch.Size([2])]
    assert len(ragged) == 2
    assert repr(ragged) == "RaggedTensor(Ragged[f32[2,-1]], lengths=[2, 1])"
    ragged.lengths.zero_()
    assert ragged.lengths.tolist() == [2, 1]


@pytest.mark.parametrize("op", [operator.add, operator.sub, operator.mul, operator.truediv])
def test_arithmetic(op: Any) -> None:
    """With numbers on either side and with another one that stands in another order in memory."""
    left, right = rows([2, 0, 3], 2), [t + 1 for t in rows([2, 0, 3], 2)]
    shuffled = RaggedTensor([right[2], right[0], right[1]])[[1, 2, 0]]
    assert same(op(RaggedTensor(left), shuffled), [op(a, b) for a, b in zip(left, right, strict=True)])
    assert same(op(RaggedTensor(right), 2), [op(a, 2) for a in right])
    assert same(op(2, RaggedTensor(right)), [op(2, a) for a in right])


def test_equality() -> None:
    """One bool for each element; different lengths are different."""
    ragged = RaggedTensor(rows([2, 1, 0]))
    other = RaggedTensor([torch.tensor([0.0, 1.0]), torch.tensor([2.0, 0.0]), torch.zeros(0)])
    assert (ragged == other).tolist() == [True, False, True]
    assert (ragged != other).tolist() == [False, True, False]
    assert (ragged == "a") is False


@given(LENGTHS, st.data())
def test_pack(lengths: list[int], data: Any) -> None:
    """The values stand in batch order after any selection, repeats included."""
    expected = rows(lengths, 2)
    index = data.draw(st.lists(st.integers(0, len(lengths) - 1), max_size=8))
    picked = RaggedTensor(expected)[torch.tensor(index, dtype=torch.int64)]
    chosen = [expected[i] for i in index]
    assert same(picked.pack(), chosen)
    assert torch.equal(picked.values, torch.cat([*chosen, torch.zeros(0, 2)]))


# ---- as an entry -----------------------------------------------------------------------------------------------------

OPERATIONS: dict[str, Any] = {
    "slice": lambda d: d[1:],
    "step": lambda d: d[::2],
    "list": lambda d: d[[0, 0]],
    "mask": lambda d: d[d["at"] % 2 == 0],
    "masked_select": lambda d: d.masked_select(d["at"] > 0),
    "flip": lambda d: d[torch.arange(len(d) - 1, -1, -1)],
    "gather": lambda d: d.gather(0, torch.tensor([0, 0])),
    "unbind": lambda d: stack(list(d.unbind(0))),
    "chunk": lambda d: cat(list(d.chunk(2))[::-1]),
    "split": lambda d: d.split(1)[0],
    "reshape": lambda d: d.reshape(1, -1).reshape(-1),
    "unsqueeze": lambda d: d.unsqueeze(1).squeeze(1),
    "expand": lambda d: d.expand(2, *d.shape).reshape(-1),
    "permute": lambda d: stack([d, d]).permute(1, 0).reshape(-1),
    "clone": lambda d: d.clone(),
    "pickle": lambda d: pickle.loads(pickle.dumps(d)),
    "deepcopy": copy.deepcopy,
    "pytree": lambda d: pytree.tree_map(lambda t: t.clone(), d),
    "move": lambda d: d.to("cpu"),
    "self stack": lambda d: stack([d, d[:]], 1)[:, 0],
    "cat": lambda d: cat([d, d.clone()]),
}


@pytest.mark.parametrize("name", OPERATIONS)
@given(LENGTHS)
def test_operations_keep_elements_together(name: str, lengths: list[int]) -> None:
    """After every operation each element stands beside the number it came with."""
    expected = rows(lengths, 2)
    result = OPERATIONS[name](holder(RaggedTensor(expected)))
    assert same(result["r"], [expected[i] for i in result["at"].tolist()])
    assert result["r"].shape == result.batch_size


def test_arithmetic_of_a_container_touches_each_element_once() -> None:
    """A repeated element is several elements, and a part is none of the rest."""
    data = holder(RaggedTensor(rows([2, 1])))
    data[torch.tensor([0, 0])].mul_(0)
    assert same(data["r"], rows([2, 1]))
    assert same((data[torch.tensor([1, 1])] + 1)["r"], [torch.tensor([3.0])] * 2)
    part = data[1:]
    part.mul_(10)  # a slice shares memory, as that of a tensor does
    assert data["r"].tolist()[1].tolist() == [20.0]
    assert data["r"].tolist()[0].tolist() == [0.0, 1.0]


def test_casts_and_gradients() -> None:
    """Casts reach the values and leave the lengths; gradients flow through selection and padding."""
    data = holder(RaggedTensor(rows([2, 1])))
    assert data.to(torch.float64)["r"].dtype is torch.float64
    assert data.to(torch.float64)["r"].lengths.tolist() == [2, 1]
    leaf = torch.ones(3, requires_grad=True)
    RaggedTensor([leaf, leaf * 2])[[1, 0]].pad().sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.tolist() == [3.0, 3.0, 3.0]


def test_a_pickled_part_holds_the_part_alone() -> None:
    """A slice of a large table is pickled without the rest."""
    ragged = RaggedTensor(rows([1, 10_000]))
    assert len(pickle.dumps(ragged[:1])) < 5_000


def test_equal() -> None:
    """`equal` compares elements, not tables."""
    data = holder(RaggedTensor(rows([2, 1, 3])))
    assert equal(data[torch.tensor([2, 0])], data[torch.tensor([2, 0])].clone())
    assert not equal(data, data + 1)
    other = TensorDict(r=RaggedTensor(rows([2, 3, 1])), at=data["at"], batch_size=[3])
    assert not equal(data, other)


def test_where_chooses_elements() -> None:
    """A condition over the batch picks whole elements, whatever their lengths."""
    left, right = rows([2, 1, 0]), [t + 10 for t in rows([1, 3, 2])]
    data, other = holder(RaggedTensor(left)), holder(RaggedTensor(right))
    chosen = data.where(torch.tensor([True, False, True]), other)
    assert same(chosen["r"], [left[0], right[1], left[2]])


# ---- writes ----------------------------------------------------------------------------------------------------------


def test_index_assignment() -> None:
    """Elements of another length take the place of elements, one or many."""
    expected = rows([2, 1, 0])
    data = holder(RaggedTensor(expected))
    data[0] = {"r": torch.tensor([5.0, 6.0, 7.0]), "at": 0}
    assert same(data["r"], [torch.tensor([5.0, 6.0, 7.0]), *expected[1:]])
    data[torch.tensor([True, False, True])] = {"r": RaggedTensor(rows([1, 4])), "at": 0}
    assert same(data["r"], [rows([1, 4])[0], expected[1], rows([1, 4])[1]])
    data[1:] = {"r": [torch.ones(1)], "at": 0}  # one element for several
    assert same(data["r"], [rows([1, 4])[0], torch.ones(1), torch.ones(1)])
    assert data["r"].values.shape == (3,)


def test_update_in_place() -> None:
    """`update_` takes lists and ragged tensors, and moves the dtype where nothing is lost."""
    data = holder(RaggedTensor(rows([2, 1])))
    data.update_({"r": [torch.tensor([1]), torch.tensor([2, 3])]})
    assert same(data["r"], [torch.tensor([1.0]), torch.tensor([2.0, 3.0])])


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        ([torch.zeros(1)] * 3, BatchSizeError, r"`r` takes one tensor for each element of \[2\].*\[3\]"),
        ([torch.zeros(1, 2)] * 2, StructureError, "`r` holds .*differ only in length"),
        ([torch.zeros(1, dtype=torch.complex64)] * 2, StructureError, "`r` holds"),
        ("a", StructureError, "`r`: an element"),
        ([torch.zeros(1), torch.zeros(1).double()], StructureError, "`r`: elements"),
    ],
)
def test_a_refused_write_changes_nothing(value: Any, error: type[Exception], words: str) -> None:
    """All or nothing: the tensor beside it is not written either."""
    data = holder(RaggedTensor(rows([2, 1])))
    with pytest.raises(error, match=words):
        data.update_({"at": torch.tensor([7, 7]), "r": value})
    assert data["at"].tolist() == [0, 1]
    assert same(data["r"], rows([2, 1]))


def test_a_view_sees_later_writes_and_a_copy_does_not() -> None:
    """As for tensors, elements of other lengths included: slices are views; a mask, a gather and a clone copy."""
    data = holder(RaggedTensor(rows([2, 1])))
    part, picked, copied = data[:1], data[torch.tensor([0])], data.clone()[:1]
    data[0] = {"r": torch.zeros(5), "at": 0}
    assert same(part["r"], [torch.zeros(5)])
    data.mul_(0)
    assert same(picked["r"], rows([2]))
    assert same(copied["r"], rows([2]))


# ---- joins -----------------------------------------------------------------------------------------------------------


@given(LENGTHS, LENGTHS)
def test_joins_of_different_tables(first: list[int], second: list[int]) -> None:
    """`cat` keeps every element; the tables of parts are left behind."""
    a, b = rows(first, 2), [t + 100 for t in rows(second, 2)]
    left, right = holder(RaggedTensor(a)), holder(RaggedTensor(b))
    joined = cat([left[1:], right])
    assert same(joined["r"], [*a[1:], *b])
    assert len(joined["r"].values) == sum(first[1:]) + sum(second)


def test_joins_that_are_refused() -> None:
    """Elements that differ in more than their length do not join; the error names the field."""
    left, right = holder(RaggedTensor(rows([1], 2))), holder(RaggedTensor(rows([1], 3)))
    with pytest.raises(StructureError, match="stack: field `r`"):
        stack([left, right])


def test_without_elements_any_event_shape_joins() -> None:
    """A batch of no elements does not know its event shape and takes that of the others."""
    empty = holder(RaggedTensor([]))
    full = holder(RaggedTensor(rows([2], 3)))
    assert same(cat([empty, full])["r"], rows([2], 3))
    assert same(cat([full, empty])["r"], rows([2], 3))


def test_printed() -> None:
    """A container shows the dtype, -1 for what varies, and the event shape."""
    assert "r: Ragged[f32[-1,2]]" in repr(holder(RaggedTensor(rows([1, 2], 2))))


def test_state_dict() -> None:
    """A state dict carries the elements, and a load puts them back."""
    data = holder(RaggedTensor(rows([2, 1])))
    other = holder(RaggedTensor(rows([1, 1])))
    other.load_state_dict(data.state_dict())
    assert same(other["r"], rows([2, 1]))


# ---- operations over the batch that meet the values ------------------------------------------------------------------


def test_a_tensor_over_the_batch_reaches_whole_elements() -> None:
    """One number for each element is applied to all of its rows, in the holder's batch dims and in further ones."""
    expected = rows([2, 0, 3], 2)
    weight = torch.tensor([10.0, 20.0, 30.0])
    scaled = [part * w for part, w in zip(expected, weight, strict=True)]
    assert same((holder(RaggedTensor(expected)) * weight)["r"], scaled)
    assert same((holder(RaggedTensor(rows([2]))) * torch.tensor([3.0]))["r"], [rows([2])[0] * 3])
    inner = TensorDict(r=RaggedTensor([rows([1, 2]), rows([2, 1])]), batch_size=[2])
    outer = inner * torch.tensor([1.0, 2.0])
    assert outer["r"].tolist()[1][0].tolist() == [0.0, 2.0]


def test_masks_reach_whole_elements() -> None:
    """`masked_fill`, its in-place twin and `where` with a number fill the elements that a mask selects."""
    expected = rows([2, 0, 3], 2)
    mask = torch.tensor([False, True, True])
    filled = [expected[0], expected[1], torch.full((3, 2), -1.0)]
    assert same(holder(RaggedTensor(expected)).masked_fill(mask, -1)["r"], filled)
    data = holder(RaggedTensor(expected))
    assert same(data.where(~mask, -1)["r"], filled)
    assert same(data["r"], expected)
    data.masked_fill_(mask, -1)
    assert same(data["r"], filled)
    assert data[2].masked_fill(torch.tensor(True), 4)["r"].item().tolist() == [[4.0, 4.0]] * 3
    nested = TensorDict(inner=data, batch_size=[3])
    assert same(nested.masked_fill(mask, 5)["inner", "r"], [expected[0], expected[1], torch.full((3, 2), 5.0)])


@pytest.mark.parametrize("op", [operator.add, operator.iadd, operator.eq, lambda a, b: a.add(b), torch.maximum])
def test_values_of_other_lengths_do_not_meet(op: Any) -> None:
    """As many values in other lengths do not stand side by side: refused, and nothing is written."""
    data = holder(RaggedTensor(rows([2, 1])))
    with pytest.raises(StructureError, match=r"`r`: elements that are combined have one length; at \[0\]"):
        op(data, holder(RaggedTensor(rows([1, 2]))))
    with pytest.raises(StructureError, match=r"`inner\.r`"):
        op(TensorDict(inner=data, batch_size=[2]), TensorDict(inner=holder(RaggedTensor(rows([1, 2]))), batch_size=[2]))
    assert same(data["r"], rows([2, 1]))
    assert data["at"].tolist() == [0, 1]
    assert same((data + data[torch.tensor([0, 1])])["r"], [t * 2 for t in rows([2, 1])])


def test_defaults_do_not_hide_other_lengths() -> None:
    """Entries that both sides have are compared also where others are filled in."""
    data, other = holder(RaggedTensor(rows([2, 1]))), TensorDict(r=RaggedTensor(rows([1, 2])), batch_size=[2])
    for default in (0, "intersection"):
        with pytest.raises(StructureError, match="one length"):
            data.add(other, default=default)  # type: ignore[arg-type]  # a number or the word
        with pytest.raises(StructureError, match="one length"):
            data.add_(other, default=default)  # type: ignore[arg-type]  # a number or the word


@pytest.mark.parametrize("nested", [False, True])
def test_padding_of_the_batch_adds_empty_elements(nested: bool) -> None:
    """And cuts elements, as of any entry; of a nested tensor of torch too."""
    ragged = RaggedTensor(rows([2, 1, 3]))
    data = TensorDict(r=ragged.to_nested() if nested else ragged, at=torch.arange(3), batch_size=[3])
    grown, cut = data.pad([1, 2]), data.pad([0, -1])
    assert [len(part) for part in (grown["r"].unbind() if nested else grown["r"])] == [0, 2, 1, 3, 0, 0]
    assert [part.tolist() for part in (cut["r"].unbind() if nested else cut["r"])] == [[0.0, 1.0], [2.0]]


@pytest.mark.parametrize("op", [lambda d: d.sum(0), lambda d: d.new_zeros(3), lambda d: d.mean(dim="feature")])
def test_operations_that_would_change_lengths_are_refused(op: Any) -> None:
    """What can't keep the lengths says so, and names the entry."""
    with pytest.raises(StructureError, match=r"`r`.*length"):
        op(holder(RaggedTensor(rows([2, 1]))).float())


def test_on_the_meta_device() -> None:
    """Without data the lengths are unknown, and printing says so."""
    moved = holder(RaggedTensor(rows([2, 1]))).to("meta")
    assert repr(moved["r"]) == "RaggedTensor(Ragged[f32[2,-1]], lengths=?)"
    assert moved["r"].device.type == "meta"


@pytest.mark.parametrize(
    "fn", [torch.abs, lambda rows: rows + 1, lambda rows: rows.clone()], ids=["abs", "add", "clone"]
)
def test_results_without_values_take_other_lengths(fn: Any) -> None:
    """What an operation makes of elements that are all empty is a batch of its own; a detached view is none."""
    empty = TensorDict(r=RaggedTensor.unpad(torch.ones(2, 3), torch.tensor([0, 0])), batch_size=[2])
    made = fn(empty)
    made[...] = TensorDict(r=RaggedTensor.unpad(torch.ones(2, 3), torch.tensor([1, 3])), batch_size=[2])
    assert made["r"].lengths.tolist() == [1, 3]
    assert empty["r"].lengths.tolist() == [0, 0]
    grown = TensorDict(r=RaggedTensor(torch.ones(0, requires_grad=True), torch.tensor([0, 0])), batch_size=[2])
    with pytest.raises(UnsupportedOperationError, match="detached view"):
        grown.detach()[...] = made
