"""Batches of other classes: what fits is taken, once checked; what does not is refused with what to do."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import Tensor, nn

from tensorclass import TensorClass, produced
from tensorclass.errors import BuildError, SchemaError
from tensorclass.nn import TensorClassModule, TensorClassSequential
from tensorclass.typing import Float, Float32, Float64, Int64
from tests.nn._pipelines import Digits, Prediction, classifier, digits, step


class Image(TensorClass):
    image: Float32[Tensor, "1 8 8"]


class AnyImage(TensorClass):
    image: Float[Tensor, "c h w"]
    more: str = ""


class Wide(TensorClass):
    image: Float32[Tensor, "1 9 9"]


class Double(TensorClass):
    image: Float64[Tensor, "1 8 8"]


class Maybe(TensorClass):
    image: Float32[Tensor, "1 8 8"] | None = None


class Label(TensorClass):
    label: Int64[Tensor, ""]


def test_labels_at_training_none_at_inference():
    """One pipeline, called with either; `on` is the same, for the other class, and shares the modules."""
    built, batch = classifier(), digits()
    expected = built(batch)
    for run in (built, built.on(Image), copy.deepcopy(built), pickle.loads(pickle.dumps(built)).on(Image)):
        for _ in range(2):  # the first call of a class compares, later ones do not
            made = run(Image(batch.image))
            assert type(made) is Prediction
            assert torch.equal(made.logits, expected.logits)
    assert built.on(Image).input_class is Image
    assert built.on(Image).on(Digits)(batch).digit.tolist() == expected.digit.tolist()


def test_a_class_is_checked_once(monkeypatch):
    """The second batch of a class costs a look-up."""
    built = classifier()
    built(Image(torch.rand(2, 1, 8, 8)))
    monkeypatch.setattr("tensorclass.nn.typed._sequential.fit_pipeline", None)
    assert built(Image(torch.rand(3, 1, 8, 8))).batch_size == (3,)


def test_modules_are_replaced_for_every_class():
    """What is replaced after the first call of another class is called there too."""
    built, batch = classifier(), Image(torch.rand(2, 1, 8, 8))
    built(batch)
    built.head = nn.Linear(16, 10)
    assert torch.equal(built(batch).logits, built(Digits(batch.image, torch.zeros(2, dtype=torch.int64))).logits)


def test_wider_fields_are_narrowed():
    """What the class leaves open, each call enforces."""
    built = classifier()
    assert built(AnyImage(torch.rand(2, 1, 8, 8))).batch_size == (2,)
    with pytest.raises(SchemaError, match=r'Float32\["1 8 8"\], narrowed from'):
        built(AnyImage(torch.rand(2, 1, 9, 9)))
    with pytest.raises(SchemaError, match=r'Float32\["1 8 8"\], narrowed from'):
        built(AnyImage(torch.rand(2, 1, 8, 8).double()))


@pytest.mark.parametrize(
    ("batch", "code", "words"),
    [
        (Wide(torch.rand(2, 1, 9, 9)), "E103", r"takes `image` as Digits.image.*event dim 1 is 9"),
        (Double(torch.rand(2, 1, 8, 8).double()), "E102", r"its dtype is Float64.*`\.to\(torch.float32\)`"),
        (Maybe(torch.rand(2, 1, 8, 8)), "E104", r"reads the optional `image`"),
        (
            Label(torch.zeros(2, dtype=torch.int64)),
            "E101",
            r"reads `image`.*Label has: label\nhint: add the field to Label",
        ),
    ],
)
def test_others_are_refused(batch, code, words):
    """By the call and by `on`, with the field and what to do."""
    built = classifier()
    with pytest.raises(TypeError, match=f"(?s)A {type(batch).__name__} does not fit.*{words}"):
        built(batch)
    with pytest.raises(BuildError, match=code):
        built.on(type(batch))


def test_a_field_that_the_output_takes_over_is_needed():
    """It is named, and the part that does without it is the hint."""

    class Kept(TensorClass):
        logits: Float32[Tensor, "classes"]
        label: Int64[Tensor, ""]

    built = TensorClassSequential(*list(classifier())[:3], input=Digits, output=Kept)
    with pytest.raises(TypeError, match=r"(?s)nothing writes `Kept.label`.*select_subsequence\(out_fields=...\)"):
        built(Image(torch.rand(2, 1, 8, 8)))
    part = built.select_subsequence(out_fields=Kept.logits)
    assert list(part.input_class.__tensorclass_schema__.fields) == ["image"]
    assert part(Image(torch.rand(2, 1, 8, 8))).batch_size == (2,)


def test_unwritten_produced_fields_have_a_remedy():
    """E107 writes the class to return, with the fields that are there; it is typed like any other."""

    class State(TensorClass):
        x: Float32[Tensor, "4"]
        h: Float32[Tensor, "8"] = produced()
        y: Float32[Tensor, "2"] = produced()

    class StatePart(TensorClass):
        x: Float32[Tensor, "4"]
        h: Float32[Tensor, "8"]

    first = TensorClassModule(nn.Linear(4, 8), State.x, State.h)
    with pytest.raises(BuildError) as info:
        TensorClassSequential(first, input=State)
    hint = info.value.diagnostics[0].hint
    assert (
        '`class StatePart(TensorClass): x: Float32[Tensor, "4"]; h: Float32[Tensor, "8"]` and `output=StatePart`'
        in hint
    )
    assert TensorClassSequential(first, input=State, output=StatePart)(State(torch.ones(3, 4))).h.shape == (3, 8)


def test_keywords_that_nobody_takes():
    """A name that only `**kwargs` takes, and that is near a parameter, is a warning."""

    def masked(x: Tensor, attention_mask: Tensor | None = None, **more: object) -> Tensor:
        return x

    module = step(masked, {"x": Image.image, "attn_mask": Image.image}, Image.image, update=True)
    with pytest.warns(UserWarning, match=r"W208.*no parameter `attn_mask`(.|\n)*did you mean `attention_mask`"):
        TensorClassSequential(module, input=Image)
