"""Where a path leads: to the disk, or to the store that a URL names. A URL is never taken for a local path."""

from __future__ import annotations

import os
import re
from typing import TypeAlias

from .errors import ArgumentError, UnsupportedOperationError

StrPath: TypeAlias = "str | os.PathLike[str]"
_SCHEME = r"[A-Za-z][A-Za-z0-9+.\-]*(?:::[A-Za-z0-9+.\-]*)*"
_URL = re.compile(rf"{_SCHEME}://")
_NEARLY = re.compile(rf"\s*(?![A-Za-z]:/)({_SCHEME}):/")
"""A URL with a missing slash, as `pathlib.Path` writes it, or with blanks before it. One letter is a drive."""


def is_url(path: str) -> bool:
    """Whether a path is a URL.

    >>> is_url("s3://bucket/a.safetensors"), is_url("data/a.safetensors")
    (True, False)
    """
    return "://" in path and _URL.match(path) is not None


def path_or_url(path: StrPath) -> str:
    """A path or a URL as text, for functions that take both; the scheme of a URL is in lower case.

    Raises:
        ArgumentError: for anything else, an empty text, and one with a null character.
        UnsupportedOperationError: for a URL with a missing slash, which the system would take for a folder; and for one
            of a file whose content names other files (kerchunk).

    >>> path_or_url("S3://Bucket/a.safetensors")
    's3://Bucket/a.safetensors'
    """
    found = os.fspath(path) if isinstance(path, str | bytes | os.PathLike) else path
    if not isinstance(found, str):
        raise ArgumentError(f"a path is a text or a Path, got {found!r:.80}")
    if not found:
        raise ArgumentError("a path names a file or a folder, got an empty text; `.` is the current folder")
    if "\0" in found:
        raise ArgumentError(f"a path has no null characters, got {found!r:.80}")
    if is_url(found):
        scheme, _, rest = found.partition("://")
        if any([part.partition("://")[0].lower() == "reference" for part in found.split("::")]):
            what = "a `reference://` URL: such a file names other files, local ones too; they are not followed"
            raise UnsupportedOperationError(f"{found:.200}: {what}")
        return f"{scheme.lower()}://{rest}"
    nearly = _NEARLY.match(found)
    if nearly is not None:
        what = f"it looks like a `{nearly[1]}://` URL, but it is not one: a URL is a text that begins with `{nearly[1]}://`"
        raise UnsupportedOperationError(f"{found:.200}: {what}, not a Path; a folder of that name is `./{found:.40}`")
    return found


def whole_path(path: StrPath) -> str:
    """The absolute path of a folder, or its URL without a slash at the end.

    >>> whole_path("s3://bucket/rows/")
    's3://bucket/rows'
    """
    found = path_or_url(path)
    return found.rstrip("/") if is_url(found) else os.path.abspath(found)


def local_path(path: StrPath) -> str:
    """A path on the disk as text, for functions that take no URL.

    Raises:
        TypeError: for anything else.
        UnsupportedOperationError: for a URL; names its scheme.

    >>> local_path("data/a.csv")
    'data/a.csv'
    """
    found = path_or_url(path)
    if is_url(found):
        scheme = found.partition("://")[0]
        what = f"a `{scheme}://` URL; this works with files on the disk only: give a path, and copy the file"
        raise UnsupportedOperationError(f"{found:.200}: {what} with the tools of the store")
    return found
