"""Composite distributions against the anchor's; interaction types and the aggregate flag, in blocks and threads."""

from __future__ import annotations

import functools
import sys
import threading

import pytest
import tensordict
import tensordict.nn as anchor
import torch
from torch import distributions as D

from tensorclass import TensorDict
from tensorclass.errors import MissingKeyError
from tensorclass.nn import ProbabilisticTensorDictModule
from tensorclass.nn.distributions import CompositeDistribution, Delta
from tensorclass.nn.distributions._fixed import fixed_value
from tensorclass.nn.distributions._interaction import (
    InteractionType,
    composite_lp_aggregate,
    interaction_type,
    set_composite_lp_aggregate,
    set_interaction_type,
)

SOURCE = {
    "cont": {"loc": torch.randn(3, 4), "scale": torch.rand(3, 4) + 0.1},
    ("nested", "disc"): {"logits": torch.randn(3, 10)},
}
MAKERS = {"cont": D.Normal, ("nested", "disc"): D.Categorical}


def pair(**options):
    """Ours and the anchor's, of equal parameters."""
    ours = CompositeDistribution(TensorDict(SOURCE, [3]), MAKERS, **options)
    theirs = anchor.CompositeDistribution(tensordict.TensorDict(SOURCE, [3]), MAKERS, **options)
    return ours, theirs


def same(ours, theirs):
    """Equal tensors, or containers of equal keys, batch sizes and values."""
    if isinstance(theirs, torch.Tensor):
        return torch.allclose(ours, theirs, atol=1e-6)
    keys = {k if isinstance(k, str) else tuple(k) for k in theirs.keys(True, True)}
    assert set(ours.keys(True, True)) == keys
    assert ours.batch_size == theirs.batch_size
    return all(torch.allclose(ours[k].float(), theirs[k].float(), atol=1e-6) for k in keys)


def drawn(dist, name="sample", shape=(2,)):
    """What a method gives from one seed."""
    torch.manual_seed(0)
    return getattr(dist, name)(torch.Size(shape))


@pytest.mark.parametrize("aggregate", [False, True])
@pytest.mark.parametrize("options", [{}, {"name_map": {"cont": ("x", "y")}}])
def test_as_the_anchor(options, aggregate):
    """Samples, log-probabilities and entropies of one seed, summed or not."""
    ours, theirs = pair(**options)
    with set_composite_lp_aggregate(aggregate), anchor.set_composite_lp_aggregate(aggregate):
        assert same(drawn(ours), drawn(theirs))
        sample, other = drawn(ours), drawn(theirs)
        assert same(ours.log_prob(sample), theirs.log_prob(other))
        assert same(ours.entropy(), theirs.entropy())
        assert same(ours.entropy_composite(include_sum=True), theirs.entropy_composite(include_sum=True))
        for include in (None, True, False):
            mine, their = (
                ours.log_prob_composite(sample, include_sum=include),
                theirs.log_prob_composite(other, include_sum=include),
            )
            assert same(mine, their)
            assert (mine is sample) == (their is other)
        mine, their = drawn(ours, "sample_and_log_prob"), drawn(theirs, "sample_and_log_prob")
        assert same(mine[0], their[0])
        assert same(mine[1], their[1])
    assert same(ours.deterministic_sample, theirs.deterministic_sample)
    assert same(ours.mode, theirs.mode)


def test_cumulative_probabilities():
    """Cdf and icdf write into the sample; icdf inverts cdf."""
    params = {"a": {"loc": torch.zeros(2), "scale": torch.ones(2)}, "b": {"loc": torch.ones(2), "scale": torch.ones(2)}}
    makers = {"a": D.Normal, "b": D.Normal}
    ours = CompositeDistribution(TensorDict(params, [2]), makers)
    theirs = anchor.CompositeDistribution(tensordict.TensorDict(params, [2]), makers)
    sample, other = (
        TensorDict(a=torch.zeros(2), b=torch.ones(2), batch_size=[2]),
        tensordict.TensorDict(a=torch.zeros(2), b=torch.ones(2), batch_size=[2]),
    )
    assert ours.cdf(sample) is sample
    assert same(sample, theirs.cdf(other))
    assert same(ours.icdf(sample), theirs.icdf(other))
    fresh = TensorDict(a=torch.tensor([0.5, -1.0]), b=torch.ones(2), batch_size=[2])
    assert torch.allclose(ours.icdf(fresh)["a_icdf"], fresh["a"], atol=1e-5)


def test_mapping():
    """Keys of samples to components."""
    dist, _ = pair()
    assert isinstance(dist["nested", "disc"], D.Categorical)
    assert list(dist) == ["cont", ("nested", "disc")]
    assert len(dist) == 2
    assert "nested.disc: Categorical" in repr(dist)
    assert dist.log_prob_key == "sample_log_prob"
    dist.log_prob_key = ("a", "b")
    assert dist.log_prob_key == ("a", "b")
    dist.log_prob_key = None
    assert dist.log_prob_key == "sample_log_prob"


def test_from_distributions():
    """Instances are used as they are."""
    normal = D.Normal(torch.zeros(3, 2), torch.ones(3, 2))
    dist = CompositeDistribution.from_distributions(TensorDict(batch_size=[3]), {"a": normal}, name_map={"a": "b"})
    assert dist["b"] is normal
    assert dist.has_rsample
    assert dist.rsample((4,))["b"].shape == (4, 3, 2)


def test_entropy_by_sampling():
    """A component without a closed form is estimated from samples."""
    tanh = D.TransformedDistribution(D.Normal(torch.zeros(3), torch.full((3,), 0.1)), [D.TanhTransform()])
    dist = CompositeDistribution.from_distributions(TensorDict(batch_size=[3]), {"a": tanh})
    torch.manual_seed(0)
    assert torch.allclose(dist.entropy(2000)["a_entropy"], D.Normal(0.0, 0.1).entropy(), atol=0.05)


STRICT = functools.partial(D.Normal, validate_args=True)  # whatever torch.compile has made the default


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda p: CompositeDistribution(p, {"contt": D.Normal}), MissingKeyError, "did you mean `cont`"),
        (lambda p: CompositeDistribution(p, MAKERS, name_map={"con": "x"}), ValueError, "did you mean `cont`"),
        (lambda p: CompositeDistribution(p, MAKERS, extra_kwargs={"y": {}}), ValueError, "which is not a component"),
        (
            lambda p: CompositeDistribution(p, MAKERS, name_map={"cont": ("nested", "disc")}),
            ValueError,
            "two components",
        ),
        (lambda p: CompositeDistribution(p, {("cont", "loc"): D.Normal}), TypeError, "keyword arguments"),
        (
            lambda p: CompositeDistribution(p, {"cont": D.Categorical}),
            TypeError,
            "component `cont`, made of loc, scale",
        ),
        (
            lambda p: CompositeDistribution(p.apply(torch.neg), {"cont": STRICT}),
            ValueError,
            "component `cont`, made of loc, scale: Expected parameter scale",
        ),
        (
            lambda p: CompositeDistribution(p, MAKERS).log_prob(TensorDict(cont=torch.zeros(3, 4), batch_size=[3])),
            MissingKeyError,
            "nested.disc",
        ),
        (
            lambda p: CompositeDistribution.from_distributions(p, {"a": D.Normal(torch.zeros(2), 1.0)}),
            ValueError,
            "does not start",
        ),
    ],
)
def test_bad_input(make, error, words):
    """Unknown names, clashing keys, entries that are no parameters, samples that lack a value."""
    with pytest.raises(error, match=words):
        make(TensorDict(SOURCE, [3]))


def test_interaction_type():
    """Blocks nest, decorate, and end with what was before; names in any case."""
    assert interaction_type() is None
    with set_interaction_type("Random"):
        assert interaction_type() is InteractionType.RANDOM
        with set_interaction_type(None):
            assert interaction_type() is None
        assert interaction_type() is InteractionType.RANDOM
    assert interaction_type() is None
    assert set_interaction_type(InteractionType.MODE)(interaction_type)() is InteractionType.MODE
    assert InteractionType.from_str("MEAN") is InteractionType.MEAN
    assert {m.name for m in InteractionType} == {m.name for m in anchor.InteractionType}
    assert str(InteractionType.MODE) == str(anchor.InteractionType.MODE)
    with pytest.raises(ValueError, match="did you mean `median`"):
        set_interaction_type("medan")


def test_aggregate_flag():
    """As a block, and from here on with `set` and `unset`."""
    assert composite_lp_aggregate() is False
    setting = set_composite_lp_aggregate(True)
    setting.set()
    assert composite_lp_aggregate() is True
    setting.unset()
    assert composite_lp_aggregate() is False
    with pytest.raises(RuntimeError, match="`unset` goes with a `set`"):
        setting.unset()
    with pytest.raises(TypeError, match="True or False"):
        set_composite_lp_aggregate("yes")


def test_threads_never_see_each_others_modes():
    """Two threads in different modes, switched as often as can be."""
    wrong = []
    start = threading.Barrier(2)

    def work(kind, aggregate):
        start.wait()
        for _ in range(3000):
            with set_interaction_type(kind), set_composite_lp_aggregate(aggregate):
                if interaction_type() is not kind or composite_lp_aggregate() is not aggregate:
                    wrong.append(kind)
            if interaction_type() is not None or composite_lp_aggregate():
                wrong.append(None)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [
            threading.Thread(target=work, args=args)
            for args in ((InteractionType.RANDOM, True), (InteractionType.MODE, False))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert wrong == []


def test_threads_draw_in_their_own_modes():
    """Two threads call one module in different modes, switched as often as can be: no output of the other mode."""
    module = ProbabilisticTensorDictModule(["loc", "scale"], ["a"], distribution_class=D.Normal)
    loc, wrong, start = torch.zeros(2), [], threading.Barrier(2)

    def work(kind):
        start.wait()
        for _ in range(400):
            with set_interaction_type(kind):
                drawn = module(TensorDict(loc=loc, scale=torch.ones(2)))["a"]
            if torch.equal(drawn, loc) is (kind == "random"):
                wrong.append(kind)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(kind,)) for kind in ("random", "mode")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert wrong == []


@pytest.mark.parametrize(
    "make",
    [
        lambda: D.Normal(torch.randn(3), torch.ones(3)),
        lambda: D.Categorical(logits=torch.randn(3, 4)),
        lambda: D.Bernoulli(logits=torch.randn(3)),
        lambda: D.Independent(D.Normal(torch.randn(3, 2), torch.ones(3, 2)), 1),
        lambda: D.Poisson(torch.rand(3) * 5 + 1),
        lambda: D.Uniform(torch.zeros(3), torch.ones(3)),
        lambda: D.Beta(torch.full((3,), 2.0), torch.full((3,), 3.0)),
    ],
)
def test_deterministic_values(make):
    """The mode of what is discrete, the mean of what is not."""
    dist = make()
    discrete = isinstance(dist, D.Categorical | D.Bernoulli | D.Poisson)
    assert torch.equal(fixed_value(dist, InteractionType.DETERMINISTIC), dist.mode if discrete else dist.mean)


def test_deterministic_value_of_its_own():
    """A distribution that has `deterministic_sample` decides itself."""
    value = torch.randn(3, 2)
    assert fixed_value(Delta(value), InteractionType.DETERMINISTIC) is value
