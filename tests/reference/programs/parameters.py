"""Parameters of several modules, and an ensemble."""

import torch
import torch.nn as nn
from tensordict import TensorDict, from_modules
from tensordict.nn import EnsembleModule, TensorDictModule, TensorDictParams

modules = [nn.Linear(3, 4) for _ in range(5)]
params = from_modules(*modules, as_module=True)
base = nn.Linear(3, 4, device="meta")


def call(x, params):
    with params.to_module(base):
        return base(x)


out = torch.vmap(call, (None, 0))(torch.randn(2, 3), params)
assert out.shape == (5, 2, 4)
p = TensorDict.from_module(modules[0])
with p.data.apply(lambda x: x * 0).to_module(modules[0]):
    assert (modules[0](torch.ones(1, 3)) == 0).all()
assert not (modules[0].weight == 0).all()
opt = torch.optim.SGD(params.parameters(), 1e-2)
out.sum().backward()
opt.step()
print(isinstance(params, TensorDictParams), params.batch_size, list(params.state_dict())[:3])
target = p.data.clone()
target.lerp_(p.data, 0.5)
m = TensorDictModule(nn.Linear(3, 4), in_keys=["a"], out_keys=["b"])
e = EnsembleModule(m, num_copies=3)
print(e(TensorDict({"a": torch.randn(2, 3)}, [2]))["b"].shape)
