"""A folder as one file, and back. Stored bytes are copied unchanged, so no class needs to be imported."""

from __future__ import annotations

import os
from pathlib import Path as FilePath

from .._budget import budget
from .._flags import flags
from .._places import local_path, path_or_url
from ..errors import ArgumentError, FileFormatError, UnsupportedOperationError
from ._anchor import is_zip
from ._codecs import codec_of, compressed
from ._files import find, put
from ._pack import Item, Packed, pack
from ._paths import StrPath, stored_bytes, to_read, to_write
from ._read import find_tensors, head_of
from ._unpack import references


@flags
def pack_memmap(
    prefix: StrPath,
    archive_path: StrPath,
    *,
    compression: str | int | None = None,
    compresslevel: int | None = None,
    max_bytes: int | None = None,
) -> FilePath:
    """Write the content of a folder to one file that `load` and `load_memmap` open.

    Args:
        prefix: a folder that `save` or `memmap` wrote, here or in `tensordict`; or a file, which is converted.
        archive_path: the new file, outside the folder. An existing file is replaced.
        compression: "deflate", "bzip2" or "lzma", or the constants of `zipfile`. Each tensor is compressed separately
            if that makes it smaller, and unpacked into memory when it is loaded. With None and "stored" the tensors can
            be mapped.
        compresslevel: 0 to 9; 1 to 9 for "bzip2".
        max_bytes: the most memory that reading the folder or file may take; see `load`.

    Returns:
        The path of the file.

    Raises:
        ArgumentError: for an unknown compression or level, and for a path inside the folder.
        FileFormatError: for a damaged folder.
        OSError: if the file can't be written. It names the path, and an existing file does not change.

    >>> import torch
    >>> from tensorclass import TensorDict, is_memmap_archive, load, pack_memmap
    >>> _ = TensorDict(a=torch.zeros(1000)).save("x")
    >>> path = pack_memmap("x", "x.tdz", compression="deflate")
    >>> is_memmap_archive(path), path.stat().st_size < 4000, load(path)["a"].shape
    (True, True, torch.Size([1000]))
    """
    codec = codec_of(compression, compresslevel)
    text, target = os.path.abspath(local_path(prefix)), os.path.abspath(local_path(archive_path))
    if os.path.commonpath([text, target]) == text and os.path.isdir(text):
        raise ArgumentError(f"pack_memmap: the archive lies outside of the folder {text}, got {target}")
    packed, checksums = _read_stored(text, max_bytes)
    file, _ = to_write(target, True)
    put(file, "", compressed(packed, codec, compresslevel), checksums=checksums)
    return FilePath(archive_path)


@flags
def unpack_memmap(archive_path: StrPath, prefix: StrPath, *, max_bytes: int | None = None) -> FilePath:
    """Write the content of an archive to a folder, uncompressed; see `pack_memmap`.

    Args:
        archive_path: a file that `pack_memmap` or `save` wrote, here or in `tensordict`.
        prefix: the folder. It is created; the content of an existing folder is replaced as a whole.
        max_bytes: the most memory that unpacking may take; see `load`.

    Returns:
        The path of the folder.

    Raises:
        FileFormatError: for anything but an archive, and for a damaged archive. `MemoryBudgetError` for one that
            unpacks to more than `max_bytes`.
        OSError: if the file can't be used. The message names the path.

    >>> import torch
    >>> from tensorclass import TensorDict, load, unpack_memmap
    >>> _ = TensorDict(a=torch.zeros(3)).save("a.safetensors")
    >>> path = unpack_memmap("a.safetensors", "a")
    >>> load(path)["a"].tolist()
    [0.0, 0.0, 0.0]
    """
    packed, checksums = _read_stored(_archive(archive_path), max_bytes)
    file, folder = to_write(prefix, False)
    put(os.path.abspath(file), os.path.abspath(folder), packed, checksums=checksums)
    return FilePath(prefix)


def is_memmap_archive(path: StrPath) -> bool:
    """Whether a path is a single file that holds a container: one written by this library, or a `.tdz` of `tensordict`.

    False for a folder, a path that doesn't exist, and any other file, including the files of other libraries.

    >>> import torch
    >>> from tensorclass import TensorDict, is_memmap_archive
    >>> _ = TensorDict(a=torch.zeros(3)).save("a.safetensors")
    >>> is_memmap_archive("a.safetensors"), is_memmap_archive(".")
    (True, False)
    """
    text = path_or_url(path)
    try:
        return head_of(text).ours
    except FileFormatError:
        return is_zip(text)
    except OSError:
        return False


def refresh_archive_checksums(archive_path: StrPath) -> FilePath:
    """Recompute the checksums of an archive after writes in place to its tensors, for `load(..., verify=True)`.

    A new file replaces the old one. A batch that is mapped from the old file keeps it. A compressed archive can't be
    written in place, and is left unchanged.

    Raises:
        FileFormatError: for anything but an archive.
        UnsupportedOperationError: for an archive that `tensordict` wrote.

    >>> import torch
    >>> from tensorclass import TensorDict, load, load_memmap, refresh_archive_checksums
    >>> _ = TensorDict(a=torch.zeros(2)).save("a.safetensors", checksums=True)
    >>> _ = load_memmap("a.safetensors")["a"].fill_(7)
    >>> _ = refresh_archive_checksums("a.safetensors")
    >>> load("a.safetensors", verify=True)["a"]
    tensor([7., 7.])
    """
    text = _archive(archive_path)
    if is_zip(text):
        raise UnsupportedOperationError(f"{text}: `tensordict` wrote it; `load(path).save(path)` converts it first")
    if not head_of(text).meta.compressed:
        put(text, "", _read_stored(text)[0], checksums=True)
    return FilePath(archive_path)


def _archive(path: StrPath) -> str:
    text = os.path.abspath(local_path(path))
    if not is_memmap_archive(text):
        raise FileFormatError("it is not an archive: `pack_memmap` and `save` to a path ending in .tdz make one", text)
    return text


def _read_stored(path: str, max_bytes: int | None = None) -> tuple[Packed, bool]:
    """The content of a folder or a file, and whether it has checksums."""
    with budget(max_bytes, lambda: stored_bytes(path), path):
        return _found(path)


def _found(path: str) -> tuple[Packed, bool]:
    """The stored tensors of a folder, and whether all have checksums; other files are read and packed again."""
    file, key = to_read(path)
    if key:
        raise FileNotFoundError(2, "no such file or folder", path)
    found = None if os.path.isdir(file) or is_zip(file) else find_tensors(file)
    if found is None or not all([head.ours for head in found.heads]):
        return pack(find(path, None, None)[0]), False
    slots = {name: slot for head in found.heads for name, slot in head.header.tensors.items()}
    items = [
        Item(name, slots[name].code, slots[name].shape, found.tensors[name], found.tensors[name].nbytes)
        for name in dict.fromkeys([name for name, _ in references(found.part)])
    ]
    classes = [part.model_dump(exclude_unset=True) for part in found.meta.classes]
    root = found.part.model_dump(exclude_unset=True)
    return Packed(root, classes, items, False), all([head.meta.crc32 is not None for head in found.heads])
