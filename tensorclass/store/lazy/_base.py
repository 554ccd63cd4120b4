"""The base of lazy stacks: their members, the stack dim, and the primitives of a container."""

# Operations call each other through the class: pyright infers the mixin as their result, mypy infers Self.
# pyright: reportIncompatibleVariableOverride=false

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from typing import Any, ClassVar, TypeAlias

import torch
from torch import Tensor
from typing_extensions import Self

from ...core import (
    BATCHED,
    Device,
    Key,
    Kind,
    Names,
    Owners,
    Step,
    TensorCollection,
    Write,
    as_batch_size,
    as_device,
    assign,
    changed,
    check_names,
    new_object,
    publish,
    relock,
    store_of,
)
from ...errors import ArgumentError, BatchSizeError, StructureError
from ...ops import UNSET, LinkedList
from ...ops._operands import Layout
from ...ops._steps import KnownWrite
from .._combine import combine_members
from .._dict import TensorDict, TensorDictBase
from ..entries._nodes import Node
from ..entries._unbatched import Unbatched
from . import _entries as entries

Hook: TypeAlias = "Callable[[Any], Any] | None"


class LazyBase(TensorDictBase):
    """The primitives. The leaves are those of the members, member by member; for batch operations, the stack itself."""

    __slots__ = (
        "__weakref__", "_dim_name", "_equality", "_joiner", "_known_write", "_lock", "_members", "_origin",
        "_template", "_undo", "hook_in", "hook_out", "stack_dim",
    )  # fmt: skip

    _stacked: ClassVar[bool] = True
    _members: list[Any]
    _template: TensorDict
    """An empty container of the members' batch size, for a stack without members."""
    _dim_name: str | None
    _joiner: type[Any]
    """The class that joins Python objects when they are read: a typed class around the stack, else its own."""
    _lock: Owners | None
    _undo: list[Any]
    _origin: Any
    _known_write: KnownWrite
    _equality: bool | None
    stack_dim: int
    hook_in: Hook
    hook_out: Hook

    @classmethod
    def _of(
        cls, members: Sequence[Any], dim: int, dim_name: str | None = None, template: TensorDict | None = None
    ) -> Self:
        new = object.__new__(cls)
        new._members = list(members)
        new.stack_dim = dim
        new._dim_name = dim_name
        new._template = _EMPTY if template is None else template
        new._joiner = TensorDict
        new._lock = None
        new.hook_in = new.hook_out = None
        return new

    def _new(
        self, members: Sequence[Any], dim: int, dim_name: str | None = None, template: TensorDict | None = None
    ) -> Self:
        """A stack along another dim, of members of the same kind."""
        new = self._of(members, dim, dim_name, template)
        new._joiner = self._joiner
        new.hook_in, new.hook_out = self.hook_in, self.hook_out
        return new

    def _with_members(self, members: Sequence[Any]) -> Self:
        """A stack like this one around other members."""
        return self._new(members, self.stack_dim, self._dim_name, self._template)

    def _restack(self, members: Sequence[Any], dim: int) -> Any:
        """A lazy stack of containers; for instances of one typed class, an instance of it over a lazy stack."""
        cls = type(members[0])
        if cls._layered and all([type(member) is cls for member in members]):
            return cls._wrap(self._of([member._store for member in members], dim)._joined_by(cls))
        return self._of(members, dim)

    def _joined_by(self, cls: type[Any]) -> Self:
        self._joiner = cls
        return self

    # ---- derived from the members --------------------------------------------------------------------------------

    @property
    def tensordicts(self) -> list[Any]:
        """The members, in a new list. To add members, use `append`, `insert` and `extend`."""
        return list(self._members)

    @property
    def _batch_size(self) -> torch.Size:  # pyright: ignore[reportIncompatibleVariableOverride]  # follows from the members
        members, dim = self._members, self.stack_dim
        sizes = [m._batch_size for m in members] or [self._template._batch_size]
        inner = sizes[0] if sizes.count(sizes[0]) == len(sizes) else entries.common_size(sizes)
        return torch.Size((*inner[:dim], len(members), *inner[dim:]) if dim else (len(members), *inner))

    @_batch_size.setter
    def _batch_size(self, size: torch.Size) -> None:
        if size != self._batch_size:
            raise fixed_size(size, self._batch_size)

    @property
    def _device(self) -> torch.device | None:  # pyright: ignore[reportIncompatibleVariableOverride]  # as above
        devices = {member._device for member in self._members} or {self._template._device}
        return next(iter(devices)) if len(devices) == 1 else None

    @_device.setter
    def _device(self, device: torch.device | None) -> None:
        self._set_device(device)

    @property
    def _names(self) -> Names:  # pyright: ignore[reportIncompatibleVariableOverride]  # as above
        first = self._members[0] if self._members else self._template
        inner = first._names or (None,) * len(first._batch_size)
        names = (*inner[: self.stack_dim], self._dim_name, *inner[self.stack_dim :])
        return names if any([name is not None for name in names]) else None

    @_names.setter
    def _names(self, names: Names) -> None:
        publish(self._name_steps(names, lambda part, inner: assign(part, _names=inner)))

    def _name_steps(self, names: Names, of_part: Callable[[Any, Names], list[Step]] | None = None) -> list[Step]:
        dim = self.stack_dim
        inner = None if names is None else check_names((*names[:dim], *names[dim + 1 :]), len(names) - 1)
        template = self._template._twin()  # others may have it too
        steps = assign(self, _dim_name=None if names is None else names[dim], _template=template)
        for part in self._members or [template]:
            steps += part._name_steps(inner) if of_part is None else of_part(part, inner)
        return steps

    def __len__(self) -> int:
        """The size of the first batch dim."""
        return self._batch_size[0] if self.stack_dim else len(self._members)

    def _size_steps(self, size: torch.Size) -> list[Step]:
        """The steps that resize the members; the stack dim keeps its length."""
        inner = self._inner_size(size)
        return [step for member in self._members for step in member._size_steps(inner)]

    def _check_size(self, size: torch.Size, path: tuple[str, ...]) -> None:
        if len(size) <= self.stack_dim or size[self.stack_dim] != len(self._members):
            raise fixed_size(size, self._batch_size)
        for member in self._members:
            member._check_size(self._inner_size(size), path)

    def _inner_size(self, size: torch.Size) -> torch.Size:
        return torch.Size((*size[: self.stack_dim], *size[self.stack_dim + 1 :]))

    def _member(self, index: Any) -> Any:
        """The member at an int, if the stack dim is the first; None for any other index."""
        members = self._members
        if self.stack_dim == 0 and -len(members) <= index < len(members):
            return members[index]
        return None

    # ---- leaves --------------------------------------------------------------------------------------------------

    def _leaves(self, kind: Kind = BATCHED) -> list[Any]:
        """For operations on batch dims, the stack itself is the leaf: it has the methods of a tensor for them."""
        if kind == BATCHED:
            return [self]
        return [leaf for member in self._members for leaf in member._leaves(kind)]

    def _open(self, leaves: list[Any], kind: Kind = BATCHED) -> Any:
        if kind == BATCHED:
            still = self._with_members(self._members)  # a snapshot: other threads may add members
            leaves.append(still)
            return StackPlace()
        return self._with_members([member._open(leaves, kind) for member in list(self._members)])

    def _pair_leaves(
        self, other: Any, mine: list[Tensor], theirs: list[Tensor], write: Write = "", whole: bool = True
    ) -> Self | None:
        """Pair stacks along the same dim member by member; not for an index, since members lack the stack dim."""
        if write == "index" or type(other) is not type(self) or other.stack_dim != self.stack_dim:
            return None
        members, others = list(self._members), list(other._members)  # a snapshot: other threads may add members
        twins: list[Any] = []
        for member, there in zip(members, others, strict=False):
            twins.append(
                member._pair_leaves(there, mine, theirs, write, whole) if type(there) is type(member) else None
            )
            if twins[-1] is None:
                return None
        if len(members) != len(others):
            return None
        if write:
            return self
        return self._with_members(twins)

    _combine = combine_members

    def _refill(self, leaves: Iterable[Any], size: torch.Size, names: Names = None, kind: Kind = BATCHED) -> Any:
        if kind == BATCHED:
            return StackPlace()._refill(leaves, size, names, kind)
        leaves = iter(leaves)
        self._members = [m._refill(leaves, m._batch_size, m._names, kind) for m in self._members]
        return self

    def _parts(self) -> list[Any]:
        return [part for member in self._members for part in member._parts()]

    def _layout(self) -> Layout:
        found: list[Any] = []
        for position, member in enumerate(self._members):
            mark = f"[{position}]"
            found += [(mark, path) if isinstance(path, str) else (mark, *path) for path in member._layout()]
        return tuple(found)

    def _solid(self) -> Any:
        """The dense container of the same entries."""
        stack = self._with_members(self._members)  # a snapshot: other threads may add members
        stack._require_dense()
        data: dict[str, Any] = {}
        for key in entries.common_keys(stack._members):
            value = entries.combine(stack, key, entries.values_of(stack, key))
            data[key] = value._solid() if isinstance(value, TensorCollection) else value
        return TensorDict._from_entries(data, stack._batch_size, stack._device, stack._names)

    def _require_dense(self) -> None:
        """Refuse a stack that can't be dense: different sizes, or keys that only some members have."""
        size = self._batch_size
        if -1 in size:
            sizes = [list(member._batch_size) for member in self._members]
            at = next((i for i, other in enumerate(sizes) if other != sizes[0]), 0)
            raise BatchSizeError(
                f"lazy stack: this operation needs one batch size for all members, they have {sizes[0]} at position 0 "
                f"and {sizes[at]} at position {at}; work on the members, or pad them with `densify` and "
                "`to_padded_tensor`"
            )
        for member in self._members:
            if member._stacked:
                store_of(member)._require_dense()
        exclusive = entries.exclusive_keys(self._members)
        if exclusive:
            key, holders = next(iter(exclusive.items()))
            raise StructureError(
                f"lazy stack: this operation needs the same keys in all members, `{key}` is at positions "
                f"{holders[:5]} only; `select` the common keys first, or `densify` to fill in absent ones"
            )

    def _twin(self) -> Self:
        return self._with_members([member._twin() for member in list(self._members)])

    # ---- entries -------------------------------------------------------------------------------------------------

    @property
    def _data(self) -> entries.Entries:
        return entries.Entries(self)

    def _entries(self) -> Any:
        return entries.Snapshot(self)

    def _live(self) -> Any:
        return entries.Entries(self)

    def _outline(self) -> dict[str, Any]:
        members = list(self._members)  # a snapshot: other threads may write to it
        if not members:
            return {}
        tables = entries.outlines(members)
        first = tables[0] = tables[0].copy()  # whose keys and values are read one after the other
        keys = entries.shared_keys(tables)
        found = first if len(keys) == len(first) else {key: first[key] for key in keys}
        for key, value in () if members[0]._plain else found.items():  # the flag is read after the copy
            if type(value) is not Tensor and isinstance(value, TensorCollection):
                values = [value, *[member._outline().get(key) for member in members[1:]]]
                if all([isinstance(value, TensorCollection) for value in values]):
                    found[key] = self._restack(values, self.stack_dim)
        return found

    def _shapes(self) -> dict[str, Any]:
        """Dtypes and shapes of tensors for `repr`, without stacking."""
        return entries.shapes(self)

    def _repr_extras(self) -> list[tuple[str, Any]]:
        extras: list[tuple[str, Any]] = [("stack_dim", self.stack_dim)]
        exclusive = entries.exclusive_keys(self._members)
        return [*extras, ("exclusive_fields", exclusive)] if exclusive else extras

    def get(self, key: Key, default: Any = UNSET, **options: Any) -> Any:
        """The value of a key, or `default` (by default None) if it is absent; objects as a `NonTensorStack`.

        The options say what becomes of members whose shapes differ; see `TensorDictBase.get`.

        >>> from tensorclass import TensorDict, lazy_stack
        >>> stack = lazy_stack([TensorDict(name="a"), TensorDict(name="b")])
        >>> stack.get("name"), stack["name"]
        (NonTensorStack(['a', 'b']), ['a', 'b'])
        """
        value = super().get(key, default, **options)
        return value.linked_entry() if type(value) is LinkedList and value is not default else value

    def _entry(self, key: str) -> Any:
        value = entries.read(self, key)
        if isinstance(value, Unbatched):
            return value._shown_in(self._batch_size)
        return value._item() if isinstance(value, Node) else value

    def _drop_steps(self, key: str) -> list[Step]:
        tables = entries.outlines(self._members)
        holders = [member for member, table in zip(self._members, tables, strict=True) if key in table]
        if not holders:
            raise entries.lacking(self, key)
        return [step for member in holders for step in member._drop_steps(key)]

    @classmethod
    def _from_entries(
        cls, entries: dict[str, Any], batch_size: torch.Size, device: torch.device | None, names: Names
    ) -> Any:
        return TensorDict._from_entries(entries, batch_size, device, names)

    def _device_steps(self, device: torch.device | None) -> list[Step]:
        template = self._template._twin()  # others may have it too
        parts = [*self._members, template]
        return [*assign(self, _template=template), *[step for part in parts for step in part._device_steps(device)]]

    # ---- locking, copying ----------------------------------------------------------------------------------------

    def _require_unlocked(self, what: str, key: str | None = None) -> None:
        """Structural writes reach the members, so check these as well."""
        if self._lock is not None:
            super()._require_unlocked(what, key)
        for member in self._members:
            member._require_unlocked(what, key)

    def _plan_lock(self, owner: object | None, held: bool, found: Any) -> None:
        """Plan the locks of the stack and its members; members that the user has locked stay locked."""
        own = held or self._lock is not None  # else the user has locked, and unlocks, the members one by one
        owners = changed(self, owner, held, found) if own else None
        if held or (owners is None and (own or owner is None)):
            for member in self._members:
                member._plan_lock(self if own else None, held, found)

    def _refuse_frozen(self, what: str, key: str | None = None) -> None:
        for member in self._members if key is None else ():
            member._refuse_frozen(what)

    def _owners(self) -> Owners | None:
        """Its owners; or an empty set if every member is locked, since then values read from the stack are locked."""
        if self._lock is None and self._members and None not in [m._owners() for m in self._members]:
            return ()
        return self._lock

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        new = self._with_members([])
        memo[id(self)] = new
        new._members = [deepcopy(member, memo) for member in self._members]
        return new

    def __getstate__(self) -> dict[str, Any]:
        names = ("stack_dim", "_dim_name", "_joiner", "_template", "hook_in", "hook_out")
        state = {name: getattr(self, name) for name in names}
        return {**state, "_members": list(self._members), "locked": self._lock is not None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        locked = state.pop("locked")
        for name, value in state.items():
            setattr(self, name, value)
        self._lock = None
        if locked:
            relock(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return new_object, (type(self),), self.__getstate__()


class StackPlace(TensorCollection):
    """A placeholder for a lazy stack in a twin, until an operation on batch dims returns its result."""

    __slots__ = ("_batch_size", "_names")

    def __init__(self) -> None:
        self._batch_size = torch.Size()
        self._names = None

    def _twin(self) -> Self:
        return self

    def _refill(self, leaves: Iterable[Any], size: torch.Size, names: Names = None, kind: Kind = BATCHED) -> Any:
        """The result of the operation, as a container without other references, with the dim names of its parent."""
        new = next(iter(leaves))._twin()  # it may be a member
        own = new._names
        if names is not None or own is not None:
            ndim = len(new._batch_size)
            tail = (own or (None,) * ndim)[len(size) :]
            wanted = check_names((*(names or (None,) * len(size)), *tail), ndim)
            if wanted != own:
                new._names = wanted
        return new


def fixed_size(size: Sequence[int], own: torch.Size) -> BatchSizeError:
    """The error for a batch size that doesn't follow from the members."""
    return BatchSizeError(
        f"lazy stack: batch size {list(size)} is not what its members give, which is {list(own)}; the stack dim has "
        "the number of members, the other dims are theirs; make a new stack, or `densify` first"
    )


def check_members(members: Sequence[Any], strict_shape: bool) -> int:
    """The number of batch dims that all members have.

    Raises:
        TypeError: for a member that is not a container.
        BatchSizeError: for different numbers of batch dims, or with `strict_shape` different sizes.
        StructureError: for different devices.
    """
    for position, member in enumerate(members):
        if not isinstance(member, TensorCollection):
            raise ArgumentError(
                f"lazy stack: members are containers, got a {type(member).__name__} at position {position}; make it a "
                "TensorDict, or stack tensors with `torch.stack`"
            )
        require_alike(members[0], member, position, strict_shape)
    return len(members[0]._batch_size)


def require_alike(first: Any, member: Any, position: int, strict_shape: bool) -> None:
    """Refuse a member that can't be stacked with the first."""
    size, other = first._batch_size, member._batch_size
    if len(size) != len(other) or (strict_shape and size != other):
        rule = "the same batch size" if strict_shape else "as many batch dims"
        raise BatchSizeError(
            f"lazy stack: members have {rule}, got {list(size)} at position 0 and {list(other)} at position {position}"
        )
    if first._device != member._device:
        raise StructureError(
            f"lazy stack: members have one device, got {first._device} at position 0 and {member._device} at position "
            f"{position}; move them with `.to(device)` or free them with `clear_device_()`"
        )


def empty_template(
    batch_size: Sequence[int] | int | None, device: Device, names: Sequence[str | None] | None
) -> TensorDict:
    """The template that a stack without members has for its first member."""
    size = as_batch_size(batch_size)
    return TensorDict._of({}, size, as_device(device), check_names(names, len(size)), True)


_EMPTY = TensorDict()
