"""The cost of a check follows the number of modules: calls are counted, not seconds."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tensorclass import TensorClass
from tensorclass.nn import TensorClassSequential
from tensorclass.typing import Float32
from tests.nn._pipelines import step


def _class(name: str, fields: list[str]) -> Any:
    annotations = dict.fromkeys(fields, Float32[Tensor, "d"])
    return type(name, (TensorClass,), {"__annotations__": annotations, "__module__": __name__})


def _chain(count: int) -> Any:
    names = [f"h{i}" for i in range(count + 1)]
    middle = _class("Middle", names)
    refs = [getattr(middle, name) for name in names]
    steps = [step(torch.relu, before, after) for before, after in itertools.pairwise(refs)]
    given, made = _class("Given", names[:1]), _class("Made", names[-1:])
    return TensorClassSequential(*steps, input=given, output=made, probe=False)


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


def test_check_explain_and_code_are_linear():
    """Twenty times the modules take twenty times the calls."""
    small, large = _chain(10), _chain(200)
    for run in (lambda p: p._declared(), lambda p: p.explain(), lambda p: p._generate(), lambda p: p.on(p.input_class)):
        few, many = _calls(lambda run=run: run(small)), _calls(lambda run=run: run(large))
        assert many < 21 * few
