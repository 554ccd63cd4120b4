"""A policy: distributions, draws, log-probabilities."""

import torch
import torch.nn as nn
from tensordict import TensorDict
from tensordict.nn import (
    InteractionType,
    NormalParamExtractor,
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictModule,
    set_interaction_type,
)
from tensordict.nn.distributions import CompositeDistribution
from tensordict.nn.probabilistic import interaction_type
from torch import distributions as D

net = nn.Sequential(nn.Linear(4, 6), NormalParamExtractor())
policy = ProbabilisticTensorDictSequential(
    TensorDictModule(net, in_keys=["observation"], out_keys=["loc", "scale"]),
    ProbabilisticTensorDictModule(
        in_keys=["loc", "scale"],
        out_keys=["action"],
        distribution_class=D.Normal,
        return_log_prob=True,
        default_interaction_type=InteractionType.RANDOM,
    ),
)
td = TensorDict({"observation": torch.randn(5, 4)}, [5])
out = policy(td.clone())
print(sorted(out.keys()))
with set_interaction_type(InteractionType.DETERMINISTIC):
    det = policy(td.clone())
    assert torch.equal(det["action"], det["loc"])
with set_interaction_type(InteractionType.MODE):
    policy(td.clone())
dist = policy.get_dist(td.clone())
print(type(dist), policy.log_prob(out).shape)
params = TensorDict(
    {"cont": {"loc": torch.zeros(3, 4), "scale": torch.ones(3, 4)}, ("nested", "disc"): {"logits": torch.randn(3, 10)}},
    [3],
)
cd = CompositeDistribution(params, {"cont": D.Normal, ("nested", "disc"): D.Categorical})
s = cd.sample((4,))
print(s.batch_size, sorted(map(str, s.keys(True, True))))
print(interaction_type())
