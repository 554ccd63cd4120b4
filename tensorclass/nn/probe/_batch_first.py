"""Tries `batch_first=True` on a copy of a module, before a hint says it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn

from ..parts._stage import module_of
from ._edits import COPIED
from ._run import RealTensors, as_real


def batch_first_fits(searcher: Any, index: int) -> bool:
    """Whether a copy with `batch_first=True` runs, and a change of the last element leaves the others alike."""
    sweep, changed = searcher.swept.get(1) or searcher.swept.get(0), _with_batch_first(searcher.targets[index])
    if sweep is None or index not in sweep.given or changed is None:
        return False
    made = [RealTensors(searcher.device, 2), RealTensors(searcher.device, 3)]
    values, others = ([as_real(value, tensors) for value in sweep.given[index]] for tensors in made)
    runs = [searcher.run_one(index, sweep, values, tensors=made[0], target=changed)]
    for value, other in zip(values, others, strict=True):
        if isinstance(value, Tensor) and value.ndim:
            value[-1] = other[-1]
    runs.append(searcher.run_one(index, sweep, values, tensors=made[0], target=changed))
    if any(run.error is not None or run.findings for run in runs):
        return False
    pairs = zip(runs[0].values or (), runs[1].values or (), strict=True)
    tensors = [pair for pair in pairs if isinstance(pair[0], Tensor) and pair[0].is_floating_point()]
    return all(torch.allclose(one[:-1], other[:-1]) for one, other in tensors)


def _with_batch_first(target: Callable[..., Any]) -> nn.Module | None:
    """A copy of a module in which every layer takes the batch as its first dim; None if it can't be copied."""
    module = module_of(target)
    if module is None or module is not target or sum(p.numel() for p in module.parameters()) > COPIED:
        return None
    with suppress(Exception):  # a module that can't be copied is not changed
        changed = copy.deepcopy(module)
        for layer in changed.modules():
            if getattr(layer, "batch_first", True) is False:
                vars(layer)["batch_first"] = True
        return changed
    return None
