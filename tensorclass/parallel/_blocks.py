"""Leaves as one block of bytes, grouped by dtype, and back."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import torch
from torch import Tensor

from ..errors import UnsupportedOperationError
from ..ops._writable import unwritable

_ALIGN = 64


class DtypeRun(NamedTuple):
    """The leaves of one dtype."""

    dtype: torch.dtype
    places: list[int]
    sizes: list[int]

    @property
    def room(self) -> int:
        """The number of their bytes, rounded up."""
        return -(-sum(self.sizes) * self.dtype.itemsize // _ALIGN) * _ALIGN


def runs_of(leaves: Sequence[Tensor]) -> list[DtypeRun]:
    """The leaves by dtype, in the order of the names of dtypes: the same on every rank."""
    found: dict[torch.dtype, DtypeRun] = {}
    for place, leaf in enumerate(leaves):
        run = found.get(leaf.dtype) or found.setdefault(leaf.dtype, DtypeRun(leaf.dtype, [], []))
        run.places.append(place)
        run.sizes.append(leaf.numel())
    return sorted(found.values(), key=lambda run: str(run.dtype))


@torch.no_grad()
def joined(leaves: Sequence[Tensor], run: DtypeRun, device: torch.device) -> Tensor:
    """The leaves of a run as one tensor of one dim."""
    return torch.cat([leaves[place].reshape(-1).to(device) for place in run.places])


class Views:
    """Views of a block with the dtypes and shapes of leaves.

    Args:
        block: bytes.
        leaves: tensors with these dtypes and shapes.
        runs: the leaves by dtype.
    """

    def __init__(self, block: Tensor, leaves: Sequence[Tensor], runs: Sequence[DtypeRun]) -> None:
        self.each: list[Tensor] = [block] * len(leaves)
        begin = 0
        for run in runs:
            flat = block[begin : begin + sum(run.sizes) * run.dtype.itemsize].view(run.dtype)
            for place, part in zip(run.places, flat.split(run.sizes), strict=True):
                self.each[place] = part.view(leaves[place].shape)
            begin += run.room
        kinds = {(leaf.dtype, leaf.shape) for leaf in leaves}
        whole = block[: sum(runs[0].sizes) * runs[0].dtype.itemsize] if len(kinds) == 1 else None
        self._stacked = None if whole is None else whole.view(runs[0].dtype).view(len(leaves), *leaves[0].shape)

    def fill(self, leaves: list[Tensor]) -> None:
        """Copy values into the block."""
        if self._stacked is not None:
            with suppress(RuntimeError), torch.no_grad():  # those of several devices are copied one by one
                torch.stack(leaves, out=self._stacked)
                return
        write(self.each, leaves)


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
        with torch.inference_mode():  # which is faster than `no_grad`
            torch._foreach_copy_([*leaves], [*values])  # pyright: ignore[reportPrivateImportUsage]  # its name
