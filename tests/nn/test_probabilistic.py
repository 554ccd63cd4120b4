"""Probabilistic keyed modules beside the anchor's: the same keys, and from one seed the same values."""

from __future__ import annotations

import copy
import pickle

import pytest
import tensordict
import tensordict.nn as anchor
import torch
from torch import distributions as D

import tensorclass
import tensorclass.nn as ours
from tensorclass.errors import MissingKeyError, ModuleError
from tensorclass.nn import (
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictModule,
    TensorDictSequential,
    interaction_type,
    set_composite_lp_aggregate,
    set_interaction_type,
    set_skip_existing,
)
from tensorclass.nn import distributions as our_distributions

KINDS = ["random", "mode", "mean", "deterministic"]
LOC, SCALE = torch.randn(3, 2), torch.rand(3, 2) + 0.5
MAKERS = {"cont": D.Normal, ("nested", "disc"): D.Categorical}


def normal(**kwargs):
    """A diagonal normal distribution over the last dim."""
    return D.Independent(D.Normal(**kwargs), 1)


def both(make):
    """What a function makes with our package and with the anchor's."""
    return make(tensorclass.TensorDict, ours, our_distributions), make(
        tensordict.TensorDict, anchor, anchor.distributions
    )


def keys_of(data):
    """Every key of a container."""
    return {key if isinstance(key, str) else tuple(key) for key in data.keys(True, True)}


def agree(mine, theirs):
    """Equal keys, batch sizes and values."""
    assert keys_of(mine) == keys_of(theirs)
    assert mine.batch_size == theirs.batch_size
    for key in keys_of(mine):
        assert torch.allclose(mine[key].double(), theirs[key].double(), atol=1e-4), key


def run(module, data):
    """One call from one seed."""
    torch.manual_seed(0)
    return module(data)


def prob(nn, in_keys, out_keys=None, cls=D.Normal, constants=None, **options):
    """A probabilistic module of one of the packages."""
    options.update(distribution_class=cls, distribution_kwargs=constants)
    return nn.ProbabilisticTensorDictModule(in_keys, out_keys, **options)


RENAMED = {"cont": "x", ("nested", "disc"): ("y", "z")}
CASES = {
    "normal": lambda nn, d, **k: prob(nn, ["loc", "scale"], ["a"], **k),
    "independent": lambda nn, d, **k: prob(nn, ["loc", "scale"], ["a"], normal, **k),
    "named": lambda nn, d, **k: prob(nn, {"loc": "scale", "scale": "scale"}, ["a"], **k),
    "nested": lambda nn, d, **k: prob(nn, [("g", "loc"), "scale"], [("g", "a")], **k),
    "constants": lambda nn, d, **k: prob(nn, ["loc"], ["a"], constants={"scale": 0.5}, **k),
    "delta": lambda nn, d, **k: prob(nn, {"param": "loc"}, ["a"], d.Delta, **k),
    "categorical": lambda nn, d, **k: prob(nn, {"logits": "loc"}, ["a"], D.Categorical, **k),
    "one-hot": lambda nn, d, **k: prob(nn, {"logits": "loc"}, ["a"], d.OneHotCategorical, **k),
    "truncated": lambda nn, d, **k: prob(nn, ["loc", "scale"], ["a"], d.TruncatedNormal, {"a": -3.0, "b": 3.0}, **k),
    "composite": lambda nn, d, **k: prob(
        nn, ["params"], None, d.CompositeDistribution, {"distribution_map": MAKERS}, **k
    ),
    "composite renamed": lambda nn, d, **k: prob(
        nn, ["params"], None, d.CompositeDistribution, {"distribution_map": MAKERS, "name_map": RENAMED}, **k
    ),
}


# The anchor's truncated normal has no mode; the mean of categories is nan, and has no log-probability.
CATEGORIES = ("categorical", "one-hot", "composite", "composite renamed")
ABSENT = {("truncated", "mode"), *((case, "mean") for case in CATEGORIES)}


def source(TensorDict):
    """An input that has what every case reads."""
    params = {"cont": {"loc": LOC, "scale": SCALE}, "nested": {"disc": {"logits": LOC}}}
    return TensorDict({"loc": LOC, "scale": SCALE, "g": {"loc": LOC}, "params": params}, [3])


@pytest.mark.parametrize("scored", [False, True])
@pytest.mark.parametrize(
    ("case", "kind"), [(case, kind) for case in CASES for kind in KINDS if (case, kind) not in ABSENT]
)
def test_modules_as_the_anchor(case, kind, scored):
    """Keys, values and log-probabilities of every distribution and interaction type."""
    mine, theirs = both(lambda _, nn, d: CASES[case](nn, d, default_interaction_type=kind, return_log_prob=scored))
    assert mine.in_keys == theirs.in_keys
    assert mine.out_keys == theirs.out_keys
    assert mine.dist_sample_keys == theirs.dist_sample_keys
    assert mine.log_prob_keys == theirs.log_prob_keys
    data, other = source(tensorclass.TensorDict), source(tensordict.TensorDict)
    agree(run(mine, data), run(theirs, other))
    score, expected = mine.log_prob(data), theirs.log_prob(other)
    if isinstance(expected, torch.Tensor):
        assert torch.allclose(score, expected, atol=1e-4)  # as in `agree`: the draws differ by rounding
    else:
        agree(score, expected)


@pytest.mark.parametrize("case", ["independent", "composite"])
def test_aggregated_as_the_anchor(case):
    """Under the aggregate flag the sum is written, and returned by `log_prob`, which writes the parts too."""
    with set_composite_lp_aggregate(True), anchor.set_composite_lp_aggregate(True):
        mine, theirs = both(
            lambda _, nn, d: CASES[case](nn, d, default_interaction_type="random", return_log_prob=True)
        )
        assert mine.out_keys == theirs.out_keys
        assert mine.log_prob_key == theirs.log_prob_key
        data, other = source(tensorclass.TensorDict), source(tensordict.TensorDict)
        agree(run(mine, data), run(theirs, other))
        assert torch.allclose(mine.log_prob(data), theirs.log_prob(other), atol=1e-6)
        agree(data, other)
    with pytest.raises(ModuleError, match=r"was True when .* was built"):
        mine.log_prob_keys


@pytest.mark.parametrize("samples", [4, torch.Size([2, 2])])
@pytest.mark.parametrize("kind", ["random", "mean"])
def test_several_samples(samples, kind):
    """Leading dims of the result, which is a new container; the input stays as it is."""
    mine, theirs = both(
        lambda _, nn, d: CASES["normal"](
            nn, d, default_interaction_type=kind, num_samples=samples, return_log_prob=True
        )
    )
    data, other = source(tensorclass.TensorDict), source(tensordict.TensorDict)
    agree(run(mine, data), run(theirs, other))
    assert "a" not in data


def test_dispatch():
    """Tensors in, tensors out."""
    module = CASES["normal"](ours, our_distributions, return_log_prob=True)
    value, score = module(LOC, SCALE)
    assert torch.equal(value, LOC)
    assert torch.allclose(score, D.Normal(LOC, SCALE).log_prob(LOC))
    assert torch.equal(module(loc=LOC, scale=SCALE)[0], LOC)


def chain(nn, d, kinds=("random", "random"), **options):
    """Two distributions, the second over a function of a draw of the first."""
    return nn.ProbabilisticTensorDictSequential(
        nn.TensorDictModule(lambda x: x + 1, ["x"], ["loc"]),
        prob(nn, ["loc"], ["s0"], constants={"scale": 1.0}, default_interaction_type=kinds[0]),
        nn.TensorDictModule(lambda x: x * 2, ["s0"], ["loc2"]),
        prob(nn, {"loc": "loc2"}, ["s1"], constants={"scale": 1.0}, default_interaction_type=kinds[1]),
        **options,
    )


@pytest.mark.parametrize("kinds", [("random", "deterministic"), ("deterministic", "random"), ("random", "random")])
@pytest.mark.parametrize("composite", [None, True, False])
def test_sequences_as_the_anchor(composite, kinds):
    """Keys, values of one seed, and distributions."""
    mine, theirs = both(lambda _, nn, d: chain(nn, d, kinds, return_composite=composite))
    for name in ("in_keys", "out_keys", "dist_params_keys", "dist_sample_keys", "log_prob_keys", "num_samples"):
        assert getattr(mine, name) == getattr(theirs, name), name
    assert str(mine.default_interaction_type) == str(theirs.default_interaction_type)
    data, other = (T(x=torch.zeros(3), batch_size=[3]) for T in (tensorclass.TensorDict, tensordict.TensorDict))
    agree(run(mine, data.copy()), run(theirs, other.copy()))
    torch.manual_seed(0)
    dist = mine.get_dist(data)
    torch.manual_seed(0)
    expected = theirs.get_dist(other)
    assert type(dist).__name__ == type(expected).__name__
    assert torch.allclose(
        (dist["s1"] if composite is not False else dist).mean,
        (expected["s1"] if composite is not False else expected).mean,
    )
    assert keys_of(data) == keys_of(other)


@pytest.mark.parametrize("composite", [True, False])
def test_log_prob_is_conditional_on_the_values(composite):
    """The anchor draws the first value again, so that its second log-probability belongs to another draw."""
    policy = chain(ours, our_distributions, return_composite=composite)
    data = policy(tensorclass.TensorDict(x=torch.zeros(3), batch_size=[3]))
    drawn = data.clone()
    score = policy.log_prob(data)
    score = score["s1_log_prob"] if composite else score
    assert torch.allclose(score, D.Normal(2 * drawn["s0"], 1.0).log_prob(drawn["s1"]))
    assert torch.equal(data["s0"], drawn["s0"])


def test_sum_over_a_sequence():
    """Under the aggregate flag one tensor, the sum over both values."""
    with set_composite_lp_aggregate(True):
        policy = chain(ours, our_distributions)
        data = policy(tensorclass.TensorDict(x=torch.zeros(3), batch_size=[3]))
        expected = D.Normal(1.0, 1.0).log_prob(data["s0"]) + D.Normal(2 * data["s0"], 1.0).log_prob(data["s1"])
        assert torch.allclose(policy.log_prob(data), expected)


def test_parts_of_a_sequence():
    """Parameters without the last draw, the distribution of given parameters, slices and subsequences."""
    policy = chain(ours, our_distributions, ("deterministic", "deterministic"))
    data = policy.get_dist_params(tensorclass.TensorDict(x=torch.zeros(3), batch_size=[3]))
    assert keys_of(data) == {"x", "loc", "s0", "loc2"}
    assert torch.equal(policy.build_dist_from_params(data).mean, torch.full((3,), 2.0))
    assert isinstance(policy[:2], ProbabilisticTensorDictSequential)
    assert isinstance(policy[:1], TensorDictSequential)
    assert policy.det_part.out_keys == ["loc", "s0", "loc2"]
    assert policy.select_subsequence(out_keys=["s0"]).out_keys == ["loc", "s0"]
    out = tensorclass.TensorDict(batch_size=[3])
    untouched = tensorclass.TensorDict(x=torch.zeros(3), batch_size=[3])
    assert keys_of(policy(untouched, tensordict_out=out)) == {"loc", "s0", "loc2", "s1"}
    assert keys_of(untouched) == {"x"}


def test_nested_sequences():
    """A probabilistic sequence inside another is one of its parts."""
    inner = chain(ours, our_distributions, ("mean", "mean"))
    outer = ProbabilisticTensorDictSequential(inner, TensorDictModule(lambda x: -x, ["s1"], ["y"]))
    data = outer(tensorclass.TensorDict(x=torch.zeros(3), batch_size=[3]))
    assert torch.equal(data["y"], torch.full((3,), -2.0))
    assert sorted(outer.get_dist(data)) == ["s0", "s1"]
    assert keys_of(outer.log_prob(data)) == {"s0_log_prob", "s1_log_prob"}


def test_generators():
    """A generator, a seed, and a seed in the input: the global state stays, the seed moves on."""
    expected = torch.normal(LOC, SCALE, generator=torch.Generator().manual_seed(7))
    before = torch.get_rng_state()
    for generator in (7, torch.Generator().manual_seed(7)):
        module = CASES["normal"](ours, our_distributions, default_interaction_type="random", generator=generator)
        data = source(tensorclass.TensorDict)
        # rsample draws loc + scale * standard normal, from the same numbers
        assert torch.allclose(module(data)["a"], expected, atol=1e-6)
        assert not torch.equal(module(data)["a"], expected)
    module = CASES["normal"](ours, our_distributions, default_interaction_type="random", generator="seed")
    data = tensorclass.TensorDict(loc=LOC, scale=SCALE, seed=torch.tensor(7))
    assert torch.allclose(module(data)["a"], expected, atol=1e-6)
    assert data["seed"] != 7
    assert torch.equal(torch.get_rng_state(), before)
    assert "a" in module(source(tensorclass.TensorDict))  # without the entry the global generator is used


@pytest.mark.parametrize(
    "make",
    [
        lambda: D.Normal(LOC, SCALE),
        lambda: D.Categorical(logits=LOC),
        lambda: D.Bernoulli(logits=LOC),
        lambda: D.Uniform(LOC, LOC + 1),
        lambda: D.Gamma(SCALE, SCALE),
        lambda: D.Beta(SCALE, SCALE),
        lambda: D.Dirichlet(SCALE),
        lambda: D.Exponential(SCALE),
        lambda: D.Poisson(SCALE),
        lambda: D.Gumbel(LOC, SCALE),
        lambda: D.Laplace(LOC, SCALE),
        lambda: D.Cauchy(LOC, SCALE),
        lambda: D.StudentT(SCALE + 2),
        lambda: D.Geometric(logits=LOC),
        lambda: D.MultivariateNormal(LOC, torch.eye(2)),
        lambda: D.Binomial(5, logits=LOC),
        lambda: D.VonMises(LOC, SCALE),
        lambda: D.RelaxedBernoulli(torch.tensor(1.0), logits=LOC),
        lambda: our_distributions.TruncatedNormal(LOC, SCALE, -9.0, 9.0),
    ],
)
def test_generators_reach_every_distribution(make):
    """Two calls from one seed agree, a third differs, and the global state stays."""
    module = prob(ours, ["x"], ["a"], lambda x: make(), default_interaction_type="random", generator="seed")
    before = torch.get_rng_state()

    def drawn(seed):
        return module(tensorclass.TensorDict(x=torch.zeros(()), seed=torch.tensor(seed)))["a"]

    assert torch.equal(drawn(1), drawn(1))
    assert any(not torch.equal(drawn(1), drawn(seed)) for seed in range(2, 12))
    assert torch.equal(torch.get_rng_state(), before)


def test_mean_by_sampling():
    """A distribution without a mean is averaged over samples."""
    tanh = lambda loc: D.TransformedDistribution(D.Normal(loc, 0.1), [D.TanhTransform()])  # noqa: E731  # a maker
    module = prob(ours, ["loc"], ["a"], tanh, default_interaction_type="mean", n_empirical_estimate=4000)
    torch.manual_seed(0)
    assert torch.allclose(module(tensorclass.TensorDict(loc=torch.zeros(3)))["a"], torch.zeros(3), atol=0.02)


def test_skip_existing():
    """A value that is there stays."""
    module = CASES["normal"](ours, our_distributions)
    data = source(tensorclass.TensorDict)
    data["a"] = torch.ones(3, 2)
    with set_skip_existing(True):
        assert torch.equal(module(data)["a"], torch.ones(3, 2))
    assert torch.equal(module(data)["a"], LOC)


def test_a_value_that_is_written_before_is_not_drawn():
    """The last module does not draw what the modules before it write."""
    policy = ProbabilisticTensorDictSequential(
        TensorDictModule(lambda x: (x, x + 5), ["x"], ["loc", "a"]),
        ProbabilisticTensorDictModule(["loc"], ["a"], distribution_class=D.Normal, distribution_kwargs={"scale": 1.0}),
    )
    data = policy(tensorclass.TensorDict(x=torch.zeros(3), batch_size=[3]))
    assert torch.equal(data["a"], torch.full((3,), 5.0))
    assert torch.allclose(policy.log_prob(data), D.Normal(0.0, 1.0).log_prob(torch.tensor(5.0)).expand(3))


def test_partial_tolerant():
    """Modules whose in keys are missing are skipped; the anchor stores the option and does not use it."""
    policy = chain(ours, our_distributions, partial_tolerant=True)
    assert keys_of(policy(tensorclass.TensorDict(s0=torch.zeros(3), batch_size=[3]))) == {"s0", "loc2", "s1"}


def test_copies_and_compile():
    """Deep copies, pickles and compiled sequences compute the same."""
    policy = ProbabilisticTensorDictSequential(
        TensorDictModule(torch.nn.Linear(2, 4), ["x"], ["params"]),
        TensorDictModule(ours.NormalParamExtractor(), ["params"], ["loc", "scale"]),
        ProbabilisticTensorDictModule(["loc", "scale"], ["a"], distribution_class=D.Normal, return_log_prob=True),
    )
    x = torch.randn(3, 2)
    expected = policy(tensorclass.TensorDict(x=x, batch_size=[3]))
    compiled = torch.compile(policy, fullgraph=True, backend="eager")
    for module in (copy.deepcopy(policy), pickle.loads(pickle.dumps(policy)), compiled):
        agree(module(tensorclass.TensorDict(x=x, batch_size=[3])), expected)


def test_blocks_inside_compiled_code():
    """The interaction type that a compiled function sets is the one that its modules see."""
    module = CASES["normal"](ours, our_distributions)

    def act(data):
        with set_interaction_type("random"):
            return module(data)["a"], interaction_type()

    compiled = torch.compile(act, fullgraph=True, backend="eager")
    value, _ = compiled(source(tensorclass.TensorDict))
    assert not torch.equal(value, LOC)
    assert torch.equal(module(source(tensorclass.TensorDict))["a"], LOC)


def source_of(**entries):
    """A container of ours."""
    return tensorclass.TensorDict(**entries)


def case(name, **options):
    """One of the modules above, of ours."""
    return CASES[name](ours, our_distributions, **options)


COMPOSITE = our_distributions.CompositeDistribution
BAD = {
    "missing parameter": (lambda: case("normal")(source_of(loc=LOC)), MissingKeyError, "'scale', not found"),
    "wrong parameter": (
        lambda: prob(ours, ["locc"], ["a"])(source_of(locc=LOC)), TypeError, "no parameter `locc`; did you mean `loc`",
    ),
    "wrong value": (lambda: case("normal")(source_of(loc=LOC, scale=-SCALE)), ValueError, "scale"),
    "no distribution": (
        lambda: prob(ours, ["x"], ["a"], lambda x: x)(source_of(x=LOC)), ModuleError, "a Tensor, not a torch distr",
    ),
    "no median": (
        lambda: case("normal", default_interaction_type="median")(source(tensorclass.TensorDict)), NotImplementedError,
        "no median",
    ),
    "unknown type": (lambda: case("normal", default_interaction_type="mod"), ValueError, "did you mean `mode`"),
    "one value for two keys": (
        lambda: prob(ours, ["loc", "scale"], ["a", "b"])(source(tensorclass.TensorDict)), ModuleError,
        r"1 value\(s\) for the out_keys",
    ),
    "keys that the composite does not write": (
        lambda: prob(ours, ["params"], ["x"], COMPOSITE, {"distribution_map": MAKERS}), ModuleError, "name_map",
    ),
    "one key for two scores": (lambda: case("composite", log_prob_key="lp"), ModuleError, "log_prob_keys, one for"),
    "two keys for one score": (lambda: case("normal", log_prob_keys=["x", "y"]), ModuleError, "2 keys for the 1"),
    "both kinds of keys": (
        lambda: case("normal", log_prob_keys=["x"], log_prob_key="y"), ModuleError, "not both",
    ),
    "a score over the value": (
        lambda: case("normal", return_log_prob=True, log_prob_key="a"), ModuleError, "would overwrite the sample",
    ),
    "an argument twice": (lambda: prob(ours, ["loc", ("g", "loc")], ["a"]), ModuleError, "`loc` twice"),
    "no probabilistic module": (
        lambda: ProbabilisticTensorDictSequential(TensorDictModule(abs, ["x"], ["y"])).get_dist(None), ModuleError,
        "no probabilistic module",
    ),
    "the last is not probabilistic": (
        lambda: ProbabilisticTensorDictSequential(TensorDictModule(abs, ["x"], ["y"]), return_composite=False),
        TypeError, "not probabilistic",
    ),
}  # fmt: skip


@pytest.mark.usefixtures("validated")
@pytest.mark.parametrize("name", BAD)
def test_bad_input(name):
    """Each says what was given, what is expected and what to do."""
    make, error, words = BAD[name]
    with pytest.raises(error, match=words):
        make()


def test_no_score_is_lost():
    """Two modules that would write one log-probability key; the anchor keeps the last."""
    with set_composite_lp_aggregate(True), pytest.raises(ModuleError, match="would overwrite the others"):
        ProbabilisticTensorDictSequential(
            case("constants", return_log_prob=True),
            prob(ours, {"loc": "a"}, ["b"], constants={"scale": 1.0}, return_log_prob=True),
        )


def test_values_that_are_not_written():
    """Without out keys the value of a plain distribution goes nowhere; the anchor writes the key `_` and warns."""
    module = ProbabilisticTensorDictModule(["loc", "scale"], distribution_class=D.Normal)
    assert module.out_keys == ["_"]
    assert keys_of(module(tensorclass.TensorDict(loc=LOC, scale=SCALE))) == {"loc", "scale"}
