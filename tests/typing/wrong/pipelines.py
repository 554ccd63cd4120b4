# pyright: strict, reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
"""Modules and pipelines."""

import torch
from torch import Tensor, nn

from tensorclass import TensorClass
from tensorclass.nn import TensorClassModule, TensorClassSequential, module
from tensorclass.typing import Float32, Int64


class Digits(TensorClass):
    image: Float32[Tensor, "64"]
    label: Int64[Tensor, ""]
    source: str = "scan"


class Hidden(TensorClass):
    h: Float32[Tensor, "8"]


class Prediction(TensorClass):
    logits: Float32[Tensor, "10"]


encode = TensorClassModule(nn.Linear(64, 8), in_fields=Digits.image, out_fields=Hidden.h)
head = TensorClassModule(nn.Linear(8, 10), in_fields=Hidden.h, out_fields=Prediction.logits)
pipe = TensorClassSequential(encode, head, input=Digits, output=Prediction)
digits = Digits(torch.zeros(2, 64), torch.zeros(2, dtype=torch.int64))
hidden = Hidden(torch.zeros(2, 8))

# ---- references to what is not there
TensorClassModule(nn.Linear(64, 8), in_fields=Digits.imgae, out_fields=Hidden.h)  # E: attr-defined | reportAttributeAccessIssue | UnknownFieldError
TensorClassModule(nn.Linear(64, 8), in_fields=Digits.image, out_fields=Hidden.hidden)  # E: attr-defined | reportAttributeAccessIssue | UnknownFieldError

# ---- arguments
TensorClassModule(3, in_fields=Digits.image, out_fields=Hidden.h)  # E: call-overload | reportArgumentType, reportCallIssue | BuildError
TensorClassModule(nn.Linear(64, 8), in_fields=Digits.image)  # E: call-overload | reportCallIssue | TypeError
TensorClassModule(nn.Linear(64, 8), in_field=Digits.image, out_fields=Hidden.h)  # E: call-overload | reportCallIssue | TypeError
TensorClassSequential(nn.Linear(64, 8), input=Digits, output=Hidden)  # E: misc | reportArgumentType, reportCallIssue | BuildError
TensorClassSequential(encode, head, input=Digits, output=Prediction, prob=False)  # E: call-overload | reportArgumentType, reportCallIssue | BuildError
TensorClassSequential(encode, head, input=digits, output=Prediction)  # E: call-overload | reportArgumentType, reportCallIssue | BuildError

# ---- a batch or a result of another class
pipe(hidden)  # E: arg-type | reportArgumentType | TypeError
pipe(digits.image)  # E: arg-type | reportArgumentType | TypeError
pipe()  # E: call-arg | reportCallIssue | TypeError
pipe(digits, digits)  # E: call-arg | reportCallIssue | TypeError
result: Hidden = pipe(digits)  # E: assignment | reportAssignmentType | -
print(pipe(digits).digit)  # E: attr-defined | reportAttributeAccessIssue | UnknownFieldError


def run(model: TensorClassSequential[Hidden, Prediction]) -> None:
    model(hidden)


run(pipe)  # E: arg-type | reportArgumentType | TypeError


# ---- two steps: parameters, their number, and the return type
@module(in_fields=Digits.image, out_fields=Digits.source)  # E: arg-type | reportArgumentType | -
def length(image: Tensor) -> int:
    return len(image)


@module(in_fields=Digits.source, out_fields=Hidden.h)  # E: arg-type | reportArgumentType | -
def shout(source: int) -> Tensor:
    return torch.zeros(source, 8)


@module(in_fields=(Digits.image, Digits.label), out_fields=Hidden.h)  # E: arg-type | reportArgumentType | -
def shrink(image: Tensor) -> Tensor:
    return image[..., :8]


@module(in_fields=Digits.image, out_fields=Hidden.h)  # E: arg-type | reportArgumentType | -
def grow(image: Tensor, label: Tensor) -> Tensor:
    return image + label


@module(in_fields=Digits.image, out_fields=(Hidden.h, Prediction.logits))  # E: arg-type | reportArgumentType | -
def both(image: Tensor) -> Tensor:
    return image


module(in_fields=Digits.image)  # E: call-overload | reportCallIssue | TypeError
module(in_fields=Digits.image, out_fields=Hidden.h)(3)  # E: arg-type | reportArgumentType | BuildError
