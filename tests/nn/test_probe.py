"""The probe itself: nothing is touched, kinds of fields, copies, modes, and what it falls back to."""

from __future__ import annotations

import copy
import enum
import functools
import importlib
import pickle
import subprocess
import sys
import threading
import warnings
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Distribution

from tensorclass import Ragged, Shared, TensorClass, TensorDict, produced
from tensorclass.errors import BuildError, SchemaError
from tensorclass.nn import PipelineWarning, TensorClassModule, TensorClassSequential, stage
from tensorclass.nn.probe import _fake as fake_tensors
from tensorclass.nn.probe._copy import Isolator
from tensorclass.typing import Float, Float32, Int64
from tests.nn._pipelines import Digits, Prediction, classifier, digits, step
from tests.nn._zoo import pipeline

HELD = nn.BatchNorm1d(8)
COUNTS = {"calls": 0}


def by_globals(x: Tensor) -> Tensor:
    """Reaches a module and a dict through the globals of its file."""
    COUNTS["calls"] += 1
    return HELD(x)


class ByGlobals(nn.Module):
    """A module whose forward does the same."""

    def forward(self, x: Tensor) -> Tensor:
        """Counts and calls."""
        COUNTS["calls"] += 1
        return HELD(x)


# ---- untouched -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [lambda: by_globals, ByGlobals])
def test_globals_are_copied(make):
    """What a function reaches by name is a copy too."""
    COUNTS["calls"] = 0
    before = HELD.num_batches_tracked.item()
    pipeline(make(), ("f 8",), ("f 8",))
    assert (COUNTS["calls"], HELD.num_batches_tracked.item()) == (0, before)


def test_hooks_of_the_user_do_not_fire():
    """Hooks are told of real runs only, and stay where they are."""
    seen: list[str] = []
    layer = nn.Sequential(nn.Linear(8, 8))
    layer.register_forward_hook(lambda *_: seen.append("forward"))
    layer[0].register_forward_pre_hook(lambda *_: seen.append("pre"))
    layer[0].weight.register_hook(lambda *_: seen.append("grad"))
    built = pipeline(layer, ("f 8",), ("f 8",))
    assert seen == []
    built(built.input_class(torch.ones(2, 8)))
    assert seen == ["pre", "forward"]


@pytest.mark.parametrize("mode", [True, "run"])
def test_process_wide_switches_are_put_back(mode):
    """Autocast, gradients, validation of distributions, filters of warnings."""
    before = Distribution._validate_args, list(warnings.filters), torch.is_grad_enabled()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        built = pipeline(nn.Linear(8, 4), ("f 8",), ("f 4",), probe=mode)
        assert torch.is_autocast_enabled("cpu")
        assert not torch.is_grad_enabled()
    assert built.diagnostics == ()
    assert (Distribution._validate_args, list(warnings.filters), torch.is_grad_enabled()) == before


@pytest.mark.filterwarnings("ignore:warning.W207")
def test_gradients_and_lazies_are_untouched():
    """No gradient appears, and a lazy module waits for its first real batch, of any width."""
    layer, lazy = nn.Linear(8, 4), nn.LazyLinear(4)
    pipeline(lambda x: torch.autograd.grad(layer(x).sum(), layer.weight)[0].sum() + layer(x), ("f 8",), ("f 4",))
    assert layer.weight.grad is None
    built = pipeline(lazy, ("f n",), ("f 4",))
    assert lazy.has_uninitialized_params()
    built(built.input_class(torch.ones(2, 5)))
    assert lazy.weight.shape == (4, 5)


def test_generators_are_not_used_up():
    """A callable that holds a generator is not probed; iterators that can be copied are."""
    numbers = (n for n in range(10))
    built = pipeline(lambda x: x + next(numbers), ("f 8",), ("f 8",))
    assert [d.code for d in built.diagnostics] == ["N302"]
    assert next(numbers) == 0


def test_objects_that_do_not_copy():
    """Locks stay what they are, and do not stop the probe."""

    class Locked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lock, self.linear, self.calls = threading.Lock(), nn.Linear(8, 4), 0

        def forward(self, x: Tensor) -> Tensor:
            with self.lock:
                self.calls += 1
                return self.linear(x)

    module = Locked()
    assert pipeline(module, ("f 8",), ("f 4",)).diagnostics == ()
    assert module.calls == 0


def test_two_threads_build_at_once():
    """One probe at a time; every build gets its own answer."""
    found: list[object] = []

    def build(width: int) -> None:
        try:
            pipeline(nn.Linear(8, width), ("f 8",), ("f 4",))
            found.append((width, ()))
        except BuildError as error:
            found.append((width, tuple(d.code for d in error.diagnostics)))

    threads = [threading.Thread(target=build, args=(width,)) for width in (4, 5, 4, 6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found, key=str) == [(4, ()), (4, ()), (5, ("E114",)), (6, ("E114",))]


@pytest.mark.slow
def test_private_api_is_imported_late():
    """Neither the package nor a build of small modules imports fake tensors."""
    program = (
        "import sys\nfrom tests.nn._pipelines import *\nfrom tests.nn._zoo import pipeline\n"
        "TensorClassSequential(*stages(), input=Digits, output=Prediction, probe=False)\n"
        "classifier()\nassert 'torch._dynamo' not in sys.modules\n"
        "pipeline(nn.Linear(3000, 3000), ('f 3000',), ('f 3000',))\nassert 'torch._dynamo' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


# ---- modes ---------------------------------------------------------------------------------------------------


def test_no_probe():
    """`probe=False` is the check of the declarations alone."""
    built = pipeline(nn.Linear(8, 5), ("f 8",), ("f 4",), probe=False)
    assert built.diagnostics == ()
    assert built.check().probed is None
    assert str(built.check()) == "modules checked: 1, nothing found"


@pytest.mark.filterwarnings("ignore:warning.W207")
@pytest.mark.parametrize("call", [lambda x: x * x.sum().item(), lambda x: x if x.sum() > 0 else -x])
def test_real_run_sees_values(call):
    """`probe="run"` leaves no note where fake tensors would."""
    assert [d.code for d in pipeline(call, ("f 8",), ("f 8",)).diagnostics if d.code != "W207"] == ["N302"]
    assert [d.code for d in pipeline(call, ("f 8",), ("f 8",), probe="run").diagnostics if d.code != "W207"] == []
    with pytest.raises(BuildError, match="E114"):
        pipeline(call, ("f 8",), ("f 9",), probe="run")


def test_real_run_leaves_modules_alone():
    """It runs copies, with random states put back."""
    norm = nn.Sequential(nn.BatchNorm1d(8), nn.Dropout())
    state = torch.get_rng_state()
    pipeline(norm, ("f 8",), ("f 8",), probe="run")
    assert norm[0].num_batches_tracked.item() == 0
    assert torch.equal(torch.get_rng_state(), state)


def test_without_fake_tensors(monkeypatch):
    """Where torch has moved its private API, the declarations are checked, and a note says so."""
    monkeypatch.setattr(fake_tensors, "_PRIVATE", "torch._no_such_module")
    assert classifier().diagnostics == ()  # real values show enough
    built = pipeline(lambda x: x if torch.allclose(x, x) else -x, ("f 8",), ("f 8",))
    assert [d.code for d in built.diagnostics] == ["N302"]
    assert "no module is probed" in built.diagnostics[0].message
    with pytest.raises(BuildError, match="E101"):
        TensorClassSequential(
            step(nn.Linear(8, 4), Prediction.logits, Prediction.digit), input=Digits, output=Prediction
        )


def test_report_holds_what_was_seen():
    """Concrete dtypes and shapes of everything that was written, for a batch of two."""
    report = classifier().check()
    assert str(report) == "modules checked and probed: 4, nothing found"
    assert report.probed is not None
    seen = [(str(v.dtype), v.shape) for row in report.probed.seen for v in row if v is not None]
    assert seen == [("torch.float32", (64,)), ("torch.float32", (16,)), ("torch.float32", (10,)), ("torch.int64", ())]


def test_check_sees_replaced_modules():
    """The probe looks at the modules that are there now."""
    built = classifier()
    built.head = nn.Linear(17, 10)
    with pytest.raises(BuildError, match=r"(?s)E108.*`head` accepts 17 for event dim 0 of `h`, it is given 16"):
        built.check()
    built.head = nn.Linear(16, 10)
    assert built.check().diagnostics == ()


@pytest.mark.filterwarnings("ignore:warning.W205")
@pytest.mark.parametrize("twin", [copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))])
def test_copies_know_what_was_learned(twin, monkeypatch):
    """A copy is not probed again, and enforces the same narrowed dims."""
    built = TensorClassSequential(step(nn.Linear(8, 10), Open.x, Prediction.logits), input=Open, output=Logits)
    assert [d.code for d in built.diagnostics] == ["W205"]
    monkeypatch.setattr("tensorclass.nn.typed._sequential.probe", None)
    other = twin(built)
    assert other.diagnostics == built.diagnostics
    for each in (built, other):
        assert each(Open(torch.ones(3, 8))).logits.shape == (3, 10)
        with pytest.raises(SchemaError, match=r'Float32\["8"\], narrowed'):
            each(Open(torch.ones(3, 9)))


# ---- fields of every kind ------------------------------------------------------------------------------------


class Open(TensorClass):
    x: Float32[Tensor, "_"]


class Logits(TensorClass):
    logits: Float32[Tensor, "10"]


class Inner(TensorClass):
    x: Float32[Tensor, "t 8"]
    gain: Shared[Float32[Tensor, "8"]]


class Outer(TensorClass):
    inner: Inner
    mask: Float32[Tensor, "t"] | None = None
    name: str = "none"
    ragged: Ragged[Tensor, "t 3"] | None = None
    extra: TensorDict | None = None
    anything: Tensor | None = None


class Result(TensorClass):
    y: Float[Tensor, "t 8"]
    whole: Inner | None = None


def test_nested_shared_and_plain_fields():
    """Nested fields, a class as a whole, a tensor without batch dims, a value with a default."""

    def double(inner: Inner, name: str) -> Inner:
        assert name == "none"
        return Inner(inner.x * 2, inner.gain, batch_size=inner.batch_size)

    modules = [
        step(lambda x, gain: x * gain, (Outer.inner.x, Outer.inner.gain), Result.y),
        step(double, (Outer.inner, Outer.name), Result.whole),
        step(lambda y, x: y + x, (Result.y, Result.whole.x), Result.y, update=True),
    ]
    assert TensorClassSequential(*modules, input=Outer, output=Result).diagnostics == ()
    modules[1] = step(lambda inner, name: inner.x, (Outer.inner, Outer.name), Result.whole)
    with pytest.raises(BuildError, match=r"E111.*writes `whole` as float32"):
        TensorClassSequential(*modules[:2], input=Outer, output=Result)


def test_fields_without_an_example():
    """A module that uses one is left to the first call, and modules after it are probed all the same."""
    reader = step(lambda value=None: len(value) * torch.ones(2, 3, 8), Outer.extra, Result.y)
    after = step(nn.Linear(9, 8), Result.y, Result.y, update=True)
    with pytest.raises(BuildError) as info:
        TensorClassSequential(reader, after, input=Outer, output=Result)
    assert [d.code for d in info.value.diagnostics] == ["N302", "E108"]


def test_optional_read_that_takes_none():
    """A probe with None that passes is a guard; one that fails leaves E104."""
    guarded = step(lambda x, m: x if m is None else x * m[..., None], (Outer.inner.x, Outer.mask), Result.y)
    (note,) = TensorClassSequential(guarded, input=Outer, output=Result).diagnostics
    assert note.code == "N301", note  # `t` of the nested class and `t` of the mask are one size here
    bare = step(lambda x, m: x * m[..., None], (Outer.inner.x, Outer.mask), Result.y)
    with pytest.raises(BuildError) as info:
        TensorClassSequential(bare, input=Outer, output=Result)
    assert [d.code for d in info.value.diagnostics] == ["E104", "N301"]


@pytest.mark.parametrize(
    ("call", "codes"),
    [
        (nn.Embedding(10, 8), ()),
        (nn.Linear(5, 8), ()),
        (lambda x: x.permute(0, 3, 2, 1)[:, :4, 0, :1].expand(-1, 4, 8), ()),
        (lambda x: x.abs() if x.ndim == 9 else x @ torch.ones(1, 2, 3), ("N302",)),
    ],
)
def test_bare_tensors(call, codes):
    """Dtype and rank of a field that declares neither are searched; what fits nothing is left to the first call."""
    built = TensorClassSequential(step(call, Bare.anything, Result.y), input=Bare, output=AnyResult)
    assert tuple(d.code for d in built.diagnostics if d.code[0] != "N" or d.code == "N302") == codes


class Bare(TensorClass):
    anything: Tensor


class AnyResult(TensorClass):
    y: Float[Tensor, "t 8"]


def test_one_state_class():
    """Produced fields, dims that an input and an output share, and a module that writes several fields."""

    class State(TensorClass):
        x: Float32[Tensor, "t d"]
        total: Float32[Tensor, "d"] = produced()
        most: Int64[Tensor, "d"] = produced()

    good = step(lambda x: (x.sum(-2), x.argmax(-2)), State.x, (State.total, State.most))
    assert TensorClassSequential(good, input=State).diagnostics == ()
    bad = step(lambda x: (x.sum(-1), x.argmax(-2)), State.x, (State.total, State.most))
    with pytest.raises(BuildError, match=r"(?s)E114.*declare it as `t`"):
        TensorClassSequential(bad, input=State)


def test_variadic_dims():
    """`*shape` is one shape wherever it stands."""
    assert pipeline(lambda x: x * 2, ("f *s",), ("f *s",)).diagnostics == ()
    with pytest.raises(BuildError, match=r"E11[34]"):
        pipeline(lambda x: x.sum(-1), ("f *s",), ("f *s",))


def test_dims_that_an_equation_ties():
    """`a*b` read as 64 is probed with sizes that make it so."""

    class Grid(TensorClass):
        flat: Float32[Tensor, "64"]

    class Given(TensorClass):
        flat: Float32[Tensor, "a*b"]
        rows: Float32[Tensor, "a"]
        columns: Float32[Tensor, "b"]

    class Made(TensorClass):
        y: Float32[Tensor, "64"]

    call = step(lambda f: f + 1, Grid.flat, Made.y)
    assert [d.code for d in TensorClassSequential(call, input=Given, output=Made).diagnostics] == []


# ---- findings ------------------------------------------------------------------------------------------------


def test_in_place_change_that_nobody_sees():
    """An intermediate value that nothing else uses may be changed."""

    class Hidden(TensorClass):
        h: Float32[Tensor, "8"]
        y: Float32[Tensor, "8"]
        z: Float32[Tensor, "8"]

    modules = [
        step(nn.Linear(8, 8), Open8.x, Hidden.h),
        step(nn.ReLU(inplace=True), Hidden.h, Hidden.y),
        step(lambda y: y + 1, Hidden.y, Hidden.z),
    ]
    assert TensorClassSequential(*modules, input=Open8, output=OnlyZ).diagnostics == ()
    modules[2] = step(lambda y, h: y + h, (Hidden.y, Hidden.h), Hidden.z)
    with pytest.raises(BuildError, match=r"E109.*changes `h` of the pipeline in place"):
        TensorClassSequential(*modules, input=Open8, output=OnlyZ)


class Open8(TensorClass):
    x: Float32[Tensor, "8"]


class OnlyZ(TensorClass):
    z: Float32[Tensor, "8"]


@pytest.mark.filterwarnings("ignore:warning.W205")
def test_sizes_that_only_some_modules_need():
    """Two sizes that only a pair accepts, a multiple that several fit, and a limit: none is an error."""
    assert [d.code for d in pipeline(nn.Bilinear(5, 7, 3), ("f _", "f _"), ("f 3",)).diagnostics] == ["W205"] * 2
    windows = pipeline(lambda x: x.unflatten(-1, (-1, 7)).mean(-1), ("f n",), ("f n//7",))
    assert windows.diagnostics == ()
    table = torch.zeros(20, 4)
    limited = pipeline(lambda x: x + table[: x.shape[-2]], ("f t 4",), ("f t 4",))
    assert limited.diagnostics == ()
    limited(limited.input_class(torch.ones(2, 11, 4)))


def test_halves_of_odd_sizes():
    """`h//2` and `(h+1)//2` agree on even sizes, so an odd one is tried; what rejects it is right."""
    padded = nn.Conv1d(3, 4, 3, stride=2, padding=1)
    assert [d.code for d in pipeline(padded, ("f 3 t",), ("f 4 t//2",)).diagnostics] == ["N306"]
    assert pipeline(padded, ("f 3 t",), ("f 4 (t+1)//2",)).diagnostics == ()
    assert pipeline(lambda x: x.unflatten(-1, (-1, 2)).sum(-1), ("f t",), ("f t//2",)).diagnostics == ()


def test_error_names_the_line_of_the_user():
    """What the module itself raises is shown with the line that raised it."""

    def broken(x: Tensor) -> Tensor:
        return x @ torch.ones(9, 2)

    with pytest.raises(BuildError, match=rf"raised at .*test_probe.py:{broken.__code__.co_firstlineno + 1}"):
        pipeline(broken, ("f 8",), ("f 2",))


def test_what_stops_the_probe_does_not_stop_the_build(monkeypatch):
    """Variables that are never set are the user's error; a failure of the probe is a warning that names it."""

    def unset(x: Tensor) -> Tensor:
        return x + never

    if not unset:
        never = 1.0
    with pytest.raises(BuildError, match=r"(?s)E108.*NameError"):
        pipeline(unset, ("f 8",), ("f 8",))

    def fail(*_: object) -> None:
        raise ZeroDivisionError("not the user's")

    monkeypatch.setattr("tensorclass.nn.probe._run.Isolator.copy", fail)
    with pytest.warns(
        PipelineWarning, match="W206.*could not be copied for the check: ZeroDivisionError: not the user"
    ):
        built = classifier()
    assert [d.code for d in built.diagnostics] == ["W206"] * 4
    assert built(digits()).digit.shape == (6,)


def test_one_mistake_is_reported_once():
    """After an error the declared value goes on."""
    with pytest.raises(BuildError) as info:
        TensorClassSequential(
            TensorClassModule(nn.Linear(8, 5), Open8.x, OnlyZ.z),
            TensorClassModule(nn.Linear(8, 8), OnlyZ.z, OnlyZ.z, update=True),
            TensorClassModule(functools.partial(torch.add, torch.ones(8)), OnlyZ.z, OnlyZ.z, update=True),
            input=Open8,
            output=OnlyZ,
        )
    assert [d.code for d in info.value.diagnostics] == ["E114"]


def test_modules_that_are_blocked_are_not_run():
    """A module whose reads are wrong already is not reported again."""
    with pytest.raises(BuildError) as info:
        TensorClassSequential(step(nn.Linear(9, 8), OnlyZ.z, OnlyZ.z, update=True), input=Open8, output=OnlyZ)
    assert [d.code for d in info.value.diagnostics] == ["E101"]


def test_the_private_module_is_the_one_we_know():
    """The names of torch that the one private file uses exist in the installed torch."""
    private = importlib.import_module(fake_tensors._PRIVATE)
    for name in ("FakeTensor", "FakeTensorMode", "DataDependentOutputException", "DynamicOutputShapeException"):
        assert hasattr(private, name)


class Odd(dict):  # type: ignore[type-arg]  # made in its own way
    """A mapping that its constructor can't make anew, with an attribute."""

    def __init__(self, owner: str, entries: dict[str, Any]) -> None:
        dict.__init__(self, entries)
        self.owner = owner

    def __setitem__(self, key: str, value: Any) -> None:
        raise KeyError(key)


class Names(list):  # type: ignore[type-arg]  # as above
    """A list with a required argument."""

    def __init__(self, kind: str, *values: Any) -> None:
        super().__init__(values)
        self.kind = kind


class Pair(tuple):  # type: ignore[type-arg]  # as above
    """A tuple that takes two arguments."""

    def __new__(cls, one: Any, other: Any) -> Pair:
        return super().__new__(cls, (one, other))


class Word(str):
    """A text with an attribute."""

    __slots__ = ("note",)


class Kind(str, enum.Enum):
    """A text that is one of a few."""

    RELU = "relu"


class Ordered(OrderedDict):  # type: ignore[type-arg]  # as above
    """As the results of transformers are."""


OWN_KINDS: dict[str, Callable[[Tensor], Any]] = {
    "dict": lambda w: Odd("me", {"w": w, "n": 1}),
    "ordered": lambda w: Ordered(a=1, w=w),
    "defaultdict": lambda w: defaultdict(list, {"w": w}),
    "counter": lambda w: Counter("aab"),
    "list": lambda w: Names("k", w, 2),
    "deque": lambda w: deque([w, 1, 2], maxlen=3),
    "set": lambda w: type("Tags", (set,), {})({"a", "b"}),
    "tuple": lambda w: Pair(w, 1),
    "namedtuple": lambda w: namedtuple("Point", "x y")(w, 2),  # the old form is asked about
    "text": lambda w: Word("relu"),
    "enum": lambda w: Kind.RELU,
    "number": lambda w: type("Size", (int,), {})(8),
}


@pytest.mark.parametrize("kind", OWN_KINDS)
def test_containers_and_texts_of_own_classes_are_copied(kind):
    """A copy has the class, the entries in their order and the attributes, and holds copies of tensors."""
    weight = torch.ones(8)
    value = OWN_KINDS[kind](weight)
    twin = Isolator(torch.clone, torch.empty).copy(value)
    assert type(twin) is type(value)
    assert getattr(twin, "__dict__", None) == getattr(value, "__dict__", None)
    assert getattr(twin, "maxlen", None) == getattr(value, "maxlen", None)
    listed = (v.items() if isinstance(v, dict) else [v] if isinstance(v, int) else v for v in (twin, value))
    one, other = map(list, listed)
    ordered = sorted if isinstance(value, set) else list  # a set of tensors has the order of their addresses
    assert ordered(map(str, one)) == ordered(map(str, other))
    assert not any(entry is weight for entry in one)

    class Holder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.held = value

        def forward(self, x: Tensor) -> Tensor:
            assert type(self.held) is type(value)
            return x * 2

    assert pipeline(Holder(), ("f 8",), ("f 8",)).diagnostics == ()


def test_a_batch_of_one_is_not_blamed_for_sizes():
    """Sizes that are too many for a module are tried for batches of every size."""
    places = nn.Embedding(128, 8)
    built = pipeline(lambda x: x + places.weight[: x.shape[1]].expand(len(x), x.shape[1], 8), ("f t 8",), ("f t 8",))
    assert built.diagnostics == ()


class Mels(TensorClass):
    x: Float32[Tensor, "t mels"]


class Picture(TensorClass):
    x: Float32[Tensor, "h w 3"]


class Sized(TensorClass):
    x: Float32[Tensor, "t 20"]


@pytest.mark.parametrize(
    ("taken", "layer", "moved"),
    [(Mels, nn.Conv1d(20, 8, 3), "x.movedim(-1, -2)"), (Picture, nn.Conv2d(3, 8, 3), "x.movedim(-1, -3)")],
    ids=["1d", "2d"],
)
def test_the_hint_of_e122_mends_the_program(taken, layer, moved):
    """A layout that must move is told with the dims of the layer; one that the module moves itself is left alone."""

    def hints(taken, read):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            network = stage(lambda x: layer(read(x)).flatten(-layer.weight.ndim + 2).mean(-1), taken.x)
            try:
                return [d.hint for d in TensorClassSequential(network=network, input=taken).diagnostics]
            except BuildError as error:
                return [d.hint for d in error.diagnostics]

    (hint,) = hints(taken, lambda x: x)
    assert hint == f"where channels come last, move them: `{moved}`; else declare the size in the input class"
    mended = eval(f"lambda x: {moved}")
    assert hints(taken, mended) == ["declare the size in the input class"] * (taken is Mels)
    assert hints({Mels: Sized, Picture: Picture}[taken], mended) == []


def test_hints_that_lead_to_the_next_error_are_dropped():
    """A size for a layer behind a flatten that was forgotten, and another order of equal fields, are not hinted."""
    with pytest.raises(BuildError) as info:
        pipeline(nn.Sequential(nn.Linear(512, 4)), ("f 8 8 8",), ("f 4",))
    assert "its last 3 dims as one, `flatten(-3)`" in info.value.diagnostics[0].hint
    with pytest.raises(BuildError) as info:
        pipeline(lambda x, y: x @ y.transpose(-1, -2) @ torch.ones(5, 2), ("f 4 3", "f 5 3"), ("f 4 9",))
    assert "another order" not in info.value.diagnostics[0].hint


KINDS = "kinds"


class Noted(nn.Module):
    """Notes on its class what its forward was given, in a way that the check does not see."""

    kinds: ClassVar[list[str]] = []

    def __init__(self, work: int = 1, *, narrow: bool = False) -> None:
        super().__init__()
        self.work, self.narrow = work, narrow

    def forward(self, x: Tensor) -> Tensor:
        """The same, after some work that nobody needs."""
        getattr(type(self), KINDS).append(type(x).__name__)
        (x @ torch.ones(8, self.work)).sum()
        return x[..., : 40 if self.narrow else None, :]


@pytest.mark.parametrize(
    ("module", "given", "kinds"),
    [
        (Noted(), "f t 8", "Tensor Tensor Tensor Tensor"),
        (Noted(1 << 18), "f t 8", "Tensor Tensor FakeTensor FakeTensor FakeTensor"),
        (Noted(), "f 400 400 8", "FakeTensor FakeTensor FakeTensor"),
    ],
    ids=["small", "large", "large input"],
)
def test_small_modules_run_on_real_values(module, given, kinds):
    """A module that takes little runs on real values only; one that takes more is stopped, and runs on fake ones."""
    Noted.kinds.clear()
    assert pipeline(module, (given,), (given,)).diagnostics == ()
    assert Noted.kinds[: len(kinds.split())] == kinds.split()


def test_a_real_sweep_that_fails_is_none():
    """Where a real run shows something, fake tensors say what: here a size that only some inputs have."""
    Noted.kinds.clear()
    with pytest.raises(BuildError) as info:
        pipeline(Noted(narrow=True), ("f t 8",), ("f t 8",))
    assert [d.code for d in info.value.diagnostics] == ["E114"]


class Deep(nn.Module):
    """Needs values, two levels down."""

    def __init__(self, deep: bool = True) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Deep(False)] if deep else [])

    def forward(self, x: Tensor) -> Tensor:
        """As many rows as values say, padded."""
        if len(self.layers):
            return self.layers[0](x)
        return x * len(x.flatten().nonzero())


def test_the_note_names_the_module_that_needs_values():
    """The note about a module that can't be probed names the inner module, its operation, and what to do."""
    (note,) = pipeline(Deep(), ("f 4000",), ("f 4000",)).diagnostics
    assert "is not probed: it needs values (aten.nonzero.default in `layers.0`, Deep)" in note.message
    assert 'probe="run"' in note.hint
