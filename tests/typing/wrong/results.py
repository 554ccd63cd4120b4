# pyright: strict
# checkers: mypy+plugin
"""Tensors that functions return, copies of instances, parts of tensors, dicts that are unpacked into a constructor"""

from typing import TypeVar

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

    def refresh(self) -> Self:
        self.corners = self.measure(self.corners)  # E: - | - | - | mypy+plugin: tensorclass-shape
        return self


def halved(x: Tensor) -> Tensor:
    y = x / 2
    return y[..., :2]


def best(x: Float32[Tensor, "b n"]) -> Tensor:
    if len(x) > 3:
        return x.argmax(-1)
    return torch.zeros(len(x), dtype=torch.int64)


def boxes() -> Box:
    return Box(torch.rand(3, 4), torch.rand(3), torch.zeros(3, dtype=torch.int64))


def weighted(box: T) -> T:
    copy = box.clone()
    copy.area = box.corners * 2  # E: - | - | - | mypy+plugin: tensorclass-shape
    return copy


class Photo(TensorClass):
    x: Float32[Tensor, "3 8 8"]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(4, 12, batch_first=True)
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(16, 4)

    def forward(self, box: Box) -> Float32[Tensor, "b 4"]:
        out, (h, _) = self.rnn(box.corners[..., None, :])
        Box(corners=out, area=h, kind=box.kind, batch_size=box.batch_size)  # E: - | - | - | mypy+plugin: tensorclass-shape
        return box.corners

    def logits(self, photo: Photo) -> Tensor:
        x: Tensor = self.head(self.body(photo.x))  # E: - | - | - | mypy+plugin: tensorclass-shape
        return x


b, net = boxes(), Net()
b.corners = halved(b.corners)  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
b.kind = halved(b.corners)[..., 0]  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
b.area = best(b.corners)  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
b.corners = Box.measure(b.corners)  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
b.kind = net(b)  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
first, second = b.corners.chunk(2, -1)
b.corners = first  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
left, right = torch.split(b.corners, 2, -1)
b.corners = right  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
b.corners = b.corners.unbind(-1)[0]  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
for one in DataLoader(Box.zeros(3), batch_size=2):
    x = one.corners.sum(-1, keepdim=True)
    Box(one.corners, x, one.kind, batch_size=[2])  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
Box(b.corners, b.corners, b.kind, batch_size=b.batch_size)  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
Box(**{"corners": b.corners, "area": b.area, "kind": b.area})  # pyright: ignore[reportArgumentType]  # noqa: PIE804  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
Box(**{"corners": b.corners, "area": b.area, "knd": b.kind})  # pyright: ignore[reportArgumentType]  # noqa: PIE804  # E: - | - | TypeError | mypy+plugin: tensorclass-key
lacking = {"corners": b.corners, "area": b.area}
Box(**lacking)  # pyright: ignore[reportArgumentType]  # E: - | - | TypeError | mypy+plugin: tensorclass-key
