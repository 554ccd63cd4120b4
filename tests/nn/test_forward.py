"""The generated forward: what modules called by hand give, nothing kept, nothing changed, errors that say where."""

from __future__ import annotations

import gc
import traceback
import weakref

import pytest
import torch
from torch import Tensor, nn

from tensorclass import FrozenTensorClass, TensorClass, TensorDict, produced
from tensorclass.errors import MissingKeyError, SchemaError
from tensorclass.nn import TensorClassSequential
from tensorclass.nn.parts._results import describe
from tensorclass.typing import Float, Float32, Int64
from tests.nn._pipelines import (
    Digits,
    Hidden,
    Prediction,
    State,
    argmax,
    classifier,
    digits,
    flatten,
    stages,
    step,
    told,
)


def replaced(index, module, writes=None):
    """The right pipeline with another callable in one place."""
    modules = stages()
    old = modules[index]
    modules[index] = step(module, list(old.in_fields), writes or list(old.out_fields), name="odd")
    return TensorClassSequential(*modules, input=Digits, output=Prediction, probe=False)


def test_equals_the_modules_by_hand():
    """Same numbers, same gradients; the batch size and dim names are those of the input."""
    pipeline, batch = classifier(), digits(6).reshape(2, 3)
    batch.names = ["time", None]
    encoder, head = pipeline.encoder, pipeline.head
    for _ in range(2):  # the first call and the ones after it are different code
        prediction = pipeline(batch)
        logits = head(encoder(batch.image.flatten(-3)))
        assert torch.equal(prediction.logits, logits)
        assert torch.equal(prediction.digit, logits.argmax(-1))
        assert type(prediction) is Prediction
        assert (prediction.batch_size, prediction.names) == ((2, 3), ["time", None])
    prediction.logits.sum().backward()
    assert encoder.weight.grad is not None


def test_empty_batch():
    """A batch of no elements goes through."""
    assert classifier()(digits(0)).digit.shape == (0,)


def test_input_is_not_changed():
    """No field of the input is added, replaced or written."""
    batch = digits()
    before = {name: value for name, value in batch.items() if isinstance(value, Tensor)}
    copies = {name: value.clone() for name, value in before.items()}
    classifier()(batch)
    assert list(batch.keys()) == ["image", "label", "source"]
    assert all(batch.get(name) is value and torch.equal(value, copies[name]) for name, value in before.items())


def test_values_are_dropped_at_their_last_use():
    """When a later module runs, nothing holds what only an earlier module needed."""
    alive: list[weakref.ref[Tensor]] = []
    seen: list[bool] = []

    def remember(x: Tensor) -> Tensor:
        y = x * 2
        alive.append(weakref.ref(y))
        return y

    def look(x: Tensor) -> Tensor:
        gc.collect()
        seen.append(alive[-1]() is not None)
        return x

    modules = stages()
    modules[1:1] = [
        step(remember, Hidden.flat, Hidden.flat, update=True),
        step(look, Hidden.flat, Hidden.flat, update=True),
    ]
    modules.insert(4, step(look, Hidden.h, Hidden.h, update=True))
    pipeline = TensorClassSequential(*modules, input=Digits, output=Prediction)
    with torch.no_grad():
        pipeline(digits())
        pipeline(digits())
    assert seen == [True, False, True, False]  # its reader holds it, what comes later does not


def test_dropped_output_is_not_kept():
    """An output that None drops is gone before the next module runs."""
    kept: list[weakref.ref[Tensor]] = []
    found: list[object] = []

    def pair(x: Tensor) -> tuple[Tensor, Tensor]:
        extra = x + 1
        kept.append(weakref.ref(extra))
        return extra, x.flatten(-3)

    def look(x: Tensor) -> Tensor:
        found.append(kept[-1]() if kept else None)  # the check runs each module on its own
        return x[..., :16]

    modules = [step(pair, Digits.image, (None, Hidden.flat)), step(look, Hidden.flat, Hidden.h), *stages()[2:]]
    pipeline = TensorClassSequential(*modules, input=Digits, output=Prediction)
    with torch.no_grad():
        pipeline(digits())
        pipeline(digits())
    assert found == [None, None]


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        (
            lambda: Prediction(torch.zeros(2, 3), torch.zeros(2, dtype=torch.int64)),
            "A Prediction does not fit: module 0 `flatten_0` reads `image`",
        ),
        (lambda: TensorDict({"image": torch.zeros(2, 1, 8, 8)}, [2]), r"Digits.from_tensordict\(value\)"),
        (lambda: torch.zeros(2, 1, 8, 8), "got Tensor"),
        (lambda: {"image": torch.zeros(2, 1, 8, 8)}, "got dict"),
        (lambda: None, "got NoneType"),
    ],
)
def test_wrong_input(batch, words):
    """A batch of another class is refused by name, on the first call and after."""
    pipeline = classifier()
    for _ in range(2):
        with pytest.raises(TypeError, match=words):
            pipeline(batch())
        pipeline(digits())


def test_subclass_of_the_input():
    """An instance of a subclass is an instance of the input class."""

    class Special(Digits):
        extra: Float32[Tensor, ""] | None = None

    batch = Special(image=torch.rand(2, 1, 8, 8), label=torch.zeros(2, dtype=torch.int64))
    assert classifier()(batch).batch_size == (2,)


# ---- errors inside modules -----------------------------------------------------------------------------------


def test_error_inside_a_module_says_where():
    """Type and text of torch's error stay; the module, its line, its in fields and their shapes are added."""
    pipeline = replaced(2, nn.Linear(17, 10))
    for _ in range(2):
        with pytest.raises(RuntimeError) as info:
            pipeline(digits(5))
        text, where = told(info.value).splitlines()
        assert text.startswith("mat1 and mat2")
        assert where.startswith("module 2 `odd` (tests/nn/_pipelines.py:")
        assert where.endswith("failed on h: float32 [5, 16]")
        assert info.value.__cause__ is None
        pipeline.odd = nn.Linear(16, 10)
        pipeline(digits(5))
        pipeline.odd = nn.Linear(17, 10)


@pytest.mark.parametrize("kind", [ValueError, TypeError, IndexError, KeyError, AssertionError, NotImplementedError])
def test_error_keeps_its_type(kind):
    """Whoever catches the type of the original catches ours."""

    def fail(x: Tensor) -> Tensor:
        raise kind("the reason")

    with pytest.raises(kind) as info:
        replaced(1, fail)(digits())
    assert type(info.value) is kind
    assert "module 1 `odd`" in told(info.value)
    assert "flat: float32 [6, 64]" in told(info.value)
    assert "the reason" in told(info.value)


def test_own_errors_are_left_alone():
    """An error class of the user keeps its type and its fields."""

    class Own(RuntimeError):
        code = 7

    def fail(x: Tensor) -> Tensor:
        raise Own

    with pytest.raises(Own) as info:
        replaced(1, fail)(digits())
    assert info.value.code == 7
    assert any("module 1 `odd`" in note for note in getattr(info.value, "__notes__", ["module 1 `odd`"]))


def test_traceback_shows_the_generated_line():
    """The generated source is readable where it fails."""
    with pytest.raises(RuntimeError) as info:
        replaced(2, nn.Linear(17, 10))(digits())
    assert " = M['odd'](v" in "".join(traceback.format_exception(info.value))


# ---- what modules return -------------------------------------------------------------------------------------


def test_mapping_is_matched_by_name():
    """Mappings are matched by last name, never by order; extra keys are ignored."""

    def named(x: Tensor) -> dict[str, Tensor]:
        return {"spare": x, "digit": x.argmax(-1), "logits": x[..., :10]}

    modules = [*stages()[:2], step(named, Hidden.h, (Prediction.logits, Prediction.digit))]
    pipeline = TensorClassSequential(*modules, input=Digits, output=Prediction)
    assert pipeline(digits()).logits.shape == (6, 10)
    only = replaced(2, lambda h: {"digit": h, "logits": h[..., :10]})
    assert only(digits()).logits.shape == (6, 10)


WRONG_RESULTS = [
    (2, lambda h: {"logit": h}, MissingKeyError, "`odd` writes Prediction.logits and returned a mapping without"),
    (2, lambda h: (h, h), TypeError, "one out field (Prediction.logits) and returned 2 values (float32 [6, 16]"),
    (2, lambda h: None, SchemaError, "NoneType"),
    (2, lambda h: h.double(), SchemaError, "float64 [6, 16]"),
    (2, lambda h: h.sum(), SchemaError, "keep the batch dims [6] first"),
    (2, lambda h: h.mean(0), SchemaError, "keep the batch dims [6] first"),
    (1, lambda x: x[..., :15], SchemaError, "module 1 `odd`: 1 problem\nHidden.h"),
    (1, lambda x: x[..., :16].half(), SchemaError, "convert with `.to(torch.float32)` in the module"),
    (1, lambda x: x[..., :16].flatten(), SchemaError, "Float32[\"16\"]"),
    (3, lambda z: z.argmax(-1).float(), SchemaError, "Int64[\"\"]"),
    (3, lambda z: z.argmax(-1, keepdim=True), SchemaError, "0 event dims are declared, 1 given"),
]  # fmt: skip


@pytest.mark.parametrize(("index", "module", "error", "words"), WRONG_RESULTS)
def test_wrong_result_on_the_first_call(index, module, error, words):
    """What a module returns is compared with what it declares, and the module is named."""
    with pytest.raises(error) as info:
        replaced(index, module)(digits())
    assert words in str(info.value)


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (lambda x: (x, x, x), "declares 2 out fields (Hidden.h, Hidden.wide) and returned 3 values"),
        (lambda x: x, "declares 2 out fields (Hidden.h, Hidden.wide) and returned float32 [6, 64]"),
    ],
)
def test_wrong_number_of_results(module, words):
    """Several out fields need as many values."""

    class Out(TensorClass):
        h: Float32[Tensor, "16"]
        wide: Float32[Tensor, "32"]

    pipeline = TensorClassSequential(
        stages()[0], step(module, Hidden.flat, (Hidden.h, Hidden.wide)), input=Digits, output=Out, probe=False
    )
    with pytest.raises(TypeError) as info:
        pipeline(digits())
    assert words in str(info.value)


def test_output_is_checked_on_every_call():
    """A module that changes its mind later is caught by the constructor of the output."""
    turn = iter([10, 10])
    pipeline = replaced(3, lambda z: z.argmax(-1) if next(turn, 0) else z.argmax(-1).float())
    pipeline(digits())
    pipeline(digits())
    with pytest.raises(SchemaError, match=r"Prediction.*\n*digit"):
        pipeline(digits())


def test_sizes_agree_across_modules_on_the_first_call():
    """A dim that one module reads and writes under one name has one size."""

    class Image(TensorClass):
        image: Float32[Tensor, "3 h w"]

    class Small(TensorClass):
        small: Float32[Tensor, "3 h//2 w//2"]

    class Out(TensorClass):
        small: Float32[Tensor, "c a b"]

    batch = Image(torch.rand(2, 3, 8, 9))
    good = TensorClassSequential(step(nn.MaxPool2d(2), Image.image, Small.small), input=Image, output=Out)
    assert good(batch).small.shape == (2, 3, 4, 4)
    bad = TensorClassSequential(step(nn.MaxPool2d(3), Image.image, Small.small), input=Image, output=Out, probe=False)
    with pytest.raises(SchemaError, match=r"Small.small") as info:
        bad(batch)
    assert "h//2" in str(info.value)


# ---- narrowed inputs -----------------------------------------------------------------------------------------


class Any(TensorClass):
    image: Float[Tensor, "c h w"]
    mask: Float32[Tensor, "h w"] | None = None


class Square(TensorClass):
    image: Float32[Tensor, "3 n n"]
    flat: Float32[Tensor, "k"]


@pytest.mark.parametrize(
    ("shape", "dtype", "fits"),
    [
        ((2, 3, 8, 8), torch.float32, True),
        ((2, 3, 5, 5), torch.float32, True),
        ((2, 4, 8, 8), torch.float32, False),
        ((2, 3, 8, 7), torch.float32, False),
        ((2, 3, 8, 8), torch.float64, False),
    ],
)
def test_narrowed_input_is_enforced(shape, dtype, fits):
    """What the modules need is asked of every batch, and the error says what was narrowed."""

    class Out(TensorClass):
        flat: Float32[Tensor, "k"]

    pipeline = TensorClassSequential(step(flatten, Square.image, Square.flat), input=Any, output=Out)
    pipeline(Any(torch.rand(2, 3, 4, 4)))
    batch = Any(torch.rand(shape, dtype=dtype))
    if fits:
        assert pipeline(batch).flat.shape == (2, shape[1] * shape[2] * shape[3])
    else:
        with pytest.raises(SchemaError, match=r'Float32\["3 h h"\], narrowed from Float\["c h w"\]'):
            pipeline(batch)


def test_narrowed_rank_is_enforced():
    """An input of any shape whose reader needs three dims."""

    class Anything(TensorClass):
        image: Float32[Tensor, "..."]

    class Out(TensorClass):
        flat: Float32[Tensor, "k"]

    pipeline = TensorClassSequential(step(flatten, Square.image, Square.flat), input=Anything, output=Out)
    assert pipeline(Anything(torch.rand(2, 3, 4, 4), batch_size=[2])).flat.shape == (2, 48)
    for shape in [(2, 4, 4), (2, 1, 4, 4), (2, 3, 4, 5)]:
        with pytest.raises(SchemaError, match="narrowed from"):
            pipeline(Anything(torch.rand(shape), batch_size=[2]))


# ---- one state class, nested fields, optional fields -----------------------------------------------------------


class SpecialState(State):
    note: str = "kept"


class FrozenState(FrozenTensorClass):
    image: Float32[Tensor, "1 8 8"]
    hidden: Float32[Tensor, "64"] = produced()


def test_one_state_class():
    """A new instance of the batch's own class with the fields filled in and the rest passed through."""
    encoder, head = nn.Sequential(nn.Flatten(-3), nn.Linear(64, 16)), nn.Linear(16, 10)
    pipeline = TensorClassSequential(
        step(encoder, State.image, State.hidden), step(head, State.hidden, State.logits), input=State
    )
    batch = SpecialState(image=torch.rand(3, 1, 8, 8), label=torch.zeros(3, dtype=torch.int64), note="mine")
    for _ in range(2):
        result = pipeline(batch)
        assert type(result) is SpecialState
        assert result is not batch
        assert torch.equal(result.logits, head(encoder(batch.image)))
        assert result.label is batch.label
        assert result.note == "mine"
        with pytest.raises(AttributeError, match="produced"):
            batch.hidden
    bad = TensorClassSequential(
        step(encoder, State.image, State.hidden),
        step(nn.Linear(16, 9), State.hidden, State.logits),
        input=State,
        probe=False,
    )
    with pytest.raises(SchemaError, match="logits"):
        bad(batch)


def test_frozen_state_class():
    """The result is a new instance, so a frozen class works."""
    pipeline = TensorClassSequential(step(flatten, FrozenState.image, FrozenState.hidden), input=FrozenState)
    assert pipeline(FrozenState(torch.rand(3, 1, 8, 8))).hidden.shape == (3, 64)


def test_update_replaces_what_later_modules_read():
    """The input keeps its value, the output has the new one."""

    class Image(TensorClass):
        image: Float32[Tensor, "4"]
        total: Float32[Tensor, ""] = produced()

    pipeline = TensorClassSequential(
        step(lambda x: x + 1, Image.image, Image.image, update=True),
        step(lambda x: x.sum(-1), Image.image, Image.total),
        input=Image,
    )
    batch = Image(torch.zeros(2, 4))
    result = pipeline(batch)
    assert result.total.tolist() == [4.0, 4.0]
    assert result.image.sum() == 8
    assert batch.image.sum() == 0


class Inner(TensorClass):
    pixels: Float32[Tensor, "4"]
    scale: Float32[Tensor, ""] | None = None


class Outer(TensorClass):
    inner: Inner
    spare: Inner | None = None


class Result(TensorClass):
    inner: Inner
    total: Float32[Tensor, ""]


def _total(pixels: Tensor, scale: Tensor | None) -> Tensor:
    return pixels.sum(-1) if scale is None else pixels.sum(-1) * scale


def test_nested_fields():
    """Nested fields are read by path, None on the way is None, nested outputs are built."""
    modules = [
        step(lambda x: x * 2, Outer.inner.pixels, Result.inner.pixels, update=True),
        step(_total, (Result.inner.pixels, Outer.spare.scale), Result.total),
    ]
    pipeline = TensorClassSequential(*modules, input=Outer, output=Result)
    inner = Inner(torch.ones(2, 4), torch.ones(2))
    for spare, expected in ((None, 8.0), (Inner(torch.ones(2, 4), torch.full((2,), 3.0)), 24.0), (inner, 8.0)):
        result = pipeline(Outer(inner, spare))
        assert result.total.tolist() == [expected] * 2
        assert result.inner.pixels.tolist() == [[2.0] * 4] * 2
        assert torch.equal(result.inner.scale, inner.scale)


def test_nested_update_in_one_state_class():
    """A field of a nested batch is replaced in a twin; the nested input stays."""
    pipeline = TensorClassSequential(
        step(lambda x: x * 2, Outer.inner.pixels, Outer.inner.pixels, update=True), input=Outer
    )
    batch = Outer(Inner(torch.ones(2, 4), torch.ones(2)))
    result = pipeline(batch)
    assert result.inner.pixels.sum() == 16
    assert batch.inner.pixels.sum() == 8
    assert torch.equal(result.inner.scale, torch.ones(2))


def test_nested_class_as_a_value():
    """A module may read and write nested batches whole; later modules read their fields."""

    def double(inner: Inner) -> Inner:
        return inner.replace(pixels=inner.pixels * 2)

    pipeline = TensorClassSequential(
        step(double, Outer.inner, Result.inner, update=True),
        step(lambda x: x.sum(-1), Result.inner.pixels, Result.total),
        input=Outer,
        output=Result,
    )
    for _ in range(2):
        result = pipeline(Outer(Inner(torch.ones(2, 4))))
        assert result.total.tolist() == [8.0, 8.0]
        assert result.inner.pixels.sum() == 16


def test_produced_field_of_the_output():
    """An output field that is no constructor argument is filled in after construction."""

    class Late(TensorClass):
        logits: Float32[Tensor, "10"]
        digit: Int64[Tensor, ""] = produced()

    modules = [*stages()[:3], step(argmax, Prediction.logits, Late.digit)]
    result = TensorClassSequential(*modules, input=Digits, output=Late)(digits())
    assert result.digit.shape == (6,)
    assert type(result) is Late


def test_passed_through_fields():
    """Fields that the output shares with the input are taken over, non-tensor fields too."""

    class Copied(TensorClass):
        label: Int64[Tensor, ""]
        digit: Int64[Tensor, ""]
        weight: Float32[Tensor, ""] | None = None
        source: str = "other"

    modules = [*stages()[:3], step(argmax, Prediction.logits, Copied.digit)]
    pipeline = TensorClassSequential(*modules, input=Digits, output=Copied)
    batch = digits()
    batch.source = "paper"
    result = pipeline(batch)
    assert result.label is batch.label
    assert (result.source, result.weight) == ("paper", None)


def test_no_in_fields():
    """A module without in fields is called without arguments."""

    class Out(TensorClass):
        prior: Float32[Tensor, ""]

    module = step(lambda: torch.zeros(6), (), Out.prior)
    pipeline = TensorClassSequential(module, input=Digits, output=Out, probe=False)
    assert pipeline(digits()).prior.shape == (6,)


def test_values_in_messages():
    """Dtype and shape, the device where it is not the CPU, the batch size of a nested batch."""
    assert describe(torch.zeros(2, 3)) == "float32 [2, 3]"
    assert describe(torch.zeros(2, device="meta")) == "float32 [2] on meta"
    assert describe(digits(4)) == "Digits of batch size [4]"
    assert describe(None) == "NoneType"
