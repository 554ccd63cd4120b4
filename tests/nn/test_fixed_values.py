"""Mode, median, mean and deterministic values: all of torch's distributions and ours, with and without such a value."""

import warnings

import pytest
import torch
from torch import distributions as D

import tensorclass
import tensorclass.nn as ours
from tensorclass import TensorDict
from tensorclass.nn import InteractionType, ProbabilisticTensorDictModule
from tensorclass.nn.distributions import CompositeDistribution, Delta, OneHotCategorical, TruncatedNormal
from tensorclass.nn.distributions._fixed import fixed_value

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import tensordict
    import tensordict.nn as theirs

ONE, HALF, EYE = torch.ones(2), torch.full((2,), 0.5), torch.eye(2)
PROBS = torch.tensor([[0.2, 0.8], [0.6, 0.4]])
MIXED = D.Categorical(torch.ones(2))

DISTRIBUTIONS = {
    "Bernoulli": lambda: D.Bernoulli(HALF * 0.6),
    "Bernoulli tie": lambda: D.Bernoulli(HALF),
    "Beta": lambda: D.Beta(2 * ONE, 2 * ONE),
    "Binomial": lambda: D.Binomial(5, HALF),
    "Categorical": lambda: D.Categorical(PROBS),
    "Cauchy": lambda: D.Cauchy(ONE, ONE),
    "Chi2": lambda: D.Chi2(3 * ONE),
    "ContinuousBernoulli": lambda: D.ContinuousBernoulli(0.3 * ONE),
    "Dirichlet": lambda: D.Dirichlet(torch.ones(2, 3) * 2),
    "Exponential": lambda: D.Exponential(ONE),
    "FisherSnedecor": lambda: D.FisherSnedecor(3 * ONE, 5 * ONE),
    "FisherSnedecor low": lambda: D.FisherSnedecor(3 * ONE, 2 * ONE),
    "Gamma": lambda: D.Gamma(2 * ONE, ONE),
    "Geometric": lambda: D.Geometric(HALF),
    "Gumbel": lambda: D.Gumbel(ONE, ONE),
    "HalfCauchy": lambda: D.HalfCauchy(ONE),
    "HalfNormal": lambda: D.HalfNormal(ONE),
    "Independent": lambda: D.Independent(D.Normal(ONE, ONE), 1),
    "Independent Cauchy": lambda: D.Independent(D.Cauchy(ONE, ONE), 1),
    "InverseGamma": lambda: D.InverseGamma(3 * ONE, ONE),
    "InverseGamma low": lambda: D.InverseGamma(0.5 * ONE, ONE),
    "Kumaraswamy": lambda: D.Kumaraswamy(2 * ONE, 2 * ONE),
    "LKJCholesky": lambda: D.LKJCholesky(3, ONE),
    "Laplace": lambda: D.Laplace(ONE, ONE),
    "LogNormal": lambda: D.LogNormal(ONE, ONE),
    "LogisticNormal": lambda: D.LogisticNormal(torch.zeros(2, 3), torch.ones(2, 3)),
    "LowRankMultivariateNormal": lambda: D.LowRankMultivariateNormal(torch.zeros(2), torch.ones(2, 1), torch.ones(2)),
    "mixture of Normal": lambda: D.MixtureSameFamily(MIXED, D.Normal(torch.zeros(2), ONE)),
    "mixture of Cauchy": lambda: D.MixtureSameFamily(MIXED, D.Cauchy(torch.zeros(2), ONE)),
    "mixture of Poisson": lambda: D.MixtureSameFamily(MIXED, D.Poisson(ONE)),
    "Multinomial": lambda: D.Multinomial(5, torch.ones(2, 3) / 3),
    "MultivariateNormal": lambda: D.MultivariateNormal(torch.zeros(2), EYE),
    "NegativeBinomial": lambda: D.NegativeBinomial(5 * ONE, HALF),
    "Normal": lambda: D.Normal(ONE, ONE),
    "OneHotCategorical": lambda: D.OneHotCategorical(PROBS),
    "OneHotCategoricalStraightThrough": lambda: D.OneHotCategoricalStraightThrough(PROBS),
    "Pareto": lambda: D.Pareto(ONE, 3 * ONE),
    "Pareto heavy": lambda: D.Pareto(ONE, 0.5 * ONE),
    "Poisson": lambda: D.Poisson(3.5 * ONE),
    "RelaxedBernoulli": lambda: D.RelaxedBernoulli(ONE[0], HALF),
    "RelaxedOneHotCategorical": lambda: D.RelaxedOneHotCategorical(ONE[0], torch.ones(2, 3) / 3),
    "StudentT": lambda: D.StudentT(3 * ONE),
    "StudentT low": lambda: D.StudentT(ONE),
    "tanh of Normal": lambda: D.TransformedDistribution(D.Normal(ONE, ONE), [D.TanhTransform()]),
    "Uniform": lambda: D.Uniform(0 * ONE, ONE),
    "VonMises": lambda: D.VonMises(ONE, ONE),
    "Weibull": lambda: D.Weibull(ONE, 2 * ONE),
    "Wishart": lambda: D.Wishart(torch.tensor(3.0), EYE),
    "Delta": lambda: Delta(ONE),
    "ours, OneHotCategorical": lambda: OneHotCategorical(PROBS),
    "TruncatedNormal": lambda: TruncatedNormal(ONE, ONE, a=-1.0, b=2.0),
}
if hasattr(D, "GeneralizedPareto"):
    DISTRIBUTIONS["GeneralizedPareto"] = lambda: D.GeneralizedPareto(ONE * 0, ONE, 2 * ONE)

DIFFERENT = {
    "LKJCholesky": "its mean has no closed form, and is estimated as any other",
    "Geometric": "deterministic is one of its values",
    "NegativeBinomial": "deterministic is one of its values",
    "Poisson": "deterministic is one of its values",
    "tanh of Normal": "deterministic is not an average of samples",
    "RelaxedOneHotCategorical": "deterministic is not an average of samples",
    "ours, OneHotCategorical": "a class of each library",
    "TruncatedNormal": "a class of each library; it has a mode",
    "Delta": "a class of each library",
}


def value(nn, container, make, kind):
    """What a module writes, or the error."""
    torch.manual_seed(1)
    module = nn.ProbabilisticTensorDictModule(
        ["x"], ["y"], distribution_class=lambda x: make(), default_interaction_type=kind, n_empirical_estimate=50
    )
    try:
        return module(container(x=torch.zeros(())))["y"]
    except (NotImplementedError, RuntimeError) as error:
        return error


def test_the_table_is_complete():
    """A distribution that torch adds has to be looked at."""
    made = {type(make()) for make in DISTRIBUTIONS.values()}
    abstract = {D.Distribution, D.ExponentialFamily}
    theirs = {cls for cls in vars(D).values() if isinstance(cls, type) and issubclass(cls, D.Distribution)}
    assert theirs - abstract - made == set()


@pytest.mark.parametrize("kind", ["mode", "median", "mean", "deterministic"])
@pytest.mark.parametrize("name", list(DISTRIBUTIONS))
def test_never_nan(name, kind):
    """A number or an error that names the distribution and another type; where the original gives a number, that."""
    make = DISTRIBUTIONS[name]
    found = value(ours, tensorclass.TensorDict, make, kind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        other = value(theirs, tensordict.TensorDict, make, kind)
    if isinstance(found, Exception):
        dist = make()
        base = dist.base_dist if isinstance(dist, D.Independent) else dist
        assert isinstance(found, NotImplementedError)
        assert type(base).__name__ in str(found)
        assert f"has no {kind} value" in str(found)
        assert "`random`" in str(found)
        assert isinstance(other, Exception) or not other.isfinite().all() or name in DIFFERENT
    else:
        assert found.isfinite().all()
        if not isinstance(other, Exception) and other.isfinite().all() and name not in DIFFERENT:
            assert torch.equal(found.to(other.dtype), other)


def test_hints_name_what_there_is():
    """Types that would fail too are not suggested."""
    with pytest.raises(NotImplementedError, match="Cauchy has no mean value for 2 of 2 elements") as caught:
        fixed_value(D.Cauchy(ONE, ONE), InteractionType.MEAN)
    assert "type: `mode`, `deterministic`, `random`" in str(caught.value)
    with pytest.raises(NotImplementedError, match="type: `mean`, `deterministic`, `random`"):
        fixed_value(D.Uniform(0 * ONE, ONE), InteractionType.MODE)


def test_each_element_takes_what_it_has():
    """Whether one element has a mean does not change the value of another one."""
    dist = D.StudentT(torch.tensor([1.0, 3.0]), loc=torch.tensor([4.0, 5.0]))
    assert fixed_value(dist, InteractionType.DETERMINISTIC).tolist() == [4.0, 5.0]
    with pytest.raises(NotImplementedError, match="1 of 2 elements"):
        fixed_value(dist, InteractionType.MEAN)
    tie = D.Bernoulli(torch.tensor([0.5, 0.8, 0.1]))
    assert fixed_value(tie, InteractionType.DETERMINISTIC).tolist() == [0.0, 1.0, 0.0]
    assert tie.log_prob(fixed_value(tie, InteractionType.DETERMINISTIC)).isfinite().all()


def test_parameters_that_are_nan_are_not_blamed_on_the_distribution():
    """A network that has diverged shows as nan, not as a distribution without a mode."""
    dist = D.Gumbel(torch.tensor([torch.nan, 0.0]), ONE, validate_args=False)
    assert fixed_value(dist, InteractionType.MODE).isnan().tolist() == [True, False]


def test_components_are_named():
    """Of a composite distribution, and each component takes the value that it has."""
    parts = {"a": D.Normal(ONE, ONE), ("n", "c"): D.Cauchy(ONE, ONE), "t": DISTRIBUTIONS["tanh of Normal"]()}
    data = TensorDict(batch_size=[2])

    def act(kind):
        return ProbabilisticTensorDictModule(
            ["x"],
            ["a", ("n", "c"), "t"],
            default_interaction_type=kind,
            n_empirical_estimate=10,
            distribution_class=lambda x: CompositeDistribution.from_distributions(data, parts),
        )(TensorDict(x=ONE, batch_size=[2]))

    assert act("deterministic")["n", "c"].tolist() == [1.0, 1.0]
    with pytest.raises(NotImplementedError, match=r"component \('n', 'c'\): Cauchy has no mean value"):
        act("mean")
    del parts["n", "c"]
    parts["n", "c"] = D.Uniform(0 * ONE, ONE)
    found = act("mean")  # an estimate of the one component that has no closed form
    assert (found["a"].tolist(), found["n", "c"].tolist()) == ([1.0, 1.0], [0.5, 0.5])
