# pyright: strict
"""Declarations: spellings of fields, defaults and options that run, and children that narrow their parents."""

from dataclasses import KW_ONLY, InitVar
from typing import Annotated, Any, ClassVar, Generic, TypeVar

import torch
from annotated_types import Ge
from torch import Tensor
from typing_extensions import assert_type

from tensorclass import PerElement, Shared, TensorClass, field, produced, tensorclass
from tensorclass.typing import Float, Float32, Int64, Shape, Shaped

T = TypeVar("T")
SHAPE = "3 h w"
LEVEL = "values"
Image = Float32[Tensor, "3 h w"]
Plane = Annotated[Tensor, torch.float32, Shape("h w")]


# ---- a shape under a name, aliases, marks in any order
class Spelt(TensorClass):
    named: Float32[Tensor, SHAPE]
    called: Annotated[Tensor, Shape(SHAPE)]
    alias: Image
    plane: Plane
    marked: Annotated[Float[Tensor, "n"], Ge(0)]
    later: "Spelt | None" = None
    count: Annotated[int, Ge(0)] = 3


maps = torch.zeros(3, 4, 4)
assert_type(Spelt(maps, maps, maps, torch.zeros(4, 4), torch.zeros(2)).later, Spelt | None)


# ---- defaults of each kind
class Defaults(TensorClass):
    scale: ClassVar[list[int]] = [1]
    factor: InitVar[float] = 1.0
    value: Tensor | None = None
    words: tuple[str, ...] = ()
    tags: list[str] = field(default_factory=list[str])
    kept: dict[str, int] = field(default_factory=lambda: {"a": 1})
    _: KW_ONLY
    label: Int64[Tensor, ""]
    filled: Float32[Tensor, "8"] = produced("by a module")


assert_type(Defaults(label=torch.arange(4), batch_size=[4]).words, tuple[str, ...])


class Late(Defaults):
    count: int = field(kw_only=True)
    total: int = 0


assert_type(Late(label=torch.arange(4), count=3, batch_size=[4]).count, int)


# ---- children narrow: dtype, sizes behind names, dims behind `...`, None, Any
class Wide(TensorClass):
    image: Float[Tensor, "c h w"]
    points: Shaped[Tensor, "..."]
    mask: Float[Tensor, "h w"]
    note: Any


Points = Annotated[Tensor, torch.float32, Shape("n 2")]


class Narrow(Wide):
    image: Float32[Tensor, "3 2*k w"]
    points: Points
    mask: Annotated[Tensor, Shape("2*k w"), torch.float32]
    note: str


class Narrower(Narrow):
    image: Float32[Tensor, "3 2*k 8"]
    mask: Float32[Tensor, "2*k 8"]


images = torch.zeros(4, 3, 8, 8)
assert_type(Narrower(images, torch.zeros(4, 5, 2), torch.zeros(4, 8, 8), "a").image, Tensor)


# ---- generic parents, parents that are no typed classes, options of both
class Named:
    prefix: ClassVar[str] = "a"

    def prefixed(self) -> str:
        return self.prefix


class Pair(TensorClass, Generic[T]):
    left: T
    right: T


class Both(Named, Pair[Wide], nocast=True):
    name: PerElement[str] | None = None
    table: Shared[Float32[Tensor, "4"]] | None = None


wide = Wide(images, images, images[:, 0], 3)
assert_type(Both(wide, wide).prefixed(), str)


@tensorclass(tensor_only=True, removed=("old",))
class Only(TensorClass):
    value: Float32[Tensor, ""]
    inner: Narrow | None = None


assert_type(Only(torch.zeros(3)).inner, Narrow | None)


# ---- what holds itself where that may end
class Node(TensorClass):
    value: Float32[Tensor, ""]
    below: "Node | None" = None
    made: "Node" = produced()


assert_type(Node(torch.zeros(3)).below, Node | None)
