# pyright: strict
"""Constructors: fields, batch size, device and dim names."""

import dataclasses
from dataclasses import KW_ONLY, InitVar
from typing import ClassVar

import torch
from torch import Tensor
from typing_extensions import assert_type

from tensorclass import TensorClass, TensorDict, field, produced
from tensorclass.typing import Float32, Int64


class Digits(TensorClass):
    image: Float32[Tensor, "1 8 8"]
    label: Int64[Tensor, ""]
    weight: Float32[Tensor, ""] | None = None
    source: str = "scan"


images, labels = torch.zeros(4, 1, 8, 8), torch.zeros(4, dtype=torch.int64)

# ---- by position, by keyword, and both
assert_type(Digits(images, labels), Digits)
assert_type(Digits(image=images, label=labels), Digits)
assert_type(Digits(images, label=labels, source="pen"), Digits)

# ---- optional fields may be None or left out
Digits(images, labels, None)
Digits(images, labels, torch.zeros(4))
Digits(images, labels, weight=None, source="pen")

# ---- the batch size: an int, a list, a tuple, a torch.Size, or None to infer it
Digits(images, labels, batch_size=4)
Digits(images, labels, batch_size=[4])
Digits(images, labels, batch_size=(4,))
Digits(images, labels, batch_size=images.shape[:1])
Digits(images, labels, batch_size=None)

# ---- the device: a name known or unknown to a checker, a torch.device, or None
name = "cuda" if len(images) > 100 else "cpu"
Digits(images, labels, device="cpu")
Digits(images, labels, device=name)
Digits(images, labels, device=torch.device("cpu"))
Digits(images, labels, device=images.device)
Digits(images, labels, device=None)

# ---- dim names
Digits(images, labels, names=["time"])
Digits(images, labels, names=(None,))
Digits(images, labels, batch_size=[4], device="cpu", names=None)


# ---- keyword-only fields, factories, and options of a field
class Note(TensorClass):
    text: Int64[Tensor, "words"] = field(doc="token ids")
    _: KW_ONLY
    tags: dict[str, str] = field(default_factory=dict[str, str])
    score: Float32[Tensor, ""] | None = field(default=None, join="fill", fill=0.5)
    language: str = field(default="en", kw_only=True)


words = torch.zeros(2, 3, dtype=torch.int64)
assert_type(Note(words, tags={"a": "b"}, language="fr"), Note)
assert_type(Note(text=words).tags, dict[str, str])


# ---- produced fields are no constructor arguments
class State(TensorClass):
    image: Float32[Tensor, "64"]
    hidden: Float32[Tensor, "8"] = produced()
    logits: Float32[Tensor, "10"] = produced("what the head sees")
    label: Int64[Tensor, ""] | None = None


state = State(torch.zeros(2, 64), torch.zeros(2, dtype=torch.int64))
state.hidden = torch.zeros(2, 8)
assert_type(state.hidden, Tensor)


# ---- nested classes and untyped corners
class Pair(TensorClass):
    left: Digits
    right: Digits | None = None
    extra: TensorDict | None = None


digits = Digits(images, labels)
pair = Pair(digits, extra=TensorDict(a=images, batch_size=[4]), batch_size=[4])
assert_type(pair.left, Digits)
assert_type(pair.left.image, Tensor)
assert_type(pair.right, Digits | None)


# ---- a child adds fields behind those of its parent
class Scan(Digits):
    page: Int64[Tensor, ""] | None = None


assert_type(Scan(images, labels, None, "scan", labels).page, Tensor | None)


# ---- class variables are no fields, and classes have methods and properties
class Pixels(TensorClass):
    rows: ClassVar[int] = 8
    image: Float32[Tensor, "8 8"]

    @property
    def brightness(self) -> Tensor:
        return self.image.mean((-2, -1))

    def inverted(self) -> "Pixels":
        return self.replace(image=1 - self.image)

    @classmethod
    def blank(cls, count: int) -> "Pixels":
        return cls(torch.zeros(count, cls.rows, cls.rows), batch_size=count)


assert_type(Pixels.blank(3).inverted().brightness, Tensor)


# ---- arguments that only `__post_init__` sees
class Scaled(TensorClass):
    image: Float32[Tensor, "8 8"]
    factor: InitVar[float] = 1.0

    def __post_init__(self, factor: float) -> None:
        self.image = self.image * factor


assert_type(Scaled(torch.ones(2, 8, 8), 0.5), Scaled)

# ---- dataclasses' own functions
assert_type(dataclasses.replace(digits, source="pen"), Digits)
assert [item.name for item in dataclasses.fields(digits)] == ["image", "label", "weight", "source"]
