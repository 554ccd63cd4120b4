"""Dict-like writes of a container: set, pop, update, copy. All values are checked before the first is written."""

# Operations call each other through the class: pyright infers the mixin as their result, mypy infers Self.
# pyright: reportReturnType=false

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor
from typing_extensions import Self

from .._flags import flag, flags
from ..core import (
    STORAGE,
    Device,
    Key,
    KeysView,
    Path,
    Step,
    Subscript,
    TensorCollection,
    ViewScope,
    adopt_locks,
    as_batch_size,
    as_device,
    assign,
    batch_shape,
    check_names,
    is_key,
    is_typed,
    join_path,
    publish,
    sharing,
    store_of,
    unravel_key_to_tuple,
)
from ..errors import (
    ArgumentError,
    BatchSizeError,
    MissingKeyError,
    SchemaError,
    StructureError,
    UnsupportedOperationError,
)
from ._levels import by_level, in_some_member
from ._pairs import both, items_of, once, tensors_at, wanted_paths
from ._reading import UNSET as UNSET
from ._reading import BatchIndex as BatchIndex
from ._reading import IndexPart as IndexPart
from ._reading import ReadingOps, through_leaf, with_prefix
from ._reading import Unset as Unset
from ._steps import all_begin_with, clone_leaves


@flags
class MappingOps(ReadingOps):
    """The dict interface for top-level and nested keys."""

    __slots__ = ()

    def _set_index(self, index: Any, value: Any) -> None:
        raise NotImplementedError

    def _lay_out(self, entries: dict[str, Any]) -> Any:
        """An untyped container around valid entries, which it owns from now on."""
        return self._dense._from_entries(entries, self._batch_size, self._device, self._names)

    def _become(self, other: Self, lock: bool = False) -> Self:
        """Replace the entries and batch size by those of another container; the object stays the same.

        With `lock`, the other container is locked, and this one takes over its locks too.
        """
        if self._stacked:
            raise UnsupportedOperationError(
                "lazy stack: its members give it its shape, so it can't take over another one in place; use the form "
                "that gives a new container"
            )
        self._require_unlocked("replace the leaves")
        publish(self._become_steps(other, lock))
        return self

    def _become_steps(self, other: Any, lock: bool = False) -> list[Step]:
        """The steps of `_become`."""
        own = store_of(self)
        shape = assign(own, _batch_size=other._batch_size, _names=other._names, _device=other._device)
        return [*self._put_steps(other._entries()), *shape, *(adopt_locks(own, store_of(other)) if lock else [])]

    def __setitem__(self, index: Subscript | BatchIndex, value: Any) -> None:
        """Write an entry under a key, or the elements at an index in place.

        An index assignment broadcasts over batch dims, never over event dims, and writes all leaves or none. In a
        container without entries, zeroed buffers of its batch size are allocated for the entries of the value.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> buffer = TensorDict(batch_size=[2])
        >>> buffer[0] = TensorDict(a=torch.ones(3))
        >>> buffer["a"]
        tensor([[1., 1., 1.],
                [0., 0., 0.]])
        """
        kind = type(index)
        if kind is int or kind is slice:
            self._set_index(index, value)
        elif kind is str:
            self._set_path((index,), value)  # type: ignore[arg-type]  # by its type
        elif is_key(index):
            self._set_path(unravel_key_to_tuple(index), value)
        else:
            self._set_index(index, value)

    def _holder(self, path: Path, create: bool | None) -> Any:
        """The container that holds the last part of a path.

        For absent containers on the path, `create=True` creates them, False raises, and None returns None.
        """
        node: Any = self
        for depth, part in enumerate(path[:-1], 1):
            holder, node = node, node._outline().get(part)
            if isinstance(node, MappingOps):
                continue
            if create is None:
                return None
            if node is None and not create:
                self._walk(path[:depth])
            if node is not None:
                raise through_leaf(node, path, depth)
            holder._require_unlocked("add a key")
            node = holder._check(part, holder._bare(holder._batch_size))
            holder._put(part, node)
        return node

    def set(self, key: Key, item: Any, inplace: bool = False, *, non_blocking: bool = False, **kwargs: Any) -> Self:
        """Write an entry; missing nested containers are created.

        Args:
            key: the key to write.
            item: a tensor whose first dims are the batch dims, a container, mapping, number or Python object.
            inplace: copy into the existing tensor, if there is one.
            non_blocking: whether a copy to the container's device may be asynchronous.

        Raises:
            BatchSizeError: if the leading dims differ from the batch size.
            LockedError: if the container is locked and the write is not in place.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(batch_size=[2]).set(("a", "b"), torch.zeros(2))["a", "b"]
        tensor([0., 0.])
        """
        if type(key) is str and inplace is non_blocking is False and not kwargs:  # the steps of `_set_path`
            self._require_unlocked("write", key)
            self._put(key, self._check(key, item))
            return self
        if kwargs:
            raise ArgumentError(
                f"set() has no argument {sorted(kwargs)[0]!r:.200}; values are given as `set(key, value)`"
            )
        if not (inplace is non_blocking is False):
            flag(inplace=inplace, non_blocking=non_blocking)
        path = unravel_key_to_tuple(key)
        if inplace and type(key) is str and self._copied_alike({key: item}, False, non_blocking):
            return self
        if inplace and path in KeysView(self, ViewScope(nested=True)):
            return self._update_in_place({path: item}, non_blocking)
        self._set_path(path, item)
        return self

    def _set_path(self, path: Path, item: Any) -> None:
        if len(path) == 1:
            self._require_unlocked("write", path[0])
            self._put(path[0], self._check(path[0], item))
            return
        holder = self._holder(path, None)
        if holder is None:
            self._check_path(path, item)
            publish(self._grow_steps(path, item))
        else:
            holder._put(path[-1], _check_item(holder, path, item))
        return

    def _set_steps(self, path: Path, item: Any) -> list[Step]:
        """The steps that write an entry, see `publish`; missing containers on the path are made."""
        holder = self._holder(path, None)
        if holder is None:
            self._check_path(path, item)
            return self._grow_steps(path, item)
        return holder._put_steps({path[-1]: _check_item(holder, path, item)})  # type: ignore[no-any-return]  # of a container

    def _grow_steps(self, path: Path, item: Any) -> list[Step]:
        """The steps that write an entry whose containers don't all exist: new ones are filled first."""
        node: Any = self
        depth = 0
        while isinstance(child := node._outline().get(path[depth]), MappingOps):
            node, depth = child, depth + 1
        node = self._holder(path[: depth + 1], create=False)  # parameters return nested containers wrapped
        node._require_unlocked("add a key", join_path(path))
        if node._stacked:
            return node._run_on_stack("_grow_members", path[depth:], item)  # type: ignore[no-any-return]  # of the members
        new = holder = node._check(path[depth], node._bare(node._batch_size))
        for part in path[depth + 1 : -1]:
            child = holder._check(part, holder._bare(holder._batch_size))
            holder._put(part, child)
            holder = child
        holder._put(path[-1], holder._check(path[-1], item))
        return node._put_steps({path[depth]: node._check(path[depth], new)})  # type: ignore[no-any-return]  # as above

    def _check_path(self, path: Path, item: Any) -> None:
        """Check a nested write before any container is made for it."""
        node: MappingOps = self
        for depth, part in enumerate(path[:-1], 1):
            child = node._outline().get(part)
            if child is None and is_typed(node):
                node._require_made(path, depth)
                return
            if child is None:
                break
            if not isinstance(child, MappingOps):
                raise through_leaf(child, path, depth)
            node = child
        if node._batch_size == self._batch_size:
            node._check(path[-1], item)

    def _require_made(self, path: Path, depth: int) -> None:
        """Refuse a write into an absent nested instance that a single entry can't complete."""
        name = path[depth - 1]
        try:
            self._check(name, self._bare(self._batch_size))
        except SchemaError:
            raise MissingKeyError(
                f"`{join_path(path[:depth])}` of this {type(self).__name__} is None, so `{join_path(path)}` can't be "
                f"written by itself; set `{name}` to a whole instance first"
            ) from None
        except MissingKeyError as error:
            raise with_prefix(path[: depth - 1], error) from None

    def _copied_alike(self, source: Any, whole: bool, non_blocking: bool) -> bool:
        """Copy the leaves of a dict or a container of this class if all of them fit; else copy nothing, return False.

        With `whole`, both sides must have the same keys; otherwise the source may have fewer.
        """
        raise NotImplementedError

    def _update_in_place(self, values: Mapping[Any, Any], non_blocking: bool) -> Self:
        raise NotImplementedError  # implemented by `InplaceOps`

    def _copy_steps(self, values: Mapping[Any, Any], non_blocking: bool) -> list[Step]:
        """The steps of `_update_in_place`."""
        raise NotImplementedError

    def setdefault(self, key: Key, default: Any, inplace: bool = False) -> Any:
        """The value of a key; if it is absent, the default is written first.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(batch_size=[2]).setdefault("a", torch.zeros(2))
        tensor([0., 0.])
        """
        if key not in self:
            MappingOps.set(self, key, default, inplace=inplace)
        return self._read(unravel_key_to_tuple(key))

    def pop(self, key: Key, default: Any = UNSET) -> Any:
        """Remove an entry and return its value; `default` if it is absent.

        Raises:
            MissingKeyError: if it is absent and there is no default.

        >>> from tensorclass import TensorDict
        >>> data = TensorDict(a="scan", b="print")
        >>> data.pop("a"), data.pop("c", 3), list(data.keys())
        ('scan', 3, ['b'])
        """
        path = unravel_key_to_tuple(key)
        if default is not UNSET and key not in self:
            return default
        value = self._read(path)
        MappingOps.del_(self, path)
        return value

    def popitem(self) -> tuple[str, Any]:
        """Remove the last entry and return its key and value; see `pop`."""
        entries = self._entries()
        if not entries:
            raise MissingKeyError(f"popitem(): this {type(self).__name__} has no entries")
        key = next(reversed(entries))
        return key, MappingOps.pop(self, key)

    def del_(self, key: Key) -> Self:
        """Remove an entry.

        >>> from tensorclass import TensorDict
        >>> list(TensorDict(a=1, b=2).del_("a").keys())
        ['b']
        """
        publish(self._del_steps(unravel_key_to_tuple(key)))
        return self

    def _del_steps(self, path: Path) -> list[Step]:
        """The steps that remove an entry."""
        holder = self._holder(path, create=None)
        if holder is None or not (path[-1] in holder._outline() or in_some_member(holder, path[-1])):
            self._read(path)  # raises, and names the nearest key
        holder._require_unlocked("delete", join_path(path))  # pyright: ignore[reportOptionalMemberAccess]  # the holder exists
        return holder._drop_steps(path[-1])  # type: ignore[no-any-return]  # of a container

    def __delitem__(self, key: Key) -> None:
        """Remove an entry."""
        if not is_key(key):
            raise UnsupportedOperationError(f"del removes an entry by its key, got {key!r}; select elements by index")
        MappingOps.del_(self, key)

    def clear(self) -> Self:
        """Remove all entries; `pop` removes one."""
        self._require_unlocked("clear")
        self._swap_in({}, self._entries())
        return self

    def update(
        self,
        input_dict_or_td: Mapping[Any, Any] | TensorCollection | None = None,
        clone: bool = False,
        inplace: bool = False,
        *,
        non_blocking: bool = False,
        keys_to_update: Sequence[Key] | None = None,
        is_leaf: Callable[[type], bool] | None = None,
        update_batch_size: bool = False,
        ignore_lock: bool = False,
        **kwargs: Any,
    ) -> Self:
        """Write several entries, all or none; nested mappings are merged into nested containers.

        Args:
            input_dict_or_td: a mapping or container of new values; values may also be given by keyword.
            clone: write copies of the tensors.
            inplace: copy into existing tensors.
            non_blocking: whether copies may be asynchronous.
            keys_to_update: write only these keys.
            is_leaf: whether a container class replaces an entry instead of being merged.
            update_batch_size: set the batch size to that of the source.
            ignore_lock: write even if locked.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict(a=torch.zeros(2), batch_size=[2]).update(b=torch.ones(2))
        >>> sorted(data.keys())
        ['a', 'b']
        """
        source = both(input_dict_or_td, kwargs) if kwargs or input_dict_or_td is None else input_dict_or_td
        if not (clone is inplace is non_blocking is update_batch_size is ignore_lock is False):
            flag(clone=clone, inplace=inplace, non_blocking=non_blocking, ignore_lock=ignore_lock)
            flag(update_batch_size=update_batch_size)
        if source is self:
            return self
        simple = not (clone or ignore_lock or update_batch_size)
        if simple and keys_to_update is None and self._updated_tensors(source, inplace, non_blocking, is_leaf):
            return self
        if isinstance(source, TensorCollection):
            self._meet(source, "update")
        if update_batch_size and isinstance(source, TensorCollection):
            return self._replace_all(source, clone)
        given = tensors_at(source, keys_to_update) if simple and keys_to_update is not None else None
        if given is not None and self._updated_tensors(given, inplace, non_blocking, is_leaf):
            return self
        steps, in_place = self._update_plan(source, keys_to_update, clone, inplace, is_leaf, ignore_lock)
        if not in_place:
            publish(steps)
            return self
        with sharing():
            publish([*self._copy_steps(in_place, non_blocking), *steps])
        return self

    def _update_steps(self, source: Any) -> list[Step]:
        """The steps of `update`."""
        return self._update_plan(source, None, False, False, None, False)[0]

    def _update_plan(
        self, source: Any, keys: Sequence[Key] | None, clone: bool, inplace: bool, is_leaf: Any, ignore_lock: bool
    ) -> tuple[list[Step], dict[Path, Any]]:
        """The steps of an `update`, and the values to copy into existing tensors."""
        wanted = wanted_paths(keys, source)
        plan: list[tuple[MappingOps, dict[str, Any]]] = []
        in_place: dict[Path, Any] = {}
        self._plan_update(source, (), wanted, inplace, is_leaf, plan, in_place)
        if not ignore_lock:
            for holder, values in plan:
                if values:
                    holder._require_unlocked("write", next(iter(values)))
        steps: list[Step] = []
        for holder, values in plan:
            steps += holder._put_steps({key: _clone_entry(value) for key, value in values.items()} if clone else values)
        return steps, in_place

    def _updated_tensors(self, source: Any, inplace: bool, non_blocking: bool, is_leaf: Any) -> bool:
        """Write plain tensors under plain keys, at every level; False for the general path, which checks all."""
        if inplace:
            return self._copied_alike(source, False, non_blocking)
        dense: Any = self if type(self) is self._dense and type(source) is dict else None  # the shortest path
        if dense is not None and dense._device is dense._lock is None and all_begin_with(self._batch_size, source):
            self._put_all(source)
            return True
        plan: list[tuple[MappingOps, dict[str, Any]]] = []
        if not self._plan_tensors(source, plan, is_leaf is None):
            return False
        for holder, values in plan:
            if values:
                holder._require_unlocked("write", next(iter(values)))
        if len(plan) == 1:
            self._put_all(plan[0][1])
        else:
            publish([step for holder, values in plan if values for step in holder._put_steps(values)])
        return True

    def _plan_tensors(self, source: Any, plan: list[tuple[MappingOps, dict[str, Any]]], merges: bool) -> bool:
        """Plan an update by tensors, level by level; False if it has to be done entry by entry."""
        values, plain = source, type(source) is dict
        if not plain:
            if not isinstance(source, MappingOps) or source._stacked or not self._may_meet(source):
                return False
            values, plain = source._entries(), source._plain  # in this order, as in `_tensors_by_key`
            if type(values) is not dict:
                return False
        open_to_all = type(self) is self._dense and self._device is None  # stores tensors of its batch size unchecked
        if plain and open_to_all and all_begin_with(self._batch_size, values):
            plan.append((self, values))
            return True
        self._refuse_frozen("update", "")  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]  # all containers have it
        tensors: dict[str, Any] = {}
        for key, value in values.items():
            if type(key) is not str:
                return False
            if type(value) is Tensor or isinstance(value, Tensor):
                tensors[key] = value
            elif not (merges and self._merges_tensors(key, value, plan)):
                return False
        taken = open_to_all and all_begin_with(self._batch_size, tensors)
        plan.append((self, tensors if taken else self._check_all(tensors)))
        return True

    def _merges_tensors(self, key: str, value: Any, plan: list[tuple[MappingOps, dict[str, Any]]]) -> bool:
        """Whether the values of a nested mapping are planned; if one does not fit, the general path says why."""
        mine = None if self._stacked else self._outline().get(key)
        if not isinstance(mine, MappingOps):
            return False
        try:
            return mine._plan_tensors(value, plan, True)
        except (SchemaError, BatchSizeError, StructureError, MissingKeyError):
            return False

    def _plan_update(
        self,
        source: Any,
        prefix: Path,
        wanted: list[Path] | None,
        inplace: bool,
        is_leaf: Any,
        plan: list[tuple[MappingOps, dict[str, Any]]],
        in_place: dict[Path, Any],
    ) -> None:
        values: dict[str, Any] = {}
        own = self._outline()
        for key, value in by_level(once(source), prefix, wanted):
            mine = own.get(key)
            whole = is_leaf is not None and is_leaf(type(value))
            if isinstance(mine, MappingOps) and isinstance(value, (Mapping, TensorCollection)) and not whole:
                mine._plan_update(value, (*prefix, key), wanted, inplace, is_leaf, plan, in_place)
            elif inplace and _has_memory(mine):
                in_place[prefix + (key,)] = value  # noqa: RUF005  # a starred index needs Python 3.11
            else:
                values[key] = value
        try:
            plan.append((self, self._check_all(values)))
        except (SchemaError, BatchSizeError, StructureError, MissingKeyError) as error:
            raise with_prefix(prefix, error) from None

    def _replace_all(self, source: TensorCollection, clone: bool) -> Self:
        if self._stacked:
            return self._run_on_stack("_replace_all", source, clone)  # type: ignore[no-any-return]  # a stack of this class
        self._require_unlocked("update")
        size, frame = source._batch_size, self._twin()
        keeps = not self._entries().keys() <= source._entries().keys()
        if keeps:
            self._check_size(size, ())
        publish(frame._size_steps(size) if keeps else store_of(frame)._own_size_steps(size))
        values = frame._check_all(dict(items_of(source)))
        new = {key: _clone_entry(value) for key, value in values.items()} if clone else values
        publish([*(self._size_steps(size) if keeps else store_of(self)._own_size_steps(size)), *self._put_steps(new)])
        return self

    def replace(self, *args: Any, **kwargs: Any) -> Self:
        """Make a shallow copy with some entries replaced.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(2), batch_size=[2]).replace(a=torch.ones(2))["a"]
        tensor([1., 1.])
        """
        return MappingOps.update(self._twin(), *args, **kwargs)

    # ---- copies --------------------------------------------------------------------------------------------------

    def clone(self, recurse: bool = True, **kwargs: Any) -> Self:
        """A new container around copies of the tensors; with `recurse=False`, around the same tensors.

        Args:
            recurse: copy the tensors too.
            **kwargs: `memory_format`, as for `Tensor.clone`.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict(a=torch.zeros(2), batch_size=[2])
        >>> data.clone()["a"] is data["a"], data.clone(recurse=False)["a"] is data["a"]
        (False, True)
        """
        if recurse is not True and flag(recurse=recurse) and not recurse:
            return self._twin()
        if self._layered and not self._stacked:
            return self._wrap(MappingOps.clone(self._store, **kwargs))  # type: ignore[attr-defined,no-any-return]  # pyright: ignore[reportAttributeAccessIssue]  # a class over a store
        if self._plain and not kwargs and len(self._live()) < 4:  # one foreach call takes longer
            return self._each(lambda leaf: leaf.clone(), self._batch_size, self._names, STORAGE)
        leaves: list[Tensor] = []
        new = self._open(leaves, STORAGE)
        return new._refill(clone_leaves(leaves, kwargs), self._batch_size, self._names, STORAGE)

    def copy(self) -> Self:
        """A new container around the same tensors.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict(a=torch.zeros(3), batch_size=[3])
        >>> data.copy() is data, data.copy()["a"] is data["a"]
        (False, True)
        """
        return self._twin()

    __copy__ = copy

    def empty(
        self, recurse: bool = False, *, batch_size: Any = None, device: Device = UNSET, names: Any = UNSET
    ) -> Any:
        """A container with the same batch size and device without entries; `new_zeros` keeps entries.

        Args:
            recurse: keep nested containers, emptied.
            batch_size: another batch size.
            device: another device.
            names: other dim names.
        """
        if recurse is not False:
            flag(recurse=recurse)
        if self._stacked:
            return self._run_untyped("empty", recurse, batch_size=batch_size, device=device, names=names)
        size = self._batch_size if batch_size is None else as_batch_size(batch_size)
        if names is not UNSET:
            result: Any = self._bare(size, check_names(names, len(size)))
        elif batch_size is None:
            result = self._lay_out({})
        else:
            result = self._bare(size, self._names if size == self._batch_size else None)
        if device is not UNSET:
            result._device = as_device(device)
        if recurse:
            for key, value in self._entries().items():
                if isinstance(value, MappingOps):
                    result._put(key, MappingOps.empty(value, recurse=True))
        return result

    def create_nested(self, key: Key) -> Self:
        """Create an empty nested container under a key.

        >>> from tensorclass import TensorDict
        >>> TensorDict(batch_size=[3]).create_nested(("a", "b"))["a", "b"].batch_size
        torch.Size([3])
        """
        return MappingOps.set(self, key, self._bare(self._batch_size, self._names))


def _check_item(holder: Any, path: Path, item: Any) -> Any:
    """A value for the last key of a path, checked by its container."""
    if holder._layered or holder._stacked or holder._owners() is not None:  # the message is only made if needed
        holder._require_unlocked("write", join_path(path))
    try:
        return holder._check(path[-1], item)
    except (SchemaError, BatchSizeError, StructureError, MissingKeyError) as error:
        raise with_prefix(path[:-1], error) from None


def _has_memory(entry: Any) -> bool:
    """Whether an entry can be written in place: a tensor, also one that the batch shares, or one object per element."""
    return batch_shape(entry) is not None or isinstance(getattr(entry, "tensor", entry), Tensor)


def _clone_entry(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.clone()
    return MappingOps.clone(value) if isinstance(value, MappingOps) else value
