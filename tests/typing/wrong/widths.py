# pyright: strict
"""Layers of another width than the value that they are given"""

import torch
from torch import Tensor, nn

from tensorclass import TensorClass
from tensorclass.nn import TensorClassSequential, stage
from tensorclass.typing import Float32, Int64


class Row(TensorClass):
    emb: Float32[Tensor, "16"]
    steps: Float32[Tensor, "5 16"]
    image: Float32[Tensor, "8 6 6"]
    kind: Int64[Tensor, "5"]


class Out(TensorClass):
    emb: Float32[Tensor, "16"]
    image: Float32[Tensor, "8 6 6"]
    steps: Float32[Tensor, "5 16"]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 16)
        self.norm = nn.LayerNorm(12)
        self.rms = nn.RMSNorm([5, 12])
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.batch = nn.BatchNorm2d(4)
        self.attend = nn.MultiheadAttention(32, 4, batch_first=True)
        self.gru = nn.GRU(12, 16, batch_first=True)
        self.wide = nn.GRU(16, 12, batch_first=True)

        self.layers = nn.ModuleList([nn.Linear(16, 8), nn.Linear(16, 8)])
        self.right = nn.ModuleList([nn.Linear(16, 8), nn.Linear(8, 16)])

    def loops(self, row: Row) -> Tensor:
        x = row.emb
        for layer in self.right:
            x = torch.relu(layer(x))
        for layer in self.layers:
            x = torch.relu(layer(x))  # E: - | - | - | mypy+plugin: tensorclass-shape
        return x

    def call(self, name: str, row: Row) -> None:
        if name == "linear":
            self.linear(row.emb)  # E: - | - | - | mypy+plugin: tensorclass-shape
        if name == "norm":
            self.norm(row.emb)  # E: - | - | - | mypy+plugin: tensorclass-shape
        if name == "rms":
            self.rms(row.steps)  # E: - | - | - | mypy+plugin: tensorclass-shape
        if name == "conv":
            self.conv(row.image)  # E: - | - | - | mypy+plugin: tensorclass-shape
        if name == "batch":
            self.batch(row.image)  # E: - | - | - | mypy+plugin: tensorclass-shape
        if name == "attend":
            self.attend(row.steps, row.steps, row.steps)  # E: - | - | - | mypy+plugin: tensorclass-shape
        if name == "gru":
            self.gru(row.steps)  # E: - | - | - | mypy+plugin: tensorclass-shape
        if name == "linear of ids":
            self.linear(row.kind)  # E: - | - | - | mypy+plugin: tensorclass-dtype
        if name == "unpacked":
            made, _ = self.wide(row.steps)
            row.steps = made  # E: - | - | - | mypy+plugin: tensorclass-shape


image = stage(nn.GroupNorm(2, 8), Row.image, out=Out.image)
steps = stage(nn.BatchNorm1d(5), Row.steps, out=Out.steps)
emb = stage(nn.LayerNorm(16), Row.emb, out=Out.emb)
TensorClassSequential[Row, Out](
    stage(nn.LayerNorm(8), Row.emb, out=Out.emb), image, steps  # E: - | - | BuildError | mypy+plugin: tensorclass-shape
)
TensorClassSequential[Row, Out](
    stage(nn.GroupNorm(2, 6), Row.image, out=Out.image), emb, steps  # E: - | - | BuildError | mypy+plugin: tensorclass-shape
)
TensorClassSequential[Row, Out](
    stage(nn.BatchNorm1d(4), Row.steps, out=Out.steps), emb, image  # E: - | - | BuildError | mypy+plugin: tensorclass-shape
)
