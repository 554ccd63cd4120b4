"""Operands: each becomes one value per leaf of the container, aligned by key and by batch dim."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import FunctionType
from typing import Any, ClassVar, Final, Literal, TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor

from ..core import (
    VALUES,
    Handler,
    Path,
    TensorCollection,
    TensorEntry,
    broadcasts_to,
    join_path,
    over_events,
    store_of,
    typed_within,
    without_stack,
)
from ..errors import ArgumentError, BatchSizeError, KeySetError, SchemaError, StructureError, did_you_mean
from ._inplace import InplaceOps
from ._lengths import in_stacks, require_same_lengths
from ._writable import rank

Operand: TypeAlias = "TensorCollection | Tensor | complex | np.number[Any] | np.bool_"
"""The operand of an operation: a container with the same keys, a tensor over the batch, or a number."""
Default: TypeAlias = "Tensor | complex | Literal['intersection'] | None"
"""The replacement for an entry that only one operand has."""

P = TypeVar("P", bound="Pointwise")
Layout: TypeAlias = "tuple[str | Path, ...]"
Right: TypeAlias = "list[Tensor] | Tensor | complex"
NUMBERS: Final = (int, float, complex, torch.SymInt, torch.SymFloat, torch.SymBool)
SCALARS: Final = (*NUMBERS, np.number, np.bool_)
OPERANDS: Final = (TensorCollection, Tensor, *SCALARS)


class Pointwise(InplaceOps):
    """The methods that kernels need of a container besides the primitives."""

    __slots__ = ()
    _operators: ClassVar[dict[str, Handler]] = {}

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Route Python operators of torch by name, since dynamo can't look such functions up in a dict."""
        handler = cls._torch_functions.get(func) or cls._operators.get(func.__name__)
        if handler is not None:
            return handler(*args, **kwargs) if kwargs else handler(*args)
        return super().__torch_function__(func, types, args, kwargs)

    def _layout(self) -> Layout:
        """The key or path of each `VALUES` leaf, in order; a store overrides this if it can compute it faster."""
        paths: list[str | Path] = []
        for key, value in self._entries().items():
            if isinstance(value, Tensor):
                paths.append(key)
            elif isinstance(value, Pointwise):
                paths += [(key, path) if isinstance(path, str) else (key, *path) for path in value._layout()]
            elif isinstance(value, TensorEntry):
                paths += [key] * len(value._leaves(VALUES))
        return tuple(paths)

    def _accept(self, old: Sequence[Tensor], new: Sequence[Tensor], op: str, other: object = ...) -> None:
        """Refuse what the declaration of a typed instance, at any depth, does not allow."""
        for path, inner, at in typed_within(self):
            try:
                inner._accept(old[at], new[at], op, other)
            except SchemaError as error:
                below = [problem._replace(path=f"{path}.{problem.path}") for problem in error.problems]
                raise SchemaError.of(type(inner).__name__, below) from None


def operation(receiver: TensorCollection, name: str) -> Any:
    """The function of an operation, even if a field or a method of the user's class has the same name."""
    found = getattr(type(receiver), name)
    if _is_ours(found):
        return found
    members = (vars(base).get(name) for base in type(receiver).__mro__)
    return next(member for member in members if _is_ours(member))


def _is_ours(member: object) -> bool:
    return isinstance(member, FunctionType) and member.__module__.startswith("tensorclass.")


def operand(self: Pointwise, leaves: list[Tensor], other: Any, op: str, layout: Layout | None = None) -> Right:
    """An operand aligned with the leaves: a list with one tensor each, a 0-d tensor or a number.

    Pass the layout of the leaves if another thread may have changed that of the container.
    """
    if isinstance(other, TensorCollection):
        return align_leaves(self, leaves, other, op, layout)
    if isinstance(other, Tensor):
        return _spread(self, other, op) if other.ndim else _scalar(self, leaves, other)
    if isinstance(other, NUMBERS):
        return other  # type: ignore[return-value]  # a symbolic number
    if isinstance(other, (np.number, np.bool_)):
        return other.item()  # type: ignore[no-any-return]  # numpy types it as Any
    raise ArgumentError(
        f"{op}: an operand is a container of the same keys, a tensor that broadcasts to the batch size or a number, "
        f"got {type(other).__name__}: {other!r:.60}"
    )


def _scalar(self: Pointwise, leaves: list[Tensor], other: Tensor) -> Right:
    """A 0-d tensor. With members without dims it is promoted as with their stack, which has dims."""
    if 0 not in [leaf.ndim for leaf in leaves]:
        return other
    rows = zip(leaves, in_stacks(self), strict=True)
    cast = [stacked and not leaf.ndim and rank(leaf) == rank(other) for leaf, stacked in rows]
    if not any(cast):
        return other
    return [other.to(leaf.dtype) if wanted else other for leaf, wanted in zip(leaves, cast, strict=True)]


def _spread(self: Pointwise, other: Tensor, op: str) -> list[Tensor]:
    """A tensor over the batch dims, with event dims of size one added for each leaf."""
    size = torch.Size([1 if n == -1 else n for n in self._batch_size])
    if not broadcasts_to(other.shape, size):
        raise BatchSizeError(
            f"{op}: a tensor operand broadcasts to the batch size {list(self._batch_size)} without enlarging it and is "
            f"applied to all event dims alike, got shape {list(other.shape)}; combine one field with it instead, or "
            "expand the batch first"
        )
    found: list[Any] = self._broadcast(other)
    if True in [value is None for value in found]:
        path = show(self._layout()[[value is None for value in found].index(True)])
        raise StructureError(
            f"{op}: `{path}` has no batch dims, so a tensor over the batch can't be applied to it; give a number, "
            "or a container with one value for each entry"
        )
    return found


def arrange_leaves(mine: Any, other: Any) -> Any:
    """Another container with its leaves in the order of those of `mine`, if one of them is a lazy stack."""
    mine = store_of(mine)
    if mine._stacked:
        return mine._arrange_members(other)
    other = without_stack(other)
    for key, value in mine._outline().copy().items():
        partner = other._outline().get(key)
        if isinstance(value, Pointwise) and isinstance(partner, Pointwise) and value._layout() != partner._layout():
            other = other._twin()
            other._put(key, arrange_leaves(value, partner))
    return other


def pair_leaves(self: P, other: P, mine: list[Tensor], theirs: list[Tensor]) -> P | None:
    """A twin. Its leaves, and those of another container of the class, are appended to lists; None if ranks differ."""
    own = self._pair_leaves(other, mine, theirs) if self._batch_size == other._batch_size else None
    if own is None or own._is_rigid() or [v.ndim for v in mine] == [v.ndim for v in theirs]:
        return own
    return None


def align_leaves(
    self: Pointwise, leaves: list[Tensor], other: Any, op: str, layout: Layout | None = None
) -> list[Tensor]:
    """The leaves of the other container in the order of one's own, by key."""
    self._meet(other, op)
    mine = self._layout() if layout is None else layout
    table = other._tensors_by_key()
    theirs: list[Tensor] = [] if table is None else list(table.values())
    if table is None:
        other = other._open(theirs, VALUES)
    there: Layout = other._layout() if table is None else tuple(table)
    if mine != there:
        other = other._twin()
        other = arrange_leaves(self, other)
        theirs, there = other._leaves(VALUES), other._layout()
    if mine != there:
        _require_same_keys(self, other, mine, there, op)
        found = dict(zip(there, theirs, strict=True))
        theirs = [found[path] for path in mine]
    if self._batch_size != other._batch_size or [v.ndim for v in leaves] != [v.ndim for v in theirs]:
        _require_aligned(self, other, mine, leaves, theirs, op)
    if table is None and op != "where":  # it selects whole elements
        require_same_lengths(self, other, op)
    return theirs


def as_large(self: P, other: Any, op: str, snapshot: bool) -> tuple[P, Any]:
    """Two operands: the left one expanded to the size of both; a snapshot of the right one if its objects matter."""
    mine, theirs = self._batch_size, other._batch_size
    if mine != theirs and not broadcasts_to(theirs, mine):
        try:
            size = torch.broadcast_shapes(mine, theirs)
        except RuntimeError:
            raise unaligned_error(mine, theirs, op) from None
        large: P = operation(self, "expand")(self, size)
    else:
        large = self
    met = large if large._stacked else _met_below(large, other, op)
    return met, other._open([], VALUES) if snapshot else other


def _met_below(self: P, other: Any, op: str) -> P:
    """A container with nested containers expanded to the size of both."""
    twin: Any = None
    for key, value in self._outline().items():
        partner = other._outline().get(key) if isinstance(value, Pointwise) else None
        if isinstance(partner, Pointwise):
            larger, _ = as_large(value, partner, op, False)
            if larger is not value:
                twin = self._twin() if twin is None else twin
                twin._put(key, larger)
    return self if twin is None else twin


def _require_same_keys(self: Pointwise, other: Any, mine: Layout, theirs: Layout, op: str) -> None:
    left, right = set(mine), set(theirs)
    if left == right:
        return
    raise different_entries(
        self, other, op, [p for p in mine if p not in right], [p for p in theirs if p not in left], left - right
    )


def different_entries(
    self: Any, other: Any, op: str, left: Sequence[Any], right: Sequence[Any], nearby: Iterable[Any]
) -> KeySetError:
    """The error for entries that only one of two containers has; `nearby` are candidates for the nearest name."""
    names = [show(path) for path in nearby]
    hints = "".join(did_you_mean(show(path), names) for path in right[:3])
    if op in ("eq", "ne", "lt", "le", "gt", "ge"):
        ways = "add the missing ones, or `select` the keys that both have"
    elif op == "where":
        ways = "`where(..., pad=0)` fills in absent ones"
    else:
        ways = f'`{op.strip("_")}(..., default=0)` fills in absent ones, `default="intersection"` drops them'
    return KeySetError(
        f"{op}: both containers have the same entries; only the left {type(self).__name__} has {list_paths(left)}, "
        f"only the right {type(other).__name__} has {list_paths(right)}{hints}; {ways}"
    )


def unaligned_error(mine: torch.Size, theirs: torch.Size, op: str) -> StructureError:
    """The error for containers whose batch sizes don't fit."""
    return StructureError(
        f"{op}: the right container's batch size {list(theirs)} does not broadcast to the left's {list(mine)}; "
        "index or expand one of them first"
    )


def _require_aligned(
    self: Pointwise, other: Any, layout: Layout, left: list[Tensor], right: list[Tensor], op: str
) -> None:
    """Refuse leaves whose numbers of event dims differ: torch would align an event dim with a batch dim."""
    mine, theirs = self._batch_size, other._batch_size
    if not broadcasts_to(theirs, mine):
        raise unaligned_error(mine, theirs, op)
    if not (mine or theirs or self._layered or other._layered):
        return  # without batch dims, events broadcast as torch does
    alone = not (theirs or self._layered or other._layered)  # then fewer event dims broadcast, too
    for path, a, b in zip(layout, left, right, strict=True):
        more = a.ndim - len(mine) - (b.ndim - len(theirs))
        if more and not (alone and more > 0):
            raise StructureError(
                f"{op}: `{show(path)}` has event shape {list(a.shape[len(mine) :])} on the left and "
                f"{list(b.shape[len(theirs) :])} on the right; leaves that are combined have the same number of dims"
            )


# ---- entries that only one side has ----------------------------------------------------------------------------------


def pair(
    self: Pointwise, other: Any, op: str, default: Default = None
) -> tuple[tuple[Pointwise, list[Tensor]], list[Any]]:
    """Both operands leaf by leaf, and the container with the structure of the result."""
    leaves = self._leaves(VALUES)
    if default is not None and isinstance(other, TensorCollection):
        return merge_operands(self, other, op, default)
    right = operand(self, leaves, other, op)
    return (self, leaves), right if isinstance(right, list) else [right] * len(leaves)


def merge_operands(
    self: Pointwise, other: Any, op: str, default: Default
) -> tuple[tuple[Pointwise, list[Tensor]], list[Tensor]]:
    """Operands with absent entries filled in or dropped, and a container with the resulting structure."""
    self._meet(other, op)
    left = dict(zip(self._layout(), self._leaves(VALUES), strict=True))
    theirs: list[Tensor] = []
    other = other._open(theirs, VALUES)
    right = dict(zip(other._layout(), theirs, strict=True))
    common = [path for path in left if path in right]
    if left.keys() != right.keys() and (self._stacked or other._stacked):
        return merge_operands(without_stack(self), without_stack(other), op, default)
    if left.keys() == right.keys():
        return (self, list(left.values())), align_leaves(self, list(left.values()), other, op)
    _require_aligned(self, other, tuple(common), [left[p] for p in common], [right[p] for p in common], op)
    require_same_lengths(self, other, op)
    if isinstance(default, str):
        _require_intersection(default, op)
        template = _assemble_operand(self, None, {path: left[path] for path in common}, ())
    else:
        if self._batch_size != other._batch_size:
            raise StructureError(f"{op}: with a default both containers have the same batch size")
        template = _assemble_operand(self, other, {**right, **left}, ())
    paths = template._layout()
    lefts = [left[p] if p in left else _default_counterpart(self, right[p], default, op) for p in paths]
    return (template, lefts), [
        right[p] if p in right else _default_counterpart(self, left[p], default, op) for p in paths
    ]


def partial(
    self: Pointwise, leaves: list[Tensor], other: Any, op: str, default: Default
) -> tuple[Layout, list[Tensor], tuple[Right, ...]]:
    """The leaves that an in-place operation with a default writes: only its own."""
    self._meet(other, op)
    left = dict(zip(self._layout(), leaves, strict=True))
    theirs: list[Tensor] = []
    other = other._open(theirs, VALUES)
    right = dict(zip(other._layout(), theirs, strict=True))
    common = [path for path in left if path in right]
    _require_aligned(self, other, tuple(common), [left[p] for p in common], [right[p] for p in common], op)
    require_same_lengths(self, other, op)
    if isinstance(default, str):
        _require_intersection(default, op)
        return tuple(common), [left[p] for p in common], ([right[p] for p in common],)
    if len(common) < len(right):
        extra = list_paths(p for p in right if p not in left)
        raise KeySetError(f"{op}_: an in-place operation adds no entries, only the right container has {extra}")
    filled = [right[p] if p in right else _default_counterpart(self, left[p], default, op) for p in left]
    return tuple(left), leaves, (filled,)


def _require_intersection(default: str, op: str) -> None:
    if default != "intersection":
        raise ArgumentError(f"{op}: default is a number, a tensor, 'intersection' or None, got {default!r}")


def _default_counterpart(self: Pointwise, like: Tensor, default: Any, op: str) -> Tensor:
    """A default as the counterpart of a leaf of the other operand."""
    if not isinstance(default, Tensor):
        return torch.as_tensor(default, device=like.device)
    if not broadcasts_to(default.shape, self._batch_size):
        raise BatchSizeError(
            f"{op}: a default broadcasts to the batch size {list(self._batch_size)}, got shape {list(default.shape)}"
        )
    return over_events(default, like.ndim - len(self._batch_size))


def _assemble_operand(
    self: TensorCollection, other: TensorCollection | None, leaves: dict[Any, Tensor], prefix: Path
) -> Pointwise:
    """An untyped container of the entries with a leaf, and of entries that are not tensors."""
    result: Any = self._bare(self._batch_size, self._names)
    entries = {**({} if other is None else other._entries()), **self._entries()}
    order = [*self._entries(), *(key for key in entries if key not in self._entries())]
    for key in order:
        value, path = entries[key], (*prefix, key)
        leaf = leaves.get(path if prefix else key)
        if isinstance(value, TensorCollection):
            partner = other._entries().get(key) if other is not None and key in self._entries() else None
            nested = partner if isinstance(partner, TensorCollection) else None
            result._put(key, _assemble_operand(value, nested, leaves, path))
        elif isinstance(value, Tensor):
            if leaf is not None:
                result._put(key, leaf)
        elif leaf is not None or not (isinstance(value, TensorEntry) and value._leaves(VALUES)):
            result._put(key, value)
    return result  # type: ignore[no-any-return]  # the result of `_bare` has the operations


def show(path: str | Path) -> str:
    return path if isinstance(path, str) else join_path(path)


def list_paths(paths: Any) -> str:
    return ", ".join(f"`{show(path)}`" for path in paths) or "no more"
