# pyright: strict, reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
"""Declarations."""

from torch import Tensor

from tensorclass import FrozenTensorClass, TensorClass, field
from tensorclass.typing import Float32, Int64


class Order(TensorClass):
    weight: Float32[Tensor, ""] | None = None
    image: Float32[Tensor, "8 8"]  # E: misc | reportGeneralTypeIssues | SchemaError


class Default(TensorClass):
    image: Float32[Tensor, "8 8"] = "zeros"  # E: assignment | reportAssignmentType | SchemaError


class Policy(TensorClass):
    image: Float32[Tensor, "8 8"] = field(join="stac")  # E: arg-type | reportArgumentType | SchemaError


class Hidden(TensorClass):
    reshape: Float32[Tensor, ""]  # E: assignment | reportIncompatibleMethodOverride | SchemaError


class Option(TensorClass, validate="all"):  # E: - | reportArgumentType | ValueError | mypy+plugin: tensorclass-declaration
    image: Float32[Tensor, "8 8"]


class Reserved(TensorClass):
    batch_size: Int64[Tensor, ""]  # E: assignment | reportGeneralTypeIssues, reportIncompatibleVariableOverride | SchemaError


class Frozen(FrozenTensorClass):
    image: Float32[Tensor, "8 8"]


class Thawed(Frozen, frozen=False):  # E: misc | reportGeneralTypeIssues | SchemaError
    image: Float32[Tensor, "8 8"]


class Parent(TensorClass):
    image: Float32[Tensor, "8 8"]


class Child(Parent):
    image: str  # E: assignment | reportIncompatibleVariableOverride | SchemaError

