# pyright: strict
"""Access by key: names that are fields, names that are not known, and containers that declare nothing."""

import torch
from torch import Tensor

from tensorclass import TensorClass, TensorDict, stack
from tensorclass.typing import Float32, Int64


class Inputs(TensorClass):
    image: Float32[Tensor, "8 8"]


class Batch(TensorClass):
    inputs: Inputs
    label: Int64[Tensor, ""]
    mask: Float32[Tensor, "8 8"] | None = None
    note: str = ""
    extra: TensorDict | None = None


class Wider(Batch):
    page: Int64[Tensor, ""] | None = None


inputs, labels = Inputs(torch.zeros(2, 8, 8)), torch.zeros(2, dtype=torch.int64)
batch = Batch(inputs, labels, extra=TensorDict(a=labels, batch_size=[2]))

# ---- reads and writes of fields, nested ones and those of untyped corners
label: Tensor = batch["label"]
image: Tensor = batch["inputs", "image"]
batch["label"] = labels
batch["inputs", "image"] = torch.zeros(2, 8, 8)
batch["mask"] = None
batch["extra", "b"] = labels
print(batch["extra", "anything" if len(batch) > 2 else "a"])
batch.set(("inputs", "image"), image)
batch.set(Batch.label, labels)
batch.update({"label": labels, "note": "seen"})
batch.update({"inputs": {"image": image}})
del batch.mask

# ---- names that are not written out
for name in batch.keys():
    print(batch.get(name))
keys = ["label", "inputs"]
for name in keys:
    print(batch[name])


def read(items: Batch, name: str) -> object:
    return items[name]


read(batch, "label")

# ---- what may be missing
batch.get("absent", None)
sure: Tensor = batch.get("label", None)
perhaps: Tensor | None = batch.get("mask", None)
batch.pop("absent", 3)
assert "absent" not in batch
batch.select("label", "absent", strict=False)
batch.exclude("absent")

# ---- fields of a child
wider = Wider(inputs, labels)
wider["page"] = labels
print(wider["page"], wider["inputs", "image"])
joined = stack([batch[:1], batch[1:]])

# ---- containers that declare nothing have any key
data = TensorDict(a=labels, batch_size=[2])
data["b"] = labels
print(data["b"], data.get("c"))
batch.to_tensordict()["new"] = labels


# ---- functions over any typed class
def cut(items: TensorClass, key: str) -> Tensor:
    value: Tensor = items["label"] if key else items[key]
    return value


cut(batch, "label")
