# pyright: strict
"""Literal tensors that fit, and values about which nothing is certain: a plugin is silent about both."""

import os
from typing import Final

import torch
from torch import Tensor

from tensorclass import PerElement, Shared, TensorClass, field, field_validator
from tensorclass.typing import Bool, Float, Float32, Float64, Int, Int64, Num, Shaped

SIDE: Final = 8
BATCH = 4


class Digits(TensorClass):
    image: Float32[Tensor, "8 8"]
    label: Int64[Tensor, ""]
    name: PerElement[str] = field(default="")


class Maps(TensorClass):
    image: Float32[Tensor, "3 h w"]
    mask: Bool[Tensor, "h w"] | None = None
    small: Float[Tensor, "h//2 w//2"] | None = None
    open: Shaped[Tensor, "... 3"] | None = None
    exact: Float64[Tensor, "_"] | None = None
    level: Int[Tensor, ""] | None = None
    number: Num[Tensor, "*any"] | None = None
    table: Shared[Float32[Tensor, "10 4"]] | None = None
    plain: Tensor | None = None


class Pair(TensorClass):
    left: Digits
    weight: Float32[Tensor, ""] | None = None


x, y = torch.zeros(4, 8, 8), torch.zeros(4, dtype=torch.int64)
maps = torch.rand(4, 3, 8, 6)

# ---- every way to write a literal tensor
Digits(torch.zeros(BATCH, SIDE, SIDE), torch.arange(BATCH))
Digits(torch.zeros((4, 8, 8)), torch.randint(10, (4,)))
Digits(torch.ones([4, 8, 8]), torch.randint(0, 10, size=(4,)))
Digits(torch.full((4, 8, 8), 0.5), torch.full((4,), 1))
Digits(torch.rand(4, 64).reshape(4, 8, 8), torch.tensor([1, 2, 3, 4]))
Digits(torch.randn(4, 8, 8), torch.randperm(4))
Digits(torch.empty(4, 8, 8), torch.ones(4).long())
Digits(torch.zeros_like(x), torch.zeros(4).to(torch.int64))
Digits(torch.eye(8)[None].repeat(4, 1, 1), torch.arange(0, 8, 2))
Digits(torch.zeros(2 * 2, 16 // 2, 8), torch.zeros(4, dtype=torch.long))
Digits(torch.zeros(4, 8, 8, dtype=torch.float), torch.tensor([[1, 2], [3, 4]]).reshape(4))

# ---- batch sizes of every rank, given and inferred
Digits(torch.zeros(8, 8), torch.tensor(3))
Digits(torch.zeros(2, 3, 8, 8), torch.zeros(2, 3, dtype=torch.int64), batch_size=[2, 3])
Digits(x[:2], y[:2], batch_size=2)
Digits(x[0], y[0], batch_size=())
Digits(x[1:3, :, :], y[1:3], names=["time"])
Digits(x, y, ["a", "b", "c", "d"])
Digits(x[:2], y[:2], ["a", "b"], batch_size=(2,))

# ---- dims of one name, families, open ranks
Maps(maps, torch.zeros(4, 8, 6, dtype=torch.bool), torch.zeros(4, 4, 3))
Maps(maps, open=torch.zeros(4, 2, 5, 3, dtype=torch.int32))
Maps(maps, open=torch.zeros(4, 3))
Maps(maps, exact=torch.zeros(4, 7, dtype=torch.float64), level=torch.arange(4))
Maps(maps, number=torch.zeros(4, 1, 2, 3, 4))
Maps(maps, table=torch.zeros(10, 4), plain=torch.zeros(4, 1, dtype=torch.bool))
Pair(Digits(x, y), torch.zeros(4))
Pair(Digits(torch.zeros(4, 3, 8, 8), torch.zeros(4, 3, dtype=torch.int64)), torch.zeros(4), batch_size=[4])

# ---- a name that is bound again tells nothing
again = torch.zeros(4, 64)
again = again.reshape(4, 8, 8)
Digits(again, y)
chosen = torch.zeros(4, 8, 8) if os.environ.get("HOME") else torch.zeros(4, 8, 8).float()
Digits(chosen, y)
grown = torch.zeros(4, 8)
grown.unsqueeze_(-1)
Digits(grown.expand(4, 8, 8), y)
total = torch.zeros(4, 8, 8)
total += 1
Digits(total, y)
for item in [torch.zeros(4, 8, 8), torch.ones(4, 8, 8)]:
    Digits(item, y)
with torch.no_grad():
    inside = x * 2
Digits(inside, y)
if (walrus := torch.zeros(4, 8, 8)).ndim == 3:
    Digits(walrus, y)


# ---- a parameter, and what a function gives
def made(image: Tensor, count: int) -> Digits:
    image = image.reshape(-1, 8, 8)
    return Digits(image, torch.zeros(count, dtype=torch.int64))


def sized(*sizes: int) -> Tensor:
    return torch.zeros(*sizes)


made(torch.zeros(4, 64), 4)
Digits(sized(4, 8, 8), y)

# ---- shapes that are given by a list which changes
sizes = [4, 8]
sizes.append(8)
Digits(torch.zeros(sizes), y)
Digits(torch.zeros(x.shape), torch.zeros(len(x), dtype=y.dtype))
Digits(torch.zeros(4, *x.shape[1:]), y)

# ---- a dtype that is not written out
kind = torch.int64 if os.environ.get("HOME") else torch.long
Digits(x, torch.zeros(4, dtype=kind))
Digits(x, torch.zeros(4, dtype=y.dtype))
Maps(maps, exact=torch.zeros(4, 7).to(torch.zeros(1).double()))

# ---- results of operations
Digits(x / 255, y + 1)
Digits(torch.where(x > 0, x, 0.0), (y == 0).long())
Digits(x.permute(0, 2, 1), y.flip(0))
Maps(maps, mask=x[:, :, :6] > 0)

# ---- writes
digits = Digits(x, y)
digits.label = torch.arange(4)
digits.image = torch.ones(4, 8, 8)
digits["label"] = torch.tensor([1, 2, 3, 4])
digits.update({"label": y, "image": x})
digits.update(label=torch.arange(4))
digits.replace(image=torch.zeros(4, 8, 8))
digits.set("label", torch.arange(4))
digits.label = torch.zeros(4).long()


# ---- fields and classes that convert
class Lenient(TensorClass):
    label: Int64[Tensor, ""] = field(coerce="cast")
    level: Float32[Tensor, ""]

    @field_validator("level", mode="before")
    @classmethod
    def scaled(cls, value: Tensor) -> Tensor:
        return value.float() / 255


Lenient(torch.zeros(4), torch.arange(4))


class Converting(TensorClass, autocast=True):
    label: Int64[Tensor, ""]


Converting(torch.zeros(4))

# ---- a base under another name
Base = Digits


class Child(Base):
    page: Int64[Tensor, ""] | None = None


child = Child(x, y, page=y)
print(child["page"].shape if child["page"] is not None else "", child["label"].shape)

# ---- casts behind a filter
Maps(maps).double(cast_filter=lambda path, leaf: "nothing" in path)
