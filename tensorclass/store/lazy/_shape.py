"""Shape operations of a lazy stack: operations on single members stay lazy, the others use a stacked copy."""

# Operations call each other past the instance: pyright takes what they return for the mixin, mypy for Self as it is.
# pyright: reportArgumentType=false

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, product
from typing import Any

import torch

from ..._flags import flags
from ...core import VALUES, Sizes, as_batch_size, as_device, as_int, infer_shape
from ...errors import BatchSizeError, StructureError, UnsupportedOperationError
from ...ops import UNSET
from ...ops._apply import ApplyOps, Mapper
from ...ops._join import JoinOps
from ...ops._mapping import MappingOps
from ...ops._shape import Dims, ShapeOps, given_sizes, grown_size, one_of
from ...ops._undo import FLIPPED, PERMUTED, RESHAPED
from ...ops._writable import reason_of_expansion
from .._dict import TensorDict
from ._index import LazyIndex

_RAGGED = 1_000_003  # replaces a size in which members differ, for rules that need numbers


@flags
class LazyShapes(LazyIndex):
    """Methods that split, reorder and reshape."""

    __slots__ = ()

    def _run_on_stack(self, name: str, *args: Any, **kwargs: Any) -> Any:
        return getattr(self, name)(*args, **kwargs)

    def _each_member(self, fn: Callable[[Any], Any], dim: int | None = None) -> Any:
        """A stack along this or another dim, with a function applied to each member, or to the template."""
        template = self._template if self._members else fn(self._template)
        at = self.stack_dim if dim is None else dim
        return self._new([fn(member) for member in self._members], at, self._dim_name, template)

    def _model(self) -> TensorDict:
        """An empty container whose batch dims have distinct sizes, to find out where an operation moves dims."""
        ndim = len(self._batch_size)
        return TensorDict._of({}, torch.Size(range(2, ndim + 2)), None, self._names, True)

    def _inner(self, dim: int) -> int:
        """Convert a batch dim of the stack, other than the stack dim, to a dim of the members."""
        return dim - (dim > self.stack_dim)

    # ---- cutting -------------------------------------------------------------------------------------------------

    def unbind(self, dim: int | str = 0) -> Any:
        """Along the stack dim, the members themselves; along another dim, lazy stacks of views."""
        at = self._dim(dim, "unbind")
        if at == self.stack_dim:
            return tuple(self._members)
        members = self._members or [self._template]
        rows = [JoinOps.unbind(m, self._inner(at)) for m in members]
        own = [tuple([p._twin() for p in row]) if m._stacked else row for m, row in zip(members, rows, strict=True)]
        return self._transpose_pieces("unbind", own, at)

    def _transpose_pieces(self, op: str, pieces: Sequence[Sequence[Any]], at: int, lost: int = 1) -> Any:
        """Pieces of each member as stacks of pieces."""
        if len({len(row) for row in pieces}) > 1:
            raise BatchSizeError(
                f"{op}: batch dim {at} has a different size in each member ({list(map(len, pieces))} pieces); cut the "
                "members one by one"
            )
        dim = self.stack_dim - (lost and at < self.stack_dim)
        if not self._members:
            return tuple([self._new([], dim, self._dim_name, piece) for piece in pieces[0]])
        return tuple([self._new(column, dim, self._dim_name) for column in zip(*pieces, strict=True)])

    def _pieces(self, op: str, argument: Any, dim: int | str) -> Any:
        at = self._dim(dim, op)
        if at != self.stack_dim:
            cut: Callable[..., Any] = getattr(JoinOps, op)
            members = self._members or [self._template]
            return self._transpose_pieces(op, [cut(m, argument, self._inner(at)) for m in members], at, 0)
        count = len(self._members)
        ends = _ends(op, argument, count)
        if ends is not None:
            return tuple([self._rows([*range(start, end)]) for start, end in zip([0, *ends], ends, strict=False)])
        rows = TensorDict._of({"i": torch.arange(count, device="cpu")}, torch.Size([count]), None, None, True)
        return tuple([self._rows(piece["i"].tolist()) for piece in getattr(rows, op)(argument)])

    def _rows(self, rows: list[int]) -> Any:
        if rows:
            return self._with_members([member._twin() for member in self._members[rows[0] : rows[-1] + 1]])
        parts = [slice(None)] * len(self._batch_size)
        parts[self.stack_dim] = slice(0, 0)
        return self._index(tuple(parts))

    def split(self, split_size: int | Sequence[int], dim: int | str = 0) -> Any:
        """Split a batch dim into pieces of a size, or of given sizes; lazy stacks around the same tensors."""
        return self._pieces("split", split_size, dim)

    split_with_sizes = split  # called on leaves of containers

    def tensor_split(self, indices_or_sections: Any, dim: int | str = 0) -> Any:
        """Split a batch dim at given positions, or into a number of nearly equal pieces; stays lazy."""
        return self._pieces("tensor_split", indices_or_sections, dim)

    def chunk(self, chunks: int, dim: int | str = 0) -> Any:
        """Split a batch dim into at most `chunks` equal pieces; stays lazy."""
        return self._pieces("chunk", chunks, dim)

    # ---- reordering ----------------------------------------------------------------------------------------------

    def _reorder_members(self, op: str, *args: Any) -> Any:
        order = [n - 2 for n in getattr(self._model(), op)(*args)._batch_size]
        if order == sorted(order):
            return self._twin()
        inner = [self._inner(d) for d in order if d != self.stack_dim]
        return self._each_member(lambda m: _permute_member(m, inner), order.index(self.stack_dim))

    @PERMUTED
    def permute(self, *order: Dims, dims: Sequence[int | str] | None = None) -> Any:
        """Reorder the batch dims; stays lazy."""
        return self._reorder_members("permute", *(order if dims is None else one_of(order, dims, "dims")))

    @PERMUTED
    def transpose(self, dim0: int | str, dim1: int | str) -> Any:
        """Swap two batch dims; stays lazy."""
        return self._reorder_members("transpose", dim0, dim1)

    @RESHAPED
    def unsqueeze(self, dim: int) -> Any:
        """Insert a batch dim of size one; stays lazy."""
        at = self._dim(dim, "unsqueeze", extra=1)
        after = at <= self.stack_dim
        return self._each_member(lambda m: ShapeOps.unsqueeze(m, at if after else at - 1), self.stack_dim + after)

    @RESHAPED
    def squeeze(self, dim: int | str | tuple[int, ...] | None = None) -> Any:
        """Remove a batch dim of size one, or all of them; stays lazy unless the stack dim is removed."""
        size = self._batch_size
        if dim is None:
            given: Iterable[int | str] = range(len(size))
        elif isinstance(dim, tuple):
            given = dim
        else:
            given = (dim,)
        dims = [self._dim(d, "squeeze") for d in given]
        drop = [d for d in dims if size[d] == 1]
        if not drop:
            return self._twin()
        inner = [self._inner(d) for d in drop if d != self.stack_dim]
        members = [_drop_dims(member, inner) for member in self._members]
        if self.stack_dim in drop:
            return members[0]
        return self._new(members, self.stack_dim - sum([d < self.stack_dim for d in drop]), self._dim_name)

    @FLIPPED
    def flip(self, dims: Dims) -> Any:
        """Reverse the order along batch dims; stays lazy."""
        where = self._dims(dims, "flip")
        inner = [self._inner(d) for d in where if d != self.stack_dim]
        members = [ShapeOps.flip(m, inner) if inner else MappingOps.clone(m) for m in self._members]
        return self._with_members(members[::-1] if self.stack_dim in where else members)

    def narrow(self, dim: int | str, start: int, length: int) -> Any:
        """A slice of given length along a batch dim; stays lazy."""
        at = self._dim(dim, "narrow")
        if at != self.stack_dim:
            return self._each_member(lambda m: ShapeOps.narrow(m, self._inner(at), start, length))
        size = TensorDict._of({}, torch.Size([len(self._members)]), None, None, True)
        ShapeOps.narrow(size, 0, start, length)  # refuses an invalid range
        first = as_int(start) % max(len(self._members), 1) if as_int(start) < 0 else as_int(start)
        return self._rows([*range(first, first + as_int(length))])

    # ---- reshaping -----------------------------------------------------------------------------------------------

    def expand(self, *shape: Sizes) -> Any:
        """Broadcast to a larger batch size without copying; -1 keeps a dim, as it keeps a ragged one.

        Stays lazy, unless the stack dim itself grows.
        """
        size = torch.Size([_RAGGED if n == -1 else n for n in self._batch_size])
        new = [-1 if n == _RAGGED else n for n in grown_size(given_sizes(shape), size)]
        dim = self.stack_dim + len(new) - len(size)
        inner = [*new[:dim], *new[dim + 1 :]]
        members = [ShapeOps.expand(member, inner) for member in self._members]
        if not members:
            return self._new(members, dim, self._dim_name, ShapeOps.expand(self._template, inner))
        if len(members) != new[dim]:  # one member: its tensors are expanded, and can't be written
            return ShapeOps.expand(ShapeOps.unsqueeze(members[0], dim), new)
        return self._new(members, dim, self._dim_name)

    @RESHAPED
    def reshape(self, *shape: Sizes, size: Sizes | None = None, inplace: bool = False) -> Any:
        """Reshape the batch dims; stays lazy if the stack dim remains a separate dim."""
        result = self._reshaped_to(given_sizes(shape if size is None else one_of(shape, size)), "reshape")
        return self._become(result) if inplace else result

    @RESHAPED
    def view(
        self, *shape: Sizes | torch.dtype, size: Sequence[int] | None = None, batch_size: Sequence[int] | None = None
    ) -> Any:
        """Another batch shape over the same memory: a lazy stack of views, one for each element if need be."""
        if len(shape) == 1 and isinstance(shape[0], torch.dtype):
            return self._with_members([ShapeOps.view(member, shape[0]) for member in self._members])
        target = given_sizes(shape) if size is None else list(size)
        if batch_size is not None and as_batch_size(batch_size) != torch.Size(target):
            raise BatchSizeError(f"view: batch_size {list(batch_size)} is not the shape {target}")
        return self._reshaped_to(target, "view")

    def _reshaped_to(self, shape: list[int], op: str) -> Any:
        """A lazy stack of another shape; it is nested where its members allow it, and stacked else."""
        size, dim, count = self._batch_size, self.stack_dim, len(self._members)
        ragged = -1 in size
        if list(size) == shape:
            return self._twin()
        kept = len(size) - size.index(-1) if ragged else 0
        head = shape[: len(shape) - kept]
        fits = -1 in head or torch.Size(head).numel() == size[: len(size) - kept].numel()
        if kept and fits and tuple(shape[len(head) :]) == size[-kept:]:  # else the -1 is inferred, as for tensors
            return self._reshaped_head(head, size[:-kept], op)
        total = sum([_numel(member) for member in self._members]) if ragged else size.numel()
        new = infer_shape(shape, total, op=op)
        if new == size:
            return self._twin()
        if not ragged:
            lead = size[:dim].numel()
            for at, n in enumerate(new):
                if n == count and new[:at].numel() == lead and total:
                    inner = torch.Size((*new[:at], *new[at + 1 :]))
                    members = [getattr(ShapeOps, op)(member, inner) for member in self._members]
                    return self._new(members, at, self._dim_name)
            dense = self._dense_or_none() if op == "reshape" or not total else None
            if dense is not None:
                return getattr(ShapeOps, op)(dense, new)
        if not total:
            return getattr(ShapeOps, op)(self._solid(), new)
        found = self._without_overlap(elements(self), op)
        return self._nest(found, new, 0) if new else found[0]

    def _without_overlap(self, found: list[Any], op: str) -> list[Any]:
        """Elements that don't share memory with each other; copies if members are expanded, as in torch."""
        if not any([reason_of_expansion(leaf) for leaf in self._leaves(VALUES)]):
            return found
        if op == "view":
            raise UnsupportedOperationError(
                "view: the stack is expanded, so several elements share memory; `reshape` copies them"
            )
        return [ApplyOps.clone(part) for part in found]

    def _reshaped_head(self, shape: list[int], size: torch.Size, op: str) -> Any:
        """Reshape the dims before the first dim in which members differ."""
        found = [self._index(row) for row in product(*map(range, size))]
        new = infer_shape(shape, len(found), op=op)
        found = self._without_overlap([part._twin() for part in found], op)
        return self._nest(found, new, 0) if new else found[0]

    def _dense_or_none(self) -> Any:
        """The dense container of the same entries; None if there is none."""
        try:
            return self._solid()
        except (StructureError, BatchSizeError):
            return None

    @RESHAPED
    def flatten(
        self, start_dim: int | str | None = None, end_dim: int | str | None = None, *, inplace: bool = False
    ) -> Any:
        """Merge a range of batch dims into one; a lazy stack of elements if members differ in size."""
        if inplace:
            self._become(self)
        first = self._dim(0 if start_dim is None else start_dim, "flatten")
        last = self._dim(-1 if end_dim is None else end_dim, "flatten")
        size = self._batch_size
        if -1 not in size:
            return self._reshaped_to(list(ShapeOps.flatten(self._shell(), first, last)._batch_size), "reshape")
        if (first, last) == (0, len(size) - 1):
            return self._reshaped_to([-1], "reshape")
        if first != last and -1 in size[: last + 1]:
            self._require_dense()
        return self._reshaped_to([*size[:first], size[first : last + 1].numel(), *size[last + 1 :]], "reshape")

    @RESHAPED
    def unflatten(self, dim: int | str, unflattened_size: Sequence[int], *, inplace: bool = False) -> Any:
        """Split one batch dim into several; stays lazy if it is not the stack dim."""
        if inplace:
            self._become(self)
        at = self._dim(dim, "unflatten")
        if at == self.stack_dim:
            parts = infer_shape([as_int(n) for n in unflattened_size], len(self._members), op="unflatten")
            if parts and self._members:
                return self._nest([member._twin() for member in self._members], parts, at)
            return self._reshaped_to(list(ShapeOps.unflatten(self._shell(), at, unflattened_size)._batch_size), "view")
        members = [ShapeOps.unflatten(member, self._inner(at), unflattened_size) for member in self._members]
        grown = len(tuple(unflattened_size)) - 1
        return self._new(members, self.stack_dim + (grown if at < self.stack_dim else 0), self._dim_name)

    def _shell(self) -> TensorDict:
        """An empty container of the same batch size."""
        return TensorDict._of({}, self._batch_size, None, None, True)

    def _fresh_members(self, size: Any, make: Callable[..., Any], device: Any) -> Any:
        """Make new leaves: dense for another batch size, member by member for the same size."""
        if as_batch_size(size) == self._batch_size and len(self._members):
            return self._with_members([member._fresh(member._batch_size, make, device) for member in self._members])
        return self._solid()._fresh(size, make, device)

    def contiguous(self, *, canonical: bool = False, inplace: bool = False) -> Any:
        """A dense container of contiguous leaves."""
        if inplace:
            self._become(self)
        return ShapeOps.contiguous(self._solid(), canonical=canonical)

    def is_contiguous(self) -> bool:
        """Always False: the entries of members are separate tensors."""
        return False

    # ---- functions of the leaves ---------------------------------------------------------------------------------

    def _map_members(self, mapper: Mapper, others: Sequence[Any], path: Any, size: Any, filter_empty: Any) -> Any:
        if size is not None:
            dense = self._dense_or_none() if size == self._batch_size else self._solid()
            if dense is not None:
                return dense._map(mapper, others, path, size, filter_empty)
        members = [
            member._map(mapper, cut, path, None, filter_empty)
            for member, cut in zip(self._members, self._cut_others(others), strict=True)
        ]
        if any([member is None for member in members]):
            if all([member is None for member in members]):
                return None
            raise BatchSizeError("apply: the function dropped every entry of some members and not of others")
        return self._with_members(members)

    def _cut_others(self, others: Sequence[Any]) -> list[list[Any]]:
        """The other containers of an `apply`, cut into those for each member."""
        columns = [
            JoinOps.unbind(other, self.stack_dim) if isinstance(other, JoinOps) else [other] * len(self._members)
            for other in others
        ]
        for column in columns:
            if len(column) != len(self._members):
                raise BatchSizeError(
                    f"apply: another container has {len(column)} elements along the stack dim {self.stack_dim}, this "
                    f"stack has {len(self._members)}"
                )
        return [[column[i] for column in columns] for i in range(len(self._members))]

    def _plan_mapped_members(self, mapper: Mapper, others: Sequence[Any], prefix: Any = ()) -> list[Any]:
        found: list[Any] = []
        for member, cut in zip(self._members, self._cut_others(others), strict=True):
            found += ApplyOps._plan_mapped(member, mapper, cut, prefix)
        return found

    def _each_member_by(self, name: str, *args: Any) -> Any:
        return self._each_member(lambda member: getattr(member, name)(*args))

    def empty(self, recurse: bool = False, *, batch_size: Any = None, device: Any = UNSET, names: Any = UNSET) -> Any:
        """A lazy stack of empty members; for another batch size, a dense container."""
        if batch_size is None and names is UNSET:
            return self._with_members([TensorDict.empty(m, recurse, device=device) for m in self._members])
        where = self._device if device is UNSET else as_device(device)
        size = self._batch_size if batch_size is None else torch.Size(batch_size)
        return TensorDict(batch_size=size, device=where, names=None if names is UNSET else names)


def elements(stack: Any) -> list[Any]:
    """Every element as a container without batch dims, in order; views of the members."""
    found: list[Any] = []
    for part in stack.unbind(0):
        if not part._batch_size:
            found.append(part._twin())
        else:
            found += elements(part) if part._stacked else _elements_of(part)
    return found


def _elements_of(part: Any) -> list[Any]:
    rows = JoinOps.unbind(part, 0)
    return list(rows) if len(part._batch_size) == 1 else [element for row in rows for element in _elements_of(row)]


def _numel(member: Any) -> int:
    if member._stacked:
        return sum([_numel(inner) for inner in member._members])
    return int(member._batch_size.numel())


def _ends(op: str, argument: Any, count: int) -> list[int] | None:
    """The ends of pieces for plain arguments; None for others and for errors, which a tensor of positions handles."""
    if op == "split" and type(argument) is list:
        plain = all([type(n) is int and n > 0 for n in argument]) and sum(argument) == count
        return list(accumulate(argument)) if plain else None
    if type(argument) is not int or argument < 1 or count < 1:
        return None
    if op == "tensor_split":
        size, extra = divmod(count, argument)
        return [size * i + min(i, extra) for i in range(1, argument + 1)]
    step = argument if op == "split" else -(-count // argument)
    return [*range(step, count, step), count]


def _permute_member(member: Any, order: list[int]) -> Any:
    return ShapeOps.permute(member, order) if order else member._twin()


def _drop_dims(member: Any, dims: list[int]) -> Any:
    new = member._twin()
    for dim in sorted(dims, reverse=True):
        new = ShapeOps.squeeze(new, dim)
    return new
