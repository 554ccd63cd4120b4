# pyright: strict
"""Instances that meet: operators, items, extend, loaders, functions over leaves, devices, defaults and ragged lists."""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from tensorclass import PerElement, RaggedTensor, TensorClass, TensorDict, collate, field, merge
from tensorclass.typing import Float32, Int64


class Digits(TensorClass):
    image: Float32[Tensor, "2"]
    label: Int64[Tensor, ""]
    tags: list[str] = field(default_factory=list[str])
    limits: dict[str, float] = field(default_factory=dict[str, float])
    note: str | None = field(default="none")
    mean_of: Float32[Tensor, ""] = field(default=0.0)
    name: PerElement[str] = field(default="")


class Scan(Digits):
    page: Int64[Tensor, ""] = field(kw_only=True)


class Named(TensorClass):
    name: PerElement[str]


class Small(TensorClass):
    image: Float32[Tensor, "2"]


class One(TensorClass):
    x: Float32[Tensor, ""]


class Numbers(TensorClass):
    x: Float32[Tensor, ""]
    rate: float = field(default_factory=int)
    scale: Float32[Tensor, "2"] = field(default=torch.ones(2))
    weight: Float32[Tensor, "2"] = field(default_factory=lambda: torch.ones(3, 2))
    count: Int64[Tensor, ""] = field(default=torch.tensor(3))


class Words(TensorClass):
    ids: Int64[RaggedTensor, "n"]
    boxes: Float32[RaggedTensor, "n 4"]


def digits() -> Digits:
    return Digits(torch.zeros(4, 2), torch.zeros(4, dtype=torch.int64))


def halved(leaf: Tensor) -> Tensor:
    return leaf // 2


def between(one: Tensor, other: Tensor) -> Tensor:
    return torch.maximum(one, other)


def shifted(name: str, x: Tensor) -> Tensor:
    return x if name == "label" else x + 1


def same_inner(inner: TensorClass) -> TensorClass:
    return inner


def paired(items: list[Digits]) -> tuple[Digits, int]:
    return items[0], len(items)


batch = digits()
scan = batch.extend(Scan, page=torch.arange(4))
page: Tensor = scan.page

# ---- one class, a child, something without a class
batch.label = torch.ones(4, dtype=torch.int64)
same = batch == batch.clone()
both = batch.pick(Small) == scan.pick(Small)
plain = batch.pick(Small) == TensorDict(image=torch.zeros(4, 2), batch_size=[4])
batch[0] = batch[1]
batch[1:3] = scan[:2].pick(Digits)
batch.update({"label": torch.arange(4), "note": "x"})
batch.update(digits())
batch.update(dict(label=torch.arange(4), note="x"))  # noqa: C408  # as users write it
numbers = merge(Numbers, Small)(x=torch.ones(3), image=torch.ones(3, 2))
named = merge(Small, Named)(torch.ones(3, 2), "a")
named = merge(Small, Named)(torch.ones(3, 2), name=["a"] * 3)
numbers.extend(merge(Numbers, Scan), image=torch.zeros(3, 2), label=torch.arange(3), page=torch.arange(3))
kinds = [Small, Numbers]
merge(*kinds)

# ---- functions over leaves
batch.apply(halved)
batch.apply(between, digits())
batch.apply(between, digits(), batch_size=[4])
batch.apply(same_inner, call_on_nested=True)
batch.apply(torch.clone)
batch.named_apply(shifted)
One(torch.tensor(1.0)).apply(Tensor.item)

# ---- loaders
for part in DataLoader(digits(), batch_size=2):
    print(part.label.sum())
for index, part in enumerate(DataLoader(digits(), batch_size=2, shuffle=True, collate_fn=collate)):
    print(index, part.image)
for first, second in DataLoader(digits(), batch_size=2, collate_fn=paired):
    print(first.label, second + 1)


def batches(loader: DataLoader[Digits]) -> Iterator[Tensor]:
    for one in loader:
        yield one.image


# ---- devices
batch.to("cpu")
batch.to(torch.device("cpu"), non_blocking=True)
batch.to(device="cpu")
batch.to("meta")
Digits(torch.zeros(4, 2), torch.zeros(4, dtype=torch.int64), device="cpu")

# ---- ragged fields: lists, a RaggedTensor, one element
Words([torch.zeros(3, dtype=torch.int64)], [torch.zeros(3, 4)])
Words(RaggedTensor([torch.arange(2), torch.arange(1)]), boxes=[torch.zeros(2, 4), torch.zeros(1, 4)])
Words(torch.arange(3), torch.zeros(3, 4))
words = Words([torch.arange(3), torch.arange(1)], [torch.zeros(3, 4), torch.zeros(1, 4)])
Words([torch.arange(3)] * 2, [torch.zeros(3, 4)] * 2)
longest: Tensor = words.ids.lengths.max()
