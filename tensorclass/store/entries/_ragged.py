"""`RaggedTensor`: one tensor for each element of the batch, of different lengths.

The rows of all elements are in one table, with a span for each element: its begin and its length. An int64 tensor with
the batch shape numbers the elements: a batch operation on the entry is the same operation on the numbers. If torch
makes a view of the numbers, the result is a view: it shares table and spans, and writes to either are visible in both.
If torch copies the numbers, the elements are copied.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, cast, overload

import numpy as np
import torch
import torch.utils._pytree as pytree
from torch import Tensor
from typing_extensions import Self

from ..._flags import answers, flag
from ..._schema._dtypes import as_alike
from ...core import (
    BATCHED,
    STORAGE,
    Kind,
    Names,
    Path,
    Step,
    TensorEntry,
    broadcasts_to,
    join_path,
    over_events,
    short_dtype,
    trust_for_loading,
    with_keys,
)
from ...errors import ArgumentError, BatchSizeError, StructureError, UnsupportedOperationError
from ...ops import Join
from ...ops._index import is_plain
from ...ops._operands import SCALARS
from ...ops._steps import Writes
from ...ops._writable import as_source, require_fit, same_storage, unwritable
from ._nodes import Node
from ._object_table import is_view
from ._pickled import picklable
from ._ragged_ops import RaggedOps, mask_of
from ._rows import (
    Held,
    Rows,
    holds,
    leaves_of,
    nesting,
    pack,
    padded_rows,
    spans_of,
    spans_of_lengths,
    table_of,
    write_step,
)

Elements: TypeAlias = "Sequence[Tensor] | Sequence[Sequence[Tensor]] | Sequence[Sequence[Sequence[Tensor]]]"


@answers
class RaggedTensor(RaggedOps, Node, TensorEntry):
    """One tensor for each element of the batch, with shape `[t, *event]`; `t` may differ between elements.

    Args:
        tensors: a list of elements, or nested lists for several batch dims; or a nested tensor of torch, whose first
            event dim may vary; or, with `lengths`, the concatenated rows `[total, *event]`.
        lengths: the number of rows of each element: integers `[*batch]` that add up to the total. The rows are not
            copied.

    Raises:
        StructureError: for elements that differ in dtype, device or event shape, and for lengths that don't add up.
        BatchSizeError: for nested lists without a regular shape.

    >>> import torch
    >>> from tensorclass import RaggedTensor
    >>> tokens = RaggedTensor([torch.tensor([1, 2, 3]), torch.tensor([4])])
    >>> tokens.lengths, tokens[1].item()
    (tensor([3, 1]), tensor([4]))
    >>> tokens.pad(value=-1)
    tensor([[ 1,  2,  3],
            [ 4, -1, -1]])
    >>> RaggedTensor(torch.tensor([1, 2, 3, 4]), lengths=[3, 1]).tolist()
    [tensor([1, 2, 3]), tensor([4])]
    """

    __slots__ = ("_at", "_copy", "_rows", "_seen")
    __ragged_tensor__: ClassVar[bool] = True
    _has_lengths = True
    _rows: Rows
    """The rows that this tensor and all its views share."""
    _at: Tensor
    """The number of each element in `_rows`: `[*batch]`."""
    _seen: Held | None
    """The contents of the rows when an operation began; None outside operations."""
    _copy: tuple[Tensor, Tensor] | None
    """The leaves that an operation got, a copy if rows are not contiguous in memory; None outside operations."""

    def __init__(
        self, tensors: Elements | RaggedTensor | Tensor, lengths: Tensor | Sequence[int] | Sequence[Any] | None = None
    ) -> None:
        rows: Any = tensors
        rows = torch.from_numpy(rows) if isinstance(rows, np.ndarray) else rows
        made = self._read(rows, None) if lengths is None else self._of(rows, spans_of_lengths(rows, lengths), True)
        self._rows, self._at, self._seen, self._copy = made._rows, made._at, None, None

    if TYPE_CHECKING:  # the types of a field `Float32[RaggedTensor, "t d"]` for checkers

        @overload
        def __get__(self, instance: None, owner: type) -> Self: ...
        @overload
        def __get__(self, instance: object, owner: type) -> RaggedTensor: ...
        def __get__(self, instance: object | None, owner: type) -> Any:
            """The tensors of an instance."""

        def __set__(self, instance: object, value: RaggedTensor | Elements | Tensor) -> None:
            """Replace the tensors of an instance."""

    @classmethod
    def of(cls, values: Any, batch_size: Sequence[int], like: Tensor | None = None) -> RaggedTensor:
        """Elements from nested lists of the batch shape; a `RaggedTensor` is returned unchanged.

        Args:
            values: the tensors.
            batch_size: the shape of the nesting; a single tensor is an element without batch dims.
            like: an empty tensor `[0, *event]` that gives the dtype and event shape of a batch without elements.

        >>> import torch
        >>> from tensorclass import RaggedTensor
        >>> RaggedTensor.of([[torch.zeros(2)], [torch.zeros(5)]], [2, 1]).lengths.tolist()
        [[2], [5]]
        """
        return cls._read(values, torch.Size(batch_size), like)

    @classmethod
    def _read(cls, values: Any, size: torch.Size | None, like: Tensor | None = None) -> RaggedTensor:
        if isinstance(values, RaggedTensor):
            return values
        if isinstance(values, Tensor) and values.is_nested:
            values = list(values.unbind())
        size = nesting(values) if size is None else size
        same = as_alike(values, size)
        elements = same or leaves_of(values, size)
        table = table_of(elements, like)
        counts = [element.size(0) for element in elements] if same is None else same.lengths
        lengths = torch.tensor(counts, dtype=torch.int64, device=table.device)
        return cls._of(table, spans_of(lengths.reshape(size)), True)

    @classmethod
    def _of(cls, table: Tensor, spans: Tensor, packed: bool = False) -> Self:
        """Elements with new rows: a table, spans `[*batch, 2]`, and whether the table is exactly the spans in order."""
        rows = Rows((table, spans, packed))
        return cls._at_rows(rows, rows.numbers, None)

    @classmethod
    def _at_rows(cls, rows: Rows, at: Tensor, seen: Held | None) -> Self:
        node = object.__new__(cls)
        node._rows, node._at, node._seen, node._copy = rows, at, seen, None
        return node

    @classmethod
    def _of_state(cls, values: Any, lengths: Any, path: Path) -> Self:
        """Elements from the tensors in a state dict."""
        try:
            return cls._of(values, spans_of_lengths(values, lengths), True)
        except StructureError as error:
            raise StructureError(f"`{join_path(path)}`: {error}") from None

    def _still(self) -> Self:
        return self._at_rows(self._rows, self._at, self._seen or self._rows.held)

    @property
    def _parts(self) -> Held:
        """The table, the spans `[*batch, 2]` of the elements, and whether the table is exactly the spans in order."""
        table, spans, packed = self._seen or self._rows.held
        if self._at is self._rows.numbers:
            return table, spans, packed
        return table, spans.reshape(-1, 2)[self._at], False

    @classmethod
    def unpad(cls, padded: Tensor, lengths: Tensor | Sequence[int]) -> RaggedTensor:
        """Make elements from a padded tensor, without a copy.

        Args:
            padded: `[*batch, max, *event]`.
            lengths: `[*batch]`, integer: the valid length of each element.

        Raises:
            BatchSizeError: if the shape of `padded` doesn't begin with that of `lengths`.
            ValueError: for a length below 0 or above `max`.

        >>> import torch
        >>> from tensorclass import RaggedTensor
        >>> RaggedTensor.unpad(torch.tensor([[1, 2, 0], [3, 0, 0]]), [2, 1]).tolist()
        [tensor([1, 2]), tensor([3])]
        """
        return cls._of(*padded_rows(padded, lengths))

    # ---- properties ----------------------------------------------------------------------------------------------

    def _pack_rows(self) -> tuple[Tensor, Tensor]:
        table, spans, packed = self._parts
        return (table, spans) if packed else pack(table, spans)

    @property
    def values(self) -> Tensor:
        """The concatenated rows of all elements, in batch order: `[total, *event]`."""
        return self._pack_rows()[0]

    @property
    def lengths(self) -> Tensor:
        """The length of each element: int64 `[*batch]`.

        >>> import torch
        >>> from tensorclass import RaggedTensor
        >>> words = RaggedTensor([torch.arange(2), torch.arange(3)])
        >>> words.lengths
        tensor([2, 3])
        """
        return self._parts[1][..., 1].clone()

    @property
    def shape(self) -> torch.Size:
        """The batch shape: one tensor per element."""
        return self._at.shape

    @property
    def event_shape(self) -> torch.Size:
        """The shape of a row, which all elements share."""
        return self._parts[0].shape[1:]

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of every element.

        >>> import torch
        >>> from tensorclass import RaggedTensor
        >>> words = RaggedTensor([torch.arange(2), torch.arange(3)])
        >>> words.dtype
        torch.int64
        """
        return self._parts[0].dtype

    @property
    def device(self) -> torch.device:
        """The device of the elements.

        >>> import torch
        >>> from tensorclass import RaggedTensor
        >>> words = RaggedTensor([torch.arange(2), torch.arange(3)])
        >>> words.device
        device(type='cpu')
        """
        return self._parts[0].device

    # ---- other forms ---------------------------------------------------------------------------------------------

    @overload
    def pad(self, value: complex = 0, *, return_mask: Literal[False] = False) -> Tensor: ...
    @overload
    def pad(self, value: complex = 0, *, return_mask: Literal[True]) -> tuple[Tensor, Tensor]: ...
    def pad(self, value: complex = 0, *, return_mask: bool = False) -> Tensor | tuple[Tensor, Tensor]:
        """Pad the elements to the longest one, in one tensor.

        Args:
            value: the value of the padding.
            return_mask: also return `mask`, which is True where an element has a row.

        Returns:
            `[*batch, max, *event]`; `max` is 0 without elements. With `return_mask` also bool `[*batch, max]`.

        Raises:
            StructureError: if the dtype can't hold the value.

        >>> import torch
        >>> from tensorclass import RaggedTensor
        >>> RaggedTensor([torch.ones(1), torch.ones(2)]).pad()
        tensor([[1., 0.],
                [1., 1.]])
        """
        flag(return_mask=return_mask)
        table, spans = self._pack_rows()
        if not holds(self.dtype, value):
            raise StructureError(f"pad: the elements are {self.dtype}, which can't hold {value!r}")
        inside = mask_of(spans[..., 1])
        result = table.new_full((*inside.shape, *table.shape[1:]), value)
        result[inside] = table
        return (result, inside) if return_mask else result

    def pack(self) -> RaggedTensor:
        """The same elements over a table with only their rows, in batch order.

        >>> import torch
        >>> from tensorclass import RaggedTensor
        >>> RaggedTensor([torch.tensor([1, 2]), torch.tensor([3])])[[1, 0]].pack().values
        tensor([3, 1, 2])
        """
        return self._of(*self._pack_rows(), True)

    def to_nested(self) -> Tensor:
        """Convert to a nested tensor of torch in the jagged layout, which shares memory with the elements.

        Raises:
            StructureError: unless there is exactly one batch dim.

        >>> import torch
        >>> from tensorclass import RaggedTensor
        >>> RaggedTensor([torch.zeros(2, 3), torch.zeros(1, 3)]).to_nested().is_nested
        True
        """
        if self.ndim != 1:
            raise StructureError(
                f"to_nested: a nested tensor has one batch dim, this one has the batch shape {list(self.shape)}; "
                "flatten the batch first: `batch.reshape(-1)`"
            )
        return torch.nested.nested_tensor_from_jagged(self.values, self.offsets)

    def item(self) -> Tensor:
        """The tensor `[t, *event]` of one element.

        Raises:
            ValueError: unless there is exactly one element.

        >>> import torch
        >>> from tensorclass import RaggedTensor
        >>> words = RaggedTensor([torch.arange(2), torch.arange(3)])
        >>> words[1].item()
        tensor([0, 1, 2])
        """
        table, spans, _ = self._parts
        if spans.numel() != 2:
            raise ArgumentError(f"item() needs one element, this has the batch shape {list(self.shape)}; use tolist()")
        start, length = spans.reshape(-1).tolist()
        return table[start : start + length]

    def tolist(self) -> list[Any]:
        """The tensors as nested lists of the batch shape; without batch dims, the tensor itself.

        >>> import torch
        >>> from tensorclass import RaggedTensor
        >>> words = RaggedTensor([torch.arange(2), torch.arange(3)])
        >>> words.tolist()
        [tensor([0, 1]), tensor([0, 1, 2])]
        """
        table, spans, _ = self._parts
        found: Any = [table[start : start + length] for start, length in spans.reshape(-1, 2).tolist()]
        for n in reversed(self.shape[1:]):
            count = len(found) // n if n else self.shape[:1].numel()
            found = [found[i * n : (i + 1) * n] for i in range(count)]
        nested: list[Any] = found if self.shape else found[0]
        return nested

    def _with_numbers(self, new: Tensor) -> Self:
        return self._make([new], self.shape, None, BATCHED)

    def _stands_for(self) -> Tensor:
        return self._at

    def __iter__(self) -> Iterator[Any]:
        count = len(self)
        return iter([self[i] for i in range(count)] if self.ndim > 1 else self.tolist())

    def __repr__(self) -> str:
        lengths = self._parts[1][..., 1]
        shown = "?" if lengths.is_meta else f"{lengths.tolist()!r:.60}"
        return f"RaggedTensor({self._describe(torch.Size([]))}, lengths={shown})"

    def __reduce__(self) -> tuple[Any, ...]:
        table, spans = self._pack_rows()
        if table.untyped_storage().nbytes() > table.nbytes:  # a slice: pickle would include its whole storage
            table = table.clone()
        return _restore, (picklable(table), spans)

    # ---- comparison ----------------------------------------------------------------------------------------------

    def __eq__(self, other: object) -> Any:
        """Whether the two tensors of each element are equal: bool `[*batch]`. Compared with a number: for each row."""
        if not isinstance(other, RaggedTensor):
            return self._pointwise(operator.eq, other)
        if other.shape != self.shape:
            raise BatchSizeError(f"==: the batch shapes differ, {list(self.shape)} and {list(other.shape)}")
        pairs = zip(_flat(self), _flat(other), strict=True)
        same = [a.shape == b.shape and bool((a == b).all()) for a, b in pairs]
        return torch.tensor(same, dtype=torch.bool, device=self.device).reshape(self.shape)

    def __ne__(self, other: object) -> Any:
        return ~(self == other) if isinstance(other, RaggedTensor) else self._pointwise(operator.ne, other)

    def __hash__(self) -> int:
        return object.__hash__(self)

    # ---- the entry of a container --------------------------------------------------------------------------------

    @property
    def _batch_shape(self) -> torch.Size:
        return self.shape

    def _leaves(self, kind: Kind) -> list[Tensor]:
        if kind == BATCHED:
            return [self._at]
        table, spans = self._copy or self._pack_rows()
        if self._seen is not None:
            self._copy = table, spans
        return [table, spans] if kind == STORAGE else [table]

    def _over_values(self, over: Tensor, size: torch.Size) -> Tensor:
        """Expand a tensor that broadcasts to the batch size of the container, so that it broadcasts over the values."""
        table, spans, packed = self._parts
        lengths, rows = spans[..., 1], len(table) if packed else None  # a known number, so nothing waits for it
        each = over_events(over.expand(size), lengths.ndim - len(size)).expand(lengths.shape).reshape(-1)
        return over_events(each.repeat_interleave(lengths.reshape(-1), output_size=rows), table.ndim - 1)

    def _make(self, leaves: Sequence[Tensor], batch_size: torch.Size, names: Names, kind: Kind) -> Self:
        table, spans, packed = self._parts
        if kind != BATCHED and leaves and leaves[0] is (self._copy or self._parts)[0]:  # the values did not move
            return self._at_rows(self._rows, self._at, None)
        if kind == STORAGE:
            rows = self._rows.twin((leaves[0], leaves[1], True), None)
            return self._at_rows(rows, rows.numbers, None)
        if kind == BATCHED:
            at = leaves[0]
            if is_view(at, self._at):
                return self._at_rows(self._rows, at, None)
            picked = (self._seen or self._rows.held)[1].reshape(-1, 2)[at]
            if not is_plain(at) or torch.compiler.is_compiling():  # the lengths are unknown: copy all rows
                return self._of(table.clone(), picked)
            return self._of(*pack(table, picked, True), True)
        if not leaves:
            return self
        new = leaves[0]
        alike = not spans.is_meta and is_plain(new) and is_plain(table) and same_storage(new, table)
        if alike and not new.numel():  # the addresses say nothing
            alike = new.untyped_storage()._cdata == table.untyped_storage()._cdata
        base = (self._rows, self._seen or self._rows.held) if alike else None
        if base and not packed and len(new) == len(table):  # the whole table: the spans did not change
            rows = self._rows.twin((new, base[1][1], base[1][2]), base)
            return self._at_rows(rows, rows.numbers if self._at is self._rows.numbers else self._at, None)
        count = len(table) if packed or spans.is_meta else int(spans[..., 1].sum())
        if new.shape[:1] != (count,):
            raise StructureError(
                f"this operation makes {list(new.shape)} of the values {[count, *table.shape[1:]]} of a ragged "
                "field, whose lengths it must keep; leave the field out, or work on `field.pad()`"
            )
        rows = self._rows.twin((new, spans if packed else spans_of(spans[..., 1]), True), base)
        return self._at_rows(rows, rows.numbers, None)

    def _describe(self, outer: torch.Size) -> str:
        sizes = ",".join(map(str, (*self.shape[len(outer) :], -1, *self.event_shape)))
        return f"Ragged[{short_dtype(self.dtype)}[{sizes}]]"

    def _same_node(self, other: Any, test: Callable[[Tensor, Tensor], bool]) -> bool:
        if self.dtype is not other.dtype or not torch.equal(self.lengths, other.lengths):
            return False
        return test(self.values, other.values)

    @classmethod
    def _join_nodes(cls, nodes: Sequence[Any], dim: int, how: Join, key: str) -> Self:
        first = nodes[0]
        if all([node._rows is first._rows and node._seen is first._seen for node in nodes]):
            joined = how.torch_fn([node._at for node in nodes], dim)
            return first._make([joined], joined.shape, None, BATCHED)  # type: ignore[no-any-return]  # of this class
        parts = [node._pack_rows() for node in nodes]
        # Without elements the event shape is a guess, so any table will do.
        tables = [table for table, spans in parts if spans.numel()] or [parts[0][0]]
        for table in tables:
            if table.shape[1:] != tables[0].shape[1:] or table.device != tables[0].device:
                where = f": field `{how.at(key)}`" if key else ""
                raise StructureError(
                    f"{how.op}{where}: the event shapes {list(tables[0].shape[1:])} and "
                    f"{list(table.shape[1:])} on {tables[0].device} and {table.device} differ; elements "
                    "differ only in length"
                )
        shifted, start = [], 0
        for table, spans in parts:
            shifted.append(spans + spans.new_tensor([start, 0]))
            start += len(table) if spans.numel() else 0
        return cls._of(torch.cat(tables) if len(tables) > 1 else tables[0], how.torch_fn(shifted, dim))

    def _choose(self, other: Any, condition: Tensor, key: str) -> Self:
        if not isinstance(other, RaggedTensor) or other.event_shape != self.event_shape:
            raise StructureError(f"where: field `{key}` holds {self!r} on one side and {other!r:.60} on the other")
        (table, spans), (theirs, other_spans) = self._pack_rows(), other._pack_rows()
        wide = over_events(condition, spans.ndim - condition.ndim)
        chosen = torch.where(wide, spans, other_spans + spans.new_tensor([len(table), 0]))
        return self._of(*pack(torch.cat([table, theirs]), chosen), True)

    def _plan_write(self, value: Any, parts: Any, size: torch.Size, path: Path) -> Any:
        """The elements of a write, checked and copied, and the places that they replace."""
        if isinstance(value, SCALARS) or (isinstance(value, Tensor) and not value.ndim):
            table, spans, _ = self._parts
            number = as_source(value, table, path)
            spans = spans if parts is None else spans[parts]
            rows = number.to(table).expand(int(spans[..., 1].sum()), *table.shape[1:])
            value = self._of(rows, spans_of(spans[..., 1]), True)
        try:
            alone = isinstance(value, Tensor) and not value.is_nested
            value = self._read(value, torch.Size([]) if alone else None, self._parts[0][:0])
        except (StructureError, BatchSizeError) as error:
            raise type(error)(f"in-place write: `{join_path(path)}`: {error}") from None
        if not broadcasts_to(value.shape, size):
            raise BatchSizeError(
                f"in-place write: `{join_path(path)}` takes one tensor for each element of {list(size)}, got them for "
                f"the batch shape {list(value.shape)}"
            )
        fits = value.event_shape == self.event_shape or not value.shape.numel()
        require_fit(value.values, self.dtype, path)
        if not fits:
            raise StructureError(
                f"in-place write: `{join_path(path)}` holds {self._describe(self.shape)}, got "
                f"{value._describe(value.shape)}; elements may differ only in length"
            )
        table, spans, _ = self._parts
        at = self._at if parts is None else self._at[parts]
        lengths = value._parts[1][..., 1].to(spans.device)
        same = not spans.is_meta and torch.equal(
            (spans if parts is None else spans[parts])[..., 1], lengths.expand(at.shape)
        )
        problem = self._fixed(True, same)
        if problem:
            raise UnsupportedOperationError(f"in-place write: `{join_path(path)}` {problem}; nothing was written")
        return value._make([leaf.clone() for leaf in value._leaves(STORAGE)], size, None, STORAGE), at

    def _elements_after(self, plan: Any) -> Self:
        """Elements with the lengths that a planned write leaves."""
        value, at = plan
        table, spans, _ = self._rows.held
        flat = spans.reshape(-1, 2).clone()
        flat[at] = value._parts[1].to(flat.device)
        return self._of(table, flat[self._at])

    def _commit(self, plan: Any, writes: Writes) -> None:
        value, at = plan
        table, spans = value._pack_rows()
        self._rows.plan_put(at, table, spans, writes)

    def _is_lent(self, leaf: Tensor) -> bool:
        """Whether a `VALUES` leaf is a copy, since the rows are not contiguous in memory."""
        return not same_storage(leaf, self._parts[0])

    def _fixed(self, expanded: bool = True, same: bool = True) -> str:
        """The reason why elements with the same lengths, or with others, can't be written; empty if they can."""
        return (unwritable(self._at, False) if expanded else "") or self._rows.fixed(same)

    def _take_back(self, leaf: Tensor) -> Step:
        """The step that copies a `VALUES` leaf back, once it is written."""
        table, spans, _ = self._parts
        return write_step(table, spans, leaf)

    def _settle(self, leaf: Tensor) -> None:
        """Replace the rows by a `VALUES` leaf, with its own `requires_grad`."""
        table, spans = self._pack_rows()
        if leaf is not table:
            self._rows = Rows((leaf, spans, True))
            self._at = self._rows.numbers


def _flat(node: RaggedTensor) -> list[Tensor]:
    table, spans = node._pack_rows()
    return list(table.split(spans[..., 1].reshape(-1).tolist()))


@trust_for_loading
def _restore(table: Tensor, spans: Tensor) -> RaggedTensor:
    return RaggedTensor._of(table, spans, True)


def _flatten(node: RaggedTensor) -> tuple[list[Any], Any]:
    return with_keys(list(node._pack_rows()), ("values", "spans")), None


def _flatten_with_keys(node: RaggedTensor) -> tuple[list[Any], Any]:
    table, spans = node._pack_rows()
    return [(pytree.GetAttrKey("values"), table), (pytree.GetAttrKey("spans"), spans)], None


def _unflatten(children: Iterable[Any], _: Any) -> RaggedTensor:
    table, spans = cast("tuple[Tensor, Tensor]", children)
    return RaggedTensor._of(table, spans, True)


pytree.register_pytree_node(
    RaggedTensor,
    _flatten,
    _unflatten,
    flatten_with_keys_fn=_flatten_with_keys,
    serialized_type_name="tensorclass.RaggedTensor",
)
