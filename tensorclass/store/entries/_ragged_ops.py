"""Operations of ragged tensors on their rows: masks and offsets, reductions, arithmetic."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor
from typing_extensions import Self

from ..._flags import answers
from ...errors import ArgumentError, BatchSizeError, StructureError
from ...ops._by_row import as_mask
from ...ops._operands import SCALARS
from ._follow import Follower
from ._object_table import Pointing
from ._rows import spans_of

Operand: TypeAlias = "RaggedOps | Tensor | complex | np.number[Any] | np.bool_"


def _binary(function: Callable[[Any, Any], Tensor], swapped: bool = False) -> Callable[[RaggedOps, object], RaggedOps]:
    """The method of an operator."""
    return lambda self, other: self._pointwise(function, other, swapped)


def mask_of(lengths: Tensor) -> Tensor:
    """A mask `[*batch, max]`, bool: which positions of the padded form hold a row."""
    longest = int(lengths.max()) if lengths.numel() else 0
    return torch.arange(longest, device=lengths.device) < lengths.unsqueeze(-1)


@answers
class RaggedOps(Follower, Pointing):
    """Methods of `RaggedTensor` for its rows, which are concatenated in `values`."""

    __slots__ = ()
    __array_ufunc__: ClassVar[None] = None  # numpy scalars on the left leave the operation to the ragged tensor
    _instead = "`apply(function)` is for all rows, `pad()` gives a tensor, `item()` one element, `tolist()` all of them"
    _parts: Any

    @property
    def values(self) -> Tensor:
        """The rows."""
        raise NotImplementedError

    @property
    def event_shape(self) -> torch.Size:
        """The dims of a row."""
        raise NotImplementedError

    def _pack_rows(self) -> tuple[Tensor, Tensor]:
        raise NotImplementedError

    @classmethod
    def _of(cls, table: Any, spans: Tensor, packed: bool = False) -> Self:
        raise NotImplementedError

    # ---- where the rows are --------------------------------------------------------------------------------------

    @property
    def offsets(self) -> Tensor:
        """The begin of each element in `values`, and the end of the last: int64 `[elements + 1]`.

        >>> import torch
        >>> from tensorclass import RaggedTensor
        >>> RaggedTensor(torch.arange(4), lengths=[3, 1]).offsets
        tensor([0, 3, 4])
        """
        lengths = self._parts[1][..., 1].reshape(-1)
        return torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])

    @property
    def mask(self) -> Tensor:
        """Which positions of `pad()` hold a row: bool `[*batch, max]`.

        >>> import torch
        >>> from tensorclass import RaggedTensor
        >>> RaggedTensor(torch.arange(3), lengths=[2, 1]).mask
        tensor([[ True,  True],
                [ True, False]])
        """
        return mask_of(self._parts[1][..., 1])

    @property
    def segment_ids(self) -> Tensor:
        """The element number of each row of `values`, in batch order: int64 `[total]`.

        >>> import torch
        >>> from tensorclass import RaggedTensor
        >>> RaggedTensor(torch.arange(4), lengths=[3, 1]).segment_ids
        tensor([0, 0, 0, 1])
        """
        table, spans, packed = self._parts
        lengths, rows = spans[..., 1].reshape(-1), len(table) if packed else None
        return torch.arange(len(lengths), device=lengths.device).repeat_interleave(lengths, output_size=rows)

    # ---- functions of the rows -----------------------------------------------------------------------------------

    def apply(self, function: Callable[[Tensor], Tensor]) -> Self:
        """Apply a function to the rows of all elements; the lengths don't change.

        Args:
            function: called once, with `values`; returns a tensor `[total, ...]`.

        Raises:
            StructureError: for a result with another number of rows.

        >>> import torch
        >>> from tensorclass import RaggedTensor
        >>> RaggedTensor(torch.tensor([1.0, 4.0, 9.0]), lengths=[2, 1]).apply(torch.sqrt).tolist()
        [tensor([1., 2.]), tensor([3.])]
        """
        table, spans = self._pack_rows()
        found: Any = function(table) if callable(function) else function
        if not isinstance(found, Tensor) or found.shape[:1] != (len(table),):
            given = f"shape {list(found.shape)}" if isinstance(found, Tensor) else f"a {type(found).__name__}"
            raise StructureError(
                f"apply: the function takes the rows {list(table.shape)} and gives as many; got {given}; use `filter` "
                "to leave rows out"
            )
        return self._of(found, spans, True)

    def filter(self, keep: Tensor | Sequence[bool] | RaggedOps | Callable[[Tensor], Tensor]) -> Self:
        """Keep some of the rows of the elements. To keep some of the elements, index with a mask.

        Args:
            keep: bool `[total]`, one for each row of `values`; a ragged mask, such as `labels == 0`; or a function of
                `values` that returns a mask.

        Raises:
            BatchSizeError: for a mask of another length.
            TypeError: for anything but a mask.

        >>> import torch
        >>> from tensorclass import RaggedTensor
        >>> scores = RaggedTensor(torch.tensor([0.9, 0.1, 0.8]), lengths=[2, 1])
        >>> scores.filter(lambda score: score > 0.5).tolist()
        [tensor([0.9000]), tensor([0.8000])]
        """
        table, spans = self._pack_rows()
        given: Any = keep(table) if callable(keep) else keep
        if isinstance(given, RaggedOps):
            self._require_aligned(given, "filter")
            given = given.values
        mask = as_mask(given, len(table), table.device)
        counts = _sum(mask.long(), self.segment_ids, spans[..., 1].numel()).reshape(spans.shape[:-1])
        return self._of(table[mask], spans_of(counts), True)

    # ---- reductions: one result for each element -----------------------------------------------------------------

    def sum(self) -> Tensor:
        """The sum of the rows of each element, `[*batch, *event]`; 0 without rows. Integers and bools give int64.

        >>> import torch
        >>> from tensorclass import RaggedTensor
        >>> RaggedTensor(torch.tensor([1, 2, 5]), lengths=[2, 1]).sum()
        tensor([3, 5])
        """
        values = self.values
        exact = values.is_floating_point() or values.is_complex()
        if exact and values.dtype.itemsize < 4:
            wide = values.float()
        elif exact:
            wide = values
        else:
            wide = values.long()
        found = _sum(wide, self.segment_ids, self.shape.numel()).to(values.dtype if exact else torch.int64)
        return found.reshape((*self.shape, *values.shape[1:]))

    def mean(self) -> Tensor:
        """The mean of the rows of each element, `[*batch, *event]`; nan without rows.

        Raises:
            TypeError: for integers; convert them first: `ragged.apply(Tensor.float)`.
        """
        values = self.values
        if not (values.is_floating_point() or values.is_complex()):
            raise ArgumentError(f"mean: the rows are {values.dtype}; convert them first: `ragged.apply(Tensor.float)`")
        lengths = self._parts[1][..., 1].reshape((*self.shape, *[1] * len(self.event_shape)))
        return (
            (self.sum() if values.dtype.itemsize >= 4 else self.apply(Tensor.float).sum()).div(lengths).to(values.dtype)
        )

    def max(self, *, initial: complex | None = None) -> Tensor:
        """The maximum over the rows of each element, `[*batch, *event]`; nan wins.

        Args:
            initial: the result for an element without rows.

        Raises:
            ValueError: for an element without rows, unless `initial` is given; names it.

        >>> import torch
        >>> from tensorclass import RaggedTensor
        >>> RaggedTensor(torch.tensor([1, 7, 5]), lengths=[2, 1]).max()
        tensor([7, 5])
        """
        return self._largest_or_least("amax", initial)

    def min(self, *, initial: complex | None = None) -> Tensor:
        """The minimum over the rows of each element; see `max`."""
        return self._largest_or_least("amin", initial)

    def _largest_or_least(self, how: Literal["amax", "amin"], initial: complex | None) -> Tensor:
        """The largest or the least row of each element; `initial` for one without rows."""
        values, spans = self._pack_rows()
        gaps = spans[..., 1] == 0
        if initial is None and bool(gaps.any()):
            raise ArgumentError(
                f"{how[1:]}: the element at {gaps.nonzero()[0].tolist()} has no rows; say what it gives: `initial=...`"
            )
        if values.is_complex():
            raise ArgumentError(f"{how[1:]}: complex numbers have no order; the rows are {values.dtype}")
        numbers = values.to(torch.uint8) if values.dtype is torch.bool else values  # bools can't be scattered
        empty = numbers.new_zeros(self.shape.numel(), *values.shape[1:])
        rows = expand_over_rows(self.segment_ids, numbers)
        found = empty.scatter_reduce(0, rows, numbers, how, include_self=False).to(values.dtype)
        found = found.reshape((*self.shape, *values.shape[1:]))
        if initial is None:
            return found
        event_dims = [1] * (values.ndim - 1)
        return found.masked_fill(gaps.reshape((*gaps.shape, *event_dims)), initial)

    # ---- arithmetic ----------------------------------------------------------------------------------------------

    def _pointwise(self, function: Callable[[Any, Any], Tensor], other: object, swapped: bool = False) -> Self:
        """The result of a function of two operands for each row."""
        table, spans = self._pack_rows()
        right: Any = other
        if isinstance(other, RaggedOps):
            self._require_aligned(other, function.__name__)
            if len(self.event_shape) != len(other.event_shape):
                raise StructureError(
                    f"{function.__name__}: the event shapes behind the length are {list(self.event_shape)} and "
                    f"{list(other.event_shape)}; they have the same number of dims"
                )
            right = other.values
        elif isinstance(other, Tensor) and other.ndim > len(self.event_shape):
            raise StructureError(
                f"{function.__name__}: a tensor meets every row {list(self.event_shape)}, and {list(other.shape)} has "
                "more dims; a value for each row is a `RaggedTensor(rows, lengths=x.lengths)`, where a value for each "
                "element gives the rows `values[x.segment_ids]`"
            )
        elif not isinstance(other, (*SCALARS, Tensor)):
            return NotImplemented  # type: ignore[no-any-return]  # the protocol of operators
        return self._of(function(right, table) if swapped else function(table, right), spans, True)

    def _require_aligned(self, other: RaggedOps, op: str) -> None:
        mine, theirs = self._parts[1][..., 1], other._parts[1][..., 1]
        if self.shape != other.shape:
            raise BatchSizeError(f"{op}: the batch shapes differ, {list(self.shape)} and {list(other.shape)}")
        if not torch.equal(mine, theirs):
            at = [int(i) for i in (mine != theirs).nonzero()[0]]
            raise StructureError(
                f"{op}: elements that are combined have one length; at {at} they are {int(mine[tuple(at)])} and "
                f"{int(theirs[tuple(at)])} long"
            )

    if TYPE_CHECKING:  # not every checker takes an assigned function for a method

        def __lt__(self, other: Operand, /) -> Self: ...
        def __le__(self, other: Operand, /) -> Self: ...
        def __gt__(self, other: Operand, /) -> Self: ...
        def __ge__(self, other: Operand, /) -> Self: ...
        def __add__(self, other: Operand, /) -> Self: ...
        def __sub__(self, other: Operand, /) -> Self: ...
        def __mul__(self, other: Operand, /) -> Self: ...
        def __truediv__(self, other: Operand, /) -> Self: ...
        def __pow__(self, other: Operand, /) -> Self: ...
        def __and__(self, other: Operand, /) -> Self: ...
        def __or__(self, other: Operand, /) -> Self: ...
        def __radd__(self, other: Operand, /) -> Self: ...
        def __rsub__(self, other: Operand, /) -> Self: ...
        def __rmul__(self, other: Operand, /) -> Self: ...
        def __rtruediv__(self, other: Operand, /) -> Self: ...

    def __neg__(self) -> Self:
        return self.apply(operator.neg)

    def __abs__(self) -> Self:
        return self.apply(operator.abs)

    def __invert__(self) -> Self:
        return self.apply(operator.invert)


for _name in ("lt", "le", "gt", "ge", "add", "sub", "mul", "truediv", "pow", "and", "or"):
    setattr(RaggedOps, f"__{_name}__", _binary(getattr(operator, f"__{_name}__")))
for _name in ("add", "sub", "mul", "truediv"):
    setattr(RaggedOps, f"__r{_name}__", _binary(getattr(operator, _name), True))


def expand_over_rows(index: Tensor, values: Tensor) -> Tensor:
    """Expand an index of rows to every number of the rows."""
    return index.reshape(-1, *[1] * (values.ndim - 1)).expand_as(values)


def _sum(values: Tensor, index: Tensor, count: int) -> Tensor:
    return values.new_zeros(count, *values.shape[1:]).index_add(0, index, values)
