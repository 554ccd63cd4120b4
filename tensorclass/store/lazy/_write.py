"""Writes to a lazy stack: a value is split into one per member, all are checked, then each member is written."""

# Operations call each other past the instance: pyright takes what they return for the mixin, mypy for Self as it is.
# pyright: reportReturnType=false, reportIncompatibleMethodOverride=false

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import setitem
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling
from typing_extensions import Self

from ..._flags import flags
from ...core import (
    BATCHED,
    Path,
    Step,
    TensorCollection,
    batch_shape,
    call_each,
    each_row,
    join_path,
    publish,
    sharing,
    store_of,
    unravel_key_to_tuple,
)
from ...errors import BatchSizeError, KeyThroughLeafError
from ...ops._inplace import InplaceOps
from ...ops._join import JoinOps
from ...ops._lengths import Ragged, has_lengths
from ...ops._mapping import MappingOps
from ...ops._pairs import require_same_keys
from ...ops._steps import AtMember, Copy, carry_out, surely_writable
from ...ops._writable import as_source, require_writable, takes
from .._dict import TensorDict
from .._fitting import mismatch
from ..entries._nodes import Node, NonTensorStack
from ..entries._unbatched import Unbatched, UnbatchedTensor
from . import _entries as entries
from ._base import LazyBase, fixed_size


class Shares(list[Any]):
    """A checked value, split into one per member."""


@flags
class LazyWrites(LazyBase):
    """`set`, `update`, in-place writes and related methods, applied to the members."""

    __slots__ = ()

    # ---- structural writes ---------------------------------------------------------------------------------------

    def _check(self, key: str, value: Any) -> Shares:
        if isinstance(value, Shares):
            return value
        value = value if self.hook_in is None else self.hook_in(value)
        plain, members = type(value) is Tensor and not value.is_nested, self._members
        shares = self._cut_tensor(key, value) if plain else self._cut_value(key, value)
        if plain and False not in [type(member) is TensorDict and member._device is None for member in members]:
            return Shares(shares)  # already split by members
        return Shares([member._check(key, share) for member, share in zip(members, shares, strict=True)])

    def _check_members(
        self, values: Mapping[str, Any], check: Callable[[Any, dict[str, Any]], dict[str, Any]]
    ) -> dict[str, Any]:
        """The values that each member would store, from the check of a typed class, which sees all values together."""
        cut = {key: self._cut_value(key, value) for key, value in values.items() if value is not None}
        none = dict.fromkeys(key for key, value in values.items() if value is None)
        rows = [
            check(member, {**none, **{key: shares[i] for key, shares in cut.items()}})
            for i, member in enumerate(self._members)
        ]
        return {key: None if key in none else Shares([row[key] for row in rows]) for key in values}

    def _put(self, key: str, value: Any) -> None:
        shares = value if isinstance(value, Shares) else self._check(key, value)
        tables = [m._data for m in self._members if type(m) is TensorDict and m._lock is None]
        plain = len(tables) == len(self._members) and False not in [type(share) is Tensor for share in shares]
        if not plain or is_dynamo_compiling():
            publish(self._put_steps({key: shares}))
            return
        old = [table.get(key) for table in tables]  # kept alive until all are written, see `keep`
        call_each(setitem, tables, [key] * len(tables), shares)
        del old

    def _put_steps(self, values: dict[str, Any]) -> list[Step]:
        checked = {k: v if isinstance(v, Shares) else self._check(k, v) for k, v in values.items()}
        steps: list[Step] = []
        for i, member in enumerate(self._members):
            steps += member._put_steps({key: shares[i] for key, shares in checked.items()})
        return steps

    def _cut_value(self, key: str, value: Any) -> Sequence[Any]:
        """One value per member: tensors and containers are unbound, lists are split, objects are shared."""
        if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
            value = torch.as_tensor(value)
        if type(value) is UnbatchedTensor:
            value = Unbatched(value)
        if isinstance(value, Tensor):
            return self._cut_tensor(key, value)
        if isinstance(value, TensorCollection):
            return self._cut_container(key, value)
        if isinstance(value, Node):
            return self._cut_node(key, value)
        if isinstance(value, Mapping):
            cut = {name: self._cut_value(f"{key}.{name}", part) for name, part in value.items()}
            return [{name: shares[i] for name, shares in cut.items()} for i in range(len(self._members))]
        if isinstance(value, (list, tuple)):
            return self._cut_list(key, list(value), self.stack_dim)
        if isinstance(value, (bool, int, float, complex, np.generic)):
            raise mismatch(key, (), self._batch_size)
        return [value] * len(self._members)

    def _cut_tensor(self, key: str, value: Tensor) -> Sequence[Tensor]:
        size, dim = self._batch_size, self.stack_dim
        if value.is_nested:
            if dim or value.size(0) != len(self._members):
                raise mismatch(key, (value.size(0), -1), size)
            return value.unbind(0)
        if value.shape[: len(size)] != size:
            raise self._misfit(key, value.shape)
        return value.unbind(dim)

    def _misfit(self, key: str, shape: Sequence[int]) -> BatchSizeError:
        error = mismatch(key, shape, self._batch_size)
        if -1 in self._batch_size:
            return BatchSizeError(f"{error}. The members differ in size: give a list with one value for each member")
        return error

    def _cut_container(self, key: str, value: Any) -> Sequence[Any]:
        size = self._batch_size
        if value._batch_size[: len(size)] != size:
            raise self._misfit(key, value._batch_size)
        if not value._live() and not value._stacked:
            return [value._bare(member._batch_size, member._names) for member in self._members]
        shares: Sequence[Any] = JoinOps.unbind(value, self.stack_dim)
        return shares

    def _cut_node(self, key: str, value: Node) -> Sequence[Any]:
        """One entry node for each member."""
        shape, dim = batch_shape(value), self.stack_dim
        if isinstance(value, Unbatched):  # copies, since in-place operations would write one tensor several times
            return [value, *[Unbatched(value.tensor.clone()) for _ in self._members[1:]]]
        if shape is None:
            return [value] * len(self._members)
        size = self._batch_size
        if shape[: len(size)] != size:
            raise self._misfit(key, shape)
        rows: Any = value
        lead = [slice(None)] * dim
        spots = [(*lead, i) for i in range(len(self._members))]
        pieces = [rows[spot] for spot in spots]
        if isinstance(value, NonTensorStack) and len(shape) == 1:  # each member has one object
            return [piece.item() if isinstance(piece, NonTensorStack) else piece for piece in pieces]
        return pieces

    def _cut_list(self, key: str, value: list[Any], dim: int) -> list[Any]:
        """A list as from `tolist`: the outer level is the first batch dim."""
        size = self._batch_size
        due = size[self.stack_dim - dim]
        if due not in (-1, len(value)):
            raise BatchSizeError(
                f"field `{key}`: a list has one value for each element of batch dim {self.stack_dim - dim}, which has "
                f"size {due}; got {len(value)} values"
            )
        if dim == 0:
            return value
        rows = []
        for row in value:
            if not isinstance(row, (list, tuple)):
                raise BatchSizeError(
                    f"field `{key}`: a list for batch size {list(size)} holds lists down to the stack dim "
                    f"{self.stack_dim}, got a {type(row).__name__} in it"
                )
            rows.append(self._cut_list(key, list(row), dim - 1))
        return [list(column) for column in zip(*rows, strict=True)]

    def _holder(self, path: Path, create: bool | None) -> Any:
        """The container that holds the last part of a path; missing containers are created in the members."""
        if len(path) == 1 or create is None:
            return super()._holder(path, create)
        key = path[0]
        self._require_containers(path)
        if create:
            for member in self._members:
                if key not in member._outline():
                    member._require_unlocked("add a key")
                    member._put(key, member._check(key, member._bare(member._batch_size)))
        return self._restack(entries.values_of(self, key), self.stack_dim)._holder(path[1:], create)

    def _require_containers(self, path: Path) -> None:
        """Refuse a path through an entry that is not a container in some member."""
        key = path[0]
        for position, member in enumerate(self._members):
            child = member._outline().get(key)
            if child is not None and not isinstance(child, MappingOps):
                raise KeyThroughLeafError(
                    f"`{key}` is a {type(child).__name__} in the member at position {position}, not a container, so it "
                    f"can't hold `{join_path(path[1:])}`"
                )

    def _grow_members(self, path: Path, item: Any) -> list[Step]:
        """The steps that write an entry below containers that some members lack."""
        self._require_containers(path)
        shares = self._cut_value(join_path(path), item)
        return [s for member, share in zip(self._members, shares, strict=True) for s in member._set_steps(path, share)]

    def update(self, input_dict_or_td: Any = None, clone: bool = False, *args: Any, **kwargs: Any) -> Self:
        """Write several entries, all or none, each split by members; as for any container."""
        if clone and input_dict_or_td is not None:
            input_dict_or_td = _copy_source(input_dict_or_td)
        return super().update(input_dict_or_td, False, *args, **kwargs)

    def _replace_all(self, source: Any, clone: bool) -> Self:
        """Take over the values and the batch size of a container; with another number of elements, new members."""
        self._require_unlocked("update")
        size, at = source._batch_size, self.stack_dim
        if len(size) <= at or not self._outline().keys() <= source._outline().keys():
            raise fixed_size(size, self._batch_size)
        members, wrap = self._members, self._member_wrap()
        parts = JoinOps.unbind(MappingOps.clone(source) if clone else source, at)  # pyright: ignore[reportArgumentType]  # all containers have it
        models = members if len(members) == len(parts) else [*members[:1], *parts[:1]][:1] * len(parts)
        pairs = zip(models, parts, strict=True)
        new = [store_of(MappingOps._replace_all(wrap(model._twin()), part, False)) for model, part in pairs]
        if models is not members or any([member._stacked for member in members]):
            self._members = new
            return self
        publish([s for member, twin in zip(members, new, strict=True) for s in member._become_steps(twin)])
        return self

    def _member_wrap(self) -> Callable[[Any], Any]:
        """A function that gives a member the typed class around the stack, if there is one."""
        return self._joiner._wrap if self._joiner._layered else lambda member: member

    def _plan_update(
        self,
        source: Any,
        prefix: Path,
        wanted: list[Path] | None,
        inplace: bool,
        is_leaf: Any,
        plan: Any,
        in_place: dict[Path, Any],
    ) -> None:
        """Plan an update from another stack member by member; its entries need not be stackable."""
        if self.hook_in is not None or not (isinstance(source, TensorCollection) and source._stacked):
            super()._plan_update(source, prefix, wanted, inplace, is_leaf, plan, in_place)
            return
        wrap = self._member_wrap()
        shares = self._cut_container(join_path(prefix), source)
        for position, (member, share) in enumerate(zip(self._members, shares, strict=True)):
            found: dict[Path, Any] = {}
            wrap(member)._plan_update(share, prefix, wanted, inplace, is_leaf, plan, found)
            for path, value in found.items():
                in_place.setdefault(path, ByMember([_ABSENT] * len(shares))).each[position] = value

    # ---- in place ------------------------------------------------------------------------------------------------

    def _plan(
        self,
        source: Any,
        prefix: Path,
        parts: tuple[Any, ...] | None,
        size: torch.Size | None,
        wanted: list[Path] | None,
    ) -> list[Copy]:
        if parts is not None:
            return [(AtMember(self, None), self._plan_at(parts, source, prefix, wanted), prefix)]  # type: ignore[list-item]  # commits as a node does
        plan: list[Copy] = []
        dense = type(source) is TensorDict and source._plain and source._batch_size == self._batch_size
        if type(source) is dict:
            rows = source
        elif dense:
            rows = source._data.copy()
        else:
            rows = {}
        if rows and wanted is None and self._plan_rows(rows, prefix, plan):
            return plan
        shares = self._spread_source(source, self._batch_size, self.stack_dim, ())
        for member, share in zip(self._members, shares, strict=True):
            plan += member._plan(share, prefix, None, None, wanted)
        return plan

    def _copied_rows(self, source: dict[Any, Any], whole: bool, non_blocking: bool) -> bool:
        plan: list[Copy] = []
        if (whole and source.keys() != self._outline().keys()) or not self._plan_rows(source, (), plan):
            return False
        carry_out(plan, non_blocking)
        return True

    def _plan_rows(self, source: dict[Any, Any], prefix: Path, plan: list[Copy]) -> bool:
        """The common plan: tensors with a row for each member; False for the general path."""
        tables: list[dict[str, Any]] = [m._data if isinstance(m, TensorDict) else {} for m in self._members]
        found: list[Copy] = []
        for key, value in source.items():
            if type(key) is not str or type(value) is not Tensor or value.ndim <= self.stack_dim:
                return False
            rows, path = value.unbind(self.stack_dim), (*prefix, key)
            if not rows or len(rows) != len(tables):
                return False
            shape, dtype = rows[0].shape, value.dtype
            for table, row in zip(tables, rows, strict=True):
                leaf = table.get(key)
                if type(leaf) is not Tensor or leaf.shape != shape or leaf.dtype is not dtype:
                    return False
                found.append((leaf, row, path))
        if is_dynamo_compiling() or not surely_writable([leaf for leaf, _, _ in found]):
            for leaf, _, path in found:
                require_writable(leaf, path)
        plan += found
        return True

    def _plan_at(self, parts: Any, source: Any, prefix: Path, wanted: list[Path] | None) -> list[Copy]:
        """The writes of a value at an index over the batch dims of the stack."""
        raise NotImplementedError

    def _set_at(self, index: Any, value: Any, wanted: list[Path] | None, non_blocking: bool) -> None:
        member = self._member(index) if type(index) is int else None
        if member is not None:
            if wanted is not None or not member._copied_alike(value, False, non_blocking):
                carry_out(member._plan(value, (), None, None, wanted), non_blocking)
            return
        carry_out(self._plan_at(index, value, (), wanted), non_blocking)

    def _set_index(self, index: Any, value: Any) -> None:
        member = self._member(index) if type(index) is int else None
        if member is not None:
            if not member._copied_alike(value, True, False):
                InplaceOps._set_index(member, slice(None) if member._batch_size else ..., value)
            return
        written = self._selected_members(index)
        if written is not None:  # other members need no check
            LazyWrites._set_index(written, slice(None), value)
            return
        if isinstance(value, (TensorCollection, Mapping)):
            require_same_keys(self, value, "index assignment")
        self._set_at(index, value, None, False)

    def _selected_members(self, index: Any) -> Self | None:
        """A stack of the members that an index of the first dim selects; None for all members and for other indices."""
        if self.stack_dim:
            return None
        members, picked = self._members, list[Any]()
        if type(index) is slice and index != slice(None) and (index.step is None or index.step > 0):
            picked = members[index]
        elif type(index) is Tensor and index.ndim == 1 and index.dtype is torch.int64 and index.is_cpu:
            count, rows = len(members), index.tolist()
            if all([-count <= row < count for row in rows]):
                picked = [members[row] for row in rows]
        return self._with_members(picked) if picked else None

    def _spread_source(self, source: Any, size: torch.Size, axis: int, path: Path) -> list[Any]:
        """The values to write to each position along one dim of the target, from a source that broadcasts to it."""
        count = size[axis]
        if isinstance(source, TensorCollection):
            return self._spread_container(source, size + self._further_dims(path), axis, path)
        if isinstance(source, Mapping):
            shares: list[dict[Any, Any]] = [{} for _ in range(count)]
            for key, value in source.items():
                here = (*path, *unravel_key_to_tuple(key))
                for share, part in zip(shares, self._spread_entry(value, size, axis, here), strict=True):
                    if part is not _ABSENT:
                        share[key] = part
            return shares
        return [source] * count

    def _further_dims(self, path: Path) -> torch.Size:
        """The batch dims of the nested container under a path behind those of the stack; its own are of no member."""
        node: Any = self._members[0] if self._members else None
        dims = len(node._batch_size) if path and node is not None else 0
        for part in path:
            node = node._outline().get(part) if isinstance(node, TensorCollection) else None
        return node._batch_size[dims:] if path and isinstance(node, TensorCollection) else torch.Size()

    def _spread_container(self, source: Any, size: torch.Size, axis: int, path: Path) -> list[Any]:
        """One container for each member, from one that broadcasts along the stack dim."""
        mine = source._batch_size
        at = axis - (len(size) - len(mine))
        if at < 0:
            return [source] * size[axis]
        if mine[at] == size[axis]:
            return list(JoinOps.unbind(source, at))
        if mine[at] == 1:
            return [JoinOps.unbind(source, at)[0]] * size[axis]
        where = f" at `{join_path(path)}`" if path else ""
        raise BatchSizeError(
            f"in-place write{where}: the value's batch size {list(mine)} does not broadcast to {list(size)}"
        )

    def _spread_entry(self, value: Any, size: torch.Size, axis: int, path: Path) -> list[Any]:
        """As `_spread_source`, for one entry: its event dims determine which dims of the value are batch dims."""
        if isinstance(value, (TensorCollection, Mapping)):
            return self._spread_source(value, size, axis, path)
        size = size + self._further_dims(path[:-1])
        entry, holder = self._first(path)
        if isinstance(value, (list, tuple, np.ndarray)):
            value = _as_rows(value, entry, size, axis, path)
        if isinstance(value, ByMember):
            return value.each
        rows = Ragged.over(value)
        value = value if rows is None else rows
        if isinstance(value, NonTensorStack) or has_lengths(value):
            index = value._leaves(BATCHED)[0]
            return [value._make([i], i.shape, None, BATCHED) for i in _split_along(index, index.ndim, size, axis, path)]
        if not isinstance(value, Tensor) or isinstance(entry, Unbatched):  # a shared tensor has no batch dims
            return [value] * size[axis]
        event = entry.ndim - len(holder._batch_size) if isinstance(entry, Tensor) else 0
        return _split_along(value, value.ndim - event, size, axis, path)

    def _first(self, path: Path) -> tuple[Any, Any]:
        """The entry under a path in the first member that is not a stack, and its container."""
        node: Any = self
        holder: Any = None
        for part in path:
            while isinstance(node, TensorCollection) and node._stacked:
                stack: Any = store_of(node)
                node = stack._members[0] if stack._members else None
            holder, node = node, node._live().get(part) if isinstance(node, TensorCollection) else None
        return node, holder

    def fill_(self, key: Any, value: float | bool) -> Self:
        """Fill one entry of every member with a number; a nested container is filled at every depth."""
        path = unravel_key_to_tuple(key)
        found = [member._read(path) for member in self._members]
        self._refuse_frozen("fill")
        dense = not path[1:] and False not in [type(member) is TensorDict for member in self._members]
        if dense and all([type(entry) is Tensor and takes(entry, value) for entry in found]):
            each_row(Tensor.fill_, found, [value] * len(found))
        elif path[1:] or any([isinstance(entry, TensorCollection) for entry in found]):
            with sharing():
                publish(self._fill_steps(path, value))
        else:
            InplaceOps.set_(self, path, value)
        return self

    def _fill_steps(self, path: Path, value: float | bool) -> list[Step]:
        return [step for member in self._members for step in member._fill_steps(path, value)]

    def where(
        self,
        condition: Tensor,
        other: Any,
        *,
        out: Any = None,
        pad: int | bool | None = None,
        update_batch_size: bool = False,
    ) -> Any:
        """Select the members' elements where a condition over the batch dims is True, else the others; stays lazy."""
        size, dim = self._batch_size, self.stack_dim
        wide = condition.reshape(condition.shape + (1,) * (len(size) - condition.ndim))
        conditions = _split_along(wide, wide.ndim, size, dim, ("condition",))
        others = (
            self._spread_source(other, size, dim, ())
            if not isinstance(other, Tensor)
            else _split_along(other, other.ndim, size, dim, ())
        )
        chosen = [InplaceOps.where(m, c, o, pad=pad) for m, c, o in zip(self._members, conditions, others, strict=True)]
        result = self._with_members(chosen)
        return result if out is None else MappingOps.update(out, result, update_batch_size=update_batch_size)


_ABSENT: Any = object()


class ByMember:
    """Values by member; absent for members that are not written."""

    __slots__ = ("each",)

    def __init__(self, each: list[Any]) -> None:
        self.each = each


def _as_rows(value: Any, entry: Any, size: torch.Size, axis: int, path: Path) -> Any:
    """A list or array as what it is written to: a tensor, one object for each element, or one value for each member."""
    rows = list(value) if isinstance(value, (list, tuple)) and axis == 0 and len(value) == size[0] else None
    plain = isinstance(entry, Tensor) and not entry.is_nested
    if rows is not None and (not plain or any([isinstance(row, Tensor) for row in rows])):
        return ByMember(rows)
    if axis and isinstance(entry, NonTensorStack):
        return NonTensorStack.of(value, size)
    return as_source(value, entry, path) if plain else torch.as_tensor(value)


def _split_along(value: Tensor, dims: int, size: torch.Size, axis: int, path: Path) -> list[Any]:
    """A tensor with `dims` batch dims, aligned with the last dims of the target, split along one of them."""
    at = axis - (len(size) - dims)
    if at < 0:
        return [value] * size[axis]
    if value.shape[at] == size[axis]:
        return list(value.unbind(at))
    if value.shape[at] == 1:
        return [value.select(at, 0)] * size[axis]
    raise BatchSizeError(
        f"in-place write: `{join_path(path)}` of shape {list(value.shape)} does not broadcast to the batch size "
        f"{list(size)}; a value broadcasts over batch dims, never over event dims"
    )


def _copy_source(source: Any) -> Any:
    if isinstance(source, TensorCollection):
        return MappingOps.clone(source)  # type: ignore[type-var]  # containers have these operations
    if isinstance(source, Mapping):
        return {key: _copy_source(value) for key, value in source.items()}
    return source.clone() if isinstance(source, Tensor) else source
