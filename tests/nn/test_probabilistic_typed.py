"""Typed probabilistic modules: values and log-probabilities as fields, checked when the pipeline is built."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import Tensor, nn
from torch import distributions as D

from tensorclass import TensorClass, TensorDict, produced
from tensorclass.errors import BuildError, SchemaError
from tensorclass.nn import (
    CompositeDistribution,
    NormalParamExtractor,
    ProbabilisticTensorClassModule,
    ProbabilisticTensorClassSequential,
    TensorClassModule,
    TensorClassSequential,
    set_interaction_type,
)
from tensorclass.nn.parts._slots import Slot
from tensorclass.typing import Float32, Int64


class Obs(TensorClass):
    x: Float32[Tensor, "4"]


class Act(TensorClass):
    loc: Float32[Tensor, "2"]
    scale: Float32[Tensor, "2"]
    action: Float32[Tensor, "2"]
    score: Float32[Tensor, ""]


class Twice(TensorClass):
    loc: Float32[Tensor, "2"]
    first: Float32[Tensor, "2"]
    second: Float32[Tensor, "2"]


class State(TensorClass):
    center: Float32[Tensor, "2"]
    spread: Float32[Tensor, "2"]
    action: Float32[Tensor, "2"] = produced()
    score: Float32[Tensor, "2"] = produced()


def normal(loc, scale):
    """A diagonal normal distribution over the last dim."""
    return D.Independent(D.Normal(loc, scale), 1)


def policy(**options):
    """A network, its parameters, and a value with its log-probability."""
    return ProbabilisticTensorClassSequential(
        TensorClassModule(nn.Linear(4, 2), Obs.x, Act.loc),
        TensorClassModule(nn.Sequential(nn.Linear(4, 2), nn.Softplus()), Obs.x, Act.scale),
        ProbabilisticTensorClassModule(
            (Act.loc, Act.scale), Act.action, distribution_class=normal, log_prob_field=Act.score, **options
        ),
        input=Obs,
        output=Act,
    )


def test_a_policy():
    """Deterministic outside of a block, random inside; the score is that of the value."""
    pipeline, obs = policy(), Obs(torch.randn(5, 4))
    act = pipeline(obs)
    assert torch.equal(act.action, act.loc)
    with set_interaction_type("random"):
        act = pipeline(obs)
    assert not torch.equal(act.action, act.loc)
    assert torch.allclose(act.score, normal(act.loc, act.scale).log_prob(act.action))
    assert torch.allclose(pipeline.log_prob(obs, act), act.score)
    assert torch.allclose(pipeline.get_dist(obs).mean, act.loc)


def test_gradients_reach_the_network():
    """Through reparametrised samples and through log-probabilities."""
    pipeline, obs = policy(default_interaction_type="random"), Obs(torch.randn(5, 4))
    act = pipeline(obs)
    act.action.sum().backward(retain_graph=True)
    pipeline.zero_grad()
    pipeline.log_prob(obs, act.detach()).sum().backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in pipeline.parameters())


def test_state_dict_and_copies():
    """A sampler has no parameters, so the keys are those of the networks."""
    pipeline, obs = policy(), Obs(torch.randn(5, 4))
    assert len(pipeline.state_dict()) == 4
    for twin in (copy.deepcopy(pipeline), pickle.loads(pickle.dumps(pipeline))):
        assert torch.equal(twin(obs).action, pipeline(obs).action)
        assert torch.allclose(twin.get_dist(obs).mean, pipeline.get_dist(obs).mean)


def test_values_before_condition_those_after():
    """log_prob takes the first value from the sample; get_dist draws one."""
    pipeline = ProbabilisticTensorClassSequential(
        TensorClassModule(nn.Linear(4, 2), Obs.x, Twice.loc),
        ProbabilisticTensorClassModule(
            Twice.loc,
            Twice.first,
            distribution_class=D.Normal,
            distribution_kwargs={"scale": 1.0},
            default_interaction_type="random",
            name="one",
        ),
        ProbabilisticTensorClassModule(
            {"loc": Twice.first},
            Twice.second,
            distribution_class=D.Normal,
            distribution_kwargs={"scale": 2.0},
            default_interaction_type="random",
            name="two",
        ),
        input=Obs,
        output=Twice,
    )
    obs = Obs(torch.randn(3, 4))
    drawn = pipeline(obs)
    expected = D.Normal(drawn.loc, 1.0).log_prob(drawn.first) + D.Normal(drawn.first, 2.0).log_prob(drawn.second)
    assert torch.allclose(pipeline.log_prob(obs, drawn), expected.sum(-1))
    torch.manual_seed(0)
    first = D.Normal(drawn.loc, 1.0).rsample()
    torch.manual_seed(0)
    assert torch.allclose(pipeline.get_dist(obs).mean, first)


def test_one_state_class():
    """Called alone on a batch, a new instance with the fields filled in."""
    act = ProbabilisticTensorClassModule(
        {"loc": State.center, "scale": State.spread},
        State.action,
        distribution_class=D.Normal,
        log_prob_field=State.score,
    )
    batch = State(torch.randn(3, 2), torch.rand(3, 2) + 0.5)
    done = act(batch)
    assert torch.equal(done.action, batch.center)
    assert torch.allclose(done.score, D.Normal(batch.center, batch.spread).log_prob(done.action))
    assert torch.allclose(act.log_prob(done), done.score)


def test_composite():
    """One field for each component, and the sum of their log-probabilities."""

    class Params(TensorClass):
        params: TensorDict

    class Both(TensorClass):
        cont: Float32[Tensor, "2"]
        disc: Int64[Tensor, ""]
        score: Float32[Tensor, ""]

    act = ProbabilisticTensorClassModule(
        Params.params,
        (Both.cont, Both.disc),
        distribution_class=CompositeDistribution,
        distribution_kwargs={"distribution_map": {"c": D.Normal, "d": D.Categorical}},
        log_prob_field=Both.score,
        default_interaction_type="random",
    )
    entries = {"c": {"loc": torch.randn(3, 2), "scale": torch.ones(3, 2)}, "d": {"logits": torch.randn(3, 5)}}
    batch = Params(TensorDict(entries, [3]))
    done = act(batch)
    expected = D.Normal(entries["c"]["loc"], 1.0).log_prob(done.cont).sum(-1)
    expected = expected + D.Categorical(logits=entries["d"]["logits"]).log_prob(done.disc)
    assert torch.allclose(done.score, expected)


def test_generator():
    """A seed of the module's own; torch's global state stays."""
    before = torch.get_rng_state()
    obs = Obs(torch.randn(5, 4))
    pipelines = [policy(default_interaction_type="random", generator=3) for _ in range(2)]
    pipelines[1].load_state_dict(pipelines[0].state_dict())
    before = torch.get_rng_state()
    assert torch.equal(pipelines[0](obs).action, pipelines[1](obs).action)
    assert torch.equal(torch.get_rng_state(), before)


def test_compiled():
    """One graph, in both modes of a deterministic and a random policy."""
    pipeline, obs = policy(), Obs(torch.randn(5, 4))
    expected = pipeline(obs)
    compiled = torch.compile(pipeline, fullgraph=True, backend="eager")
    assert torch.allclose(compiled(obs).score, expected.score)


def build(*modules, output=Act):
    """A pipeline from observations."""
    return ProbabilisticTensorClassSequential(*modules, input=Obs, output=output)


HEAD = (
    TensorClassModule(nn.Sequential(nn.Linear(4, 4), NormalParamExtractor()), Obs.x, (Act.loc, Act.scale), name="head"),
)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: ProbabilisticTensorClassModule(Act.action, Act.action, distribution_class=D.Normal),
            "Normal has no parameter `action`",
        ),
        (
            lambda: ProbabilisticTensorClassModule({"lock": Act.loc}, Act.action, distribution_class=D.Normal),
            "no parameter `lock`; did you mean `loc`",
        ),
        (
            lambda: ProbabilisticTensorClassModule(
                Act.loc, Act.action, distribution_class=D.Normal, distribution_kwargs={"scal": 1.0}
            ),
            "no parameter `scal`; did you mean `scale`",
        ),
        (
            lambda: ProbabilisticTensorClassModule(Act.loc, Act.action, generator="seed"),
            "takes a torch.Generator or a seed",
        ),
        (lambda: ProbabilisticTensorClassModule("loc", Act.action), "references to fields"),
        (
            lambda: build(*HEAD, TensorClassModule(lambda z: z, Act.loc, Act.action), output=Twice),
            "E107",
        ),
        (
            lambda: ProbabilisticTensorClassSequential(
                TensorClassModule(nn.Linear(4, 4), Obs.x, Obs.x, update=True), input=Obs
            ),
            "no ProbabilisticTensorClassModule",
        ),
        (
            lambda: build(
                ProbabilisticTensorClassModule((Act.loc, Act.scale), Act.action, distribution_class=D.Normal), *HEAD
            ),
            "move it before module 0",
        ),
        (
            lambda: build(
                *HEAD,
                ProbabilisticTensorClassModule(
                    (Act.loc, Act.scale), Act.action, distribution_class=D.Normal, log_prob_field=Act.score
                ),
            ),
            "score",  # one log-probability for each element of the event, where the field declares one for all
        ),
    ],
)
def test_wrong_pipelines(make, words):
    """Caught when they are built."""
    with pytest.raises(BuildError) as error:
        make()
    assert words in str(error.value)


def test_in_a_plain_pipeline():
    """A probabilistic module is a module like any other."""
    pipeline = TensorClassSequential(
        *HEAD,
        ProbabilisticTensorClassModule(
            (Act.loc, Act.scale), Act.action, distribution_class=normal, log_prob_field=Act.score
        ),
        input=Obs,
        output=Act,
    )
    assert pipeline(Obs(torch.zeros(2, 4))).action.shape == (2, 2)


def conditional():
    """Two values, the second drawn around the first."""
    return ProbabilisticTensorClassSequential(
        TensorClassModule(nn.Linear(4, 2), Obs.x, Twice.loc, name="net"),
        ProbabilisticTensorClassModule(
            Twice.loc, Twice.first, distribution_class=D.Normal, distribution_kwargs={"scale": 1.0}, name="one"
        ),
        TensorClassModule(lambda x: x + 1, Twice.first, Twice.first, update=True, name="moved"),
        ProbabilisticTensorClassModule(
            {"loc": Twice.first},
            Twice.second,
            distribution_class=D.Normal,
            distribution_kwargs={"scale": 1.0},
            name="two",
        ),
        input=Obs,
        output=Twice,
    )


@pytest.mark.parametrize(("make", "parts"), [(policy, 2), (conditional, 3)])
@pytest.mark.parametrize("twin", [lambda p: p, copy.deepcopy])
def test_parts_are_made_once(make, parts, twin, monkeypatch):
    """What computes the parameters is written at the first call, and not again."""
    obs, pipeline = Obs(torch.randn(3, 4)), twin(make())
    sample = pipeline(obs)

    def use():
        pipeline.get_dist(obs)
        pipeline.log_prob(obs, sample)
        pipeline.get_dist_params(obs)

    use()
    monkeypatch.setattr("tensorclass.nn.typed._forward.compile_function", None)
    use()
    assert len(pipeline._parts) == parts


def test_parts_follow_replaced_modules():
    """A module that is replaced, trained or moved takes effect, in a copy by itself."""
    pipeline, obs = policy(), Obs(torch.randn(3, 4))
    twin = copy.deepcopy(pipeline)
    old = pipeline.get_dist(obs).mean
    assert torch.equal(twin.get_dist(obs).mean, old)
    twin[0].module.weight.data.zero_()
    assert torch.equal(pipeline.get_dist(obs).mean, old)
    name = next(name for name, module in pipeline.named_children() if isinstance(module, nn.Linear))
    setattr(pipeline, name, nn.Linear(4, 2))
    new = pipeline.get_dist(obs).mean
    assert not torch.allclose(new, old)
    assert torch.allclose(new, getattr(pipeline, name)(obs.x))
    pipeline.check()
    assert torch.equal(pipeline.get_dist(obs).mean, new)


def test_hooks_run_in_parts():
    """The modules are the pipeline's own, with their hooks."""
    pipeline, obs, seen = policy(), Obs(torch.randn(3, 4)), []
    pipeline[0].module.register_forward_hook(lambda *_: seen.append(1))
    pipeline.get_dist(obs)
    pipeline.log_prob(obs, pipeline(obs))
    assert len(seen) == 3


def test_parameters_as_an_instance():
    """`get_dist_params` gives the parameters of `get_dist`, by their fields."""
    pipeline, obs = policy(), Obs(torch.randn(3, 4))
    params, dist = pipeline.get_dist_params(obs), pipeline.get_dist(obs)
    assert sorted(params.keys()) == ["loc", "scale"]
    assert torch.equal(params.loc, dist.base_dist.loc)
    assert torch.equal(params.scale, dist.base_dist.scale)

    class Own(TensorClass):
        center: Float32[Tensor, "2"]
        spread: Float32[Tensor, "2"]
        action: Float32[Tensor, "2"] = produced()

    own = Own(torch.zeros(3, 2), torch.ones(3, 2))
    fields = {"loc": Own.center, "scale": Own.spread}
    act = ProbabilisticTensorClassModule(fields, Own.action, distribution_class=D.Normal)
    alone = ProbabilisticTensorClassSequential(act, input=Own)
    assert torch.equal(alone.get_dist_params(own).spread, own.spread)


def test_errors_in_parts_name_the_module():
    """The index is that of the pipeline, and so is the first call's comparison."""
    pipeline, obs = conditional(), Obs(torch.randn(3, 4))
    pipeline.net = nn.Linear(3, 2)
    with pytest.raises(RuntimeError) as info:
        pipeline.get_dist(obs)
    assert "module 0 `net`" in str(info.value) + "".join(getattr(info.value, "__notes__", ()))
    pipeline.net = nn.Linear(4, 3)
    with pytest.raises(SchemaError, match="loc"):
        pipeline.get_dist(obs)


def test_a_call_that_goes_well_builds_no_text(monkeypatch):
    """The names of out fields are for messages; building them took a tenth of a call of a small actor."""
    pipeline, obs = policy(default_interaction_type="random"), Obs(torch.randn(5, 4))
    pipeline(obs)
    monkeypatch.setattr(Slot, "label", property(lambda slot: pytest.fail(f"the label of {slot.name} was built")))
    assert pipeline(obs).score.shape == (5,)
