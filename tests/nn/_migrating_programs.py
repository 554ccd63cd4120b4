"""Programs over modules as users of `tensordict` and TorchRL write them: run on either library, and compared.

Each takes `td`, the package of the containers, and `tdnn`, that of the modules, and returns what is compared.
"""

import copy
import io
import pickle
from collections import OrderedDict
from typing import Any

import torch
from torch import Tensor, nn
from torch import distributions as D

from tests.nn._keyed_cases import seen

PROGRAMS: dict[str, Any] = {}


def program(run: Any) -> Any:
    """Take a program up under its name."""
    PROGRAMS[run.__name__] = run
    return run


def linear(i: int, o: int, value: float = 0.1) -> nn.Linear:
    """A layer with known parameters."""
    layer = nn.Linear(i, o)
    with torch.no_grad():
        layer.weight.copy_(torch.linspace(-value, value, i * o).reshape(o, i))
        layer.bias.fill_(value)
    return layer


def policy(td: Any, tdnn: Any, **options: Any) -> Any:
    """A network, its parameters of a normal distribution, and the draw."""
    return tdnn.ProbabilisticTensorDictSequential(
        tdnn.TensorDictModule(linear(3, 4), in_keys=["observation"], out_keys=["params"]),
        tdnn.TensorDictModule(tdnn.NormalParamExtractor(), in_keys=["params"], out_keys=["loc", "scale"]),
        tdnn.ProbabilisticTensorDictModule(
            in_keys=["loc", "scale"],
            out_keys=["action"],
            distribution_class=D.Normal,
            default_interaction_type=tdnn.InteractionType.RANDOM,
            return_log_prob=True,
            **options,
        ),
    )


def observation(td: Any, n: int = 5) -> Any:
    """A batch of observations."""
    return td.TensorDict({"observation": torch.linspace(-1, 1, 3 * n).reshape(n, 3)}, batch_size=[n])


# ---- actors and critics as TorchRL builds them -----------------------------------------------------------------------


def safe_classes(td: Any, tdnn: Any) -> Any:
    """The classes of TorchRL in small: specs on top of keyed modules, by several inheritance."""

    class SafeModule(tdnn.TensorDictModule):
        def __init__(self, module: Any, in_keys: Any, out_keys: Any, spec: Any = None, safe: bool = False) -> None:
            super().__init__(module, in_keys=in_keys, out_keys=out_keys)
            self.spec, self.safe = spec, safe
            if safe:
                self.register_forward_hook(lambda module, args, out: out)

    class SafeSequential(tdnn.TensorDictSequential, SafeModule):
        def __init__(self, *modules: Any, partial_tolerant: bool = False, **options: Any) -> None:
            super().__init__(*modules, partial_tolerant=partial_tolerant, **options)
            self.specs = [getattr(module, "spec", None) for module in modules]

    class SafeProbabilisticModule(tdnn.ProbabilisticTensorDictModule):
        def __init__(self, in_keys: Any, out_keys: Any = None, spec: Any = None, safe: bool = False, **kw: Any) -> None:
            super().__init__(in_keys=in_keys, out_keys=out_keys, **kw)
            self._spec = spec

        @property
        def spec(self) -> Any:
            return self._spec

    class SafeProbabilisticSequential(tdnn.ProbabilisticTensorDictSequential, SafeSequential):
        def __init__(self, *modules: Any, partial_tolerant: bool = False) -> None:
            super().__init__(*modules, partial_tolerant=partial_tolerant)
            self.specs = [getattr(module, "spec", None) for module in modules]

    class Actor(SafeProbabilisticSequential):
        def __init__(self, module: Any, in_keys: Any, out_keys: Any = None, *, spec: Any = None, **kw: Any) -> None:
            distribution = SafeProbabilisticModule(in_keys, out_keys or ["action"], spec=spec, **kw)
            super().__init__(module, distribution)

    class Critic(SafeModule):
        def __init__(self, module: Any, in_keys: Any = None, out_keys: Any = None) -> None:
            super().__init__(module, in_keys or ["observation"], out_keys or ["state_value"])

    return SafeModule, SafeSequential, SafeProbabilisticModule, SafeProbabilisticSequential, Actor, Critic


@program
def torchrl_actor(td: Any, tdnn: Any) -> Any:
    """A subclass with arguments of its own, used like any actor."""
    safe, _, _, _, actor_class, _ = safe_classes(td, tdnn)
    backbone = safe(nn.Sequential(linear(3, 4), tdnn.NormalParamExtractor()), ["observation"], ["loc", "scale"])
    actor = actor_class(backbone, ["loc", "scale"], spec="box", distribution_class=D.Normal, return_log_prob=True)
    data = actor(observation(td))
    with tdnn.set_interaction_type("random"):
        torch.manual_seed(0)
        drawn = actor(observation(td))
    dist = actor.get_dist(observation(td))
    return (
        data,
        drawn,
        dist.mean,
        actor.log_prob(drawn),
        actor.in_keys,
        actor.out_keys,
        actor.specs,
        [name for name, _ in actor.named_parameters()],
        actor[0].spec,
        len(actor),
        actor[-1].spec,
    )


@program
def torchrl_actor_critic(td: Any, tdnn: Any) -> Any:
    """A shared backbone, an actor and a critic in one operator, and its parts."""
    safe, sequential, prob, prob_sequential, _, critic_class = safe_classes(td, tdnn)

    class Operator(sequential):
        def __init__(self, common: Any, actor: Any, critic: Any) -> None:
            super().__init__(common, actor, critic)

        def get_policy_operator(self) -> Any:
            return prob_sequential(self.module[0], *self.module[1].module)

        def get_value_operator(self) -> Any:
            return sequential(self.module[0], self.module[2])

    common = safe(linear(3, 3), ["observation"], ["hidden"])
    actor = prob_sequential(
        safe(nn.Sequential(linear(3, 4), tdnn.NormalParamExtractor()), ["hidden"], ["loc", "scale"]),
        prob(["loc", "scale"], ["action"], distribution_class=D.Normal),
    )
    model = Operator(common, actor, critic_class(linear(3, 1), ["hidden"]))
    return (
        model(observation(td)),
        model.get_policy_operator()(observation(td)),
        model.get_value_operator()(observation(td)),
        model.get_policy_operator().get_dist(observation(td)).mean,
        sorted(model.state_dict()),
    )


@program
def parameters_in_another_container(td: Any, tdnn: Any) -> Any:
    """`get_dist_params` and `get_dist` write only what modules made to the container that is given for it."""
    found: list[Any] = []
    for method in ("get_dist_params", "get_dist"):
        data, out = observation(td), td.TensorDict({}, [5])
        given = getattr(policy(td, tdnn), method)(data, out)
        found += [given is out, out, sorted(data.keys()), out["loc"]]
    return found


@program
def subclass_that_overrides_get_dist(td: Any, tdnn: Any) -> Any:
    """What a subclass says of its distribution is what is drawn from and scored."""

    class Clipped(tdnn.ProbabilisticTensorDictModule):
        def get_dist(self, tensordict: Any) -> Any:
            return D.Normal(tensordict["loc"].clamp(-0.1, 0.1), tensordict["scale"])

    class Sequence(tdnn.ProbabilisticTensorDictSequential):
        def get_dist(self, tensordict: Any, tensordict_out: Any = None, **kwargs: Any) -> Any:
            data = self.get_dist_params(tensordict, tensordict_out, **kwargs)
            return D.Independent(self.build_dist_from_params(data), 1)

    module = Clipped(["loc", "scale"], ["action"], distribution_class=D.Normal, return_log_prob=True)
    net = tdnn.TensorDictModule(lambda x: (x, x.abs() + 1), ["observation"], ["loc", "scale"])
    sequence = Sequence(net, module)
    data = sequence(observation(td))
    return data, sequence.get_dist(observation(td)).batch_shape, module.log_prob(data), sequence.log_prob(data)


@program
def subclasses_that_override_each_step(td: Any, tdnn: Any) -> Any:
    """Which of their methods a call, `get_dist` and `log_prob` go through, and in which order."""
    log: list[str] = []

    def logged(base: Any, title: str, names: list[str]) -> Any:
        cls = type(title, (base,), {})

        def method(name: str) -> Any:
            def run(self: Any, *args: Any, **kwargs: Any) -> Any:
                log.append(f"{title}.{name}")
                return getattr(super(cls, self), name)(*args, **kwargs)

            return run

        for name in names:
            setattr(cls, name, method(name))
        return cls

    steps = ["get_dist", "build_dist_from_params", "log_prob"]
    module_class = logged(tdnn.ProbabilisticTensorDictModule, "module", steps[:2])
    sequence_class = logged(tdnn.ProbabilisticTensorDictSequential, "sequence", [*steps, "get_dist_params"])
    found: list[Any] = []
    for composite in (None, True, False):
        module = module_class(["loc", "scale"], ["a"], distribution_class=D.Normal, return_log_prob=True)
        net = tdnn.TensorDictModule(lambda x: (x, x * 0 + 1), ["x"], ["loc", "scale"])
        model = sequence_class(net, module, return_composite=composite)
        for name in (*steps, "get_dist_params"):
            data = model(td.TensorDict(x=torch.zeros(3), batch_size=[3]))
            found.append(list(log))
            log.clear()
            getattr(model, name)(data)
            found.append(list(log))
            log.clear()
    return found


@program
def subclass_that_overrides_forward(td: Any, tdnn: Any) -> Any:
    """A sequence whose forward does something before and after."""

    class Counting(tdnn.TensorDictSequential):
        def __init__(self, *modules: Any, start: int = 0) -> None:
            super().__init__(*modules)
            self.register_buffer("count", torch.tensor(start))

        def forward(self, tensordict: Any, **kwargs: Any) -> Any:
            self.count += 1
            tensordict = super().forward(tensordict, **kwargs)
            return tensordict.set("count", self.count.expand(tensordict.batch_size))

    model = Counting(tdnn.TensorDictModule(linear(3, 2), ["observation"], ["y"]), start=4)
    model(observation(td))
    return model(observation(td)), sorted(model.state_dict()), model.in_keys


@program
def ppo_step(td: Any, tdnn: Any) -> Any:
    """Collect with one policy, score with another one, clip, and step."""
    torch.manual_seed(0)
    actor = policy(td, tdnn)
    critic = tdnn.TensorDictModule(linear(3, 1), ["observation"], ["state_value"])
    with torch.no_grad():
        data = critic(actor(observation(td)))
    data["advantage"] = torch.linspace(-1, 1, 5).unsqueeze(-1)
    optimizer = torch.optim.SGD([*actor.parameters(), *critic.parameters()], 0.1)
    losses = []
    for _ in range(2):
        for part in data.split(2):
            dist = actor.get_dist(part.select("observation"))
            ratio = (dist.log_prob(part["action"]) - part["action_log_prob"]).sum(-1, keepdim=True).exp()
            gain = torch.minimum(ratio * part["advantage"], ratio.clamp(0.8, 1.2) * part["advantage"])
            value = critic(part.select("observation"))["state_value"]
            loss = -gain.mean() + (value - part["advantage"]).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
    return losses, actor.state_dict()


@program
def dqn_target(td: Any, tdnn: Any) -> Any:
    """Target parameters kept as data, moved by an average, used through `to_module`."""
    net = tdnn.TensorDictModule(linear(3, 2), ["observation"], ["q"])
    params = td.TensorDict.from_module(net)
    target = td.TensorDictParams(params.data.clone(), no_convert=True)
    for parameter in net.parameters():
        parameter.data.add_(1)
    params = td.TensorDict.from_module(net).data
    target.data.lerp_(params, 0.5)
    with target.to_module(net):
        late = net(observation(td))["q"]
    return late, net(observation(td))["q"], [name for name, _ in target.named_buffers()], list(target.parameters())


@program
def ensemble_by_vmap(td: Any, tdnn: Any) -> Any:
    """Stacked parameters of several networks, run at once."""
    nets = [linear(3, 2, value) for value in (0.1, 0.2, 0.3)]
    module = tdnn.TensorDictModule(copy.deepcopy(nets[0]), ["observation"], ["q"])
    params = td.TensorDict.from_modules(*[tdnn.TensorDictModule(net, ["observation"], ["q"]) for net in nets])

    def run(params: Any, data: Any) -> Any:
        with params.to_module(module):
            return module(data)

    out = torch.vmap(run, (0, None))(params, observation(td))
    out["q"].sum().backward()
    return out["q"], out.batch_size, params["module", "weight"].grad.shape


@program
def ensemble_of_lazy_parameters(td: Any, tdnn: Any) -> Any:
    """The modules' own parameters under vmap get the gradients."""
    nets = [linear(3, 2, value) for value in (0.1, 0.2)]
    empty = nn.Linear(3, 2, device="meta")

    def run(params: Any, x: Tensor) -> Tensor:
        with params.to_module(empty):
            out: Tensor = empty(x)
            return out

    params = td.TensorDict.from_modules(*nets, lazy_stack=True)
    out = torch.vmap(run, (0, None))(params, torch.ones(3))
    out.pow(2).sum().backward()
    return out, [net.weight.grad for net in nets]


# ---- sampling --------------------------------------------------------------------------------------------------------


@program
def several_samples(td: Any, tdnn: Any) -> Any:
    """`num_samples` adds leading dims to the output."""
    torch.manual_seed(0)
    actor = policy(td, tdnn, num_samples=4)
    data = actor(observation(td))
    return data, actor.num_samples, actor.log_prob(data).shape


@program
def several_samples_of_a_shape(td: Any, tdnn: Any) -> Any:
    """A shape of samples, and of the deterministic value."""
    torch.manual_seed(0)
    actor = policy(td, tdnn, num_samples=torch.Size([2, 3]))
    with tdnn.set_interaction_type("mean"):
        return actor(observation(td)), actor(observation(td).select("observation")).batch_size


@program
def several_samples_apart(td: Any, tdnn: Any) -> Any:
    """Samples beside a sequence of the user, and with an output of its own."""
    torch.manual_seed(0)
    data, out = observation(td), td.TensorDict()
    inner = policy(td, tdnn, num_samples=2)
    model = tdnn.TensorDictSequential(inner, tdnn.TensorDictModule(lambda a: a * 2, ["action"], ["twice"]))
    return model(data), data, inner(observation(td), tensordict_out=out).batch_size, sorted(out.keys())


@program
def several_samples_of_a_composite(td: Any, tdnn: Any) -> Any:
    """Components have the sample dims too."""
    torch.manual_seed(0)
    module = tdnn.ProbabilisticTensorDictModule(
        ["params"],
        distribution_class=tdnn.CompositeDistribution,
        num_samples=3,
        default_interaction_type="random",
        distribution_kwargs={"distribution_map": {"a": D.Normal, ("n", "b"): D.Categorical}},
        return_log_prob=True,
    )
    params = {"a": {"loc": torch.zeros(2), "scale": torch.ones(2)}, "n": {"b": {"logits": torch.zeros(2, 4)}}}
    data = module(td.TensorDict({"params": params}, [2]))
    return data, module.out_keys, module.log_prob(data)


@program
def composite_distribution_by_hand(td: Any, tdnn: Any) -> Any:
    """Sampled by shape, scored, with and without the sum."""
    torch.manual_seed(0)
    params = td.TensorDict(
        {"a": {"loc": torch.zeros(3, 2), "scale": torch.ones(3, 2)}, "b": {"logits": torch.zeros(3, 4)}}, [3]
    )
    dist = tdnn.CompositeDistribution(params, {"a": D.Normal, "b": D.OneHotCategorical}, name_map={"a": ("x", "act")})
    sample = dist.sample(shape=(4,))
    apart = dist.log_prob(sample)
    with tdnn.set_composite_lp_aggregate(True):
        whole = dist.log_prob(sample)
        written = dist.log_prob_composite(sample.clone(), include_sum=True)
    return sample, apart, whole, written, dist.entropy(), dist.mode, dist.mean, dist.batch_shape


@program
def chain_of_draws(td: Any, tdnn: Any) -> Any:
    """Two draws, one conditional on the other; the composite of both."""
    torch.manual_seed(0)
    prob, mod = tdnn.ProbabilisticTensorDictModule, tdnn.TensorDictModule
    model = tdnn.ProbabilisticTensorDictSequential(
        mod(lambda x: x + 1, ["x"], ["loc"]),
        prob(["loc"], ["z"], distribution_class=D.Normal, distribution_kwargs={"scale": 1.0}),
        mod(lambda z: z * 2, ["z"], ["rate"]),
        prob({"loc": "rate"}, ["y"], distribution_class=D.Normal, distribution_kwargs={"scale": 1.0}),
    )
    data = model(td.TensorDict(x=torch.zeros(3), batch_size=[3]))
    return (
        data,
        model.log_prob(data),
        model.dist_sample_keys,
        model.dist_params_keys,
        sorted(model.get_dist(data).sample().keys()),
    )


@program
def generator_and_seed(td: Any, tdnn: Any) -> Any:
    """Two modules of one seed draw the same, whatever the global state."""

    def module() -> Any:
        return tdnn.ProbabilisticTensorDictModule(
            ["loc"],
            ["a"],
            distribution_class=D.Normal,
            distribution_kwargs={"scale": 1.0},
            generator=3,
            default_interaction_type="random",
        )

    data = td.TensorDict(loc=torch.zeros(3))
    one, two = module()(data.copy())["a"], module()(data.copy())["a"]
    state = torch.get_rng_state()
    module()(data.copy())
    return torch.equal(one, two), torch.equal(state, torch.get_rng_state())


# ---- objects, keys, dispatch -----------------------------------------------------------------------------------------


@program
def prompts_and_flags(td: Any, tdnn: Any) -> Any:
    """Text in, lengths and text out: objects in the middle of tensors."""
    tokenize = tdnn.TensorDictModule(
        lambda text: (torch.tensor([len(t) for t in text]), [t.upper() for t in text]), ["text"], ["n", "upper"]
    )
    join = tdnn.TensorDictModule(lambda upper, sep: sep.join(upper), ["upper", "sep"], ["joined"])
    scale = tdnn.TensorDictModule(lambda n, training: n * 2 if training else n, ["n", "training"], ["m"])
    data = td.TensorDict(text=["a", "bcd"], sep="-", training=td.NonTensorData(False), batch_size=[2])
    out = tdnn.TensorDictSequential(tokenize, join, scale)(data)
    return (
        out["n"],
        list(out["upper"]),
        out["joined"],
        out["m"],
        scale(n=torch.ones(2), training=td.NonTensorData(True)),
    )


@program
def configuration_object(td: Any, tdnn: Any) -> Any:
    """A module that is told what to do by an object in the container."""

    class Config:
        scale = 3.0

    module = tdnn.TensorDictModule(
        lambda x, config, opts: x * config.scale + opts["b"], ["x", "config", ("o", "opts")], ["y"]
    )
    data = td.TensorDict(x=torch.ones(2), config=Config(), batch_size=[2])
    data.set_non_tensor(("o", "opts"), {"b": 1})
    return module(data)["y"], module(data[0])["y"], module(data.reshape(1, 2))["y"]


@program
def dispatch_of_a_loss(td: Any, tdnn: Any) -> Any:
    """A loss module called with tensors, by position, by name, and with a container."""

    class Loss(tdnn.TensorDictModuleBase):
        in_keys = ["q", ("next", "reward")]
        out_keys = ["loss", "error"]

        @tdnn.dispatch
        def forward(self, tensordict: Any) -> Any:
            error = tensordict["q"] - tensordict["next", "reward"]
            return td.TensorDict({"loss": error.pow(2).mean(), "error": error}, batch_size=[])

    loss, q, reward = Loss(), torch.ones(3), torch.zeros(3)
    data = td.TensorDict({"q": q, "next": {"reward": reward}}, batch_size=[3])
    return loss(q, reward), loss(q=q, next_reward=reward), loss(data), loss.select_out_keys("loss")(q, reward)


@program
def keys_by_dictionary(td: Any, tdnn: Any) -> Any:
    """In keys as a dict, both ways; out keys selected and reset."""
    attend = tdnn.TensorDictModule(
        lambda query, *, key, mask: (query * key, mask.float()),
        in_keys={"query": "q", "key": ("kv", "k"), "mask": "m"},
        out_keys=["out", ("info", "mask")],
        out_to_in_map=True,
    )
    data = td.TensorDict(
        {"q": torch.ones(2), "kv": {"k": torch.full((2,), 3.0)}, "m": torch.tensor([True, False])}, [2]
    )
    full = attend(data.clone())
    attend.select_out_keys("out")
    kept = attend(data.clone())
    attend.reset_out_keys()
    return full, kept, attend(data.clone()), attend.in_keys, attend.out_keys


@program
def sequence_edits(td: Any, tdnn: Any) -> Any:
    """Indexing, slicing, replacing, names, subsequences."""
    mod = tdnn.TensorDictModule
    model = tdnn.TensorDictSequential(
        mod(lambda x: x + 1, ["x"], ["a"]), mod(lambda a: a * 2, ["a"], ["b"]), mod(lambda a: a * 3, ["a"], ["c"])
    )
    named = tdnn.TensorDictSequential(
        OrderedDict(first=mod(linear(2, 2), ["x"], ["a"]), last=mod(linear(2, 1), ["a"], ["y"]))
    )
    part = model.select_subsequence(out_keys=["c"])
    model[1] = mod(lambda a: a * 5, ["a"], ["b"])
    del model[2]
    data = td.TensorDict(x=torch.ones(2, 2), batch_size=[2])
    return (
        part.out_keys,
        model.out_keys,
        model(data.copy()),
        model[:1](data.copy()),
        sorted(named.state_dict()),
        named(data),
    )


@program
def partial_and_skipping(td: Any, tdnn: Any) -> Any:
    """Modules that lack inputs, and outputs that are there already."""
    calls: list[str] = []
    mod = tdnn.TensorDictModule
    model = tdnn.TensorDictSequential(
        mod(lambda x: calls.append("f") or x + 1, ["x"], ["y"]),
        mod(lambda z: calls.append("g") or z, ["z"], ["w"]),
        partial_tolerant=True,
    )
    first = model(td.TensorDict(x=torch.zeros(2), batch_size=[2]))
    with tdnn.set_skip_existing(True):
        second = model(td.TensorDict(x=torch.zeros(2), y=torch.ones(2), z=torch.ones(2), batch_size=[2]))
    return first, second, calls


@program
def wrappers_and_functions(td: Any, tdnn: Any) -> Any:
    """A wrapper that logs, a function over containers, a decorated function."""

    class Logged(tdnn.TensorDictModuleWrapper):
        def __init__(self, td_module: Any, name: str) -> None:
            super().__init__(td_module)
            self.name, self.log = name, []

        def forward(self, tensordict: Any = None, **kwargs: Any) -> Any:
            out = self.td_module(tensordict, **kwargs)
            self.log.append(sorted(out.keys()))
            return out

    @tdnn.as_tensordict_module(in_keys=["y"], out_keys=["z"])
    def negate(y: Tensor) -> Tensor:
        return -y

    logged = Logged(tdnn.TensorDictModule(linear(2, 2), ["x"], ["y"]), "net")
    model = tdnn.TensorDictSequential(
        logged, negate, lambda data: data.set("n", data["z"].sum(-1)), tdnn.WrapModule(lambda data: data.flatten(0, 1))
    )
    out = model(td.TensorDict(x=torch.ones(2, 3, 2), batch_size=[2, 3]))
    return out, logged.log, logged.name, logged.weight.shape


@program
def recurrent_state(td: Any, tdnn: Any) -> Any:
    """A cell that writes its state where the next step reads it."""
    torch.manual_seed(0)
    cell = tdnn.TensorDictModule(nn.GRUCell(2, 3), ["x", "h"], [("next", "h")])
    data = td.TensorDict(x=torch.ones(4, 2), h=torch.zeros(4, 3), batch_size=[4])
    steps = []
    for _ in range(3):
        data = cell(data)
        steps.append(data.clone())
        data = td.TensorDict(x=data["x"], h=data["next", "h"], batch_size=[4])
    return torch.stack(steps, 1)["next", "h"]


@program
def optional_inputs(td: Any, tdnn: Any) -> Any:
    """A key that may be absent is None; a default argument is not used."""
    module = tdnn.TensorDictModule(lambda x, mask=7: x if mask is None else x * mask, ["x", "mask"], ["y"])
    both = td.TensorDict(x=torch.ones(2), mask=torch.zeros(2), batch_size=[2])
    return module(both)["y"], module(both.exclude("mask"))["y"], module(x=torch.ones(2))


# ---- parameters as containers ----------------------------------------------------------------------------------------


@program
def params_in_a_module(td: Any, tdnn: Any) -> Any:
    """Parameters kept beside the network, saved, loaded and moved with it."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = linear(2, 2)
            self.target = td.TensorDictParams(td.TensorDict.from_module(linear(2, 2, 0.5)).data, no_convert=True)
            self.extra = td.TensorDictParams(td.TensorDict({"a": {"b": torch.ones(2)}, "n": torch.arange(2)}, []))

    model, other = Model(), Model()
    with torch.no_grad():
        for tensor in model.state_dict().values():
            tensor.mul_(2)
    other.load_state_dict(model.state_dict())
    model.double()
    buffer = io.BytesIO()
    torch.save(model.state_dict(), buffer)
    buffer.seek(0)
    return (
        sorted(model.state_dict()),
        [n for n, _ in model.named_parameters()],
        [n for n, _ in model.named_buffers()],
        other.state_dict(),
        torch.load(buffer),
        model.target["weight"].dtype,
        copy.deepcopy(model).extra["a", "b"],
    )


@program
def params_are_trained(td: Any, tdnn: Any) -> Any:
    """An optimizer over a container of parameters; weights used functionally."""
    net = linear(2, 1)
    params = td.TensorDictParams(td.TensorDict.from_module(linear(2, 1, 0.3)).data.clone())
    optimizer = torch.optim.Adam(params.parameters(), 0.1)
    for _ in range(3):
        with params.to_module(net):
            loss = (net(torch.ones(4, 2)) - 1).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.detach(), params.data, net.weight, all(p.grad is not None for p in params.parameters())


@program
def meta_learning(td: Any, tdnn: Any) -> Any:
    """An inner step by functional gradients, an outer step through it."""
    net = linear(2, 1)
    params = td.TensorDict.from_module(net)

    def loss(params: Any, x: Tensor) -> Tensor:
        with params.to_module(net):
            return (net(x) - 1).pow(2).mean()

    grads = torch.func.grad(loss)(params.data, torch.ones(3, 2))
    moved = params.data - grads * 0.1
    return loss(moved, torch.ones(3, 2)), grads


@program
def pickled_modules(td: Any, tdnn: Any) -> Any:
    """Copies of an actor by deepcopy, pickle and state dict compute the same."""
    actor = tdnn.TensorDictSequential(
        tdnn.TensorDictModule(linear(3, 2), ["observation"], ["h"]), tdnn.TensorDictModule(nn.Tanh(), ["h"], ["action"])
    )
    copies = [copy.deepcopy(actor), pickle.loads(pickle.dumps(actor))]
    for parameter in actor.parameters():
        parameter.data.zero_()
    copies[0].load_state_dict(actor.state_dict())
    return [model(observation(td))["action"] for model in [actor, *copies]]


@program
def old_functional_calls(td: Any, tdnn: Any) -> Any:
    """`functional_call` of torch with parameters that come out of a container."""
    net = nn.Sequential(linear(2, 2), nn.ReLU(), linear(2, 1))
    params = td.TensorDict.from_module(net)
    flat = params.flatten_keys(".")
    one = torch.func.functional_call(net, dict(flat.items()), torch.ones(3, 2))
    state = params.data.apply(torch.zeros_like).flatten_keys(".")
    net.load_state_dict(dict(state.items()))
    return one, net(torch.ones(3, 2)), sorted(flat.keys())


@program
def hooks_and_freezing(td: Any, tdnn: Any) -> Any:
    """Forward hooks on parts of a sequence, frozen parameters, train and eval."""
    model = tdnn.TensorDictSequential(
        tdnn.TensorDictModule(nn.Sequential(linear(3, 3), nn.Dropout(1.0)), ["observation"], ["h"]),
        tdnn.TensorDictModule(linear(3, 1), ["h"], ["y"]),
    )
    shapes: list[Any] = []
    model[0].register_forward_hook(lambda module, args, out: shapes.append(tuple(out["h"].shape)))
    model[0].requires_grad_(False)
    trained = model(observation(td))["y"]
    model.eval()
    data = model(observation(td))
    data["y"].sum().backward()
    return trained, data["y"], shapes, [p.grad is None for p in model.parameters()], model[0].training


@program
def lazy_stack_of_environments(td: Any, tdnn: Any) -> Any:
    """Members with different entries, a policy over all of them."""
    envs = td.lazy_stack([td.TensorDict(x=torch.ones(2) * i, name=f"env{i}") for i in range(3)])
    actor = tdnn.TensorDictModule(lambda x, name: (x * 2, [n[-1] for n in name]), ["x", "name"], ["action", "tag"])
    out = actor(envs)
    return out["action"], list(out["tag"]), out[1]["action"], out[1]["tag"]


def result(run: Any, td: Any, tdnn: Any) -> Any:
    """What a program returns, in a form that compares."""
    torch.manual_seed(0)
    return _plain(run(td, tdnn))


def _plain(value: Any) -> Any:
    if isinstance(value, Tensor):
        return str(value.dtype), list(value.shape), [round(v, 5) for v in value.detach().double().flatten().tolist()]
    if isinstance(value, dict) and not hasattr(value, "batch_size"):
        return {key: _plain(item) for key, item in value.items()}
    if hasattr(value, "batch_size"):
        return list(value.batch_size), {key: _plain(value[key]) for key in sorted(value.keys())}
    if isinstance(value, list | tuple | torch.Size):
        return [_plain(item) for item in value]
    return seen(value)
