"""Joins instances of one class. The `join` policy of a field decides about values that differ or are absent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .._schema import FieldSpec
from ..core import Entry, Names
from ..errors import StructureError
from ..ops import Join
from ..ops._compare import same_object
from ..store.entries._agreement import require_agreement


def join(cls: Any, items: Sequence[Any], dim: int, size: torch.Size, names: Names, how: Join) -> Any:
    """Join instances field by field, in the order of the declaration; lazy stacks are joined member by member."""
    stores = [item._store for item in items]
    if all([store._stacked for store in stores]):
        joined = type(stores[0])._join([item._store for item in items], dim, size, names, how)
        return cls._wrap(joined)
    entries = [item._live() for item in items]
    how.sizes, how.cls = [item._batch_size for item in items], cls
    data: dict[str, Any] = {}
    for name, spec in cls.__tensorclass_schema__.fields.items():
        try:
            values = [entry[name] for entry in entries]
        except KeyError:
            values = _fill_absent(spec, [entry.get(name) for entry in entries], how)
            if not values:
                continue
        if spec.join == "pad":
            values = _pad(spec, values, how)
        same = spec.join == "same" and not (spec.kind.is_value and isinstance(values[0], Tensor))  # a comparison
        data[name] = _same(spec, values, how) if same else how.entry(name, values, dim)
    if cls.__tensorclass__.lengths:  # padding may break the agreement with declared lengths
        require_agreement(cls.__name__, cls.__tensorclass_schema__, data, size)
    return cls._from_entries(data, size, items[0]._device, names)


def _fill_absent(spec: FieldSpec, values: list[Any], how: Join) -> list[Any]:
    """Values of an optional field that is None in some instances. None in all stays None; `fill` fills; else raise."""
    present = [position for position, value in enumerate(values) if value is not None]
    if not present:
        return []
    absent = next(position for position, value in enumerate(values) if value is None)
    if spec.join != "fill":
        what = "not produced yet" if spec.produced else "None"
        raise StructureError(
            f"{how.op}: field `{how.at(spec.name)}` is set at position {present[0]} and {what} at position {absent}; "
            'give all or none, or declare `field(join="fill")` to fill what is absent'
        )
    model = values[present[0]]
    if not isinstance(model, Tensor):
        return [model if value is None else value for value in values]
    event = model.shape[len(how.sizes[present[0]]) :]
    return [
        model.new_full((*size, *event), spec.fill) if value is None else value
        for value, size in zip(values, how.sizes, strict=True)
    ]


def _pad(spec: FieldSpec, values: list[Any], how: Join) -> list[Any]:
    """Pad tensors of equal rank to the largest event dims, if the event dims differ."""
    events = [value.shape[len(size) :] for value, size in zip(values, how.sizes, strict=True)]
    if len({len(event) for event in events}) > 1 or all([event == events[0] for event in events]):
        return values
    longest = [max(sizes) for sizes in zip(*events, strict=True)]
    return [
        value if list(event) == longest else _pad_to(value, [*size, *longest], spec.fill)
        for value, event, size in zip(values, events, how.sizes, strict=True)
    ]


def _pad_to(value: Tensor, shape: list[int], fill: Any) -> Tensor:
    result = value.new_full(shape, fill)
    result[tuple(map(slice, value.shape))] = value
    return result


def _same(spec: FieldSpec, values: list[Any], how: Join) -> Any:
    """One value for all: they must be equal."""
    first = values[0]
    for value in values:
        if isinstance(first, Entry):
            return type(first)._join_nodes(values, 0, how, spec.name)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]  # nodes have it
        if not same_object(value, first):
            raise (
                how.different_objects(spec.name, values)
                if not isinstance(first, Tensor)
                else StructureError(
                    f'{how.op}: field `{how.at(spec.name)}` is declared join="same" and the tensors differ'
                )
            )
    return first
