"""Reductions of leaves: each by itself, or all of them as one tensor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

import torch
from torch import Tensor

from .._operations import REDUCTIONS, Reduction
from ..core import VALUES, is_typed
from ..errors import ArgumentError, StructureError, UnsupportedOperationError
from ._operands import Pointwise, show
from ._reduce_frame import batch_ndims, is_feature, named_dims

Function: TypeAlias = Callable[..., Any]
Options: TypeAlias = "dict[str, Any]"


@dataclass(frozen=True)
class Reducer:
    """A row of the table with its torch function.

    Args:
        name: the operation, for messages.
        function: the function of one leaf, over all of it or along `dim`.
        many: whether `dim` may be several dims.
        staged: whether the reduction of partial reductions is the reduction of the whole.
    """

    name: str
    function: Function
    many: bool
    staged: bool


def _quantile(leaf: Tensor, q: Any, **options: Any) -> Tensor:
    return torch.quantile(leaf, q.to(leaf) if isinstance(q, Tensor) else q, **options)


def _cast_first(function: Function) -> Function:
    """Wrap a function that doesn't accept integers, or that can't narrow to the requested dtype."""

    def cast(leaf: Tensor, *dim: Any, dtype: torch.dtype | None = None, **options: Any) -> Tensor:
        return function(leaf if dtype is None else leaf.to(dtype), *dim, **options)  # type: ignore[no-any-return]  # torch's

    return cast


def _reducer(row: Reduction) -> Reducer:
    norm, nanmean = _cast_first(torch.linalg.vector_norm), _cast_first(torch.nanmean)
    special: dict[str, Function] = {"quantile": _quantile, "norm": norm, "nanmean": nanmean}
    special |= {"all": Tensor.all, "any": Tensor.any}  # faster than the functions of torch, unlike the others
    return Reducer(row.name, special.get(row.name) or getattr(torch, row.name), row.many, row.staged)


_SMALL: Final = 8192
"""Up to this number of elements, joining tensors is faster than reducing them one by one."""
REDUCERS: Final[Mapping[str, Reducer]] = {row.name: _reducer(row) for row in REDUCTIONS}


def each(self: Pointwise, op: str, leaves: list[Tensor], functions: Function | Sequence[Function | None]) -> list[Any]:
    """Apply one function, or one function per leaf; a leaf without a function is unchanged."""
    new: list[Any] = []
    if callable(functions):
        try:
            return [functions(leaf) for leaf in leaves]
        except (RuntimeError, IndexError):  # repeat, to find the leaf
            functions = [functions] * len(leaves)
    try:
        for leaf, function in zip(leaves, functions, strict=True):
            new.append(leaf if function is None else function(leaf))
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, IndexError) as error:
        leaf, path = leaves[len(new)], show(self._layout()[len(new)])
        raise UnsupportedOperationError(
            f"{op}: `{path}` ({leaf.dtype}, shape {list(leaf.shape)}): {error}; leave it out with `exclude`, or "
            f"{_cast_for(self, op, leaf)}"
        ) from error
    return new


_WITH_DTYPE: Final = frozenset(row.name for row in REDUCTIONS if "dtype" in row.options)


def _cast_for(self: Pointwise, op: str, leaf: Tensor) -> str:
    """The cast for a leaf that an operation doesn't take; `float()` of a typed class skips integers and bools."""
    if leaf.is_floating_point() or leaf.is_complex():
        return "cast it"
    way = f"`{op}(dtype=torch.float32)`" if op in _WITH_DTYPE else "`to_tensordict().float()`"
    return f"cast it: {way}" + ("; `float()` of a typed class keeps its integers and bools" if is_typed(self) else "")


def reduce_along(reducer: Reducer, dims: tuple[int, ...], keepdim: bool, options: Options) -> Function:
    """The reduction of one tensor over some of its dims; over no dims, of each element by itself."""
    if len(dims) == 1:
        function, dim = reducer.function, dims[0]
        if not keepdim and not options:
            return lambda leaf: function(leaf, dim)  # torch is slower with a keyword
        return partial(function, dim=dim, keepdim=keepdim, **options)
    if not dims:
        single = partial(reducer.function, dim=-1, **options)
        return lambda leaf: single(leaf.unsqueeze(-1))
    if reducer.many:
        return partial(reducer.function, dim=dims, keepdim=keepdim, **options)
    return partial(_reduce_merged_dims, partial(reducer.function, dim=-1, **options), dims, keepdim)


def _reduce_merged_dims(function: Function, dims: tuple[int, ...], keepdim: bool, leaf: Tensor) -> Tensor:
    """Merge several dims, for a function of one dim."""
    count = len(dims)
    new: Tensor = function(leaf.movedim(dims, tuple(range(-count, 0))).flatten(-count))
    lead = new.ndim + count - leaf.ndim
    for dim in sorted(dims) if keepdim else ():
        new = new.unsqueeze(dim + lead)
    return new


def verdict(leaves: list[Tensor], reducer: Reducer) -> bool:
    """A Python bool. On the CPU, the first deciding leaf ends the search; other devices synchronize once."""
    function, decisive = reducer.function, reducer.name == "any"
    if any([not leaf.is_cpu for leaf in leaves]):
        flags = [function(leaf) for leaf in leaves]
        return bool(function(torch.stack([flag.to(flags[0].device) for flag in flags])))
    for leaf in leaves:
        if bool(function(leaf)) is decisive:
            return decisive
    return not decisive


def reduce_together(self: Pointwise, reducer: Reducer, dim: Any, keepdim: bool, options: Options) -> Any:
    """All leaves as one tensor, reduced."""
    if dim is None:
        if keepdim:
            raise ArgumentError(
                f"{reducer.name}: keepdim=True needs a dim; reduce=True without one gives a single number"
            )
        leaves = _some(self, reducer.name)
        if reducer.staged and sum([leaf.numel() for leaf in leaves]) > _SMALL:
            parts = [reducer.function(leaf, **options) for leaf in leaves]
            return reducer.function(torch.stack(parts), **options)
        return reducer.function(torch.cat([leaf.reshape(-1) for leaf in leaves]), **options)
    if is_feature(self, dim, keepdim, reducer.name):
        return reduce_along(reducer, (len(self._batch_size),), False, options)(_flat(self, reducer.name))
    dims = named_dims(self, dim, reducer.name)
    return reduce_along(reducer, dims, keepdim, options)(concatenate_leaves(self, dims, reducer.name))


def _some(self: Pointwise, op: str) -> list[Tensor]:
    leaves = self._leaves(VALUES)
    if not leaves:
        raise StructureError(f"{op}(reduce=True) reduces all tensors together, and this {type(self).__name__} has none")
    return leaves


def _batched_leaves(self: Pointwise, op: str) -> list[Tensor]:
    leaves, ndims = _some(self, op), batch_ndims(self, op, False)
    if None in ndims:
        path = show(self._layout()[ndims.index(None)])
        raise StructureError(f"{op}(reduce=True): `{path}` has no batch dims, so it can't join the others; exclude it")
    return leaves


def _flat(self: Pointwise, op: str) -> Tensor:
    """All leaves flattened after the batch dims, and concatenated."""
    batch = len(self._batch_size)
    leaves = _batched_leaves(self, op)
    return torch.cat([leaf.flatten(batch) if leaf.ndim > batch else leaf.unsqueeze(-1) for leaf in leaves], -1)


def concatenate_leaves(self: Pointwise, dims: tuple[int, ...], op: str) -> Tensor:
    """All leaves concatenated along a batch dim."""
    leaves, batch = _batched_leaves(self, op), len(self._batch_size)
    events = [leaf.shape[batch:] for leaf in leaves]
    for position, event in enumerate(events):
        if event != events[0]:
            layout = self._layout()
            raise StructureError(
                f"{op}(reduce=True): leaves that are joined along a batch dim have one event shape, "
                f"`{show(layout[0])}` has {list(events[0])} and `{show(layout[position])}` has {list(event)}; leave "
                'out `dim`, or use "feature"'
            )
    return torch.cat(leaves, dims[0])
