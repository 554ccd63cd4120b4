"""Typed classes for the tests of files."""

from __future__ import annotations

from datetime import date
from enum import Enum
from typing import Any

from torch import Tensor

from tensorclass import PerElement, Ragged, Shared, TensorClass, TensorDict
from tensorclass.typing import Float32, Int64


class Color(Enum):
    """What JSON spells as text."""

    RED = "red"
    BLUE = "blue"


class Digits(TensorClass):
    """Plain tensors."""

    image: Float32[Tensor, "1 8 8"]
    label: Int64[Tensor, ""]


class Everything(TensorClass):
    """One field of each kind."""

    image: Float32[Tensor, "h w"]
    color: Color
    day: date
    tags: PerElement[str]
    colors: PerElement[Color]
    scale: Shared[Tensor]
    tokens: Ragged[Tensor, "t"]
    digits: Digits
    rest: TensorDict
    anything: Any
    numbers: list[int]
    mask: Float32[Tensor, ""] | None = None
    note: str | None = "default"
