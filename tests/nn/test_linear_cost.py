"""The cost of a check follows the number of modules: calls are counted, not seconds."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tensorclass import TensorClass
from tensorclass.nn import TensorClassSequential
from tensorclass.typing import Float32
from tests.nn._pipelines import step

DIMS: dict[str, Callable[[int], str]] = {
    "one name": lambda i: "d",
    "numbers": lambda i: "8",
    "sizes that shrink": lambda i: f"n-{i}" if i else "n",
    "equations that wait": lambda i: ("a b", "a*b")[i % 2],
    "open shapes": lambda i: "... d",
}


def _class(name: str, fields: dict[str, str]) -> Any:
    annotations = {key: Float32[Tensor, dims] for key, dims in fields.items()}
    return type(name, (TensorClass,), {"__annotations__": annotations, "__module__": __name__})


def _parts(count: int, dims: Callable[[int], str]) -> tuple[list[Any], dict[str, Any]]:
    fields = {f"h{i}": dims(i) for i in range(count + 1)}
    middle = _class("Middle", fields)
    refs = [getattr(middle, name) for name in fields]
    called = nn.Linear(8, 8) if dims(0) == "8" else torch.relu
    steps = [step(called, before, after) for before, after in itertools.pairwise(refs)]
    (first, *_, last) = fields.items()
    return steps, {"input": _class("Given", dict([first])), "output": _class("Made", dict([last])), "probe": False}


def _chain(count: int, dims: Callable[[int], str]) -> Any:
    steps, options = _parts(count, dims)
    return TensorClassSequential(*steps, **options)


def _calls(run: Callable[[], object]) -> int:
    """Calls of functions, Python's own and those of C."""
    found = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal found
        found += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        run()
    finally:
        sys.setprofile(None)
    return found


@pytest.mark.filterwarnings("ignore:.*W203")
@pytest.mark.parametrize("dims", DIMS)
def test_check_explain_and_code_are_linear(dims):
    """Twenty times the modules take twenty times the calls."""
    small, large = _chain(10, DIMS[dims]), _chain(200, DIMS[dims])
    for run in (lambda p: p._declared(), lambda p: p.explain(), lambda p: p._generate(), lambda p: p.on(p.input_class)):
        few, many = _calls(lambda run=run: run(small)), _calls(lambda run=run: run(large))
        assert many < 21 * few


def test_sorting_is_linear():
    """Modules that are listed in reverse."""
    counts = []
    for count in (10, 200):
        steps, options = _parts(count, DIMS["one name"])
        counts.append(_calls(lambda s=steps, o=options: TensorClassSequential(*s[::-1], **o, sort=True)))
    assert counts[1] < 21 * counts[0]
