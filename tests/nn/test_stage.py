"""A typed module alone: what it reads, what it returns, the two-step form."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import Tensor, nn

from tensorclass import TensorClass, produced
from tensorclass.errors import BuildError, SchemaError
from tensorclass.nn import TensorClassModule, module
from tensorclass.typing import Float32, Int64
from tests.nn._pipelines import Digits, Hidden, Prediction, State, argmax, digits, flatten, step, told


class Flat(TensorClass):
    flat: Float32[Tensor, "64"]


class Inner(TensorClass):
    x: Float32[Tensor, "4"]


class Outer(TensorClass):
    inner: Inner
    total: Float32[Tensor, ""] = produced()


class Wrapped(TensorClass):
    inner: Inner


def test_returns_the_class_of_its_out_fields():
    """A new instance of the owner, with the batch size of the input."""
    result = step(flatten, Digits.image, Flat.flat)(digits().reshape(2, 3))
    assert type(result) is Flat
    assert result.batch_size == (2, 3)


def test_one_state_class_passes_the_rest_through():
    """The batch's own class, subclasses too: filled in, nothing changed."""

    class Special(State):
        note: str = "kept"

    batch = Special(image=torch.rand(3, 1, 8, 8), label=torch.zeros(3, dtype=torch.int64))
    encoder = nn.Sequential(nn.Flatten(-3), nn.Linear(64, 16))
    result = step(encoder, State.image, State.hidden)(batch)
    assert type(result) is Special
    assert result.label is batch.label
    assert result.hidden.shape == (3, 16)
    with pytest.raises(AttributeError):
        batch.hidden


def test_nested_fields():
    """Nested fields are read and written by path."""
    batch = Outer(Inner(torch.ones(2, 4)))
    assert step(lambda x: x.sum(-1), Outer.inner.x, Outer.total)(batch).total.tolist() == [4.0, 4.0]
    assert step(lambda x: x + 1, Outer.inner.x, Outer.inner.x)(batch).inner.x.sum() == 16
    assert step(lambda x: x, Outer.inner.x, Wrapped.inner.x)(batch).inner.x.sum() == 8


def test_any_class_with_the_path_is_read():
    """The path decides, not the class on which the reference was written."""

    class Other(TensorClass):
        image: Float32[Tensor, "1 8 8"]

    assert step(flatten, Digits.image, Flat.flat)(Other(torch.rand(2, 1, 8, 8))).flat.shape == (2, 64)


@pytest.mark.parametrize(
    ("build", "batch", "error", "words"),
    [
        (lambda: step(flatten, Digits.image, Flat.flat), lambda: torch.rand(2, 1, 8, 8), TypeError, "got Tensor"),
        (
            lambda: step(flatten, Digits.image, Flat.flat),
            lambda: Flat(torch.rand(2, 64)),
            TypeError,
            'reads Digits.image: Float32["1 8 8"], which Flat does not have',
        ),
        (
            lambda: step(argmax, Hidden.h, Prediction.digit),
            lambda: Hidden(torch.rand(2, 16), torch.rand(2, 32), torch.rand(2, 64), torch.rand(2, 1)),
            TypeError,
            "can't build a Prediction: it does not write logits",
        ),
        (
            lambda: step(lambda x: (x, x), Digits.image, (Flat.flat, Prediction.digit)),
            digits,
            TypeError,
            "writes fields of Flat and Prediction",
        ),
        (lambda: step(lambda x: x, Digits.image, Flat.flat), digits, SchemaError, "flat"),
        (
            lambda: step(nn.Linear(3, 3), Digits.image, Flat.flat, name="encoder"),
            digits,
            RuntimeError,
            "module `encoder` failed on image: float32 [6, 1, 8, 8]",
        ),
    ],
)
def test_wrong_call(build, batch, error, words):
    """A module alone says what is wrong as a pipeline does."""
    with pytest.raises(error) as info:
        build()(batch())
    assert words in told(info.value)


def test_is_a_module():
    """Parameters are seen, copies and pickles work, the repr shows the fields."""
    alone = step(nn.Linear(64, 16), Hidden.flat, Hidden.h)
    assert [name for name, _ in alone.named_parameters()] == ["module.weight", "module.bias"]
    assert "Hidden.flat -> Hidden.h" in repr(alone)
    for twin in (copy.deepcopy(alone), pickle.loads(pickle.dumps(alone))):
        assert twin.in_fields == alone.in_fields
        assert torch.equal(twin.module.weight, alone.module.weight)


def test_two_step_form():
    """Fields first, callable second; as a decorator the function becomes a typed module with its name."""

    @module(in_fields=(Prediction.logits, Prediction.digit), out_fields=(None, Flat.flat))
    def spread(logits: Tensor, digit: Tensor) -> tuple[Tensor, Tensor]:
        return digit, logits.sum(-1, keepdim=True).expand(*digit.shape, 64)

    assert isinstance(spread, TensorClassModule)
    assert spread._stage_at(3)[0].name == "spread_3"
    assert spread.out_fields == (None, Flat.flat)
    result = spread(Prediction(torch.ones(2, 3), torch.zeros(2, dtype=torch.int64)))
    assert torch.equal(result.flat, torch.full((2, 64), 3.0))
    named = module(in_fields=Digits.image, out_fields=Digits.label, name="labels", update=True)(argmax)
    assert (named.name, named.update) == ("labels", True)


def test_two_step_form_refuses_wrong_fields_at_once():
    """The first step already knows what is wrong."""
    with pytest.raises(BuildError, match="the string 'image'"):
        module(in_fields="image", out_fields=Flat.flat)
    with pytest.raises(BuildError, match="would write nothing"):
        module(in_fields=Digits.image, out_fields=())


def test_optional_in_field():
    """An optional field that is absent is given as None."""

    class Out(TensorClass):
        label: Int64[Tensor, ""]

    def pick(label: Tensor, weight: Tensor | None) -> Tensor:
        assert weight is None
        return label

    assert step(pick, (Digits.label, Digits.weight), Out.label)(digits()).label.shape == (6,)
