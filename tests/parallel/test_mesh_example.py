"""examples/mesh.py and the loss over scores that are split by class: ranks give what one process gives."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

import pytest
import torch
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.nn import functional

from tensorclass.parallel import Layout, cross_entropy
from tests._sources import ROOT
from tests.parallel._ranks import run


def example() -> Any:
    """The example as a module."""
    spec = importlib.util.spec_from_file_location("mesh_example", ROOT / "examples/mesh.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _same(sizes: dict[str, int], steps: int) -> None:
    module = example()
    wanted = module.train(None, steps)
    layout = Layout(sizes, batch="dp", v="tp")
    for found in run(lambda rank, world: module.train(layout, steps), sizes["dp"] * sizes["tp"], timeout=100):
        assert torch.allclose(torch.tensor(found), torch.tensor(wanted), atol=1e-5, rtol=0)


def test_two_ranks() -> None:
    """Two tensor parallel ranks have the losses of one process."""
    _same({"dp": 1, "tp": 2}, 3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "sizes", [{"dp": 1, "tp": 2}, {"dp": 2, "tp": 1}, {"dp": 2, "tp": 2}, {"dp": 4, "tp": 1}, {"dp": 1, "tp": 4}]
)
def test_any_mesh(sizes: dict[str, int]) -> None:
    """Every mesh has the losses of one process, to 1e-5 over 20 steps."""
    _same(sizes, 20)


def _losses(rank: int, world: int) -> None:
    mesh = Layout({"dp": 1 if world == 2 else 2, "tp": 2}, batch="dp").mesh_on("cpu")
    torch.manual_seed(0)
    scores, target = torch.randn(4, 3, 5) * 30, torch.randint(5, (4, 3))
    target[0, 0] = target[3, 2] = -100
    plain = scores.clone().requires_grad_()
    wanted = functional.cross_entropy(plain.flatten(0, 1), target.flatten())
    wanted.backward()
    everywhere: Any = ([Shard(0), Shard(2)], [Shard(0), Replicate()], [Replicate(), Shard(2)], [Shard(1), Shard(0)])
    for places in everywhere:
        there = distribute_tensor(scores, mesh, places).requires_grad_()
        rows = [one if one.is_shard() and one.dim < 2 else Replicate() for one in places]
        loss = cross_entropy(there, distribute_tensor(target, mesh, rows))
        assert loss.placements == (Replicate(), Replicate())  # type: ignore[attr-defined]  # a DTensor
        loss.backward()
        assert torch.allclose(loss.full_tensor(), wanted, atol=1e-5)  # type: ignore[attr-defined]  # a DTensor
        assert torch.allclose(there.grad.full_tensor(), plain.grad, atol=1e-6)  # type: ignore[arg-type, union-attr]  # both are there


@pytest.mark.slow
@pytest.mark.parametrize("world", [2, 4])
def test_scores_that_are_split_by_class(world: int) -> None:
    """Values and gradients are torch's, for uneven pieces, rows that don't count and large scores."""
    run(_losses, world, timeout=60)


def test_plain_scores() -> None:
    """Without a mesh the loss is torch's, with the classes last."""
    scores, target = torch.randn(2, 3, 5), torch.randint(5, (2, 3))
    target[1, 1] = 9
    wanted = functional.cross_entropy(scores.transpose(1, 2), target, ignore_index=9)
    assert torch.allclose(cross_entropy(scores, target, ignore_index=9), wanted)
