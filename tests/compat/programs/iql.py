"""IQL of torchrl on gymnasium's pendulum, from steps of a random policy."""

from __future__ import annotations

import torch
from _rl import make_actor, make_critic, make_pendulum, mlp
from _shared import report
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
from torchrl.modules import ValueOperator
from torchrl.objectives import IQLLoss, SoftUpdate


def train():
    """40 updates from 400 steps."""
    env = make_pendulum()
    value = ValueOperator(mlp(3, 1), in_keys=["observation"])
    loss = IQLLoss(
        make_actor(env), make_critic(), value_network=value, num_qvalue_nets=2, temperature=3.0, expectile=0.7
    )
    loss.make_value_estimator(gamma=0.99)
    follow = SoftUpdate(loss, eps=0.99)
    optimizer = torch.optim.Adam(loss.parameters(), 1e-3)
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(1000), batch_size=32)
    for data in Collector(env, None, frames_per_batch=50, total_frames=400):
        buffer.extend(data)
    for _ in range(40):
        parts = loss(buffer.sample())
        total = parts["loss_actor"] + parts["loss_qvalue"] + parts["loss_value"]
        total.backward()
        optimizer.step()
        optimizer.zero_grad()
        follow.step()
        yield total, parts["loss_actor"], parts["loss_value"]


report(train)
