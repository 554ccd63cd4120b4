"""Communication in a process group: blocks of memory between ranks, with the errors of this package."""

from __future__ import annotations

import re
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ..errors import ArgumentError, HeldError, TensorClassError, UnsupportedOperationError, WorkerError, add_note

_LOST = re.compile(
    r"time[d-]?[ -]?out|connect|closed|socket|peer|reset|broken pipe|abort|gloo|nccl|store", re.IGNORECASE
)
"""What backends say of a lost rank. Other errors are raised as they are."""
BUCKET = 256 << 20
"""The most bytes that move at once."""


def group_of(group: Any) -> Any:
    """The process group; the default one for None.

    Raises:
        ArgumentError: if there is none.
    """
    if not dist.is_available():
        raise UnsupportedOperationError("this build of torch has no torch.distributed")
    if group is not None:
        return group
    if not dist.is_initialized():
        raise ArgumentError(
            "no process group was started: call `torch.distributed.init_process_group` first, or pass one"
        )
    return dist.group.WORLD


def is_fake(group: Any) -> bool:
    """Whether a group has no other ranks: torch's fake process group."""
    return str(dist.get_backend(group)) == "fake"


def peer_of(given: Any, group: Any, group_rank: Any, what: str) -> tuple[Any, int]:
    """The group, and the other rank in it.

    Raises:
        ArgumentError: if both or none of the two arguments are given, for this rank itself, and for a rank outside the
            group.
    """
    if (given is None) == (group_rank is None):
        raise ArgumentError(f"pass {what}= or group_{what}=, one of them; got {given!r:.40} and {group_rank!r:.40}")
    if group_rank is not None and group is None:
        raise ArgumentError(f"group_{what}= needs group=, the process group that it counts in")
    found = group_of(group)
    rank = rank_in(found, given, what) if group_rank is None else _number(group_rank, what)
    if not rank < found.size():
        raise ArgumentError(f"{what}: rank {rank} is not there, the group has {found.size()}")
    if rank == found.rank():
        raise ArgumentError(f"{what} is this rank itself, {rank}")
    return found, rank


def _number(rank: Any, what: str) -> int:
    if type(rank) is not int or rank < 0:
        raise ArgumentError(f"{what} is a rank, a number from 0, got {rank!r:.60}")
    return int(rank)


def rank_in(group: Any, rank: Any, what: str) -> int:
    """Convert a rank of the default group to a rank of this group.

    Raises:
        ArgumentError: for a rank outside the group.
    """
    _number(rank, what)
    if group is dist.group.WORLD or not dist.is_initialized():
        if rank >= group.size():
            raise ArgumentError(f"{what}: rank {rank} is not there, the group has {group.size()}")
        return int(rank)
    try:
        return dist.get_group_rank(group, rank)
    except (ValueError, RuntimeError, KeyError):
        ranks = dist.get_process_group_ranks(group)
        raise ArgumentError(f"{what}: rank {rank} is not in the group, which has {ranks}") from None


def device_of(group: Any) -> torch.device:
    """The device of blocks that the backend of a group can send."""
    types = [device.type for device in getattr(group, "_device_types", [torch.device("cpu")])]
    if "cpu" in types or not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", torch.cuda.current_device())


def bytes_on(device: torch.device, size: int) -> Tensor:
    """Memory to receive into: uint8 `[size]`."""
    return torch.empty(size, dtype=torch.uint8, device=device)


class talking:  # a class like `torch.no_grad`: a generator takes three times as long
    """A context in which other ranks must answer. In the end it raises a given problem, which they have been told.

    Raises:
        WorkerError: if a rank doesn't answer within the timeout of the group, or has died.
    """

    def __init__(self, group: Any, doing: str, problem: HeldError | None = None) -> None:
        self._group, self._doing, self._problem = group, doing, problem

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is None and self._problem is not None:
            self._problem.reraise()
        if error is None or not isinstance(error, RuntimeError) or isinstance(error, TensorClassError):
            return
        if type(error) is RuntimeError and _LOST.search(str(error)) is None:
            add_note(
                error, f"{self._doing} on rank {self._group.rank()} of {self._group.size()}; its peers are not lost"
            )
            return
        group = self._group
        raise WorkerError(
            f"{self._doing} on rank {group.rank()} of {group.size()}: another rank died, or did not answer within the "
            f"time-out of the group; nothing was written here. The connections of this group are closed: start a new "
            f"one in all ranks, or end the program ({error!s:.300})"
        ) from error
