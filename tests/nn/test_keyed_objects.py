"""What reaches a keyed module: every kind of entry by every way, and what modules may return."""

import warnings

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import tensorclass
import tensorclass.nn as ours
from tensorclass import (
    MetaData,
    NonTensorData,
    NonTensorStack,
    PerElement,
    Ragged,
    Shared,
    TensorClass,
    TensorDict,
    UnbatchedTensor,
    lazy_stack,
)
from tensorclass.errors import BuildError, MissingKeyError, ModuleError, UnsupportedOperationError
from tensorclass.nn import (
    EnsembleModule,
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorClassModule,
    TensorClassModuleBase,
    TensorClassSequential,
    TensorDictModule,
    TensorDictModuleWrapper,
    TensorDictSequential,
    as_tensordict_module,
    dispatch,
    set_skip_existing,
)
from tensorclass.typing import Float32

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import tensordict
    import tensordict.nn as theirs


class Thing:
    """An object that is false, and has a length."""

    def __bool__(self):
        return False

    def __len__(self):
        return 7


THING = Thing()
DICT = {"a": 1}
TENSOR = torch.ones(3)

OBJECTS = {
    "str": ("abc", "abc"),
    "empty str": ("", ""),
    "bytes": (b"x", b"x"),
    "None": (None, None),
    "object": (THING, THING),
    "function": (len, len),
    "class": (Thing, Thing),
    "int": (NonTensorData(3), 3),
    "float": (NonTensorData(2.5), 2.5),
    "false": (NonTensorData(False), False),
    "wrapped str": (NonTensorData("abc"), "abc"),
    "wrapped None": (NonTensorData(None), None),
    "dict": (NonTensorData(DICT), DICT),
    "list": (NonTensorData([1, 2]), [1, 2]),
    "tensor": (NonTensorData(TENSOR), TENSOR),
    "metadata": (MetaData(DICT), DICT),
    "one for each": (["p", "q"], ["p", "q"]),
    "one for each, equal": (["p", "p"], ["p", "p"]),
    "stack of flags": (NonTensorStack(False, True), [False, True]),
}


def given(module, data):
    """Call a module on a container with an entry "v"."""
    module(data)


def _sub(module, data):
    sequence = TensorDictSequential(TensorDictModule(torch.clone, ["x"], ["z"]), module)
    sequence.select_subsequence(out_keys=["out"])(data)


def _skipping(module, data):
    with set_skip_existing():
        module(data)


def _by_keyword(module, data):
    module(x=data["x"], v=data.get("v"))


def _by_position(module, data):
    module(data["x"], data.get("v"))


def _keyed(probe):
    return TensorDictModule(lambda x, v: probe(v, x), in_keys=["x", "v"], out_keys=["out"])


def _by_dict(probe):
    return TensorDictModule(lambda *, b, a: probe(b, a), in_keys={"a": "x", "b": "v"}, out_keys=["out"])


def _inverted(probe):
    return TensorDictModule(
        lambda a, b: probe(b, a), in_keys={"x": "a", "v": "b"}, out_keys=["out"], out_to_in_map=False
    )


def _decorated(probe):
    @as_tensordict_module(in_keys=["x", "v"], out_keys=["out"])
    def run(x, v):
        return probe(v, x)

    return run


def _dispatched(probe):
    class Module(nn.Module):
        in_keys, out_keys = ["x", "v"], ["out"]

        @dispatch
        def forward(self, tensordict):
            tensordict["out"] = probe(tensordict["v"], tensordict["x"])
            return tensordict

    return Module()


class _Net(nn.Module):
    def __init__(self, probe):
        super().__init__()
        self.probe = probe

    def encode(self, x, v, more=None):
        return self.probe(v, x)


def _partial(probe):
    return TensorDictSequential(_keyed(probe), partial_tolerant=True)


MAKERS = {
    "module": _keyed,
    "dict": _by_dict,
    "inverted dict": _inverted,
    "decorated": _decorated,
    "dispatched": _dispatched,
    "method": lambda probe: TensorDictModule(
        _Net(probe), ["x", "v"], ["out"], method="encode", method_kwargs={"more": 1}
    ),
    "strict": lambda probe: TensorDictModule(lambda x, v: probe(v, x), ["x", "v"], ["out"], strict=True),
    "options": lambda probe: TensorDictModule(
        lambda x, v: probe(v, x), ["x", "v"], ["out"], get_kwargs={"default": None}
    ),
    "new container": lambda probe: TensorDictModule(lambda x, v: probe(v, x), ["x", "v"], ["out"], inplace=False),
    "empty container": lambda probe: TensorDictModule(lambda x, v: probe(v, x), ["x", "v"], ["out"], inplace="empty"),
    "wrapper": lambda probe: TensorDictModuleWrapper(_keyed(probe)),
    "sequence": lambda probe: TensorDictSequential(_keyed(probe)),
    "nested sequence": lambda probe: TensorDictSequential(TensorDictSequential(_keyed(probe))),
    "sequence apart": lambda probe: TensorDictSequential(_keyed(probe), inplace=False),
    "selected": lambda probe: TensorDictSequential(_keyed(probe), selected_out_keys=["out"]),
    "partial": _partial,
}
CALLS = {"container": given, "keyword": _by_keyword, "position": _by_position, "skipping": _skipping, "part": _sub}


def same(found, wanted):
    """The object itself; a list of objects by value, since it is made at each read."""
    return found is wanted or (type(found) is not bool and isinstance(found, list) and found == wanted)


@pytest.mark.parametrize("kind", list(OBJECTS))
@pytest.mark.parametrize("maker", list(MAKERS))
def test_objects_come_as_they_are(maker, kind):
    """A module gets what `data[key]` gives, whatever it is wrapped in and however it is called."""
    stored, wanted = OBJECTS[kind]
    seen = []

    def probe(value, x):
        seen.append(value)
        return torch.zeros(2)

    for name, call in CALLS.items():
        if maker in ("decorated", "dispatched") and name == "part":
            continue  # a function of its own
        seen.clear()
        call(MAKERS[maker](probe), TensorDict(x=torch.zeros(2), v=stored, batch_size=[2]))
        found = seen[0]
        assert same(found, wanted) or (isinstance(wanted, list | float) and found == wanted), (name, found)
        assert not isinstance(found, NonTensorData | NonTensorStack | MetaData), name


@pytest.mark.parametrize("kind", list(OBJECTS))
def test_objects_as_the_original_passes_them(kind):
    """The original passes what `data[key]` gives too."""
    stored, _ = OBJECTS[kind]
    wrap = {NonTensorData: tensordict.NonTensorData, MetaData: tensordict.MetaData}
    other = wrap[type(stored)](stored.data) if type(stored) in wrap else stored
    if isinstance(stored, NonTensorStack):
        other = tensordict.NonTensorStack(*stored.tolist())
    seen = []
    for library, nn_, value in ((tensorclass, ours, stored), (tensordict, theirs, other)):
        for keys in (["v"], {"v": "v"}):
            module = nn_.TensorDictModule(lambda v: seen.append(v) or torch.zeros(2), in_keys=keys, out_keys=["out"])
            module(library.TensorDict(v=value, batch_size=[2]))
    assert all(same(value, seen[0]) or value == seen[0] for value in seen), seen


NESTED = {
    "dense": lambda v: TensorDict(inner=TensorDict(v=v, batch_size=[2]), batch_size=[2]),
    "in a locked one": lambda v: TensorDict(inner=TensorDict(v=v, batch_size=[2]), batch_size=[2]).lock_(),
    "on a device": lambda v: TensorDict(inner=TensorDict(v=v, batch_size=[2]), batch_size=[2], device="cpu"),
    "indexed": lambda v: TensorDict(inner=TensorDict(v=v, batch_size=[2]), batch_size=[2])[:],
    "cloned": lambda v: TensorDict(inner=TensorDict(v=v, batch_size=[2]), batch_size=[2]).clone(),
}


@pytest.mark.parametrize("kind", list(OBJECTS))
@pytest.mark.parametrize("where", list(NESTED))
def test_objects_of_nested_containers(where, kind):
    """A nested key gives the object too."""
    stored, wanted = OBJECTS[kind]
    seen = []
    module = TensorDictModule(
        lambda v: seen.append(v) or torch.zeros(2), [("inner", "v")], ["out"], inplace=where != "in a locked one"
    )
    module(NESTED[where](stored))
    assert same(seen[0], wanted) or seen[0] is wanted or (wanted is TENSOR and torch.equal(seen[0], wanted)), seen


def test_members_of_a_lazy_stack():
    """One object for each member, equal or not; the members themselves have their own."""
    members = [TensorDict(name=name, count=NonTensorData(3), x=torch.zeros(i)) for i, name in enumerate("ab")]
    seen = []
    module = TensorDictModule(lambda *values: seen.append(values) or torch.zeros(2), ["name", "count"], ["out"])
    module(lazy_stack(members))
    module(lazy_stack(members)[1])
    TensorDictSequential(module, partial_tolerant=True)(lazy_stack([*members, TensorDict(name="c")]))
    assert seen == [(["a", "b"], [3, 3]), ("b", 3), ("a", 3), ("b", 3)]


class Batch(TensorClass):
    x: Float32[Tensor, ""]
    name: str
    tags: PerElement[str]
    flag: bool
    count: int
    config: dict
    table: Shared[Float32[Tensor, "k"]]
    boxes: Ragged[Tensor, "n"]
    later: str | None = None


def batch():
    """A batch with every kind of entry."""
    return Batch(
        torch.zeros(2), "abc", ["p", "q"], False, 3, DICT, torch.ones(5), [torch.ones(2), torch.ones(3)], batch_size=[2]
    )


FIELDS = ["name", "tags", "flag", "count", "config", "later"]


@pytest.mark.parametrize("data", [batch(), batch().to_tensordict(), TensorDict(a=batch(), batch_size=[2])["a"]])
def test_typed_batches(data):
    """A keyed module gets the same from a typed batch and from the container with its entries."""
    seen = []
    module = TensorDictModule(lambda *values: seen.append(values) or torch.zeros(2), [*FIELDS, "table"], ["x"])
    module(data.clone())
    *objects, table = seen[0]
    assert objects == ["abc", ["p", "q"], False, 3, DICT, None]
    assert objects[2] is False
    assert torch.equal(torch.as_tensor(table), torch.ones(5))


def test_tensors_that_are_no_plain_ones():
    """They come as `data[key]` gives them."""
    seen = []
    module = TensorDictModule(lambda *values: seen.append(values) or torch.zeros(2), ["u", "r", "n"], ["out"])
    data = TensorDict(
        u=UnbatchedTensor(torch.ones(5)), n=TensorDict(a=torch.zeros(2, 3), batch_size=[2, 3]), batch_size=[2]
    )
    data["r"] = batch().boxes
    module(data)
    u, r, n = seen[0]
    assert type(u) is UnbatchedTensor
    assert [len(row) for row in r] == [2, 3]
    assert n is data["n"]


def test_writes_to_the_list_reach_the_container():
    """As `data["tags"]` does: the list that a module gets writes back."""
    data = TensorDict(tags=["p", "q"], batch_size=[2])
    TensorDictModule(lambda tags: tags.__setitem__(0, "z") or torch.zeros(2), ["tags"], ["out"])(data)
    assert data["tags"] == ["z", "q"]


def test_absent_keys_are_none_and_stored_none_is_there():
    """`strict` refuses the key that is absent, not the None that is stored."""
    seen = []
    module = TensorDictModule(lambda *values: seen.append(values) or torch.zeros(()), ["there", "absent"], ["out"])
    module(TensorDict(there=None))
    assert seen == [(None, None)]
    with pytest.raises(MissingKeyError, match="`absent`"):
        TensorDictModule(lambda *values: torch.zeros(()), ["there", "absent"], ["out"], strict=True)(
            TensorDict(there=None)
        )


# ---- objects that modules return -------------------------------------------------------------------------------------

RETURNED = {
    "str": "abc",
    "None": None,
    "object": THING,
    "bytes": b"x",
    "int": NonTensorData(3),
    "false": NonTensorData(False),
    "dict": NonTensorData(DICT),
    "one for each": ["p", "q"],
    "stack": NonTensorStack("p", "q"),
    "metadata": MetaData(DICT),
}


@pytest.mark.parametrize("kind", list(RETURNED))
def test_returned_objects_are_stored_and_read_again(kind):
    """Alone, among several outputs, and by name; the next module gets the object."""
    value, seen = RETURNED[kind], []
    wanted = TensorDict(v=value, batch_size=[2])["v"]
    last = TensorDictModule(lambda v: seen.append(v) or torch.zeros(2), ["v"], ["out"])
    makers = [
        TensorDictModule(lambda x: (value, x), ["x"], ["v", "y"]),
        TensorDictModule(lambda x: {"v": value, "y": x}, ["x"], ["v", "y"]),
        TensorDictModule(lambda x: TensorDict(v=value, y=x, batch_size=[2]), ["x"], ["v", "y"]),
        *([TensorDictModule(lambda x: value, ["x"], ["v"])] if value is not None else []),
    ]
    for maker in makers:
        for inplace in (None, True, False, "empty"):
            model = TensorDictSequential(maker, last, inplace=inplace)
            data = model(TensorDict(x=torch.zeros(2), batch_size=[2]))
            assert seen[-1] == wanted
            assert data["v"] == wanted
            assert type(data.get("v")) is type(TensorDict(v=value, batch_size=[2]).get("v"))
        found = TensorDictSequential(maker, last)(x=torch.zeros(2))
        assert found[0] == wanted


def test_numbers_that_are_returned_become_tensors():
    """As everywhere: a number that is to stay an object is wrapped."""
    module = TensorDictModule(lambda v: v + 1, ["v"], ["out"])
    assert torch.equal(module(TensorDict(v=NonTensorData(3)))["out"], torch.tensor(4))
    assert TensorDictModule(lambda v: NonTensorData(v + 1), ["v"], ["out"])(TensorDict(v=NonTensorData(3)))["out"] == 4
    with pytest.raises(ModuleError, match="returned nothing"):
        TensorDictModule(lambda v: None, ["v"], ["out"])(TensorDict(v="a"))


# ---- typed modules among keyed ones, and back ------------------------------------------------------------------------


class Result(TensorClass):
    y: Float32[Tensor, ""]
    who: str
    flag: bool
    count: int
    config: dict
    tags: PerElement[str]
    later: str | None = None


class Rename(TensorClassModuleBase[Batch, Result]):
    def forward(self, b):
        return Result(b.x, b.name + "!", not b.flag, b.count + 1, {**b.config, "b": 2}, b.tags, batch_size=b.batch_size)


def rename(x, name, flag, count, config, tags):
    """`Rename`, over fields."""
    assert type(tags) is NonTensorStack
    return x, name + "!", not flag, count + 1, {**config, "b": 2}, tags


def _untyped():
    """The entries of a batch as one would write them to a container by hand."""
    data = TensorDict(x=torch.zeros(2), name="abc", tags=["p", "q"], batch_size=[2])
    data.update({"flag": NonTensorData(False), "count": NonTensorData(3), "config": NonTensorData(DICT)})
    data["boxes"] = batch().boxes
    data["table"] = UnbatchedTensor(torch.ones(5))
    return data


@pytest.mark.parametrize("data", [batch, lambda: batch().to_tensordict(), _untyped], ids=["typed", "copy", "by hand"])
@pytest.mark.parametrize("kind", ["class to class", "fields"])
def test_typed_modules_in_keyed_sequences(kind, data):
    """They get and give the declared values; keyed modules behind them get the same objects."""
    seen = []
    typed = Rename()
    if kind == "fields":
        reads = (Batch.x, Batch.name, Batch.flag, Batch.count, Batch.config, Batch.tags)
        writes = (Result.y, Result.who, Result.flag, Result.count, Result.config, Result.tags)
        typed = TensorClassModule(rename, reads, writes)
    keys = ["who", "flag", "count", "config", "tags", "later"]
    behind = TensorDictModule(lambda *values: seen.append(values) or torch.zeros(2), keys, ["out"])
    source = data()
    source = source.to_tensordict() if isinstance(source, Batch) else source
    TensorDictSequential(typed, behind)(source)
    assert seen == [("abc!", True, 4, {"a": 1, "b": 2}, ["p", "q"], None)]
    assert seen[0][1] is True


@pytest.mark.parametrize("data", [batch, lambda: batch().to_tensordict(), _untyped], ids=["typed", "copy", "by hand"])
def test_keyed_form_of_a_typed_module(data):
    """Objects go in and come out as declared."""
    found = Rename().as_td_module()(data())
    assert (found["who"], found["flag"], found["count"], found["tags"]) == ("abc!", True, 4, ["p", "q"])


def test_objects_between_typed_and_untyped_containers():
    """Wrapped or not, an object arrives as the object; numbers stay objects on the way to an untyped container."""
    untyped = _untyped()
    for made in (
        Batch.from_tensordict(untyped.clone()),
        batch().update(untyped),
        batch().replace(flag=NonTensorData(False)),
        Batch(**{**dict(batch().items()), "count": NonTensorData(3), "flag": NonTensorData(False)}, batch_size=[2]),
    ):
        assert made.flag is False
        assert (made.count, made.config) == (3, DICT)
    typed = batch()
    typed.flag = NonTensorData(True)
    assert typed.flag is True
    for copied in (
        TensorDict(batch_size=[2]).update(batch()),
        TensorDict(batch().to_tensordict()),
        TensorDict(batch_size=[2]).update(TensorDict(batch_size=[2]).update(batch())),
        TensorDict(batch_size=[2]).update(batch(), update_batch_size=True),
    ):
        assert copied["flag"] is False
        assert (copied["count"], copied["config"]) == (3, DICT)
        assert isinstance(copied.get("config"), NonTensorData)


class Hidden(TensorClass):
    h: Float32[Tensor, "4"]
    label: str
    marks: PerElement[str]


class Final(TensorClass):
    y: Float32[Tensor, "2"]
    h: Float32[Tensor, "4"]


class Start(TensorClass):
    v: Float32[Tensor, "3"]
    name: str
    tags: PerElement[str]
    flag: bool


def test_keyed_modules_in_typed_pipelines():
    """Their keys are fields; the values are those that a keyed module gets anywhere."""
    seen = []

    def first(v, name, tags, flag):
        seen.append((name, list(tags), flag))
        return v @ torch.ones(3, 4), name + "!", tags, v

    head = TensorDictModule(nn.Linear(4, 2), ["h"], ["y"])
    model = TensorClassSequential(
        TensorDictModule(first, ["v", "name", "tags", "flag"], ["h", Hidden.label, "marks", "_"]),
        TensorClassModule(
            lambda h, label, marks: h + len(label), (Hidden.h, Hidden.label, Hidden.marks), Hidden.h, update=True
        ),
        head,
        input=Start,
        output=Final,
        probe=False,
    )
    out = model(Start(torch.ones(5, 3), "abc", list("pqrst"), False, batch_size=[5]))
    assert seen == [("abc", list("pqrst"), False)]
    assert seen[0][2] is False
    assert (out.h == 7).all()
    assert out.y.shape == (5, 2)
    assert [name for name, _ in model.named_parameters()] == ["linear_2.module.weight", "linear_2.module.bias"]
    with pytest.raises(BuildError, match=r"reads the key `nam`, .* did you mean `name`"):
        TensorClassSequential(TensorDictModule(len, ["nam"], ["y"]), input=Start, output=Final)
    with pytest.raises(BuildError, match="E114"):  # the build check knows what the fields declare
        TensorClassSequential(TensorDictModule(nn.Linear(3, 5), ["v"], ["h"]), head, input=Start, output=Final)
    whole = TensorDictSequential(TensorDictModule(nn.Linear(3, 4), ["v"], ["h"]), head)
    assert TensorClassSequential(whole, input=Start, output=Final)(
        Start(torch.ones(5, 3), "abc", list("pqrst"), False, batch_size=[5])
    ).y.shape == (5, 2)


# ---- probabilistic modules, ensembles, compiled code -----------------------------------------------------------------


def test_distributions_get_objects():
    """A flag for the distribution that stands in the container is the flag."""
    seen = []

    def normal(loc, scale, validate_args, name):
        seen.append((validate_args, name))
        return torch.distributions.Normal(loc, scale, validate_args=validate_args)

    module = ProbabilisticTensorDictModule(
        ["loc", "scale", "validate_args", ("inner", "name")], ["a"], distribution_class=normal, return_log_prob=True
    )
    data = TensorDict(loc=torch.zeros(2), scale=torch.ones(2), validate_args=NonTensorData(False), batch_size=[2])
    data["inner", "name"] = "abc"
    module(data)
    ProbabilisticTensorDictSequential(module).get_dist(data)
    assert seen[0][0] is False
    assert set(seen) == {(False, "abc")}


class Chosen(nn.Linear):
    def forward(self, x, flag, name, tags):
        assert flag is False
        assert (name, tags) == ("abc", ["p", "q"])
        return super().forward(x)


def test_ensembles_get_objects():
    """Under vmap, where one call serves all copies."""
    module = TensorDictModule(Chosen(3, 4), ["x", "flag", "name", "tags"], ["y"])
    data = TensorDict(x=torch.zeros(2, 3), flag=NonTensorData(False), name="abc", tags=["p", "q"], batch_size=[2])
    assert EnsembleModule(module, 3)(data)["y"].shape == (3, 2, 4)
    ensemble = EnsembleModule(module, 3, expand_input=False)
    got = []
    module.register_forward_pre_hook(lambda _, args: got.append(args[0]["tags"]))
    for stacked in (data.expand(3, 2), TensorDict.stack([data, data.clone(), data])):
        got.clear()
        if stacked["flag"] is False:
            assert ensemble(stacked)["y"].shape == (3, 2, 4)
        else:  # stacked objects belong to the elements: each copy has a list of them
            with pytest.raises(AssertionError):
                ensemble(stacked)
        assert got == [["p", "q"]]
    with pytest.raises(UnsupportedOperationError, match="their objects differ"):
        ensemble(TensorDict.stack([data, data, data.clone().update({"tags": ["p", "z"]})]))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind, (_, wanted) in OBJECTS.items() if not isinstance(wanted, Thing)])
def test_compiled_modules_get_objects(kind):
    """Under fullgraph too, but for one object for each element, which an index tensor looks up."""
    stored, wanted = OBJECTS[kind]
    listed = isinstance(stored, list | NonTensorStack)

    def run(x, v):
        if isinstance(wanted, Tensor):
            return x + v.sum()
        return x + 1 if v == wanted and type(v) is not NonTensorData and not (wanted is False and v) else x - 1

    for module in (TensorDictModule(run, ["x", "v"], ["y"]), TensorDictModule(run, {"x": "x", "v": "v"}, ["y"])):
        torch.compiler.reset()
        compiled = torch.compile(TensorDictSequential(module), backend="eager", fullgraph=not listed)
        data = TensorDict(x=torch.zeros(2), v=stored, batch_size=[2])
        assert compiled(data)["y"].tolist() == ([3, 3] if isinstance(wanted, Tensor) else [1, 1])


def test_arrays_of_objects_stay_arrays():
    """An array of strings is one object, as in the original."""
    seen = []
    array = np.array(["a", "b"])
    TensorDictModule(lambda v: seen.append(v) or torch.zeros(2), ["v"], ["out"])(TensorDict(v=array, batch_size=[2]))
    assert seen[0].tolist() == ["a", "b"]
