# pyright: strict
"""Fields: what they read as, what they take, and references on the class."""

from typing import Annotated, Any

import torch
from annotated_types import Ge
from jaxtyping import Float64
from torch import Tensor
from typing_extensions import assert_type

from tensorclass import NonTensorStack, PerElement, Shared, TensorClass, TensorDict
from tensorclass.typing import Bool, Float, Float32, Int64, Shape, Shaped


class Inputs(TensorClass):
    image: Float32[Tensor, "8 8"]


class Batch(TensorClass):
    inputs: Inputs
    label: Int64[Tensor, ""]
    name: PerElement[str]
    table: Shared[Float32[Tensor, "10 4"]]
    note: str = ""
    mask: Bool[Tensor, "8 8"] | None = None
    alias: PerElement[str] | None = None


inputs = Inputs(torch.zeros(2, 8, 8))
labels = torch.zeros(2, dtype=torch.int64)
batch = Batch(inputs, labels, ["a", "b"], torch.zeros(10, 4))

# ---- a tensor field reads as a tensor, an optional one as a tensor or None
assert_type(batch.label, Tensor)
assert_type(batch.mask, Tensor | None)
assert_type(batch.inputs.image, Tensor)

# ---- Shared[...] reads as the tensor
assert_type(batch.table, Tensor)

# ---- other fields read as what they are declared
assert_type(batch.note, str)

# ---- PerElement[str] reads as a stack and takes a value, a list, nested lists or a stack
assert_type(batch.name[0], str)
assert len(batch.name) == 2
assert batch.name.shape == torch.Size([2])
assert_type(batch.name == "a", Tensor)
assert_type(batch[batch.name == "a"], Batch)
assert_type(batch.name.ndim, int)
batch.name = "c"
batch.name = ["a", "b"]
batch.name = batch.name
stacked: NonTensorStack[str] = NonTensorStack("a", "b")
batch.name = stacked
batch[:, None].name = [["a"], ["b"]]
Batch(inputs, labels, "a", torch.zeros(10, 4))
Batch(inputs, labels, ("a", "b"), torch.zeros(10, 4))
Batch(inputs, labels, batch.name, torch.zeros(10, 4), alias=None)

# ---- setters
batch.label = labels + 1
batch.mask = None
batch.mask = torch.zeros(2, 8, 8, dtype=torch.bool)
batch.inputs = Inputs(torch.ones(2, 8, 8))
batch.inputs.image = torch.zeros(2, 8, 8)
batch.note = "seen"

# ---- references on the class have the type of the field's value
assert_type(Batch.label, Tensor)
assert_type(Batch.inputs.image, Tensor)

# ---- references are keys
batch.set(Batch.label, labels)
assert torch.equal(batch.get(Batch.label), labels)
assert Batch.label in batch
batch.select(Batch.label, Batch.inputs.image)

# ---- string keys and nested keys
first: Tensor = batch["label"]
second: Tensor = batch["inputs", "image"]
batch["label"] = first
batch["inputs", "image"] = second
assert "label" in batch
assert ("inputs", "image") in batch
for key in batch.keys():
    print(key)

# ---- batch size, device and names read as torch has them, and take what a constructor takes
assert_type(batch.batch_size, torch.Size)
assert_type(batch.device, torch.device | None)
assert_type(batch.names, list[str | None])
batch.names = ["time"]
batch.names = None
batch.batch_size = [2]
batch.batch_size = 2
assert_type(batch.shape, torch.Size)
assert_type(batch.ndim, int)
assert_type(batch.numel(), int)
assert_type(batch.size(), torch.Size)
assert_type(batch.size(0), int)


# ---- other spellings of a field's type
class Spellings(TensorClass):
    plain: Tensor
    family: Float[Tensor, "n"]
    anything: Shaped[Tensor, "..."]
    annotated: Annotated[Tensor, Shape("3 h w"), torch.float32]
    constrained: Annotated[Float32[Tensor, ""], Ge(0)] | None = None
    foreign: Float64[Tensor, "n"] | None = None
    corner: TensorDict | None = None
    anyhow: Any = None


spelt = Spellings(labels, torch.zeros(2, 5), labels, torch.zeros(2, 3, 4, 4))
assert_type(spelt.plain, Tensor)
assert_type(spelt.family, Tensor)
assert_type(spelt.anything, Tensor)
assert_type(spelt.annotated, Tensor)
assert_type(spelt.constrained, Tensor | None)
assert_type(spelt.foreign, Tensor | None)


# ---- match statements
match inputs:
    case Inputs(image=image):
        assert_type(image, Tensor)
