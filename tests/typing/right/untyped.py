# pyright: strict
"""Containers that declare nothing, and schemas as data."""

import torch
from torch import Tensor
from typing_extensions import assert_type

from tensorclass import NonTensorStack, Schema, TensorClass, TensorDict, cat, schema, stack
from tensorclass.typing import Float32

# ---- construction
data = TensorDict(a=torch.zeros(3), b={"c": torch.ones(3, 2)}, batch_size=[3])
assert_type(TensorDict({"a": torch.zeros(3)}, batch_size=3, device="cpu"), TensorDict)

# ---- reading and writing by key
a: Tensor = data["a"]
c: Tensor = data["b", "c"]
data["d"] = a + 1
data["b", "e"] = c
del data["d"]
assert_type("a" in data, bool)

# ---- operations keep the class
assert_type(data[0], TensorDict)
assert_type(data[:2] + 1, TensorDict)
assert_type(stack([data, data]), TensorDict)
assert_type(cat([data, data]), TensorDict)
assert_type(data.to("cpu").reshape(3, 1), TensorDict)
assert_type(data.unbind(0), tuple[TensorDict, ...])
assert_type(data.select("a"), TensorDict)
assert_type(data.exclude("a").flatten_keys("."), TensorDict)
assert_type(data.copy().rename_key_("a", "z"), TensorDict)

# ---- one object for each element
names: NonTensorStack[str] = NonTensorStack("a", "b")
assert names[0].item() == "a"


# ---- a schema is data
class Point(TensorClass):
    x: Float32[Tensor, ""]


description = schema(Point)
assert_type(description, Schema)
assert_type(description.diff(schema(Point)).__class__.__name__, str)
assert list(description.fields) == ["x"]
