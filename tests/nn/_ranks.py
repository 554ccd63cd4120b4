"""Two processes over gloo, and the networks that they train: a module that spawned processes can import."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor, nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from tensorclass import TensorClass, TensorDict
from tensorclass.errors import SchemaError
from tensorclass.nn import TensorClassModule, TensorClassSequential, TensorDictModule
from tensorclass.typing import Float, Float32
from tests.nn._deployed import FORMS, Form, tensors

RANKS = 2
DATA_PARALLEL: dict[str, Any] = {
    "ddp": {},
    "ddp unused": {"find_unused_parameters": True},
    "ddp static": {"static_graph": True},
}
ROWS = 6


def run(worker: Callable[..., None], folder: Path, *args: Any) -> list[Any]:
    """What each rank has saved."""
    mp.spawn(_start, (worker, str(folder), *args), nprocs=RANKS)
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(RANKS)]


def _start(rank: int, worker: Callable[..., Any], folder: str, *args: Any) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    os.environ.update(GLOO_SOCKET_IFNAME="lo", MASTER_ADDR="127.0.0.1")
    store = dist.FileStore(os.path.join(folder, "store"), RANKS)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=RANKS, timeout=timedelta(seconds=60))
    try:
        torch.save(worker(rank, *args), os.path.join(folder, f"{rank}.pt"))
    finally:
        dist.destroy_process_group()


def layers(form: Form) -> nn.Module:
    """The network with the same weights on every rank, without what depends on the split of the batch."""
    torch.manual_seed(0)
    found = form.raw()
    return found.eval()


def part(rank: int) -> tuple[Tensor, Tensor]:
    """The rows of a rank."""
    x, y = tensors(ROWS)
    rows = ROWS // RANKS
    return x[rank * rows : (rank + 1) * rows], y[rank * rows : (rank + 1) * rows]


def loss_of(values: Any) -> Tensor:
    """A mean over rows, so that the mean over ranks is that of the whole batch."""
    found: Tensor = sum(
        value.square().flatten(1).sum(-1).mean() if value.ndim > 1 else value.mean() for value in values
    )
    return found


def whole(tensor: Tensor) -> Tensor:
    """All of a tensor that may be sharded."""
    return (tensor.full_tensor() if isinstance(tensor, DTensor) else tensor).detach().clone()


def wrapped(module: Any, how: str) -> Any:
    """The module in data parallel, or sharded as a whole and module by module."""
    if how in DATA_PARALLEL:
        return DistributedDataParallel(module, **DATA_PARALLEL[how])
    mesh = dist.device_mesh.init_device_mesh("cpu", (RANKS,))
    if how == "fsdp each":
        for part in list(module.modules()):
            if isinstance(part, nn.Linear):
                fully_shard(part, mesh=mesh)
    return fully_shard(module, mesh=mesh)


def step(rank: int, how: str, names: tuple[str, ...]) -> dict[str, Any]:
    """Gradients and parameters after two steps of each form of the network, by the order of the parameters."""
    found = {}
    for name in names:
        form = FORMS[name]
        network = layers(form)
        order = [id(p) for p in network.parameters()]
        module = form.build(network).eval()
        places = [order.index(id(p)) for p in module.parameters()]
        module = wrapped(module, how)
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        gradients: list[Any] = []
        for number in range(2):
            x, y = part(rank)
            result = module(form.batch(x + number, y))
            optimizer.zero_grad()
            loss_of([result[key] for key in form.outputs]).backward()
            gradients.append(sorted_by(places, [whole(p.grad) for p in module.parameters()]))
            optimizer.step()
        found[name] = gradients, sorted_by(places, [whole(p) for p in module.parameters()])
    return found


def sorted_by(places: list[int], values: list[Tensor]) -> list[Tensor]:
    """Values in the order of the raw network's parameters."""
    return [value for _, value in sorted(zip(places, values, strict=True), key=lambda pair: pair[0])]


def expected(name: str) -> tuple[list[list[Tensor]], list[Tensor]]:
    """The same on the whole batch, by the raw network."""
    form = FORMS[name]
    network = layers(form)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    gradients = []
    for number in range(2):
        x, y = tensors(ROWS)
        optimizer.zero_grad()
        loss_of(network(x + number, y)).backward()
        gradients.append([p.grad.clone() for p in network.parameters()])
        optimizer.step()
    return gradients, [p.detach() for p in network.parameters()]


class Given(TensorClass):
    """Single precision in."""

    x: Float32[Tensor, "4"]


class Family(TensorClass):
    """Any floating dtype out."""

    y: Float[Tensor, "3"]


class Single(TensorClass):
    """Single precision out."""

    y: Float32[Tensor, "3"]


def precision(rank: int) -> dict[str, str]:
    """What comes out of modules that are sharded with parameters in bfloat16, and the dtypes of their gradients."""
    mesh = dist.device_mesh.init_device_mesh("cpu", (RANKS,))
    half, back = ({"param_dtype": torch.bfloat16, "output_dtype": dtype} for dtype in (None, torch.float32))
    found = {}
    for name, output, policy in (("half", Family, half), ("back", Family, back), ("single", Single, half)):
        inner = TensorClassModule(nn.Linear(4, 3), in_fields=Given.x, out_fields=output.y, name="inner")
        module: Any = TensorClassSequential(inner, input=Given, output=output)
        fully_shard(module, mesh=mesh, mp_policy=MixedPrecisionPolicy(**policy))
        try:
            y = module(Given(torch.ones(2, 4))).y
            y.sum().backward()
            found[name] = f"{y.dtype} {module.inner.weight.grad.dtype}"
        except SchemaError as error:
            found[name] = error.problems[0].given
    keyed_module = TensorDictModule(nn.Linear(4, 3), in_keys=["x"], out_keys=["y"])
    keyed = fully_shard(keyed_module, mesh=mesh, mp_policy=MixedPrecisionPolicy(**half))
    found["keyed"] = str(keyed(TensorDict(x=torch.ones(2, 4)))["y"].dtype)
    return found
