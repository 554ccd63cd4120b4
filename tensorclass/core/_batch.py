"""Batch sizes and batch dims: one helper for each rule, used by every operation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from operator import index
from typing import Any, SupportsIndex, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling

from ..errors import ArgumentError, BatchDimError, BatchSizeError, UnsupportedOperationError
from ._uneven import UnevenTensor, uneven

EMPTY = torch.Size([])
Sizes: TypeAlias = "SupportsIndex | Sequence[SupportsIndex]"
"""The types of `*shape`: separate ints, or one sequence."""


def as_batch_size(size: Sequence[int] | int | None) -> torch.Size:
    """Normalize a batch size given as an int, a sequence of ints or None.

    Raises:
        BatchSizeError: for a negative size, and for anything but a sequence of ints.

    >>> as_batch_size(3), as_batch_size(None)
    (torch.Size([3]), torch.Size([]))
    """
    if type(size) is torch.Size:
        return size
    if size is None:
        return EMPTY
    if type(size) is list or type(size) is tuple:
        if not size:
            return EMPTY
        for n in size:
            if type(n) is not int or n < 0:
                break
        else:
            if is_dynamo_compiling() or 0 < prod(size) <= LARGEST:  # torch notices only when the size is read
                return torch.Size(size)
    result = torch.Size(as_ints(size, "batch_size"))
    if any(n < 0 for n in result):
        raise BatchSizeError(f"batch_size has no negative entries, got {list(result)}")
    return result


LARGEST = 2**63 - 1


def _too_large(size: Sequence[int]) -> bool:
    """Whether a size is too large for torch. Not checked in traced code: this would add a guard on a dynamic size."""
    return not torch.compiler.is_compiling() and abs(prod(size)) > LARGEST


def as_ints(value: Any, what: str) -> list[Any]:
    """Sizes as a list of plain ints, from one int of any library, or from a sequence or an array of ints.

    Raises:
        BatchSizeError: for anything else, including bools, sets, mappings, iterators and strings.

    >>> as_ints((2, torch.tensor(3)), "a shape")
    [2, 3]
    """
    if _is_int(value):
        value = [value]
    many = isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray))
    items = list(value) if many or getattr(value, "ndim", 0) == 1 else [None]
    if not all([_is_int(item) for item in items]):
        raise BatchSizeError(f"{what} is an int or a sequence of ints, got {value!r:.200}")
    if _too_large([item for item in items if type(item) is int and item]):
        raise BatchSizeError(f"the entries of {what} and their product are below 2**63, got {items!r:.200}")
    return [as_int(item) for item in items]


def _is_int(value: Any) -> bool:
    if type(value) is int or isinstance(value, torch.SymInt):
        return True
    if isinstance(value, Tensor):
        return value.ndim == 0 and not (value.is_floating_point() or value.is_complex() or value.dtype is torch.bool)
    if isinstance(value, (bool, np.bool_)) or bool(getattr(value, "ndim", 0)):
        return False
    return hasattr(type(value), "__index__")


def as_jagged_layout(key: str, value: torch.Tensor) -> torch.Tensor:
    """Convert a strided nested tensor to torch's jagged layout, which has rows to index; one that differs in several
    dims to an `UnevenTensor`.

    Raises:
        UnsupportedOperationError: if the elements are scalars, or there are none.
    """
    if value.layout is torch.jagged or type(value) is UnevenTensor:
        return value
    rows = value.unbind()
    if not rows or not rows[0].ndim:
        raise UnsupportedOperationError(
            f"field `{key}`: a nested tensor has at least one element here, with dims; give a tensor of another layout"
        )
    try:
        return torch.nested.as_nested_tensor(list(rows), layout=torch.jagged)
    except RuntimeError:  # elements that differ in several dims
        return uneven(value)


def as_jagged(entries: Iterable[tuple[Any, Any]]) -> dict[Any, Any] | None:
    """Entries with strided nested tensors converted to the jagged layout; None if there are none."""
    given = dict(entries)
    strided = {key: value for key, value in given.items() if type(value) is torch.Tensor and value.is_nested}
    return {**given, **{key: as_jagged_layout(str(key), value) for key, value in strided.items()}} if strided else None


def as_int(value: Any) -> Any:
    """An int of any library as a plain int; anything else unchanged.

    >>> as_int(torch.tensor(2)), as_int("time")
    (2, 'time')
    """
    ndim: int = getattr(value, "ndim", 0)
    if isinstance(value, (int, str, torch.SymInt)) or ndim or not hasattr(type(value), "__index__"):
        return value
    try:
        return index(value)
    except TypeError:  # a float tensor has the method, too
        return value


def as_items(value: Any, op: str, what: str) -> list[Any]:
    """The items of an argument that is a sequence.

    Raises:
        ArgumentError: for anything else; says what the operation takes.
    """
    try:
        items = iter(value)
    except TypeError:
        raise ArgumentError(f"{op} takes {what}, got {described(value)}") from None
    return [*items]


def described(value: Any) -> str:
    """A wrong argument in a message: its type and value."""
    return f"{type(value).__name__} {value!r:.80}"


def batch_dim(dim: int, ndim: int, *, op: str, extra: int = 0) -> int:
    """The non-negative form of a dim, which must be one of the `ndim` batch dims.

    Args:
        dim: the given dim.
        ndim: number of batch dims.
        op: the name of the operation, for the message.
        extra: 1 if the operation inserts a dim (`stack`, `unsqueeze`), so that one more position is allowed.

    Raises:
        BatchDimError: if the dim is outside the batch dims, since operations never change event dims.
    """
    total = ndim + extra
    if type(dim) is not int:
        dim = as_int(dim)
    if not isinstance(dim, int) or isinstance(dim, bool):
        raise ArgumentError(f"{op}: a dim is an int, got {dim!r:.200} of type {type(dim).__name__}")
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
    """A target batch size, with its single -1 replaced by the size that makes the numbers of elements agree."""
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


def too_few_dims(what: str, size: Sequence[int] | None) -> BatchSizeError:
    """The error for a nested container that lacks batch dims of its holder: its own batch size was set to fewer."""
    given = "has fewer batch dims" if size is None else f"has the batch size {list(size)}, fewer dims"
    return BatchSizeError(
        f"{what} {given} than the container that holds it; give it the leading dims of its holder: "
        "`holder[key].batch_size = holder.batch_size`"
    )


def over_events(value: Tensor, event_ndim: int) -> Tensor:
    """A batch-shaped tensor with trailing dims of size one, so that it broadcasts over event dims."""
    return with_dims(value, event_ndim) if event_ndim and value.ndim else value


def with_dims(value: Tensor, count: int) -> Tensor:
    """A tensor with so many trailing dims of size one.

    Raises:
        BatchSizeError: for a negative count, which is that of a nested container with too few batch dims.
    """
    if count < 0:
        raise too_few_dims("a nested container", None)
    return value.reshape(value.shape + (1,) * count)
