"""The memory of tensors as buffers for system calls, and tensors over buffers, without copies."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ._dtypes import CARRIED

_BYTE = ctypes.c_ubyte
_ODD = frozenset(CARRIED.values())
"""dtypes for which torch can't make a tensor over a buffer directly."""


def buffer_of(tensor: Tensor) -> Any:
    """The bytes of a contiguous tensor on the CPU. It is valid as long as the tensor lives."""
    return buffer_at(tensor.data_ptr(), tensor.numel() * tensor.element_size())


def buffer_at(address: int, size: int) -> Any:
    """Bytes at an address; the caller keeps them alive."""
    return (_BYTE * size).from_address(address)


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
