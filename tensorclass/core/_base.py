"""TensorCollection: the primitives that a container supplies, and the few properties derived from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NoReturn, Protocol, TypeAlias, TypeVar, overload

import torch
from torch import Tensor
from torch.overrides import resolve_name
from typing_extensions import Self

from ..errors import ArgumentError, BatchDimError, BatchSizeError, LockedError, UnsupportedOperationError
from ._batch import as_batch_size, batch_dim
from ._dynamo import settle as settle
from ._entry import batch_shape
from ._publish import Step, assign, publish
from ._relation import are_related, unrelated_error

Kind: TypeAlias = int
"""Which leaves an operation takes: one of the four below."""
BATCHED: Final = 0
"""Leaves with the batch dims, for shape, index and join operations."""
VALUES: Final = 1
"""Leaves that users see as tensors, for arithmetic and casts."""
VIEWS: Final = 3
"""`VALUES` leaves over the same memory: entries without values are shared too."""
STORAGE: Final = 2
"""All tensors, for moves, pinning, sharing and memory accounting."""

Write: TypeAlias = Literal["", "whole", "index"]
Names: TypeAlias = "tuple[str | None, ...] | None"
Handler: TypeAlias = Callable[..., Any]
K = TypeVar("K")
N_co = TypeVar("N_co", covariant=True)
N_contra = TypeVar("N_contra", contravariant=True)


class Exactly(Protocol[K]):
    """For checkers: containers of exactly one class, without subclasses."""

    def __exactly__(self, other: K, /) -> K: ...


class Named(Protocol[N_co]):
    """For checkers: a reference to a field with its name; only stubs use it."""

    def __field__(self) -> N_co: ...


class Has(Protocol[N_contra]):
    """For checkers: an object with an attribute of this name, which any object without a precise stub may have."""

    def __delattr__(self, name: N_contra, /) -> None: ...  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]  # narrower than in `object`


if TYPE_CHECKING:
    from torch.utils.data import Dataset

    class Items(Dataset[Any]):
        """The protocol of a container for checkers, so that `DataLoader(batch)` accepts it."""

        def __add__(self, other: Any) -> Any: ...
else:
    Items = object


class TensorCollection(Items):
    """The base class of every container: ordered leaves, a batch size, and a way to make a twin around new leaves.

    Don't instantiate it. `isinstance(x, TensorCollection)` is True for every container, typed or untyped.

    >>> from tensorclass import TensorCollection, TensorDict
    >>> isinstance(TensorDict(a=torch.zeros(3), batch_size=[3]), TensorCollection)
    True
    """

    if not TYPE_CHECKING:  # checkers would refuse the attributes for which stores have slots
        __slots__ = ()
    __tensor_collection__: ClassVar[bool] = True
    _torch_functions: ClassVar[dict[Any, Handler]] = {}
    _dense: ClassVar[Any]
    """The class for containers of some of the entries: `TensorDict`, or a subclass of it that declares nothing."""
    __tensorclass__: ClassVar[Any]
    """The facts of a typed class; other containers lack it."""
    _layered: ClassVar[bool] = False
    """Whether the entries are in another container, the `_store`."""
    _stacked: ClassVar[bool] = False
    """Whether entries are stacked from members when they are read, so that writes to the result have no effect."""
    _written_batch: ClassVar[str] = ""
    """The addition to the error for missing batch dims, if a declaration seems to include one."""
    _afar: ClassVar[bool] = False
    """Whether the entries are in a file: each read gives copies of them, and only writes of entries reach it."""
    _plain: bool = False
    """Whether all entries are known to be tensors; for a twin without other references, this stays true."""

    _batch_size: torch.Size
    _device: torch.device | None
    _names: Names

    if TYPE_CHECKING:

        def __exactly__(self, other: Self, /) -> Self:
            """Match only the `Exactly` of this class, not that of a parent."""
            ...

    # ---- primitives ----------------------------------------------------------------------------------------------

    def _leaves(self, kind: Kind = BATCHED) -> list[Tensor]:
        raise NotImplementedError

    def _make(self, leaves: Sequence[Tensor], size: torch.Size, names: Names = None, kind: Kind = BATCHED) -> Self:
        """A new, unlocked twin around new leaves."""
        return self._twin()._refill(leaves, size, names, kind)

    def _open(self, leaves: list[Tensor], kind: Kind = BATCHED) -> Self:
        """A twin; its leaves are appended to a list."""
        twin = self._twin()
        leaves += twin._leaves(kind)
        return twin

    def _pair_leaves(
        self, other: Any, mine: list[Tensor], theirs: list[Tensor], write: Write = "", whole: bool = True
    ) -> Self | None:
        """A twin. Its tensors are appended to one list, and those of another container under the same keys to another.

        None unless all entries are tensors, containers and equal Python objects; the lists are then invalid.

        Args:
            other: a container of the same class, or a dict.
            mine: receives one's own tensors.
            theirs: receives the other ones.
            write: "whole" or "index" for a write: returns this container instead of a twin. None if it can't be
                written, or if it has leaves without batch dims to which an index would be applied.
            whole: both sides must have the same keys; otherwise the other side may have fewer.
        """
        return None

    def _combine(self, run: Handler, other: Any = None, facts: Any = None, above: Any = None, checked: int = 2) -> Any:
        """A twin around the results of one call for all tensors, and for those under the same keys.

        None if there are entries besides tensors, containers and equal Python objects, or if keys, batch sizes or ranks
        differ. Dense stores and lazy stacks have this short path.

        Args:
            run: called with a list of tensors, or with two lists; returns as many tensors.
            other: a container of the same class.
            facts: those of the typed class around this store.
            above: lists that the container above, which makes the call, reads; see `store/_combine.py`.
            checked: 1 or 2 if a typed class must declare the results, see `Facts.keeps`; None too if it may not.
        """
        raise NotImplementedError

    def _each(self, fn: Handler, size: torch.Size, names: Names = None, kind: Kind = BATCHED, at: Any = None) -> Self:
        """A twin around the results of a function for each leaf, or for each leaf and an argument `at`."""
        leaves: list[Tensor] = []
        twin = self._open(leaves, kind)
        new = [fn(leaf) if at is None else fn(leaf, at) for leaf in leaves]
        return twin._refill(new, size, names, kind)

    def _refill(self, leaves: Iterable[Tensor], size: torch.Size, names: Names = None, kind: Kind = BATCHED) -> Self:
        """As `_make`, for a twin without other references: it becomes the result, and can't be used again.

        `leaves` may be an iterator that sibling containers share.
        """
        raise NotImplementedError

    def _entries(self) -> dict[str, Any]:
        raise NotImplementedError

    def _tensors_by_key(self) -> dict[str, Tensor] | None:
        """The entries if all of them are tensors, for fast paths; else None."""
        if not self._plain:
            return None
        table = self._entries()
        return table if self._plain else None  # after the copy: other writes clear the flag first

    def _live(self) -> dict[str, Any]:
        """The entries for an immediate read: not a copy, if the store has its own dict."""
        return self._entries()

    def _outline(self) -> dict[str, Any]:
        """The entries for readers of keys and classes only: for a stack, the values of one member."""
        return self._live()

    def _parts(self) -> list[Any]:
        """The members of a stack, whose leaves are consecutive; else this container."""
        return [self]

    def _solid(self) -> Any:
        """The container without lazy stacks at any depth; itself if it has none."""
        return self

    def _run_untyped(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """As `_run_on_stack`, for a result of another schema: no class says how to join its members."""
        result = getattr(store_of(self), name)(*args, **kwargs)
        return result._joined_by(result._dense) if self._layered and result._stacked else result

    def _run_on_stack(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call the stack's own implementation of an operation."""
        raise NotImplementedError

    def _entry(self, key: str) -> Any:
        raise NotImplementedError

    def _put(self, key: str, value: Any) -> None:
        raise NotImplementedError

    def _put_all(self, values: dict[str, Any]) -> None:
        """As `_put`, for several entries; if one dict holds them, other threads see all of them or none."""
        publish(self._put_steps(values))

    def _swap_in(self, entries: dict[str, Any], seen: dict[str, Any]) -> None:
        """Replace all entries by valid entries; other threads see the old state or the new one.

        `seen`: the entries that they were made from; later writes of other threads are kept.
        """
        gone = [key for key in seen if key not in entries]
        publish([*[step for key in gone for step in self._drop_steps(key)], *self._put_steps(entries)])

    def _drop(self, key: str) -> None:
        publish(self._drop_steps(key))

    def _put_steps(self, values: dict[str, Any]) -> list[Step]:
        """The steps of `_put_all`, for an operation that makes other changes together with it; see `publish`."""
        return [partial(self._put, key, value) for key, value in values.items()]

    def _swap_steps(self, entries: dict[str, Any]) -> list[Step]:
        """The steps that replace all entries."""
        return [partial(self._swap_in, entries, self._entries())]

    def _drop_steps(self, key: str) -> list[Step]:
        """The steps of `_drop`."""
        raise NotImplementedError

    def _check(self, key: str, value: Any) -> Any:
        raise NotImplementedError

    @classmethod
    def _from_entries(
        cls, entries: dict[str, Any], batch_size: torch.Size, device: torch.device | None, names: Names
    ) -> Self:
        raise NotImplementedError

    def _set_device(self, device: torch.device | None) -> None:
        """Set the device of this container and nested ones; the leaves are already there."""
        publish(self._device_steps(device))

    def _device_steps(self, device: torch.device | None) -> list[Step]:
        """The steps of `_set_device`."""
        raise NotImplementedError

    def _plan_lock(self, owner: object | None, held: bool, found: Any) -> None:
        """Note in `found` the owners of this container and of nested ones after `relock`."""
        raise NotImplementedError

    # ---- hooks ---------------------------------------------------------------------------------------------------

    def _check_all(self, values: dict[str, Any]) -> dict[str, Any]:
        """Check several top-level values that are written together."""
        return {key: self._check(key, value) for key, value in values.items()}

    def _accept(self, old: Sequence[Tensor], new: Sequence[Tensor], op: str, other: object = ...) -> None:
        """Refuse the result of an operation on `VALUES` leaves; a container without declarations accepts everything.

        `other` is the operand; None for an operation without one.
        """

    def _may_meet(self, other: TensorCollection) -> bool:
        """Whether another container is allowed as an operand; typed classes refuse unrelated ones."""
        return not (self._layered and other._layered) or are_related(type(self), type(other))

    def _meet(self, other: TensorCollection, op: str) -> None:
        """Refuse an operand whose class is unrelated to that of this container, also in nested containers."""
        if not self._may_meet(other):
            raise unrelated_error(type(self), type(other), op)
        if not (self._plain and other._plain):
            theirs = other._outline()
            for key, value in list(self._outline().items()):
                if type(value) is Tensor or not isinstance(value, TensorCollection):
                    continue
                if isinstance(theirs.get(key), TensorCollection):
                    value._meet(theirs[key], op)

    def _twin(self) -> Self:
        """A new container around the same tensors; nested containers are new as well.

        Operations work on a twin from beginning to end, since other threads may write to this container.
        """
        raise NotImplementedError

    def _require_unlocked(self, what: str, key: str | None = None) -> None:
        if self._owners() is not None:
            raise locked_error(type(self).__name__, what, key)

    def _owners(self) -> Any:
        """The owners of the lock; None if unlocked."""
        raise NotImplementedError

    # ---- derived -------------------------------------------------------------------------------------------------

    def _bare(self, batch_size: torch.Size, names: Names = None) -> Any:
        """An empty untyped container on the same device, for results with another structure."""
        return TensorCollection._dense._of({}, batch_size, self._device, names, True)

    @property
    def batch_size(self) -> torch.Size:
        """The leading dims that all leaves share.

        Assigning it checks every leaf against the new size.

        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(3, 4), batch_size=[3]).batch_size
        torch.Size([3])
        """
        return self._batch_size

    @batch_size.setter
    def batch_size(self, size: Sequence[int] | int) -> None:
        self._require_unlocked("change the batch size")
        if size is None:
            raise BatchSizeError("batch_size is an int or a sequence of ints, got None; no batch dims are `[]`")
        size = as_batch_size(size)
        if size != self._batch_size:
            self._resize(size, ())

    def _resize(self, size: torch.Size, path: tuple[str, ...]) -> None:
        """Set the batch size of this container, and of nested containers with too few batch dims."""
        self._check_size(size, path)
        publish(self._size_steps(size))

    def _size_steps(self, size: torch.Size) -> list[Step]:
        """The steps of `_resize`, for a size that was checked."""
        steps: list[Step] = []
        for value in self._entries().values():
            if isinstance(value, TensorCollection) and value._batch_size[: len(size)] != size:
                steps += value._size_steps(size)
        return [*steps, *self._own_size_steps(size)]

    def _own_size_steps(self, size: torch.Size) -> list[Step]:
        """The steps that set the batch size of this container only; dims that remain keep their names."""
        if len(size) == len(self._batch_size):
            return self._shape_steps(size, self._names)
        kept = (*self.names, *[None] * len(size))[: len(size)]
        return self._shape_steps(size, kept if any(name is not None for name in kept) else None)

    def _shape_steps(self, size: torch.Size, names: Names) -> list[Step]:
        """The steps that set the batch size and the dim names of this container only."""
        return assign(self, _names=names, _batch_size=size)

    def _check_size(self, size: torch.Size, path: tuple[str, ...]) -> None:
        for key, value in self._entries().items():
            here = (*path, key)
            if isinstance(value, TensorCollection):
                if value._batch_size[: len(size)] != size:
                    value._check_size(size, here)
                continue
            shape = value.shape if isinstance(value, Tensor) else batch_shape(value)
            if shape is not None and shape[: len(size)] != size:
                raise BatchSizeError(
                    f"{type(self).__name__}: batch_size {list(size)} does not fit field `{'.'.join(here)}` of shape "
                    f"{list(shape)}; its leading dims must be the batch size"
                )

    @property
    def shape(self) -> torch.Size:
        """The batch size, under the name that tensors use.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(2, 3, 8), batch_size=[2, 3]).shape
        torch.Size([2, 3])
        """
        return self._batch_size

    @property
    def batch_dims(self) -> int:
        """The number of batch dims; an alias of `ndim`."""
        return len(self._batch_size)

    @property
    def ndim(self) -> int:
        """The number of batch dims.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(2, 3, 8), batch_size=[2, 3]).ndim
        2
        """
        return len(self._batch_size)

    def dim(self) -> int:
        """The number of batch dims; an alias of `ndim`."""
        return len(self._batch_size)

    def ndimension(self) -> int:
        """The number of batch dims; an alias of `ndim`."""
        return len(self._batch_size)

    @overload
    def size(self) -> torch.Size: ...
    @overload
    def size(self, dim: int | str) -> int: ...
    def size(self, dim: int | str | None = None) -> torch.Size | int:
        """The batch size, or its entry at one batch dim.

        Raises:
            BatchDimError: if `dim` is not a batch dim.

        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(3, 4), batch_size=[3]).size(0)
        3
        """
        size = self._batch_size
        if isinstance(dim, str) and dim in self.names:
            return size[self.names.index(dim)]
        return size if dim is None else size[batch_dim(dim, len(size), op="size")]  # type: ignore[arg-type]  # raises for an unknown name

    def numel(self) -> int:
        """The number of elements of the batch: the product of the batch size.

        >>> from tensorclass import TensorDict
        >>> TensorDict(batch_size=[3, 4]).numel()
        12
        """
        if self._stacked:
            return sum([part.numel() for part in self._parts()])
        return self._batch_size.numel()

    @property
    def device(self) -> torch.device | None:
        """The device to which every write is moved; None if leaves may be on any device.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict(a=torch.zeros(2))
        >>> data.device, data.to("cpu").device
        (None, device(type='cpu'))
        """
        return self._device

    @property
    def names(self) -> list[str | None]:
        """The names of the batch dims, None for a dim without a name.

        Raises:
            BatchDimError: on assignment, for a wrong number of names, and for a repeated name.

        >>> from tensorclass import TensorDict
        >>> TensorDict(batch_size=[3, 4], names=["time", None]).names
        ['time', None]
        """
        return [None] * len(self._batch_size) if self._names is None else list(self._names)

    @names.setter
    def names(self, names: Sequence[str | None] | None) -> None:
        self._set_names(check_names(names, len(self._batch_size)))

    def _set_names(self, names: Names) -> None:
        """Set dim names, here and in nested containers, which share the dims."""
        publish(self._name_steps(names))

    def _name_steps(self, names: Names) -> list[Step]:
        """The steps of `_set_names`."""
        ndim = len(self._batch_size)
        head = (None,) * ndim if names is None else names
        steps = assign(self, _names=names)
        for value in self._entries().values():
            if isinstance(value, TensorCollection):
                steps += value._name_steps(check_names((*head, *value.names[ndim:]), len(value._batch_size)))
        return steps

    def __len__(self) -> int:
        """The size of the first batch dim; 0 if there is none."""
        return self._batch_size[0] if self._batch_size else 0

    def _without_batch(self, what: str) -> UnsupportedOperationError:
        """The error for an operation that needs a batch dim, if there is none."""
        return UnsupportedOperationError(
            f"{what} a {type(self).__name__} without batch dims (batch_size []); use keys(), values() or items() for "
            "its entries, index a field to reach its own dims, or give a batch_size; containers are joined with "
            f"`torch.stack([...])`{self._written_batch}"
        )

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise: a container is not an array, and numpy would make an object array or an empty array."""
        name = type(self).__name__
        raise UnsupportedOperationError(
            f"a {name} holds several tensors and is not converted to one tensor or array: convert a field "
            "(`torch.as_tensor(batch.get(name))`), put fields together with `batch.cat_tensors(...)`, containers with "
            f"`torch.stack([...])`, or take arrays by name with `batch.numpy()`"
        )

    def __dlpack__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise, as `__array__` does: torch calls this first to make a tensor."""
        self.__array__()

    def __dlpack_device__(self) -> NoReturn:
        """Raise, as `__dlpack__` does."""
        self.__array__()

    def __bool__(self) -> bool:
        """The truth value of `a == b` and `a != b`. For other containers it raises, since it would be ambiguous.

        `a == b` is true if all elements are equal, `a != b` if any differ. So dataclasses and pydantic models with
        containers as fields can be compared, and `in` works for lists of containers.
        """
        equality: bool | None = getattr(store_of(self), "_equality", None)
        if equality is not None:
            return (
                all([bool(leaf.all()) for leaf in self._leaves(VALUES)])
                if equality
                else any([bool(leaf.any()) for leaf in self._leaves(VALUES)])
            )
        raise UnsupportedOperationError(
            f"the truth value of a {type(self).__name__} is ambiguous: use `len(batch.keys())` or `is_empty()` to ask "
            "for entries, `equal(a, b)` to compare, `(a == b).all()` to reduce"
        )

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Route a torch function to the operation of the same name, which the table of operations registers."""
        handler = cls._torch_functions.get(func)
        if handler is None:
            raise unsupported_error(func)
        return handler(*args, **(kwargs or {}))


def store_of(collection: Any) -> Any:
    """The container that holds the entries: the store of a typed instance or of parameters, else itself."""
    return getattr(collection, "_store", collection)


def is_typed(value: object) -> bool:
    """Whether a value is an instance of a typed class."""
    return hasattr(type(value), "__tensorclass_schema__")


def without_stack(collection: Any) -> Any:
    """A container with its own entries: for a lazy stack the dense container, for parameters their store."""
    if collection._stacked:
        return collection._solid()
    return collection if collection._layered else store_of(collection)


def unsupported_error(func: Any) -> UnsupportedOperationError:
    """The error for a torch function that containers don't support."""
    name = resolve_name(func) or f"torch.{getattr(func, '__name__', func)}"
    return UnsupportedOperationError(
        f"{name} is not defined on containers; apply it to the leaves with `batch.apply(lambda t: {name}(t, ...))` or "
        "to one field"
    )


def locked_error(name: str, what: str, key: str | None = None) -> LockedError:
    """The error for a structural write to a locked container."""
    place = f" (field `{key}`)" if key else ""
    return LockedError(
        f"cannot {what}{place}: this {name} is locked. Call `unlock_()` first, write inside `with batch.unlock_():`, "
        "or write values in place (`set_`, `update_`, `batch[i] = ...`)"
    )


def check_names(names: Sequence[str | None] | None, ndim: int) -> Names:
    """Normalize dim names: one for each batch dim, without repeats; None if all are None."""
    if names is None:
        return None
    if isinstance(names, str) or len(names) != ndim:
        raise BatchDimError(
            f"names are a sequence with one entry for each of the {ndim} batch dims, got {names!r:.200}"
        )
    given = [name for name in names if name is not None]
    if not all(isinstance(name, str) for name in given):
        raise ArgumentError(f"a dim name is a string or None, got {list(names)!r:.200}")
    if len(set(given)) != len(given):
        raise BatchDimError(f"dim names are distinct, got {list(names)!r:.200}")
    return tuple(names) if given else None
