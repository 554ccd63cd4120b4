"""Containers whose tensors are mapped write-through: `memmap`, `memmap_like`, `load_memmap` and related functions."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path as FilePath
from typing import Any
from weakref import WeakValueDictionary, ref

import torch
from torch import Tensor

from .._flags import flags
from .._places import is_url, local_path
from .._schema import schema_of
from ..core import (
    STORAGE,
    Device,
    Held,
    Key,
    Owners,
    Path,
    Step,
    TensorCollection,
    adopt_locks,
    assign,
    publish,
    store_of,
)
from ..errors import ArgumentError, FileFormatError, StructureError, UnknownFieldError, UnsupportedOperationError
from ..ops._lengths import compact_ragged
from ..store import TensorDictParams, UnbatchedTensor, keep_objects
from ._anchor import is_archive
from ._file_kinds import LOAD, naming_reader
from ._files import TensorDictFuture, find, over, prepared, put, save
from ._format import NodePart
from ._mapped_tensor import FileMemory, MemoryMappedTensor, wrap
from ._pack import Packed
from ._paths import DATA, INDEX, PART, StrPath, home_of, to_read
from ._read import find_tensors, read
from ._write import header_of


@flags
def memmap(
    data: Any,
    prefix: StrPath | None = None,
    copy_existing: bool = False,
    *,
    num_threads: int = 0,
    return_early: bool = False,
    share_non_tensor: bool = False,
    existsok: bool = True,
    robust_key: bool | None = True,
    archive: bool | None = None,
    compression: str | int | None = None,
    atomic: bool = False,
) -> Any:
    """Write a batch to a file, and return a locked batch mapped from it: writes in place reach the file.

    Args:
        data: any container; it is not changed.
        prefix: as for `save`; None puts the tensors into shared memory.
        copy_existing: allow copying tensors that are mapped from another file.
        num_threads: with `return_early=True`, a number above 1 returns a future. The file is written by one thread.
        return_early: with `num_threads` above 1, return a `TensorDictFuture` while a thread writes. Don't change the
            batch until its `result()` has returned.
        share_non_tensor: accepted for compatibility.
        existsok: replace an existing file. Batches that are mapped from it keep the old file.
        robust_key: accepted for compatibility; every key round-trips.
        archive: whether the path is the file itself; by default its suffix decides.
        compression: as for `save`. Compressed tensors are in memory, and writes to them don't reach the file.
        atomic: accepted for compatibility; every write is atomic.

    Raises:
        StructureError: for tensors of another file without `copy_existing`, and for an existing file without
            `existsok`.
        UnsupportedOperationError: for an entry that can't be stored; names the field.
        OSError: if the file can't be written. It names the path, and the old file does not change.

    >>> import torch
    >>> from tensorclass import TensorDict, load, memmap
    >>> mapped = memmap(TensorDict(a=torch.zeros(3), batch_size=[3]), "data")
    >>> mapped["a"][1] = 5.0
    >>> mapped.is_memmap(), load("data")["a"]
    (True, tensor([0., 5., 0.]))
    """
    return _make_mapped(
        data, prefix, archive, existsok, copy_existing, return_early and num_threads > 1, False, compression
    )


def memmap_like(
    data: Any,
    prefix: StrPath | None = None,
    copy_existing: bool = False,
    *,
    existsok: bool = True,
    num_threads: int = 0,
    return_early: bool = False,
    share_non_tensor: bool = False,
    robust_key: bool | None = True,
    archive: bool | None = None,
) -> Any:
    """A mapped batch of the same structure, without its values.

    A new file is filled with zeros; an existing file of this structure is opened and keeps its values.

    Python objects, and the lengths of ragged entries, are those of `data`.

    Raises:
        StructureError: if the existing file has another structure.
        OSError: if a file can't be written, for example on a full disk. The message names the path.
    """
    return _make_mapped(data, prefix, archive, existsok, True, return_early and num_threads > 1, True)


def _make_mapped(
    data: Any,
    prefix: StrPath | None,
    archive: bool | None,
    existsok: bool,
    copy: bool,
    early: bool,
    like: bool,
    compression: Any = None,
) -> Any:
    """Write a container to a file, an archive or shared memory, and map it."""
    if not isinstance(data, TensorCollection):
        raise ArgumentError(f"memmap takes a container, got a {type(data).__name__}")
    if early:
        return TensorDictFuture(lambda: _make_mapped(data, prefix, archive, existsok, copy, False, like, compression))
    if prefix is None:
        return data if is_memmap(data) and not like else _in_shared_memory(_plain(data), like)
    plain = _plain(data)
    packed, file, folder = prepared(plain, prefix, archive, compression)
    if not existsok and os.path.lexists(home_of(file, folder)):
        raise StructureError(f"the file {file} exists already; pass existsok=True to replace it")
    for leaf in () if copy else plain._leaves(STORAGE):
        source = leaf._source if isinstance(leaf, MemoryMappedTensor) else None
        if source is not None and source.path != file and not (folder and _lies_in(source.path, folder)):
            raise StructureError(f"a tensor lies in the file {source.path}; pass copy_existing=True to copy it")
    found = _write_and_open(plain, packed, file, folder, like)
    mark(found, (folder or file,))
    return keep_objects(found).lock_()


def _lies_in(path: str, folder: str) -> bool:
    """Whether a file belongs to a folder."""
    return os.path.dirname(path) == folder and PART.fullmatch(os.path.basename(path)) is not None


def _write_and_open(data: Any, packed: Packed, file: str, folder: str, like: bool) -> Any:
    want = type(data) if schema_of(type(data)) is not None else None
    if like and os.path.lexists(home := home_of(file, folder)):
        _require_same(home, packed)
        return read(home, (), want, write=True, wrap=True)
    tensors = put(file, folder, packed, through=True, zeros=set(_tensor_names(packed.root)) if like else ())
    home = home_of(file, folder)
    if like or home != file or not packed.simple:
        return read(home, (), want, write=None, wrap=True)
    return over(data, packed, wrap_written(tensors, file, len(header_of(packed))))


def wrap_written(tensors: list[Tensor], file: str, begin: int) -> list[MemoryMappedTensor]:
    """The written tensors as mapped tensors; `begin` is the first byte after the header."""
    sized = [tensor.data_ptr() for tensor in tensors if tensor.numel()]
    source = FileMemory(file, "r+", min(sized, default=begin) - begin)
    return [wrap(tensor, source) for tensor in tensors]


def _require_same(file: str, packed: Packed) -> None:
    found = find_tensors(file)
    slots = {name: slot for head in found.heads for name, slot in head.header.tensors.items()}
    here = {name: (slots[name].code, [*slots[name].shape]) for name in found.tensors}
    classes = [part.model_dump(exclude_unset=True) for part in found.meta.classes]
    same = here == {item.name: (item.code, [*item.shape]) for item in packed.items} and classes == packed.classes
    root = NodePart.model_validate({**packed.root, "locked": False})
    if not same or found.part.model_copy(update={"locked": False}) != root:
        raise StructureError(
            f"{file}: it has another structure than this batch (keys, shapes, dtypes, objects); remove it, or give "
            "another path"
        )


def _tensor_names(node: dict[str, Any]) -> Iterator[str]:
    """The stored names of tensors that are entries, not parts of an entry."""
    for part in node.get("entries", {}).values():
        if isinstance(part, str):
            yield part
        elif part["kind"] == "tensor":
            yield part["data"]
        elif part["kind"] == "node":
            yield from _tensor_names(part)
    for member in node.get("members", ()):
        yield from _tensor_names(member)


def _plain(data: Any) -> Any:
    """A container of tensors without grad."""
    if isinstance(data, TensorDictParams):
        data = data._store.data
    return compact_ragged(data.data if any([leaf.requires_grad for leaf in data._leaves(STORAGE)]) else data)


def _in_shared_memory(data: Any, like: bool) -> Any:
    blank = {id(value) for _, value in tensors_in(data)} if like else set()
    leaves = [_shared(leaf, id(leaf) in blank) for leaf in data._leaves(STORAGE)]
    found = data._make(leaves, data._batch_size, data._names, STORAGE)
    if data._device is not None and data._device.type != "cpu":
        found._set_device(torch.device("cpu"))
    return found.lock_()


def _shared(leaf: Tensor, like: bool) -> Tensor:
    if isinstance(leaf, UnbatchedTensor) or leaf.is_nested:
        raise UnsupportedOperationError(f"memmap: a {type(leaf).__name__} goes to a file; give a path")
    return MemoryMappedTensor.from_tensor(leaf.detach(), copy_data=not like)


def memmap_(data: Any, prefix: StrPath | None = None, copy_existing: bool = False, **options: Any) -> Any:
    """Map the tensors of a batch in place; see `memmap`."""
    if isinstance(data, TensorDictParams):
        raise UnsupportedOperationError("memmap_: parameters are not mapped tensors; `memmap` gives both")
    if is_memmap(data) and prefix is None:
        return data
    made = memmap(data, prefix, copy_existing, **options)
    if isinstance(made, TensorDictFuture):
        return TensorDictFuture(lambda: keep_objects(_take_over(data, keep_objects(made.result()), True)))
    return keep_objects(_take_over(data, keep_objects(made), True))


@flags
def load_memmap(
    prefix: StrPath,
    device: Device = None,
    non_blocking: bool = False,
    *,
    out: Any = None,
    robust_key: bool | None = True,
    subpath: Key | None = None,
    mode: str | None = None,
    num_threads: int = 0,
    allow_pickle: bool | None = None,
    cls: Any = None,
    max_bytes: int | None = None,
) -> Any:
    """Map a batch from its file; writes in place reach the file. With `load`, writes stay in memory.

    Args:
        prefix: as for `load`; tensors of a URL are plain ones.
        device: where the tensors go; they are mapped tensors on the CPU only.
        non_blocking: whether copies to `device` may be asynchronous.
        out: a container that gets the tensors, instead of its own.
        robust_key: accepted for compatibility.
        subpath: the key of the entry to read.
        mode: "r+": writes reach the file. "r": writes stay in memory. None: "r+" if the file is writable, else "r".
        num_threads: accepted for compatibility.
        allow_pickle: load pickled objects, which can run any code. Use it only for files that you trust.
        cls: the class of the result.
        max_bytes: the most memory that reading may take; see `load`.

    Raises:
        FileFormatError: for a damaged file, another format or a newer version.
        OSError: if the file can't be used. The message names the path.

    >>> import torch
    >>> from tensorclass import TensorDict, load_memmap
    >>> _ = TensorDict(a=torch.zeros(3), b={"c": torch.ones(2)}).save("data")
    >>> _ = load_memmap("data")["a"].fill_(7)
    >>> load_memmap("data")["a"], load_memmap("data/b")["c"]
    (MemoryMappedTensor([7., 7., 7.]), MemoryMappedTensor([1., 1.]))
    """
    if mode not in (None, "r", "r+"):
        raise ArgumentError(f'mode is "r" (writes stay in memory) or "r+" (writes reach the file), got {mode!r:.40}')
    with naming_reader(prefix, LOAD):
        file, _ = to_read(prefix)
        through = mode == "r+" or (mode is None and os.access(file, os.W_OK) and not is_archive(file))
    write = None if mode is None and through else through
    local = not is_url(file)
    found, where = find(prefix, subpath, cls, max_bytes, write=write, allow_pickle=bool(allow_pickle), wrap=local)
    if isinstance(found, TensorCollection) and local and not os.path.isdir(file):
        folder, name = os.path.split(os.path.abspath(where[0]))
        mark(found, (folder if name in (DATA, INDEX) else os.path.join(folder, name), *where[1:]))
    if device is not None:
        moved: Any = found
        found = moved.to(device, non_blocking=non_blocking)
    found = found if out is None else _take_over(out, found)
    if through and isinstance(found, TensorCollection):
        keep_objects(found)
    return found


def refresh(data: Any, allow_pickle: bool | None = None) -> Any:
    """Map the file of a batch again, after another process has replaced it; the batch gets the new tensors."""
    if not is_memmap(data):
        raise StructureError("memmap_refresh_: the batch is not mapped from a file; `load_memmap_(path)` reads one")
    try:
        path = saved_path(data)
    except AttributeError as error:
        raise StructureError(f"memmap_refresh_: {error}") from None
    return _take_over(data, load_memmap(path, allow_pickle=allow_pickle), True)


def is_memmap(data: Any) -> bool:
    """Whether a batch is locked and its tensors are mapped."""
    if not data.is_locked:
        return False
    mapped = any([isinstance(leaf, MemoryMappedTensor) for leaf in data._leaves(STORAGE)]) or _empty_path(data)
    return bool(mapped) and not any([type(value) is Tensor and not value.is_nested for _, value in tensors_in(data)])


def tensors_in(data: Any, path: Path = ()) -> Iterator[tuple[Path, Tensor]]:
    """The entries that are tensors, with their paths; the tensors inside other entries are not mapped."""
    for key, value in children(data):
        if isinstance(value, Tensor):
            yield (*path, key), value
        elif isinstance(value, TensorCollection):
            yield from tensors_in(value, (*path, key))


def container_path(data: Any) -> Path | None:
    """The file or folder of a mapped container, and its keys there; () for tensors without a known container."""
    leaves = [(path, leaf) for path, leaf in tensors_in(data) if isinstance(leaf, MemoryMappedTensor) and leaf._source]
    return next((leaf._key[: -len(path)] for path, leaf in leaves if leaf._key), () if leaves else _empty_path(data))


_EMPTY: WeakValueDictionary[tuple[int, Path], Any] = WeakValueDictionary()


def _empty_path(data: Any) -> Path | None:
    """The file or folder of a mapped container that has no tensors yet, and its keys there."""
    store = store_of(data)
    return next((path for (_, path), found in [*_EMPTY.items()] if found is store), None)


def saved_path(data: Any) -> FilePath:
    """The path of a mapped batch, as `load_memmap` accepts it."""
    if not is_memmap(data):
        raise UnknownFieldError("the batch has no saved path: it is not mapped, or was unlocked")
    path = container_path(data)
    if path:
        return FilePath(*path)
    raise UnknownFieldError("the batch has no saved path: its tensors lie in shared memory, or in files of their own")


def mark(data: Any, path: Path) -> None:
    """Store in each tensor its location: a file or folder, and its keys. Without tensors, note it of the container."""
    alone = True
    for key, value in tensors_in(data, path):
        alone = False
        if isinstance(value, MemoryMappedTensor):
            value._key = key
    if alone:
        _EMPTY[id(store_of(data)), path] = store_of(data)


def children(data: Any) -> Iterator[tuple[str, Any]]:
    """The entries of a container, or the members of a stack under their position."""
    store = store_of(data)
    if store._stacked:
        yield from ((str(i), member) for i, member in enumerate(store._members))
    else:
        yield from store._entries().items()


def _take_over(data: Any, found: Any, lock: bool = False) -> Any:
    """Replace the tensors of a batch by those of another, and lock it, in one step. A mapped batch stays locked."""
    if is_memmap(data):
        data._plan_lock(None, False, {})  # refuses if a locked container holds it
        lock = True
    else:
        data._require_unlocked("replace the leaves")
    empty = _empty_path(found)
    if found.is_locked:
        found.unlock_()
    publish(_take_over_steps(data, found, () if lock else None))
    if empty is not None:
        _EMPTY[id(store_of(data)), empty] = store_of(data)
    return data


def _take_over_steps(data: Any, found: Any, owners: Owners | None) -> list[Step]:
    """The steps of `_take_over`; the batch is locked for these owners, or stays unlocked."""
    store, new = store_of(data), store_of(found)
    if store._stacked != new._stacked or (store._stacked and len(store._members) != len(new._members)):
        raise FileFormatError(f"a {type(data).__name__} can't take over the tensors of this {type(found).__name__}")
    if store._stacked:
        inner = None if owners is None else (ref(store),)
        pairs = zip(store._members, new._members, strict=True)
        steps = [step for mine, other in pairs for step in _take_over_steps(mine, other, inner)]
        return [*steps, *(() if owners is None else assign(store, _lock=Held((*(store._lock or ()), *owners))))]
    if new._device is not None and new._device.type != "cpu":
        found._set_device(torch.device("cpu"))
    gone = [key for key in store._entries() if key not in new._entries()]
    steps = [*data._become_steps(found), *[step for key in gone for step in store._drop_steps(key)]]
    return [*steps, *(() if owners is None else adopt_locks(store, new, owners))]


# ---- one file ----------------------------------------------------------------------------------------------------


def consolidated(
    data: Any, filename: StrPath, device: Device, inplace: bool, use_buffer: bool, pin_memory: bool
) -> Any:
    """Write a batch to one file and return it as views into a map of that file; see the method of containers."""
    if pin_memory or (device is not None and torch.device(device).type != "cpu"):
        raise ArgumentError("consolidate: a file is mapped on the CPU, and not pinned; leave out device and pin_memory")
    path = os.path.abspath(local_path(filename))
    if in_one_file(data, path):
        return data
    if use_buffer:
        made = data._in_one_block(torch.device("cpu"), False, inplace, True, False)
        save(made, path, archive=True)
        return made
    made = memmap(data, path, True, archive=True)
    return _take_over(data, made, True) if inplace else made


def consolidated_later(data: Any, filename: StrPath | None, how: dict[str, Any]) -> TensorDictFuture:
    """A future of `consolidated`, which gets the other arguments."""
    if how["use_buffer"] or how["non_blocking"]:
        raise ArgumentError("consolidate: return_early goes with neither use_buffer nor non_blocking")
    return TensorDictFuture(lambda: type(data).consolidate(data, filename, **how))


def from_consolidated(filename: StrPath, cls: Any = None, max_bytes: int | None = None) -> Any:
    """Open a file that `consolidate` wrote.

    The tensors are views into one map of the file; writes to them stay in memory.

    Args:
        filename: the file; `tensordict` may have written it.
        cls: the class of the result; by default the class that was written, if it is imported, else `TensorDict`.
        max_bytes: the most memory that reading may take; see `load`.

    Raises:
        FileFormatError: for a damaged file.
        OSError: if the file can't be used. The message names the path.

    >>> import torch
    >>> from tensorclass import TensorDict, from_consolidated
    >>> _ = TensorDict(a=torch.arange(3)).consolidate("block")
    >>> from_consolidated("block")["a"].tolist()
    [0, 1, 2]
    """
    return load_memmap(filename, mode="r", cls=cls, max_bytes=max_bytes)


def in_one_file(data: Any, path: str | None = None) -> bool:
    """Whether all tensors of a batch are mapped from one file, and from `path` if that is given."""
    found: set[str] = set()
    for _, value in tensors_in(data):
        source = value._source if isinstance(value, MemoryMappedTensor) else None
        if source is None or getattr(value, "_key", ())[:1] != (source.path,):
            return False  # in memory, a part of another tensor, or in a folder
        found.add(source.path)
    return len(found) == 1 and path in (None, *found)
