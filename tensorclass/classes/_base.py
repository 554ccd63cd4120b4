"""TensorClass: a container with declared fields, over any store. The store is the only slot of an instance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor
from typing_extensions import Self

from .._flags import flags
from .._options import CLASS_OPTIONS
from .._schema import Options, Schema, field
from ..core import (
    BATCHED,
    Device,
    Handler,
    Key,
    Kind,
    Layered,
    Names,
    Path,
    Step,
    TensorCollection,
    Write,
    blank,
    locked_error,
    publish,
    settle,
    trust_for_loading,
)
from ..errors import ArgumentError, FrozenError, MissingKeyError
from ..ops import UNSET, Container, Join
from ..store import Relaid, TensorDict
from ..store._bridges import tables
from ..store.entries._agreement import require_planned
from . import _build, _checks, _convert, _joins
from ._algebra import AlgebraMethods
from ._conveniences import Conveniences
from ._example import ExampleMethods
from ._facts import Facts
from ._meta import BatchSizeField, DeviceField, FrozenMeta, Meta, NamesField
from ._private import drop_cached
from ._pydantic import JsonMethods


class TypedContainer(Layered, AlgebraMethods, Conveniences, ExampleMethods, JsonMethods, Relaid):
    """The primitives of a container, delegated to the store and checked against the schema.

    A typed batch has no `__iter__`: Python iterates over it by index. Trainers that search for a batch size
    (Lightning's `self.log`) descend into every `Iterable` down to single rows; other dataclasses are read field by
    field.
    """

    __slots__ = ("__weakref__", "_store")

    _store: Any
    _layered = True
    __tensorclass_schema__: ClassVar[Schema]
    __tensorclass_options__: ClassVar[Options]
    __tensorclass__: ClassVar[Facts] = Facts()

    @classmethod
    def from_struct_array(cls, struct_array: Any, *, device: Device = None, **options: Any) -> Self:
        """Convert a structured numpy array to a batch, with one element for each record.

        Values that the batch shares must be the same in all records. Numbers are converted if that is exact.

        Args:
            struct_array: the array; its shape is the batch size.
            device: the device of the result.
            options: options of `TensorDict.from_struct_array`.

        Raises:
            SchemaError: for fields that don't fit the declaration.

        >>> import numpy as np
        >>> from torch import Tensor
        >>> from tensorclass import TensorClass
        >>> from tensorclass.typing import Float32
        >>> class Point(TensorClass):
        ...     x: Float32[Tensor, ""]
        >>> Point.from_struct_array(np.array([(1,), (2,)], dtype=[("x", "f4")])).x
        tensor([1., 2.])
        """
        records = isinstance(struct_array, np.ndarray) and struct_array.dtype.names is not None
        if options or not (records and tables().is_flat(struct_array.dtype)):
            return super().from_struct_array(struct_array, device=device, **options)
        return tables().read("array", cls, struct_array, device=device)  # type: ignore[no-any-return]  # of this class

    # ---- construction from valid entries -------------------------------------------------------------------------

    @classmethod
    def _wrap(cls, store: Any) -> Self:
        new: Self = blank(cls)
        object.__setattr__(new, "_store", store)  # dynamo before torch 2.15 does not know the `__set__` of a slot
        return new

    @classmethod
    def _from_entries(
        cls, entries: dict[str, Any], batch_size: torch.Size, device: torch.device | None, names: Names
    ) -> Self:
        return cls._wrap(TensorDict._from_entries(entries, batch_size, device, names))

    @classmethod
    def _from_nesting(
        cls, entries: Mapping[Any, Any], size: torch.Size | None, device: torch.device | None, batch_dims: int | None
    ) -> Self:
        _build.complete(cls)
        new: Self = _convert.from_nesting(cls, entries, size, device, batch_dims)
        return new

    @classmethod
    def _from_leaf(cls, obj: Any, device: torch.device | None) -> Any:
        found = _convert.from_leaf(cls, obj)
        return found if device is None else found._on(device)

    def _wrap_nested(self, name: str, store: Any) -> Any:
        """Wrap a nested container of an untyped store in the declared class of its field."""
        nested: Any = type(self).__tensorclass_schema__.fields[name].nested
        return store if isinstance(store, TypedContainer) or nested is None else nested._wrap(store)

    # ---- primitives ----------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """The size of the first batch dim.

        Raises:
            TypeError: for a batch without batch dims, like `len` of a 0-d tensor.
        """
        count = len(self._store)
        if not count and not self._store._batch_size:
            raise self._without_batch("len() of")
        return count

    def _make(self, leaves: Sequence[Tensor], size: torch.Size, names: Names = None, kind: Kind = BATCHED) -> Self:
        return self._wrap(self._store._make(leaves, size, names, kind))

    def _twin(self) -> Self:
        return self._wrap(self._store._twin())

    @property
    def _stacked(self) -> bool:  # type: ignore[override]  # of a class over a store, the store's
        return self._store._stacked  # type: ignore[no-any-return]  # a bool

    def _run_on_stack(self, name: str, *args: Any, **kwargs: Any) -> Any:
        return self._rewrap(getattr(self._store, name)(*args, **kwargs))

    def _rewrap(self, result: Any) -> Any:
        """A result of the store, with containers of its kind wrapped as instances of this class."""
        if isinstance(result, tuple):
            return tuple([self._rewrap(part) for part in result])
        if result is self._store:
            return self
        return self._wrap(result) if isinstance(result, TensorCollection) else result

    def _parts(self) -> list[Any]:
        return [self._wrap(part) for part in self._store._parts()]

    def _solid(self) -> Any:
        return self._rewrap(self._store._solid())

    def _outline(self) -> dict[str, Any]:
        outline: dict[str, Any] = self._store._outline()
        return self._typed_nested(outline) if type(self).__tensorclass__.nested else outline

    def _typed_nested(self, entries: dict[str, Any]) -> dict[str, Any]:
        """Entries with nested containers wrapped in the declared classes of their fields."""
        nested = [name for name in type(self).__tensorclass__.nested if isinstance(entries.get(name), TensorCollection)]
        return {**entries, **{name: self._wrap_nested(name, entries[name]) for name in nested}} if nested else entries

    def _index(self, index: Any) -> Self:
        store = self._store  # the store can index everything; only the error for missing batch dims is made here
        return self._wrap(store._index(index)) if store._batch_size and not store._stacked else super()._index(index)

    def _open(self, leaves: list[Tensor], kind: Kind = BATCHED) -> Self:
        return self._wrap(self._store._open(leaves, kind))

    def _pair_leaves(
        self, other: Any, mine: list[Tensor], theirs: list[Tensor], write: Write = "", whole: bool = True
    ) -> Self | None:
        own, there = self._store, other if type(other) is dict else other._store
        if type(there) is not type(own) and there is not other:
            return None
        if write:  # the declared class of a nested untyped container may be frozen
            if self.__tensorclass_options__.frozen:
                return None
            if self.__tensorclass__.nested and self._live() is not own._live():
                return None
        store = own._pair_leaves(there, mine, theirs, write, whole)
        if store is None:
            return None
        if write:
            return self
        return self._wrap(store)

    def _each(self, fn: Handler, size: torch.Size, names: Names = None, kind: Kind = BATCHED, at: Any = None) -> Self:
        return self._wrap(self._store._each(fn, size, names, kind, at))

    def _refill(self, leaves: Iterable[Tensor], size: torch.Size, names: Names = None, kind: Kind = BATCHED) -> Self:
        own = self._store
        store = own._refill(leaves, size, names, kind)
        return self if store is own else self._wrap(store)

    @property
    def _plain(self) -> bool:  # type: ignore[override]  # of a class over a store, the store's
        return self._store._plain  # type: ignore[no-any-return]  # a bool

    def _entries(self) -> dict[str, Any]:
        entries: dict[str, Any] = self._store._entries()
        for name in type(self).__tensorclass__.nested:
            if name in entries:
                entries[name] = self._wrap_nested(name, entries[name])
        return entries

    def _live(self) -> dict[str, Any]:
        entries: dict[str, Any] = self._store._live()
        for name in type(self).__tensorclass__.nested:
            if not hasattr(entries.get(name, self), "_store"):  # an untyped store: wrap it
                return self._entries()
        return entries

    def get(self, key: Key, default: Any = UNSET, **options: Any) -> Any:
        if type(key) is str and not (options or self._store._stacked):
            value = self._store._live().get(key)
            if type(value) is Tensor:  # the common case; the general path has the message for a missing field
                return value
        return super().get(key, default, **options)

    def set(self, key: Key, item: Any, inplace: bool = False, *, non_blocking: bool = False, **options: Any) -> Self:
        if type(key) is str and not options and inplace is non_blocking is False:
            self[key] = item
            return self
        return super().set(key, item, inplace, non_blocking=non_blocking, **options)

    def _entry(self, key: str) -> Any:
        if key not in type(self).__tensorclass_schema__.fields:
            raise _build.unknown_field(type(self), key)
        return getattr(self, key)

    def _put(self, key: str, value: Any) -> None:
        if type(self).__tensorclass__.cached:
            drop_cached(self)
        if value is None:
            if key in self._store._live():
                self._store._drop(key)
        else:
            self._store._put(key, value)

    def _put_all(self, values: dict[str, Any]) -> None:
        if type(self).__tensorclass__.cached:
            drop_cached(self)
        if any([value is None for value in values.values()]):
            publish(_checks.put_steps(self, values))
        else:
            self._store._put_all(values)

    def _put_steps(self, values: dict[str, Any]) -> list[Step]:
        return [*self._uncache_steps(), *_checks.put_steps(self, values)]

    def _uncache_steps(self) -> list[Step]:
        return [partial(drop_cached, self)] if type(self).__tensorclass__.cached else []

    def _swap_in(self, entries: dict[str, Any], seen: dict[str, Any]) -> None:
        if type(self).__tensorclass__.cached:
            drop_cached(self)
        _checks.swap_in(self, entries, seen)

    def _swap_steps(self, entries: dict[str, Any]) -> list[Step]:
        _checks.require_droppable(type(self), self._store._live().keys() - entries.keys())
        return [*self._uncache_steps(), *super()._swap_steps(entries)]

    def _drop_steps(self, key: str) -> list[Step]:
        _checks.require_droppable(type(self), (key,))
        return self._put_steps({key: None})

    def _check(self, key: str, value: Any) -> Any:
        return _checks.check_one(self, key, value)

    def _check_all(self, values: dict[str, Any]) -> dict[str, Any]:
        return _checks.check_many(self, values)

    def _accept(self, old: Sequence[Tensor], new: Sequence[Tensor], op: str, other: object = ...) -> None:
        if _checks.dtypes(old) == _checks.dtypes(new):
            if (other is None or type(other) in (type(self), int, float, bool)) and self._is_rigid():
                return
            before, after = [v.numel() for v in old], [v.numel() for v in new]
            if before == after and 0 not in before:  # the ranks agree, so equal counts mean equal shapes
                return
        _checks.accept(self, new, op)

    def _castable(self, leaves: Sequence[Tensor], dtype: torch.dtype) -> list[bool]:
        return _checks.castable(self, leaves, dtype)

    def _validated(self, entries: dict[str, Any], size: torch.Size, path: tuple[str, ...], *where: Any) -> Any:
        return _checks.rebuild_mapped(self, entries, size, path, *where)

    def _validated_stack(self, found: Any, path: tuple[str, ...]) -> Any:
        return _checks.mapped_stack(self, found, path)

    @classmethod
    def _join(cls, items: Sequence[Any], dim: int, size: torch.Size, names: Names, how: Join) -> Any:
        return _joins.join(cls, items, dim, size, names, how)

    @classmethod
    def _join_objects(cls, key: str, values: list[Any], dim: int, how: Join) -> Any:
        if cls.__tensorclass_schema__.fields[key].kind.is_open:
            return TensorDict._join_objects(key, values, dim, how)
        raise how.different_objects(key, values)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        new = object.__new__(type(self))
        memo[id(self)] = new
        object.__setattr__(new, "_store", deepcopy(self._store, memo))
        return new

    # ---- locking and freezing ------------------------------------------------------------------------------------

    def _require_unlocked(self, what: str, key: str | None = None) -> None:
        self._refuse_frozen(what, key or "")
        if self._store._owners() is not None:
            raise locked_error(type(self).__name__, what, key)

    def _refuse_frozen(self, what: str, key: str | None = None) -> None:
        if type(self).__tensorclass_options__.frozen:
            name = type(self).__name__
            raise FrozenError(
                f"cannot {what}{f' (field `{key}`)' if key else ''}: {name} is frozen; make a changed copy with "
                f"`batch.replace(...)`, or work on `batch.to_tensordict()`"
            )
        if key is None:
            self._store._refuse_frozen(what)

    def _holder(self, path: Path, create: bool | None) -> Any:
        self._refuse_frozen("write", ".".join(path))
        return super()._holder(path, create)

    def _plan_update(self, source: Any, *args: Any, **kwargs: Any) -> None:
        self._refuse_frozen("update", "")
        if isinstance(source, TensorCollection):
            self._meet(source, "update")
        if self._stacked and isinstance(source, TensorCollection) and source._stacked:
            self._store._joined_by(type(self))._plan_update(source, *args, **kwargs)
        else:
            super()._plan_update(source, *args, **kwargs)

    def _plan(
        self,
        source: Any,
        prefix: Path,
        parts: tuple[Any, ...] | None,
        size: torch.Size | None,
        wanted: list[Path] | None,
    ) -> list[Any]:
        cls = type(self)
        if isinstance(source, TensorCollection) and type(source) is not cls:
            self._meet(source, "in-place write")
        if cls.__tensorclass__.lengths and self._stacked:
            _checks.try_on_members(self, "_plan", source, prefix, parts, size, wanted)
        if self._store._afar:
            self._refuse_frozen("write in place", ".".join(prefix))
            return self._store._plan(source, prefix, parts, size, wanted)  # type: ignore[no-any-return]  # a plan
        try:
            plan = super()._plan(source, prefix, parts, size, wanted)
        except MissingKeyError:
            plan = super()._plan(_checks.without_absent(self, source), prefix, parts, size, wanted)
        if cls.__tensorclass__.lengths and not self._stacked:
            require_planned(cls.__name__, cls.__tensorclass_schema__, self._live(), self._batch_size, plan, prefix)
        return plan

    def _set_at(self, index: Any, value: Any, wanted: list[Path] | None, non_blocking: bool) -> None:
        if self._stacked and isinstance(value, TensorCollection):  # else `_plan` checks this
            self._meet(value, "in-place write")
        if type(self).__tensorclass__.lengths and self._stacked:
            _checks.try_on_members(self, "_set_at", index, value, wanted, non_blocking)
        if self._store._afar:
            self._refuse_frozen("write by index", "")
            self._store._set_at(index, value, wanted, non_blocking)
        else:
            super()._set_at(index, value, wanted, non_blocking)

    def _check_size(self, size: torch.Size, path: Path) -> None:
        super()._check_size(size, path)
        if len(size) != len(self._batch_size):
            _checks.check_size(self, size, path)

    _origin = property(lambda self: self._store._origin, lambda self, v: setattr(self._store, "_origin", v))


class Root(TypedContainer):
    """Builds every subclass of the public bases."""

    __slots__ = ()

    def __init_subclass__(
        cls,
        *,
        frozen: bool | None = None,
        nocast: bool | None = None,
        autocast: bool | None = None,
        tensor_only: bool | None = None,
        shadow: bool | None = None,
        validate: Literal["schema", "values", "off"] | None = None,
        removed: Mapping[str, str] | Sequence[str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init_subclass__(**kwargs)
        if "__tensorclass_root__" not in vars(cls):
            given = (frozen, nocast, autocast, tensor_only, shadow, validate, removed)
            options = zip(CLASS_OPTIONS, given, strict=True)
            _build.build_class(cls, {name: value for name, value in options if value is not None})


@flags
class TensorClass(Root, metaclass=Meta):
    """The base class of typed batches: annotate fields to get a constructor, validation and every container operation.

    `class Digits(TensorClass)` and `@tensorclass class Digits` make the same class. Every type checker understands the
    base class without a plugin. Class keywords are the options of `tensorclass`.

    Args:
        batch_size: the leading dims that all fields share; by default inferred from the declared shapes.
        device: all fields are moved there, now and on later writes.
        names: a name or None for each batch dim.

    Raises:
        SchemaError: for values that don't fit the declaration; lists every problem with its field and a hint.

    >>> import torch
    >>> from torch import Tensor
    >>> from tensorclass import TensorClass
    >>> from tensorclass.typing import Float32, Int64
    >>> class Digits(TensorClass):
    ...     image: Float32[Tensor, "8 8"]
    ...     label: Int64[Tensor, ""]
    >>> batch = Digits(torch.zeros(32, 8, 8), torch.zeros(32, dtype=torch.int64))
    >>> batch.batch_size, batch[:4].image.shape
    (torch.Size([32]), torch.Size([4, 8, 8]))
    """

    __slots__ = ()
    __tensorclass_root__: ClassVar[bool] = True

    if TYPE_CHECKING:
        batch_size: BatchSizeField = field(default=BatchSizeField(), kw_only=True)  # type: ignore[override]  # a property at run time
        device: DeviceField = field(default=DeviceField(), kw_only=True)  # pyright: ignore[reportIncompatibleMethodOverride]  # as above
        names: NamesField = field(default=NamesField(), kw_only=True)  # type: ignore[override]  # a property at run time

        @classmethod
        def __class_getitem__(cls, options: Any, /) -> Any: ...

    if not TYPE_CHECKING:  # type checkers use Generic, and synthesize constructors

        def __init__(self, *fields, batch_size=None, device=None, names=None, **named_fields):
            raise ArgumentError(
                f"{type(self).__name__} declares no fields and has no instances: write `class Batch("
                f"{type(self).__name__}):` with annotated fields, or decorate a class with `@tensorclass`"
            )

        def __class_getitem__(cls, item):
            return _build.parametrise(cls, item)

    def _assign(self, name: str, value: Any) -> None:
        """Set a field after a full check."""
        self._require_unlocked("write", name)
        self._put(name, self._check(name, value))

    if not TYPE_CHECKING:  # a checker would conclude that every name exists

        def __setitem__(self, index, value):
            setter = self.__tensorclass__.setters.get(index) if type(index) is str else None
            if setter is not None:  # as for an attribute
                setter(self, value)
            else:
                super().__setitem__(index, value)

        def __setattr__(self, name, value):
            setter = self.__tensorclass__.setters.get(name)
            if setter is not None:
                setter(self, value)
            else:
                _build.set_other(self, name, value)

        def __getattr__(self, name):
            cls = type(self)
            if name.startswith("__"):
                raise AttributeError(name)
            member = next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), None)
            if hasattr(type(member), "__get__"):  # a property raised: re-raise its error
                return member.__get__(self, cls)
            raise _build.unknown_attribute(cls, name)

    def __reduce__(self) -> tuple[Any, ...]:
        cls = type(self)
        return _restore, (_pickled_class(cls), self._store)

    def __getstate__(self) -> Any:
        return self._store.__getstate__()

    # ---- the untyped side ----------------------------------------------------------------------------------------

    @classmethod
    def from_tensordict(cls, tensordict: Any, non_tensordict: Mapping[str, Any] | None = None) -> Self:
        """Wrap an untyped container, without a copy: writes to one are visible in the other.

        A live store stays in its file: fields are read when they are accessed, and setting fields or rows writes to it.

        Args:
            tensordict: a container with the declared fields; it is validated.
            non_tensordict: values of fields that the container lacks.

        Raises:
            SchemaError: if the container doesn't fit the declaration.

        >>> import torch
        >>> from torch import Tensor
        >>> from tensorclass import TensorClass, TensorDict
        >>> from tensorclass.typing import Int64
        >>> class Row(TensorClass):
        ...     label: Int64[Tensor, ""]
        >>> Row.from_tensordict(TensorDict(label=torch.arange(3), batch_size=[3]))[1:].label
        tensor([1, 2])
        """
        new: Self = _checks.adopt(cls, tensordict, non_tensordict or {})
        return new

    def to_tensordict(self, *, retain_none: bool | None = None) -> TensorDict:
        """Make an untyped, unlocked copy: tensors are cloned, nested instances become untyped containers.

        Args:
            retain_none: keep absent optional fields as entries of None.
        """
        copy: TensorDict = Container.to_tensordict(self, retain_none=retain_none)
        return copy

    def __replace__(self, /, **changes: Any) -> Self:
        new: Self = _build.replace(self, changes)
        return new

    def replace(self, *args: Any, **changes: Any) -> Self:
        """Make a copy with some fields changed. It is validated; batch size, device and dim names are kept.

        >>> import torch
        >>> from torch import Tensor
        >>> from tensorclass import TensorClass
        >>> class Point(TensorClass):
        ...     x: Tensor
        >>> Point(torch.zeros(2), batch_size=[2]).replace(x=torch.ones(2)).x
        tensor([1., 1.])
        """
        if args:
            changes = {**_build.as_changes(args), **changes}
            if isinstance(args[0], TensorCollection):
                self._meet(args[0], "replace")
        new: Self = _build.shallow_replace(self, changes)
        return new


class FrozenTensorClass(TensorClass, frozen=True, metaclass=FrozenMeta):
    """The base class of typed batches that refuse every write; `replace` makes changed copies.

    >>> import torch
    >>> from torch import Tensor
    >>> from tensorclass import FrozenTensorClass
    >>> from tensorclass.typing import Float32
    >>> class Point(FrozenTensorClass):
    ...     x: Float32[Tensor, ""]
    >>> point = Point(x=torch.zeros(2))
    >>> point.replace(x=torch.ones(2)).x
    tensor([1., 1.])
    >>> point.x = torch.ones(2)
    Traceback (most recent call last):
    ...
    tensorclass.errors.FrozenError: ...
    """

    __slots__ = ()
    __tensorclass_options__: ClassVar[Options] = Options(frozen=True)
    __tensorclass_root__: ClassVar[bool] = True


settle(TensorClass)


def _pickled_class(cls: Any) -> Any:
    """A class, or a generic class and its arguments, in a form that `torch.load(weights_only=True)` accepts."""
    recipe = vars(cls).get("__tensorclass_recipe__")
    return recipe.arguments if recipe is not None and recipe.make is _build.parametrise else cls


@trust_for_loading
def _restore(cls: Any, store: Any) -> Any:
    """Unpickle an instance: wrap a store in a class, or in a generic class with its arguments."""
    if isinstance(cls, tuple):
        cls = _build.parametrise(*cls)
    return cls._wrap(store)
