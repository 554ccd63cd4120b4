"""Replay buffers of torchrl: storages, samplers and writers; filled past their size, sampled, read and saved."""

from __future__ import annotations

import tempfile

import torch
from _shared import report
from tensordict import TensorDict
from torchrl.data import (
    LazyMemmapStorage,
    LazyStackStorage,
    LazyTensorStorage,
    ListStorage,
    RandomSampler,
    ReplayBuffer,
    ReplayBufferEnsemble,
    RoundRobinWriter,
    SamplerWithoutReplacement,
    SliceSampler,
    SliceSamplerWithoutReplacement,
    TensorDictMaxValueWriter,
    TensorDictReplayBuffer,
    TensorDictRoundRobinWriter,
)

STORAGES = (ListStorage, LazyStackStorage, LazyTensorStorage, LazyMemmapStorage)
SAMPLERS = {
    "random": lambda size: RandomSampler(),
    "all once": lambda size: SamplerWithoutReplacement(),
    "the last may be short": lambda size: SamplerWithoutReplacement(drop_last=True),
    "slices": lambda size: SliceSampler(traj_key="episode", num_slices=2),
    "slices of any length": lambda size: SliceSampler(traj_key="episode", num_slices=2, strict_length=False),
    "slices once": lambda size: SliceSamplerWithoutReplacement(traj_key="episode", num_slices=2, strict_length=False),
}
WRITERS = (TensorDictRoundRobinWriter, RoundRobinWriter, lambda: TensorDictMaxValueWriter(rank_key="reward"))


def make_steps(start, count=12):
    """Steps of episodes of six steps, with nested entries."""
    place = torch.arange(start, start + count)
    after = TensorDict({"obs": torch.randn(count, 3), "done": (place % 6 == 5)[:, None]}, [count])
    return TensorDict(
        {"obs": torch.randn(count, 3), "episode": place // 6, "reward": torch.rand(count), "next": after}, [count]
    )


def numbers(data):
    """The sum of each entry, in the order of the keys."""
    leaves = sorted(data.items(True, True), key=lambda item: str(item[0]))
    return [torch.as_tensor(value).double().sum() for _, value in leaves if isinstance(value, torch.Tensor)]


def use(buffer):
    """What is written, sampled, updated, read by position, and left after a state dict has passed."""
    written = buffer.extend(make_steps(0))
    buffer.add(make_steps(12, 1)[0])
    buffer.extend(make_steps(18))
    sample = buffer.sample(4)
    yield [len(buffer), *numbers(sample), torch.as_tensor(written).sum()]
    yield numbers(buffer.sample(4))
    yield numbers(buffer[:5])
    yield numbers(buffer[torch.tensor([0, 3])])


def train():
    """Every storage with every sampler and writer, then buffers of buffers and a saved one."""
    for storage in STORAGES:
        for writer in WRITERS:
            yield from use(TensorDictReplayBuffer(storage=storage(20), writer=writer(), batch_size=4))
        yield from use(ReplayBuffer(storage=storage(20), batch_size=4, collate_fn=torch.stack))
    for storage in STORAGES[2:]:
        for make in SAMPLERS.values():
            yield from use(TensorDictReplayBuffer(storage=storage(20), sampler=make(20), batch_size=4))
    parts = [TensorDictReplayBuffer(storage=LazyTensorStorage(20), batch_size=4) for _ in range(2)]
    for start, part in enumerate(parts):
        part.extend(make_steps(12 * start))
    both = ReplayBufferEnsemble(*parts, p=[0.3, 0.7], batch_size=8)
    yield numbers(both.sample())
    with tempfile.TemporaryDirectory() as folder:
        parts[0].dumps(folder)
        other = TensorDictReplayBuffer(storage=LazyTensorStorage(20), batch_size=4)
        other.loads(folder)
        yield numbers(other[:])
    last = TensorDictReplayBuffer(storage=LazyTensorStorage(20), batch_size=4)
    last.extend(make_steps(0))
    last.load_state_dict(parts[1].state_dict())
    yield numbers(last[:])


report(train)
