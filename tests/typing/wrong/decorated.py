# pyright: strict, reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
"""The decorator: options, and the fields of a class that has no base."""

import torch
from torch import Tensor

from tensorclass import TensorClass, tensorclass
from tensorclass.typing import Float32


@tensorclass
class Alone:
    x: Float32[Tensor, ""]


Alone(y=torch.zeros(3))  # E: call-arg | reportCallIssue | SchemaError
Alone(torch.zeros(3), 3)  # E: call-arg | reportCallIssue | TypeError
Alone("x")  # E: arg-type | reportArgumentType | SchemaError
print(Alone(torch.zeros(3)).y)  # E: attr-defined | reportAttributeAccessIssue | UnknownFieldError
tensorclass(3)  # E: call-overload | reportArgumentType | TypeError
tensorclass(frozn=True)  # E: call-overload | reportCallIssue | -
tensorclass(validate="all")  # E: call-overload | reportArgumentType | -


@tensorclass
class Both(TensorClass):
    x: Float32[Tensor, ""]


Both(torch.zeros(3), batch_size="3")  # E: arg-type | reportArgumentType | BatchSizeError
