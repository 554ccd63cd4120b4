"""TensorDict: the dense store, with one dict from key to tensor, container, entry node or plain Python value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import GenericAlias
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from typing_extensions import Self

from .._flags import flag
from ..core import (
    ABSENT,
    BATCHED,
    STORAGE,
    Device,
    Handler,
    Key,
    Kind,
    Names,
    Owners,
    Path,
    TensorCollection,
    TensorEntry,
    Write,
    as_batch_size,
    as_device,
    as_jagged,
    as_jagged_layout,
    batch_shape,
    blank,
    check_names,
    children,
    locked_error,
    new_object,
    register,
    relock,
    settle,
    trust_for_loading,
    unravel_key_to_tuple,
)
from ..errors import ArgumentError, BatchSizeError, StructureError, too_deep
from ..ops import UNSET, Index, Join, get_defaults_to_none, list_to_stack
from ..ops._apply import ApplyOps
from ..ops._compare import same_atom
from ..ops._distributed import whole_tensor
from ..ops._index import lost_dims
from ..ops._inplace import Copy
from ..ops._join import joined_size
from ..ops._nesting import build, nested_entries
from ..ops._one_block import block_of, has_own_storage
from ..ops._operands import Layout
from ..ops._pairs import items_of, require_once
from ..ops._reading import ReadingOps
from ..ops._steps import KnownWrite, all_begin_with
from ._bridges import tables
from ._combine import combine
from ._consolidate import detached_structure, restore
from ._dict_steps import DictSteps, rebuilt_entry, snapshot_of
from ._fitting import (
    Replaced,
    contains,
    fit_nested,
    fits,
    in_file,
    keep_objects,
    mismatch,
    missing,
    named_like,
    same_tail,
)
from ._relaid import Relaid as Relaid
from ._values import as_tensor, deepcopy_entries, holds, plain_object, stack_lists
from .entries._nested import has_rows, only_tensors, over
from .entries._nodes import Node, NonTensorStack
from .entries._non_tensor import NonTensorData, present_entry, same_entry, stays_one
from .entries._pickled import picklable_entries
from .entries._unbatched import Unbatched, UnbatchedTensor

_CHANGED = "another thread added or removed keys during the operation; lock the container first"


class TensorDictBase(Relaid):
    """The base class of `TensorDict` and the other untyped stores, for `isinstance` tests.

    >>> import torch
    >>> from tensorclass import TensorDict, TensorDictBase, lazy_stack
    >>> data = TensorDict(a=torch.zeros(2))
    >>> isinstance(data, TensorDictBase), isinstance(lazy_stack([data, data]), TensorDictBase)
    (True, True)
    """

    __slots__ = ()
    __class_getitem__: Any = classmethod(GenericAlias)  # for annotations: `TensorDict[str, Tensor]`

    if not TYPE_CHECKING:  # not every checker takes an assigned function for a method
        __iter__ = ReadingOps._loop

    @classmethod
    def _from_nesting(
        cls, entries: Mapping[Any, Any], size: torch.Size | None, device: torch.device | None, batch_dims: int | None
    ) -> Any:
        dense = cls if issubclass(cls, TensorDict) else TensorDict
        result = build(dense, nested_entries(entries), as_batch_size(size), device)
        return result if batch_dims is None else ApplyOps.auto_batch_size_(result, batch_dims)

    @classmethod
    def _from_leaf(cls, obj: Any, device: torch.device | None) -> Any:
        """A list becomes a tensor, or one object per element, a frame a container; anything else is unchanged."""
        if type(obj).__name__ == "DataFrame" and type(obj).__module__.partition(".")[0] == "pandas":
            return tables().read("pandas", TensorDict, obj)._on(device)
        if not isinstance(obj, list):
            return obj
        tensor = torch.tensor([], device=device) if not obj else as_tensor(obj, device)
        return NonTensorStack.of(obj, torch.Size([len(obj)])) if tensor is None else tensor


class TensorDict(DictSteps, TensorDictBase):
    """A mapping from keys to tensors that share leading batch dims, indexed and moved like one tensor.

    Args:
        source: a mapping or container of entries; nested mappings become nested containers, tuple keys are paths.
        batch_size: the leading dims that every entry must have; by default `[]`.
        device: all entries are moved there, now and on later writes; None moves nothing.
        names: a name or None for each batch dim.
        non_blocking: whether copies to `device` may be asynchronous.
        lock: lock the container once it is filled.
        **kwargs: entries given by keyword instead of `source`.

    Raises:
        BatchSizeError: if the leading dims of an entry differ from the batch size; names the key and both shapes.

    >>> import torch
    >>> from tensorclass import TensorDict
    >>> data = TensorDict(image=torch.zeros(3, 8, 8), pose={"angle": torch.ones(3)}, batch_size=[3])
    >>> data[:2]["pose", "angle"]
    tensor([1., 1.])
    """

    __slots__ = (
        "__weakref__", "_batch_size", "_data", "_device", "_equality", "_known_write", "_lock", "_names",
        "_origin", "_placed_keys", "_plain", "_undo",
    )  # fmt: skip

    _data: dict[str, Any]
    _lock: Owners | None
    _plain: bool
    _undo: list[Any]
    _origin: Any
    _placed_keys: frozenset[str]  # keys at which tree_map has put values without tensors: still leaves of the pytree
    _known_write: KnownWrite  # the last kind of write at an index; absent before the first
    _equality: bool | None  # True in the result of `a == b`, False in that of `a != b`, else absent

    def __init__(
        self,
        source: Mapping[Any, Any] | TensorCollection | None = None,
        batch_size: Sequence[int] | int | None = None,
        device: Device = None,
        names: Sequence[str | None] | None = None,
        non_blocking: bool | None = None,
        lock: bool = False,
        **kwargs: Any,
    ) -> None:
        if not (non_blocking is None and lock is False):
            flag(non_blocking=non_blocking is not None and non_blocking, lock=lock)
        if source is not None and kwargs:
            raise ArgumentError("give entries as one mapping or as keyword arguments, not both")
        if batch_size is None and isinstance(source, TensorCollection):
            batch_size = source._batch_size
        self._batch_size = size = as_batch_size(batch_size)
        self._device = None if device is None else as_device(device)
        self._names = None if names is None else check_names(names, len(size))
        self._lock, self._plain = None, True
        entries = kwargs if source is None else source
        ours = entries.copy() if device is None and type(entries) is dict else None
        if ours is not None and all_begin_with(size, ours):
            self._data = ours
        else:
            self._data = {}
            self._add_all(entries)
        if lock:
            relock(self)

    def _add_all(self, entries: Any) -> None:
        """Check and store the entries of a new container."""
        size, data, device, last, once = self._batch_size, self._data, self._device, None, False
        ndim = len(size)
        try:
            for key, value in items_of(entries):
                plain = type(value) is Tensor and type(key) is str and device is None
                if plain and ((shape := value.shape) == last or shape[:ndim] == size):
                    data[key], last = value, shape
                elif type(key) is str:
                    inner = type(value) is dict and self._names is None  # nothing below can hold a new container
                    self._put(key, self._made_of(key, value) if inner else self._check(key, value))
                else:
                    once = once or require_once(entries)
                    TensorDict.set(self, key, value)
        except RuntimeError:
            if (found := as_jagged(items_of(entries))) is None:  # else the shape of one can't be read
                raise
            for key, value in found.items():
                TensorDict.set(self, key, value)

    @classmethod
    def _from_entries(
        cls, entries: dict[str, Any], batch_size: torch.Size, device: torch.device | None, names: Names
    ) -> Self:
        return cls._of(entries, batch_size, device, names, only_tensors(entries))

    @classmethod
    def _of(
        cls, data: dict[str, Any], batch_size: torch.Size, device: torch.device | None, names: Names, plain: bool
    ) -> Self:
        new: Self = blank(cls)
        new._data = data
        new._batch_size = batch_size
        new._device = device
        new._names = names or None  # `()`, left after an index of the last named dim, becomes None
        new._plain = plain
        new._lock = None
        return new

    # ---- the primitives ------------------------------------------------------------------------------------------

    def _leaves(self, kind: Kind = BATCHED) -> list[Tensor]:
        values = list(self._data.values())
        if self._plain:
            return values
        leaves: list[Tensor] = []
        for value in values:
            if type(value) is Tensor:
                leaves.append(value)
            elif isinstance(value, (TensorCollection, Node)):
                leaves += value._leaves(kind)
            elif isinstance(value, Tensor):  # last: a failing isinstance check takes longer
                leaves += over(value)._leaves(kind) if has_rows(value, self._batch_size) else [value]
        return leaves

    def _make(self, leaves: Sequence[Tensor], size: torch.Size, names: Names = None, kind: Kind = BATCHED) -> Self:
        if not self._plain:
            return self._twin()._refill(leaves, size, names, kind)
        data = dict(zip(self._data, leaves))  # noqa: B905  # a keyword would take longer than the rest
        if len(data) != len(leaves) or len(data) != len(self._data):
            raise StructureError(_CHANGED)
        return self._of(data, size, self._device, names, True)

    def _twin(self) -> Self:
        new: Self = blank(type(self))
        new._data = data = self._data.copy()
        new._plain = plain = self._plain  # after the copy, as in `_open`
        for key, value in () if plain else data.items():
            if type(value) is not Tensor and isinstance(value, TensorCollection):
                data[key] = value._twin()
        new._batch_size, new._device, new._names = self._batch_size, self._device, self._names
        new._lock = None
        return new

    def _open(self, leaves: list[Tensor], kind: Kind = BATCHED) -> Self:
        data = self._data.copy()
        plain = self._plain  # after the copy: a write of anything but a tensor clears the flag first
        if plain:
            leaves += data.values()
        for key, value in () if plain else data.items():
            if type(value) is Tensor:
                leaves.append(value)
            elif isinstance(value, TensorCollection):
                data[key] = value._open(leaves, kind)
            elif isinstance(value, Tensor) and not has_rows(value, self._batch_size):
                leaves.append(value)
            elif isinstance(value, (Tensor, Node)):
                data[key] = still = snapshot_of(value)
                leaves += still._leaves(kind)
        return self._of(data, self._batch_size, self._device, self._names, plain)

    def _pair_leaves(
        self, other: Any, mine: list[Tensor], theirs: list[Tensor], write: Write = "", whole: bool = True
    ) -> Self | None:
        data, given = self._data.copy(), type(other) is dict
        if other is self:
            found = data
        else:
            found = other if given else other._data.copy()
        plain = self._plain  # after the copies, as in `_open`
        paired = plain and not given and other._plain
        if paired and (found is data or list(found) == list(data)):
            mine += data.values()
            theirs += found.values()
            return self if write else self._of(data, self._batch_size, self._device, self._names, True)
        if whole and len(found) != len(data):
            return None
        level = not given and self._batch_size == other._batch_size
        for key, value in (data if whole else found).items():
            leaf, source = (value, found.get(key, ABSENT)) if whole else (data.get(key, ABSENT), value)
            if type(leaf) is Tensor and type(source) is Tensor and not (given and source.is_nested):
                mine.append(leaf)
                theirs.append(source)
            elif isinstance(leaf, TensorCollection):
                if type(source) is not type(leaf) and not (given and type(source) is dict):
                    return None
                bare = leaf._layered and not (write or given)  # else its class says whether it is frozen
                inner, partner = (leaf._store, source._store) if bare else (leaf, source)  # type: ignore[attr-defined,union-attr]  # pyright: ignore[reportAttributeAccessIssue]  # a class over a store
                alike = given or leaf is source or (level and inner._batch_size == partner._batch_size)  # type: ignore[union-attr]  # pyright: ignore[reportAttributeAccessIssue]  # if not given
                if (bare and type(partner) is not type(inner)) or not (alike or same_tail(self, inner, other, partner)):
                    return None
                twin = inner._pair_leaves(partner, mine, theirs, write, whole)
                if twin is None:
                    return None
                if not write:
                    data[key] = leaf._wrap(twin) if bare else twin  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]  # a class over a store
            elif not same_atom(leaf, source):
                return None
        return self if write else self._of(data, self._batch_size, self._device, self._names, plain)

    _combine = combine

    def _each(self, fn: Handler, size: torch.Size, names: Names = None, kind: Kind = BATCHED, at: Any = None) -> Self:
        data, dims = self._data.copy(), len(self._batch_size)
        plain = self._plain  # after the copy, as in `_open`
        for key, value in data.items():
            if plain or type(value) is Tensor:
                data[key] = fn(value) if at is None else fn(value, at)
            elif isinstance(value, TensorCollection):
                inner: Any = value._store if value._layered else value  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]  # a class over a store
                same = len(inner._batch_size) == dims
                target, theirs = (size, names) if same else fit_nested(self, inner, size, names)
                found = inner._each(fn, target, theirs, kind, at)
                data[key] = found if inner is value else value._wrap(found)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]  # as above
            elif isinstance(value, (Tensor, Node)):
                rows = isinstance(value, Node) or has_rows(value, self._batch_size)
                still: Any = snapshot_of(value) if rows else value
                new = [fn(leaf) if at is None else fn(leaf, at) for leaf in (still._leaves(kind) if rows else [still])]
                data[key] = rebuilt_entry(key, still, new, size, names, kind) if rows else new[0]
        return self._of(data, size, self._device, names, plain)

    def _index(self, index: Index) -> Self:
        """Index by ints and slices, except for nodes, stacks and named dims, which use the general path."""
        size = self._batch_size
        lost = lost_dims(index, size) if self._names is None and size and type(index) is not Tensor else None
        if lost is not None:
            rows = self._data.copy()
            plain, first = self._plain, None  # after the copy, as in `_open`
            for key, value in rows.items():
                if plain or type(value) is Tensor:
                    rows[key] = first = value[index]
                elif isinstance(value, TensorCollection):
                    inner: Any = value._store if value._layered else value  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]  # a class over a store
                    if inner._stacked:  # it would give a member away
                        return super()._index(index)
                    found = inner._index(index)
                    rows[key] = first = found if inner is value else value._wrap(found)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]  # a class over a store
                elif isinstance(value, (Tensor, Node)):
                    if isinstance(value, Node) or has_rows(value, size):
                        return super()._index(index)
                    rows[key] = first = value[index]
            if first is not None:
                size = size[1:] if type(index) is int else first.shape[: len(size) - lost]
                return self._of(rows, size, self._device, None, plain)
        return super()._index(index)

    def _refill(self, leaves: Iterable[Tensor], size: torch.Size, names: Names = None, kind: Kind = BATCHED) -> Self:
        data = self._data
        if self._plain:
            for key, leaf in zip(data, leaves):  # noqa: B905  # as many as there are keys; a new dict takes longer
                data[key] = leaf
        else:
            leaves, dims = iter(leaves), len(self._batch_size)
            for key, value in data.items():
                if type(value) is Tensor:
                    data[key] = next(leaves)
                elif isinstance(value, TensorCollection):
                    inner: Any = value._store if value._layered else value  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]  # a class over a store
                    same = len(inner._batch_size) == dims
                    target, theirs = (size, names) if same else fit_nested(self, inner, size, names)
                    found = inner._refill(leaves, target, theirs, kind)
                    if found is not inner:
                        data[key] = found if inner is value else value._wrap(found)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]  # as above
                elif isinstance(value, Tensor) and not has_rows(value, self._batch_size):
                    data[key] = next(leaves)
                elif isinstance(value, (Tensor, Node)):
                    value = over(value) if isinstance(value, Tensor) else value
                    new = [next(leaves) for _ in value._leaves(kind)]
                    data[key] = rebuilt_entry(key, value, new, size, names, kind)
        self._batch_size = size
        self._names = names or None  # as in `_of`
        return self

    def _entries(self) -> dict[str, Any]:
        return self._data.copy()

    def _solid(self) -> Any:
        if self._plain:
            return self
        data, changed = self._data.copy(), False
        for key, value in data.items():
            if type(value) is not Tensor and isinstance(value, TensorCollection) and not value._plain:
                data[key] = solid = value._solid()
                changed = changed or solid is not value
        return self._of(data, self._batch_size, self._device, self._names, False) if changed else self

    def _layout(self) -> Layout:
        return tuple(self._data) if self._plain else super()._layout()

    def _live(self) -> dict[str, Any]:
        return self._data

    _outline = _live

    @classmethod
    def _join_objects(cls, key: str, values: list[Any], dim: int, how: Join) -> Any:
        """One value per element; a concatenation of equal values keeps one value."""
        if stays_one(values, how):
            return values[0]
        if False not in [same_atom(value, values[0]) for value in values]:
            return NonTensorStack.of_one(values[0], joined_size(how.sizes, dim, how))
        stacks = [NonTensorStack.of_one(value, size) for value, size in zip(values, how.sizes, strict=True)]
        return NonTensorStack._join_nodes(stacks, dim, how, key)

    def _entry(self, key: str) -> Any:
        try:
            value = self._data[key]
        except KeyError:
            raise missing(self, key) from None
        if type(value) is Tensor or not isinstance(value, Node):
            return value
        return value._shown_in(self._batch_size) if isinstance(value, Unbatched) else value._item()

    def get(self, key: Key, default: Any = UNSET, **options: Any) -> Any:
        """The value of a key, or `default` (by default None) if it is absent.

        A Python object is returned as `NonTensorData`, one object per element as `NonTensorStack`; `data[key]` returns
        the object itself, or a list.

        Raises:
            KeyThroughLeafError: if the path goes through a leaf.

        >>> from tensorclass import TensorDict
        >>> data = TensorDict(name="scan", batch_size=[])
        >>> data.get("name"), data["name"], data.get("size")
        (NonTensorData(data='scan', batch_size=torch.Size([]), device=None), 'scan', None)
        """
        if options:
            return super().get(key, default, **options)
        value = self._data.get(key, UNSET) if type(key) is str else UNSET
        if value is not UNSET:
            return value if isinstance(value, Tensor) else present_entry(self, value)
        path = unravel_key_to_tuple(key)
        *outer, last = path
        holder: Any = super().get(tuple(outer), ABSENT) if outer else self
        if isinstance(holder, TensorDict):
            if last in holder._data:
                return present_entry(holder, holder._data[last])
            holder = ABSENT
        if holder is ABSENT and (default is not UNSET or get_defaults_to_none()):
            return None if default is UNSET else default
        return super().get(path, default)

    def _check(self, key: str, value: Any) -> Any:
        if isinstance(value, Tensor):
            if type(value) is UnbatchedTensor:
                return self._check_child(key, Unbatched(value))
            size, value = self._batch_size, as_jagged_layout(key, value) if value.is_nested else value
            if size and value.shape[: len(size)] != size:
                raise mismatch(key, value.shape, size)
            device = self._device
            return value if device is None or value.device == device else value.to(device)
        child = isinstance(value, (TensorCollection, Node))
        return self._check_child(key, value) if child else self._check_object(key, value)

    def _check_child(self, key: str, value: Any) -> Any:
        size = self._batch_size
        shape = batch_shape(value) if isinstance(value, Node) else value._batch_size
        if shape is not None and shape[: len(size)] != size:
            if isinstance(value, Node) or not fits(value, size):
                raise mismatch(key, shape, size)
            value = value._make(value._leaves(STORAGE), value._batch_size, value._names, STORAGE)
            value._resize(size, (key,))
        if isinstance(value, TensorCollection):
            if contains(self, value):
                raise StructureError(f"field `{key}`: a container can't be put inside itself; put in a `value.clone()`")
            if self._device is not None and value._device != self._device:
                value = value._on(self._device)  # type: ignore[attr-defined]  # all containers have it
        elif self._device is not None and any(leaf.device != self._device for leaf in value._leaves(STORAGE)):
            moved = [leaf.to(self._device) for leaf in value._leaves(STORAGE)]
            value = value._make(moved, getattr(value, "_batch_size", size), getattr(value, "_names", None), STORAGE)
        if isinstance(value, Node):
            return value._stored_form(key, size)
        return value if self._names is None else named_like(value, self._names, key)

    def _check_object(self, key: str, value: Any) -> Any:
        """A mapping becomes a container, numbers become a tensor, a list of objects becomes one object per element."""
        if isinstance(value, Mapping):
            made = self._made_of(key, value)
            return made if made._plain and self._names is None else self._check_child(key, made)
        try:
            tensor: Any = stack_lists(value)  # None unless a list or tuple
        except RecursionError:
            raise too_deep(key) from None
        if isinstance(value, (bool, int, float, complex, np.ndarray, np.generic, list, tuple)):
            tensor = as_tensor(value, self._device) if tensor is None else tensor
            if tensor is not None:
                return self._check(key, holds(key, tensor, value))
        return self._one_each(key, value) if isinstance(value, list) and list_to_stack() else plain_object(value)

    def _made_of(self, key: str, value: Any) -> TensorDict:
        try:
            return TensorDict(value, self._batch_size, self._device)
        except RecursionError:
            raise too_deep(key) from None

    def _one_each(self, key: str, values: list[Any]) -> NonTensorStack[Any]:
        """One object per element, from a list."""
        try:
            return NonTensorStack.of(values, self._batch_size or torch.Size([len(values)]))
        except BatchSizeError as error:
            raise BatchSizeError(
                f"field `{key}`: {error}; store the list as one value with `set_non_tensor({key!r}, value)`"
            ) from None

    # ---- objects -------------------------------------------------------------------------------------------------

    def _choose_entry(self, key: str, mine: Any, theirs: Any, condition: Tensor) -> None:
        """Objects that differ become one object per element."""
        if isinstance(mine, (Tensor, TensorCollection, TensorEntry)):
            super()._choose_entry(key, mine, theirs, condition)
        elif not same_entry(mine, theirs):
            self._put(key, NonTensorStack.of_one(mine, self._batch_size)._choose(theirs, whole_tensor(condition), key))

    def _plan_object(
        self, entry: Any, value: Any, path: Path, parts: tuple[Any, ...] | None, size: torch.Size
    ) -> list[Copy]:
        """A shared object is replaced; written at an index, it becomes one object per element."""
        if isinstance(entry, TensorEntry):
            return super()._plan_object(entry, value, path, parts, size)
        if same_entry(entry, value):
            return []
        if parts is None and not isinstance(value, NonTensorStack):
            if isinstance(value, (Tensor, TensorCollection, Mapping)):
                return super()._plan_object(entry, value, path, parts, size)
            stored = self._check(path[-1], value if isinstance(value, Node) else NonTensorData(value))
            return [(Replaced(self, path[-1]), stored, path)]  # type: ignore[list-item]  # writes like an entry node
        stack = NonTensorStack.of_one(entry, self._batch_size)
        plan = stack._plan_write(value, parts, size, path)
        return [(Replaced(self, path[-1], stack), plan, path)]  # type: ignore[list-item]  # writes like an entry node

    # ---- locking -------------------------------------------------------------------------------------------------

    def _require_unlocked(self, what: str, key: str | None = None) -> None:
        if self._lock is not None:
            raise locked_error(type(self).__name__, what, key)

    def _refuse_frozen(self, what: str, key: str | None = None) -> None:
        if key is None and not self._plain:
            for child in children(self):
                child._refuse_frozen(what)  # type: ignore[attr-defined]  # all stores and classes have it

    def _owners(self) -> Owners | None:
        return self._lock

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        new = self._of({}, self._batch_size, self._device, self._names, self._plain)
        memo[id(self)] = new
        new._data = deepcopy_entries(self._data.copy(), memo)
        return new

    # ---- pickling ------------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        state = {"data": picklable_entries(self._data), "batch_size": tuple(self._batch_size), "device": self._device}
        return {**state, "names": self._names, "locked": self._lock is not None, "in_file": in_file(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._data, self._device, self._names = state["data"], state["device"], state["names"]
        self._batch_size = torch.Size(state["batch_size"])
        self._plain, self._lock = only_tensors(self._data), None
        if state.get("in_file"):  # its tensors are still those of the file
            keep_objects(self)
        if state["locked"]:
            relock(self)

    def __reduce__(self) -> tuple[Any, ...]:
        leaves = [] if has_own_storage(self._data) else self._leaves(STORAGE)
        block = block_of(leaves)
        if block is not None:  # as one block: each single leaf would pickle the whole storage
            shell, shapes = detached_structure(self, leaves)
            return restore, (shell, block, shapes)
        return new_object, (type(self),), self.__getstate__()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._dense = cls
        register(cls)


TensorCollection._dense = TensorDict
settle(TensorDict)
register(trust_for_loading(TensorDict))
