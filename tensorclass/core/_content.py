"""The content of a file that is named by whoever calls, and of nothing else that a path may lead to."""

from __future__ import annotations

import errno
import os
import stat

MAX_BYTES = 2**30
"""The largest text that is read unless the caller says otherwise: 1 GiB."""
_FLAGS = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY", "O_BINARY"))


def read_content(path: str | os.PathLike[str], max_bytes: int | None = MAX_BYTES) -> bytes:
    """The bytes of a regular file; links are followed.

    Args:
        path: the file.
        max_bytes: the largest size that is read; None for any.

    Raises:
        OSError: for what is not a regular file (a folder, a pipe, a device, a socket) and for one that is too large,
            before anything is read; for one that grows or shrinks meanwhile; and as `open` raises it.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     read_content(file.name)
    b''
    """
    name = os.fspath(path)
    _check(os.stat(name), name, max_bytes)  # before it is opened: opening a device may do something
    with os.fdopen(os.open(name, _FLAGS), "rb") as file:
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
    if max_bytes is not None and found.st_size > max_bytes:
        hint = f"the file has {found.st_size} bytes, more than the {max_bytes} that are read; raise `max_bytes`"
        raise OSError(errno.EFBIG, hint, name)
    return found.st_size
