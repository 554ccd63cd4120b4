"""Batch dims: how many there are, and their sizes or the names that a function gives them; what changes make of them.

None is an unknown size. Imports no part of mypy that checks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from mypy import nodes

from ..._dims import Dim, Dims
from ._torch_table import KINDS


@dataclass(frozen=True)
class NamedSize:
    """A dim that the annotations of a function name."""

    scope: nodes.Node
    name: str
    more: int = 0
    """What is added to the dim: -1 in `t-1`."""

    def __str__(self) -> str:
        return f"{self.name}{self.more:+}" if self.more else self.name


BatchDim = int | NamedSize | None
BatchDims = tuple[BatchDim, ...]


def shown(dims: BatchDims) -> str:
    """The dims in messages: `[t, 4, ?]`."""
    return f"[{', '.join('?' if dim is None else str(dim) for dim in dims)}]"


def sizes_in(dims: Dims, size_of_name: Callable[[str], BatchDim]) -> BatchDims | None:
    """The sizes of declared dims; None if their number is open."""
    return None if dims.variadic is not None else tuple(size_in(token, size_of_name) for token in dims.tokens)


def size_in(token: object, size_of_name: Callable[[str], BatchDim]) -> BatchDim:
    """The size that a dim of an annotation has; of expressions, `t-1` and those of numbers are known. None for `_`."""
    if not isinstance(token, Dim):
        return None
    sizes = {name: size_of_name(name) for name in token.size.names}
    numbers = {name: size for name, size in sizes.items() if isinstance(size, int)}
    if len(numbers) == len(sizes):
        try:
            return token.size.value(numbers)
        except ZeroDivisionError:
            return None  # which is an error at run time, where it names the dim
    only = next(iter(sizes.values())) if len(sizes) == 1 else None
    more = None if only is None else (token.size - token.size.names[0]).constant
    return None if more is None else grown(only, more)


def grown(size: BatchDim, more: int) -> BatchDim:
    """A size to which a number is added."""
    if isinstance(size, NamedSize):
        return replace(size, more=size.more + more)
    return None if size is None else size + more


def total_size(sizes: Sequence[BatchDim]) -> BatchDim:
    """The sum of sizes; None if more than one of them has no number."""
    other = [size for size in sizes if not isinstance(size, int)]
    number = sum(size for size in sizes if isinstance(size, int))
    if len(other) > 1:
        return None
    return grown(other[0], number) if other else number


def sliced_size(size: BatchDim, begin: int | None, end: int | None, step: int | None) -> BatchDim:
    """The size of a slice; a dim with a name is taken to be longer than what is cut off."""
    if isinstance(size, int):
        return len(range(*slice(begin, end, step).indices(size)))
    cut = step in (None, 1) and (begin or 0) >= 0 and (end is None or end < 0)
    return grown(size, (end or 0) - (begin or 0)) if cut else None


# ---- changes ---------------------------------------------------------------------------------------------------------


def reshaped_batch(dims: BatchDims, sizes: tuple[int | None, ...]) -> BatchDims:
    """After `reshape`; a size of -1 is found where all others are known."""
    known, others = [size for size in dims if isinstance(size, int)], [size for size in sizes if size != -1]
    numbers = [size for size in others if size is not None]
    certain = len(known) == len(dims) and len(numbers) == len(others) and prod(numbers) > 0
    rest = prod(known) // prod(numbers) if certain else None
    return tuple(rest if size == -1 else size for size in sizes)


def expanded_batch(dims: BatchDims, sizes: tuple[int | None, ...]) -> BatchDims | None:
    """After `expand`, in which -1 keeps a size."""
    if len(sizes) < len(dims):
        return None
    own = (*(None,) * (len(sizes) - len(dims)), *dims)
    return tuple(old if new == -1 else new for new, old in zip(sizes, own, strict=True))


def permuted_batch(dims: BatchDims, order: tuple[int | None, ...]) -> BatchDims | None:
    """After `permute`."""
    places = [dim % len(dims) for dim in order if dim is not None and -len(dims) <= dim < len(dims)]
    return tuple(dims[at] for at in places) if len(places) == len(order) == len(dims) == len({*places}) else None


def _flattened(dims: BatchDims, start: int, end: int) -> BatchDims | None:
    count = len(dims)
    if not (-count <= start < count and -count <= end < count) or start % count >= end % count:
        return None
    merged = dims[start % count : end % count + 1]
    known = [size for size in merged if isinstance(size, int)]
    return (*dims[: start % count], prod(known) if len(known) == len(merged) else None, *dims[end % count + 1 :])


def _unsqueezed(dims: BatchDims, dim: int) -> BatchDims | None:
    at = dim if dim >= 0 else dim + len(dims) + 1
    return (*dims[:at], 1, *dims[at:]) if 0 <= at <= len(dims) else None


def _squeezed(dims: BatchDims, dim: int) -> BatchDims | None:
    at = dim if dim >= 0 else dim + len(dims)
    if not 0 <= at < len(dims) or not isinstance(dims[at], int):
        return None
    return (*dims[:at], *dims[at + 1 :]) if dims[at] == 1 else dims


def _reduced_dims(dims: BatchDims, dim: int, keep: int) -> BatchDims | None:
    at = dim if dim >= 0 else dim + len(dims)
    if not 0 <= at < len(dims):
        return None
    kept = (1,) if keep else ()
    return (*dims[:at], *kept, *dims[at + 1 :])


def _swapped(dims: BatchDims, one: int, other: int) -> BatchDims | None:
    order = [*range(len(dims))]
    if not all(-len(dims) <= dim < len(dims) for dim in (one, other)):
        return None
    order[one], order[other] = order[other], order[one]
    return tuple(dims[at] for at in order)


_REDUCTIONS: Final = ("sum", "prod", "mean", "std", "var", "nansum", "nanmean", "amin", "amax")
RESHAPES: Final[dict[str, Callable[[BatchDims, tuple[int | None, ...]], BatchDims | None]]] = {
    "reshape": reshaped_batch,
    "view": reshaped_batch,
    "expand": expanded_batch,
    "permute": permuted_batch,
}
"""Methods that take sizes or dims, one by one or as one sequence."""
PLACED: Final[dict[str, tuple[Callable[..., BatchDims | None], tuple[tuple[str, int | None], ...]]]] = {
    "flatten": (_flattened, (("start_dim", 0), ("end_dim", -1))),
    "unsqueeze": (_unsqueezed, (("dim", None),)),
    "squeeze": (_squeezed, (("dim", None),)),
    "transpose": (_swapped, (("dim0", None), ("dim1", None))),
    **dict.fromkeys(_REDUCTIONS, (_reduced_dims, (("dim", None), ("keepdim", 0)))),
}
"""Methods that take single dims, with the names of these parameters and their defaults."""
_ELEMENTWISE: Final = ("same", "magnitude", "clamped", "squared", "floating", "boolean", "arithmetic", "division")
_CASTS: Final = ("to", "float", "double", "half", "bfloat16", "int", "long", "copy")
_WRITES: Final = ("replace", "update", "update_", "set", "set_", "lock_", "unlock_")
KEEPING: Final = frozenset({name for name, kind in KINDS.items() if kind in _ELEMENTWISE} | {*_CASTS, *_WRITES})
"""Methods whose result has the batch dims of the instance."""
