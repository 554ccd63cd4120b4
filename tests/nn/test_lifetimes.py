"""Pipelines, and what is generated for them, go with their last user."""

from __future__ import annotations

import copy
import gc
import inspect
import io
import linecache
import pickle
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tensorclass import TensorClass, produced
from tensorclass.nn import (
    ProbabilisticTensorClassModule,
    ProbabilisticTensorClassSequential,
    TensorClassSequential,
    set_skip_existing,
)
from tensorclass.nn.typed._subsequence import _PICKED
from tensorclass.typing import Float32
from tests.nn._pipelines import step


class In(TensorClass):
    x: Float32[Tensor, "4"]


class Mid(TensorClass):
    loc: Float32[Tensor, "4"]
    scale: Float32[Tensor, "4"]


class Out(TensorClass):
    y: Float32[Tensor, "4"]
    more: Float32[Tensor, "4"] | None = None


class Cached(TensorClass):
    x: Float32[Tensor, "4"]
    y: Float32[Tensor, "4"] = produced()


def pipeline(probe: Any = True) -> Any:
    """Two modules, one of them a function, one output that may be absent."""
    modules = step(nn.Linear(4, 4), In.x, Mid.loc), step(nn.Linear(4, 4), Mid.loc, Out.y)
    return TensorClassSequential(*modules, step(lambda y: y + 1, Out.y, Out.more), input=In, output=Out, probe=probe)


def policy() -> Any:
    """A pipeline that draws."""
    draw = ProbabilisticTensorClassModule((Mid.loc, Mid.scale), Out.y, distribution_class=torch.distributions.Normal)
    modules = step(nn.Linear(4, 4), In.x, Mid.loc), step(lambda loc: loc.exp(), Mid.loc, Mid.scale), draw
    return ProbabilisticTensorClassSequential(*modules, input=In, output=Out)


def batch() -> In:
    """Two elements."""
    return In(torch.ones(2, 4))


def used(built: Any, *uses: Callable[[Any], object]) -> Any:
    """The pipeline after some uses of it."""
    for use in uses:
        use(built)
    return built


def skipped() -> Any:
    """A pipeline with a program for each mode of skipping."""
    built = TensorClassSequential(step(nn.Linear(4, 4), Cached.x, Cached.y), input=Cached)
    state = built(Cached(torch.ones(2, 4)))
    with set_skip_existing():
        built(state)
    with set_skip_existing(["y"]):
        built(state)
    return built


def failed(built: Any) -> None:
    """An error inside of a module, and one of the input."""
    with pytest.raises(TypeError):
        built(Out(torch.ones(2, 4)))
    built[0].module.weight.data = torch.ones(3, 3)
    with pytest.raises(RuntimeError):
        built(batch())


def compiled(built: Any) -> Any:
    """Compiled by dynamo, with the code run as it is."""
    torch.compile(built, backend="eager", fullgraph=True)(batch())
    return built


def saved(built: Any) -> Any:
    """Written and read."""
    return pickle.loads(pickle.dumps(built))


def stored(built: Any) -> Any:
    """Its parameters written and read."""
    file = io.BytesIO()
    torch.save(built.state_dict(), file)
    file.seek(0)
    built.load_state_dict(torch.load(file))
    return built


def call(built: Any) -> object:
    """One call."""
    return built(batch())


PIPELINES: dict[str, Callable[[], Any]] = {
    "built": pipeline,
    "built without probe": lambda: pipeline(False),
    "built on real values": lambda: pipeline("run"),
    "called": lambda: used(pipeline(), call, call),
    "failed": lambda: used(pipeline(False), failed),
    "checked": lambda: used(pipeline(), lambda p: p.check(), lambda p: p.check(values=True)),
    "explained": lambda: used(pipeline(), lambda p: p.explain(), lambda p: p.graph("html"), repr),
    "copied": lambda: used(copy.deepcopy(pipeline()), call),
    "copied twice": lambda: copy.copy(pipeline()),
    "slice": lambda: used(pipeline()[:1], call),
    "part": lambda: used(pipeline().select_subsequence(out_fields=Out.y), call),
    "selected": lambda: used(pipeline().select_out_fields(Mid.loc), call, lambda p: p.reset_out_fields(), call),
    "nested": lambda: used(TensorClassSequential(pipeline(), input=In, output=Out), call),
    "skipping": skipped,
    "stored": lambda: used(pipeline(), stored, call),
    "policy": lambda: used(policy(), call, lambda p: p.get_dist(batch()), lambda p: p.log_prob(batch(), p(batch()))),
}


@contextmanager
def without_collector() -> Iterator[None]:
    """What goes in here goes because nobody holds it, not because the collector came by."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.parametrize("make", PIPELINES.values(), ids=PIPELINES)
def test_pipelines_are_let_go_at_once(make: Callable[[], Any]) -> None:
    """A pipeline and its parameters go with the last reference: nothing waits for the collector."""
    make()  # what is imported or made for all pipelines is there
    with without_collector():
        built = make()
        refs = [weakref.ref(built), weakref.ref(built._program.run), *map(weakref.ref, built.parameters())]
        assert all(ref() is not None for ref in refs)
        del built
        assert [ref() for ref in refs] == [None] * len(refs)


@pytest.mark.parametrize("make", [lambda: compiled(pipeline()), lambda: saved(importable())], ids=["compiled", "saved"])
def test_pipelines_are_let_go(make: Callable[[], Any]) -> None:
    """A compiled pipeline goes too, though dynamo has seen it; so does one that was read."""
    ref = weakref.ref(make())
    gc.collect()
    assert ref() is None


def importable() -> Any:
    """A pipeline that pickles: no local functions."""
    return TensorClassSequential(step(nn.Linear(4, 4), In.x, Out.y), input=In, output=Out)


def test_nothing_grows() -> None:
    """Many pipelines leave neither modules, nor source, nor classes behind."""

    def sizes() -> tuple[int, ...]:
        gc.collect()
        return len(sys.modules), len(linecache.cache), len(_PICKED)

    for make in PIPELINES.values():
        make()
    before = sizes()
    for _ in range(3):
        for make in PIPELINES.values():
            make()
    assert sizes() == before


def test_generated_source_is_shown_while_there_is_code() -> None:
    """`inspect.getsource` and a traceback show the forward, and the text goes with it."""
    built = pipeline()
    run = built._program.run
    name = run.__code__.co_filename
    assert inspect.getsource(run).strip().startswith("def forward(self, batch):")
    assert "Out" in name
    assert run.__module__ in sys.modules
    assert all(built._program.calls[line].values for line in built._program.calls)
    shown = linecache.getlines(name)
    assert all("v" in shown[line - 1] for line in built._program.calls)
    del built, run
    gc.collect()
    assert linecache.getlines(name) == []


def test_picked_classes_are_let_go() -> None:
    """The class of some fields goes with the part that takes or returns it; parts of one kind share it."""
    built = pipeline()
    first, second = built[:1], built[:1]
    assert first.output_class is second.output_class
    ref = weakref.ref(first.output_class)
    del first
    gc.collect()
    assert ref() is not None
    del second
    gc.collect()
    assert ref() is None


def test_a_pipeline_over_local_classes() -> None:
    """Classes, pipeline and functions of a function go together, in any order."""

    def make() -> tuple[weakref.ref[Any], ...]:
        class Local(TensorClass):
            x: Float32[Tensor, "4"]

        class Result(TensorClass):
            y: Float32[Tensor, "4"]
            z: Float32[Tensor, "4"]

        scale = nn.Parameter(torch.ones(4))
        first, second = step(lambda x: x * scale, Local.x, Result.y), step(nn.Linear(4, 4), Result.y, Result.z)
        built = TensorClassSequential(first, second, input=Local, output=Result)
        part = built[:1]
        part(Local(torch.ones(2, 4)))
        found = Local, Result, built, part, part.output_class, scale
        return tuple(weakref.ref(value) for value in found)

    refs = make()
    gc.collect()
    assert [ref() for ref in refs] == [None] * len(refs)
