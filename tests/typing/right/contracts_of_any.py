# pyright: strict
# checkers: mypy, pyright, mypy+plugin, ty
"""Functions over batches of type variables"""

from typing import TypeVar

import torch
from torch import Tensor

from tensorclass import TensorClass, cat, checked
from tensorclass.typing import Float32, Shaped


class Step(TensorClass):
    reward: Float32[Tensor, ""]


class Heavy(Step):
    weight: Float32[Tensor, ""]


S = TypeVar("S", bound=Step)


@checked
def newest(steps: Shaped[S, "t b"]) -> Shaped[S, "b"]:
    return steps[-1]


@checked
def shifted(steps: Shaped[S, "t b"], last: Shaped[S, "b"]) -> Shaped[S, "t b"]:
    return cat([steps[1:], last[None]])


@checked
def padded(steps: Shaped[S, "n"]) -> Shaped[S, "n+1"]:
    return cat([steps, steps[:1]])


steps, heavy = Step.zeros((8, 3)), Heavy.zeros((8, 3))
shifted(steps, newest(steps))
print(newest(heavy).weight, padded(newest(heavy))[1:].weight)
newest(steps[torch.randperm(8)])
