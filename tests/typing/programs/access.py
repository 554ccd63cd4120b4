# pyright: strict
"""Access: fields, keys and references."""

import torch
from torch import Tensor
from typing_extensions import assert_type

from tensorclass import PerElement, TensorClass
from tensorclass.typing import Float32, Int64


class Inputs(TensorClass):
    image: Float32[Tensor, "8 8"]


class Batch(TensorClass):
    inputs: Inputs
    label: Int64[Tensor, ""]
    name: PerElement[str]
    note: str = ""
    mask: Float32[Tensor, "8 8"] | None = None


inputs = Inputs(image=torch.zeros(2, 8, 8), batch_size=[2])
label = torch.zeros(2, dtype=torch.int64)
batch = Batch(inputs=inputs, label=label, name=["a", "b"], batch_size=[2])

# ---- right: a field reads as a tensor
assert_type(batch.label, Tensor)
assert_type(batch.label.sum(), Tensor)
# ---- right: a chain of fields reads as the last one
assert_type(batch.inputs, Inputs)
assert_type(batch.inputs.image, Tensor)
# ---- right: a field behind operations
assert_type(batch.to("cpu")[0].inputs.image, Tensor)
# ---- right: an optional field, after a test
if batch.mask is not None:
    assert_type(batch.mask.sum(), Tensor)
# ---- right: a non-tensor field
assert_type(batch.note.upper(), str)
# ---- right: writes of fields
batch.label = torch.ones(2, dtype=torch.int64)
batch.inputs.image = torch.ones(2, 8, 8)
batch.note = "seen"
batch.mask = None
# ---- right: reads and writes by key
image: Tensor = batch["inputs", "image"]
batch["label"] = label
batch.set("label", label)
print(image.sum(), batch.get("label"))
# ---- right: references stand for the fields of the class
batch.select(Batch.label, Batch.inputs.image)
print(batch.get(Batch.label))
# anchor: batch.select("label", ("inputs", "image"))
# anchor: print(batch.get("label"))

# ---- wrong: a field that is not there
print(batch.lable)  # E: attr-defined | reportAttributeAccessIssue | UnknownFieldError | ty: missing-attribute | pyrefly: missing-attribute
# ---- wrong: a nested field that is not there
print(batch.inputs.imgae)  # E: attr-defined | reportAttributeAccessIssue | UnknownFieldError | ty: missing-attribute | pyrefly: missing-attribute
# ---- wrong: a field that is not there, behind an index
print(batch[0].lable)  # E: attr-defined | reportAttributeAccessIssue | UnknownFieldError | ty: missing-attribute | pyrefly: missing-attribute
# ---- wrong: a field that is not there, behind a chain of operations
print(batch.to("cpu").clone().reshape(2)[0].inputs.imgae)  # E: attr-defined | reportAttributeAccessIssue | UnknownFieldError | ty: missing-attribute | pyrefly: missing-attribute
# ---- wrong: a field that is not there, in a loop
for row in batch:
    print(row.lable)  # E: attr-defined | reportAttributeAccessIssue | UnknownFieldError | ty: missing-attribute | pyrefly: missing-attribute
# ---- wrong: a method of another type
batch.label.upper()  # E: attr-defined | reportAttributeAccessIssue | AttributeError | ty: missing-attribute | pyrefly: missing-attribute
# ---- wrong: an optional field without a test
batch.mask.sum()  # E: attr-defined | reportAttributeAccessIssue | AttributeError | ty: missing-attribute | pyrefly: missing-attribute
# ---- wrong: a tensor where a text is wanted
text: str = batch.label  # E: assignment | reportAssignmentType | - | ty: invalid-assignment | pyrefly: bad-assignment
# ---- wrong: a text where a tensor is wanted
torch.relu(batch.note)  # E: arg-type | reportArgumentType | TypeError | ty: invalid-argument-type | pyrefly: bad-argument-type
# ---- wrong: an attribute that is no field is written
batch.lable = label  # E: attr-defined | reportAttributeAccessIssue | UnknownFieldError | ty: missing-attribute | pyrefly: missing-attribute
# ---- wrong: a text in a tensor field
batch.label = "three"  # E: assignment | reportAttributeAccessIssue | SchemaError | ty: invalid-assignment | pyrefly: bad-assignment
# ---- wrong: None in a field that is not optional
batch.label = None  # E: assignment | reportAttributeAccessIssue | SchemaError | ty: invalid-assignment | pyrefly: bad-assignment
# ---- wrong: a tensor in a text field
batch.note = label  # E: assignment | reportAttributeAccessIssue | SchemaError | ty: invalid-assignment | pyrefly: bad-assignment
# ---- wrong: a tensor in a nested field
batch.inputs = label  # E: assignment | reportAttributeAccessIssue | SchemaError | ty: invalid-assignment | pyrefly: bad-assignment
# ---- wrong: a reference to a field that is not there
print(batch.get(Batch.lable))  # E: attr-defined | reportAttributeAccessIssue | UnknownFieldError | ty: missing-attribute | pyrefly: missing-attribute
# anchor: print(batch.get("lable"))  # E
# ---- wrong: a reference to a nested field that is not there
batch.select(Batch.inputs.imgae)  # E: attr-defined | reportAttributeAccessIssue | UnknownFieldError | ty: missing-attribute | pyrefly: missing-attribute
# anchor: batch.select(("inputs", "imgae"))  # E
# ---- wrong: a key that is not there
print(batch["lable"])  # E: - | - | MissingKeyError | mypy+plugin: tensorclass-key | mypy+stubs: index | pyright+stubs: reportArgumentType, reportCallIssue
# ---- wrong: a nested key that is not there
print(batch["inputs", "imgae"])  # E: - | - | MissingKeyError | mypy+plugin: tensorclass-key | mypy+stubs: index | pyright+stubs: reportArgumentType, reportCallIssue
# ---- wrong: a key that is not there is written
batch["lable"] = label  # E: - | - | MissingKeyError | mypy+plugin: tensorclass-key | mypy+stubs: index | pyright+stubs: reportArgumentType, reportCallIssue
# ---- wrong: a text written under the key of a tensor
batch["label"] = "three"  # E: - | - | SchemaError | mypy+plugin: tensorclass-value | mypy+stubs: call-overload | pyright+stubs: reportArgumentType, reportCallIssue
# ---- wrong: numbers in a field of texts
batch.name = [3, 4]  # E: list-item | reportAttributeAccessIssue | SchemaError | ty: invalid-assignment | pyrefly: bad-argument-type
