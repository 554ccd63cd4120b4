"""PPO of rsl-rl: `OnPolicyRunner` on a vectorized task of points that must reach the origin."""

from __future__ import annotations

import torch
from _shared import report
from rsl_rl.env import VecEnv
from rsl_rl.runners import OnPolicyRunner
from tensordict import TensorDict

MODEL = {"class_name": "MLPModel", "hidden_dims": [32, 32], "activation": "elu"}
SETTINGS = {
    "num_steps_per_env": 16,
    "save_interval": 1000,
    "obs_groups": {"actor": ["policy"], "critic": ["policy", "clock"]},
    "actor": MODEL | {"distribution_cfg": {"class_name": "GaussianDistribution", "init_std": 1.0}},
    "critic": MODEL,
    "algorithm": {"class_name": "PPO", "num_learning_epochs": 3, "num_mini_batches": 4, "schedule": "adaptive"},
}


class Points(VecEnv):
    """Points in the plane, moved by actions; each episode has 20 steps."""

    num_envs, num_actions, max_episode_length, device, cfg = 32, 2, 20, "cpu", {}

    def __init__(self):
        self.episode_length_buf = torch.zeros(self.num_envs, dtype=torch.long)
        self.places = torch.randn(self.num_envs, 2)

    def get_observations(self):
        """The places, and how much of the episode has passed."""
        clock = self.episode_length_buf[:, None] / self.max_episode_length
        return TensorDict({"policy": self.places.clone(), "clock": clock}, batch_size=[self.num_envs])

    def step(self, actions):
        """Move the points; those at the end of their episode start again."""
        self.places += 0.1 * actions.clamp(-1, 1)
        self.episode_length_buf += 1
        rewards = -self.places.norm(dim=-1)
        ended = self.episode_length_buf >= self.max_episode_length
        self.places[ended] = torch.randn(int(ended.sum()), 2)
        self.episode_length_buf[ended] = 0
        return self.get_observations(), rewards, ended, {"time_outs": ended}


def train():
    """Train for some iterations, and give the sums of all parameters."""
    runner = OnPolicyRunner(Points(), SETTINGS, log_dir=None, device="cpu")
    for _ in range(12):
        runner.learn(num_learning_iterations=1)
        policy = runner.alg.actor
        yield sum(p.abs().sum() for p in policy.parameters()), runner.env.places.norm(dim=-1).mean()


report(train)
