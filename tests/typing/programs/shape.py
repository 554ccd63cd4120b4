# pyright: strict
"""Shapes, batch sizes and dim names."""

import torch
from torch import Tensor
from typing_extensions import assert_type

from tensorclass import TensorClass
from tensorclass.typing import Float32, Int64


class Digits(TensorClass):
    image: Float32[Tensor, "8 8"]
    label: Int64[Tensor, ""]


class Maps(TensorClass):
    image: Float32[Tensor, "3 h w"]
    mask: Float32[Tensor, "h w"]


x, y = torch.zeros(4, 8, 8), torch.zeros(4, dtype=torch.int64)
digits = Digits(image=x, label=y, batch_size=[4])

# ---- right: tensors of the declared shapes
Digits(image=torch.zeros(4, 8, 8), label=torch.arange(4), batch_size=[4])
Digits(image=torch.zeros(2, 3, 8, 8), label=torch.zeros(2, 3, dtype=torch.int64), batch_size=[2, 3])
# ---- right: dims that fields share
Maps(image=torch.zeros(4, 3, 6, 5), mask=torch.zeros(4, 6, 5), batch_size=[4])
# ---- right: shapes of which nothing is certain
size = len(x)
Digits(image=torch.zeros(size, 8, 8), label=torch.zeros(size, dtype=torch.int64), batch_size=[size])
# ---- right: reshaped values
Digits(image=torch.zeros(4, 64).reshape(4, 8, 8), label=torch.zeros(2, 2).flatten().long(), batch_size=[4])
# ---- right: batch dims are changed
assert_type(digits.reshape(2, 2), Digits)
assert_type(digits.unsqueeze(0).squeeze(0), Digits)
assert_type(digits.batch_size, torch.Size)

# ---- wrong: another event shape
Digits(image=torch.zeros(4, 8, 7), label=y, batch_size=[4])  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
# ---- wrong: an event dim too much
Digits(image=x, label=torch.zeros(4, 1, dtype=torch.int64), batch_size=[4])  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
# ---- wrong: dims that fields share differ
Maps(image=torch.zeros(4, 3, 6, 5), mask=torch.zeros(4, 5, 6), batch_size=[4])  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
# ---- wrong: another batch size
Digits(image=x, label=y, batch_size=[5])  # E: - | - | SchemaError | mypy+plugin: tensorclass-batch-size
# ---- wrong: fields of different batch sizes
Digits(image=x, label=y[:3], batch_size=[4])  # E: - | - | SchemaError | mypy+plugin: tensorclass-batch-size
# ---- wrong: a write of another shape
digits.image = torch.zeros(4, 9, 9)  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
# ---- wrong: a shape as a text
digits.reshape("2 2")  # E: arg-type | reportArgumentType | TypeError | ty: invalid-argument-type | pyrefly: bad-argument-type
# ---- wrong: a dim as a float
digits.unbind(0.5)  # E: arg-type | reportArgumentType | TypeError | ty: invalid-argument-type | pyrefly: bad-argument-type
# ---- wrong: a dim that the method calls otherwise
digits.unsqueeze(axes=0)  # E: call-arg | reportCallIssue | TypeError | ty: missing-argument, unknown-argument | pyrefly: missing-argument, unexpected-keyword
# ---- wrong: the batch size as a float
Digits(image=x, label=y, batch_size=4.0)  # E: arg-type | reportArgumentType | BatchSizeError | ty: invalid-argument-type | pyrefly: bad-argument-type
# ---- wrong: the batch size is written as a text
digits.batch_size = "4"  # E: assignment | reportAttributeAccessIssue | BatchSizeError | ty: invalid-assignment | pyrefly: bad-argument-type
# ---- wrong: the batch size is taken for a number
number: int = digits.batch_size  # E: assignment | reportAssignmentType | - | ty: invalid-assignment | pyrefly: bad-assignment
