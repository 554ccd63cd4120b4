"""The kinds of container that every operation meets, each made fresh from a function that gives its tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor

from tensorclass import NonTensorStack, TensorDict
from tensorclass.store import Unbatched

Maker: TypeAlias = "Callable[..., Tensor]"
Factory: TypeAlias = "Callable[[Maker], Any]"
KINDS: dict[str, Factory] = {}


def kind(factory: Factory) -> Factory:
    """Register a kind of container under its function's name."""
    KINDS[factory.__name__] = factory
    return factory


def mixed() -> Maker:
    """Tensors of all sorts of dtypes in turn, every element different."""
    dtypes = [torch.float32, torch.int64, torch.float64, torch.uint8, torch.bool, torch.complex64, torch.bfloat16]
    made = [0]

    def make(*shape: int) -> Tensor:
        dtype = dtypes[made[0] % len(dtypes)]
        made[0] += 1
        numbers = torch.arange(torch.Size(shape).numel()).reshape(shape) + made[0]
        return numbers % 2 == 0 if dtype is torch.bool else numbers.to(dtype)

    return make


def objects(*size: int) -> NonTensorStack[str]:
    """A different string for each element."""
    count = torch.Size(size).numel()
    return NonTensorStack._of(tuple(f"o{i}" for i in range(count)), torch.arange(count).reshape(size))


@kind
def flat(make: Maker) -> TensorDict:
    """Tensors of several event ranks."""
    return TensorDict(a=make(2, 3, 4), b=make(2, 3), c=make(2, 3, 2, 1), batch_size=[2, 3])


@kind
def nested(make: Maker) -> TensorDict:
    """Containers in containers, the inner one with more batch dims."""
    inner = TensorDict({"b": make(2, 3, 4), "deep": TensorDict(c=make(2, 3, 4, 2), batch_size=[2, 3, 4])}, [2, 3, 4])
    return TensorDict({"a": make(2, 3, 5), "n": inner, "m": {"d": make(2, 3)}}, batch_size=[2, 3])


@kind
def assorted(make: Maker) -> TensorDict:
    """An object for each element and a tensor without batch dims, at two levels."""
    entries = {"a": make(2, 3), "who": objects(2, 3), "table": Unbatched(make(5))}
    below = {"b": make(2, 3, 4), "who": objects(2, 3), "table": Unbatched(make(2))}
    return TensorDict({**entries, "n": below}, batch_size=[2, 3])


@kind
def tagged(make: Maker) -> TensorDict:
    """Values shared by the batch, at two levels."""
    return TensorDict({"a": make(2, 3), "tag": "scan", "n": {"b": make(2, 3, 4), "size": None}}, batch_size=[2, 3])


@kind
def empty(make: Maker) -> TensorDict:
    """Nothing at all."""
    return TensorDict(batch_size=[2, 3])


@kind
def hollow(make: Maker) -> TensorDict:
    """A nested container without entries beside a tensor."""
    return TensorDict({"n": TensorDict(batch_size=[2, 3]), "a": make(2, 3)}, batch_size=[2, 3])


@kind
def scalar(make: Maker) -> TensorDict:
    """No batch dims."""
    return TensorDict({"a": make(4), "b": make(), "n": {"c": make(2, 1)}}, batch_size=[])


@kind
def vacant(make: Maker) -> TensorDict:
    """A batch dim of size zero."""
    return TensorDict({"a": make(0, 3, 4), "n": {"b": make(0, 3)}}, batch_size=[0, 3])


@kind
def thin(make: Maker) -> TensorDict:
    """Batch dims of size one."""
    return TensorDict({"a": make(1, 3, 1, 4), "n": {"b": make(1, 3, 1)}}, batch_size=[1, 3, 1])


@kind
def line(make: Maker) -> TensorDict:
    """One batch dim."""
    return TensorDict({"a": make(5, 4), "n": {"b": make(5)}}, batch_size=[5])


@kind
def expanded(make: Maker) -> TensorDict:
    """Elements that share memory."""
    return TensorDict({"a": make(1, 3, 4).expand(2, 3, 4), "n": {"b": make(3).expand(2, 3)}}, batch_size=[2, 3])


@kind
def strided(make: Maker) -> TensorDict:
    """Leaves that are not contiguous."""
    return TensorDict({"a": make(4, 3, 2).permute(2, 1, 0), "n": {"b": make(3, 4).t()[::2]}}, batch_size=[2, 3])


@kind
def tracked(make: Maker) -> TensorDict:
    """Leaves that require grad, where their dtype can."""
    entries = {"a": make(2, 3, 4), "n": {"b": make(2, 3)}}
    data = TensorDict(entries, batch_size=[2, 3])
    for leaf in data._leaves():
        leaf.requires_grad_(leaf.is_floating_point())
    return data


@kind
def locked(make: Maker) -> TensorDict:
    """A locked container with a locked one inside."""
    return nested(make).lock_()


@kind
def named(make: Maker) -> TensorDict:
    """Batch dims with names."""
    return TensorDict({"a": make(2, 3, 4), "n": {"b": make(2, 3)}}, batch_size=[2, 3], names=["time", "lane"])


@kind
def placed(make: Maker) -> TensorDict:
    """A device imposed on every write."""
    return TensorDict({"a": make(2, 3, 4), "n": {"b": make(2, 3)}}, batch_size=[2, 3], device="cpu")
