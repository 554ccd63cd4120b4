# pyright: strict, reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
"""Operations: what they take and what they give."""

import torch
from torch import Tensor
from typing_extensions import assert_type

from tensorclass import TensorClass, cat, stack
from tensorclass.typing import Float32


class Point(TensorClass):
    x: Float32[Tensor, ""]


class Other(TensorClass):
    z: Float32[Tensor, ""]


batch = Point(torch.zeros(6))
moved = batch.clone()

# ---- an index or a key of another type
print(batch[1.5])  # E: call-overload | reportArgumentType, reportCallIssue | BatchIndexError
print(batch[{"x": 1}])  # E: call-overload | reportArgumentType, reportCallIssue | BatchIndexError
print(batch[{1, 2}])  # E: call-overload | reportArgumentType, reportCallIssue | BatchIndexError
batch[1.5] = batch[0]  # E: index | reportArgumentType | BatchIndexError

# ---- operands
print(batch + "1")  # E: operator | reportOperatorIssue | TypeError
print(batch * [1])  # E: operator | reportOperatorIssue | TypeError
print("1" - batch)  # E: operator | reportOperatorIssue | TypeError
print(batch < "3")  # E: operator | reportOperatorIssue | TypeError
moved += "1"  # E: arg-type | reportOperatorIssue | TypeError
print(batch @ batch)  # E: operator | reportOperatorIssue | TypeError

# ---- arguments
batch.reshape(3.0, 2)  # E: arg-type | reportArgumentType | TypeError
batch.expand("46")  # E: arg-type | reportArgumentType | TypeError
batch.new_zeros("4")  # E: arg-type | reportArgumentType | BatchSizeError
batch.reshape(dims=3)  # E: call-arg | reportCallIssue | TypeError
batch.permute(0, dimension=1)  # E: call-arg | reportCallIssue | TypeError
batch.unsqueeze("time", 2)  # E: arg-type, call-arg | reportCallIssue | TypeError
batch.split("two")  # E: arg-type | reportArgumentType | TypeError
batch.chunk([2])  # E: arg-type | reportArgumentType | TypeError
batch.unbind(0.5)  # E: arg-type | reportArgumentType | TypeError
batch.to(3.5)  # E: arg-type | reportArgumentType | TypeError
batch.replaced(x=torch.zeros(6))  # E: attr-defined | reportAttributeAccessIssue | UnknownFieldError
batch.gather("0", torch.tensor([0]), dim=1)  # E: misc | reportCallIssue | TypeError
batch.nothing()  # E: attr-defined | reportAttributeAccessIssue | UnknownFieldError

# ---- joining
stack(batch.x)  # E: arg-type | reportArgumentType | StructureError
stack([batch.x, batch.x])  # E: arg-type | reportArgumentType | StructureError
stack([batch, 3])  # E: arg-type | reportArgumentType | StructureError
cat([batch, "batch"])  # E: arg-type | reportArgumentType | StructureError
cat(3)  # E: arg-type | reportArgumentType | TypeError
Point.stack([1, 2])  # E: arg-type | reportArgumentType | StructureError

# ---- results of another class
first: Other = batch[0]  # E: assignment | reportAssignmentType | -
joined: Other = stack([batch, batch])  # E: assignment | reportAssignmentType | -
tensor: Tensor = batch + 1  # E: assignment | reportAssignmentType | -
flag: bool = batch == batch  # E: assignment | reportAssignmentType | -
parts: list[Point] = batch.unbind(0)  # E: assignment | reportAssignmentType | -
assert_type(batch[0], Tensor)  # E: assert-type | reportAssertTypeFailure | -
other: Other = Other(torch.zeros(6)).replace(z=torch.ones(6)).to_tensordict()  # E: assignment | reportAssignmentType | -
for row in batch:
    row.z.sum()  # E: attr-defined | reportAttributeAccessIssue | UnknownFieldError
