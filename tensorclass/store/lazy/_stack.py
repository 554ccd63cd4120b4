"""LazyStackedTensorDict: a stack that keeps its members and stacks an entry only when it is read."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import Tensor
from typing_extensions import Self

from ..._flags import flags
from ...core import (
    STORAGE,
    Device,
    Key,
    KeysView,
    LeafTest,
    Marked,
    Names,
    Step,
    TensorCollection,
    assign,
    batch_dim,
    dump_value,
    join_path,
    publish,
    restore_value,
    store_of,
    trust_for_loading,
    unravel_key_to_tuple,
)
from ...errors import ArgumentError, BatchSizeError, StructureError, UnsupportedOperationError
from ...ops import UNSET, Join
from ...ops._join import JoinOps
from ...ops._keys import KeyOps
from ...ops._mapping import MappingOps
from ...ops._operands import Pointwise, arrange_leaves
from ...ops._undo import FLATTENED_KEYS, UNFLATTENED_KEYS
from .._dict import TensorDict
from . import _entries as entries
from ._base import Hook, check_members, empty_template, fixed_size, require_alike
from ._shape import LazyShapes
from ._tensors import as_nested, make_dense


@flags
@trust_for_loading
class LazyStackedTensorDict(LazyShapes):
    """A stack that keeps its containers unchanged, and stacks an entry when it is read.

    Members may have different keys, event shapes and batch sizes: `keys()` are those that all members have, and -1
    marks a size in which members differ. Writes to the stack are split and written to the members.

    Args:
        *tensordicts: the members, each with the same number of batch dims and the same device.
        stack_dim: the position of the stack dim among the batch dims of the stack.
        hook_out: called with each value that is read, by key or view, also in nested stacks; returns the value for the
            reader.
        hook_in: called with each value that is written; returns the value to split.
        batch_size: without members, the batch size of later members; else the expected batch size of the stack.
        device: without members, the device of later members.
        names: without members, the dim names of later members; else those of the stack.
        stack_dim_name: the name of the stack dim.
        strict_shape: refuse members of different batch sizes.

    Raises:
        TypeError: for a member that is not a container.
        BatchSizeError: for members with different numbers of batch dims.
        StructureError: for members on different devices.

    >>> import torch
    >>> from tensorclass import LazyStackedTensorDict, TensorDict
    >>> stack = LazyStackedTensorDict(TensorDict(a=torch.zeros(3)), TensorDict(a=torch.ones(4)))
    >>> stack.batch_size, stack[1]["a"].shape
    (torch.Size([2]), torch.Size([4]))
    >>> stack.get("a", as_padded_tensor=True)
    tensor([[0., 0., 0., 0.],
            [1., 1., 1., 1.]])
    """

    __slots__ = ()

    def __init__(
        self,
        *tensordicts: Any,
        stack_dim: int = 0,
        hook_out: Hook = None,
        hook_in: Hook = None,
        batch_size: Sequence[int] | None = None,
        device: Device = None,
        names: Sequence[str | None] | None = None,
        stack_dim_name: str | None = None,
        strict_shape: bool = False,
    ) -> None:
        inner = None if tensordicts else names
        self._template = empty_template(None if tensordicts else batch_size, None if tensordicts else device, inner)
        self._members = list(tensordicts)
        ndim = check_members(tensordicts, strict_shape) if tensordicts else len(self._template._batch_size)
        self.stack_dim: int = batch_dim(stack_dim, ndim, op="lazy stack", extra=1)
        self._dim_name = stack_dim_name
        self._joiner = TensorDict
        self._lock = None
        self.hook_in: Hook = hook_in
        self.hook_out: Hook = hook_out
        if tensordicts and batch_size is not None and torch.Size(batch_size) != self._batch_size:
            raise fixed_size(batch_size, self._batch_size)
        if tensordicts and names is not None:
            self.names = names

    # ---- as a list -----------------------------------------------------------------------------------------------

    def append(self, tensordict: Any) -> None:
        """Append a member, unchanged; the first member gets the dim names of the empty stack.

        Raises:
            TypeError: for anything but a container.
            BatchSizeError: for a batch size that differs from that of the other members, unless these differ already.
            StructureError: for another device.
            LockedError: if the stack is locked.

        >>> import torch
        >>> from tensorclass import LazyStackedTensorDict, TensorDict
        >>> stack = LazyStackedTensorDict(TensorDict(a=torch.zeros(3)))
        >>> stack.append(TensorDict(a=torch.ones(3)))
        >>> stack["a"].shape
        torch.Size([2, 3])
        """
        LazyStackedTensorDict.insert(self, len(self._members), tensordict)

    def insert(self, index: int, tensordict: Any) -> None:
        """Insert a member before a position, like `list.insert`; errors as for `append`."""
        TensorCollection._require_unlocked(self, "insert a member")
        self._require_member(tensordict)
        publish([*self._first_names([tensordict]), partial(self._members.insert, index, tensordict)])

    def extend(self, tensordict: Iterable[Any] | TensorCollection) -> None:
        """Append several members, all or none; a container is unbound along the stack dim."""
        TensorCollection._require_unlocked(self, "add members")
        given = JoinOps.unbind(tensordict, self.stack_dim) if isinstance(tensordict, JoinOps) else list(tensordict)  # type: ignore[arg-type]  # no container
        for member in given:
            self._require_member(member)
        publish([*self._first_names(given), partial(self._members.extend, given)])

    def _first_names(self, members: Iterable[Any]) -> list[Step]:
        """The steps that give the first members the dim names of the empty stack."""
        names = None if self._members else self._template._names
        return [step for member in members if names for step in assign(member, _names=member._names or names)]

    def _require_member(self, member: Any) -> None:
        """Refuse a member of another size or device."""
        if not isinstance(member, TensorCollection):
            raise ArgumentError(f"lazy stack: a member is a container, got a {type(member).__name__}: {member!r:.60}")
        first = self._members[0] if self._members else self._template
        if member._batch_size == first._batch_size and member._device == first._device:
            return
        require_alike(first, member, len(self._members), False)
        due = self._inner_size(self._batch_size)
        if any([n not in (-1, m) for n, m in zip(due, member._batch_size, strict=True)]):
            raise BatchSizeError(
                f"lazy stack: the members have batch size {list(due)}, got one of {list(member._batch_size)}; a size "
                "may differ where the members differ already, else make a new stack with `lazy_stack`"
            )

    # ---- reading -------------------------------------------------------------------------------------------------

    def _each_value(self, path: tuple[str, ...], deep: bool) -> list[Any]:
        """The entry of each member; for a member that is a lazy stack, the list for its members."""
        values: list[Any] = []
        for member in self._members:
            store = store_of(member)
            inner = deep and isinstance(store, LazyStackedTensorDict)
            values.append(store._each_value(path, True) if inner else member._read(path))
        return values

    def get_nestedtensor(self, key: Key, default: Any = ..., *, layout: Any = None) -> Any:
        """An entry as a nested tensor, by default with the layout `torch.strided`.

        Args:
            key: the entry.
            default: a tensor replaces the entry for members that lack it; any other value is returned instead.
            layout: `torch.strided` or `torch.jagged`.

        Raises:
            UnsupportedOperationError: if the stack dim is not the first, since tensors nest only along their first dim.

        >>> import torch
        >>> from tensorclass import TensorDict, lazy_stack
        >>> stack = lazy_stack([TensorDict(a=torch.zeros(1)), TensorDict(a=torch.ones(2))])
        >>> [part.shape[0] for part in stack.get_nestedtensor("a").unbind()]
        [1, 2]
        """
        if self.stack_dim:
            raise UnsupportedOperationError(
                f"get_nestedtensor: tensors nest along the first dim, and this stack dim is {self.stack_dim}; use "
                "`get(key, as_nested_tensor=True)`, which puts it first"
            )
        path = unravel_key_to_tuple(key)
        values = []
        for member in self._members:
            if default is not ... and path not in member:
                if not isinstance(default, Tensor):
                    return default
                values.append(default)
            else:
                values.append(member._read(path))
        return as_nested(values, torch.strided if layout is None else layout, join_path(path))

    def get_item_shape(self, key: Key) -> torch.Size:
        """The shape of an entry, with -1 where members differ; nothing is stacked.

        >>> import torch
        >>> from tensorclass import TensorDict, lazy_stack
        >>> lazy_stack([TensorDict(a=torch.zeros(3)), TensorDict(a=torch.zeros(4))]).get_item_shape("a")
        torch.Size([2, -1])
        """
        path = unravel_key_to_tuple(key)
        holder = self._read(path[:-1]) if path[1:] else self
        store = store_of(holder)
        shape = entries.shape_of(store, path[-1]) if store._stacked and path[-1] in store._outline() else None
        return MappingOps.get_item_shape(self, key) if shape is None else shape

    def entry_class(self, key: Key) -> type:
        """The class of an entry; nothing is stacked."""
        first, _ = self._first(unravel_key_to_tuple(key))
        return type(first) if isinstance(first, Tensor) else super().entry_class(key)

    def valid_keys(
        self, include_nested: bool = False, leaves_only: bool = False, is_leaf: LeafTest = None
    ) -> KeysView[Any]:
        """The keys that every member has; the same as `keys`."""
        return MappingOps.keys(self, include_nested, leaves_only, is_leaf)

    def densify(self, layout: Any = torch.strided) -> Any:
        """Make the stack dense: entries become tensors if they stack, else nested tensors along the stack dim."""
        return make_dense(self, layout)

    def to_lazystack(self, dim: int = 0) -> Any:
        """A lazy stack along a dim; this stack if it is already along that dim."""
        at = self._dim(dim, "to_lazystack")
        return self if at == self.stack_dim else self._new(JoinOps.unbind(self, at), at)

    # ---- keys ----------------------------------------------------------------------------------------------------

    def _members_by(self, fn: Callable[[Any], Any], inplace: bool) -> Any:
        """Rearrange the keys of every member. All are tried first, so that no member changes if one refuses."""
        members = [fn(member) for member in self._members]
        if not inplace:
            return self._with_members(members)
        self._adopt_members(members)
        return self

    def select(self, *keys: Key, inplace: bool = False, strict: bool = True, as_tensordict: bool = False) -> Any:
        """Select entries of every member; stays lazy. With `strict=False`, absent keys are skipped."""
        return self._members_by(lambda m: KeyOps.select(m, *keys, strict=strict), inplace)

    def exclude(self, *keys: Key, inplace: bool = False) -> Any:
        """Exclude entries of every member; stays lazy."""
        return self._members_by(lambda m: KeyOps.exclude(m, *keys), inplace)

    @FLATTENED_KEYS
    def flatten_keys(self, separator: str = ".", inplace: bool = False, is_leaf: LeafTest = None) -> Any:
        """Flatten the keys of every member; stays lazy."""
        return self._members_by(lambda m: KeyOps.flatten_keys(m, separator, is_leaf=is_leaf), inplace)

    @UNFLATTENED_KEYS
    def unflatten_keys(self, separator: str = ".", inplace: bool = False) -> Any:
        """Nest the flat keys of every member; stays lazy."""
        return self._members_by(lambda m: KeyOps.unflatten_keys(m, separator), inplace)

    def split_keys(
        self,
        *key_sets: Sequence[Key],
        inplace: bool = False,
        default: Any = UNSET,
        strict: bool = True,
        reproduce_struct: bool = False,
    ) -> tuple[Any, ...]:
        """Partition the entries of every member; arguments as for any container. The parts stay lazy."""
        rows = [
            KeyOps.split_keys(m, *key_sets, default=default, strict=strict, reproduce_struct=reproduce_struct)
            for m in self._members
        ]
        parts = [self._with_members(column) for column in zip(*rows, strict=True)]
        if inplace:
            self._adopt_members(parts[-1]._members)
        return (*parts[:-1], self) if inplace else tuple(parts)

    def separates(self, *keys: Key, default: Any = UNSET, strict: bool = True, filter_empty: bool = True) -> Any:
        """Remove entries from every member, in place, and return them as another lazy stack."""
        twins = [member._twin() for member in self._members]
        taken = [KeyOps.separates(m, *keys, default=default, strict=strict, filter_empty=filter_empty) for m in twins]
        self._adopt_members(twins)
        return self._with_members(taken)

    def clear(self) -> Self:
        """Remove all entries, also those that not every member has."""
        return self.select(inplace=True)  # type: ignore[no-any-return]  # the stack itself

    def _adopt_members(self, members: Sequence[Any]) -> None:
        publish(self._adopting_steps(members))

    def _adopting_steps(self, members: Sequence[Any]) -> list[Step]:
        """The steps that give each member the entries of another container; members of members stay in place too."""
        self._require_unlocked("change the keys")
        steps: list[Step] = []
        for member, new in zip(self._members, members, strict=True):
            member._require_unlocked("change the keys")
            own, other = store_of(member), store_of(new)
            if own._stacked and other._stacked:
                steps += own._adopting_steps(other._members)
            else:
                steps += member._swap_steps(new._entries())
        return steps

    def rename_keys(self, mapping: Mapping[Key, Key], *, strict: bool = True) -> Any:
        """Rename keys of every member; stays lazy."""
        return self._members_by(lambda m: KeyOps.rename_keys(m, mapping, strict=strict), False)

    def rename_key_(self, old_key: Key, new_key: Key, safe: bool = False) -> Self:
        """Move an entry of every member to another key, in place."""
        self._adopt_members([KeyOps.rename_key_(m._twin(), old_key, new_key, safe) for m in self._members])
        return self

    def filter_non_tensor_data(self) -> Any:
        """Keep only the tensors of every member; stays lazy."""
        return self._members_by(KeyOps.filter_non_tensor_data, False)

    # ---- operands ------------------------------------------------------------------------------------------------

    def _arrange_members(self, other: Any) -> Any:
        """Another container as a lazy stack like this one; its elements are views."""
        store = store_of(other)
        count, dim = len(self._members), self.stack_dim
        if store._stacked and (store.stack_dim, len(store._members)) == (dim, count):
            return self._new([arrange_leaves(m, o) for m, o in zip(self._members, store._members, strict=True)], dim)
        cut = self._spread_source(other, self._batch_size, dim, ())
        return self._new([arrange_leaves(m, o) for m, o in zip(self._members, cut, strict=True)], dim)

    def _cut_alike(self, other: Any) -> Any:
        """Another container as a lazy stack along the same dim, of its class; its elements are views."""
        store, size, dim = store_of(other), other._batch_size, self.stack_dim
        if len(size) <= dim:
            return other
        template = store._bare(torch.Size((*size[:dim], *size[dim + 1 :])))
        new = self._new(JoinOps.unbind(store, dim), dim, self._dim_name, template)
        return other._wrap(new) if other._layered else new

    def _broadcast_members(self, value: Tensor) -> list[Tensor | None]:
        """Unbind a value along the stack dim, and broadcast each part over its member."""
        count, dim = len(self._members), self.stack_dim
        wide = value.reshape((1,) * (len(self._batch_size) - value.ndim) + value.shape)
        cut = wide.unbind(dim) if wide.shape[dim] == count else [wide.select(dim, 0)] * count
        return [found for member, part in zip(self._members, cut, strict=True) for found in member._broadcast(part)]

    # ---- joining -------------------------------------------------------------------------------------------------

    @classmethod
    def _join(cls, items: Sequence[Any], dim: int, size: torch.Size, names: Names, how: Join) -> Any:
        """Join lazy stacks along one dim member by member; others become members of a new stack."""
        first = items[0]
        at, count = first.stack_dim, len(first._members)
        alike = all([item.stack_dim == at for item in items])
        if not how.new_dim and alike and dim == at:
            return first._with_members([MappingOps.clone(member) for item in items for member in item._members])
        if alike and all([len(item._members) == count for item in items]):
            inner = dim - (dim > at)
            rows = zip(*[item._members for item in items], strict=True)
            if not count:
                template = first._join_row([item._template for item in items], inner, how.new_dim)
                return first._new([], at + (how.new_dim and dim <= at), first._dim_name, template)
            try:
                joined = [first._join_row(row, inner, how.new_dim) for row in rows]
                return first._new(joined, at + (how.new_dim and dim <= at), first._dim_name)
            except (StructureError, BatchSizeError):
                if not how.new_dim:
                    raise
        if how.new_dim:
            return first._new([MappingOps.clone(item) for item in items], dim)
        try:
            return JoinOps.cat([item._solid() for item in items], dim)
        except (StructureError, BatchSizeError):
            return first._new([MappingOps.clone(part) for item in items for part in JoinOps.unbind(item, dim)], dim)

    def _join_row(self, row: Sequence[Any], dim: int, new_dim: bool) -> Any:
        """Join members, by the policies of the typed class around the stack, if there is one."""
        join = JoinOps.stack if new_dim else JoinOps.cat
        cls: Any = self._joiner
        if not cls._layered:
            return join(row, dim)
        typed: Any = join([cls._wrap(member) for member in row], dim)
        return typed._store


# ---- pytree ----------------------------------------------------------------------------------------------------------


_VMAP = "_process_batched_inputs"
"""The function of torch that flattens the inputs of `vmap`."""


def _is_for_vmap() -> bool:
    """Whether `torch.vmap` flattens its inputs and maps their leaves over one dim."""
    if torch.compiler.is_compiling():
        return False
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_globals.get("__name__") in (pytree.__name__, "tensorclass.core._pytree"):
        frame = frame.f_back
    return frame.f_code.co_name == _VMAP


def _flatten(stack: LazyStackedTensorDict) -> tuple[list[Any], Any]:
    # Stacked entries have the stack dim, those of members don't. vmap makes a stack without tensors from a spec.
    if _is_for_vmap() and any([member._leaves(STORAGE) for member in stack._members]):
        try:
            dense = stack._solid()
        except (StructureError, BatchSizeError):  # members that differ can be passed through, unmapped
            return list(stack._members), _context(stack)
        children, context = pytree.SUPPORTED_NODES[TensorDict].flatten_fn(dense)
        return children, _Stacked(stack, dense._leaves(STORAGE), context)
    return list(stack._members), _context(stack)


class _Stacked:
    """The context of a stack whose entries `vmap` got; if it doesn't map over them, they become the stack again."""

    def __init__(self, stack: LazyStackedTensorDict, leaves: list[Tensor], inner: Any) -> None:
        self.stack, self.leaves, self.inner = stack, leaves, inner

    def put_together(self, children: Iterable[Any]) -> Any:
        dense: Any = pytree.SUPPORTED_NODES[TensorDict].unflatten_fn(children, self.inner)
        if isinstance(dense, Marked):
            return dense
        leaves = dense._leaves(STORAGE)
        unmapped = len(leaves) == len(self.leaves) and all([a is b for a, b in zip(leaves, self.leaves, strict=True)])
        return self.stack if unmapped else dense


def _context(stack: LazyStackedTensorDict) -> tuple[Any, ...]:
    return type(stack), stack.stack_dim, stack.ndim - 1, stack._dim_name, _is_inside_vmap(stack)


def _is_inside_vmap(stack: LazyStackedTensorDict) -> bool:
    """Whether functorch already maps over the leaves."""
    if torch._C._functorch.peek_interpreter_stack() is None:  # pyright: ignore[reportAttributeAccessIssue]  # missing in torch's stubs
        return False
    is_batched = torch._C._functorch.is_batchedtensor  # pyright: ignore[reportAttributeAccessIssue]  # as above
    return any([is_batched(leaf) for leaf in stack._leaves(STORAGE)])


def _unflatten(children: Iterable[Any], context: Any) -> Any:
    """A lazy stack around its children in a pytree; vmap may have moved its dim."""
    if isinstance(context, _Stacked):
        return context.put_together(children)
    cls, dim, ndim, name, was_mapped = context
    members = list(children)
    if members and isinstance(members[0], Marked):
        return Marked(members, context)
    if members and isinstance(members[0], TensorCollection):  # vmap adds and removes leading dims
        dim = max(0, dim + members[0].ndim - ndim)
    new = cls._of(members, dim, name)
    if not was_mapped and all([isinstance(m, Pointwise) for m in new._members]) and _is_inside_vmap(new):
        raise UnsupportedOperationError(
            "vmap: a lazy stack would be mapped over the first dim of each member, not over its own; give vmap "
            "`stack.densify()`"
        )
    return new


pytree.register_pytree_node(
    LazyStackedTensorDict,
    _flatten,
    _unflatten,
    flatten_with_keys_fn=lambda stack: (
        [(pytree.SequenceKey(i), m) for i, m in enumerate(stack._members)],
        _flatten(stack)[1],
    ),  # pyright: ignore[reportArgumentType]  # our own context
    serialized_type_name="tensorclass.LazyStackedTensorDict",
    to_dumpable_context=lambda context: dump_value(context[1:], "a lazy stack"),  # pyright: ignore[reportIndexIssue]  # as above
    from_dumpable_context=lambda saved: (LazyStackedTensorDict, *restore_value(saved)),
)
