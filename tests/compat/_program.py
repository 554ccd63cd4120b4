"""A program for `tensordict` that reaches in as libraries do; with the layer it prints the same as without."""

from __future__ import annotations

from dataclasses import field

import numpy as np
import torch
from tensordict import LazyStackedTensorDict, NonTensorData, TensorClass, TensorDict, is_tensor_collection, tensorclass
from tensordict.base import _NESTED_TENSORS_AS_LISTS, NO_DEFAULT, _default_is_leaf, _is_leaf_nontensor
from tensordict.memmap import MemoryMappedTensor
from tensordict.nn import ProbabilisticTensorDictModule, TensorDictModule, TensorDictSequential
from tensordict.nn.probabilistic import _use_generator
from tensordict.nn.utils import _set_dispatch_td_nn_modules
from tensordict.utils import (
    _getitem_batch_size,
    _is_non_tensor,
    _maybe_correct_neg_dim,
    _unravel_key_to_tuple,
    _zip_strict,
    unravel_key_list,
)
from torch import Tensor, nn


class Trajectory(TensorClass):
    data: Tensor
    action: "int | Tensor" = 0
    subtree: "Trajectory" = None


@tensorclass
class Log:
    text: str
    data: Tensor = None


class Config(TensorClass["autocast"]):
    steps: int
    name: str
    weights: float
    rest: "dict | None" = None


class Plain(TensorClass["nocast"]):
    data: Tensor = None
    number: int = 0


class Sized(TensorClass):
    number: int = 0


class Spec(TensorDictModule):
    def __init__(self, module, in_keys, out_keys, spec=None):
        super().__init__(module, in_keys, out_keys)


class SpecSequential(TensorDictSequential, Spec):
    def __init__(self, *modules, partial_tolerant=False):
        self.partial_tolerant = partial_tolerant
        reads, writes = self._compute_in_and_out_keys(modules)
        super(TensorDictSequential, self).__init__(nn.ModuleList(modules), in_keys=reads, out_keys=writes)

    @_set_dispatch_td_nn_modules(True)
    def forward(self, tensordict):
        return super().forward(tensordict)


def read_fields():
    """Print what fields of typed classes give: objects that differ come as lists, and values are converted."""
    logs = torch.stack([Log("a"), Log("b")])
    rows = TensorDict(log=logs, x=torch.zeros(2), batch_size=[2])
    print([*logs.text], logs[0].text, [*torch.cat([logs, logs]).text], [[*row] for row in logs.expand(3, 2).text])
    print(rows[1]["log"].text, isinstance(logs.text, list))
    values = (1, 1.5, True, [1, 2], [torch.ones(1)] * 2, [], ["a"], (1, 2), {"k": 1}, np.arange(2), np.float32(2), None)
    for kind in (Log, Trajectory, Plain, Config):
        name = "rest" if kind is Config else "data"
        for value in values:
            first = {Log: ["a"], Plain: [], Config: [1, "n", 1]}.get(kind, [torch.ones(1)])
            made = kind(*first, **({name: value} if kind is not Trajectory else {"subtree": value}))
            reads = [getattr(made, name)]
            setattr(made, name, value)
            reads.append(getattr(made, name))
            if isinstance(value, (int, float, np.ndarray)):
                made.update({name: value})
                reads.append(getattr(made, name))
            print([(isinstance(read, list), isinstance(read, Tensor), shown(read)) for read in reads])
    for value in (torch.tensor(3), 2.7, True, "4", np.float32(2)):
        made = Config(value, value, value)
        print([(type(read).__name__, shown(read)) for read in (made.steps, made.name, made.weights)])
    print(shown(torch.stack([Trajectory(torch.ones(2), 1), Trajectory(torch.ones(2), 2)]).action))
    print(Plain(batch_size=[3]).number, shown(Plain().number), shown(Sized().number), Sized(batch_size=[2]).number)


class Step(TensorClass):
    obs: Tensor
    inner: "Step | None" = None


class Episode(TensorClass):
    first: Step
    last: "Step | None" = None


def read_nested():
    """Print the classes that nested fields have after `from_dict` and `from_tensordict`."""
    step = {"obs": torch.ones(3), "inner": {"obs": torch.zeros(3)}}
    made = Episode.from_dict({"first": step, "last": step}, batch_size=[3])
    again = Episode.from_tensordict(made.to_tensordict())
    for one in (made, again):
        print([type(value).__name__ for value in (one.first, one.last, one.first.inner)], one[0].last.obs.tolist())


@tensorclass
class Derived(Log):
    level: Tensor = field(default=None)


@tensorclass(autocast=True)
class Counted(Log):
    count: int = 0


def drop_fields():
    """Print what stays of classes whose fields are removed or left out, and lists of one object for each row."""
    made = Derived("a", torch.ones(2), level=torch.zeros(2), batch_size=[2])
    kept, rest = made.select("data"), made.exclude("data")
    print(
        [type(one).__name__ for one in (kept, rest)], kept.level, rest.data, shown(rest.level), sorted(made.to_dict())
    )
    print(
        shown(made.pop("data")), made.data, sorted(made.keys()), made.exclude("level", inplace=True) is made, made.level
    )
    print(Counted("a", torch.ones(2), count="4", batch_size=[2]).count)
    for values in (["a", "b"], [{"k": 1}, {"k": 2}]):
        made = Log(values, torch.ones(2), batch_size=[2])
        print(list(made.text), made[0].text)
        made.text = values[::-1]
        print(list(made.text), made[0].text)
    for wrong in (Log, Derived):
        try:
            wrong()
        except TypeError as error:
            print("missing" in str(error))
    print(
        shown(
            torch.compile(lambda log: Log("b", log.data + 1).data, backend="eager", fullgraph=True)(
                Log("a", torch.ones(1))
            )
        )
    )
    print([type(TensorDict(s="x").setdefault(key, "y")).__name__ for key in "st"])


def import_all():
    """Print whether `*` gives the public names of a module, and no module."""
    for module in ("tensordict", "tensordict.nn", "tensordict.nn.distributions"):
        names = {}
        exec(f"from {module} import *", names)
        print(
            sorted({"TensorDict", "TensorDictModule", "CompositeDistribution"} & {*names}),
            "torch" in names,
            "nn" in names,
        )


def shown(value):
    """A value as text that both libraries give."""
    return value.tolist() if hasattr(value, "tolist") else getattr(value, "data", value)


def held(data):
    """What a container holds, if it is one."""
    if data is None:
        return None
    found = [(str(key), shown(value)) for key, value in data.items(True, True, is_leaf=_is_leaf_nontensor)]
    return data.batch_size, sorted(found), sorted(map(str, data.keys(True))), data.is_locked


def combine():
    """Print what functions of two containers give, for keys that both, one or none have."""

    def full(factor, **more):
        return TensorDict(a=torch.full((2,), factor), n=TensorDict(b=torch.ones(2)), e=TensorDict(), s="x", **more)

    def add(a, b):
        return a if b is None else a + b

    calls = (
        lambda a, b: a._fast_apply(add, b),
        lambda a, b: a._fast_apply(add, b, default=None),
        lambda a, b: a._fast_apply(add, b, default=None, filter_empty=True),
        lambda a, b: a._fast_apply(lambda *_: None, b, default=None, filter_empty=True),
        lambda a, b: a._fast_apply(add, b, default=None, out=a),
        lambda a, b: a._fast_apply(add, b, default=None, inplace=True),
        lambda a, b: a.lock_()._fast_apply(add, b, default=None, propagate_lock=True),
        lambda a, b: a._fast_apply(lambda a, _: a[None], b, default=None, batch_size=[1], device=None, names=None),
        lambda a, b: a._fast_apply(
            lambda _, a, b: add(a, b), b, named=True, nested_keys=True, default=None, is_leaf=_is_leaf_nontensor
        ),
    )
    for call in calls:
        for a, b in ((1.0, full(2.0)), (1.0, TensorDict(a=torch.ones(2))), (1.0, full(3.0, q=torch.ones(1)))):
            for left, right in ((full(a), b.clone()), (b.clone(), full(a))):
                try:
                    print(held(call(left, right)), held(left))
                except KeyError:
                    print("KeyError")
    stack = LazyStackedTensorDict(
        TensorDict(a=torch.ones(2), b=torch.ones(1)), TensorDict(a=torch.zeros(3), b=torch.ones(1)), stack_dim=0
    )
    outer = TensorDict(l=stack, c=torch.ones(2), batch_size=[2])
    print([shown(value) for value in stack._fast_apply(add, stack).get("a", as_list=True)])
    print(shown(stack.select("b")._fast_apply(add, TensorDict(b=torch.ones(2, 1), batch_size=[2]))["b"]))
    print([shown(part["a"]) for part in stack._fast_apply(add, stack.select("b"), default=None).unbind(0)])
    for data in (stack, outer):
        print([(key, shown(value)) for key, value in data.items(True, True, is_leaf=_NESTED_TENSORS_AS_LISTS)])
        print([shown(value) for value in data.values(True, True, is_leaf=_NESTED_TENSORS_AS_LISTS)])
        print([key for key in data.keys(True, True, is_leaf=_NESTED_TENSORS_AS_LISTS)])  # noqa: C416  # a view


def write_rows():
    """Print what writes at an index leave, where the source has other keys."""

    def target():
        return TensorDict(a=torch.zeros(3), n=TensorDict(b=torch.zeros(3, 2), batch_size=[3]), batch_size=[3])

    one, two = TensorDict(a=torch.tensor(1.0)), TensorDict(c=torch.ones(2, 4), batch_size=[2])
    deep = TensorDict(n=TensorDict(d=torch.ones(2)), e=TensorDict(z=torch.ones(2)))
    mask = torch.tensor([True, False, True])
    writes = ((0, one), (slice(0, 2), two), (mask, two), ([2, 0], two), (1, deep), (0, TensorDict()), (0, {"c": 2}))
    for index, source in writes:
        data = target()
        data[index] = source
        print(held(data))


def use_torch():
    """Print what functions of torch give for containers."""
    data = TensorDict(a=torch.arange(3.0), batch_size=[3])
    for function in (torch.vmap, torch.func.vmap):
        print(held(function(lambda x: x + 1, (0,), (0,))(data)))
        print(held(function(lambda x: (x,), (0,), (0,))(data)[0]), shown(function(torch.neg, (0,), (0,))(data["a"])))
    net = nn.Sequential(nn.Linear(2, 1))
    net.load_state_dict(TensorDict.from_module(net).data.apply(torch.ones_like).flatten_keys("."))
    print(shown(net[0].weight))


def main():
    """Print one line for each use."""
    data = TensorDict(a=torch.arange(2.0), n=TensorDict(b=torch.ones(2)), e=TensorDict(), s="x")
    print(sorted(map(str, data._fast_apply(lambda x: x + 1).keys(True))))
    print(data._apply_nest(lambda x: x * 3)["a"].tolist())
    print([(key, shown(value)) for key, value in data.items(True, True, is_leaf=_is_leaf_nontensor)])
    print([isinstance(value, NonTensorData) for value in data.values()])
    print(type(data.pop("s")).__name__, data.pop("none", 3), data._get_str("a", NO_DEFAULT).tolist())
    print(data._set_str("c", torch.ones(2), inplace=False, validated=True)["c"].tolist(), data._has_names())
    print(TensorDict._new_unsafe({"a": torch.ones(2)}, torch.Size([2])).batch_size)
    print(TensorDict(a=torch.zeros(2, 3))._stack_onto_([TensorDict(a=torch.ones(3))] * 2, 0)["a"].tolist())
    made = Trajectory(torch.ones(3), torch.ones(3), batch_size=[3])
    print(made.batch_size, made.data.tolist(), made.subtree, shown(made[0].data))
    print(Trajectory._from_tensordict(TensorDict(data=torch.ones(2))).data.tolist(), Log("a").text, Log("a").data)
    print(
        list(_zip_strict([1], [2])),
        _unravel_key_to_tuple(("a", ("b",))),
        _maybe_correct_neg_dim(-1, torch.Size([2, 3])),
    )
    print(_getitem_batch_size((3, 4), (0, slice(None))), _is_non_tensor(NonTensorData), _default_is_leaf(TensorDict))
    print(is_tensor_collection(NonTensorData("a")), issubclass(MemoryMappedTensor, Tensor))
    model = SpecSequential(TensorDictModule(torch.neg, ["x"], ["y"]), TensorDictModule(torch.abs, ["y"], ["z"]))
    print(model.in_keys, sorted(model.out_keys), model(TensorDict(x=torch.ones(2)))["z"].tolist(), len(model[:1]))
    draw = ProbabilisticTensorDictModule(["loc", "scale"], ["v"], distribution_class=torch.distributions.Normal)
    with _use_generator(torch.Generator().manual_seed(0)):
        print(draw._dist_sample(draw.get_dist(TensorDict(loc=torch.zeros(2), scale=torch.ones(2)))).tolist())
    try:
        TensorDict(a=torch.zeros(2), batch_size=[3])
    except RuntimeError as error:
        print("batch dimension mismatch" in str(error))
    stack = LazyStackedTensorDict(TensorDict(a=torch.zeros(2)), TensorDict(a=torch.zeros(3)), stack_dim=0)
    for call, text in (
        (lambda: stack["a"], "Failed to stack tensors within a tensordict"),
        (stack.contiguous, "Failed to stack tensors within a tensordict"),
        (stack.to_dict, "Failed to stack tensors within a tensordict"),
        (lambda: unravel_key_list("a"), "incompatible function arguments"),
        (lambda: unravel_key_list(1), "incompatible function arguments"),
    ):
        try:
            call()
        except (RuntimeError, TypeError, KeyError) as error:
            print(text in str(error))
    print(stack[1]["a"].shape)
    combine()
    write_rows()
    use_torch()
    read_fields()
    read_nested()
    drop_fields()
    import_all()


if __name__ == "__main__":
    main()
