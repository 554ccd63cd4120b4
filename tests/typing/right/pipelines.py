# pyright: strict
"""Modules and pipelines."""

from typing import Any

import torch
from torch import Tensor, nn
from typing_extensions import assert_type

from tensorclass import TensorClass, produced
from tensorclass.nn import TensorClassModule, TensorClassSequential, module
from tensorclass.typing import Float32, Int64


class Digits(TensorClass):
    image: Float32[Tensor, "64"]
    label: Int64[Tensor, ""]
    weight: Float32[Tensor, ""] | None = None


class Hidden(TensorClass):
    h: Float32[Tensor, "8"]


class Prediction(TensorClass):
    logits: Float32[Tensor, "10"]
    digit: Int64[Tensor, ""]


def largest(logits: Tensor) -> Tensor:
    return logits.argmax(-1)


# ---- one step: any callable, any fields
encode = TensorClassModule(nn.Linear(64, 8), in_fields=Digits.image, out_fields=Hidden.h)
head = TensorClassModule(nn.Linear(8, 10), in_fields=[Hidden.h], out_fields=[Prediction.logits], name="head")
choose = TensorClassModule(largest, in_fields=Prediction.logits, out_fields=Prediction.digit)

# ---- a pipeline is from its input class to its output class
pipe = TensorClassSequential(encode, head, choose, input=Digits, output=Prediction)
digits = Digits(torch.zeros(2, 64), torch.zeros(2, dtype=torch.int64))
assert_type(pipe, TensorClassSequential[Digits, Prediction])
assert_type(pipe(digits), Prediction)
assert_type(pipe(digits[:1]).digit, Tensor)
assert_type(pipe[:1], TensorClassSequential[Any, Any])
assert_type(pipe.select_subsequence(out_fields=Hidden.h), TensorClassSequential[Any, Any])
assert_type(len(pipe), int)
assert_type(pipe.graph(), str)
assert_type(pipe.graph("svg"), str)
pipe.train().to("cpu").load_state_dict(pipe.state_dict())


# ---- modules in any order, and pipelines in pipelines
listed_backwards = TensorClassSequential(choose, head, encode, input=Digits, output=Prediction, sort=True)
assert_type(listed_backwards, TensorClassSequential[Digits, Prediction])
outer = TensorClassSequential(pipe, input=Digits, output=Prediction, partial=False, skip_existing=False, name="outer")
assert_type(outer(digits), Prediction)
attend = TensorClassModule(
    nn.Linear(64, 8), in_fields={"input": Digits.image}, out_fields=Hidden.h, device="cpu", checkpoint=True
)
assert_type(outer.explain(32).peak, int | None)


# ---- over one state class, the output is the input
class State(TensorClass):
    image: Float32[Tensor, "64"]
    hidden: Float32[Tensor, "8"] = produced()


one = TensorClassSequential(
    TensorClassModule(nn.Linear(64, 8), in_fields=State.image, out_fields=State.hidden), input=State
)
assert_type(one(State(torch.zeros(2, 64))), State)


# ---- a function that takes a pipeline takes one of a wider input or a narrower output
class Labelled(Digits):
    page: Int64[Tensor, ""] | None = None


def run(model: TensorClassSequential[Labelled, TensorClass], batch: Labelled) -> TensorClass:
    return model(batch)


run(pipe, Labelled(digits.image, digits.label))


# ---- two steps: the callable is compared with the fields
@module(in_fields=Prediction.logits, out_fields=Prediction.digit)
def most_likely(logits: Tensor) -> Tensor:
    return logits.argmax(-1)


assert_type(most_likely, TensorClassModule)


@module(in_fields=(Digits.image, Digits.weight), out_fields=Hidden.h)
def weigh(image: Tensor, weight: Tensor | None) -> Tensor:
    return image[..., :8] if weight is None else image[..., :8] * weight[..., None]


@module(in_fields=(Hidden.h,), out_fields=(Prediction.logits, Prediction.digit), name="both")
def both(h: Tensor) -> tuple[Tensor, Tensor]:
    return h.repeat(1, 2)[..., :10], h.argmax(-1)


# ---- modules and lambdas fit as well
module(in_fields=Hidden.h, out_fields=Prediction.logits)(nn.Linear(8, 10))
module(in_fields=Hidden.h, out_fields=Hidden.h)(torch.relu)
