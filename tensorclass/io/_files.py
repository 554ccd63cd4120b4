"""`save` and `load`: what the functions and the methods of containers share."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .._schema import schema_of
from ..core import STORAGE, TensorCollection, unravel_key_to_tuple
from ..core._device import Device
from ..core._keys import Key
from ..errors import FileFormatError, StructureError, UnsupportedOperationError
from ..store import TensorDict
from ._anchor import read_anchor
from ._atomic import make_folder
from ._pack import Packed, pack
from ._paths import StrPath, to_read, to_write
from ._read import read
from ._unpack import UNTYPED
from ._write import write


def save(
    data: Any, prefix: StrPath | None = None, copy_existing: bool = False, *, num_threads: int = 0,
    return_early: bool = False, share_non_tensor: bool = False, robust_key: bool | None = True,
    archive: bool | None = None, compression: str | int | None = None, atomic: bool = False, checksums: bool = False,
    allow_pickle: bool = False,
) -> Any:  # fmt: skip
    """Write a batch to a file, and give it back mapped from there.

    The file is written under a temporary name, brought to the disk and put in its place: a crash leaves the old file or
    the new one. Any reader of safetensors files reads the tensors.

    Args:
        data: any container.
        prefix: a path that ends in `.safetensors` or `.tdz` is the file; any other is a folder that holds
            `data.safetensors`, and is made.
        copy_existing: accepted for compatibility; what is written is always a copy.
        num_threads: accepted for compatibility; one thread writes as fast as the disk.
        return_early: refused.
        share_non_tensor: accepted for compatibility.
        robust_key: accepted for compatibility; every key round-trips.
        archive: whether the path is the file itself, whatever it ends in.
        compression: refused.
        atomic: accepted for compatibility; every write is atomic.
        checksums: write a checksum for each tensor, for `load(..., verify=True)`.
        allow_pickle: pickle Python objects that JSON can't hold; loading them asks for the same.

    Returns:
        The batch as `load` gives it.

    Raises:
        UnsupportedOperationError: for an entry that can't be stored; names the field.
        OSError: with the path; the old file is untouched.

    >>> import tempfile, torch
    >>> from tensorclass import TensorDict, load, save
    >>> data = TensorDict(a=torch.arange(3), b={"c": torch.ones(3, 2)}, batch_size=[3])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = save(data, f"{folder}/data.safetensors")
    ...     load(f"{folder}/data.safetensors")["b", "c"].shape
    torch.Size([3, 2])
    """
    if not isinstance(data, TensorCollection):
        raise TypeError(f"save takes a container, got a {type(data).__name__}")
    if prefix is None:
        raise TypeError('save needs a path: `batch.save("batch.safetensors")`')
    if return_early or compression is not None:
        what = "return_early" if return_early else "compression"
        raise UnsupportedOperationError(
            f"save: {what} is refused: the file is complete, and plain, when the call returns"
        )
    packed = pack(data, allow_pickle)
    file, folder = to_write(prefix, bool(archive))
    if folder:
        make_folder(os.path.abspath(folder))
    tensors = write(file, packed, checksums)
    if not packed.simple:
        return read(file, (), type(data) if schema_of(type(data)) is not None else None, allow_pickle=allow_pickle)
    return over(data, packed, tensors)


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
        prefix: a file, or the folder that holds `data.safetensors`; what follows is a key: `folder/0`.
        device: where the tensors go.
        non_blocking: whether copies to `device` may be asynchronous.
        out: a container to copy the values into, which is what is given back.
        robust_key: accepted for compatibility.
        subpath: the key of the entry to read; nothing else is read.
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

    >>> import tempfile, torch
    >>> from tensorclass import TensorDict, load
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = TensorDict(a=torch.arange(3), b={"c": torch.ones(3)}, batch_size=[3]).save(folder)
    ...     load(folder, mmap=False)["a"], load(folder, subpath="b")["c"]
    (tensor([0, 1, 2]), tensor([1., 1., 1.]))
    """
    if mode not in (None, "r", "r+"):
        raise ValueError(f'mode is "r" (writes stay in memory) or "r+" (writes reach the file), got {mode!r:.40}')
    if mode == "r+" and not mmap:
        raise ValueError('mode="r+" maps the file; leave out mmap=False')
    found = find(prefix, subpath, cls, mmap=mmap, write=mode == "r+", verify=verify, allow_pickle=bool(allow_pickle))
    if device is not None:
        found = found.to(device, non_blocking=non_blocking)
    return found if out is None else out.copy_(found)


def find(prefix: StrPath, subpath: Key | None, cls: Any, **options: Any) -> Any:
    """What a path and a key lead to, as a class when one is wanted; the options are those of `read`."""
    file, key = to_read(prefix)
    key += () if subpath is None else unravel_key_to_tuple(subpath)
    typed = None if cls is None or schema_of(cls) is None else cls
    want = UNTYPED if cls is TensorDict else typed
    options["lenient"] = cls is not None and typed is None
    try:
        found = read_anchor(file, key, want, **options) if os.path.isdir(file) else read(file, key, want, **options)
    except FileFormatError:
        found = None if os.path.isdir(file) else read_anchor(file, key, want, **options)
        if found is None:
            raise
    if typed is not None and not isinstance(found, typed):
        raise StructureError(f"{file}: the entry {key} is a {type(found).__name__}, not a {typed.__name__}")
    return found
