"""One program over data, sequence and tensor parallel ranks, as a user writes it: a mesh of 2 x 2 x 2."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from tensorclass import TensorClass, TensorClassDataset
from tensorclass.nn import TensorClassModule, TensorClassSequential
from tensorclass.parallel import Layout
from tensorclass.typing import Bool, Float32, Int64
from tests.parallel._ranks import run


class Tokens(TensorClass):
    ids: Int64[Tensor, "t"]
    mask: Bool[Tensor, "t"]
    weight: Float32[Tensor, ""]


class Scores(TensorClass):
    scores: Float32[Tensor, "t 16"]


def tokens(rows: int, t: int = 8) -> Tokens:
    """Rows of different ids."""
    ids = torch.arange(rows * t).view(rows, t) % 32
    return Tokens(ids=ids, mask=ids % 5 > 0, weight=torch.arange(rows).float())


def network() -> nn.Module:
    """The same parameters in each call."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Embedding(32, 16), nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16))


def _program(rank: int, data: Any) -> Any:
    mesh = init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("dp", "cp", "tp"))
    layout = Layout(mesh, batch="dp", t="cp")
    whole = tokens(6)
    part = whole.distribute(layout, source="everywhere")
    assert type(part) is Tokens
    assert part.ids.placements == (Shard(0), Shard(1), Replicate())
    assert part.weight.placements == (Shard(0), Replicate(), Replicate())
    dp, cp, _ = mesh.get_coordinate()
    here = part.local()
    assert torch.equal(here.ids, whole.ids[3 * dp : 3 * dp + 3, 4 * cp : 4 * cp + 4])
    assert bool((part.whole() == whole).all())
    other = part.distribute(Layout(mesh, batch="tp"))
    assert other.ids.placements == (Replicate(), Replicate(), Shard(0))
    assert bool((other.whole() == whole).all())

    seen = [batch.weight.int().tolist() for batch in data.loader(4, layout=layout)]
    first = next(iter(data.loader(4, drop_last=True, layout=layout))).distribute(layout, source="rows")
    assert first.ids.shape == (8, 8)

    net = network()
    parallelize_module(net, mesh["tp"], {"1": ColwiseParallel(), "3": RowwiseParallel()})
    fully_shard(net, mesh=mesh["dp", "cp"])
    stage = TensorClassModule(net, in_fields=Tokens.ids, out_fields=Scores.scores)
    model: Any = TensorClassSequential(stage, input=Tokens, output=Scores, layout=layout)
    scores = model(part).scores
    assert scores.placements == (Shard(0), Shard(1), Replicate())
    wanted = network()
    expected = wanted(whole.ids)
    assert torch.allclose(scores.full_tensor(), expected, atol=1e-5)
    scores.square().mean().redistribute(placements=[Replicate()] * 3).backward()
    expected.square().mean().backward()
    for mine, one in zip(net.parameters(), wanted.parameters(), strict=True):
        assert torch.allclose(mine.grad.full_tensor(), one.grad, atol=1e-5)  # type: ignore[union-attr, arg-type]  # DTensors
    return seen


@pytest.mark.slow
def test_a_program_on_eight_ranks(tmp_path: Path) -> None:
    """Placements, pieces, another layout, loaders, and a pipeline with the values and gradients of one process."""
    with TensorClassDataset.create(tmp_path / "rows", Tokens) as writer:
        writer.append(tokens(30))
    data = TensorClassDataset(tmp_path / "rows", Tokens)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = run(lambda rank, world: _program(rank, data), 8, timeout=120)
    assert found[0] == found[1] == found[2] == found[3]
    assert found[4] == found[5] == found[6] == found[7]
    assert sorted(row for rows in (*found[0], *found[4]) for row in rows) == [*range(30)]
