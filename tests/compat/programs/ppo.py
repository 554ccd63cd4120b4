"""PPO of torchrl on gymnasium's cart pole: collector, GAE, replay buffer and clipped loss."""

from __future__ import annotations

import torch
from _rl import mlp
from _shared import report
from tensordict.nn import TensorDictModule
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, ReplayBuffer
from torchrl.envs import Compose, GymEnv, RewardSum, StepCounter, TransformedEnv
from torchrl.modules import OneHotCategorical, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE


def train():
    """Four batches of 128 steps, two epochs each."""
    env = TransformedEnv(GymEnv("CartPole-v1"), Compose(StepCounter(), RewardSum()))
    env.set_seed(0)
    actor = ProbabilisticActor(
        TensorDictModule(mlp(4, 2), ["observation"], ["logits"]),
        in_keys=["logits"],
        out_keys=["action"],
        distribution_class=OneHotCategorical,
        return_log_prob=True,
        spec=env.action_spec,
    )
    critic = ValueOperator(mlp(4, 1), in_keys=["observation"])
    gae = GAE(gamma=0.99, lmbda=0.95, value_network=critic, average_gae=True)
    loss = ClipPPOLoss(actor, critic)
    optimizer = torch.optim.Adam(loss.parameters(), 3e-4)
    buffer = ReplayBuffer(storage=LazyTensorStorage(128), batch_size=32)
    for data in Collector(env, actor, frames_per_batch=128, total_frames=512, device="cpu"):
        for _ in range(2):
            gae(data)
            buffer.extend(data.reshape(-1))
            for _ in range(4):
                parts = loss(buffer.sample())
                total = parts["loss_objective"] + parts["loss_critic"] + parts["loss_entropy"]
                total.backward()
                optimizer.step()
                optimizer.zero_grad()
        yield total, data["next", "reward"].sum(), data["next", "step_count"].max(), data["advantage"].mean()


report(train)
