"""`../ppo.py` with a dict of tensors: every entry of the rollout is allocated, written and flattened by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.distributions import Categorical

STEPS, ENVIRONMENTS, UPDATES, SOLVED = 128, 16, 100, 475.0
DISCOUNT, TRACE, CLIP = 0.98, 0.9, 0.2
PICTURE = Path("build", "ppo.svg")

Batch = dict[str, Tensor]


def build() -> nn.ModuleDict:
    """Build two networks that read the same measurements."""

    def layers(width: int) -> nn.Sequential:
        return nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, width))

    return nn.ModuleDict({"actor": layers(2), "critic": nn.Sequential(layers(1), nn.Flatten(-2))})


@torch.no_grad()
def collect(
    agent: nn.ModuleDict, environments: VectorEnv[Any, Any, Any], state: Tensor, returns: list[float]
) -> tuple[Batch, Tensor]:
    """Return a batch `[STEPS, ENVIRONMENTS]` and the next state; add rewards of finished episodes to `returns`."""
    size = (STEPS, ENVIRONMENTS)
    rollout = {name: torch.zeros(size) for name in ("log_prob", "value", "reward", "advantage")}
    rollout["state"] = torch.zeros(*size, 4)
    rollout["action"] = torch.zeros(size, dtype=torch.int64)
    rollout["done"] = torch.zeros(size, dtype=torch.bool)
    for t in range(STEPS):
        choice = Categorical(logits=agent["actor"](state), validate_args=False)
        action = choice.sample()
        measured, reward, ended, cut, info = environments.step(action.numpy())
        done = torch.from_numpy(ended | cut)
        rollout["state"][t] = state
        rollout["action"][t] = action
        rollout["log_prob"][t] = choice.log_prob(action)
        rollout["value"][t] = agent["critic"](state)
        rollout["reward"][t] = torch.from_numpy(reward)
        rollout["done"][t] = done
        if done.any():
            returns += info["episode"]["r"][done.numpy()].tolist()
        state = torch.from_numpy(measured)
    following, advantage = agent["critic"](state), torch.zeros(ENVIRONMENTS)
    for t in reversed(range(STEPS)):
        goes_on = 1 - rollout["done"][t].float()
        surprise = rollout["reward"][t] + DISCOUNT * goes_on * following - rollout["value"][t]
        advantage = surprise + DISCOUNT * TRACE * goes_on * advantage
        rollout["advantage"][t] = advantage
        following = rollout["value"][t]
    return rollout, state


def improve(agent: nn.ModuleDict, optimizer: torch.optim.Optimizer, rollout: Batch) -> None:
    """Train for some epochs over the steps in random order; clipping keeps the policy close to the one that acted."""
    for _ in range(6):
        for index in torch.randperm(STEPS * ENVIRONMENTS).split(256):
            batch = {name: value.flatten(0, 1)[index] for name, value in rollout.items()}
            choice = Categorical(logits=agent["actor"](batch["state"]), validate_args=False)
            ratio = (choice.log_prob(batch["action"]) - batch["log_prob"]).exp()
            gain = (batch["advantage"] - batch["advantage"].mean()) / (batch["advantage"].std() + 1e-8)
            actor = -torch.minimum(ratio * gain, ratio.clamp(1 - CLIP, 1 + CLIP) * gain).mean()
            critic = nn.functional.smooth_l1_loss(agent["critic"](batch["state"]), batch["value"] + batch["advantage"])
            optimizer.zero_grad()
            (actor + 0.5 * critic - 0.005 * choice.entropy().mean()).backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()


def main() -> None:
    """Collect and improve until the mean of the last 100 episodes reaches the CartPole-v1 threshold for solved."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    plain = SyncVectorEnv([lambda: gym.make("CartPole-v1")] * ENVIRONMENTS, autoreset_mode=AutoresetMode.SAME_STEP)
    environments = gym.wrappers.vector.RecordEpisodeStatistics(plain)
    agent = build()
    optimizer = torch.optim.Adam(agent.parameters(), lr=2e-3)
    state, returns, curve = torch.from_numpy(environments.reset(seed=0)[0]), list[float](), [0.0]
    for update in range(UPDATES):
        for group in optimizer.param_groups:
            group["lr"] = 2e-3 * (1 - update / UPDATES)
        rollout, state = collect(agent, environments, state, returns)
        improve(agent, optimizer, rollout)
        curve.append(sum(returns[-100:]) / len(returns[-100:]))
        print(f"{(update + 1) * STEPS * ENVIRONMENTS} steps: mean reward {curve[-1]:.0f}")
        if curve[-1] >= SOLVED:
            break
    figure = Figure(figsize=(6, 3), layout="constrained")
    axes = figure.subplots()
    axes.plot(curve)
    axes.axhline(SOLVED, color="gray", linestyle="--")
    axes.set(xlabel=f"updates of {STEPS * ENVIRONMENTS} steps", ylabel="reward of the last 100 episodes")
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE)
    assert curve[-1] >= SOLVED


if __name__ == "__main__":
    main()
