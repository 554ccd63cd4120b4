"""Pipelines around modules that torch has parallelised over a part of the mesh."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Partial, Replicate, Shard, distribute_module
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from tensorclass import Ragged, Shared, TensorClass
from tensorclass.errors import ArgumentError, BuildError, UnsupportedOperationError
from tensorclass.nn import PipelineWarning, TensorClassModule, TensorClassSequential
from tensorclass.parallel import Layout
from tensorclass.typing import Float32, Int64
from tests.parallel._meshes import fake_mesh
from tests.parallel._ranks import run


class Words(TensorClass):
    x: Float32[Tensor, "t 8"]
    label: Int64[Tensor, "t"]
    bias: Shared[Float32[Tensor, "8"]]


class More(Words):
    extra: Int64[Tensor, "t"]


class Spoken(TensorClass):
    x: Float32[Tensor, "t 8"]
    words: Ragged[Tensor, "n"]


class Hidden(TensorClass):
    h: Float32[Tensor, "t 8"]


class Wide(TensorClass):
    h: Float32[Tensor, "t f"]


class Loss(TensorClass):
    loss: Shared[Float32[Tensor, ""]]


PLAN: Any = {"0": ColwiseParallel(), "2": RowwiseParallel()}
COLUMNS: Any = {"0": ColwiseParallel()}
Make = Callable[[Any], nn.Module]


def net() -> nn.Sequential:
    """Columns, rows, and a norm that nobody splits."""
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8), nn.LayerNorm(8))


def tensor_parallel(mesh: Any, module: nn.Module | None = None) -> nn.Module:
    """Over `tp`."""
    return parallelize_module(net() if module is None else module, mesh["tp"], PLAN)


def sharded(mesh: Any, *dims: str, module: nn.Module | None = None) -> nn.Module:
    """Over data parallel dims."""
    module = net() if module is None else module
    fully_shard(module, mesh=mesh[dims])
    return module


def with_blocks(mesh: Any) -> nn.Module:
    """Each block by itself, and then the whole."""
    module = nn.Sequential(net(), net())
    for block in module:
        parallelize_module(block, mesh["tp"], PLAN)
        fully_shard(block, mesh=mesh["dp"])
    fully_shard(module, mesh=mesh["dp"])
    return module


def flat(mesh: Any) -> nn.Module:
    """`fully_shard` over a flattened mesh of data and context parallel ranks."""
    module = tensor_parallel(mesh)
    fully_shard(module, mesh=mesh["dp", "cp"]._flatten("dp_cp"))
    return module


def pipeline(module: Any, layout: Layout, output: type = Hidden, *, reads: Any = (Words.x,), probe: bool = True) -> Any:
    """One module; warnings of W205 are not of this page."""
    stage = TensorClassModule(module, in_fields=[*reads], out_fields=[output.h])  # type: ignore[attr-defined]  # a class
    return TensorClassSequential(stage, input=Words, output=output, layout=layout, probe=probe)


def codes(build: Callable[[], Any]) -> list[str]:
    """The codes of a build, with its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PipelineWarning)
        try:
            found = build().diagnostics
        except BuildError as error:
            found = error.diagnostics
    return [d.code for d in found if d.severity != "note"]


SIZES = {"dp": 2, "cp": 2, "tp": 2}
RIGHT: dict[str, tuple[tuple[str, ...], dict[str, Any], Make]] = {
    "tp of dp x tp": (("dp", "tp"), {}, tensor_parallel),
    "both of dp x tp": (("dp", "tp"), {"batch": "dp"}, lambda mesh: sharded(mesh, "dp", module=tensor_parallel(mesh))),
    "blocks of dp x tp": (("dp", "tp"), {"batch": "dp"}, with_blocks),
    "dp of dp x tp": (("dp", "tp"), {"batch": "dp"}, lambda mesh: sharded(mesh, "dp")),
    "dp only": (("dp",), {"batch": "dp"}, lambda mesh: sharded(mesh, "dp")),
    "tp only": (("tp",), {}, tensor_parallel),
    "tp only, without plain parameters": (("tp",), {}, lambda mesh: parallelize_module(net()[:3], mesh["tp"], PLAN)),
    "dp, cp, tp": (
        ("dp", "cp", "tp"),
        {"batch": "dp", "t": "cp"},
        lambda mesh: sharded(mesh, "dp", "cp", module=tensor_parallel(mesh)),
    ),
    "dp and cp in one": (("dp", "cp", "tp"), {"batch": "dp", "t": "cp"}, flat),
    "replicated over all": (("dp", "tp"), {"batch": "dp"}, lambda mesh: distribute_module(net(), mesh)),
}


@pytest.mark.parametrize("name", RIGHT)
def test_parts_are_built(name: str) -> None:
    """Modules over a part of the mesh pass, keep their parameters, and their outputs are placed by the layout."""
    dims, places, make = RIGHT[name]
    with fake_mesh(**{dim: SIZES[dim] for dim in dims}) as mesh:
        module = make(mesh)
        before = [*module.named_parameters()]
        layout = Layout(mesh, **places)
        built: Any = None

        def build() -> Any:
            nonlocal built
            built = pipeline(module, layout)
            return built

        assert codes(build) == []
        assert all(one[1] is two[1] for one, two in zip(before, module.named_parameters(), strict=True))
        wanted = layout.explain(Hidden, batch_size=8, t=8).rows[0].shards
        text = ", ".join("Replicate" if dim is None else f"Shard({dim})" for dim in wanted or ())
        assert f"[8, t, 8] ({text})" in str(built.explain(batch_size=8))


@pytest.mark.filterwarnings("ignore:.*W205")
@pytest.mark.parametrize("name", RIGHT)
def test_every_pipeline_calls_parts(name: str) -> None:
    """Pipelines without a probe, parts, copies, other input classes, outer pipelines: all call modules over a part."""
    dims, places, make = RIGHT[name]
    with fake_mesh(**{dim: SIZES[dim] for dim in dims}) as mesh:
        module, layout = make(mesh).requires_grad_(False), Layout(mesh, **places)
        part = words(4).distribute(layout, source="everywhere")
        more = More(x=part.x, label=part.label, bias=part.bias, extra=part.label)
        built = pipeline(module, layout, probe=False)
        outer = TensorClassSequential(built, input=Words, output=Hidden, probe=False)
        found = [built(part), built[:](part), built.on(More)(more), outer(part)]
        if "dp" not in name:  # torch does not copy modules of `fully_shard`
            found.append(copy.deepcopy(built)(part))
        wanted = [row.shards for row in layout.explain(Hidden, batch_size=4, t=4).rows]
        shards = [tuple(one.dim if one.is_shard() else None for one in out.h.placements) for out in found]
        assert [[one] for one in shards] == [wanted] * len(found)
        assert [d for d in built.check().diagnostics if d.severity != "note"] == []


def test_pipelines_of_two_layouts() -> None:
    """A pipeline has the layout of those in it; where they differ, the error names both."""
    with fake_mesh(dp=2, tp=2) as mesh:
        first, second = (
            pipeline(tensor_parallel(mesh).requires_grad_(False), Layout(mesh, batch=b)) for b in (None, "dp")
        )
        with pytest.raises(ArgumentError, match=r"layouts Layout\(dp=2, tp=2\) and .*batch=dp.*pass `layout=`"):
            TensorClassSequential(first, second, input=Words, output=Hidden)


class Both(nn.Module):
    """Rows and ragged values."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor, words: Tensor) -> Tensor:
        found: Tensor = self.inner(x) + len(words)
        return found


@pytest.mark.parametrize("batch", [None, "dp"])
def test_ragged_fields_beside_parts(batch: str | None) -> None:
    """A module over a part of the mesh takes a ragged field where it gets all rows, and is refused beside some rows."""
    with fake_mesh(dp=2, tp=2) as mesh:
        module = sharded(mesh, "dp", module=Both(tensor_parallel(mesh)))
        stage = TensorClassModule(module, in_fields=[Spoken.x, Spoken.words], out_fields=Hidden.h)
        layout = Layout(mesh, batch=batch)

        def build() -> Any:
            return TensorClassSequential(stage, input=Spoken, output=Hidden, layout=layout, probe=False)

        assert codes(build) == ([] if batch is None else ["E119"])
        if batch is None:
            spoken: Any = Spoken.from_dict({"x": torch.ones(2, 4, 8), "words": [torch.ones(3), torch.ones(1)]})
            assert build()(spoken.distribute(layout, source="everywhere")).h.placements == (Replicate(), Replicate())


def norm_between(mesh: Any) -> nn.Module:
    """A norm of the columns of one rank."""
    module = nn.Sequential(nn.Linear(8, 16), nn.Softmax(-1), nn.Linear(16, 8))
    return parallelize_module(module, mesh["tp"], PLAN)


def rows_partial(mesh: Any) -> nn.Module:
    """Rows whose sum nobody finishes, as a local tensor."""
    plan: Any = {"0": ColwiseParallel(), "2": RowwiseParallel(output_layouts=Partial())}
    return parallelize_module(net()[:3], mesh["tp"], plan)


def columns(mesh: Any, **options: Any) -> nn.Module:
    """Columns without rows."""
    return parallelize_module(nn.Sequential(nn.Linear(8, 8)), mesh["tp"], {"0": ColwiseParallel(**options)})


def other(mesh: Any) -> nn.Module:
    """A mesh of another order."""
    return tensor_parallel(init_device_mesh("cpu", (2, 2), mesh_dim_names=("tp", "dp")))


WRONG: dict[str, tuple[dict[str, Any], Make, list[str]]] = {
    "gradients of the rows of a rank": ({"batch": "dp"}, tensor_parallel, ["W213"]),
    "parameters that nobody averages over cp": ({"t": "dp"}, tensor_parallel, ["W213"]),
    "a norm over columns": ({}, norm_between, ["W212"]),
    "an unfinished sum, local": ({}, rows_partial, ["E120"]),
    "columns that the layout doesn't name": ({}, columns, ["E121"]),
    "another order": ({}, other, ["E119"]),
    "plain parameters only": ({"batch": "dp"}, lambda _: net(), ["E119"]),
    "features split where columns need all": ({"**": "tp"}, columns, ["E119"]),
    "rows split where a module needs one sequence": ({"batch": "dp"}, lambda m: sharded(m, "tp"), ["W213"]),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_parts_are_found(name: str) -> None:
    """Sums that nobody finishes, other placements and meshes are errors; gradients and norms on pieces warn."""
    places, make, wanted = WRONG[name]
    fields: Any = {Words.x: {"tp": Shard(2)}} if "**" in places else {}
    with fake_mesh(dp=2, tp=2) as mesh:
        layout = Layout(mesh, fields, **{dim: at for dim, at in places.items() if dim != "**"})
        assert codes(lambda: pipeline(make(mesh), layout)) == wanted


def test_columns_that_the_layout_names() -> None:
    """An output that is split over `tp` is right where the layout names its dim."""
    with fake_mesh(dp=2, tp=2) as mesh:
        for local in (True, False):
            module = parallelize_module(
                nn.Sequential(nn.Linear(8, 8)), mesh["tp"], {"0": ColwiseParallel(use_local_output=local)}
            )
            built = pipeline(module.requires_grad_(False), Layout(mesh, batch="dp", f="tp"), Wide)
            assert "(Shard(0), Shard(2))" in str(built.explain(batch_size=8))


class Mean(nn.Module):
    """A loss in the module itself."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.inner(x).square().mean()
        return found


def test_a_loss_inside() -> None:
    """A mean over the rows of each rank, inside of a module over a part of the mesh, is refused."""
    with fake_mesh(dp=2, tp=2) as mesh:
        stage = TensorClassModule(sharded(mesh, "dp", module=Mean(net())), in_fields=Words.x, out_fields=Loss.loss)

        def build() -> Any:
            return TensorClassSequential(stage, input=Words, output=Loss, layout=Layout(mesh, batch="dp"))

        assert codes(build) == ["E120"]


def test_an_unfinished_sum_is_no_input() -> None:
    """A module over a part of the mesh takes no unfinished sum; the check names the module."""
    with fake_mesh(dp=2, tp=2) as mesh:
        summed = TensorClassModule(
            lambda x: x.sum(-1, keepdim=True).expand(*x.shape), in_fields=Words.x, out_fields=Words.x, update=True
        )
        stage = TensorClassModule(tensor_parallel(mesh), in_fields=Words.x, out_fields=Hidden.h)
        layout = Layout(mesh, {Words.x: {"tp": Shard(2)}})
        found = codes(lambda: TensorClassSequential(summed, stage, input=Words, output=Hidden, layout=layout))
        assert "E119" in found
        built = codes_of_run(mesh, tensor_parallel(mesh))
        assert "takes no unfinished sum" in built


def codes_of_run(mesh: Any, module: nn.Module) -> str:
    """What a pipeline says to a batch with an unfinished sum."""
    built = pipeline(module.requires_grad_(False), Layout(mesh, batch="dp"))
    part = words(2).distribute(Layout(mesh), source="everywhere")
    part.x = part.x.sum(0, keepdim=True).expand(2, 4, 8)
    made: Any = torch.distributed.tensor.DTensor
    part.x = made.from_local(torch.zeros(2, 4, 8), mesh, [Partial(), Replicate()], run_check=False)
    with pytest.raises(UnsupportedOperationError) as caught:
        built(part)
    return str(caught.value)


# ---- ranks ---------------------------------------------------------------------------------------------------------


def words(rows: int, t: int = 4, seed: int = 0) -> Words:
    """A batch."""
    generator = torch.Generator().manual_seed(seed)
    return Words(
        x=torch.randn(rows, t, 8, generator=generator),
        label=torch.randint(8, (rows, t), generator=generator),
        bias=torch.randn(8, generator=generator),
    )


class Biased(nn.Module):
    """The net, and a bias that every rank holds."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        found: Tensor = self.inner(x + bias)
        return found


def _steps(model: Any, parameters: Any, batches: list[Any]) -> tuple[list[float], list[Tensor]]:
    optimizer = torch.optim.SGD(parameters, lr=0.1, momentum=0.9)
    losses, gradients = [], []
    for batch in batches:
        x, bias = batch.x.detach().requires_grad_(), batch.bias.detach().requires_grad_()
        batch = batch.replace(x=x, bias=bias)
        out = model(batch)
        loss = (out.h - batch.x).square().mean()
        loss = (
            loss.redistribute(placements=[Replicate()] * loss.device_mesh.ndim) if hasattr(loss, "placements") else loss
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(getattr(loss, "full_tensor", lambda loss=loss: loss)()))
        gradients += [getattr(t.grad, "full_tensor", lambda t=t: t.grad)() for t in (x, bias)]
    return losses, gradients


def _alone(batches: list[Any]) -> tuple[list[float], list[Tensor]]:
    torch.manual_seed(0)
    module = Biased(net())
    return _steps(pipeline(module, None, reads=(Words.x, Words.bias)), module.parameters(), batches)  # type: ignore[arg-type]  # none


def _trained(rank: int, world: int, sizes: dict[str, int], name: str) -> None:
    warnings.simplefilter("ignore")
    mesh = init_device_mesh("cpu", tuple(sizes.values()), mesh_dim_names=tuple(sizes))
    batches = [words(4, 6, seed) for seed in range(3)]
    losses, gradients = _alone(batches)
    torch.manual_seed(0)
    module = Biased(net())
    _, places, _ = RIGHT[name]
    if "tp" in sizes:
        parallelize_module(module.inner, mesh["tp"], PLAN)
    data = tuple(dim for dim in sizes if dim != "tp")
    if data:
        fully_shard(module.inner, mesh=mesh[data])
        fully_shard(module, mesh=mesh[data])
    layout = Layout(mesh, **places)
    built = pipeline(module, layout, reads=(Words.x, Words.bias))
    first = batches[0].distribute(layout, source="everywhere")
    unprobed = pipeline(module, layout, reads=(Words.x, Words.bias), probe=False)
    with torch.no_grad():
        assert torch.equal(unprobed(first).whole().h, built(first).whole().h)
    found, made = _steps(built, module.parameters(), [b.distribute(layout, source="everywhere") for b in batches])
    assert torch.allclose(torch.tensor(found), torch.tensor(losses), atol=1e-5), (found, losses)
    for one, two in zip(made, gradients, strict=True):
        assert torch.allclose(one, two, atol=1e-5), (one, two)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "name"),
    [
        ({"dp": 2}, "dp only"),
        ({"tp": 2}, "tp only"),
        ({"dp": 2, "tp": 2}, "both of dp x tp"),
        ({"dp": 2, "cp": 2, "tp": 1}, "dp, cp, tp"),
        ({"dp": 3}, "dp only"),
    ],
)
def test_steps_equal_one_process(sizes: dict[str, int], name: str) -> None:
    """Losses of three steps and gradients of inputs are those of one process, on uneven pieces too."""
    world = 1
    for size in sizes.values():
        world *= size
    run(lambda rank, ranks: _trained(rank, ranks, sizes, name), world, timeout=60)
