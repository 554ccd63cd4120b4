"""The cross-entropy of scores that are split by class."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from .._deferred import dtensor, is_dtensor


def cross_entropy(scores: Tensor, target: Tensor, *, ignore_index: int = -100) -> Tensor:
    """The mean cross-entropy over all rows of all ranks; the scores may be split by class.

    Nothing as large as the scores is sent, and the result is the same on every rank. Plain tensors give what
    `torch.nn.functional.cross_entropy` gives.

    Args:
        scores: of shape `[*, classes]`, unlike torch's, which has the classes second.
        target: the numbers of the right classes, int64 of shape `[*]`.
        ignore_index: rows with this target don't count.

    >>> import torch
    >>> from tensorclass.parallel import cross_entropy
    >>> cross_entropy(torch.zeros(2, 3, 4), torch.tensor([[0, 1, 2], [3, -100, -100]]))
    tensor(1.3863)
    """
    if not is_dtensor(scores):
        return functional.cross_entropy(scores.flatten(0, -2), target.flatten(), ignore_index=ignore_index)
    counted = target != ignore_index
    largest = _as_replicated(scores.detach().amax(-1, keepdim=True))
    shifted = scores - largest
    right = _as_replicated(shifted.gather(-1, torch.where(counted, target, 0).unsqueeze(-1)))
    lost = _as_replicated(shifted.exp().sum(-1)).log() - right.squeeze(-1)
    mean: Tensor = _as_replicated((lost * counted).sum(), whole=True) / _as_replicated(counted.sum(), whole=True)
    return mean


def _as_replicated(value: Any, whole: bool = False) -> Any:
    """A value without unfinished sums; with `whole`, every rank has all of it."""
    places = [one if one.is_shard() and not whole else dtensor.Replicate() for one in value.placements]
    return value.redistribute(placements=places)
