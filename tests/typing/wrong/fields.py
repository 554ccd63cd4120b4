# pyright: strict, reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
"""Fields: reads, writes and references."""

import torch
from torch import Tensor
from typing_extensions import assert_type

from tensorclass import PerElement, Shared, TensorClass
from tensorclass.typing import Float32, Int64


class Inputs(TensorClass):
    image: Float32[Tensor, "8 8"]


class Batch(TensorClass):
    inputs: Inputs
    label: Int64[Tensor, ""]
    name: PerElement[str]
    table: Shared[Float32[Tensor, "10 4"]]
    note: str = ""
    mask: Float32[Tensor, "8 8"] | None = None


inputs, labels, table = Inputs(torch.zeros(2, 8, 8)), torch.zeros(2, dtype=torch.int64), torch.zeros(10, 4)
batch = Batch(inputs, labels, ["a", "b"], table)

# ---- reads of what is not there
print(batch.lable)  # E: attr-defined | reportAttributeAccessIssue | UnknownFieldError
print(batch.inputs.imgae)  # E: attr-defined | reportAttributeAccessIssue | UnknownFieldError
print(batch[0].nothing)  # E: attr-defined | reportAttributeAccessIssue | UnknownFieldError
print(batch.to("cpu").reshape(2).lable)  # E: attr-defined | reportAttributeAccessIssue | UnknownFieldError

# ---- references to what is not there
print(Batch.lable)  # E: attr-defined | reportAttributeAccessIssue | UnknownFieldError
print(Batch.inputs.imgae)  # E: attr-defined | reportAttributeAccessIssue | UnknownFieldError
print(batch.get(Batch.lable))  # E: attr-defined | reportAttributeAccessIssue | UnknownFieldError
batch.select(Batch.inputs.imgae)  # E: attr-defined | reportAttributeAccessIssue | UnknownFieldError

# ---- reads as something else
batch.label.upper()  # E: attr-defined | reportAttributeAccessIssue | AttributeError
batch.mask.sum()  # E: union-attr | reportOptionalMemberAccess | AttributeError
batch.note.sum()  # E: attr-defined | reportAttributeAccessIssue | AttributeError
batch.name.upper()  # E: attr-defined | reportAttributeAccessIssue | AttributeError
batch.name[0].item().sum()  # E: attr-defined | reportAttributeAccessIssue | AttributeError
text: str = batch.label  # E: assignment | reportAssignmentType | -
number: int = batch.batch_size  # E: assignment | reportAssignmentType | -
assert_type(batch.mask, Tensor)  # E: assert-type | reportAssertTypeFailure | -

# ---- writes
batch.lable = labels  # E: attr-defined | reportAttributeAccessIssue | UnknownFieldError
batch.label = "three"  # E: assignment | reportAttributeAccessIssue | SchemaError
batch.label = None  # E: assignment | reportAttributeAccessIssue | SchemaError
batch.note = labels  # E: assignment | reportAttributeAccessIssue | SchemaError
batch.inputs = labels  # E: assignment | reportAttributeAccessIssue | SchemaError
batch.inputs.image = "image"  # E: assignment | reportAttributeAccessIssue | SchemaError
batch.table = 3  # E: assignment | reportAttributeAccessIssue | SchemaError
batch.batch_size = "2"  # E: assignment | reportAttributeAccessIssue | BatchSizeError
batch.names = [1]  # E: list-item | reportAttributeAccessIssue | TypeError
batch.shape = [2]  # E: assignment, misc | reportAttributeAccessIssue | AttributeError

# ---- per-element fields
batch.name = 3  # E: assignment | reportAttributeAccessIssue | SchemaError
batch.name = [3, 4]  # E: list-item | reportAttributeAccessIssue | SchemaError
batch.name = None  # E: assignment | reportAttributeAccessIssue | SchemaError
batch.name = labels  # E: assignment | reportAttributeAccessIssue | SchemaError
Batch(inputs, labels, 3, table)  # E: arg-type | reportArgumentType | SchemaError
Batch(inputs, labels, [1, 2], table)  # E: list-item | reportArgumentType | SchemaError
