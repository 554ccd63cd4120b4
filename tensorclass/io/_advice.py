"""Hints to the operating system about memory maps: which parts will be read soon, and that the rest won't be."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import numpy as np

from .._system import expect_of_file, expect_of_map
from ._atomic import opened_file

PAGE = mmap.PAGESIZE
_CHUNK = 1 << 17
"""Bytes that the system reads ahead per call, even if more are requested; some devices read more."""
AHEAD = 1 << 23
"""Bytes that are read ahead after rows in order."""
IntArray: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"


def expect_random(address: int, size: int) -> None:
    """Turn readahead off for a map: by default, touching one page reads megabytes around it."""
    expect_of_map(address, size, "MADV_RANDOM")


def expect_random_reads(fd: int) -> None:
    """Turn readahead off for a file."""
    expect_of_file(fd, 0, "POSIX_FADV_RANDOM")


def expect_heads(paths: Sequence[str]) -> None:
    """Ask the system to read the first page of several files at the same time.

    Errors are ignored: opening the file raises them.
    """
    for path in paths:
        with suppress(OSError), opened_file(path) as (fd, _):
            expect_of_file(fd, PAGE, "POSIX_FADV_WILLNEED")


def expect_rows(begins: IntArray, size: int, more: int) -> None:
    """Ask the system for all these rows of a map at once; it reads them in parallel.

    Args:
        begins: int64 `[n]`, their addresses; n >= 1.
        size: bytes of a row.
        more: bytes after the last row that are requested too.
    """
    ends = begins + (size - 1)
    ends[-1] += more
    order = np.argsort(begins)
    first, last = begins[order] // PAGE, np.maximum.accumulate(ends[order] // PAGE)
    cuts = np.flatnonzero(first[1:] > last[:-1] + 1)
    for page, end in zip(first[[0, *(cuts + 1)]].tolist(), last[[*cuts, -1]].tolist(), strict=True):
        for begin in range(page * PAGE, (end + 1) * PAGE, _CHUNK):
            expect_of_map(begin, min(_CHUNK, (end + 1) * PAGE - begin), "MADV_WILLNEED")
