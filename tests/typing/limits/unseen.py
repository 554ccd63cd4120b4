# pyright: strict, reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
"""Wrong programs that only running them shows."""

import torch
from torch import Tensor

from tensorclass import TensorClass, TensorDict, produced
from tensorclass.typing import Float32, Int64


class Digits(TensorClass):
    image: Float32[Tensor, "64"]
    label: Int64[Tensor, ""]


class State(TensorClass):
    image: Float32[Tensor, "64"]
    hidden: Float32[Tensor, "8"] = produced()


x, y = torch.zeros(4, 64), torch.zeros(4, dtype=torch.int64)
batch, state = Digits(x, y), State(x)

# ---- index and dim arguments
print(batch[9])  # E: - | - | BatchIndexError
print(batch[:, 0])  # E: - | - | BatchIndexError
batch.reshape(5)  # E: - | - | BatchSizeError
batch.unsqueeze(3)  # E: - | - | BatchDimError

# ---- keys
TensorDict(a=x, batch_size=[4])["b"]  # E: - | - | MissingKeyError

# ---- a field that no module has filled in, of an instance from elsewhere
print(state[:1].hidden)  # E: - | - | FieldNotProducedError

# ---- frozen and locked containers
batch.clone().lock_().image = x  # E: - | - | LockedError
