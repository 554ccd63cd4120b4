"""Parts of a file as tensors: mapped copy-on-write, mapped write-through, or read into memory.

No descriptor stays open.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .._budget import reserve
from .._system import map_whole
from ._atomic import read_at
from ._memory import blank, buffer_of, tensor_over


class Extent(NamedTuple):
    """Where a tensor is in a file, with its dtype and shape."""

    begin: int
    end: int
    dtype: torch.dtype
    shape: Sequence[int]


def map_file(fd: int, size: int, path: str, write: bool = False) -> Any:
    """A whole file as a buffer. It stays mapped as long as something refers to the buffer.

    Args:
        fd: may be closed afterwards.
        size: of the file in bytes.
        path: for messages.
        write: writes reach the file, which needs a descriptor for writing; otherwise writes stay in memory.

    Raises:
        OSError: if the file can't be used. The message names the path.
    """
    found = map_whole(fd, size, write)
    if isinstance(found, int):
        number = found or errno.ENOMEM
        raise OSError(number, f"{os.strerror(number)} while mapping {size} bytes", path)
    return found


def mapped(fd: int, size: int, path: str, places: Sequence[Extent], write: bool = False) -> list[Tensor]:
    """Tensors over a map of a file."""
    if not any([place.end > place.begin for place in places]):
        return [blank(place.dtype, place.shape) for place in places]
    buffer = map_file(fd, size, path, write)
    return [tensor_over(buffer, *place) for place in places]


def in_memory(fd: int, path: str, places: Sequence[Extent]) -> list[Tensor]:
    """Tensors read from a file into memory; neighbours are read together."""
    reserve(sum([place.end - place.begin for place in places]), "its tensors in memory")
    found = [blank(place.dtype, place.shape) for place in places]
    order = sorted(range(len(places)), key=lambda i: places[i].begin)
    run: list[Any] = []
    start = end = 0
    for i in order:
        begin, stop, *_ = places[i]
        if begin != end:
            read_at(fd, run, start, path)
            run, start = [], begin
        run.append(buffer_of(found[i]))
        end = stop
    read_at(fd, run, start, path)
    return found
