# pyright: strict, reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
"""Pipelines: what is read, written and returned, followed through the modules."""

import torch
from torch import Tensor, nn

from tensorclass import TensorClass, produced
from tensorclass.nn import TensorClassModule, TensorClassSequential, module
from tensorclass.typing import Float32, Int64


class Digits(TensorClass):
    image: Float32[Tensor, "64"]
    label: Int64[Tensor, ""]


class Hidden(TensorClass):
    h: Float32[Tensor, "8"]


class Narrow(TensorClass):
    h: Float32[Tensor, "4"]


class Whole(TensorClass):
    h: Int64[Tensor, "8"]


class Prediction(TensorClass):
    logits: Float32[Tensor, "10"]
    digit: Int64[Tensor, ""]


class State(TensorClass):
    image: Float32[Tensor, "64"]
    hidden: Float32[Tensor, "8"] = produced()
    logits: Float32[Tensor, "10"] = produced()


class Outer(TensorClass):
    inputs: Digits


def largest(logits: Tensor) -> Tensor:
    return logits.argmax(-1)


def widen(hidden: Tensor) -> Tensor:
    return torch.cat([hidden, hidden[..., :2]], -1)


def dense(source: Tensor, target: Tensor) -> TensorClassModule:
    return TensorClassModule(nn.Linear(8, 8), in_fields=source, out_fields=target)


@module(in_fields=Hidden.h, out_fields=Prediction.logits)
def score(h: Tensor) -> Tensor:
    return widen(h)


encode = TensorClassModule(nn.Linear(64, 8), in_fields=Digits.image, out_fields=Hidden.h)
head = TensorClassModule(widen, in_fields=Hidden.h, out_fields=Prediction.logits)
choose = TensorClassModule(largest, in_fields=Prediction.logits, out_fields=Prediction.digit)
first = TensorClassModule(nn.Linear(64, 8), in_fields=State.image, out_fields=State.hidden)
second = TensorClassModule(widen, in_fields=State.hidden, out_fields=State.logits)
narrow = TensorClassModule(nn.Linear(4, 10), in_fields=Narrow.h, out_fields=Prediction.logits)
whole = TensorClassModule(lambda h: widen(h).float(), in_fields=Whole.h, out_fields=Prediction.logits)
stages = (head, encode, choose)

# ---- reads before writes
TensorClassSequential(head, encode, choose, input=Digits, output=Prediction)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow
TensorClassSequential(head, choose, input=Digits, output=Prediction)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow
TensorClassSequential(encode, choose, head, input=Digits, output=Prediction)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow
TensorClassSequential(second, first, input=State)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow
TensorClassSequential(score, encode, choose, input=Digits, output=Prediction)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow
TensorClassSequential(*stages, input=Digits, output=Prediction)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow
TensorClassSequential(dense(Hidden.h, Hidden.h), input=Digits, output=Hidden)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow
TensorClassSequential(module(in_fields=Hidden.h, out_fields=Prediction.logits)(widen), choose, input=Digits, output=Prediction)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow

# ---- another input, and fields one level up or down
TensorClassSequential(encode, input=Hidden, output=Hidden)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow
TensorClassSequential(encode, input=Outer, output=Hidden)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow
TensorClassSequential(TensorClassModule(nn.Linear(64, 8), in_fields=Outer.inputs.image, out_fields=Hidden.h), input=Digits, output=Hidden)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow

# ---- outputs that nothing writes
TensorClassSequential(encode, input=Digits, output=State)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow
TensorClassSequential(encode, head, input=Digits, output=Prediction)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow
TensorClassSequential(first, input=State)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow
TensorClassSequential(encode, input=Digits, output=Outer)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow

# ---- layers in a row that don't fit each other, or a field
TensorClassSequential(TensorClassModule(nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(16, 8)), in_fields=Digits.image, out_fields=Hidden.h), input=Digits, output=Hidden)  # E: - | - | BuildError | mypy+plugin: tensorclass-shape
TensorClassSequential(TensorClassModule(nn.Sequential(nn.Linear(64, 32), nn.ReLU()), in_fields=Digits.image, out_fields=Hidden.h), input=Digits, output=Hidden)  # E: - | - | BuildError | mypy+plugin: tensorclass-shape
TensorClassSequential(encode, TensorClassModule(lambda h: h > 0, in_fields=Hidden.h, out_fields=Hidden.h, update=True), input=Digits, output=Hidden)  # E: - | - | BuildError | mypy+plugin: tensorclass-dtype

# ---- fields that are written twice, or belong to the input
TensorClassSequential(encode, encode, input=Digits, output=Hidden)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow
TensorClassSequential(dense(Digits.image, Digits.image), input=Digits)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow

# ---- one path declared twice, with another shape or dtype
TensorClassSequential(encode, narrow, choose, input=Digits, output=Prediction)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow
TensorClassSequential(encode, whole, choose, input=Digits, output=Prediction)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow
TensorClassSequential(encode, input=Digits, output=Narrow)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow
TensorClassSequential(encode, input=Digits, output=Whole)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow

# ---- no modules, and classes that declare nothing
TensorClassSequential(input=Digits, output=Hidden)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow
TensorClassSequential(encode, input=int, output=Hidden)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow
TensorClassSequential(encode, input=Digits, output=Tensor)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow
