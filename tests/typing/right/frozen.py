# pyright: strict
# checkers: mypy, pyright, mypy+plugin, ty
"""Frozen classes."""

import torch
from torch import Tensor
from typing_extensions import assert_type

from tensorclass import FrozenTensorClass, TensorClass
from tensorclass.typing import Float32


class Reading(FrozenTensorClass):
    value: Float32[Tensor, ""]
    unit: str = "m"


# ---- constructor and operations are those of every typed class
reading = Reading(torch.zeros(3), batch_size=[3])
assert_type(reading[0], Reading)
assert_type(reading.to("cpu") + 1, Reading)
assert_type(reading.replace(value=torch.ones(3)), Reading)
assert_type(reading.value, Tensor)


# ---- a child of a frozen class is frozen without saying so
class Timed(Reading):
    time: Float32[Tensor, ""] | None = None


assert_type(Timed(torch.zeros(3), time=torch.zeros(3)).time, Tensor | None)


# ---- a frozen class is a TensorClass
def first(batch: TensorClass) -> TensorClass:
    return batch[0]


first(reading)


# ---- the class keyword says the same as the base
class Spot(TensorClass, frozen=True):
    value: Float32[Tensor, ""]


assert_type(Spot(torch.zeros(3))[0], Spot)


# ---- the other options are class keywords too
class Loose(TensorClass, autocast=True, shadow=True, validate="values"):
    value: Float32[Tensor, ""]


assert_type(Loose(torch.zeros(3))[0], Loose)
