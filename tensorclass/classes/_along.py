"""`batch.along("t")`: an event dim of a typed batch, sliced like a batch dim."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from .._schema import Dim, FieldSpec
from .._schema._spec import short
from ..errors import ArgumentError, BatchIndexError, UnsupportedOperationError, did_you_mean
from ..store import RaggedTensor, lazy_stack

B = TypeVar("B")


class Along(Generic[B]):
    """A typed batch seen along one of its event dims, which `batch.along(dim)` returns."""

    def __init__(self, batch: B, path: Sequence[str], name: str, fields: dict[str, list[int]]) -> None:
        self._batch: Any = batch
        self._path = path
        self._name = name
        self._fields = fields
        """For each field with the dim, its positions from the end of the event shape."""

    def __getitem__(self, index: Any, /) -> B:
        """Index the dim in all fields that declare it; other fields are kept.

        Args:
            index: a slice, a list or tensor of positions, or a mask; `[..., index]` is the same.

        Raises:
            ArgumentError: for an int, which would remove the dim, and for an index of several dims.
        """
        if isinstance(index, tuple) and len(index) == 2 and index[0] is ...:
            index = index[1]
        return self._selected(_as_index(index, self._name))

    def __setitem__(self, index: Any, value: Any, /) -> None:
        """Refused, since a write would have to be one of all fields with the dim.

        Raises:
            UnsupportedOperationError: always; says how to write.
        """
        raise UnsupportedOperationError(
            f"along: a part of `{self._name}` is not assigned; write into a slice, which shares its memory: "
            f'`part = batch.along("{self._name}")[2:4]`, then `part.update_(value)`'
        )

    def __len__(self) -> int:
        """The size of the dim."""
        sizes = [self._owner.get(name).shape[at] for name, at in self._dense()]
        if not sizes:
            raise ArgumentError(f"along: no tensor with a size for `{self._name}` is present")
        return int(sizes[0])

    def split(self, size: int | Sequence[int]) -> tuple[B, ...]:
        """Split the dim into parts of one size, the last maybe smaller, or of the listed sizes.

        Raises:
            ArgumentError: for sizes that are not whole numbers from 1, or whose sum is not the size of the dim.
        """
        sizes = [size] if isinstance(size, int) else [*size]
        total = len(self)
        if not sizes or any(type(n) is not int or n < 1 for n in sizes):
            raise ArgumentError(f"split: the sizes are whole numbers from 1, got {size!r:.80}")
        if isinstance(size, int):
            sizes = [min(size, total - at) for at in range(0, total, size)]
        elif sum(sizes) != total:
            raise ArgumentError(f"split: the sizes {sizes!r:.80} add up to {sum(sizes)}; `{self._name}` is {total}")
        ends = torch.tensor(sizes).cumsum(0).tolist()
        return tuple(self[end - n : end] for end, n in zip(ends, sizes, strict=True))

    @property
    def _owner(self) -> Any:
        """The batch or nested batch whose class declares the dim."""
        owner = self._batch
        for name in self._path:
            owner = getattr(owner, name)
            if owner is None:
                raise ArgumentError(f"along: `{name}` is absent in this batch")
        return owner

    def _dense(self) -> Iterator[tuple[str, int]]:
        """The present tensors that have the dim, with its position."""
        for name, places in self._fields.items():
            value = self._owner.get(name, None)
            if isinstance(value, Tensor):
                yield name, places[0]

    def _selected(self, index: Any) -> B:
        """The batch with each field along the dim at an index."""
        if self._batch._stacked:
            return self._of_members(index)
        owner = self._owner
        values = {name: owner.get(name, None) for name in self._fields}
        changed = owner.replace(
            **{
                name: _index_field(value, self._fields[name], index)
                for name, value in values.items()
                if value is not None
            }
        )
        for depth in reversed(range(len(self._path))):
            outer = self._batch
            for name in self._path[:depth]:
                outer = getattr(outer, name)
            changed = outer.replace(**{self._path[depth]: changed})
        return changed  # type: ignore[no-any-return]  # of the class of the batch

    def _of_members(self, index: Any) -> B:
        """Index each member of a lazy stack, whose sizes may differ."""
        members = [Along[Any](part, self._path, self._name, self._fields)[index] for part in self._batch._parts()]
        return lazy_stack(members, self._batch._store.stack_dim)  # type: ignore[no-any-return]  # of the class of the batch


def along(batch: Any, dim: Any) -> Along[Any]:
    """Implement `batch.along(dim)`."""
    if not isinstance(dim, str):
        raise ArgumentError(f'along: a dim is given by its name, as in `along("t")`, got {dim!r:.80}')
    cls: Any = type(batch)
    *path, name = dim.split(".")
    for part in path:
        spec = cls.__tensorclass_schema__.fields.get(part)
        if spec is None or spec.nested is None:
            nested = [spec.name for spec in cls.__tensorclass_schema__ if spec.nested is not None]
            raise ArgumentError(f"along: `{part:.100}` is not a nested class{did_you_mean(part, nested)}")
        cls = spec.nested
    fields = {spec.name: _dim_positions(spec, name) for spec in cls.__tensorclass_schema__}
    found = {field: places for field, places in fields.items() if places}
    if not found:
        known = list(_dim_names(cls, ".".join(path) + "." if path else "", ()))
        close = did_you_mean(dim, known)
        raise ArgumentError(f"along: {cls.__name__} has no dim `{name:.100}`{close}; the dims are {known}")
    return Along(batch, path, name, found)


def _dim_names(cls: Any, start: str, above: tuple[Any, ...]) -> Iterator[str]:
    """The dims that `along` takes, those of nested classes with their path."""
    schema = cls.__tensorclass_schema__
    own = dict.fromkeys(name for spec in schema if spec.dims is not None for name in spec.dims.names)
    yield from (start + name for name in own)
    for spec in schema:
        if spec.nested is not None and spec.nested not in above:
            yield from _dim_names(spec.nested, f"{start}{spec.name}.", (*above, cls))


def _dim_positions(spec: FieldSpec, name: str) -> list[int]:
    """The positions of a dim in a field, from the end of the shape; after `...` no others are counted.

    Raises:
        ArgumentError: for a field whose size follows from the dim, which no index of the dim can keep right.
    """
    dims = spec.dims
    if dims is None or name not in dims.names:
        return []
    texts = [str(token.size) if isinstance(token, Dim) else "" for token in dims.tokens]
    sizes = [token for token in dims.tokens if isinstance(token, Dim) and name in token.size.names]
    if any(str(token.size) != name for token in sizes):
        raise ArgumentError(
            f"along: `{spec.name}` declares `{dims}`, a size that follows from `{name}`; index the fields "
            "one by one and give them to `replace`"
        )
    places = [at - len(texts) for at, text in enumerate(texts) if text == name]
    if dims.variadic is not None and places[0] + len(texts) < dims.variadic:
        raise ArgumentError(
            f"along: `{spec.name}` declares `{dims}`, where any number of dims follows `{name}`; "
            f"put `{name}` behind them"
        )
    return places


def _as_index(index: Any, name: str) -> Any:
    """An index of one dim that keeps it: a slice, positions or a mask."""
    if isinstance(index, slice):
        if index.step is not None and not (isinstance(index.step, int) and index.step > 0):
            raise ArgumentError(f"along: the step of a slice is a whole number from 1, got {index.step!r:.80}")
        return index
    if isinstance(index, (int, np.integer)) and not isinstance(index, bool):
        raise ArgumentError(
            f"along: an int would remove `{name}`, which the class declares; "
            f"use the slice `[{index}:{'' if index == -1 else index + 1}]`"
        )
    if isinstance(index, (list, np.ndarray)):
        index = torch.as_tensor(index)
    if isinstance(index, Tensor) and index.ndim == 1 and not (index.is_floating_point() or index.is_complex()):
        return index if index.dtype is torch.bool else index.long()
    raise ArgumentError(
        f"along: `{name}` takes a slice, positions or a mask of one dim, got {short(index)}; "
        f'index batch dims first, as in `batch[0].along("{name}")[:10]`'
    )


def _index_field(value: Any, places: Sequence[int], index: Any) -> Any:
    """A field with the index applied to each position of the dim."""
    for at in places:
        if not isinstance(value, RaggedTensor):
            value = _index_axis(value, value.ndim + at, index)
        elif len(value.event_shape) + at >= 0:
            value = value.apply(partial(_index_axis, axis=len(value.event_shape) + at + 1, index=index))
        else:
            value = _slice_of_rows(value, index)
    return value


def _index_axis(tensor: Tensor, axis: int, index: Any) -> Tensor:
    size = tensor.shape[axis]
    if isinstance(index, Tensor):
        if index.dtype is torch.bool and len(index) != size:
            raise ArgumentError(f"along: the mask has {len(index)} elements; the dim has {size}")
        index = index.to(tensor.device)
    try:
        return tensor[(slice(None),) * axis + (index,)]
    except IndexError:
        raise BatchIndexError(f"along: positions are from {-size} to {size - 1}, got {short(index.tolist())}") from None


def _slice_of_rows(rows: RaggedTensor, index: Any) -> RaggedTensor:
    """A slice of the rows of each element."""
    if not isinstance(index, slice):
        raise ArgumentError("along: elements of different length take a slice; for a mask of the rows use `filter`")
    keep = [_in_slice(n, index) for n in rows.lengths.flatten().tolist()]
    return rows.filter(torch.cat(keep) if keep else torch.zeros(0, dtype=torch.bool))


def _in_slice(length: int, index: slice) -> Tensor:
    kept = torch.zeros(length, dtype=torch.bool)
    kept[index] = True
    return kept
