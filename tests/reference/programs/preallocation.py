"""A buffer that is filled row by row, locked, and written in place."""

import torch
from tensordict import TensorDict


def step(td):
    return TensorDict({"obs": torch.randn(3), "reward": torch.randn(1), "n": {"i": torch.zeros(())}}, [])


N = 10
buffer = TensorDict({}, [N])
for i in range(N):
    buffer[i] = step(None)
print(buffer.batch_size, buffer["obs"].shape, buffer["n", "i"].shape)
locked = buffer.lock_()
try:
    locked["new"] = torch.zeros(N)
except RuntimeError as e:
    print("locked", type(e).__mro__[1])
locked.set_("reward", torch.zeros(N, 1))
locked.update_({"obs": torch.ones(N, 3)})
with locked.unlock_():
    locked["new"] = torch.zeros(N)
assert locked.is_locked
try:
    buffer["absent"]
except KeyError:
    print("KeyError")
try:
    torch.stack([buffer, buffer.select("obs")])
except (KeyError, RuntimeError):
    print("stack")
buffer.unlock_()
buffer[0:2] = buffer[2:4]
buffer.set_at_("reward", torch.ones(1), 3)
assert buffer["reward"][3] == 1
buffer.masked_fill_(torch.ones(N, dtype=torch.bool), 0.0)
x = buffer.get("absent", None)
assert x is None
assert buffer.get("absent", torch.zeros(N)).shape == (N,)
y = buffer.pop("reward")
assert y.shape == (N, 1)
buffer.update({"k": torch.ones(N)}, inplace=True)
print(buffer.exclude("k").keys(), buffer.is_empty(), buffer.numel())
td = TensorDict(a=torch.ones(2), b="hello", batch_size=[2])
print(td["b"], td.get("b"))
print(buffer.device, buffer.to("cpu").device)
print(
    (buffer + 1)["obs"].sum(),
    buffer.sum(0)["obs"].shape,
    buffer.mean(dim=0, keepdim=True).shape,
    buffer.softmax(0).shape,
)
