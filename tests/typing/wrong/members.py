# pyright: strict, reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
"""Pipelines of pipelines, class-to-class modules, chains and parts: what they read and write."""

import torch
from torch import Tensor, nn

from tensorclass import TensorClass
from tensorclass.nn import TensorClassModule, TensorClassModuleBase, TensorClassSequential
from tensorclass.typing import Float32, Int64


class Digits(TensorClass):
    image: Float32[Tensor, "64"]
    label: Int64[Tensor, ""]


class Wide(TensorClass):
    wide: Float32[Tensor, "16"]


class Hidden(TensorClass):
    h: Float32[Tensor, "8"]


class Prediction(TensorClass):
    logits: Float32[Tensor, "10"]
    digit: Int64[Tensor, ""]


def largest(logits: Tensor) -> Tensor:
    return logits.argmax(-1)


class Encoder(TensorClassModuleBase[Digits, Hidden]):
    def forward(self, x: Digits, /) -> Hidden:
        return Hidden(x.image[..., :8], batch_size=x.batch_size)


class Head(TensorClassModuleBase[Hidden, Prediction]):
    def forward(self, x: Hidden, /) -> Prediction:
        logits = torch.cat([x.h, x.h[..., :2]], -1)
        return Prediction(logits, largest(logits), batch_size=x.batch_size)


widen = TensorClassModule(nn.Linear(64, 16), in_fields=Digits.image, out_fields=Wide.wide)
narrow = TensorClassModule(nn.Linear(16, 8), in_fields=Wide.wide, out_fields=Hidden.h)
score = TensorClassModule(nn.Linear(8, 10), in_fields=Hidden.h, out_fields=Prediction.logits)
choose = TensorClassModule(largest, in_fields=Prediction.logits, out_fields=Prediction.digit)

encode = TensorClassSequential(widen, narrow, input=Digits, output=Hidden, name="encode")
head = TensorClassSequential(score, choose, input=Hidden, output=Prediction, name="head")
whole = TensorClassSequential(encode, head, input=Digits, output=Prediction)
flat = TensorClassSequential(widen, narrow, score, choose, input=Digits, output=Prediction)
hidden, last = flat.select_subsequence(out_fields=Hidden.h), head.select_subsequence(out_fields=Prediction.logits)
middle = TensorClassModule(nn.Linear(16, 8), in_fields=Wide.wide, out_fields=Hidden.h, update=True, name="middle")

# ---- pipelines before what they read, or without it
TensorClassSequential(head, encode, input=Digits, output=Prediction)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow
TensorClassSequential(head, input=Digits, output=Prediction)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow
TensorClassSequential(score, TensorClassSequential(encode, input=Digits, output=Hidden), choose, input=Digits, output=Prediction)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow
TensorClassSequential(whole, input=Hidden, output=Prediction)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow

# ---- what a pipeline does not return is its own
TensorClassSequential(encode, middle, head, input=Digits, output=Prediction)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow
TensorClassSequential(encode, head, input=Digits, output=Wide)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow

# ---- what nothing writes, and what is written twice
TensorClassSequential(encode, input=Digits, output=Prediction)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow
TensorClassSequential(encode, narrow, head, input=Digits, output=Prediction)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow
TensorClassSequential(encode, encode, head, input=Digits, output=Prediction)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow

# ---- class-to-class modules and chains
TensorClassSequential(Head(), Encoder(), input=Digits, output=Prediction)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow
TensorClassSequential(Head(), input=Digits, output=Prediction)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow
TensorClassSequential(Encoder(), input=Digits, output=Prediction)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow
TensorClassSequential(Encoder(), choose, input=Digits, output=Prediction)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow
TensorClassSequential(Encoder() >> Head(), input=Hidden, output=Prediction)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow
TensorClassSequential(encode >> Head(), middle, input=Digits, output=Prediction)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow

# ---- parts
TensorClassSequential(hidden, choose, input=Digits, output=Prediction)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow
TensorClassSequential(encode, last, input=Digits, output=Prediction)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow
TensorClassSequential(last, encode, choose, input=Digits, output=Prediction)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow
