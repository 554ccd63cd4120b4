"""Modules and tasks that the programs of torchrl share."""

from __future__ import annotations

import torch
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.envs import Compose, DoubleToFloat, GymEnv, StepCounter, TransformedEnv
from torchrl.modules import NormalParamExtractor, ProbabilisticActor, TanhNormal, ValueOperator


def mlp(reads, writes):
    """A small network."""
    return nn.Sequential(nn.Linear(reads, 32), nn.Tanh(), nn.Linear(32, writes))


class Joined(nn.Module):
    """A network over an observation and an action."""

    def __init__(self):
        super().__init__()
        self.net = mlp(4, 1)

    def forward(self, observation, action):
        """The value of an action."""
        return self.net(torch.cat([observation, action], -1))


def make_pendulum():
    """Gymnasium's pendulum, with at most 50 steps in an episode."""
    env = TransformedEnv(GymEnv("Pendulum-v1"), Compose(DoubleToFloat(), StepCounter(50)))
    env.set_seed(0)
    return env


def make_actor(env):
    """An actor that draws torques."""
    net = nn.Sequential(mlp(3, 2), NormalParamExtractor())
    return ProbabilisticActor(
        TensorDictModule(net, ["observation"], ["loc", "scale"]),
        in_keys=["loc", "scale"],
        out_keys=["action"],
        distribution_class=TanhNormal,
        distribution_kwargs={"low": -2.0, "high": 2.0},
        spec=env.action_spec,
        return_log_prob=False,
    )


def make_critic():
    """The value of an action of the pendulum."""
    return ValueOperator(Joined(), in_keys=["observation", "action"])
