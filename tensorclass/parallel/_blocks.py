"""Leaves as one block of bytes, grouped by dtype, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..errors import UnsupportedOperationError
from ..ops._writable import unwritable

_ALIGN = 64


class Run(NamedTuple):
    """The leaves of one dtype."""

    dtype: torch.dtype
    places: list[int]
    sizes: list[int]

    @property
    def numel(self) -> int:
        """The number of their elements."""
        return sum(self.sizes)

    @property
    def room(self) -> int:
        """The number of their bytes, rounded up."""
        return -(-self.numel * self.dtype.itemsize // _ALIGN) * _ALIGN


def runs_of(leaves: Sequence[Tensor]) -> list[Run]:
    """The leaves by dtype, in the order of the names of dtypes: the same on every rank."""
    found: dict[torch.dtype, Run] = {}
    for place, leaf in enumerate(leaves):
        run = found.get(leaf.dtype) or found.setdefault(leaf.dtype, Run(leaf.dtype, [], []))
        run.places.append(place)
        run.sizes.append(leaf.numel())
    return sorted(found.values(), key=lambda run: str(run.dtype))


@torch.no_grad()
def joined(leaves: Sequence[Tensor], run: Run, device: torch.device) -> Tensor:
    """The leaves of a run as one tensor of one dim."""
    return torch.cat([leaves[place].reshape(-1).to(device) for place in run.places])


def parted(block: Tensor, leaves: Sequence[Tensor], runs: Sequence[Run]) -> list[Tensor]:
    """Views of a block with the dtypes and shapes of leaves."""
    found: list[Tensor] = [block] * len(leaves)
    begin = 0
    for run in runs:
        end = begin + run.numel * run.dtype.itemsize
        for place, part in zip(run.places, block[begin:end].view(run.dtype).split(run.sizes), strict=True):
            found[place] = part.view(leaves[place].shape)
        begin += run.room
    return found


def check_writable(leaves: Sequence[Tensor], names: Sequence[str]) -> None:
    """Refuse leaves that torch can't write in place, before data is received.

    Raises:
        UnsupportedOperationError: names the leaf.
    """
    if all(map(Tensor.is_contiguous, leaves)) and not any(map(Tensor.is_inference, leaves)):
        return
    for leaf, name in zip(leaves, names, strict=True):
        problem = unwritable(leaf, False)
        if problem:
            raise UnsupportedOperationError(f"in-place write: `{name}` {problem}; nothing was written")


def write(leaves: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    """Write values into leaves in place."""
    if leaves:
        with torch.no_grad():
            torch._foreach_copy_(list(leaves), list(values))  # pyright: ignore[reportPrivateImportUsage]  # its name
