# pyright: strict, reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
"""Options and declarations that make no sense, and writes to frozen classes."""

import torch
from torch import Tensor

from tensorclass import FrozenTensorClass, PerElement, TensorClass, field, produced, tensorclass
from tensorclass.typing import Float, Float32, Int64


class Still(FrozenTensorClass):
    image: Float32[Tensor, "64"]


class Spot(TensorClass, frozen=True):
    value: Float32[Tensor, ""]


class Parent(TensorClass):
    image: Float32[Tensor, "8 8"]
    label: Int64[Tensor, ""]


still, spot = Still(torch.zeros(4, 64)), Spot(torch.zeros(4))

# ---- a frozen instance refuses every write
still.batch_size = []  # E: - | - | FrozenError | mypy+plugin: tensorclass-frozen
still.names = ["time"]  # E: - | - | FrozenError | mypy+plugin: tensorclass-frozen
still[0] = 1  # E: - | - | FrozenError | mypy+plugin: tensorclass-frozen
still["image"] = torch.zeros(4, 64)  # E: - | - | FrozenError | mypy+plugin: tensorclass-frozen
still.set("image", torch.zeros(4, 64))  # E: - | - | FrozenError | mypy+plugin: tensorclass-frozen
still.update({"image": torch.zeros(4, 64)})  # E: - | - | FrozenError | mypy+plugin: tensorclass-frozen
still.update_({"image": torch.zeros(4, 64)})  # E: - | - | FrozenError | mypy+plugin: tensorclass-frozen
still.add_(1)  # E: - | - | FrozenError | mypy+plugin: tensorclass-frozen
still.zero_()  # E: - | - | FrozenError | mypy+plugin: tensorclass-frozen
still[0].copy_(still[1])  # E: - | - | FrozenError | mypy+plugin: tensorclass-frozen
del still.image  # E: - | reportAttributeAccessIssue | FrozenError | mypy+plugin: tensorclass-frozen
spot *= 2  # E: - | - | FrozenError | mypy+plugin: tensorclass-frozen
spot.clear()  # E: - | - | FrozenError | mypy+plugin: tensorclass-frozen


# ---- dims outside the grammar
class Commas(TensorClass):
    image: Float32[Tensor, "8,8"]  # E: - | - | SchemaError | mypy+plugin: tensorclass-declaration


class Division(TensorClass):
    image: Float32[Tensor, "h/2"]  # E: - | - | SchemaError | mypy+plugin: tensorclass-declaration


class Twice(TensorClass):
    image: Float32[Tensor, "*a *b"]  # E: - | - | SchemaError | mypy+plugin: tensorclass-declaration


class Negative(TensorClass):
    image: Float32[Tensor, "-1"] | None = None  # E: - | - | SchemaError | mypy+plugin: tensorclass-declaration


# ---- defaults that instances would share
class Shared(TensorClass):
    tags: list[str] = []  # E: - | - | SchemaError | mypy+plugin: tensorclass-declaration


class Given(TensorClass):
    tags: dict[str, str] = field(default={})  # E: - | - | SchemaError | mypy+plugin: tensorclass-declaration


# ---- fields wider than those of the parent
class Wider(Parent):
    image: Float32[Tensor, "9 9"]  # E: - | - | SchemaError | mypy+plugin: tensorclass-declaration


class Looser(Parent):
    image: Float[Tensor, "8 8"]  # E: - | - | SchemaError | mypy+plugin: tensorclass-declaration


class Later(Parent):
    label: Int64[Tensor, ""] = produced()  # E: - | - | SchemaError | mypy+plugin: tensorclass-declaration


# ---- options
class Option(TensorClass, freeze=True):  # E: - | - | TypeError | mypy+plugin: tensorclass-declaration
    image: Float32[Tensor, "64"]


class Tensors(TensorClass, tensor_only=True):
    name: PerElement[str]  # E: - | - | SchemaError | mypy+plugin: tensorclass-declaration


@tensorclass(frozen=True)
class Both(TensorClass):
    value: Float32[Tensor, ""]


Both(torch.zeros(3)).value = torch.ones(3)  # E: misc | - | FrozenError
Both(torch.zeros(3))[0] = 1  # E: - | - | FrozenError | mypy+plugin: tensorclass-frozen
