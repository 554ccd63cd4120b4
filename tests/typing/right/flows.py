# pyright: strict
"""Typed modules and pipelines that fit, and those about which nothing is certain."""

import functools
import random
from collections.abc import Callable

import torch
from torch import Tensor, nn

from tensorclass import TensorClass, produced
from tensorclass.nn import TensorClassModule, TensorClassSequential, module
from tensorclass.typing import Float, Float32, Int64


class Digits(TensorClass):
    image: Float32[Tensor, "64"]
    label: Int64[Tensor, ""]
    weight: Float32[Tensor, ""] | None = None


class Hidden(TensorClass):
    h: Float32[Tensor, "8"]
    more: Float32[Tensor, "n"] | None = None


class Wide(TensorClass):
    h: Float[Tensor, "size"]


class Prediction(TensorClass):
    logits: Float32[Tensor, "10"]
    digit: Int64[Tensor, ""]
    note: str = ""


class State(TensorClass):
    image: Float32[Tensor, "64"]
    hidden: Float32[Tensor, "8"] = produced()
    logits: Float32[Tensor, "10"] = produced()


class Outer(TensorClass):
    inputs: Digits


def column(weight: Tensor) -> Tensor:
    return weight[..., None]


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 8)

    def forward(self, image: Tensor, weight: Tensor | None = None) -> Tensor:
        hidden: Tensor = self.linear(image)
        return hidden if weight is None else hidden * weight[..., None]


class Scorer:
    def __call__(self, h: Tensor) -> Tensor:
        return torch.cat([h, h[..., :2]], -1)


def widen(h: Tensor) -> Tensor:
    return torch.cat([h, h[..., :2]], -1)


def both(h: Tensor) -> tuple[Tensor, Tensor]:
    logits = widen(h)
    return logits, logits.argmax(-1)


def as_dict(h: Tensor) -> dict[str, Tensor]:
    logits = widen(h)
    return {"digit": logits.argmax(-1), "logits": logits}


def seven(a: Tensor, b: Tensor, c: Tensor, d: Tensor, e: Tensor, f: Tensor, note: str) -> Tensor:
    return (a + b + c + d + e + f) * len(note)


def largest(logits: Tensor) -> Tensor:
    return logits.argmax(-1)


# ---- every kind of callable
encode = TensorClassModule(nn.Linear(64, 8), in_fields=Digits.image, out_fields=Hidden.h)
block = TensorClassModule(Block(), in_fields=(Digits.image, Digits.weight), out_fields=Hidden.h)
head = TensorClassModule(Scorer(), in_fields=Hidden.h, out_fields=Prediction.logits)
choose = TensorClassModule(largest, in_fields=[Prediction.logits], out_fields=[Prediction.digit])
two = TensorClassModule(both, in_fields=Hidden.h, out_fields=(Prediction.logits, Prediction.digit))
one = TensorClassModule(both, in_fields=Hidden.h, out_fields=(None, Prediction.digit))
named = TensorClassModule(as_dict, in_fields=Hidden.h, out_fields=(Prediction.logits, Prediction.digit))
masked = TensorClassModule(torch.where, in_fields=(Digits.weight, Digits.image, Digits.image), out_fields=Hidden.h)
bound = TensorClassModule(Block().forward, in_fields=(Digits.image,), out_fields=Hidden.h, checkpoint=True)
partly = TensorClassModule(functools.partial(torch.add, 1), in_fields=Hidden.h, out_fields=Hidden.h, update=True)
inline = TensorClassModule(lambda h, more: h + more, in_fields=(Hidden.h, Hidden.more), out_fields=Hidden.h)
wide = TensorClassModule(
    seven, out_fields=Hidden.h,
    in_fields=(Hidden.h, Hidden.h, Hidden.h, Hidden.h, Hidden.h, Hidden.h, Prediction.note),
)  # fmt: skip
free = TensorClassModule(torch.relu, in_fields=Hidden.h, out_fields=Hidden.h, update=True, name="free")
stacked = TensorClassModule(
    nn.Sequential(nn.Linear(64, 8), nn.ReLU()), in_fields=Digits.image, out_fields=Hidden.h, name="stacked"
)
TensorClassSequential(encode, head, choose, input=Digits, output=Prediction)
TensorClassSequential(block, two, input=Digits, output=Prediction)
TensorClassSequential(stacked, named, input=Digits, output=Prediction)

# ---- references and modules through names, lists, tuples and functions
source, targets = Digits.image, (Prediction.logits, Prediction.digit)
fields = [Hidden.h]
aliased = TensorClassModule(nn.Linear(64, 8), in_fields=source, out_fields=fields)
tupled = TensorClassModule(both, in_fields=fields, out_fields=targets)
stages = [aliased, tupled]
TensorClassSequential(*stages, input=Digits, output=Prediction)


def image() -> Tensor:
    return Digits.image


def linear(start: Tensor, end: Tensor, inputs: int = 64, outputs: int = 8) -> TensorClassModule:
    return TensorClassModule(nn.Linear(inputs, outputs), in_fields=start, out_fields=end)


TensorClassSequential(linear(image(), Hidden.h), two, input=Digits, output=Prediction)
TensorClassSequential(linear(Digits.image, Hidden.h), linear(Hidden.h, Prediction.logits, 8, 10), choose, input=Digits, output=Prediction)  # fmt: skip


# ---- the two-step form
@module(in_fields=Hidden.h, out_fields=Prediction.logits)
def score(h: Tensor) -> Tensor:
    return widen(h)


TensorClassSequential(encode, score, choose, input=Digits, output=Prediction)

# ---- fields of other classes at the same path, wider or narrower
TensorClassSequential(
    encode, TensorClassModule(widen, in_fields=Wide.h, out_fields=Prediction.logits), choose, input=Digits, output=Prediction
)  # fmt: skip
first = TensorClassModule(nn.Linear(64, 8), in_fields=State.image, out_fields=State.hidden)
second = TensorClassModule(nn.Linear(8, 10), in_fields=State.hidden, out_fields=State.logits)
TensorClassSequential(first, second, input=State)
TensorClassSequential(first, second, input=Digits, output=State)

# ---- nested fields, optional outputs, overwriting on purpose
TensorClassSequential(
    TensorClassModule(nn.Linear(64, 8), in_fields=Outer.inputs.image, out_fields=Hidden.h), input=Outer, output=Hidden
)
TensorClassSequential(
    encode, TensorClassModule(torch.relu, in_fields=Hidden.h, out_fields=Hidden.h, update=True),
    input=Digits, output=Hidden,
)  # fmt: skip

# ---- modules that a partial pipeline runs only where an optional field is there
TensorClassModule(column, in_fields=Digits.weight, out_fields=Hidden.more)

# ---- what is not known is left to the build check

some = encode if random.random() < 2 else block
TensorClassSequential(some, two, input=Digits, output=Prediction)
late = encode
late = block
TensorClassSequential(late, two, input=Digits, output=Prediction)
parts: list[TensorClassModule] = []
parts.append(encode)
parts += [two]
TensorClassSequential(*parts, input=Digits, output=Prediction)


def build(modules: list[TensorClassModule]) -> TensorClassSequential[Digits, Prediction]:
    return TensorClassSequential(*modules, input=Digits, output=Prediction)


def wrap(function: Callable[[Tensor], Tensor], field: Tensor) -> TensorClassModule:
    return TensorClassModule(function, in_fields=field, out_fields=Hidden.h)


build([encode, two])
TensorClassSequential(wrap(nn.Linear(64, 8), Digits.image), two, input=Digits, output=Prediction)
