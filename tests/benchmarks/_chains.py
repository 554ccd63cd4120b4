"""Sequences of five modules over one field, as each candidate builds them: five `Linear(16, 16)` or five identities."""

from __future__ import annotations

from functools import cache
from typing import Any

import tensordict
import tensordict.nn
import torch
from torch import Tensor, nn

import tensorclass
import tensorclass.nn
import tensorclass.typing

from ._row import Candidate
from ._samples import declare

LENGTH, WIDTH = 5, 16
KEYS = [f"h{i}" for i in range(LENGTH + 1)]


def _identity(value: Tensor) -> Tensor:
    return value


def modules(kind: str) -> list[Any]:
    """The five callables; linear layers have the same weights for every candidate."""
    if kind == "identity":
        return [_identity] * LENGTH
    torch.manual_seed(0)
    return [nn.Linear(WIDTH, WIDTH).requires_grad_(False) for _ in range(LENGTH)]


def _by_hand(kind: str) -> Any:
    """`nn.Sequential`, or calls in a row where there is no `nn.Module`."""
    steps = modules(kind)
    if kind == "linear":
        return nn.Sequential(*steps)

    def run(value: Tensor) -> Tensor:
        for step in steps:
            value = step(value)
        return value

    return run


def _keyed(kind: str) -> Any:
    """The anchor's modules, wired by string keys."""
    triples = zip(modules(kind), KEYS, KEYS[1:], strict=False)
    steps = [tensordict.nn.TensorDictModule(step, in_keys=[a], out_keys=[b]) for step, a, b in triples]
    return tensordict.nn.TensorDictSequential(*steps)


@cache
def states() -> list[Any]:
    """One typed class for each step's field."""
    hidden: Any = tensorclass.typing.Float32[Tensor, str(WIDTH)]
    return [declare(tensorclass.tensorclass, {key: hidden}) for key in KEYS]


def _typed(kind: str) -> Any:
    classes = states()
    refs = [getattr(cls, key) for cls, key in zip(classes, KEYS, strict=True)]
    triples = zip(modules(kind), refs, refs[1:], strict=False)
    steps = [tensorclass.nn.TensorClassModule(step, in_fields=a, out_fields=b) for step, a, b in triples]
    return tensorclass.nn.TensorClassSequential(*steps, input=classes[0], output=classes[-1])


def chain(candidate: Candidate, kind: str) -> tuple[Any, Any]:
    """The sequence of a candidate, and its input of batch size 3."""
    value = torch.linspace(-1, 1, 3 * WIDTH).reshape(3, WIDTH)
    if candidate == "raw":
        return _by_hand(kind), {KEYS[0]: value}
    if candidate == "our_class":
        return _typed(kind), states()[0](value, batch_size=[3])
    return _keyed(kind), tensordict.TensorDict({KEYS[0]: value}, batch_size=[3])
