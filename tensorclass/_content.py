"""Reads and writes regular files as a whole; refuses anything else at a path."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from contextlib import suppress

from ._places import local_path
from ._system import PLAIN
from .errors import MemoryBudgetError

MAX_BYTES = 2**30
"""The largest file that is read by default: 1 GiB."""
MAX_SOURCE = 2**24
"""The largest module that is read or run: 16 MiB."""


def read_content(path: str | os.PathLike[str], max_bytes: int | None = None) -> bytes:
    """The bytes of a regular file; links are followed.

    Args:
        path: the file.
        max_bytes: the largest size that is read; by default 1 GiB.

    Raises:
        MemoryBudgetError: for a larger file; nothing is read.
        OSError: for anything but a regular file (a folder, a pipe, a device, a socket), before anything is read; for a
            file that changes its size during the read; and the errors of `open`.

    >>> with open("a.txt", "w") as file:
    ...     _ = file.write("text")
    >>> read_content("a.txt")
    b'text'
    """
    name = local_path(path)
    _check(os.stat(name), name, max_bytes)  # before it is opened: opening a device may have side effects
    with os.fdopen(os.open(name, os.O_RDONLY | PLAIN), "rb") as file:
        size = _check(os.fstat(file.fileno()), name, max_bytes)
        content = file.read(size + 1)
    if len(content) != size:
        raise OSError(errno.EBUSY, f"the file has {size} bytes and {len(content)} were read: it is being written", name)
    return content


def _check(found: os.stat_result, name: str, max_bytes: int | None) -> int:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, "a folder is not read; give the path of a file", name)
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "not a regular file: a pipe, device or socket is not read", name)
    most = MAX_BYTES if max_bytes is None else max_bytes
    if found.st_size > most:
        hint = f"the file has {found.st_size} bytes, more than the {most} that are read; raise the limit: `max_bytes=`"
        raise MemoryBudgetError(hint, name)
    return found.st_size


def write_content(
    path: str | os.PathLike[str], text: str | bytes, inside: str | os.PathLike[str] | None = None
) -> None:
    """Write a file atomically: a temporary file in the same folder replaces it.

    Args:
        path: the file.
        text: the content; a string is written in UTF-8.
        inside: a folder that the file must be in: missing folders below it are created, and links out of it are
            refused.

    Raises:
        OSError: if the path is a folder, link, pipe or device, or outside `inside`. Then nothing is written, and an
            existing file is untouched.

    >>> write_content("notes/a.txt", "text", inside=".")
    >>> read_content("notes/a.txt")
    b'text'
    """
    name = os.path.abspath(local_path(path))
    folder, base = os.path.split(name)
    if inside is not None:
        root = os.path.realpath(inside)
        if os.path.commonpath([root, os.path.realpath(folder)]) != root:
            raise OSError(errno.EPERM, f"a link leads out of {os.fspath(inside)}; nothing is written there", name)
        os.makedirs(folder, exist_ok=True)
    mode = None
    with suppress(FileNotFoundError):
        mode = os.lstat(name).st_mode
    if mode is not None and not stat.S_ISREG(mode):
        if stat.S_ISDIR(mode):
            kind = "a folder"
        elif stat.S_ISLNK(mode):
            kind = "a link"
        else:
            kind = "a pipe, device or socket"
        raise OSError(errno.EEXIST, f"{kind} has that name; only a file is written over", name)
    temporary = os.path.join(folder, f".{base[:100]}.{secrets.token_hex(6)}.tmp")
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | PLAIN, 0o666), "wb") as file:
            file.write(text.encode() if isinstance(text, str) else text)
        if mode is not None:
            os.chmod(temporary, stat.S_IMODE(mode))
        os.replace(temporary, name)
    except BaseException as error:  # also on an interrupt, remove the temporary file
        with suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.filename is None:  # of the write itself, such as a full disk
            raise OSError(error.errno or errno.EIO, error.strerror or str(error), name) from error
        raise
