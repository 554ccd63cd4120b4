"""Which fields are one value: related classes share it, unrelated ones do not; nested instances have own sizes."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tensorclass import TensorClass
from tensorclass.errors import BuildError, SchemaError
from tensorclass.nn import TensorClassModule, TensorClassSequential, stage
from tensorclass.typing import Float32
from tests.nn.test_random_pipelines import ignoring_warnings


class Part(TensorClass):
    v: Float32[Tensor, "t"]
    w: Float32[Tensor, "t"]


class Start(TensorClass):
    x: Float32[Tensor, "start"]
    past: Part
    future: Part


class More(Start):
    y: Float32[Tensor, "more"]


class One(TensorClass):
    x: Float32[Tensor, "one"]
    y: Float32[Tensor, "one2"]


class Two(TensorClass):
    x: Float32[Tensor, "two"]
    y: Float32[Tensor, "two2"]
    past: Part


class TwoMore(Two):
    z: Float32[Tensor, "three"]


INPUT = {"x": Start.x, "past.v": Start.past.v, "past.w": Start.past.w, "future.v": Start.future.v}
WRITES = [One.x, One.y, Two.x, Two.y, TwoMore.z, More.y]
NARROW = {Two.x: TwoMore.x, Two.y: TwoMore.y, Start.x: More.x, Start.past.v: More.past.v}
"""The same values, read as fields of a subclass."""


def summed(size: int, weight: int):
    """A function of any tensors, with a result of this length."""

    def run(*values: Tensor) -> Tensor:
        total = sum((value.sum(-1, keepdim=True) for value in values), torch.zeros(1))
        return (total * weight).expand(*values[0].shape[:-1], size) + torch.arange(size)

    return run


@st.composite
def plans(draw):
    """Right programs: each module reads known values, under their class or a related one, and writes a new value."""
    known, plan = list(INPUT.values()), []
    for written in draw(st.lists(st.sampled_from(WRITES), min_size=1, unique=True)):
        reads = draw(st.lists(st.sampled_from(known), min_size=1, max_size=3))
        aliases = [NARROW[ref] if ref in NARROW and draw(st.booleans()) else ref for ref in reads]
        plan.append((reads, aliases, written, draw(st.integers(1, 5)), draw(st.integers(1, 3))))
        known.append(written)
    return plan


def by_hand(plan, batch) -> dict:
    """The modules called one after the other; every value has a name of its own."""
    state = {ref: batch.get(tuple(path.split("."))) for path, ref in INPUT.items()}
    for reads, _, written, size, weight in plan:
        state[written] = summed(size, weight)(*(state[ref] for ref in reads))
    return state


@settings(max_examples=15)
@given(plans(), st.booleans())
def test_right_programs_build_and_run_as_by_hand(plan, part):
    """For related, unrelated and nested classes the check invents no equality, and each field is the value meant."""
    sizes = {"start": 3, "past": 4, "future": 7}
    batch = Start(
        x=torch.randn(2, sizes["start"]),
        past=Part(torch.randn(2, 4), torch.randn(2, 4)),
        future=Part(torch.randn(2, 7), torch.randn(2, 7)),
    )
    expected, last = by_hand(plan, batch), plan[-1][2]
    modules = [TensorClassModule(summed(size, weight), aliases, out) for _, aliases, out, size, weight in plan]
    modules.append(
        TensorClassModule(lambda a, b: a + b.sum(-1, keepdim=True), (last, Start.future.v), last, update=True)
    )
    result = last if part else One.x if One.x in expected else last
    pipeline = ignoring_warnings(lambda: TensorClassSequential(*modules, input=Start, output=only(result)))
    final = expected[last] + batch.future.v.sum(-1, keepdim=True)
    for _ in range(2):
        found = getattr(pipeline(batch), result._path[-1])
        assert torch.equal(found, final if result is last else expected[result])
    nested = [
        cut
        for cut in range(1, len(modules))
        if not any(len(ref._path) > 1 for m in modules[cut:] for ref in m.in_fields)
    ]
    for cut in nested:
        assert torch.equal(getattr(pipeline[cut:](pipeline[:cut](batch)), result._path[-1]), found)


def only(ref):
    """A class with one field of another class: a subclass of nothing, so that the name must find the value."""
    return (
        TensorClassSequential(
            TensorClassModule(lambda v: v, ref, ref, update=True), input=ref._owner, output=ref._owner, probe=False
        )
        .select_out_fields(ref)
        .output_class
    )


class Wine(TensorClass):
    x: Float32[Tensor, "4"]


class Recon(TensorClass):
    x: Float32[Tensor, "4"]


class Other(TensorClass):
    x: Float32[Tensor, "4"]


class Hidden(TensorClass):
    h: Float32[Tensor, "4"]


class Reserve(Wine):
    year: Float32[Tensor, ""]


ENCODE = TensorClassModule(lambda x: x + 1, Wine.x, Hidden.h, name="encode")
DECODE = TensorClassModule(lambda h: h * 2, Hidden.h, Recon.x, name="decode")


def autoencoder(*more: TensorClassModule, output: type = Recon):
    """A pipeline that reads and writes fields of one name in unrelated classes."""
    return TensorClassSequential(ENCODE, DECODE, *more, input=Wine, output=output)


def test_an_output_takes_the_value_of_its_own_class():
    """With input `Wine.x` and written `Recon.x`, the output `Recon` reads what was written."""
    assert autoencoder()(Wine(torch.ones(2, 4))).x.eq(4).all()


def test_both_values_can_be_read():
    """After an unrelated class wrote the name, each class names its own value."""
    error = TensorClassModule(lambda a, b: a - b, (Recon.x, Wine.x), Hidden.h, update=True)
    assert autoencoder(error, output=Hidden)(Wine(torch.ones(2, 4))).h.eq(3).all()


def test_one_value_is_found_by_its_name():
    """While only one value has the name, any class finds it."""
    foreign = TensorClassModule(lambda x: x + 1, Other.x, Hidden.h)
    assert TensorClassSequential(foreign, input=Wine, output=Hidden)(Wine(torch.zeros(2, 4))).h.eq(1).all()


def test_update_overwrites_what_the_name_finds():
    """With `update=True` an unrelated class writes over the only value of the name."""
    update = TensorClassModule(lambda x: x + 1, Wine.x, Other.x, update=True)
    assert TensorClassSequential(update, input=Wine)(Wine(torch.zeros(2, 4))).x.eq(1).all()


def test_a_related_class_writes_over_the_value():
    """A subclass names the same value, so writing it again needs `update=True`."""
    again = TensorClassModule(lambda x: x, Wine.x, Reserve.x)
    with pytest.raises(BuildError, match="E105"):
        TensorClassSequential(again, input=Wine)


def test_siblings_are_not_related():
    """Two subclasses of one class have values of their own; their base class can't say which."""

    class Base(TensorClass):
        loc: Float32[Tensor, "4"]

    class Prior(Base):
        pass

    class Posterior(Base):
        pass

    first = TensorClassModule(lambda x: x, Wine.x, Prior.loc, name="prior")
    second = TensorClassModule(lambda x: x + 1, Wine.x, Posterior.loc, name="posterior")
    both = TensorClassModule(lambda a, b: b - a, (Prior.loc, Posterior.loc), Hidden.h)
    pipeline = TensorClassSequential(first, second, both, input=Wine, output=Hidden)
    assert pipeline(Wine(torch.zeros(2, 4))).h.eq(1).all()
    either = TensorClassModule(lambda a: a, Base.loc, Hidden.h)
    with pytest.raises(BuildError, match=r"E118.*reads Base.loc, which may be any of Prior.loc, Posterior.loc"):
        TensorClassSequential(first, second, either, input=Wine, output=Hidden)


@pytest.mark.parametrize("named", [Wine.x, Recon.x])
def test_the_hint_of_e118_mends_the_program(named):
    """A field of a third class is refused with the candidates; naming one of them builds."""

    def reading(field):
        return autoencoder(TensorClassModule(lambda a: a, field, Hidden.h, update=True), output=Hidden)

    with pytest.raises(BuildError, match="E118") as caught:
        reading(Other.x)
    (found,) = caught.value.diagnostics
    assert found.hint == "name the one that is meant: Wine.x or Recon.x"
    assert str(named).split(":")[0] in found.hint
    built = ignoring_warnings(reading, named)
    assert built(Wine(torch.ones(2, 4))).h.eq(1 if named == Wine.x else 4).all()


def test_an_output_of_a_third_class_is_unclear():
    """The output is never guessed; a module that writes the field itself mends the program."""
    with pytest.raises(BuildError, match=r"E118.*the output Other.x may be any of Wine.x, Recon.x") as caught:
        autoencoder(output=Other)
    assert "write `Other.x` itself" in caught.value.diagnostics[0].hint
    own = TensorClassModule(lambda h: h * 2, Hidden.h, Other.x)
    assert TensorClassSequential(ENCODE, own, input=Wine, output=Other)(Wine(torch.ones(2, 4))).x.eq(4).all()


def test_the_order_of_sorted_modules_follows_values():
    """With `sort=True` a module waits for the value that it names, not for the one with its name."""
    error = TensorClassModule(lambda a, b: a - b, (Recon.x, Wine.x), Other.x, name="error")
    pipeline = TensorClassSequential(error, DECODE, ENCODE, input=Wine, output=Other, sort=True)
    assert pipeline(Wine(torch.ones(2, 4))).x.eq(3).all()


def test_drawings_qualify_names_only_where_they_collide():
    """The second value of a name is shown with its class, everything else without."""
    assert [value.name for step in autoencoder().explain().steps for value in step.writes] == ["x", "h", "Recon.x"]
    assert 'm1 -->|"Recon.x"| output' in autoencoder().graph()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))])
def test_copies_parts_and_other_inputs_keep_the_values(copied):
    """Copies, slices, parts, nested pipelines and `on` read the same values."""
    error = TensorClassModule(subtract, (Recon.x, Wine.x), Hidden.h, update=True)
    plain = [TensorClassModule(increment, Wine.x, Hidden.h), TensorClassModule(increment, Hidden.h, Recon.x)]
    pipeline = copied(TensorClassSequential(*plain, error, input=Wine, output=Hidden))
    batch, other = Wine(torch.ones(2, 4)), Other(torch.ones(2, 4))
    assert pipeline(batch).h.eq(2).all()
    assert pipeline(other).h.eq(2).all()
    assert pipeline.on(Other)(other).h.eq(2).all()
    assert pipeline[2:](pipeline[:2](batch)).h.eq(2).all()
    assert pipeline.select_subsequence(out_fields=Recon.x)(batch).x.eq(3).all()
    inner = copied(TensorClassSequential(*plain, input=Wine, output=Recon))
    outer = TensorClassSequential(inner, error, input=Wine, output=Hidden)
    assert outer(batch).h.eq(2).all()


def test_a_nested_pipeline_names_what_it_returns_by_its_output():
    """Outside, the result of a nested pipeline is a field of its output class, beside a field of the input."""

    class Named(TensorClass):
        x: Float32[Tensor, "4"]

    made = TensorClassModule(lambda h: h * 2, Hidden.h, Recon.x)
    inner = TensorClassSequential(made, input=Hidden, output=Named)
    error = TensorClassModule(lambda a, b: a - b, (Named.x, Wine.x), Hidden.h, update=True)
    assert TensorClassSequential(ENCODE, inner, error, input=Wine, output=Hidden)(Wine(torch.ones(2, 4))).h.eq(3).all()


@pytest.mark.parametrize("probe", [True, False, "run"])
def test_nested_instances_have_sizes_of_their_own(probe):
    """`past.t` and `future.t` differ, in one module and in the whole pipeline, at build and at run time."""
    both = TensorClassModule(lambda a, b: torch.cat((a, b), -1), (Start.past.v, Start.future.v), One.x)
    pipeline = TensorClassSequential(both, input=Start, output=only(One.x), probe=probe)
    batch = Start(torch.zeros(2, 3), Part.example(2, sizes={"t": 4}), Part.example(2, sizes={"t": 7}))
    assert pipeline(batch).x.shape == pipeline(batch).x.shape == (2, 11)


def test_sizes_within_one_nested_instance_are_equal():
    """Two fields of one nested instance share their sizes, also with what the module writes."""

    class Out(TensorClass):
        y: Float32[Tensor, "t"]

    longer = TensorClassModule(lambda a, b: torch.cat((a, b), -1), (Start.past.v, Start.past.w), Out.y)
    with pytest.raises(BuildError, match="E114"):
        TensorClassSequential(longer, input=Start, output=Out)


def increment(x: Tensor) -> Tensor:
    """A function that can be pickled."""
    return x + 1


def subtract(a: Tensor, b: Tensor) -> Tensor:
    """As `increment`, of two tensors."""
    return a - b


class Series(TensorClass):
    v: Float32[Tensor, "t 3"]


class Windows(TensorClass):
    past: Series
    future: Series


class Total(TensorClass):
    y: Float32[Tensor, "t 3"]


def test_one_size_of_two_scopes_is_told():
    """If a module accepts two nested instances of one size only, a note names both, and so does the error of a call."""
    both = stage(torch.add, Windows.past.v, Windows.future.v, out=Total.y)
    model = TensorClassSequential(both=both)
    words = "`t` of `past.v` and `future.v` is one size: the only case module 0 `both` accepts"
    assert [found.message for found in model.diagnostics if found.code == "N301"] == [words]
    windows = [Windows(Series(torch.ones(2, 5, 3)), Series(torch.ones(2, size, 3))) for size in (5, 7)]
    assert model(windows[0]).y.shape == (2, 5, 3)
    with pytest.raises(SchemaError) as caught:
        model(windows[1])
    assert words in str(caught.value)
    apart = stage(lambda past, future: past + future.mean(-2, keepdim=True), Windows.past.v, Windows.future.v)
    assert TensorClassSequential[Windows, Tensor](apart=apart).diagnostics == ()
