# pyright: strict, reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
"""Right programs that checkers refuse, and types that they take wrongly."""

from typing import TypeVar

import torch
from torch import Tensor
from typing_extensions import assert_type

from tensorclass import FrozenTensorClass, PerElement, TensorClass, field, tensorclass
from tensorclass.typing import Float32, Int64


class Digits(TensorClass):
    image: Float32[Tensor, "64"]
    label: Int64[Tensor, ""]
    tag: PerElement[str] | None = field(default=None)


@tensorclass
class Alone:
    image: Float32[Tensor, "64"]


x, y = torch.zeros(4, 64), torch.zeros(4, dtype=torch.int64)
batch = Digits(x, y)

# ---- torch's own functions on containers; this package's `stack` and `cat` are typed
torch.stack([batch, batch])  # E: list-item | reportArgumentType | - | mypy+plugin: - | ty: invalid-argument-type | pyrefly: bad-argument-type
torch.cat([batch, batch])  # E: list-item | reportArgumentType | - | mypy+plugin: - | ty: invalid-argument-type | pyrefly: bad-argument-type
torch.clone(batch)  # E: arg-type | reportArgumentType | - | mypy+plugin: - | ty: invalid-argument-type | pyrefly: bad-argument-type
torch.equal(batch, batch)  # E: arg-type | reportArgumentType | - | mypy+plugin: - | ty: invalid-argument-type | pyrefly: bad-argument-type


# ---- fields that take the name of an operation on purpose
class Moments(TensorClass, shadow=True):
    mean: Float32[Tensor, ""]  # E: assignment | reportIncompatibleMethodOverride | - | mypy+plugin: - | ty: incompatible-attribute-override | pyrefly: bad-override-mutable-attribute


class Spread(TensorClass):
    std: Float32[Tensor, ""] = field(shadow=True)  # E: assignment | reportIncompatibleMethodOverride | - | mypy+plugin: - | ty: incompatible-attribute-override | pyrefly: bad-override-mutable-attribute
    attrs: Float32[Tensor, ""]  # E: assignment | reportIncompatibleMethodOverride | - | mypy+plugin: - | ty: incompatible-attribute-override | pyrefly: bad-override-mutable-attribute


# ---- options between brackets, as programs for another library write them
class Bracketed(TensorClass["shadow"]):  # E: name-defined, type-arg | - | - | mypy+plugin: - | pyrefly: unknown-name
    label: Int64[Tensor, ""]


# ---- what the decorator adds to a class without the base
alone = Alone(image=x)
Alone(image=x, batch_size=[4])  # E: call-arg | reportCallIssue | - | mypy+plugin: - | ty: unknown-argument | pyrefly: unexpected-keyword
print(alone.batch_size)  # E: attr-defined | reportAttributeAccessIssue | - | mypy+plugin: - | ty: missing-attribute | pyrefly: missing-attribute
print(alone[0])  # E: index | reportIndexIssue | - | mypy+plugin: - | ty: not-subscriptable | pyrefly: bad-index
print(alone + 1)  # E: operator | reportOperatorIssue | - | mypy+plugin: - | ty: unsupported-operator | pyrefly: unsupported-operation
alone.to("cpu")  # E: attr-defined | reportAttributeAccessIssue | - | mypy+plugin: - | ty: missing-attribute | pyrefly: missing-attribute

# ---- a reference between brackets looks like an index of the field's type; `batch.get(...)` has no type
assert_type(batch[Digits.label], Digits)  # E: - | - | - | mypy+plugin: assert-type

# ---- an optional per-element field
batch.tag = ["a", "b", "c", "d"]  # E: - | - | - | ty: invalid-assignment | pyrefly: bad-assignment
batch.tag = None  # E: - | reportAttributeAccessIssue | - | ty: invalid-assignment
Digits(x, y, "a")  # E: arg-type | reportArgumentType | - | mypy+plugin: - | ty: invalid-argument-type | pyrefly: bad-argument-type

# ---- a class without options of its own below the frozen base
class Reading(FrozenTensorClass):  # E: - | - | - | pyrefly: invalid-inheritance
    value: Float32[Tensor, ""]


# ---- an index in a function over any class
C = TypeVar("C", bound=TensorClass)


def halves(items: C) -> tuple[C, C]:
    middle = len(items) // 2
    return items[:middle], items[middle:]  # E: - | - | - | pyrefly: bad-return
