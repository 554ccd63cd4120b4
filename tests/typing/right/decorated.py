# pyright: strict
"""The decorator above the base class."""

import torch
from torch import Tensor
from typing_extensions import assert_type

from tensorclass import TensorClass, is_tensorclass, tensorclass
from tensorclass.typing import Float32


# ---- both forms together
@tensorclass
class Point(TensorClass):
    x: Float32[Tensor, ""]
    y: Float32[Tensor, ""] | None = None


point = Point(torch.zeros(3), batch_size=[3])
assert_type(point[0], Point)
assert_type(point.y, Tensor | None)


# ---- with options
@tensorclass(autocast=True)
class Whole(TensorClass):
    x: Float32[Tensor, ""]


assert_type(Whole(torch.zeros(3)).to("cpu"), Whole)
assert_type(is_tensorclass(point), bool)


# ---- the decorator by itself: the constructor's fields and attributes
@tensorclass
class Alone:
    x: Float32[Tensor, ""]
    y: Float32[Tensor, ""] | None = None


alone = Alone(torch.zeros(3), y=None)
assert_type(alone.x, Tensor)
assert_type(alone.y, Tensor | None)
