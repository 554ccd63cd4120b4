"""Rows of ragged elements: every way to make them, what they say of themselves, reductions against torch's own."""

from __future__ import annotations

import operator
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import RaggedTensor, TensorClass, TensorDict
from tensorclass.errors import ArgumentError, BatchSizeError, SchemaError, StructureError
from tensorclass.typing import Float32, Int64

FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64)
WHOLE = (torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool)
FORMS = ("packed", "picked", "view", "deep", "event", "hollow", "none")


def made(form: str, dtype: torch.dtype) -> RaggedTensor:
    """Ragged elements of every form that rows have in memory."""
    rows = torch.tensor([3, 1, 2, 9, 4, 7, 5, 0, 1, 6, 2, 8, 3], dtype=torch.float32).to(dtype)
    if form == "event":
        return RaggedTensor(rows[:12].reshape(6, 2), lengths=[1, 0, 3, 2])
    if form == "none":
        return RaggedTensor(rows[:0], lengths=[])
    if form == "hollow":
        return RaggedTensor(rows[:0], lengths=[0, 0])
    if form == "deep":
        return RaggedTensor(rows, lengths=torch.tensor([[3, 1, 2], [4, 0, 3]]))
    packed = RaggedTensor(rows, lengths=[3, 1, 0, 4, 2, 3])
    return packed if form == "packed" else packed[[4, 0, 2]] if form == "picked" else packed[1::2]


def flat(ragged: RaggedTensor) -> list[Tensor]:
    """The elements in batch order."""
    found = ragged.tolist()
    return [element for row in found for element in row] if ragged.ndim > 1 else found


def stacked(parts: list[Tensor], like: RaggedTensor, dtype: torch.dtype) -> Tensor:
    """Results of the elements as one tensor."""
    empty = torch.empty(0, *like.event_shape, dtype=dtype)
    return (torch.stack(parts) if parts else empty).reshape(*like.shape, *like.event_shape)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [*FLOATS, *WHOLE], ids=str)
def test_sum(form: str, dtype: torch.dtype):
    """The sum of each element is torch's own of its rows, its dtype too."""
    ragged = made(form, dtype)
    wanted = [element.sum(0) for element in flat(ragged)]
    torch.testing.assert_close(ragged.sum(), stacked(wanted, ragged, torch.ones(1, dtype=dtype).sum().dtype))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_mean(form: str, dtype: torch.dtype):
    """The mean is torch's own too, nan without rows."""
    ragged = made(form, dtype)
    wanted = [element.mean(0) for element in flat(ragged)]
    torch.testing.assert_close(ragged.mean(), stacked(wanted, ragged, dtype), equal_nan=True)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [*FLOATS[:4], *WHOLE], ids=str)
@pytest.mark.parametrize("how", ["max", "min"])
def test_extremes(form: str, dtype: torch.dtype, how: str):
    """The largest and the smallest are torch's own; elements without rows give what the caller says, or an error."""
    ragged = made(form, dtype)
    gaps = bool((ragged.lengths == 0).any())
    if gaps:
        with pytest.raises(ArgumentError, match=rf"{how}: the element at .* has no rows; .*initial"):
            getattr(ragged, how)()
    initial = torch.ones(ragged.event_shape, dtype=dtype)
    wanted = [getattr(torch, f"a{how}")(element, 0) if len(element) else initial for element in flat(ragged)]
    found = getattr(ragged, how)(initial=1) if gaps else getattr(ragged, how)()
    assert torch.equal(found, stacked(wanted, ragged, dtype))


def test_nan_wins():
    """One nan makes the largest and the smallest of its element nan, as in torch."""
    ragged = RaggedTensor(torch.tensor([1.0, float("nan"), 2.0]), lengths=[2, 1])
    for found in (ragged.max(), ragged.min(), ragged.sum()):
        assert found.isnan().tolist() == [True, False]


def test_gradients():
    """Gradients flow to the rows."""
    rows = torch.randn(5, 2, dtype=torch.float64, requires_grad=True)
    for name in ("sum", "mean", "max", "min"):
        torch.autograd.gradcheck(lambda t, name=name: getattr(RaggedTensor(t, lengths=[2, 3]), name)(), (rows,))


def test_what_is_refused():
    """Means of integers, an order of complex numbers."""
    with pytest.raises(ArgumentError, match=r"mean: the rows are torch.int64; convert"):
        made("packed", torch.int64).mean()
    with pytest.raises(ArgumentError, match=r"max: complex numbers have no order"):
        RaggedTensor(torch.ones(2, dtype=torch.complex64), lengths=[2]).max()


@pytest.mark.parametrize("form", FORMS)
def test_places(form: str):
    """Offsets, mask and segment ids say where the rows are; padding gives the mask with them."""
    ragged = made(form, torch.float32)
    parts = flat(ragged)
    assert ragged.offsets.tolist() == [sum(map(len, parts[:i])) for i in range(len(parts) + 1)]
    assert ragged.segment_ids.tolist() == [i for i, part in enumerate(parts) for _ in part]
    padded, mask = ragged.pad(return_mask=True)
    assert torch.equal(mask, ragged.mask)
    assert torch.equal(padded, ragged.pad())
    assert mask.shape == padded.shape[: ragged.ndim + 1]
    assert torch.equal(padded[mask], ragged.values)
    assert mask.sum(-1).equal(ragged.lengths)


@pytest.mark.parametrize("form", FORMS)
def test_apply_and_filter(form: str):
    """A function of the rows keeps the lengths; a filter keeps rows in their order, and elements without any."""
    ragged = made(form, torch.float32)
    doubled = ragged.apply(lambda rows: (rows * 2).long())
    assert doubled.lengths.equal(ragged.lengths)
    assert doubled.values.equal((ragged.values * 2).long())
    keep = torch.arange(len(ragged.values)) % 2 == 0
    for found in (ragged.filter(keep), ragged.filter(keep.tolist()), ragged.filter(lambda rows: keep)):
        assert found.shape == ragged.shape
        assert found.values.equal(ragged.values[keep])
        ids = ragged.segment_ids[keep]
        assert found.lengths.flatten().tolist() == [int((ids == i).sum()) for i in range(ragged.shape.numel())]


def test_wrong_functions():
    """A function that changes the number of rows, a mask of another kind."""
    ragged = made("packed", torch.float32)
    with pytest.raises(StructureError, match=r"apply: .*got shape \[12\]; use `filter`"):
        ragged.apply(lambda rows: rows[1:])
    with pytest.raises(StructureError, match=r"got a float"):
        ragged.apply(lambda rows: 1.0)  # type: ignore[arg-type, return-value]  # wrong on purpose
    for wrong in (torch.ones(13), torch.ones(12, dtype=torch.bool), [1] * 13):
        with pytest.raises((ArgumentError, BatchSizeError), match=r"one bool for each of the 13 rows"):
            ragged.filter(wrong)


@pytest.mark.parametrize(
    "lengths",
    [[3, 1], [5, -1], [2.0, 2.0], [True, True], [[1, 2], [3, 4]]],
    ids=["short", "negative", "floats", "bools", "sum"],
)
def test_wrong_lengths(lengths: list[float]):
    """Lengths are counts that add up to the rows."""
    with pytest.raises(StructureError, match=r"`lengths` `\[\*batch\]` that add up to the total, got"):
        RaggedTensor(torch.arange(5), lengths=lengths)


def test_rows_are_not_copied():
    """A table with lengths is taken over, as a field too."""
    rows = torch.arange(4)
    ragged = RaggedTensor(rows, lengths=torch.tensor([3, 1], dtype=torch.int32))
    assert ragged.values.data_ptr() == rows.data_ptr()
    assert TensorDict(t=ragged, batch_size=[2])["t"].sum().tolist() == [3, 3]
    with pytest.raises(StructureError, match="add up"):
        RaggedTensor([torch.ones(2)], lengths=[2])


def test_one_element_is_reduced():
    """An element without batch dims has one result: `row.words.sum()`."""
    one = RaggedTensor(torch.tensor([[1.0, 4.0], [3.0, 2.0]]), lengths=[2])[0]
    assert one.shape == ()
    for name, wanted in {"sum": [4.0, 6.0], "mean": [2.0, 3.0], "max": [3.0, 4.0], "min": [1.0, 2.0]}.items():
        assert getattr(one, name)().tolist() == wanted
    assert RaggedTensor(torch.zeros(0), lengths=[0])[0].max(initial=7).item() == 7


@pytest.mark.parametrize("name", ["float", "to", "numpy", "cumsum", "argmax", "softmax"])
def test_what_tensors_have_is_pointed_at(name: str):
    """A method of tensors that a ragged tensor lacks says how its rows, an element or a padded tensor are had."""
    with pytest.raises(AttributeError, match=rf"RaggedTensor has no attribute `{name}`; .*apply.*pad.*item"):
        getattr(RaggedTensor(torch.ones(3), lengths=[1, 2]), name)
    assert not hasattr(RaggedTensor(torch.ones(3), lengths=[1, 2]), "_no_such_name")


WORDS = [torch.tensor([1, 2]), torch.tensor([2, 0, 2])]


@pytest.mark.parametrize("op", ["eq", "ne", "lt", "le", "gt", "ge", "add", "sub", "mul", "truediv"])
@pytest.mark.parametrize("other", [2, 2.0, torch.tensor(2)], ids=["int", "float", "tensor"])
def test_rows_beside_a_number(op: str, other: Any):
    """Comparisons are made as arithmetic is, row by row: `==` was False for all of them together."""
    function = getattr(operator, op)
    found = function(RaggedTensor(WORDS), other)
    assert [row.tolist() for row in found.tolist()] == [function(word, other).tolist() for word in WORDS]
    assert found.dtype == function(WORDS[0], other).dtype


@pytest.mark.parametrize("op", ["lt", "le", "gt", "ge", "add", "mul"])
def test_rows_beside_rows(op: str):
    """Two of equal lengths meet; `==` says for each element whether it is equal."""
    function, other = getattr(operator, op), [word.flip(0) for word in WORDS]
    found = function(RaggedTensor(WORDS), RaggedTensor(other))
    assert [a.tolist() for a in found.tolist()] == [function(a, b).tolist() for a, b in zip(WORDS, other, strict=True)]
    assert (RaggedTensor(WORDS) == RaggedTensor(other)).tolist() == [False, True]


def test_tensors_meet_every_row():
    """A tensor of a row's shape is broadcast over the rows; one that may be meant otherwise is refused."""
    boxes = RaggedTensor([torch.ones(1, 4), torch.ones(2, 4)])
    size = torch.tensor([1.0, 2.0, 3.0, 4.0])
    assert (boxes * size).values.equal((size * boxes).values)
    assert (boxes * size).values[2].equal(size)
    for left, right in ((boxes, torch.ones(3, 4)), (RaggedTensor(WORDS), torch.ones(5)), (RaggedTensor(WORDS), size)):
        for function in (operator.mul, operator.eq, operator.lt, operator.ne):
            with pytest.raises(StructureError, match="a tensor meets every row"):
                function(left, right)


def test_a_ragged_mask_filters():
    """The rows of one field by those of another; other lengths are refused, also where there are as many rows."""
    boxes = RaggedTensor([torch.zeros(2, 4), torch.ones(3, 4)])
    assert boxes.filter(RaggedTensor(WORDS) == 2).lengths.tolist() == [1, 2]
    with pytest.raises(StructureError, match="elements that are combined have one length"):
        boxes.filter(RaggedTensor([WORDS[1], WORDS[0]]) == 2)


def test_other_things_are_not_equal():
    """Text and None are not numbers."""
    assert (RaggedTensor(WORDS) == "a") is False
    assert (RaggedTensor(WORDS) != None) is True  # noqa: E711  # the operator is tested


@pytest.mark.parametrize("rows", [[[1, 2], [3]], [[1], []], [[], []]], ids=repr)
def test_lists_of_numbers(rows: list[list[int]]):
    """`autocast` makes tensors of the lists that a tokenizer gives; without it the error says so."""

    class Text(TensorClass, autocast=True):
        tokens: Int64[RaggedTensor, "t"]
        label: Int64[Tensor, ""]

    class Exact(TensorClass):
        tokens: Int64[RaggedTensor, "t"]
        label: Int64[Tensor, ""]

    text = Text(tokens=rows, label=[0, 1])
    assert [row.tolist() for row in text.tokens.tolist()] == rows
    assert text.batch_size == (2,)
    with pytest.raises(SchemaError, match="autocast=True"):
        Exact(tokens=rows, label=torch.tensor([0, 1]), batch_size=[2])


def test_lists_of_rows():
    """Elements with event dims are lists of lists; a ragged list in one is refused."""

    class Found(TensorClass, autocast=True):
        boxes: Float32[RaggedTensor, "n 2"]

    assert Found(boxes=[[[0, 1]], [[1, 2], [3, 4]]]).boxes.values.tolist() == [[0, 1], [1, 2], [3, 4]]
    with pytest.raises(SchemaError, match=r"boxes\[1\]"):
        Found(boxes=[[[0, 1]], [[1, 2], [3]]])
