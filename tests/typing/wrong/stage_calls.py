# pyright: strict, reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
"""Stages that are written as calls, in pipelines that are wrong."""

from torch import Tensor, nn

from tensorclass import TensorClass
from tensorclass.nn import TensorClassSequential, stage
from tensorclass.typing import Float32, Int64


class Digits(TensorClass):
    image: Float32[Tensor, "8"]
    word: Int64[Tensor, ""]


class Prediction(TensorClass):
    logits: Float32[Tensor, "3"]
    digit: Int64[Tensor, ""]


def largest(logits: Tensor) -> Tensor:
    return logits.argmax(-1)


def both(one: Tensor, other: Tensor) -> Tensor:
    return one + other


h = stage(nn.Linear(8, 16), Digits.image)
decide = stage(largest, out=Prediction.digit)
choose = stage(largest, Prediction.logits, out=Prediction.digit)
head = stage(nn.Linear(16, 3), h, out=Prediction.logits)

# ---- names
stage(nn.Linear(8, 3), Digits.imgae)  # E: attr-defined | reportAttributeAccessIssue | UnknownFieldError
stage(nn.Linear(8, 3), Digits.image, out=Prediction.logit)  # E: attr-defined | reportAttributeAccessIssue | UnknownFieldError

# ---- arguments
TensorClassSequential[Digits, Tensor](sum=stage(both, Digits.image))  # E: arg-type | reportCallIssue | BuildError
TensorClassSequential[Digits, Tensor](max=stage(largest, Digits.image, Digits.image))  # E: arg-type | reportCallIssue | BuildError
