"""What each rank does under torchrun: `python _trainers.py KIND FOLDER` writes the rows that this rank was given."""

from __future__ import annotations

import importlib
import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DistributedSampler

from tensorclass import TensorClassDataset
from tensorclass.errors import ArgumentError
from tests._vision import declare_operators
from tests.parallel._functions import Item


def with_lightning(data: Any) -> list[int]:
    """A trainer over two ranks; the loader is made in its hook, and is not sharded once more."""
    declare_operators()
    lightning: Any = importlib.import_module("lightning")

    seen: list[int] = []

    class Net(lightning.LightningModule):  # type: ignore[misc, name-defined]  # of a package that is imported here
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 1)

        def train_dataloader(self) -> Any:
            return data.loader(batch_size=4, shuffle=True, pad_last=True)

        def training_step(self, batch: Item, number: int) -> Any:
            assert type(batch) is Item
            seen.extend(batch.label.tolist())
            return self.linear(batch.x).mean()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 0.1)

    quiet: dict[str, Any] = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    how: dict[str, Any] = {"accelerator": "cpu", "devices": 2, "strategy": "ddp", "use_distributed_sampler": False}
    lightning.Trainer(max_epochs=1, enable_checkpointing=False, **how, **quiet).fit(Net())
    return seen


def with_accelerate(data: Any) -> list[int]:
    """The model is prepared; the loader shards by itself."""
    accelerator: Any = importlib.import_module("accelerate").Accelerator(cpu=True)
    net = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    net, optimizer = accelerator.prepare(net, optimizer)
    seen: list[int] = []
    for batch in data.loader(batch_size=4, shuffle=True, pad_last=True):
        batch = batch.to(accelerator.device)
        seen += batch.label.tolist()
        accelerator.backward(net(batch.x).mean())
        optimizer.step()
    return seen


def with_prepare(data: Any) -> list[int]:
    """A prepared loader goes on from accelerate's own state, tells when an epoch ends, and gathers each row once."""
    accelerate: Any = importlib.import_module("accelerate")
    accelerator = accelerate.Accelerator(cpu=True)
    net = accelerator.prepare(nn.Linear(3, 1))

    def loader() -> Any:
        return accelerator.prepare(data.loader(batch_size=4, shuffle=True, pad_last=True))

    seen: list[int] = []
    batches = iter(first := loader())
    for _ in range(3):
        seen += next(batches).label.tolist()
    accelerator.save_state(str(data.paths[0]) + "-state")
    accelerator.wait_for_everyone()
    state = first.state_dict()
    accelerator._dataloaders.clear()  # what a new process has
    again = loader()
    accelerator.load_state(str(data.paths[0]) + "-state")
    assert again.state_dict() == state
    ends, gathered = [], []
    for batch in again:
        assert type(batch) is Item
        seen += batch.label.tolist()
        with accelerator.accumulate(net):
            ends.append(accelerator.gradient_state.end_of_dataloader)
    assert ends == [False] * (len(ends) - 1) + [True]
    for batch in again:
        gathered += accelerator.gather_for_metrics(batch.label).tolist()
    assert sorted(gathered) == list(range(53))
    if accelerator.num_processes > 1:
        refused = data.loader(batch_size=4)
        with pytest.raises(ArgumentError, match="pad_last=True or drop_last=True"):
            accelerator.prepare(refused)
    return seen


def with_fabric(data: Any) -> list[int]:
    """A loader that Fabric has set up goes on from a checkpoint of Fabric."""
    declare_operators()
    world = int(os.environ["WORLD_SIZE"])
    fabric: Any = importlib.import_module("lightning").Fabric(accelerator="cpu", devices=world, strategy="ddp")
    fabric.launch()

    def loader() -> Any:
        return fabric.setup_dataloaders(data.loader(batch_size=4, shuffle=True, pad_last=True))

    seen: list[int] = []
    batches = iter(first := loader())
    for _ in range(3):
        seen += next(batches).label.tolist()
    fabric.save(str(data.paths[0]) + "-state", {"loader": first})
    again = loader()
    fabric.load(str(data.paths[0]) + "-state", {"loader": again})
    for batch in again:
        assert type(batch) is Item
        seen += batch.label.tolist()
    return seen


def with_stateful(data: Any) -> list[int]:
    """A `StatefulDataLoader` with the sampler of torch, which goes on from its state in the middle of the epoch."""
    stateful: Any = importlib.import_module("torchdata.stateful_dataloader")
    dist.init_process_group("gloo")

    def loader() -> Any:
        return stateful.StatefulDataLoader(data, batch_size=4, sampler=DistributedSampler(data, shuffle=True))

    first = loader()
    seen: list[int] = []
    batches = iter(first)
    for _ in range(3):
        batch = next(batches)
        assert type(batch) is Item
        seen += batch.label.tolist()
    state, again = first.state_dict(), loader()
    again.load_state_dict(state)
    for batch in again:
        seen += batch.label.tolist()
    return seen


WORK = {
    "lightning": with_lightning,
    "accelerate": with_accelerate,
    "prepare": with_prepare,
    "fabric": with_fabric,
    "stateful": with_stateful,
}

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    folder = Path(sys.argv[2])
    work = WORK[sys.argv[1]]
    found = work(TensorClassDataset(folder / "source", Item))
    (folder / f"seen-{os.environ['RANK']}.json").write_text(json.dumps(found))
    if dist.is_initialized():
        dist.destroy_process_group()
