# pyright: strict
"""Layouts that name dims which the mesh or the class does not have."""

import torch
from torch import Tensor

from tensorclass import TensorClass
from tensorclass.parallel import Layout
from tensorclass.typing import Float32, Int64


class Inner(TensorClass):
    states: Float32[Tensor, "t d"]


class Tokens(TensorClass):
    ids: Int64[Tensor, "t"]
    inner: Inner


tokens = Tokens(torch.zeros(2, 3, dtype=torch.int64), Inner(torch.zeros(2, 3, 4)))
mesh = {"dp": 2, "tp": 2}

# ---- mesh dims
Layout(mesh, batch="pd")  # E: - | - | ArgumentError | mypy+plugin: tensorclass-layout
Layout({"dp": 2, "tp": 2}, batch="dp", t="cp")  # E: - | - | ArgumentError | mypy+plugin: tensorclass-layout
Layout(mesh, batch=(None, "env"))  # E: - | - | ArgumentError | mypy+plugin: tensorclass-layout
Layout(mesh, batch={"time": "ddp"})  # E: - | - | ArgumentError | mypy+plugin: tensorclass-layout
Layout(mesh, t=("dp", "cp"))  # E: - | - | ArgumentError | mypy+plugin: tensorclass-layout

# ---- dims of fields
tokens.distribute(Layout(mesh, batch="dp", z="tp"), source=0)  # E: - | - | LayoutWarning | mypy+plugin: tensorclass-layout
tokens.inner.distribute(Layout(mesh, h="tp"))  # E: - | - | LayoutWarning | mypy+plugin: tensorclass-layout
