# pyright: strict
# checkers: pyright, mypy+plugin
"""Options between brackets, as programs for the original write them."""

from typing import Generic, TypeVar

import torch
from torch import Tensor
from typing_extensions import assert_type

from tensorclass import FrozenTensorClass, TensorClass, tensorclass
from tensorclass.typing import Float32, Int64

T = TypeVar("T")


class Kept(TensorClass["nocast"]):
    label: Int64[Tensor, ""]


class Both(TensorClass["autocast", "tensor_only"]):
    label: Int64[Tensor, ""]


class Cold(TensorClass["frozen"]):
    label: Int64[Tensor, ""]


class Colder(FrozenTensorClass["nocast"]):
    label: Int64[Tensor, ""]


class Child(Kept):
    image: Float32[Tensor, "8 8"]


class Pair(TensorClass["nocast"], Generic[T]):
    first: Float32[Tensor, ""]
    second: T


@tensorclass
class Decorated(TensorClass["shadow"]):
    label: Int64[Tensor, ""]


label = torch.zeros(4, dtype=torch.int64)
kept = Kept(label, batch_size=[4])
kept.label = label
Cold(label)[0].label.sum()
Colder(label).to("cpu")
Decorated(label=label)
Both(torch.zeros(4))


def function(batch: TensorClass) -> list[TensorClass]:
    return [batch, batch[0]]


function(Child(label, torch.zeros(4, 8, 8)))


def typed() -> None:
    assert_type(kept[0], Kept)
    assert_type(Both(label).label, Tensor)
    assert_type(Pair(torch.zeros(4), kept).second, Kept)
