"""Classes and pipelines that the tests of this room share."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tensorclass import TensorClass, produced
from tensorclass.nn import TensorClassModule, TensorClassSequential
from tensorclass.typing import Float, Float32, Int64


class Digits(TensorClass):
    image: Float32[Tensor, "1 8 8"]
    label: Int64[Tensor, ""]
    weight: Float32[Tensor, ""] | None = None
    source: str = "scan"


class Hidden(TensorClass):
    h: Float32[Tensor, "16"]
    wide: Float32[Tensor, "32"]
    flat: Float32[Tensor, "64"]
    open: Float[Tensor, "n"]


class Prediction(TensorClass):
    logits: Float32[Tensor, "classes"]
    digit: Int64[Tensor, ""]


class State(TensorClass):
    image: Float32[Tensor, "1 8 8"]
    label: Int64[Tensor, ""]
    hidden: Float32[Tensor, "16"] = produced()
    logits: Float32[Tensor, "10"] = produced()


def flatten(image: Tensor) -> Tensor:
    return image.flatten(-3)


def argmax(logits: Tensor) -> Tensor:
    return logits.argmax(-1)


def digits(n: int = 6) -> Digits:
    """A batch of random images."""
    return Digits(image=torch.rand(n, 1, 8, 8), label=torch.arange(n) % 10)


def step(module, reads, writes, **options) -> TensorClassModule:
    """A typed module in the fewest words."""
    return TensorClassModule(module, in_fields=reads, out_fields=writes, **options)


def stages() -> list[TensorClassModule]:
    """A right pipeline from Digits to Prediction."""
    return [
        step(flatten, Digits.image, Hidden.flat),
        step(nn.Linear(64, 16), Hidden.flat, Hidden.h, name="encoder"),
        step(nn.Linear(16, 10), Hidden.h, Prediction.logits, name="head"),
        step(argmax, Prediction.logits, Prediction.digit),
    ]


def classifier() -> TensorClassSequential[Digits, Prediction]:
    """The pipeline of `stages`."""
    return TensorClassSequential(*stages(), input=Digits, output=Prediction)


def told(error: BaseException) -> str:
    """What a traceback prints of an error: the message, and the notes below it."""
    return "\n".join([str(error), *getattr(error, "__notes__", ())])
