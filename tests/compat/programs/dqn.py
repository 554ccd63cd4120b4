"""DQN of torchrl on gymnasium's cart pole: exploration, replay buffer, delayed targets."""

from __future__ import annotations

import torch
from _rl import mlp
from _shared import report
from tensordict.nn import TensorDictSequential
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
from torchrl.envs import GymEnv, StepCounter, TransformedEnv
from torchrl.modules import EGreedyModule, QValueActor
from torchrl.objectives import DQNLoss, SoftUpdate


def train():
    """Eight batches of 64 steps, four updates each."""
    env = TransformedEnv(GymEnv("CartPole-v1"), StepCounter())
    env.set_seed(0)
    values = QValueActor(mlp(4, 2), in_keys=["observation"], spec=env.action_spec)
    policy = TensorDictSequential(values, EGreedyModule(env.action_spec, eps_init=0.5, annealing_num_steps=500))
    loss = DQNLoss(values, action_space=env.action_spec, delay_value=True)
    loss.make_value_estimator(gamma=0.99)
    follow = SoftUpdate(loss, eps=0.99)
    optimizer = torch.optim.Adam(loss.parameters(), 1e-3)
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(1000), batch_size=32)
    for data in Collector(env, policy, frames_per_batch=64, total_frames=512):
        buffer.extend(data)
        for _ in range(4):
            error = loss(buffer.sample())["loss"]
            error.backward()
            optimizer.step()
            optimizer.zero_grad()
            follow.step()
        yield error, data["next", "step_count"].max()


report(train)
