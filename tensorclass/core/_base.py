"""TensorCollection: the primitives that a container supplies and the few properties that follow only from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NoReturn, Protocol, TypeAlias, TypeVar, overload

import torch
from torch import Tensor
from torch.overrides import resolve_name
from typing_extensions import Self

from ..errors import ArgumentError, BatchDimError, BatchSizeError, LockedError, UnsupportedOperationError
from ._batch import as_batch_size, batch_dim
from ._entry import batch_shape
from ._relation import related, unrelated

Kind: TypeAlias = int
BATCHED: Final = 0
"""Leaves that carry the batch dims: what shape, index and join operations touch."""
VALUES: Final = 1
"""Leaves that the user calls tensors: what arithmetic and casts touch."""
VIEWS: Final = 3
"""`VALUES` leaves of the same memory: what holds no values is shared too."""
STORAGE: Final = 2
"""Every tensor there is: what moves, pinning, sharing and accounting touch."""

Write: TypeAlias = Literal["", "whole", "index"]
Names: TypeAlias = "tuple[str | None, ...] | None"
Handler: TypeAlias = Callable[..., Any]
F = TypeVar("F", bound="Callable[..., Any]")
K = TypeVar("K")
N_co = TypeVar("N_co", covariant=True)
N_contra = TypeVar("N_contra", contravariant=True)


class Exactly(Protocol[K]):
    """For checkers: containers of one class, without its subclasses."""

    def __exactly__(self, other: K, /) -> K: ...


class Named(Protocol[N_co]):
    """For checkers: a reference to a field, with its name; only stubs say it."""

    def __field__(self) -> N_co: ...


class Has(Protocol[N_contra]):
    """For checkers: what has an attribute of this name, which anything without a better stub may have."""

    def __delattr__(self, name: N_contra, /) -> None: ...  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]  # narrower than that of `object`


if TYPE_CHECKING:
    from torch.utils.data import Dataset

    class Items(Dataset[Any]):
        """What a container is to checkers, so that `DataLoader(batch)` takes it."""

        def __add__(self, other: Any) -> Any: ...
else:
    Items = object


class TensorCollection(Items):
    """What every container is: leaves in order, a batch size, and a way to make a twin around new leaves.

    Not meant to be instantiated. `isinstance(x, TensorCollection)` holds for every container, typed or not.

    >>> from tensorclass import TensorCollection, TensorDict
    >>> isinstance(TensorDict(a=torch.zeros(3), batch_size=[3]), TensorCollection)
    True
    """

    if not TYPE_CHECKING:  # a checker would refuse the attributes that the stores give slots to
        __slots__ = ()
    __tensor_collection__: ClassVar[bool] = True
    _torch_functions: ClassVar[dict[Any, Handler]] = {}
    _dense: ClassVar[Any]
    """The class of containers of some of the entries: `TensorDict`, or what is derived from it and declares nothing."""
    __tensorclass__: ClassVar[Any]
    """What a typed class decides; no other container has it."""
    _layered: ClassVar[bool] = False
    """Whether the entries live in another container, the `_store`."""
    _stacked: ClassVar[bool] = False
    """Whether entries are stacked from members when they are read, so that a write to them reaches nothing."""
    _written_batch: ClassVar[str] = ""
    """What to add to the error for absent batch dims, where a declaration seems to write one."""
    _plain: bool = False
    """Whether the entries are known to be tensors and nothing else; of a twin that nobody else has, it stays so."""

    _batch_size: torch.Size
    _device: torch.device | None
    _names: Names

    if TYPE_CHECKING:

        def __exactly__(self, other: Self, /) -> Self:
            """Fits only the `Exactly` of this class, not that of a parent."""
            ...

    # ---- what a container supplies -------------------------------------------------------------------------------

    def _leaves(self, kind: Kind = BATCHED) -> list[Tensor]:
        raise NotImplementedError

    def _make(
        self, leaves: Sequence[Tensor], batch_size: torch.Size, names: Names = None, kind: Kind = BATCHED
    ) -> Self:
        """A new, unlocked twin around new leaves."""
        return self._twin()._refill(leaves, batch_size, names, kind)

    def _open(self, leaves: list[Tensor], kind: Kind = BATCHED) -> Self:
        """A twin, whose leaves are added to a list."""
        twin = self._twin()
        leaves += twin._leaves(kind)
        return twin

    def _beside(
        self, other: Any, mine: list[Tensor], theirs: list[Tensor], write: Write = "", whole: bool = True
    ) -> Self | None:
        """A twin whose tensors are added to a list, and those of another container under the same keys to a second one.

        None where not all of it is tensors, containers and equal Python objects; the lists are of no use then.

        Args:
            other: a container of the same class, or a dict.
            mine: receives one's own tensors.
            theirs: receives the other ones.
            write: "whole" or "index" for what is to be written: gives this container instead of a twin, and None where
                it may not be written, or has leaves without its batch dims and an index is to be applied to them.
            whole: both sides have the same keys; else the other side may have fewer.
        """
        return None

    def _each(
        self, fn: Callable[[Tensor], Tensor], batch_size: torch.Size, names: Names = None, kind: Kind = BATCHED
    ) -> Self:
        """A twin around what a function gives for each leaf."""
        leaves: list[Tensor] = []
        twin = self._open(leaves, kind)
        return twin._refill([fn(leaf) for leaf in leaves], batch_size, names, kind)

    def _refill(
        self, leaves: Iterable[Tensor], batch_size: torch.Size, names: Names = None, kind: Kind = BATCHED
    ) -> Self:
        """As `_make`, of a twin that nobody else has: it becomes the result, and is of no other use afterwards.

        `leaves` may be an iterator that containers side by side share.
        """
        raise NotImplementedError

    def _entries(self) -> dict[str, Any]:
        raise NotImplementedError

    def _tensors_by_key(self) -> dict[str, Tensor] | None:
        """The entries when they are tensors and nothing else, for ways that need no more."""
        if not self._plain:
            return None
        table = self._entries()
        return table if self._plain else None  # asked after the copy: a write of something else says so first

    def _live(self) -> dict[str, Any]:
        """The entries for reading on the spot: no copy where the store has a dict of its own."""
        return self._entries()

    def _outline(self) -> dict[str, Any]:
        """The entries for whoever asks only for keys and classes: in a stack, values of one member."""
        return self._live()

    def _parts(self) -> list[Any]:
        """The containers whose leaves follow each other: the members of a stack, else this one."""
        return [self]

    def _solid(self) -> Any:
        """The container without lazy stacks at any depth: this one, unless there are some."""
        return self

    def _untyped(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """As `_through`, for an operation whose result has another schema."""
        return getattr(store_of(self), name)(*args, **kwargs)

    def _through(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Leave an operation to the stack, which has a way of its own for it."""
        raise NotImplementedError

    def _entry(self, key: str) -> Any:
        raise NotImplementedError

    def _put(self, key: str, value: Any) -> None:
        raise NotImplementedError

    def _put_all(self, values: dict[str, Any]) -> None:
        """As `_put`, several entries: other threads see none of them or all, where one dict holds them."""
        for key, value in values.items():
            self._put(key, value)

    def _swap_in(self, entries: dict[str, Any], seen: dict[str, Any]) -> None:
        """Hold entries that are valid already, and no others: other threads see the one state or the other.

        `seen`: the entries that they were made from; what another thread has written since then stays.
        """
        for key in seen:
            if key not in entries:
                self._drop(key)
        self._put_all(entries)

    def _drop(self, key: str) -> None:
        raise NotImplementedError

    def _check(self, key: str, value: Any) -> Any:
        raise NotImplementedError

    @classmethod
    def _from_entries(
        cls, entries: dict[str, Any], batch_size: torch.Size, device: torch.device | None, names: Names
    ) -> Self:
        raise NotImplementedError

    def _set_device(self, device: torch.device | None) -> None:
        """Impose a device on this container and those below; the leaves are there already."""
        raise NotImplementedError

    def _set_lock(self, owner: object | None, held: bool = True) -> None:
        """Lock this container and those below for an owner, None for the user; or let go."""
        raise NotImplementedError

    # ---- what a container may refine -----------------------------------------------------------------------------

    def _check_all(self, values: dict[str, Any]) -> dict[str, Any]:
        """Check several top-level values that are written together."""
        return {key: self._check(key, value) for key, value in values.items()}

    def _accept(self, old: Sequence[Tensor], new: Sequence[Tensor], op: str, other: object = ...) -> None:
        """Refuse the result of an operation on `VALUES` leaves; a container that declares nothing accepts all.

        `other` is the operand that the leaves were combined with, None for an operation without one.
        """

    def _refusal(self, other: TensorCollection, op: str) -> Exception | None:
        """The error where another container may not meet this one; classes that are declared refuse others."""
        if not (self._layered and other._layered) or related(type(self), type(other)):
            return None
        return unrelated(type(self), type(other), op)

    def _meet(self, other: TensorCollection, op: str) -> None:
        """Refuse an operand whose class has nothing to do with that of this container, here and below."""
        refusal = self._refusal(other, op)
        if refusal is not None:
            raise refusal
        if not (self._plain and other._plain):
            theirs = other._outline()
            for key, value in list(self._outline().items()):
                if isinstance(value, TensorCollection) and isinstance(theirs.get(key), TensorCollection):
                    value._meet(theirs[key], op)

    def _twin(self) -> Self:
        """A new container around the same tensors; nested containers are new as well.

        What an operation works on from its beginning to its end: other threads may write to this container meanwhile.
        """
        raise NotImplementedError

    def _require_unlocked(self, what: str, key: str | None = None) -> None:
        if self._owners() is not None:
            raise locked_error(type(self).__name__, what, key)

    def _owners(self) -> Any:
        """Who holds the lock; None when nobody does."""
        raise NotImplementedError

    # ---- what follows --------------------------------------------------------------------------------------------

    def _bare(self, batch_size: torch.Size, names: Names = None) -> Any:
        """An empty untyped container on the same device, for results with another structure."""
        return TensorCollection._dense._of({}, batch_size, self._device, names, True)

    @property
    def batch_size(self) -> torch.Size:
        """The leading dims that all leaves share.

        Setting it checks every leaf against the new size.

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
        """Set another batch size on this container and on nested ones that are too short for it."""
        self._check_size(size, path)
        for value in self._entries().values():
            if isinstance(value, TensorCollection) and value._batch_size[: len(size)] != size:
                value._resize(size, path)
        if len(size) != len(self._batch_size):
            kept = (*self.names, *[None] * len(size))[: len(size)]
            self._names = kept if any(name is not None for name in kept) else None
        self._batch_size = size

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
        """The number of batch dims; another name of `ndim`."""
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
        """The number of batch dims; another name of `ndim`."""
        return len(self._batch_size)

    def ndimension(self) -> int:
        """The number of batch dims; another name of `ndim`."""
        return len(self._batch_size)

    @overload
    def size(self) -> torch.Size: ...
    @overload
    def size(self, dim: int | str) -> int: ...
    def size(self, dim: int | str | None = None) -> torch.Size | int:
        """The batch size, or its entry at one batch dim.

        Raises:
            BatchDimError: when `dim` is not a batch dim.

        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(3, 4), batch_size=[3]).size(0)
        3
        """
        size = self._batch_size
        if isinstance(dim, str) and dim in self.names:
            return size[self.names.index(dim)]
        return size if dim is None else size[batch_dim(dim, len(size), op="size")]  # type: ignore[arg-type]  # refuses a name

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
        """The device imposed on every write, or None when leaves may live anywhere.

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
            BatchDimError: on setting, for another number of names than batch dims, or a name given twice.

        >>> from tensorclass import TensorDict
        >>> TensorDict(batch_size=[3, 4], names=["time", None]).names
        ['time', None]
        """
        return [None] * len(self._batch_size) if self._names is None else list(self._names)

    @names.setter
    def names(self, names: Sequence[str | None] | None) -> None:
        self._set_names(check_names(names, len(self._batch_size)))

    def _set_names(self, names: Names) -> None:
        """Take dim names over, here and in nested containers, which share the dims."""
        if self._stacked:
            self._through("_set_all_names", names)
            return
        ndim = len(self._batch_size)
        nested = [value for value in self._entries().values() if isinstance(value, TensorCollection)]
        head = (None,) * ndim if names is None else names
        inner = [check_names((*head, *value.names[ndim:]), len(value._batch_size)) for value in nested]
        self._names = names
        for value, theirs in zip(nested, inner, strict=True):
            value._set_names(theirs)

    def __len__(self) -> int:
        """The size of the first batch dim; 0 when there is none."""
        return self._batch_size[0] if self._batch_size else 0

    def _without_batch(self, what: str) -> UnsupportedOperationError:
        """The error for what needs a batch dim, where there is none."""
        return UnsupportedOperationError(
            f"{what} a {type(self).__name__} without batch dims (batch_size []); use keys(), values() or items() for "
            "its entries, index a field to reach its own dims, or give a batch_size; containers are joined with "
            f"`torch.stack([...])`{self._written_batch}"
        )

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse: a container is not one array, and numpy would make one of objects, or an empty one."""
        name = type(self).__name__
        raise UnsupportedOperationError(
            f"a {name} holds several tensors and is not converted to one tensor or array: convert a field "
            "(`torch.as_tensor(batch.get(name))`), put fields together with `batch.cat_tensors(...)`, containers with "
            f"`torch.stack([...])`, or take arrays by name with `batch.numpy()`"
        )

    def __dlpack__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse, as `__array__` does: torch asks for this first when a tensor is to be made."""
        self.__array__()

    def __dlpack_device__(self) -> NoReturn:
        """Refuse, as `__dlpack__` does."""
        self.__array__()

    def __bool__(self) -> bool:
        """Refuse, where neither "has entries" nor "all true" is what every reader expects.

        The result of `a == b` is true when all elements are equal, that of `a != b` when any differ. So containers can
        be fields of dataclasses and of pydantic models that are compared, and be looked for in lists.
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
        """Route a torch function to the operation of the same name; the table of operations registers them."""
        handler = cls._torch_functions.get(func)
        if handler is None:
            raise unsupported(func)
        return handler(*args, **(kwargs or {}))


def store_of(collection: Any) -> Any:
    """The container that holds the entries: of a typed instance or of parameters the one inside, else the one given."""
    return getattr(collection, "_store", collection)


def is_typed(value: object) -> bool:
    """Whether something is an instance of a typed class."""
    return hasattr(type(value), "__tensorclass_schema__")


def unstacked(collection: Any) -> Any:
    """The container with entries of its own: of a lazy stack the dense one, of parameters their store."""
    if collection._stacked:
        return collection._solid()
    return collection if collection._layered else store_of(collection)


def unsupported(func: Any) -> UnsupportedOperationError:
    """The error for a torch function without a meaning on containers."""
    name = resolve_name(func) or f"torch.{getattr(func, '__name__', func)}"
    return UnsupportedOperationError(
        f"{name} is not defined on containers; apply it to the leaves with `batch.apply(lambda t: {name}(t, ...))` or "
        "to one field"
    )


def locked_error(name: str, what: str, key: str | None = None) -> LockedError:
    """The error of a structural write on a locked container."""
    place = f" (field `{key}`)" if key else ""
    return LockedError(
        f"cannot {what}{place}: this {name} is locked. Call `unlock_()` first, write inside `with batch.unlock_():`, "
        "or write values in place (`set_`, `update_`, `batch[i] = ...`)"
    )


def check_names(names: Sequence[str | None] | None, ndim: int) -> Names:
    """Normalise dim names: one for each batch dim, no name twice; all None is None."""
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


def traced_as(plain: Callable[..., Any]) -> Callable[[F], F]:
    """Have dynamo trace another function in place of one that it can't read, or that is fast only in eager code."""

    def decorate(fast: F) -> F:
        fast._torchdynamo_inline = plain  # type: ignore[attr-defined]  # what torch.jit says it by
        return fast

    return decorate


def settle(cls: type) -> None:
    """Put the methods that a class inherits into its own namespace.

    Dynamo guards every class in which it looks a name up in vain, and Python walks as far where its cache of types
    misses. Classes of users are left unchanged, so that their own bases are asked before and after as they always were.
    """
    for name in dir(cls):
        owner = next((base for base in cls.__mro__ if name in vars(base)), object)
        member = vars(owner)[name]
        if owner not in (cls, object) and isinstance(member, (FunctionType, classmethod, property, bool)):
            setattr(cls, name, member)


def tensors_alone(collection: TensorCollection) -> list[Tensor] | None:
    """The tensors at all depths, in order; None where there is something else, a lazy stack or a nested tensor."""
    found: list[Tensor] | None = None if collection._stacked else []
    for value in () if found is None else collection._entries().values():
        alone = isinstance(value, Tensor) and not value.is_nested
        inner = tensors_alone(value) if isinstance(value, TensorCollection) else [value] if alone else None
        if inner is None or found is None:
            return None
        found += inner
    return found


def walk(
    collection: TensorCollection, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any, TensorCollection]]:
    """Every entry below a container, depth first: its path, its value, and the container that holds it."""
    for key, value in collection._entries().items():
        here = (*path, key)
        yield here, value, collection
        if isinstance(value, TensorCollection):
            yield from walk(value, here)
