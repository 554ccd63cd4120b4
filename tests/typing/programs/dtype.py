# pyright: strict
"""Dtypes."""

import torch
from torch import Tensor
from typing_extensions import assert_type

from tensorclass import TensorClass
from tensorclass.typing import Float32, Int64


class Digits(TensorClass):
    image: Float32[Tensor, "8 8"]
    label: Int64[Tensor, ""]


x, y = torch.zeros(4, 8, 8), torch.zeros(4, dtype=torch.int64)
digits = Digits(image=x, label=y, batch_size=[4])

# ---- right: tensors of the declared dtypes
Digits(image=torch.rand(4, 8, 8), label=torch.zeros(4, dtype=torch.int64), batch_size=[4])
Digits(image=torch.zeros(4, 8, 8, dtype=torch.float32), label=torch.arange(4), batch_size=[4])
# ---- right: tensors that are converted first
Digits(image=torch.ones(4, 8, 8, dtype=torch.float64).float(), label=torch.zeros(4).long(), batch_size=[4])
# ---- right: a dtype that a program chooses
chosen = torch.float32 if len(x) < 100 else torch.float64
Digits(image=torch.zeros(4, 8, 8, dtype=chosen), label=y, batch_size=[4])
# ---- right: a tensor that a function returns
Digits(image=torch.relu(x), label=x.flatten(1).argmax(-1), batch_size=[4])
# ---- right: a class keeps its dtypes
assert_type(digits.clone().image.dtype, torch.dtype)
# ---- right: a write of the declared dtype
digits.label = torch.randint(10, (4,))

# ---- wrong: floats for integers
Digits(image=x, label=torch.zeros(4, dtype=torch.float32), batch_size=[4])  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
# ---- wrong: doubles for floats
Digits(image=torch.zeros(4, 8, 8, dtype=torch.float64), label=y, batch_size=[4])  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
# ---- wrong: integers for floats, bound to a name
whole = torch.arange(4)
Digits(image=whole, label=y, batch_size=[4])  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
# ---- wrong: a cast to another dtype
Digits(image=x, label=y.float(), batch_size=[4])  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
# ---- wrong: a write of another dtype
digits.label = torch.rand(4)  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
# ---- wrong: a dtype that torch does not have
Digits(image=torch.zeros(4, 8, 8, dtype=torch.float31), label=y, batch_size=[4])  # E: attr-defined | reportAttributeAccessIssue | AttributeError | ty: missing-attribute | pyrefly: missing-attribute
# ---- wrong: a text for a dtype
Digits(image=torch.zeros(4, 8, 8, dtype="float32"), label=y, batch_size=[4])  # E: call-overload | reportArgumentType | TypeError | ty: invalid-argument-type | pyrefly: bad-argument-type
# ---- wrong: a number for a tensor
Digits(image=x, label=[3], batch_size=[4])  # E: arg-type | reportArgumentType | SchemaError | ty: invalid-argument-type | pyrefly: bad-argument-type
# ---- wrong: a cast that the container does not have
digits.to_float32()  # E: attr-defined | reportAttributeAccessIssue | UnknownFieldError | ty: missing-attribute | pyrefly: missing-attribute
# ---- wrong: a dtype taken for a device
Digits(image=x, label=y, batch_size=[4], device=torch.float32)  # E: arg-type | reportArgumentType | TypeError | ty: invalid-argument-type | pyrefly: bad-argument-type
