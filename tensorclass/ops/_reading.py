"""Dict-like reads of a container: entries by key and path, elements by index, views of keys and values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, TypeAlias, overload

import numpy as np
import torch
from torch import Tensor
from typing_extensions import Self

from .._flags import flag
from ..core import (
    ItemsView,
    Key,
    KeysView,
    LeafTest,
    Path,
    Subscript,
    TensorCollection,
    ValuesView,
    ViewScope,
    entry_type,
    is_key,
    join_path,
    shown_entries,
    unravel_key_to_tuple,
)
from ..errors import (
    ArgumentError,
    FieldNotProducedError,
    KeyThroughLeafError,
    Later,
    MissingKeyError,
    SchemaError,
    UnknownFieldError,
)
from ._modes import get_defaults_to_none

IndexPart: TypeAlias = (
    "SupportsIndex | slice | EllipsisType | Tensor | np.ndarray[Any, Any] | Sequence[int] | list[Any] | None"
)
BatchIndex: TypeAlias = "IndexPart | tuple[IndexPart, ...]"


class Unset(Enum):
    """The default of an argument for which None is a value; an enum, because dynamo supports enums."""

    UNSET = "unset"

    def __repr__(self) -> str:
        return "<unset>"


UNSET: Any = Unset.UNSET
NO_DEFAULT: Any = UNSET
"""The public name: `get(key, NO_DEFAULT)` is `get(key)`."""


def below(path: Path, error: Any) -> Exception:
    """The error for an entry that a nested container lacks, with the path to it."""
    told = getattr(error, "told", error)  # the error of the container itself
    found: Any = type(error)(Later("no entry `{}`: {}".format, join_path(path), told))
    found.__dict__.update({**error.__dict__, "key": join_path(path), "told": told})
    return found  # type: ignore[no-any-return]  # an error


def with_prefix(prefix: Path, error: Any) -> Exception:
    """The error of a nested container, with the path to it."""
    where = join_path(prefix)
    if not prefix:
        return error  # type: ignore[no-any-return]  # as it was raised
    if isinstance(error, SchemaError):
        problems = [problem._replace(path=f"{where}.{problem.path}") for problem in error.problems]
        return SchemaError.of(error.cls_name, problems)
    if isinstance(error, MissingKeyError):
        return below((*prefix, error.key), error)
    return type(error)(f"in `{where}`: {error}")  # type: ignore[no-any-return]  # of the same class


class ReadingOps(TensorCollection):
    """The read-only part of the dict interface, for top-level and nested keys."""

    __slots__ = ()

    def _index(self, index: Any) -> Self:
        raise NotImplementedError

    @overload
    def __getitem__(self, index: Subscript) -> Any: ...
    @overload
    def __getitem__(self, index: BatchIndex) -> Self: ...
    def __getitem__(self, index: Any) -> Any:
        """An entry for a key (a string, a tuple of strings, a field reference); a container for an index.

        Raises:
            MissingKeyError: for an absent key; suggests the nearest one.
            KeyThroughLeafError: for a path that goes through a leaf.
            BatchIndexError: for an index beyond the batch dims or out of range.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict(a=torch.zeros(3, 4), b={"c": torch.ones(3)}, batch_size=[3])
        >>> data["b", "c"].shape, data[0].batch_size, data[1:]["a"].shape
        (torch.Size([3]), torch.Size([]), torch.Size([2, 4]))
        """
        kind = type(index)
        if kind is str:
            return self._entry(index)
        if kind is int or kind is slice or kind is Tensor:
            return self._index(index)
        first = type(index[0]) if kind is tuple and index else None
        if first is str:
            return self._read(index)
        if first is int or first is slice:
            return self._index(index)
        return self._read(unravel_key_to_tuple(index)) if is_key(index) else self._index(index)

    def _read(self, path: Path) -> Any:
        """The value at a path; parts other than plain strings are flattened first."""
        node: Any = self
        try:
            for part in path:
                if type(part) is not str:
                    return self._walk(unravel_key_to_tuple(path)) if is_key(path) else self._index(path)
                node = node._entry(part)
        except (AttributeError, KeyError):  # a leaf on the path or an absent key: the slow path names it
            if len(path) < 2:
                raise
            return self._walk(path)
        return node

    def _walk(self, path: Path) -> Any:
        """The entry at a path; the error names the part of the path that is not there."""
        node: Any = self
        holder: Any = self
        for depth, part in enumerate(path):
            if not isinstance(node, TensorCollection):
                if node is None and path[depth - 1] not in holder._live():
                    raise MissingKeyError(
                        f"`{join_path(path[:depth])}` of this {type(holder).__name__} is None, so it has no entry "
                        f"`{join_path(path[depth:])}`"
                    )
                raise KeyThroughLeafError(
                    f"`{join_path(path[:depth])}` is a {type(node).__name__}, not a container, so it has no entry "
                    f"`{join_path(path[depth:])}`"
                )
            try:
                holder, node = node, node._entry(part)
            except (MissingKeyError, UnknownFieldError, FieldNotProducedError) as error:
                raise below(path[: depth + 1], error) if depth else error from None
        return node

    def get(
        self,
        key: Key,
        default: Any = UNSET,
        *,
        as_list: bool = False,
        as_padded_tensor: bool = False,
        as_nested_tensor: bool = False,
        padding_side: str = "right",
        layout: Any = None,
        padding_value: float = 0.0,
    ) -> Any:
        """The value of a key, or `default` (by default None) if it is absent.

        In a typed class, an undeclared field is an error, unless a default is given.

        Args:
            key: the key to read.
            default: the result for an absent key.
            as_list: return a list of the values along the first batch dim; for a lazy stack, of its members.
            as_padded_tensor: return one tensor, padded if the members of a lazy stack differ in shape.
            as_nested_tensor: return one nested tensor of the tensors of the members.
            padding_side: "right" or "left".
            layout: of the nested tensor, `torch.jagged` (default) or `torch.strided`.
            padding_value: the value of the padding.

        Raises:
            KeyThroughLeafError: if the path goes through a leaf.
            MissingKeyError: for a name that is not a field of a typed class, without a default.

        >>> from tensorclass import TensorDict
        >>> TensorDict(batch_size=[]).get("a", 3)
        3
        """
        path = (key,) if type(key) is str else unravel_key_to_tuple(key)
        try:
            if not (as_list is as_padded_tensor is as_nested_tensor is False):
                flag(as_list=as_list, as_padded_tensor=as_padded_tensor, as_nested_tensor=as_nested_tensor)
                form = (as_list, as_padded_tensor, as_nested_tensor)
                return self._read_as(path, form, padding_side, layout, padding_value)
            return self._read(path)
        except MissingKeyError as error:
            if default is UNSET and (error.undeclared or not get_defaults_to_none()):
                raise
            return None if default is UNSET else default

    def _read_as(self, path: Path, form: tuple[bool, bool, bool], side: str, layout: Any, value: float) -> Any:
        """An entry as a list, a padded or a nested tensor."""
        raise NotImplementedError

    def __contains__(self, key: object) -> bool:
        """Whether a top-level or nested key is present. Only keys are looked up; to compare values, use `==`."""
        if type(key) is str:
            return key in (self._live() if self._stacked else self._outline())
        if not is_key(key):
            raise ArgumentError(
                f"`in` looks up keys (strings, tuples of strings, field references), got a {type(key).__name__}; "
                "compare values with `(batch == value).any()`"
            )
        return key in KeysView(self, ViewScope(nested=True))

    if TYPE_CHECKING:  # stores define it; typed batches are iterated by index, see `TypedContainer`

        def __iter__(self) -> Iterator[Self]:
            """Iterate over the first batch dim."""
            ...

    def _loop(self) -> Iterator[Self]:
        """Iterate over the first batch dim.

        Raises:
            TypeError: for a container without batch dims.
        """
        if not self._batch_size:
            raise self._without_batch("iteration over")
        return iter([self._index(i) for i in range(self._batch_size[0])])

    def __reversed__(self) -> Iterator[Self]:
        """Iterate over the first batch dim from the end.

        Raises:
            TypeError: for a container without batch dims.
        """
        return reversed(list(self._loop()))

    @overload
    def keys(
        self,
        include_nested: Literal[False] = ...,
        leaves_only: bool = ...,
        is_leaf: LeafTest = ...,
        *,
        sort: bool = ...,
    ) -> KeysView[str]: ...
    @overload
    def keys(
        self, include_nested: bool, leaves_only: bool = ..., is_leaf: LeafTest = ..., *, sort: bool = ...
    ) -> KeysView[str | Path]: ...
    def keys(
        self, include_nested: bool = False, leaves_only: bool = False, is_leaf: LeafTest = None, *, sort: bool = False
    ) -> Any:
        """The keys; nested ones are tuples.

        Args:
            include_nested: include the keys of nested containers.
            leaves_only: leave out containers and Python objects.
            is_leaf: a function of a class that decides what is a leaf; `is_leaf_nontensor` includes objects.
            sort: use lexical order instead of insertion order.

        >>> from tensorclass import TensorDict
        >>> list(TensorDict({"a": 1, "b": {"c": 2}}).keys(include_nested=True, leaves_only=True))
        ['a', ('b', 'c')]
        """
        if include_nested is leaves_only is sort is False and is_leaf is None:
            return KeysView(self)
        return KeysView(self, ViewScope.of(include_nested, leaves_only, is_leaf, sort))

    def values(
        self, include_nested: bool = False, leaves_only: bool = False, is_leaf: LeafTest = None, *, sort: bool = False
    ) -> ValuesView:
        """The values, in the order of `keys` with the same arguments.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict(a=torch.zeros(3), nested={"b": torch.zeros(3, 4)}, batch_size=[3])
        >>> [tuple(value.shape) for value in data.values(include_nested=True, leaves_only=True)]
        [(3,), (3, 4)]
        """
        if include_nested is leaves_only is sort is False and is_leaf is None:
            entries: Any = self._entries()
            if self._plain:  # after the copy: a write of anything but a tensor clears the flag first
                return entries.values()  # type: ignore[no-any-return]  # a dict has this view
            return shown_entries(self, entries).values() if type(entries) is dict else ValuesView(self)  # type: ignore[return-value]  # as above
        return ValuesView(self, ViewScope.of(include_nested, leaves_only, is_leaf, sort))

    @overload
    def items(
        self,
        include_nested: Literal[False] = ...,
        leaves_only: bool = ...,
        is_leaf: LeafTest = ...,
        *,
        sort: bool = ...,
    ) -> ItemsView[str]: ...
    @overload
    def items(
        self, include_nested: bool, leaves_only: bool = ..., is_leaf: LeafTest = ..., *, sort: bool = ...
    ) -> ItemsView[str | Path]: ...
    def items(
        self, include_nested: bool = False, leaves_only: bool = False, is_leaf: LeafTest = None, *, sort: bool = False
    ) -> Any:
        """The (key, value) pairs, in the order of `keys` with the same arguments.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict(a=torch.zeros(3), nested={"b": torch.zeros(3, 4)}, batch_size=[3])
        >>> [(key, tuple(value.shape)) for key, value in data.items(include_nested=True, leaves_only=True)]
        [('a', (3,)), (('nested', 'b'), (3, 4))]
        """
        if include_nested is leaves_only is sort is False and is_leaf is None:
            entries: Any = self._entries()
            if self._plain:  # after the copy: a write of anything but a tensor clears the flag first
                return entries.items()
            return shown_entries(self, entries).items() if type(entries) is dict else ItemsView(self)
        return ItemsView(self, ViewScope.of(include_nested, leaves_only, is_leaf, sort))

    @property
    def sorted_keys(self) -> list[Any]:
        """The top-level keys in lexical order.

        >>> from tensorclass import TensorDict
        >>> TensorDict(b=1, a=2).sorted_keys
        ['a', 'b']
        """
        return sorted(self._entries())

    def is_empty(self) -> bool:
        """Whether there is no leaf at any depth.

        >>> from tensorclass import TensorDict
        >>> TensorDict(nested=TensorDict()).is_empty(), TensorDict(a=1).is_empty()
        (True, False)
        """
        for value in list(self._outline().values()):
            if type(value) is Tensor or not isinstance(value, ReadingOps) or not ReadingOps.is_empty(value):
                return False
        return True

    def entry_class(self, key: Key) -> type:
        """The class of an entry, as `get` returns it.

        >>> from tensorclass import TensorDict
        >>> TensorDict(a=1).entry_class("a")
        <class 'torch.Tensor'>
        """
        return entry_type(self._raw(unravel_key_to_tuple(key)))

    def get_item_shape(self, key: Key) -> torch.Size:
        """The shape of an entry: batch dims and event dims.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(3, 8), batch_size=[3]).get_item_shape("a")
        torch.Size([3, 8])
        """
        shape: torch.Size = self._read(unravel_key_to_tuple(key)).shape
        return shape

    @property
    def depth(self) -> int:
        """The number of levels of nested containers.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(3)).depth, TensorDict(nested={"b": torch.zeros(3)}).depth
        (0, 1)
        """
        inner = [ReadingOps.depth.__get__(v) for v in list(self._outline().values()) if isinstance(v, ReadingOps)]
        return 1 + max(inner) if inner else 0

    def _raw(self, path: Path) -> Any:
        """The stored entry under a path: an entry node itself, whereas `_read` returns its value."""
        holder = self._read(path[:-1])
        if not isinstance(holder, TensorCollection):
            return self._read(path)
        found = holder._live().get(path[-1], UNSET)
        return self._read(path) if found is UNSET else found


def through_leaf(leaf: Any, path: Path, depth: int) -> KeyThroughLeafError:
    return KeyThroughLeafError(
        f"`{join_path(path[:depth])}` is a {type(leaf).__name__}, not a container, so it can't hold "
        f"`{join_path(path[depth:])}`"
    )
