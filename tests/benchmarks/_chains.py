"""Sequences of modules over one field, as each candidate builds them: `Linear(16, 16)` or identities."""

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

WIDTH = 16
LENGTHS = {"linear": 5, "20 linear": 20, "identity": 5}


def keys(kind: str) -> list[str]:
    """The fields of a sequence, in order."""
    return [f"h{i}" for i in range(LENGTHS[kind] + 1)]


def _identity(value: Tensor) -> Tensor:
    return value


def modules(kind: str) -> list[Any]:
    """The callables; linear layers have the same weights for every candidate."""
    if kind == "identity":
        return [_identity] * LENGTHS[kind]
    torch.manual_seed(0)
    return [nn.Linear(WIDTH, WIDTH).requires_grad_(False) for _ in range(LENGTHS[kind])]


def _by_hand(kind: str) -> Any:
    """`nn.Sequential`, or calls in a row where there is no `nn.Module`."""
    steps = modules(kind)
    if kind != "identity":
        return nn.Sequential(*steps)

    def run(value: Tensor) -> Tensor:
        for step in steps:
            value = step(value)
        return value

    return run


def _keyed(kind: str, package: Any) -> Any:
    """Modules wired by string keys, the anchor's or ours."""
    names = keys(kind)
    triples = zip(modules(kind), names, names[1:], strict=False)
    steps = [package.TensorDictModule(step, in_keys=[a], out_keys=[b]) for step, a, b in triples]
    return package.TensorDictSequential(*steps)


@cache
def states(kind: str) -> list[Any]:
    """One typed class for each step's field."""
    hidden: Any = tensorclass.typing.Float32[Tensor, str(WIDTH)]
    return [declare(tensorclass.tensorclass, {key: hidden}) for key in keys(kind)]


def _typed(kind: str) -> Any:
    classes = states(kind)
    refs = [getattr(cls, key) for cls, key in zip(classes, keys(kind), strict=True)]
    triples = zip(modules(kind), refs, refs[1:], strict=False)
    steps = [tensorclass.nn.TensorClassModule(step, in_fields=a, out_fields=b) for step, a, b in triples]
    return tensorclass.nn.TensorClassSequential(*steps, input=classes[0], output=classes[-1])


def chain(candidate: Candidate, kind: str) -> tuple[Any, Any]:
    """The sequence of a candidate, and its input of batch size 3."""
    value = torch.linspace(-1, 1, 3 * WIDTH).reshape(3, WIDTH)
    if candidate == "raw":
        return _by_hand(kind), {"h0": value}
    if candidate == "our_class":
        return _typed(kind), states(kind)[0](value, batch_size=[3])
    package: Any = tensorclass if candidate == "our_dict" else tensordict
    return _keyed(kind, package.nn), package.TensorDict({"h0": value}, batch_size=[3])
