# pyright: strict
"""Functions over batches"""

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor, nn
from typing_extensions import Self

from tensorclass import TensorClass, cat, checked, stack
from tensorclass.nn import TensorClassModule, TensorClassSequential
from tensorclass.typing import Float32, Shaped


class Step(TensorClass):
    value: Float32[Tensor, ""]
    reward: Float32[Tensor, ""]
    obs: Float32[Tensor, "4"]


class Out(TensorClass):
    y: Float32[Tensor, "2"]

    @checked
    def newest(self, other: Shaped[Self, "t b"]) -> Shaped[Self, "b"]:
        return other[-1]


class Pair(TensorClass):
    now: Step
    after: Step


def weighted(steps: Shaped[Step, "t b"], factor: float) -> Tensor:
    return steps.reward * factor


def reduced(steps: Shaped[Step, "t b"], pair: Shaped[Pair, "b"]) -> None:
    lastof(steps.mean(0)[None])
    lastof(steps.sum(dim=0, keepdim=True))
    lastof(steps[torch.randperm(8)])
    lastof(steps[steps.reward > 0][None])
    lastof(steps[steps[:, 0].reward > 0])
    Trainer.head(pair.now)
    discounted = partial(weighted, factor=0.9)
    discounted(steps)
    discounted(steps, factor=0.5)
    checked(weighted)(steps, 0.5)


@checked
def advantage(steps: Shaped[Step, "t b"], last: Shaped[Step, "b"]) -> Float32[Tensor, "t b"]:
    following = torch.cat([steps.value[1:], last.value[None]])
    return steps.reward + following


@checked
def lastof(steps: Shaped[Step, "t b"]) -> Shaped[Step, "b"]:
    return steps[-1]


def swap(steps: Shaped[Step, "a b"]) -> Shaped[Step, "b a"]:
    return steps.transpose(0, 1)


def flat(steps: Shaped[Step, "*b"]) -> Shaped[Step, "n"]:
    return steps.reshape(-1)


def merged(steps: Shaped[Step, "t b"]) -> Shaped[Step, "t*b"]:
    return steps.reshape(-1)


def tail(steps: Shaped[Step, "t b"]) -> Shaped[Step, "t-1 b"]:
    return steps[1:]


def some(steps: Shaped[Step, "..."], k: int) -> Shaped[Step, "..."]:
    return steps


def opt(steps: Shaped[Step, "b"] | None) -> Shaped[Step, "b"] | None:
    if steps is None:
        return None
    return steps


def items(steps: Shaped[Step, "t b"]) -> Iterator[Shaped[Step, "b"]]:
    yield from steps


def equal(a: Shaped[Step, "n"], b: Shaped[Step, "m"]) -> Tensor:
    if len(a) == len(b):
        return pairwise(a, b)
    return a.reward.sum()


def pairwise(a: Shaped[Step, "n"], b: Shaped[Step, "n"]) -> Tensor:
    return a.reward - b.reward


def grow(steps: Shaped[Step, "t b"]) -> Shaped[Step, "t b"]:
    steps = cat([steps[:1], steps])
    return steps[1:]


def build(n: int) -> Shaped[Step, "n"]:
    return Step(value=torch.zeros(n), reward=torch.ones(n), obs=torch.zeros(n, 4), batch_size=[n])


class Trainer:
    def __init__(self) -> None:
        self.pipeline = TensorClassSequential(
            TensorClassModule(nn.Linear(4, 2), in_fields=Step.obs, out_fields=Out.y, name="l"), input=Step, output=Out
        )

    def loss(self, out: Shaped[Out, "t b"]) -> Tensor:
        return out.y.mean()

    def fit(self, steps: Shaped[Step, "t b"]) -> None:
        self.loss(self.pipeline(steps))
        for step in steps:
            self.loss(self.pipeline(step[None]))
        for _, step in enumerate(steps):
            self.loss(self.pipeline(step.unsqueeze(1)))

    @staticmethod
    def head(x: Shaped[Step, "b"]) -> Shaped[Step, ""]:
        return x[0]


def same(steps: Shaped[Step, "t b"], last: Shaped[Step, "b"]) -> None:
    advantage(steps, last)
    advantage(steps, steps[0])
    advantage(steps[1:], steps[-1])
    advantage(swap(steps), steps[:, 0])
    advantage(swap(swap(steps)), last)
    lastof(steps.transpose(0, 1))
    lastof(stack([last, last]))
    lastof(cat([steps, steps]))
    lastof(cat([steps, steps], dim=1))
    lastof(last[None])
    lastof(last.unsqueeze(1))
    lastof(flat(steps).reshape(2, -1))
    Trainer.head(flat(steps))
    Trainer.head(stack([step[0] for step in steps]))
    lastof(stack(steps.unbind(1)))
    lastof(stack([step for step in steps]))
    for row in steps.unbind(0):
        Trainer.head(row)
    for part in steps.split(2):
        lastof(part)
    y = last
    y = y[None]
    lastof(y)
    mask = last.reward > 0
    Trainer.head(last[mask])
    Trainer.head(steps[steps.reward > 0])
    pairwise(last, steps[0])
    pairwise(steps[:, 0], steps[:, 1])
    some(steps, k=1)
    opt(last)
    opt(None)
    opt(steps=last)
    t: Shaped[Step, "t b"] = steps
    u: Shaped[Step, "b t"] = swap(t)
    lastof(u)
    mean(steps[0].obs)
    mean(last.obs)
    mean(flat(steps).obs)
    mean(torch.zeros(3, 4))


def sizes() -> None:
    s = Step(value=torch.zeros(8, 3), reward=torch.ones(8, 3), obs=torch.zeros(8, 3, 4), batch_size=[8, 3])
    short = Step(value=torch.zeros(3), reward=torch.ones(3), obs=torch.zeros(3, 4), batch_size=[3])
    advantage(s, short)
    advantage(s, Step.example(3))
    advantage(Step.zeros((7, 3)), Step.example(3))
    for column in s.unbind(1):
        advantage(Step.zeros((2, 8)), column)
    for half in s.split(2, 1):
        advantage(Step.zeros((2, 3)), half[0][:1].expand(3))
        pairwise(half[:, 0], Step.zeros(8))
    pairwise(merged(s), Step.zeros(24))
    same(s, short)
    Trainer().fit(s)
    list(items(s))
    equal(short, Step.example(4))
    grow(s)
    tail(s)
    build(3)
    reduced(s, Pair(now=short, after=short))
    out = Out.zeros((2, 3))
    out.newest(out)
    out[0].newest(out)


@checked
def mean(x: Float32[Tensor, "b 4"]) -> Float32[Tensor, "b"]:
    return x.mean(-1)


sizes()
