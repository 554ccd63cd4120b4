"""Views of keys, values and items of a container. Iteration is over a snapshot, since other threads may write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Generic, NamedTuple, TypeAlias, TypeVar

from torch import Tensor

from .._flags import flag
from ._base import TensorCollection, is_typed
from ._entry import ABSENT, Entry
from ._keys import is_key, unravel_key, unravel_key_to_tuple

T = TypeVar("T")
LeafTest: TypeAlias = "Callable[[type], bool] | None"


def default_is_leaf(cls: type) -> bool:
    """Whether a value of this class is a leaf: neither a container nor a Python object.

    The default `is_leaf` of `keys`, `values` and `items`.

    >>> from tensorclass import NonTensorData, TensorDict, default_is_leaf
    >>> from torch import Tensor
    >>> default_is_leaf(Tensor), default_is_leaf(TensorDict), default_is_leaf(NonTensorData)
    (True, False, False)
    """
    return not issubclass(cls, TensorCollection) and not (issubclass(cls, Entry) and cls._holds_object)


def is_leaf_nontensor(cls: type) -> bool:
    """Whether a value of this class is a tensor or a Python object; as `is_leaf`, it includes objects.

    >>> from tensorclass import TensorDict, is_leaf_nontensor
    >>> list(TensorDict(a=1, name="scan", n={}).keys(leaves_only=True, is_leaf=is_leaf_nontensor))
    ['a', 'name']
    """
    return issubclass(cls, Tensor) or issubclass(cls, Entry)


def entry_type(value: Any) -> type:
    """The class of an entry for readers; for any Python object, `NonTensorData`."""
    if isinstance(value, (Tensor, TensorCollection)):
        return type(value)
    if not isinstance(value, Entry):
        return View.object_type
    return type(value) if value._holds_object else type(value._read_value())


class ViewScope(NamedTuple):
    """What a view shows: the arguments of `keys`, `values` and `items`."""

    nested: bool = False
    leaves_only: bool = False
    is_leaf: Callable[[type], bool] = default_is_leaf
    sort: bool = False

    @classmethod
    def of(cls, nested: bool, leaves_only: bool, is_leaf: LeafTest, sort: bool) -> ViewScope:
        """The scope of given arguments."""
        if nested is leaves_only is sort is False and is_leaf is None:
            return TOP
        if nested is leaves_only is True and sort is False and is_leaf is None:
            return LEAVES
        flag(include_nested=nested, leaves_only=leaves_only, sort=sort)
        return cls(nested, leaves_only, is_leaf or default_is_leaf, sort)


TOP = ViewScope()
"""The entries of the top level, in their own order."""
LEAVES = ViewScope(True, True)
"""All tensors."""


def _read(entry: Entry, holder: TensorCollection) -> Any:
    """An entry for readers of an untyped or a typed container."""
    return entry._field_value() if is_typed(holder) else entry._shown_in(holder._batch_size)


def shown_entries(holder: TensorCollection, entries: dict[str, Any]) -> dict[str, Any]:
    """A snapshot of the entries of a container as readers see them."""
    return {k: _read(v, holder) if isinstance(v, Entry) else v for k, v in entries.items()}


class View(Generic[T]):
    """The base class of views of keys, values and items: the traversal of entries."""

    __slots__ = ("_begun", "_collection", "_scope")

    _begun: Iterator[T]
    object_type: ClassVar[type] = object
    """The class for Python objects, which the store assigns."""

    def __init__(self, collection: TensorCollection, scope: ViewScope = TOP) -> None:
        self._collection = collection
        self._scope = scope

    def _table(self) -> dict[str, Tensor] | None:
        """A snapshot of a container of only tensors, in its own order; None if a traversal is needed."""
        if self._scope.sort or self._scope.is_leaf is not default_is_leaf:
            return None
        return self._collection._tensors_by_key()

    def _pairs(self) -> list[tuple[Any, Any]]:
        """A snapshot of (key, value): a plain key at the top level, a path below."""
        paths: list[Any] = []
        values: list[Any] = []
        self._walk(self._collection, (), paths, values)
        pairs = list(zip(paths, values, strict=True))
        if self._scope.sort:
            pairs.sort(key=lambda pair: (pair[0],) if isinstance(pair[0], str) else pair[0])
        return pairs

    def _walk(
        self, collection: TensorCollection, path: tuple[str, ...], paths: list[Any] | None, values: list[Any]
    ) -> None:
        """Collect values, and their paths if requested."""
        nested, leaves_only, is_leaf, _ = self._scope
        plain = is_leaf is default_is_leaf
        for key, value in list(collection._live().items()):
            if not (plain and type(value) is Tensor):
                inner = isinstance(value, TensorCollection)
                asked = (leaves_only or nested) and not (plain and inner)
                leaf = asked and self._leaf(value)
                if inner and nested and not leaf:
                    self._walk(value, (*path, key), paths, values)
                if leaves_only and not leaf:
                    continue
                if not inner and isinstance(value, Entry):
                    value = _read(value, collection)
            if paths is not None:
                paths.append((*path, key) if path else key)
            values.append(value)

    def _leaf(self, value: Any) -> bool:
        return self._scope.is_leaf(entry_type(value))

    def _count(self, collection: Any, nested: bool, leaves_only: bool, plain: bool) -> int:
        """The number of paths, without making them."""
        values = list(collection._outline().values())
        total = len(values)
        for value in values:
            if not (plain and type(value) is Tensor):
                inner = isinstance(value, TensorCollection)
                leaf = not (plain and inner) and self._leaf(value)
                if inner and nested and not leaf:
                    total += self._count(value, nested, leaves_only, plain)
                total -= leaves_only and not leaf
        return total

    def __len__(self) -> int:
        """The number of items, counted without building them, since `list(view)` calls it first."""
        if self._scope.nested or self._scope.leaves_only:
            table = self._table()
            nested, leaves_only, is_leaf, _ = self._scope
            plain = is_leaf is default_is_leaf
            return len(table) if table is not None else self._count(self._collection, nested, leaves_only, plain)
        return len(self._collection._outline())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self)!r})"

    def __iter__(self) -> Iterator[T]:
        raise NotImplementedError

    def __next__(self) -> T:
        """The next of one iteration over this view, so that `next(data.values())` gives the first."""
        try:
            begun = self._begun
        except AttributeError:
            begun = self._begun = iter(self)
        return next(begun)


class KeysView(View[T]):
    """The keys of a container, at the top level or at every depth."""

    __slots__ = ()

    def __iter__(self) -> Iterator[T]:
        """Iterate over a snapshot of the keys; no value of a stack is read."""
        if not (self._scope.nested or self._scope.leaves_only or self._scope.sort):
            names: Any = self._collection._outline()
            return iter(list(names))
        return iter(self._paths())

    def _paths(self) -> list[Any]:
        table = self._table()
        if table is not None:
            return list(table)
        nested, leaves_only, is_leaf, _ = self._scope
        paths: list[Any] = []
        self._collect(self._collection, (), paths, nested, leaves_only, is_leaf is default_is_leaf)
        if self._scope.sort:
            paths.sort(key=lambda path: (path,) if isinstance(path, str) else path)
        return paths

    def _collect(
        self, collection: Any, path: tuple[str, ...], paths: list[Any], nested: bool, leaves_only: bool, plain: bool
    ) -> None:
        """Collect paths; nothing of a stack is read."""
        asked = leaves_only or nested
        for key, value in list(collection._outline().items()):
            if not (plain and type(value) is Tensor):
                inner = isinstance(value, TensorCollection)
                leaf = asked and not (plain and inner) and self._leaf(value)
                if inner and nested and not leaf:
                    self._collect(value, (*path, key), paths, nested, leaves_only, plain)
                if leaves_only and not leaf:
                    continue
            paths.append((*path, key) if path else key)

    def __contains__(self, key: object) -> bool:
        if type(key) is str and not self._scope.leaves_only:
            return key in self._collection._outline()
        if not is_key(key):
            return False
        path = unravel_key_to_tuple(key)
        if len(path) > 1 and not self._scope.nested:
            return False
        node: Any = self._collection
        for part in path:
            if not isinstance(node, TensorCollection):
                return False
            node = node._outline().get(part, ABSENT)
            if node is ABSENT:
                return False
        return not self._scope.leaves_only or self._leaf(node)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (KeysView, set, frozenset, type({}.keys()))):
            return NotImplemented
        return set(self) == {unravel_key(k) for k in other}

    def __and__(self, other: Any) -> set[Any]:
        return set(self) & set(other)

    def __or__(self, other: Any) -> set[Any]:
        return set(self) | set(other)

    def __sub__(self, other: Any) -> set[Any]:
        return set(self) - set(other)

    def __xor__(self, other: Any) -> set[Any]:
        return set(self) ^ set(other)

    def __rand__(self, other: Any) -> set[Any]:
        return self.__and__(other)

    def __ror__(self, other: Any) -> set[Any]:
        return self.__or__(other)

    def __rxor__(self, other: Any) -> set[Any]:
        return self.__xor__(other)

    def __rsub__(self, other: Any) -> set[Any]:
        return set(other) - set(self)

    def isdisjoint(self, other: Any) -> bool:
        """Whether no key is in `other`."""
        return set(self).isdisjoint(other)

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # as for keys of a dict


class ValuesView(View[Any]):
    """The values of a container."""

    __slots__ = ()

    def __iter__(self) -> Iterator[Any]:
        table = self._table()
        if table is not None:
            return iter(table.values())
        if self._scope.sort:
            return iter([value for _, value in self._pairs()])
        values: list[Any] = []
        self._walk(self._collection, (), None, values)
        return iter(values)


class ItemsView(View[tuple[T, Any]]):
    """The (key, value) pairs of a container."""

    __slots__ = ()

    def __iter__(self) -> Iterator[tuple[T, Any]]:
        table: Any = self._table()
        return iter(self._pairs() if table is None else table.items())
