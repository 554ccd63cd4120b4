"""A batch as columns, with one value for each row. Every format writes and reads columns.

Columns have names; a nested class is a column that holds columns. A format converts each kind of value to its own form
and back, and knows nothing about classes.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, Union, get_args, get_origin

import numpy as np
import torch
from pydantic_core import PydanticSerializationError, to_jsonable_python
from torch import Tensor

from ..._budget import reserve
from ..._schema import FieldSpec, schema_of
from ..._schema._json import DTYPES, NAMES, NUMPY, WORDS, holds_text, spell
from ...core import TensorCollection
from ...errors import ArgumentError, BatchDimError, Problem, SchemaError, StructureError, UnsupportedOperationError
from ...store import NonTensorStack, RaggedTensor, Unbatched
from ...store.entries._rows import spans_of
from .._names import MAX_DEPTH

NATIVE: tuple[Any, ...] = (str, int, float, bool)
"""Types of Python values that every format holds as they are."""


@dataclass(frozen=True)
class TableColumn:
    """The values of one field, one for each row."""

    value: Any
    """A tensor, a `RaggedTensor`, a `NonTensorStack` of Python values, columns by name, or None if all are null."""
    valid: Tensor | None = None
    """Which rows are not null; None if no row is null."""
    kind: str = ""
    """The type in the source, for messages."""
    spec: FieldSpec | None = None
    """The declared field, for a column that will be written."""
    objects: Callable[[], list[Any]] | None = None
    """Returns the values as Python objects, for a column that was read."""
    decimal: bool = False
    """Whether the numbers were text: floats are decimals, which the declared dtype rounds."""


Columns = dict[str, TableColumn]


# ---- out ---------------------------------------------------------------------------------------------------------


def columns_of(batch: Any, what: str) -> Columns:
    """The columns of a batch. A value that the batch shares is repeated in every row.

    Raises:
        BatchDimError: unless there is one batch dim.
    """
    if not isinstance(batch, TensorCollection):
        raise ArgumentError(f"{what} takes a container, got a {type(batch).__name__}")
    size = list(batch.batch_size)
    if len(size) != 1:
        hint = "`batch.unsqueeze(0)` makes one row" if not size else "`batch.reshape(-1)` makes one dim"
        raise BatchDimError(f"{what}: rows are one batch dim, the batch size is {size}; {hint}")
    return _columns(batch._solid(), size[0])


def some(batches: Iterable[Any]) -> Iterator[Any]:
    """Batches that follow each other.

    Raises:
        StructureError: if there are none.
    """
    empty = True
    for batch in batches:
        empty = False
        yield batch
    if empty:
        raise StructureError("there are no rows, and nothing says their columns")


def _columns(batch: Any, rows: int) -> Columns:
    schema = schema_of(type(batch))
    entries = batch._entries() if schema is None else batch._fields_and_gaps()
    fields = {} if schema is None else schema.fields
    return {name: TableColumn(_written_column(value, rows), spec=fields.get(name)) for name, value in entries.items()}


def _written_column(value: Any, rows: int) -> Any:
    if isinstance(value, Unbatched):
        value = value.tensor.expand(rows, *value.tensor.shape)
    if isinstance(value, Tensor):
        return RaggedTensor(value) if value.is_nested else value.detach().cpu().resolve_conj().resolve_neg()
    if isinstance(value, TensorCollection):
        return _columns(value, rows)
    if isinstance(value, RaggedTensor):
        return RaggedTensor._of(value.values.detach().cpu(), spans_of(value.lengths.cpu()), True)
    if value is None or isinstance(value, NonTensorStack):
        return value
    return NonTensorStack.of_one(value, torch.Size([rows]))


def stored(value: Tensor, path: str) -> tuple[Tensor, str | None]:
    """A tensor in a dtype that numpy has, and the name of its own dtype if that differs.

    Complex numbers are pairs in a last dim; bfloat16 and float8 become float32, which holds all their values.
    """
    if value.dtype not in NAMES or value.layout is not torch.strided:
        what = value.dtype if value.layout is torch.strided else value.layout
        raise UnsupportedOperationError(f"field `{path}`: tables have no numbers like {what}; convert it first")
    if value.dtype in NUMPY and not value.is_complex():
        return value, None
    name = NAMES[value.dtype]
    if value.is_complex():
        return torch.view_as_real(value.to(torch.complex64) if value.dtype is torch.complex32 else value), name
    return value.float(), name


def restored(value: Tensor, name: str) -> Tensor:
    """Undo `stored`.

    Raises:
        ValueError: if the tensor was not stored for this dtype.
    """
    dtype = DTYPES.get(name)
    if dtype is None or (dtype.is_complex and value.shape[-1:] != (2,)):
        raise ArgumentError(f"a tensor of shape {list(value.shape)} was not stored as {name!r:.40}")
    if dtype.is_complex:
        value = value.contiguous() if value.numel() else value.new_empty(value.shape)  # empty: any strides
        return torch.view_as_complex(value).to(dtype)
    return value.to(dtype)


def native_type(spec: FieldSpec | None, stack: NonTensorStack[Any]) -> Any:
    """The type of the values of a column, if every format can hold it. A declared type is trusted."""
    if spec is not None and spec.kind.holds_objects:
        kind = _without_none(spec.annotation)
        if get_origin(kind) is Literal:
            kinds = {type(value) for value in get_args(kind)}
            kind = kinds.pop() if len(kinds) == 1 else None
        return kind if kind in NATIVE else None
    kinds = {type(value) for value in stack._table if value is not None}
    kind = kinds.pop() if len(kinds) == 1 else None
    return kind if kind in NATIVE else None


def _without_none(kind: Any) -> Any:
    if get_origin(kind) in (Union, types.UnionType):
        parts = [part for part in get_args(kind) if part is not types.NoneType]
        return parts[0] if len(parts) == 1 else kind
    return kind


def as_json(spec: FieldSpec | None, value: Any) -> Any:
    """A Python value as JSON types.

    Raises:
        PydanticSerializationError: if JSON can't hold it.
    """
    if value is None or type(value) in (str, int, bool):
        return value
    if spec is not None and spec.kind.holds_objects:
        return spec.adapter.dump_python(value, mode="json")
    return to_jsonable_python(value, inf_nan_mode="strings")


def json_rows(column: TableColumn, rows: int, path: str) -> list[Any]:
    """The values of a column as JSON types, one for each row."""
    value = column.value
    if value is None:
        return [None] * rows
    if isinstance(value, dict):
        inner = [json_rows(part, rows, f"{path}.{name}") for name, part in value.items()]
        return [dict(zip(value, row, strict=True)) for row in zip(*inner, strict=True)] if inner else [{}] * rows
    if isinstance(value, RaggedTensor):
        numbers = iter(spell(stored(value.values, path)[0].tolist()))
        return [list(islice(numbers, length)) for length in value.lengths.tolist()]
    if isinstance(value, Tensor):
        found: list[Any] = spell(stored(value, path)[0].tolist())
        return found
    try:
        table = [as_json(column.spec, entry) for entry in value._table]
    except (PydanticSerializationError, ValueError) as error:
        raise UnsupportedOperationError(f"field `{path}`: JSON can't hold its values: {error!s:.200}") from None
    return [table[i] for i in value._index.tolist()]


def flat(
    columns: Mapping[str, TableColumn], separator: str | None, path: str = ""
) -> Iterator[tuple[str, TableColumn]]:
    """Flatten columns of nested fields to joined names; names of a typed class are joined with ".".

    Raises:
        SchemaError: for a nested untyped container without `separator`, and for equal names.
    """
    for name, column in columns.items():
        if not isinstance(column.value, dict):
            yield path + name, column
            continue
        joint = separator or ("." if column.spec is not None and column.spec.nested is not None else None)
        if joint is None:
            what = 'it nests, and columns are flat; join the names: `separator="."`'
            raise SchemaError.of("columns", [Problem(path + name, "a value for each row", "a container", what)])
        yield from flat(column.value, separator, f"{path}{name}{joint}")


# ---- in ----------------------------------------------------------------------------------------------------------


def unique(names: list[Any], what: str) -> list[str]:
    """The names of columns, checked.

    Raises:
        SchemaError: for a name that is repeated or not a string.
    """
    seen = set[str]()
    for name in names:
        if not isinstance(name, str) or name in seen:
            hint = "rename one of them" if isinstance(name, str) else "rename it"
            given = f"{name!r:.60} twice" if isinstance(name, str) else f"{name!r:.60}"
            raise SchemaError.of(what, [Problem(str(name), "columns with distinct names of text", given, hint)])
        seen.add(name)
    return names


def all_null(columns: Columns) -> bool:
    """Whether all values of all columns are null."""
    return all([all_null(c.value) if isinstance(c.value, dict) else c.value is None for c in columns.values()])


def column_of(values: list[Any], kind: str, decimal: bool = False) -> TableColumn:
    """A column from Python values.

    Numbers, and lists and arrays of numbers, become tensors; dicts become nested columns.
    """
    there = [value for value in values if value is not None]
    if not there:
        return TableColumn(None, None, kind, objects=lambda: values, decimal=decimal)
    if all([isinstance(value, dict) for value in there]):
        names = dict.fromkeys(name for value in there for name in value)
        reserve(8 * len(names) * len(values), f"{len(values)} rows with {len(names)} different keys")
        inner = {n: column_of([None if v is None else v.get(n) for v in values], kind, decimal) for n in names}
        return TableColumn(inner, None, kind, objects=lambda: values)
    valid = None if len(there) == len(values) else torch.tensor([value is not None for value in values])
    value = numbers_of(there)
    if value is None and decimal and not all([isinstance(part, str) for part in there]):
        value = numbers_of(finite(there))
    if value is None:
        value = NonTensorStack.of(values, torch.Size([len(values)]))
    elif valid is not None:
        value = spread(value, valid)
    return TableColumn(value, valid, kind, objects=lambda: values, decimal=decimal)


def numbers_of(values: list[Any]) -> Any:
    """A tensor from numbers, or from lists of numbers; None for anything else."""
    found = _array(values)
    if found is not None or not all([isinstance(value, list | tuple | np.ndarray) for value in values]):
        return found
    parts = [_array(value) for value in values]
    known = [part for part in parts if part is not None and part.numel()]
    if not known or any([part is None or not part.ndim for part in parts]):
        return None
    dtype = known[0].dtype if len({part.dtype for part in known}) == 1 else torch.float64
    event = known[0].shape[1:]
    if any([part.shape[1:] != event or (part.dtype is torch.bool) != (dtype is torch.bool) for part in known]):
        return None
    return RaggedTensor(
        [torch.empty(0, *event, dtype=dtype) if p is None or not p.numel() else p.to(dtype) for p in parts]
    )


def _array(values: Any) -> Tensor | None:
    """Python numbers as a tensor; None for lists of other things, or of numbers and booleans."""
    if holds_text(values):  # numpy would make all elements as wide as the longest text
        return None
    try:
        found = np.array(values)
    except (ValueError, TypeError, OverflowError):
        return None
    kind = found.dtype.kind
    if kind not in "biufc" or (kind != "b" and _holds(values, bool)):
        return None
    large = found.dtype == np.float64 and found.size and np.nanmax(np.abs(found), initial=0) > 2**53
    if large and _holds(values, int):  # numpy converts integers on both sides of 2**63 to floats
        return None if _holds(values, float) else _as_unsigned(values)
    return torch.from_numpy(found.view(found.dtype.str))  # normalizes aliases: one dtype for each width


def _as_unsigned(values: Any) -> Tensor | None:
    try:
        return torch.from_numpy(np.array(values, dtype=np.uint64))
    except (ValueError, TypeError, OverflowError):
        return None


def _holds(values: Any, kind: type) -> bool:
    """Whether nested lists contain a value of a type."""
    if isinstance(values, list | tuple):
        kinds = set(map(type, values))
        return kind in kinds or (not kinds.isdisjoint((list, tuple)) and any([_holds(part, kind) for part in values]))
    return type(values) is kind


def finite(value: Any) -> Any:
    """JSON values, with words such as "NaN" replaced by numbers."""
    if isinstance(value, list):
        return [finite(part) for part in value]
    return float(value) if isinstance(value, str) and value in WORDS else value


def spread(value: Any, valid: Tensor) -> Any:
    """Spread the values of the rows that are not null over all rows."""
    if isinstance(value, RaggedTensor):
        lengths = torch.zeros(len(valid), dtype=torch.int64)
        lengths[valid] = value.lengths
        return RaggedTensor._of(value.values, spans_of(lengths), True)
    found = value.new_zeros((len(valid), *value.shape[1:]))
    found[valid] = value
    return found


def nest(columns: Mapping[str, TableColumn], separator: str | None, cls: Any) -> Columns:
    """Nest columns with joined names; names of a typed class are joined with "."."""
    separator = separator or ("." if schema_of(cls) is not None else None)
    if separator is None:
        return dict(columns)
    found: Columns = {}
    for name, column in columns.items():
        *path, last = name.split(separator, MAX_DEPTH + 1)
        if len(path) > MAX_DEPTH:
            hint = f"entries nest at most {MAX_DEPTH} levels deep"
            raise SchemaError.of("columns", [Problem(name, "one column for each field", column.kind, hint)])
        here = found
        for part in path:
            inner = here.setdefault(part, TableColumn({})).value
            here = inner if isinstance(inner, dict) else {last: column}
        if last in here:
            hint = f"{name!r} names a field below another column, or a field that exists already"
            raise SchemaError.of("columns", [Problem(name, "one column for each field", column.kind, hint)])
        here[last] = column
    return found
