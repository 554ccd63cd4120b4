"""Batch sizes and batch dims: one helper for each rule, used by every operation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from operator import index
from typing import Any, SupportsIndex, TypeAlias

import torch
from torch import Tensor

from ..errors import BatchDimError, BatchSizeError

EMPTY = torch.Size([])
Sizes: TypeAlias = "SupportsIndex | Sequence[SupportsIndex]"
"""What `*shape` takes: ints one by one, or one sequence."""


def as_batch_size(size: Sequence[int] | int | None) -> torch.Size:
    """Normalise a batch size given as an int, a sequence of ints or None.

    Raises:
        BatchSizeError: for a negative size or something that is no sequence of ints.

    >>> as_batch_size(3), as_batch_size(None)
    (torch.Size([3]), torch.Size([]))
    """
    if type(size) is torch.Size:
        return size
    if size is None:
        return EMPTY
    if type(size) is list or type(size) is tuple:
        for n in size:
            if type(n) is not int or n < 0:
                break
        else:
            return torch.Size(size)
    if isinstance(size, (bool, str, bytes, bytearray, Mapping, Set, Iterator)) or _has_booleans(size):
        raise BatchSizeError(f"batch_size is an int or a sequence of ints, got {size!r:.60}")
    if isinstance(size, (int, torch.SymInt)) or (hasattr(type(size), "__index__") and not getattr(size, "ndim", 0)):
        size = (size,)  # type: ignore[assignment]  # an int of any library
    try:
        result = torch.Size([n if isinstance(n, torch.SymInt) else index(n) for n in size])  # type: ignore[misc, union-attr]  # a sequence by now
    except TypeError as error:
        raise BatchSizeError(f"batch_size is an int or a sequence of ints, got {size!r}") from error
    if any(n < 0 for n in result):
        raise BatchSizeError(f"batch_size has no negative entries, got {list(result)}")
    return result


def _has_booleans(size: Any) -> bool:
    return isinstance(size, (list, tuple)) and bool in map(type, size)


def as_int(value: Any) -> Any:
    """An int of any library as a plain one; anything else as it is.

    >>> as_int(torch.tensor(2)), as_int("time")
    (2, 'time')
    """
    ndim: int = getattr(value, "ndim", 0)
    if isinstance(value, (int, str, torch.SymInt)) or ndim or not hasattr(type(value), "__index__"):
        return value
    return index(value)


def batch_dim(dim: int, ndim: int, *, op: str, extra: int = 0) -> int:
    """The non-negative form of a dim that must lie among the `ndim` batch dims.

    Args:
        dim: the dim the caller gave.
        ndim: number of batch dims.
        op: the operation's name, for the message.
        extra: 1 where the operation inserts a dim (`stack`, `unsqueeze`), so that one more position is legal.

    Raises:
        BatchDimError: when the dim lies outside the batch dims: operations never reach a feature dim.
    """
    total = ndim + extra
    if type(dim) is not int:
        dim = as_int(dim)
    if not isinstance(dim, int):
        raise TypeError(f"{op}: a dim is an int, got {dim!r:.200} of type {type(dim).__name__}")
    if -total <= dim < total:
        return dim if dim >= 0 else dim + total
    span = f"[{-total}, {total - 1}]" if total else "none: there are no batch dims"
    raise BatchDimError(f"{op}: dim {dim} is not a batch dim; with {ndim} batch dims the legal range is {span}")


def batch_dims(dims: int | Iterable[int], ndim: int, *, op: str) -> tuple[int, ...]:
    """The non-negative forms of several distinct batch dims."""
    dims = as_int(dims)
    given = (dims,) if isinstance(dims, int) else tuple(dims)
    result = tuple(batch_dim(dim, ndim, op=op) for dim in given)
    if len(set(result)) != len(result):
        raise BatchDimError(f"{op}: dims {list(given)} name a batch dim twice")
    return result


def infer_shape(shape: Sequence[int], numel: int, *, op: str) -> torch.Size:
    """A target batch size with its single -1 replaced by what makes the element counts agree."""
    if -1 not in shape:
        result = torch.Size(shape)
        if result.numel() == numel and (numel or min(result) >= 0):
            return result
    sizes = [int(n) if not isinstance(n, torch.SymInt) else n for n in shape]
    unknown = [i for i, n in enumerate(sizes) if n == -1]
    if len(unknown) > 1 or any(n < -1 for n in sizes):
        raise BatchSizeError(f"{op}: a shape has at most one -1 and no other negative entry, got {sizes}")
    if unknown:
        rest = 1
        for n in sizes:
            rest *= n if n != -1 else 1
        if rest == 0 or numel % rest:
            raise BatchSizeError(f"{op}: {numel} elements can't fill the batch shape {sizes}")
        sizes[unknown[0]] = numel // rest
    result = torch.Size(sizes)
    if result.numel() != numel:
        raise BatchSizeError(f"{op}: {numel} elements can't fill the batch shape {sizes}")
    return result


def broadcasts_to(shape: Sequence[int], target: Sequence[int]) -> bool:
    """Whether `shape` expands to `target` without enlarging it."""
    if len(shape) > len(target):
        return False
    tail = target[len(target) - len(shape) :]
    return all(n in (1, m) for n, m in zip(shape, tail, strict=True))


def over_events(value: Tensor, event_ndim: int) -> Tensor:
    """A batch-shaped tensor with trailing dims of size one, so that it broadcasts over event dims."""
    return value.reshape(value.shape + (1,) * event_ndim) if event_ndim and value.ndim else value
