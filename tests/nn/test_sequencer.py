"""Parts of pipelines, selected outputs, partial inputs, skipping, nesting, order: what each gives and refuses."""

from __future__ import annotations

import copy
import pickle
import warnings

import pytest
import torch
from torch import Tensor, nn

from tensorclass import TensorClass, produced
from tensorclass.errors import BuildError
from tensorclass.nn import TensorClassModule, TensorClassModuleBase, TensorClassSequential, set_skip_existing
from tensorclass.typing import Float32, Int64
from tests.nn._pipelines import Digits, Hidden, Prediction, State, classifier, digits, flatten, stages, step, told


def codes(info) -> list[str]:
    """The error codes of a failed build."""
    return [d.code for d in info.value.diagnostics if d.severity == "error"]


def names(pipeline) -> list[str]:
    """The stages of a pipeline, by name."""
    return [stage.name for stage in pipeline._stages]


def state_pipeline(**options) -> TensorClassSequential[State, State]:
    """A pipeline over one state class."""
    return TensorClassSequential(
        step(nn.Sequential(nn.Flatten(-3), nn.Linear(64, 16)), State.image, State.hidden, name="encoder"),
        step(nn.Linear(16, 10), State.hidden, State.logits, name="head"),
        input=State,
        **options,
    )


def state(n: int = 3) -> State:
    """A batch with nothing produced yet."""
    return State(image=torch.rand(n, 1, 8, 8), label=torch.arange(n))


# ---- indexing and slicing ---------------------------------------------------------------------------------------


def test_index_and_iterate():
    """Items are typed modules around the same submodules; negative indices count from the end."""
    pipeline = classifier()
    assert len(pipeline) == 4
    assert [item.name for item in pipeline] == ["flatten_0", "encoder", "head", "argmax_3"]
    assert pipeline[-2].module is pipeline.head
    assert pipeline[1].out_fields == (Hidden.h,)
    for wrong in (4, -5):
        with pytest.raises(IndexError, match="4 modules"):
            pipeline[wrong]
    for wrong in ("head", True, 1.0):
        with pytest.raises(TypeError, match="indexed by the number"):
            pipeline[wrong]


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_slices_in_a_row(cut):
    """What a pipeline does is what its two parts do one after the other; modules are shared."""
    pipeline, batch = classifier(), digits()
    first, second = pipeline[:cut], pipeline[cut:]
    assert (len(first), len(second)) == (cut, 4 - cut)
    expected = pipeline(batch)
    middle = first(batch)
    assert type(middle) is second.input_class
    result = second(middle)
    assert type(result) is Prediction
    assert torch.equal(result.logits, expected.logits)
    assert torch.equal(result.digit, expected.digit)
    assert {id(m) for m in [*first.children(), *second.children()]} == {id(pipeline.encoder), id(pipeline.head)}


def test_slice_keeps_classes_where_it_can():
    """A slice that reads the input only takes the input class; one that makes the output returns it."""
    pipeline = classifier()
    assert pipeline[:2].input_class is Digits
    assert pipeline[:2](digits()).h.shape == (6, 16)
    assert pipeline[1:].output_class is Prediction
    assert (pipeline[:].input_class, pipeline[:].output_class) == (Digits, Prediction)
    assert pipeline[:2].output_class is pipeline[0:2].output_class
    for wrong in (slice(2, 2), slice(None, None, 2), slice(3, 1), slice(None, None, -1)):
        with pytest.raises(IndexError, match="no row of modules"):
            pipeline[wrong]


def test_slices_of_one_state_class():
    """Produced fields of the state class are inputs of the part that starts behind their module."""
    pipeline, batch = state_pipeline(), state()
    expected = pipeline(batch)
    middle = pipeline[:1](batch)
    result = pipeline[1:](middle)
    assert torch.equal(result.logits, expected.logits)
    assert torch.equal(result.label, batch.label)


# ---- select_subsequence -----------------------------------------------------------------------------------------


class Wide(TensorClass):
    a: Float32[Tensor, "4"]
    b: Float32[Tensor, "4"]


class Between(TensorClass):
    c: Float32[Tensor, "4"]
    d: Float32[Tensor, "4"]
    e: Float32[Tensor, "4"]


class Sum(TensorClass):
    total: Float32[Tensor, "4"]
    other: Float32[Tensor, "4"]


def graph() -> TensorClassSequential[Wide, Sum]:
    """Two branches that meet, and one that does not."""
    return TensorClassSequential(
        step(nn.Linear(4, 4), Wide.a, Between.c, name="left"),
        step(nn.Linear(4, 4), Wide.b, Between.d, name="right"),
        step(nn.Linear(4, 4), Wide.b, Between.e, name="side"),
        step(torch.add, (Between.c, Between.d), Sum.total, name="meet"),
        step(nn.Tanh(), Between.e, Sum.other, name="end"),
        input=Wide,
        output=Sum,
    )


def wide(n: int = 3) -> Wide:
    """A batch of the graph."""
    return Wide(torch.rand(n, 4), torch.rand(n, 4))


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"out_fields": Sum.total}, ["left", "right", "meet"]),
        ({"out_fields": Sum.other}, ["side", "end"]),
        ({"out_fields": (Sum.other, Sum.total)}, ["left", "right", "side", "meet", "end"]),
        ({"out_fields": Between.d}, ["right"]),
        ({"out_fields": [Between.c, Between.e]}, ["left", "side"]),
        ({"in_fields": Wide.a}, ["left"]),
        ({"in_fields": Wide.b}, ["right", "side", "end"]),
        ({"in_fields": (Between.c, Wide.b)}, ["right", "side", "meet", "end"]),
        ({"in_fields": (Between.c, Between.d)}, ["meet"]),
        ({"in_fields": (Between.c, Wide.b), "out_fields": Sum.total}, ["right", "meet"]),
        ({}, ["left", "right", "side", "meet", "end"]),
    ],
)
def test_subsequence(options, kept):
    """Forward from the in fields, backward from the out fields; the same modules give the same values."""
    pipeline = graph()
    part = pipeline.select_subsequence(**options)
    assert names(part) == kept
    full = pipeline(wide())
    batch = wide()
    expected = {"c": pipeline.left(batch.a), "d": pipeline.right(batch.b), "e": pipeline.side(batch.b)}
    expected |= {"total": expected["c"] + expected["d"], "other": expected["e"].tanh(), "a": batch.a, "b": batch.b}
    taken = {name: expected[name] for name in part.input_class.__tensorclass_schema__.fields}
    result = part(part.input_class(**taken))
    assert list(result.keys())
    for name, value in result.items():
        assert torch.equal(value, expected[name]), name
    assert {p.data_ptr() for p in part.parameters()} <= {p.data_ptr() for p in pipeline.parameters()}
    assert type(full) is Sum


def test_subsequence_classes():
    """Ending at an intermediate field gives a class of just that field; starting at one takes one of it."""
    pipeline = graph()
    part = pipeline.select_subsequence(out_fields=Between.d)
    assert list(part.input_class.__tensorclass_schema__.fields) == ["b"]
    batch = wide()  # with more fields than the part reads
    assert torch.equal(part(batch).d, pipeline.right(batch.b))
    assert list(part.output_class.__tensorclass_schema__.fields) == ["d"]
    assert part.output_class is not Between
    start = pipeline.select_subsequence(in_fields=(Between.c, Between.d), out_fields=Sum.total)
    assert list(start.input_class.__tensorclass_schema__.fields) == ["c", "d"]
    whole = pipeline.select_subsequence(out_fields=(Sum.total, Sum.other))
    assert whole.output_class is Sum


def test_subsequence_follows_overwrites():
    """A module that overwrites a field is part of what makes it; the first value alone is not enough."""

    class Out(TensorClass):
        h: Float32[Tensor, "16"]

    pipeline = TensorClassSequential(
        *stages()[:2], step(nn.Tanh(), Hidden.h, Hidden.h, update=True, name="tanh"), input=Digits, output=Out
    )
    assert names(pipeline.select_subsequence(out_fields=Hidden.h)) == ["flatten_0", "encoder", "tanh"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"out_fields": Hidden.wide}, "out_fields names Hidden.wide"),
        ({"in_fields": Prediction.digit}, "no module"),
        ({"in_fields": Hidden.open}, "in_fields names Hidden.open"),
        ({"out_fields": "digit"}, "got the string 'digit'"),
        ({"out_fields": ()}, "out_fields names no field"),
        ({"in_fields": Digits.label, "out_fields": Prediction.digit}, "no module"),
    ],
)
def test_wrong_subsequence(options, words):
    """Unknown fields and empty parts say so."""
    with pytest.raises(BuildError, match=words):
        classifier().select_subsequence(**options)


# ---- select_out_fields ------------------------------------------------------------------------------------------


def test_select_out_fields():
    """The output becomes a class of the fields, intermediate and input ones too; every module still runs."""
    pipeline, batch = classifier(), digits()
    expected = pipeline(batch)
    assert pipeline.select_out_fields(Hidden.h, Prediction.digit, Digits.label) is pipeline
    result = pipeline(batch)
    assert sorted(result.keys()) == ["digit", "h", "label"]
    assert torch.equal(result.h, pipeline.encoder(flatten(batch.image)))
    assert torch.equal(result.digit, expected.digit)
    assert result.label is batch.label
    again = pickle.loads(pickle.dumps(result))
    assert type(again) is type(result)
    assert torch.equal(again.h, result.h)
    assert type(pipeline.reset_out_fields()(batch)) is Prediction
    with pytest.raises(BuildError, match=r"select_out_fields names Hidden\.wide"):
        pipeline.select_out_fields(Hidden.wide)
    assert type(pipeline(batch)) is Prediction


def test_select_out_fields_of_a_module():
    """Outputs of one module are dropped and come back."""
    module = step(lambda x: (x, x + 1), Wide.a, (Between.c, Between.d))
    assert module.select_out_fields(Between.d).out_fields == (None, Between.d)
    assert module.reset_out_fields().out_fields == (Between.c, Between.d)
    with pytest.raises(BuildError, match=r"Between\.e"):
        module.select_out_fields(Between.e)


# ---- partial inputs ---------------------------------------------------------------------------------------------


class Modes(TensorClass):
    image: Float32[Tensor, "8"] | None = None
    sound: Float32[Tensor, "4"] | None = None


class Codes(TensorClass):
    seen: Float32[Tensor, "8"] | None = None
    heard: Float32[Tensor, "8"] | None = None
    both: Float32[Tensor, "8"] | None = None


def multimodal(**options) -> TensorClassSequential[Modes, Codes]:
    """Each modality may be absent."""
    return TensorClassSequential(
        step(nn.Linear(8, 8), Modes.image, Codes.seen, name="eye"),
        step(nn.Linear(4, 8), Modes.sound, Codes.heard, name="ear"),
        step(torch.add, (Codes.seen, Codes.heard), Codes.both, name="join"),
        input=Modes,
        output=Codes,
        **options,
    )


def test_partial_inputs():
    """Modules whose inputs are absent are skipped, and what depends on them."""
    pipeline = multimodal(partial=True)
    image, sound = torch.rand(3, 8), torch.rand(3, 4)
    for _ in range(2):
        both = pipeline(Modes(image=image, sound=sound))
        assert torch.equal(both.both, pipeline.eye(image) + pipeline.ear(sound))
        seen = pipeline(Modes(image=image))
        assert torch.equal(seen.seen, pipeline.eye(image))
        assert (seen.heard, seen.both) == (None, None)
        none = pipeline(Modes(batch_size=[3]))
        assert (none.seen, none.heard, none.both, none.batch_size) == (None, None, None, (3,))


def test_partial_is_asked_for():
    """Without it, an optional field is no input of a module that needs it; the hint names the way."""
    with pytest.raises(BuildError) as info:
        multimodal()
    assert codes(info) == ["E104", "E104"]
    assert "`partial=True` skips" in str(info.value).replace("let `partial=True` skip", "`partial=True` skips")


def test_partial_result_is_typed():
    """A field that may be skipped can't be a required field of the output."""

    class Strict(TensorClass):
        seen: Float32[Tensor, "8"]

    with pytest.raises(BuildError) as info:
        TensorClassSequential(step(nn.Linear(8, 8), Modes.image, Strict.seen), input=Modes, output=Strict, partial=True)
    assert codes(info) == ["E104"]


def test_partial_parameters_that_admit_none_are_called():
    """A module that says that it takes None runs without the field."""

    def either(image: Tensor | None, sound: Tensor | None) -> Tensor:
        return torch.zeros(3, 8) if image is None else image

    pipeline = TensorClassSequential(
        step(either, (Modes.image, Modes.sound), Codes.seen), input=Modes, output=Codes, partial=True, probe=False
    )
    assert pipeline(Modes(batch_size=[3])).seen.shape == (3, 8)


def test_partial_update_keeps_the_old_value():
    """A skipped module leaves the field that it would have overwritten."""

    class Scaled(TensorClass):
        x: Float32[Tensor, "4"]
        scale: Float32[Tensor, ""] | None = None
        y: Float32[Tensor, "4"] = produced()

    pipeline = TensorClassSequential(
        step(lambda x, s: x * s[..., None], (Scaled.x, Scaled.scale), Scaled.x, update=True),
        step(torch.neg, Scaled.x, Scaled.y),
        input=Scaled,
        partial=True,
    )
    x = torch.rand(2, 4)
    for _ in range(2):
        assert torch.equal(pipeline(Scaled(x)).y, -x)
        assert torch.equal(pipeline(Scaled(x, torch.full((2,), 3.0))).y, -3 * x)


def test_partial_state_leaves_fields_unwritten():
    """In one state class a skipped field stays unwritten, and reading it says so."""

    class Some(TensorClass):
        x: Float32[Tensor, "4"] | None = None
        y: Float32[Tensor, "4"] = produced()

    pipeline = TensorClassSequential(step(torch.neg, Some.x, Some.y), input=Some, partial=True)
    assert pipeline(Some(torch.ones(2, 4))).y.sum() == -8
    with pytest.raises(AttributeError, match="produced"):
        pipeline(Some(batch_size=[2])).y


# ---- skip existing ----------------------------------------------------------------------------------------------


def counting(module, calls: list[str], name: str):
    """A module that writes down its calls."""

    def run(x: Tensor) -> Tensor:
        calls.append(name)
        return module(x)

    return run


def counted(calls: list[str], **options) -> TensorClassSequential[State, State]:
    """A pipeline over one state class whose modules write down their calls."""
    return TensorClassSequential(
        step(counting(lambda x: x.flatten(-3)[..., :16], calls, "h"), State.image, State.hidden),
        step(counting(lambda h: h[..., :10], calls, "z"), State.hidden, State.logits),
        input=State,
        probe=False,
        **options,
    )


def test_skip_existing():
    """A field that the batch brings along is kept, and its module does not run."""
    calls: list[str] = []
    pipeline, batch = counted(calls, skip_existing=True), state()
    for _ in range(2):
        calls.clear()
        first = pipeline(batch)
        assert calls == ["h", "z"]
        again = pipeline(first)
        assert calls == ["h", "z"]
        assert again.logits is first.logits
    half = batch.clone()
    half.hidden = torch.ones(3, 16)
    result = pipeline(half)
    assert calls == ["h", "z", "z"]
    assert torch.equal(result.logits, torch.ones(3, 10))


def test_set_skip_existing():
    """The mode of a block does the same for every pipeline; a list of keys names what may be there."""
    calls: list[str] = []
    pipeline = counted(calls)
    full = pipeline(state())
    calls.clear()
    with set_skip_existing():
        pipeline(full)
    assert calls == []
    with set_skip_existing(["logits"]):
        pipeline(full)
    assert calls == ["h"]
    pipeline(full)
    assert calls == ["h", "h", "z"]


def test_skip_existing_fills_optional_fields():
    """An optional field of the input is computed where it is absent; without the option that is an overwrite."""

    class Cached(TensorClass):
        x: Float32[Tensor, "4"]
        code: Float32[Tensor, "4"] | None = None

    class Out(TensorClass):
        code: Float32[Tensor, "4"]

    modules = [step(torch.neg, Cached.x, Cached.code)]
    with pytest.raises(BuildError) as info:
        TensorClassSequential(*modules, input=Cached, output=Out)
    assert codes(info) == ["E105"]
    pipeline = TensorClassSequential(*modules, input=Cached, output=Out, skip_existing=True)
    x, code = torch.ones(2, 4), torch.full((2, 4), 5.0)
    for _ in range(2):
        assert pipeline(Cached(x)).code.sum() == -8
        assert pipeline(Cached(x, code)).code is code


def test_update_is_never_skipped():
    """A module that overwrites on purpose runs."""

    class Cached(TensorClass):
        x: Float32[Tensor, "4"]

    pipeline = TensorClassSequential(step(torch.neg, Cached.x, Cached.x, update=True), input=Cached, skip_existing=True)
    assert pipeline(Cached(torch.ones(2, 4))).x.sum() == -8


def test_skip_existing_with_several_outputs():
    """A module is skipped when all that it writes is there."""

    class Two(TensorClass):
        x: Float32[Tensor, "4"]
        y: Float32[Tensor, "4"] = produced()
        z: Float32[Tensor, "4"] = produced()

    pipeline = TensorClassSequential(
        step(lambda x: (x + 1, x + 2), Two.x, (Two.y, Two.z)), input=Two, skip_existing=True
    )
    batch = Two(torch.zeros(2, 4))
    batch.y = torch.full((2, 4), 9.0)
    assert pipeline(batch).y.sum() == 8
    batch.z = torch.full((2, 4), 9.0)
    assert pipeline(batch).z.sum() == 72


# ---- nesting ----------------------------------------------------------------------------------------------------


class Result(TensorClass):
    digit: Int64[Tensor, ""]
    sure: Float32[Tensor, ""]


def nested() -> TensorClassSequential[Digits, Result]:
    """The classifier as a module of another pipeline, whose own `Hidden.h` is another field."""
    inner = TensorClassSequential(*stages(), input=Digits, output=Prediction, name="inner")
    return TensorClassSequential(
        inner,
        step(lambda z: z.softmax(-1).amax(-1), Prediction.logits, Result.sure, name="sure"),
        input=Digits,
        output=Result,
    )


def test_nested():
    """Values, names and state_dict keys of a pipeline in a pipeline."""
    pipeline, batch = nested(), digits()
    inner = pipeline.inner
    expected = inner(batch)
    for _ in range(2):
        result = pipeline(batch)
        assert torch.equal(result.digit, expected.digit)
        assert torch.allclose(result.sure, expected.logits.softmax(-1).amax(-1))
    assert sorted(pipeline.state_dict()) == sorted(f"inner.{key}" for key in inner.state_dict())
    assert len(pipeline) == 2
    assert pipeline[0] is inner
    assert pipeline[1].name == "sure"
    numbered = nn.Sequential(nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.Linear(16, 10)), nn.Identity())
    pipeline.load_state_dict(numbered.state_dict())
    assert torch.equal(pipeline.inner.head.weight, numbered[0][2].weight)


def test_nested_fields_are_private():
    """What the inner pipeline does not return is no field of the outer one; both may use one name."""
    inner = TensorClassSequential(*stages(), input=Digits, output=Prediction, name="inner")

    class Out(TensorClass):
        h: Float32[Tensor, "16"]
        digit: Int64[Tensor, ""]

    own = [step(nn.Sequential(nn.Flatten(-3), nn.Linear(64, 16)), Digits.image, Hidden.h, name="own")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipeline = TensorClassSequential(*own, inner, input=Digits, output=Out)
    batch = digits()
    result = pipeline(batch)
    assert torch.equal(result.h, pipeline.own(batch.image))
    assert torch.equal(result.digit, inner(batch).digit)
    with pytest.raises(BuildError) as info:
        TensorClassSequential(inner, step(nn.Tanh(), Hidden.h, Hidden.wide), input=Digits, output=Prediction)
    assert "E101" in codes(info)


def test_checks_see_through():
    """A module of the inner pipeline that does not fit is named with its line."""

    class Small(TensorClass):
        image: Float32[Tensor, "1 4 4"]
        label: Int64[Tensor, ""]

    inner = TensorClassSequential(*stages(), input=Digits, output=Prediction, name="inner")
    with pytest.raises(BuildError) as info:
        TensorClassSequential(inner, input=Small, output=Prediction)
    assert codes(info) == ["E103"]
    assert "`inner.flatten_0`" in str(info.value)


def test_nested_twice():
    """A pipeline in a pipeline in a pipeline, and slices and subsequences of it."""
    outer = TensorClassSequential(nested(), input=Digits, output=Result)
    batch = digits()
    assert list(outer._modules) == ["pipeline_0"]
    assert torch.equal(outer(batch).sure, outer[0](batch).sure)
    part = outer.select_subsequence(out_fields=Result.digit)
    assert names(part)[0] == "pipeline_0.inner.flatten_0"
    assert len(part) == 4
    assert torch.equal(part(batch).digit, outer(batch).digit)
    assert set(part.state_dict()) == set(outer.state_dict())
    assert torch.equal(copy.deepcopy(part)(batch).digit, outer(batch).digit)


def test_hooks_of_a_nested_pipeline_are_refused():
    """Hooks on the inner pipeline would not run, so they raise; hooks on its modules run."""
    pipeline = nested()
    seen: list[str] = []
    pipeline.inner.head.register_forward_hook(lambda *_: seen.append("head"))
    pipeline(digits())
    assert seen == ["head"]
    handle = pipeline.inner.register_forward_hook(lambda *_: None)
    with pytest.raises(RuntimeError, match="nested pipeline `inner` has forward hooks"):
        pipeline(digits())
    handle.remove()
    pipeline(digits())


def test_error_inside_a_nested_pipeline_says_where():
    """The module is named by its path."""
    pipeline = nested()
    pipeline.inner.head = nn.Linear(3, 3)
    with pytest.raises(RuntimeError, match="mat1 and mat2") as caught:
        pipeline(digits())
    assert "\nmodule 2 `inner.head` " in told(caught.value)


# ---- order ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [[3, 2, 1, 0], [2, 0, 3, 1], [1, 3, 0, 2], [0, 1, 2, 3]])
def test_sort(order):
    """Modules listed in any order run in one that works."""
    modules = stages()
    pipeline = TensorClassSequential(*(modules[i] for i in order), input=Digits, output=Prediction, sort=True)
    assert names(pipeline) == ["flatten_0", "encoder", "head", "argmax_3"]
    assert pipeline(digits()).digit.shape == (6,)


def test_sort_of_a_graph_is_stable():
    """Branches keep their order where nothing asks for another."""
    modules = list(graph())
    pipeline = TensorClassSequential(*(modules[i] for i in (4, 3, 2, 1, 0)), input=Wide, output=Sum, sort=True)
    assert names(pipeline) == ["side", "end", "right", "left", "meet"]
    batch = wide()
    assert torch.equal(pipeline(batch).total, graph_total(pipeline, batch))
    without = [modules[i] for i in (4, 3, 2, 1, 0)]
    with pytest.raises(BuildError) as info:
        TensorClassSequential(*without, input=Wide, output=Sum)
    assert set(codes(info)) == {"E101"}


def graph_total(pipeline, batch) -> Tensor:
    """The graph by hand."""
    total: Tensor = pipeline.left(batch.a) + pipeline.right(batch.b)
    return total


def test_sort_with_overwrites():
    """Whoever overwrites comes after the module that makes the field; among readers the listed order holds."""

    class Out(TensorClass):
        logits: Float32[Tensor, "10"]
        wide: Float32[Tensor, "16"]

    make, head = stages()[1:3]
    modules = [
        head,
        step(nn.Tanh(), Hidden.h, Hidden.h, update=True, name="tanh"),
        step(nn.Identity(), Hidden.h, Out.wide, name="after"),
        make,
        stages()[0],
    ]
    pipeline = TensorClassSequential(*modules, input=Digits, output=Out, sort=True)
    assert names(pipeline) == ["flatten_0", "encoder", "head", "tanh", "after"]


def test_cycle():
    """A cycle is an E101 that names its modules and fields."""

    class Loop(TensorClass):
        x: Float32[Tensor, "4"] = produced()
        y: Float32[Tensor, "4"] = produced()
        z: Float32[Tensor, "4"] = produced()

    modules = [
        step(torch.neg, Wide.a, Loop.z, name="free"),
        step(torch.neg, Loop.y, Loop.x, name="one"),
        step(torch.add, (Loop.x, Loop.z), Loop.y, name="two"),
    ]
    with pytest.raises(BuildError) as info:
        TensorClassSequential(*modules, input=Wide, output=Sum, sort=True)
    assert codes(info) == ["E101"]
    text = str(info.value)
    assert "module 1 `one` -> module 2 `two` -> module 1 `one` is a cycle" in text
    assert "module 1 `one` reads `y`, which module 2 `two` writes" in text
    assert "_pipelines.py:" in text


def test_sort_of_nested_pipelines():
    """A nested pipeline is one module of the order."""
    inner = TensorClassSequential(*stages(), input=Digits, output=Prediction, name="inner")
    sure = step(lambda z: z.softmax(-1).amax(-1), Prediction.logits, Result.sure, name="sure")
    pipeline = TensorClassSequential(sure, inner, input=Digits, output=Result, sort=True)
    assert [name for name, _, _ in pipeline._members] == ["inner", "sure"]


# ---- keywords, devices, checkpoints, shared modules -------------------------------------------------------------


def attend(query: Tensor, /, *, key: Tensor, scale: float = 1.0) -> Tensor:
    """Two parameters that need names."""
    return query * key * scale


def test_in_fields_by_keyword():
    """A mapping passes every field to the parameter of that name."""

    def minus(left: Tensor, right: Tensor) -> Tensor:
        return left - right

    batch = wide()
    module = TensorClassModule(minus, in_fields={"right": Wide.a, "left": Wide.b}, out_fields=Sum.total)
    other = step(torch.neg, Wide.a, Sum.other)
    pipeline = TensorClassSequential(module, other, input=Wide, output=Sum)
    for _ in range(2):
        assert torch.equal(pipeline(batch).total, batch.b - batch.a)
    assert pipeline[0].in_fields == (Wide.a, Wide.b)
    assert torch.equal(pipeline[:1](batch).total, batch.b - batch.a)
    assert module.select_out_fields(Sum.total)._how.parameters == ("right", "left")


@pytest.mark.parametrize(
    ("function", "fields", "words"),
    [
        (attend, {"key": Wide.a, "scalee": Wide.b}, "has no parameter `scalee` (the nearest is `scale`)"),
        (attend, {"key": Wide.a}, "can't be called by these keywords"),
        (lambda x: x, {"y": Wide.a}, "has no parameter `y`"),
    ],
)
def test_wrong_keywords(function, fields, words):
    """The names of parameters are checked when the pipeline is built."""
    with pytest.raises(BuildError) as info:
        TensorClassSequential(step(function, fields, Between.c), input=Wide, output=Wide, probe=False)
    assert "E110" in codes(info)
    assert words in str(info.value)


def test_keyword_that_admits_none():
    """An optional field may go to a keyword whose default is None."""

    def total(*, x: Tensor, scale: Tensor | None = None) -> Tensor:
        return x if scale is None else x * scale[..., None]

    class Scaled(TensorClass):
        x: Float32[Tensor, "4"]
        scale: Float32[Tensor, ""] | None = None
        y: Float32[Tensor, "4"] = produced()

    pipeline = TensorClassSequential(
        step(total, {"scale": Scaled.scale, "x": Scaled.x}, Scaled.y), input=Scaled, probe=False
    )
    assert pipeline(Scaled(torch.ones(2, 4))).y.sum() == 8
    assert pipeline(Scaled(torch.ones(2, 4), torch.full((2,), 3.0))).y.sum() == 24


def test_device():
    """A module and its inputs are moved to its device, and back to that of the next; an equal device moves nothing."""
    seen: list[Tensor] = []

    def look(x: Tensor) -> Tensor:
        seen.append(x)
        return x

    there = nn.Linear(4, 4)
    pipeline = TensorClassSequential(
        step(look, Wide.a, Between.c, device="cpu"),
        step(there, Between.c, Sum.total, device="meta", name="there"),
        step(torch.neg, Wide.b, Sum.other),
        input=Wide,
        output=Sum,
        probe=False,
    )
    batch = wide()
    for _ in range(2):
        seen.clear()
        result = pipeline(batch)
        assert seen[0] is batch.a
        assert result.total.device.type == "meta"
        assert result.other.device.type == "cpu"
        assert there.weight.device.type == "meta"
    with pytest.raises(BuildError, match="device='gpu'"):
        step(look, Wide.a, Between.c, device="gpu")


def test_shared_module():
    """One module in two places has one set of parameters, and a warning that says so."""
    shared = nn.Linear(4, 4)
    with pytest.warns(UserWarning, match="W203"):
        pipeline = TensorClassSequential(
            step(shared, Wide.a, Sum.total, name="first"),
            step(shared, Wide.b, Sum.other, name="second"),
            input=Wide,
            output=Sum,
        )
    assert len(list(pipeline.parameters())) == 2
    assert pipeline[:1].first is pipeline[1:].second
    pipeline(wide()).total.sum().backward()
    assert shared.weight.grad is not None


# ---- class-to-class modules --------------------------------------------------------------------------------------


class Total(TensorClassModuleBase[Wide, Sum]):
    """A module from one class to another."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, batch: Wide) -> Sum:
        """Both sums."""
        return Sum(total=self.linear(batch.a), other=batch.b, batch_size=batch.batch_size)


def test_class_modules_are_members():
    """A class-to-class module is found by index, stands in slices, in any order and in nested pipelines."""

    class Out(TensorClass):
        total: Float32[Tensor, "4"]
        last: Float32[Tensor, "4"]

    total, last = Total(), step(torch.neg, Sum.other, Out.last, name="last")
    pipeline = TensorClassSequential(last, total, input=Wide, output=Out, sort=True)
    batch = wide()
    expected = pipeline(batch)
    assert torch.equal(expected.total, total.linear(batch.a))
    assert pipeline[0] is total
    assert torch.equal(pipeline[1:](pipeline[:1](batch)).last, expected.last)
    outer = TensorClassSequential(pipeline, input=Wide, output=Out)
    assert torch.equal(copy.deepcopy(outer)(batch).total, expected.total)
    assert "total_0" in str(outer.graph("svg"))
    assert outer.select_subsequence(out_fields=Sum.total).output_class is not Out


def test_subsequence_of_nothing():
    """The message says between which fields there is no module."""
    pipeline = graph()
    with pytest.raises(BuildError, match=r"no module of Wide -> Sum leads from the input to Wide\.a"):
        pipeline.select_subsequence(out_fields=Wide.a)
    with pytest.raises(BuildError, match=r"leads from Sum\.other to Sum\.total"):
        pipeline.select_subsequence(in_fields=Sum.other, out_fields=Sum.total)
