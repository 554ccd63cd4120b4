"""Columns to a batch: an instance of a typed class, checked against its declaration, or a `TensorDict`."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal, TypedDict

import torch
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, to_json
from torch import Tensor

from ..._schema import Checker, FieldSpec, Schema, schema_of
from ..._schema._check import DEFAULT_OPTIONS
from ..._schema._convert import Inexact, changed_elements, preferred_dtype, to_tensor, torch_dtype_for
from ..._schema._json import NAMES, NUMPY
from ..._schema._spec import short
from ...classes import _json
from ...classes._build import complete
from ...classes._convert import says_size
from ...core import Device, Key, unravel_key_to_tuple
from ...errors import ArgumentError, Problem, SchemaError
from ...store import NonTensorStack, RaggedTensor, TensorDict
from ...store.entries._rows import spans_of
from ._columns import Columns, TableColumn, all_null, finite, native_type, numbers_of, restored

Nulls = Literal["raise", "fill", "mask"]
_INDEX = re.compile(r"__index_level_\d+__")
"""The columns in which pandas writes an index without a name to Arrow tables."""


class TableOptions(TypedDict, total=False):
    """How columns become a batch: the options of all table readers."""

    auto_batch_size: bool
    batch_dims: int | None
    device: Device
    batch_size: Any
    dtype: torch.dtype | None
    nulls: Nulls
    mask_key: Key | None


def batch_of(
    cls: Any,
    columns: Columns,
    rows: int,
    *,
    nulls: Nulls = "raise",
    mask_key: Key | None = None,
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
    device: Device = None,
    batch_size: Any = None,
    dtype: torch.dtype | None = None,
) -> Any:
    """Make a batch from columns: a checked instance of a typed class, or a `TensorDict`.

    Args:
        cls: the class.
        columns: the columns by name.
        rows: how many rows there are.
        nulls: how null values are treated; see `from_arrow`.
        mask_key: where the masks of nulls go.
        auto_batch_size: find the longest common batch size; excludes `batch_size`.
        batch_dims: find the batch size with at most this many dims.
        device: where the tensors go.
        batch_size: the leading dims that all entries share; by default the number of rows.
        dtype: the dtype that columns of numbers are cast to.

    Raises:
        SchemaError: for columns that don't fit; lists all problems, each with its field and its column.
    """
    if nulls not in ("raise", "fill", "mask"):
        raise ArgumentError(f'nulls is "raise", "fill" or "mask", got {nulls!r:.40}')
    if mask_key is not None and nulls != "mask":
        raise ArgumentError('mask_key says where the masks of nulls="mask" go')
    if dtype is not None:
        columns = _cast(columns, dtype)
    if schema_of(cls) is not None:
        if nulls == "mask":
            raise ArgumentError(f'{cls.__name__} has no place for masks; nulls="mask" is for a TensorDict')
        return _typed_batch(cls, columns, rows, nulls == "fill", device)
    masks: dict[Any, Tensor] = {}
    entries = _untyped_entries(columns, rows, nulls, (), masks)
    size = [rows] if batch_size is None and not auto_batch_size and batch_dims is None else batch_size
    result = TensorDict._assemble(entries, size, auto_batch_size, batch_dims, device)
    prefix = unravel_key_to_tuple("_mask" if mask_key is None else mask_key)
    for path, mask in masks.items():
        result.set((*prefix, *path), mask)
    return result


def _cast(columns: Columns, dtype: torch.dtype) -> Columns:
    def cast(column: TableColumn) -> Any:
        if isinstance(column.value, dict):
            return _cast(column.value, dtype)
        return column.value.to(dtype) if isinstance(column.value, Tensor) else column.value

    return {name: replace(column, value=cast(column)) for name, column in columns.items()}


def _untyped_entries(columns: Columns, rows: int, nulls: str, path: tuple[str, ...], masks: dict[Any, Tensor]) -> Any:
    """The entries of an untyped container from columns; `masks` gets the places of nulls."""
    entries: dict[str, Any] = {}
    for name, column in columns.items():
        here, value, valid = (*path, name), column.value, column.valid
        if isinstance(value, dict):
            entries[name] = TensorDict(_untyped_entries(value, rows, nulls, here, masks), batch_size=[rows])
            continue
        if value is None:
            value, valid = NonTensorStack.of_one(None, torch.Size([rows])), torch.zeros(rows, dtype=torch.bool)
        if valid is not None and rows:
            if nulls == "raise":
                raise SchemaError.of("columns", [_null_problem(".".join(here), "a value in each row", column)])
            if nulls == "mask":
                masks[here] = valid
            value = _fill_nulls(value, valid, None)
        entries[name] = value.to_nested() if isinstance(value, RaggedTensor) else value
    return entries


def _fill_nulls(value: Any, valid: Tensor, fill: Any) -> Any:
    """Replace the null rows of a tensor by a value; other kinds of columns have one already."""
    if not isinstance(value, Tensor):
        return value
    value = value.clone()
    if fill is None:
        fill = float("nan") if value.is_floating_point() else 0
    value[~valid] = fill
    return value


def _round_decimals(numbers: Tensor, dtype: torch.dtype) -> Tensor:
    """Decimals as floats, or as integers if they are whole."""
    found = numbers.to(dtype)
    wrong = (
        changed_elements(numbers, found) if not found.is_floating_point() else found.isfinite() != numbers.isfinite()
    )
    if bool(wrong.any()):
        raise Inexact
    return found


def _null_problem(path: str, declared: str, column: TableColumn) -> Problem:
    if column.valid is None:
        return Problem(path, declared, f"column of nulls ({column.kind})", "declare `| None` for what may be missing")
    first = int((~column.valid).nonzero()[0])
    given = f"column of {column.kind} with {int((~column.valid).sum())} nulls, the first in row {first}"
    hint = "fill them first; `field(join='fill', fill=...)` declares a replacement"
    if column.kind != "rows":
        hint += ', and readers of tables such as `from_arrow` take `nulls="fill"`'
    return Problem(path, declared, given, hint)


# ---- typed -------------------------------------------------------------------------------------------------------


def _typed_batch(cls: Any, columns: Columns, rows: int, fill: bool, device: Device) -> Any:
    reader = _Fields(rows, fill)
    values = reader.values(cls, columns, "")
    problems = reader.problems
    try:
        found = _json.load(cls, {**values, "batch_size": [rows]})
        if not problems:
            return found if device is None else found.to(device)
    except SchemaError as error:
        apart = [problem for problem in error.problems if not any([_overlap(problem, known) for known in problems])]
        problems = [*problems, *[_with_column(problem, columns) for problem in apart]]
    places = {name: place for place, name in enumerate(columns)}
    problems = sorted(problems, key=lambda problem: places.get(problem.path.partition(".")[0], len(places)))
    raise SchemaError.of(cls.__name__, problems)


def _overlap(problem: Problem, known: Problem) -> bool:
    """Whether a problem is of a field that another one is of, of a part of it, or of what holds it."""
    ours, theirs = problem.path.split("."), known.path.split(".")
    least = min(len(ours), len(theirs))
    return problem.path == "" or ours[:least] == theirs[:least]


def _with_column(problem: Problem, columns: Columns) -> Problem:
    """A problem of a field, with the given column added."""
    here: Any = columns
    for part in problem.path.split("."):
        here = here.get(part) if isinstance(here, dict) else None
        here = here.value if here is not None and isinstance(here.value, dict) else here
    if not isinstance(here, TableColumn) or not here.kind:
        return problem
    shape = f" {list(here.value.shape)}" if isinstance(here.value, Tensor) else ""
    return problem._replace(given=f"column of {here.kind}{shape}")


class _Fields:
    """Columns as the arguments of a class's constructor; collects the problems."""

    def __init__(self, rows: int, fill: bool) -> None:
        self.rows = rows
        self.fill = fill
        self.checker = Checker(DEFAULT_OPTIONS)
        self.problems: list[Problem] = []

    def values(self, cls: Any, columns: Columns, path: str) -> dict[str, Any]:
        """The values of fields from columns, for the constructor of a class; problems are collected."""
        complete(cls)
        schema: Schema = cls.__tensorclass_schema__
        self.checker, outer = Checker(cls.__tensorclass_options__), self.checker
        found: dict[str, Any] = {}
        for name, column in columns.items():
            spec = schema.fields.get(schema.renamed.get(name, name))
            if spec is None and not path and _INDEX.fullmatch(name):
                continue
            if spec is None:
                if name in ("batch_size", "names"):  # these are options of the reader, not fields
                    hint = f"its fields are {', '.join(schema.fields)}"
                    declared = f"nothing: {cls.__name__} has no such field"
                    self.problems.append(Problem(path + name, declared, f"column of {column.kind}", hint))
                found[name] = column.value if not isinstance(column.value, dict) else {}
            else:
                found[name] = self._field(spec, column, path + name)
        self.checker = outer
        return {name: value for name, value in found.items() if value is not ...}

    def _note(self, spec: FieldSpec, column: TableColumn, path: str, hint: str) -> None:
        self.problems.append(Problem(path, str(spec), f"column of {column.kind}", hint))

    def _field(self, spec: FieldSpec, column: TableColumn, path: str) -> Any:
        """The value of a field from its column; `...` if no row has one, None after a problem."""
        if not self.rows and spec.kind.is_one_for_all:
            return ...  # no row has a value: use the default, or report the field as missing
        if spec.kind.holds_objects:
            return self._objects(spec, column, path)
        value = column.value
        if isinstance(value, dict):
            return self._container(spec, column, path)
        lists = isinstance(value, NonTensorStack) or (spec.kind.is_ragged and isinstance(value, Tensor))
        if value is None or (not self.rows and lists):  # without rows nothing says how long they are
            return self._absent(spec, column, path)
        if isinstance(value, NonTensorStack) and column.decimal and column.objects is not None:
            found = numbers_of([0.0 if entry is None else entry for entry in finite(column.objects())])
            value = value if found is None else found  # only words that spell numbers, such as "nan"
        if isinstance(value, NonTensorStack) and not spec.kind.is_open:
            hint = "numbers are declared; convert the column first, or declare `PerElement[...]`"
            return self._note(spec, column, path, hint)
        if column.valid is not None:
            if not (self.fill or spec.join == "fill"):
                return self.problems.append(_null_problem(path, str(spec), column))
            value = _fill_nulls(value, column.valid, spec.fill if spec.join == "fill" else None)
        return self._tensor(spec, value, column, path)

    def _container(self, spec: FieldSpec, column: TableColumn, path: str) -> Any:
        if all_null(column.value) and spec.optional:
            return None
        if spec.nested is not None:
            nested: Any = spec.nested
            found = self.values(nested, column.value, f"{path}.")
            fields = nested.__tensorclass_schema__.fields.values()
            says = any(says_size(inner) and found.get(inner.name) is not None for inner in fields)
            return found if says and not self.problems else {**found, "batch_size": [self.rows]}
        if not (spec.kind.is_collection or spec.kind.is_open):
            return self._note(spec, column, path, "the column nests; no container is declared")
        return TensorDict(_untyped_entries(column.value, self.rows, "raise", (path,), {}), batch_size=[self.rows])

    def _absent(self, spec: FieldSpec, column: TableColumn, path: str) -> Any:
        if spec.optional:
            return None
        if self.rows:
            return self.problems.append(_null_problem(path, str(spec), column))
        empty = _no_rows(spec)
        if not spec.kind.is_ragged:
            return empty
        return RaggedTensor._of(empty, spans_of(torch.empty(0, dtype=torch.int64)), True)

    def _tensor(self, spec: FieldSpec, value: Any, column: TableColumn, path: str) -> Any:
        """A tensor, shared tensor or ragged field from numbers of a column."""
        fixed = spec.kind.is_dense
        if fixed and isinstance(value, RaggedTensor):
            lengths = value.lengths
            if not len(lengths):
                return self._absent(spec, column, path)
            if bool((lengths != lengths[0]).any()):
                row = int((lengths != lengths[0]).nonzero()[0])
                counts = f"row 0 has {int(lengths[0])} entries, row {row} has {int(lengths[row])}"
                hint = f"{counts}; declare `Ragged[...]` for lengths that differ"
                return self._note(spec, column, path, hint)
            value = value.values.unflatten(0, (self.rows, -1))
        elif spec.kind.is_ragged and isinstance(value, Tensor) and value.ndim > 1:
            lengths = torch.full((self.rows,), value.shape[1])
            table = value.flatten(0, 1)
            table = table if len(table) or column.objects is None else _no_rows(spec).to(table.dtype)
            value = RaggedTensor._of(table, spans_of(lengths), True)
        if fixed and isinstance(value, Tensor):
            value = self._as_declared(spec, value)
        if spec.kind.is_shared:
            nan = value != value
            if bool(((value != value[:1]) & ~(nan & nan[:1])).any()):
                hint = "one tensor is declared for the batch, and the rows differ; declare a tensor for each element"
                return self._note(spec, column, path, hint)
            value = value[0]
        return self._converted(spec, value, column, path)

    def _as_declared(self, spec: FieldSpec, value: Tensor) -> Tensor:
        """Numbers as tables without our metadata hold them: complex numbers are pairs."""
        dims = spec.dims
        if dims is not None and dims.literal is not None and 0 in dims.literal and not value.numel():
            value = value.new_empty(self.rows, *dims.literal)
        dtype = None if spec.dtype is None else preferred_dtype(spec.dtype)
        pairs = dtype is not None and dtype.is_complex and not value.is_complex() and value.shape[-1:] == (2,)
        if pairs and (dims is None or dims.rank is None or value.ndim == dims.rank + 2):
            value = restored(value.double(), NAMES[torch.complex128]).to(dtype)
        return value

    def _converted(self, spec: FieldSpec, value: Any, column: TableColumn, path: str) -> Any:
        """Convert numbers of another type as the field and the class allow; the checks of the class report the rest."""
        ragged = isinstance(value, RaggedTensor)
        numbers = value.values if ragged else value
        cast = self.checker.coercion(spec)
        decimal = column.decimal and numbers.is_floating_point()
        if spec.spec is None or numbers.dtype not in NUMPY or (cast == "strict" and not decimal):
            return value
        if spec.spec.dtype.accepts(numbers.dtype) and not decimal:
            return value
        if column.decimal and numbers.dtype is torch.bool and cast != "cast":
            return self._note(spec, column, path, 'booleans are not numbers; `field(coerce="cast")` converts them')
        try:
            if decimal:
                dtype = torch_dtype_for(spec.spec.dtype, 1.0) or torch.get_default_dtype()
                found: Tensor | None = _round_decimals(numbers, dtype)
            else:
                found = to_tensor(spec.spec, numbers.numpy(), cast == "cast")
        except Inexact:
            name = None if spec.dtype is None else preferred_dtype(spec.dtype)
            hint = f'conversion to {name} would change values; `field(coerce="cast")` allows that, or convert first'
            missing = numbers.isnan() if numbers.is_floating_point() and not ragged else numbers.new_zeros(0)
            if bool(missing.any()):
                row = int(missing.nonzero()[0, 0])
                hint = (
                    f"row {row} is NaN, which may stand for a missing value: fill it first, or declare `Float64[...]`"
                )
            return self._note(spec, column, path, hint)
        return RaggedTensor._of(found, value._parts[1], True) if ragged and found is not None else found

    def _objects(self, spec: FieldSpec, column: TableColumn, path: str) -> Any:
        """A field of Python values: one for each row, or one that all rows share."""
        if column.value is None and spec.optional:
            return None
        stack = self._stack_of(column)
        native = native_type(spec, stack)
        try:
            table = [self._object(spec, entry, native) for entry in stack._table]
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            return self._note(spec, column, path, f"{short(first['input'])}: {first['msg']}")
        if spec.kind.is_per_element:
            return NonTensorStack._of(tuple(table), stack._index)
        used = [table[i] for i in dict.fromkeys(stack._index.tolist())]
        if any(entry != used[0] for entry in used[1:]):
            return self._note(
                spec,
                column,
                path,
                "one value is declared for the batch, and the rows differ; declare "
                "`PerElement[...]` for one in each row",
            )
        return used[0]

    def _stack_of(self, column: TableColumn) -> Any:
        """One object for each row; None for each if the column is empty."""
        value, size = column.value, torch.Size([self.rows])
        if isinstance(value, NonTensorStack):
            return value
        if value is None:
            return NonTensorStack.of_one(None, size) if self.rows else NonTensorStack.of([], size)
        return NonTensorStack.of(value.tolist() if column.objects is None else column.objects(), size)

    def _object(self, spec: FieldSpec, entry: Any, native: Any) -> Any:
        """A Python value from a cell: the value itself, its JSON form, or JSON text."""
        if entry is None or (native is not None and type(entry) is native) or spec.adapter_accepts(entry):
            return entry
        with suppress(ValidationError, PydanticSerializationError):
            return spec.adapter.validate_json(to_json(entry))
        with suppress(ValidationError):
            return spec.adapter.validate_json(entry if isinstance(entry, str) else b"")
        return spec.adapter.validate_python(entry, strict=False)


def without_rows(cls: Any, device: Device = None) -> Any:
    """An instance of batch size `[0]`.

    Raises:
        SchemaError: for a class with values that all rows share; nothing says them.
    """
    try:
        return batch_of(cls, _absent_columns(schema_of(cls)), 0, device=device)
    except SchemaError as error:
        hint = "all rows share it and there are no rows: give the field a default, or make the batch by the constructor"
        raise SchemaError.of(cls.__name__, [problem._replace(hint=hint) for problem in error.problems]) from None


def _absent_columns(schema: Any) -> Columns:
    parts = {name: spec.nested_schema for name, spec in schema.fields.items()}
    return {name: TableColumn(None if part is None else _absent_columns(part)) for name, part in parts.items()}


def _no_rows(spec: FieldSpec) -> Tensor:
    """A tensor with no rows; dims that the declaration doesn't fix are 0."""
    tokens = () if spec.dims is None else spec.dims.tokens[spec.kind.is_ragged :]
    event = [getattr(getattr(token, "size", None), "constant", None) or 0 for token in tokens]
    return torch.empty(0, *event, dtype=None if spec.dtype is None else spec.dtype.exact)
