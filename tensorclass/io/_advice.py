"""What the system is told about maps: which parts will be read soon, and that nothing else will be."""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import numpy as np

from ._atomic import open_file

PAGE = mmap.PAGESIZE
_LINUX = sys.platform == "linux"
_CHUNK = 1 << 17
"""Bytes that the system reads for one call, whatever it is asked for; more where a device says so."""
AHEAD = 1 << 23
"""Bytes behind rows that are read in order, which are asked for as well."""
IntArray: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"


@functools.cache
def libc() -> Any:
    """What maps memory: Python's own maps keep a descriptor each."""
    found = ctypes.CDLL(None, use_errno=True)
    address, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    found.mmap.restype = address
    found.mmap.argtypes = [address, size, number, number, number, ctypes.c_longlong]
    found.munmap.argtypes = [address, size]
    if _LINUX:
        found.madvise.argtypes = [address, size, number]
        found.mincore.argtypes = [address, size, address]
    return found


def expect_random(address: int, size: int) -> None:
    """Read no more of a map than is touched: by default a page brings in megabytes around it."""
    if _LINUX:
        libc().madvise(address, size, mmap.MADV_RANDOM)


def expect_random_reads(fd: int) -> None:
    """Read no more of a file than is asked for."""
    if _LINUX:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)


def expect_heads(paths: Sequence[str]) -> None:
    """Have the first page of several files read, side by side; who opens them says what is wrong with one."""
    for path in paths if _LINUX else ():
        with suppress(OSError):
            fd, _ = open_file(path)
            os.posix_fadvise(fd, 0, PAGE, os.POSIX_FADV_WILLNEED)
            os.close(fd)


def fetch(begins: IntArray, size: int, more: int) -> None:
    """Ask the system for rows of a map all at once; it reads them side by side.

    Args:
        begins: int64 `[n]`, their addresses; n >= 1.
        size: bytes of a row.
        more: bytes behind the last one, which are asked for too.
    """
    if not _LINUX:
        return
    ends = begins + (size - 1)
    ends[-1] += more
    order = np.argsort(begins)
    first, last = begins[order] // PAGE, np.maximum.accumulate(ends[order] // PAGE)
    cuts = np.flatnonzero(first[1:] > last[:-1] + 1)
    for page, end in zip(first[[0, *(cuts + 1)]].tolist(), last[[*cuts, -1]].tolist(), strict=True):
        for begin in range(page * PAGE, (end + 1) * PAGE, _CHUNK):
            libc().madvise(begin, min(_CHUNK, (end + 1) * PAGE - begin), mmap.MADV_WILLNEED)


def is_here(address: int) -> bool:
    """Whether the page of a mapped byte is in the page cache; where that can't be looked up it is."""
    found = ctypes.c_ubyte(1)
    return not _LINUX or bool(libc().mincore(address // PAGE * PAGE, 1, ctypes.byref(found))) or bool(found.value & 1)
