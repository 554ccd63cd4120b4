"""Batches of scanned digits."""

from __future__ import annotations

import sys
from dataclasses import KW_ONLY, InitVar
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar, overload

from torch import Tensor, nn

import tensorclass as tc
from tensorclass import FrozenTensorClass, PerElement, Shared, TensorClass, field, produced
from tensorclass.typing import Float32, Int64

if TYPE_CHECKING:
    from collections.abc import Iterator

if sys.version_info >= (3, 11):
    LEVEL = 2
else:
    LEVEL = 1

T = TypeVar("T")
SIZE: int = 8  # pixels
HALF = SIZE // 2
for number in range(SIZE):
    last = number
print(SIZE)


@tc.tensorclass
class Inputs:
    image: Float32[Tensor, "8 8"]


@tc.tensorclass(autocast=True)
class Digits:
    """Digits with what is known about them.

    Written by hand.
    """

    rows: ClassVar[int] = SIZE
    inputs: Inputs
    label: Int64[Tensor, ""]
    weight: Float32[Tensor, ""] | None = None
    scale: InitVar[float] = 1.0
    _: KW_ONLY
    name: PerElement[str] | None = None
    table: Shared[Float32[Tensor, "10 4"]] | None = None
    tags: dict[str, str] = field(default_factory=dict)
    hidden: Float32[Tensor, "8"] = produced("what the encoder sees")

    @property
    def bright(self) -> Tensor:
        """The mean of each image."""
        return self.inputs.image.mean((-1, -2))

    @classmethod
    def blank(cls, count: int = 3, *, label: int = SIZE) -> Digits:
        raise NotImplementedError

    @overload
    def part(self, index: int) -> Digits: ...
    @overload
    def part(self, index: str) -> Tensor: ...
    def part(self, index: int | str) -> Digits | Tensor:
        return self[index]

    class Nested(TensorClass):
        x: Tensor


@tc.tensorclass
class Page(Digits):
    number: int = 0


class Still(FrozenTensorClass):
    value: Float32[Tensor, ""]


class Pair(TensorClass["shadow"], Generic[T]):
    left: T
    values: T


class Net(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.linear = nn.Linear(size, 8)
        self.count: int = 0

    def forward(self, image: Tensor) -> Tensor:
        hidden: Tensor = self.linear(image)
        return hidden


def load(path: str, /, *args: int, flag: bool = True) -> Iterator[Digits]:
    """Read digits."""
    raise NotImplementedError


def untyped(x, y=None):
    """Whatever comes."""
    return x


def main() -> None:
    """Print."""
    print(load("digits"))


if __name__ == "__main__":
    main()
