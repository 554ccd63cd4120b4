# pyright: strict
# checkers: mypy+plugin
"""Classes made of classes: their names in annotations, constructors, pipelines and other classes."""

import torch
from torch import Tensor
from typing_extensions import assert_type

from tensorclass import PerElement, TensorClass, merge, omit, partial, pick, produced, tensorclass
from tensorclass.nn import TensorClassModule, TensorClassSequential
from tensorclass.typing import Float32, Int64


@tensorclass
class Digits:
    image: Float32[Tensor, "64"]
    label: Int64[Tensor, ""]
    source: str = "scan"
    tag: PerElement[str] | None = None
    hidden: Float32[Tensor, "8"] = produced()


class Weights(TensorClass):
    weight: Float32[Tensor, ""]
    image: Float32[Tensor, "64"]


Small = pick(Digits, Digits.image, "source")
Rest = omit(Digits, "image", "source", "tag")
Both = merge(Digits, Weights)
Maybe = partial(Digits)
Smaller = omit(Small, "source")

Twice = pick(Digits, "image")
Twice = pick(Digits, "label")

image, label = torch.zeros(4, 64), torch.zeros(4, dtype=torch.int64)
digits = Digits(image, label, tag=["a", "b", "c", "d"])

# ---- constructors: defaults stay, what comes to stand behind a default is given by keyword
small = Small(image, "page", batch_size=[4], device="cpu")
Small(image=image)
Rest(label)
Both(image, label, weight=torch.ones(4))
Maybe()
Maybe(label=label)
Smaller(image)


def typed() -> None:
    assert_type(small, Small)
    assert_type(small[0].image, Tensor)
    assert_type(small.replace(image=image), Small)
    assert_type(small["source"], str)
    assert_type(Maybe(label=label).image, Tensor | None)
    assert_type(Both(image, label, weight=image[:, 0]).weight, Tensor)


# ---- names in annotations, and classes below
def first(batch: Small, more: Maybe | None = None) -> Small:
    return batch if more is None else Small(batch.image)


class Scored(Small):
    score: Float32[Tensor, ""] | None = None


first(small)
first(Scored(image, "page", torch.zeros(4)))
makers = [Small, Smaller]
print([make(image) for make in makers], isinstance(small, Small), small.pick(Smaller).image)

# ---- parts of a batch
part = digits.pick("image", "tag")
print(part.image, part.tag, digits.pick(Digits.label).label, digits.pick("image").merge(Weights(torch.ones(4), image)))
print(digits.pick(Small).source, digits.merge(Weights(torch.ones(4), image)).weight)

# ---- pipelines
encode = TensorClassModule(torch.nn.Linear(64, 8), in_fields=Small.image, out_fields=Rest.hidden)
TensorClassSequential(encode, input=Digits)
TensorClassSequential(encode, input=merge(Digits, Weights), output=pick(Digits, "hidden"))


# ---- inside a function, and with names that are not written out
def local(names: list[str]) -> Tensor:
    inner = pick(Digits, "image")
    assert_type(inner(image).image, Tensor)
    chosen = pick(Digits, *names)
    print(chosen(image, batch_size=[4]), digits.pick(*names), omit(Digits, names[0]))
    either = pick(Digits, "image")
    either = either if len(names) > 3 else pick(Digits, "label")
    piece = digits.pick("image")
    piece = digits.pick("label")
    print(either, piece)
    found: Tensor = digits.pick("image").image
    return found


local(["image"])
