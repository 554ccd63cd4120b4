"""The data of the rows on building pipelines: 50 Linear layers, and the modules that wrap them."""

from __future__ import annotations

from typing import Any

import tensordict.nn
from torch import Tensor, nn

from tensorclass import TensorClass
from tensorclass.nn import TensorClassModule, TensorClassSequential
from tensorclass.typing import Float32

from ._row import Candidate

BUILDS = {"50 modules": 50}
WIDTH = 16


def build(candidate: Candidate, sample: str) -> dict[str, Any]:
    """What a statement may mention: layers; modules and Sequential of the library; Start and End, the classes."""
    count = BUILDS[sample]
    layers = [nn.Linear(WIDTH, WIDTH) for _ in range(count)]
    if candidate == "anchor_dict":
        keyed: list[Any] = [tensordict.nn.TensorDictModule(m, [f"h{i}"], [f"h{i + 1}"]) for i, m in enumerate(layers)]
        return {"modules": keyed, "Sequential": tensordict.nn.TensorDictSequential}
    state = _class("State", range(count + 1))
    modules = [TensorClassModule(m, getattr(state, f"h{i}"), getattr(state, f"h{i + 1}")) for i, m in enumerate(layers)]
    ends = {"Start": _class("Start", [0]), "End": _class("End", [count])}
    return {"nn": nn, "layers": layers, "modules": modules, "Sequential": TensorClassSequential, **ends}


def _class(name: str, numbers: Any) -> Any:
    fields = {f"h{i}": Float32[Tensor, str(WIDTH)] for i in numbers}  # type: ignore[type-arg]  # a dims text made here
    return type(name, (TensorClass,), {"__annotations__": fields, "__module__": __name__})
