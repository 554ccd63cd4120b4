"""Train on several ranks from a dataset on disk, with a checkpoint after every few steps, and resume from it.

    torchrun --nproc-per-node 2 examples/distributed.py --folder runs/one

If it is killed, run it again: it resumes from the last checkpoint, at the exact row, and reaches the loss of an
uninterrupted run.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import warnings
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict_loader import load as load_checkpoint
from torch.distributed.checkpoint.state_dict_saver import save as save_checkpoint
from torch.nn.parallel import DistributedDataParallel

from tensorclass import TensorClassDataset, tensorclass
from tensorclass.typing import Float32


@tensorclass
class Sample:
    """A point and its target value."""

    x: Float32[Tensor, "4"]
    y: Float32[Tensor, ""]


@tensorclass
class Losses:
    """The result of a step."""

    loss: Float32[Tensor, ""]


def prepare(folder: Path) -> TensorClassDataset[Sample]:
    """Write the dataset on one rank, unless it exists."""
    if dist.get_rank() == 0 and not (folder / "data" / "manifest.json").exists():
        torch.manual_seed(0)
        x = torch.randn(640, 4)
        with TensorClassDataset.create(folder / "data", Sample, rows_per_shard=100, resume=True) as writer:
            writer.append(Sample(x=x, y=(x * torch.tensor([1.0, -2.0, 0.5, 3.0])).sum(-1)))
    dist.barrier()
    return TensorClassDataset(folder / "data", Sample)


def save(folder: Path, step: int, state: dict[str, Any], loader: Any) -> None:
    """Write a checkpoint; it is valid once the file that names it exists."""
    save_checkpoint(state, checkpoint_id=folder / f"step-{step}")
    loaders: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(loaders, loader.state_dict())
    if dist.get_rank() == 0:
        new = folder / "latest.json.new"
        new.write_text(json.dumps({"step": step, "loaders": loaders}))
        new.replace(folder / "latest.json")
    dist.barrier()


def load(folder: Path, model: nn.Module, state: dict[str, Any], loader: Any) -> int:
    """Load the last checkpoint; return its step."""
    latest = folder / "latest.json"
    if not latest.exists():
        return 0
    found = json.loads(latest.read_text())
    load_checkpoint(state, checkpoint_id=folder / f"step-{found['step']}")
    model.load_state_dict(state["model"])
    loader.load_state_dict(found["loaders"][dist.get_rank()])
    return int(found["step"])


def train(folder: Path, steps: int, every: int, die_at: int) -> float:
    """Run some steps of SGD; return the loss of the last step over all ranks."""
    data = prepare(folder)
    torch.manual_seed(1)
    model = DistributedDataParallel(nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)  # without momentum it has no state
    loader = data.loader(batch_size=16, shuffle=True, seed=3, pad_last=True)  # rank and world size come from torchrun
    state = {"model": model.state_dict()}
    step = load(folder, model, state, loader)
    loss = torch.zeros(())
    while step < steps:
        for batch in loader:
            loss = (model(batch.x).squeeze(-1) - batch.y).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step % every == 0:
                save(folder, step, {"model": model.state_dict()}, loader)
            if step == die_at and dist.get_rank() == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            if step == steps:
                break
    report = Losses(loss=loss.detach())
    report.all_reduce(dist.ReduceOp.AVG)
    return report.loss.item()


def main() -> None:
    """Run one rank."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, default=Path("build/distributed"))
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--every", type=int, default=7)
    parser.add_argument("--die-at", type=int, default=0, help="rank 1 kills itself after this step")
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # of torch.distributed.checkpoint
    for name, value in (("RANK", "0"), ("WORLD_SIZE", "1"), ("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "0")):
        os.environ.setdefault(name, value)  # without torchrun, one rank
    dist.init_process_group("gloo")
    given.folder.mkdir(parents=True, exist_ok=True)
    loss = train(given.folder, given.steps, given.every, given.die_at)
    if dist.get_rank() == 0:
        print(f"loss {loss:.9f} after {given.steps} steps on {dist.get_world_size()} ranks")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
