"""The few functions that implement every reduction, on the leaves of any container."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor
from typing_extensions import NamedTuple

from .._flags import flag
from ..core import VALUES, Names
from ..errors import ArgumentError
from ._kernels import C
from ._operands import Pointwise
from ._reduce_frame import (
    EMPTY,
    FEATURE,
    KeyTransform,
    batch_ndims,
    is_feature,
    named_dims,
    one_dim,
    ones,
    reduced_names,
    reduced_size,
    rename_entries,
    untyped_copy,
)
from ._reduce_leaves import Function, Options, Reducer, concatenate_leaves, each, reduce_along, reduce_together, verdict

V = TypeVar("V")
I = TypeVar("I")  # noqa: E741  # indices beside values


class Extrema(NamedTuple, Generic[V, I]):
    """Smallest or largest elements, and the position of each along the reduced dim.

    >>> import torch
    >>> from tensorclass import TensorDict
    >>> found = TensorDict(a=torch.tensor([3, 1, 2]), batch_size=[3]).min(0)
    >>> found.values["a"], found.indices["a"]
    (tensor(1), tensor(1))
    """

    values: V
    indices: I


def _ask(keepdim: bool, reduce: bool | None, return_indices: bool = True) -> None:
    flag(keepdim=keepdim, reduce=reduce is not None and reduce, return_indices=return_indices)


# ---- the operations --------------------------------------------------------------------------------------------------


def total(
    self: Pointwise,
    reducer: Reducer,
    dim: Any,
    keepdim: bool,
    reduce: bool | None,
    key_transform: KeyTransform | None = None,
    **given: Any,
) -> Any:
    """Reduce to one number for each reduced part."""
    if not (keepdim is False and reduce is None):
        _ask(keepdim, reduce)
    options = {key: value for key, value in given.items() if value is not None} if given else given
    plain = key_transform is None and not (keepdim or reduce or options)
    if plain and type(dim) is int:
        found = _quick(self, reducer, dim, True)
        if found is not None:
            return found
    if reduce and dim is None:  # one number: the leaves of members are used directly
        return reduce_together(self, reducer, None, keepdim, options)
    dense: Pointwise = self._solid()
    if reduce:
        return reduce_together(dense._twin(), reducer, dim, keepdim, options)
    if dim is None:
        result = _everything(dense, reducer, keepdim, options)
    elif is_feature(dense, dim, keepdim, reducer.name):
        result = _events(dense, reducer, options)
    else:
        result = _over_batch(dense, reducer, named_dims(dense, dim, reducer.name), keepdim, options, True)
    return result if key_transform is None else rename_entries(result, key_transform, reducer.name)


def quantile(
    self: Pointwise,
    reducer: Reducer,
    dim: Any,
    keepdim: bool,
    reduce: bool | None,
    key_transform: KeyTransform | None,
    q: float | Tensor,
    interpolation: str,
) -> Any:
    """As `total`, after a check of `q`."""
    _ask(keepdim, reduce)
    if not isinstance(q, (int, float, Tensor)) or isinstance(q, bool) or (isinstance(q, Tensor) and q.ndim > 1):
        given = f"a tensor of shape {list(q.shape)}" if isinstance(q, Tensor) else f"{q!r:.200}"
        raise ArgumentError(f"quantile: q is a number or a tensor of at most one dim, got {given}")
    if not isinstance(q, Tensor) and not 0 <= q <= 1:
        raise ArgumentError(f"quantile: q lies between 0 and 1, got {q}")
    return total(self, reducer, dim, keepdim, reduce, key_transform, q=q, interpolation=interpolation)


def indexed(
    self: Pointwise, reducer: Reducer, dim: Any, keepdim: bool, reduce: bool | None, return_indices: bool
) -> Any:
    """One of the reduced elements, and its position if one dim is given."""
    _ask(keepdim, reduce, return_indices)
    dense: Pointwise = self._solid()
    name = reducer.name
    if dim is None:
        if keepdim:
            raise ArgumentError(
                f"{name}: keepdim=True needs a dim; `a{name}(keepdim=True)` keeps all dims with size one"
            )
        return total(dense, reducer, None, False, reduce)
    if isinstance(dim, str) and dim == FEATURE:
        raise ArgumentError(f'{name}: event dims have no single position; use `a{name}(dim="feature")`')
    at = one_dim(dense, dim, name, f"several dims have no single position: use `a{name}({dim!r})`")
    if reduce:
        return _pair(reducer.function(concatenate_leaves(dense._twin(), (at,), name), at, keepdim), return_indices)
    size, names = reduced_size(dense._batch_size, (at,), keepdim), reduced_names(dense._names, (at,), keepdim)
    function = partial(reducer.function, dim=at, keepdim=keepdim)
    return _pairs(dense, function, name, size, names, return_indices)


def running(self: Pointwise, reducer: Reducer, dim: Any, reduce: bool | None, return_indices: bool) -> Any:
    """One element for each prefix along one batch dim, and its position."""
    _ask(False, reduce, return_indices)
    dense: Pointwise = self._solid()
    at = one_dim(dense, dim, reducer.name, "call it once for each dim")
    if reduce:
        return _pair(reducer.function(concatenate_leaves(dense._twin(), (at,), reducer.name), at), return_indices)
    function = partial(reducer.function, dim=at)
    return _pairs(dense, function, reducer.name, dense._batch_size, dense._names, return_indices, False)


def test(self: Pointwise, reducer: Reducer, dim: Any, keepdim: bool) -> Any:
    """Whether all or any elements are true: a bool for everything, bool leaves for given dims."""
    if keepdim is not False:
        flag(keepdim=keepdim)
    found = _quick(self, reducer, dim, False) if type(dim) is int and not keepdim else None
    if found is not None:
        return found
    if dim is None:
        if keepdim:
            raise ArgumentError(f"{reducer.name}: keepdim=True needs a dim; without one the result is a Python bool")
        return verdict(self._leaves(VALUES), reducer)
    dense: Pointwise = self._solid()
    if is_feature(dense, dim, keepdim, reducer.name):
        return _events(dense, reducer, {})
    return _over_batch(dense, reducer, named_dims(dense, dim, reducer.name), keepdim, {}, False)


def logsumexp(self: Pointwise, reducer: Reducer, dim: Any, keepdim: bool, out: Any) -> Any:
    """Reduce over batch dims only; by default over all of them."""
    flag(keepdim=keepdim)
    dense: Pointwise = self._solid()
    dims = named_dims(dense, range(len(dense._batch_size)) if dim is None else dim, reducer.name)
    return _deliver(_over_batch(dense, reducer, dims, keepdim, {}, True), out)


def softmax(self: Pointwise, reducer: Reducer, dim: Any, dtype: torch.dtype | None) -> Any:
    """Apply along one batch dim; shapes don't change."""
    found = _quick(self, reducer, dim, True, True) if type(dim) is int and dtype is None else None
    if found is not None:
        return found
    dense: Pointwise = self._solid()
    at = one_dim(dense, dim, reducer.name, "call it once for each dim, or merge the dims first with `flatten`")
    twin, leaves, functions = _batched_parts(dense, reducer.name, False, partial(torch.softmax, dim=at, dtype=dtype))
    new = each(twin, reducer.name, leaves, functions)
    if dtype is not None:
        _require_declared(twin, leaves, new, reducer.name)
    return twin._refill(new, twin._batch_size, twin._names, VALUES)


def norm(
    self: Pointwise, reducer: Reducer, out: Any, dtype: torch.dtype | None, key_transform: KeyTransform | None
) -> Any:
    """Reduce over everything."""
    return _deliver(total(self, reducer, None, False, None, key_transform, dtype=dtype), out)


def _deliver(result: Any, out: Any) -> Any:
    return result if out is None else type(out).copy_(out, result)


def _quick(self: Any, reducer: Reducer, dim: int, declared: bool, stays: bool = False) -> Any:
    """Reduce one batch dim of plain tensors, keeping declared dtypes; None for the general path."""
    store: Any = self._store if self._layered else self  # reading its slots is faster
    facts: Any = self.__tensorclass__ if self._layered else None
    size, function = store._batch_size, reducer.function
    if store._stacked or store._names is not None or not -len(size) <= dim < len(size):
        return None
    at = dim % len(size)
    left = size if stays else torch.Size([*size[:at], *size[at + 1 :]])
    typed = declared and facts is not None
    leaves: list[Tensor] = []
    try:
        if typed and facts.floats and (not facts.nested or self._is_rigid(True)):  # pyright: ignore[reportOptionalMemberAccess]  # typed
            dense = store._solid() if facts.nested else store  # pyright: ignore[reportOptionalMemberAccess]  # typed
            return self._wrap(dense._each(function, left, None, VALUES, at))
        tensors = facts is not None and facts.rigid and not facts.nested
        if tensors and not declared and type(store) is self._dense:
            return store._each(function, left, None, VALUES, at)  # only tensors with batch dims, and objects
        twin = store._pair_leaves(store, leaves, [])
        if twin is None:
            return None
        new = [function(leaf, at) for leaf in leaves]
    except (RuntimeError, IndexError):  # the general path names the leaf
        return None
    free = not declared or (twin._plain and not typed)  # of declarations
    if not free and [v.dtype for v in leaves] != [v.dtype for v in new]:
        return None
    result = (twin if declared else untyped_copy(twin))._refill(new, left, None, VALUES)
    return self._wrap(result) if typed else result


# ---- containers of results -------------------------------------------------------------------------------------------


def _batched_parts(
    self: C, op: str, regroups: bool, function: Function
) -> tuple[C, list[Tensor], Function | list[Function | None]]:
    """A twin, the leaves, and the function; or one function per leaf, None for leaves without batch dims."""
    leaves: list[Tensor] = []
    twin = self._open(leaves, VALUES)
    if twin._plain:
        return twin, leaves, function
    ndims = batch_ndims(twin, op, regroups)
    if None not in ndims:
        return twin, leaves, function
    return twin, leaves, [None if ndim is None else function for ndim in ndims]


def _everything(self: Pointwise, reducer: Reducer, keepdim: bool, options: Options) -> Any:
    leaves: list[Tensor] = []
    twin = self._open(leaves, VALUES)
    batch_ndims(twin, reducer.name, True)
    if keepdim:
        functions = [reduce_along(reducer, tuple(range(leaf.ndim)), True, options) for leaf in leaves]
    else:
        functions = [partial(reducer.function, **options) if options else reducer.function] * len(leaves)
    new = each(twin, reducer.name, leaves, functions)
    structure = untyped_copy(twin, ones if keepdim else lambda size: EMPTY)
    lead = _lead(options) if keepdim else EMPTY
    return _stand(structure, new, structure._batch_size, structure._names, lead)


def _events(self: Pointwise, reducer: Reducer, options: Options) -> Any:
    lead = _lead(options)
    leaves: list[Tensor] = []
    twin = self._open(leaves, VALUES)
    ndims = batch_ndims(twin, reducer.name, bool(lead))
    spans = [tuple(range(ndim or 0, leaf.ndim)) for leaf, ndim in zip(leaves, ndims, strict=True)]
    new = each(twin, reducer.name, leaves, [reduce_along(reducer, dims, False, options) for dims in spans])
    return _stand(untyped_copy(twin), new, twin._batch_size, twin._names, lead)


def _over_batch(
    self: Pointwise, reducer: Reducer, dims: tuple[int, ...], keepdim: bool, options: Options, declared: bool
) -> Any:
    """A twin; typed if the declaration covers the result."""
    twin, leaves, functions = _batched_parts(self, reducer.name, True, reduce_along(reducer, dims, keepdim, options))
    new = each(twin, reducer.name, leaves, functions)
    if declared:
        _require_declared(twin, leaves, new, reducer.name)
    size, names = reduced_size(twin._batch_size, dims, keepdim), reduced_names(twin._names, dims, keepdim)
    return _stand(twin if declared else untyped_copy(twin), new, size, names, _lead(options))


def _pairs(
    self: Pointwise,
    function: Function,
    op: str,
    size: torch.Size,
    names: Names,
    return_indices: bool,
    regroups: bool = True,
) -> Any:
    """Values in a twin; indices in an untyped container, since they have other dtypes and fewer entries."""
    twin, leaves, functions = _batched_parts(self, op, regroups, function)
    found = each(twin, op, leaves, functions)
    reduced = [True] * len(leaves) if callable(functions) else [given is not None for given in functions]
    values = [pair[0] if given else pair for pair, given in zip(found, reduced, strict=True)]
    if not return_indices:
        return twin._refill(values, size, names, VALUES)
    indices = [pair[1] for pair, given in zip(found, reduced, strict=True) if given]
    places = untyped_copy(twin, tensors_only=True)._make(indices, size, names, VALUES)
    return Extrema(twin._refill(values, size, names, VALUES), places)


def _pair(found: Any, return_indices: bool) -> Any:
    return Extrema(found[0], found[1]) if return_indices else found[0]


def _lead(options: Options) -> torch.Size:
    """The leading dims of every result: for several quantiles."""
    q = options.get("q")
    return q.shape if isinstance(q, Tensor) else EMPTY


def _stand(structure: Any, new: Sequence[Tensor], size: torch.Size, names: Names, lead: torch.Size) -> Any:
    if lead:
        size, names = lead + size, None if names is None else (None,) * len(lead) + names
    return structure._refill(new, size, names, VALUES)


def _require_declared(self: Pointwise, old: list[Tensor], new: Sequence[Tensor], op: str) -> None:
    """Let a typed class check the result: event shapes are unchanged, dtypes may differ."""
    if [leaf.dtype for leaf in old] != [leaf.dtype for leaf in new]:
        self._accept(old, [b.new_empty(()).expand(a.shape) for a, b in zip(old, new, strict=True)], op)
