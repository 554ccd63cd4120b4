"""Padding of batch dims."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn import functional
from typing_extensions import Self

from .._flags import flags
from ..core import Leaf, Path, TensorCollection, as_items, is_typed, join_path, rebuilt
from ..errors import BatchSizeError, StructureError
from ..ops._lengths import Ragged, has_lengths
from ..ops._writable import scalar_like, takes
from ._consolidate import PackOps
from .entries._nodes import NonTensorStack
from .entries._non_tensor import MetaData
from .entries._object_table import compact
from .entries._rows import pack
from .entries._unbatched import Unbatched

C = TypeVar("C", bound=TensorCollection)
Fill = Callable[[Path, Tensor], Any]


@flags
def pad(tensordict: C, pad_size: Sequence[int], value: float = 0.0, inplace: bool = False, safe: bool = True) -> C:
    """Pad the batch dims of a container by a constant.

    Args:
        tensordict: the container.
        pad_size: the numbers of new elements before and after each batch dim, the first dim first; negative numbers
            remove elements.
        value: the value of new elements; new Python objects are None.
        inplace: change this container instead of making a new one.
        safe: accepted for compatibility; all leaves are padded before any is replaced.

    Raises:
        BatchSizeError: for an odd number of sizes, and for more than two per batch dim.
        StructureError: for a value that a leaf can't hold, and for declared objects, which can't be None.

    >>> import torch
    >>> from tensorclass import TensorDict, pad
    >>> pad(TensorDict(a=torch.ones(3, 4), batch_size=[3]), [0, 1])["a"].shape
    torch.Size([4, 4])
    """
    target: Any = tensordict
    sizes = as_items(pad_size, "pad", "two numbers for each batch dim, before and after")
    if len(sizes) % 2 or len(sizes) > 2 * target.ndim:
        raise BatchSizeError(
            f"pad takes two numbers for each of at most {target.ndim} batch dims, before and after, got {sizes}"
        )
    for dim, size in enumerate(target.batch_size[: len(sizes) // 2]):
        if size + min(sizes[2 * dim], 0) + min(sizes[2 * dim + 1], 0) < 0:
            raise BatchSizeError(
                f"pad: {sizes[2 * dim : 2 * dim + 2]} cuts more than batch dim {dim} of size {size} has"
            )
    result = pad_entries(target, sizes, lambda path, leaf: value)
    return target._become(result) if inplace else result  # type: ignore[no-any-return]  # same class as the input


@flags
class PadOps(PackOps):
    """`pad` as a method."""

    __slots__ = ()

    def pad(self, pad_size: Sequence[int], value: float = 0.0, inplace: bool = False, safe: bool = True) -> Self:
        """Pad the batch dims by a constant; see `tensorclass.pad`.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(3, 4), batch_size=[3, 4]).pad([0, 0, 0, 1]).batch_size
        torch.Size([3, 5])
        """
        return pad(self, pad_size, value, inplace, safe)


def pad_entries(collection: Any, sizes: list[int], fill: Fill) -> Any:
    """A container with each entry padded along the batch dims."""

    def make(level: Any, entries: dict[str, Any]) -> Any:
        size = [n + sum(sizes[2 * dim : 2 * dim + 2]) for dim, n in enumerate(level._batch_size)]
        return type(level)._from_entries(entries, torch.Size(size), level._device, level._names)

    def padded(leaf: Leaf) -> Any:
        value = leaf.entry
        if isinstance(value, Tensor) and not value.is_nested:
            number = fill(leaf.path, value)
            if not takes(value, number):  # nothing waits for a GPU
                number = scalar_like(number, value.new_empty((), device="cpu"), leaf.path).item()
            return pad_leaf(value, sizes, number) if sizes else value
        rows = value if has_lengths(value) else Ragged.over(value)
        return _pad_objects(leaf, sizes) if rows is None else _pad_ragged(rows, sizes)

    return rebuilt(collection, padded, make)


def _pad_ragged(rows: Any, sizes: list[int]) -> Any:
    """Pad ragged entries with empty elements, since elements have no common length."""
    table, spans, _ = rows._parts
    return Ragged.held(rows._of(*pack(table, pad_leaf(spans, sizes, 0), True), True)) if sizes else rows


def pad_leaf(leaf: Tensor, sizes: list[int], value: Any) -> Tensor:
    pairs = [sizes[i : i + 2] for i in range(0, len(sizes), 2)]
    rest = [0, 0] * (leaf.ndim - len(pairs))
    wide = rest + [n for pair in reversed(pairs) for n in pair]
    if leaf.is_complex() or leaf.dtype is torch.uint64:  # torch can't pad these with a value
        inside = functional.pad(torch.ones_like(leaf, dtype=torch.bool), wide)
        return torch.where(inside, functional.pad(leaf, wide), leaf.new_full((), value))
    return functional.pad(leaf, wide, value=value)


def _pad_objects(leaf: Leaf, sizes: list[int]) -> Any:
    """Pad objects with None; shared objects of a typed class are kept."""
    value, name, grows = leaf.entry, join_path(leaf.path), any(n > 0 for n in sizes)
    if isinstance(value, (Unbatched, MetaData)) or (not grows and not isinstance(value, NonTensorStack)):
        return value
    if is_typed(leaf.holder):
        if not isinstance(value, NonTensorStack):
            return value
        if grows:
            raise StructureError(
                f"pad: field `{name}` declares one object for each element, and a new one has none; pad "
                "`batch.to_tensordict()`"
            )
    stack_of = NonTensorStack.of_one(value, leaf.holder._batch_size)
    table, index = compact(*stack_of._held)
    return NonTensorStack._of((*table, None), pad_leaf(index, sizes, len(table)))
