# pyright: strict
"""Pipelines of stages that are written as calls: names by keyword, values without fields, open ends."""

import torch
from torch import Tensor, nn
from typing_extensions import assert_type

from tensorclass import TensorClass
from tensorclass.nn import TensorClassModule, TensorClassSequential, stage
from tensorclass.typing import Float32, Int64


class Digits(TensorClass):
    image: Float32[Tensor, "8"]
    word: Int64[Tensor, ""]


class Prediction(TensorClass):
    logits: Float32[Tensor, "3"]
    digit: Int64[Tensor, ""]


class Drawn(TensorClass):
    image: Float32[Tensor, "8"]


def largest(logits: Tensor) -> Tensor:
    return logits.argmax(-1)


def both(one: Tensor, other: Tensor) -> Tensor:
    return one + other


def halves(image: Tensor) -> tuple[Tensor, Tensor]:
    return image[..., :4], image[..., 4:]


class Net(nn.Module):
    def forward(self, digits: Digits) -> Prediction:
        logits = digits.image[..., :3]
        return Prediction(logits, logits.argmax(-1))


# ---- what follows from something else is left out
classifier = TensorClassSequential[Digits, Prediction](
    encoder=stage(nn.Linear(8, 16), Digits.image),
    act=stage(nn.ReLU()),
    head=stage(nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 3)), out=Prediction.logits),
    decide=stage(largest, out=Prediction.digit),
)
batch = Digits(torch.zeros(4, 8), torch.zeros(4, dtype=torch.int64))
assert_type(classifier(batch), Prediction)

# ---- one value, two readers
h = stage(nn.Linear(8, 16), Digits.image)
fanned = TensorClassSequential[Digits, Prediction](
    trunk=h, logits=stage(nn.Linear(16, 3), h, out=Prediction.logits), digit=stage(largest, out=Prediction.digit)
)
left, right = stage(halves, Digits.image)
summed = TensorClassSequential[Digits, Tensor](sum=stage(both, Digits.image, Digits.image))
words = TensorClassSequential[Digits, Tensor](words=stage(nn.Embedding(10, 8), Digits.word))

# ---- a field of an unrelated class is a value of its own
drawn = TensorClassSequential[Digits, Drawn](draw=stage(nn.Linear(8, 8), Digits.image, out=Drawn.image))
assert_type(drawn(batch), Drawn)

# ---- a typed module is a member
whole = TensorClassSequential(Net())
assert_type(whole(batch), Prediction)
after = TensorClassSequential(
    Net(),
    TensorClassModule(nn.Softmax(-1), in_fields=Prediction.logits, out_fields=Prediction.logits, update=True),
    input=Digits,
    output=Prediction,
)
assert_type(after(batch), Prediction)
