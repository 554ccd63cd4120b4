"""A batch as columns, one value for each row, and columns as a batch: what every format writes and reads.

Columns stand under their names; those of a nested class make up a column that holds columns. A format turns each kind
of value into its own form and back, and knows nothing of classes.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal, TypedDict, Union, get_args, get_origin

import numpy as np
import torch
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python
from torch import Tensor

from ..._schema import Checker, FieldSpec, Schema, schema_of
from ..._schema._check import DEFAULT_OPTIONS
from ..._schema._convert import Inexact, changed, preferred_dtype, to_tensor, torch_dtype_for
from ..._schema._json import DTYPES, NAMES, NUMPY, WORDS, spell
from ..._schema._spec import short
from ...classes import _json
from ...classes._build import complete, is_pending
from ...classes._convert import says_size
from ...core import TensorCollection, unravel_key_to_tuple
from ...core._device import Device
from ...core._keys import Key
from ...errors import BatchDimError, Problem, SchemaError, StructureError, UnsupportedOperationError
from ...store import NonTensorStack, RaggedTensor, TensorDict, Unbatched
from ...store._rows import spans_of

Nulls = Literal["raise", "fill", "mask"]
NATIVE: tuple[Any, ...] = (str, int, float, bool)
"""Types of Python values that every format holds as they are."""


@dataclass(frozen=True)
class Column:
    """The values of one field, one for each row."""

    value: Any
    """A tensor, a `RaggedTensor`, a `NonTensorStack` of Python values, columns by name, or None where all are null."""
    valid: Tensor | None = None
    """Which rows are not null; None where all are there."""
    kind: str = ""
    """The type in the source, for messages."""
    spec: FieldSpec | None = None
    """What the class declares, in a column that is to be written."""
    objects: Callable[[], list[Any]] | None = None
    """The values as Python objects, whatever the column is, in a column that was read."""
    decimal: bool = False
    """Whether the numbers were text: a float is a decimal, which the declared type rounds."""


Columns = dict[str, Column]


# ---- out ---------------------------------------------------------------------------------------------------------


def columns_of(batch: Any, what: str) -> Columns:
    """The columns of a batch; a value of the whole batch stands in every row.

    Raises:
        BatchDimError: unless there is one batch dim.
    """
    if not isinstance(batch, TensorCollection):
        raise TypeError(f"{what} takes a container, got a {type(batch).__name__}")
    size = list(batch.batch_size)
    if len(size) != 1:
        hint = "`batch.unsqueeze(0)` makes one row" if not size else "`batch.reshape(-1)` makes one dim"
        raise BatchDimError(f"{what}: rows are one batch dim, the batch size is {size}; {hint}")
    return _columns(batch._solid(), size[0])


def some(batches: Iterable[Any]) -> Iterator[Any]:
    """Batches that follow each other.

    Raises:
        StructureError: when there are none.
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
    return {name: Column(_written(value, rows), spec=fields.get(name)) for name, value in entries.items()}


def _written(value: Any, rows: int) -> Any:
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
    """A tensor in a dtype that numpy has, and the name of its own where that is another.

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
    """What `stored` was given.

    Raises:
        ValueError: when the tensor was not stored for this dtype.
    """
    dtype = DTYPES.get(name)
    if dtype is None or (dtype.is_complex and value.shape[-1:] != (2,)):
        raise ValueError(f"a tensor of shape {list(value.shape)} was not stored as {name!r:.40}")
    return torch.view_as_complex(value.contiguous()).to(dtype) if dtype.is_complex else value.to(dtype)


def native_type(spec: FieldSpec | None, stack: NonTensorStack[Any]) -> Any:
    """The type of the values of a column, when all formats hold it; a declared one is taken at its word."""
    if spec is not None and spec.kind in ("value", "per_element"):
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
        PydanticSerializationError: when JSON can't hold it.
    """
    if value is None or type(value) in (str, int, bool):
        return value
    if spec is not None and spec.kind in ("value", "per_element"):
        return spec.adapter.dump_python(value, mode="json")
    return to_jsonable_python(value, inf_nan_mode="strings")


def json_rows(column: Column, rows: int, path: str) -> list[Any]:
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


def flat(columns: Mapping[str, Column], separator: str | None, path: str = "") -> Iterator[tuple[str, Column]]:
    """Columns of nested fields under joined names; "." joins those of a typed class.

    Raises:
        SchemaError: where an untyped container nests and nothing says what joins the names, or two names are equal.
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
        SchemaError: for a name that is given twice or is no text.
    """
    for i, name in enumerate(names):
        if not isinstance(name, str) or name in names[:i]:
            hint = "rename one of them" if isinstance(name, str) else "rename it"
            given = f"{name!r:.60} twice" if isinstance(name, str) else f"{name!r:.60}"
            raise SchemaError.of(what, [Problem(str(name), "columns with distinct names of text", given, hint)])
    return names


def _all_null(columns: Columns) -> bool:
    """Whether there is no value in any of some columns."""
    return all([_all_null(c.value) if isinstance(c.value, dict) else c.value is None for c in columns.values()])


def column_of(values: list[Any], kind: str, decimal: bool = False) -> Column:
    """A column of Python values: numbers, or lists and arrays of them, become tensors, dicts columns."""
    there = [value for value in values if value is not None]
    if not there:
        return Column(None, None, kind, objects=lambda: values, decimal=decimal)
    if all([isinstance(value, dict) for value in there]):
        names = dict.fromkeys(name for value in there for name in value)
        inner = {n: column_of([None if v is None else v.get(n) for v in values], kind, decimal) for n in names}
        return Column(inner, None, kind, objects=lambda: values)
    valid = None if len(there) == len(values) else torch.tensor([value is not None for value in values])
    value = _numbers_of(there)
    if value is None and decimal and not all([isinstance(part, str) for part in there]):
        value = _numbers_of(finite(there))
    if value is None:
        value = NonTensorStack.of(values, torch.Size([len(values)]))
    elif valid is not None:
        value = spread(value, valid)
    return Column(value, valid, kind, objects=lambda: values, decimal=decimal)


def _numbers_of(values: list[Any]) -> Any:
    """A tensor of numbers, or of lists of them; None for anything else."""
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
    return RaggedTensor([torch.empty(0, *event, dtype=dtype) if p is None or not p.numel() else p.to(dtype)
                         for p in parts])  # fmt: skip


def _array(values: Any) -> Tensor | None:
    try:
        found = np.array(values)
    except (ValueError, TypeError, OverflowError):
        return None
    kind = found.dtype.kind
    if kind not in "biufc" or (kind != "b" and _holds(values, bool)):
        return None
    rounded = (
        found.dtype == np.float64 and found.size and np.nanmax(np.abs(found), initial=0) > 2**53 and _holds(values, int)
    )
    return None if rounded else torch.from_numpy(found)


def _holds(values: Any, kind: type) -> bool:
    """Whether there is a value of a type in nested lists."""
    if isinstance(values, list | tuple):
        kinds = set(map(type, values))
        return kind in kinds or (not kinds.isdisjoint((list, tuple)) and any([_holds(part, kind) for part in values]))
    return type(values) is kind


def finite(value: Any) -> Any:
    """JSON values whose words for numbers are numbers."""
    if isinstance(value, list):
        return [finite(part) for part in value]
    return float(value) if isinstance(value, str) and value in WORDS else value


def spread(value: Any, valid: Tensor) -> Any:
    """The values of rows that are not null among all rows."""
    if isinstance(value, RaggedTensor):
        lengths = torch.zeros(len(valid), dtype=torch.int64)
        lengths[valid] = value.lengths
        return RaggedTensor._of(value.values, spans_of(lengths), True)
    found = value.new_zeros((len(valid), *value.shape[1:]))
    found[valid] = value
    return found


def nest(columns: Mapping[str, Column], separator: str | None, cls: Any) -> Columns:
    """Columns under joined names as nested ones; a typed class joins by "."."""
    separator = separator or ("." if schema_of(cls) is not None else None)
    if separator is None:
        return dict(columns)
    found: Columns = {}
    for name, column in columns.items():
        *path, last = name.split(separator)
        here = found
        for part in path:
            inner = here.setdefault(part, Column({})).value
            here = inner if isinstance(inner, dict) else {last: column}
        if last in here:
            hint = f"{name!r} names a field below another column, or one that there is already"
            raise SchemaError.of("columns", [Problem(name, "one column for each field", column.kind, hint)])
        here[last] = column
    return found


class Options(TypedDict, total=False):
    """How columns become a batch: what all readers of tables take."""

    auto_batch_size: bool
    batch_dims: int | None
    device: Device
    batch_size: Any
    dtype: torch.dtype | None
    nulls: Nulls
    mask_key: Key | None


def batch_of(
    cls: Any, columns: Columns, rows: int, *, nulls: Nulls = "raise", mask_key: Key | None = None,
    auto_batch_size: bool = False, batch_dims: int | None = None, device: Device = None, batch_size: Any = None,
    dtype: torch.dtype | None = None,
) -> Any:  # fmt: skip
    """A batch from columns: an instance of a typed class, checked, or a `TensorDict`.

    Args:
        cls: the class.
        columns: the columns by name.
        rows: how many rows there are.
        nulls: what null values become; see `from_arrow`.
        mask_key: where the masks of nulls go.
        auto_batch_size: find a longer batch size; excludes `batch_size`.
        batch_dims: find the batch size, this many dims at most.
        device: where the tensors go.
        batch_size: the leading dims that all entries share, where not the number of rows.
        dtype: what columns of numbers are cast to.

    Raises:
        SchemaError: for columns that do not fit, all problems together, each with its field and its column.
    """
    if nulls not in ("raise", "fill", "mask"):
        raise ValueError(f'nulls is "raise", "fill" or "mask", got {nulls!r:.40}')
    if mask_key is not None and nulls != "mask":
        raise ValueError('mask_key says where the masks of nulls="mask" go')
    if dtype is not None:
        columns = _cast(columns, dtype)
    if schema_of(cls) is not None:
        if nulls == "mask":
            raise ValueError(f'{cls.__name__} has no place for masks; nulls="mask" is for a TensorDict')
        return _typed(cls, columns, rows, nulls == "fill", device)
    masks: dict[Any, Tensor] = {}
    entries = _untyped(columns, rows, nulls, (), masks)
    size = [rows] if batch_size is None and not auto_batch_size and batch_dims is None else batch_size
    result = TensorDict._assemble(entries, size, auto_batch_size, batch_dims, device)
    prefix = unravel_key_to_tuple("_mask" if mask_key is None else mask_key)
    for path, mask in masks.items():
        result.set((*prefix, *path), mask)
    return result


def _cast(columns: Columns, dtype: torch.dtype) -> Columns:
    def cast(column: Column) -> Any:
        if isinstance(column.value, dict):
            return _cast(column.value, dtype)
        return column.value.to(dtype) if isinstance(column.value, Tensor) else column.value

    return {name: replace(column, value=cast(column)) for name, column in columns.items()}


def _untyped(columns: Columns, rows: int, nulls: str, path: tuple[str, ...], masks: dict[Any, Tensor]) -> Any:
    entries: dict[str, Any] = {}
    for name, column in columns.items():
        here, value, valid = (*path, name), column.value, column.valid
        if isinstance(value, dict):
            entries[name] = TensorDict(_untyped(value, rows, nulls, here, masks), batch_size=[rows])
            continue
        if value is None:
            value, valid = NonTensorStack.of_one(None, torch.Size([rows])), torch.zeros(rows, dtype=torch.bool)
        if valid is not None and rows:
            if nulls == "raise":
                raise SchemaError.of("columns", [_null_problem(".".join(here), "a value in each row", column)])
            if nulls == "mask":
                masks[here] = valid
            value = _filled(value, valid, None)
        entries[name] = value.to_nested() if isinstance(value, RaggedTensor) else value
    return entries


def _filled(value: Any, valid: Tensor, fill: Any) -> Any:
    """A value for null rows of a tensor; other kinds of columns have one."""
    if not isinstance(value, Tensor):
        return value
    value = value.clone()
    value[~valid] = (float("nan") if value.is_floating_point() else 0) if fill is None else fill
    return value


def _rounded(numbers: Tensor, dtype: torch.dtype) -> Tensor:
    """Decimals as floats, or as integers where they are."""
    found = numbers.to(dtype)
    wrong = changed(numbers, found) if not found.is_floating_point() else found.isfinite() != numbers.isfinite()
    if bool(wrong.any()):
        raise Inexact
    return found


def _null_problem(path: str, declared: str, column: Column) -> Problem:
    if column.valid is None:
        return Problem(path, declared, f"column of nulls ({column.kind})", "declare `| None` for what may be missing")
    first = int((~column.valid).nonzero()[0])
    given = f"column of {column.kind} with {int((~column.valid).sum())} nulls, the first in row {first}"
    hint = 'fill them first, or read with `nulls="fill"`; `field(join="fill", fill=...)` declares what stands for them'
    return Problem(path, declared, given, hint)


# ---- typed -------------------------------------------------------------------------------------------------------


def _typed(cls: Any, columns: Columns, rows: int, fill: bool, device: Device) -> Any:
    reader = _Fields(rows, fill)
    values = reader.values(cls, columns, "")
    problems = reader.problems
    if not problems:
        try:
            found = _json.load(cls, {**values, "batch_size": [rows]})
            return found if device is None else found.to(device)
        except SchemaError as error:
            problems = [_placed(problem, columns) for problem in error.problems]
    raise SchemaError.of(cls.__name__, problems)


def _placed(problem: Problem, columns: Columns) -> Problem:
    """A problem of a field with the column that was given."""
    here: Any = columns
    for part in problem.path.split("."):
        here = here.get(part) if isinstance(here, dict) else None
        here = here.value if here is not None and isinstance(here.value, dict) else here
    if not isinstance(here, Column) or not here.kind:
        return problem
    shape = f" {list(here.value.shape)}" if isinstance(here.value, Tensor) else ""
    return problem._replace(given=f"column of {here.kind}{shape}")


class _Fields:
    """Columns as what the constructor of a class takes; what is wrong is noted."""

    def __init__(self, rows: int, fill: bool) -> None:
        self.rows = rows
        self.fill = fill
        self.checker = Checker(DEFAULT_OPTIONS)
        self.problems: list[Problem] = []

    def values(self, cls: Any, columns: Columns, path: str) -> dict[str, Any]:
        if is_pending(cls):
            complete(cls)
        schema: Schema = cls.__tensorclass_schema__
        self.checker, outer = Checker(cls.__tensorclass_options__), self.checker
        found: dict[str, Any] = {}
        for name, column in columns.items():
            spec = schema.fields.get(schema.renamed.get(name, name))
            if spec is None:
                if name in ("batch_size", "names"):  # which are no fields, and mean something to the reader
                    hint = f"its fields are {', '.join(schema.fields)}"
                    declared = f"nothing: {cls.__name__} has no such field"
                    self.problems.append(Problem(path + name, declared, f"column of {column.kind}", hint))
                found[name] = column.value if not isinstance(column.value, dict) else {}
            else:
                found[name] = self._field(spec, column, path + name)
        self.checker = outer
        return {name: value for name, value in found.items() if value is not ...}

    def _note(self, spec: FieldSpec, column: Column, path: str, hint: str) -> None:
        self.problems.append(Problem(path, str(spec), f"column of {column.kind}", hint))

    def _field(self, spec: FieldSpec, column: Column, path: str) -> Any:
        if not self.rows and spec.kind in ("value", "shared"):
            return ...  # no row says it: the default does, or it is missing
        if spec.kind in ("value", "per_element"):
            return self._objects(spec, column, path)
        value = column.value
        if isinstance(value, dict):
            return self._container(spec, column, path)
        if value is None or (not self.rows and isinstance(value, NonTensorStack)):
            return self._absent(spec, column, path)
        if isinstance(value, NonTensorStack) and column.decimal and column.objects is not None:
            found = _numbers_of([0.0 if entry is None else entry for entry in finite(column.objects())])
            value = value if found is None else found  # words for numbers, and nothing else
        if isinstance(value, NonTensorStack) and spec.kind != "any":
            hint = "numbers are declared; convert the column first, or declare `PerElement[...]`"
            return self._note(spec, column, path, hint)
        if column.valid is not None:
            if not (self.fill or spec.join == "fill"):
                return self.problems.append(_null_problem(path, str(spec), column))
            value = _filled(value, column.valid, spec.fill if spec.join == "fill" else None)
        return self._tensor(spec, value, column, path)

    def _container(self, spec: FieldSpec, column: Column, path: str) -> Any:
        if _all_null(column.value) and spec.optional:
            return None
        if spec.nested is not None:
            nested: Any = spec.nested
            found = self.values(nested, column.value, f"{path}.")
            says = any(says_size(inner) for inner in nested.__tensorclass_schema__.fields.values())
            return found if says and not self.problems else {**found, "batch_size": [self.rows]}
        if spec.kind not in ("collection", "any"):
            return self._note(spec, column, path, "the column nests; no container is declared")
        return TensorDict(_untyped(column.value, self.rows, "raise", (path,), {}), batch_size=[self.rows])

    def _absent(self, spec: FieldSpec, column: Column, path: str) -> Any:
        if spec.optional:
            return None
        if self.rows:
            return self.problems.append(_null_problem(path, str(spec), column))
        empty = _no_rows(spec)
        if spec.kind != "ragged":
            return empty
        return RaggedTensor._of(empty, spans_of(torch.empty(0, dtype=torch.int64)), True)

    def _tensor(self, spec: FieldSpec, value: Any, column: Column, path: str) -> Any:
        fixed = spec.kind in ("tensor", "shared")
        if fixed and isinstance(value, RaggedTensor):
            lengths = value.lengths
            if not len(lengths):
                return self._absent(spec, column, path)
            if bool((lengths != lengths[0]).any()):
                row = int((lengths != lengths[0]).nonzero()[0])
                hint = (
                    f"row 0 has {int(lengths[0])} entries, row {row} has {int(lengths[row])}; declare "
                    "`Ragged[...]` for lengths that differ"
                )
                return self._note(spec, column, path, hint)
            value = value.values.unflatten(0, (self.rows, -1))
        elif spec.kind == "ragged" and isinstance(value, Tensor) and value.ndim > 1:
            lengths = torch.full((self.rows,), value.shape[1])
            table = value.flatten(0, 1)
            table = table if len(table) or column.objects is None else _no_rows(spec).to(table.dtype)
            value = RaggedTensor._of(table, spans_of(lengths), True)
        if fixed and isinstance(value, Tensor):
            value = self._as_declared(spec, value)
        if spec.kind == "shared":
            nan = value != value
            if bool(((value != value[:1]) & ~(nan & nan[:1])).any()):
                hint = "one tensor is declared for the batch, and the rows differ; declare a tensor for each element"
                return self._note(spec, column, path, hint)
            value = value[0]
        return self._converted(spec, value, column, path)

    def _as_declared(self, spec: FieldSpec, value: Tensor) -> Tensor:
        """Numbers in the form that tables without our metadata have for them: complex ones are pairs."""
        dims = spec.dims
        if dims is not None and dims.literal is not None and 0 in dims.literal and not value.numel():
            value = value.new_empty(self.rows, *dims.literal)
        dtype = None if spec.dtype is None else preferred_dtype(spec.dtype)
        pairs = dtype is not None and dtype.is_complex and not value.is_complex() and value.shape[-1:] == (2,)
        if pairs and (dims is None or dims.rank is None or value.ndim == dims.rank + 2):
            value = restored(value.double(), NAMES[torch.complex128]).to(dtype)
        return value

    def _converted(self, spec: FieldSpec, value: Any, column: Column, path: str) -> Any:
        """Numbers of another type as the field and the class say; what they refuse is left to the checks of the class."""
        ragged = isinstance(value, RaggedTensor)
        numbers = value.values if ragged else value
        cast = self.checker.coercion(spec)
        decimal = column.decimal and numbers.is_floating_point()
        if spec.spec is None or numbers.dtype not in NUMPY or (cast == "strict" and not decimal):
            return value
        if spec.spec.dtype.accepts(numbers.dtype) and not decimal:
            return value
        if column.decimal and numbers.dtype is torch.bool and cast != "cast":
            return self._note(spec, column, path, 'booleans are no numbers; `field(coerce="cast")` converts them')
        try:
            if decimal:
                found = _rounded(numbers, torch_dtype_for(spec.spec.dtype, 1.0) or torch.get_default_dtype())
            else:
                found = to_tensor(spec.spec, numbers.numpy(), cast == "cast")
        except Inexact:
            name = None if spec.dtype is None else preferred_dtype(spec.dtype)
            hint = f'conversion to {name} would change values; `field(coerce="cast")` allows that, or convert first'
            return self._note(spec, column, path, hint)
        return RaggedTensor._of(found, value._parts[1], True) if ragged and found is not None else found

    def _objects(self, spec: FieldSpec, column: Column, path: str) -> Any:
        value = column.value
        if value is None and spec.optional:
            return None
        if value is None:
            stack: Any = NonTensorStack.of_one(None, torch.Size([self.rows]))
        elif isinstance(value, NonTensorStack):
            stack = value
        else:
            listed = column.objects() if column.objects is not None else value.tolist()
            stack = NonTensorStack.of(listed, torch.Size([self.rows]))
        native = native_type(spec, stack)
        try:
            table = [self._object(spec, entry, native) for entry in stack._table]
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            return self._note(spec, column, path, f"{short(first['input'])}: {first['msg']}")
        if spec.kind == "per_element":
            return NonTensorStack._of(tuple(table), stack._index)
        used = [table[i] for i in dict.fromkeys(stack._index.tolist())]
        if any(entry != used[0] for entry in used[1:]):
            return self._note(spec, column, path, "one value is declared for the batch, and the rows differ; declare "
                              "`PerElement[...]` for one in each row")  # fmt: skip
        return used[0]

    def _object(self, spec: FieldSpec, entry: Any, native: Any) -> Any:
        """A Python value from what a table holds: the value, its JSON form, or JSON text."""
        if entry is None or (native is not None and type(entry) is native) or spec.adapter_accepts(entry):
            return entry
        for form in (lambda: to_json(entry), lambda: entry if isinstance(entry, str) else b""):
            with suppress(ValidationError, PydanticSerializationError):
                return spec.adapter.validate_json(form())
        return spec.adapter.validate_python(entry, strict=False)


def _no_rows(spec: FieldSpec) -> Tensor:
    """A tensor without elements; dims that the declaration does not say are 0."""
    tokens = () if spec.dims is None else spec.dims.tokens[spec.kind == "ragged" :]
    event = [getattr(getattr(token, "size", None), "constant", None) or 0 for token in tokens]
    return torch.empty(0, *event, dtype=None if spec.dtype is None else spec.dtype.exact)
