"""What has no batch dims has no length, and no container turns into one tensor or array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from tensorclass import LazyStackedTensorDict, TensorClass, TensorDict, TypedTensorDict, lazy_stack
from tensorclass.typing import Float32, Int64


class Plain(TensorClass):
    x: Float32[Tensor, "3"]


class Habit(TensorClass):
    image: Float32[Tensor, "b 3"]
    label: Int64[Tensor, "b"]
    source: str = "scan"


class Mixed(TensorClass):
    image: Float32[Tensor, "n 3"]
    label: Int64[Tensor, ""]


class Typed(TypedTensorDict):
    x: Float32[Tensor, "3"]


def habit() -> Habit:
    """Thirty-two images, in the dims of one element."""
    return Habit(image=torch.zeros(32, 3), label=torch.zeros(32, dtype=torch.int64))


KINDS: dict[str, Callable[[list[int]], Any]] = {
    "typed": lambda size: Plain(torch.zeros(*size, 3)),
    "typed over a lazy stack": lambda size: lazy_stack([Plain(torch.zeros(*size[1:], 3)) for _ in range(size[0])]),
    "dense": lambda size: TensorDict(x=torch.zeros(*size, 3), batch_size=size),
    "lazy": lambda size: LazyStackedTensorDict(
        *[TensorDict(x=torch.zeros(*size[1:], 3), batch_size=size[1:])] * size[0]
    ),
    "declared keys": lambda size: Typed(x=torch.zeros(*size, 3)),
}
WHOLE: dict[str, Callable[[Any], Any]] = {
    "as_tensor": torch.as_tensor, "tensor": torch.tensor, "asarray": torch.asarray,
    "new_tensor": torch.ones(1).new_tensor, "from_dlpack": torch.from_dlpack, "np.asarray": np.asarray,
    "np.array": np.array, "np.stack": lambda x: np.stack([x, x]), "np.array of two": lambda x: np.array([x, x]),
    "np.from_dlpack": np.from_dlpack, "np.zeros_like": np.zeros_like,
}  # fmt: skip
PAIRS = {"tensor": torch.tensor, "as_tensor": torch.as_tensor, "asarray": torch.asarray, "Tensor": torch.Tensor}


@pytest.mark.parametrize("make", WHOLE)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [[], [2], [2, 3]], ids=str)
def test_a_container_becomes_no_tensor(kind: str, make: str, size: list[int]) -> None:
    """Else it would be an empty tensor, or one of objects; the error says what to call instead."""
    if not size and "lazy" in kind:
        size = [1]
    with pytest.raises(TypeError, match=r"several tensors.*torch\.stack"):
        WHOLE[make](KINDS[kind](size))


@pytest.mark.parametrize("make", PAIRS)
@pytest.mark.parametrize("size", [[], [2]], ids=str)
def test_a_list_of_typed_batches_becomes_no_tensor(make: str, size: list[int]) -> None:
    """The list is walked down to elements without batch dims, and asks for their length."""
    batch = KINDS["typed"](size)
    with pytest.raises(TypeError, match=r"torch\.stack"):
        PAIRS[make]([batch, batch])


@pytest.mark.parametrize("make", ["Tensor", "from_numpy", "FloatTensor"])
def test_what_torch_refuses_itself(make: str) -> None:
    """These ask the object nothing, so the words are torch's."""
    with pytest.raises((TypeError, RuntimeError), match="Plain"):
        getattr(torch, make)(KINDS["typed"]([2]))


@pytest.mark.parametrize(
    "ask",
    [len, lambda batch: next(iter(batch)), reversed, list, lambda batch: list(DataLoader(batch))],
    ids=["len", "iter", "reversed", "list", "DataLoader"],
)
def test_a_typed_instance_without_batch_dims_has_no_length(ask: Callable[[Any], Any]) -> None:
    """As a 0-d tensor has none: a dataset of it would train on nothing."""
    with pytest.raises(TypeError, match="Plain without batch dims"):
        ask(KINDS["typed"]([]))


def test_an_untyped_one_keeps_the_documented_zero() -> None:
    """The anchor documents 0 for `TensorDict`; iteration raises in both."""
    assert len(TensorDict(x=torch.zeros(3))) == 0
    for ask in iter, reversed:
        with pytest.raises(TypeError, match="without batch dims"):
            ask(TensorDict(x=torch.zeros(3)))


@pytest.mark.parametrize("kind", KINDS)
def test_length_truth_and_iteration_with_batch_dims(kind: str) -> None:
    """With batch dims, empty ones too, length and iteration are those of a tensor; the truth value is refused."""
    batch = KINDS[kind]([2, 3])
    assert len(batch) == len(list(batch)) == len(list(reversed(batch))) == 2
    assert len(batch[:0]) == 0
    assert list(batch[:0]) == []
    with pytest.raises(TypeError, match="ambiguous"):
        bool(batch)


def test_the_truth_of_an_instance_without_batch_dims() -> None:
    """`if batch:` never asks for the length."""
    with pytest.raises(TypeError, match="ambiguous"):
        bool(KINDS["typed"]([]))


@pytest.mark.parametrize("ask", [len, list])
def test_a_dim_name_that_begins_every_shape_is_taken_for_the_batch(ask: Callable[[Any], Any]) -> None:
    """The habit of jaxtyping users: the message says that batch dims are not written in annotations."""
    with pytest.raises(TypeError, match=r"begin with `b`.*batch dims are not written"):
        ask(habit())


@pytest.mark.parametrize(
    "batch",
    [Mixed(image=torch.zeros(2, 3), label=torch.tensor(1)), KINDS["typed"]([])],
    ids=["one scalar field", "a number"],
)
def test_other_shapes_say_nothing_about_the_batch(batch: Any) -> None:
    """Where not every tensor begins with one name, the message does not guess."""
    with pytest.raises(TypeError) as caught:
        len(batch)
    assert "not written" not in str(caught.value)
