"""Declared classes."""

from __future__ import annotations

import dataclasses
from typing import Optional

import torch
from tensordict import TensorClass, TensorDict, tensorclass


@tensorclass
class MyData:
    floatdata: torch.Tensor
    intdata: torch.Tensor
    non_tensordata: str
    nested: Optional["MyData"] = None

    def check_nested(self):
        assert self.nested is not None


d = MyData(
    floatdata=torch.randn(3, 4, 5), intdata=torch.randint(10, (3, 4, 1)), non_tensordata="test", batch_size=[3, 4]
)
print(d.floatdata.shape, d[:2].shape, d.non_tensordata)
d.nested = MyData(
    floatdata=torch.randn(3, 4, 5), intdata=torch.randint(10, (3, 4, 1)), non_tensordata="nested", batch_size=[3, 4]
)
d.check_nested()
s = torch.stack([d, d])
assert s.shape == (2, 3, 4) and s.nested.shape == (2, 3, 4)
d.batch_size = [3]
td = d.to_tensordict()
assert isinstance(td, TensorDict)
e = MyData.from_tensordict(td)
assert e.non_tensordata == "test"


class Other(TensorClass["nocast"]):
    x: int
    y: torch.Tensor


o = Other(x=3, y=torch.zeros(2), batch_size=[2])
assert o.x == 3 and type(o.x) is int


class Auto(TensorClass["autocast"]):
    x: int
    y: torch.Tensor


print([f.name for f in dataclasses.fields(o)], dataclasses.is_dataclass(o))
print(d.to("cpu").device, d.clone().floatdata.sum().shape, (d == d).all())
