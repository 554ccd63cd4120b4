"""Rows of several shards as one container. A row is an address in memory, and all rows of a column are copied at once.

`take_apart` splits a shard into its columns and its form. A `Table` holds the addresses of the columns of open shards.
`Form.take` copies rows of them into a new container. A column is a tensor, the spans or the values of ragged elements,
or the index of Python objects.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from .._schema._json import NUMPY
from .._system import page_is_here
from ..core import TensorCollection, store_of
from ..ops._compare import ATOMS, same_object
from ..store import Node, NonTensorDataBase, NonTensorStack, RaggedTensor, TensorDict, Unbatched
from ._advice import AHEAD, IntArray, expect_rows
from ._memory import blank, over_address

_COLD = 32
"""After a row that was not in memory, the next this many calls request rows without checking."""
_MANY = 1 << 40
"""More objects than any shard has."""
_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""The dtype that numpy copies instead, by item size, if numpy lacks the dtype of a column."""


class Column(NamedTuple):
    """A tensor without its values and its number of rows."""

    dtype: torch.dtype
    shape: torch.Size
    """The shape of a row."""
    step: int
    """Elements from one row of the batch to the next: the size of a row; 0 if all rows share one, and for values."""

    @property
    def size(self) -> int:
        """Bytes of a row."""
        return self.shape.numel() * self.dtype.itemsize

    def take(self, rows: FileRows) -> Tensor:
        """The rows."""
        at = next(rows.columns)
        return rows.table.copy(at, rows.places[at], self.step, rows.cuts)

    def over(self, tensors: Iterator[Tensor], _: Any) -> Tensor:
        """All rows."""
        return next(tensors)


class RaggedColumn(NamedTuple):
    """Two columns: spans, and the values that they cut into elements."""

    spans: Column
    values: Column
    nested: bool
    """Whether the entry is a nested tensor of torch."""

    def over(self, tensors: Iterator[Tensor], _: Any) -> Any:
        """All elements, around packed values."""
        spans, values = next(tensors), next(tensors)
        found = RaggedTensor._of(values, spans, True)
        return found.to_nested() if self.nested else found

    def take(self, rows: FileRows) -> Any:
        """The elements, packed: their spans say which places of the values to copy, one after the other."""
        spans, at = self.spans.take(rows), next(rows.columns)
        starts, lengths = spans.view(-1, 2).numpy().T
        before, step = lengths.cumsum() - lengths, self.values.shape.numel()
        each = len(starts) // rows.count
        first = rows.places[at].repeat(each) + (starts - before) * step
        places = np.repeat(first, lengths)
        places += np.arange(len(places)) * step
        if rows.table.watched:
            rows.look([at], np.broadcast_to(places, (at + 1, len(places))))
        cuts = [int(before[cut * each]) for cut in rows.cuts] if rows.cuts and each else None
        values = rows.table.copy(at, places, step, cuts)
        packed = torch.from_numpy(np.stack([before, lengths], 1)).view(spans.shape)
        return self.over(iter([packed, values]), None)


class ObjectColumn(NamedTuple):
    """A column of positions in the shard's table of Python objects."""

    places: Column
    number: int

    def over(self, tensors: Iterator[Tensor], tables: Sequence[Sequence[Any]]) -> NonTensorStack[Any]:
        """All objects of a table."""
        return NonTensorStack._of(tuple(tables[self.number]), next(tensors))

    def take(self, rows: FileRows) -> NonTensorStack[Any]:
        """The objects of the rows; objects that rows share are shared in the result too."""
        index, held = self.places.take(rows), rows.table.held
        shards = rows.numbers.reshape(-1, *[1] * (index.ndim - 1))
        pairs, places = np.unique(shards * _MANY + index.numpy(), return_inverse=True)
        table = [_own(held[pair // _MANY][1].tables[self.number][pair % _MANY]) for pair in pairs.tolist()]
        return NonTensorStack._of(tuple(table), torch.from_numpy(places.reshape(index.shape)))


def _own(value: Any) -> Any:
    """A copy of a mutable Python object, so changing it doesn't affect the next reader."""
    return value if type(value) in ATOMS else deepcopy(value)


class SharedValue:
    """A value that all rows of all shards share."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        mine: Any = self.value
        theirs: Any = other.value if isinstance(other, SharedValue) else None
        if isinstance(mine, Node):
            return type(mine) is type(theirs) and mine._same_node(theirs, torch.equal)
        return same_object(mine, theirs)

    __hash__ = None  # type: ignore[assignment]  # forms are compared, and nothing else

    def over(self, *_: Any) -> Any:
        """The value."""
        return self.value

    def take(self, _: FileRows) -> Any:
        """A copy of the value."""
        value = self.value
        if isinstance(value, Unbatched):
            return Unbatched(value.tensor.clone())
        return type(value)(_own(value.data)) if isinstance(value, NonTensorDataBase) else _own(value)


class Form(NamedTuple):
    """A container without its rows: shards of equal forms are read together."""

    cls: Any
    """The class of the container; None for a `TensorDict`."""
    rest: torch.Size
    """The sizes of the batch dims after the first."""
    names: Any
    device: torch.device | None
    entries: tuple[tuple[str, Any], ...]

    def columns(self) -> Iterator[Column]:
        """All columns, in order."""
        for _, part in self.entries:
            if isinstance(part, Form):
                yield from part.columns()
            elif not isinstance(part, SharedValue):
                yield from [part] if isinstance(part, Column) else [one for one in part if isinstance(one, Column)]

    def take(self, rows: FileRows) -> Any:
        """The container of some rows; the values are not validated again."""
        return self._around({key: part.take(rows) for key, part in self.entries}, rows.count)

    def over(self, tensors: Iterator[Tensor], tables: Sequence[Sequence[Any]], count: int) -> Any:
        """The container of whole columns and tables of Python objects."""
        found = {}
        for key, part in self.entries:
            found[key] = part.over(tensors, tables, count) if isinstance(part, Form) else part.over(tensors, tables)
        return self._around(found, count)

    def _around(self, entries: dict[str, Any], count: int) -> Any:
        store = TensorDict._from_entries(entries, torch.Size((count, *self.rest)), self.device, self.names)
        return store if self.cls is None else self.cls._wrap(store)

    def looks(self) -> bool:
        """Whether a class at any depth validates values when it is constructed."""
        inner = [part.looks() for _, part in self.entries if isinstance(part, Form)]
        return any(inner) or (self.cls is not None and self.cls.__tensorclass__.checked)


class Parts(NamedTuple):
    """The columns of one shard and its tables of objects, in the order of its form."""

    form: Form | None
    """None if the shard has entries of other kinds; its rows are then read by indexing."""
    tensors: list[Tensor]
    tables: list[Sequence[Any]]


def take_apart(batch: Any) -> Parts:
    """The columns of a container."""
    found = Parts(None, [], [])
    return found._replace(form=_form_of(batch, found))


def _form_of(batch: Any, found: Parts) -> Form | None:
    """The form of a container, whose columns are appended to `found`; None if rows can't be copied from them."""
    store = store_of(batch)
    if type(store) is not TensorDict:
        return None
    entries = [(key, _part(value, found)) for key, value in store._entries().items()]
    if any([part is None for _, part in entries]):
        return None
    cls = None if store is batch else type(batch)
    return Form(cls, store._batch_size[1:], store._names, store._device, tuple(entries))


def _part(value: Any, found: Parts) -> Any:
    """The form of an entry, whose columns are appended to `found`; None as for `_form_of`."""
    if isinstance(value, TensorCollection):
        return _form_of(value, found)
    given: Any = value
    nested = isinstance(value, Tensor) and value.is_nested
    if nested and (value.layout is not torch.jagged or given.lengths() is not None or value.requires_grad):
        return None
    if isinstance(value, Tensor) and not nested:
        return _column(value, found)
    if nested or isinstance(value, RaggedTensor):
        table, spans = (RaggedTensor(given) if nested else given)._pack_rows()
        first, second = _column(spans, found), _column(table, found)
        return None if first is None or second is None else RaggedColumn(first, second._replace(step=0), nested)
    if isinstance(value, NonTensorStack):
        objects, places = value._held
        found.tables.append(objects)
        column = _column(places, found)
        return None if column is None else ObjectColumn(column, len(found.tables) - 1)
    return SharedValue(value)


def _column(value: Tensor, found: Parts) -> Column | None:
    count, shape = len(value), value.shape[1:]
    if type(value) is not Tensor or value.requires_grad or (count and not value[0].is_contiguous()):
        return None
    found.tensors.append(value)
    size = shape.numel()
    return Column(value.dtype, shape, value.stride(0) if count > 1 and size else size)


class Table:
    """The open shards, by number. A table is immutable: a reader that holds it keeps its shards open.

    Args:
        firsts: int64 `[shards]`, the number of the first row of each shard.
        mapped: whether they are mapped.
    """

    def __init__(self, firsts: IntArray, mapped: bool) -> None:
        self.firsts = firsts
        self.mapped = mapped
        self.held: dict[int, tuple[Any, Parts]] = {}
        """The batch and the parts of each shard."""
        self.partial: dict[int, Any] = {}
        """The remote files of the shards that are not here as a whole. They only become fewer."""
        self.form: Form | None = None
        self.columns: list[Column] = []
        self.ready = np.zeros(len(firsts), bool)
        """Which shards are open and have the common form."""
        self.ends: list[tuple[int, int]] = []
        """For each column, the lowest and highest address of its rows."""
        self.addresses = np.zeros((0, len(firsts)), np.int64)
        """Where the rows of a column begin in each shard; undefined for a shard that is not open."""
        self.begins = self.steps = self.addresses
        """The same in elements from the lowest address, so that row r of the dataset is at `begins + r * step`."""
        self.sources: list[np.ndarray[Any, Any] | None] = []
        """The memory from the lowest address on, as rows that begin at every element; None without bytes."""
        self.watched: list[int] = []
        """Columns whose rows may not be in memory yet, longest rows first."""
        self.cold = 0
        """For how many more calls rows are requested without checking what is in memory."""

    def with_shards(
        self, opened: Mapping[int, tuple[Any, Parts]], dropped: Collection[int] = (), partial: Mapping[int, Any] = {}
    ) -> Table:
        """A new table with some shards dropped and more opened; `partial` has those that are not here as a whole."""
        new = Table(self.firsts, self.mapped)
        new.held = {number: one for number, one in self.held.items() if number not in dropped} | dict(opened)
        left = self.partial.copy()  # another thread may take some out
        new.partial = {number: file for number, file in left.items() if number not in dropped} | dict(partial)
        new.cold = self.cold
        new.form = self.form or next((parts.form for _, parts in opened.values() if parts.form is not None), None)
        if new.form is not None:
            alike = {number: parts.tensors for number, (_, parts) in opened.items() if parts.form == new.form}
            new.ready[:] = self.ready
            new.ready[[*dropped]] = False
            new.ready[[*alike]] = True
            new._set_columns(list(new.form.columns()), self, list(alike.values()))
            new._set_addresses(self, alike)
        return new

    def _set_columns(self, columns: list[Column], before: Table, opened: list[list[Tensor]]) -> None:
        """Set the columns and their memory, which includes that of the shards opened before and now."""
        self.columns = columns
        for at, column in enumerate(columns):
            low, high = before.ends[at] if before.ends else (1 << 62, 0)
            for tensor in [tensors[at] for tensors in opened if tensors[at].numel()]:
                low, high = min(low, tensor.data_ptr()), max(high, tensor[-1].data_ptr() + tensor[-1].nbytes)
            self.ends.append((low, high))
            self.sources.append(_source(column, low, high))
        watched = [at for at, column in enumerate(columns) if column.step and self.mapped]
        self.watched = sorted(watched, key=lambda at: -columns[at].size)

    def _set_addresses(self, before: Table, opened: Mapping[int, list[Tensor]]) -> None:
        """Set where the rows of each column begin: in bytes, and in elements from its lowest address."""
        self.addresses = np.zeros((len(self.columns), len(self.ready)), np.int64)
        self.addresses[: len(before.addresses)] = before.addresses
        for number, tensors in opened.items():
            self.addresses[:, number] = [tensor.data_ptr() for tensor in tensors]
        lows = np.array([low for low, _ in self.ends], np.int64)[:, None]
        sizes = np.array([column.dtype.itemsize for column in self.columns], np.int64)[:, None]
        self.steps = np.array([column.step for column in self.columns], np.int64)[:, None]
        self.begins = (self.addresses - lows) // sizes - self.firsts * self.steps

    def address(self, at: int, places: Any) -> Any:
        """The address of elements of a column."""
        return self.ends[at][0] + places * self.columns[at].dtype.itemsize

    def copy(self, at: int, places: IntArray, step: int, cuts: Sequence[int] | None) -> Tensor:
        """Rows of a column. numpy copies them, because it requests huge pages for large copies.

        Args:
            at: the number of the column.
            places: int64 `[n]`, the elements at which the rows begin.
            step: the elements of a row.
            cuts: where runs of consecutive rows begin; None if the rows are in any order.
        """
        source, column = self.sources[at], self.columns[at]
        if source is None:
            return blank(column.dtype, (len(places), *column.shape))
        rows = _copied_runs(source, places, step, cuts) if cuts and step and len(places) else source[places]
        found = torch.from_numpy(rows)
        return found if found.dtype is column.dtype else found.view(column.dtype)


def _copied_runs(
    source: np.ndarray[Any, Any], places: IntArray, step: int, cuts: Sequence[int]
) -> np.ndarray[Any, Any]:
    """Rows that are in order, copied one run of consecutive rows at a time."""
    spans = [(int(places[cut]), end - cut) for cut, end in pairwise([*cuts, len(places)]) if end > cut]
    runs = [source[begin : begin + rows * step : step] for begin, rows in spans]
    return runs[0].copy() if len(runs) == 1 else np.concatenate(runs)


def _source(column: Column, low: int, high: int) -> np.ndarray[Any, Any] | None:
    if low >= high:
        return None
    dtype, shape = column.dtype, column.shape
    flat = over_address(low, high - low).view(dtype if dtype in NUMPY else _INTEGERS[dtype.itemsize])
    strides = torch.empty(shape, device="meta").stride()
    found: np.ndarray[Any, Any] = flat.as_strided((len(flat) - shape.numel() + 1, *shape), (1, *strides)).numpy()
    return found


class FileRows:
    """A selection of rows; its columns are taken one after the other, in the order of the form.

    Args:
        table: holds every shard of these rows.
        numbers: int64 `[n]`, the shard of each row; n >= 1.
        rows: int64 `[n]`, the number of each row, over all shards.
    """

    def __init__(self, table: Table, numbers: IntArray, rows: IntArray) -> None:
        self.table = table
        self.numbers = numbers
        self.count = len(rows)
        self.columns = iter(range(len(table.columns)))
        self.places = places = table.begins.take(numbers, 1) + rows * table.steps
        in_order = rows[-1] - rows[0] == self.count - 1 and (np.diff(rows) == 1).all()
        self.cuts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist()] if in_order else None
        """Where the rows of the next shard begin, if the rows are in order; else None."""
        if table.watched:
            self.look(table.watched, places)

    def look(self, watched: list[int], places: IntArray) -> None:
        """Ask the system to read the rows that are not in memory.

        Only one row is checked, since a check takes as long as copying a row. If it was missing, the next calls request
        their rows without a check, so a file that is only partly in memory does not pass for complete.

        Args:
            watched: the numbers of columns, the one with the longest rows first.
            places: int64 `[columns, n]`, the elements at which rows begin.
        """
        table, count, longest = self.table, places.shape[1], watched[0]
        if not count:
            return
        last, size = table.address(longest, int(places[longest, -1])), table.columns[longest].size
        more = min(count * size, AHEAD) if self.cuts and count > 1 else 0
        if table.cold:
            table.cold -= 1
        elif page_is_here(last) and (not more or page_is_here(last + more)):
            return
        else:
            table.cold = _COLD
        for at in watched:
            expect_rows(table.address(at, places[at]), table.columns[at].size, more)
