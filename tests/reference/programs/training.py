"""A training loop over a sequence of keyed modules."""

import torch
import torch.nn as nn
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential

torch.manual_seed(0)
net = TensorDictSequential(
    TensorDictModule(nn.Linear(3, 16), in_keys=["x"], out_keys=["h"]),
    TensorDictModule(nn.ReLU(), in_keys=["h"], out_keys=["h"]),
    TensorDictModule(nn.Linear(16, 1), in_keys=["h"], out_keys=["y"]),
)
opt = torch.optim.Adam(net.parameters(), 1e-2)
data = TensorDict({"x": torch.randn(64, 3)}, [64])
data["t"] = data["x"].sum(-1, keepdim=True)
first = None
for _epoch in range(30):
    for batch in data.split(16):
        out = net(batch.clone())
        loss = nn.functional.mse_loss(out["y"], out["t"])
        opt.zero_grad()
        loss.backward()
        opt.step()
        first = first or loss.item()
assert loss.item() < first
print(net.in_keys, net.out_keys, len(net), net[0])
y = net(x=torch.randn(2, 3))
print(type(y), [t.shape for t in y])
sub = net.select_subsequence(out_keys=["h"])
print(sub.out_keys)
