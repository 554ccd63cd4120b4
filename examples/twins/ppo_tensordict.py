"""`../ppo.py` with tensordict: steps are stacked to a rollout, whose entries nothing declares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from matplotlib.figure import Figure
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torch.distributions import Categorical

STEPS, ENVIRONMENTS, UPDATES, SOLVED = 128, 16, 100, 475.0
DISCOUNT, TRACE, CLIP = 0.98, 0.9, 0.2
PICTURE = Path("build", "ppo.svg")


def build() -> TensorDictSequential:
    """Build two networks that read the same measurements."""

    def layers(width: int) -> nn.Sequential:
        return nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, width))

    return TensorDictSequential(
        TensorDictModule(layers(2), in_keys=["measured"], out_keys=["logits"]),
        TensorDictModule(nn.Sequential(layers(1), nn.Flatten(-2)), in_keys=["measured"], out_keys=["value"]),
    )


@torch.no_grad()
def collect(
    agent: TensorDictSequential, environments: VectorEnv[Any, Any, Any], state: TensorDict, returns: list[float]
) -> tuple[TensorDict, TensorDict]:
    """Return a batch `[STEPS, ENVIRONMENTS]` and the next state; add rewards of finished episodes to `returns`."""
    steps = []
    for _ in range(STEPS):
        policy = agent(state.copy())  # a call writes its outputs into what it is given
        choice = Categorical(logits=policy["logits"], validate_args=False)
        action = choice.sample()
        measured, reward, ended, cut, info = environments.step(action.numpy())
        done = torch.from_numpy(ended | cut)
        step = {
            "state": state,
            "action": action,
            "log_prob": choice.log_prob(action),
            "value": policy["value"],
            "reward": torch.from_numpy(reward).float(),
            "done": done,
            "advantage": torch.zeros(ENVIRONMENTS),
        }
        steps.append(TensorDict(step, [ENVIRONMENTS]))
        if done.any():
            returns += info["episode"]["r"][done.numpy()].tolist()
        state = TensorDict({"measured": torch.from_numpy(measured)}, [ENVIRONMENTS])
    rollout = TensorDict.stack(steps)
    following, advantage = agent(state.copy())["value"], torch.zeros(ENVIRONMENTS)
    for step in reversed(rollout.unbind(0)):  # the steps are views, so this writes into the rollout
        goes_on = 1 - step["done"].float()
        surprise = step["reward"] + DISCOUNT * goes_on * following - step["value"]
        advantage = surprise + DISCOUNT * TRACE * goes_on * advantage
        step["advantage"].copy_(advantage)
        following = step["value"]
    return rollout, state


def improve(agent: TensorDictSequential, optimizer: torch.optim.Optimizer, rollout: TensorDict) -> None:
    """Train for some epochs over the steps in random order; clipping keeps the policy close to the one that acted."""
    for _ in range(6):
        steps = rollout.reshape(-1)
        for batch in steps[torch.randperm(len(steps))].split(256):
            policy = agent(batch["state"])
            choice = Categorical(logits=policy["logits"], validate_args=False)
            ratio = (choice.log_prob(batch["action"]) - batch["log_prob"]).exp()
            gain = (batch["advantage"] - batch["advantage"].mean()) / (batch["advantage"].std() + 1e-8)
            actor = -torch.minimum(ratio * gain, ratio.clamp(1 - CLIP, 1 + CLIP) * gain).mean()
            critic = nn.functional.smooth_l1_loss(policy["value"], batch["value"] + batch["advantage"])
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
    state = TensorDict({"measured": torch.from_numpy(environments.reset(seed=0)[0])}, [ENVIRONMENTS])
    returns, curve = list[float](), [0.0]
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
