"""The memory of tensors as buffers for system calls, and tensors over buffers, without copies."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ._dtypes import CARRIED

try:
    import fcntl
except ImportError:  # no such module on Windows
    fcntl = None  # type: ignore[assignment]

LINUX = sys.platform == "linux"
_BYTE = ctypes.c_ubyte
_ODD = frozenset(CARRIED.values())
"""dtypes for which torch can't make a tensor over a buffer directly."""


def buffer_of(tensor: Tensor) -> Any:
    """The bytes of a contiguous tensor on the CPU. It is valid as long as the tensor lives."""
    return buffer_at(tensor.data_ptr(), tensor.numel() * tensor.element_size())


def buffer_at(address: int, size: int) -> Any:
    """Bytes at an address; the caller keeps them alive."""
    return (_BYTE * size).from_address(address)


@functools.cache
def libc() -> Any:
    """The C library, whose `mmap` keeps no descriptor open, unlike that of Python."""
    found = ctypes.CDLL(None, use_errno=True)
    address, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    found.mmap.restype = address
    found.mmap.argtypes = [address, size, number, number, number, ctypes.c_longlong]
    found.munmap.argtypes = [address, size]
    if LINUX:
        found.madvise.argtypes = [address, size, number]
        found.mincore.argtypes = [address, size, address]
    return found


def exchange(one: str, other: str) -> bool:
    """Exchange the names of two files or folders in one step; False if the system can't."""
    here = -100  # AT_FDCWD: paths are from the working directory
    swap = getattr(libc(), "renameat2", None) if LINUX else None
    return swap is not None and swap(here, os.fsencode(one), here, os.fsencode(other), 2) == 0  # RENAME_EXCHANGE


def flock(fd: int, *how: str) -> None:
    """Lock a file, or unlock it, with these constants of `fcntl`. A system without them has no such locks."""
    if fcntl is not None:
        fcntl.flock(fd, sum([getattr(fcntl, name) for name in how]))


def over_address(address: int, size: int) -> Tensor:
    """Bytes at an address, uint8 `[size]`. The caller keeps alive the bytes that are read."""
    return torch.frombuffer(buffer_at(address, size), dtype=torch.uint8)


def blank(dtype: torch.dtype, shape: Sequence[int]) -> Tensor:
    """An uninitialized tensor, without the warning of torch for experimental dtypes."""
    if dtype not in _ODD:
        return torch.empty(shape, dtype=dtype, device="cpu")
    raw = torch.empty(torch.Size(shape).numel() * dtype.itemsize, dtype=torch.uint8, device="cpu")
    return raw.view(dtype).view(shape)


def tensor_over(buffer: Any, begin: int, end: int, dtype: torch.dtype, shape: Sequence[int]) -> Tensor:
    """A tensor over a part of a buffer, which it keeps alive; a copy if the address is not aligned."""
    size = dtype.itemsize
    if begin == end:
        return blank(dtype, shape)
    if begin % size or dtype in _ODD:
        flat = torch.frombuffer(buffer, dtype=torch.uint8, count=end - begin, offset=begin)
        flat = (flat.clone() if begin % size else flat).view(dtype)
    else:
        flat = torch.frombuffer(buffer, dtype=dtype, count=(end - begin) // size, offset=begin)
    return flat if len(shape) == 1 else flat.view(shape)


def scatter(count: int, buffers: Sequence[Any]) -> list[Any]:
    """The remaining buffers after `count` bytes of them were read or written."""
    done = 0
    for buffer in buffers:
        if count < len(buffer):
            break
        count -= len(buffer)
        done += 1
    left = list(buffers[done:])
    if count:
        left[0] = memoryview(left[0]).cast("B")[count:]
    return left
