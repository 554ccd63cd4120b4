# pyright: strict, reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
"""Dtypes: a literal tensor of another dtype than its field declares."""

import torch
from torch import Tensor

from tensorclass import PerElement, Shared, TensorClass, field
from tensorclass.typing import BFloat16, Bool, Float, Float16, Float32, Float64, Int, Int32, Int64, Num, UInt8

COUNT = 4


class Digits(TensorClass):
    image: Float32[Tensor, "8 8"]
    label: Int64[Tensor, ""]
    mask: Bool[Tensor, "8 8"] | None = None
    page: Int32[Tensor, ""] | None = None
    pixel: UInt8[Tensor, "8 8"] | None = None
    scale: Float[Tensor, ""] | None = None
    level: Int[Tensor, ""] | None = None
    exact: Float64[Tensor, ""] | None = None
    short: Float16[Tensor, ""] | None = None
    brain: BFloat16[Tensor, ""] | None = None
    table: Shared[Float32[Tensor, "10 4"]] | None = None
    number: Num[Tensor, ""] | None = None
    name: PerElement[str] = field(default="")


x, y = torch.zeros(4, 8, 8), torch.zeros(4, dtype=torch.int64)
index = torch.arange(4)
flags = x.bool()
batch = Digits(x, y)

# ---- constructors, inline
Digits(torch.zeros(4, 8, 8, dtype=torch.int64), y)  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
Digits(torch.zeros(4, 8, 8, dtype=torch.float64), y)  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
Digits(torch.ones((4, 8, 8), dtype=torch.bool), y)  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
Digits(torch.randint(0, 255, (4, 8, 8)), y)  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
Digits(x, torch.zeros(4))  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
Digits(x, torch.ones(COUNT))  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
Digits(x, label=torch.rand(4))  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
Digits(x, torch.tensor([0.0, 1.0, 2.0, 3.0]))  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
Digits(x, torch.tensor([True, False, True, False]))  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
Digits(x, torch.full((4,), 0.5))  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
Digits(x, torch.arange(4, dtype=torch.int32))  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
Digits(x, torch.arange(0.0, 4.0))  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
Digits(x, torch.linspace(0, 1, 4).long(), torch.zeros(4, 8, 8))  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype

# ---- of every family
Digits(x, y, mask=torch.zeros(4, 8, 8))  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
Digits(x, y, page=torch.arange(4))  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
Digits(x, y, pixel=torch.randint(0, 255, (4, 8, 8)))  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
Digits(x, y, scale=torch.arange(4))  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
Digits(x, y, level=torch.zeros(4))  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
Digits(x, y, exact=torch.zeros(4, dtype=torch.float))  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
Digits(x, y, short=torch.zeros(4).double())  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
Digits(x, y, brain=torch.zeros(4).half())  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
Digits(x, y, table=torch.zeros(10, 4, dtype=torch.int64))  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
Digits(x, y, number=torch.ones(4, dtype=torch.bool))  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype

# ---- through a name that is bound once
Digits(y, y)  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
Digits(x, x)  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
Digits(flags, y)  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
Digits(x, index.to(torch.int32))  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
Digits(x, index[:4].float())  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype

# ---- writes
batch.label = torch.zeros(4)  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
batch.label = x  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
batch.mask = torch.ones(4, 8, 8)  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
batch["label"] = torch.zeros(4)  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
batch.set("label", torch.zeros(4))  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
batch.update({"label": torch.zeros(4)})  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
batch.update(label=torch.zeros(4))  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
batch.replace(label=torch.zeros(4))  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype

# ---- results
print(batch / 2)  # E: - | - | SchemaError | mypy+plugin: tensorclass-cast
print(batch * 0.5)  # E: - | - | SchemaError | mypy+plugin: tensorclass-cast
print(batch.exp())  # E: - | - | SchemaError | mypy+plugin: tensorclass-cast
print(batch.to(torch.float64))  # E: - | - | CastError | mypy+plugin: tensorclass-cast
print(batch.half())  # E: - | - | CastError | mypy+plugin: tensorclass-cast


# ---- a field that does not convert in a class that does
class Converting(TensorClass, autocast=True):
    label: Int64[Tensor, ""]
    exact: Int64[Tensor, ""] = field(coerce="strict")


Converting(torch.zeros(4), torch.zeros(4))  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
