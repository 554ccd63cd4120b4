# pyright: strict, reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
"""Typed modules: what in_fields and out_fields name, and the callable between them."""

import torch
from torch import Tensor, nn

from tensorclass import TensorClass
from tensorclass.nn import TensorClassModule, module
from tensorclass.typing import Float32, Int64


class Digits(TensorClass):
    image: Float32[Tensor, "64"]
    label: Int64[Tensor, ""]
    source: str = "scan"


class Hidden(TensorClass):
    h: Float32[Tensor, "8"]
    extra: Float32[Tensor, "8"] | None = None


class Block(nn.Module):
    def forward(self, image: Tensor, label: Tensor) -> Tensor:
        return image[..., :8] + label[..., None]


def one(image: Tensor) -> Tensor:
    return image[..., :8]


def two(image: Tensor, label: Tensor) -> Tensor:
    return image[..., :8] + label[..., None]


def text(source: str) -> Tensor:
    return torch.zeros(len(source), 8)


def count(image: Tensor) -> int:
    return len(image)


def both(image: Tensor) -> tuple[Tensor, Tensor]:
    return image[..., :8], image[..., 8:16]


def named(*, image: Tensor) -> Tensor:
    return image


digits = Digits(torch.zeros(2, 64), torch.zeros(2, dtype=torch.int64))
x = torch.zeros(2, 64)

# ---- what is no field
TensorClassModule(one, in_fields="image", out_fields=Hidden.h)  # E: arg-type | reportArgumentType, reportCallIssue | BuildError | mypy+plugin: arg-type, tensorclass-reference
TensorClassModule(one, in_fields=Digits.image, out_fields="h")  # E: - | - | BuildError | mypy+plugin: tensorclass-reference
TensorClassModule(one, in_fields=["image"], out_fields=Hidden.h)  # E: - | - | BuildError | mypy+plugin: tensorclass-reference
TensorClassModule(one, in_fields=digits.image, out_fields=Hidden.h)  # E: - | - | BuildError | mypy+plugin: tensorclass-reference
TensorClassModule(one, in_fields=x, out_fields=Hidden.h)  # E: - | - | BuildError | mypy+plugin: tensorclass-reference
TensorClassModule(one, in_fields=torch.zeros(3), out_fields=Hidden.h)  # E: - | - | BuildError | mypy+plugin: tensorclass-reference
TensorClassModule(one, in_fields=Digits, out_fields=Hidden.h)  # E: arg-type | reportArgumentType, reportCallIssue | BuildError | mypy+plugin: arg-type, tensorclass-reference
TensorClassModule(one, in_fields=Digits.image, out_fields=None)  # E: - | - | BuildError | mypy+plugin: tensorclass-reference
TensorClassModule(one, in_fields=[None], out_fields=Hidden.h)  # E: - | - | BuildError | mypy+plugin: tensorclass-reference
module(in_fields="image", out_fields=Hidden.h)  # E: - | - | BuildError | mypy+plugin: tensorclass-reference
module(in_fields=Digits.image, out_fields=(Hidden.h, "extra"))  # E: - | - | BuildError | mypy+plugin: arg-type, tensorclass-reference

# ---- the number of parameters; found at run time when the pipeline is built
TensorClassModule(two, in_fields=Digits.image, out_fields=Hidden.h)  # E: arg-type | reportArgumentType, reportCallIssue | - | mypy+plugin: arg-type, tensorclass-callable
TensorClassModule(one, in_fields=(Digits.image, Digits.label), out_fields=Hidden.h)  # E: arg-type | reportArgumentType, reportCallIssue | - | mypy+plugin: arg-type, tensorclass-callable
TensorClassModule(nn.Linear(64, 8), in_fields=[Digits.image, Digits.label], out_fields=Hidden.h)  # E: - | - | - | mypy+plugin: tensorclass-callable
TensorClassModule(Block(), in_fields=Digits.image, out_fields=Hidden.h)  # E: - | - | - | mypy+plugin: tensorclass-callable
TensorClassModule(lambda a, b: a, in_fields=Digits.image, out_fields=Hidden.h)  # E: arg-type, misc | reportArgumentType, reportCallIssue | - | mypy+plugin: arg-type, misc, tensorclass-callable
TensorClassModule(named, in_fields=Digits.image, out_fields=Hidden.h)  # E: arg-type | reportArgumentType, reportCallIssue | - | mypy+plugin: arg-type, tensorclass-callable

# ---- the types of the parameters
TensorClassModule(text, in_fields=Digits.image, out_fields=Hidden.h)  # E: arg-type | reportArgumentType, reportCallIssue | - | mypy+plugin: arg-type, tensorclass-callable
TensorClassModule(one, in_fields=Digits.source, out_fields=Hidden.h)  # E: arg-type | reportArgumentType, reportCallIssue | - | mypy+plugin: arg-type, tensorclass-callable
TensorClassModule(Block(), in_fields=(Digits.image, Digits.source), out_fields=Hidden.h)  # E: - | - | - | mypy+plugin: arg-type, tensorclass-callable

# ---- what is returned
TensorClassModule(count, in_fields=Digits.image, out_fields=Hidden.h)  # E: - | - | - | mypy+plugin: tensorclass-callable
TensorClassModule(both, in_fields=Digits.image, out_fields=Hidden.h)  # E: - | - | - | mypy+plugin: tensorclass-callable
TensorClassModule(one, in_fields=Digits.image, out_fields=(Hidden.h, Hidden.extra))  # E: - | - | - | mypy+plugin: tensorclass-callable
TensorClassModule(both, in_fields=Digits.image, out_fields=(Hidden.h, Digits.source))  # E: - | - | - | mypy+plugin: tensorclass-callable

# ---- sizes of a linear layer
TensorClassModule(nn.Linear(32, 8), in_fields=Digits.image, out_fields=Hidden.h)  # E: - | - | - | mypy+plugin: tensorclass-shape
TensorClassModule(nn.Linear(64, 10), in_fields=Digits.image, out_fields=Hidden.h)  # E: - | - | - | mypy+plugin: tensorclass-shape
