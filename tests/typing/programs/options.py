# pyright: strict
"""Options of classes."""

import torch
from torch import Tensor
from typing_extensions import assert_type

from tensorclass import PerElement, TensorClass
from tensorclass.typing import Float32, Int64


class Still(TensorClass, frozen=True):
    image: Float32[Tensor, "64"]
    unit: str = "m"


still = Still(image=torch.zeros(4, 64), batch_size=[4])

# ---- right: frozen instances are read and changed in copies
assert_type(still.image, Tensor)
assert_type(still[0], Still)
assert_type(still.replace(image=torch.ones(4, 64)), Still)


# ---- right: a child of a frozen class
class Timed(Still, frozen=True):
    time: Float32[Tensor, ""] | None = None


assert_type(Timed(image=torch.zeros(3, 64), batch_size=[3]).time, Tensor | None)


# ---- right: values are converted
class Loose(TensorClass, autocast=True):
    value: Float32[Tensor, ""]


assert_type(Loose(value=torch.zeros(3), batch_size=[3])[0], Loose)
# anchor: class Loose(TensorClass["autocast"]):
# anchor:     value: Tensor
# anchor: assert_type(Loose(value=torch.zeros(3), batch_size=[3])[0], Loose)


# ---- right: only tensors
class Tensors(TensorClass, tensor_only=True):
    value: Float32[Tensor, ""]


assert_type(Tensors(value=torch.zeros(3), batch_size=[3]).value, Tensor)
# anchor: class Tensors(TensorClass["tensor_only"]):
# anchor:     value: Tensor
# anchor: assert_type(Tensors(value=torch.zeros(3), batch_size=[3]).value, Tensor)


# ---- right: values are looked into
class Checked(TensorClass, validate="values"):
    value: Float32[Tensor, ""]


assert_type(Checked(value=torch.zeros(3), batch_size=[3]).value, Tensor)
# anchor: none

# ---- wrong: a field of a frozen instance is written
still.image = torch.ones(4, 64)  # E: misc | reportAttributeAccessIssue | FrozenError | ty: invalid-assignment | pyrefly: read-only
# ---- wrong: a non-tensor field of a frozen instance is written
still.unit = "mm"  # E: misc | reportAttributeAccessIssue | FrozenError | ty: invalid-assignment | pyrefly: read-only
# ---- wrong: a field of a child of a frozen class is written
Timed(image=torch.zeros(3, 64), batch_size=[3]).time = None  # E: misc | reportAttributeAccessIssue | FrozenError | ty: invalid-assignment | pyrefly: read-only
# ---- wrong: a field of a frozen instance is augmented
still.image += 1  # E: misc | reportAttributeAccessIssue | FrozenError | ty: invalid-assignment | pyrefly: read-only
# ---- wrong: a frozen instance is written by index
still[0] = 1  # E: - | - | FrozenError | mypy+plugin: tensorclass-frozen | mypy+stubs: assignment, index | pyright+stubs: reportArgumentType
# ---- wrong: a frozen instance is written by key
still["image"] = torch.ones(4, 64)  # E: - | - | FrozenError | mypy+plugin: tensorclass-frozen | mypy+stubs: assignment, index | pyright+stubs: reportArgumentType
# ---- wrong: a field of a frozen instance is deleted
del still.image  # E: - | reportAttributeAccessIssue | FrozenError | mypy+plugin: tensorclass-frozen | ty: invalid-assignment | pyrefly: read-only


# ---- wrong: a child that is not frozen
class Thawed(Still, frozen=False):  # E: misc | reportGeneralTypeIssues | SchemaError | ty: invalid-frozen-dataclass-subclass | pyrefly: invalid-inheritance
    page: Int64[Tensor, ""] | None = None


# anchor: none


# ---- wrong: an option that is not there
class Misspelt(TensorClass, freeze=True):  # E: - | - | TypeError | mypy+plugin: tensorclass-declaration | stubs: tensorclass-declaration
    value: Float32[Tensor, ""]


# anchor: class Misspelt(TensorClass["freeze"]):  # E
# anchor:     value: Tensor


# ---- wrong: an option of another value
class Level(TensorClass, validate="all"):  # E: - | reportArgumentType | ValueError | mypy+plugin: tensorclass-declaration | ty: invalid-argument-type | stubs: tensorclass-declaration
    value: Float32[Tensor, ""]


# anchor: none


# ---- wrong: a field that is no tensor where only tensors are
class Texts(TensorClass, tensor_only=True):
    name: PerElement[str]  # E: - | - | SchemaError | mypy+plugin: tensorclass-declaration | stubs: tensorclass-declaration


# anchor: class Texts(TensorClass["tensor_only"]):
# anchor:     name: str  # E
