"""Python objects as entries: one value for the batch, under the names of `tensordict`.

A `TensorDict` stores `"scan"` as it is. These classes wrap such a value: `NonTensorData` marks a tensor, number or
mapping as an object, `MetaData` marks an object of the batch as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor
from typing_extensions import Self

from ..._flags import flags
from ...core import (
    Device,
    Key,
    Kind,
    Names,
    Path,
    TensorCollection,
    View,
    as_batch_size,
    as_device,
    assign,
    check_names,
    has_lengths,
    is_typed,
    join_path,
    trust_for_loading,
    unravel_key_to_tuple,
)
from ...errors import ArgumentError, BatchSizeError, MissingKeyError, StructureError
from ...ops import UNSET, Container, Join, capture_non_tensor_stack
from ...ops._compare import same_object
from ...ops._mapping import MappingOps
from ...ops._steps import Writes
from ._follow import Follower
from ._nodes import Node, NonTensorStack
from ._object_table import plain_object, refuse_container
from ._unbatched import Unbatched as Unbatched

T = TypeVar("T")

_CONVERTED = (Mapping, bool, int, float, complex, np.ndarray, np.generic, list, tuple, Tensor, TensorCollection, Node)


class NonTensorDataBase(Follower, Node, Generic[T]):
    """The base class of `NonTensorData` and `MetaData`, for `isinstance` tests.

    >>> from tensorclass import MetaData, NonTensorData, NonTensorDataBase
    >>> [isinstance(cls("scan"), NonTensorDataBase) for cls in (NonTensorData, MetaData)]
    [True, True]
    """

    __slots__ = ("_device", "_names", "_size", "data")
    __wraps_object__: ClassVar[bool] = True
    _holds_object = True

    data: T
    _size: torch.Size
    _device: torch.device | None
    _names: Names

    def __init__(
        self,
        data: T | NonTensorDataBase[T],
        *,
        batch_size: Sequence[int] | int | None = None,
        device: Device = None,
        names: Sequence[str | None] | None = None,
    ) -> None:
        if isinstance(data, NonTensorStack):
            raise StructureError(f"{type(self).__name__} holds one object; a NonTensorStack is an entry as it is")
        self.data = data.data if isinstance(data, NonTensorDataBase) else plain_object(data)  # pyright: ignore[reportAttributeAccessIssue]  # the class narrows without its parameter
        self._size = as_batch_size(batch_size)
        self._device = as_device(device)
        self._names = check_names(names, len(self._size))

    def _bound(self, size: torch.Size, device: torch.device | None, names: Names) -> Self:
        """The same value for another batch; a container stores one without a batch, and returns one with its own."""
        new = object.__new__(type(self))
        new.data, new._size, new._device, new._names = self.data, size, device, names
        return new

    # ---- as an entry ---------------------------------------------------------------------------------------------

    def _leaves(self, kind: Kind) -> list[Tensor]:
        return []

    def _make(self, leaves: Sequence[Tensor], batch_size: torch.Size, names: Names, kind: Kind) -> Self:
        return self

    def _read_value(self) -> T:
        return self.data

    def _stored_form(self, key: str, size: torch.Size) -> Any:
        if self._size and self._size[: len(size)] != size:
            raise BatchSizeError(
                f"field `{key}`: a {type(self).__name__} of batch size {list(self._size)} does not fit the batch size "
                f"{list(size)}; leave its batch_size out"
            )
        return self._bound(torch.Size([]), None, None)

    def _describe(self, outer: torch.Size) -> str:
        return type(self.data).__name__

    def _same_node(self, other: Any, test: Any) -> bool:
        return same_object(self.data, other.data)

    def _choose(self, other: Any, condition: Tensor, key: str) -> Any:
        return NonTensorStack.of_one(self, condition.shape)._choose(other, condition, key)

    def _plan_write(self, value: Any, parts: Any, size: torch.Size, path: Path) -> Any:
        refuse_container(value, path)
        found = value.data if isinstance(value, NonTensorDataBase) else value
        if parts is not None and not same_object(self.data, found):
            raise StructureError(
                f"in-place write: `{join_path(path)}` is one object shared by the batch, got {found!r:.60}"
            )
        return found

    def _commit(self, plan: Any, writes: Writes) -> None:
        writes.stores += assign(self, data=plan)

    # ---- reading -------------------------------------------------------------------------------------------------

    @property
    def shape(self) -> torch.Size:
        """The batch shape."""
        return self._size

    @property
    def device(self) -> torch.device | None:
        """The device of the batch; the object itself has none."""
        return self._device

    @property
    def names(self) -> list[str | None]:
        """The names of the batch dims."""
        return [None] * len(self._size) if self._names is None else list(self._names)

    def tolist(self) -> list[Any]:
        """The value as nested lists of the batch shape; without batch dims, the value itself."""
        return NonTensorStack.of_one(self, self._size).tolist()

    def maybe_to_stack(self) -> NonTensorStack[T]:
        """A stack with one value per element of the batch.

        >>> from tensorclass import NonTensorData
        >>> NonTensorData("a", batch_size=[2]).maybe_to_stack()
        NonTensorStack(['a', 'a'])
        """
        return NonTensorStack.of_one(self, self._size)

    def to(self, device: Device) -> Self:
        """The same value for a batch on another device."""
        return self._bound(self._size, as_device(device), self._names)

    def _with_numbers(self, new: Tensor) -> Self:
        return self._bound(new.shape, self._device, None)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the value."""
        return self.data(*args, **kwargs)  # type: ignore[operator]  # the caller knows that it is a function

    # ---- comparing -----------------------------------------------------------------------------------------------

    def _fill(self, value: Any) -> Tensor:
        return torch.full(self._size, bool(value), dtype=torch.bool, device=self._device)

    def _operand_value(self, other: Any, op: str) -> Any:
        if not isinstance(other, NonTensorDataBase):
            return other
        if other._size != self._size:
            raise BatchSizeError(f"{op}: batch sizes differ: {list(self._size)} and {list(other._size)}")
        return other.data

    def __eq__(self, other: object) -> Any:
        """Compare with another entry or one object; returns a bool tensor of the batch shape."""
        if isinstance(other, NonTensorStack):
            return other == self.maybe_to_stack()
        return self._fill(same_object(self.data, self._operand_value(other, "==")))

    def __ne__(self, other: object) -> Any:
        """A bool tensor of the batch shape."""
        return ~(self == other)

    def __xor__(self, other: Any) -> Tensor:
        """`^` of the two values, for each element."""
        return self._fill(self.data ^ self._operand_value(other, "^"))

    def __or__(self, other: Any) -> Tensor:
        """`|` of the two values, for each element."""
        return self._fill(self.data | self._operand_value(other, "|"))

    def __hash__(self) -> int:
        return object.__hash__(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(data={self.data!r}, batch_size={self._size}, device={self._device})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (NonTensorData if isinstance(self, NonTensorData) else MetaData, self.data, tuple(self._size))

    # ---- joining -------------------------------------------------------------------------------------------------

    @classmethod
    def _stays_one(cls, nodes: Sequence[Any], how: Join) -> bool:
        raise NotImplementedError

    @classmethod
    def _join_nodes(cls, nodes: Sequence[Any], dim: int, how: Join, key: str) -> Any:
        if cls._stays_one(nodes, how):
            return nodes[0]
        stacks = [NonTensorStack.of_one(node, size) for node, size in zip(nodes, how.sizes, strict=True)]
        return NonTensorStack._join_nodes(stacks, dim, how, key)

    @classmethod
    def _join_many(cls, nodes: Sequence[Any], dim: int, how: Join) -> Any:
        size = how.torch_fn([node._stands_for() for node in nodes], dim).shape
        if all(type(node) is type(nodes[0]) for node in nodes) and nodes[0]._stays_one(nodes, how):
            return nodes[0]._bound(size, nodes[0]._device, None)
        return NonTensorStack._join_many([node.maybe_to_stack() for node in nodes], dim, how)


@trust_for_loading
class NonTensorData(NonTensorDataBase[T]):
    """One Python object that all elements of the batch share.

    Stacking returns a `NonTensorStack` with one value per element; indexing and reshaping keep the single value.
    `td["name"] = "scan"` needs no wrapper; a number, a list, a mapping or a tensor needs one to be stored as an object.

    Args:
        data: the object.
        batch_size: the batch size that it belongs to; as an entry, that of its container.
        device: the device of the batch.
        names: a name or None for each batch dim.

    >>> from tensorclass import NonTensorData, TensorDict
    >>> data = TensorDict(count=NonTensorData(3), batch_size=[2])
    >>> data["count"], data.get("count").batch_size, TensorDict.stack([data[0], data[1]])["count"]
    (3, torch.Size([2]), [3, 3])
    """

    __slots__ = ()

    def _stored_form(self, key: str, size: torch.Size) -> Any:
        super()._stored_form(key, size)
        plain = not isinstance(self.data, _CONVERTED)
        return self.data if plain else self._bound(torch.Size([]), None, None)

    @classmethod
    def _stays_one(cls, nodes: Sequence[Any], how: Join) -> bool:
        return stays_one([node.data for node in nodes], how)


@trust_for_loading
class MetaData(NonTensorDataBase[T]):
    """One Python object that belongs to the batch as a whole; joining batches keeps a single object.

    `MetaData[cls]` is a class that accepts only instances of `cls`.

    Args:
        data: the object.
        batch_size: the batch size that it belongs to; as an entry, that of its container.
        device: the device of the batch.
        names: a name or None for each batch dim.

    Raises:
        TypeError: for an object of another class, by `MetaData[cls]`.

    >>> from tensorclass import MetaData, TensorDict
    >>> config = {"lr": 0.1}
    >>> data = TensorDict(config=MetaData(config), batch_size=[2])
    >>> TensorDict.stack([data, data])["config"] is config
    True
    """

    __slots__ = ()
    _wanted: ClassVar[Any] = object

    def __init__(self, data: T | NonTensorDataBase[T], **options: Any) -> None:
        super().__init__(data, **options)
        if not isinstance(self.data, self._wanted):
            raise ArgumentError(
                f"{type(self).__name__} holds a {self._wanted.__name__}, got a {type(self.data).__name__}"
            )

    def __class_getitem__(cls, wanted: Any) -> Any:
        if not isinstance(wanted, type):
            return super().__class_getitem__(wanted)  # type: ignore[misc]  # Generic has it
        return type(f"MetaData[{wanted.__name__}]", (MetaData,), {"__slots__": (), "_wanted": wanted})

    @classmethod
    def _stays_one(cls, nodes: Sequence[Any], how: Join) -> bool:
        return all(node.data is nodes[0].data for node in nodes)


def is_non_tensor(data: object) -> bool:
    """Whether a value read with `get` is a Python object or a stack of them.

    >>> import torch
    >>> from tensorclass import TensorDict, is_non_tensor
    >>> data = TensorDict(x=torch.zeros(2), name="a")
    >>> is_non_tensor(data.get("name")), is_non_tensor(data.get("x"))
    (True, False)
    """
    return isinstance(data, Node) and data._holds_object


View.object_type = NonTensorData


@flags
class NonTensorOps(Container):
    """Methods that read and write entries as Python objects."""

    __slots__ = ()

    def set_non_tensor(self, key: Key, value: Any) -> Self:
        """Write a Python object unchanged, even if its type would otherwise become a tensor or a container.

        Args:
            key: the key to write; missing nested containers are created.
            value: the object.

        Raises:
            LockedError: if the container is locked.

        >>> from tensorclass import TensorDict
        >>> data = TensorDict(batch_size=[2]).set_non_tensor(("config", "steps"), [1, 2, 3])
        >>> data[0]["config", "steps"]
        [1, 2, 3]
        """
        path = unravel_key_to_tuple(key)
        holder = MappingOps.get(self, path[:-1]) if len(path) > 1 else self
        return MappingOps.set(self, path, value if is_typed(holder) else NonTensorData(value))  # pyright: ignore[reportReturnType]  # mypy takes it for Self as it is

    def get_non_tensor(self, key: Key, default: Any = UNSET) -> Any:
        """The Python object of an entry; a list for one object per element; a tensor is returned unchanged.

        Raises:
            MissingKeyError: if the key is absent and there is no default.

        >>> from tensorclass import TensorDict
        >>> TensorDict(tags=["a", "b"], batch_size=[2]).get_non_tensor("tags")
        ['a', 'b']
        """
        try:
            value = self._read(unravel_key_to_tuple(key))
        except MissingKeyError:
            if default is UNSET:
                raise
            return default
        return value.tolist() if isinstance(value, NonTensorStack) else value

    def is_non_tensor(self, key: Key) -> bool:
        """Whether an entry holds Python objects.

        Raises:
            MissingKeyError: if the key is absent.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict(obs=torch.zeros(4), label="cat")
        >>> data.is_non_tensor("label"), data.is_non_tensor("obs")
        (True, False)
        """
        value = self._raw(unravel_key_to_tuple(key))
        return not isinstance(value, (Tensor, TensorCollection, Unbatched))

    def non_tensor_items(self, include_nested: bool = False) -> tuple[tuple[Any, Any], ...]:
        """The entries with Python objects, as pairs of key and `NonTensorData` or `NonTensorStack`.

        Args:
            include_nested: include those of nested containers, under nested keys.

        >>> from tensorclass import TensorDict
        >>> [key for key, _ in TensorDict(s="a", deep={"t": "b"}).non_tensor_items(include_nested=True)]
        ['s', ('deep', 't')]
        """
        found: list[tuple[Any, Any]] = []
        for key, value in self._entries().items():
            if isinstance(value, NonTensorOps):
                below = NonTensorOps.non_tensor_items(value, True) if include_nested else ()
                found += [((key, *unravel_key_to_tuple(inner)), item) for inner, item in below]
            elif not isinstance(value, (Tensor, TensorCollection, Unbatched)):
                found.append((key, present_entry(self, value)))
        return tuple(found)


def present_entry(holder: TensorCollection, value: Any) -> Any:
    """An entry as `get` returns it: a Python object in a `NonTensorData` with the batch size of its container."""
    if isinstance(value, (Tensor, TensorCollection, NonTensorStack)):
        return value
    if has_lengths(value):
        return value._item()
    if isinstance(value, Unbatched):
        return value._shown_in(holder._batch_size)
    node = value if isinstance(value, NonTensorDataBase) else NonTensorData(value)
    return node._bound(holder._batch_size, holder._device, holder._names)


def same_entry(a: Any, b: Any) -> bool:
    """Whether two entries are identical or equal Python objects."""
    mine, theirs = (value.data if isinstance(value, NonTensorDataBase) else value for value in (a, b))
    return type(theirs) is type(mine) and same_object(mine, theirs)


def stays_one(values: Sequence[Any], how: Join) -> bool:
    """Whether the join of several containers keeps one value."""
    if how.new_dim and not capture_non_tensor_stack():
        return False
    return all(same_object(value, values[0]) for value in values)


@trust_for_loading
def _restore(cls: Any, data: Any, size: tuple[int, ...]) -> Any:
    return (MetaData if cls is MetaData else NonTensorData)(data, batch_size=size)
