# pyright: strict
"""Operations keep the class."""

import copy
from collections.abc import Iterable, Iterator
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor
from typing_extensions import assert_type

from tensorclass import TensorClass, TensorCollection, TensorDict, cat, collate, equal, stack
from tensorclass.typing import Float32

Batch = TypeVar("Batch", bound=TensorClass)


class Point(TensorClass):
    x: Float32[Tensor, ""]
    y: Float32[Tensor, ""]


batch = Point(torch.zeros(6), torch.ones(6))

# ---- indexing with every kind of index
assert_type(batch[0], Point)
assert_type(batch[-1], Point)
assert_type(batch[1:3], Point)
assert_type(batch[...], Point)
assert_type(batch[None], Point)
assert_type(batch[[0, 2]], Point)
assert_type(batch[torch.tensor([0, 2])], Point)
assert_type(batch[batch.x == 0], Point)
assert_type(batch[np.array([0, 2])], Point)
assert_type(batch[range(3)], Point)
assert_type(batch[(slice(None),)], Point)
assert_type(batch[:, None][0, :], Point)
assert_type(batch[0][()], Point)
batch[0] = batch[1]
batch[1:3] = 0.5
batch[torch.tensor([0])] = batch[:1].clone()

# ---- iteration
for row in batch:
    assert_type(row, Point)
rows: Iterator[Point] = iter(batch)
assert_type(list(reversed(batch)), list[Point])
assert_type(len(batch), int)

# ---- arithmetic with numbers, tensors and containers, from both sides
assert_type(batch + 1, Point)
assert_type(1 - batch, Point)
assert_type(batch * torch.ones(6), Point)
assert_type(batch + batch, Point)
assert_type(-batch, Point)
assert_type(abs(batch), Point)
assert_type(batch**2, Point)
assert_type(batch.add(1).mul(2).exp().clamp(0, 1), Point)
batch += 1
assert_type(batch, Point)
assert_type(batch.add_(1), Point)

# ---- comparison
assert_type(batch == batch, Point)
assert_type(batch != 0, Point)
assert_type(batch < 3, Point)
assert_type(batch.isnan(), Point)
assert_type(equal(batch, batch), bool)

# ---- shape
assert_type(batch.reshape(2, 3), Point)
assert_type(batch.view(-1), Point)
assert_type(batch.reshape(torch.Size([2, 3])).view([3, 2]).reshape(batch.batch_size), Point)
assert_type(batch.view(torch.float32), Point)
assert_type(batch.reshape(2, 3).permute(1, 0).flatten(), Point)
assert_type(batch.unsqueeze(0).squeeze(0), Point)
assert_type(batch.expand(3, 6), Point)
assert_type(batch.expand((3, *batch.batch_size)), Point)
assert_type(batch.transpose(0, 0).contiguous(), Point)
assert_type(batch.repeat(2), Point)
assert_type(batch.gather(0, torch.tensor([0])), Point)
assert_type(batch.masked_select(batch.x == 0), Point)

# ---- reduction along batch dims
assert_type(batch.mean(0), Point)
assert_type(batch.sum(dim=0, keepdim=True), Point)
assert_type(batch.max(0).values, Point)

# ---- cutting
assert_type(batch.unbind(0), tuple[Point, ...])
assert_type(batch.split(2), tuple[Point, ...])
assert_type(batch.split([2, 4], dim=0), tuple[Point, ...])
assert_type(batch.chunk(3), tuple[Point, ...])

# ---- joining with this package's own functions
assert_type(stack([batch, batch]), Point)
assert_type(cat((batch, batch), 0), Point)
assert_type(Point.stack([batch, batch], 1), Point)
assert_type(Point.cat([batch, batch]), Point)
assert_type(stack([row for row in batch]), Point)


def both_ways(rows: list[Batch], more: Iterable[Batch], common: list[TensorClass]) -> tuple[Batch, TensorClass]:
    return stack([cat(rows), cat([*more])]), stack(common)


assert_type(both_ways([batch], (batch,), [batch])[0], Point)
assert_type(stack(batch.unbind(0)), Point)
assert_type(collate([batch, batch]), Point)

# ---- device, dtype and memory
assert_type(batch.to("cpu"), Point)
assert_type(batch.to(torch.device("cpu"), non_blocking=True), Point)
assert_type(batch.cpu(), Point)
assert_type(batch.float(), Point)
assert_type(batch.clone(), Point)
assert_type(batch.to("cpu")[0].x, Tensor)
assert_type(copy.copy(batch), Point)
assert_type(copy.deepcopy(batch), Point)


# ---- changed copies
def shifted(name: str, leaf: Tensor) -> Tensor:
    return leaf + len(name)


assert_type(batch.replace(x=torch.ones(6)), Point)
assert_type(batch.apply(torch.exp), Point)
assert_type(batch.named_apply(shifted), Point)

# ---- locks
with batch.lock_() as locked:
    assert_type(locked, Point)
assert_type(batch.is_locked, bool)

# ---- writing
assert_type(batch.update({"x": torch.zeros(6)}), Point)
assert_type(batch.update_({"x": torch.ones(6)}), Point)
assert_type(batch.set("x", torch.zeros(6)), Point)

# ---- to an untyped container and back
assert_type(batch.to_tensordict(), TensorDict)
assert_type(Point.from_tensordict(batch.to_tensordict()), Point)
assert_type(Point.from_tensordict(TensorDict(x=torch.zeros(2), batch_size=[2]), {"y": torch.zeros(2)}), Point)
assert_type(batch.select("x"), TensorDict)
assert_type(batch.exclude("x"), TensorDict)
assert_type(batch.flatten_keys(), TensorDict)
assert_type(batch.select("x").exclude("x"), TensorDict)

# ---- functions over any typed class
T = TypeVar("T", bound=TensorClass)


def doubled(items: T) -> tuple[T, T]:
    return items.clone(), items * 2


def leaves(items: TensorCollection) -> int:
    return items.numel()


assert_type(doubled(batch), tuple[Point, Point])
assert_type(leaves(batch), int)
