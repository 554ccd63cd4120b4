"""Finds the shards of a dataset that can't be read, so that the rest can be."""

from __future__ import annotations

import errno
import warnings
from collections.abc import Sequence
from contextlib import suppress

from .._places import is_url
from ..errors import FileFormatError
from ._remote import BLOCK, Remote, fetch_ranges
from ._shards import ReadHow, Shard, open_shard, remote_shard

_TOGETHER = 256
"""Remote shards whose first and last bytes are requested at once."""


def find_bad_shards(shards: Sequence[Shard], how: ReadHow) -> dict[str, str]:
    """Open every shard; the paths of bad ones, with the reasons.

    Raises:
        OSError: of a store that does not answer, since its shards may be right.
    """
    found: dict[str, str] = {}
    for begin in range(0, len(shards), _TOGETHER):
        some = shards[begin : begin + _TOGETHER]
        _held = _request_ends(some)
        for shard in some:
            reason = _fault_of(shard, how)
            if reason:
                found[shard.path] = reason
    return found


def _ends_of(shard: Shard) -> list[tuple[int, int]]:
    entry = shard.entry
    return [(0, entry.header or BLOCK), (max(0, entry.bytes - 1), entry.bytes)]


def _request_ends(shards: Sequence[Shard]) -> list[Remote]:
    """Request the first and last bytes of remote shards at once; the files keep them."""
    files = [(remote_shard(shard), _ends_of(shard)) for shard in shards if is_url(shard.folder)]
    with suppress(OSError):  # each is read again by itself, to find which ones fail
        fetch_ranges(files)
    return [file for file, _ in files]


def _fault_of(shard: Shard, how: ReadHow) -> str:
    """Why a shard can't be read; nothing for a good one."""
    far = is_url(shard.folder)
    try:
        if far:
            remote_shard(shard).need(_ends_of(shard), check=False)
        open_shard(shard, how)
    except (FileFormatError, FileNotFoundError) as error:
        return str(error)
    except OSError as error:
        if not far:
            return str(error)
        if (size := Remote(shard.path).size) != shard.entry.bytes:
            return f"{shard.path}: the manifest says {shard.entry.bytes} bytes, the shard has {size}"
        raise
    return ""


def warn_of_skipped(skipped: dict[str, str], shards: Sequence[Shard]) -> None:
    """Warn of shards that are left out.

    Raises:
        OSError: if no shard is left.
    """
    rows = sum([shard.rows for shard in shards if shard.path in skipped])
    reasons = "; ".join(list(skipped.values())[:3])
    text = f"{len(skipped)} of {len(shards)} shards with {rows} rows can't be read: {reasons:.900}"
    if len(skipped) == len(shards):
        raise OSError(errno.EIO, text, shards[0].folder)
    warnings.warn(f"skipped: {text}; `skipped` of the dataset has all reasons", stacklevel=6)
