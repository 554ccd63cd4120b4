"""What the system is told about maps: which parts will be read soon, and that nothing else will be."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import numpy as np

from ._atomic import open_file
from ._memory import LINUX, libc

PAGE = mmap.PAGESIZE
_CHUNK = 1 << 17
"""Bytes that the system reads for one call, whatever it is asked for; more where a device says so."""
AHEAD = 1 << 23
"""Bytes behind rows that are read in order, which are asked for as well."""
IntArray: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"


def expect_random(address: int, size: int) -> None:
    """Read no more of a map than is touched: by default a page brings in megabytes around it."""
    if LINUX:
        libc().madvise(address, size, mmap.MADV_RANDOM)


def expect_random_reads(fd: int) -> None:
    """Read no more of a file than is asked for."""
    if LINUX:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)


def expect_heads(paths: Sequence[str]) -> None:
    """Have the first page of several files read, side by side; who opens them says what is wrong with one."""
    for path in paths if LINUX else ():
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
    if not LINUX:
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
    return not LINUX or bool(libc().mincore(address // PAGE * PAGE, 1, ctypes.byref(found))) or bool(found.value & 1)
