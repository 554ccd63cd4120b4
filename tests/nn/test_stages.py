"""Pipelines of `stage(...)` and `sample(...)`: by keyword, with open ends and values without a declaration."""

from __future__ import annotations

import copy
import functools
import inspect
import pickle
import warnings
from typing import Any, TypeVar

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Normal

from tensorclass import Shared, TensorClass, produced
from tensorclass.errors import BuildError, ModuleError, SchemaError
from tensorclass.nn import (
    NormalParamExtractor,
    PipelineWarning,
    TensorClassModule,
    TensorClassSequential,
    check,
    module,
    sample,
    stage,
)
from tensorclass.typing import Float32, Int64


class Digits(TensorClass):
    image: Float32[Tensor, "64"]
    label: Int64[Tensor, ""]


class Labelled(Digits):
    weight: Float32[Tensor, ""]


class Hidden(TensorClass):
    h: Float32[Tensor, "32"]


class Prediction(TensorClass):
    logits: Float32[Tensor, "10"]
    digit: Int64[Tensor, ""]


def digits(n: int = 5) -> Digits:
    """A batch of random images."""
    return Digits(torch.rand(n, 64), torch.arange(n) % 10)


def decide(logits: Tensor) -> Tensor:
    """The most likely class."""
    return logits.argmax(-1)


def halves(x: Tensor) -> tuple[Tensor, Tensor]:
    """Two results."""
    return x[..., :32], x[..., 32:]


def classifier() -> TensorClassSequential[Digits, Prediction]:
    """A right pipeline with values that have no field."""
    return TensorClassSequential[Digits, Prediction](
        encoder=stage(nn.Linear(64, 32), Digits.image),
        act=nn.ReLU(),
        head=stage(nn.Linear(32, 10), out=Prediction.logits),
        decide=stage(decide, out=Prediction.digit),
    )


def by_hand(model: TensorClassSequential[Digits, Prediction], batch: Digits) -> Tensor:
    """Its logits, without the pipeline."""
    return model.head(model.encoder(batch.image).relu())


def test_stages_run_as_the_calls_they_stand_for():
    """The pipeline gives what the modules give by hand; keywords are the names in the state dict."""
    model, batch = classifier(), digits()
    assert model.diagnostics == ()
    for _ in range(2):
        assert torch.equal(model(batch).logits, by_hand(model, batch))
    assert list(model.state_dict()) == ["encoder.weight", "encoder.bias", "head.weight", "head.bias"]


def test_checkpoints_of_a_sequential_load_both_ways():
    """Keywords map one to one to the numbers of an `nn.Sequential`."""
    plain, model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)), classifier()
    model.load_state_dict(plain.state_dict())
    assert torch.equal(plain[2].weight, model.head.weight)
    plain.load_state_dict(dict(zip(plain.state_dict(), model.state_dict().values(), strict=True)))


@pytest.mark.parametrize(
    "ends", [{}, {"input": Digits}, {"output": Prediction}, {"input": Digits, "output": Prediction}]
)
def test_ends_follow_from_the_members(ends):
    """The input is the class that the first member reads, the output the class that the last one writes."""
    model = TensorClassSequential(
        head=stage(nn.Linear(64, 10), Digits.image, out=Prediction.logits),
        decide=stage(decide, out=Prediction.digit),
        **ends,
    )
    assert (model.input_class, model.output_class) == (Digits, Prediction)


def test_a_later_read_of_a_subclass_widens_the_input():
    """If a later member reads a field of a subclass, the subclass is the input."""
    mean = stage(lambda x: x.mean(-1), Digits.image)
    model = TensorClassSequential(mean=mean, weighted=stage(torch.mul, mean, Labelled.weight))
    assert model.input_class is Labelled


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: TensorClassSequential(a=stage(decide)), ["does not say what it reads", "stage(f, Digits.image)"]),
        (lambda: TensorClassSequential(a=stage(decide, stage(decide, Digits.image))), ["E101", "list it"]),
        (lambda: TensorClassSequential(forward=stage(decide, Digits.image)), ["would hide `nn.Module.forward`"]),
        (lambda: TensorClassSequential(check=stage(decide, Digits.image)), ["would hide an attribute"]),
        (lambda: TensorClassSequential(a=stage(halves, Digits.image, out=(Hidden.h, None)), b=3), ["`b` is a int"]),
        (lambda: stage(decide, Digits.image, out=Hidden.h, returns=Tensor), ["leave `returns=` out"]),
        (lambda: [*stage(lambda x: (x, x), Digits.image)], ["annotated", "h[0]"]),
        (lambda: TensorClassSequential(a=(a := stage(decide, Digits.image)), b=a), ["listed twice"]),
        (
            lambda: TensorClassSequential(
                a=(a := stage(halves, Digits.image, out=(Hidden.h, None))), b=stage(decide, a[1])
            ),
            ["result 1", "not kept"],
        ),
    ],
)
def test_wrong_members_are_refused(build, words):
    """Each mistake says what was given and what to write."""
    with pytest.raises(BuildError) as caught:
        build()
    assert [word for word in words if word not in str(caught.value)] == []


OPTIONS = [name for name, p in inspect.signature(TensorClassSequential.__init__).parameters.items() if p.kind == 3]


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("member", [stage(decide, Digits.image), nn.Linear(64, 10)], ids=["stage", "module"])
def test_a_stage_with_the_name_of_an_option_is_refused(name: str, member: Any):
    """The error says that the name is taken, for each option and in brackets too."""
    for cls in (TensorClassSequential, TensorClassSequential[Digits, Prediction]):
        with pytest.raises(BuildError, match=f"^`{name}` is an option of the pipeline; name the stage differently$"):
            cls(encoder=stage(decide, Digits.image), **{name: member})


@pytest.mark.parametrize("reading", ["index", "unpacked", "declared", "spread"])
def test_several_results(reading):
    """Results are read by index, by unpacking what is annotated or declared, or all of them by the next stage."""
    h = stage(halves, Digits.image)
    if reading == "declared":
        part = Float32[Tensor, "32"]
        h = stage(functools.partial(halves), Digits.image, returns=(part, part))
    left, right = (h[0], h[1]) if reading == "index" else h
    add = stage(torch.add) if reading == "spread" else stage(torch.add, left, right)
    model, batch = TensorClassSequential(h=h, add=add), digits()
    assert torch.equal(model(batch), batch.image[:, :32] + batch.image[:, 32:])


def test_objects_pass_on_as_one_value():
    """A mapping, and a distribution, go from stage to stage as they are; items are read by key."""
    both = stage(lambda x: {"double": 2 * x, "mean": x.mean(-1)}, Digits.image)
    model = TensorClassSequential(
        both=both,
        normal=stage(lambda m: Normal(m, 1.0), both["mean"]),
        score=stage(lambda d: d.log_prob(torch.zeros(()))),
    )
    batch = digits()
    assert torch.equal(model(batch), Normal(batch.image.mean(-1), 1.0).log_prob(torch.zeros(())))


@pytest.mark.parametrize("returns", [None, Float32[Tensor, "32"]])
def test_a_wrong_width_is_found_at_build(returns):
    """With a declaration at the writer (E114), without one at the reader (E108); both name the stages."""
    with pytest.raises(BuildError, match="E108" if returns is None else "E114") as caught:
        TensorClassSequential[Digits, Prediction](
            encoder=stage(nn.Linear(64, 33), Digits.image, returns=returns),
            head=stage(nn.Linear(32, 10), out=Prediction.logits),
            decide=stage(decide, out=Prediction.digit),
        )
    assert "`encoder`" in str(caught.value)


def test_a_declared_result_is_the_output():
    """`returns=` in the last stage validates the result of each call."""
    model = TensorClassSequential(rate=stage(nn.Linear(64, 3), Digits.image, returns=Float32[Tensor, "3"]), probe=False)
    assert model(digits()).shape == (5, 3)
    model.rate = nn.Linear(64, 4)
    with pytest.raises(SchemaError):
        model(digits())


def test_a_result_keeps_the_batch_dims():
    """A tensor that the pipeline returns is compared with the batch size of each call."""
    lost = TensorClassSequential(rate=stage(lambda x: x.sum(0), Digits.image), probe=False)
    with pytest.raises(SchemaError, match="keep the batch dims"):
        lost(digits())


def test_inputs_by_parameter():
    """Keywords are parameters of the callable, after arguments by position."""

    def mixed(x: Tensor, *, scale: Tensor) -> Tensor:
        return x.mean(-1) * scale

    model = TensorClassSequential(scaled=stage(mixed, Digits.image, scale=Digits.label))
    batch = digits()
    assert torch.equal(model(batch), batch.image.mean(-1) * batch.label)
    with pytest.raises(BuildError, match="E110"):
        TensorClassSequential(scaled=stage(mixed, Digits.image, scal=Digits.label))


class Photo(TensorClass):
    photo: Float32[Tensor, "3 h w"]


def test_values_without_a_declaration_are_explained():
    """`explain` and `graph` show dtypes, and shapes over the open dims of the input; two dims are told apart."""
    conv, swapped = nn.Conv2d(3, 8, 3, stride=2, padding=1), stage(lambda x: x.mT)
    model = TensorClassSequential(
        conv=stage(conv, Photo.photo), act=nn.ReLU(), swapped=swapped, rate=stage(lambda x: x.mean((1, 2, 3)) > 0)
    )
    shown = {value.name: value for step in model.explain(4).steps for value in step.writes}
    assert shown["conv"].shape == shown["act"].shape == (4, 8, "(h+1)//2", "(w+1)//2")
    assert shown["swapped"].shape == (4, 8, "(w+1)//2", "(h+1)//2")
    assert (shown["rate"].dtype, shown["rate"].shape) == ("bool", (4,))
    sized = {value.name: value.shape for step in model.explain(4, h=33, w=16).steps for value in step.writes}
    assert sized["conv"] == tuple(conv(torch.rand(4, 3, 33, 16)).shape)
    assert 'm0 -->|"conv: Float32[8 (h+1)//2 (w+1)//2]"| m1' in model.graph()
    assert "Float32[" in model.graph("svg")


# ---- losses ------------------------------------------------------------------------------------------------------


def test_a_loss_is_a_result_of_the_last_stage():
    """One number for the batch may be returned, and is differentiable."""
    h = stage(nn.Linear(64, 10), Digits.image)
    model = TensorClassSequential(head=h, loss=stage(nn.CrossEntropyLoss(), h, Digits.label))
    loss = model(digits())
    loss.backward()
    assert loss.shape == ()
    assert model.head.weight.grad is not None
    shown = [value for step in model.explain(32).steps for value in step.writes if value.name == "loss"]
    assert [(value.dtype, value.shape, value.nbytes) for value in shown] == [("float32", (), 4)]


def test_the_hint_about_losses_mends_the_program():
    """Between stages a number for the batch is E112; both fixes of the hint build."""

    def model(loss, returns=None):
        h = stage(nn.Linear(64, 10), Digits.image)
        first = stage(loss, h, Digits.label, returns=returns)
        return TensorClassSequential(h=h, first=first, twice=stage(lambda v: 2 * v, first))

    with pytest.raises(BuildError, match="E112") as caught:
        model(nn.CrossEntropyLoss())
    assert caught.value.diagnostics[0].hint == (
        "one value for the batch? declare `Shared[Float32[Tensor, \"\"]]`; one per element: `reduction='none'`"
    )
    assert model(nn.CrossEntropyLoss(), Shared[Float32[Tensor, ""]])(digits()).shape == ()
    assert model(nn.CrossEntropyLoss(reduction="none"))(digits()).shape == (5,)


def test_the_hint_about_losses_mends_a_field():
    """The same for a field of a class."""

    class Loss(TensorClass):
        loss: Float32[Tensor, ""]

    class Whole(TensorClass):
        loss: Shared[Float32[Tensor, ""]]

    def model(out):
        h = stage(nn.Linear(64, 10), Digits.image)
        return TensorClassSequential(h=h, loss=stage(nn.CrossEntropyLoss(), h, Digits.label, out=out))

    with pytest.raises(BuildError, match=r"(?s)E112.*Shared\[Float32"):
        model(Loss.loss)
    assert model(Whole.loss)(digits()).loss.shape == ()


# ---- distributions -----------------------------------------------------------------------------------------------


class Latent(TensorClass):
    z: Float32[Tensor, "4"]


class Image(TensorClass):
    pixels: Float32[Tensor, "64"]


def autoencoder() -> TensorClassSequential[Digits, Image]:
    """Two distributions, with private parameters."""
    z = sample(Normal, out=Latent.z, kind="random")
    return TensorClassSequential[Digits, Image](
        encoder=stage(nn.Sequential(nn.Linear(64, 8), NormalParamExtractor()), Digits.image),
        z=z,
        decoder=stage(nn.Sequential(nn.Linear(4, 128), NormalParamExtractor()), z),
        pixels=sample(Normal, out=Image.pixels),
    )


def test_sampling_needs_no_fields_for_parameters():
    """Parameters are private; distributions are found by the name of the stage."""
    model, batch = autoencoder(), digits()
    assert model.get_dist(batch, "z").loc.shape == (5, 4)
    assert model.get_dist(batch).loc.shape == (5, 64)
    assert torch.equal(model.get_dist(batch, "z").loc, model.encoder(batch.image)[0])
    with pytest.raises(ModuleError, match="did you mean `z`"):
        model.get_dist(batch, "zz")


def test_the_log_probability_of_one_value():
    """`log_prob` scores a result of the pipeline, also one without a field."""
    net = nn.Sequential(nn.Linear(64, 8), NormalParamExtractor())
    named = TensorClassSequential[Digits, Latent](net=stage(net, Digits.image), z=sample(Normal, out=Latent.z))
    bare = TensorClassSequential(net=stage(net, Digits.image), z=sample(Normal))
    batch = digits()
    expected = Normal(*net(batch.image)).log_prob(named(batch).z)
    assert torch.equal(named.log_prob(batch, named(batch)), expected)
    assert torch.equal(bare.log_prob(batch, bare(batch)), expected)


def test_a_pipeline_without_a_distribution_says_so():
    """Without a drawn value there is nothing to score."""
    with pytest.raises(ModuleError, match=r"add a `sample\(...\)`"):
        classifier().get_dist(digits())


def test_parameters_by_position_and_by_name():
    """Positions follow the signature of the distribution; names are its parameters."""
    h = stage(nn.Sequential(nn.Linear(64, 8), NormalParamExtractor()), Digits.image)
    for drawn in (sample(Normal, h[0], h[1], out=Latent.z), sample(Normal, h[0], scale=h[1], out=Latent.z)):
        model, batch = TensorClassSequential(h=h, z=drawn), digits()
        assert torch.equal(model.get_dist(batch).scale, model.h(batch.image)[1])


# ---- everything else that pipelines do ---------------------------------------------------------------------------


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies(copied):
    """Copies give the same results."""
    model, batch = classifier(), digits()
    assert torch.equal(copied(model)(batch).logits, model(batch).logits)
    assert copied(model[:2])(batch).act.shape == (5, 32)


def test_parts_and_nesting():
    """Slices, parts, `on` and nested pipelines work with values without a declaration."""
    model, batch = classifier(), digits()
    expected = model(batch)
    for cut in range(1, 4):
        assert torch.equal(model[cut:](model[:cut](batch)).logits, expected.logits)
    assert len(model.select_subsequence(out_fields=Prediction.logits)) == 3
    assert torch.equal(model.on(Image64)(Image64(batch.image)).logits, expected.logits)
    outer = TensorClassSequential(inner=model, sure=stage(lambda z, _: z.softmax(-1).amax(-1)))
    assert torch.equal(outer(batch), expected.logits.softmax(-1).amax(-1))
    assert next(iter(outer.state_dict())) == "inner.encoder.weight"
    features = TensorClassSequential(encoder=stage(model.encoder, Digits.image))
    heads = TensorClassSequential[Digits, Prediction](
        features=features,
        act=nn.ReLU(),
        head=stage(model.head, out=Prediction.logits),
        decide=stage(decide, out=Prediction.digit),
    )
    assert torch.equal(heads(batch).logits, expected.logits)


class Image64(TensorClass):
    image: Float32[Tensor, "64"]


def test_one_module_in_two_pipelines():
    """A stage in two pipelines shares its module."""
    student = stage(nn.Linear(64, 10), Digits.image)
    train = TensorClassSequential(student=student, loss=stage(lambda z: z.mean(-1)))
    assert TensorClassSequential(student=student).student is train.student


def test_compiled_and_exported():
    """`torch.compile(fullgraph=True)` and `torch.export` take unnamed, spread and indexed values."""
    h = stage(halves, Digits.image)
    model = TensorClassSequential(
        h=h, add=(add := stage(torch.add)), more=stage(torch.mul, h[0], add), out=stage(decide)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = torch.compile(model, fullgraph=True, backend="eager")
        batch = digits()
        assert torch.equal(compiled(batch), model(batch))
        exported = torch.export.export(classifier(), (batch,), strict=False)
        assert exported.module()(batch).logits.shape == (5, 10)


def test_one_class_for_the_whole_state():
    """Stages write `produced()` fields of the input class, skip what is there, and sort."""

    class State(TensorClass):
        image: Float32[Tensor, "64"]
        h: Float32[Tensor, "32"] = produced()
        logits: Float32[Tensor, "10"] | None = None

    model = TensorClassSequential[State, State](
        head=stage(nn.Linear(32, 10), State.h, out=State.logits),
        encoder=stage(nn.Linear(64, 32), State.image, out=State.h),
        sort=True,
        skip_existing=True,
    )
    given = State(torch.rand(5, 64), logits=torch.zeros(5, 10))
    assert model(given).logits.eq(0).all()
    assert model(State(torch.rand(5, 64))).logits.shape == (5, 10)


def test_sorted_stages_find_values_listed_later():
    """With `sort=True` a stage may be listed after its readers; without, E101 names it."""
    h = stage(nn.Linear(64, 32), Digits.image)
    members = {"head": stage(nn.Linear(32, 10), h, out=Prediction.logits), "h": h}
    decided = stage(decide, Prediction.logits, out=Prediction.digit)
    assert TensorClassSequential[Digits, Prediction](**members, decide=decided, sort=True)(digits()).digit.shape == (5,)
    with pytest.raises(BuildError, match=r"E101(?s:.*)module 1 `h` writes `h`; move it before"):
        TensorClassSequential[Digits, Prediction](**members, decide=decided)


def test_unused_values_are_reported():
    """A value that nothing reads is W201, under the name of its stage."""
    with pytest.warns(PipelineWarning, match="W201.*writes `spare`"):
        TensorClassSequential(spare=stage(decide, Digits.image), rest=stage(decide, Digits.image))


def test_old_members_mix_with_stages():
    """A `TensorClassModule`, a keyed module and a nested pipeline are members by keyword too."""
    first = TensorClassModule(nn.Linear(64, 32), Digits.image, Hidden.h)
    model = TensorClassSequential[Digits, Prediction](
        encoder=first, head=stage(nn.Linear(32, 10), out=Prediction.logits), decide=stage(decide, out=Prediction.digit)
    )
    assert next(iter(model.state_dict())) == "encoder.weight"
    assert first.name is None


# ---- callables from one class to another -------------------------------------------------------------------------


class Net(nn.Module):
    """A module whose annotations name its classes."""

    def __init__(self, classes: int = 10):
        super().__init__()
        self.head = nn.Linear(64, classes)

    def forward(self, batch: Digits) -> Prediction:
        logits = self.head(batch.image)
        return Prediction(logits, logits.argmax(-1))


@module
def mirrored(batch: Digits) -> Digits:
    """A function whose annotations name its classes."""
    return Digits(batch.image.flip(-1), batch.label)


def test_typed_callables_are_members():
    """A function or module with typed annotations is a member as it is; its keys in the state dict have no prefix."""
    net, batch = Net(), digits()
    alone = TensorClassSequential(net)
    assert torch.equal(alone(batch).logits, net(batch).logits)
    model = TensorClassSequential(mirrored=mirrored, net=net, sure=stage(lambda z, _: z.amax(-1)))
    assert torch.equal(model(batch), net(mirrored(batch)).logits.amax(-1))
    assert list(model.state_dict()) == ["net.head.weight", "net.head.bias"]
    assert torch.equal(copy.deepcopy(alone)(batch).logits, net(batch).logits)


def test_check_proves_a_module_without_a_pipeline():
    """`check` finds what a pipeline would: a wrong size, and a result of another class."""
    assert check(Net(), Digits).diagnostics == ()
    with pytest.raises(BuildError, match=r"(?s)E108.*11"):
        check(Net(11))

    def wrong(batch: Digits) -> Prediction:
        return batch  # type: ignore[return-value]  # what is tested

    with pytest.raises(BuildError, match=r"(?s)E111.*returns Digits.*declared Prediction"):
        check(wrong)


def test_a_bare_module_decorator_needs_annotations():
    """Without fields, the annotations must name typed classes."""
    with pytest.raises(BuildError, match="not annotated with typed classes"):
        module(decide)


@pytest.mark.parametrize("reads", [None, "field"])
def test_no_field_finds_a_stage_by_its_name(reads: str | None):
    """A stage with the name of a field does not fill it: the build asks for `out=`."""
    h = stage(nn.Linear(64, 32), Digits.image)
    logits = stage(nn.Linear(32, 10), Hidden.h if reads else h, out=Prediction.logits)
    with pytest.raises(BuildError, match=r"E101.*reads `h`|E107.*(?s:.*)did you mean `out_fields=Hidden.h`"):
        TensorClassSequential(h=h, logits=logits, input=Digits, output=Prediction if reads else Hidden)


@pytest.mark.parametrize(
    "ends",
    [(digits(), Prediction), (Digits, 3), ("Digits", Prediction), (Digits,), (Digits, Prediction, Hidden)],
    ids=["instance", "number", "text", "one", "three"],
)
def test_brackets_take_two_classes(ends: tuple[Any, ...]):
    """An argument that is not a class, or one too few or too many, is an error."""
    decide = stage(nn.Linear(64, 10), Digits.image, out=Prediction.logits)
    with pytest.raises(BuildError, match=r"takes a tensorclass, the class itself|takes two classes"):
        TensorClassSequential[ends](decide=decide)


def test_open_brackets():
    """`Any` and type variables leave an end to the members."""
    known, one, other = TypeVar("known"), TypeVar("one"), TypeVar("other")
    for ends in ((Digits, Any), (Any, Hidden), (known, Hidden), (one, other)):
        made = TensorClassSequential[ends](h=stage(nn.Linear(64, 32), Digits.image, out=Hidden.h))
        assert (made.input_class, made.output_class) == (Digits, Hidden)


def test_hints_count_the_event_dims_of_values_without_a_field():
    """In a value without a field the dims after the batch dim are counted, and edits leave the batch dim alone."""
    with pytest.raises(BuildError, match="accepts 40 for event dim 0 of `h`, it is given 32"):
        TensorClassSequential[Digits, Prediction](
            h=stage(nn.Linear(64, 32), Digits.image),
            logits=stage(nn.Linear(40, 10), out=Prediction.logits),
            digit=stage(decide, out=Prediction.digit),
        )


def test_tried_edits_draw_no_random_numbers():
    """A build that fails, with a layer made for its hint, leaves the random state as it was."""
    layers = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(32, 10))
    before = torch.get_rng_state()
    with pytest.raises(BuildError, match="has in_features=48 in place of 32"):
        TensorClassSequential[Digits, Prediction](
            logits=stage(layers, Digits.image, out=Prediction.logits), digit=stage(decide, out=Prediction.digit)
        )
    assert torch.equal(torch.get_rng_state(), before)


def test_findings_name_fields_and_values() -> None:
    """A first member without an input is told the class and its fields; what a stage was given is shown in full."""
    with pytest.raises(
        BuildError, match=r"`flat`, a Flatten, .*`stage\(Flatten\(\.\.\.\), Digits\.image\)`; Digits has: image"
    ):
        TensorClassSequential[Digits, Prediction](flat=nn.Flatten(), head=stage(decide, out=Prediction.logits))
    with pytest.raises(
        BuildError, match=r"(?s)`head` rejects what it reads.*given both = \(float32 \[2, .*float32 \[2, "
    ):
        TensorClassSequential[Digits, Prediction](
            both=stage(lambda x: (x, x), Digits.image), head=stage(nn.Linear(3, 3), out=Prediction.logits)
        )
    with pytest.raises(BuildError, match=r"(?s)`head` rejects the inputs it declares.*given Digits\.image: Float32"):
        TensorClassSequential[Digits, Prediction](head=stage(nn.Linear(3, 10), Digits.image, out=Prediction.logits))
