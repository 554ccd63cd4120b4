"""A pipeline is an nn.Module: hooks, checkpoints, copies, compile and torch.func see what nn.Sequential would show."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch
import torch._dynamo.testing
from torch import Tensor, nn

from tensorclass import TensorClass
from tensorclass.errors import BuildError
from tensorclass.nn import TensorClassModule, TensorClassSequential
from tensorclass.typing import Float32
from tests.nn._pipelines import Digits, Hidden, Prediction, argmax, classifier, digits, flatten, stages, step


class In(TensorClass):
    x: Float32[Tensor, "4"]


class Mid(TensorClass):
    a: Float32[Tensor, "4"]
    b: Float32[Tensor, "4"]


class Out(TensorClass):
    y: Float32[Tensor, "4"]


def three() -> TensorClassSequential[In, Out]:
    """Linear, norm, linear: what an nn.Sequential of three would be."""
    return TensorClassSequential(
        step(nn.Linear(4, 4), In.x, Mid.a),
        step(nn.BatchNorm1d(4), Mid.a, Mid.b),
        step(nn.Linear(4, 4), Mid.b, Out.y),
        input=In,
        output=Out,
    )


def raw() -> nn.Sequential:
    """The same modules without fields."""
    return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 4))


# ---- names, indexing, repr ---------------------------------------------------------------------------------------


def test_modules_are_registered_directly():
    """One name component for each module: `name=`, else the class or function with its index."""
    assert [name for name, _ in classifier().named_children()] == ["encoder", "head"]
    assert [name for name, _ in three().named_parameters()][:2] == ["linear_0.weight", "linear_0.bias"]


def test_names_of_all_kinds_of_callables():
    """Functions, lambdas, partials, methods and callable objects have readable names."""

    class Scale:
        def __call__(self, x: Tensor) -> Tensor:
            return x

    def twice(x: Tensor) -> Tensor:
        return x * 2

    callables = [twice, lambda x: x, Scale(), nn.LayerNorm(4), torch.relu, nn.Linear(4, 4).forward]
    modules = [step(f, In.x, In.x, update=True) for f in callables]
    pipeline = TensorClassSequential(*modules, step(nn.Identity(), In.x, Out.y), input=In, output=Out)
    assert [module.name for module in pipeline] == [
        "twice_0",
        "function_1",
        "scale_2",
        "layer_norm_3",
        "relu_4",
        "forward_5",
        "identity_6",
    ]


def test_bound_method_registers_its_module():
    """The parameters behind `model.encode` belong to the pipeline, and replacing the module replaces the method."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(4, 4)

        def encode(self, x: Tensor) -> Tensor:
            return self.inner(x)

    model = Model()
    pipeline = TensorClassSequential(step(model.encode, In.x, Out.y, name="model"), input=In, output=Out)
    assert [name for name, _ in pipeline.named_parameters()] == ["model.inner.weight", "model.inner.bias"]
    batch = In(torch.rand(2, 4))
    assert torch.equal(pipeline(batch).y, model.encode(batch.x))
    other = copy.deepcopy(pipeline)
    nn.init.zeros_(other.model.inner.weight)
    assert not torch.equal(other(batch).y, pipeline(batch).y)


def test_len_index_and_iteration():
    """A pipeline is a sequence of typed modules."""
    pipeline = classifier()
    assert len(pipeline) == len(list(pipeline)) == 4
    stage = pipeline[1]
    assert isinstance(stage, TensorClassModule)
    assert stage.module is pipeline.encoder
    assert (stage.in_fields, stage.out_fields) == ((Hidden.flat,), (Hidden.h,))
    assert pipeline[-1].module is argmax
    again = TensorClassSequential(*pipeline, input=Digits, output=Prediction)
    assert again.state_dict().keys() == pipeline.state_dict().keys()


@pytest.mark.parametrize(
    ("index", "error"), [(4, IndexError), (-5, IndexError), ("encoder", TypeError), (True, TypeError)]
)
def test_wrong_index(index, error):
    """Only numbers of modules are indices."""
    with pytest.raises(error, match="pipeline"):
        classifier()[index]


def test_repr():
    """One row for each module: its name, its fields, what it is."""
    text = repr(classifier())
    assert text.startswith("TensorClassSequential(Digits -> Prediction\n")
    assert "  (0) flatten_0: Digits.image -> Hidden.flat  function" in text
    assert "  (1) encoder: Hidden.flat -> Hidden.h  Linear(in_features=64, out_features=16, bias=True)" in text


def test_mermaid():
    """Modules are nodes, fields are edges, quotation marks do not break labels."""
    rows = classifier().graph().splitlines()
    assert rows[0] == "flowchart TD"
    assert '    input(["Digits"])' in rows
    assert '    m1["1 encoder: linear"]' in rows
    assert '    input -->|"image: Float32[1 8 8]"| m0' in rows
    assert '    m1 -->|"h: Float32[16]"| m2' in rows
    assert '    m3 -->|"digit"| output' in rows
    assert all(row.count('"') in (0, 2) for row in rows)


# ---- modules ---------------------------------------------------------------------------------------------------


def test_hooks_fire():
    """Hooks of the pipeline and of the modules inside see calls and may change results."""
    pipeline, calls = classifier(), []
    pipeline.register_forward_pre_hook(lambda m, args: calls.append(("pre", type(args[0]).__name__)))
    pipeline.register_forward_hook(lambda m, args, out: calls.append(("post", type(out).__name__)))
    pipeline.encoder.register_forward_hook(lambda m, args, out: calls.append("encoder"))
    pipeline.head.register_forward_hook(lambda m, args, out: out * 0)
    prediction = pipeline(digits())
    assert calls == [("pre", "Digits"), "encoder", ("post", "Prediction")]
    assert prediction.logits.abs().sum() == 0


def test_replacing_a_module_takes_effect():
    """The registered module is the one that is called, and the stage shows it."""
    pipeline, batch = classifier(), digits()
    pipeline(batch)
    pipeline.head = nn.Linear(16, 10)
    assert pipeline[2].module is pipeline.head
    nn.init.zeros_(pipeline.head.weight)
    nn.init.ones_(pipeline.head.bias)
    assert torch.equal(pipeline(batch).logits, torch.ones(6, 10))


def test_train_eval_and_to():
    """Modes and casts reach the modules."""
    pipeline = three()
    assert not pipeline.eval().batch_norm1d_1.training
    assert pipeline.train().batch_norm1d_1.training
    assert pipeline.to(torch.float64).linear_0.weight.dtype is torch.float64


def test_state_dict_both_ways():
    """Keys map one to one onto nn.Sequential's; either kind is loaded, buffers too."""
    pipeline, plain = three(), raw()
    plain(torch.rand(8, 4))
    pipeline.load_state_dict(plain.state_dict())
    batch = In(torch.rand(5, 4))
    assert torch.equal(pipeline.eval()(batch).y, plain.eval()(batch.x))
    own = pipeline.state_dict()
    assert len(own) == len(plain.state_dict())
    back = raw()
    back.load_state_dict(dict(zip(plain.state_dict(), own.values(), strict=True)))
    other = three()
    other.load_state_dict(own)
    assert all(torch.equal(a, b) for a, b in zip(other.state_dict().values(), own.values(), strict=True))


def test_state_dict_inside_a_larger_module():
    """Numbers are understood below a prefix, and where functions stand between the modules."""
    plain = nn.ModuleDict({"net": nn.Sequential(nn.Linear(64, 16), nn.Linear(16, 10))})
    larger = nn.ModuleDict({"net": classifier()})
    larger.load_state_dict(plain.state_dict())
    assert torch.equal(larger["net"].head.weight, plain["net"][1].weight)
    flat = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.Linear(16, 10))
    pipeline = classifier()
    pipeline.load_state_dict(flat.state_dict())
    assert torch.equal(pipeline.encoder.weight, flat[1].weight)


def test_wrong_checkpoints_are_refused():
    """Missing, unexpected and misshapen entries are errors as in any module."""
    for plain in (nn.Sequential(nn.Linear(4, 4)), nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 4))):
        with pytest.raises(RuntimeError, match="Error"):
            three().load_state_dict(plain.state_dict())


def test_deepcopy():
    """A copy has its own parameters and its own generated code."""
    pipeline, batch = classifier(), digits()
    twin = copy.deepcopy(pipeline)
    assert torch.equal(twin(batch).logits, pipeline(batch).logits)
    nn.init.zeros_(twin.head.weight)
    assert not torch.equal(twin(batch).logits, pipeline(batch).logits)


def test_pickle_and_save():
    """Pickling keeps everything but generated code; so does torch.save of the whole module."""
    pipeline, batch = classifier(), digits()
    again = pickle.loads(pickle.dumps(pipeline))
    assert torch.equal(again(batch).logits, pipeline(batch).logits)
    assert again[1].location == pipeline[1].location
    buffer = io.BytesIO()
    torch.save(pipeline, buffer)
    buffer.seek(0)
    loaded = torch.load(buffer, weights_only=False)
    assert torch.equal(loaded(batch).logits, pipeline(batch).logits)


def test_copies_do_not_warn_again():
    """Warnings belong to the build that the user wrote."""
    shared = nn.Linear(4, 4)
    with pytest.warns(UserWarning, match="W203"):
        pipeline = TensorClassSequential(
            step(shared, In.x, Mid.a, name="a"), step(shared, Mid.a, Out.y, name="b"), input=In, output=Out
        )
    assert copy.deepcopy(pipeline).diagnostics == pipeline.diagnostics


# ---- compile, torch.func -----------------------------------------------------------------------------------------


def test_compile_fullgraph():
    """One graph, on the first call and after, with the same numbers."""
    for warm in (False, True):
        torch._dynamo.reset()
        pipeline, batch = classifier(), digits()
        expected = copy.deepcopy(pipeline)(batch)
        if warm:
            pipeline(batch)
        compiled = torch.compile(pipeline, fullgraph=True, backend="eager")
        for _ in range(2):
            result = compiled(batch)
            assert type(result) is Prediction
            assert torch.equal(result.logits, expected.logits)


def test_compile_does_not_recompile_after_an_eager_call():
    """The check of the first call leaves no guard in compiled code."""
    torch._dynamo.reset()
    pipeline, batch = classifier(), digits()
    counter = torch._dynamo.testing.CompileCounter()
    compiled = torch.compile(pipeline, fullgraph=True, backend=counter)
    compiled(batch)
    pipeline(batch)
    compiled(batch)
    assert counter.frame_count == 1


def test_functional_call_and_grad():
    """Parameters may be passed in, and differentiated."""
    pipeline, batch = classifier(), digits()
    parameters = {name: torch.zeros_like(value) for name, value in pipeline.named_parameters()}
    assert torch.func.functional_call(pipeline, parameters, (batch,)).logits.abs().sum() == 0

    def loss(weights):
        return torch.func.functional_call(pipeline, weights, (batch,)).logits.square().sum()

    gradient = torch.func.grad(loss)(dict(pipeline.named_parameters()))
    pipeline(batch).logits.square().sum().backward()
    assert torch.allclose(gradient["encoder.weight"], pipeline.encoder.weight.grad)


def test_vmap_over_parameters():
    """An ensemble in one call gives what each member gives."""
    batch = digits()
    members = [classifier() for _ in range(3)]
    parameters, buffers = torch.func.stack_module_state(members)

    def call(weights, rest):
        return torch.func.functional_call(members[0], (weights, rest), (batch,)).logits

    together = torch.vmap(call)(parameters, buffers)
    assert torch.allclose(together, torch.stack([m(batch).logits for m in members]), atol=1e-6)


# ---- wrong arguments -----------------------------------------------------------------------------------------------


def _first_image() -> Tensor:
    return digits().image


ARGUMENTS = [
    (lambda: step(flatten, "image", Hidden.flat), ["in_fields", "the string 'image'", "`Digits.image`"]),
    (lambda: step(flatten, Digits.image, "flat"), ["out_fields", "the string 'flat'"]),
    (lambda: step(flatten, ["image"], Hidden.flat), ["the string 'image'"]),
    (lambda: step(flatten, Digits, Hidden.flat), ["the class Digits", "(Digits.image, Digits.label"]),
    (lambda: step(flatten, int, Hidden.flat), ["the class int, which is not a tensorclass"]),
    (lambda: step(flatten, _first_image(), Hidden.flat), ["a tensor of shape [6, 1, 8, 8]", "off the class"]),
    (lambda: step(flatten, digits(), Hidden.flat), ["an instance of Digits", "`Digits.image`"]),
    (lambda: step(flatten, None, Hidden.flat), ["got None"]),
    (lambda: step(flatten, Digits.image, None), ["got None"]),
    (lambda: step(flatten, Digits.image, (None,)), ["would write nothing"]),
    (lambda: step(flatten, Digits.image, ()), ["would write nothing"]),
    (lambda: step(flatten, Digits.image, (Hidden.flat, Hidden.flat)), ["names `flat` twice"]),
    (lambda: step(flatten, {"x y": Digits.image}, Hidden.flat), ["the name of a parameter"]),
    (lambda: step(flatten, Digits.is_empty, Hidden.flat), ["in_fields takes references to fields"]),
    (lambda: step(nn.Linear, Digits.image, Hidden.flat), ["got the class Linear", "`Linear(...)`"]),
    (lambda: step(torch.zeros(3), Digits.image, Hidden.flat), ["Tensor, which can't be called"]),
    (lambda: step(stages()[0], Digits.image, Hidden.flat), ["got a TensorClassModule"]),
    (lambda: step(flatten, Digits.image, Hidden.flat, name="a.b"), ["one Python identifier"]),
    (lambda: step(flatten, Digits.image, Hidden.flat, name=3), ["one Python identifier"]),
    (lambda: step(flatten, Digits.image, Hidden.flat, name="forward"), ["would hide `nn.Module.forward`"]),
    (lambda: TensorClassSequential(input=Digits), ["at least one TensorClassModule"]),
    (lambda: TensorClassSequential(nn.Linear(1, 1), input=Digits), ["module 0 `linear_0`", "`stage(Linear(...), Dig"]),
    (lambda: TensorClassSequential(Digits, input=Digits), ["`input=` and `output=`"]),
    (lambda: TensorClassSequential(*stages(), input=digits(), output=Prediction), ["input= takes a tensorclass"]),
    (lambda: TensorClassSequential(*stages(), input=dict, output=Prediction), ["got the class dict"]),
    (lambda: TensorClassSequential(*stages(), input=Digits, output="Prediction"), ["output= takes a tensorclass"]),
    (lambda: TensorClassSequential(*stages(), step(argmax, Prediction.logits, Prediction.digit, name="head"),
                                   input=Digits, output=Prediction), ["modules 2 and 4 are both named `head`"]),
]  # fmt: skip


@pytest.mark.parametrize(("build", "words"), ARGUMENTS)
def test_wrong_argument(build, words):
    """Each wrong argument says what was given and what is meant."""
    with pytest.raises(BuildError) as info:
        build()
    assert [word for word in words if word not in str(info.value)] == []


def test_misspelt_field_is_an_attribute_error():
    """A typo does not reach the pipeline."""
    with pytest.raises(AttributeError):
        step(flatten, Digits.imgae, Hidden.flat)


def test_name_of_a_pipeline_attribute():
    """A name that the pipeline itself uses is refused like one of nn.Module."""
    with pytest.raises(BuildError, match="name="):
        TensorClassSequential(step(nn.Identity(), In.x, Out.y, name="explain"), input=In, output=Out)
