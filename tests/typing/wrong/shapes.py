# pyright: strict, reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
"""Shapes: a literal tensor of another shape, dims that fields share, batch size and dim names."""

import torch
from torch import Tensor

from tensorclass import PerElement, Shared, TensorClass, field
from tensorclass.typing import Float32, Int64

COUNT = 5


class Digits(TensorClass):
    image: Float32[Tensor, "8 8"]
    label: Int64[Tensor, ""]
    name: PerElement[str] = field(default="")


class Maps(TensorClass):
    image: Float32[Tensor, "3 h w"]
    mask: Float32[Tensor, "h w"] | None = None
    small: Float32[Tensor, "h//2 w//2"] | None = None
    flat: Float32[Tensor, "h*w"] | None = None
    open: Float32[Tensor, "... 3"] | None = None
    table: Shared[Float32[Tensor, "10 4"]] | None = None


class Pair(TensorClass):
    left: Digits
    weight: Float32[Tensor, ""] | None = None


x, y = torch.zeros(4, 8, 8), torch.zeros(4, dtype=torch.int64)
maps = torch.zeros(4, 3, 8, 6)
digits = Digits(x, y)

# ---- event dims
Digits(torch.zeros(4, 8, 7), y)  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
Digits(torch.zeros((4, 9, 8)), y)  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
Digits(torch.rand([4, 1, 8, 8]), y)  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
Digits(torch.zeros(4, 64), y)  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
Digits(x.reshape(4, 64), y)  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
Digits(x.unsqueeze(1), y)  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
Digits(torch.zeros(8), y)  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
Digits(x, torch.zeros(4, 1, dtype=torch.int64))  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
Digits(x, torch.tensor([[0], [1], [2], [3]]))  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
Maps(torch.zeros(4, 1, 8, 8))  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
Maps(maps, open=torch.zeros(4, 7, 4))  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
Maps(maps, table=torch.zeros(10, 5))  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
Maps(maps, table=torch.zeros(4, 10, 4))  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape

# ---- dims of one name
Maps(maps, torch.zeros(4, 6, 8))  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
Maps(maps, torch.zeros(4, 8, 7))  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
Maps(maps, small=torch.zeros(4, 8, 3))  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
Maps(maps, flat=torch.zeros(4, 49))  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape

# ---- the batch size: given, or what another field says
Digits(x, y, batch_size=[5])  # E: - | - | SchemaError | mypy+plugin: tensorclass-batch-size
Digits(x, y, batch_size=COUNT)  # E: - | - | SchemaError | mypy+plugin: tensorclass-batch-size
Digits(x, y, batch_size=(2, 2))  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
Digits(x, y, batch_size=[])  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
Digits(x, y[:3])  # E: - | - | SchemaError | mypy+plugin: tensorclass-batch-size
Digits(x[1:], y)  # E: - | - | SchemaError | mypy+plugin: tensorclass-batch-size
Digits(x[0], y)  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
Digits(x, torch.arange(5))  # E: - | - | SchemaError | mypy+plugin: tensorclass-batch-size
Digits(x, torch.tensor([1, 2, 3]))  # E: - | - | SchemaError | mypy+plugin: tensorclass-batch-size
Digits(x, torch.randperm(8))  # E: - | - | SchemaError | mypy+plugin: tensorclass-batch-size
Pair(digits, torch.zeros(3))  # E: - | - | SchemaError | mypy+plugin: tensorclass-batch-size
Pair(Digits(x, y), batch_size=[5])  # E: - | - | SchemaError | mypy+plugin: tensorclass-batch-size
Digits(x, y, ["a", "b"])  # E: - | - | SchemaError | mypy+plugin: tensorclass-batch-size

# ---- dim names
Digits(x, y, names=["time", "row"])  # E: - | - | ValueError | mypy+plugin: tensorclass-batch-size
Digits(x, y, batch_size=[4], names=[])  # E: - | - | ValueError | mypy+plugin: tensorclass-batch-size

# ---- writes
digits.image = torch.zeros(4, 8, 9)  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
digits["image"] = torch.zeros(4, 7, 8)  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
digits.replace(image=torch.zeros(4, 9, 9))  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
digits.image = torch.zeros(8)  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
