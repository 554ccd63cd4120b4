"""The types that generated stubs use; only checkers read this module."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Concatenate, Generic, ParamSpec, TypeAlias, TypeVar, overload

import numpy as np
from torch import Tensor as Tensor
from typing_extensions import Never as Never
from typing_extensions import Self
from typing_extensions import Unpack as Unpack

from .._schema import PerElement
from .._schema import PerElementValues as PerElementValues
from ..classes import TensorClass
from ..core import Exactly, FieldPath, K, N_co
from ..core import Key as Key
from ..core import Subscript as Subscript
from ..ops._reading import BatchIndex as BatchIndex
from ..store import RaggedTensor as RaggedTensor
from ..store import TensorDictBase
from ..store.entries._ragged import Elements
from ._refused import Refused, RefusedWrites

T = TypeVar("T")
B = TypeVar("B", bound=TensorClass)
W = TypeVar("W")
P = ParamSpec("P")
PerElementGiven: TypeAlias = (
    "T | Sequence[T] | Sequence[Sequence[T]] | Sequence[Sequence[Sequence[T]]] | PerElementValues[T]"
)
"""The values that a `PerElement[T]` field accepts."""
RaggedGiven: TypeAlias = "RaggedTensor | Elements | Tensor"
"""The values that a ragged field accepts."""
Entries: TypeAlias = "TensorDictBase | Mapping[Any, Any]"
"""The arguments of `update` besides instances."""
Untyped: TypeAlias = "Entries | Tensor | complex | np.number[Any] | np.bool_"
"""The operands of an instance besides instances of its class."""
OtherKey: TypeAlias = "FieldPath | Tensor"
"""A key other than a string or a path of strings; checkers see `Digits.image` as a tensor."""
Reference: TypeAlias = "OtherKey | PerElement[Any] | PerElementValues[Any] | RaggedTensor | None"
"""The types that a reference on a class may have for checkers."""
OtherSubscript: TypeAlias = "FieldPath"


class Changed(Generic[K, P]):
    """`replace` with the fields of a class; a subclass may accept other fields."""

    @overload
    def __get__(self, instance: Exactly[K], owner: type[T]) -> Callable[P, T]: ...

    @overload
    def __get__(self, instance: T, owner: Any) -> Callable[..., T]: ...

    def __get__(self, instance: Any, owner: Any) -> Any: ...


def changed(method: Callable[Concatenate[Any, P], K]) -> Changed[K, P]:
    """The type of `replace` for the class that the method returns."""
    raise NotImplementedError


class Declared(TensorClass):  # noqa: PLW1641  # the base has the hash
    """The join of two classes with stubs, which can't be combined in operations."""

    def __exactly__(self) -> None:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        """Matches no `Exactly`."""

    # Written out, since pyright gives `__add__ = __radd__ = ...` the type that the base declares.
    def __add__(self, other: Self | Untyped, /) -> Self: ...  # type: ignore[override, empty-body]  # pyright: ignore[reportIncompatibleMethodOverride]
    def __radd__(self, other: Self | Untyped, /) -> Self: ...  # type: ignore[override, empty-body]  # pyright: ignore[reportIncompatibleMethodOverride]
    def __sub__(self, other: Self | Untyped, /) -> Self: ...  # type: ignore[override, empty-body]  # pyright: ignore[reportIncompatibleMethodOverride]
    def __rsub__(self, other: Self | Untyped, /) -> Self: ...  # type: ignore[override, empty-body]  # pyright: ignore[reportIncompatibleMethodOverride]
    def __mul__(self, other: Self | Untyped, /) -> Self: ...  # type: ignore[override, empty-body]  # pyright: ignore[reportIncompatibleMethodOverride]
    def __rmul__(self, other: Self | Untyped, /) -> Self: ...  # type: ignore[override, empty-body]  # pyright: ignore[reportIncompatibleMethodOverride]
    def __truediv__(self, other: Self | Untyped, /) -> Self: ...  # type: ignore[override, empty-body]  # pyright: ignore[reportIncompatibleMethodOverride]
    def __rtruediv__(self, other: Self | Untyped, /) -> Self: ...  # type: ignore[override, empty-body]  # pyright: ignore[reportIncompatibleMethodOverride]
    def __floordiv__(self, other: Self | Untyped, /) -> Self: ...  # type: ignore[override, empty-body]  # pyright: ignore[reportIncompatibleMethodOverride]
    def __mod__(self, other: Self | Untyped, /) -> Self: ...  # type: ignore[override, empty-body]  # pyright: ignore[reportIncompatibleMethodOverride]
    def __pow__(self, other: Self | Untyped, /) -> Self: ...  # type: ignore[override, empty-body]  # pyright: ignore[reportIncompatibleMethodOverride]
    def __and__(self, other: Self | Untyped, /) -> Self: ...  # type: ignore[override, empty-body]  # pyright: ignore[reportIncompatibleMethodOverride]
    def __or__(self, other: Self | Untyped, /) -> Self: ...  # type: ignore[override, empty-body]  # pyright: ignore[reportIncompatibleMethodOverride]
    def __xor__(self, other: Self | Untyped, /) -> Self: ...  # type: ignore[override, empty-body]  # pyright: ignore[reportIncompatibleMethodOverride]
    def __lt__(self, other: Self | Untyped, /) -> Self: ...  # type: ignore[override, empty-body]  # pyright: ignore[reportIncompatibleMethodOverride]
    def __le__(self, other: Self | Untyped, /) -> Self: ...  # type: ignore[override, empty-body]  # pyright: ignore[reportIncompatibleMethodOverride]
    def __gt__(self, other: Self | Untyped, /) -> Self: ...  # type: ignore[override, empty-body]  # pyright: ignore[reportIncompatibleMethodOverride]
    def __ge__(self, other: Self | Untyped, /) -> Self: ...  # type: ignore[override, empty-body]  # pyright: ignore[reportIncompatibleMethodOverride]
    def __eq__(self, other: Self | Untyped, /) -> Self: ...  # type: ignore[override, empty-body]  # pyright: ignore[reportIncompatibleMethodOverride]
    def __ne__(self, other: Self | Untyped, /) -> Self: ...  # type: ignore[override, empty-body]  # pyright: ignore[reportIncompatibleMethodOverride]


class Ref(Tensor, Generic[N_co]):
    """A field of a class, `Digits.image`, with its name."""

    def __field__(self) -> N_co:
        raise NotImplementedError


class Field(Tensor, Generic[T, N_co]):
    """A field: its value on an instance, a reference on the class, and a tensor for a Protocol with its name."""

    @overload
    def __get__(self, instance: None, owner: Any) -> Ref[N_co]: ...

    @overload
    def __get__(self, instance: object, owner: Any) -> T: ...

    def __get__(self, instance: object, owner: Any) -> Any: ...

    def __set__(self, instance: Any, value: T) -> None: ...

    def __delete__(self, instance: Any) -> None: ...


class Stored(Generic[T, W]):
    """A field that takes more than it gives."""

    def __get__(self, instance: object, owner: Any) -> T:
        raise NotImplementedError

    def __set__(self, instance: Any, value: W) -> None: ...

    def __delete__(self, instance: Any) -> None: ...


class Frozen(RefusedWrites):
    """A mixin before the base of a frozen class: methods that write accept no argument."""

    def __init_subclass__(cls, **options: Any) -> None: ...

    def __setitem__(self, index: Never, value: Never) -> None: ...

    def __delitem__(self, key: Never) -> None: ...

    set = set_ = set_at_ = update = update_ = update_at_ = pop = popitem = clear = rename_key_ = Refused()
    copy_ = copy_at_ = zero_ = fill_ = apply_ = masked_fill_ = Refused()
