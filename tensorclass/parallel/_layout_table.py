"""The table that `Layout.explain` returns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor

from .._schema import Dim, FieldSpec, is_tensorclass
from ..core import TensorCollection, is_shared
from ..errors import ArgumentError, did_you_mean, listed
from ._layout_rules import (
    FieldPlace,
    Owner,
    Rules,
    Shards,
    below,
    classes_in,
    declared_dims,
    fields_below,
    require_whole,
    shards,
    specs_of,
    warn_unknown,
)


class LayoutRow(NamedTuple):
    """One field: its dims, its split dim for each mesh dim, and its shape on a rank.

    `shards` is None for a field that every rank holds whole: ragged and per-element fields, strings and other objects.
    """

    field: str
    dims: tuple[str, ...]
    shards: Shards | None
    local: tuple[str, ...]


@dataclass(frozen=True)
class LayoutTable:
    """The placement of every field; it prints as a table.

    Args:
        mesh: the mesh dims and their sizes.
        rows: one for each field.

    >>> print(LayoutTable({"dp": 2}, (LayoutRow("x", ("B", "3"), (0,), ("B/2", "3")),)))
    field  dims    dp=2      each rank
    x      [B, 3]  Shard(0)  [B/2, 3]
    """

    mesh: Mapping[str, int]
    rows: tuple[LayoutRow, ...]

    def __str__(self) -> str:
        lines = [("field", "dims", *(f"{name}={size}" for name, size in self.mesh.items()), "each rank")]
        for row in self.rows:
            places = _words(row.shards, len(self.mesh))
            lines.append((row.field, _list(row.dims), *places, _list(row.local)))
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
        )

    __repr__ = __str__


def _words(found: Shards | None, count: int) -> list[str]:
    if found is None:
        return ["whole"] * count
    return ["Replicate" if dim is None else f"Shard({dim})" for dim in found]


def _list(sizes: Sequence[str]) -> str:
    return f"[{', '.join(sizes)}]"


def table(rules: Rules, what: Any, batch_size: Any, sizes: Mapping[str, int]) -> LayoutTable:
    """The table for a class or a batch."""
    if isinstance(what, TensorCollection):
        warn_unknown(rules, classes_in(what))
        return LayoutTable(rules.sizes, tuple(_of_batch(rules, what)))
    if not isinstance(what, type) or not is_tensorclass(what):
        raise ArgumentError(f"explain takes a typed class or a batch, got {what!r:.80}")
    warn_unknown(rules, [what])
    given = (batch_size,) if isinstance(batch_size, int) else batch_size
    _expect_sizes(what, given, sizes)
    if given is None:
        count = 1 if isinstance(rules.batch, Mapping) else max(1, len(rules.batch))
        given = ["B", *(f"B{n}" for n in range(2, count + 1))][:count]
    names = [*rules.batch, *[None] * len(given)][: len(given)] if isinstance(rules.batch, Mapping) else None
    return LayoutTable(rules.sizes, tuple(_of_class(rules, what, tuple(given), names, sizes)))


def _expect_sizes(cls: type, batch: Any, sizes: Mapping[str, int]) -> None:
    names = sorted({name for dim in declared_dims(cls).values() for name in dim.size.names})
    for name in sizes:
        if name not in names:
            raise ArgumentError(
                f"explain: {cls.__name__} has no dim `{name}`{did_you_mean(name, names)}; its dims are {listed(names)}"
            )
    numbers = [*(() if batch is None else batch), *sizes.values()]
    for number in numbers:
        if type(number) is not int or number < 0:
            raise ArgumentError(f"explain: a size is a whole number from 0, got {number!r:.80}")


def _of_class(
    rules: Rules, cls: type, batch: tuple[Any, ...], names: Any, sizes: Mapping[str, int]
) -> Iterator[LayoutRow]:
    """The rows of a class, from its declaration."""
    for label, owners, spec in fields_below(cls):
        shared = spec.kind.is_shared
        tokens = () if spec.dims is None else spec.dims.tokens
        dims = (*(() if shared else batch), *map(str, tokens))
        if not spec.kind.is_dense:
            require_whole(rules, label, owners)
            yield LayoutRow(label, tuple(map(str, dims)), None, tuple(map(str, dims)))
            continue
        known = [*(() if shared else batch), *(_size(token, sizes) for token in tokens)]
        counted = spec.dims is not None and spec.dims.variadic is None
        numbers = [size if isinstance(size, int) else None for size in known]
        shape = numbers if counted else None
        found = shards(rules, FieldPlace(label, owners, spec, len(batch), names, shape, shared))
        yield LayoutRow(label, tuple(map(str, dims)), found, _local(rules, found, known))


def _size(token: Any, sizes: Mapping[str, int]) -> int | str:
    if not isinstance(token, Dim):
        return str(token)
    size = token.size.substitute(dict(sizes))
    return str(token) if size.constant is None else size.constant


def _local(rules: Rules, found: Shards, sizes: Sequence[int | str]) -> tuple[str, ...]:
    """The sizes on each rank; where they differ, the largest."""
    parts = [1] * len(sizes)
    for dim, count in zip(found, rules.sizes.values(), strict=True):
        if dim is not None and -len(sizes) <= dim < len(sizes):
            parts[dim] *= count
    return tuple(_part(size, count) for size, count in zip(sizes, parts, strict=True))


def _part(size: int | str, count: int) -> str:
    if count == 1:
        return str(size)
    if isinstance(size, str):
        return f"{size}/{count}" if size.isidentifier() else f"({size})/{count}"
    return str(size // count) if size % count == 0 else f"<={-(-size // count)}"


def _of_batch(
    rules: Rules, batch: TensorCollection, owners: tuple[Owner, ...] = (), path: str = ""
) -> Iterator[LayoutRow]:
    """The rows of a batch, from its tensors."""
    specs: Mapping[str, FieldSpec] = specs_of(type(batch))
    for name, value in batch._entries().items():
        here = below(owners, type(batch), name)
        if isinstance(value, TensorCollection):
            yield from _of_batch(rules, value, here, f"{path}{name}.")
            continue
        place = place_of(batch, name, value, here, path, specs.get(name))
        if place is None:
            require_whole(rules, f"{path}{name}", here)
            yield LayoutRow(f"{path}{name}", (), None, ())
            continue
        found = shards(rules, place)
        sizes = [size for size in place.shape or () if size is not None]
        yield LayoutRow(f"{path}{name}", tuple(map(str, sizes)), found, _local(rules, found, sizes))


def place_of(
    batch: TensorCollection, name: str, value: Any, owners: tuple[Owner, ...], path: str, spec: FieldSpec | None
) -> FieldPlace | None:
    """The facts about an entry of a batch that is split; None for one that every rank holds whole."""
    shared = is_shared(value)
    tensor = value.tensor if shared else value
    if not isinstance(tensor, Tensor) or tensor.is_nested:
        return None
    return FieldPlace(f"{path}{name}", owners, spec, len(batch._batch_size), batch._names, tuple(tensor.shape), shared)
