"""Environments and transforms of torchrl on gymnasium: batches with resets, and chains of transforms."""

from __future__ import annotations

import torch
from _shared import report
from tensordict import TensorDict
from torchrl.data import LazyTensorStorage, ReplayBuffer, Unbounded
from torchrl.envs import (
    CatFrames,
    CatTensors,
    ClipTransform,
    Compose,
    DoubleToFloat,
    DTypeCastTransform,
    FlattenObservation,
    GymEnv,
    InitTracker,
    ObservationNorm,
    RenameTransform,
    Reward2GoTransform,
    RewardClipping,
    RewardScaling,
    RewardSum,
    SelectTransform,
    SerialEnv,
    SignTransform,
    SqueezeTransform,
    StepCounter,
    TargetReturn,
    TensorDictPrimer,
    TimeMaxPool,
    TransformedEnv,
    UnsqueezeTransform,
    VecNorm,
    check_env_specs,
    step_mdp,
)
from torchrl.envs.utils import RandomPolicy

OBS = ["observation"]
TRANSFORMS = {
    "floats": DoubleToFloat,
    "count": lambda: StepCounter(7),
    "sum": RewardSum,
    "frames": lambda: CatFrames(N=3, dim=-1, in_keys=OBS),
    "joined": lambda: Compose(
        StepCounter(9),
        DTypeCastTransform(torch.int64, torch.float32, in_keys=["step_count"]),
        CatTensors(["observation", "step_count"], out_key="all", del_keys=False),
    ),
    "normed": lambda: ObservationNorm(0.5, 2.0, in_keys=OBS),
    "scaled": lambda: RewardScaling(1.0, 0.1),
    "clipped": lambda: RewardClipping(-0.5, 0.5),
    "clip": lambda: ClipTransform(in_keys=OBS, low=-0.1, high=0.1),
    "first": InitTracker,
    "renamed": lambda: RenameTransform(OBS, ["seen"], create_copy=True),
    "sign": lambda: SignTransform(in_keys=["reward"]),
    "flat": lambda: Compose(UnsqueezeTransform(-1, in_keys=OBS), FlattenObservation(-2, -1, in_keys=OBS)),
    "squeezed": lambda: Compose(UnsqueezeTransform(-2, in_keys=OBS), SqueezeTransform(-2, in_keys=OBS)),
    "target": lambda: TargetReturn(10.0),
    "primed": lambda: TensorDictPrimer(hidden=Unbounded((3,)), default_value=1.0),
    "pooled": lambda: TimeMaxPool(in_keys=OBS, T=2),
    "statistics": lambda: VecNorm(in_keys=OBS, decay=0.9),
    "selected": lambda: SelectTransform("observation"),
}


def numbers(data):
    """The sum of each entry, in the order of the keys, and the sizes."""
    leaves = sorted(data.items(True, True), key=lambda item: str(item[0]))
    return [*data.batch_size, *[value.double().sum() for _, value in leaves if isinstance(value, torch.Tensor)]]


def make_cart(limit=5):
    """Cart pole with short episodes."""
    return TransformedEnv(GymEnv("CartPole-v1"), Compose(StepCounter(limit), RewardSum()))


def train():
    """Rollouts of each kind."""
    for make in TRANSFORMS.values():
        env = TransformedEnv(GymEnv("CartPole-v1"), make())
        env.set_seed(0)
        yield numbers(env.rollout(12, break_when_any_done=False))
    env = make_cart()
    env.set_seed(1)
    check_env_specs(env)
    data = env.rollout(20)
    yield numbers(step_mdp(data))
    yield numbers(step_mdp(data, keep_other=False, exclude_reward=False))
    for alike in (True, False):
        env = SerialEnv(3, make_cart) if alike else SerialEnv(2, [lambda: make_cart(3), lambda: make_cart(4)])
        env.set_seed(2)
        yield numbers(env.rollout(12, break_when_any_done=False))
        yield numbers(env.rollout(12, auto_cast_to_device=True))
        state = env.reset()
        for _ in range(6):
            step, state = env.step_and_maybe_reset(RandomPolicy(env.action_spec)(state))
            yield numbers(step)
        partly = TensorDict({"_reset": torch.arange(env.batch_size[0])[:, None] == 0}, env.batch_size)
        yield numbers(env.reset(state.update(partly)))
        yield numbers(env.fake_tensordict())
        env.close()
    buffer = ReplayBuffer(storage=LazyTensorStorage(40), batch_size=8)
    buffer.append_transform(Reward2GoTransform(gamma=0.9))
    buffer.extend(data.reshape(-1))
    yield numbers(buffer.sample())


report(train)
