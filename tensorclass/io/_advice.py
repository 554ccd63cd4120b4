"""Hints to the operating system about memory maps: which parts will be read soon, and that the rest won't be."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import numpy as np

from ._atomic import opened_file
from ._system import LINUX, libc

PAGE = mmap.PAGESIZE
_CHUNK = 1 << 17
"""Bytes that the system reads ahead per call, even if more are requested; some devices read more."""
AHEAD = 1 << 23
"""Bytes that are read ahead after rows in order."""
IntArray: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"


def expect_random(address: int, size: int) -> None:
    """Turn readahead off for a map: by default, touching one page reads megabytes around it."""
    if LINUX:
        libc().madvise(address, size, mmap.MADV_RANDOM)


def expect_random_reads(fd: int) -> None:
    """Turn readahead off for a file."""
    if LINUX:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)


def expect_heads(paths: Sequence[str]) -> None:
    """Ask the system to read the first page of several files at the same time.

    Errors are ignored: opening the file raises them.
    """
    for path in paths if LINUX else ():
        with suppress(OSError), opened_file(path) as (fd, _):
            os.posix_fadvise(fd, 0, PAGE, os.POSIX_FADV_WILLNEED)


def expect_rows(begins: IntArray, size: int, more: int) -> None:
    """Ask the system for all these rows of a map at once; it reads them in parallel.

    Args:
        begins: int64 `[n]`, their addresses; n >= 1.
        size: bytes of a row.
        more: bytes after the last row that are requested too.
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
    """Whether the page of a mapped byte is in the page cache; True if the system can't tell."""
    found = ctypes.c_ubyte(1)
    return not LINUX or bool(libc().mincore(address // PAGE * PAGE, 1, ctypes.byref(found))) or bool(found.value & 1)
