"""Containers in memory that several processes share."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .._deferred import is_dtensor
from ..core import STORAGE
from ..errors import UnsupportedOperationError
from ..io._memmap import is_memmap


def share(batch: Any) -> Any:
    """Move the tensors into shared memory and lock; see `TensorDictBase.share_memory_`."""
    if is_memmap(batch):
        raise UnsupportedOperationError("share_memory_: a mapped container is shared already, through its file")
    leaves = batch._leaves(STORAGE)
    for leaf in leaves:
        if is_dtensor(leaf):
            raise UnsupportedOperationError("share_memory_: the batch is distributed; share the piece, `batch.local()`")
        if leaf.layout is not torch.strided:
            raise UnsupportedOperationError(f"share_memory_ takes dense tensors, got one of layout {leaf.layout}")
    for leaf in leaves:
        if leaf.is_cpu and not leaf.is_shared():
            leaf.share_memory_()
    batch.lock_()
    return batch


def is_shared(batch: Any) -> bool:
    """Whether other processes see writes to a container."""
    leaves: list[Tensor] = batch._leaves(STORAGE)
    shared = [leaf.layout is torch.strided and leaf.is_shared() for leaf in leaves]
    return bool(leaves) and batch.is_locked and all(shared)
