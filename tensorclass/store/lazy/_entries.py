"""The entries of a lazy stack: the keys that all members have, with values that are stacked when they are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ...core import Entry, TensorCollection, TensorEntry, later, short_dtype, store_of
from ...errors import BatchSizeError, MissingKeyError, StructureError
from ...ops import Join
from ...ops._compare import same_object
from ...ops._lengths import Ragged
from .._dict import TensorDict
from .._fitting import missing


class Entries(Mapping[str, Any]):
    """A read-only mapping of the entries of a lazy stack. Keys are a snapshot; a value is stacked when it is read."""

    __slots__ = ("_known", "_stack")

    def __init__(self, stack: Any) -> None:
        self._stack = stack
        self._known: dict[str, None] | None = None

    @property
    def _keys(self) -> dict[str, None]:
        """The keys, computed on demand, so that reading one entry doesn't look at the others."""
        if self._known is None:
            self._known = dict.fromkeys(common_keys(self._stack._members))
        return self._known

    def __getitem__(self, key: str) -> Any:
        return read(self._stack, key)

    def __contains__(self, key: object) -> bool:
        members = self._stack._members
        if self._known is not None or not members:
            return key in self._keys
        return False not in [key in member._outline() for member in members]

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def copy(self) -> dict[str, Any]:
        """A plain dict of all entries."""
        return dict(self)


class Snapshot(Entries, MutableMapping[str, Any]):
    """A copy of the entries that the caller may keep and change; the stack doesn't change."""

    __slots__ = ("_replaced",)

    def __init__(self, stack: Any) -> None:
        super().__init__(stack)
        self._replaced: dict[str, Any] = {}

    def __getitem__(self, key: str) -> Any:
        return self._replaced[key] if key in self._replaced else super().__getitem__(key)

    def __setitem__(self, key: str, value: Any) -> None:
        self._keys[key] = None
        self._replaced[key] = value

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        self._replaced.pop(key, None)


class Uneven(Entry):
    """The printed form of an entry that can't be stacked: -1 for sizes in which members differ."""

    __slots__ = ("dtype", "shape")

    def __init__(self, dtype: torch.dtype, shape: torch.Size) -> None:
        self.dtype = dtype
        self.shape = shape

    def _read_value(self) -> Uneven:
        return self

    _field_value = _read_value

    def _describe(self, outer: torch.Size) -> str:
        return f"{short_dtype(self.dtype)}[{','.join(map(str, self.shape[len(outer) :]))}]"

    def __repr__(self) -> str:
        return f"Tensor(shape={self.shape}, dtype={self.dtype})"


def common_keys(members: Sequence[Any]) -> list[str]:
    """The keys that every member has, in the order of the first."""
    return shared_keys(outlines(members)) if members else []


def outlines(members: Sequence[Any]) -> list[dict[str, Any]]:
    """The entries of each member, for a look at keys and classes."""
    return [member._data if type(member) is TensorDict else member._outline() for member in members]


def shared_keys(tables: Sequence[dict[str, Any]]) -> list[str]:
    """The keys that every dict has, in the order of the first."""
    found = [*map(list, tables)]
    keys = found[0]
    if found.count(keys) == len(found):
        return keys
    return [key for key in keys if all([key in table for table in tables])]


def exclusive_keys(members: Sequence[Any]) -> dict[str, list[int]]:
    """The keys that only some members have, each with the positions of these members."""
    common = set(common_keys(members))
    found: dict[str, list[int]] = {}
    for position, member in enumerate(members):
        for key in member._outline():
            if key not in common:
                found.setdefault(key, []).append(position)
    return found


def values_of(stack: Any, key: str) -> list[Any]:
    """The stored value of each member under a key.

    Raises:
        MissingKeyError: if a member lacks it; names the members that have it.
    """
    try:
        return [member._live()[key] for member in stack._members]
    except KeyError:
        raise lacking(stack, key) from None


def lacking(stack: Any, key: str) -> Exception:
    """The error for a key that not every member has."""
    return MissingKeyError(later(_lacking, stack, key))


def _lacking(stack: Any, key: str) -> str:
    holders = exclusive_keys(stack._members).get(key)
    if holders is None:
        return str(missing(stack, key))
    where = ", ".join(map(str, holders[:5])) + (", ..." if len(holders) > 5 else "")
    return (
        f"{missing(stack, key)}. Only the members at positions {where} have it: read it there, as `stack[{holders[0]}]"
        f"[{key!r}]`, or give `get` a default"
    )


def read(stack: Any, key: str) -> Any:
    """The value of an entry: stacked tensors, a lazy stack of containers, or joined objects."""
    if not stack._members:
        raise missing(stack, key)
    value = combine(stack, key, values_of(stack, key))
    if stack.hook_out is None:
        return value
    if isinstance(value, TensorCollection) and value._stacked:
        value.hook_out = stack.hook_out  # type: ignore[attr-defined]  # a lazy stack that was made for this read
        return value
    return stack.hook_out(value)


def combine(stack: Any, key: str, values: Sequence[Any]) -> Any:
    """Combine the values of the members into one."""
    first = values[0]
    if all([isinstance(value, Tensor) for value in values]):
        rows = [Ragged.over(value) for value in values] if first.is_nested else []
        if not rows or any([row is None for row in rows]):
            return _stack_tensors(values, stack.stack_dim, key)
        values, first = rows, rows[0]
    if all([isinstance(value, TensorCollection) for value in values]):
        found, nested = stack._restack(values, stack.stack_dim), _declaration_of(stack._joiner, key, "nested")
        return found if nested is None or found._layered else found._joined_by(nested)
    if isinstance(first, (Tensor, TensorCollection)):
        raise _kinds(key, values)
    how = Join("lazy stack", torch.stack, True)
    how.sizes, how.cls = [member._batch_size for member in stack._members], stack._joiner
    if any([size != how.sizes[0] or -1 in size for size in how.sizes]):
        return _shared(key, values)
    if _is_one(stack._joiner, key) and how.are_same(values):
        return first
    return how.entry(key, list(values), stack.stack_dim)


def _is_one(joiner: Any, key: str) -> bool:
    """Whether a typed class declares one object for the whole batch."""
    kind = _declaration_of(joiner, key, "kind")
    return kind is not None and kind.is_value


def _declaration_of(joiner: Any, key: str, what: str) -> Any:
    """What a typed class declares about a field; None for other classes."""
    schema = getattr(joiner, "__tensorclass_schema__", None)
    spec = None if schema is None else schema.fields.get(key)  # renamed keys are not declared
    return None if spec is None else getattr(spec, what)


def _shared(key: str, values: Sequence[Any]) -> Any:
    """One object for members of different sizes, since per-element objects would have no regular shape."""
    first = values[0]
    if not isinstance(first, TensorEntry) and all([same_object(value, first) for value in values]):
        return first
    raise BatchSizeError(
        f"lazy stack: `{key}` holds objects, and the members differ in batch size, so there is no one shape for them; "
        f"use `get({key!r}, as_list=True)`"
    )


def _stack_tensors(values: Sequence[Any], dim: int, key: str) -> Tensor:
    try:
        return torch.stack(list(values), dim)
    except (RuntimeError, TypeError) as error:
        raise uneven(key, values) from error


def uneven(key: str, values: Sequence[Any]) -> StructureError:
    """The error for an entry whose tensors can't be stacked: names the first that differs, and ways to read it."""
    shapes = [list(value.shape) for value in values]
    at = next((i for i, shape in enumerate(shapes) if shape != shapes[0]), None)
    if at is None:
        devices = sorted({str(value.device) for value in values})
        return StructureError(f"lazy stack: the tensors of `{key}` do not stack (devices {devices})")
    return StructureError(
        f"lazy stack: the shapes of `{key}` differ: {shapes[0]} at position 0, {shapes[at]} at position {at}, so there "
        f"is no one tensor to read; use `get({key!r}, as_list=True)`, `get({key!r}, as_padded_tensor=True)` or "
        f"`get({key!r}, as_nested_tensor=True)`"
    )


def _kinds(key: str, values: Sequence[Any]) -> StructureError:
    first = values[0]
    at, other = next((i, v) for i, v in enumerate(values) if not isinstance(v, type(first)))
    return StructureError(
        f"lazy stack: `{key}` is a {type(first).__name__} at position 0 and a {type(other).__name__} at position {at}; "
        f"read it from the members"
    )


# ---- shapes ----------------------------------------------------------------------------------------------------------


def common_size(sizes: Sequence[torch.Size]) -> tuple[int, ...]:
    """The common size, with -1 where sizes differ."""
    first = sizes[0]
    if sizes.count(first) == len(sizes):
        return tuple(first)
    return tuple([n if all([size[d] == n for size in sizes]) else -1 for d, n in enumerate(first)])


def shape_of(stack: Any, key: str) -> torch.Size | None:
    """The shape of a tensor entry, with -1 where members differ; None for other entries and for different ranks."""
    shapes = [_shape(member, key) for member in stack._members]
    ranks = {None if shape is None else len(shape) for shape in shapes}
    if len(ranks) != 1 or None in ranks:
        return None
    inner = common_size([shape for shape in shapes if shape is not None])
    return torch.Size((*inner[: stack.stack_dim], len(shapes), *inner[stack.stack_dim :]))


def _shape(member: Any, key: str) -> torch.Size | None:
    if isinstance(store_of(member), TensorDict):
        value = member._live().get(key)
        return value.shape if isinstance(value, Tensor) else None
    return shape_of(store_of(member), key)


def shapes(stack: Any) -> dict[str, Any]:
    """The descriptions of tensors for `repr`, without stacking."""
    values = {key: value for key, value in stack._outline().items() if isinstance(value, Tensor)}
    found = [(key, value.dtype, shape_of(stack, key)) for key, value in values.items()]
    return {key: Uneven(dtype, shape) for key, dtype, shape in found if shape is not None}
