"""Writes the programs that the tests of the command line check."""

from __future__ import annotations

from pathlib import Path

HEAD = """
import torch
from torch import Tensor, nn
from tensorclass import TensorClass
from tensorclass.nn import TensorClassModule, TensorClassSequential
from tensorclass.typing import Float32, Int64

class Image(TensorClass):
    pixels: Float32[Tensor, "64"]

class Hidden(TensorClass):
    h: Float32[Tensor, "8"]
    spare: Float32[Tensor, "8"]

class Prediction(TensorClass):
    logits: Float32[Tensor, "classes"]
"""

RIGHT = (
    HEAD
    + """
encode = TensorClassModule(nn.Linear(64, 8), in_fields=Image.pixels, out_fields=Hidden.h, name="encode")
head = TensorClassModule(nn.Linear(8, 10), in_fields=Hidden.h, out_fields=Prediction.logits, name="head")
classifier = TensorClassSequential(encode, head, input=Image, output=Prediction)
alias = classifier

def make():
    return TensorClassSequential(encode, head, input=Image, output=Prediction)

def broken():
    raise KeyError("no such thing")
"""
)

WARNS = (
    RIGHT
    + """
both = TensorClassModule(lambda x: (x[..., :8], x[..., :8]), in_fields=Image.pixels,
                         out_fields=(Hidden.h, Hidden.spare), name="both")
unused = TensorClassSequential(both, head, input=Image, output=Prediction)
"""
)

WRONG = (
    HEAD
    + """
head = TensorClassModule(nn.Linear(8, 10), in_fields=Hidden.h, out_fields=Prediction.logits, name="head")
classifier = TensorClassSequential(head, input=Image, output=Prediction)
"""
)

UNFIT = (
    HEAD
    + """
head = TensorClassModule(nn.Linear(63, 10), in_fields=Image.pixels, out_fields=Prediction.logits, name="head")
classifier = TensorClassSequential(head, input=Image, output=Prediction)
"""
)


def program(folder: Path, name: str, text: str) -> str:
    """A file with a program; names must differ between tests, because modules are imported by theirs."""
    file = folder / f"{name}.py"
    file.write_text(text)
    return str(file)
