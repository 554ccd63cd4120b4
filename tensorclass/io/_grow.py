"""Growing folders: add entries to a mapped container, or rows to a saved one."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from .._flags import flags
from .._places import local_path
from ..core import Key, Path, TensorCollection, join_path, leaves_below, relock, tensors_alone, unravel_key_to_tuple
from ..errors import ArgumentError, StructureError, UnsupportedOperationError
from ..ops import cat
from ..store import TensorDict
from ._classes import find_class
from ._files import find, listed, put
from ._format import NodePart, NonePart
from ._index import FolderCommit, Index, read_index
from ._mapped_tensor import MemoryMappedTensor, shape_from, storable
from ._memmap import container_path, is_memmap, wrap_written
from ._names import Names
from ._pack import Packed, pack
from ._paths import DATA, StrPath, home_of, to_read
from ._read import find_tensors
from ._unpack import references
from ._write import header_of


class _Changed(Exception):
    """Raised if another writer has changed the folder since it was read."""


# ---- entries -----------------------------------------------------------------------------------------------------


def make_memmap(data: Any, key: Key, value: Tensor, copy: bool, existsok: bool = False) -> MemoryMappedTensor:
    """Add an entry to a mapped container, which stays locked, and to its folder.

    Args:
        data: a container that `memmap`, `memmap_` or `memmap_like` returned.
        key: of the new entry; missing nested containers are created.
        value: gives the shape and dtype of the entry, and with `copy` its values; otherwise the entry is zero.
        copy: see `value`.
        existsok: replace an entry that another process has added to the folder.
    """
    node, rest = _holder(data, unravel_key_to_tuple(key))
    _nest_value(node, rest, value)  # a value that doesn't fit raises before a file is written
    where = container_path(data)
    if where == ():
        raise StructureError("make_memmap: the tensors are parts of a mapped batch; add the entry to that batch")
    if where is None:
        value = value.as_subclass(Tensor) if copy and value.is_shared() else value
        made = MemoryMappedTensor.from_tensor(value, copy_data=copy)
    elif not os.path.isdir(where[0]):
        raise StructureError(
            f"make_memmap: {where[0]} is one file, which does not grow; map the batch from a folder: "
            "`batch.memmap(folder, copy_existing=True)`"
        )
    else:
        made = _add_tensor_file(where, unravel_key_to_tuple(key), value, copy, existsok)
    stored = _nest_value(node, rest, made)
    node._put(rest[0], stored)
    if isinstance(stored, TensorCollection):
        relock(stored, node)
    return made


def _holder(data: Any, path: Sequence[str]) -> tuple[Any, Sequence[str]]:
    """The existing container on the path of a new entry, and the remaining keys."""
    if not is_memmap(data):
        raise StructureError("make_memmap: the batch is not mapped; `batch.memmap_(folder)` maps it")
    node: Any = data
    rest = path
    while len(rest) > 1 and isinstance(child := node._outline().get(rest[0]), TensorCollection):
        node, rest = child, rest[1:]
    if node._stacked:
        raise UnsupportedOperationError(f"make_memmap: {type(node).__name__} has members; add the entry to each")
    if rest[0] in node._entries():
        taken = join_path((*path[: len(path) - len(rest) + 1],))
        what = "it has no keys" if len(rest) > 1 else "write to it in place"
        raise StructureError(f"make_memmap: there is an entry `{taken}` already; {what}")
    return node, rest


def _nest_value(node: Any, rest: Sequence[str], value: Any) -> Any:
    """Nest a value in containers, so that it can be stored under the first of some keys."""
    if len(rest) > 1:
        inner = node._bare(node._batch_size)
        inner.set((*rest[1:],), value)
        value = inner
    return node._check(rest[0], value)


def _state(index: str | None, folder: str) -> Index:
    """The index of a folder."""
    if index is not None:
        return read_index(index)
    found = find_tensors(os.path.join(folder, DATA))
    if not found.heads[0].ours:
        raise StructureError(f"{folder}: another library wrote it; save the batch to a folder of its own first")
    return Index(weight_map=dict.fromkeys(found.tensors, DATA), classes=found.meta.classes, root=found.meta.root)


def _add_tensor_file(where: Path, path: Path, value: Tensor, copy: bool, existsok: bool) -> MemoryMappedTensor:
    """Write a new file with one tensor to a folder; returns the mapped tensor."""
    folder, *above = where
    file = os.path.join(folder, DATA)
    while True:
        home = home_of(file, folder)
        state = _state(None if home == file else home, folder)
        packed, index = _with_entry(state, (*above, *path), value, existsok, folder)
        settle = FolderCommit(_unless_changed(lambda there: _state(there, folder), state, index), DATA)
        try:
            zeros = () if copy else {packed.items[0].name}
            tensors = put(file, folder, packed, through=True, zeros=zeros, settle=settle)
        except _Changed:
            continue
        (made,) = wrap_written(tensors, settle.path, len(header_of(packed)))
        made._key = (*where, *path)
        return made


def _unless_changed(
    look: Callable[[str | None], Any], before: Any, index: Mapping[str, Any] | None
) -> Callable[[str | None], Mapping[str, Any] | None]:
    def make(there: str | None) -> Mapping[str, Any] | None:
        if look(there) != before:
            raise _Changed
        return index

    return make


def _with_entry(
    state: Index, path: Sequence[str], value: Tensor, existsok: bool, folder: str
) -> tuple[Packed, dict[str, Any]]:
    """One tensor packed for a folder, and the index of the folder that includes it."""
    root = state.root.model_copy(deep=True)
    here: Any = root
    rest = path
    while len(rest) > 1:
        members = None if here.members is None else {str(i): member for i, member in enumerate(here.members)}
        child = (here.entries if members is None else members).get(rest[0])
        if not isinstance(child, NodePart):
            break
        here, rest = child, rest[1:]
    old = here.entries.get(rest[0])
    stays = len(rest) > 1 or not existsok or isinstance(old, NodePart)
    if old is not None and not isinstance(old, NonePart) and stays:
        what = "`memmap_refresh_()` shows it" if len(rest) == 1 else "it has no keys"
        raise StructureError(f"make_memmap: {folder} has an entry `{join_path((*path,))}` already; {what}")
    size = torch.Size(here.size)
    if value.shape[: len(size)] != size:
        shape, needed = list(value.shape), list(size)
        raise StructureError(f"make_memmap: {folder} has batch size {needed} at `{join_path((*path,))}`, got {shape}")
    inner: Any = {rest[-1]: value}
    for part in reversed(rest[:-1]):
        inner = {part: inner}
    shell = TensorDict(inner, size, names=here.names)
    dropped = {name for name, _ in references(old)} if old is not None else set()
    packed = pack(shell, path=(*path[: len(path) - len(rest)],), names=Names(state.weight_map))
    here.entries = {**here.entries, **NodePart.model_validate(packed.root).entries}
    files = {name: part for name, part in state.weight_map.items() if name not in dropped}
    new = {"weight_map": {**files, **dict.fromkeys([item.name for item in packed.items], "")}, "root": root}
    return packed, {**new, "classes": state.classes}


def blank_of(shape: Any, dtype: torch.dtype | None) -> Tensor:
    """A tensor of a shape and dtype that takes no memory."""
    if not isinstance(dtype, torch.dtype | None):
        raise ArgumentError(f"make_memmap: `dtype` is a dtype of torch, such as `torch.float32`, got {dtype!r:.80}")
    return torch.zeros((), dtype=dtype, device="cpu").expand(shape_from(shape))


def values_of(tensor: Any) -> Tensor:
    """A tensor whose values can be mapped, without its grad."""
    return storable(tensor.detach() if isinstance(tensor, Tensor) else tensor)


def tensor_in(storage: Any, shape: Any, dtype: torch.dtype | None) -> Tensor:
    """A tensor over a whole storage.

    Raises:
        StructureError: if the storage has another length, or is over a file.
    """
    dtype = dtype or torch.get_default_dtype()
    found = MemoryMappedTensor.from_storage(storage, shape=shape, dtype=dtype)
    if found._source is not None:
        raise StructureError(f"make_memmap: the storage lies in {found.filename}; pass a copy: `storage.clone()`")
    if found.nbytes != storage.nbytes():
        raise StructureError(f"make_memmap: {dtype} of shape {shape} needs {found.nbytes} of {storage.nbytes()} bytes")
    return found


# ---- rows --------------------------------------------------------------------------------------------------------


@flags
def append_memmap(prefix: StrPath, rows: TensorCollection, *, allow_pickle: bool | None = None) -> None:
    """Append rows to a batch that is saved in a folder, along its first batch dim.

    The folder is rewritten. After a crash it holds the old rows, or the old and the new ones. A batch that is mapped
    from it keeps the old rows until `memmap_refresh_`. Tensors are copied from file to file, not through memory. Each
    call takes as long as saving the whole batch: to append often, write a dataset (`TensorClassDataset.create`).

    Args:
        prefix: a folder that `save` or `memmap` wrote.
        rows: a batch of the same class, with the same keys, dtypes, trailing shapes and shared Python values.
        allow_pickle: load and save pickled objects.

    Raises:
        StructureError: for rows that don't fit, and for a path that is not such a folder; the folder is untouched.
        OSError: if the file can't be used. The message names the path.

    >>> import torch
    >>> from tensorclass import TensorDict, append_memmap, load
    >>> _ = TensorDict(a=torch.zeros(3), batch_size=[3]).save("data")
    >>> append_memmap("data", TensorDict(a=torch.ones(2), batch_size=[2]))
    >>> load("data")["a"]
    tensor([0., 0., 0., 1., 1.])
    """
    if not isinstance(rows, TensorCollection):
        raise ArgumentError(f"append_memmap takes a container of rows, got a {type(rows).__name__}")
    folder = os.path.abspath(local_path(prefix))
    file = os.path.join(folder, DATA)
    while True:
        home, key = to_read(folder)
        if key or home not in (file, home_of(file, folder)):
            what = "an archive does not grow: `unpack_memmap` makes a folder of it"
            raise StructureError(f"append_memmap: {folder} is not a folder that this library wrote; {what}")
        before = _stamp(home)
        packed, fill = _join_rows(_rows_of(folder, home, bool(allow_pickle)), rows, bool(allow_pickle))
        index = None if home == file else listed(packed)
        settle = FolderCommit(_unless_changed(lambda there: _stamp(there or file), before, index), DATA)
        zeros = [item.name for item in packed.items] if fill else ()
        try:
            put(file, folder, packed, zeros=zeros, fill=fill, settle=settle, through=fill is not None)
        except _Changed:
            continue
        return


def _stamp(path: str) -> tuple[Any, ...]:
    found = os.stat(path)
    return path, found.st_ino, found.st_mtime_ns, found.st_size


def _rows_of(folder: str, home: str, allow_pickle: bool) -> Any:
    for part in find_tensors(home).meta.classes:
        if find_class(part) is None:
            raise StructureError(f"append_memmap: {folder} holds a {part.module}.{part.name}; import that class first")
    return find(folder, None, None, allow_pickle=allow_pickle)[0]


def _join_rows(old: Any, rows: Any, allow_pickle: bool) -> tuple[Packed, Callable[[list[Tensor]], None] | None]:
    """The joined rows, packed; if all entries are tensors, also a function that copies them into the new file."""
    if type(old) is not type(rows):
        raise StructureError(f"append_memmap: the folder holds a {type(old).__name__}, got a {type(rows).__name__}")
    if not old.batch_dims or old.batch_size[1:] != rows.batch_size[1:] or rows.batch_dims != old.batch_dims:
        sizes = f"{list(old.batch_size)} and {list(rows.batch_size)}"
        raise StructureError(f"append_memmap: rows follow rows along the first batch dim, got batch sizes {sizes}")
    mine: list[Tensor] = []
    theirs: list[Tensor] = []
    alike = tensors_alone(old) is not None and old._pair_leaves(rows, mine, theirs) is not None
    alike = alike and old._names == rows._names
    for a, b in zip(mine, theirs, strict=True) if alike else ():
        dense = a.layout is b.layout is torch.strided and not (a.is_nested or b.is_nested or a.requires_grad)
        alike = alike and dense and a.dtype is b.dtype and a.shape[1:] == b.shape[1:]
    if not alike:
        _require_dtypes(_dtypes(old), _dtypes(rows))
        whole: Any = cat([old, rows])
        return pack(whole.lock_() if old.is_locked else whole, allow_pickle), None
    size = torch.Size([len(old) + len(rows), *old.batch_size[1:]])
    blanks = [leaf.new_empty(()).expand(size[0], *leaf.shape[1:]) for leaf in mine]
    whole = old._make(blanks, size, old._names)
    packed = pack(whole.lock_() if old.is_locked else whole)
    pairs = {id(blank): pair for blank, pair in zip(blanks, zip(mine, theirs, strict=True), strict=True)}
    parts = [pairs[id(item.tensor)] for item in packed.items]

    def fill(found: list[Tensor]) -> None:
        for target, (a, b) in zip(found, parts, strict=True):
            target[: len(a)].copy_(a)
            target[len(a) :].copy_(b.detach())

    return packed, fill


def _dtypes(data: Any) -> dict[Path, torch.dtype]:
    """The dtypes of the entries, by path; the members of a stack share a path."""
    return {leaf.path: tensor.dtype for leaf in leaves_below(data) for tensor in leaf.tensors}


def _require_dtypes(old: dict[Path, torch.dtype], new: dict[Path, torch.dtype]) -> None:
    """Refuse rows of other dtypes: a join would promote them, and the saved rows keep their dtypes."""
    for path, dtype in old.items():
        if new.get(path, dtype) is not dtype:
            what = f"field `{join_path((*path,))}` is saved as {dtype}, got rows of {new[path]}; convert them"
            raise StructureError(f"append_memmap: {what}")
