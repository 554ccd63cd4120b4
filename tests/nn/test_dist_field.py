"""Fields that hold a batch of distributions: they are handled as tensors of the batch, and keep their meaning."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch import distributions as D

from tensorclass import TensorClass, cat, stack
from tensorclass.errors import SchemaError
from tensorclass.nn import Dist, TruncatedNormal
from tensorclass.typing import Float32, Int64

HALF, ONES, ZEROS = torch.full((4, 2), 0.5), torch.ones(4, 2), torch.zeros(4, 2)
MATRIX = torch.eye(2).expand(4, 2, 2) * 2
CASES: dict[str, D.Distribution] = {
    "Normal": D.Normal(ZEROS, ONES),
    "one number": D.Normal(ZEROS, 1.0),
    "LogNormal": D.LogNormal(ZEROS, ONES),
    "Laplace": D.Laplace(ZEROS, ONES),
    "Cauchy": D.Cauchy(ZEROS, ONES),
    "Gumbel": D.Gumbel(ZEROS, ONES),
    "StudentT": D.StudentT(ONES, ZEROS, ONES),
    "Uniform": D.Uniform(ZEROS, ONES),
    "Beta": D.Beta(ONES, HALF),
    "Gamma": D.Gamma(ONES, HALF),
    "Exponential": D.Exponential(ONES),
    "HalfNormal": D.HalfNormal(ONES),
    "Dirichlet": D.Dirichlet(ONES),
    "Bernoulli": D.Bernoulli(probs=HALF),
    "Categorical": D.Categorical(probs=HALF),
    "OneHotCategorical": D.OneHotCategorical(logits=ZEROS),
    "Binomial": D.Binomial(3, HALF),
    "Geometric": D.Geometric(HALF),
    "Poisson": D.Poisson(ONES),
    "VonMises": D.VonMises(ZEROS, ONES),
    "MultivariateNormal": D.MultivariateNormal(ZEROS, covariance_matrix=MATRIX),
    "one matrix": D.MultivariateNormal(ZEROS, torch.eye(2)),
    "LowRankMultivariateNormal": D.LowRankMultivariateNormal(ZEROS, torch.ones(4, 2, 1), ONES),
    "TruncatedNormal": TruncatedNormal(ZEROS, ONES, -ONES, ONES),
}


def holder(kind: type[D.Distribution]) -> Any:
    """A class with a field for a distribution."""

    class Holder(TensorClass):
        index: Int64[Tensor, ""]
        policy: Dist[kind]  # type: ignore[valid-type]

    return Holder


@pytest.mark.parametrize("name", CASES)
def test_a_field_keeps_the_distribution(name: str, tmp_path: Path) -> None:
    """Indexed, joined, copied, pickled, saved and written as JSON, each element has its log-probability."""
    dist = CASES[name]
    batch = holder(type(dist))(index=torch.arange(4), policy=dist)
    torch.manual_seed(0)
    value = dist.sample()
    wanted = dist.log_prob(value)
    assert torch.allclose(batch.policy.log_prob(value), wanted, atol=1e-6)
    assert torch.allclose(batch[1:3].policy.log_prob(value[1:3]), wanted[1:3], atol=1e-6)
    assert torch.allclose(cat([batch[:1], batch[1:]]).policy.log_prob(value), wanted, atol=1e-6)
    assert torch.allclose(stack([batch, batch]).policy.log_prob(value)[1], wanted, atol=1e-6)
    batch.save(tmp_path / "saved")
    copies = [batch.to("cpu"), batch.clone(), type(batch).load(tmp_path / "saved")]
    copies += [type(batch).from_json(batch.to_json()), type(batch).from_dict(batch.to_dict())]
    for copy in copies:
        assert torch.allclose(copy.policy.log_prob(value), wanted, atol=1e-6)
        assert bool((copy == batch).all())
    assert type(pickle.loads(pickle.dumps(batch.policy)).dist) is type(dist)
    assert batch.policy.sample((3,)).shape == dist.sample((3,)).shape


class Step(TensorClass):
    """A step of a policy."""

    action: Float32[Tensor, "2"]
    policy: Dist[D.Normal]


def test_gradients_reach_the_parameters() -> None:
    """`rsample`, `log_prob` and `entropy` are differentiable."""
    loc = torch.zeros(4, 2, requires_grad=True)
    step = Step(action=ONES, policy=Dist.of(D.Normal(loc, ONES), 4))
    (step.policy.rsample() + step.policy.log_prob(step.action) + step.policy.entropy()).sum().backward()
    assert loc.grad is not None
    assert torch.equal(loc.grad, torch.full((4, 2), 2.0))


def test_every_way_in_takes_a_distribution() -> None:
    """The constructor, assignment, `replace`, `set` and `update`; an instance of the field's class too."""
    step = Step(action=ZEROS, policy=Dist.of(D.Normal(ZEROS, ONES), 4))
    other = D.Normal(ONES, ONES)
    step.policy = other  # type: ignore[assignment]  # checkers know the field as what it gives
    assert torch.equal(step.policy.loc, ONES)  # type: ignore[attr-defined]
    for changed in (step.replace(policy=other), step.clone().update({"policy": other}), step.set("policy", other)):
        assert torch.equal(changed.policy.dist.mean, ONES)


WRONG: dict[str, tuple[Any, str]] = {
    "another class": (D.Laplace(ZEROS, ONES), "type Laplace: pass a `Normal`"),
    "another batch shape": (D.Normal(torch.zeros(3), 1.0), r"batch shape \[3\].*batch size \[4\]"),
    "wrapped": (D.Independent(D.Normal(ZEROS, ONES), 1), "type Independent: pass a `Normal`"),
    "a tensor": (ZEROS, "type Tensor: pass a `Normal`"),
    "a number": (3, "type int: pass a `Normal`"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_is_refused(name: str) -> None:
    """The error names the field, what was given, and what to pass; nothing is written."""
    value, text = WRONG[name]
    step = Step(action=ZEROS, policy=Dist.of(D.Normal(ZEROS, ONES), 4))
    with pytest.raises(SchemaError, match=f"(?s)policy.*{text}"):
        step.policy = value
    assert torch.equal(step.policy.dist.mean, ZEROS)


@pytest.mark.parametrize("kind", [3, Tensor, D.Independent, D.RelaxedBernoulli, D.TransformedDistribution])
def test_classes_that_parameters_do_not_define(kind: Any) -> None:
    """A declaration of anything else is an error that says what to write."""
    with pytest.raises(SchemaError, match=r"write a distribution class|declare them as fields"):
        Dist[kind]


def test_constants_are_not_lost() -> None:
    """A number besides the parameters is refused if it is not the default."""
    many = D.Multinomial(3, logits=ZEROS)
    with pytest.raises(SchemaError, match="total_count=3"):
        Dist.of(many)
    assert Dist.of(D.Multinomial(1, logits=ZEROS), 4).batch_size == (4,)
