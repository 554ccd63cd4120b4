# pyright: strict
"""Pipelines of pipelines, class-to-class modules, chains and parts."""

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


def mix(h: Tensor, wide: Tensor) -> Tensor:
    return h + wide[..., :8]


class Encoder(TensorClassModuleBase[Digits, Hidden]):
    def forward(self, x: Digits, /) -> Hidden:
        return Hidden(x.image[..., :8], batch_size=x.batch_size)


class Second(Encoder):
    pass


class Head(TensorClassModuleBase[Hidden, Prediction]):
    def forward(self, x: Hidden, /) -> Prediction:
        logits = torch.cat([x.h, x.h[..., :2]], -1)
        return Prediction(logits, largest(logits), batch_size=x.batch_size)


class Free(TensorClassModuleBase[TensorClass, TensorClass]):
    def forward(self, x: TensorClass, /) -> TensorClass:
        return x


widen = TensorClassModule(nn.Linear(64, 16), in_fields=Digits.image, out_fields=Wide.wide)
narrow = TensorClassModule(nn.Linear(16, 8), in_fields=Wide.wide, out_fields=Hidden.h)
score = TensorClassModule(nn.Linear(8, 10), in_fields=Hidden.h, out_fields=Prediction.logits)
choose = TensorClassModule(largest, in_fields=Prediction.logits, out_fields=Prediction.digit)

# ---- a pipeline stands for its modules; what it does not return is its own
encode = TensorClassSequential(widen, narrow, input=Digits, output=Hidden, name="encode")
head = TensorClassSequential(score, choose, input=Hidden, output=Prediction, name="head")
whole = TensorClassSequential(encode, head, input=Digits, output=Prediction)
TensorClassSequential(whole, input=Digits, output=Prediction)
TensorClassSequential(
    encode, TensorClassModule(nn.Linear(64, 16), in_fields=Digits.image, out_fields=Wide.wide, name="again"),
    TensorClassModule(mix, in_fields=(Hidden.h, Wide.wide), out_fields=Hidden.h, update=True), head,
    input=Digits, output=Prediction,
)  # fmt: skip

# ---- class-to-class modules read and write every field of their classes
TensorClassSequential(Encoder(), Head(), input=Digits, output=Prediction)
TensorClassSequential(Second(), score, choose, input=Digits, output=Prediction)
TensorClassSequential(widen, narrow, Head(), input=Digits, output=Prediction)
TensorClassSequential(Encoder(), Encoder(), head, input=Digits, output=Prediction)
TensorClassSequential(Encoder() >> Head(), input=Digits, output=Prediction)
TensorClassSequential(encode >> Head(), input=Digits, output=Prediction)

# ---- parts
hidden = whole.select_subsequence(out_fields=Hidden.h)
part = head.select_subsequence(out_fields=[Prediction.logits])
TensorClassSequential(encode, part, choose, input=Digits, output=Prediction)
TensorClassSequential(hidden, head, input=Digits, output=Prediction)
TensorClassSequential(encode, head[:1], choose, input=Digits, output=Prediction)


# ---- a pipeline that comes to return less
less = TensorClassSequential(score, choose, input=Hidden, output=Prediction, name="less")
less.select_out_fields(Prediction.logits)
TensorClassSequential(encode, less, choose, input=Digits, output=Prediction)


# ---- what is not known is left to the build check
def build(
    first: TensorClassModuleBase[Digits, Hidden], last: TensorClassSequential[Hidden, Prediction]
) -> TensorClassSequential[Digits, Prediction]:
    return TensorClassSequential(first, last, input=Digits, output=Prediction)


build(Encoder(), head)
