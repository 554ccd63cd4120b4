"""Quick tests whether a tensor fits a field. A tensor that fails is checked in full, for the message.

They are written in terms that dynamo can trace, so that the first write to a field, such as a produced one, compiles.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .._schema import FieldSpec, Schema

Fits = Callable[[torch.Size, dict[str, Any], Tensor], bool]
Rule = tuple[int, int | None, tuple[tuple[str, int], ...]]
"""An event dim: its position, its declared size or None, and the dims of other fields that it must equal."""


class DimTable:
    """The positions of the named dims of a class, and the names that need the full check."""

    def __init__(self, schema: Schema) -> None:
        self.places: dict[str, list[tuple[str, int]]] = {}
        self.opaque: set[str] = set()
        for spec in schema.fields.values():
            self._read(spec)

    def _read(self, spec: FieldSpec) -> None:
        dims = spec.dims
        if dims is None or dims.literal is not None:
            return
        for position, token in enumerate(map(str, dims.tokens)):
            if spec.kind.is_batched and dims.rank is not None and token.isidentifier():
                self.places.setdefault(token, []).append((spec.name, position - dims.rank))
            elif not token.isdecimal():
                self.opaque.update(dims.names)

    def rules(self, spec: FieldSpec) -> tuple[Rule, ...] | None:
        """The rules for the event dims of a field; None if only the full check can decide."""
        dims, found = spec.dims, []
        if dims is not None and dims.literal is not None:
            return tuple([(position, length, ()) for position, length in enumerate(dims.literal)])
        for position, token in enumerate(map(str, dims.tokens) if dims is not None else ()):
            if token == "_":
                continue
            others = tuple(place for place in self.places.get(token, ()) if place[0] != spec.name)
            own = len(self.places.get(token, ())) - len(others)
            if not token.isdecimal() and (token in self.opaque or own != 1):
                return None
            found.append((position, int(token) if token.isdecimal() else None, others))
        return tuple(found)


def make_fits(spec: FieldSpec, table: DimTable) -> Fits | None:
    """Make the quick test of a field, from batch size, entries and value; None if there is none."""
    if not spec.kind.is_batched or spec.spec is None or (spec.dims is not None and spec.dims.rank is None):
        return None
    rules, family = table.rules(spec), spec.spec.dtype
    if rules is None:
        return None
    rank = None if spec.dims is None else spec.dims.rank
    exact, dtypes = family.exact, family.dtypes

    def fits(size: torch.Size, data: dict[str, Any], value: Tensor) -> bool:
        shape, count = value.shape, len(size)
        if (exact is not None and value.dtype is not exact) or (dtypes is not None and value.dtype not in dtypes):
            return False
        if shape[:count] != size or (rank is not None and len(shape) != count + rank):
            return False
        for position, length, others in rules:
            given = shape[count + position]
            if length is not None and given != length:
                return False
            for name, at in others:
                other = data.get(name)
                if other is not None and other.shape[at] != given:
                    return False
        return True

    return fits
