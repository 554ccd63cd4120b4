"""The contract for subclasses of keyed modules: every public class, subclassed as libraries do."""

from __future__ import annotations

import inspect

import pytest
import torch
from torch import nn
from torch.distributions import Normal

import tensorclass.nn
from tensorclass import TensorDict
from tensorclass.nn import (
    CudaGraphModule,
    EnsembleModule,
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorClassModuleWrapper,
    TensorDictModule,
    TensorDictModuleBase,
    TensorDictModuleWrapper,
    TensorDictSequential,
    WrapModule,
)


def _shift(x):
    return x + 1


def _parameters(x):
    return x, torch.ones_like(x)


def _first():
    return TensorDictModule(_parameters, ["x"], ["loc", "scale"])


def _drawing(**options):
    return ProbabilisticTensorDictModule(["loc", "scale"], ["y"], distribution_class=Normal, **options)


def _data():
    return TensorDict(x=torch.zeros(2), batch_size=[2])


def _double(data):
    return data.set("y", data["x"] * 2)


class Typed(tensorclass.nn.TensorClassModuleBase):
    """A class-to-class module over untyped containers, for its wrapper."""

    def forward(self, batch: TensorDict) -> TensorDict:
        return batch


BUILDS = {
    TensorDictModuleBase: ((), {}),
    TensorDictModule: ((_shift, ["x"], ["y"]), {}),
    TensorDictSequential: ((TensorDictModule(_shift, ["x"], ["y"]),), {}),
    ProbabilisticTensorDictModule: ((["loc", "scale"], ["y"]), {"distribution_class": Normal}),
    ProbabilisticTensorDictSequential: ((_first(), _drawing()), {}),
    TensorDictModuleWrapper: ((TensorDictModule(_shift, ["x"], ["y"]),), {}),
    WrapModule: ((_double,), {"in_keys": ["x"], "out_keys": ["y"]}),
    EnsembleModule: ((TensorDictModule(nn.Linear(1, 1), ["x"], ["y"]), 2), {}),
}
ELSEWHERE = {CudaGraphModule: "takes a function and is no base class", TensorClassModuleWrapper: "wraps typed modules"}


def _public():
    return [
        found
        for name in dir(tensorclass.nn)
        if inspect.isclass(found := getattr(tensorclass.nn, name)) and issubclass(found, TensorDictModuleBase)
    ]


def test_every_public_class_is_here():
    """Each public keyed module is in the suite, or on the list with its reason."""
    assert set(_public()) == set(BUILDS) | (set(ELSEWHERE) & set(_public()))


@pytest.mark.parametrize("base", BUILDS, ids=lambda base: base.__name__)
def test_own_constructor_and_forward(base):
    """A subclass has arguments of its own; its `forward` runs, by itself, in a sequence and after `select_out_keys`."""
    positional, options = BUILDS[base]
    calls = []

    class Own(base):
        def __init__(self, tag, *args, extra=None, **kwargs):
            super().__init__(*args, **kwargs)
            self.tag, self.extra = tag, extra
            self.head = nn.Linear(1, 1)
            if base is TensorDictModuleBase:
                self.in_keys, self.out_keys = ["x"], ["y"]

        def forward(self, tensordict, *args, **kwargs):
            calls.append(self.tag)
            return tensordict.set("y", tensordict["x"] + 5)

    module = Own("t", *positional, extra=3, **options)
    assert (module.tag, module.extra, "head.weight" in dict(module.named_parameters())) == ("t", 3, True)
    assert module(_data().set("loc", torch.zeros(2)))["y"].tolist() == [5, 5]
    assert TensorDictSequential(TensorDictModule(_shift, ["x"], ["x"]), module)(_data())["y"].tolist() == [6, 6]
    assert calls == ["t", "t"]
    if "y" in module.out_keys:
        assert module.select_out_keys("y").out_keys == ["y"]
        assert module(_data())["y"].tolist() == [5, 5]


@pytest.mark.parametrize("base", BUILDS, ids=lambda base: base.__name__)
def test_diamond_of_every_class(base):
    """Classes that pass arguments on meet in one, with a mixin before the base; each constructor runs once."""
    positional, options = BUILDS[base]
    made = []

    class Mixin(TensorDictModuleBase):
        def __init__(self, *args, mark=0, **kwargs):
            made.append("mixin")
            super().__init__(*args, **kwargs)
            self.mark = mark

    class Left(Mixin, base):
        pass

    class Right(base):
        def __init__(self, *args, **kwargs):
            made.append("right")
            super().__init__(*args, **kwargs)
            self.right = nn.Linear(1, 1)

    class Both(Left, Right):
        def forward(self, tensordict, *args, **kwargs):
            if base is TensorDictModuleBase:
                return tensordict.set("y", tensordict["x"])
            return super().forward(tensordict, *args, **kwargs)

    keys = {"in_keys": ["x"], "out_keys": ["y"]} if base is TensorDictModuleBase else {}
    module = Both(*positional, mark=3, **options)
    for name, value in keys.items():
        setattr(module, name, value)
    assert (module.mark, sorted(made), "right.weight" in module.state_dict()) == (3, ["mixin", "right"], True)
    data = TensorDict(x=torch.zeros(2, 1), loc=torch.zeros(2, 1), scale=torch.ones(2, 1), batch_size=[2])
    assert "y" in module(data).keys()  # noqa: SIM118  # a container
    assert isinstance(module, base)
    assert "y" in TensorDictSequential(module)(data).keys()  # noqa: SIM118  # a container


class Spec(TensorDictModule):
    """A mixin like those of libraries: a constructor with an argument of its own."""

    def __init__(self, module, in_keys, out_keys, spec=None):
        super().__init__(module, in_keys, out_keys)
        self.spec = spec


class SpecSequential(TensorDictSequential, Spec):
    """A diamond: sets up the module itself, and takes a single option of its base."""

    def __init__(self, *modules, partial_tolerant=False):
        self.partial_tolerant = partial_tolerant
        reads = list(modules[0].in_keys)
        writes = [key for module in modules for key in module.out_keys]
        super(TensorDictSequential, self).__init__(nn.ModuleList(modules), in_keys=reads, out_keys=writes)


class SpecActor(ProbabilisticTensorDictSequential, SpecSequential):
    """The diamond below a probabilistic sequence."""


class Plain(TensorDictSequential):
    """A constructor that takes nothing but modules."""

    def __init__(self, *modules):
        assert all(isinstance(module, nn.Module) for module in modules)
        super().__init__(*modules)


@pytest.mark.parametrize("partial", [False, True])
def test_diamond(partial):
    """Only options that were given reach the next class of the MRO."""
    actor = SpecActor(_first(), _drawing(), partial_tolerant=partial)
    assert (actor.spec, actor.partial_tolerant, len(actor)) == (None, partial, 2)
    assert actor(_data())["y"].tolist() == [0, 0]
    assert actor.get_dist(_data()).mean.tolist() == [0, 0]
    assert type(actor[1:]) is SpecActor
    assert actor[1:].partial_tolerant is partial
    assert type(actor[:1]) is TensorDictSequential
    with pytest.raises(TypeError, match="inplace"):
        SpecActor(_first(), _drawing(), inplace=False)


@pytest.mark.parametrize("kind", [Plain, SpecSequential])
def test_parts_of_a_sequence(kind):
    """Slices and `select_subsequence` call the class with one argument for each module."""
    model = kind(TensorDictModule(_shift, ["x"], ["a"]), TensorDictModule(_shift, ["a"], ["b"]))
    for part in (model[:1], model.select_subsequence(out_keys=["a"]), model.select_subsequence(in_keys=["x"])[:1]):
        assert type(part) is kind
        assert part[0] is model[0]
        assert part(_data())["a"].tolist() == [1, 1]


def test_parts_of_a_sequence_with_names():
    """A sequence built from a dict is rebuilt from a dict, by `with_modules` of the subclass."""

    class Tagged(TensorDictSequential):
        def __init__(self, tag, *modules):
            super().__init__(*modules)
            self.tag = tag

        def with_modules(self, modules):
            return Tagged(self.tag, modules)

    model = Tagged("t", {"a": TensorDictModule(_shift, ["x"], ["a"]), "b": TensorDictModule(_shift, ["a"], ["b"])})
    assert model[1:].tag == "t"
    assert model[1:]["b"] is model["b"]
    assert model.select_subsequence(out_keys=["a"])["a"] is model["a"]


def test_number_of_samples():
    """`num_samples` is None unless given; what was given are leading dims."""
    assert _drawing().num_samples is None
    assert [_drawing(num_samples=n).num_samples for n in (2, (), (2, 3))] == [(2,), (), (2, 3)]
    assert ProbabilisticTensorDictSequential(_first(), _drawing()).num_samples == ()
    assert ProbabilisticTensorDictSequential(_first(), _drawing(num_samples=4))(_data())["y"].shape == (4, 2)


def test_draw_value():
    """`draw_value` decides the value of a call, and its log-probability; sequences use that of the last module."""

    class Far(ProbabilisticTensorDictModule):
        def draw_value(self, dist):
            return super().draw_value(dist) + 10

    far = Far(["loc", "scale"], ["y"], distribution_class=Normal, return_log_prob=True)
    actor = ProbabilisticTensorDictSequential(_first(), far)
    data = actor(_data())
    assert data["y"].tolist() == [10, 10]
    assert torch.equal(data["y_log_prob"], Normal(0.0, 1.0).log_prob(data["y"]))
    assert actor.draw_value(Normal(torch.ones(()), 1.0)).item() == 11


def test_overridden_distribution_methods():
    """A sequence runs through an overridden `get_dist_params` and `build_dist_from_params`."""

    class Own(ProbabilisticTensorDictSequential):
        def build_dist_from_params(self, tensordict):
            return Normal(tensordict["loc"] + 3, 1.0)

        def get_dist_params(self, tensordict, tensordict_out=None, **kwargs):
            return super().get_dist_params(tensordict.replace(x=tensordict["x"] + 1), tensordict_out, **kwargs)

    actor = Own(_first(), _drawing())
    assert actor.get_dist(_data()).mean.tolist() == [4, 4]
    assert actor(_data())["y"].tolist() == [1, 1]


def test_keys_as_attributes_of_a_wrapping_class():
    """A subclass of `TensorDictModule` may also list its keys as class attributes."""

    class Next(TensorDictModule):
        in_keys = ["x"]
        out_keys = ["y"]

    assert Next(lambda x: x + 1, ["x"], ["y"])(TensorDict(x=torch.zeros(2)))["y"].tolist() == [1, 1]
