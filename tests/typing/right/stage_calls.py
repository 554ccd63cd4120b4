# pyright: strict
"""Pipelines of stages that are written as calls: names by keyword, values without fields, open ends."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from typing_extensions import assert_type

from tensorclass import RaggedTensor, TensorClass
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


class Digit(TensorClass):
    digit: Int64[Tensor, ""]


class Bag(TensorClass):
    words: Float32[RaggedTensor, "n 8"]


@dataclass
class Scores:
    scores: Tensor


def doubled(words: RaggedTensor) -> RaggedTensor:
    return words * 2


def scored(words: RaggedTensor) -> Scores:
    return Scores(words.mean())


def best(given: Scores) -> Tensor:
    return given.scores.argmax(-1)


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

# ---- stages of a dict, a ragged value, an object; what a stage wraps is a module
layers: dict[str, Tensor] = {
    "layer": stage(nn.Linear(8, 8), Digits.image),
    "last": stage(nn.Linear(8, 8), out=Drawn.image),
}
stacked = TensorClassSequential(input=Digits, output=Drawn, **layers)
assert_type(stacked(batch), Drawn)
named = TensorClassSequential[Digits, Drawn](**layers)
assert_type(named.last, nn.Module)
twice = stage(doubled, Bag.words)
scores = stage(scored, twice)
bags = TensorClassSequential[Bag, Digit](twice=twice, scores=scores, digit=stage(best, out=Prediction.digit))
assert_type(bags(Bag([torch.zeros(2, 8)])), Digit)


# ---- one typed function is a pipeline
def decided(digits: Digits) -> Drawn:
    return Drawn(image=digits.image)


assert_type(TensorClassSequential(decided)(batch), Drawn)
