# pyright: strict, reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
"""Generic classes."""

from typing import Generic, TypeVar

import torch
from torch import Tensor

from tensorclass import TensorClass
from tensorclass.typing import Float32

T = TypeVar("T")


class Point(TensorClass):
    x: Float32[Tensor, ""]


class Other(TensorClass):
    z: Float32[Tensor, ""]


class Pair(TensorClass, Generic[T]):
    left: T
    right: T


point, other = Point(torch.zeros(3)), Other(torch.zeros(3))
Pair[Point](point, other)  # E: arg-type | reportArgumentType | SchemaError
Pair[Point](point)  # E: call-arg | reportCallIssue | SchemaError
pair = Pair[Point](point, point)
print(pair.left.z)  # E: attr-defined | reportAttributeAccessIssue | UnknownFieldError
pair.left = other  # E: assignment | reportAttributeAccessIssue | SchemaError
wrong: Pair[Other] = pair  # E: assignment | reportAssignmentType | -
Pair[Point, Other]  # E: misc | reportInvalidTypeArguments | TypeError
