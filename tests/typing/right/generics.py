# pyright: strict
"""Generic classes."""

from typing import Generic, TypeVar

import torch
from torch import Tensor
from typing_extensions import assert_type

from tensorclass import TensorClass, stack
from tensorclass.typing import Float32

T = TypeVar("T")


class Point(TensorClass):
    x: Float32[Tensor, ""]


class Pair(TensorClass, Generic[T]):
    left: T
    right: T


# ---- arguments given
point = Point(torch.zeros(3))
pair = Pair[Point](point, point)
assert_type(pair, Pair[Point])
assert_type(pair.left.x, Tensor)
assert_type(pair[0].right, Point)
assert_type(stack([pair, pair]), Pair[Point])


# ---- arguments bound by a child
class Points(Pair[Point]):
    weight: Float32[Tensor, ""] | None = None


points = Points(point, point)
assert_type(points.left, Point)
assert_type(points[0].left.x, Tensor)


# ---- a class that holds itself
class Tree(TensorClass):
    value: Float32[Tensor, ""]
    below: "Tree | None" = None


tree = Tree(torch.zeros(3), Tree(torch.ones(3)))
assert_type(tree.below, Tree | None)
if tree.below is not None:
    assert_type(tree.below.value, Tensor)
