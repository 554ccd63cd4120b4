# pyright: strict
"""Declarations of classes."""

import torch
from torch import Tensor
from typing_extensions import assert_type

from tensorclass import TensorClass, field
from tensorclass.typing import Float, Float32, Int64


class Parent(TensorClass):
    image: Float32[Tensor, "8 8"]
    label: Int64[Tensor, ""]


# ---- right: defaults, factories and options of fields
class Given(TensorClass):
    image: Float32[Tensor, "8 8"]
    weight: Float32[Tensor, ""] | None = None
    page: int = field(default=0)
    tags: dict[str, str] = field(default_factory=dict[str, str])


assert_type(Given(image=torch.zeros(2, 8, 8), batch_size=[2]).page, int)
# anchor: none


# ---- right: a child has the fields of its parent
class Child(Parent):
    page: Int64[Tensor, ""] | None = None


assert_type(Child(image=torch.zeros(2, 8, 8), label=torch.arange(2), batch_size=[2]).label, Tensor)


# ---- right: methods and properties
class Scored(TensorClass):
    score: Float32[Tensor, ""]

    @property
    def best(self) -> Tensor:
        return self.score.max()

    def doubled(self) -> Tensor:
        return self.score * 2


assert_type(Scored(score=torch.zeros(2), batch_size=[2])[0].doubled(), Tensor)


# ---- right: a class that holds itself
class Tree(TensorClass):
    value: Float32[Tensor, ""]
    below: "Tree | None" = None


tree = Tree(value=torch.zeros(3), batch_size=[3])
if tree.below is not None:
    assert_type(tree.below.value, Tensor)


# ---- right: plain tensors, texts and numbers
class Plain(TensorClass):
    value: Tensor
    unit: str = "m"
    rate: float = 0.5


assert_type(Plain(value=torch.zeros(3), batch_size=[3]).rate, float)


# ---- right: a narrower field in a child
class Loose(TensorClass):
    value: Float[Tensor, "n"]


class Tight(Loose):
    value: Float32[Tensor, "3"]


assert_type(Tight(value=torch.zeros(2, 3), batch_size=[2]).value, Tensor)


# ---- wrong: a required field behind an optional one
class Order(TensorClass):
    weight: Float32[Tensor, ""] | None = None
    image: Float32[Tensor, "8 8"]  # E: misc | reportGeneralTypeIssues | SchemaError | ty: invalid-dataclass-field-order | pyrefly: bad-class-definition | stubs: tensorclass-declaration


# ---- wrong: a default of another type
class Default(TensorClass):
    image: Float32[Tensor, "8 8"] = "zeros"  # E: assignment | reportAssignmentType | SchemaError | ty: invalid-assignment | pyrefly: bad-assignment


# ---- wrong: a type that is not there
class Missing(TensorClass):
    image: Float31[Tensor, "8 8"]  # E: name-defined | reportGeneralTypeIssues, reportUndefinedVariable, syntax | NameError | ty: unresolved-reference | pyrefly: unknown-name | stubs: tensorclass-declaration


# anchor: class Missing(TensorClass):
# anchor:     image: Tenzor  # E


# ---- wrong: a field under the name of an operation
class Hidden(TensorClass):
    reshape: Float32[Tensor, ""]  # E: assignment | reportIncompatibleMethodOverride | SchemaError | ty: incompatible-attribute-override | pyrefly: bad-override-mutable-attribute | stubs: tensorclass-declaration


# ---- wrong: a field under the name of an option
class Reserved(TensorClass):
    batch_size: Int64[Tensor, ""]  # E: assignment | reportGeneralTypeIssues, reportIncompatibleVariableOverride | SchemaError | ty: incompatible-attribute-override | pyrefly: bad-override | stubs: tensorclass-declaration


# ---- wrong: a child gives a field another type
class Changed(Parent):
    image: str  # E: assignment | reportIncompatibleVariableOverride | SchemaError | ty: incompatible-attribute-override | pyrefly: bad-override-mutable-attribute | stubs: tensorclass-declaration


# ---- wrong: a child widens the shape of a field
class Wider(Parent):
    image: Float32[Tensor, "9 9"]  # E: - | - | SchemaError | mypy+plugin: tensorclass-declaration | pyright+stubs: reportIncompatibleVariableOverride | stubs: tensorclass-declaration


# anchor: none


# ---- wrong: a default that instances share
class Shared(TensorClass):
    image: Tensor
    tags: list[str] = []  # E: - | - | SchemaError | mypy+plugin: tensorclass-declaration | stubs: tensorclass-declaration


# ---- wrong: an option of a field that is not there
class Option(TensorClass):
    image: Float32[Tensor, "8 8"] = field(defualt=None)  # E: call-arg | reportCallIssue | TypeError | ty: unknown-argument | pyrefly: unexpected-keyword


# anchor: none


# ---- wrong: an option of a field has another value
class Policy(TensorClass):
    image: Float32[Tensor, "8 8"] = field(join="stac")  # E: arg-type | reportArgumentType | SchemaError | ty: invalid-argument-type | pyrefly: bad-argument-type


# anchor: none


# ---- wrong: dims outside the grammar
class Commas(TensorClass):
    image: Float32[Tensor, "8,8"]  # E: - | - | SchemaError | mypy+plugin: tensorclass-declaration | stubs: tensorclass-declaration


# anchor: none


# ---- wrong: a method reads a field that is not there
class Summed(TensorClass):
    image: Float32[Tensor, "8 8"]

    def total(self) -> Tensor:
        return self.imgae.sum()  # E: attr-defined, no-any-return | reportAttributeAccessIssue | - | ty: missing-attribute | pyrefly: missing-attribute


Summed(image=torch.zeros(2, 8, 8), batch_size=[2]).total()  # E: - | - | UnknownFieldError
