# pyright: strict
"""Functions over batches: another number, size or order of dims than declared"""

from functools import partial
from typing import TypeVar

import torch
from torch import Tensor
from typing_extensions import Self

from tensorclass import TensorClass, cat, checked, stack
from tensorclass.typing import Float32, Shaped


class Step(TensorClass):
    value: Float32[Tensor, ""]
    reward: Float32[Tensor, ""]
    obs: Float32[Tensor, "4"]


@checked
def advantage(steps: Shaped[Step, "t b"], last: Shaped[Step, "b"]) -> Float32[Tensor, "t b"]:
    return steps.reward - last.value


@checked
def lastof(steps: Shaped[Step, "t b"]) -> Shaped[Step, "b"]:
    return steps[-1]


def forget(steps: Shaped[Step, "t b"]) -> Shaped[Step, "b"]:
    return steps  # E: - | - | - | mypy+plugin: tensorclass-batch-size


def order(steps: Shaped[Step, "t b"]) -> Shaped[Step, "b t"]:
    return steps  # E: - | - | - | mypy+plugin: tensorclass-batch-size


def order2(steps: Shaped[Step, "t b"]) -> Shaped[Step, "t b"]:
    return steps.permute(1, 0)  # E: - | - | - | mypy+plugin: tensorclass-batch-size


def same(steps: Shaped[Step, "t b"], last: Shaped[Step, "b"]) -> None:
    advantage(steps, steps)  # E: - | - | - | mypy+plugin: tensorclass-batch-size
    advantage(last, last)  # E: - | - | - | mypy+plugin: tensorclass-batch-size
    advantage(steps.transpose(0, 1), last)  # E: - | - | - | mypy+plugin: tensorclass-batch-size
    advantage(steps, steps[:, 0])  # E: - | - | - | mypy+plugin: tensorclass-batch-size
    lastof(steps[0])  # E: - | - | - | mypy+plugin: tensorclass-batch-size
    lastof(steps.reshape(-1))  # E: - | - | - | mypy+plugin: tensorclass-batch-size
    lastof(steps.unsqueeze(0))  # E: - | - | - | mypy+plugin: tensorclass-batch-size
    lastof(stack([steps, steps]))  # E: - | - | - | mypy+plugin: tensorclass-batch-size
    lastof(cat([last, last]))  # E: - | - | - | mypy+plugin: tensorclass-batch-size
    for step in steps:
        lastof(step)  # E: - | - | - | mypy+plugin: tensorclass-batch-size
    for step in steps.unbind(1):
        lastof(step)  # E: - | - | - | mypy+plugin: tensorclass-batch-size
    for column in steps.unbind(1):
        advantage(steps, column)  # E: - | - | - | mypy+plugin: tensorclass-batch-size
    a, _ = last.unbind(0)
    lastof(a)  # E: - | - | - | mypy+plugin: tensorclass-batch-size
    x: Shaped[Step, "b"] = steps  # E: - | - | - | mypy+plugin: tensorclass-batch-size
    y: Shaped[Step, "b t"] = steps  # E: - | - | - | mypy+plugin: tensorclass-batch-size
    print(x, y)
    z = lastof(steps)
    lastof(z)  # E: - | - | - | mypy+plugin: tensorclass-batch-size
    lastof(lastof(steps))  # E: - | - | - | mypy+plugin: tensorclass-batch-size


def use_sizes() -> None:
    s = Step(value=torch.zeros(8, 3), reward=torch.zeros(8, 3), obs=torch.zeros(8, 3, 4), batch_size=[8, 3])
    short = Step(value=torch.zeros(5), reward=torch.zeros(5), obs=torch.zeros(5, 4), batch_size=[5])
    advantage(s, short)  # E: - | - | - | mypy+plugin: tensorclass-batch-size
    lastof(short)  # E: - | - | - | mypy+plugin: tensorclass-batch-size
    e = Step.example(5)
    advantage(s, e)  # E: - | - | - | mypy+plugin: tensorclass-batch-size
    lastof(Step.zeros(5))  # E: - | - | - | mypy+plugin: tensorclass-batch-size
    for index in range(3):
        lastof(s[index])  # E: - | - | - | mypy+plugin: tensorclass-batch-size


@checked
def mean(x: Float32[Tensor, "b 4"]) -> Float32[Tensor, "b"]:
    return x.mean(-1)


def use(steps: Shaped[Step, "t b"]) -> None:
    mean(steps.obs)  # E: - | - | - | mypy+plugin: tensorclass-shape
    mean(steps.value)
    mean(steps[0].value)  # E: - | - | - | mypy+plugin: tensorclass-shape
    mean(steps[0].obs)


S = TypeVar("S", bound=Step)


@checked
def newest(steps: Shaped[S, "t b"]) -> Shaped[S, "b"]:
    return steps[-1]


def oldest(steps: Shaped[S, "t b"]) -> Shaped[S, "b"]:
    return steps  # E: - | - | - | mypy+plugin: tensorclass-batch-size


class Pair(TensorClass):
    now: Step
    after: Step

    def joined(self, other: Shaped[Self, "t b"]) -> Shaped[Self, "b"]:
        self.joined(other[0])  # E: - | - | - | mypy+plugin: tensorclass-batch-size
        return other  # E: - | - | - | mypy+plugin: tensorclass-batch-size


def merged(steps: Shaped[Step, "t b"]) -> Shaped[Step, "t*b"]:
    return steps.reshape(-1)


def shorter(steps: Shaped[Step, "t b"]) -> Shaped[Step, "t-1 b"]:
    if steps.reward.sum() > 0:
        return steps[1:, :-1]  # E: - | - | - | mypy+plugin: tensorclass-batch-size
    return steps[2:]  # E: - | - | - | mypy+plugin: tensorclass-batch-size


def longer(steps: Shaped[Step, "t b"], last: Shaped[Step, "b"]) -> Shaped[Step, "t b"]:
    return cat([steps, last[None]])  # E: - | - | - | mypy+plugin: tensorclass-batch-size


def reduced(steps: Shaped[Step, "t b"], pair: Shaped[Pair, "t b"]) -> None:
    newest(steps.mean(0))  # E: - | - | - | mypy+plugin: tensorclass-batch-size
    newest(steps.sum(dim=-1))  # E: - | - | - | mypy+plugin: tensorclass-batch-size
    newest(steps[steps.reward > 0])  # E: - | - | - | mypy+plugin: tensorclass-batch-size
    newest(steps[0][torch.randperm(3)])  # E: - | - | - | mypy+plugin: tensorclass-batch-size
    single(pair.now)  # E: - | - | - | mypy+plugin: tensorclass-batch-size
    discounted = partial(weighted, factor=0.9)
    discounted(steps[0])  # E: - | - | - | mypy+plugin: tensorclass-batch-size
    checked(weighted)(steps[0], 0.5)  # E: - | - | - | mypy+plugin: tensorclass-batch-size


def single(steps: Shaped[Step, "b"]) -> Tensor:
    return steps.reward


def weighted(steps: Shaped[Step, "t b"], factor: float) -> Tensor:
    return steps.reward * factor


steps = Step.zeros((8, 3))
last: Shaped[Step, "b"] = steps  # E: - | - | - | mypy+plugin: tensorclass-batch-size
advantage(steps, steps[:, 0])  # E: - | - | SchemaError | mypy+plugin: tensorclass-batch-size
advantage(steps.permute(1, 0), steps[0])  # E: - | - | SchemaError | mypy+plugin: tensorclass-batch-size
advantage(stack([merged(steps)]), steps[0])  # E: - | - | SchemaError | mypy+plugin: tensorclass-batch-size
lastof(steps[0])  # E: - | - | SchemaError | mypy+plugin: tensorclass-batch-size
mean(steps.obs)  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
mean(torch.zeros(3, 4, dtype=torch.int64))  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
