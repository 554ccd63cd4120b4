"""What each rank does under torchrun: `python _trainers.py KIND FOLDER` writes the rows that this rank was given."""

from __future__ import annotations

import importlib
import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DistributedSampler

from tensorclass import TensorClassDataset
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


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    folder = Path(sys.argv[2])
    work = {"lightning": with_lightning, "accelerate": with_accelerate, "stateful": with_stateful}[sys.argv[1]]
    found = work(TensorClassDataset(folder / "source", Item))
    (folder / f"seen-{os.environ['RANK']}.json").write_text(json.dumps(found))
    dist.destroy_process_group()
