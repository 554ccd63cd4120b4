"""The data of the rows: the same tensors as a dict, in the anchor's containers and in ours."""

from __future__ import annotations

import pickle
import types
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import tensordict
import tensordict.nn
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

import tensorclass
import tensorclass.nn
import tensorclass.typing

from . import _trees
from ._json import Json
from ._row import Candidate

EVENT = 5
NESTED = "d"

Batch = tuple[int, ...]
Decorator = Callable[[type], Any]


@dataclass(frozen=True)
class Sample:
    """The shape of the data: tensor fields of each level, batch size, levels below the first, and what else there is.

    text: a str field; raw code that computes holds it apart. optional: a field that is absent. other: the last field
    holds integers, and the one before is declared as any tensor.
    """

    fields: int
    batch: Batch = (3, 4)
    depth: int = 0
    text: bool = False
    optional: bool = False
    other: bool = False


TEXT = "source"
SAMPLES = {
    "2": Sample(2),
    "8": Sample(8),
    "50": Sample(50),
    "nested": Sample(4, depth=1),
    "with a str": Sample(2, text=True, optional=True),
    "8 + str": Sample(8, text=True),
    "8 + optional": Sample(8, optional=True),
    "8, some other": Sample(8, other=True),
    "8, batch ()": Sample(8, batch=()),
    "1000 rows": Sample(4, batch=(1000,)),
    "1000 rows of 8": Sample(8, batch=(1000,)),
    "5 levels": Sample(2, depth=4),
}


def tensors(sample: Sample, seed: int) -> dict[str, Any]:
    """Nested dict of float32 tensors of shape batch + (5,)."""
    generator = torch.Generator().manual_seed(seed)

    def level(depth: int) -> dict[str, Any]:
        shape = (*sample.batch, EVENT)
        data: dict[str, Any] = {f"f{i}": torch.rand(shape, generator=generator) for i in range(sample.fields)}
        if sample.other:
            data[f"f{sample.fields - 1}"] = torch.randint(100, shape, generator=generator)
        return data | {NESTED: level(depth - 1)} if depth else data

    return level(sample.depth) | ({TEXT: "scan"} if sample.text else {})


def declare(decorator: Decorator, annotations: dict[str, Any], defaults: dict[str, object] | None = None) -> Any:
    """A class as a user writes it: annotations, defaults, a decorator."""
    body = {"__annotations__": annotations, "__module__": __name__, **(defaults or {})}
    return decorator(types.new_class("Batch", (), {}, lambda namespace: namespace.update(body)))


def classes_of(decorator: Decorator, tensor: Any, sample: Sample, others: tuple[Any, ...] = ()) -> list[Any]:
    """The class of a sample and those of its nested fields, from the outside in; `others` are its last fields."""
    annotations = {f"f{i}": tensor for i in range(sample.fields)}
    annotations |= {f"f{sample.fields - i}": other for i, other in enumerate(others, 1)}
    classes: list[Any] = []
    for _ in range(sample.depth):
        classes = [declare(decorator, annotations | dict(zip([NESTED], classes, strict=False))), *classes]
    annotations |= dict(zip([NESTED], classes, strict=False))
    if sample.text:
        annotations |= {TEXT: str}
    if sample.optional:
        annotations |= {"extra": tensor | None}
    return [declare(decorator, annotations, {"extra": None} if sample.optional else None), *classes]


@cache
def anchor_classes(sample: Sample) -> list[Any]:
    """The anchor's typed classes, from the outside in."""
    return classes_of(tensordict.tensorclass, Tensor, sample)


@cache
def our_classes(sample: Sample, family: bool = False) -> list[Any]:
    """Our typed classes, from the outside in: float32 declared exactly, or any floating dtype."""
    dtype: Any = tensorclass.typing.Float if family else tensorclass.typing.Float32
    others = (tensorclass.typing.Int64[Tensor, str(EVENT)], Tensor) if sample.other else ()
    return classes_of(tensorclass.tensorclass, dtype[Tensor, str(EVENT)], sample, others)


def typed(classes: list[Any], data: dict[str, Any], batch: Batch) -> Any:
    """An instance of a typed class around a nested dict."""
    wrapped = {k: typed(classes[1:], v, batch) if isinstance(v, dict) else v for k, v in data.items()}
    return classes[0](**wrapped, batch_size=batch)


def container(
    candidate: Candidate, sample: Sample, data: dict[str, Any], *, batch: Batch | None = None, family: bool = False
) -> Any:
    """The data as a candidate holds it; the batch size is that of the sample unless given."""
    data, batch = _trees.copy(data), sample.batch if batch is None else batch
    if candidate == "raw":
        return {key: value for key, value in data.items() if sample.optional or key != TEXT}
    if candidate == "anchor_class":
        return typed(anchor_classes(sample), data, batch)
    if candidate == "our_class":
        return typed(our_classes(sample, family), data, batch)
    return (tensordict if candidate == "anchor_dict" else tensorclass).TensorDict(data, batch_size=batch)


def names(candidate: Candidate, sample: Sample) -> dict[str, Any]:
    """What a statement may mention; built anew for each cell, because statements write.

    x, y, z: three batches; first: y[0]; twin: equal to x in other storage; w: x declared by dtype family;
    json: x for pydantic; pair: the first two rows of y; samples: 32 batches of one to three rows;
    rows: x, y, z, or the rows of x where it has many; mask, index: tensor indices; t0, t1, ...: tensors of one field;
    lazy, others, stacked, plain, state, states: see `_store`.
    """
    x, y, z = (tensors(sample, seed) for seed in range(3))
    made = {k: container(candidate, sample, v) for k, v in {"x": x, "y": y, "z": z}.items()}
    made["twin"] = container(candidate, sample, _trees.cloned(x))
    made["w"] = container(candidate, sample, x, family=True)
    if sample.batch:
        made["first"] = container(candidate, sample, _trees.row(y, 0), batch=sample.batch[1:])
        made["pair"] = _first_rows(candidate, sample, y, 2)
    if sample == SAMPLES["8"]:
        made["samples"] = [_first_rows(candidate, sample, y, 1 + i % 3) for i in range(32)]
    if candidate == "raw" and sample.depth == 1:
        levels = {f"{k}_outer": _trees.outer(v) for k, v in made.items()}
        made |= levels | {f"{k}_inner": v[NESTED] for k, v in made.items()}
    if sample.depth > 1 and not candidate.endswith("class"):
        made["flat"] = container(candidate, sample, _trees.flatten(x))
    if candidate in ("raw", "our_class"):
        made["json"] = Json(made["x"], len(sample.batch) + 1)
    values = {f"t{i}": value for i, value in enumerate(v for v in y.values() if isinstance(v, Tensor))}
    made |= values | _rows(made, sample) | _indices(sample) | _api(candidate, sample)
    return made | _store(candidate, made, x)


def _first_rows(candidate: Candidate, sample: Sample, data: dict[str, Any], count: int) -> Any:
    return container(candidate, sample, _trees.row(data, slice(count)), batch=(count, *sample.batch[1:]))


def _store(candidate: Candidate, made: dict[str, Any], x: dict[str, Any]) -> dict[str, Any]:
    """Lazy stacks of the rows and of copies of y, an entry of the first stacked, a plain dict like x, and states."""
    found: dict[str, Any] = {"plain": x, "pad_tensors": pad_sequence}
    if "rows" in made and "f0" in x:
        found["stacked"] = torch.stack([row["f0"] if candidate == "raw" else row.get("f0") for row in made["rows"]])
    if candidate in ("anchor_dict", "our_dict"):
        stack = (tensordict if candidate == "anchor_dict" else tensorclass).lazy_stack
        found |= {"lazy_stack": stack, "lazy": stack(made["rows"]), "state": made["y"].state_dict()}
        found["pad_sequence"] = (tensordict if candidate == "anchor_dict" else tensorclass).pad_sequence
        found["others"] = stack([made["y"].clone() for _ in made["rows"]])
        found["states"] = found["others"].state_dict()
    return found


def _rows(made: dict[str, Any], sample: Sample) -> dict[str, Any]:
    if sample.batch == (1000,):
        x = made["x"]
        return {"rows": [_trees.row(x, i) if isinstance(x, dict) else x[i] for i in range(1000)]}
    levels = ("", "_outer", "_inner") if "x_outer" in made else ("",)
    return {f"rows{level}": [made[f"{k}{level}"] for k in "xyz"] for level in levels}


def _indices(sample: Sample) -> dict[str, Any]:
    mask = torch.arange(12).reshape(3, 4) % 3 != 0
    return {"mask": mask, "index": torch.tensor([0, 2]), "cpu": torch.device("cpu"), "batch": list(sample.batch)}


def _api(candidate: Candidate, sample: Sample) -> dict[str, Any]:
    api: dict[str, Any] = {"torch": torch, "trees": _trees, "pickle": pickle}
    if candidate in ("anchor_class", "our_class"):
        classes = anchor_classes(sample) if candidate == "anchor_class" else our_classes(sample)
        api |= {"Batch": classes[0], **{f"Inner{i}": inner for i, inner in enumerate(classes[1:])}}
    if candidate in ("anchor_dict", "our_dict"):
        library = tensordict if candidate == "anchor_dict" else tensorclass
        api |= {"TensorDict": library.TensorDict, "kind": library.nn.set_interaction_type}
    if candidate in ("our_class", "our_dict"):
        api |= {"equal": tensorclass.equal, "stack": tensorclass.stack, "cat": tensorclass.cat}
    return api | _declaration(candidate, sample)


def _declaration(candidate: Candidate, sample: Sample) -> dict[str, Any]:
    """What the rows of class creation use; a dataclass is the floor."""
    decorators: dict[Candidate, tuple[Decorator, Any]] = {
        "raw": (dataclass, Tensor),
        "anchor_class": (tensordict.tensorclass, Tensor),
        "our_class": (tensorclass.tensorclass, tensorclass.typing.Float32[Tensor, str(EVENT)]),
    }
    decorator, tensor = decorators.get(candidate, (None, None))
    annotations = {f"f{i}": tensor for i in range(sample.fields)}
    return {"declare": declare, "decorator": decorator, "annotations": annotations}
