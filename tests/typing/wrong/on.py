# pyright: strict
"""One pipeline for several input classes: classes that lack a field, and batches of another class."""

import torch
from torch import Tensor, nn

from tensorclass import TensorClass
from tensorclass.nn import TensorClassModule, TensorClassSequential
from tensorclass.typing import Float32, Int64


class Image(TensorClass):
    pixels: Float32[Tensor, "64"]


class Digits(TensorClass):
    pixels: Float32[Tensor, "64"]
    label: Int64[Tensor, ""]


class Words(TensorClass):
    ids: Int64[Tensor, "8"]


class Wide(TensorClass):
    pixels: Float32[Tensor, "32"]


class Counts(TensorClass):
    pixels: Int64[Tensor, "64"]


class Prediction(TensorClass):
    logits: Float32[Tensor, "10"]


class Labelled(TensorClass):
    logits: Float32[Tensor, "10"]
    label: Int64[Tensor, ""]


head = TensorClassModule(nn.Linear(64, 10), in_fields=Digits.pixels, out_fields=Prediction.logits)
trained = TensorClassSequential(head, input=Digits, output=Prediction)
judged = TensorClassSequential(head, input=Digits, output=Labelled)
image = Image(torch.zeros(5, 64))

trained.on(Words)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow
trained.on(Wide)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow
trained.on(Counts)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow
judged.on(Image)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow
trained.on(Image).on(Words)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow
trained.on(image)  # E: arg-type | reportArgumentType | BuildError
print(trained.on(Image)(image).logit)  # E: attr-defined | reportAttributeAccessIssue | AttributeError


def serve(images: Image, digits: Digits) -> None:
    trained(images)  # E: arg-type | reportArgumentType | -
    trained.on(Image)(digits)  # E: arg-type | reportArgumentType | -
