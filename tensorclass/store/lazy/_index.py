"""Indexing a lazy stack: the selected members, the index into each, and the new position of the stack dim."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...core import Path, TensorCollection, store_of
from ...errors import ArgumentError, BatchIndexError, BatchSizeError
from ...ops._index import normalise
from ...ops._mapping import MappingOps
from ...ops._steps import AtMember, Copy, Writes, carry_out, collect
from .._dict import TensorDict
from ._write import LazyWrites

_ALL = slice(None)


@dataclass(frozen=True)
class Pick:
    """A parsed index.

    Args:
        parts: the whole index, one part for each batch dim and None for each new one; masks as positions.
        at: the position of the part that indexes the stack dim.
        rows: the selected members: a position, positions, or a tensor of them; None if elements are selected one by
            one.
        rest: the index into each member.
        dim: the stack dim of the result.
        name: the name of that dim.
    """

    parts: tuple[Any, ...]
    at: int
    rows: int | list[int] | Tensor | None
    rest: tuple[Any, ...]
    dim: int
    name: str | None


class Back:
    """A write to a stacked copy, which is then copied back to the members."""

    __slots__ = ("dense", "parts", "stack")

    def __init__(self, stack: LazyWrites, dense: Any, parts: tuple[Any, ...]) -> None:
        self.stack = stack
        self.dense = dense
        self.parts = parts

    def _commit(self, plan: Sequence[Copy], writes: Writes) -> None:
        carry_out(plan, False, self.parts)  # nobody else has it
        collect(LazyWrites._plan(self.stack, self.dense, (), None, None, None), False, None, writes)


class LazyIndex(LazyWrites):
    """`stack[...]` and `stack[...] = value`."""

    __slots__ = ()

    def _pick(self, index: Any) -> Pick | None:
        """Parse an index; None if only a stacked tensor can evaluate it."""
        parts = self._index_parts(index)
        if parts is None:
            return None
        at = _position_of(parts, self.stack_dim)
        part, rest = parts[at], (*parts[:at], *parts[at + 1 :])
        before = _count_kept_dims(parts[:at])
        tensors = [i for i, p in enumerate(parts) if isinstance(p, Tensor)]
        if isinstance(part, int):
            return Pick(parts, at, part, rest, 0, None)
        if isinstance(part, Tensor):
            alone = len(tensors) == 1
            name = self._dim_name if alone and part.ndim == 1 else None
            return Pick(parts, at, part if alone else None, rest, before, name)
        rows = list(range(len(self._members))[_forward_slice(part)])
        if not tensors:
            return Pick(parts, at, rows, rest, before, self._dim_name)
        wide = max(parts[i].ndim for i in tensors)
        front = _are_separated(parts)
        if front != _are_separated(rest):
            return Pick(parts, at, None, rest, before, None)
        dim = before + (wide if front or tensors[0] < at else 0)
        return Pick(parts, at, rows, rest, dim, self._dim_name)

    def _index_parts(self, index: Any) -> tuple[Any, ...] | None:
        """An index with one part for each batch dim, masks as positions; None for a bool that makes a dim."""
        size = self._batch_size
        parts: list[Any] = []
        dim = 0
        for part in normalise(index, self._common_batch_size(size)):
            if isinstance(part, bool) or (isinstance(part, Tensor) and part.dtype is torch.bool and not part.ndim):
                return None
            if isinstance(part, Tensor) and part.dtype is torch.bool:
                if -1 in size[dim : dim + part.ndim]:
                    raise BatchIndexError(
                        f"a bool mask can't select from a batch dim whose size differs from member to member, the "
                        f"batch size is {list(size)}; mask the members one by one"
                    )
                parts += part.nonzero(as_tuple=True)
                dim += part.ndim
            else:
                parts.append(int(part) if isinstance(part, Tensor) and not part.ndim else part)
                dim += part is not None
        return (*parts, *[_ALL] * (len(size) - dim))

    def _common_batch_size(self, size: torch.Size) -> torch.Size:
        """The batch size, with the minimum over members where they differ: the range that is valid in every member."""
        if -1 not in size:
            return size
        least = [min(column) for column in zip(*[_smallest_of(m) for m in self._members], strict=True)]
        return torch.Size((*least[: self.stack_dim], len(self._members), *least[self.stack_dim :]))

    def _index(self, index: Any) -> Any:
        member = self._member(index) if type(index) is int else None
        if member is not None:
            return member
        if type(index) is slice and self.stack_dim == 0:
            rows = self._members[_forward_slice(index)]
            if rows:
                return self._with_members([member._twin() for member in rows])
        pick = self._pick(index)
        if pick is None:
            return self._by_bool(index)
        if isinstance(pick.rows, int):
            return _index_member(self._members[pick.rows], pick.rest)
        if not self._members:
            template = TensorDict._index(self._template, pick.rest)
            return self._new([], pick.dim, pick.name, template)
        if pick.rows is None:
            return self._by_element(pick.parts)
        rows = pick.rows.reshape(-1).tolist() if isinstance(pick.rows, Tensor) else pick.rows
        if not rows:
            return self._none_of(pick)
        self._check_rows(rows)
        views = [_index_member(self._members[row], pick.rest) for row in rows]
        if isinstance(pick.rows, Tensor):  # a copy, as in torch; an index tensor in `rest` has already copied
            members = [MappingOps.clone(view) for view in views]
        else:
            own = _is_whole(pick.rest) or self._members[0]._stacked  # views may be members, or members of members
            members = [view._twin() if own or view._stacked else view for view in views]
        if isinstance(pick.rows, Tensor) and pick.rows.ndim > 1:
            return self._nest(members, pick.rows.shape, pick.dim)
        return self._new(members, pick.dim, pick.name)

    def index_select(self, dim: int, index: Tensor) -> Any:
        """Copies of the elements at positions along a batch dim."""
        return self._index((*[_ALL] * dim, index))

    def _by_bool(self, index: Any) -> Any:
        """Replace a bool, which makes a dim of size one or zero, by a new dim and a tensor that indexes it."""
        parts = index if isinstance(index, tuple) else (index,)
        flags = [isinstance(p, bool) or (isinstance(p, Tensor) and p.dtype is torch.bool and not p.ndim) for p in parts]
        if flags.count(True) > 1 or any(
            [isinstance(p, (Tensor, list)) for p, f in zip(parts, flags, strict=True) if not f]
        ):
            return self._solid()._index(index)
        at = flags.index(True)
        new = self._index((*parts[:at], None, *parts[at + 1 :]))
        before = _count_kept_dims(normalise((*parts[:at], ...), self._common_batch_size(self._batch_size))[:at])
        return new._index((*[_ALL] * before, torch.arange(int(bool(parts[at])), device="cpu")))

    def _check_rows(self, rows: Sequence[int]) -> None:
        count = len(self._members)
        for row in rows:
            if not -count <= row < count:
                raise BatchIndexError(f"index {row} is out of range for the stack dim, which has {count} members")

    def _none_of(self, pick: Pick) -> Any:
        """The result without members: a dense container without elements, which keeps keys, dtypes and event shapes."""
        part = pick.parts[pick.at]
        none = slice(0, 0) if isinstance(part, slice) else part
        parts = (*pick.parts[: pick.at], none, *pick.parts[pick.at + 1 :])
        return self._new([_as_uniform_stacks(self._members[0])], self.stack_dim, self._dim_name)._solid()._index(parts)

    def _by_element(self, parts: tuple[Any, ...]) -> Any:
        """Evaluate tensors that index the stack dim together with others: one element for each of their positions."""
        tensors = [part for part in parts if isinstance(part, Tensor)]
        shape = torch.broadcast_shapes(*[tensor.shape for tensor in tensors])
        if 0 in shape or 0 in self._batch_size:
            return _as_uniform_stacks(self)._solid()._index(parts)
        columns = [tensor.expand(shape).reshape(-1).tolist() for tensor in tensors]
        found = []
        for row in zip(*columns, strict=True):
            positions = iter(row)
            view = self._index(tuple([next(positions) if isinstance(p, Tensor) else p for p in parts]))
            found.append(MappingOps.clone(view))  # as in torch
        first = next(i for i, part in enumerate(parts) if isinstance(part, Tensor))
        return self._nest(found, shape, 0 if _are_separated(parts) else _count_kept_dims(parts[:first]))

    def _nest(self, members: Sequence[Any], shape: Sequence[int], dim: int) -> Any:
        """Lazy stacks of lazy stacks along consecutive dims."""
        if len(shape) == 1:
            return self._new(members, dim)
        step = len(members) // shape[0]
        rows = [self._nest(members[i * step : (i + 1) * step], shape[1:], dim) for i in range(shape[0])]
        return self._new(rows, dim)

    # ---- writing -------------------------------------------------------------------------------------------------

    def _plan_at(self, parts: Any, source: Any, prefix: Path, wanted: list[Path] | None) -> list[Copy]:
        """The copies of a write at an index: each member gets its part."""
        self._refuse_frozen("write by index", "")
        pick = self._pick(parts)
        if pick is None or pick.rows is None or (isinstance(pick.rows, Tensor) and pick.rows.ndim > 1):
            return self._plan_back(parts, source, prefix, wanted)
        if isinstance(pick.rows, int):
            return self._plan_member(self._members[pick.rows], pick.rest, source, prefix, wanted)
        rows = pick.rows.tolist() if isinstance(pick.rows, Tensor) else pick.rows
        self._check_rows(rows)
        if not rows:
            return []
        inner = size_after_index(self._members[rows[0]]._batch_size, pick.rest)
        if inner is None:
            return self._plan_back(parts, source, prefix, wanted)
        size = torch.Size((*inner[: pick.dim], len(rows), *inner[pick.dim :]))
        plan: list[Copy] = []
        for row, share in zip(rows, self._spread_source(source, size, pick.dim, ()), strict=True):
            plan += self._plan_member(self._members[row], pick.rest, share, prefix, wanted)
        return plan

    def _plan_member(
        self, member: Any, rest: tuple[Any, ...], source: Any, prefix: Path, wanted: list[Path] | None
    ) -> list[Copy]:
        if member._stacked:
            plan: list[Copy] = member._plan(source, prefix, rest or (...,), None, wanted)
            return plan
        if _is_whole(rest):
            return list(member._plan(source, prefix, None, None, wanted))
        size = size_after_index(member._batch_size, rest)
        return [(AtMember(member, rest), member._plan(source, prefix, rest, size, wanted), prefix)]  # type: ignore[list-item]  # commits as a node does

    def _plan_back(self, index: Any, source: Any, prefix: Path, wanted: list[Path] | None) -> list[Copy]:
        """Write to a stacked copy first, then copy it back, for an index that can't be split by members."""
        dense = self._solid()
        parts = normalise(index, dense._batch_size)
        plan = dense._plan(source, prefix, parts, size_after_index(dense._batch_size, parts), wanted)
        LazyWrites._plan(self, dense, prefix, None, None, None)  # check that the members accept it
        return [(Back(self, dense, parts), plan, prefix)]  # type: ignore[list-item]  # commits as a node does


def size_after_index(size: torch.Size, parts: tuple[Any, ...]) -> torch.Size | None:
    """The batch size after an index; None if it is unknown."""
    if -1 in size:
        return None
    return torch.empty((*size, 0)).expand(*size, 0)[parts].shape[:-1] if parts else size


def _smallest_of(member: Any) -> torch.Size:
    size: torch.Size = member._batch_size
    return member._common_batch_size(size) if member._stacked else size


def _index_member(member: Any, rest: tuple[Any, ...]) -> Any:
    """A member at an index; the member itself if the index selects all of it."""
    return member if _is_whole(rest) else member._index(rest)


def _as_uniform_stacks(member: Any) -> Any:
    """A container of the same size, with all members of every stack like the first, to find keys and shapes."""
    store = store_of(member)
    if store._stacked:
        return store._with_members([_as_uniform_stacks(inner) for inner in store._members[:1]] * len(store._members))
    nested = {
        key: _as_uniform_stacks(value) for key, value in store._live().items() if isinstance(value, TensorCollection)
    }
    if not nested:
        return store
    twin = store._twin()
    twin._data.update(nested)
    return twin


def _forward_slice(part: slice) -> slice:
    """A slice over the members with a positive step, as for tensors."""
    if part.step is not None and part.step < 1:
        raise ArgumentError(
            f"lazy stack: a slice has a step of at least one, got {part}; reverse the order with `flip`"
        )
    return part


def _is_whole(rest: tuple[Any, ...]) -> bool:
    return all([type(part) is slice and part == _ALL for part in rest])


def _count_kept_dims(parts: Sequence[Any]) -> int:
    """The number of dims of the result from these parts, without tensors."""
    return sum([part is None or isinstance(part, slice) for part in parts])


def _position_of(parts: Sequence[Any], dim: int) -> int:
    """The part that indexes a dim; parts that are None index no dim."""
    seen = -1
    for position, part in enumerate(parts):
        seen += part is not None
        if seen == dim and part is not None:
            return position
    raise BatchSizeError(f"an index of {len(parts)} parts does not reach dim {dim}")


def _are_separated(parts: Sequence[Any]) -> bool:
    """Whether other dims are between index tensors, so that the indexed dims come first in the result."""
    where = [i for i, part in enumerate(parts) if isinstance(part, Tensor)]
    between = parts[where[0] : where[-1]] if where else ()
    return any([part is None or isinstance(part, slice) for part in between])
