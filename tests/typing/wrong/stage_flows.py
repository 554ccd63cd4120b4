# pyright: strict, reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# checkers: mypy+plugin
"""Stages in a wrong order, and layers of the wrong width or dtype."""

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

TensorClassSequential[Digits, Prediction](head=stage(nn.Linear(8, 3), "image", out=Prediction.logits), decide=decide)  # E: - | - | BuildError | mypy+plugin: tensorclass-reference

# ---- order, and values that are not there
TensorClassSequential[Digits, Prediction](head=head, trunk=h, decide=choose)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow
TensorClassSequential[Digits, Prediction](head=head, decide=choose)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow
TensorClassSequential[Digits, Prediction](decide=choose, trunk=h, head=head)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow
TensorClassSequential[Digits, Prediction](trunk=h, head=head)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow
TensorClassSequential(decide=decide)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow

# ---- widths and dtypes of layers
TensorClassSequential[Digits, Prediction](trunk=h, head=stage(nn.Linear(32, 3), out=Prediction.logits), decide=decide)  # E: - | - | BuildError | mypy+plugin: tensorclass-shape
TensorClassSequential[Digits, Prediction](trunk=h, head=stage(nn.Linear(16, 4), out=Prediction.logits), decide=decide)  # E: - | - | BuildError | mypy+plugin: tensorclass-shape
TensorClassSequential[Digits, Prediction](head=stage(nn.Linear(9, 3), Digits.image, out=Prediction.logits), decide=decide)  # E: - | - | BuildError | mypy+plugin: tensorclass-shape
TensorClassSequential[Digits, Prediction](trunk=h, head=stage(nn.Sequential(nn.ReLU(), nn.Linear(16, 8), nn.Linear(16, 3)), out=Prediction.logits), decide=decide)  # E: - | - | BuildError | mypy+plugin: tensorclass-shape
TensorClassSequential[Digits, Tensor](words=stage(nn.Embedding(9, 8), Digits.image))  # E: - | - | BuildError | mypy+plugin: tensorclass-dtype
TensorClassSequential[Digits, Tensor](words=stage(nn.Linear(8, 8), Digits.word))  # E: - | - | BuildError | mypy+plugin: tensorclass-dtype
