"""Tables of the build check: every pair of dtypes and kinds, what may be absent, whole texts of hints."""

from __future__ import annotations

import functools
import warnings
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import PerElement, Shared, TensorClass, TensorDict, produced, schema
from tensorclass._schema import parse_dims
from tensorclass._schema._dtypes import FAMILIES
from tensorclass.errors import BuildError, SchemaError
from tensorclass.nn import TensorClassSequential
from tensorclass.nn.check._declared import Probed
from tensorclass.nn.check._known import ByPath, FlowState, Mismatch, agree, overlap, suggest
from tensorclass.nn.check._narrowing import narrowing, refuse
from tensorclass.nn.parts._diagnostics import Diagnostic
from tensorclass.nn.parts._slots import Slot
from tensorclass.typing import Float, Float32, Float64, Int64, Integer
from tests.nn._pipelines import step

DTYPES = {dtype for dtype in vars(torch).values() if isinstance(dtype, torch.dtype)}


def same(x: Tensor) -> Tensor:
    """A module whose parameter admits no None."""
    return x


def build(*modules: Any, **options: Any) -> TensorClassSequential[Any, Any]:
    """A pipeline that is only checked on its declarations, without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return TensorClassSequential(*modules, probe=False, **options)


@functools.cache
def holding(kind: str) -> Any:
    """A class with a field of one type."""
    return type("Of", (TensorClass,), {"__annotations__": {"x": KINDS[kind]}})


def clash(have: str, want: str) -> tuple[FlowState, Mismatch | None]:
    """The state of a pipeline whose input has a field of one type, after a read as another, and what is wrong."""
    source, reader = holding(have), holding(want)
    state, spec = FlowState(), schema(reader)["x"]
    state.add_input(source)
    try:
        agree(state, state.places["x",], spec, state.unifier.scope().terms(spec.dims))
    except Mismatch as wrong:
        return state, wrong
    return state, None


def found(*modules: Any, **options: Any) -> list[tuple[str, str]]:
    """The code and the hint of each finding."""
    try:
        return [(one.code, one.hint) for one in build(*modules, **options).diagnostics]
    except BuildError as error:
        return [(one.code, one.hint) for one in error.diagnostics]


KNOWN = [name for name, family in FAMILIES.items() if family.dtypes != frozenset()]
"""An older torch lacks the dtypes of some families."""


@pytest.mark.parametrize("have", KNOWN)
def test_dtypes_meet(have):
    """A read leaves the dtypes that both declare; without any the read is wrong."""
    for want in KNOWN:
        state, wrong = clash(have, want)
        both = {dtype for dtype in DTYPES if FAMILIES[have].accepts(dtype) and FAMILIES[want].accepts(dtype)}
        if not both:
            assert wrong is not None
            assert (wrong.code, str(wrong)) == ("E102", f"its dtype is {have}, here it is declared {want}")
            continue
        left = state.places["x",].dtype
        assert wrong is None
        assert left is not None
        assert {dtype for dtype in DTYPES if left.accepts(dtype)} == both


class Base(TensorClass):
    x: Float32[Tensor, "4"]


class Child(Base):
    pass


KINDS: dict[str, Any] = {
    "any": Any, "tensor": Tensor, "declared": Float32[Tensor, "4"], "shared": Shared[Float32[Tensor, "4"]], "str": str,
    "int": int, "column": PerElement[str], "numbers": PerElement[int], "untyped": TensorDict, "class": Base,
    "subclass": Child, **{name: family[Tensor, "4"] for name, family in FAMILIES.items()},
}  # fmt: skip


@pytest.mark.parametrize("have", [name for name in KINDS if name not in FAMILIES])
def test_kinds_meet(have):
    """A value is read as what it is: any tensor as a tensor, a batch as its class or one above, else the same type."""
    tensors = ("tensor", "declared", "shared")
    for want in KINDS.keys() - FAMILIES.keys():
        _, wrong = clash(have, want)
        fits = have == want or "any" in (have, want) or (have, want) == ("subclass", "class")
        if fits or (have in tensors and want in tensors):
            assert wrong is None
            continue
        given, asked = (schema(holding(kind))["x"].type_text for kind in (have, want))
        assert wrong is not None
        assert (wrong.code, str(wrong)) == ("E102", f"it is {given}, here it is declared {asked}")
        assert wrong.hint == "declare both fields with one type"


def test_paths_that_overlap():
    """A path overlaps with itself, with its beginnings and continuations, until they are removed."""
    paths = [path for n in (1, 2, 3) for path in product("ab", repeat=n)]
    known = ByPath(dict.fromkeys(paths))
    for gone in ((), ("a",), ("a", "b"), ("b", "a", "a")):
        if gone:
            del known[gone]
        for path in paths:
            alike = {p for p in known if all(x == y for x, y in zip(p, path, strict=False))}
            assert set(known.overlapping(path)) == alike == {p for p in known if overlap(p, path)}
            assert len(known.overlapping(path)) == len(alike)


class Inner(TensorClass):
    x: Float32[Tensor, "4"]
    y: Float32[Tensor, "4"] | None = None


class Deep(TensorClass):
    inner: Inner


class Source(TensorClass):
    x: Float32[Tensor, "4"]
    maybe: Float32[Tensor, "4"] | None = None
    word: str = "a"


class Result(TensorClass):
    value: Float32[Tensor, "4"]
    spare: Float32[Tensor, "4"] | None = None
    count: Int64[Tensor, ""] | None = None


class Close(TensorClass):
    valu: Float32[Tensor, "4"]
    far: Int64[Tensor, "7"]


class State(TensorClass):
    a: Float32[Tensor, "4"]
    maybe: Float32[Tensor, "n"] | None
    free: Tensor
    word: str
    inner: Inner
    late: Float32[Tensor, "4"] = produced()
    rest: Float32[Tensor, "4"] = produced()


class Held(TensorClass):
    inner: Inner
    deep: Deep


class Whole(TensorClass):
    held: Held


ADD = "add a module with `out_fields=Result.value`, make the field optional, or give another `output`"
TEXTS: dict[str, tuple[list[Any], dict[str, Any], list[tuple[str, str]]]] = {
    "right": ([step(same, Source.x, Result.value)], {}, []),
    "optional outputs may be unwritten": (
        [step(same, Source.x, Close.valu), step(same, Close.valu, Result.value)], {}, [],
    ),
    "nothing like it": ([step(same, State.a, Result.count)], {"input": State}, [("E107", ADD)]),
    "the input has a near one": ([step(same, Close.far, Result.count)], {"input": Close}, [("E107", ADD)]),
    "a module writes a near one": (
        [step(same, Source.x, Close.valu, name="near")], {},
        [("E107", f"module 0 `near` writes `valu`, did you mean `out_fields=Result.value`? Else {ADD}"),
         ("W201", "write None instead to drop the output, or leave the module out")],
    ),
    "produced and not written": (
        [step(same, State.a, State.late)], {"input": State, "output": State},
        [("E107", "add a module with `out_fields=State.rest`, or return a class of the fields that exist: `class "
          'StatePart(TensorClass): a: Float32[Tensor, "4"]; maybe: Float32[Tensor, "n"] | None = None; free: Tensor; '
          'word: str; inner: Inner; late: Float32[Tensor, "4"]` and `output=StatePart`')],
    ),
    "read before it is written": (
        [step(same, Close.valu, Result.value, name="reads"), step(same, Source.x, Close.valu, name="writes")], {},
        [("E101", "module 1 `writes` writes `valu`; move it before module 0 `reads`")],
    ),
    "read by its own writer": (
        [step(same, Close.valu, Close.valu), step(same, Close.valu, Result.value)], {},
        [("E101", "the module writes `valu` itself; a first value must come from the input or another module")],
    ),
    "read, and nothing writes it": (
        [step(lambda n: n, Close.far, Result.count), step(same, Source.x, Result.value)], {},
        [("E101", "add a module that writes `Close.far`, or declare `far` in Source")],
    ),
    "read, and the input has a near one": (
        [step(same, Result.value, Result.spare), step(same, Close.valu, Result.value)], {"input": Close},
        [("E101", "module 1 `same_1` writes `value`; move it before module 0 `same_0`")],
    ),
    "read below, and the input has it": (
        [step(same, Source.x, Result.value)], {"input": Deep},
        [("E101", "did you mean `Deep.inner.x` (the input has it)?")],
    ),
    "read before a module that writes it makes it": (
        [step(same, State.rest, Result.value)], {"input": State},
        [("E101", "`State.rest` is declared `produced()`: add a module before that writes it")],
    ),
    "an optional one into a required output": (
        [step(same, Source.maybe, Result.value)], {"partial": True},
        [("E104", "make the field of the output optional too")],
    ),
    "an optional one into an optional output": (
        [step(same, Source.maybe, Result.spare), step(same, Source.x, Result.value)], {"partial": True}, [],
    ),
    "an absent part does not remove what was there": (
        [step(same, Source.x, Result.value), step(same, Source.maybe, Result.value, update=True)], {"partial": True},
        [("W201", "write None instead to drop the output, or leave the module out")],
    ),
    "an absent part of what may be absent": (
        [step(same, Source.maybe, Close.valu), step(same, Source.maybe, Close.valu, update=True),
         step(same, Close.valu, Result.value)], {"partial": True},
        [("E104", "make the field of the output optional too"),
         ("W201", "write None instead to drop the output, or leave the module out")],
    ),
    "parts of a nested output": (
        [step(same, Source.x, Held.inner.x), step(same, Source.x, Held.deep.inner.x)], {"output": Held}, [],
    ),
    "parts of what is nested twice": (
        [step(same, Source.x, Whole.held.inner.x), step(same, Source.x, Whole.held.deep.inner.x)], {"output": Whole},
        [],
    ),
    "some parts of a nested output": (
        [step(same, Source.x, Held.deep.inner.y), step(same, Source.x, Held.inner.x)], {"output": Held},
        [("E107", ADD.replace("Result.value", "Held.deep.inner.x"))],
    ),
    "a whole value, a part of which exists": (
        [step(same, Source.x, Held.inner.x), step(lambda inner: inner.x, Held.inner, Result.value)], {},
        [("E101", "add a module that writes `Held.inner`, or declare `inner` in Source"),
         ("W201", "write None instead to drop the output, or leave the module out")],
    ),
    "a whole that nothing reads": (
        [step(Inner, Source.x, Held.inner, name="whole"), step(same, Source.x, Result.value)], {},
        [("W201", "write None instead to drop the output, or leave the module out")],
    ),
    "parts of a batch that was written whole": (
        [step(Inner, Source.x, Held.inner), step(same, Held.inner.x, Result.value)], {}, [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", TEXTS)
def test_findings_and_hints(case):
    """Exactly these findings, with the whole text of what to do."""
    modules, options, expected = TEXTS[case]
    assert found(*modules, **{"input": Source, "output": Result, **options}) == expected


def test_texts_of_reports():
    """A report without findings says how much was looked at, and whether the modules were run."""
    report = TensorClassSequential(step(same, Source.x, Result.value), input=Source, output=Result, probe=False).check()
    probed = replace(report, probed=Probed((), (), {}, (), {}))
    for one, done in ((report, "checked"), (probed, "checked and probed")):
        assert str(one) == f"modules {done}: 1, nothing found"
        assert repr(one) == f"Report({one})"


def test_available_fields():
    """Fields below a field that is listed are not listed themselves."""
    with pytest.raises(BuildError) as caught:
        build(
            step(same, Source.x, Held.inner.x),
            step(same, Source.x, Held.deep),
            step(same, Close.far, Result.value),
            input=Source,
            output=Result,
        )
    (missing,) = [one for one in caught.value.diagnostics if one.code == "E101"]
    assert missing.notes == ("available here: x, maybe, word, deep, inner.x",)


class Open(TensorClass):
    value: Float32[Tensor, "..."]
    one: Shared[Float32[Tensor, "..."]]


class Out(TensorClass):
    y: Float32[Tensor, "any"]


def test_narrowed_ranks_of_every_kind():
    """An open shape that the modules fix is held by each call, counted from the batch dims if there are any."""

    class Fixed(TensorClass):
        value: Float32[Tensor, "3 w"]
        one: Shared[Float32[Tensor, "w 5"]]

    run = build(step(lambda own, one: own[..., 0, :4], (Fixed.value, Fixed.one), Out.y), input=Open, output=Out)
    right = torch.zeros(2, 3, 6), torch.zeros(6, 5)
    assert run(Open(*right, batch_size=[2])).y.shape == (2, 4)
    wrong = ((2, 3), (6, 5)), ((2, 3, 6), (5,)), ((2, 3, 6), (2, 6, 5)), ((2, 3, 6), (7, 5)), ((2, 4, 6), (6, 5))
    for own, one in wrong:
        for _ in range(2):
            with pytest.raises(SchemaError, match="narrowed"):
                run(Open(torch.zeros(own), torch.zeros(one), batch_size=[2]))


@pytest.mark.parametrize(
    ("names", "fits", "used", "expected"),
    [
        (("imag", "image"), (True, True), (True, True), "image"),
        (("pixels", "labels"), (True, True), (True, True), None),
        (("pixels", "labels"), (True, False), (False, True), "pixels"),
        (("pixels", "imago"), (True, False), (False, False), "pixels"),
        (("pixels", "imago"), (False, False), (False, False), "imago"),
        (("pixels", "imago"), (False, True), (False, True), "imago"),
        (("imago", "image"), (True, False), (True, False), "image"),
        (("imago", "image"), (True, False), (True, True), "imago"),
        (("pixels", "images"), (False, False), (True, True), "images"),
        (("pixels",), (True,), (True,), None),
        (("IMAGES",), (False,), (True,), "IMAGES"),
    ],
)
def test_what_a_reader_probably_means(names, fits, used, expected):
    """The nearest name, a fitting declaration, a value that nobody reads: in this order of weight."""

    class Wanted(TensorClass):
        images: Float32[Tensor, "8"]

    annotations = {n: Float32[Tensor, "8"] if fit else Int64[Tensor, "3"] for n, fit in zip(names, fits, strict=True)}
    state = FlowState()
    state.add_input(type("Known", (TensorClass,), {"__annotations__": annotations}))
    for place, read in zip(state.places.values(), used, strict=True):
        place.writer, place.used = 0, read
    near = suggest(state, Slot(Wanted.images), state.unifier.scope().terms(parse_dims("8")))
    assert (near.name if near else None) == expected


def test_refused_inputs_say_who_needs_them():
    """The error of a call names the field, what it became and was, and where the build said so."""
    module = step(same, Result.value, Out.y)
    run = build(module, input=Open, output=Out)
    with pytest.raises(SchemaError) as caught:
        run(Open(torch.zeros(2, 5), torch.zeros(3), batch_size=[2]))
    (problem,) = caught.value.problems
    assert (problem.path, problem.declared, problem.given) == (
        "value",
        'Float32["4"], narrowed from Float32["..."]',
        "float32 [2, 5]",
    )
    assert problem.hint == "the modules that read the field accept nothing else; see N301 at build"
    one = Diagnostic("W205", "it takes 4", location="here")
    report = replace(run.check(), diagnostics=(one, replace(one, code="W204"), replace(one, message="and 4")))
    with pytest.raises(SchemaError) as caught:
        refuse(report.inputs["value",], "4", report)(torch.zeros(5))
    assert caught.value.problems[0].hint.endswith("accept nothing else; it takes 4 (here); and 4 (here)")


def test_calls_test_only_what_is_narrowed():
    """Fields that the modules read as they are declared cost nothing at a call."""

    class Mixed(TensorClass):
        same: Float32[Tensor, "n 4"]
        kind: Float[Tensor, "n 4"]
        wide: Float32[Tensor, "m 4"]
        both: Float[Tensor, "..."]
        unread: Float[Tensor, "..."]
        maybe: Float32[Tensor, "k"] | None = None

    class Reads(TensorClass):
        same: Float32[Tensor, "a 4"]
        kind: Float32[Tensor, "a 4"]
        wide: Float32[Tensor, "6 4"]
        both: Float32[Tensor, "6 4"]
        maybe: Float32[Tensor, "_"]

    for names in ((), ("kind",), ("wide",), ("both",), ("kind", "wide", "both")):
        module = step(lambda *values: values[0][..., 0, :1], [getattr(Reads, n) for n in ("same", *names)], Out.y)
        lines, known = narrowing(build(module, input=Mixed, output=Out).check())
        assert [line.partition("batch.")[2].split(".")[0] for line in lines] == list(names)
        for name, line in zip(names, lines, strict=True):
            assert (".dtype not in" in line) is (name in ("kind", "both"))
            assert (".shape[" in line) is (name in ("wide", "both"))
            assert (".ndim" in line) is (name == "both")
        assert [one for key, one in known.items() if key.startswith("dtypes")] == [{torch.float32}] * sum(
            name in ("kind", "both") for name in names
        )


EXACT, FAMILY = Float64[Tensor, "4"], Integer[Tensor, "4"]


@pytest.mark.parametrize("written", [False, True])
def test_hints_about_dtypes(written):
    """An exact dtype is made where the value comes from; a family only says what it is."""
    for want, hint in (
        (
            EXACT,
            f"convert in {'module 0' if written else 'the dataset'} with `.to(torch.float64)`, or declare both "
            "fields with one dtype",
        ),
        (FAMILY, "declare both fields with one dtype; a family such as Integer takes several"),
    ):
        asks = type("Asks", (TensorClass,), {"__annotations__": {"x": want, "valu": want}})
        modules = [step(same, Source.x, Close.valu)] if written else []
        read = step(same, asks.valu if written else asks.x, Result.value)
        assert found(*modules, read, input=Source, output=Result) == [("E102", hint)]


@pytest.mark.parametrize("kind", ["own", "shared", "absent"])
def test_first_call_binds_what_modules_read(kind):
    """A name of a module is one size in what it reads and returns, or the first call says where it was bound."""
    own = Float32[Tensor, "n"]
    declared = {"own": own, "shared": Shared[own], "absent": own | None}[kind]
    takes = type("Takes", (TensorClass,), {"__annotations__": {"first": declared, "other": Float32[Tensor, "m"]}})
    gives = type("Gives", (TensorClass,), {"__annotations__": {"first": declared, "y": own}})

    def cut(size: int) -> Any:
        work = step(lambda first=None: torch.zeros(2, size), gives.first, gives.y)
        return build(work, input=takes, output=type("End", (TensorClass,), {"__annotations__": {"y": own}}))

    shape = (3,) if kind == "shared" else (2, 3)
    batch = takes(None if kind == "absent" else torch.zeros(shape), torch.zeros(2, 4), batch_size=[2])
    assert cut(3)(batch).y.shape == (2, 3)
    if kind == "absent":
        assert cut(5)(batch).y.shape == (2, 5)
        return
    with pytest.raises(SchemaError, match=r"Gives.y(?s:.*)`n` is 3 \(bound by `first`\), here 5"):
        cut(5)(batch)


class Leaf(TensorClass):
    x: Float32[Tensor, "..."] | None = None


class Branch(TensorClass):
    leaf: Leaf | None = None


class Root(TensorClass):
    y: Float32[Tensor, "4"]
    branch: Branch | None = None


@pytest.mark.parametrize("depth", range(4))
def test_narrowed_fields_below_what_may_be_absent(depth):
    """A field is compared where all that holds it is there, and skipped where something above it is absent."""
    square = type("Leaf_", (TensorClass,), {"__annotations__": {"x": Float32[Tensor, "k k"]}})
    twig = type("Branch_", (TensorClass,), {"__annotations__": {"leaf": square}})
    asked = type("Root_", (TensorClass,), {"__annotations__": {"branch": twig}})
    run = build(step(lambda y, x=None: y, (Root.y, asked.branch.leaf.x), Result.value), input=Root, output=Result)

    def root(x: Tensor) -> Root:
        leaf = Leaf(x if depth > 2 else None, batch_size=[2])
        branch = Branch(leaf if depth > 1 else None, batch_size=[2])
        return Root(y=torch.zeros(2, 4), branch=branch if depth else None, batch_size=[2])

    assert run(root(torch.zeros(2, 3, 3))).value.shape == (2, 4)
    for wrong in (torch.zeros(2, 3), torch.zeros(2, 3, 4)):
        if depth < 3:
            assert run(root(wrong)).value.shape == (2, 4)
        else:
            with pytest.raises(SchemaError, match="narrowed"):
                run(root(wrong))


def test_shapes_that_stay_open_take_any_rank():
    """Where the modules leave the number of dims open, a call does too."""
    asks = type("Asks", (TensorClass,), {"__annotations__": {"value": Float32[Tensor, "3 *rest"]}})
    module = step(lambda value: value.flatten(1), asks.value, Out.y)
    source = type("Has", (TensorClass,), {"__annotations__": {"value": Float[Tensor, "..."]}})
    run = build(module, input=source, output=Out)
    for shape in ((), (5,), (2, 2)):
        batch = source(torch.zeros(2, 3, *shape), batch_size=[2])
        for _ in range(2):
            assert run(batch).y.shape == (2, batch.value[0].numel())
        with pytest.raises(SchemaError, match="narrowed"):
            run(source(torch.zeros(2, 3, *shape).double(), batch_size=[2]))
