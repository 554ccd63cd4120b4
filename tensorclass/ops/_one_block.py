"""A block: one piece of memory whose consecutive views are all leaves of a container, as `consolidate` makes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from .._deferred import any_dtensor
from ..core import in_transform

Shape: TypeAlias = "tuple[torch.dtype, torch.Size]"

_ALIGNMENT = 64  # bytes: a cache line, and more than any dtype needs
_TRAILER = 64  # a block is longer than its leaves, so that no ordinary tensor looks like one


def _leaf_starts(shapes: Sequence[Shape]) -> list[int]:
    """The byte at which each leaf starts, and the end of the last."""
    starts = [0]
    for dtype, shape in shapes:
        count = shape.numel() * dtype.itemsize
        starts.append(starts[-1] + -(-count // _ALIGNMENT) * _ALIGNMENT)
    return starts


def block_length(shapes: Sequence[Shape]) -> int:
    """The bytes of a block."""
    return _leaf_starts(shapes)[-1] + _TRAILER


def block_views(block: Tensor, shapes: Sequence[Shape]) -> list[Tensor]:
    """The leaves of a block as views."""
    typed, first = {dtype: block.view(dtype) for dtype in {dtype for dtype, _ in shapes}}, block.storage_offset()
    return [
        typed[dtype].as_strided(shape, _strides(shape), (first + start) // dtype.itemsize)  # one operation for each
        for start, (dtype, shape) in zip(_leaf_starts(shapes), shapes, strict=False)
    ]


def _strides(shape: torch.Size) -> list[int]:
    """The strides of a contiguous tensor."""
    found, step = [1] * len(shape), 1
    for place in range(len(shape) - 1, 0, -1):
        step *= max(1, shape[place])
        found[place - 1] = step
    return found


def has_own_storage(entries: dict[str, Any]) -> bool:
    """Whether a tensor of this level is all of its storage: so there is no block, and no look at the levels below."""
    first = next((value for value in list(entries.values()) if type(value) is Tensor), None)
    if first is None or first.is_nested or first.layout is not torch.strided:
        return False
    return first.untyped_storage().nbytes() == first.nbytes


def block_of(leaves: Sequence[Tensor]) -> Tensor | None:
    """The block, if the leaves are its consecutive views; else None."""
    ends = [*leaves[:1], *leaves[-1:]]  # which say it of most, so that each level of a nested container takes one look
    if not ends or any_dtensor(leaves) or any([leaf.is_nested or leaf.layout is not torch.strided for leaf in ends]):
        return None
    storage = leaves[0].untyped_storage()
    if leaves[-1].untyped_storage().data_ptr() != storage.data_ptr():
        return None
    if any([leaf.is_nested or leaf.layout is not torch.strided for leaf in leaves]):
        return None
    shapes = [(leaf.dtype, leaf.shape) for leaf in leaves]
    if storage.nbytes() != block_length(shapes):
        return None
    for start, leaf in zip(_leaf_starts(shapes), leaves, strict=False):
        elsewhere = leaf.untyped_storage().data_ptr() != storage.data_ptr()
        lazy = leaf.is_conj() or leaf.is_neg()  # the bytes are those of other values
        if elsewhere or lazy or not leaf.is_contiguous() or leaf.storage_offset() * leaf.dtype.itemsize != start:
            return None
    return leaves[0].detach().reshape(-1).view(torch.uint8).as_strided((storage.nbytes(),), (1,), 0)


def can_move_whole(leaves: Sequence[Tensor]) -> bool:
    """Whether a copy of the storage is a copy of the leaves: outside of graphs, transforms and the compiler."""
    if torch.compiler.is_compiling() or any([type(leaf) is not Tensor or leaf.requires_grad for leaf in leaves]):
        return False
    return not in_transform()
