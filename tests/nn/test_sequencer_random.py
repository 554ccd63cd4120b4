"""Random graphs of modules beside an interpreter: order, parts, nesting, skipping and explaining agree with it."""

from __future__ import annotations

import random
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import TensorClass
from tensorclass.nn import TensorClassSequential
from tensorclass.typing import Float64
from tests.nn._pipelines import step


class Start(TensorClass):
    a: Float64[Tensor, "3"]
    b: Float64[Tensor, "3"]


class Middle(TensorClass):
    f0: Float64[Tensor, "3"]
    f1: Float64[Tensor, "3"]
    f2: Float64[Tensor, "3"]
    f3: Float64[Tensor, "3"]
    f4: Float64[Tensor, "3"]
    f5: Float64[Tensor, "3"]
    f6: Float64[Tensor, "3"]
    f7: Float64[Tensor, "3"]


class End(TensorClass):
    y: Float64[Tensor, "3"]
    z: Float64[Tensor, "3"]


REFS = {ref: getattr(cls, ref) for cls in (Start, Middle, End) for ref in cls.__tensorclass_schema__.fields}


def mix(factor: float, *values: Tensor) -> Tensor:
    """A function in which every argument and its place count."""
    return sum(((n + 2) * value.sin() for n, value in enumerate(values)), torch.zeros(())) * factor


class Graph:
    """A random graph: for each module the fields that it reads and the one that it writes."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        known = ["a", "b"]
        self.wires: list[tuple[tuple[str, ...], str, float]] = []
        count = self.rng.randint(1, 8)
        for target in [*(f"f{i}" for i in range(count)), "y", "z"]:
            reads = tuple(self.rng.sample(known, self.rng.randint(1, min(3, len(known)))))
            self.wires.append((reads, target, 1 + self.rng.random()))
            known.append(target)

    def modules(self) -> list[Any]:
        """The modules in an order in which they run."""
        return [
            step(lambda *v, f=factor: mix(f, *v), [REFS[r] for r in reads], REFS[target], name=f"make_{target}")
            for reads, target, factor in self.wires
        ]

    def values(self, batch: Start) -> dict[str, Tensor]:
        """Every field, by an interpreter of the wires."""
        found = {"a": batch.a, "b": batch.b}
        for reads, target, factor in self.wires:
            found[target] = mix(factor, *(found[r] for r in reads))
        return found

    def pipeline(self, modules: list[Any], **options: Any) -> TensorClassSequential[Any, Any]:
        """A pipeline of the modules; fields that nothing reads are no news here."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return TensorClassSequential(*modules, input=Start, output=End, probe=False, **options)


def start() -> Start:
    """A batch of the input."""
    return Start(torch.rand(2, 3, dtype=torch.float64), torch.rand(2, 3, dtype=torch.float64))


def agrees(result: Any, expected: dict[str, Tensor]) -> bool:
    """Whether every field of a result has the value of the interpreter."""
    return all(torch.equal(value, expected[name]) for name, value in result.items())


@pytest.mark.parametrize("seed", range(25))
def test_any_order(seed):
    """Shuffled modules are sorted into an order that gives the same values."""
    graph, batch = Graph(seed), start()
    modules = graph.modules()
    graph.rng.shuffle(modules)
    result = graph.pipeline(modules, sort=True)(batch)
    assert agrees(result, graph.values(batch))
    assert sorted(result.keys()) == ["y", "z"]


@pytest.mark.parametrize("seed", range(25))
def test_every_cut(seed):
    """Both parts of every cut, one after the other, are the pipeline."""
    graph, batch = Graph(seed), start()
    pipeline = graph.pipeline(graph.modules())
    expected = graph.values(batch)
    for cut in range(1, len(pipeline)):
        middle = pipeline[:cut](batch)
        assert agrees(middle, expected)
        result = pipeline[cut:](middle)
        assert type(result) is End
        assert agrees(result, expected)


@pytest.mark.parametrize("seed", range(25))
def test_every_field_as_the_end(seed):
    """The modules that a field depends on give its value, and leaving one out is no pipeline."""
    graph, batch = Graph(seed), start()
    pipeline, expected = graph.pipeline(graph.modules()), graph.values(batch)
    wires = {target: set(reads) for reads, target, _ in graph.wires}
    for target in wires:
        part = pipeline.select_subsequence(out_fields=REFS[target])
        wanted, todo = set[str](), [target]
        while todo:
            name = todo.pop()
            if name in wires and name not in wanted:
                wanted.add(name)
                todo += wires[name]
        assert {stage.name for stage in part._stages} == {f"make_{name}" for name in wanted}
        assert agrees(part(batch), expected)
        assert agrees(pipeline.select_out_fields(REFS[target])(batch), expected)
        pipeline.reset_out_fields()


@pytest.mark.parametrize("seed", range(25))
def test_every_field_as_the_start(seed):
    """From some fields alone, exactly the modules run whose values follow from them."""
    graph, batch = Graph(seed), start()
    pipeline, expected = graph.pipeline(graph.modules()), graph.values(batch)
    given = graph.rng.sample(sorted(expected.keys() - {"y", "z"}), 2)
    reached = set(given)
    names = []
    for reads, target, _ in graph.wires:
        if reached.issuperset(reads):
            reached.add(target)
            names.append(f"make_{target}")
    if not names:
        return
    part = pipeline.select_subsequence(in_fields=[REFS[name] for name in given])
    assert [stage.name for stage in part._stages] == names
    fields = part.input_class.__tensorclass_schema__.fields
    assert agrees(part(part.input_class(**{name: expected[name] for name in fields})), expected)


@pytest.mark.parametrize("seed", range(25))
def test_nested_anywhere(seed):
    """A row of modules as a pipeline of its own, inside of the rest, gives the same values."""
    graph, batch = Graph(seed), start()
    pipeline = graph.pipeline(graph.modules())
    first = graph.rng.randrange(len(pipeline))
    last = graph.rng.randrange(first + 1, len(pipeline) + 1)
    inner = pipeline[first:last]
    outer = graph.pipeline([*list(pipeline)[:first], inner, *list(pipeline)[last:]])
    assert len(outer) == len(pipeline) - (last - first) + 1
    assert agrees(outer(batch), graph.values(batch))


@pytest.mark.parametrize("seed", range(25))
def test_explained_values(seed):
    """What is held after each module is what a later module or the output still needs."""
    graph = Graph(seed)
    steps = graph.pipeline(graph.modules()).explain(2).steps
    for number, found in enumerate(steps):
        made = {"a", "b", *(target for _, target, _ in graph.wires[:number])}
        needed = {"y", "z", *(name for reads, _, _ in graph.wires[number:] for name in reads)}
        assert {value.name for value in found.held} == made & needed
        assert found.nbytes == len(made & needed) * 2 * 3 * 8
