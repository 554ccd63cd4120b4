# pyright: strict
# checkers: mypy+plugin
"""Tensors that functions return and that fit, copies of instances, and dicts that are unpacked into a constructor"""

from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader
from typing_extensions import Self

from tensorclass import TensorClass
from tensorclass.typing import Float32, Int64

T = TypeVar("T", bound="Box")


class Box(TensorClass):
    corners: Float32[Tensor, "4"]
    area: Float32[Tensor, ""]
    kind: Int64[Tensor, ""]

    @staticmethod
    def measure(c: Float32[Tensor, "*b 4"]) -> Float32[Tensor, "*b"]:
        return (c[..., 2] - c[..., 0]) * (c[..., 3] - c[..., 1])

    def scaled(self, x: Tensor) -> Tensor:
        return x

    def refresh(self) -> Self:
        self.area = self.measure(self.corners)
        self.corners = self.scaled(self.kind)[..., None].expand(-1, 4).float()
        return self


class Rounded(Box):
    def scaled(self, x: Tensor) -> Tensor:
        return x.round()


def halved(x: Tensor) -> Tensor:
    return x / 2


def either(x: Tensor, whole: bool) -> Tensor:
    if whole:
        return x.long()
    return x


def again(x: Tensor, n: int) -> Tensor:
    return x if n == 0 else again(x[..., :-1], n - 1)


def half_of(x: Float32[Tensor, "*b 2*n"]) -> Float32[Tensor, "*b n"]:
    return x[..., ::2]


def boxes() -> Box:
    return Box(torch.rand(3, 4), torch.rand(3), torch.zeros(3, dtype=torch.int64))


def weighted(box: T) -> T:
    copy = box.clone()
    copy.area = (box.corners * 2).sum(-1)
    return copy


def made(**values: Any) -> Box:
    return Box(**values)


b = boxes()
weighted(b).refresh()
Rounded.zeros(3).refresh()
b.corners = halved(b.corners)
b.kind = either(b.area, True)
b.area = either(b.area, False)
b.corners = again(b.corners, 0)
b.area = half_of(half_of(b.corners)).squeeze(-1)
first, second = b.corners.chunk(2, -1)
b.corners = torch.cat([second, first], -1)
b.area = b.corners.unbind(-1)[0]
left, right = torch.split(b.corners, 2, -1)
b.corners = torch.cat([right, left], -1)
for one in DataLoader(boxes(), batch_size=2):
    Box(one.corners, one.corners.sum(-1), one.kind, batch_size=one.batch_size)
    Box(one.corners, one.corners.sum(-1), one.kind)
Box(b.corners, b.area, b.kind, batch_size=b.batch_size)
values = {"corners": torch.zeros(3, 4), "area": torch.zeros(3), "kind": torch.zeros(3, dtype=torch.int64)}
Box(**values)  # pyright: ignore[reportArgumentType]
Box(**values, batch_size=[3], device="cpu")  # pyright: ignore[reportArgumentType]
rows = {"corners": b.corners, "area": b.area}
Box(**rows, kind=b.kind)  # pyright: ignore[reportArgumentType]
called = dict(corners=b.corners, area=b.area)  # noqa: C408
Box(**called, kind=b.kind)  # pyright: ignore[reportArgumentType]
made(**values)
some: dict[str, Tensor] = {}
some.update(values)
Box(**some)  # pyright: ignore[reportArgumentType]
images = torch.rand(2, 3, 8, 8)
body = nn.Sequential(nn.Conv2d(3, 8, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4))
Box(corners=body(images), area=torch.zeros(2), kind=torch.zeros(2).long())
