"""Containers in HDF5 files and zarr groups: entries are read on demand, writes go to the file.

A group is a container and an array is a tensor. Attributes hold the batch size and the names of its dims. If the format
lacks a type, the attributes of an array also name it: a dtype, or Python objects as JSON.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import takewhile
from typing import Any, ClassVar
from urllib.parse import unquote

import numpy as np
import torch
from torch import Tensor
from typing_extensions import Self

from ..._budget import budget, reserve
from ..._flags import flags
from ..._places import is_url, path_or_url
from ..._schema import schema_of
from ...core import (
    BATCHED,
    Device,
    Kind,
    Names,
    Path,
    Step,
    TensorCollection,
    Turn,
    as_batch_size,
    as_device,
    check_names,
    in_turn,
    publish,
    relock,
)
from ...errors import (
    ArgumentError,
    BatchSizeError,
    FileFormatError,
    MemoryBudgetError,
    MissingExtraError,
    MissingKeyError,
    UnsupportedOperationError,
    did_you_mean,
)
from ...ops import cat
from ...ops._steps import Copy
from ...store import NonTensorData, NonTensorStack, RaggedTensor, TensorDict, Unbatched
from ...store.entries._non_tensor import present_entry
from ...store.entries._rows import spans_of
from .._classes import find_class
from .._columns import SharedValue
from .._file_kinds import naming_reader
from .._format import ClassPart
from .._manifest import class_part
from .._paths import StrPath
from .._values import decode
from ._arrays_out import BLOCK_BYTES, as_json_entry, encoded_entry, new_array, write_note
from ._columns import restored, stored
from ._store_nodes import (
    check_depth,
    check_packed,
    child_of,
    has_child,
    reserve_rows,
    stored_bytes,
    texts_of,
)
from ._store_ops import StoreOps
from ._stores import EntryWrite, name_of, open_store, place_of, plain_index, runs_of

_ATTR = "tensorclass"
_MODES = ("r", "r+", "w", "w-", "x", "a")


@flags
class PersistentTensorDict(StoreOps):
    """A container in an HDF5 file or a zarr group; `from_h5`, `from_zarr`, `to_h5` and `to_zarr` return one.

    Getting an entry reads it from the file. Setting an entry, setting values at an index, and in-place operations write
    to the file. Other operations read the entries that they need and return a `TensorDict`. An index of integers or
    slices reads only those rows. A `with` block closes the file at its end; `with data.lock_():` and `with
    data.unlock_():` leave it open. A pickle holds the path. Threads may share a store: their calls run in turns.

    Args:
        batch_size: the leading dims that all entries share; by default the stored batch size, or `[]`.
        filename: the file, or the folder of a zarr group.
        group: an open group, instead of a file.
        mode: as h5py opens files: "r", "r+", "w", "w-", "x" or "a".
        backend: "h5" or "zarr".
        device: the device of tensors that are read.
        validate_batch_size: check the batch size against the stored shapes.
        non_tensor_as_stack: read text that another library stored with the batch shape as one object for each element.
        allow_pickle: nothing is ever unpickled; accepted for compatibility.
        max_bytes: the most bytes that one read may take in memory; by default 128 times the stored size, at least 2^27.
        **kwargs: options for new arrays: `compression="gzip"`, `chunks=(100,)`, ...

    Raises:
        OSError: for a file that can't be opened, or that another process has opened for writing.
        BatchSizeError: for a batch size that doesn't fit.
        FileFormatError: for a damaged file, one that would read other files, and circular links.
        MemoryBudgetError: for a read beyond `max_bytes`.
        UnsupportedOperationError: for writes to a store opened with mode "r".

    >>> import torch
    >>> from tensorclass import PersistentTensorDict
    >>> with PersistentTensorDict(filename="data.h5", batch_size=[3], mode="w") as data:
    ...     data["a", "b"] = torch.zeros(3, 4)
    ...     data[1] = {"a": {"b": torch.ones(4)}}
    ...     data["a", "b"].sum(-1)
    tensor([0., 4., 0.])
    """

    LOCKING: ClassVar[bool | str | None] = None
    """How h5py locks files: True, False, "best-effort", or None for the default of h5py."""

    def __init__(
        self, *, batch_size: Any = None, filename: StrPath | None = None, group: Any = None, mode: str = "r",
        backend: str = "h5", device: Device = None, validate_batch_size: bool = True, non_tensor_as_stack: bool = False,
        allow_pickle: bool | None = None, max_bytes: int | None = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        if (filename is None) == (group is None):
            raise ArgumentError("PersistentTensorDict takes `filename` or `group`, one of the two")
        if backend not in ("h5", "zarr") or mode not in _MODES:
            raise ArgumentError(f'backend is "h5" or "zarr", mode of {", ".join(_MODES)}; got {backend!r}, {mode!r}')
        self._backend = backend
        self._max_bytes = max_bytes
        self._file: Any = open_store(filename, mode, backend, self.LOCKING) if group is None else None
        root: Any = self._file if group is None else group
        self._group: Any = root
        self._place = root.file.filename if backend == "h5" else str(root.store_path)
        self._writes = mode != "r"
        self._kwargs = kwargs
        self._locks, self._at, self._turn = {}, (), Turn()
        self._device = as_device(device)
        self._stacks = non_tensor_as_stack
        self._keeps = False
        """Whether Python objects that were read are cached, while all rows are read in parts."""
        self._memo: dict[str, Any] = {}
        self._above: tuple[Any, ...] = ()  # the groups that contain this one
        self._checked: set[str] = set()  # the arrays whose chunks were checked
        self._opened = None
        if isinstance(filename, (str, os.PathLike)):
            place, mode_again = path_or_url(filename), "r+" if self._writes else "r"
            self._opened = {
                "filename": place if is_url(place) else os.path.abspath(place), "mode": mode_again, "backend": backend,
                "device": self._device, "non_tensor_as_stack": non_tensor_as_stack, "batch_size": batch_size,
                "max_bytes": max_bytes, **kwargs,
            }  # fmt: skip
        try:
            self._look(mode, None if batch_size is None else as_batch_size(batch_size), validate_batch_size)
        except BaseException:  # also on an interrupt: an open file is read from its cache
            self.close()
            raise

    def _look(self, mode: str, given: torch.Size | None, validate: bool) -> None:
        """Read the batch size and the names, or note them."""
        naming = nullcontext() if given is not None or self._opened is None else naming_reader(self._opened["filename"])
        with self._budget(), naming:
            self._settle(mode, given, validate)
        if self._writes:
            self._note(batch_size=list(self._batch_size))

    def _settle(self, mode: str, given: torch.Size | None, validate: bool) -> None:
        about = self._about(self._group)
        size = torch.Size(about["batch_size"]) if given is None and "batch_size" in about else given
        if size is None:
            size = torch.Size() if mode in ("w", "w-", "x") else self._shared()
        self._batch_size = size
        names = about.get("names") or ()
        self._names = check_names(names, len(names)) if len(names) == len(self._batch_size) else None
        if validate:
            self._validate(self._batch_size, "")

    @classmethod
    def open(cls, path: StrPath, mode: str = "r", **options: Any) -> Self:
        """Open the store at a path: a folder is a zarr group, a file is HDF5."""
        return cls(filename=path, mode=mode, backend="zarr" if os.path.isdir(path_or_url(path)) else "h5", **options)

    @classmethod
    def create(cls, batch: Any, path: Any, backend: str, **kwargs: Any) -> Self:
        """Write a container to a new store, which is open for reading and writing.

        It replaces an existing store as a whole.
        """
        with place_of(path, backend) as where:
            group = open_store(where, "w", backend, False)
            try:
                new = cls(group=group, mode="w", backend=backend, batch_size=batch.batch_size, **kwargs)
                new._names = batch._names
                new._fill_group(batch if isinstance(batch, PersistentTensorDict) else batch._solid())
            finally:
                if backend == "h5":
                    group.close()
        return cls(filename=path, mode="r+", backend=backend, **kwargs)

    # ---- the file ----------------------------------------------------------------------------------------------------

    @in_turn
    def close(self) -> None:
        """Close the file; a second call does nothing."""
        if self._file is not None and self._backend == "h5":
            self._file.close()
        self._group = self._file = None

    @property
    def kwargs(self) -> dict[str, Any]:
        """The options for new arrays."""
        return dict(self._kwargs)

    @property
    def stored_class(self) -> Any:
        """The class that was stored, if it is imported; else `TensorDict`."""
        about = self._about(self._live_group()).get("cls")
        with self._reading(f"the class in the attribute `{_ATTR}`"):
            return TensorDict if about is None else find_class(ClassPart(**about)) or TensorDict

    def _live_group(self) -> Any:
        if self._group is None or not (self._backend == "zarr" or self._group.id.valid):
            raise ArgumentError("the store is closed; open it again with `from_h5` or `from_zarr`")
        return self._group

    @contextmanager
    def _reading(self, what: str) -> Iterator[None]:
        """Count memory, and convert errors: for a damaged file, h5py and zarr raise many types."""
        try:
            with self._budget():
                yield
        except (FileFormatError, UnsupportedOperationError, MissingExtraError, MemoryError):
            raise
        except Exception as error:  # as above
            if isinstance(error, OSError) and error.filename is not None:
                raise
            text = f"{what} is damaged: {type(error).__name__}: {error!s:.200}"
            raise FileFormatError(text, self._place) from error

    def _budget(self) -> Any:
        """A block whose reads share one budget."""
        return budget(self._max_bytes, partial(stored_bytes, self._live_group()), self._place)

    def _about(self, node: Any) -> dict[str, Any]:
        with self._reading(f"the attribute `{_ATTR}` of {node.name or '/'}"):
            found = node.attrs.get(_ATTR)
            about = {} if found is None else json.loads(found)
            as_batch_size(about.get("batch_size", []))
            return dict(about)

    def _note(self, **entries: Any) -> None:
        write_note(self._group, _ATTR, {**self._about(self._group), **entries})

    def _nodes(self) -> dict[str, Any]:
        group = self._live_group()
        with self._reading(f"the group {group.name or '/'}"):
            order = {name: i for i, name in enumerate(self._about(group).get("keys", []))}
            names = sorted(group) if self._backend == "zarr" else list(group)  # zarr lists names in any order
            if is_url(self._place):  # a web server may list nothing, and still have what the group names
                names += [name for name in order if name not in names and name in group]
            names.sort(key=lambda name: order.get(name, len(order)))
            return {"" if name == "%" else unquote(name): child_of(group, name, self._backend) for name in names}

    def _child(self, node: Any, size: torch.Size | None = None) -> PersistentTensorDict:
        """The container of a group; `size` is its batch size, if it is known."""
        child = object.__new__(type(self))
        child.__dict__ |= {name: value for name, value in self.__dict__.items() if name != "_undo"}
        name = node.name.rpartition("/")[2]
        child._at = (*self._at, "" if name == "%" else unquote(name))
        child._group, child._file, child._names = node, None, None
        child._above = (*self._above, self._group)
        with self._reading(f"the group {node.name}"):
            check_depth(child._above, node)
        about = self._about(node)
        known = torch.Size(about["batch_size"]) if "batch_size" in about else size
        child._batch_size = child._shared() if known is None else known
        child._names = check_names(about.get("names"), len(child._batch_size))
        return child

    def _shared(self) -> torch.Size:
        """The longest leading shape that all entries share."""
        nodes = [node for node in self._nodes().values() if not self._about(node).get("kind")]
        shapes = [self._child(n)._batch_size if self._is_group(n) else torch.Size(n.shape) for n in nodes]
        alike = takewhile(lambda sizes: len(set(sizes)) == 1, zip(*shapes, strict=False))
        return torch.Size([sizes[0] for sizes in alike])

    def _validate(self, size: torch.Size, path: str) -> None:
        for key, node in self._nodes().items():
            if self._about(node).get("kind"):
                continue
            if self._is_group(node):
                self._child(node, size)._validate(size, f"{path}{key}.")
            elif torch.Size(node.shape[: len(size)]) != size:
                shape = list(node.shape)
                raise BatchSizeError(
                    f"field `{path}{key}` of shape {shape} does not begin with the batch size {list(size)}"
                )

    # ---- reading -----------------------------------------------------------------------------------------------------

    def _load(self, key: str, node: Any, index: Any = ()) -> Any:
        """An entry, or some rows of it."""
        with self._reading(f"field `{key}`"):
            about = self._about(node)
            check_packed(node, self._checked)
            kind = about.get("kind")
            if self._is_group(node) and kind is not None:
                return self._ragged(kind, self._child(node), index)
            if self._is_group(node):
                return self._child(node) if index == () else self._child(node)._rows(index)
            if kind is not None:
                return self._objects(about, node, index)
            if node.dtype.kind not in "biufc":
                return self._foreign(node, index)
            shape = node.shape
            reserve_rows(node, torch.empty(shape, device="meta")[index].shape if index else shape)
            found = torch.from_numpy(np.array(node[index]))
            found = restored(found, about["dtype"]) if "dtype" in about else found
            return found if self._device is None else found.to(self._device)

    def _objects(self, about: dict[str, Any], node: Any, index: Any) -> Any:
        """An entry that is stored as text: a shared tensor, one object, or one object for each element."""
        form = about["kind"]
        reserve_rows(node, node.shape)
        if form == "shared":
            value = torch.from_numpy(np.array(node[()]))
            return Unbatched(restored(value, about["dtype"]) if "dtype" in about else value)
        found = self._memo.get(node.name)
        if found is None:
            value = json.loads(bytes(node[()]).decode())
            value = value if about.get("json") else decode(value)
            if form != "objects":
                return NonTensorData(value) if form == "data" else value
            found = NonTensorStack.of(value, self._batch_size)
            if self._keeps:
                self._memo[node.name] = found
        return found if index == () else found[index]

    def _ragged(self, form: str, parts: PersistentTensorDict, index: Any) -> Any:
        """A ragged or nested entry at an index; of consecutive rows, only their values are read."""
        lengths = parts._load("lengths", parts._node("lengths"))
        rows = index[0] if len(index) == 1 and lengths.ndim == 1 else None
        inside: Any = ()
        if isinstance(rows, slice) and rows.step in (None, 1):  # read only the values of these rows
            begin, end, _ = rows.indices(len(lengths))
            first = int(lengths[:begin].sum())
            lengths = lengths[begin:end]
            inside, index = (slice(first, first + int(lengths.sum())),), ()
        found = RaggedTensor._of(parts._load("values", parts._node("values"), inside), spans_of(lengths), True)
        found = found if index == () else found[index]
        if form == "ragged":
            return found
        if len(found.shape):
            return found.to_nested()
        return found.item()

    def _foreign(self, node: Any, index: Any) -> Any:
        """Text that another library stored."""
        many = hasattr(node, "asstr") and node.dtype.kind == "O"
        if not many:
            reserve_rows(node, node.shape)
        found = texts_of(node) if many else node[()]
        value = found.tolist() if isinstance(found, np.ndarray) else found
        if not self._stacks or torch.Size(node.shape) != self._batch_size:
            return NonTensorData(value)
        stack = NonTensorStack.of(value, self._batch_size)
        return stack if index == () else stack[index]

    @in_turn
    def _entries(self) -> dict[str, Any]:
        with self._budget():
            return {key: self._load(key, node) for key, node in self._nodes().items()}

    def _outline(self) -> dict[str, Any]:
        """The entries, with a tensor without values for each array of numbers, which is not read."""
        with self._budget():
            return {
                key: torch.empty(node.shape, device="meta") if self._is_numbers(node) else self._load(key, node)
                for key, node in self._nodes().items()
            }

    def _is_numbers(self, node: Any) -> bool:
        return not self._is_group(node) and node.dtype.kind in "biufc" and not self._about(node).get("kind")

    def _node(self, key: str) -> Any:
        group, name = self._live_group(), name_of(key)
        if not has_child(group, name, self._backend):
            names = list(self._nodes())
            raise MissingKeyError(f"the store has no entry {key!r:.80}{did_you_mean(key, names)}; it has {names!r:.99}")
        with self._reading(f"field `{key}`"):
            return child_of(group, name, self._backend)

    @in_turn
    def _entry(self, key: str) -> Any:
        value = self._load(key, self._node(key))
        return value._item() if hasattr(value, "_item") else value

    @in_turn
    def get(self, key: Any, default: Any = ..., **options: Any) -> Any:
        """The value of a key, or `default` when it is absent; see `TensorDict.get`."""
        if isinstance(key, str) and has_child(self._live_group(), name_of(key), self._backend):
            return present_entry(self, self._load(key, self._node(key)))
        return super().get(key, **({} if default is ... else {"default": default}), **options)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, str) or (isinstance(index, tuple) and index and all([isinstance(i, str) for i in index])):
            return super().__getitem__(index)
        return self._rows(index)

    @in_turn
    def _rows(self, index: Any) -> TensorDict:
        """The elements at an index, in memory."""
        plain = plain_index(index)
        if plain is None or (dims := len(list(plain))) > len(self._batch_size):
            return self._twin()[index]  # type: ignore[no-any-return]  # a TensorDict
        size = torch.empty(self._batch_size, device="meta")[plain].shape
        with self._budget():
            entries = {key: self._load(key, node, plain) for key, node in self._nodes().items()}
        names = None if self._names is None else tuple(
            [n for i, n in enumerate(self._names) if i >= dims or isinstance(plain[i], slice)]
        )  # fmt: skip
        return TensorDict._from_entries(entries, size, self._device, names)

    @in_turn
    def _twin(self) -> Any:
        """Read the whole store into memory."""
        with self._budget():
            found = {k: v._twin() if isinstance(v, TensorCollection) else v for k, v in self._entries().items()}
        return TensorDict._from_entries(found, self._batch_size, self._device, self._names)

    _solid = _twin

    def _leaves(self, kind: Kind = BATCHED) -> list[Tensor]:
        found: list[Tensor] = self._twin()._leaves(kind)
        return found

    def __repr__(self) -> str:
        try:
            where = "closed" if self._group is None else repr(self._twin()).partition("(")[2][:-1]
        except MemoryBudgetError as error:
            where = f"batch_size={self._batch_size}, {len(self._nodes())} entries: {error}"
        return f"PersistentTensorDict({where})"

    # ---- writing -----------------------------------------------------------------------------------------------------

    def _writable(self, what: str) -> None:
        self._live_group()
        if not self._writes:
            raise UnsupportedOperationError(f'cannot {what}: the store is opened for reading; open it with `mode="r+"`')

    def _check(self, key: str, value: Any) -> Any:
        self._writable("write")
        return self._bare(self._batch_size, self._names)._check(key, value)

    @in_turn
    def _put(self, key: str, value: Any, coded: bool = False) -> None:
        """Write an entry, over the stored array if that has the same shape and dtype."""
        self._writable("write")
        name, group = name_of(key), self._live_group()
        old = child_of(group, name, self._backend) if has_child(group, name, self._backend) else None
        if isinstance(value, TensorCollection):
            if isinstance(value, PersistentTensorDict):
                value = value._twin()
            if old is not None:
                del group[name]
            child = self._child(self._subgroup(group, name))
            child._batch_size, child._names = value._batch_size, value._names
            child._fill_group(value._solid())
            return None
        if isinstance(value, RaggedTensor) or (isinstance(value, Tensor) and value.is_nested):
            return self._put_ragged(name, value)
        tensor, about = encoded_entry(key, value, coded)
        like = stored(tensor[:0] if tensor.ndim else tensor, key)[0].numpy()
        shape = (*tensor.shape[:1], *like.shape[1:]) if tensor.ndim else like.shape
        alike = None if old is None or self._is_group(old) else (old.shape, old.dtype, self._about(old))
        target: Any = old
        if alike != (shape, like.dtype, about):
            if old is not None:
                del group[name]
            how = {"fletcher32": True} if self._kwargs.get("fletcher32") else {}
            how = how if about.get("kind") else self._kwargs
            target = new_array(self._backend, group, name, shape, like.dtype, how)
            if about:
                write_note(target, _ATTR, about)
        step = max(1, BLOCK_BYTES // max(1, tensor[:1].nbytes)) if tensor.ndim else 1
        for begin in range(0, len(tensor) if tensor.ndim and tensor.numel() else 0, step):
            target[begin : begin + step] = stored(tensor[begin : begin + step], key)[0].numpy()
        if not tensor.ndim:
            target[...] = like
        return None

    def _put_ragged(self, name: str, value: Any) -> None:
        group, form = self._live_group(), "ragged" if isinstance(value, RaggedTensor) else "nested"
        value = value if form == "ragged" else RaggedTensor(value)
        if has_child(group, name, self._backend):
            del group[name]
        child = self._child(self._subgroup(group, name))
        child._put("values", value.values)
        child._put("lengths", value.lengths)
        child._note(kind=form)

    def _subgroup(self, group: Any, name: str) -> Any:
        return group.create_group(name, **({"track_order": True} if self._backend == "h5" else {}))

    def _fill_group(self, batch: Any) -> None:
        """Write the entries and the attributes of a container."""
        schema = schema_of(type(batch))
        entries = batch._nodes() if isinstance(batch, PersistentTensorDict) else batch._entries()
        names = batch._names and list(batch._names)
        self._note(batch_size=list(batch._batch_size), names=names, keys=[name_of(key) for key in entries])
        if schema is not None:
            self._note(cls=class_part(type(batch)).model_dump(exclude_none=True))
        for key in entries:
            value = batch._load(key, entries[key]) if isinstance(batch, PersistentTensorDict) else entries[key]
            spec = None if schema is None else schema.fields.get(key)
            coded = spec is not None and spec.kind.holds_objects
            self._put(key, as_json_entry(spec, value) if coded else value, coded)

    @in_turn
    def _drop_steps(self, key: str) -> list[Step]:
        self._writable("delete")
        self._node(key)
        return [partial(self._delete, name_of(key))]

    @in_turn
    def _delete(self, name: str) -> None:
        del self._live_group()[name]

    def _plan_entry(self, entry: Any, value: Any, path: Path, parts: Any, *rest: Any) -> list[Copy]:  # pyright: ignore[reportIncompatibleMethodOverride]  # the parameters after the entry vary by caller
        self._writable("write")
        plan = super()._plan_entry(entry, value, path, parts, *rest)
        if isinstance(entry, PersistentTensorDict):
            return plan
        return [(EntryWrite(self, path[-1], entry, parts), plan, path)]  # type: ignore[list-item]  # commits as a node does

    def _become_steps(self, other: Any, lock: bool = False) -> list[Step]:
        self._writable("replace the leaves")
        return [partial(self._sync, other._solid()), *([partial(relock, self)] if lock else [])]

    @in_turn
    def _set_at(self, index: Any, value: Any, wanted: Any, non_blocking: bool) -> None:
        self._writable("write")
        plain = plain_index(index)
        if plain is not None and len(plain) <= len(self._batch_size):
            runs: list[Any] = [plain]
            local: Any = ...
        else:
            with self._budget():
                reserve(8 * self._batch_size.numel(), "the positions of all elements")
                runs, local = runs_of(index, self._batch_size)
        before = [self._rows(run) for run in runs]
        part = before[0].clone() if len(runs) == 1 else cat(before)
        part._set_at(local, value, wanted, non_blocking)  # a value that doesn't fit raises before the file is written
        if plain is not None:
            return self._write_rows(plain, part, before[0])
        for run, old, new in zip(runs, before, part.split([len(one) for one in before]), strict=True):
            self._write_rows(run, new, old)
        return None

    def _write_rows(self, index: Any, part: Any, before: Any) -> None:
        """Write elements at a plain index.

        Arrays are written only there; other entries are written as a whole if they changed.
        """
        for key, node in self._nodes().items():
            value, old = part._entries()[key], before._entries()[key]
            if self._is_group(node) and not self._about(node).get("kind"):
                self._child(node)._write_rows(index, value, old)
            elif isinstance(value, Tensor) and not value.is_nested:
                node[index] = stored(value.cpu(), key)[0].numpy()
            elif SharedValue(value) != SharedValue(old):
                whole = TensorDict._from_entries({key: self._load(key, node)}, self._batch_size, None, None)
                whole[index] = TensorDict._from_entries({key: value}, part._batch_size, None, None)
                self._put(key, whole._entries()[key])

    @in_turn
    def _sync(self, twin: TensorDict) -> None:
        """Write the result of an in-place operation on a copy in memory."""
        entries = twin._entries()
        for key in self._nodes():
            if key not in entries:
                self._drop(key)
        for key, value in entries.items():
            self._put(key, value)
        self._note(keys=[name_of(key) for key in entries])
        self._device = twin._device
        if (twin._batch_size, twin._names) != (self._batch_size, self._names):
            publish(self._shape_steps(twin._batch_size, twin._names))

    def _shape_steps(self, size: torch.Size, names: Names) -> list[Step]:
        self._writable("change the batch size")
        return [
            *super()._shape_steps(size, names),
            partial(self._note, batch_size=list(size), names=names and list(names)),
        ]
