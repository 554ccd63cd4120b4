"""Arrow tables: a column for each field, structs for nested classes, the class in the metadata.

A tensor with event dims is a column of the extension type `arrow.fixed_shape_tensor`; a ragged tensor is a column of
lists. If Arrow lacks a type, the metadata of the field records it: a dtype, an event shape, values as JSON text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from pydantic import ValidationError
from torch import Tensor

from ..._budget import budget, reserve
from ..._flags import flags
from ..._schema import FieldSpec, schema_of
from ..._schema._json import NUMPY
from ..._schema._spec import short
from ...core import Device, Key
from ...errors import ArgumentError, FileFormatError, Problem, SchemaError, UnsupportedOperationError
from ...store import NonTensorStack, RaggedTensor, TensorDict
from ...store.entries._rows import spans_of
from .._classes import find_class
from .._format import ClassPart
from .._manifest import class_part
from .._optional import optional
from ._batches import Nulls, batch_of
from ._columns import (
    Columns,
    TableColumn,
    as_json,
    columns_of,
    flat,
    native_type,
    restored,
    some,
    spread,
    stored,
    unique,
)

KEY = b"tensorclass"
_PART = 1 << 10
"""Rows that are decoded at a time, if their size is not known."""
_ELEMENT = 40
"""Bytes of a Python number in a list."""
_VERSION = 1


def arrow(module: str = "pyarrow") -> Any:
    """pyarrow, or a module of it."""
    return optional(module, "An Arrow table", "arrow")


# ---- out ---------------------------------------------------------------------------------------------------------


def to_arrow(td: Any) -> Any:
    """Convert a batch to an Arrow table with a column for each field and a row for each element.

    Args:
        td: a container with one batch dim.

    Returns:
        A `pyarrow.Table`. Columns of numbers share memory with the batch if possible. Tensors with event dims become
        `arrow.fixed_shape_tensor`, ragged fields lists, nested containers structs, absent optional fields nulls. Values
        that the batch shares are repeated in every row. The metadata names the class.

    Raises:
        BatchDimError: unless there is one batch dim.
        UnsupportedOperationError: for values that Arrow can't hold; names the field.

    >>> import torch
    >>> from tensorclass import TensorDict, from_arrow, to_arrow
    >>> table = to_arrow(TensorDict(x=torch.zeros(2, 3), name=["a", "b"], batch_size=[2]))
    >>> table.column_names, table["name"].to_pylist()
    (['x', 'name'], ['a', 'b'])
    >>> from_arrow(table)["x"].shape
    torch.Size([2, 3])
    """
    return table_of(td, columns_of(td, "to_arrow"))


def table_of(batch: Any, columns: Columns, extension: bool = True) -> Any:
    """The table of a batch. With `extension=False`, event dims are fixed-size lists, which more readers support."""
    pa = arrow()
    rows = len(batch)
    made = [_ArrowWriter(pa, rows, extension).field(name, column, name) for name, column in columns.items()]
    about: dict[str, Any] = {"version": _VERSION}
    if schema_of(type(batch)) is not None:
        about |= class_part(type(batch)).model_dump(exclude_none=True)
    schema = pa.schema([field for field, _ in made], {KEY: json.dumps(about).encode()})
    return pa.Table.from_arrays([array for _, array in made], schema=schema)


class _ArrowWriter(NamedTuple):
    pa: Any
    rows: int
    extension: bool

    def field(self, name: str, column: TableColumn, path: str) -> tuple[Any, Any]:
        """An Arrow field and its values."""
        array, about = self._array(column, path)
        metadata = {KEY: json.dumps(about).encode()} if about else None
        return self.pa.field(name, array.type, metadata=metadata), array

    def _array(self, column: TableColumn, path: str) -> tuple[Any, dict[str, Any]]:
        """An Arrow array, and what its field says about it in the metadata."""
        value, pa = column.value, self.pa
        if value is None:
            return pa.nulls(self.rows, self._declared(column.spec)), {} if self.rows else {"absent": True}
        if isinstance(value, Tensor):
            return self._tensor(value, path, self.extension)
        if isinstance(value, RaggedTensor):
            inner, about = self._tensor(value.values, path, False)
            ends = np.cumsum(value.lengths.numpy(), dtype=np.int64)
            return pa.LargeListArray.from_arrays(pa.array(np.concatenate([[0], ends])), inner), about
        if isinstance(value, NonTensorStack):
            return self._objects(value, column.spec, path)
        made = [self.field(name, inner, f"{path}.{name}") for name, inner in value.items()]
        if not made:
            return pa.array([{}] * self.rows, pa.struct([])), {}
        return pa.StructArray.from_arrays([array for _, array in made], fields=[field for field, _ in made]), {}

    def _tensor(self, value: Tensor, path: str, extension: bool) -> tuple[Any, dict[str, Any]]:
        """A tensor as a column: numbers, or lists of fixed size for each event dim."""
        pa = self.pa
        value, name = stored(value, path)
        about: dict[str, Any] = {} if name is None else {"dtype": name}
        event = list(value.shape[1:])
        array = pa.array(value.reshape(-1).numpy())
        if 0 in event:  # files can't hold lists of fixed size 0
            empty = pa.array(np.zeros(len(value) + 1, np.int32))
            return pa.ListArray.from_arrays(empty, array), {**about, "shape": event}
        if extension and event:
            rows = pa.FixedSizeListArray.from_arrays(array, int(np.prod(event)))
            return pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(array.type, event), rows), about
        for size in reversed(event):
            array = pa.FixedSizeListArray.from_arrays(array, size)
        return array, about

    def _objects(self, value: NonTensorStack[Any], spec: FieldSpec | None, path: str) -> tuple[Any, dict[str, Any]]:
        """A column of objects: of a type of Arrow, or as JSON text if the field declares another type."""
        pa, native = self.pa, native_type(spec, value)
        table, about = list(value._table), {}
        if native is None and spec is not None and spec.kind.holds_objects:
            table = [None if item is None else json.dumps(as_json(spec, item)) for item in table]
            native, about = str, {"json": True}
        try:
            array = pa.array(table, self._types().get(native), from_pandas=False)
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            what = f"to_arrow: field `{path}`: {short(table[0])}, ... don't fit one Arrow type"
            raise UnsupportedOperationError(f"{what}: {error!s:.200}") from error
        return array.take(pa.array(value._index.numpy())), about

    def _declared(self, spec: FieldSpec | None) -> Any:
        """The type of an absent field, if the declaration determines it."""
        pa = self.pa
        if spec is not None and spec.kind.is_batched and spec.dtype is not None and spec.dtype.exact in NUMPY:
            dims = None if spec.dims is None else spec.dims.literal
            if dims is not None and 0 not in dims and not spec.dtype.exact.is_complex:
                empty, _ = self._tensor(torch.empty(0, *dims, dtype=spec.dtype.exact), spec.name, self.extension)
                return empty.type
        native: Any = None if spec is None else native_type(spec, NonTensorStack())
        return self._types().get(native, pa.null())

    def _types(self) -> dict[Any, Any]:
        pa = self.pa
        return {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}


# ---- in ----------------------------------------------------------------------------------------------------------


@flags
def from_arrow(
    table: Any,
    *,
    copy: bool | None = None,
    nulls: Nulls = "raise",
    mask_key: Key | None = None,
    device: Device = None,
    cls: Any = None,
    max_bytes: int | None = None,
) -> Any:
    """Convert an Arrow table to a batch with an element for each row.

    Numbers become tensors, lists of numbers ragged entries, fixed-size lists event dims, structs nested containers, and
    anything else one Python value for each row. A class matches columns by its field names, including former names, and
    checks them; a missing or unknown column is an error.

    Args:
        table: a table, a record batch, or anything with `__arrow_c_stream__`, such as a polars frame.
        copy: None shares memory with writable columns and copies the others; True copies; False raises if a copy is
            needed.
        nulls: "raise"; "fill" replaces nulls by NaN, 0, None or an empty list; "mask" also adds under `mask_key` a bool
            entry for each entry with nulls, False for null rows. For a class, only fields with `join="fill"` are
            filled.
        mask_key: "_mask" by default.
        device: where the tensors go.
        cls: the class; by default the one that the table names, if it is imported, else `TensorDict`.
        max_bytes: the most memory that converting may take, in bytes; by default 128 times the size of the table, and
            at least 128 MiB. Columns may be encoded or share values.

    Raises:
        MemoryBudgetError: for a table beyond `max_bytes`.
        SchemaError: for columns that don't fit; names the field, the column, the declared and the given type.
        UnsupportedOperationError: if `copy=False` and a copy is needed.

    >>> import pyarrow as pa
    >>> from tensorclass import from_arrow
    >>> data = from_arrow(pa.table({"x": [1.0, 2.0], "ids": [[1, 2], [3]], "text": ["a", "b"]}))
    >>> data["x"].dtype, data["ids"].is_nested, data["text"].tolist()
    (torch.float64, True, ['a', 'b'])
    """
    table = as_table(table)
    cls = class_of(table) if cls is None else cls
    with budget(max_bytes, table.nbytes, "the Arrow table"):
        columns = columns_in(table, copy)
        return batch_of(cls, columns, table.num_rows, nulls=nulls, mask_key=mask_key, device=device)


def as_table(given: Any) -> Any:
    """Convert anything that Arrow can read as a table."""
    pa = arrow()
    if isinstance(given, pa.RecordBatch):
        return pa.Table.from_batches([given])
    if isinstance(given, pa.Table):
        return given
    if not hasattr(given, "__arrow_c_stream__"):
        raise ArgumentError(f"an Arrow table is a table, a batch or has `__arrow_c_stream__`, got {short(given)}")
    return pa.table(given)


def class_of(table: Any) -> Any:
    """The class that a table names, if it is imported; else `TensorDict`.

    Raises:
        FileFormatError: if our metadata in it is damaged or of a newer version.
    """
    raw = (table.schema.metadata or {}).get(KEY)
    if raw is None:
        return TensorDict
    about = _about(raw)
    if about.pop("version", None) != _VERSION:
        raise FileFormatError(f"the table was not written by this version of tensorclass; it reads version {_VERSION}")
    try:
        return find_class(ClassPart(**about)) or TensorDict if about else TensorDict
    except ValidationError:
        raise FileFormatError("the table's metadata `tensorclass` names no class") from None


def _about(raw: bytes) -> dict[str, Any]:
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise FileFormatError("the metadata `tensorclass` of the table is damaged: it is not a JSON object")
    return found


def columns_in(table: Any, copy: bool | None = None) -> Columns:
    """The columns of a table."""
    names = unique(table.column_names, "Arrow table")
    reserve(8 * table.num_rows * len(names), f"{table.num_rows} rows of {len(names)} columns")
    reader, floats = _ArrowReader(arrow(), copy), _floats_of_pandas(table.schema.metadata or {})
    found = {name: reader.column(table.column(i), table.schema.field(i), name) for i, name in enumerate(names)}
    return {name: _with_nan(column, table.num_rows) if name in floats else column for name, column in found.items()}


def _floats_of_pandas(metadata: Any) -> set[str]:
    """The columns of floats that pandas wrote, whose NaN it writes as nulls; its nullable `Float64` has real nulls."""
    try:
        columns = json.loads(metadata.get(b"pandas", b"{}")).get("columns", [])
        return {column["name"] for column in columns if column["numpy_type"] in ("float16", "float32", "float64")}
    except (ValueError, TypeError, KeyError, AttributeError):  # another program's metadata
        return set()


def _with_nan(column: TableColumn, rows: int) -> TableColumn:
    """A column of floats with NaN where the source has null."""
    if column.value is None and rows:
        return replace(column, value=torch.full((rows,), float("nan"), dtype=torch.float64), valid=None)
    if column.valid is None or not (isinstance(column.value, Tensor) and column.value.is_floating_point()):
        return column
    value = column.value.clone()
    value[~column.valid] = float("nan")
    return replace(column, value=value, valid=None)


class _Irregular(Exception):
    """Raised for lists that are not a tensor."""


class _ArrowReader(NamedTuple):
    pa: Any
    copy: bool | None

    def column(self, array: Any, field: Any, path: str) -> TableColumn:
        """Read one column according to its Arrow type."""
        pa = self.pa
        if isinstance(array, pa.ChunkedArray):
            chunks = array.chunks or [pa.nulls(0, array.type)]
            array = chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)
        kind, nulls = str(array.type), array.null_count
        array = self._plain(array)
        about = _about((field.metadata or {}).get(KEY, b"{}"))
        absent = nulls == len(array) if nulls else not len(array) and "absent" in about
        if absent or pa.types.is_null(array.type):
            return TableColumn(None, None, kind, objects=array.to_pylist)
        if pa.types.is_struct(array.type):
            inner = {f.name: self.column(a, f, f"{path}.{f.name}") for a, f in _children(array, path)}
            return TableColumn(inner, None, kind, objects=array.to_pylist)
        valid = torch.from_numpy(array.is_valid().to_numpy(zero_copy_only=False).copy()) if nulls else None
        try:
            value = self._numbers(array.drop_null() if nulls else array, about, path)
        except (_Irregular, pa.ArrowNotImplementedError):
            return TableColumn(self._objects(array, "json" in about, path), valid, kind, objects=array.to_pylist)
        return TableColumn(value if valid is None else spread(value, valid), valid, kind, objects=array.to_pylist)

    def _plain(self, array: Any) -> Any:
        """An array without its encoding: dictionary, run-end or view."""
        pa, kind = self.pa, array.type
        if pa.types.is_dictionary(kind):
            values = self._plain(array.dictionary)
            reserve(len(array) * longest_of(values), f"a column of {kind}")
            return pa.DictionaryArray.from_arrays(array.indices, values).dictionary_decode()
        if pa.types.is_run_end_encoded(kind):
            reserve(len(array) * longest_of(array.values), f"a column of {kind}")
            return self._plain(arrow("pyarrow.compute").run_end_decode(array))
        name = str(kind)
        if name in ("string_view", "binary_view"):
            return self._unshare_views(array, pa.large_string() if name == "string_view" else pa.large_binary())
        if name.startswith("ArrowVariableShapedTensor"):  # Ray makes one from lists of numbers
            kind = kind.storage_type.field("data").type
            for _ in range(array.type.ndim - 1):
                kind = pa.large_list(kind)
            return pa.array([row.tolist() for row in array.to_numpy(zero_copy_only=False)], kind)
        if name.startswith(("list_view", "large_list_view")):
            reserve(_ELEMENT * int(arrow("pyarrow.compute").sum(array.sizes).as_py() or 0), f"a column of {kind}")
            return pa.array(array.to_pylist(), pa.large_list(kind.value_type))  # Arrow casts them in newer versions
        return array

    def _unshare_views(self, array: Any, kind: Any) -> Any:
        """Views as texts of their own, in parts: many views may share one text."""
        parts = []
        for begin in range(0, len(array), _PART):
            parts.append(array.slice(begin, _PART).cast(kind))
            reserve(parts[-1].nbytes, f"a column of {array.type}")
        return self.pa.concat_arrays(parts) if parts else array.cast(kind)

    def _numbers(self, array: Any, about: Mapping[str, Any], path: str) -> Any:
        """A tensor; or one for each row, if the lists differ in length."""
        pa, rows, lengths, dims = self.pa, len(array), None, list[int]()
        whole = array
        while not _is_number(pa, (array := self._plain(array)).type):
            kind = array.type
            if getattr(kind, "shape", None) is not None:  # a tensor of Arrow, or of Ray
                if getattr(kind, "permutation", None) not in (None, list(range(len(kind.shape)))):
                    raise UnsupportedOperationError(f"column `{path}`: {kind} stores its dims in another order")
                dims += kind.shape
                array = array.storage.flatten()
            elif isinstance(kind, pa.BaseExtensionType):
                array = array.storage
                continue
            elif pa.types.is_fixed_size_list(kind):
                dims.append(kind.list_size)
                array = array.flatten()
            elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
                sizes = np.diff(array.offsets.to_numpy())
                array = array.flatten()
                if array.type != whole.type and lengths is None and not dims:
                    lengths = torch.from_numpy(sizes.astype(np.int64))
                elif len(sizes) and (sizes != sizes[0]).any():
                    raise _Irregular
                else:
                    dims.append(int(sizes[0]) if len(sizes) else 0)
            else:
                raise _Irregular
            if array.null_count:
                hint = "a tensor has a number everywhere; fill the nulls first"
                raise SchemaError.of("columns", [Problem(path, "numbers", f"{whole.type} with nulls inside", hint)])
        return self._shaped(self._tensor(array, path), rows, lengths, dims, about)

    def _shaped(
        self, numbers: Tensor, rows: int, lengths: Tensor | None, dims: list[int], about: Mapping[str, Any]
    ) -> Any:
        if lengths is not None and "shape" in about:
            lengths, dims = None, about["shape"]
        try:
            value = numbers.reshape(rows if lengths is None else int(lengths.sum()), *dims)
            value = restored(value, about["dtype"]) if "dtype" in about else value
        except (ValueError, RuntimeError, TypeError) as error:
            raise FileFormatError(f"the metadata of a column does not fit its values: {error!s:.200}") from None
        return value if lengths is None else RaggedTensor._of(value, spans_of(lengths), True)

    def _tensor(self, array: Any, path: str) -> Tensor:
        pa = self.pa
        boolean, buffer = pa.types.is_boolean(array.type), array.buffers()[1]
        if not boolean and len(array) and buffer.is_mutable and not self.copy:
            dtype = torch.from_numpy(np.empty(0, array.type.to_pandas_dtype())).dtype
            return torch.frombuffer(buffer, dtype=dtype, count=len(array), offset=array.offset * dtype.itemsize)
        if self.copy is False and len(array):
            raise UnsupportedOperationError(
                f"column `{path}` of {array.type} is not to be written to, or packed: it "
                "can't be shared; leave out copy=False"
            )
        return torch.from_numpy(array.to_numpy(zero_copy_only=False).copy())

    def _objects(self, array: Any, coded: bool, path: str) -> NonTensorStack[Any]:
        """The objects of a column; equal ones are one object."""
        try:
            encoded = array.dictionary_encode()
            index, table = encoded.indices, encoded.dictionary.to_pylist()
        except (self.pa.ArrowNotImplementedError, self.pa.ArrowInvalid, AttributeError):
            return NonTensorStack.of(array.to_pylist(), torch.Size([len(array)]))
        if coded:
            try:
                table = [json.loads(text) for text in table]
            except (ValueError, TypeError, RecursionError):
                raise FileFormatError(
                    f"column `{path}` holds JSON text, as its metadata says, and it is damaged"
                ) from None
        found = index.fill_null(len(table)).to_numpy(zero_copy_only=False).astype(np.int64)
        return NonTensorStack._of((*table, None) if index.null_count else tuple(table), torch.from_numpy(found))


def _children(array: Any, path: str) -> Iterator[tuple[Any, Any]]:
    fields = [array.type.field(i) for i in range(array.type.num_fields)]
    unique([field.name for field in fields], f"Arrow column `{path}`")
    return zip(array.flatten(), fields, strict=True)


def width_of(kind: Any) -> int:
    """The bytes of one value of an Arrow type; of a value of any length, those of its place."""
    types = arrow().types
    if isinstance(kind, arrow().BaseExtensionType):
        return width_of(kind.storage_type)
    if types.is_fixed_size_list(kind):
        return int(kind.list_size) * width_of(kind.value_type)
    if types.is_struct(kind):
        return sum([width_of(kind.field(i).type) for i in range(kind.num_fields)])
    if types.is_fixed_size_binary(kind):
        return int(kind.byte_width)
    return max(1, kind.bit_width // 8) if types.is_primitive(kind) else 8


def longest_of(values: Any) -> int:
    """The most bytes of one of the values of an Arrow array."""
    compute, kind = arrow("pyarrow.compute"), values.type
    if not len(values) or arrow().types.is_primitive(kind):
        return width_of(kind)
    if str(kind).removeprefix("large_") not in ("string", "binary"):
        return max(width_of(kind), int(values.nbytes))
    return width_of(kind) + int(compute.max(compute.binary_length(values)).as_py() or 0)


def _is_number(pa: Any, kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))


def tables(batches: Iterable[Any], what: str, extension: bool = True, separator: str | None = None) -> Iterator[Any]:
    """The tables of consecutive batches, all with the schema of the first.

    Raises:
        SchemaError: for a batch with columns of other types.
    """
    schema = None
    for batch in some(batches):
        columns = columns_of(batch, what)
        columns = columns if separator is None else dict(flat(columns, separator))
        table = table_of(batch, columns, extension)
        if schema is not None and table.schema != schema:
            table = _fit_to_schema(table, schema)
        schema = table.schema
        yield table


def _fit_to_schema(table: Any, schema: Any) -> Any:
    pa = arrow()
    try:
        return table.cast(schema)
    except (pa.ArrowException, ValueError) as error:
        hint = f"{error!s:.300}; rows of one file have columns of one type"
        raise SchemaError.of("columns", [Problem("rows", "the columns before", "other columns", hint)]) from None
