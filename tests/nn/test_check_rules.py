"""Rules of the build check that rarely meet: what a narrowed input lets pass, sizes between modules, words of hints."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import TensorClass, TensorDict, produced
from tensorclass._schema import parse_dims
from tensorclass.errors import BuildError, SchemaError
from tensorclass.nn import TensorClassSequential
from tensorclass.nn.check._first import runtime_dims
from tensorclass.nn.check._known import FlowState, suggest
from tensorclass.nn.check._unify import Clash, Unifier
from tensorclass.nn.parts._slots import Slot
from tensorclass.typing import Float, Float32, Int64
from tests.nn._pipelines import step


class Wide(TensorClass):
    a: Float[Tensor, "n m"]
    open: Float[Tensor, "..."]
    b: Float[Tensor, "n"] | None = None


class Reads(TensorClass):
    a: Float32[Tensor, "k k"]
    b: Float32[Tensor, "3"]
    open: Float32[Tensor, "3 w"]


class Out(TensorClass):
    y: Float32[Tensor, "any"]


def wide(**changes: Any) -> Wide:
    """A batch that the modules below take."""
    return Wide(**{"a": torch.zeros(2, 3, 3), "b": torch.zeros(2, 3), "open": torch.zeros(2, 3, 5), **changes})


def test_calls_hold_narrowed_inputs():
    """What only the modules demand of the input each call demands: numbers, equal sizes, ranks and dtypes."""

    def both(a: Tensor, b: Tensor | None, more: Tensor) -> Tensor:
        return a[..., 0] + more[..., 0]

    reads = step(both, (Reads.a, Reads.b, Reads.open), Out.y)
    pipeline = TensorClassSequential(reads, input=Wide, output=Out, probe=False)
    for _ in range(2):
        assert pipeline(wide()).y.shape == (2, 3)
        assert pipeline(wide(b=None)).y.shape == (2, 3)
        for name, value in {"a": torch.zeros(2, 3, 4), "b": torch.zeros(2, 4), "open": torch.zeros(2, 3)}.items():
            with pytest.raises((SchemaError, ValueError), match=name):
                pipeline(wide(**{name: value}))
        for wrong in (torch.zeros(2, 4, 5), torch.zeros(2, 3, 5, dtype=torch.float64)):
            with pytest.raises(SchemaError, match="narrowed"):
                pipeline(wide(open=wrong))
        with pytest.raises(SchemaError, match="narrowed"):
            pipeline(wide(a=torch.zeros(2, 4, 4), b=torch.zeros(2, 4), open=torch.zeros(2, 4, 5)))


def test_calls_hold_sizes_that_became_equal():
    """Two names that the modules read as one are compared with each other, whatever their size."""

    class Source(TensorClass):
        x: Float32[Tensor, "n m"]

    class Square(TensorClass):
        x: Float32[Tensor, "k k"]

    pipeline = TensorClassSequential(step(lambda x: x[..., 0], Square.x, Out.y), input=Source, output=Out, probe=False)
    assert [pipeline(Source(torch.zeros(2, n, n))).y.shape[1] for n in (3, 4)] == [3, 4]
    with pytest.raises(SchemaError, match="narrowed"):
        pipeline(Source(torch.zeros(2, 3, 4)))


def test_calls_hold_sizes_of_optional_fields():
    """A field that is absent is compared with nothing, and the others are compared all the same."""

    class Source(TensorClass):
        b: Float32[Tensor, "n"] | None
        a: Float32[Tensor, "m"]
        c: Float32[Tensor, "l"]

    class Alike(TensorClass):
        b: Float32[Tensor, "k"]
        a: Float32[Tensor, "k"]
        c: Float32[Tensor, "k"]

    def run(b: Tensor | None, a: Tensor, c: Tensor) -> Tensor:
        return a

    pipeline = TensorClassSequential(
        step(run, (Alike.b, Alike.a, Alike.c), Out.y), input=Source, output=Out, probe=False
    )
    for sizes in ((None, 3, 3), (3, 3, 3), (None, 3, 4), (4, 3, 3)):
        batch = Source(*[None if n is None else torch.zeros(2, n) for n in sizes], batch_size=[2])
        if sizes[1:] == (3, 3) and sizes[0] != 4:
            assert pipeline(batch).y.shape == (2, 3)
        else:
            with pytest.raises(SchemaError, match="narrowed"):
                pipeline(batch)


def test_a_module_without_fields_has_none_of_them():
    """The note of a wrong call says that nothing is read."""

    def shift(x: Tensor) -> Tensor:
        return x

    with pytest.raises(BuildError, match=r"is given 0 in fields(?s:.*)in_fields: none"):
        TensorClassSequential(step(shift, [], Out.y), input=Wide, output=Out)


def test_sizes_of_modules_meet_on_the_first_call():
    """A name is one size in all that the modules return; an absent optional output is no tensor to be compared."""

    class Parts(TensorClass):
        left: Float32[Tensor, "w"]
        right: Float32[Tensor, "w"]
        spare: Float32[Tensor, "w"] | None = None

    class Plain(TensorClass):
        x: Float32[Tensor, "4"]

    def cut(size: int, spare: Tensor | None = None) -> Any:
        return TensorClassSequential(
            step(lambda x: (x[..., :2], x[..., :size], spare), Plain.x, (Parts.left, Parts.right, Parts.spare)),
            input=Plain,
            output=Parts,
            probe=False,
        )

    batch = Plain(torch.zeros(5, 4))
    assert cut(2)(batch).spare is None
    with pytest.raises(SchemaError, match=r"Parts.right(?s:.*)`w` is 2 \(bound by `left`\), here 3"):
        cut(3)(batch)
    for spare, words in ((torch.zeros(5, 2).long(), r"to\(torch.float32\)"), ("text", "return a tensor")):
        with pytest.raises(SchemaError, match=words):
            cut(2, spare)(batch)  # type: ignore[arg-type]


def test_names_at_run_time():
    """Variables that came from one name are told apart; what has no name gets one."""
    state = FlowState()
    state.add_input(Wide)
    names: dict[str, str] = {}
    for path in state.places.values():
        runtime_dims(state.unifier, path, names)
    assert [*names.values()] == ["n", "m", "rest0"]
    place = state.places["a",]
    place.terms = (*place.terms, *state.unifier.scope().terms(parse_dims("n _ 2*n ...")))
    for _ in range(2):
        assert str(runtime_dims(state.unifier, place, names)) == "n m n' any 2*n' *rest1"


def test_texts_of_shapes():
    """A shape is spelled as a declaration; only a dim that is a nameless variable itself is `_`."""
    unifier = Unifier()
    scope = unifier.scope()
    for text in ("n 2*n n+1 _ ...", "*s c", "a*b a//2"):
        assert unifier.text(scope.terms(parse_dims(text))) == text
    have, want = scope.terms(parse_dims("k k+1")), unifier.scope().terms(parse_dims("_ _"))
    unifier.unify(have, want)
    assert unifier.text(have).split()[1] != "_"


def test_sizes_that_wait():
    """Equations of several names are kept, and settled by what is learned later; sizes are not negative."""
    unifier = Unifier()
    scope = unifier.scope()
    unifier.unify(scope.terms(parse_dims("a*b")), unifier.scope().terms(parse_dims("6")))
    assert len(unifier.waiting) == 1
    unifier.unify(scope.terms(parse_dims("a")), unifier.scope().terms(parse_dims("2")))
    assert (unifier.waiting, unifier.text(scope.terms(parse_dims("b")))) == ([], "3")
    unifier.unify(scope.terms(parse_dims("n-5")), unifier.scope().terms(parse_dims("m")))
    unifier.unify(scope.terms(parse_dims("n")), unifier.scope().terms(parse_dims("5")))  # none is left
    other = Unifier()
    have, want = other.scope().terms(parse_dims("n-5 n")), other.scope().terms(parse_dims("m 4"))
    with pytest.raises(Clash, match="would be -1"):
        other.unify(have, want)


def test_open_shapes_meet_at_both_ends():
    """What stands before and behind an open part is compared; the part is what is left, or nothing."""
    unifier = Unifier()
    have = unifier.scope().terms(parse_dims("2 ... 4 5"))
    unifier.unify(have, unifier.scope().terms(parse_dims("a b c")))
    assert unifier.text(have) == "2 4 5"
    for left, right in (("2 ... 4", "... 3 5"), ("2 ...", "3 ... 1"), ("... 1 2 3", "1 2")):
        with pytest.raises(Clash):
            unifier.unify(unifier.scope().terms(parse_dims(left)), unifier.scope().terms(parse_dims(right)))


def test_what_a_missing_field_may_be():
    """A near name that fits goes before one that does not; nothing like it is no suggestion."""

    class Known(TensorClass):
        images: Float32[Tensor, "8"]
        imagery: Int64[Tensor, "4"]
        other: Float32[Tensor, "8"]

    class Wanted(TensorClass):
        image: Int64[Tensor, "4"]
        unlike: Float32[Tensor, "8"]

    state = FlowState()
    state.add_input(Known)
    near = suggest(state, Slot(Wanted.image), state.unifier.scope().terms(parse_dims("4")))
    assert near is not None
    assert near.name == "imagery"
    assert suggest(state, Slot(Wanted.unlike), state.unifier.scope().terms(parse_dims("8"))) is None


def test_writes_below_a_class_that_was_written():
    """A field of a nested batch that a module wrote whole is written a second time, at any depth."""

    class Leaf(TensorClass):
        x: Float32[Tensor, "4"]

    class Middle(TensorClass):
        leaf: Leaf

    class Source(TensorClass):
        x: Float32[Tensor, "4"]

    class Result(TensorClass):
        middle: Middle

    whole = step(lambda x: Middle(leaf=Leaf(x=x)), Source.x, Result.middle, name="whole")
    below = step(lambda x: x, Source.x, Result.middle.leaf.x, name="below")
    with pytest.raises(BuildError, match=r"E106(?s:.*)`below` writes `middle.leaf.x`, which module 0 `whole` already"):
        TensorClassSequential(whole, below, input=Source, output=Result, probe=False)

    class Made(TensorClass):
        x: Float32[Tensor, "4"]
        later: Float32[Tensor, "4"] = produced()

    class Holds(TensorClass):
        made: Made

    whole = step(lambda x: Made(x=x), Source.x, Holds.made, name="whole")
    below = step(lambda x: x, Source.x, Holds.made.later, name="below")
    with pytest.raises(BuildError, match=r"E106(?s:.*)`below` writes `made.later`, which module 0 `whole` already"):
        TensorClassSequential(whole, below, input=Source, output=Holds, probe=False)
    with pytest.raises(BuildError, match=r"nothing writes `Result.middle`, which the output"):
        TensorClassSequential(step(lambda x: x, Source.x, Out.y), input=Source, output=Result, probe=False)


def test_overwritten_fields_are_reported_once():
    """A field that is written twice is wrong, and is not also unused; one that is updated unread is."""

    class Source(TensorClass):
        x: Float32[Tensor, "4"]

    class Result(TensorClass):
        y: Float32[Tensor, "4"]
        z: Float32[Tensor, "4"] = produced()

    make = [step(lambda x: x, Source.x, Result.y, name=name) for name in ("one", "two")]
    spare = step(lambda x: x, Source.x, Result.y, name="spare")
    with pytest.raises(BuildError) as caught:
        TensorClassSequential(*make, spare, input=Source, output=Result, probe=False)
    assert sorted({d.code for d in caught.value.diagnostics}) == ["E106", "E107"]


def test_hints_about_dtypes_on_the_first_call():
    """The module that writes another dtype converts; where a reader narrowed the field, that is said."""

    class Source(TensorClass):
        x: Float32[Tensor, "4"]

    class Loose(TensorClass):
        h: Float[Tensor, "4"]

    class Strict(TensorClass):
        h: Float32[Tensor, "4"]
        y: Float32[Tensor, "4"]

    double = step(lambda x: x.double(), Source.x, Loose.h)
    read = step(lambda h: h.float(), Strict.h, Strict.y)
    with pytest.raises(SchemaError, match="a module after it reads the field as Float32"):
        TensorClassSequential(double, read, input=Source, output=Strict, probe=False)(Source(torch.zeros(2, 4)))
    wrong = step(lambda x: x.double(), Source.x, Strict.y)

    class Only(TensorClass):
        y: Float32[Tensor, "4"]

    with pytest.raises(SchemaError, match=r"convert with `.to\(torch.float32\)` in the module"):
        TensorClassSequential(wrong, input=Source, output=Only, probe=False)(Source(torch.zeros(2, 4)))


def test_a_class_is_no_other_kind_of_value():
    """A nested batch is read as its class, and not as an untyped container or a number."""

    class Inner(TensorClass):
        x: Float32[Tensor, "4"]

    class Source(TensorClass):
        inner: Inner
        count: int

    for kind, words in ((TensorDict, "it is Inner, here it is declared TensorDict"), (int, "it is Inner")):
        asks = type("Asks", (TensorClass,), {"__annotations__": {"inner": kind, "count": Inner}})
        for field, text in ((asks.inner, words), (asks.count, "it is int, here it is declared Inner")):
            with pytest.raises(BuildError, match=rf"E102(?s:.*){text}"):
                TensorClassSequential(step(lambda x: x, field, Out.y), input=Source, output=Out, probe=False)
