"""Where a batch is on disk: a file, or a folder that holds `data.safetensors`. A key may follow in the path."""

from __future__ import annotations

import errno
import os
import re
import stat

from .._places import StrPath as StrPath
from .._places import is_url, path_or_url
from ..core import Path
from ..errors import StructureError
from ._remote import exists, remote

DATA = "data.safetensors"
"""The file in a folder."""
INDEX = "data.safetensors.index.json"
"""The index of a folder: the files that belong to it."""
PART = re.compile(r"data(?:-([1-9]\d{0,8}))?\.safetensors")
"""The names of files in a folder."""
META = "meta.json"
"""The file in a folder that `tensordict` wrote."""
SUFFIXES = (".safetensors", ".tdz")
"""A path with one of these suffixes is the file itself."""


def is_file_path(text: str) -> bool:
    """Whether a path is the file itself."""
    return text.endswith(SUFFIXES)


def to_write(path: StrPath, single: bool | None = None) -> tuple[str, str]:
    """The file to write for a path, and the folder to create for it, or "".

    Args:
        path: the path that the user gave.
        single: whether it is the file itself; by default its suffix decides.

    Raises:
        NotADirectoryError: if the folder is a file.
        StructureError: for one of several files that belong to a folder.
    """
    text = path_or_url(path)
    if is_url(text):
        return (text if single or (single is None and is_file_path(text)) else f"{text.rstrip('/')}/{DATA}"), ""
    if single or (single is None and is_file_path(text)):
        folder, name = os.path.split(text)
        if PART.fullmatch(name) is None or not os.path.lexists(os.path.join(folder, INDEX)):
            return text, ""
        if name != DATA:
            raise StructureError(f"{text} is one of the files that make up {folder or '.'}; save to that folder")
        text = folder or "."
    try:
        kind = os.stat(text).st_mode
    except FileNotFoundError:
        pass
    else:
        if not stat.S_ISDIR(kind):
            what = f"a file in place of a folder; a path that ends in {SUFFIXES[0]} is written as one file"
            raise NotADirectoryError(errno.ENOTDIR, what, text)
    return os.path.join(text, DATA), text


def is_folder(file: str) -> bool:
    """Whether a result of `to_read` is a folder that `tensordict` wrote."""
    return file.endswith("/") if is_url(file) else os.path.isdir(file)


def home_of(file: str, folder: str) -> str:
    """The file to read after a write to a folder: the index if the folder has one, else the written file."""
    index = os.path.join(folder, INDEX)
    return index if folder and os.path.lexists(index) else file


def to_read(path: StrPath) -> tuple[str, Path]:
    """The file to read for a path, and the key that the path ends with: `folder/0` is the entry `0` of `folder`.

    Raises:
        FileNotFoundError: if there is no such file.
    """
    text = path_or_url(path)
    if is_url(text):
        folder = text.rstrip("/")
        held = () if is_file_path(text) else [name for name in (INDEX, DATA, META) if exists(f"{folder}/{name}")]
        if not held:
            return text, ()
        return f"{folder}/{held[0] if held[0] != META else ''}", ()
    here, rest = text, list[str]()
    while True:
        try:
            kind = os.stat(here or ".").st_mode
        except (FileNotFoundError, NotADirectoryError):
            if os.path.islink(here):
                return here, ()  # a broken link; opening it refuses it as a link
            above, name = os.path.split(here)
            if is_file_path(here) or not (name or above) or above == here:
                raise _nothing(text) from None
            here, rest = above, [name, *rest] if name else rest
            continue
        except OSError as error:
            raise OSError(error.errno, error.strerror, text) from error
        if not stat.S_ISDIR(kind):
            if os.path.basename(here) == DATA and os.path.lexists(f"{here}.index.json"):
                here = f"{here}.index.json"
            return here, tuple(rest)
        file = os.path.join(here, INDEX)
        if os.path.lexists(file):
            return file, tuple(rest)
        file = os.path.join(here, DATA)
        if not os.path.lexists(file):
            if os.path.lexists(os.path.join(here, META)):
                return here, tuple(rest)
            raise _nothing(text)
        return file, tuple(rest)


def stored_bytes(path: StrPath) -> int:
    """The size in bytes of what is read for a path: a file, or all files of a folder."""
    file, _ = to_read(path)
    if is_url(file):
        return 0 if file.endswith("/") else remote(file).size
    if os.path.isdir(file):
        folder = file
    elif file.endswith(".json"):
        folder = os.path.dirname(file)
    else:
        folder = ""
    if not folder:
        return os.stat(file).st_size
    return sum([os.lstat(os.path.join(here, name)).st_size for here, _, names in os.walk(folder) for name in names])


def _nothing(text: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, f"no file, and no folder with {DATA}", text)
