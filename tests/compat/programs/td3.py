"""TD3 and DDPG of torchrl on gymnasium's pendulum."""

from __future__ import annotations

import torch
from _rl import make_critic, make_pendulum, mlp
from _shared import report
from tensordict.nn import TensorDictModule, TensorDictSequential
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
from torchrl.modules import AdditiveGaussianModule, TanhModule
from torchrl.objectives import DDPGLoss, SoftUpdate, TD3Loss


def learn(env, make_loss):
    """Batches of 50 steps of an exploring actor, four updates each."""
    actor = TensorDictSequential(
        TensorDictModule(mlp(3, 1), ["observation"], ["action"]),
        TanhModule(in_keys=["action"], spec=env.full_action_spec),
    )
    explore = AdditiveGaussianModule(env.action_spec, sigma_init=0.3, sigma_end=0.1, annealing_num_steps=200)
    loss = make_loss(actor, make_critic())
    loss.make_value_estimator(gamma=0.99)
    follow = SoftUpdate(loss, eps=0.99)
    optimizer = torch.optim.Adam(loss.parameters(), 1e-3)
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(1000), batch_size=32)
    for data in Collector(env, TensorDictSequential(actor, explore), frames_per_batch=50, total_frames=200):
        explore.step(data.numel())
        buffer.extend(data)
        for _ in range(4):
            parts = loss(buffer.sample())
            total = sum(parts[key] for key in parts.keys() if key.startswith("loss"))  # noqa: SIM118  # a container
            total.backward()
            optimizer.step()
            optimizer.zero_grad()
            follow.step()
        yield total, data["next", "reward"].sum(), data["action"].abs().sum()


def train():
    """Both losses."""
    env = make_pendulum()
    yield from learn(env, lambda actor, critic: TD3Loss(actor, critic, action_spec=env.action_spec))
    yield from learn(env, lambda actor, critic: DDPGLoss(actor, critic, delay_actor=True))


report(train)
