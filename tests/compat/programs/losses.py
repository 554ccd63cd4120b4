"""Losses, value estimators and modules of torchrl over one batch of made-up steps: values, and sums of gradients."""

from __future__ import annotations

import torch
from _rl import make_critic, mlp
from _shared import report
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.data import Bounded, OneHot
from torchrl.modules import (
    MLP,
    Actor,
    ActorValueOperator,
    ConvNet,
    GRUModule,
    LSTMModule,
    MaskedCategorical,
    MultiAgentMLP,
    NoisyLinear,
    NormalParamExtractor,
    OneHotCategorical,
    ProbabilisticActor,
    QValueActor,
    TanhNormal,
    ValueOperator,
)
from torchrl.objectives import (
    A2CLoss,
    ClipPPOLoss,
    CQLLoss,
    DDPGLoss,
    DiscreteCQLLoss,
    DiscreteSACLoss,
    DQNLoss,
    IQLLoss,
    KLPENPPOLoss,
    PPOLoss,
    REDQLoss,
    ReinforceLoss,
    SACLoss,
    TD3BCLoss,
    TD3Loss,
)
from torchrl.objectives.value import GAE, TD0Estimator, TD1Estimator, TDLambdaEstimator, VTrace

SPEC, CHOICES = Bounded(-2.0, 2.0, (1,)), OneHot(2)


def make_actor():
    """Draws an action in the plane."""
    return ProbabilisticActor(
        TensorDictModule(nn.Sequential(mlp(3, 2), NormalParamExtractor()), ["observation"], ["loc", "scale"]),
        in_keys=["loc", "scale"],
        distribution_class=TanhNormal,
        distribution_kwargs={"low": -2.0, "high": 2.0},
        spec=SPEC,
        return_log_prob=True,
    )


def make_chooser():
    """Draws one of two actions."""
    return ProbabilisticActor(
        TensorDictModule(mlp(3, 2), ["observation"], ["logits"]),
        in_keys=["logits"],
        distribution_class=OneHotCategorical,
        spec=CHOICES,
    )


def make_values():
    """The values of two actions."""
    return QValueActor(mlp(3, 2), in_keys=["observation"], spec=CHOICES)


def make_value():
    """The value of an observation."""
    return ValueOperator(mlp(3, 1), in_keys=["observation"])


def act():
    """An action without chance."""
    return Actor(mlp(3, 1), in_keys=["observation"], spec=SPEC)


LOSSES = {
    "ppo": lambda: PPOLoss(make_actor(), make_value()),
    "clipped": lambda: ClipPPOLoss(make_actor(), make_value(), normalize_advantage=True),
    "penalty": lambda: KLPENPPOLoss(make_actor(), make_value()),
    "a2c": lambda: A2CLoss(make_actor(), make_value()),
    "reinforce": lambda: ReinforceLoss(make_actor(), make_value()),
    "sac": lambda: SACLoss(make_actor(), make_critic()),
    "sac and value": lambda: SACLoss(make_actor(), make_critic(), make_value()),
    "redq": lambda: REDQLoss(make_actor(), make_critic(), num_qvalue_nets=3, sub_sample_len=2),
    "cql": lambda: CQLLoss(make_actor(), make_critic(), action_spec=SPEC),
    "iql": lambda: IQLLoss(make_actor(), make_critic(), make_value()),
    "ddpg": lambda: DDPGLoss(act(), make_critic()),
    "td3": lambda: TD3Loss(act(), make_critic(), action_spec=SPEC),
    "td3 and copying": lambda: TD3BCLoss(act(), make_critic(), action_spec=SPEC),
}
CHOOSING = {
    "dqn": lambda: DQNLoss(make_values(), action_space="one_hot", double_dqn=True, delay_value=True),
    "sac": lambda: DiscreteSACLoss(make_chooser(), make_values(), action_space="one_hot", num_actions=2),
    "cql": lambda: DiscreteCQLLoss(make_values(), action_space="one_hot"),
}


def make_batch(action):
    """Five steps of four episodes."""
    torch.manual_seed(1)
    end = torch.zeros(4, 5, 1, dtype=torch.bool)
    end[:, -1] = end[1, 2] = True
    after = {"observation": torch.randn(4, 5, 3), "reward": torch.randn(4, 5, 1), "done": end, "terminated": end}
    return TensorDict(
        {
            "observation": torch.randn(4, 5, 3),
            "action": action(),
            "action_log_prob": -torch.rand(4, 5),
            "loc": torch.zeros(4, 5, 1),
            "scale": torch.ones(4, 5, 1),
            "next": TensorDict(after, [4, 5]),
        },
        [4, 5],
    )


def numbers(parts):
    """The sums of the tensors of a container, in the order of the keys."""
    leaves = sorted(parts.items(True, True), key=lambda item: str(item[0]))
    return [value.double().sum() for _, value in leaves if isinstance(value, torch.Tensor)]


def backward(loss, parts):
    """The parts of a loss, and the size of its gradients."""
    sum(parts[key] for key in parts.keys() if key.startswith("loss")).sum().backward()  # noqa: SIM118  # a container
    grads = [param.grad.abs().double().sum() for param in loss.parameters() if param.grad is not None]
    return [*numbers(parts.detach()), len(grads), sum(grads)]


def use_modules():
    """Networks over containers."""
    yield numbers(make_batch(lambda: torch.rand(4, 5, 1))[:, 0])
    steps = TensorDict({"observation": torch.randn(4, 5, 3), "is_init": torch.zeros(4, 5, 1, dtype=torch.bool)}, [4, 5])
    for kind in (LSTMModule, GRUModule):
        keys = {"in_key": "observation", "out_key": "y"}
        net = kind(input_size=3, hidden_size=4, default_recurrent_mode=True, **keys)
        yield numbers(net(steps.clone()).detach())
    agents = TensorDict({"agents": TensorDict({"observation": torch.randn(2, 3, 4)}, [2, 3])}, [2])
    for shared in (True, False):
        net = MultiAgentMLP(4, 2, 3, centralized=False, share_params=shared, depth=1, num_cells=8)
        keys = [("agents", "observation")], [("agents", "y")]
        yield numbers(TensorDictModule(net, *keys)(agents.clone()).detach())
    both = ActorValueOperator(
        TensorDictModule(mlp(3, 4), ["observation"], ["hidden"]),
        Actor(mlp(4, 1), in_keys=["hidden"], spec=SPEC),
        ValueOperator(mlp(4, 1), in_keys=["hidden"]),
    )
    yield numbers(both(steps.clone()).detach())
    yield numbers(both.get_value_operator()(steps.clone()).detach())
    net = TensorDictSequential(
        TensorDictModule(MLP(3, 4, depth=1, num_cells=5, layer_class=NoisyLinear), ["observation"], ["h"]),
        TensorDictModule(lambda h: MaskedCategorical(logits=h, mask=h > h.mean()).probs, ["h"], ["p"]),
    )
    yield numbers(net(steps.clone()).detach())
    image = TensorDict({"pixels": torch.rand(2, 3, 32, 32)}, [2])
    yield numbers(TensorDictModule(ConvNet(num_cells=[4, 4]), ["pixels"], ["y"])(image).detach())


def train():
    """Every loss, estimator and module."""
    yield from use_modules()
    for losses, action in (
        (LOSSES, lambda: torch.rand(4, 5, 1) * 2 - 1),
        (CHOOSING, lambda: nn.functional.one_hot(torch.randint(2, (4, 5)), 2)),
    ):
        for make in losses.values():
            batch, loss = make_batch(action), make()
            loss.make_value_estimator(gamma=0.9)
            yield backward(loss, loss(batch))
    for kind, options in (
        (TD0Estimator, {}),
        (TD1Estimator, {}),
        (TDLambdaEstimator, {"lmbda": 0.9}),
        (GAE, {"lmbda": 0.9}),
    ):
        estimate = kind(gamma=0.9, value_network=make_value(), **options)
        yield numbers(estimate(make_batch(lambda: torch.rand(4, 5, 1))).detach())
    trace = VTrace(gamma=0.9, value_network=make_value(), actor_network=make_actor())
    yield numbers(trace(make_batch(lambda: torch.rand(4, 5, 1))).detach())


report(train)
