"""Every feature of the sequencer under torch.compile, torch.export, pickle and deepcopy; memory and checkpoints."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch._dynamo.testing
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tensorclass import TensorClass, produced
from tensorclass.nn import TensorClassSequential, set_skip_existing
from tensorclass.typing import Float32
from tests._marks import rest_is_slow
from tests.nn._pipelines import Digits, Hidden, State, classifier, digits, stages, step
from tests.nn.test_sequencer import (
    Modes,
    Prediction,
    Sum,
    Wide,
    graph,
    multimodal,
    nested,
    state,
    state_pipeline,
    wide,
)


def minus(left: Tensor, right: Tensor) -> Tensor:
    """A function with names for its parameters."""
    return left - right


def keywords() -> TensorClassSequential[Wide, Sum]:
    """In fields by keyword, a device, a checkpoint."""
    return TensorClassSequential(
        step(nn.Linear(4, 4), {"input": Wide.a}, Sum.other, name="linear", device="cpu", checkpoint=True),
        step(minus, {"right": Sum.other, "left": Wide.b}, Sum.total),
        input=Wide,
        output=Sum,
    )


def selected() -> TensorClassSequential[Any, Any]:
    """Other outputs than the declared ones."""
    return classifier().select_out_fields(Hidden.h, Digits.label)


def reordered() -> TensorClassSequential[Any, Any]:
    """Modules that were listed backwards."""
    return TensorClassSequential(*reversed(stages()), input=Digits, output=Prediction, sort=True)


def half_filled() -> State:
    """A state of which one field has been produced."""
    batch = state()
    batch.hidden = torch.rand(3, 16)
    return batch


FEATURES: list[tuple[str, Callable[[], Any], Callable[[], Any]]] = [
    ("slice", lambda: classifier()[:3], lambda: digits(3)),
    ("subsequence", lambda: graph().select_subsequence(out_fields=Sum.total), lambda: wide(3)),
    ("selected", selected, lambda: digits(3)),
    ("nested", nested, lambda: digits(3)),
    ("part of nested", lambda: nested().select_subsequence(out_fields=Prediction.logits), lambda: digits(3)),
    ("partial", lambda: multimodal(partial=True), lambda: Modes(sound=torch.rand(3, 4))),
    ("partial, all there", lambda: multimodal(partial=True), lambda: Modes(torch.rand(3, 8), torch.rand(3, 4))),
    ("skip", lambda: state_pipeline(skip_existing=True), half_filled),
    ("skip nothing", lambda: state_pipeline(skip_existing=True), state),
    ("sort", reordered, lambda: digits(3)),
    ("graph", graph, lambda: wide(3)),
    ("keywords", keywords, lambda: wide(3)),
]
features = pytest.mark.parametrize(("build", "batch"), [f[1:] for f in FEATURES], ids=[f[0] for f in FEATURES])


def assert_same(one: Any, other: Any) -> None:
    """Equal classes and values."""
    assert type(one) is type(other)
    assert list(one.keys()) == list(other.keys())
    for left, right in zip(tree_leaves(one), tree_leaves(other), strict=True):
        assert torch.allclose(left, right) if isinstance(left, Tensor) else left == right


@features
def test_copies(build, batch):
    """Pickled and deep-copied pipelines do the same, with parameters of their own."""
    pipeline, data = build(), batch()
    expected = pipeline(data)
    for made in (copy.deepcopy(pipeline), picklable(pipeline)):
        assert_same(made(data), expected)
        assert made.input_class is pipeline.input_class
        assert made.output_class is pipeline.output_class
        assert len(made) == len(pipeline)
        assert list(made.state_dict()) == list(pipeline.state_dict())
        ours = {p.data_ptr() for p in pipeline.parameters()}
        assert not ours & {p.data_ptr() for p in made.parameters()}


def picklable(pipeline: Any) -> Any:
    """The pipeline through pickle, where its functions have names; else a second copy."""
    if any(s.function is not None and s.function.__name__ == "<lambda>" for s in pipeline._stages):
        return copy.deepcopy(copy.deepcopy(pipeline))
    return pickle.loads(pickle.dumps(pipeline))


@features
def test_compile(build, batch):
    """One graph, before and after an eager call, no second one for the same input."""
    torch._dynamo.reset()
    pipeline, data = build(), batch()
    counter = torch._dynamo.testing.CompileCounter()
    compiled = torch.compile(pipeline, fullgraph=True, backend=counter)
    first = compiled(data)
    assert_same(first, pipeline(data))
    assert_same(compiled(data), first)
    assert counter.frame_count <= 1


class OnTensors(nn.Module):
    """A pipeline over tensors, as it is exported: the batch is built and taken apart inside."""

    def __init__(self, pipeline: Any, batch: Any) -> None:
        super().__init__()
        self.pipeline = pipeline
        self.kind = type(batch)

    def forward(self, values: dict[str, Tensor]) -> dict[str, Tensor]:
        """Tensors by name in and out."""
        late = {name: value for name, value in values.items() if name == "hidden"}
        batch = self.kind(**{name: value for name, value in values.items() if name not in late})
        for value in late.values():
            batch.hidden = value
        result = self.pipeline(batch)
        return {name: value for name, value in result.items() if isinstance(value, Tensor)}


@pytest.mark.slow
@features
def test_export(build, batch):
    """An exported program with a dynamic batch gives the numbers of the pipeline for another batch size."""
    data = batch()
    values = {name: value for name, value in data.items() if isinstance(value, Tensor)}
    module = OnTensors(build(), data)
    shapes = ({name: {0: torch.export.Dim("batch")} for name in values},)
    exported = torch.export.export(module, (values,), dynamic_shapes=shapes, strict=False).module()
    for rows in (3, 9, 5):
        other = {name: torch.cat([value, value, value])[:rows] for name, value in values.items()}
        result, expected = exported(other), module(other)
        assert list(result) == list(expected)
        assert all(torch.allclose(result[name], expected[name]) for name in expected)
        assert all(value.shape[0] == rows for value in result.values())


def test_compile_of_the_skip_mode():
    """A block of `set_skip_existing` inside a compiled function is followed."""
    torch._dynamo.reset()
    pipeline, data = state_pipeline(), half_filled()
    pipeline(data)

    def run(batch: State) -> State:
        with set_skip_existing():
            return pipeline(batch)

    result = torch.compile(run, fullgraph=True, backend="eager")(data)
    assert torch.equal(result.logits, pipeline.head(data.hidden))
    assert result.hidden is data.hidden or torch.equal(result.hidden, data.hidden)


# ---- memory ----------------------------------------------------------------------------------------------------


class Chain(TensorClass):
    x: Float32[Tensor, "256"]
    y: Float32[Tensor, "256"] = produced()


class Steps(TensorClass):
    s: Float32[Tensor, "256"]
    t: Float32[Tensor, "256"]


class Peak(TorchDispatchMode):
    """Counts the bytes of the tensors that operations made and that are still alive; weak references, no timing."""

    def __init__(self) -> None:
        super().__init__()
        self.alive: dict[int, int] = {}
        self.most = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            given = {t.untyped_storage()._cdata for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)}
            if isinstance(tensor, Tensor) and tensor.untyped_storage()._cdata not in given:
                weakref.finalize(tensor, self.alive.pop, id(tensor), None)
                self.alive[id(tensor)] = tensor.untyped_storage().nbytes()
        self.most = max(self.most, sum(self.alive.values()))
        return result


def peak_of(run: Callable[[], object]) -> int:
    """The most bytes that a call holds at once."""
    gc.collect()
    with torch.no_grad(), Peak() as peak:
        result = run()
    del result
    return peak.most


@pytest.mark.parametrize("length", rest_is_slow([2, 12]))
def test_peak_memory_is_that_of_the_forward_by_hand(length):
    """A chain of modules holds two values at once however long it is, as a forward written by hand does."""
    layers = [nn.Linear(256, 256) for _ in range(length)]
    fields = [Chain.x, *[(Steps.s, Steps.t)[i % 2] for i in range(length - 1)], Chain.y]
    modules = [step(layer, fields[i], fields[i + 1], name=f"layer{i}", update=i > 1) for i, layer in enumerate(layers)]
    pipeline = TensorClassSequential(*modules, input=Chain)
    batch = Chain(torch.rand(512, 256))

    def by_hand() -> Tensor:
        x = batch.x
        for layer in layers:
            x = layer(x)
        return x

    pipeline(batch)
    expected = peak_of(by_hand)
    assert expected == 2 * 512 * 256 * 4 if length > 2 else expected
    assert peak_of(lambda: pipeline(batch)) <= expected
    inner = TensorClassSequential(pipeline, input=Chain)
    inner(batch)
    assert peak_of(lambda: inner(batch)) <= expected


def saved_bytes(run: Callable[[], Tensor]) -> int:
    """The bytes that autograd keeps for the backward pass, parameters included, each storage once."""
    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = run()
    result.sum()
    return sum(kept.values())


def test_checkpoint():
    """Gradients are those without, and the activations inside of the module are not kept."""
    torch.manual_seed(0)
    body = nn.Sequential(*(layer for _ in range(4) for layer in (nn.Linear(256, 256), nn.Tanh(), nn.Dropout(0.5))))
    calls: list[int] = []
    body[0].register_forward_hook(lambda *_: calls.append(1))
    plain, light = (
        TensorClassSequential(step(body, Chain.x, Chain.y, checkpoint=flag, name="body"), input=Chain, probe=False)
        for flag in (False, True)
    )
    batch = Chain(torch.rand(64, 256))
    gradients = []
    for pipeline in (plain, light):
        for _ in range(2):  # the first call is other code
            body.zero_grad()
            torch.manual_seed(1)
            calls.clear()
            pipeline(batch).y.square().sum().backward()
        gradients.append([parameter.grad.clone() for parameter in body.parameters()])
        assert len(calls) == (2 if pipeline is light else 1)
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))
    assert saved_bytes(lambda: light(batch).y) < saved_bytes(lambda: plain(batch).y) / 4
    with torch.no_grad():
        assert light(batch).y.shape == (64, 256)


def test_checkpoint_alone():
    """A module that is called alone is checkpointed too."""
    layer = nn.Linear(4, 4)
    module = step(layer, Wide.a, Sum.total, checkpoint=True)
    calls: list[int] = []
    layer.register_forward_pre_hook(lambda *_: calls.append(1))
    module._how.call(layer, [torch.rand(2, 4)]).sum().backward()
    assert calls == [1, 1]
    assert layer.weight.grad is not None
