"""Random pipelines beside an interpreter over a plain dict: same values, same verdict on every order of the modules."""

from __future__ import annotations

import warnings

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tensorclass import TensorClass
from tensorclass.errors import BuildError
from tensorclass.nn import PipelineWarning, TensorClassModule, TensorClassSequential
from tensorclass.typing import Float32


def declare(name: str, fields: list[str]) -> type[TensorClass]:
    """A class of vectors with these fields."""
    return type(
        name, (TensorClass,), {"__annotations__": dict.fromkeys(fields, Float32[Tensor, "3"]), "__module__": __name__}
    )


NAMES = [f"f{i}" for i in range(12)]
ALL = declare("All", NAMES)
INPUTS = NAMES[:3]
INPUT = declare("Input", INPUTS)


def function(weights: list[int], outputs: int):
    """A weighted sum of its arguments, in as many variants as there are outputs."""

    def run(*values: Tensor):
        total = sum((w * v for w, v in zip(weights, values, strict=True)), torch.zeros(3))
        results = tuple(total + i for i in range(outputs))
        return results if outputs > 1 else results[0]

    return run


@st.composite
def plans(draw):
    """Modules that each read what is there and write one or two new fields, and what the output keeps."""
    available, unwritten, plan = list(INPUTS), NAMES[3:], []
    for _ in range(draw(st.integers(1, 5))):
        reads = draw(st.lists(st.sampled_from(available), min_size=1, max_size=3))
        writes, unwritten = unwritten[: (n := draw(st.integers(1, 2)))], unwritten[n:]
        if not writes:
            break
        weights = draw(st.lists(st.integers(-2, 2), min_size=len(reads), max_size=len(reads)))
        plan.append((reads, writes, function(weights, len(writes))))
        available += writes
    return plan, draw(st.lists(st.sampled_from(available), min_size=1, unique=True))


def build(plan, output):
    """The plan as a pipeline; unused writes are part of the game."""
    modules = [
        TensorClassModule(f, [getattr(ALL, r) for r in reads], [getattr(ALL, w) for w in writes])
        for reads, writes, f in plan
    ]
    return TensorClassSequential(*modules, input=INPUT, output=declare("Output", output))


def interpret(plan, values: dict[str, Tensor]) -> dict[str, Tensor]:
    """What the modules do to a dict."""
    state = dict(values)
    for reads, writes, f in plan:
        result = f(*(state[name] for name in reads))
        state.update(zip(writes, result if len(writes) > 1 else (result,), strict=True))
    return state


@given(plans())
def test_same_values_as_an_interpreter(case):
    """First and later calls give what a dict would hold, and leave the input alone."""
    plan, output = case
    with torch.no_grad():
        values = {name: torch.randn(2, 3) for name in INPUTS}
        kept = {name: value.clone() for name, value in values.items()}
        pipeline, batch = ignoring_warnings(build, plan, output), INPUT(**values)
        expected = interpret(plan, values)
        for _ in range(2):
            result = pipeline(batch)
            assert all(torch.equal(result.get(name), expected[name]) for name in output)
    assert all(torch.equal(batch.get(name), kept[name]) for name in INPUTS)


@given(plans(), st.randoms())
def test_order_is_judged_as_by_running_it(case, random):
    """A shuffled plan is accepted exactly when a dict would have every value in time."""
    plan, output = case
    random.shuffle(plan)
    try:
        interpret(plan, {name: torch.zeros(2, 3) for name in INPUTS})
        runs = True
    except KeyError:
        runs = False
    assert errors_of(plan, output) == (set() if runs else {"E101"})


def errors_of(plan, output) -> set[str]:
    """The codes of the errors that the build check reports."""
    try:
        ignoring_warnings(build, plan, output)
    except BuildError as error:
        return {d.code for d in error.diagnostics if d.severity == "error"}
    return set()


def ignoring_warnings(call, *args):
    """Call with unused writes allowed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PipelineWarning)
        return call(*args)
