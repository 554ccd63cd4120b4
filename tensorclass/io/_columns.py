"""Rows of shards as one container: a row has an address, and the rows of a column are copied at once.

`take_apart` finds the columns of a shard, and the form that it has besides; a `Table` knows where the columns of open
shards lie; `Form.take` gives rows of them, in memory of their own. A column is a tensor, the spans or the values of
ragged elements, or the index of Python objects.
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
from ..core import TensorCollection, store_of
from ..ops._compare import ATOMS, same_object
from ..store import Node, NonTensorDataBase, NonTensorStack, RaggedTensor, TensorDict, Unbatched
from ._advice import AHEAD, IntArray, fetch, is_here
from ._memory import blank, over_address

_COLD = 32
"""How many times rows are asked for after some that were not in memory."""
_MANY = 1 << 40
"""More objects than a shard has."""
_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""What numpy copies rows as whose dtype it has not."""


class Column(NamedTuple):
    """What a tensor is besides its values and the number of its rows."""

    dtype: torch.dtype
    shape: torch.Size
    """Of a row."""
    step: int
    """Elements from one row of the batch to the next: those of a row; 0 where all rows are one, and for values."""

    @property
    def size(self) -> int:
        """Bytes of a row."""
        return self.shape.numel() * self.dtype.itemsize

    def take(self, rows: Rows) -> Tensor:
        """The rows."""
        at = next(rows.columns)
        return rows.table.copy(at, rows.places[at], self.step, rows.cuts)

    def over(self, tensors: Iterator[Tensor], _: Any) -> Tensor:
        """All rows."""
        return next(tensors)


class RaggedColumn(NamedTuple):
    """Two columns: spans, and the values that they cut."""

    spans: Column
    values: Column
    nested: bool
    """Whether it is a nested tensor of torch."""

    def over(self, tensors: Iterator[Tensor], _: Any) -> Any:
        """All elements, around packed values."""
        spans, values = next(tensors), next(tensors)
        found = RaggedTensor._of(values, spans, True)
        return found.to_nested() if self.nested else found

    def take(self, rows: Rows) -> Any:
        """The elements, packed."""
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
    """A column of places in a table of Python objects, which each shard has."""

    places: Column
    number: int

    def over(self, tensors: Iterator[Tensor], tables: Sequence[Sequence[Any]]) -> NonTensorStack[Any]:
        """All objects of a table."""
        return NonTensorStack._of(tuple(tables[self.number]), next(tensors))

    def take(self, rows: Rows) -> NonTensorStack[Any]:
        """The objects; those that rows share are shared by the result too."""
        index, held = self.places.take(rows), rows.table.held
        shards = rows.numbers.reshape(-1, *[1] * (index.ndim - 1))
        pairs, places = np.unique(shards * _MANY + index.numpy(), return_inverse=True)
        table = [_own(held[pair // _MANY][1].tables[self.number][pair % _MANY]) for pair in pairs.tolist()]
        return NonTensorStack._of(tuple(table), torch.from_numpy(places.reshape(index.shape)))


def _own(value: Any) -> Any:
    """A copy of a Python object that may change, so that a change of it does not reach the next reader."""
    return value if type(value) in ATOMS else deepcopy(value)


class Same:
    """What all rows share, in all shards."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        mine: Any = self.value
        theirs: Any = other.value if isinstance(other, Same) else None
        if isinstance(mine, Node):
            return type(mine) is type(theirs) and mine._same_node(theirs, torch.equal)
        return same_object(mine, theirs)

    __hash__ = None  # type: ignore[assignment]  # forms are compared, and nothing else

    def over(self, *_: Any) -> Any:
        """The value."""
        return self.value

    def take(self, _: Rows) -> Any:
        """A value of their own."""
        value = self.value
        if isinstance(value, Unbatched):
            return Unbatched(value.tensor.clone())
        return type(value)(_own(value.data)) if isinstance(value, NonTensorDataBase) else _own(value)


class Form(NamedTuple):
    """A container without its rows: shards of equal forms are read together."""

    cls: Any
    """The class around the entries, None for a `TensorDict`."""
    rest: torch.Size
    """The batch dims behind the rows."""
    names: Any
    device: torch.device | None
    entries: tuple[tuple[str, Any], ...]

    def columns(self) -> Iterator[Column]:
        """All columns, in order."""
        for _, part in self.entries:
            if isinstance(part, Form):
                yield from part.columns()
            elif not isinstance(part, Same):
                yield from [part] if isinstance(part, Column) else [one for one in part if isinstance(one, Column)]

    def take(self, rows: Rows) -> Any:
        """The container of some rows; nothing is validated again."""
        return self._around({key: part.take(rows) for key, part in self.entries}, rows.count)

    def over(self, tensors: Iterator[Tensor], tables: Sequence[Sequence[Any]], count: int) -> Any:
        """The container around whole columns, and tables of Python objects."""
        found = {}
        for key, part in self.entries:
            found[key] = part.over(tensors, tables, count) if isinstance(part, Form) else part.over(tensors, tables)
        return self._around(found, count)

    def _around(self, entries: dict[str, Any], count: int) -> Any:
        store = TensorDict._from_entries(entries, torch.Size((count, *self.rest)), self.device, self.names)
        return store if self.cls is None else self.cls._wrap(store)

    def looks(self) -> bool:
        """Whether a class at any depth looks at values when it is made."""
        inner = [part.looks() for _, part in self.entries if isinstance(part, Form)]
        return any(inner) or (self.cls is not None and self.cls.__tensorclass__.checked)


class Parts(NamedTuple):
    """The columns of one shard and its tables of objects, in the order of its form."""

    form: Form | None
    """None where it has entries of other kinds: such rows are read by indexing."""
    tensors: list[Tensor]
    tables: list[Sequence[Any]]


def take_apart(batch: Any) -> Parts:
    """The columns of a container."""
    found = Parts(None, [], [])
    return found._replace(form=_form(batch, found))


def _form(batch: Any, found: Parts) -> Form | None:
    store = store_of(batch)
    if type(store) is not TensorDict:
        return None
    entries = [(key, _part(value, found)) for key, value in store._entries().items()]
    if any([part is None for _, part in entries]):
        return None
    cls = None if store is batch else type(batch)
    return Form(cls, store._batch_size[1:], store._names, store._device, tuple(entries))


def _part(value: Any, found: Parts) -> Any:
    if isinstance(value, TensorCollection):
        return _form(value, found)
    given: Any = value
    nested = isinstance(value, Tensor) and value.is_nested
    if nested and (value.layout is not torch.jagged or given.lengths() is not None or value.requires_grad):
        return None
    if isinstance(value, Tensor) and not nested:
        return _column(value, found)
    if nested or isinstance(value, RaggedTensor):
        table, spans = (RaggedTensor(given) if nested else given)._packed()
        first, second = _column(spans, found), _column(table, found)
        return None if first is None or second is None else RaggedColumn(first, second._replace(step=0), nested)
    if isinstance(value, NonTensorStack):
        objects, places = value._held
        found.tables.append(objects)
        column = _column(places, found)
        return None if column is None else ObjectColumn(column, len(found.tables) - 1)
    return Same(value)


def _column(value: Tensor, found: Parts) -> Column | None:
    count, shape = len(value), value.shape[1:]
    if type(value) is not Tensor or value.requires_grad or (count and not value[0].is_contiguous()):
        return None
    found.tensors.append(value)
    size = shape.numel()
    return Column(value.dtype, shape, value.stride(0) if count > 1 and size else size)


class Table:
    """The shards that are open, by number. It does not change: who reads rows of it keeps their shards open.

    Args:
        firsts: int64 `[shards]`, the number of the first row of each shard.
        mapped: whether they are mapped.
    """

    def __init__(self, firsts: IntArray, mapped: bool) -> None:
        self.firsts = firsts
        self.mapped = mapped
        self.held: dict[int, tuple[Any, Parts]] = {}
        """The batch and the parts of each shard."""
        self.form: Form | None = None
        self.columns: list[Column] = []
        self.ready = np.zeros(len(firsts), bool)
        """Which shards are open, and of the form."""
        self.ends: list[tuple[int, int]] = []
        """Between which addresses all rows of a column lie."""
        self.addresses = np.zeros((0, len(firsts)), np.int64)
        """Where the rows of a column begin in each shard; anything for one that is not open."""
        self.begins = self.steps = self.addresses
        """The same in elements from the lowest address, so that row r of the dataset is at `begins + r * step`."""
        self.sources: list[np.ndarray[Any, Any] | None] = []
        """The memory from the lowest address on, as rows that begin at every element; None without bytes."""
        self.watched: list[int] = []
        """Columns whose rows may be on the disk, the longest rows first."""
        self.cold = 0
        """How many times rows are asked for without a look at what is in memory."""

    def having(self, opened: Mapping[int, tuple[Any, Parts]], dropped: Collection[int] = ()) -> Table:
        """The table with more shards, and without some."""
        found = Table(self.firsts, self.mapped)
        found.held = {number: one for number, one in self.held.items() if number not in dropped} | dict(opened)
        forms = [parts.form for _, parts in opened.values() if parts.form is not None]
        found.cold = self.cold
        found.form = form = self.form or (forms[0] if forms else None)
        if form is None:
            return found
        alike = {number: parts.tensors for number, (_, parts) in opened.items() if parts.form == form}
        found.ready[:] = self.ready
        found.ready[[*dropped]] = False
        found.ready[[*alike]] = True
        found.columns = columns = list(form.columns())
        found.addresses = np.zeros((len(columns), len(self.ready)), np.int64)
        found.addresses[: len(self.addresses)] = self.addresses
        for number, tensors in alike.items():
            found.addresses[:, number] = [tensor.data_ptr() for tensor in tensors]
        for at, column in enumerate(columns):
            low, high = self.ends[at] if self.ends else (1 << 62, 0)
            for tensor in [tensors[at] for tensors in alike.values() if tensors[at].numel()]:
                low, high = min(low, tensor.data_ptr()), max(high, tensor[-1].data_ptr() + tensor[-1].nbytes)
            found.ends.append((low, high))
            found.sources.append(_source(column, low, high))
        lows = np.array([low for low, _ in found.ends], np.int64)[:, None]
        sizes = np.array([column.dtype.itemsize for column in columns], np.int64)[:, None]
        found.steps = np.array([column.step for column in columns], np.int64)[:, None]
        found.begins = (found.addresses - lows) // sizes - self.firsts * found.steps
        watched = [at for at, column in enumerate(columns) if column.step and self.mapped]
        found.watched = sorted(watched, key=lambda at: -columns[at].size)
        return found

    def address(self, at: int, places: Any) -> Any:
        """The address of elements of a column."""
        return self.ends[at][0] + places * self.columns[at].dtype.itemsize

    def copy(self, at: int, places: IntArray, step: int, cuts: Sequence[int] | None) -> Tensor:
        """Rows of a column. numpy copies them: it asks for large pages where there is much to copy.

        Args:
            at: the number of the column.
            places: int64 `[n]`, the elements at which they begin.
            step: the elements of a row.
            cuts: where runs of rows that follow each other begin; None where rows are anywhere.
        """
        source, column, count = self.sources[at], self.columns[at], len(places)
        if source is None:
            return blank(column.dtype, (count, *column.shape))
        if cuts and step and count:
            spans = [(int(places[cut]), end - cut) for cut, end in pairwise([*cuts, count]) if end > cut]
            runs = [source[begin : begin + rows * step : step] for begin, rows in spans]
            found = torch.from_numpy(runs[0].copy() if len(runs) == 1 else np.concatenate(runs))
        else:
            found = torch.from_numpy(source[places])
        return found if found.dtype is column.dtype else found.view(column.dtype)


def _source(column: Column, low: int, high: int) -> np.ndarray[Any, Any] | None:
    if low >= high:
        return None
    dtype, shape = column.dtype, column.shape
    flat = over_address(low, high - low).view(dtype if dtype in NUMPY else _INTEGERS[dtype.itemsize])
    strides = torch.empty(shape, device="meta").stride()
    found: np.ndarray[Any, Any] = flat.as_strided((len(flat) - shape.numel() + 1, *shape), (1, *strides)).numpy()
    return found


class Rows:
    """Some rows, whose columns are taken one after the other, in the order of the form.

    Args:
        table: has every shard of them.
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
        """Where rows of the next shard begin, in rows that are in order; None for others."""
        if table.watched:
            self.look(table.watched, places)

    def look(self, watched: list[int], places: IntArray) -> None:
        """Have the system read the parts that are not in memory.

        A look at one row tells, since each takes as long as the copy of a row. Where one was not there, the rows of
        the next times are asked for without a look: files that are there in part are not taken for whole.

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
        elif is_here(last) and (not more or is_here(last + more)):
            return
        else:
            table.cold = _COLD
        for at in watched:
            fetch(table.address(at, places[at]), table.columns[at].size, more)
