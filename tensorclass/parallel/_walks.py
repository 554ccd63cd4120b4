"""Walks over the fields of a batch, with the placement of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..core import TensorCollection
from ._layout_rules import FieldPlace, Owner, Shards, below, require_whole, shards, specs_of
from ._layout_table import place_of

Turn = Callable[[FieldPlace, Tensor, Shards], Tensor]


def place_leaves(
    batch: Any,
    layout: Any,
    turn: Turn,
    rows: int | None = None,
    rest: Any = None,
    owners: tuple[Owner, ...] = (),
    path: str = "",
) -> Any:
    """A batch with the results of a function of the facts, tensor and placement of each field that is split.

    Args:
        rows: the size of the first batch dim of the result, if it changes.
        rest: the entries that are not split, if they change.
    """
    specs, entries = specs_of(type(batch)), {}
    for name, value in batch._entries().items():
        here = below(owners, type(batch), name)
        if isinstance(value, TensorCollection):
            inner = rest[name] if rest is not None and name in rest else None
            entries[name] = place_leaves(value, layout, turn, rows, inner, here, f"{path}{name}.")
            continue
        place = place_of(batch, name, value, here, path, specs.get(name))
        if place is None:
            require_whole(layout._rules, f"{path}{name}", here)
            entries[name] = rest._entries()[name] if rest is not None and name in rest else value
            continue
        leaf = value.tensor if place.shared else value
        made = turn(place, leaf, shards(layout._rules, place))
        entries[name] = type(value)(made) if place.shared else made
    size = batch._batch_size if rows is None else torch.Size((rows, *batch._batch_size[1:]))
    return type(batch)._from_entries(entries, size, batch._device, batch._names)
