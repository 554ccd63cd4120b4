"""Ragged tensors in torch's functions: shape functions and joins work as on a list, the others say what to call."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.overrides import get_overridable_functions

from tensorclass import NonTensorData, NonTensorStack, RaggedTensor
from tensorclass.errors import (
    ArgumentError,
    BatchDimError,
    BatchIndexError,
    BatchSizeError,
    StructureError,
    TensorClassError,
    UnsupportedOperationError,
)

LENGTHS = torch.tensor([[2, 0, 3], [1, 4, 2]])


def ragged(start: int = 0) -> RaggedTensor:
    """Elements of other lengths, `[2, 3]`, each with numbers of its own."""
    return RaggedTensor(torch.arange(start, start + 12), lengths=LENGTHS)


def picked(found: Any, source: list[Tensor], numbers: Any) -> bool:
    """Whether a result has the elements of a list that the numbers say."""
    if isinstance(numbers, tuple):
        return len(found) == len(numbers) and all(picked(f, source, n) for f, n in zip(found, numbers, strict=True))
    rows = torch.cat([source[i] for i in numbers.reshape(-1).tolist()])
    lengths = torch.tensor([len(one) for one in source])[numbers]
    return found.shape == numbers.shape and found.lengths.equal(lengths) and found.values.equal(rows)


SHAPES: dict[str, Callable[..., Any]] = {
    "reshape": lambda fn, x: fn(x, (3, 2)), "flatten": lambda fn, x: fn(x), "unsqueeze": lambda fn, x: fn(x, -1),
    "squeeze": lambda fn, x: fn(x[:1], 0), "permute": lambda fn, x: fn(x, (1, 0)),
    "transpose": lambda fn, x: fn(x, 0, -1), "unbind": lambda fn, x: fn(x, 1), "split": lambda fn, x: fn(x, 2, 1),
    "clone": lambda fn, x: fn(x), "tensor_split": lambda fn, x: fn(x, 2), "chunk": lambda fn, x: fn(x, 2),
    "swapaxes": lambda fn, x: fn(x, 0, 1), "swapdims": lambda fn, x: fn(x, 0, 1), "movedim": lambda fn, x: fn(x, 0, 1),
    "moveaxis": lambda fn, x: fn(x, 0, 1), "unflatten": lambda fn, x: fn(x, 1, (3, 1)),
    "flip": lambda fn, x: fn(x, (0, 1)), "fliplr": lambda fn, x: fn(x), "flipud": lambda fn, x: fn(x),
    "roll": lambda fn, x: fn(x, 1, 1), "rot90": lambda fn, x: fn(x), "tile": lambda fn, x: fn(x, (2, 1)),
    "repeat_interleave": lambda fn, x: fn(x, 2, 1), "narrow": lambda fn, x: fn(x, 1, 0, 2),
    "gather": lambda fn, x: fn(x, 1, torch.tensor([[2], [0]])),
    "masked_select": lambda fn, x: fn(x, torch.tensor([[True, False, True], [False, True, False]])),
    "broadcast_to": lambda fn, x: fn(x, (2, 2, 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("spelled", ["torch", "method"])
def test_shape_functions(name: str, spelled: str):
    """What they do to the numbers of the elements, they do to the elements, as torch's function and as a method."""
    source, numbers = ragged(), torch.arange(6).reshape(2, 3)
    fn = getattr(torch, name) if spelled == "torch" else lambda x, *args: getattr(x, name)(*args)
    assert picked(SHAPES[name](fn, source), source.reshape(-1).tolist(), SHAPES[name](fn, numbers))


def test_shape_functions_give_views():
    """Where torch gives a view, a write reaches the source; a copy is its own."""
    source = ragged()
    source.reshape(-1)[0].values.fill_(9)
    assert source[0, 0].tolist().tolist() == [9, 9]
    source.clone()[0, 0].values.fill_(7)
    assert source[0, 0].tolist().tolist() == [9, 9]


@pytest.mark.parametrize("join", [torch.cat, torch.concat, torch.concatenate, torch.stack])
@pytest.mark.parametrize("dim", [0, 1, -1, -2])
def test_joins(join: Any, dim: int):
    """Elements in the order in which torch joins their numbers, of one source and of two."""
    first, second, numbers = ragged(), ragged(100), torch.arange(6).reshape(2, 3)
    listed = [*first.reshape(-1).tolist(), *second.reshape(-1).tolist()]
    assert picked(join([first, second], dim), listed, join([numbers, numbers + 6], dim))
    assert picked(join([first, first], dim=dim), listed, join([numbers, numbers], dim))


def test_joins_that_are_refused():
    """Each says what was given: kinds, shapes, dims, one instead of a list."""
    one, numbers = ragged(), torch.arange(6)
    for items in ([one, numbers], [numbers, one], [one, NonTensorStack("a")], [NonTensorStack("a"), one]):
        with pytest.raises(UnsupportedOperationError, match=r"joins entries of one kind, got a .* at position 1"):
            torch.cat(items)
    with pytest.raises(ArgumentError, match="cat takes a list of what it joins, got one RaggedTensor"):
        torch.cat(one)  # type: ignore[arg-type]  # the point
    with pytest.raises(BatchSizeError, match=r"cat needs batch sizes that agree but for dim 0: \[2, 3\] at position 0"):
        torch.cat([one, one[:, :1]])  # type: ignore[list-item]  # torch's types know tensors
    with pytest.raises(BatchSizeError, match="stack needs the same batch size"):
        torch.stack([one, one[:1]])  # type: ignore[list-item]  # as above
    with pytest.raises(BatchDimError, match="dim 2 is not a batch dim"):
        torch.cat([one, one], 2)  # type: ignore[list-item]  # as above
    with pytest.raises(StructureError, match=r"^cat: the event shapes \[\] and \[3\]"):
        torch.cat([one, one.apply(lambda rows: rows[:, None].expand(-1, 3))])  # type: ignore[list-item]  # as above


ANSWERED = {*SHAPES, "cat", "concat", "concatenate", "stack"}


@pytest.mark.slow
@pytest.mark.parametrize("room", [torch, torch.nn.functional], ids=lambda room: room.__name__)
def test_no_function_gives_an_error_of_torch(room: Any):
    """Every function of torch that takes a tensor names itself and the ways to the rows."""
    left, answered = [], 0
    for function in get_overridable_functions()[room]:
        if function.__name__ in ANSWERED:
            continue
        for arguments in ((), (1,), (0, 1), (ragged(),), (torch.ones(2),), ((2,),)):
            try:
                function(ragged(), *arguments)
            except UnsupportedOperationError as error:
                answered += "`apply(function)` is for all rows" in str(error)
                break
            except TensorClassError:
                break
            except (TypeError, ValueError, RuntimeError, AttributeError):  # torch wants other arguments besides
                continue
        else:
            left.append(function.__name__)
    assert answered > (350 if room is torch else 60)
    assert len(left) < answered / 4, left


def test_layers_say_what_to_call():
    """A layer of torch, and a function of it, as a newcomer calls them."""
    for call in (torch.nn.Linear(3, 2), torch.nn.Embedding(9, 2), torch.log, torch.nn.functional.relu, torch.isnan):
        with pytest.raises(UnsupportedOperationError, match=r"torch\..* is not defined on a RaggedTensor; `apply"):
            call(ragged())


@pytest.mark.parametrize(
    "operation", [operator.pow, operator.and_, operator.or_, operator.add, operator.mul, operator.lt], ids=repr
)
def test_operators(operation: Any):
    """With a number and with a ragged tensor of equal lengths, as on the rows."""
    one, rows = ragged(), torch.arange(12)
    assert operation(one, 2).values.equal(operation(rows, 2))
    assert operation(one, one + 1).values.equal(operation(rows, rows + 1))


def test_masks_combine():
    """Masks are joined by `&`, `|` and `~`; numbers of numpy stand on either side."""
    one, rows = ragged(), torch.arange(12)
    assert one.filter((one > 2) & ~(one == 5) | (one == 0)).values.equal(rows[(rows > 2) & (rows != 5) | (rows == 0)])
    assert abs(-one).values.equal(rows)
    for number in (np.float32(2), np.int64(2), torch.tensor(2)):
        assert (number * one).values.equal((one * number).values)
        assert (number * one).values.tolist() == (rows * 2).tolist()


def test_indices_that_are_refused():
    """Stacks of objects and ragged tensors answer as containers do."""
    for node in (NonTensorStack("a", "b"), RaggedTensor([torch.ones(1), torch.ones(2)])):
        for index in (5, (0, 1), "a", 1.5):
            with pytest.raises(BatchIndexError):
                node[index]
        with pytest.raises(UnsupportedOperationError, match="without batch dims"):
            node[0][0]


@pytest.mark.parametrize("made", [lambda n: NonTensorStack(*range(n)), lambda n: RaggedTensor([torch.arange(1)] * n)])
def test_many_pieces(made: Any, monkeypatch: pytest.MonkeyPatch):
    """The batch is cut once, however many pieces there are."""
    node = made(50)
    calls: list[int] = []
    unbind = Tensor.unbind
    monkeypatch.setattr(Tensor, "unbind", lambda *args: calls.append(1) or unbind(*args))
    pieces = node.unbind()
    assert len(pieces) == 50
    assert len(calls) == 1


def test_objects_equal_a_list():
    """A list, an array or a tensor has a value for each element; one of another length is refused."""
    names = NonTensorStack("a", "b", "c")
    assert (names == ["a", "x", "c"]).tolist() == [True, False, True]
    assert (names != np.array(["a", "x", "c"])).tolist() == [False, True, False]
    assert (NonTensorStack(1, 2) == torch.tensor([1, 3])).tolist() == [True, False]
    lists = torch.stack([NonTensorData(["a"]), NonTensorData(["b"])])  # type: ignore[list-item]  # torch's types know tensors
    assert (lists == ["a"]).tolist() == [True, False]  # the objects are lists
    assert (NonTensorStack(("a", 1), ("b", 2)) == ("a", 1)).tolist() == [True, False]
    assert (NonTensorStack.from_list([["a", "b"], ["c", "d"]]) == [["a", "x"], ["x", "d"]]).tolist() == [
        [True, False],
        [False, True],
    ]
    with pytest.raises(BatchSizeError, match="got 2 values where 3 are expected"):
        assert names == ["a", "b"]
