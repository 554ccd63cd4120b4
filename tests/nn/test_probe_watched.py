"""Small modules run on real values instead of fake ones: the findings are the same, and values are not looked at."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tensorclass.errors import BuildError
from tensorclass.nn.probe._prober import Prober
from tests._marks import rest_is_slow
from tests.nn._zoo import ZOO, pipeline

READS: dict[str, Callable[[Tensor], Any]] = {
    "item": lambda x: x[0, 0].item(),
    "bool": lambda x: x if x.sum() > 0 else -x,
    "float": lambda x: float(x[0, 0]),
    "tolist": lambda x: x.tolist(),
    "numpy": lambda x: x.detach().numpy(),
    "array": lambda x: np.asarray(x.detach()),
    "nonzero": lambda x: x.nonzero(),
    "one argument": lambda x: torch.where(x > 0),
    "mask": lambda x: x[x > 0],
    "masked select": lambda x: x.masked_select(x > 0),
    "unique": lambda x: x.unique(),
    "equal": lambda x: torch.equal(x, x),
    "allclose": lambda x: torch.allclose(x, x),
    "bincount": lambda x: x[0].long().bincount(),
    "repeat": lambda x: x[0].repeat_interleave(x[0].long()),
}
WEIGHT = nn.Parameter(torch.rand(8))


def filled(x: Tensor, made: Tensor) -> Tensor:
    """Zeros to which values are written in place."""
    made[0] = x[0]
    return made


MADE: dict[str, tuple[Callable[[Tensor], Tensor], list[str]]] = {
    "arange": (lambda x: torch.arange(x.shape[1]), []),
    "numbers": (lambda x: torch.tensor([1, 2, 3])[1:], []),
    "mask of positions": (lambda x: torch.ones(x.shape, dtype=torch.bool).tril().logical_not(), []),
    "zeros like": (lambda x: torch.stack([torch.zeros(3), torch.full((3,), 2.0)]).sum(0), []),
    "input": (lambda x: x, ["N302"]),
    "copy of the input": (lambda x: torch.tensor(x.detach()), ["N302"]),
    "compared": (lambda x: x > torch.zeros(8), ["N302"]),
    "joined": (lambda x: torch.cat([torch.zeros(2, 8), x]), ["N302"]),
    "filled": (lambda x: filled(x, torch.zeros(x.shape)), ["N302"]),
    "filled view": (lambda x: (made := torch.zeros(x.shape), filled(x, made.view(-1, 8)))[0], ["N302"]),
    "out": (lambda x: torch.add(x, 1, out=torch.zeros(x.shape)).abs(), ["N302"]),
    "drawn": (lambda x: torch.rand(4) * 2, ["N302"]),
    "drawn in place": (lambda x: torch.zeros(4).uniform_(), ["N302"]),
    "weight": (lambda x: WEIGHT.detach(), ["N302"]),
}


def codes(build: Callable[[], Any]) -> list[str]:
    """The codes of everything that a build says."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return [d.code for d in build().diagnostics]
        except BuildError as error:
            return [d.code for d in error.diagnostics]


def both(build: Callable[[], Any], patch: pytest.MonkeyPatch) -> list[list[str]]:
    """The codes as they are, and those of a build that begins with fake tensors."""
    first = codes(build)
    patch.setattr(Prober, "_light", lambda self, *done: [])
    return [first, codes(build)]


@pytest.mark.parametrize("name", rest_is_slow(ZOO, each=3))
def test_findings_are_those_of_fake_tensors(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """For every kind of callable."""
    animal = ZOO[name]
    one, other = both(lambda: pipeline(animal.make(), animal.ins, animal.outs), monkeypatch)
    assert one == other


@pytest.mark.parametrize("name", READS)
def test_a_run_that_reads_values_is_not_believed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a result may follow values, made-up values show nothing: also if the callable catches the exception."""

    def reading(x: Tensor) -> Tensor:
        with suppress(Exception):
            READS[name](x)
        return x * 2

    def needing(x: Tensor) -> Tensor:
        READS[name](x)
        return x * 2

    assert codes(lambda: pipeline(needing, ("f 8",), ("f 8",))) == ["N302"]
    one, other = both(lambda: pipeline(reading, ("f 8",), ("f 8",)), monkeypatch)
    assert one == other


@pytest.mark.parametrize("read", [lambda m: m.sum().item(), lambda m: m.tolist(), lambda m: m.numpy()], ids=range(3))
@pytest.mark.parametrize("name", MADE)
def test_constants_may_be_read(name: str, read: Callable[[Tensor], Any]) -> None:
    """Values computed from numbers in the code are constants; inputs, weights and random numbers are not."""
    make, wanted = MADE[name]

    def call(x: Tensor) -> Tensor:
        read(make(x))
        return x * 2

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert codes(lambda: pipeline(call, ("f 8",), ("f 8",))) == wanted
