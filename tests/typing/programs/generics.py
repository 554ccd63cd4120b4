# pyright: strict
"""Generic classes and generic functions."""

from typing import Generic, TypeVar

import torch
from torch import Tensor
from typing_extensions import assert_type

from tensorclass import TensorClass
from tensorclass.typing import Float32

T = TypeVar("T")
C = TypeVar("C", bound=TensorClass)


class Point(TensorClass):
    x: Float32[Tensor, ""]


class Other(TensorClass):
    z: Float32[Tensor, ""]


class Pair(TensorClass, Generic[T]):
    left: T
    right: T


def twice(items: C) -> tuple[C, C]:
    return items.clone(), items * 2


def size(items: TensorClass) -> int:
    return items.numel()


point = Point(x=torch.zeros(4), batch_size=[4])
other = Other(z=torch.zeros(4), batch_size=[4])
pair = Pair[Point](left=point, right=point, batch_size=[4])

# ---- right: a class with an argument
assert_type(pair, Pair[Point])
assert_type(pair.left.x, Tensor)
# ---- right: operations keep the argument
assert_type(pair[0].right, Point)
assert_type(pair.to("cpu"), Pair[Point])


# ---- right: a child binds the argument
class Points(Pair[Point]):
    weight: Float32[Tensor, ""] | None = None


assert_type(Points(left=point, right=point, batch_size=[4])[0].left.x, Tensor)
# ---- right: a function over any class gives back the class
assert_type(twice(point), tuple[Point, Point])
assert_type(twice(pair)[0].left, Point)
# ---- right: a function that takes any class
assert_type(size(point) + size(pair), int)
# ---- right: lists and dicts of a class
points: list[Point] = [point, point[:1]]
named: dict[str, Point] = {"a": points[0], "b": points[0].clone()}
assert_type(named["a"].x, Tensor)

# ---- wrong: a value of another class than the argument
Pair[Point](left=point, right=other, batch_size=[4])  # E: arg-type | reportArgumentType | SchemaError | ty: invalid-argument-type | pyrefly: bad-argument-type
# ---- wrong: a field is missing
Pair[Point](left=point, batch_size=[4])  # E: call-arg | reportCallIssue | SchemaError | ty: missing-argument | pyrefly: missing-argument
# ---- wrong: a field that the argument does not have
print(pair.left.z)  # E: attr-defined | reportAttributeAccessIssue | UnknownFieldError | ty: missing-attribute | pyrefly: missing-attribute
# ---- wrong: a field that the argument does not have, behind an index
print(pair[0].right.z)  # E: attr-defined | reportAttributeAccessIssue | UnknownFieldError | ty: missing-attribute | pyrefly: missing-attribute
# ---- wrong: a write of another class
pair.left = other  # E: assignment | reportAttributeAccessIssue | SchemaError | ty: invalid-assignment | pyrefly: bad-assignment
# ---- wrong: another argument
swapped: Pair[Other] = pair  # E: assignment | reportAssignmentType | - | ty: invalid-assignment | pyrefly: bad-assignment
# ---- wrong: too many arguments
Pair[Point, Other]  # E: misc | reportInvalidTypeArguments | TypeError | ty: invalid-type-arguments | pyrefly: bad-specialization
# ---- wrong: a value of another class than the child binds
Points(left=other, right=point, batch_size=[4])  # E: arg-type | reportArgumentType | SchemaError | ty: invalid-argument-type | pyrefly: bad-argument-type
# ---- wrong: a result of a generic function is another class
left: Other = twice(point)[0]  # E: assignment | reportAssignmentType | - | ty: invalid-assignment | pyrefly: bad-assignment
# ---- wrong: a tensor for any class
size(point.x)  # E: arg-type | reportArgumentType | - | ty: invalid-argument-type | pyrefly: bad-argument-type
# ---- wrong: another class in a list
several: list[Point] = [point, other]  # E: list-item | reportAssignmentType | - | ty: invalid-assignment | pyrefly: bad-assignment
