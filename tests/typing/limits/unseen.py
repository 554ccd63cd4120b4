# pyright: strict, reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
"""Wrong programs that no checker sees without a plugin."""

import torch
from torch import Tensor, nn

from tensorclass import FrozenTensorClass, TensorClass, TensorDict, cat, produced, stack
from tensorclass.nn import TensorClassModule, TensorClassSequential
from tensorclass.typing import Float32, Int64


class Digits(TensorClass):
    image: Float32[Tensor, "64"]
    label: Int64[Tensor, ""]
    mask: Float32[Tensor, "h w"] | None = None
    overlay: Float32[Tensor, "h w"] | None = None


class Hidden(TensorClass):
    h: Float32[Tensor, "8"]


class State(TensorClass):
    image: Float32[Tensor, "64"]
    hidden: Float32[Tensor, "8"] = produced()


class Still(FrozenTensorClass):
    image: Float32[Tensor, "64"]


x, y = torch.zeros(4, 64), torch.zeros(4, dtype=torch.int64)
batch, hidden, state = Digits(x, y), Hidden(torch.zeros(4, 8)), State(x)

# ---- dtype, shape, batch size and dims that fields share
Digits(y, y)  # E: - | - | SchemaError
Digits(x, x)  # E: - | - | SchemaError
Digits(torch.zeros(4, 8, 8), y)  # E: - | - | SchemaError
Digits(x, y, batch_size=[5])  # E: - | - | SchemaError
Digits(x, y[:3])  # E: - | - | SchemaError
Digits(x, y, torch.zeros(4, 2, 3), torch.zeros(4, 3, 2))  # E: - | - | SchemaError
Digits(x, y, device="gpu")  # E: - | - | RuntimeError
Digits(x, y, names=["a", "b"])  # E: - | - | ValueError
batch.label = x  # E: - | - | SchemaError

# ---- index and dim arguments
print(batch[9])  # E: - | - | BatchIndexError
print(batch[:, 0])  # E: - | - | BatchIndexError
batch.reshape(5)  # E: - | - | BatchSizeError
batch.unsqueeze(3)  # E: - | - | BatchDimError

# ---- joins of different classes
stack([batch, hidden])  # E: - | - | StructureError
cat([batch, batch[:0].to_tensordict()])  # E: - | - | StructureError

# ---- keys
print(batch["lable"])  # E: - | - | MissingKeyError
batch.set("lable", y)  # E: - | - | MissingKeyError
batch.update({"lable": y})  # E: - | - | MissingKeyError
batch.replace(lable=y)  # E: - | - | MissingKeyError
TensorDict(a=x, batch_size=[4])["b"]  # E: - | - | MissingKeyError

# ---- dtype of a result
print(batch.label / 2, batch / 2)  # E: - | - | SchemaError

# ---- a field that no module has filled in
print(state.hidden)  # E: - | - | FieldNotProducedError

# ---- frozen and locked containers
Still(x).batch_size = []  # E: - | - | FrozenError
Still(x)[0] = 1  # E: - | - | FrozenError
Still(x).update_({"image": x})  # E: - | - | FrozenError
batch.clone().lock_().image = x  # E: - | - | LockedError

# ---- the flow of fields through a pipeline
encode = TensorClassModule(nn.Linear(64, 8), in_fields=Digits.image, out_fields=Hidden.h)
TensorClassModule(nn.Linear(64, 8), in_fields=x, out_fields=Hidden.h)  # E: - | - | BuildError
TensorClassSequential(encode, input=Hidden, output=Hidden)  # E: - | - | BuildError
TensorClassSequential(encode, input=Digits, output=State)  # E: - | - | BuildError
TensorClassSequential(encode, encode, input=Digits, output=Hidden)  # E: - | - | BuildError
TensorClassSequential(input=Digits, output=Hidden)  # E: - | - | BuildError
TensorClassSequential(encode, input=int, output=Hidden)  # E: - | - | BuildError

# ---- options
class Option(TensorClass, freeze=True):  # E: - | - | TypeError
    image: Float32[Tensor, "64"]
