"""The value check: elements of a batch that influence each other are found, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Distribution

from tensorclass.errors import BuildError
from tensorclass.nn import PipelineWarning
from tests._marks import rest_is_slow
from tests.nn._zoo import ZOO, pipeline, random_states, state_of

pytestmark = pytest.mark.filterwarnings("ignore:warning.W2(05|07|10)")
"""Dims that are narrowed and elements that meet are in the records."""


@pytest.fixture(autouse=True)
def _validated() -> Iterator[None]:
    """`torch.compile` turns the validation of distributions off for the whole process; other tests rely on it."""
    before = Distribution._validate_args
    yield
    Distribution.set_default_validate_args(before)


def last_only(x: Tensor) -> Tensor:
    """Only the last element changes the one before it."""
    return torch.cat([x[:-2], x[-2:-1] + x[-1:], x[-1:]])


MIXING: dict[str, tuple[Callable[[], object], str, str]] = {
    "recurrent without batch_first": (lambda: nn.GRU(8, 8), "f t 8", "f t 8"),
    "attention over the batch": (lambda: nn.TransformerEncoderLayer(8, 2, 16), "f t 8", "f t 8"),
    "softmax over the batch": (lambda: lambda x: x.softmax(0), "f 8", "f 8"),
    "centred by the batch": (lambda: lambda x: x - x.mean(0), "f 8", "f 8"),
    "sorted": (lambda: lambda x: x.sort(0).values, "f 8", "f 8"),
    "shifted": (lambda: lambda x: x.roll(1, 0), "f 8", "f 8"),
    "one pair only": (lambda: last_only, "f 8", "f 8"),
    "with numpy": (lambda: lambda x: torch.from_numpy(np.cumsum(x.detach().numpy(), 0)), "f 8", "f 8"),
    "integers": (lambda: lambda x: x.cumsum(0), "i 8", "i 8"),
    "masks": (lambda: lambda x: x.any(0, keepdim=True).expand_as(x), "b 8", "b 8"),
}


@pytest.mark.parametrize("case", MIXING)
def test_mixing_is_found(case):
    """The message names the module, the element that was changed and those that came out differently."""
    make, read, written = MIXING[case]
    with pytest.warns(PipelineWarning, match=r"W207.*mixes elements of the batch: changing element \d of `g0` changes"):
        built = pipeline(make(), (read,), (written, None) if case.startswith("recurrent") else (written,))
    with pytest.raises(BuildError, match=r"E117.*changing element \d of `g0` changes element \d"):
        built.check(values=True)


NORMS = ("BatchNorm1d", "module in a closure", "residual block", "LazyConv2d with norm")
MIXED = ("item", "nonzero", "unique", "branch")  # each takes the sum, or looks at the values, of the whole batch
SEPARATE = sorted(set(ZOO) - {*NORMS, *MIXED})


@pytest.mark.parametrize("name", rest_is_slow(SEPARATE, each=3))
def test_zoo_does_not_mix(name, validated):
    """Right modules pass, dropout and random ones too, and nothing is touched."""
    animal = ZOO[name]
    target = animal.make()
    built = pipeline(target, animal.ins, animal.outs)
    before, randoms = state_of(target), random_states()
    report = built.check(values=True)
    assert [d.code for d in report.diagnostics] == list(animal.codes)
    assert state_of(target) == before
    assert random_states() == randoms


def test_batch_norm_in_training_is_a_warning():
    """Its reason is known; with `eval()` there is nothing to say, and what else mixes is an error still."""
    built = pipeline(nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8)), ("f 8",), ("f 8",))
    with pytest.warns(PipelineWarning, match="W204.*batch norm `1` is in training"):
        report = built.check(values=True)
    assert [d.code for d in report.diagnostics] == ["N304", "W204"]
    built.eval()
    assert built.check(values=True).diagnostics == ()
    norm = nn.BatchNorm1d(8)
    mixed = pipeline(lambda x: norm(x).softmax(0), ("f 8",), ("f 8",))
    with pytest.raises(BuildError, match=r"(?s)W204.*E117"):
        mixed.check(values=True)


def test_large_modules_mix_unseen_by_a_build():
    """A build runs on real values what takes no time; the rest is left to `check(values=True)`."""
    weights = nn.Linear(2048, 2048)
    built = pipeline(lambda x: weights(x).softmax(0), ("f 64 2048",), ("f 64 2048",))
    assert built.diagnostics == ()
