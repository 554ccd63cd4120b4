"""`Cls.from_rows`: Python objects, one for each element, and tables become a batch. Values are gathered by column."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from math import isfinite
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..._schema import MISSING, FieldSpec, Schema
from ...classes._build import complete
from ...core import Device, TensorCollection
from ...errors import ArgumentError, Problem, SchemaError, shown
from ...store import RaggedTensor, TensorDict
from ._arrays import from_array
from ._arrow import as_table, columns_in
from ._batches import batch_of, without_rows
from ._columns import Columns, TableColumn, column_of
from ._frames import frame_columns, from_hf

_NUMBERS = {(int, torch.int64), (float, torch.float32), (float, torch.float64)}
"""The types of numbers, and the dtypes that hold all finite ones of them."""
_DTYPE = attrgetter("dtype")
_ROWS = "rows"
"""The kind of columns that are gathered from rows, for messages."""


def from_rows(cls: Any, rows: Any, device: Device, nan_as_none: bool) -> Any:
    """Implement `Cls.from_rows`."""
    if "__tensorclass_schema__" not in vars(cls):
        raise ArgumentError(f"{cls.__name__} declares no fields; `from_rows` is for classes that do")
    complete(cls)
    if type(rows) is not list:  # which can't be a table
        table = None if nan_as_none else _from_table(cls, rows, device)
        if table is not None:
            return table
        rows = _list_of(cls, rows)
    if not rows:
        return without_rows(cls, device)
    quick = None if nan_as_none else _at_once(cls, rows, device)
    if quick is not None:
        return quick
    found = [_row(cls, row, f"[{i}]") for i, row in enumerate(rows)]
    try:
        return _batch(cls, found, device, nan_as_none)
    except SchemaError as error:
        raise _with_failing_row(cls, found, nan_as_none, error) from None


def _list_of(cls: Any, rows: Any) -> list[Any]:
    """The rows of a table or of anything else that gives them.

    Raises:
        ArgumentError: for what has no rows.
    """
    if hasattr(rows, "to_dict") and hasattr(rows, "iterrows"):
        rows = rows.to_dict("records")
    elif hasattr(rows, "to_pylist") or hasattr(rows, "to_dicts"):
        rows = rows.to_pylist() if hasattr(rows, "to_pylist") else rows.to_dicts()
    if isinstance(rows, (Mapping, str, bytes, Tensor, TensorCollection)) or not isinstance(rows, Iterable):
        raise ArgumentError(
            f"{cls.__name__}.from_rows takes rows or a table, got a {type(rows).__name__}; `from_dict` takes a dict of "
            "columns, `from_any` anything else"
        )
    return [*rows]


def _at_once(cls: Any, rows: Sequence[Any], device: Device) -> Any:
    """The batch of rows of one type whose values need no conversion; None for other rows, and if anything is wrong."""
    names = _names_of(rows)
    fields = cls.__tensorclass_schema__.fields
    if not names or not fields.keys() >= set(names):
        return None
    read = itemgetter if type(rows[0]) is dict else attrgetter
    try:
        columns = {name: _join_values(fields[name], list(map(read(name), rows)), device) for name in names}
        if any([column is None for column in columns.values()]):
            return None
        return cls(**columns, batch_size=torch.Size((len(rows),)), device=device)
    except (ValueError, TypeError, RuntimeError, KeyError):  # the slower path below names the row
        return None


def _names_of(rows: Sequence[Any]) -> Iterable[str]:
    """The names that the first of rows of one type has, if no row can have more; empty for other rows."""
    if not rows or len(set(map(type, rows))) > 1:
        return ()
    if type(rows[0]) is dict:
        return rows[0].keys() if len(set(map(len, rows))) == 1 else ()  # reading them finds those that a row lacks
    if isinstance(rows[0], (TensorCollection, Mapping, type)):
        return ()
    if dataclasses.is_dataclass(rows[0]):
        return [field.name for field in dataclasses.fields(rows[0])]
    return getattr(type(rows[0]), "_fields", ())


def _join_values(spec: FieldSpec, values: list[Any], device: Device) -> Any:
    """The column of a field whose values all have the declared type; None if one may need a conversion."""
    kinds = set(map(type, values))
    if len(kinds) > 1:
        return None
    (kind,) = kinds
    if kind is Tensor and spec.kind.is_batched:
        return torch.stack(values) if len(set(map(_DTYPE, values))) == 1 else None
    if spec.kind.is_nested:
        return _at_once(spec.nested, values, device)
    if kind is str and spec.kind.is_per_element:
        return values
    if not (spec.kind.is_batched and spec.kind.is_dense) or spec.dtype is None:
        return None
    numbers: list[Any] = values
    while kinds == {list}:
        numbers = list(chain.from_iterable(numbers))
        kinds = set(map(type, numbers))
    if not any(kinds == {number} and dtype is spec.dtype.exact for number, dtype in _NUMBERS):
        return None
    made = torch.tensor(values, dtype=spec.dtype.exact)
    return made if kinds == {int} or isfinite(made.sum().item()) else None  # infinite also if one of them is not finite


def _from_table(cls: Any, rows: Any, device: Device) -> Any:
    """The batch of a table of another library; None for rows of Python objects."""
    module = type(rows).__module__.partition(".")[0]
    if isinstance(rows, np.ndarray) and rows.dtype.names is not None:
        return from_array(rows, cls=cls, device=device)
    if module == "datasets":
        kinds = {type(feature).__name__ for feature in rows.features.values()}  # pyright: ignore[reportAttributeAccessIssue]  # rows of `datasets`, whose stubs lack it
        if not kinds <= {"Value", "Sequence", "List", "LargeList"}:  # images and the like, which `datasets` decodes
            return from_hf(rows, cls=cls, device=device)
        rows = rows.with_format("arrow")[:]  # pyright: ignore[reportAttributeAccessIssue]  # rows of `datasets`, whose stubs lack it
    if module == "pandas":
        columns = frame_columns(rows)
    elif module == "datasets" or hasattr(rows, "__arrow_c_stream__"):
        columns = columns_in(as_table(rows))
    else:
        return None
    return batch_of(cls, {name: _decimals(column) for name, column in columns.items()}, len(rows), device=device)


def _decimals(column: TableColumn) -> TableColumn:
    """A column whose floats are rounded to the declared dtype, as numbers in JSON are."""
    if isinstance(column.value, dict):
        return dataclasses.replace(column, value={name: _decimals(inner) for name, inner in column.value.items()})
    numbers = column.value.values if isinstance(column.value, RaggedTensor) else column.value
    floats = isinstance(numbers, Tensor) and numbers.is_floating_point()
    return dataclasses.replace(column, decimal=True) if floats else column


def _batch(cls: Any, rows: Sequence[Mapping[str, Any]], device: Device, nan_as_none: bool) -> Any:
    return batch_of(cls, _columns(cls, rows, nan_as_none), len(rows), device=device)


def _with_failing_row(
    cls: Any, rows: Sequence[Mapping[str, Any]], nan_as_none: bool, error: SchemaError
) -> SchemaError:
    """The error with the number of the first row that fails by itself, which halving finds."""
    first, last = 0, len(rows)
    while last - first > 1:
        middle = (first + last) // 2
        failed = _failure(cls, rows[first:middle], nan_as_none)
        later = failed or _failure(cls, rows[middle:last], nan_as_none)
        if later is None:  # only together do they fail
            return error
        first, last = (first, middle) if failed is not None else (middle, last)
        error = later
    problems = [_of_row(problem, rows[first], first) for problem in error.problems] if rows else []
    if rows and not nan_as_none and any(_is_nan(value) for value in rows[first].values()):
        hint = "; NaN that stands for a missing value is read as None with `from_rows(rows, nan_as_none=True)`"
        problems = [problem._replace(hint=problem.hint + hint) for problem in problems]
    return SchemaError.of(cls.__name__, problems) if problems else error


def _of_row(problem: Problem, row: Mapping[str, Any], number: int) -> Problem:
    """The problem of a column as that of a row, with its value."""
    place, value = f"[{number}].{problem.path}", row
    gathered = problem.given.startswith(f"column of {_ROWS}") or problem.given.endswith(f"({_ROWS})")
    for name in problem.path.split("."):
        if not gathered or not isinstance(value, Mapping) or name not in value:
            return problem._replace(path=place)
        value = value[name]
    return problem._replace(path=place, given=shown(value))


def _failure(cls: Any, rows: Sequence[Mapping[str, Any]], nan_as_none: bool) -> SchemaError | None:
    try:
        _batch(cls, rows, None, nan_as_none)
    except SchemaError as error:
        return error
    return None


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and value != value


# ---- one row -----------------------------------------------------------------------------------------------------


def _row(cls: Any, row: Any, at: str) -> Mapping[str, Any]:
    """One row as a mapping of field values.

    Raises:
        SchemaError: for an object that has no fields; names the row.
        BatchSizeError: for an instance with batch dims.
    """
    if type(row) is dict:
        return row
    if isinstance(row, TensorCollection):
        if row._batch_size:
            hint = "a row has no batch dims; `torch.cat` joins batches along their first dim"
            given = f"batch size {list(row._batch_size)}"
            raise SchemaError.of(cls.__name__, [Problem(at, f"a row of {cls.__name__}", given, hint)])
        return {key: row[key] for key in row._outline()}
    if isinstance(row, Mapping):
        return dict(row)
    if dataclasses.is_dataclass(row) and not isinstance(row, type):
        return {field.name: getattr(row, field.name) for field in dataclasses.fields(row)}
    for names in ("_fields", "model_fields"):  # of a named tuple, of a pydantic model
        fields = getattr(type(row), names, None)
        if fields is not None:
            return {name: getattr(row, name) for name in fields}
    columns = getattr(getattr(row, "dtype", None), "names", None)  # of a record of numpy
    if columns is not None:
        return {name: row[name] for name in columns}  # pyright: ignore[reportInvalidTypeArguments]  # rows of `datasets`, whose stubs lack it
    hint = "a row is a mapping, a dataclass, a pydantic model, a named tuple or an instance without batch dims"
    raise SchemaError.of(cls.__name__, [Problem(at, f"a row of {cls.__name__}", shown(row), hint)])


# ---- columns -----------------------------------------------------------------------------------------------------


def _columns(cls: Any, rows: Sequence[Mapping[str, Any]], nan_as_none: bool) -> Columns:
    """The values of each field, gathered from all rows."""
    schema: Schema = cls.__tensorclass_schema__
    names = dict.fromkeys(name for row in rows for name in row)
    found: Columns = {}
    for name in names:
        spec = schema.fields.get(schema.renamed.get(name, name))
        values = [row[name] if name in row else _default(spec) for row in rows]
        if spec is not None and nan_as_none and (spec.optional or spec.takes_none):
            values = [None if _is_nan(value) else value for value in values]
        found[name] = column_of(values, _ROWS, True) if spec is None else _column(spec, values, nan_as_none)
    return found


def _default(spec: FieldSpec | None) -> Any:
    """The value of a field in a row without it; None for what has no default."""
    if spec is None or not spec.has_default:
        return None
    return spec.default if spec.default_factory is MISSING else spec.default_factory()


def _column(spec: FieldSpec, values: list[Any], nan_as_none: bool) -> TableColumn:
    """The values of one declared field in all rows."""
    if not values:
        return column_of(values, _ROWS, True)
    if spec.nested is not None and None not in values:
        inner = [_row(spec.nested, value, f"[{i}].{spec.name}") for i, value in enumerate(values)]
        return TableColumn(_columns(spec.nested, inner, nan_as_none), None, _ROWS, objects=lambda: values)
    values = [value.item() if isinstance(value, RaggedTensor) else value for value in values]
    if spec.kind.is_ragged and all([isinstance(value, Tensor) for value in values]):
        return TableColumn(RaggedTensor(values), None, _ROWS)
    if spec.kind.is_collection and all([isinstance(value, TensorCollection) for value in values]):
        return TableColumn({key: TableColumn(entry) for key, entry in TensorDict.stack(values).items()}, None, _ROWS)
    first = values[0]
    if type(first) is not Tensor or spec.kind.holds_objects:
        return column_of(values, _ROWS, True)
    if all([type(v) is Tensor and v.shape == first.shape and v.dtype is first.dtype for v in values]):
        return TableColumn(torch.stack(values), None, f"{str(first.dtype).removeprefix('torch.')} tensors")
    return column_of([value.tolist() if isinstance(value, Tensor) else value for value in values], _ROWS, True)
