"""Proximal policy optimization on CartPole until the pole stays up: a rollout is one batch `[steps, environments]`.

`Step.zeros(STEPS, ENVIRONMENTS)` allocates the rollout, `rollout[t] = ...` writes one step of all environments, and
the policy learns from mini-batches of `rollout.reshape(-1)`, which have the same class.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.distributions import Categorical

from tensorclass import tensorclass
from tensorclass.nn import TensorClassSequential, stage
from tensorclass.typing import Bool, Float32, Int64

STEPS, ENVIRONMENTS, UPDATES, SOLVED = 128, 16, 100, 475.0
DISCOUNT, TRACE, CLIP = 0.98, 0.9, 0.2
PICTURE = Path("build", "ppo.svg")


@tensorclass
class State:
    """The measurements of the cart: position, speed, angle, and angular speed."""

    measured: Float32[Tensor, "4"]


@tensorclass
class Policy:
    """Scores of both actions, and the expected return of the rest of the episode."""

    logits: Float32[Tensor, "2"]
    value: Float32[Tensor, ""]


@tensorclass
class Step(State):
    """What was measured in one step, what was done, and the quantities computed from it afterwards."""

    action: Int64[Tensor, ""]
    log_prob: Float32[Tensor, ""]
    value: Float32[Tensor, ""]
    reward: Float32[Tensor, ""]
    done: Bool[Tensor, ""]
    advantage: Float32[Tensor, ""]


Agent = TensorClassSequential[State, Policy]


def build() -> Agent:
    """Build two networks that read the same measurements."""

    def layers(width: int) -> nn.Sequential:
        return nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, width))

    return TensorClassSequential(
        actor=stage(layers(2), State.measured, out=Policy.logits),
        critic=stage(nn.Sequential(layers(1), nn.Flatten(-2)), State.measured, out=Policy.value),
    )


@torch.no_grad()
def collect(
    agent: Agent, environments: VectorEnv[Any, Any, Any], state: State, returns: list[float]
) -> tuple[Step, State]:
    """Return a batch `[STEPS, ENVIRONMENTS]` and the next state; add rewards of finished episodes to `returns`."""
    rollout = Step.zeros((STEPS, ENVIRONMENTS))
    for t in range(STEPS):
        policy = agent(state)
        choice = Categorical(logits=policy.logits, validate_args=False)
        action = choice.sample()
        measured, reward, ended, cut, info = environments.step(action.numpy())
        done = torch.from_numpy(ended | cut)
        log_prob, reward = choice.log_prob(action), torch.from_numpy(reward).float()
        rollout[t] = Step(state.measured, action, log_prob, policy.value, reward, done, torch.zeros(ENVIRONMENTS))
        if done.any():
            returns += info["episode"]["r"][done.numpy()].tolist()
        state = State(measured=torch.from_numpy(measured))
    following, advantage = agent(state).value, torch.zeros(ENVIRONMENTS)
    for step in reversed(rollout.unbind(0)):  # the steps are views, so this writes into the rollout
        goes_on = 1 - step.done.float()
        advantage = step.reward + DISCOUNT * goes_on * following - step.value + DISCOUNT * TRACE * goes_on * advantage
        step.advantage.copy_(advantage)
        following = step.value
    return rollout, state


def improve(agent: Agent, optimizer: torch.optim.Optimizer, rollout: Step) -> None:
    """Train for some epochs over the steps in random order; clipping keeps the policy close to the one that acted."""
    for _ in range(6):
        for batch in rollout.reshape(-1).iter(256, shuffle=True):
            policy = agent(batch)
            choice = Categorical(logits=policy.logits, validate_args=False)
            ratio = (choice.log_prob(batch.action) - batch.log_prob).exp()
            gain = (batch.advantage - batch.advantage.mean()) / (batch.advantage.std() + 1e-8)
            actor = -torch.minimum(ratio * gain, ratio.clamp(1 - CLIP, 1 + CLIP) * gain).mean()
            critic = nn.functional.smooth_l1_loss(policy.value, batch.value + batch.advantage)
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
    state, returns, curve = State(measured=torch.from_numpy(environments.reset(seed=0)[0])), list[float](), [0.0]
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
