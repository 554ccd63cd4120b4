"""The groups and arrays of a store that is not trusted. Whatever would read or write outside of it is refused.

An HDF5 file may name other files: by external links, by soft links through them, by external storage, by virtual
datasets. A zarr folder may hold links, and filters that unpickle.
"""

from __future__ import annotations

import os
import stat
import zlib
from collections.abc import Iterator
from functools import cache
from math import prod
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np

from ..._budget import LEAST, allowed, reserve, times_met
from ...errors import FileFormatError, MissingKeyError
from .._names import MAX_DEPTH
from .._optional import optional

_PATHS = 256
"""The most paths to one group: by links, a small file can look like billions of groups."""
_HOPS = 32
"""The most soft links between a name and its object."""
_INFLATED = 1040
"""The most bytes that a byte of gzip unpacks to."""
_TEXTS = 128
"""Texts that are read at a time from a large file; each may be as long as the file."""


def has_child(group: Any, name: str, backend: str) -> bool:
    """Whether a group has a name; a link is not followed."""
    return bool(group.id.links.exists(name.encode())) if backend == "h5" else name in group


def child_of(group: Any, name: str, backend: str) -> Any:
    """A group or an array in a group.

    Raises:
        FileFormatError: for anything that leads out of the store, and for a link without a target; names its path.
        KeyError: if the group doesn't have the name.
    """
    if backend == "h5":
        return _checked_h5(group, _follow_link(group, name, iter(range(_HOPS))), name)
    found = group[name]
    if not hasattr(found, "dtype"):
        return found
    _check_codecs(found)
    return found


def check_depth(above: tuple[Any, ...], group: Any) -> None:
    """Refuse a group that contains itself, and groups that are nested too deeply.

    Args:
        above: the groups that contain it.
        group: the group.
    """
    if len(above) > MAX_DEPTH:
        raise _store_error(group, "", f"groups are nested more than {MAX_DEPTH} levels deep")
    if any([outer == group for outer in above]):
        raise _store_error(group, "", "the group contains itself, by a link to a group above it")


def reserve_rows(node: Any, shape: tuple[int, ...]) -> None:
    """Reserve the memory for a part of an array, and for one of its chunks if those are packed.

    Args:
        node: the array.
        shape: the shape of the part.
    """
    size = node.dtype.itemsize
    whole = prod(shape) * size
    chunks = node.chunks if whole else None
    if chunks and prod(chunks) * size > whole and (not hasattr(node, "compression") or node.compression is not None):
        whole = prod(chunks) * size
    reserve(whole, lambda: f"`{node.name}`, {node.dtype} {[*shape]},")


def _store_error(node: Any, name: str, what: str) -> FileFormatError:
    """The error for a node of a store, or for a name in it."""
    file = node.file.filename if hasattr(node, "file") else node.store_path.store
    return FileFormatError(what, file, None, "/".join([node.name.rstrip("/"), name]).rstrip("/")[:200] or "/")


# ---- HDF5 ------------------------------------------------------------------------------------------------------------


@cache
def _h5py() -> Any:
    return optional("h5py", "An HDF5 file", "hdf5")


def _follow_link(group: Any, name: str, hops: Iterator[int]) -> Any:
    """What a name of an HDF5 group leads to. Each link on the way is checked before it is followed."""
    h5l, links, raw = _h5py().h5l, group.id.links, name.encode()
    if not links.exists(raw):
        raise MissingKeyError(name)
    kind = links.get_info(raw).type
    if kind == h5l.TYPE_HARD:
        return group[name]
    if kind == h5l.TYPE_EXTERNAL:
        file, inside = [part.decode(errors="replace") for part in links.get_val(raw)]
        raise _store_error(
            group, name, f"it is a link to {inside!r:.200} in the file {file!r:.200}; it is not followed"
        )
    if kind != h5l.TYPE_SOFT:
        raise _store_error(group, name, "it is a link of an unknown kind; it is not followed")
    target = links.get_val(raw).decode(errors="replace")
    if next(hops, None) is None:
        raise _store_error(group, name, f"it is a link to {target!r:.200}, and links lead in a circle")
    here = group.file["/"] if target.startswith("/") else group
    for part in [part for part in target.split("/") if part not in ("", ".")]:
        try:
            here = _follow_link(here, part, hops)
        except (KeyError, AttributeError):  # an array has no links
            what = f"it is a link to {target!r:.200}, and nothing is there; `del file[...]` of h5py removes it"
            raise _store_error(group, name, what) from None
    return here


def _checked_h5(group: Any, node: Any, name: str) -> Any:
    """A group or an array of HDF5; links in circles and values in other files are refused."""
    h5py = _h5py()
    if isinstance(node, h5py.Group):
        if times_met(node.id) > _PATHS:
            raise _store_error(group, name, f"links make more than {_PATHS} paths to this group")
        return node
    if not isinstance(node, h5py.Dataset):
        raise _store_error(group, name, "it is a named type; a group or an array is expected")
    about = node.id.get_create_plist()
    if node.shape is None:
        raise _store_error(group, name, "it is empty: HDF5 stores a type for it and no value")
    if about.get_layout() == h5py.h5d.VIRTUAL or about.get_external_count():
        what = "its values are in other files, by a virtual dataset or external storage; they are not read"
        raise _store_error(group, name, what)
    return node


def stored_bytes(group: Any) -> int:
    """The size of a store in bytes: of the file, or of the arrays of a zarr group."""
    if hasattr(group, "file"):
        return int(group.file.id.get_filesize())
    return sum([array.nbytes_stored() for _, array in group.members(max_depth=None) if hasattr(array, "nbytes_stored")])


def check_packed(array: Any, checked: set[str]) -> None:
    """Refuse an HDF5 array with a chunk that unpacks to more than its size, which HDF5 would allocate.

    Only chunks that could exceed the memory of the read are unpacked, once for each store.

    Args:
        array: the array; any other than one with gzip is skipped.
        checked: the names of the arrays that were looked at before; this one is added.
    """
    if getattr(array, "compression", None) != "gzip" or array.name in checked:
        return
    checked.add(array.name)
    about, limit, large = array.id.get_create_plist(), allowed(), list[Any]()
    filters = [about.get_filter(i)[0] for i in range(about.get_nfilters())]
    if filters.count(_h5py().h5z.FILTER_DEFLATE) > 1:
        raise _store_error(array, "", "its chunks are packed several times")
    if array.id.get_storage_size() * _INFLATED <= limit:
        return
    array.id.chunk_iter(lambda one: large.append(one.chunk_offset) if one.size * _INFLATED > limit else None)
    size = prod(array.chunks) * array.dtype.itemsize
    for offset in large:
        skipped, raw = array.id.read_direct_chunk(offset)
        try:
            found = b"" if skipped else zlib.decompressobj().decompress(raw, size + 1)
        except zlib.error as error:
            raise _store_error(array, "", f"its chunk at {offset} is damaged: {error!s:.80}") from None
        if len(found) > size:
            raise _store_error(array, "", f"its chunk at {offset} unpacks to more than the {size} bytes of a chunk")


def texts_of(array: Any) -> Any:
    """The texts of an HDF5 array. In a file, many may share one long text, so they are read in parts."""
    size = array.file.id.get_filesize()
    reserve(array.size * np.dtype(object).itemsize, f"`{array.name}`")
    found, flat = np.empty(array.shape, object), array.asstr()
    step = max(_TEXTS, LEAST // max(1, size))
    for row in np.ndindex(array.shape[:-1]) if array.ndim else [()]:
        for begin in range(0, array.shape[-1], step) if array.ndim else [None]:
            at = row if begin is None else (*row, slice(begin, begin + step))
            found[at] = part = flat[at]
            reserve(sum(map(len, part)) if begin is not None else len(part), f"`{array.name}`")
    return found


# ---- zarr ------------------------------------------------------------------------------------------------------------


def _check_codecs(array: Any) -> None:
    """Refuse an array whose chunks would be unpickled."""
    about = array.metadata.to_dict()
    codecs = [*(about.get("codecs") or ()), *(about.get("filters") or ()), about.get("compressor") or {}]
    names = [str(codec.get("id", codec.get("name")) if isinstance(codec, dict) else codec) for codec in codecs]
    if any(["pickle" in name.lower() for name in names]):
        raise _store_error(array, "", "its chunks are pickled, and reading them may run any code")


def local_store(path: str) -> Any:
    """A zarr store in a folder that follows no link below the folder."""
    return optional("zarr.storage", "A zarr group", "zarr").LocalStore(_LinklessFolder(os.path.abspath(path)))


def local_folder(path: str) -> str:
    """The folder of a `file://` URL; any other path as it is."""
    parts = urlsplit(path)
    return unquote(parts.path) if parts.scheme in ("file", "local") and "::" not in path else path


class _LinklessFolder(type(Path())):  # type: ignore[misc]  # the class of paths of this system
    """A folder whose `folder / name` refuses links, devices, pipes and sockets on the way to a file."""

    def __truediv__(self, name: Any) -> Any:
        here, folder = str(self), Path(self)
        for part in Path(str(name)).parts:
            here = os.path.join(here, part)
            try:
                mode = os.lstat(here).st_mode
            except (FileNotFoundError, NotADirectoryError):
                break
            if part == os.pardir or not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                raise FileFormatError("a link, pipe or device in a zarr group is not followed", here)
        return folder / name


def row_bytes(array: Any) -> int:
    """The size of one row of an array in bytes."""
    return int(prod(array.shape[1:]) * array.dtype.itemsize)
