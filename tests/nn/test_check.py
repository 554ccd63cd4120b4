"""Step 1 of the build check: every code fires where it should, says the right words, and stays silent elsewhere."""

from __future__ import annotations

import inspect
import warnings

import pytest
import torch
from torch import Tensor, nn

from tensorclass import TensorClass
from tensorclass.errors import BuildError
from tensorclass.nn import PipelineWarning, TensorClassModule, TensorClassSequential, module
from tensorclass.typing import Float, Float32, Float64, Int64
from tests.nn._pipelines import Digits, Hidden, Prediction, State, argmax, classifier, flatten, stages, step

encode = nn.Linear(64, 16)
head = nn.Linear(16, 10)


class Other(TensorClass):
    h: Float64[Tensor, "16"]
    image: Float32[Tensor, "8 8 1"]
    label: Float32[Tensor, ""]
    source: int = 3


class Narrow(TensorClass):
    flat: Float32[Tensor, "32"]


class Misspelt(TensorClass):
    hiden: Float32[Tensor, "16"]
    imgae: Float32[Tensor, "1 8 8"]


class Masked(TensorClass):
    image: Float32[Tensor, "c h w"]
    mask: Float32[Tensor, "h w"]


class Feature(TensorClass):
    small: Float32[Tensor, "c h//2 w//2"]


class Inputs(TensorClass):
    pixels: Float32[Tensor, "64"]
    scale: Float32[Tensor, ""] | None = None


class Nested(TensorClass):
    inputs: Inputs
    label: Int64[Tensor, ""]


class Copied(TensorClass):
    label: Int64[Tensor, ""]
    digit: Int64[Tensor, ""]


class Heavy(TensorClass):
    weight: Float32[Tensor, ""]
    digit: Int64[Tensor, ""]


def _two(x: Tensor, y: Tensor) -> Tensor:
    return x + y


def _weighted(logits: Tensor, weight: Tensor | None) -> Tensor:
    return logits if weight is None else logits * weight[..., None]


def _by_default(logits, weight=None):
    return logits


def _unguarded(logits, weight):
    return logits * weight


def _keyword(x, *, scale):
    return x * scale


first = step(flatten, Digits.image, Hidden.flat)
encoder = step(encode, Hidden.flat, Hidden.h, name="encoder")
to_logits = step(head, Hidden.h, Prediction.logits, name="head")
decide = step(argmax, Prediction.logits, Prediction.digit)

WRONG = {
    "misordered": (
        [first, to_logits, encoder, decide],
        {"E101": ["module 1 `head` reads `h`", "available here: image, label, weight, source, flat",
                  "hint: module 2 `encoder` writes `h`; move it before module 1 `head`"]},
    ),
    "misspelt": (
        [step(flatten, Misspelt.imgae, Hidden.flat), encoder, to_logits, decide],
        {"E101": ["reads `imgae`", "did you mean `Digits.image` (the input has it)?"]},
    ),
    "misspelt intermediate": (
        [first, encoder, step(head, Misspelt.hiden, Prediction.logits), decide],
        {"E101": ["reads `hiden`", "did you mean `Hidden.h` (module 1 `encoder` writes it)?"],
         "W201": ["module 1 `encoder` writes `h`, which nothing reads"]},
    ),
    "missing module": (
        [first, to_logits, decide],
        {"E101": ["add a module that writes `Hidden.h`, or declare `h` in Digits", "in_fields=Hidden.h: Float32["],
         "W201": ["module 0"]},
    ),
    "reads itself": (
        [first, encoder, step(_two, (Hidden.h, Hidden.wide), (Hidden.wide)), to_logits, decide],
        {"E101": ["the module writes `wide` itself"]},
    ),
    "dtype": (
        [first, encoder, step(head, Other.h, Prediction.logits), decide],
        {"E102": ["reads `h` as Float64[\"16\"]: its dtype is Float32, here it is declared Float64",
                  "module 1 `encoder` writes Hidden.h: Float32[\"16\"]", ".to(torch.float64)"]},
    ),
    "dtype of the input": (
        [*stages()[:3], step(_two, (Prediction.logits, Other.label), Prediction.digit)],
        {"E102": ["its dtype is Int64, here it is declared Float32", "the input declares Digits.label", "the dataset"]},
    ),
    "type": (
        [*stages()[:3], step(lambda z, s: z, (Prediction.logits, Other.source), Prediction.digit)],
        {"E102": ["it is str, here it is declared int"]},
    ),
    "width": (
        [first, step(nn.Linear(32, 16), Narrow.flat, Hidden.h), to_logits, decide],
        {"E103": ["event dim 0 is 64, here it is declared 32", "declare both fields with one shape"]},
    ),
    "permuted": (
        [step(flatten, Other.image, Hidden.flat), encoder, to_logits, decide],
        {"E103": ["event dim 0 is 1, here it is declared 8", "the dims look permuted"]},
    ),
    "optional": (
        [first, encoder, step(_unguarded, (Hidden.h, Digits.weight), Prediction.logits), decide],
        {"E104": ["reads the optional `weight`, but its parameter 1 does not accept None", "give the parameter"]},
    ),
    "optional builtin": (
        [first, encoder, step(torch.mul, (Hidden.h, Digits.weight), Prediction.logits), decide],
        {"E104": ["parameter 1"]},
    ),
    "overwrites the input": (
        [*stages(), step(argmax, Prediction.logits, Digits.label)],
        {"E105": ["overwrites `label` of the input Digits", "out_fields=Digits.label", "`update=True`"]},
    ),
    "double write": (
        [*stages(), step(argmax, Prediction.logits, Prediction.digit, name="again")],
        {"E106": ["module 4 `again` writes `digit`, which module 3 `argmax_3` already writes"]},
    ),
    "output unwritten": (
        stages()[:3],
        {"E107": ["nothing writes `Prediction.digit`", "declared: Prediction.digit: Int64[", "out_fields=Pred"]},
    ),
    "too few fields": (
        [step(_two, Digits.image, Hidden.flat), encoder, to_logits, decide],
        {"E110": ["module 0 `two_0` takes 2 arguments, but is given 1 in field", "signature: (x", "in_fields: "]},
    ),
    "too many fields": (
        [step(encode, (Digits.image, Digits.label), Hidden.h), to_logits, decide],
        {"E110": ["takes 1 argument, but is given 2 in fields"]},
    ),
    "keyword": (
        [step(_keyword, Digits.image, Hidden.h), to_logits, decide],
        {"E110": ["needs the keyword argument `scale`"]},
    ),
    "everything": (
        [step(head, Hidden.h, Prediction.logits), step(_two, Digits.image, Digits.label)],
        {"E101": ["module 0 `linear_0`"], "E110": ["two_1"], "E105": ["label"], "E107": ["digit"]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_wrong_pipeline(case):
    """Exactly the expected codes are reported, in one error, with the words that a user needs."""
    modules, expected = WRONG[case]
    with pytest.raises(BuildError) as info:
        TensorClassSequential(*modules, input=Digits, output=Prediction, probe=False)
    assert {d.code for d in info.value.diagnostics} == set(expected)
    for code, words in expected.items():
        text = "\n".join(str(d) for d in info.value.diagnostics if d.code == code)
        assert [word for word in words if word not in text] == []
    assert all(str(d) in str(info.value) for d in info.value.diagnostics)


def test_right_pipeline_is_silent():
    """A right pipeline builds without a finding; warnings would be errors here."""
    assert classifier().diagnostics == ()


def test_error_is_printed_like_a_compiler():
    """The whole text of one finding."""
    with pytest.raises(BuildError) as info:
        TensorClassSequential(first, to_logits, encoder, decide, input=Digits, output=Prediction)
    assert str(info.value) == (
        "the pipeline Digits -> Prediction is wrong: 1 error\n"
        "\n"
        "error[E101]: module 1 `head` reads `h`, which nothing before it provides\n"
        f'    --> {to_logits.location}  in_fields=Hidden.h: Float32["16"]\n'
        "    available here: image, label, weight, source, flat\n"
        "    hint: module 2 `encoder` writes `h`; move it before module 1 `head`"
    )


def test_location_is_the_line_of_the_declaration():
    """The line of the user's call, also in the two-step form and of a subclass."""

    class Own(TensorClassModule):
        pass

    here = inspect.currentframe()
    assert here is not None
    one = Own(head, in_fields=Hidden.h, out_fields=Prediction.logits)
    two_step = module(in_fields=Hidden.h, out_fields=Prediction.logits)
    other = two_step(head)
    assert one.location == (__file__, here.f_lineno - 3)
    assert other.location == (__file__, here.f_lineno - 2)
    assert str(one.location).endswith(f"test_check.py:{one.location.line}")


@pytest.mark.parametrize("guard", [_weighted, _by_default, lambda z, w=None: z, lambda *values: values[0]])
def test_optional_read_with_a_guard(guard):
    """A default of None and an annotation that admits None are guards; `*values` without either is none."""
    modules = [first, encoder, step(guard, (Hidden.h, Digits.weight), Prediction.logits), decide]
    if guard in (_weighted, _by_default) or guard.__defaults__:
        TensorClassSequential(*modules, input=Digits, output=Prediction, probe=False)
    else:
        with pytest.raises(BuildError, match="E104"):
            TensorClassSequential(*modules, input=Digits, output=Prediction, probe=False)


def test_optional_into_a_required_output():
    """A field that may be None does not become one that must not be."""
    with pytest.raises(BuildError, match=r"the output requires `Heavy.weight`.*may be None"):
        TensorClassSequential(*stages()[:3], step(argmax, Prediction.logits, Heavy.digit), input=Digits, output=Heavy)


def test_arity_of_builtins_is_not_known():
    """A builtin without a signature is let pass."""
    pipeline = TensorClassSequential(
        step(torch.flatten, Digits.image, Hidden.flat),
        encoder,
        to_logits,
        decide,
        input=Digits,
        output=Prediction,
        probe=False,
    )
    assert pipeline.diagnostics == ()


def test_slots_of_different_classes_are_one_place():
    """Path and declaration make a place; the class serves messages."""

    class Same(TensorClass):
        flat: Float32[Tensor, "a"]
        image: Float32[Tensor, "1 8 8"]

    TensorClassSequential(
        step(flatten, Same.image, Hidden.flat),
        step(encode, Same.flat, Hidden.h),
        to_logits,
        decide,
        input=Digits,
        output=Prediction,
    )


def test_input_fields_pass_through():
    """An output field that the input has needs no writer; a clash of declarations is found there too."""
    modules = [*stages()[:3], step(argmax, Prediction.logits, Copied.digit)]
    pipeline = TensorClassSequential(*modules, input=Digits, output=Copied)
    assert pipeline.diagnostics == ()

    class Clashing(TensorClass):
        label: Float32[Tensor, ""]
        digit: Int64[Tensor, ""]

    with pytest.raises(BuildError, match=r"E102.*the output declares `Clashing.label`"):
        TensorClassSequential(*modules, input=Digits, output=Clashing)


# ---- dims ----------------------------------------------------------------------------------------------------


def test_dims_flow_through_modules():
    """What a module says about its own dims holds for what it reads: h//2 of 48 is 24, not 23."""

    class Image(TensorClass):
        image: Float32[Tensor, "3 48 80"]

    class Small(TensorClass):
        small: Float32[Tensor, "3 24 40"]

    class Wrong(TensorClass):
        small: Float32[Tensor, "3 23 40"]

    pool = step(nn.MaxPool2d(2), Masked.image, Feature.small)
    TensorClassSequential(pool, input=Image, output=Small)
    with pytest.raises(BuildError, match=r"event dim 1 is 24, here it is declared 23"):
        TensorClassSequential(pool, input=Image, output=Wrong)


def test_dims_of_one_class_are_shared():
    """The mask of an input has the size of its image."""

    class Known(TensorClass):
        image: Float32[Tensor, "3 8 9"]

    class Bad(TensorClass):
        mask: Float32[Tensor, "8 8"]

    class Out(TensorClass):
        a: Float32[Tensor, "k"]
        b: Float32[Tensor, "k"]

    class Parts(TensorClass):
        a: Float32[Tensor, "12"]
        b: Float32[Tensor, "13"]

    good = step(lambda x: x.mean((-1, -2, -3)), Known.image, Prediction.digit)
    with pytest.raises(BuildError, match=r"event dim 1 is 9, here it is declared 8"):
        TensorClassSequential(good, step(lambda x: x, Bad.mask, Prediction.logits), input=Masked, output=Prediction)
    with pytest.raises(BuildError, match=r"the output declares `Out.b` as .*here \"12\".*event dim 0 is 13"):
        TensorClassSequential(step(lambda x: (x, x), Masked.image, (Parts.a, Parts.b)), input=Masked, output=Out)


def test_each_module_has_names_of_its_own():
    """The same name in two modules is two dims."""

    class Wide(TensorClass):
        a: Float32[Tensor, "3"]
        b: Float32[Tensor, "4"]

    class Sum(TensorClass):
        x: Float32[Tensor, "n"]
        y: Float32[Tensor, "m"]

    class A(TensorClass):
        a: Float32[Tensor, "n"]
        b: Float32[Tensor, "n"]

    keep = step(lambda x: x, A.a, Sum.x), step(lambda x: x, A.b, Sum.y)
    TensorClassSequential(*keep, input=Wide, output=Sum)
    with pytest.raises(BuildError, match="event dim 0 is 4, here it is declared 3"):
        TensorClassSequential(step(lambda x, y: (x, y), (A.a, A.b), (Sum.x, Sum.y)), input=Wide, output=Sum)


def test_narrowed_input_is_noted():
    """Input dims give way to what a module needs, with a note."""

    class Out(TensorClass):
        square: Float32[Tensor, "k k"]

    class Any(TensorClass):
        image: Float[Tensor, "..."]

    class Square(TensorClass):
        image: Float32[Tensor, "3 n n"]

    for source in (Masked, Any):
        pipeline = TensorClassSequential(
            step(lambda x: x[..., 0, :, :], Square.image, Out.square), input=source, output=Out
        )
        narrowed = [d for d in pipeline.diagnostics if d.code == "N301"]
        assert 'input field `image` is narrowed to Float32["3' in str(narrowed[0])


# ---- one state class, nested classes, updates -----------------------------------------------------------------


def test_one_state_class():
    """Fields that are not produced may be read at once; produced ones need a writer before."""
    encode_, head_ = nn.Sequential(nn.Flatten(-3), nn.Linear(64, 16)), nn.Linear(16, 10)
    good = step(encode_, State.image, State.hidden), step(head_, State.hidden, State.logits)
    assert TensorClassSequential(*good, input=State).output_class is State
    with pytest.raises(BuildError) as info:
        TensorClassSequential(*good[::-1], input=State)
    assert [d.code for d in info.value.diagnostics] == ["E101"]
    with pytest.raises(BuildError, match=r"`State.hidden` is declared `produced\(\)`") as info:
        TensorClassSequential(good[1], input=State)
    assert [d.code for d in info.value.diagnostics] == ["E101", "E107"]


def test_unwritten_produced_field_of_the_output():
    """An output with a field that nothing produces would fail where it is read."""
    encode_ = nn.Sequential(nn.Flatten(-3), nn.Linear(64, 16))
    with pytest.raises(BuildError, match=r"E107.*nothing writes `State.logits`"):
        TensorClassSequential(step(encode_, State.image, State.hidden), input=State)


def test_nested_fields_are_read_by_path():
    """`Nested.inputs.pixels` is a place of its own; an optional field inside is optional."""

    class Out(TensorClass):
        h: Float32[Tensor, "16"]

    TensorClassSequential(step(encode, Nested.inputs.pixels, Out.h), input=Nested, output=Out)
    with pytest.raises(BuildError, match=r"E104.*`inputs.scale`"):
        TensorClassSequential(step(nn.Identity(), Nested.inputs.scale, Out.h), input=Nested, output=Out)


def test_nested_class_as_a_whole():
    """A module may read a nested batch; another class there is an error."""

    class Out(TensorClass):
        h: Float32[Tensor, "16"]

    class Elsewhere(TensorClass):
        inputs: Digits

    def pixels(batch: Inputs) -> Tensor:
        return batch.pixels[..., :16]

    TensorClassSequential(step(pixels, Nested.inputs, Out.h), input=Nested, output=Out)
    with pytest.raises(BuildError, match=r"E102.*it is Inputs, here it is declared Digits"):
        TensorClassSequential(step(pixels, Elsewhere.inputs, Out.h), input=Nested, output=Out)


def test_recursive_class():
    """A class that contains itself is followed once, not forever."""

    class Tree(TensorClass):
        value: Float32[Tensor, "16"]
        child: Tree | None = None

    class Out(TensorClass):
        logits: Float32[Tensor, "10"]

    pipeline = TensorClassSequential(step(head, Tree.value, Out.logits), input=Tree, output=Out)
    assert pipeline.diagnostics == ()


def test_update_allows_overwriting():
    """`update=True` belongs to the module that overwrites, for the input and for earlier modules."""
    again = step(lambda h: h * 2, Hidden.h, Hidden.h, name="scale", update=True)
    label = step(argmax, Prediction.logits, Digits.label, update=True)

    class Out(TensorClass):
        label: Int64[Tensor, ""]
        logits: Float32[Tensor, "classes"]

    TensorClassSequential(first, encoder, again, to_logits, label, input=Digits, output=Out)


# ---- warnings ------------------------------------------------------------------------------------------------


def test_unused_write_warns():
    """W201 goes through `warnings`, points at the user's line, and the pipeline works."""
    spare = step(nn.Linear(64, 32), Hidden.flat, Hidden.wide, name="spare")
    with pytest.warns(PipelineWarning, match=r"W201.*module 2 `spare` writes `wide`, which nothing reads") as caught:
        pipeline = TensorClassSequential(first, encoder, spare, to_logits, decide, input=Digits, output=Prediction)
    assert [d.code for d in pipeline.diagnostics] == ["W201"]
    assert (caught[0].filename, caught[0].lineno) == spare.location


def test_dropped_output_is_no_unused_write():
    """None in out_fields says that the output is not wanted."""
    split = step(lambda x: (x, x), Hidden.flat, (None, Hidden.flat), update=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TensorClassSequential(first, split, encoder, to_logits, decide, input=Digits, output=Prediction)


def test_shared_module_warns():
    """W203 is for modules with parameters or buffers: one nn.ReLU in two places is no news."""
    shared = nn.Linear(16, 16)

    class Deep(TensorClass):
        a: Float32[Tensor, "16"]
        b: Float32[Tensor, "16"]

    def build(inner):
        return TensorClassSequential(
            first,
            encoder,
            step(inner, Hidden.h, Deep.a),
            step(inner, Deep.a, Deep.b),
            step(head, Deep.b, Prediction.logits),
            decide,
            input=Digits,
            output=Prediction,
        )

    with pytest.warns(PipelineWarning, match=r"W203.*module 3 `linear_3` is the same Linear as module 2 `linear_2`"):
        build(shared)
    assert build(nn.ReLU()).diagnostics == ()


def test_dtype_families_narrow():
    """A family that holds the dtype is let pass and narrowed; one that does not is an error."""

    class Any(TensorClass):
        x: Float[Tensor, "4"]
        n: Int64[Tensor, ""]

    class Exact(TensorClass):
        x: Float32[Tensor, "4"]

    class Whole(TensorClass):
        n: Float[Tensor, ""]

    class Out(TensorClass):
        y: Float32[Tensor, "4"]

    pipeline = TensorClassSequential(step(nn.Identity(), Exact.x, Out.y), input=Any, output=Out)
    assert [d.code for d in pipeline.diagnostics] == ["N301"]
    with pytest.raises(BuildError, match=r"E102.*its dtype is Int64, here it is declared Float"):
        TensorClassSequential(step(nn.Identity(), Whole.n, Out.y), input=Any, output=Out)


def test_value_that_is_overwritten_unread_warns():
    """`update=True` allows the second write, and the first value was still for nothing."""
    again = step(lambda flat: flat[..., :16], Hidden.flat, Hidden.h, name="again", update=True)
    with pytest.warns(PipelineWarning, match=r"W201.*module 1 `encoder` writes `h`, which nothing reads"):
        TensorClassSequential(first, encoder, again, to_logits, decide, input=Digits, output=Prediction)
