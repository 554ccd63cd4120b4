"""`save` and `load`, as functions and as methods of containers."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from .._budget import budget
from .._flags import flags
from .._places import is_url, path_or_url
from .._schema import schema_of
from ..core import STORAGE, Device, Key, Path, TensorCollection, described, unravel_key_to_tuple
from ..errors import (
    ArgumentError,
    FileFormatError,
    MissingKeyError,
    SchemaError,
    StructureError,
    UnsupportedOperationError,
)
from ..ops._lengths import compact_ragged
from ..store import TensorDict
from ._anchor import read_anchor
from ._atomic import make_folder
from ._codecs import codec_of, compressed
from ._file_kinds import LOAD, naming_reader, reject_other_kind
from ._index import FolderCommit
from ._pack import Packed, pack
from ._paths import DATA, StrPath, home_of, is_folder, stored_bytes, to_read, to_write
from ._read import read
from ._remote import exists, upload
from ._unpack import UNTYPED
from ._write import write


class TensorDictFuture:
    """The future result of a save that runs in a thread. Threads may share it.

    Args:
        work: the function that the thread runs; it returns the container.

    >>> import torch
    >>> from tensorclass import TensorDict
    >>> future = TensorDict(a=torch.arange(3)).memmap("data", num_threads=2, return_early=True)
    >>> future.result()["a"]
    MemoryMappedTensor([0, 1, 2])
    """

    def __init__(self, work: Callable[[], Any]) -> None:
        pool = ThreadPoolExecutor(1)
        self.futures: list[Future[Any]] = [pool.submit(work)]
        pool.shutdown(wait=False)

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the container and return it. An error of the thread is raised here."""
        return self.futures[0].result(timeout)


@flags
def save(
    data: Any,
    prefix: StrPath | None = None,
    copy_existing: bool = False,
    *,
    num_threads: int = 0,
    return_early: bool = False,
    share_non_tensor: bool = False,
    robust_key: bool | None = True,
    archive: bool | None = None,
    compression: str | int | None = None,
    atomic: bool = False,
    checksums: bool = False,
    allow_pickle: bool = False,
) -> Any:
    """Save a batch to a file, and return it mapped from that file.

    The file is written under a temporary name, flushed to disk and renamed: a crash leaves the old file or the new one.
    Any reader of safetensors files reads the tensors.

    Args:
        data: any container.
        prefix: a path that ends in `.safetensors` or `.tdz` is the file. Any other path is a folder, which is created
            and holds `data.safetensors`. A URL that fsspec knows is uploaded.
        copy_existing: accepted for compatibility; the file always holds a copy.
        num_threads: with `return_early=True`, a number above 1 returns a future. The file is written by one thread.
        return_early: with `num_threads` above 1, return a `TensorDictFuture` while a thread writes. Don't change the
            batch until its `result()` has returned.
        share_non_tensor: accepted for compatibility.
        robust_key: accepted for compatibility; every key round-trips.
        archive: whether the path is the file itself; by default its suffix decides.
        compression: "deflate", "bzip2" or "lzma" compress each tensor of a single file separately, if that makes it
            smaller; loading unpacks them into memory. "stored" and None do not compress.
        atomic: accepted for compatibility; every write is atomic.
        checksums: write a checksum for each tensor, for `load(..., verify=True)`.
        allow_pickle: pickle Python objects that JSON can't hold; loading them needs `allow_pickle=True` too.

    Returns:
        The batch, as `load` returns it.

    Raises:
        ArgumentError: for a path with the suffix of another kind of file, such as `.pt` or `.csv`, without `archive=`.
        UnsupportedOperationError: for an entry that can't be stored; names the field.
        OSError: if the file can't be written. It names the path, and the old file does not change.

    >>> import torch
    >>> from tensorclass import TensorDict, load, save
    >>> data = TensorDict(a=torch.arange(3), b={"c": torch.ones(3, 2)}, batch_size=[3])
    >>> _ = save(data, "data.safetensors")
    >>> load("data.safetensors")["b", "c"].shape
    torch.Size([3, 2])
    """
    if not isinstance(data, TensorCollection):
        make = "; make one: `TensorDict(value)`" if isinstance(data, Mapping) else ""
        raise ArgumentError(f"save takes a container, got a {type(data).__name__}{make}")
    if prefix is None:
        raise ArgumentError('save needs a path: `batch.save("batch.safetensors")`')
    if archive is None:
        reject_other_kind(prefix)
    if return_early and num_threads > 1:
        how: dict[str, Any] = {"archive": archive, "compression": compression, "allow_pickle": allow_pickle}
        return TensorDictFuture(lambda: save(data, prefix, checksums=checksums, **how))
    return _save_and_open(data, prefix, archive, compression, checksums, allow_pickle)


def _save_and_open(
    data: Any, prefix: StrPath, archive: bool | None, compression: Any, checksums: bool, pickles: bool
) -> Any:
    """Write a container, and read it from its file."""
    data = compact_ragged(data)
    packed, file, folder = prepared(data, prefix, archive, compression, pickles)
    tensors = put(file, folder, packed, checksums=checksums)
    if packed.simple:
        return over(data, packed, tensors)
    want = type(data) if schema_of(type(data)) is not None else None
    return read(home_of(file, folder), (), want, allow_pickle=pickles)


def prepared(
    data: Any, prefix: StrPath, archive: bool | None, compression: Any, allow_pickle: bool = False
) -> tuple[Packed, str, str]:
    """A packed container, its file, and the folder to create for it, or ""."""
    codec = codec_of(compression)
    file, folder = to_write(prefix, archive)
    if codec and folder:
        raise ArgumentError(f"a folder is not compressed; give a path that ends in .tdz, or archive=True, not {folder}")
    packed = compressed(pack(data, allow_pickle), codec)
    return packed, (file if is_url(file) else os.path.abspath(file)), folder and os.path.abspath(folder)


def put(file: str, folder: str, packed: Packed, **options: Any) -> list[Tensor]:
    """Write a packed container to a file, or replace the content of a folder with it; see `write`."""
    if is_url(file):
        return _upload(file, packed, options)
    if folder:
        make_folder(folder)
        options.setdefault("settle", FolderCommit(lambda index: None if index is None else listed(packed), DATA))
    return write(file, packed, **options)


def _upload(url: str, packed: Packed, options: dict[str, Any]) -> list[Tensor]:
    """Upload a packed container to a URL. Its tensors are mapped from the local copy, whose name is removed."""
    if options.get("through") or (os.path.basename(url) == DATA and exists(f"{url}.index.json")):
        through = "a remote file can't be mapped for writing; map one on the disk, and `save` to the store"
        what = through if options.get("through") else "several files make it up; remove them"
        raise UnsupportedOperationError(f"{url}: {what}")
    with TemporaryDirectory() as folder:
        local = os.path.join(folder, DATA)
        tensors = write(local, packed, **options)
        upload(local, url)
    return tensors


def listed(packed: Packed) -> dict[str, Any]:
    """A packed container as the content of an index; all its tensors are in the new file."""
    names = {item.name: "" for item in packed.items}
    return {"weight_map": names, "classes": packed.classes, "root": packed.root}


def over(data: Any, packed: Packed, tensors: Sequence[Tensor]) -> Any:
    """The packed container with the tensors of its file; it keeps its Python objects."""
    table: dict[int, Any] = {id(i.tensor): tensor for i, tensor in zip(packed.items, tensors, strict=True)}
    leaves = []
    for leaf in data._leaves(STORAGE):
        mapped = table.get(id(leaf), leaf)  # of a ragged entry the file may have other rows
        leaves.append(mapped.requires_grad_() if leaf.requires_grad and mapped is not leaf else mapped)
    result = data._make(leaves, data._batch_size, data._names, STORAGE)
    if data._device is not None and data._device.type != "cpu":
        result._set_device(torch.device("cpu"))
    return result.lock_() if data.is_locked else result


@flags
def load(
    prefix: StrPath,
    device: Device = None,
    non_blocking: bool = False,
    *,
    out: Any = None,
    robust_key: bool | None = True,
    subpath: Key | None = None,
    mode: str | None = None,
    num_threads: int = 0,
    allow_pickle: bool | None = False,
    mmap: bool = True,
    verify: bool = False,
    cls: Any = None,
    max_bytes: int | None = None,
) -> Any:
    """Load a batch from a file. Its tensors are mapped, and writes to them stay in memory.

    A typed batch is loaded as an instance of its class if a class of that name is imported, and is checked against its
    declaration; otherwise as a `TensorDict`. Nothing is imported. `Digits.load(path)` returns a `Digits`, or raises;
    `TensorDict.load(path)` returns the data as a `TensorDict` if the class has changed or is not imported.

    Args:
        prefix: a file, or a folder that holds `data.safetensors`. A key may follow: `folder/0`. From a URL that fsspec
            knows, only the needed bytes are read, and kept in a cache.
        device: where the tensors go.
        non_blocking: whether copies to `device` may be asynchronous.
        out: a container that the values are copied into; it is returned.
        robust_key: accepted for compatibility.
        subpath: the key of the entry to read, or a string with slashes (`"a/b"`); nothing else is read.
        mode: "r" or None: writes stay in memory. "r+": writes reach the file.
        num_threads: accepted for compatibility.
        allow_pickle: load pickled objects, which can run any code. Use it only for files that you trust.
        mmap: map the tensors; False reads them into memory.
        verify: compare checksums; the file must have them.
        cls: the class of the result, instead of the one that the file names.
        max_bytes: the most memory that reading may take, in bytes; by default 128 times the size of the file, and at
            least 128 MiB. Mapped tensors take none; compressed ones are unpacked into memory.

    Raises:
        MemoryBudgetError: for a file beyond `max_bytes`.
        FileFormatError: for a damaged file, another format or a newer version; `ChecksumError` if the bytes have
            changed.
        SchemaError: for data that does not fit its class; the message shows what changed.
        MissingKeyError: for a key that the file does not have.
        OSError: if the file can't be read, or is a link, FIFO or device. The message names the path.

    >>> import torch
    >>> from tensorclass import TensorDict, load
    >>> _ = TensorDict(a=torch.arange(3), b={"c": torch.ones(3)}, batch_size=[3]).save("data")
    >>> load("data", mmap=False)["a"], load("data", subpath="b")["c"]
    (tensor([0, 1, 2]), tensor([1., 1., 1.]))
    """
    _check_mode(mode, mmap)
    _check_target(out)
    how = {"mmap": mmap, "write": mode == "r+", "verify": verify, "allow_pickle": bool(allow_pickle)}
    found, _ = find(prefix, subpath, cls, max_bytes, **how)
    if device is not None:
        found = found.to(device, non_blocking=non_blocking)
    return found if out is None else out.copy_(found)


def _check_target(out: Any) -> None:
    if not (out is None or isinstance(out, TensorCollection | Tensor)):
        raise ArgumentError(f"load: `out` is a container that the values are copied into, got {described(out)}")


def _check_mode(mode: str | None, mmap: bool) -> None:
    if mode not in (None, "r", "r+"):
        raise ArgumentError(f'mode is "r" (writes stay in memory) or "r+" (writes reach the file), got {mode!r:.40}')
    if mode == "r+" and not mmap:
        raise ArgumentError('mode="r+" maps the file; leave out mmap=False')


def find(
    prefix: StrPath, subpath: Key | None, cls: Any, max_bytes: int | None = None, **options: Any
) -> tuple[Any, Path]:
    """The value at a path and a key, as an instance of `cls` if that is given; and its location: the file, and keys.

    The options are those of `read`; `max_bytes` is the most memory that it takes.
    """
    with naming_reader(prefix, LOAD), budget(max_bytes, lambda: stored_bytes(prefix), path_or_url(prefix)):
        try:
            return _find_with_retries(prefix, () if subpath is None else unravel_key_to_tuple(subpath), cls, options)
        except MissingKeyError:
            if not isinstance(subpath, str) or "/" not in subpath:
                raise
        return _find_with_retries(prefix, tuple([part for part in subpath.split("/") if part]), cls, options)


def _find_with_retries(prefix: StrPath, below: Path, cls: Any, options: dict[str, Any]) -> tuple[Any, Path]:
    """As `find`, with retries: a writer may remove files after the index that lists them was read."""
    for _ in range(4):
        with suppress(FileNotFoundError):
            return _find(prefix, below, cls, options)
    return _find(prefix, below, cls, options)


def _find(prefix: StrPath, below: Path, cls: Any, options: dict[str, Any]) -> tuple[Any, Path]:
    typed = None if cls is None or schema_of(cls) is None else cls
    try:
        return _read_entry(prefix, below, cls, typed, typed, options)
    except SchemaError:
        if cls is not TensorDict:
            raise
    return _read_entry(prefix, below, cls, None, UNTYPED, options)  # the data no longer fits its class


def _read_entry(
    prefix: StrPath, below: Path, cls: Any, typed: Any, want: Any, options: dict[str, Any]
) -> tuple[Any, Path]:
    """The entry in a file of ours or of `tensordict`, which has to be of the class `typed`, and where it is."""
    file, above = to_read(prefix)
    key = above + below
    options = {**options, "lenient": cls is not None and typed is None}
    if is_folder(file):  # ours are in one file each
        found = read_anchor(file, key, want, **options)
    else:
        try:
            found = read(file, key, want, **options)
        except FileFormatError:
            found = read_anchor(file, key, want, **options)
            if found is None:
                raise
    if typed is not None and not isinstance(found, typed):
        raise StructureError(f"{file}: the entry {key} is a {type(found).__name__}, not a {typed.__name__}")
    return found, (file, *key)
