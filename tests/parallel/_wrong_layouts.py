"""Eighty-one wrong layouts and pipelines, each as a function of a mesh (dp=2, tp=2): a build must refuse it or warn."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_module
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from tensorclass import Shared, TensorClass
from tensorclass.nn import TensorClassModule, TensorClassSequential
from tensorclass.parallel import Layout, cross_entropy
from tensorclass.typing import Float32, Int64


class Item(TensorClass):
    x: Float32[Tensor, "d"]
    label: Int64[Tensor, ""]


class Grid(TensorClass):
    x: Float32[Tensor, "t d"]


class Flat(TensorClass):
    pixels: Float32[Tensor, "h*w"]
    row: Float32[Tensor, "h"]
    column: Float32[Tensor, "w"]


class Hidden(TensorClass):
    h: Float32[Tensor, "d"]


class Wide(TensorClass):
    h: Float32[Tensor, "e"]


class Score(TensorClass):
    score: Float32[Tensor, ""]


class Loss(TensorClass):
    loss: Shared[Float32[Tensor, ""]]


SIZES = {"dp": 2, "tp": 2}
Build = Callable[[DeviceMesh], object]


def items() -> Item:
    return Item(x=torch.randn(4, 8), label=torch.arange(4) % 8)


def fn(function: Callable[..., Any], reads: list[Any], writes: list[Any]) -> TensorClassModule:
    return TensorClassModule(function, in_fields=reads, out_fields=writes)


def line(layout: Layout, *stages: TensorClassModule, output: type, input: type = Item) -> object:
    return TensorClassSequential(*stages, input=input, output=output, layout=layout)


def replicated(module: nn.Module, mesh: DeviceMesh) -> nn.Module:
    return distribute_module(module, mesh)


def cross(logits: Tensor, label: Tensor) -> Tensor:
    return nn.functional.cross_entropy(logits, label)


class Local(nn.Module):
    """Leaves the mesh without a word."""

    def forward(self, x: Tensor) -> Tensor:
        return x.to_local().mean() if isinstance(x, DTensor) else x.mean()


class Centred(nn.Module):
    """A norm by hand on the local piece, put back under the old placement."""

    def forward(self, x: Tensor) -> Tensor:
        if not isinstance(x, DTensor):
            return x - x.mean(-1, keepdim=True)
        local = x.to_local()
        return DTensor.from_local(local - local.mean(-1, keepdim=True), x.device_mesh, x.placements)


class Doubled(nn.Module):
    """Gathers by hand and keeps the placement: the output is larger than declared."""

    def forward(self, x: Tensor) -> Tensor:
        whole = x.full_tensor() if isinstance(x, DTensor) else x
        return DTensor.from_local(whole, x.device_mesh, x.placements) if isinstance(x, DTensor) else whole


def plain_beside(x: Tensor) -> Tensor:
    return x + torch.ones(8)


def swapped_mesh(mesh: DeviceMesh) -> DeviceMesh:
    return init_device_mesh("cpu", (2, 2), mesh_dim_names=("tp", "dp"))


def in_pipeline(name: str, **places: str) -> Callable[[Build], Build]:
    return case(name, **places)


CASES: dict[str, Build] = {}


def case(name: str, **_: str) -> Callable[[Build], Build]:
    def keep(build: Build) -> Build:
        CASES[name] = build
        return build

    return keep


# Layouts ------------------------------------------------------------------------------------------------------------
CASES["mesh has no such dim"] = lambda mesh: Layout(mesh, batch="pd")
CASES["event dim on a mesh dim that is missing"] = lambda mesh: Layout(mesh, batch="dp", d="cp")
CASES["arguments swapped: mesh dim = tensor dim"] = lambda mesh: Layout(mesh, dp="batch", tp="d")
CASES["one mesh dim for two dims of a field"] = lambda mesh: Layout(SIZES, t="tp", d="tp").explain(Grid)
CASES["one mesh dim for batch and event dim"] = lambda mesh: Layout(SIZES, batch="dp", d="dp").explain(Item)
CASES["one mesh dim for two batch dims"] = lambda mesh: Layout(SIZES, batch=("dp", "dp"))
CASES["one mesh dim twice for a dim"] = lambda mesh: Layout(SIZES, batch=(("dp", "dp"),))
CASES["a dim that no field has"] = lambda mesh: Layout(SIZES, batch="dp", e="tp").explain(Item)
CASES["a number is not the name of a dim"] = lambda mesh: Layout(SIZES, **{"8": "tp"})
CASES["an expression that does not divide"] = lambda mesh: Flat(
    pixels=torch.ones(4, 9), row=torch.ones(4, 3), column=torch.ones(4, 3)
).distribute(Layout(mesh, **{"h*w": "tp"}), source="everywhere")
CASES["more batch dims than the batch has"] = lambda mesh: items().distribute(
    Layout(mesh, batch=("dp", "tp")), source="everywhere"
)
CASES["a batch dim by a name that the batch lacks"] = lambda mesh: items().distribute(
    Layout(mesh, batch={"time": "dp"}), source="everywhere"
)
CASES["an override past the dims of the field"] = lambda mesh: items().distribute(
    Layout(mesh, {Item.label: {"tp": Shard(3)}}), source="everywhere"
)
CASES["an override on a mesh dim that is missing"] = lambda mesh: Layout(mesh, {Item.label: {"pp": Shard(0)}})
CASES["an override by text"] = lambda mesh: Layout(mesh, {"label": Replicate()})  # type: ignore[dict-item]  # wrong
CASES["an override that promises a sum"] = lambda mesh: Layout(mesh, {Item.x: {"tp": Partial()}})
CASES["a mesh dim without ranks"] = lambda mesh: Layout({"dp": 0}, batch="dp")
CASES["a mesh without names"] = lambda mesh: Layout(init_device_mesh("cpu", (2, 2)), batch="dp")
CASES["a mesh larger than the job"] = lambda mesh: items().distribute(
    Layout({"dp": 64}, batch="dp"), source="everywhere"
)
CASES["a source that the mesh lacks"] = lambda mesh: items().distribute(Layout(mesh, batch="dp"), source=9)
CASES["two meshes in one batch"] = lambda mesh: setattr(
    items().distribute(Layout(mesh, batch="dp"), source="everywhere"),
    "x",
    items().distribute(Layout(swapped_mesh(mesh), batch="dp"), source="everywhere").x,
)
CASES["a plain tensor beside DTensors"] = lambda mesh: setattr(
    items().distribute(Layout(mesh, batch="dp"), source="everywhere"), "x", torch.randn(4, 8)
)

# Pipelines ----------------------------------------------------------------------------------------------------------
CASES["a module that nobody parallelised"] = lambda mesh: line(
    Layout(mesh, batch="dp"), fn(nn.Linear(8, 4), [Item.x], [Wide.h]), output=Wide
)
CASES["a norm over a sharded dim"] = lambda mesh: line(
    Layout(mesh, batch="dp", d="tp"), fn(replicated(nn.LayerNorm(8), mesh), [Item.x], [Hidden.h]), output=Hidden
)
CASES["a softmax over a sharded dim"] = lambda mesh: line(
    Layout(mesh, batch="dp", d="tp"), fn(nn.Softmax(-1), [Item.x], [Hidden.h]), output=Hidden
)
CASES["a cumulative sum over a sharded dim"] = lambda mesh: line(
    Layout(mesh, d="tp"), fn(lambda x: x.cumsum(-1), [Item.x], [Hidden.h]), output=Hidden
)
CASES["a sum over a sharded dim without reduction"] = lambda mesh: line(
    Layout(mesh, batch="dp", d="tp"), fn(lambda x: x.sum(-1), [Item.x], [Score.score]), output=Score
)
CASES["a mean loss over a sharded batch"] = lambda mesh: line(
    Layout(mesh, batch="dp"), fn(lambda x: x.square().mean(), [Item.x], [Loss.loss]), output=Loss
)
CASES["replicated labels beside sharded logits"] = lambda mesh: line(
    Layout(mesh, {Item.label: Replicate()}, batch="dp"), fn(cross, [Item.x, Item.label], [Loss.loss]), output=Loss
)
CASES["sharded labels beside replicated logits"] = lambda mesh: line(
    Layout(mesh, {Item.x: Replicate()}, batch="dp"), fn(cross, [Item.x, Item.label], [Loss.loss]), output=Loss
)
CASES["a loss over logits that are sharded by class"] = lambda mesh: line(
    Layout(mesh, d="tp"), fn(cross, [Item.x, Item.label], [Loss.loss]), output=Loss
)
CASES["a loss of the local piece"] = lambda mesh: line(
    Layout(mesh, batch="dp"), fn(Local(), [Item.x], [Loss.loss]), output=Loss
)
CASES["a norm by hand on the local piece"] = lambda mesh: line(
    Layout(mesh, batch="dp", d="tp"), fn(Centred(), [Item.x], [Hidden.h]), output=Hidden
)
CASES["gathered by hand, placement kept"] = lambda mesh: line(
    Layout(mesh, batch="dp", d="tp"), fn(Doubled(), [Item.x], [Hidden.h]), output=Hidden
)
CASES["a plain constant beside DTensors"] = lambda mesh: line(
    Layout(mesh, batch="dp"), fn(plain_beside, [Item.x], [Hidden.h]), output=Hidden
)


def sum_of_squares(x: Tensor, other: Tensor) -> Tensor:
    return x * other.sum(-1, keepdim=True)


@case("a partial value used by the next module")
def _partial_between(mesh: DeviceMesh) -> object:
    return line(
        Layout(mesh, d="tp"),
        fn(lambda x: x.sum(-1), [Item.x], [Score.score]),
        fn(lambda s, x: s.relu().unsqueeze(-1) * x, [Score.score, Item.x], [Hidden.h]),
        output=Hidden,
    )


@case("columns without rows: the output stays sharded, as a plain tensor")
def _columns_only(mesh: DeviceMesh) -> object:
    module = parallelize_module(nn.Sequential(nn.Linear(8, 8)), mesh["tp"], {"0": ColwiseParallel()})
    return line(Layout(mesh, batch="dp"), fn(module, [Item.x], [Wide.h]), output=Wide)


@case("rows that give a partial sum away")
def _rows_partial(mesh: DeviceMesh) -> object:
    plan = {"0": ColwiseParallel(), "1": RowwiseParallel(output_layouts=Partial(), use_local_output=False)}
    module = parallelize_module(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)), mesh["tp"], plan)
    return line(Layout(mesh, batch="dp"), fn(module, [Item.x], [Wide.h]), output=Wide)


@case("features sharded where columns need all of them")
def _features_sharded(mesh: DeviceMesh) -> object:
    module = parallelize_module(
        nn.Sequential(nn.Linear(8, 8)), mesh["tp"], {"0": ColwiseParallel(use_local_output=False)}
    )
    return line(Layout(mesh, batch="dp", d="tp"), fn(module, [Item.x], [Wide.h]), output=Wide)


@case("a module on a mesh of another order")
def _other_order(mesh: DeviceMesh) -> object:
    module = replicated(nn.Linear(8, 8), swapped_mesh(mesh))
    return line(Layout(mesh, batch="dp"), fn(module, [Item.x], [Wide.h]), output=Wide)


@case("a module whose mesh has another size")
def _other_size(mesh: DeviceMesh) -> object:
    module = replicated(nn.Linear(8, 8), init_device_mesh("cpu", (4, 1), mesh_dim_names=("dp", "tp")))
    return line(Layout(mesh, batch="dp"), fn(module, [Item.x], [Wide.h]), output=Wide)


class Sequence(TensorClass):
    x: Float32[Tensor, "t d"]
    mask: Float32[Tensor, "t"]


ROWS, COLUMNS = {"batch": "dp"}, {"batch": "dp", "d": "tp"}
"""Layouts of the rows, and of rows and columns."""
FURTHER: dict[str, tuple[dict[str, str], Callable[..., Any], list[Any], Any]] = {
    "the largest of a sharded dim": (COLUMNS, lambda x: x.amax(-1), [Item.x], Score.score),
    "a gather by index from a sharded dim": (
        COLUMNS, lambda x, label: x.gather(-1, label.unsqueeze(-1)).squeeze(-1), [Item.x, Item.label], Score.score),
    "one column of a sharded dim": (COLUMNS, lambda x: x[:, 0], [Item.x], Score.score),
    "rows chosen by index from sharded rows": (ROWS, lambda x, label: x[label], [Item.x, Item.label], Hidden.h),
    "a roll along a sharded dim": (COLUMNS, lambda x: x.roll(1, -1), [Item.x], Hidden.h),
    "a difference along a sharded dim": (
        COLUMNS, lambda x: nn.functional.pad(x.diff(dim=-1), (0, 1)), [Item.x], Hidden.h),
    "rows less the mean of their shard": (ROWS, lambda x: x - x.mean(0), [Item.x], Hidden.h),
    "a sum over the batch as a number": (ROWS, lambda x: x * float(x.sum()), [Item.x], Hidden.h),
    "a mean under a mask over a sharded sequence": (
        {"batch": "dp", "t": "tp"}, lambda x, mask: (x.mean(-1) * mask).sum(1) / mask.sum(1),
        [Sequence.x, Sequence.mask], Score.score),
}  # fmt: skip


class Two(TensorClass):
    a: Float32[Tensor, "d"]
    b: Float32[Tensor, "d"]


class GridOut(TensorClass):
    y: Float32[Tensor, "t d"]


class Place(TensorClass):
    i: Int64[Tensor, ""]


TIME = {"batch": "dp", "t": "tp"}
FURTHER |= {
    "a mean under a mask over split rows": (
        ROWS, lambda x: (x.mean(-1) * (x[:, 0] > 0)).sum() / (x[:, 0] > 0).sum(), [Item.x], Loss.loss),
    "standardised over split rows": (ROWS, lambda x: (x - x.mean(0)) / (x.std(0) + 1e-6), [Item.x], Hidden.h),
    "over the norm of all rows": (ROWS, lambda x: x / x.norm(), [Item.x], Hidden.h),
    "the place of the largest": (COLUMNS, lambda x: x.argmax(-1), [Item.x], Place.i),
    "the two largest": (COLUMNS, lambda x: x.topk(2, -1).values.sum(-1), [Item.x], Score.score),
    "a sort of a split dim": (COLUMNS, lambda x: x.sort(-1).values, [Item.x], Hidden.h),
    "a median of a split dim": (COLUMNS, lambda x: x.median(-1).values, [Item.x], Score.score),
    "a logsumexp of a split dim": (COLUMNS, lambda x: x.logsumexp(-1), [Item.x], Score.score),
    "an einsum over a split dim": (COLUMNS, lambda a, b: torch.einsum("bd,bd->b", a, b), [Two.a, Two.b], Score.score),
    "similarity of all rows": (ROWS, lambda a, b: (a @ b.T).logsumexp(-1), [Two.a, Two.b], Score.score),
    "cosines over a split dim": (
        COLUMNS, lambda a, b: nn.functional.cosine_similarity(a, b, dim=-1), [Two.a, Two.b], Score.score),
    "normalised over a split dim": (COLUMNS, lambda x: nn.functional.normalize(x, dim=-1), [Item.x], Hidden.h),
    "a split dim turned round": (COLUMNS, lambda x: x.flip(-1), [Item.x], Hidden.h),
    "a product along a split dim": (COLUMNS, lambda x: x.cumprod(-1), [Item.x], Hidden.h),
    "a Fourier transform of a split dim": (COLUMNS, lambda x: torch.fft.fft(x).real, [Item.x], Hidden.h),
    "attention over a split sequence": (
        TIME, lambda x: nn.functional.scaled_dot_product_attention(x, x, x), [Grid.x], GridOut.y),
    "a pool over a split sequence": (
        TIME, lambda x: nn.functional.avg_pool1d(x.mT, 3, 1, 1).mT, [Grid.x], GridOut.y),
    "the last token of a split sequence": (TIME, lambda x: x[:, -1].sum(-1), [Grid.x], Score.score),
    "the next tokens of a split sequence": (
        TIME, lambda x: torch.cat([x[:, 1:], x[:, :1]], 1), [Grid.x], GridOut.y),
    "a flat sequence of split features": (COLUMNS, lambda x: x.flatten(1).sum(-1), [Grid.x], Score.score),
    "rows in another order": (ROWS, lambda x: x[torch.tensor([3, 2, 1, 0])], [Item.x], Hidden.h),
    "a row that is filled": (ROWS, lambda x: x.index_fill(0, torch.tensor([0]), 0.0), [Item.x], Hidden.h),
    "a branch on a value": (ROWS, lambda x: x if x.sum() > 0 else -x, [Item.x], Hidden.h),
    "distances between rows": (ROWS, lambda x: torch.cdist(x, x).amin(-1), [Item.x], Score.score),
    "plain random numbers": (ROWS, lambda x: x + torch.randn(x.shape), [Item.x], Hidden.h),
    "through numpy": (ROWS, lambda x: torch.from_numpy(x.detach().numpy()), [Item.x], Hidden.h),
    "counts of labels": (
        ROWS, lambda x, label: x / torch.bincount(label, minlength=8)[label].unsqueeze(-1), [Item.x, Item.label],
        Hidden.h),
    "less the largest of the rows": (ROWS, lambda x: x - x.amax(0), [Item.x], Hidden.h),
    "a softmax over rows": (ROWS, lambda x: x.softmax(0), [Item.x], Hidden.h),
    "a running sum over rows": (ROWS, lambda x: x.cumsum(0), [Item.x], Hidden.h),
}  # fmt: skip
for _name, (_places, _function, _reads, _write) in FURTHER.items():
    CASES[_name] = lambda mesh, p=_places, f=_function, r=_reads, w=_write: line(  # type: ignore[misc]  # defaults bind
        Layout(mesh, **p), fn(f, r, [w]), input=r[0]._owner, output=w._owner
    )
CASES["a batch norm over sharded rows"] = lambda mesh: line(
    Layout(mesh, batch="dp"), fn(replicated(nn.BatchNorm1d(8), mesh), [Item.x], [Hidden.h]), output=Hidden
)


def right() -> list[Build]:
    """The same programs, mended: none of them may be refused."""
    return copy.copy(RIGHT)


RIGHT: list[Build] = [
    lambda mesh: Layout(mesh, batch="dp", d="tp").explain(Item),
    lambda mesh: items().distribute(Layout(mesh, batch="dp"), source="everywhere"),
    lambda mesh: line(Layout(mesh, batch="dp"), fn(replicated(nn.Linear(8, 4), mesh), [Item.x], [Wide.h]), output=Wide),
    lambda mesh: line(
        Layout(mesh, batch="dp"), fn(replicated(nn.LayerNorm(8), mesh), [Item.x], [Hidden.h]), output=Hidden
    ),
    lambda mesh: line(Layout(mesh, batch="dp"), fn(nn.Softmax(-1), [Item.x], [Hidden.h]), output=Hidden),
    lambda mesh: line(Layout(mesh, batch="dp"), fn(lambda x: x.sum(-1), [Item.x], [Score.score]), output=Score),
    lambda mesh: line(
        Layout(mesh, batch="dp", d="tp"), fn(cross_entropy, [Item.x, Item.label], [Loss.loss]), output=Loss
    ),
]
