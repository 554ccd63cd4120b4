"""The frame of a reduction: the dims to reduce in each leaf, and the container of the result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal, TypeAlias

import torch
from torch import Tensor

from ..core import ABSENT, Names, TensorCollection, as_int, batch_shape, join_path, leaves_below, rebuilt
from ..errors import ArgumentError, BatchDimError, StructureError
from ._lengths import has_lengths
from ._operands import Pointwise

FEATURE: Final = "feature"
"""The dim argument for all event dims of each leaf."""

BatchDims: TypeAlias = "int | str | Sequence[int | str]"
"""One or several batch dims, by number or name."""
Feature: TypeAlias = Literal["feature"]
KeyTransform: TypeAlias = "Callable[[str], str]"

Resize: TypeAlias = "Callable[[torch.Size], torch.Size]"
EMPTY: Final = torch.Size([])


def named_dims(self: Pointwise, dim: Any, op: str) -> tuple[int, ...]:
    """The batch dims of a dim argument as distinct non-negative numbers; at least one."""
    if type(dim) is int:
        return (self._dim(dim, op),)
    dim = as_int(dim)
    if isinstance(dim, bool) or not isinstance(dim, (int, str, torch.SymInt, Iterable)):
        raise ArgumentError(f"{op}: a dim is an int, a name, or a sequence of them, got {dim!r:.200}")
    given: tuple[Any, ...] = (dim,) if isinstance(dim, (int, str, torch.SymInt)) else tuple(dim)
    dims = tuple([self._dim(one, op) for one in given])
    if not dims:
        raise BatchDimError(f"{op}: {dim!r} names no batch dim; leave `dim` out to reduce every element of each leaf")
    if len(set(dims)) != len(dims):
        raise BatchDimError(f"{op}: dims {list(given)} name a batch dim twice")
    return dims


def one_dim(self: Pointwise, dim: Any, op: str, instead: str) -> int:
    """The batch dim of an operation that accepts only one."""
    if type(dim) is int:
        return self._dim(dim, op)
    dims = named_dims(self, dim, op)
    if dims[1:]:
        raise BatchDimError(f"{op} takes one batch dim, got {dim!r}; {instead}")
    return dims[0]


def is_feature(self: Pointwise, dim: Any, keepdim: bool, op: str) -> bool:
    """Whether a dim argument means the event dims."""
    if not (isinstance(dim, str) and dim == FEATURE):
        return False
    if self._names is not None and FEATURE in self._names:
        raise ArgumentError(
            f'{op}: dim="feature" means the event dims, and a batch dim has that name as well; give batch dim '
            f"{self._names.index(FEATURE)} by its number, or rename it"
        )
    if keepdim:
        raise ArgumentError(f'{op}: keepdim=True keeps reduced batch dims; dim="feature" keeps the batch dims')
    return True


def batch_ndims(self: Pointwise, op: str, regroups: bool) -> list[int | None]:
    """For each `VALUES` leaf its number of batch dims; None for a leaf without batch dims.

    Raises:
        StructureError: if the batch dims change and an entry with one object per element can't follow.
    """
    if self._plain:
        return [len(self._batch_size)] * len(self._live())
    found: list[int | None] = []
    for leaf in leaves_below(self):
        if isinstance(leaf.entry, Tensor):
            found.append(len(leaf.holder._batch_size))
            continue
        if regroups and batch_shape(leaf.entry) is not None:
            what = "one object for each element of the batch, and objects can't be reduced"
            if has_lengths(leaf.entry):
                what = "a length for each element of the batch, and elements of other lengths can't be combined"
            key = leaf.path if leaf.path[1:] else leaf.path[0]
            raise StructureError(
                f"{op}: `{join_path(leaf.path)}` holds {what}; leave it out first: `batch.exclude({key!r})`"
            )
        found += [None] * len(leaf.tensors)
    return found


def reduced_size(size: torch.Size, dims: tuple[int, ...], keepdim: bool) -> torch.Size:
    """A batch size with some dims removed, or set to size one."""
    if keepdim:
        return torch.Size([1 if d in dims else n for d, n in enumerate(size)])
    return torch.Size([n for d, n in enumerate(size) if d not in dims])


def reduced_names(names: Names, dims: tuple[int, ...], keepdim: bool) -> Names:
    """The names of the remaining dims."""
    if names is None or keepdim:
        return names
    left = tuple([name for d, name in enumerate(names) if d not in dims])
    return left if any(name is not None for name in left) else None


def ones(size: torch.Size) -> torch.Size:
    """A size with as many dims, all of size one."""
    return torch.Size([1] * len(size))


def untyped_copy(self: Any, resize: Resize | None = None, tensors_only: bool = False) -> Any:
    """An untyped copy of the structure, for results that a declaration doesn't cover; `_make` adds the leaves.

    Args:
        self: the container.
        resize: a function from the old batch size of a container to the new one.
        tensors_only: leave out objects and shared tensors.
    """
    dense = TensorCollection._dense
    own: Any = self._store if self._layered else self  # reading its slots is faster
    if resize is None and type(own) is dense and own._plain:
        return own

    def make(level: Any, entries: dict[str, Any]) -> Any:
        size = level._batch_size if resize is None else resize(level._batch_size)
        return dense._from_entries(entries, size, level._device, level._names if len(size) == level.ndim else None)

    return rebuilt(own, lambda leaf: leaf.entry if not tensors_only or isinstance(leaf.entry, Tensor) else ABSENT, make)


def rename_entries(self: Any, transform: KeyTransform, op: str) -> Any:
    """The same untyped entries under other keys, at every level."""
    result = self._bare(self._batch_size, self._names)
    for key, value in self._entries().items():
        new = transform(key)
        if not isinstance(new, str):
            raise ArgumentError(f"{op}: key_transform gives a string for every key, got {new!r:.200} for {key!r:.200}")
        if new in result._entries():
            raise StructureError(f"{op}: key_transform gives {new!r} for several keys, the last of them {key!r}")
        result._put(new, rename_entries(value, transform, op) if isinstance(value, TensorCollection) else value)
    return result
