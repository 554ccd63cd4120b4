"""Log-probabilities have the keys of their modules, and a composite has no values that do not exist."""

from __future__ import annotations

from typing import Any

import pytest
import tensordict
import torch
from tensordict import nn as anchor_nn
from torch import distributions as D

import tensorclass
from tensorclass import TensorDict
from tensorclass import nn as own_nn
from tensorclass.errors import UnsupportedOperationError
from tensorclass.nn import CompositeDistribution

LIBRARIES = [(tensordict, anchor_nn), (tensorclass, own_nn)]


def draw(lib: Any, key: Any, score: Any) -> Any:
    """A module that draws a value, and says where its log-probability goes."""
    return lib.ProbabilisticTensorDictModule(
        ["loc", "scale"], [key], distribution_class=D.Normal, return_log_prob=True, log_prob_key=score
    )


def sequence(lib: Any, nested: bool, *keys: tuple[Any, Any]) -> Any:
    """Values that share their parameters."""
    first = lib.TensorDictModule(lambda x: (x, x.exp()), in_keys=["x"], out_keys=["loc", "scale"])
    draws = [draw(lib, key, score) for key, score in keys]
    if nested:
        draws = [lib.ProbabilisticTensorDictSequential(*draws, return_composite=True)]
    return lib.ProbabilisticTensorDictSequential(first, *draws, return_composite=True)


KEYS: dict[str, list[tuple[Any, Any]]] = {
    "own": [("z", "l2")],
    "default": [("z", None)],
    "two": [("z", "lz"), ("w", "lw")],
    "one of two": [("z", "lz"), ("w", None)],
    "nested key": [(("a", "z"), ("a", "l"))],
}


@pytest.mark.parametrize("name", KEYS)
def test_scores_have_the_keys_of_their_modules(name: str) -> None:
    """`log_prob` of a sequence names its entries as the modules name what they write, as in the anchor."""
    found = []
    for package, lib in LIBRARIES:
        torch.manual_seed(0)
        built = sequence(lib, False, *KEYS[name])
        data = built(package.TensorDict(x=torch.zeros(3), batch_size=[3]))
        scores = built.log_prob(data)
        found.append(sorted(map(str, scores.keys(True, True))))
        for key in scores.keys(True, True):
            assert torch.equal(scores[key], data[key])
    assert found[0] == found[1]


def test_nested_sequences_too() -> None:
    """The modules of a nested sequence name their scores as well."""
    built = sequence(own_nn, True, ("z", "lz"), ("w", "lw"))
    data = built(TensorDict(x=torch.zeros(3), batch_size=[3]))
    assert set(built.log_prob(data).keys()) == {"lz", "lw"}


def composite(**dists: D.Distribution) -> CompositeDistribution:
    """A composite of distributions over three elements."""
    return CompositeDistribution.from_distributions(TensorDict(batch_size=[3]), dists)


def three(cls: Any, *values: float) -> Any:
    """Three equal elements."""
    return cls(*[torch.full((3,), value) for value in values])


UNDEFINED = {
    ("mode", "Uniform"): three(D.Uniform, 0.0, 1.0),
    ("mean", "Cauchy"): three(D.Cauchy, 0.0, 1.0),
    ("mean", "StudentT"): three(D.StudentT, 1.0),
    ("mean", "Pareto"): three(D.Pareto, 1.0, 0.5),
    ("mean", "HalfCauchy"): three(D.HalfCauchy, 1.0),
    ("mode", "ContinuousBernoulli"): three(D.ContinuousBernoulli, 0.3),
    ("mean", "Independent"): D.Independent(three(D.Cauchy, 0.0, 1.0), 0),
}


@pytest.mark.parametrize(("value", "name"), UNDEFINED)
def test_values_that_do_not_exist(value: str, name: str) -> None:
    """A mode or mean that is undefined is an error that names the distribution, instead of nan."""
    dist = UNDEFINED[value, name]
    inner = type(dist.base_dist if isinstance(dist, D.Independent) else dist).__name__
    with pytest.raises(UnsupportedOperationError, match=inner):
        getattr(composite(x=dist, y=three(D.Normal, 0.0, 1.0)), value)


@pytest.mark.parametrize("value", ["mean", "mode"])
def test_values_that_exist(value: str) -> None:
    """Others are those of the components."""
    dists = {"n": three(D.Normal, 2.0, 1.0), "l": three(D.Gamma, 3.0, 1.0)}
    found = getattr(composite(**dists), value)
    assert all(torch.equal(found[key], getattr(dist, value)) for key, dist in dists.items())
