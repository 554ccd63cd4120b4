"""Calls of keyed modules that run on either library: the module, its arguments, and what is seen of the result."""

import types
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

Library = types.SimpleNamespace
Case = Callable[[Library], Any]

CASES: dict[str, Case] = {}
ROOTS = (KeyError, IndexError, AttributeError, ValueError, RuntimeError, TypeError)


def case(run: Case) -> Case:
    """Take a case up under its name."""
    CASES[run.__name__] = run
    return run


def seen(value: Any) -> Any:
    """What is compared: tensors as lists with their dtype, containers by key in any order, objects as they are."""
    if isinstance(value, Tensor):
        return str(value.dtype), list(value.shape), value.tolist()
    if hasattr(value, "batch_size"):
        return list(value.batch_size), {key: seen(value[key]) for key in value.keys()}  # noqa: SIM118  # a container
    if isinstance(value, (list, tuple)):
        return [seen(item) for item in value]
    return value


@dataclass(frozen=True)
class Raised:
    """The builtin errors that catch what a case raises."""

    roots: frozenset[str]


def alike(ours: Any, theirs: Any) -> bool:
    """Equal results, or errors where ours is caught by whatever catches theirs."""
    if isinstance(ours, Raised) and isinstance(theirs, Raised):
        return theirs.roots <= ours.roots
    return bool(ours == theirs)


def outcome(run: Case, library: Library) -> Any:
    """The result of a case, or the builtin errors that catch what it raises."""
    torch.manual_seed(3)
    try:
        return seen(run(library))
    except Exception as error:  # whatever the case raises
        return Raised(frozenset(root.__name__ for root in ROOTS if isinstance(error, root)))


def ones(*shape: int) -> Tensor:
    return torch.ones(shape)


class Net(nn.Module):
    """Two methods and a parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((), 2.0))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight

    def add(self, x: Tensor, *, number: int) -> Tensor:
        return x + number


Pair = namedtuple("Pair", "c b")


def add(L: Library, read: Any, written: Any, **options: Any) -> Any:
    """A module that adds one."""
    return L.Module(lambda x: x + 1, in_keys=[read], out_keys=[written], **options)


def two(L: Library, **options: Any) -> Any:
    """A module with two outputs."""
    return L.Module(lambda x: (x + 1, x + 2), in_keys=["a"], out_keys=["b", "c"], **options)


def chain(L: Library, **options: Any) -> Any:
    return L.Sequential(add(L, "a", "b"), add(L, "b", "c"), **options)


def fork(L: Library) -> Any:
    return L.Sequential(add(L, "a", "b"), add(L, "b", "c"), add(L, "c", "d"), add(L, "a", "e"))


# ---- keys ----------------------------------------------------------------------------------------------------------


def _keys(name: str, in_keys: Any, out_keys: Any) -> None:
    @case
    def run(L: Library) -> Any:
        module = L.Module(lambda *x: x, in_keys=in_keys, out_keys=out_keys)
        return module.in_keys, module.out_keys, module.out_keys_source

    CASES[f"keys {name}"] = CASES.pop("run")


_keys("as strings", "a", "b")
_keys("as one nested key", ("a", "c"), ("b", "d"))
_keys("as lists", ["a", "b"], ["c"])
_keys("as tuples", (("a", "b"), "c"), ("d", ("e", "f")))
_keys("nested twice", [("a", ("c",))], [("b", ("d", "e"))])
_keys("of one part", [("a",)], [("b",)])
_keys("none", [], [])
_keys("dict", {"x": "1", "y": ("2", "z")}, ["t"])
_keys("dict, one key twice", {"x": "1", "y": "1"}, ["t"])
_keys("int", [1], ["b"])
_keys("int out", ["a"], [1])
_keys("None out", ["a"], None)


@case
def keys_the_other_way(L: Library) -> Any:
    module = L.Module(lambda x, y: x - y, in_keys={"1": "x", "2": "y"}, out_keys=["z"], out_to_in_map=False)
    return module.in_keys, module(L.TensorDict({"1": ones(2), "2": ones(2) * 3}, [2]))


# ---- one module ----------------------------------------------------------------------------------------------------


@case
def returns_the_input(L: Library) -> Any:
    data = L.TensorDict(a=ones(2), batch_size=[2])
    return add(L, "a", "b")(data) is data, data


@case
def nested_keys(L: Library) -> Any:
    return L.Module(lambda x: (x - 1, x + 1), [("in", "x")], [("out", "u"), ("out", "v")])(
        L.TensorDict({("in", "x"): ones(3)}, [3])
    )


@case
def no_in_keys(L: Library) -> Any:
    module = L.Module(lambda: ones(3), in_keys=[], out_keys=["x"])
    return module(L.TensorDict()), module()


@case
def dict_by_keyword(L: Library) -> Any:
    module = L.Module(lambda x, *, y, z: x + y + z, {"x": "1", "y": "2", "z": "2"}, ["t"])
    return module(L.TensorDict({"1": ones(), "2": ones() * 2}))


@case
def dropped_output(L: Library) -> Any:
    module = L.Module(lambda x: (x, x + 1), ["a"], ["_", "c"])
    return module(L.TensorDict(a=ones(2))), module(ones(2)), module.out_keys


@case
def mapping_out_of_order(L: Library) -> Any:
    made = (dict, OrderedDict, L.TensorDict)
    return [
        L.Module(lambda x, kind=kind: kind({"c": x, "b": x + 1, "other": x}), ["a"], ["b", "c"])(ones(2))
        for kind in made
    ]


@case
def container_as_one_value(L: Library) -> Any:
    return L.Module(lambda x: L.TensorDict(c=x), ["a"], ["d"])(L.TensorDict(a=ones(2)))


@case
def tuple_of_one(L: Library) -> Any:
    return L.Module(lambda x: (x,), ["a"], ["b"])(L.TensorDict(a=ones(2)))


@case
def named_tuple_goes_by_order(L: Library) -> Any:
    return L.Module(lambda x: Pair(x, x + 1), ["a"], ["b", "c"])(L.TensorDict(a=ones(2)))


@case
def object_as_output(L: Library) -> Any:
    return L.Module(lambda x: "text", ["a"], ["b"])(L.TensorDict(a=ones(2)))["b"]


@case
def one_of_two_outputs_is_none(L: Library) -> Any:
    return L.Module(lambda x: (None, x), ["a"], ["b", "c"])(L.TensorDict(a=ones(2)))["c"]


def _fails(name: str, function: Any, in_keys: Any, out_keys: Any, **options: Any) -> None:
    def run(L: Library) -> Any:
        return L.Module(function, in_keys, out_keys, **options)(L.TensorDict(a=ones(3)))

    CASES[name] = run


_fails("too many outputs", lambda x: (x, x), ["a"], ["b"])
_fails("too few outputs", lambda x: (x,), ["a"], ["b", "c"])
_fails("one output for two keys", lambda x: x, ["a"], ["b", "c"])
_fails("None for a key", lambda x: None, ["a"], ["b"])
_fails("no key for an output", lambda x: x, ["a"], [])
_fails("no output and no key", lambda x: None, ["a"], [])
_fails("missing key and the module fails", nn.Linear(1, 1), ["x"], ["c"])
_fails("missing key and the module copes", lambda x: ones(2) if x is None else x, ["x"], ["c"])
_fails("missing key, strict", lambda x: ones(2), ["x"], ["c"], strict=True)
_fails("missing nested key, strict", lambda x: ones(2), [("x", "y")], ["c"], strict=True)
_fails("torch error inside", nn.Linear(2, 1), ["a"], ["c"])
_fails("no policy", lambda x: x, ["a"], ["c"], inplace="other")
_fails("not callable", 3, ["a"], ["c"])
_fails("a class", nn.Linear, ["a"], ["c"])
_fails("method", Net(), ["a"], ["c"], method="add", method_kwargs={"number": 3})


def _policy(policy: Any) -> None:
    def run(L: Library) -> Any:
        data, out = L.TensorDict(a=ones(2, 3), batch_size=[2]), L.TensorDict(k=ones(2), batch_size=[2])
        module = two(L, inplace=policy)
        result = module(data)
        written = module(data, tensordict_out=out)
        return result, result is data, data, written is out, out

    CASES[f"inplace={policy}"] = run


for _each in (True, False, "empty"):
    _policy(_each)


@case
def keyword_arguments_reach_the_module(L: Library) -> Any:
    return L.Module(lambda x, k=1: x + k, ["a"], ["b"])(L.TensorDict(a=ones(2)), k=5)


@case
def extra_positional_arguments(L: Library) -> Any:
    return L.Module(lambda x, k=1: x + k, ["a"], ["b"])(L.TensorDict(a=ones(2)), 5)


@case
def attributes_of_the_wrapped_module(L: Library) -> Any:
    module = L.Module(Net(), ["a"], ["b"])
    return module.weight, list(module.state_dict()), module(ones(2)).detach()


@case
def unknown_attribute(L: Library) -> Any:
    return L.Module(Net(), ["a"], ["b"]).other


@case
def locked_input(L: Library) -> Any:
    return add(L, "a", "b")(L.TensorDict(a=ones(2)).lock_())


@case
def printed(L: Library) -> Any:
    modules = (L.Module(nn.Linear(1, 2), ["a"], ["b"]), L.Module(nn.Linear(2, 1), ["b"], [("c", "d")]))
    return [repr(m) for m in (*modules, L.Sequential(*modules), L.Sequential({"p": modules[0]}), L.Wrapper(modules[0]))]


# ---- selected out keys -------------------------------------------------------------------------------------------


@case
def select_and_reset(L: Library) -> Any:
    module = two(L)
    chosen = module.select_out_keys("c")
    first = module.out_keys, module.out_keys_source, module(L.TensorDict(a=ones(2))), module(ones(2)), chosen is module
    module.reset_out_keys()
    return first, module.out_keys, module(L.TensorDict(a=ones(2)))


def _selected(name: str, run: Case) -> None:
    CASES[f"select {name}"] = run


_selected("an unknown key", lambda L: two(L).select_out_keys("d"))
_selected("twice", lambda L: two(L).select_out_keys("b").select_out_keys("c"))
_selected("in another order", lambda L: two(L).select_out_keys("c", "b")(ones(2)))
_selected("nothing", lambda L: two(L).select_out_keys()(L.TensorDict(a=ones(2))))
_selected("key of the input", lambda L: two(L).select_out_keys("c")(L.TensorDict(a=ones(2), b=ones(2))))
_selected(
    "in and out key",
    lambda L: L.Module(lambda x: (x + 1, x), ["a"], ["a", "c"]).select_out_keys("c")(L.TensorDict(a=ones(2))),
)
_selected(
    "nested",
    lambda L: L.Module(lambda x: (x, x), ["a"], [("n", "b"), ("n", "c")]).select_out_keys(("n", "b"))(
        L.TensorDict(a=ones(2))
    ),
)
_selected("in a sequence", lambda L: L.Sequential(two(L).select_out_keys("c"), add(L, "c", "d"))(ones(2)))


@case
def select_on_a_module_of_the_user(L: Library) -> Any:
    class Double(L.Base):
        in_keys = ["a"]
        out_keys = ["b", ("c", "d")]

        def forward(self, tensordict: Any) -> Any:
            return tensordict.set("b", tensordict["a"] * 2).set(("c", "d"), tensordict["a"])

    module = Double().select_out_keys("b")
    return module(L.TensorDict(a=ones(2))), module.out_keys, module.out_keys_source, Double().out_keys


# ---- sequences -----------------------------------------------------------------------------------------------------


@case
def derived_keys(L: Library) -> Any:
    both = L.Module(lambda x, y: x + y, ["b", "q"], [("n", "c")])
    found = L.Sequential(add(L, "a", "b"), both, add(L, ("n", "c"), "b"), lambda data: data)
    return found.in_keys, found.out_keys, len(found), [m.in_keys for m in found]


@case
def sequence_of_a_list_and_of_a_dict(L: Library) -> Any:
    named = {"first": add(L, "a", "b"), "second": add(L, "b", "c")}
    found = [L.Sequential(list(named.values())), L.Sequential(named), L.Sequential(OrderedDict(named))]
    return [(len(s), s.out_keys, s(ones(2))) for s in found], found[1]["second"].out_keys


@case
def empty_sequence(L: Library) -> Any:
    return L.Sequential()(L.TensorDict(a=ones(2))), L.Sequential([]).in_keys


@case
def module_of_two_places(L: Library) -> Any:
    module = add(L, "a", "a")
    return L.Sequential(module, module)(L.TensorDict(a=ones(2))), len(L.Sequential(module, module))


@case
def picks_and_slices(L: Library) -> Any:
    found = fork(L)
    return found[-1].out_keys, found[1:3].in_keys, found[1:3].out_keys, found[1:3](L.TensorDict(b=ones(2)))


@case
def pick_out_of_range(L: Library) -> Any:
    return fork(L)[7]


@case
def edits(L: Library) -> Any:
    found = fork(L)
    found[0] = add(L, "z", "b")
    del found[2]
    named = L.Sequential({"p": add(L, "a", "b")})
    named["q"] = add(L, "b", "k")
    return found.in_keys, found.out_keys, named.out_keys, list(named.module)


@case
def state_dict_names(L: Library) -> Any:
    module = L.Module(nn.Linear(1, 1), ["a"], ["b"])
    return [list(s.state_dict()) for s in (L.Sequential(module), L.Sequential({"p": module}), L.Wrapper(module))]


def _sequence(name: str, run: Case) -> None:
    CASES[f"sequence {name}"] = run


for _each in (None, True, False, "empty"):
    for _inner in (True, False, "empty"):
        for _chosen in (None, ["c"], ["b"]):

            def _run(L: Library, each: Any = _each, inner: Any = _inner, chosen: Any = _chosen) -> Any:
                data, out = L.TensorDict(a=ones(2), b=ones(2) * 5, batch_size=[2]), L.TensorDict(k=ones(2))
                found = L.Sequential(
                    add(L, "a", "b", inplace=inner),
                    L.Module(lambda x: (x + 1, x * 3), ["b"], ["c", "d"], inplace=inner),
                    inplace=each,
                    selected_out_keys=chosen,
                )
                result = found(data)
                return result, result is data, data, found.out_keys, found(L.TensorDict(a=ones(2)), tensordict_out=out)

            _sequence(f"inplace={_each}, modules {_inner}, selected {_chosen}", _run)

_sequence("with unknown selection", lambda L: chain(L, selected_out_keys=["x"]))
_sequence("with keyword arguments", lambda L: chain(L)(L.TensorDict(a=ones(2)), other=1))
_sequence("by position", lambda L: chain(L)(ones(2)))
_sequence("by name", lambda L: chain(L)(a=ones(2)))
_sequence("missing key", lambda L: L.Sequential(L.Module(nn.Linear(1, 1), ["x"], ["b"]))(L.TensorDict(a=ones(2))))
_sequence(
    "partial",
    lambda L: L.Sequential(add(L, "a", "b"), add(L, "x", "c"), add(L, "c", "d"), partial_tolerant=True)(
        L.TensorDict(a=ones(2))
    ),
)
_sequence(
    "partial, one of two keys",
    lambda L: L.Sequential(L.Module(lambda x, y: x, ["a", "x"], ["b"]), partial_tolerant=True)(L.TensorDict(a=ones(2))),
)
_sequence(
    "partial, selected",
    lambda L: L.Sequential(add(L, "a", "b"), add(L, "x", "c"), partial_tolerant=True, selected_out_keys=["c"])(
        L.TensorDict(a=ones(2))
    ),
)
_sequence(
    "partial, called with tensors",
    lambda L: L.Sequential(add(L, "a", "b"), add(L, "x", "c"), partial_tolerant=True)(a=ones(2)),
)


@case
def partial_on_a_lazy_stack(L: Library) -> Any:
    members = [L.TensorDict(a=ones(2)), L.TensorDict(b=ones(2)), L.TensorDict(a=ones(2), b=ones(3))]
    found = L.Sequential(add(L, "a", "c"), add(L, "b", "d"), partial_tolerant=True)
    result = found(L.lazy_stack(members))
    return list(result.unbind(0)), members


@case
def partial_on_a_lazy_stack_of_equal_members(L: Library) -> Any:
    members = [L.TensorDict(a=ones(2)), L.TensorDict(a=ones(2) * 2)]
    return L.Sequential(add(L, "a", "c"), add(L, "x", "d"), partial_tolerant=True)(L.lazy_stack(members))


# ---- subsequences --------------------------------------------------------------------------------------------------


def _part(name: str, make: Case, **keys: Any) -> None:
    def run(L: Library) -> Any:
        whole = make(L)
        part = whole.select_subsequence(**keys)
        held = set(map(id, whole.modules()))
        return part.in_keys, part.out_keys, len(part), [id(m) in held for m in part.modules() if type(m) is L.Module]

    CASES[f"subsequence of {name}, {keys}"] = run


def nested(L: Library) -> Any:
    return L.Sequential(
        L.Sequential(add(L, "a", "b"), add(L, "b", "c")), L.Sequential(add(L, "b", "d"), add(L, "d", "e"))
    )


def wrapped(L: Library) -> Any:
    return L.Sequential(add(L, "a", "b"), lambda data: data, add(L, "b", "c"))


for _keys_ in (
    {},
    {"in_keys": ["a"]},
    {"in_keys": ["c"]},
    {"in_keys": ["b"]},
    {"out_keys": ["c"]},
    {"out_keys": ["e"]},
    {"in_keys": ["b"], "out_keys": ["d"]},
    {"in_keys": ["b"], "out_keys": ["e"]},
    {"in_keys": ["z"]},
    {"out_keys": ["z"]},
    {"in_keys": ["b", "d"], "out_keys": ["e"]},
):
    _part("fork", fork, **_keys_)
    _part("nested", nested, **_keys_)
    _part("wrapped", wrapped, **_keys_)
    _part("selected", lambda L: chain(L, selected_out_keys=["c"]), **_keys_)


@case
def subsequence_of_names(L: Library) -> Any:
    whole = L.Sequential({"p": add(L, "a", "b"), "q": add(L, "b", "c")}, partial_tolerant=True, inplace=False)
    part = whole.select_subsequence(out_keys=["b"])
    return list(part.module), part.partial_tolerant, part.inplace


# ---- wrappers ------------------------------------------------------------------------------------------------------


@case
def wrapper(L: Library) -> Any:
    found = L.Wrapper(two(L))
    chosen = L.Wrapper(two(L)).select_out_keys("b")
    before = chosen.out_keys, chosen.out_keys_source, chosen.td_module.out_keys
    results = [(m(L.TensorDict(a=ones(2))), m(ones(2)), m(a=ones(2))) for m in (found, chosen)]
    return found.in_keys, found.out_keys, before, results, chosen.reset_out_keys().out_keys


@case
def function_over_containers(L: Library) -> Any:
    data = L.TensorDict(x=ones(2, 3), batch_size=[2, 3])
    flat = L.Wrap(lambda td: td.reshape(-1), in_keys=["x"], out_keys=["x"])
    other = L.Wrap(lambda td: L.TensorDict(b=ones(2)), inplace=True)
    target = L.TensorDict(a=ones(2))
    return flat(data), flat.in_keys, flat.out_keys, L.Wrap(abs).in_keys, other(target) is target, target


@case
def decorated_function(L: Library) -> Any:
    @L.as_module(in_keys="c", out_keys=["d"])
    def function(c: Tensor) -> Tensor:
        return c + 1

    class Owner:
        @L.as_module(in_keys=["c"], out_keys="d")
        def method(self, c: Tensor) -> Tensor:
            return c + 2

    data = L.TensorDict(c=ones(2))
    return function(data), function(c=ones(2)), function(ones(2)), Owner().method(data), Owner().method(ones(2))


@case
def compatible(L: Library) -> Any:
    return [L.Base.is_tdmodule_compatible(x) for x in (nn.Linear(1, 1), add(L, "a", "b"), chain(L), abs)]


# ---- dispatch ------------------------------------------------------------------------------------------------------


def user(L: Library, *, given: tuple[Any, ...] = (), **options: Any) -> Any:
    """A module of the user's own whose result says how it was called."""

    class Sum(nn.Module):
        in_keys = [("a", "c"), "d"]
        out_keys = ["b", "_", ("n", "shape")]
        sources = ["d"]

        @L.dispatch(*given, **options)
        def forward(self, tensordict: Any, k: int = 1) -> Any:
            total = sum(value.sum() for value in tensordict.values(True, True))
            size = torch.tensor(list(tensordict.batch_size), dtype=torch.float32)
            return L.TensorDict({"b": total * k, ("n", "shape"): size})

    return Sum()


def _dispatched(name: str, run: Case) -> None:
    CASES[f"dispatch {name}"] = run


_dispatched("by position", lambda L: user(L)(ones(2), ones(2, 3)))
_dispatched("by name", lambda L: user(L)(a_c=ones(2), d=ones(2)))
_dispatched("by both", lambda L: user(L)(ones(2), d=ones(2)))
_dispatched("with another separator", lambda L: user(L, separator="__")(a__c=ones(2), d=ones(2)))
_dispatched("by another separator's name", lambda L: user(L, separator="__")(a_c=ones(2), d=ones(2)))
_dispatched("without batch dims", lambda L: user(L, auto_batch_size=False)(ones(2), ones(2)))
_dispatched("from other keys", lambda L: user(L, source="sources", dest=["b"])(d=ones(2)))
_dispatched("from given keys", lambda L: user(L, source=["x"], dest=["b"])(ones(2)))
_dispatched("to absent keys", lambda L: user(L, dest=["z"])(ones(2), ones(2)))
_dispatched("twice", lambda L: user(L)(ones(2), a_c=ones(2)))
_dispatched("unknown name", lambda L: user(L)(ones(2), ones(2), other=1))
_dispatched("too many", lambda L: user(L)(ones(2), ones(2), 3, 4))
_dispatched("missing", lambda L: user(L)(a_c=ones(2)))
_dispatched("other arguments", lambda L: user(L)(ones(2), ones(2), k=3))
_dispatched("a container", lambda L: user(L)(L.TensorDict(d=ones(2)), k=2))
_dispatched("a container by name", lambda L: user(L)(tensordict=L.TensorDict(d=ones(2), batch_size=[2])))
_dispatched("a container and a position", lambda L: user(L)(L.TensorDict(d=ones(2)), 4))
_dispatched("no argument name", lambda L: L.dispatch(lambda self, data: data))


@case
def dispatched_function(L: Library) -> Any:
    @L.dispatch(source=["a"], dest=["b"])
    def function(tensordict: Any) -> Any:
        return tensordict.set("b", tensordict["a"] + 1)

    return function(ones(2)), function(a=ones(2)), function(L.TensorDict(a=ones(2)))


# ---- skip existing -------------------------------------------------------------------------------------------------


def _skipped(name: str, mode: Any, make: Case) -> None:
    def run(L: Library) -> Any:
        with L.set_skip_existing(mode):
            result = make(L)(L.TensorDict(a=ones(2), b=ones(2) * 9))
            inside = L.skip_existing()
        return result, inside, L.skip_existing()

    CASES[f"skip {name}, {mode}"] = run


for _each in (True, False, ["b"], ["b", "c"], ["z"]):
    _skipped("a module", _each, lambda L: add(L, "a", "b"))
    _skipped("a module with an absent key", _each, two)
    _skipped("a module that reads its output", _each, lambda L: add(L, "a", "a"))
    _skipped("in a sequence", _each, chain)
    _skipped("a whole sequence", _each, lambda L: L.Sequential(add(L, "a", "b")))
    _skipped("a function over containers", _each, lambda L: L.Wrap(lambda td: td.set("b", ones(2)), out_keys=["b"]))


def _decorated(name: str, mode: Any, in_keys: list[str]) -> None:
    def run(L: Library) -> Any:
        class Module(L.Base):
            out_keys = ["b"]

            def __init__(self) -> None:
                super().__init__()
                self.in_keys = in_keys

            @L.set_skip_existing(mode)
            def forward(self, tensordict: Any) -> Any:
                return tensordict.set("b", ones(2) * 3)

        with L.set_skip_existing():
            inside = Module()(L.TensorDict(b=ones(2)))
        return Module()(L.TensorDict(b=ones(2))), Module()(L.TensorDict()), inside

    CASES[f"skip decorated with {mode}, {name}"] = run


for _each in (True, False, None, ["b"], ["c"]):
    _decorated("other keys", _each, [])
    _decorated("the key itself", _each, ["b"])


@case
def skip_block_with_none(L: Library) -> Any:
    with L.set_skip_existing(None):
        return None


# ---- class-to-class ------------------------------------------------------------------------------------------------


@case
def keyed_form_of_a_class_module(L: Library) -> Any:
    class Inner(L.TensorClass):
        p: Tensor

    class Given(L.TensorClass):
        a: Tensor
        n: Inner
        w: Tensor | None = None

    class Made(L.TensorClass):
        y: Tensor
        q: Inner

    class Module(L.ClassModule[Given, Made]):
        def forward(self, x: Any) -> Any:
            return Made(y=x.a + 1, q=x.n, batch_size=x.batch_size)

    module = Module()
    keyed = module.as_td_module()
    data = L.TensorDict({"a": ones(3), "n": {"p": ones(3)}, "other": ones(3)}, [3])
    typed = module(Given(a=ones(2), n=Inner(p=ones(2), batch_size=[2]), batch_size=[2]))
    sequence = L.Sequential(keyed, add(L, "y", "z"))
    return keyed.in_keys, keyed.out_keys, keyed(data), data, typed.y, keyed.select_out_keys("y")(data), sequence(data)


@case
def class_module_without_types(L: Library) -> Any:
    class Module(L.ClassModule):
        def forward(self, x: Any) -> Any:
            return x

    return Module().as_td_module()


@case
def class_module_over_tensors(L: Library) -> Any:
    class Module(L.ClassModule[Tensor, Tensor]):
        def forward(self, x: Tensor) -> Tensor:
            return x + 1

    assert Module.input_type is Tensor
    return Module()(ones(2))


@case
def class_module_without_forward(L: Library) -> Any:
    class Module(L.ClassModule[Tensor, Tensor]):
        pass

    return Module()
