# pyright: strict
"""Layouts whose names the mesh and the classes have, or that a checker can't know."""

import torch
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from typing_extensions import assert_type

from tensorclass import TensorClass
from tensorclass.parallel import Layout
from tensorclass.typing import Float32, Int64


class Inner(TensorClass):
    states: Float32[Tensor, "t d"]
    flat: Float32[Tensor, "h*w"]


class Tokens(TensorClass):
    ids: Int64[Tensor, "t"]
    inner: Inner | None = None


def spread(tokens: Tokens, names: tuple[str, ...]) -> Tokens:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    shared = Layout(mesh, batch="dp", t="tp", v="tp")  # for another class too
    assert_type(tokens.distribute(shared, source="everywhere"), Tokens)
    tokens.distribute(Layout(mesh, batch="dp", d="tp"), source=0)
    tokens.distribute(Layout(mesh, **{"h*w": "tp"}), source=0)
    tokens.distribute(Layout(init_device_mesh("cpu", (2,), mesh_dim_names=names), t="cp"))
    return tokens.distribute(Layout(mesh["tp"], batch="tp"), source="rows")


Layout({"dp": 2, "cp": 2}, batch=("dp", None), t="cp")
Layout({"dp": 2, "cp": 2}, batch={"time": "dp"}, t=("dp", "cp"))
print(Layout({"dp": 2, "cp": 2}, batch="dp", t="cp").explain(Tokens))
Tokens(torch.zeros(2, 3, dtype=torch.int64))
