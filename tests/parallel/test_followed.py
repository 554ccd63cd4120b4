"""Pipelines with a layout: placements are followed through the modules when they are built."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import Replicate, Shard, distribute_module, distribute_tensor

from tensorclass.errors import ArgumentError, BuildError, TensorClassError
from tensorclass.nn import PipelineWarning, TensorClassSequential
from tensorclass.parallel import Layout, LayoutWarning
from tests.parallel._meshes import fake_mesh
from tests.parallel._ranks import run
from tests.parallel._wrong_layouts import CASES, FURTHER, RIGHT, Hidden, Item, Loss, Score, Wide, fn, items, line

WARNED = {"a dim that no field has": LayoutWarning, "a norm by hand on the local piece": PipelineWarning}
CODES = {
    "a module that nobody parallelised": "E119",
    "a norm over a sharded dim": "E119",
    "a softmax over a sharded dim": "E119",
    "a cumulative sum over a sharded dim": "E119",
    "a sum over a sharded dim without reduction": "E120",
    "a mean loss over a sharded batch": "E120",
    "replicated labels beside sharded logits": "E120",
    "sharded labels beside replicated logits": "E119",
    "a loss over logits that are sharded by class": "E119",
    "a loss of the local piece": "E121",
    "gathered by hand, placement kept": "E121",
    "a plain constant beside DTensors": "E119",
    "a partial value used by the next module": "E119",
    "columns without rows: the output stays sharded, as a plain tensor": "E121",
    "rows that give a partial sum away": "E120",
    "features sharded where columns need all of them": "E119",
    "a module on a mesh of another order": "E119",
    "a module whose mesh has another size": "E119",
    **dict.fromkeys([*FURTHER, "a batch norm over sharded rows"], "E119"),
    "the largest of a sharded dim": "E120",
    "a gather by index from a sharded dim": "E120",
    "an einsum over a split dim": "E120",
    "a flat sequence of split features": "E120",
}


@pytest.mark.filterwarnings("ignore:.*W205")
@pytest.mark.parametrize("name", CASES)
def test_wrong_layouts_are_refused(name: str) -> None:
    """Of eighty-one wrong layouts and pipelines, all but two are errors, and these warn; none passes in silence."""
    with fake_mesh(dp=2, tp=2) as mesh:
        if name in WARNED:
            with pytest.warns(WARNED[name]):
                CASES[name](mesh)
            return
        with pytest.raises(TensorClassError) as caught:
            CASES[name](mesh)
    found = [d.code for d in getattr(caught.value, "diagnostics", ()) if d.severity == "error"]
    assert found == ([CODES[name]] if name in CODES else [])


@pytest.mark.filterwarnings("ignore:.*W205")
@pytest.mark.parametrize("number", range(len(RIGHT)))
def test_right_layouts_pass(number: int) -> None:
    """The same programs, mended, are built."""
    with fake_mesh(dp=2, tp=2) as mesh:
        RIGHT[number](mesh)


def test_no_process_group_is_needed() -> None:
    """Without a process group the check starts torch's fake one, and ends it."""
    with pytest.raises(BuildError, match="E120"):
        line(Layout({"dp": 2}, batch="dp"), fn(lambda x: x.mean(), [Item.x], [Loss.loss]), output=Loss)
    assert not dist.is_initialized()


def test_explain_shows_placements() -> None:
    """The table of a pipeline has the placement of each value."""
    pipeline: Any = line(
        Layout({"dp": 2, "tp": 2}, batch="dp"), fn(lambda x: x.sum(-1), [Item.x], [Score.score]), output=Score
    )
    text = str(pipeline.explain(batch_size=8))
    assert "[8, d] (Shard(0), Replicate)" in text
    assert "[8] (Shard(0), Replicate)" in text


def test_the_hints_mend() -> None:
    """The `redistribute` of a hint makes the pipeline right."""
    layout = Layout({"dp": 2, "tp": 2}, batch="dp", d="tp")
    with pytest.raises(BuildError) as caught:
        line(layout, fn(lambda x: x.softmax(-1), [Item.x], [Hidden.h]), output=Hidden)
    hint = next(d.hint for d in caught.value.diagnostics if d.code == "E119")
    call = hint.partition("`x")[2].rstrip("`")

    def mended(x: Tensor) -> Tensor:
        moved = eval(f"x{call}", {"x": x, "Shard": Shard, "Replicate": Replicate}) if hasattr(x, "placements") else x
        return moved.softmax(-1)  # type: ignore[no-any-return]  # a tensor

    line(layout, fn(mended, [Item.x], [Hidden.h]), output=Hidden)


def test_a_layout_is_a_layout() -> None:
    """Another object is refused by name, and so is a pipeline on another mesh; placements of the outer one hold."""
    inner = line(Layout({"dp": 2}, batch="dp"), fn(nn.ReLU(), [Item.x], [Hidden.h]), output=Hidden)
    with pytest.raises(
        ArgumentError, match=r"is on the mesh of Layout\(dp=2; batch=dp\), and `layout=` is Layout\(tp=2\)"
    ):
        TensorClassSequential(inner, input=Item, output=Hidden, layout=Layout({"tp": 2}))  # type: ignore[call-overload]  # an object
    outer = TensorClassSequential(inner, input=Item, output=Hidden, layout=Layout({"dp": 2}))  # type: ignore[call-overload]  # an object
    assert "(Replicate)" in str(outer.explain(batch_size=4))
    with pytest.raises(ArgumentError, match=r"takes a tensorclass\.parallel\.Layout, got a dict"):
        TensorClassSequential(fn(nn.ReLU(), [Item.x], [Hidden.h]), input=Item, output=Hidden, layout={})  # type: ignore[call-overload]  # wrong


def _columns(name: str, module: nn.Module, mesh: Any) -> None:
    """Columns of the first layer and rows of the second over `tp`."""
    for key, parameter in [*module.named_parameters(recurse=False)]:
        dim = {"0": 0, "2": 1}.get(name)
        split = dim is not None and dim < parameter.ndim
        places = [Replicate(), Shard(dim) if split else Replicate()]
        made = distribute_tensor(parameter.detach(), mesh, places, src_data_rank=None)
        module.register_parameter(key, nn.Parameter(made))


class Whole(nn.Module):
    """Finishes the sums over `tp`."""

    def forward(self, x: Tensor) -> Tensor:
        return x.redistribute(placements=[x.placements[0], Replicate()]) if hasattr(x, "placements") else x


def _step(rank: int, world: int) -> Any:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    batch, losses = items(), []
    expected = net(batch.x)
    expected.square().mean().backward()
    wanted = [parameter.grad.clone() for parameter in net.parameters() if parameter.grad is not None]
    net.zero_grad()
    layout = Layout({"dp": 1 if world == 2 else 2, "tp": 2}, batch="dp")
    mesh = layout.mesh_on("cpu")
    parallel = nn.Sequential(distribute_module(net, mesh, _columns), Whole())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PipelineWarning)
        pipeline: Any = line(layout, fn(parallel, [Item.x], [Wide.h]), output=Wide)
    out = pipeline(batch.distribute(layout, source="everywhere"))
    assert out.h.placements == (Shard(0), Replicate())
    assert torch.allclose(out.whole().h, expected, atol=1e-6)
    loss = out.h.square().mean().redistribute(placements=[Replicate(), Replicate()])
    loss.backward()
    losses.append(float(loss.full_tensor()))
    for parameter, gradient in zip(parallel.parameters(), wanted, strict=True):
        assert torch.allclose(parameter.grad.full_tensor(), gradient, atol=1e-6)  # type: ignore[union-attr]  # a DTensor
    return losses


@pytest.mark.slow
@pytest.mark.parametrize("world", [2, 4])
def test_a_step_equals_one_process(world: int) -> None:
    """Outputs, loss and gradients over data and tensor parallel ranks are those of one process."""
    found = run(_step, world, timeout=60)
    assert all(losses == found[0] for losses in found)
