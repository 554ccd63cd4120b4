# pyright: strict, reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
"""Access by key: names that are not fields, and values of another type."""

import torch
from torch import Tensor
from typing_extensions import assert_type

from tensorclass import TensorClass, cat, stack
from tensorclass.typing import Float32, Int64


class Inputs(TensorClass):
    image: Float32[Tensor, "8 8"]


class Batch(TensorClass):
    inputs: Inputs
    label: Int64[Tensor, ""]
    mask: Float32[Tensor, "8 8"] | None = None
    note: str = ""


inputs, labels = Inputs(torch.zeros(2, 8, 8)), torch.zeros(2, dtype=torch.int64)
batch = Batch(inputs, labels)
wanted = "lable"

# ---- reads
print(batch["lable"])  # E: - | - | MissingKeyError | mypy+plugin: tensorclass-key
print(batch["inputs", "imgae"])  # E: - | - | MissingKeyError | mypy+plugin: tensorclass-key
print(batch["image"])  # E: - | - | MissingKeyError | mypy+plugin: tensorclass-key
print(batch[0]["lable"])  # E: - | - | MissingKeyError | mypy+plugin: tensorclass-key
print(batch.inputs["label"])  # E: - | - | MissingKeyError | mypy+plugin: tensorclass-key
print(batch.get("lable"))  # E: - | - | UnknownKeyError | mypy+plugin: tensorclass-key
print(batch.get(("inputs", "imgae")))  # E: - | - | UnknownKeyError | mypy+plugin: tensorclass-key
print(batch.select("label", "imgae"))  # E: - | - | MissingKeyError | mypy+plugin: tensorclass-key
print(batch.get_item_shape("lable"))  # E: - | - | MissingKeyError | mypy+plugin: tensorclass-key

# ---- the types of what is read
batch["label"].upper()  # E: - | - | AttributeError | mypy+plugin: attr-defined
batch["note"].sum()  # E: - | - | AttributeError | mypy+plugin: attr-defined
batch["mask"].sum()  # E: - | - | AttributeError | mypy+plugin: union-attr
batch.get("label").upper()  # E: - | - | AttributeError | mypy+plugin: attr-defined
text: str = batch["label"]  # E: - | - | - | mypy+plugin: assignment
assert_type(batch["mask"], Tensor)  # E: assert-type | reportAssertTypeFailure | -
batch["inputs"].imgae  # E: - | - | UnknownFieldError | mypy+plugin: attr-defined

# ---- writes
batch["lable"] = labels  # E: - | - | MissingKeyError | mypy+plugin: tensorclass-key
batch["inputs", "imgae"] = labels  # E: - | - | MissingKeyError | mypy+plugin: tensorclass-key
batch.set("lable", labels)  # E: - | - | MissingKeyError | mypy+plugin: tensorclass-key
batch.set_("lable", labels)  # E: - | - | MissingKeyError | mypy+plugin: tensorclass-key
batch.update({"lable": labels})  # E: - | - | MissingKeyError | mypy+plugin: tensorclass-key
batch.update({"label": labels, "extra": labels})  # E: - | - | MissingKeyError | mypy+plugin: tensorclass-key
batch.update(lable=labels)  # E: - | - | MissingKeyError | mypy+plugin: tensorclass-key
batch.update_({"lable": labels})  # E: - | - | MissingKeyError | mypy+plugin: tensorclass-key
batch.pop("lable")  # E: - | - | MissingKeyError | mypy+plugin: tensorclass-key
del batch["lable"]  # E: - | - | MissingKeyError | mypy+plugin: tensorclass-key
batch["label"] = "three"  # E: - | - | SchemaError | mypy+plugin: tensorclass-value
batch["label"] = None  # E: - | - | SchemaError | mypy+plugin: tensorclass-value
batch["inputs"] = labels  # E: - | - | SchemaError | mypy+plugin: tensorclass-value
batch["note"] = labels  # E: - | - | SchemaError | mypy+plugin: tensorclass-value
batch.set("label", inputs)  # E: - | - | SchemaError | mypy+plugin: tensorclass-value
del batch.label  # E: - | - | StructureError | mypy+plugin: tensorclass-key

# ---- changed copies
batch.replace(lable=labels)  # E: - | - | MissingKeyError | mypy+plugin: call-arg
batch.replace(label="three")  # E: - | - | SchemaError | mypy+plugin: arg-type
batch.replace(inputs=batch)  # E: - | - | SchemaError | mypy+plugin: arg-type

# ---- joins of different classes
stack([batch, inputs])  # E: - | reportArgumentType | StructureError | mypy+plugin: tensorclass-join
cat([batch, batch.to_tensordict()])  # E: - | reportArgumentType | StructureError | mypy+plugin: tensorclass-join
cat((batch, inputs))  # E: misc | reportArgumentType | StructureError | mypy+plugin: misc, tensorclass-join
torch.stack([batch, inputs])  # E: list-item | reportArgumentType | StructureError | mypy+plugin: tensorclass-join
torch.cat([batch, 3])  # E: list-item | reportArgumentType | TypeError | mypy+plugin: arg-type
batch.clone().update({wanted: labels})  # E: - | - | MissingKeyError | mypy+plugin: tensorclass-key
