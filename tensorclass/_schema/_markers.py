"""Markers of annotations besides dtype and dims: shared by the batch, one value per element, ragged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Generic, Protocol, TypeVar, overload

import torch
from torch import Tensor
from typing_extensions import Self

from ..errors import SchemaError
from ._dtypes import Shape

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True)
class SharedMark:
    """Marks a tensor without batch dims."""


@dataclass(frozen=True)
class RaggedMark:
    """Marks a tensor field with one length per element."""


Shared = Annotated[T, SharedMark()]
"""A tensor without batch dims: `table: Shared[Float32[Tensor, "1000 64"]]`. Checkers see the tensor."""


class PerElementValues(Protocol[T_co]):
    """The type of a `PerElement` field for checkers; at run time it is a `NonTensorStack`."""

    @property
    def shape(self) -> torch.Size:
        """The batch shape."""
        ...

    @property
    def ndim(self) -> int:
        """The number of batch dims."""
        ...

    def item(self) -> T_co:
        """The only object of a stack with one element."""
        ...

    def tolist(self) -> list[Any]:
        """The objects as nested lists of the batch shape."""
        ...

    def __len__(self) -> int: ...

    def __int__(self) -> int: ...

    def __float__(self) -> float: ...

    def __iter__(self) -> Iterator[Any]: ...

    @overload
    def __getitem__(self, index: int) -> T_co: ...  # pyright: ignore[reportOverlappingOverload]  # an index of several elements is one of these
    @overload
    def __getitem__(self, index: Any) -> Self: ...
    def __getitem__(self, index: Any) -> Any:
        """The objects at an index; in a batch with one dim, the object at a number."""
        ...

    def __eq__(self, other: object) -> Tensor: ...  # type: ignore[override]  # elementwise, as for tensors

    def __hash__(self) -> int: ...


class PerElement(Generic[T]):
    """One value for each element of the batch: `name: PerElement[str]`.

    Reading the field returns a `NonTensorStack[T]`; in a batch without batch dims, the value itself: `batch[3].name` is
    a `str`. Writing it accepts a stack, a single value for all elements, or nested lists of the batch shape. The class
    is only an annotation: checkers infer the types of reads and writes from its descriptor methods. They don't know the
    number of batch dims, so for them a read is always the stack: write `str(batch[3].name)` or `batch.name[3]`.

    >>> import torch
    >>> from torch import Tensor
    >>> from tensorclass import PerElement, TensorClass
    >>> from tensorclass.typing import Int64
    >>> class Row(TensorClass):
    ...     label: Int64[Tensor, ""]
    ...     name: PerElement[str]
    >>> Row(label=torch.arange(3), name=["a", "b", "c"])[1:].name.tolist()
    ['b', 'c']
    """

    def __init__(self) -> None:
        raise SchemaError("PerElement is an annotation: declare `name: PerElement[str]` and pass a list of values")

    if TYPE_CHECKING:

        @overload
        def __get__(self, instance: None, owner: type) -> Self: ...
        @overload
        def __get__(self, instance: object, owner: type) -> PerElementValues[T]: ...
        def __get__(self, instance: object | None, owner: type) -> Any:
            """The values of an instance."""

        def __set__(
            self,
            instance: object,
            value: T | Sequence[T] | Sequence[Sequence[T]] | Sequence[Sequence[Sequence[T]]] | PerElementValues[T],
        ) -> None:
            """Replace the values of an instance."""


__all__ = ["PerElement", "PerElementValues", "Ragged", "RaggedMark", "Shared", "SharedMark"]

if TYPE_CHECKING:
    from typing import Annotated as Ragged
else:

    class _Ragged:
        """One length per element: `tokens: Ragged[Tensor, "t d"]`.

        >>> import torch
        >>> from torch import Tensor
        >>> from tensorclass import Ragged, RaggedTensor, TensorClass
        >>> class Text(TensorClass):
        ...     tokens: Ragged[Tensor, "t"]
        >>> Text(tokens=RaggedTensor([torch.arange(2), torch.arange(3)])).tokens.lengths
        tensor([2, 3])
        """

        def __getitem__(self, item: Any) -> Any:
            if not isinstance(item, tuple) or len(item) != 2:
                raise SchemaError(
                    'Ragged[...] takes a tensor type and a shape: Ragged[Tensor, "t d"]; with a dtype it is '
                    'Float32[RaggedTensor, "t d"]'
                )
            return Annotated[item[0], RaggedMark(), Shape(item[1])]

        def __repr__(self) -> str:
            return "Ragged"

    Ragged = _Ragged()
