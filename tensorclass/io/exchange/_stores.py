"""Opens and replaces files and groups of live stores; converts keys to names, indices to rows; writes copies back."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from typing import Any
from urllib.parse import quote

import numpy as np
import torch
from torch import Tensor

from ..._places import is_url, local_path, path_or_url
from ...errors import FileFormatError, UnsupportedOperationError
from ...ops._index import normalise
from ...ops._steps import Copy, Writes, carry_out
from .._atomic import naming, refuse_special, replacing, replacing_folder
from .._file_kinds import naming_reader
from .._optional import optional
from .._remote import refuse_http
from ._far_groups import far_store
from ._store_nodes import local_folder, local_store

_NO_STORES: tuple[type[Any], ...] = (str, os.PathLike, bytes, int, list)
"""Paths, and what is neither a path nor a store nor an open file."""
_RUNS = 256
"""The most slices that are read for an index."""
_ZARR = {"zarr.json", ".zgroup", ".zarray"}


def plain_index(index: Any) -> tuple[Any, ...] | None:
    """An index of integers and forward slices, which files support directly; None for any other."""
    parts = index if isinstance(index, tuple) else (index,)
    return parts if parts and all(map(_is_forward, parts)) else None


def _is_forward(part: Any) -> bool:
    if isinstance(part, slice):
        return part.step is None or part.step > 0
    return type(part) is int and part >= 0


def runs_of(index: Any, size: torch.Size) -> tuple[list[tuple[slice]], tuple[Tensor, ...]]:
    """The rows of an index as a few slices, and the positions of its elements in the rows that they read."""
    picked = torch.arange(size.numel()).reshape(size)[normalise(index, size)]
    inner = max(1, size[1:].numel())
    rows = np.unique((picked // inner).numpy())
    if not len(rows):
        return [(slice(0, 0),)], (picked.reshape(-1),)
    gaps = np.diff(rows)
    cuts = np.flatnonzero(gaps > 1)
    cuts = cuts if len(cuts) < _RUNS else np.sort(np.argsort(gaps)[1 - _RUNS :])
    runs = [(slice(int(part[0]), int(part[-1]) + 1),) for part in np.split(rows, cuts + 1)]
    kept = torch.cat([torch.arange(run.start, run.stop) for (run,) in runs])
    local = torch.searchsorted(kept, picked // inner)
    return runs, (local, *(torch.unravel_index(picked % inner, size[1:]) if len(size) > 1 else ()))


def name_of(key: str) -> str:
    """A key as the name of a group or an array."""
    name = quote(key, safe=" ~!@$&'()*+,;=:")
    if not name.startswith((".", "__", "zarr.")) and name:
        return name
    return "".join([f"%{byte:02X}" for byte in key.encode()]) or "%"


def open_store(filename: Any, mode: str, backend: str, locking: Any) -> Any:
    """Open an HDF5 file or a zarr group."""
    plain = isinstance(filename, (str, os.PathLike)) and mode in ("r", "r+")
    with naming_reader(filename, f"`from_{backend}`") if plain else nullcontext():
        return _open_zarr(filename, mode, backend, locking)


def _open_zarr(filename: Any, mode: str, backend: str, locking: Any) -> Any:
    """Open a file of HDF5 or a group of zarr."""
    mode = "w-" if mode == "x" else mode
    which = local_path if backend == "h5" else path_or_url
    path = local_folder(which(filename)) if isinstance(filename, _NO_STORES) else filename
    local = isinstance(path, str) and not is_url(path)
    if local:
        with suppress(FileNotFoundError), naming(path):
            kind = (os.stat if mode in ("r", "r+") else os.lstat)(path).st_mode
            if backend == "h5" or not stat.S_ISDIR(kind):
                refuse_special(kind, path)
    if backend == "h5":
        h5py = optional("h5py", "An HDF5 file", "hdf5")
        try:
            with naming(path) if local else nullcontext():
                return h5py.File(path, mode, track_order=True, **({} if locking is None else {"locking": locking}))
        except OSError as error:
            damaged = [what for what in ("signature not found", "truncated file", "bad object") if what in str(error)]
            if not local or not damaged or mode == "w":
                raise
            raise FileFormatError(f"HDF5 can't read it: {damaged[0]}", path) from error
    zarr = optional("zarr", "A zarr group", "zarr")
    if isinstance(path, str) and not local:
        return _group_at(zarr, path, mode)
    try:
        return zarr.open_group(local_store(path) if local else path, mode=mode)
    except FileNotFoundError:
        if not local:
            raise
        if os.path.isdir(path):
            raise FileFormatError("the folder holds no zarr group", path) from None
        raise FileNotFoundError(errno.ENOENT, "there is no zarr group", path) from None
    except (ValueError, KeyError, TypeError) as error:
        if mode not in ("r", "r+"):
            raise
        raise FileFormatError(f"zarr can't read it: {error!s:.200}", str(path)) from error


def _group_at(zarr: Any, url: str, mode: str) -> Any:
    """A zarr group at a URL. Every store has its own errors; ours name the URL."""
    if mode != "r":
        refuse_http(url)
    try:
        return zarr.open_group(far_store(url, mode == "r"), mode=mode)
    except FileNotFoundError:
        raise FileNotFoundError(errno.ENOENT, "there is no zarr group", url) from None
    except (ImportError, ValueError, TypeError) as error:
        raise UnsupportedOperationError(f"{url:.200}: zarr can't open it: {error!s:.200}") from error
    except Exception as error:  # as above
        if isinstance(error, OSError) and error.filename is not None:
            raise  # it names a file of the group
        raise OSError(errno.EIO, f"zarr can't open it: {type(error).__name__}: {error!s:.200}", url) from error


@contextmanager
def place_of(path: Any, backend: str) -> Iterator[Any]:
    """A temporary path for a store. At the end of the block it replaces the target as a whole, or not at all."""
    if not isinstance(path, (str, os.PathLike)):
        yield path  # a store of zarr, or a file in memory
    elif backend == "h5":
        with _naming_hdf5(local_path(path)), replacing(local_path(path)) as target:
            yield os.path.join(target.folder, target.temporary)
    elif is_url(name := path_or_url(path)):
        yield name
    else:
        if os.path.isdir(name) and os.listdir(name) and not _ZARR.intersection(os.listdir(name)):
            raise FileExistsError(errno.EEXIST, "the folder holds other files than a zarr group", name)
        with naming(name, others=True), replacing_folder(name) as temporary:
            yield temporary


@contextmanager
def _naming_hdf5(path: str) -> Iterator[None]:
    """Make the errors of HDF5 about a disk that takes no more bytes system errors with the path."""
    try:
        yield
    except (RuntimeError, OSError) as error:
        if not any([what in str(error) for what in ("write failed", "extend file")]):
            raise
        raise OSError(errno.EIO, f"HDF5 can't write it: {' '.join(str(error).split()):.200}", path) from error


class EntryWrite:
    """A planned write to an entry: the copy that was read is written first, then the entry in the file."""

    def __init__(self, store: Any, key: str, entry: Any, parts: Any) -> None:
        self.store, self.key, self.entry, self.parts = store, key, entry, parts

    def _commit(self, plan: Sequence[Copy], writes: Writes) -> None:
        carry_out(plan, parts=self.parts)  # nobody else has the copy
        writes.stores.append(partial(self.store._put, self.key, self.entry))
