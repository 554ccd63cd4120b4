"""SAC of torchrl on gymnasium's pendulum."""

from __future__ import annotations

import torch
from _rl import make_actor, make_critic, make_pendulum
from _shared import report
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
from torchrl.objectives import SACLoss, SoftUpdate


def train():
    """Eight batches of 50 steps, four updates each."""
    env = make_pendulum()
    actor = make_actor(env)
    loss = SACLoss(actor, make_critic(), num_qvalue_nets=2)
    loss.make_value_estimator(gamma=0.99)
    follow = SoftUpdate(loss, eps=0.99)
    optimizer = torch.optim.Adam(loss.parameters(), 1e-3)
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(1000), batch_size=32)
    for data in Collector(env, actor, frames_per_batch=50, total_frames=400):
        buffer.extend(data)
        for _ in range(4):
            parts = loss(buffer.sample())
            total = parts["loss_actor"] + parts["loss_qvalue"] + parts["loss_alpha"]
            total.backward()
            optimizer.step()
            optimizer.zero_grad()
            follow.step()
        yield total, data["next", "reward"].sum()


report(train)
