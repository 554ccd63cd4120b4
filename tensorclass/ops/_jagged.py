"""Nested tensors of torch as leaves: rows picked and joined, which torch's jagged layout does not do itself."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..core import TensorCollection
from ..errors import UnsupportedOperationError


def has_jagged(collection: TensorCollection) -> bool:
    """Whether a container of one batch dim has a nested tensor among its leaves."""
    return (
        len(collection._batch_size) == 1
        and not collection._stacked
        and any([isinstance(leaf, Tensor) and leaf.is_nested for leaf in collection._leaves()])
    )


def take(leaf: Tensor, which: Tensor) -> Tensor:
    """The rows at given positions; one row alone is a plain tensor.

    Raises:
        UnsupportedOperationError: for positions of several dims: a nested tensor has one batch dim.
    """
    if which.ndim > 1:
        raise UnsupportedOperationError(
            f"a nested tensor has one batch dim, and this index makes {which.ndim}; hold the rows as a `RaggedTensor`, "
            "which has any number"
        )
    rows = leaf.unbind()
    return nested([rows[i] for i in which.tolist()], leaf) if which.ndim else rows[int(which)]


def joined(leaves: Sequence[Tensor]) -> Tensor:
    """The rows of several nested tensors in one."""
    return nested([row for leaf in leaves for row in leaf.unbind()], leaves[0])


def nested(rows: Sequence[Tensor], like: Tensor) -> Tensor:
    """Rows as one nested tensor; without any, one of the kind of `like`."""
    if rows or like.layout is not torch.jagged:
        return torch.nested.as_nested_tensor(list(rows), layout=like.layout)
    offsets = torch.zeros(1, dtype=torch.int64, device=like.device)
    return torch.nested.nested_tensor_from_jagged(like.values()[:0], offsets=offsets)
