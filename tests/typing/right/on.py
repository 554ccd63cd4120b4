# pyright: strict
"""One pipeline for several input classes: `pipeline.on(...)` is typed for the class that it is given."""

import torch
from torch import Tensor, nn
from typing_extensions import assert_type

from tensorclass import TensorClass
from tensorclass.nn import TensorClassModule, TensorClassSequential
from tensorclass.typing import Float32, Int64


class Image(TensorClass):
    pixels: Float32[Tensor, "64"]


class Digits(TensorClass):
    pixels: Float32[Tensor, "64"]
    label: Int64[Tensor, ""]


class Named(Digits):
    page: Int64[Tensor, ""]


class Prediction(TensorClass):
    logits: Float32[Tensor, "10"]


head = TensorClassModule(nn.Linear(64, 10), in_fields=Digits.pixels, out_fields=Prediction.logits)
trained = TensorClassSequential(head, input=Digits, output=Prediction)
deployed = trained.on(Image)
assert_type(deployed, TensorClassSequential[Image, Prediction])
assert_type(trained.on(Named), TensorClassSequential[Named, Prediction])
pixels = torch.zeros(5, 64)
assert_type(deployed(Image(pixels)).logits, Tensor)
assert_type(deployed.on(Digits)(Digits(pixels, torch.arange(5))), Prediction)


def serve(model: TensorClassSequential[Digits, Prediction], image: Image) -> Tensor:
    return model.on(Image)(image).logits


print(serve(trained, Image(pixels)))
