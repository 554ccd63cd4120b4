"""A step over a mesh with a layout, beside the same step with DTensors by hand: `python -m tests.benchmarks._mesh`."""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from tensorclass import Shared, TensorClass
from tensorclass.nn import TensorClassModule, TensorClassSequential
from tensorclass.parallel import Layout, cross_entropy
from tensorclass.typing import Float32, Int64
from tests.parallel._ranks import run

ROWS, WIDTH, CLASSES, STEPS, WARM = 64, 256, 64, 420, 20
LAYOUT = Layout({"tp": 2}, c="tp")


class Rows(TensorClass):
    x: Float32[Tensor, "256"]
    label: Int64[Tensor, ""]


class Scores(TensorClass):
    scores: Float32[Tensor, "c"]


class Loss(TensorClass):
    loss: Shared[Float32[Tensor, ""]]


def network(mesh: Any) -> nn.Module:
    """Columns, rows, and scores that are split by class."""
    torch.manual_seed(0)
    layers = [nn.Linear(WIDTH, 4 * WIDTH), nn.ReLU(), nn.Linear(4 * WIDTH, WIDTH), nn.Linear(WIDTH, CLASSES)]
    head = ColwiseParallel(output_layouts=Shard(-1), use_local_output=False)
    plan: Any = {"0": ColwiseParallel(), "2": RowwiseParallel(), "3": head}
    return parallelize_module(nn.Sequential(*layers), mesh, plan)


def by_hand(mesh: Any) -> Callable[[], None]:
    """One step without this package, except for the loss."""
    module, x, label = network(mesh), torch.randn(ROWS, WIDTH), torch.randint(CLASSES, (ROWS,))
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01)

    def step() -> None:
        target = distribute_tensor(label, mesh, [Replicate()], src_data_rank=None)
        loss = cross_entropy(module(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def typed(mesh: Any, check: bool) -> Callable[[], None]:
    """The same step with typed batches and a pipeline; with `check`, ranks compare their batches at each step."""
    rows = Rows(x=torch.randn(ROWS, WIDTH), label=torch.randint(CLASSES, (ROWS,)))
    pipeline = TensorClassSequential(
        TensorClassModule(network(mesh), in_fields=Rows.x, out_fields=Scores.scores),
        TensorClassModule(cross_entropy, in_fields=[Scores.scores, Rows.label], out_fields=Loss.loss),
        input=Rows,
        output=Loss,
        layout=LAYOUT,
    )
    optimizer = torch.optim.SGD(pipeline.parameters(), lr=0.01)

    def step() -> None:
        loss = pipeline(rows.distribute(LAYOUT, source="everywhere", check=check)).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def measured(rank: int, world: int) -> list[tuple[float, float]]:
    """The median milliseconds of each kind of step, in CPU time of this thread and in time; steps take turns."""
    warnings.simplefilter("ignore")
    mesh = LAYOUT.mesh_on("cpu")
    steps = [by_hand(mesh), typed(mesh, False), typed(mesh, True)]
    times: list[list[tuple[float, float]]] = [[], [], []]
    for number in range(STEPS):
        for found, step in zip(times, steps, strict=True):
            dist.barrier()
            begin = time.thread_time(), time.perf_counter()
            step()
            if number >= WARM:
                found.append(((time.thread_time() - begin[0]) * 1e3, (time.perf_counter() - begin[1]) * 1e3))
    return [tuple(statistics.median(column) for column in zip(*found, strict=True)) for found in times]  # type: ignore[misc]  # two


if __name__ == "__main__":
    hand, *others = run(measured, 2, timeout=300)[0]
    print(f"by hand: {hand[0]:.2f} ms of CPU, {hand[1]:.2f} ms")
    for name, one in zip(("with a layout", "and compared on all ranks"), others, strict=True):
        print(f"{name}: {one[0]:.2f} ms of CPU, {one[1]:.2f} ms: {one[0] / hand[0]:.3f}, {one[1] / hand[1]:.3f} times")
