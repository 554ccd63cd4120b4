"""`save` and `load`: what the functions and the methods of containers share."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from .._flags import flags
from .._schema import schema_of
from ..core import STORAGE, Key, Path, TensorCollection, unravel_key_to_tuple
from ..core._device import Device
from ..errors import ArgumentError, FileFormatError, MissingKeyError, StructureError, UnsupportedOperationError
from ..ops._lengths import settled
from ..store import TensorDict
from ._anchor import read_anchor
from ._atomic import make_folder
from ._codecs import codec_of, compressed
from ._doors import LOAD, doors
from ._index import Settle
from ._pack import Packed, pack
from ._paths import DATA, StrPath, home_of, is_folder, to_read, to_write
from ._read import read
from ._remote import exists, is_url, upload
from ._unpack import UNTYPED
from ._write import write


class TensorDictFuture:
    """A container that a thread is writing.

    Args:
        work: what gives the container.

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
        """Wait for the container, and give it; an error of the thread is raised here."""
        return self.futures[0].result(timeout)


@flags
def save(
    data: Any, prefix: StrPath | None = None, copy_existing: bool = False, *, num_threads: int = 0,
    return_early: bool = False, share_non_tensor: bool = False, robust_key: bool | None = True,
    archive: bool | None = None, compression: str | int | None = None, atomic: bool = False, checksums: bool = False,
    allow_pickle: bool = False,
) -> Any:  # fmt: skip
    """Write a batch to a file, and give it back mapped from there.

    The file is written under a temporary name, brought to the disk and put where it belongs: a crash leaves the old
    file or the new one. Any reader of safetensors files reads the tensors.

    Args:
        data: any container.
        prefix: a path that ends in `.safetensors` or `.tdz` is the file; any other is a folder that holds
            `data.safetensors`, and is made. A URL that fsspec knows goes to a store.
        copy_existing: accepted for compatibility; what is written is always a copy.
        num_threads: with `return_early`, more than one asks for a future; one thread writes as fast as the disk.
        return_early: give a `TensorDictFuture` while a thread writes. The batch must not be changed until then.
        share_non_tensor: accepted for compatibility.
        robust_key: accepted for compatibility; every key round-trips.
        archive: whether the path is the file itself; by default its end says so.
        compression: "deflate", "bzip2" or "lzma" compress each tensor of a single file on its own, where that makes it
            smaller; loading unpacks them into memory. "stored" and None leave them as they are.
        atomic: accepted for compatibility; every write is atomic.
        checksums: write a checksum for each tensor, for `load(..., verify=True)`.
        allow_pickle: pickle Python objects that JSON can't hold; loading them asks for the same.

    Returns:
        The batch as `load` gives it.

    Raises:
        UnsupportedOperationError: for an entry that can't be stored; names the field.
        OSError: with the path; the old file is untouched.

    >>> import torch
    >>> from tensorclass import TensorDict, load, save
    >>> data = TensorDict(a=torch.arange(3), b={"c": torch.ones(3, 2)}, batch_size=[3])
    >>> _ = save(data, "data.safetensors")
    >>> load("data.safetensors")["b", "c"].shape
    torch.Size([3, 2])
    """
    if not isinstance(data, TensorCollection):
        raise ArgumentError(f"save takes a container, got a {type(data).__name__}")
    if prefix is None:
        raise ArgumentError('save needs a path: `batch.save("batch.safetensors")`')
    if return_early and num_threads > 1:
        how: dict[str, Any] = {"archive": archive, "compression": compression, "allow_pickle": allow_pickle}
        return TensorDictFuture(lambda: save(data, prefix, checksums=checksums, **how))
    data = settled(data)
    packed, file, folder = prepared(data, prefix, archive, compression, allow_pickle)
    tensors = put(file, folder, packed, checksums=checksums)
    if packed.simple:
        return over(data, packed, tensors)
    want = type(data) if schema_of(type(data)) is not None else None
    return read(home_of(file, folder), (), want, allow_pickle=allow_pickle)


def prepared(
    data: Any, prefix: StrPath, archive: bool | None, compression: Any, allow_pickle: bool = False
) -> tuple[Packed, str, str]:  # fmt: skip
    """A packed container, the file that it goes to, and the folder to make for it, or ""."""
    codec = codec_of(compression)
    file, folder = to_write(prefix, archive)
    if codec and folder:
        raise ArgumentError(f"a folder is not compressed; give a path that ends in .tdz, or archive=True, not {folder}")
    packed = compressed(pack(data, allow_pickle), codec)
    return packed, (file if is_url(file) else os.path.abspath(file)), folder and os.path.abspath(folder)


def put(file: str, folder: str, packed: Packed, **options: Any) -> list[Tensor]:
    """Write a packed container to a file, or in place of all that a folder holds; see `write`."""
    if is_url(file):
        return _uploaded(file, packed, options)
    if folder:
        make_folder(folder)
        options.setdefault("settle", Settle(lambda index: None if index is None else listed(packed), DATA))
    return write(file, packed, **options)


def _uploaded(url: str, packed: Packed, options: dict[str, Any]) -> list[Tensor]:
    """Write a packed container behind a URL; its tensors are mapped from the local copy, which is removed."""
    if options.get("through") or (os.path.basename(url) == DATA and exists(f"{url}.index.json")):
        what = "a remote file can't be mapped" if options.get("through") else "several files make it up; remove them"
        raise UnsupportedOperationError(f"{url}: {what}")
    with TemporaryDirectory() as folder:
        local = os.path.join(folder, DATA)
        tensors = write(local, packed, **options)
        upload(local, url)
    return tensors


def listed(packed: Packed) -> dict[str, Any]:
    """A packed container as an index has it, whose tensors are all in the new file."""
    names = {item.name: "" for item in packed.items}
    return {"weight_map": names, "classes": packed.classes, "root": packed.root}


def over(data: Any, packed: Packed, tensors: Sequence[Tensor]) -> Any:
    """The container that was packed, over the tensors of its file; Python objects stay those that it has."""
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
    prefix: StrPath, device: Device = None, non_blocking: bool = False, *, out: Any = None,
    robust_key: bool | None = True, subpath: Key | None = None, mode: str | None = None, num_threads: int = 0,
    allow_pickle: bool | None = False, mmap: bool = True, verify: bool = False, cls: Any = None,
) -> Any:  # fmt: skip
    """Read a batch from a file: tensors are mapped, and writes to them stay in memory.

    A typed batch comes back as an instance of its class when a class of that name is imported, and is held to what that
    declares; otherwise as a `TensorDict`. Nothing is imported. `Digits.load(path)` gives a `Digits`, or raises;
    `TensorDict.load(path)` gives the data also where the class has changed.

    Args:
        prefix: a file, or the folder that holds `data.safetensors`; what follows is a key: `folder/0`. Of a URL that
            fsspec knows only the bytes that are needed are read, and kept in a cache.
        device: where the tensors go.
        non_blocking: whether copies to `device` may be asynchronous.
        out: a container to copy the values into, which is what is given back.
        robust_key: accepted for compatibility.
        subpath: the key of the entry to read, also as a text with slashes (`"a/b"`); nothing else is read.
        mode: "r" or None: writes stay in memory. "r+": writes reach the file.
        num_threads: accepted for compatibility.
        allow_pickle: load pickled objects, which can run any code: only for files that you trust.
        mmap: map the tensors; False reads them into memory.
        verify: compare checksums; the file must have them.
        cls: the class to read as, instead of the one that the file names.

    Raises:
        FileFormatError: for a file that is damaged, foreign or newer; `ChecksumError` for bytes that have changed.
        SchemaError: for data that does not fit its class; the message shows what changed.
        MissingKeyError: when there is nothing under the key.
        OSError: with the path, also for links, FIFOs and devices.

    >>> import torch
    >>> from tensorclass import TensorDict, load
    >>> _ = TensorDict(a=torch.arange(3), b={"c": torch.ones(3)}, batch_size=[3]).save("data")
    >>> load("data", mmap=False)["a"], load("data", subpath="b")["c"]
    (tensor([0, 1, 2]), tensor([1., 1., 1.]))
    """
    if mode not in (None, "r", "r+"):
        raise ArgumentError(f'mode is "r" (writes stay in memory) or "r+" (writes reach the file), got {mode!r:.40}')
    if mode == "r+" and not mmap:
        raise ArgumentError('mode="r+" maps the file; leave out mmap=False')
    found, _ = find(prefix, subpath, cls, mmap=mmap, write=mode == "r+", verify=verify, allow_pickle=bool(allow_pickle))
    if device is not None:
        found = found.to(device, non_blocking=non_blocking)
    return found if out is None else out.copy_(found)


def find(prefix: StrPath, subpath: Key | None, cls: Any, **options: Any) -> tuple[Any, Path]:
    """The value at a path and a key, as a class when one is wanted, and its place: the file, and keys.

    The options are those of `read`.
    """
    with doors(prefix, LOAD):
        try:
            return _steadily(prefix, () if subpath is None else unravel_key_to_tuple(subpath), cls, options)
        except MissingKeyError:
            if not isinstance(subpath, str) or "/" not in subpath:
                raise
        return _steadily(prefix, tuple([part for part in subpath.split("/") if part]), cls, options)


def _steadily(prefix: StrPath, below: Path, cls: Any, options: dict[str, Any]) -> tuple[Any, Path]:
    """As `find`; a writer may remove files after the index that lists them was read, so it tries again."""
    for last in (*[False] * 4, True):
        file, key = to_read(prefix)
        try:
            found = _find(file, key + below, cls, options)
        except FileNotFoundError:
            if last:
                raise
            continue
        return found, (file, *key, *below)
    raise AssertionError  # the last round returns or raises


def _find(file: str, key: Path, cls: Any, options: dict[str, Any]) -> Any:
    typed = None if cls is None or schema_of(cls) is None else cls
    want = UNTYPED if cls is TensorDict else typed
    options = {**options, "lenient": cls is not None and typed is None}
    try:
        found = read_anchor(file, key, want, **options) if is_folder(file) else read(file, key, want, **options)
    except FileFormatError:
        found = None if is_folder(file) else read_anchor(file, key, want, **options)
        if found is None:
            raise
    if typed is not None and not isinstance(found, typed):
        raise StructureError(f"{file}: the entry {key} is a {type(found).__name__}, not a {typed.__name__}")
    return found
