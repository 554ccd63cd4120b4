"""Distributions against scipy, torch and the anchor; the layers and functions that parametrise them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
import tensordict.nn as anchor
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict.nn import distributions as anchor_distributions
from torch import distributions as D

from tensorclass.nn.distributions import (
    AddStateIndependentNormalScale,
    Delta,
    NormalParamExtractor,
    OneHotCategorical,
    TruncatedNormal,
    add_custom_mapping,
    biased_softplus,
    expln,
    inv_softplus,
    mappings,
    rand_one_hot,
)

# loc, scale, a, b: symmetric, one-sided, far in either tail, wide, narrow.
INTERVALS = [
    (0.0, 1.0, -1.0, 1.0),
    (5.0, 0.5, -1.0, 6.0),
    (0.0, 1.0, 3.0, 5.0),
    (0.0, 1.0, -7.0, -6.0),
    (2.0, 3.0, -30.0, 30.0),
    (1.0, 1.0, 0.999, 1.001),
    (0.0, 2.0, 10.0, 40.0),
]


def pair(interval):
    """Ours and scipy's distribution on one interval, in float64."""
    loc, scale, a, b = interval
    ours = TruncatedNormal(*[torch.tensor(v, dtype=torch.float64) for v in interval])
    return ours, scipy.stats.truncnorm((a - loc) / scale, (b - loc) / scale, loc, scale)


@pytest.mark.parametrize("interval", INTERVALS)
def test_truncated_normal_moments(interval):
    """Mean, variance and entropy agree with scipy to 1e-6 of the width, also far in the tails."""
    ours, theirs = pair(interval)
    width = interval[3] - interval[2]
    assert ours.mean.item() == pytest.approx(theirs.mean(), abs=1e-6 * width)
    assert ours.variance.item() == pytest.approx(theirs.var(), abs=1e-6 * width**2)
    assert ours.entropy().item() == pytest.approx(theirs.entropy(), abs=1e-6)
    assert ours.auc.item() == pytest.approx(
        scipy.stats.norm.cdf(interval[3], *interval[:2]) - scipy.stats.norm.cdf(interval[2], *interval[:2]), rel=1e-6
    )


@pytest.mark.parametrize("interval", INTERVALS)
def test_truncated_normal_density_and_quantiles(interval):
    """log_prob, cdf and icdf on a grid, to 1e-6."""
    ours, theirs = pair(interval)
    share = torch.linspace(0.01, 0.99, 25, dtype=torch.float64)
    x = torch.tensor(theirs.ppf(share.numpy()))
    assert torch.allclose(ours.log_prob(x), torch.tensor(theirs.logpdf(x.numpy())), atol=1e-6)
    assert torch.allclose(ours.cdf(x), share, atol=1e-6)
    assert torch.allclose(ours.icdf(share), x, atol=1e-6 * (interval[3] - interval[2]))


@pytest.mark.parametrize("interval", INTERVALS[:5])
def test_truncated_normal_samples(interval):
    """A Kolmogorov-Smirnov test does not reject 4,000 samples, and none lies outside."""
    torch.manual_seed(0)
    ours, theirs = pair(interval)
    drawn = ours.sample((4000,)).numpy()
    assert drawn.min() >= interval[2]
    assert drawn.max() <= interval[3]
    assert scipy.stats.kstest(drawn, theirs.cdf).pvalue > 1e-3


def test_truncated_normal_gradients():
    """log_prob, mean, variance, entropy and reparametrised samples are differentiable in the parameters."""
    loc = torch.tensor([0.3, -1.0], dtype=torch.float64, requires_grad=True)
    scale = torch.tensor([0.7, 2.0], dtype=torch.float64, requires_grad=True)
    share = torch.tensor([0.2, 0.9], dtype=torch.float64)

    def numbers(loc, scale):
        dist = TruncatedNormal(loc, scale, -1.0, 2.0)
        return dist.mean, dist.variance, dist.entropy(), dist.log_prob(torch.zeros_like(loc)), dist.icdf(share)

    assert torch.autograd.gradcheck(numbers, (loc, scale))


def test_truncated_normal_as_the_anchor():
    """The same numbers, and the same samples from the same seed."""
    args = torch.tensor([0.0, 0.5]), torch.tensor([1.0, 2.0]), -1.0, 1.5
    ours, theirs = TruncatedNormal(*args), anchor_distributions.TruncatedNormal(*args)
    x = torch.tensor([0.1, -0.5])
    for name in ("mean", "variance", "auc"):
        assert torch.allclose(getattr(ours, name), getattr(theirs, name), atol=1e-5), name
    assert torch.allclose(ours.log_prob(x), theirs.log_prob(x), atol=1e-5)
    assert torch.allclose(ours.entropy(), theirs.entropy(), atol=1e-5)
    torch.manual_seed(3)
    mine = ours.rsample((5,))
    torch.manual_seed(3)
    assert torch.allclose(mine, theirs.rsample((5,)), atol=1e-4)


@pytest.mark.usefixtures("validated")
def test_truncated_normal_bounds():
    """Wrong bounds, values outside, and what is outside without validation."""
    with pytest.raises(ValueError, match="`a` is below the upper bound `b`"):
        TruncatedNormal(0.0, 1.0, 2.0, 1.0)
    dist = TruncatedNormal(torch.zeros(2), torch.ones(2), -1.0, 1.0)
    with pytest.raises(ValueError, match="support"):
        dist.log_prob(torch.tensor([0.0, 3.0]))
    free = TruncatedNormal(torch.zeros(2), torch.ones(2), -1.0, 1.0, validate_args=False)
    assert free.log_prob(torch.tensor([0.0, 3.0]))[1] == -math.inf
    assert free.expand((4, 2)).sample((3,)).shape == (3, 4, 2)
    assert TruncatedNormal(3.0, 1.0, -1.0, 1.0).mode == 1


def test_truncated_normal_without_an_upper_bound():
    """An interval that ends at infinity."""
    dist = TruncatedNormal(torch.zeros((), dtype=torch.float64), 1.0, 0.0, math.inf)
    theirs = scipy.stats.truncnorm(0, np.inf)
    assert dist.mean.item() == pytest.approx(theirs.mean())
    assert dist.variance.item() == pytest.approx(theirs.var())
    assert dist.entropy().item() == pytest.approx(0.5 * math.log(math.pi * math.e / 2))  # of the half-normal


def test_delta():
    """Shapes, log-probabilities with tolerances, and samples of one value."""
    value = torch.randn(4, 2, requires_grad=True)
    dist = Delta(value)
    assert (dist.batch_shape, dist.event_shape) == ((4,), (2,))
    assert dist.log_prob(value.detach()).tolist() == [math.inf] * 4
    assert dist.log_prob(value.detach() + torch.tensor([0.0, 1.0])).tolist() == [-math.inf] * 4
    assert dist.rsample((3,)).shape == (3, 4, 2)
    assert dist.rsample().requires_grad
    assert not dist.sample().requires_grad
    assert dist.mean is dist.mode is dist.deterministic_sample is value
    assert not dist.variance.any()
    assert dist.expand((5, 4)).batch_shape == (5, 4)


@pytest.mark.parametrize(
    ("given", "batch", "event"),
    [
        ({}, (4,), (2,)),
        ({"batch_shape": (4,)}, (4,), (2,)),
        ({"event_shape": (4, 2)}, (), (4, 2)),
        ({"batch_shape": (4, 2)}, (4, 2), ()),
        ({"batch_shape": (4,), "event_shape": (2,)}, (4,), (2,)),
    ],
)
def test_delta_shapes(given, batch, event):
    """What is not given is the rest of the value."""
    dist = Delta(torch.zeros(4, 2), **given)
    assert (dist.batch_shape, dist.event_shape) == (batch, event)
    assert dist.log_prob(torch.zeros(4, 2)).shape == batch


def test_delta_refuses_other_shapes():
    """Shapes that do not make up the value, and an update that does not fit."""
    with pytest.raises(ValueError, match=r"\[3\].*\[4, 2\]"):
        Delta(torch.zeros(4, 2), batch_shape=(3,))
    dist = Delta(torch.zeros(4, 2))
    dist.update(torch.ones(4, 2))
    assert dist.mean.sum() == 8
    with pytest.raises(ValueError, match=r"\[4, 2\], got \[3, 2\]"):
        dist.update(torch.ones(3, 2))


def test_one_hot_as_torch():
    """Samples of a seed, log-probabilities and modes are those of torch's own distribution, as integers."""
    logits = torch.randn(3, 4)
    ours, theirs = OneHotCategorical(logits=logits), D.OneHotCategorical(logits=logits)
    torch.manual_seed(0)
    drawn = ours.sample((5,))
    torch.manual_seed(0)
    assert torch.equal(drawn, theirs.sample((5,)).long())
    assert drawn.dtype is torch.int64
    assert torch.allclose(ours.log_prob(drawn), theirs.log_prob(drawn.float()))
    assert torch.equal(ours.mode, theirs.mode.long())
    assert torch.equal(ours.deterministic_sample, ours.mode)
    assert torch.allclose(ours.entropy(), theirs.entropy())


def test_one_hot_as_the_anchor():
    """The same samples from the same seed."""
    logits = torch.randn(3, 4)
    ours, theirs = OneHotCategorical(logits), anchor.OneHotCategorical(logits)
    for name in ("sample", "rsample"):
        torch.manual_seed(1)
        mine = getattr(ours, name)((6,))
        torch.manual_seed(1)
        assert torch.equal(mine, getattr(theirs, name)((6,))), name
    assert (
        OneHotCategorical(torch.randn(3, 1)).sample().shape
        == anchor.OneHotCategorical(torch.randn(3, 1)).sample().shape
    )


def test_one_hot_gradients():
    """A straight-through sample is one-hot and carries a gradient."""
    logits = torch.randn(3, 4, requires_grad=True)
    drawn = OneHotCategorical(logits).rsample()
    assert torch.allclose(drawn.sum(-1), torch.ones(3))
    (drawn * torch.arange(4.0)).sum().backward()
    assert logits.grad.abs().sum() > 0


@pytest.mark.usefixtures("validated")
@pytest.mark.parametrize("value", [[0.3, 0.7], [1, 1], [0, 0], [0, 2]])
def test_one_hot_refuses_other_values(value):
    """The anchor takes the largest entry of anything."""
    with pytest.raises(ValueError, match="one-hot"):
        OneHotCategorical(probs=torch.tensor([0.2, 0.8])).log_prob(torch.tensor(value))


@pytest.mark.usefixtures("validated")
def test_one_hot_refuses_indices():
    """An index is no one-hot value."""
    with pytest.raises(ValueError, match="2 categories"):
        OneHotCategorical(probs=torch.tensor([0.2, 0.8])).log_prob(torch.tensor([0, 1, 1]))


def test_rand_one_hot():
    """As often as the probabilities say, with the anchor's samples from one seed."""
    torch.manual_seed(0)
    probs = torch.tensor([0.1, 0.6, 0.3])
    drawn = rand_one_hot(probs.expand(20_000, 3), do_softmax=False)
    assert torch.equal(drawn.sum(-1), torch.ones(20_000, dtype=torch.int64))
    assert torch.allclose(drawn.double().mean(0), probs.double(), atol=0.02)
    logits = torch.randn(50, 5)
    torch.manual_seed(2)
    mine = rand_one_hot(logits)
    torch.manual_seed(2)
    assert torch.equal(mine, anchor.rand_one_hot(logits))


@given(x=st.floats(-20, 20), bias=st.floats(0.1, 10))
def test_mappings_as_the_anchor(x, bias):
    """Every named function gives the anchor's numbers."""
    value = torch.tensor([x])
    for name in ("softplus", "exp", "relu", "expln", "biased_softplus", "none", f"biased_softplus_{bias}"):
        assert torch.allclose(mappings(name)(value), anchor.mappings(name)(value), atol=1e-6, equal_nan=True), name
    assert inv_softplus(bias) == pytest.approx(anchor.inv_softplus(bias), abs=1e-5)
    assert torch.allclose(torch.nn.functional.softplus(inv_softplus(torch.tensor(bias))), torch.tensor(bias), atol=1e-5)


def test_mappings_refuse():
    """Unknown names, wrong numbers, a bias below the bound."""
    with pytest.raises(NotImplementedError, match="did you mean `softplus`"):
        mappings("softplu")
    for name in ("biased_softplus_x", "biased_softplus_1_2_3"):
        with pytest.raises(ValueError, match="one or two numbers"):
            mappings(name)
    with pytest.raises(ValueError, match="above min_val"):
        biased_softplus(0.001)
    with pytest.raises(TypeError, match="function of a tensor"):
        add_custom_mapping("wrong", 3)


def test_expln_is_differentiable():
    """Both branches, and no nan from the branch that is not taken."""
    x = torch.tensor([-1000.0, -1.0, 0.0, 1.0, 1000.0], requires_grad=True)
    expln(x).sum().backward()
    assert torch.isfinite(x.grad).all()


def test_normal_param_extractor():
    """As the anchor, other values passed through; an odd last dim is refused."""
    tensor = torch.randn(3, 6)
    mine, theirs = NormalParamExtractor("exp", 0.1)(tensor, "x"), anchor.NormalParamExtractor("exp", 0.1)(tensor, "x")
    assert torch.equal(mine[0], theirs[0])
    assert torch.equal(mine[1], theirs[1])
    assert mine[2] == "x"
    with pytest.raises(ValueError, match=r"even; got shape \[3\]"):
        NormalParamExtractor()(torch.zeros(3))
    with pytest.raises(ValueError, match="got nothing"):
        NormalParamExtractor()()


def test_state_independent_scale():
    """A parameter or a buffer, expanded to the location; a location that does not fit is refused."""
    layer = AddStateIndependentNormalScale(4, init_value=1.0)
    loc, scale, other = layer(torch.zeros(3, 4), 7)
    assert (loc.shape, scale.shape, other) == ((3, 4), (3, 4), 7)
    assert torch.allclose(scale, torch.full((3, 4), math.e))
    assert list(layer.state_dict()) == list(anchor.AddStateIndependentNormalScale(4).state_dict())
    assert [name for name, _ in layer.named_parameters()] == ["state_independent_scale"]
    fixed = AddStateIndependentNormalScale((2, 4), make_param=False)
    assert [name for name, _ in fixed.named_buffers()] == ["state_independent_scale"]
    with pytest.raises(RuntimeError, match=r"\[4\].*\[3\]"):
        layer(torch.zeros(3))
