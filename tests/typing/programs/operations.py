# pyright: strict
"""Operations."""

from collections.abc import Iterator

import torch
from torch import Tensor
from typing_extensions import assert_type

from tensorclass import TensorClass, TensorDict, cat, stack
from tensorclass.typing import Float32


class Point(TensorClass):
    x: Float32[Tensor, ""]
    y: Float32[Tensor, ""]


class Other(TensorClass):
    z: Float32[Tensor, ""]


batch = Point(x=torch.zeros(6), y=torch.ones(6), batch_size=[6])
other = Other(z=torch.zeros(6), batch_size=[6])
moved = batch.clone()

# ---- right: indices keep the class
assert_type(batch[0], Point)
assert_type(batch[1:3], Point)
assert_type(batch[torch.tensor([0, 2])], Point)
assert_type(batch[batch.x == 0], Point)
# ---- right: writes through an index
batch[0] = batch[1]
# ---- right: iteration
for row in batch:
    assert_type(row, Point)
rows: Iterator[Point] = iter(batch)
# ---- right: arithmetic
assert_type(batch + 1, Point)
assert_type(1 - batch, Point)
assert_type(batch * batch, Point)
assert_type(-batch, Point)
# ---- right: pointwise functions
assert_type(batch.add(1).mul(2).exp(), Point)
# ---- right: shapes
assert_type(batch.reshape(2, 3).permute(1, 0).flatten(0, 1), Point)
# ---- right: pieces
assert_type(batch.split(2)[0], Point)
assert_type(batch.unbind(0)[0], Point)
# ---- right: devices and copies
assert_type(batch.to("cpu"), Point)
assert_type(batch.cpu().clone(), Point)
# ---- right: joins
assert_type(stack([batch, batch]), Point)
assert_type(cat((batch, batch), 0), Point)
# anchor: assert_type(torch.stack([batch, batch]), Point)
# anchor: assert_type(torch.cat((batch, batch), 0), Point)
# ---- right: changed copies
assert_type(batch.replace(x=torch.ones(6)), Point)
assert_type(batch.apply(torch.exp), Point)
# anchor: assert_type(batch.replace(x=torch.ones(6)), Point)
# anchor: print(batch.apply(torch.exp))
# ---- right: to an untyped container and back
assert_type(batch.to_tensordict(), TensorDict)
assert_type(Point.from_tensordict(batch.to_tensordict()), Point)
# anchor: print(batch.to_tensordict())
# anchor: print(Point.from_tensordict(batch.to_tensordict()))

# ---- wrong: an index of another type
print(batch[1.5])  # E: call-overload | reportArgumentType, reportCallIssue | BatchIndexError | ty: invalid-argument-type | pyrefly: bad-index
# ---- wrong: an index that is a dict
print(batch[{"x": 1}])  # E: call-overload | reportArgumentType, reportCallIssue | BatchIndexError | ty: invalid-argument-type | pyrefly: bad-index
# ---- wrong: an operand that is a text
print(batch + "1")  # E: operator | reportOperatorIssue | TypeError | ty: unsupported-operator | pyrefly: unsupported-operation
# ---- wrong: an operand that is a text, on the left
print("1" - batch)  # E: operator | reportOperatorIssue | TypeError | ty: unsupported-operator | pyrefly: unsupported-operation
# ---- wrong: an operand that is a list
print(batch * [1])  # E: operator | reportOperatorIssue | TypeError | ty: unsupported-operator | pyrefly: unsupported-operation
# ---- wrong: an operand in place
moved += "1"  # E: arg-type | reportOperatorIssue | TypeError | ty: unsupported-operator | pyrefly: unsupported-operation
# ---- wrong: an operator that containers do not have
print(batch @ batch)  # E: operator | reportOperatorIssue | TypeError | ty: unsupported-operator | pyrefly: unsupported-operation
# ---- wrong: a method that is not there
batch.nothing()  # E: attr-defined | reportAttributeAccessIssue | UnknownFieldError | ty: missing-attribute | pyrefly: missing-attribute
# ---- wrong: an argument that is not there
batch.permute(0, dimension=1)  # E: call-arg | reportCallIssue | TypeError | ty: unknown-argument | pyrefly: unexpected-keyword
# ---- wrong: an argument of another type
batch.split("two")  # E: arg-type | reportArgumentType | TypeError | ty: invalid-argument-type | pyrefly: bad-argument-type
# ---- wrong: a device of another type
batch.to(3.5)  # E: arg-type | reportArgumentType | TypeError | ty: invalid-argument-type | pyrefly: bad-argument-type
# ---- wrong: a field that a changed copy does not have
batch.replace(z=torch.zeros(6))  # E: - | - | MissingKeyError | mypy+plugin: call-arg | mypy+stubs: call-arg | pyright+stubs: reportCallIssue
# ---- wrong: a changed copy with a text
batch.replace(x="one")  # E: - | - | SchemaError | mypy+plugin: arg-type | mypy+stubs: arg-type | pyright+stubs: reportArgumentType
# ---- wrong: tensors are stacked as containers
print(stack([batch.x, batch.y]).x)  # E: arg-type | reportArgumentType | StructureError | ty: invalid-argument-type | pyrefly: bad-argument-type
# anchor: print(torch.stack([batch.x, batch.y]).x)  # E
# ---- wrong: a container and a number are stacked
print(stack([batch, 3]))  # E: arg-type | reportArgumentType | StructureError | ty: invalid-argument-type | pyrefly: bad-argument-type
# anchor: print(torch.stack([batch, 3]))  # E
# ---- wrong: two classes are stacked
print(stack([batch, other]))  # E: - | reportArgumentType | StructureError | mypy+plugin: tensorclass-join | mypy+stubs: arg-type | pyrefly: bad-argument-type
# anchor: print(torch.stack([batch, other]))  # E
# ---- wrong: an item of another class
first: Other = batch[0]  # E: assignment | reportAssignmentType | - | ty: invalid-assignment | pyrefly: bad-assignment
# ---- wrong: a join of another class
joined: Other = stack([batch, batch])  # E: assignment | reportAssignmentType | - | ty: invalid-assignment | pyrefly: bad-assignment
# anchor: joined: Other = torch.stack([batch, batch])  # E
# ---- wrong: a result that is no tensor
tensor: Tensor = batch + 1  # E: assignment | reportAssignmentType | - | ty: invalid-assignment | pyrefly: bad-assignment
# ---- wrong: a comparison that is no bool
flag: bool = batch == batch  # E: assignment | reportAssignmentType | - | ty: invalid-assignment | pyrefly: bad-assignment
# ---- wrong: a field of another class, in a loop
for point in batch:
    point.z.sum()  # E: attr-defined | reportAttributeAccessIssue | UnknownFieldError | ty: missing-attribute | pyrefly: missing-attribute
