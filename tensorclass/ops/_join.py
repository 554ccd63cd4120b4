"""Joining containers and cutting them apart along batch dims."""

# Operations call each other through the class: pyright infers the mixin as their result, mypy infers Self.
# pyright: reportReturnType=false

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any, ClassVar, Protocol, TypeVar, overload

import torch
from torch import Tensor
from typing_extensions import Self

from .._flags import flags
from ..core import (
    Entry,
    Exactly,
    K,
    Key,
    Names,
    Path,
    TensorCollection,
    are_objects,
    as_int,
    as_items,
    batch_dim,
    join_path,
    publish,
    store_of,
    too_few_dims,
    unravel_key_to_tuple,
    without_stack,
)
from ..errors import ArgumentError, BatchDimError, BatchSizeError, KeySetError, StructureError, defined_again
from ._compare import same_atom, same_object
from ._distributed import reason_of_mixture, refuse_distributed
from ._inplace import InplaceOps
from ._lengths import Ragged, has_lengths
from ._mapping import MappingOps
from ._names import unify_names
from ._pieces import chunk_sizes, split_levels
from ._shape import ShapeOps

Joiner = Callable[..., Tensor]
C = TypeVar("C", bound=TensorCollection)
C_co = TypeVar("C_co", bound=TensorCollection, covariant=True)


class Joinable(Protocol[C_co, K]):
    """For checkers: a list or tuple of containers of the same class, named or not."""

    @overload
    def __getitem__(self, index: int, /) -> Exactly[K]: ...

    @overload
    def __getitem__(self, index: slice, /) -> Sequence[object]: ...

    def __iter__(self) -> Iterator[C_co]: ...

    def __len__(self) -> int: ...


@flags
class JoinOps(ShapeOps):
    """`stack`, `cat`, `split`, `unbind` and related methods."""

    __slots__ = ()
    _joins_plainly: ClassVar[bool] = True
    """Whether tensors of a key are always joined by the torch function; False for a class with join policies."""
    _keeps_objects: ClassVar[bool] = False
    """Whether equal Python objects always become one value; in an untyped stack they become one per element."""

    # ---- joining -------------------------------------------------------------------------------------------------

    @classmethod
    def _join(cls, items: Sequence[Any], dim: int, size: torch.Size, names: Names, how: Join) -> Any:
        """Join containers of one class entry by entry; a class may have a policy for a field."""
        first = items[0]
        entries = [item._live() for item in items]
        keys = entries[0].keys()
        for position, other in enumerate(entries):
            if len(other) != len(keys) or other.keys() != keys:
                raise how.different_keys(keys, other.keys(), position)
        how.sizes, how.cls = [item._batch_size for item in items], cls
        data = {key: how.entry(key, [other[key] for other in entries], dim) for key in list(keys)}
        return first._from_entries(data, size, first._device, names)

    @classmethod
    def _join_objects(cls, key: str, values: list[Any], dim: int, how: Join) -> Any:
        """Join Python objects that batches share; in an untyped container they may differ."""
        if how.are_same(values):
            return values[0]
        raise how.different_objects(key, values)

    @classmethod
    def stack(cls, input: Joinable[C, K], dim: int = 0, *, out: C | None = None) -> C:
        """Join containers along a new batch dim.

        Args:
            input: containers with the same class, keys, batch size and event shapes.
            dim: the position of the new dim, from 0 to the number of batch dims.
            out: a container that receives the result.

        Raises:
            StructureError: for different classes, keys or event shapes; names the field.
            BatchSizeError: for different batch sizes.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict(a=torch.zeros(3), batch_size=[3])
        >>> TensorDict.stack([data, data], 1)["a"].shape
        torch.Size([3, 2])
        """
        return stack(input, dim, out=out)

    @classmethod
    def cat(cls, input: Joinable[C, K], dim: int = 0, *, out: C | None = None) -> C:
        """Join containers along an existing batch dim.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict(a=torch.zeros(3), batch_size=[3])
        >>> TensorDict.cat([data, data])["a"].shape
        torch.Size([6])
        """
        return cat(input, dim, out=out)

    def _tensors(self, keys: Sequence[Key] | None) -> list[Tensor]:
        if keys is None:
            return [value for value in MappingOps.values(self, True, True) if isinstance(value, Tensor)]
        return [self._read(unravel_key_to_tuple(key)) for key in keys]

    def _ordered_leaves(self, sorted: bool | Sequence[Key] | None) -> list[Tensor]:
        """All leaves in lexical order of their keys (the default), in insertion order, or in the given order."""
        if sorted is None or isinstance(sorted, bool):
            keys = MappingOps.keys(self, True, True, sort=sorted is not False)
            return self._tensors(list(keys))
        return self._tensors(sorted)

    def stack_from_tensordict(
        self, dim: int = 0, *, sorted: bool | Sequence[Key] | None = None, out: Tensor | None = None
    ) -> Tensor:
        """Stack all entries into one tensor.

        Args:
            dim: the position of the new dim in the result.
            sorted: True (default) for lexical order of the keys, False for insertion order, or the keys in order.
            out: a tensor that receives the result.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(2), b=torch.ones(2), batch_size=[2]).stack_from_tensordict(1)
        tensor([[0., 1.],
                [0., 1.]])
        """
        return torch.stack(self._ordered_leaves(sorted), dim, out=out)

    def cat_from_tensordict(
        self, dim: int = 0, *, sorted: bool | Sequence[Key] | None = None, out: Tensor | None = None
    ) -> Tensor:
        """Concatenate all entries into one tensor; arguments as for `stack_from_tensordict`.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(3), b=torch.ones(3), batch_size=[3]).cat_from_tensordict()
        tensor([0., 0., 0., 1., 1., 1.])
        """
        return torch.cat(self._ordered_leaves(sorted), dim, out=out)

    def _join_entries(self, keys: tuple[Key, ...], out_key: Key, value: Tensor, keep: bool) -> Self:
        path = unravel_key_to_tuple(out_key)
        self._require_unlocked("write", join_path(path))
        gone = {unravel_key_to_tuple(key) for key in (() if keep else keys)} - {path}
        publish([*self._set_steps(path, value), *[step for old in gone for step in self._del_steps(old)]])
        return self

    def stack_tensors(self, *keys: Key, out_key: Key, dim: int = 0, keep_entries: bool = False) -> Self:
        """Stack several entries into a new one.

        Args:
            *keys: the entries, of one shape.
            out_key: the key of the result.
            dim: the position of the new dim, counted over all dims of the result; it must come after the batch dims.
            keep_entries: keep the entries that were stacked.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict(a=torch.zeros(2), b=torch.ones(2), batch_size=[2])
        >>> data.stack_tensors("a", "b", out_key="c", dim=-1)["c"]
        tensor([[0., 1.],
                [0., 1.]])
        """
        value = torch.stack(self._tensors(keys), dim)
        self._check(unravel_key_to_tuple(out_key)[-1], value)
        return self._join_entries(keys, out_key, value, keep_entries)

    def cat_tensors(self, *keys: Key, out_key: Key, dim: int = 0, keep_entries: bool = False) -> Self:
        """Concatenate several entries along an event dim into a new one; `dim` counts over all dims.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict(a=torch.zeros(2, 3), b=torch.ones(2, 1), batch_size=[2])
        >>> data.cat_tensors("a", "b", out_key="c", dim=1)["c"].shape
        torch.Size([2, 4])
        """
        value = torch.cat(self._tensors(keys), dim)
        self._check(unravel_key_to_tuple(out_key)[-1], value)
        return self._join_entries(keys, out_key, value, keep_entries)

    # ---- cutting -------------------------------------------------------------------------------------------------

    def _containers_of_pieces(
        self, at: int, cut: Callable[[Tensor, int], Sequence[Tensor]], names: Names, counts: Sequence[int] | None = None
    ) -> tuple[Self, ...]:
        """Containers from the pieces of every leaf; their sizes along the dim are those of an empty tensor's pieces."""
        store: Any = self._store if self._layered else self  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]  # as in `unbind`
        size = tuple(store._batch_size)
        counts = [piece.shape[at] for piece in cut(torch.empty((*size, 0)), at)] if counts is None else counts
        return self._as_pieces(store, cut, [torch.Size((*size[:at], n, *size[at + 1 :])) for n in counts], names, at)

    def _as_pieces(self, store: Any, cut: Any, sizes: Sequence[torch.Size], names: Names, at: int) -> tuple[Self, ...]:
        """Containers of these batch sizes from the pieces of every leaf of the store, as instances of this class."""
        made = split_levels(store, cut, sizes, names, at)
        if made is None:
            leaves: list[Tensor] = []
            twin = store._open(leaves)
            columns: Any = zip(*[cut(leaf, at) for leaf in leaves], strict=True) if leaves else [()] * len(sizes)
            made = [twin._make(column, size, names) for column, size in zip(columns, sizes, strict=True)]
        return tuple(map(self._wrap, made) if self._layered else made)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]  # a class over a store

    def split(self, split_size: int | Sequence[int], dim: int | str = 0) -> tuple[Self, ...]:
        """Split a batch dim into pieces of a size, or of given sizes, as views.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> [part.batch_size[0] for part in TensorDict(a=torch.zeros(5), batch_size=[5]).split(2)]
        [2, 2, 1]
        """
        if self._stacked:
            return self._run_on_stack("split", split_size, dim)  # type: ignore[no-any-return]  # a stack of this class
        at = self._dim(dim, "split")
        total = self._batch_size[at]
        split_size = as_int(split_size)
        if isinstance(split_size, int):
            if split_size <= 0 and not (split_size == 0 and total == 0):
                raise BatchSizeError(f"split: a piece has a positive size, got {split_size}")
            rest = total % split_size if total else 0
            sizes = [split_size] * (total // split_size) if total else []
            sizes += [rest] if rest or not total else []
        else:
            if isinstance(split_size, str) or not isinstance(split_size, Iterable):
                raise ArgumentError(f"split: pieces have a size, or a sequence of them, got {split_size!r:.200}")
            sizes = [as_int(n) for n in split_size]
            if any(n < 0 for n in sizes) or sum(sizes) != total:
                raise BatchSizeError(f"split: sizes {sizes} do not add up to {total}, the size of batch dim {at}")
        return self._containers_of_pieces(at, lambda leaf, at: leaf.split_with_sizes(sizes, at), self._names, sizes)

    def tensor_split(self, indices_or_sections: Any, dim: int | str = 0) -> tuple[Self, ...]:
        """Split a batch dim at given positions, or into a number of nearly equal pieces.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> [part.batch_size[0] for part in TensorDict(a=torch.zeros(5), batch_size=[5]).tensor_split([1, 3])]
        [1, 2, 2]
        """
        if self._stacked:
            return self._run_on_stack("tensor_split", indices_or_sections, dim)  # type: ignore[no-any-return]  # a stack of this class
        at = self._dim(dim, "tensor_split")
        return self._containers_of_pieces(at, lambda leaf, at: leaf.tensor_split(indices_or_sections, at), self._names)

    def chunk(self, chunks: int, dim: int | str = 0) -> tuple[Self, ...]:
        """Split a batch dim into at most `chunks` equal pieces; the last may be smaller.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> [part.batch_size[0] for part in TensorDict(a=torch.zeros(5), batch_size=[5]).chunk(2)]
        [3, 2]
        """
        if self._stacked:
            return self._run_on_stack("chunk", chunks, dim)  # type: ignore[no-any-return]  # a stack of this class
        at = self._dim(dim, "chunk")
        sizes = chunk_sizes(self._batch_size[at], chunks)
        return self._containers_of_pieces(at, lambda leaf, at: leaf.chunk(chunks, at), self._names, sizes)

    def unbind(self, dim: int | str = 0) -> tuple[Self, ...]:
        """One container for each position along a batch dim, as views.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> [row["a"].item() for row in TensorDict(a=torch.arange(3), batch_size=[3]).unbind(0)]
        [0, 1, 2]
        """
        store: Any = self._store if self._layered else self  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]  # reading its slots is faster
        if store._stacked:
            return self._run_on_stack("unbind", dim)  # type: ignore[no-any-return]  # a stack of this class
        at, sizes = store._dim(dim, "unbind"), [*store._batch_size]
        names = store._names and (*store._names[:at], *store._names[at + 1 :])
        count = sizes.pop(at)
        try:
            return self._as_pieces(store, torch.unbind, [torch.Size(sizes)] * count, names, at)
        except RuntimeError:  # DTensor has no unbind of a split dim
            refuse_distributed("unbind", self, self._leaves(), at)
            raise


class Join:
    """How the entries of several containers under a key are joined."""

    __slots__ = ("cls", "new_dim", "op", "path", "sizes", "torch_fn")
    cls: type[JoinOps]
    sizes: list[torch.Size]

    def __init__(self, op: str, torch_fn: Joiner, new_dim: bool, path: Path = ()) -> None:
        self.op: str = op
        self.torch_fn: Joiner = torch_fn
        self.new_dim: bool = new_dim
        self.path: Path = path

    def entry(self, key: str, values: list[Any], dim: int) -> Any:
        """Join the values of one key."""
        first = values[0]
        if isinstance(first, Tensor):
            if first.is_nested and len(self.sizes[0]) == 1:
                rows = [value if has_lengths(value) else Ragged.over(value) for value in values]
                if not any([row is None for row in rows]):
                    return Ragged.held(self.nodes(key, rows, dim))
            try:
                return self.torch_fn(values, dim)
            except (RuntimeError, TypeError) as error:
                raise self.mismatch(key, values) from error
        if isinstance(first, JoinOps):
            return self.containers(key, values, dim)
        if any(isinstance(value, Entry) for value in values):
            return self.nodes(key, values, dim)
        return self.cls._join_objects(key, values, dim, self)

    def containers(self, key: str, values: list[Any], dim: int) -> Any:
        """Join nested containers, which may have more batch dims than their parent."""
        inner = Join(self.op, self.torch_fn, self.new_dim, (*self.path, key))
        values = inner.as_one_class(values)
        size = joined_size([value._batch_size for value in values], dim, inner)
        return type(values[0])._join(values, dim, size, joined_names(values, dim, inner), inner)

    def nodes(self, key: str, values: list[Any], dim: int) -> Any:
        """Join entry nodes by their own rule."""
        if all(type(value) is type(values[0]) for value in values):
            return values[0]._join_nodes(values, dim, self, key)
        return self.cls._join_objects(key, values, dim, self)

    def are_same(self, values: Sequence[Any]) -> bool:
        """Whether all values are the same."""
        first = values[0]
        return all(same_object(value, first) for value in values)

    def different_objects(self, key: str, values: list[Any]) -> StructureError:
        """The error for shared values that differ."""
        first = values[0]
        at = next((i for i, value in enumerate(values) if not same_object(value, first)), 0)
        return StructureError(
            f"{self.op}: field `{self.at(key)}` is one value shared by the batch, and the values differ: "
            f"{first!r:.60} at position 0, {values[at]!r:.60} at position {at}. Declare it `PerElement[...]` to hold "
            "one value for each "
            "element"
        )

    def at(self, key: str) -> str:
        """A key in messages."""
        return join_path((*self.path, key))

    def mismatch(self, key: str, values: list[Any]) -> StructureError:
        """The error for values that can't be joined; names the first that differs."""
        first = values[0]
        for position, value in enumerate(values):
            if not isinstance(value, type(first)) and not isinstance(first, type(value)):
                what = f"a {type(first).__name__} at position 0, a {type(value).__name__} at position {position}"
                return StructureError(f"{self.op}: field `{self.at(key)}` is {what}")
            if isinstance(first, Tensor) and isinstance(value, Tensor) and value.shape != first.shape:
                what = f"shapes differ: {list(first.shape)} at position 0, {list(value.shape)} at position {position}"
                hint = 'declare `field(join="pad")` or a ragged field, or use `lazy_stack`'
                way = f"; for elements of several sizes, {hint}" if value.ndim == first.ndim else ""
                return StructureError(f"{self.op}: field `{self.at(key)}`: {what}{way}")
            if problem := reason_of_mixture(first, [value]):
                return StructureError(f"{self.op}: field `{self.at(key)}` {problem}")
        if isinstance(first, Tensor) and first.is_nested:
            what = "is a nested tensor whose rows are not one after another in memory; hold them as a `RaggedTensor`"
            return StructureError(f"{self.op}: field `{self.at(key)}` {what}")
        devices = {str(getattr(value, "device", None)) for value in values}
        return StructureError(
            f"{self.op}: the values of field `{self.at(key)}` do not join (devices {sorted(devices)})"
        )

    def different_keys(self, mine: Any, theirs: Any, position: int) -> StructureError:
        """The error for containers with different keys."""
        only = [f"`{self.at(k)}` only at position 0" for k in mine if k not in theirs]
        only += [f"`{self.at(k)}` only at position {position}" for k in theirs if k not in mine]
        return KeySetError(f"{self.op} joins containers of the same keys: {', '.join(only)}")

    def as_one_class(self, items: list[Any]) -> list[Any]:
        """Containers of one class; stacks and parameters among dense containers become dense.

        If a stack can't be dense, dense containers become stacks along its dim instead. Raises if classes differ.
        """
        if all([type(item) is type(items[0]) and item._stacked == items[0]._stacked for item in items]):
            return items
        try:
            items = [without_stack(item) if isinstance(item, TensorCollection) else item for item in items]
        except (StructureError, BatchSizeError):
            stack = next(store_of(item) for item in items if item._stacked)
            items = [item if item._stacked else stack._cut_alike(item) for item in items]
        self._require_one_class(items)
        return items

    def _require_one_class(self, items: list[Any]) -> None:
        """Refuse to join containers of different classes."""
        first = type(items[0])
        position = next((at for at, item in enumerate(items) if type(item) is not first), None)
        if position is None:
            return
        other, where = type(items[position]), f" at `{join_path(self.path)}`" if self.path else ""
        again = defined_again(other, first) or defined_again(first, other)
        if again:
            raise ArgumentError(f"{self.op}{where}: position {position} against position 0: {again}")
        raise ArgumentError(
            f"{self.op} joins containers of one class{where}: {first.__name__} at position 0, {other.__name__} at "
            f"position {position}"
        )


def joined_size(sizes: Sequence[torch.Size], dim: int, how: Join) -> torch.Size:
    """The batch size of the join of containers with these batch sizes."""
    first = sizes[0]
    where = f" at `{join_path(how.path)}`" if how.path else ""
    for position, size in enumerate(sizes):
        if len(size) < dim + (not how.new_dim):
            raise too_few_dims(f"the container{where}", size)
        same = size == first if how.new_dim else _same_but(size, first, dim)
        if not same:
            rule = "the same batch size" if how.new_dim else f"batch sizes that agree but for dim {dim}"
            given = f"{list(first)} at position 0, {list(size)} at position {position}"
            raise BatchSizeError(f"{how.op} needs {rule}{where}: {given}")
    if how.new_dim:
        return torch.Size((*first[:dim], len(sizes), *first[dim:]))
    return torch.Size((*first[:dim], sum(size[dim] for size in sizes), *first[dim + 1 :]))


def joined_names(items: Sequence[Any], dim: int, how: Join) -> Names:
    """The dim names of the join; the new dim of a stack has none."""
    names = unify_names([item._names for item in items], how.op)
    return names and (*names[:dim], None, *names[dim:]) if how.new_dim else names


def _same_but(a: torch.Size, b: torch.Size, dim: int) -> bool:
    return len(a) == len(b) and a[:dim] == b[:dim] and a[dim + 1 :] == b[dim + 1 :]


def _join_plain(items: Sequence[Any], at: int, new_dim: bool) -> Any:
    """Join dense containers of one class, with tensors and equal objects, in one pass; None for the general path."""
    first = items[0]
    cls, fn = first.__class__, torch.stack if new_dim else torch.cat  # facts are read from the class: fewer guards
    layered, own = cls._layered, first._store if cls._layered else first
    if not (cls._joins_plainly and isinstance(own, TensorCollection._dense)):
        return None
    kind, size, length = type(own), own._batch_size, 0
    keys: list[str] = []
    tables: list[dict[str, Any]] = []
    for item in items:
        if item.__class__ is not cls:
            return None
        store = item._store if layered else item
        if type(store) is not kind or store._names is not None:
            return None
        if (theirs := store._batch_size) != size and (new_dim or not _same_but(theirs, size, at)):
            return None
        table = store._data.copy()  # other threads may write to it
        if not tables:
            keys = [*table]
        elif [*table] != keys:
            return None
        tables.append(table)
        length += 1 if new_dim else theirs[at]
    joined, plain = tables[0], own._plain  # after the copies: a write of anything but a tensor clears the flag first
    columns = zip(*[table.values() for table in tables])  # noqa: B905  # a keyword takes time
    try:
        if plain:  # dim 0 is the default; passing it costs a tenth more
            joined.update(zip(keys, map(fn, columns, repeat(at)) if at else map(fn, columns)))  # noqa: B905  # as above
        elif not _join_mixed(items, zip(keys, columns), joined, at, new_dim):  # noqa: B905  # as above
            return None
    except (KeyError, RuntimeError, TypeError, IndexError):  # the general path names the field and the reason
        return None
    if not joined:
        return None
    sizes = torch.Size((*size[:at], length, *size[at + (not new_dim) :]))
    result = own._of(joined, sizes, own._device, None, plain)
    return cls._wrap(result) if layered else result


def _join_mixed(items: Sequence[Any], columns: Iterable[Any], joined: dict[str, Any], at: int, new_dim: bool) -> bool:
    """Replace the values of a copied dict by the joins of their columns; False for the general path."""
    first, fn = items[0], torch.stack if new_dim else torch.cat
    for key, column in columns:
        value = column[0]
        if type(value) is not Tensor and isinstance(value, JoinOps):
            if first._layered and not value._layered and key in first.__tensorclass__.nested:
                return False  # an untyped container in the store of `from_tensordict`: joined as an instance
            joined[key] = inner = _join_plain(column, at, new_dim)
            if inner is None:
                return False
        elif isinstance(value, Tensor):  # after the other check: one that fails takes longer
            joined[key] = fn(column, at) if at else fn(column)
        elif isinstance(value, Entry) or False in [same_atom(value, other) for other in column[1:]]:
            return False
        elif not first._keeps_objects:
            if first._layered:  # the class has a rule for each field
                return False
            how = Join("stack" if new_dim else "cat", fn, new_dim)
            how.sizes = [item._batch_size for item in items]
            joined[key] = first._join_objects(key, [*column], at, how)
    return True


def _require_containers(items: list[Any], op: str) -> None:
    if not items:
        raise StructureError(f"{op} joins at least one container, got an empty sequence")
    for position, item in enumerate(items):
        if not isinstance(item, JoinOps):
            raise ArgumentError(
                f"{op} joins containers, got a {type(item).__name__} at position {position}; `torch.{op}` joins tensors"
            )


def join_containers(input: Any, dim: Any, out: Any, new_dim: bool) -> Any:
    """Join containers by the plain path if possible, else entry by entry by the rules of their class."""
    op = "stack" if new_dim else "cat"
    items = [*input] if type(input) in (list, tuple) else as_items(input, op, "a sequence of containers")
    first: Any = items[0] if items else None
    if not isinstance(first, JoinOps):
        if items and are_objects(items):
            return torch.stack(items, dim) if new_dim else torch.cat(items, dim)
        _require_containers(items, op)
    ndim = len((first._store if first.__class__._layered else first)._batch_size)  # pyright: ignore[reportAttributeAccessIssue]  # a class over a store
    if not (new_dim or ndim):
        raise BatchDimError("cat: the containers have no batch dim to join along; `stack` makes one")
    if type(dim) is int and 0 <= dim < ndim + new_dim:
        at = dim
    else:
        at = batch_dim(dim, ndim, op=op, extra=1) if new_dim else first._dim(dim, op)
    if out is None and (plain := _join_plain(items, at, new_dim)) is not None:
        return plain
    how = Join(op, torch.stack if new_dim else torch.cat, new_dim)
    _require_containers(items, op)
    items = how.as_one_class(_stills(items))
    size = joined_size([item._batch_size for item in items], at, how)
    names = joined_names(items, at, how)
    return _deliver(type(items[0])._join(items, at, size, names, how), out)


def stack(input: Joinable[C, K], dim: int = 0, *, out: C | None = None) -> C:
    """Join containers along a new batch dim, as `torch.stack` does with containers.

    >>> import torch
    >>> from tensorclass import TensorDict, stack
    >>> data = TensorDict(a=torch.zeros(3), batch_size=[3])
    >>> stack([data, data]).batch_size
    torch.Size([2, 3])
    """
    result: C = join_containers(input, dim, out, True)
    return result


def cat(input: Joinable[C, K], dim: int = 0, *, out: C | None = None) -> C:
    """Join containers along an existing batch dim, as `torch.cat` does with containers.

    >>> import torch
    >>> from tensorclass import TensorDict, cat
    >>> data = TensorDict(a=torch.zeros(3), batch_size=[3])
    >>> cat([data, data]).batch_size
    torch.Size([6])
    """
    result: C = join_containers(input, dim, out, False)
    return result


def _stills(items: list[Any]) -> list[Any]:
    """Snapshots of the containers, each read once: other threads may write to them."""
    twins = {id(item): item._twin() for item in items}
    return [twins[id(item)] for item in items]


def _deliver(result: Any, out: Any) -> Any:
    """The result, written to `out` if that is given; an empty `out` takes its entries and batch size."""
    if out is None:
        return result
    if MappingOps.is_empty(out):
        return MappingOps.update(out, result, update_batch_size=True)
    return InplaceOps.copy_(out, result)
