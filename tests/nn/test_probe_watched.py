"""Small modules run on real values instead of fake ones: the findings are the same, and values are not looked at."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tensorclass.errors import BuildError
from tensorclass.nn.probe._prober import Prober
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


@pytest.mark.parametrize("name", ZOO)
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
