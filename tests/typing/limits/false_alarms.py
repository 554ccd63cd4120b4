# pyright: strict, reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
"""Right programs that checkers refuse, and types that they take wrongly."""

import torch
from torch import Tensor
from torch.utils.data import DataLoader
from typing_extensions import assert_type

from tensorclass import PerElement, TensorClass, field, tensorclass
from tensorclass.nn import TensorClassModule
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
torch.stack([batch, batch])  # E: list-item | reportArgumentType | - | mypy+plugin: -
torch.cat([batch, batch])  # E: list-item | reportArgumentType | - | mypy+plugin: -
torch.clone(batch)  # E: arg-type | reportArgumentType | - | mypy+plugin: -
torch.equal(batch, batch)  # E: arg-type | reportArgumentType | - | mypy+plugin: -
DataLoader(batch, batch_size=2)  # E: arg-type | reportArgumentType | - | mypy+plugin: -


# ---- fields that take the name of an operation on purpose
class Moments(TensorClass, shadow=True):
    mean: Float32[Tensor, ""]  # E: assignment | reportIncompatibleMethodOverride | - | mypy+plugin: -


# ---- options between brackets, as programs for another library write them
class Bracketed(TensorClass["shadow"]):  # E: name-defined, type-arg | reportInvalidTypeArguments | -
    label: Int64[Tensor, ""]


# ---- what the decorator adds to a class without the base
alone = Alone(image=x)
Alone(image=x, batch_size=[4])  # E: call-arg | reportCallIssue | - | mypy+plugin: -
print(alone.batch_size)  # E: attr-defined | reportAttributeAccessIssue | - | mypy+plugin: -
print(alone[0])  # E: index | reportIndexIssue | - | mypy+plugin: -
print(alone + 1)  # E: operator | reportOperatorIssue | - | mypy+plugin: -
alone.to("cpu")  # E: attr-defined | reportAttributeAccessIssue | - | mypy+plugin: -

# ---- a reference between brackets looks like an index of the field's type; `batch.get(...)` has no type
assert_type(batch[Digits.label], Digits)  # E: - | - | - | mypy+plugin: assert-type

# ---- an optional per-element field
batch.tag = None  # E: - | reportAttributeAccessIssue | -
Digits(x, y, "a")  # E: arg-type | reportArgumentType | - | mypy+plugin: -

# ---- lambdas in the one-step form, in pyright's strict mode
TensorClassModule(lambda z: z * 2, in_fields=Digits.image, out_fields=Digits.image)  # E: - | reportUnknownLambdaType | -
