"""Modules of one's own, dispatch, functions as modules."""

import torch
import torch.nn as nn
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import (
    TensorDictModule,
    TensorDictModuleBase,
    TensorDictSequential,
    WrapModule,
    as_tensordict_module,
    dispatch,
    set_skip_existing,
)


class Masked(TensorDictModuleBase):
    in_keys = ["x", ("mask", "m")]
    out_keys = ["y"]

    def __init__(self):
        super().__init__()
        self.l = nn.Linear(3, 3)

    @dispatch
    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        tensordict["y"] = self.l(tensordict["x"]) * tensordict["mask", "m"].unsqueeze(-1)
        return tensordict


m = Masked()
print(m(torch.randn(2, 3), torch.ones(2)).shape, m(x=torch.randn(2, 3), mask_m=torch.ones(2)).shape)
seq = TensorDictSequential(
    m,
    TensorDictModule(lambda y: (y + 1, y - 1), in_keys=["y"], out_keys=[("o", "a"), "_"]),
    lambda td: td.set("z", td["y"] * 2),
)
out = seq(TensorDict({"x": torch.randn(2, 3), "mask": {"m": torch.ones(2)}}, [2]))
print(sorted(map(str, out.keys(True, True))))
w = WrapModule(lambda td: td.reshape(-1))
print(w(TensorDict({"a": torch.ones(2, 3)}, [2, 3])).shape)


@as_tensordict_module(in_keys=["a"], out_keys=["b"])
def f(a):
    return a + 1


print(f(TensorDict({"a": torch.ones(2)}, [2]))["b"])
with set_skip_existing(True):
    o = TensorDictModule(lambda x: 1 / 0, in_keys=["a"], out_keys=["b"])(
        TensorDict({"a": torch.ones(2), "b": torch.ones(2)}, [2])
    )
tdm = TensorDictModule(nn.Linear(3, 3), in_keys=["x"], out_keys=["y"])
h = tdm.register_forward_hook(lambda mod, i, o: None)
tdm(TensorDict({"x": torch.randn(2, 3)}, [2]))
h.remove()
try:
    tdm(TensorDict({"q": torch.randn(2, 3)}, [2]))
except KeyError as e:
    print("KeyError", str(e)[:50])
