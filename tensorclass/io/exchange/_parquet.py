"""Parquet and Arrow files as sequences of batches in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import groupby
from typing import Any

from typing_extensions import Unpack

from ..._budget import reserve
from ..._places import path_or_url
from ...errors import FileFormatError, did_you_mean
from .._atomic import local_file, naming
from .._file_kinds import naming_reader
from .._parts import BLOCK, fitting, tables_of
from .._paths import StrPath
from ._arrow import arrow, class_of, columns_in, tables, width_of
from ._batches import TableOptions, batch_of
from ._columns import nest
from ._text import limit_reading, writing

_BUFFER = 1 << 20
"""Bytes of a column that are read at a time, if it is not read as a whole."""
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}
_PART = 1 << 14
"""Rows that are read at a time, if their size is not known."""
Batches = Iterable[Any]


@contextmanager
def arrow_errors(path: str) -> Iterator[None]:
    """Convert errors of Arrow to errors with the path of the file."""
    pa = arrow()
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        if getattr(error, "errno", None) is not None:
            raise
        raise FileFormatError(f"Arrow can't read it: {error!s:.300}", path) from error


@contextmanager
def _open_local(path: str, reader: str) -> Iterator[str]:
    with naming_reader(path, reader), naming(path), local_file(path) as here, arrow_errors(path):
        yield here


def read_parquet(
    path: StrPath,
    cls: Any,
    rows: int | None,
    separator: str | None = None,
    columns: list[str] | None = None,
    max_bytes: int | None = None,
    **options: Unpack[TableOptions],
) -> Iterator[Any]:
    """The batches of a file, with `rows` rows each, or one batch for None; see `from_parquet`."""
    pa, parquet, name = arrow(), arrow("pyarrow.parquet"), path_or_url(path)
    how: dict[str, Any] = {"pre_buffer": rows is None, "buffer_size": 0 if rows is None else _BUFFER}
    how["page_checksum_verification"] = True  # pages of files without checksums are read as they are
    with _open_local(name, "`from_parquet`") as here, parquet.ParquetFile(here, **how) as file:
        known = file.schema_arrow.names
        for column in columns or ():
            if column not in known:
                raise FileFormatError(f"there is no column {column!r:.80}{did_you_mean(column, known)}", name)
        if rows is None:
            with limit_reading(name, max_bytes):
                made = batch_in(_whole(file, columns), cls, separator, options)
            yield made
            return
        meta, groups, empty = file.metadata, range(file.num_row_groups), True
        for count, group in groupby(groups, lambda at: _rows_of(meta.row_group(at), rows)):
            for part in file.iter_batches(count, list(group), columns):
                empty = False
                with limit_reading(name, max_bytes):
                    made = batch_in(pa.Table.from_batches([part]), cls, separator, options)
                yield made
        if empty:
            yield batch_in(pa.Table.from_batches([], file.schema_arrow), cls, separator, options)


def _whole(file: Any, columns: list[str] | None) -> Any:
    """All rows of a file as a table. Texts may be far larger than the file, so their rows are read in parts."""
    pa, meta, schema = arrow(), file.metadata, file.schema_arrow
    fields = [schema.field(name) for name in (schema.names if columns is None else columns)]
    reserve(meta.num_rows * sum([width_of(field.type) for field in fields]), "the numbers of all rows")
    groups = [meta.row_group(i) for i in range(meta.num_row_groups)]
    sizes = [group.column(i).total_uncompressed_size for group in groups for i in range(group.num_columns)]
    reserve(max(0, sum(sizes)), "all rows")
    if all([pa.types.is_primitive(field.type) for field in fields]):
        return file.read(columns=columns)
    parts = []
    for part in file.iter_batches(_PART, columns=columns):
        reserve(part.nbytes, "all rows")
        parts.append(part)
    read = schema if columns is None else pa.schema(fields)
    return pa.Table.from_batches(parts, parts[0].schema if parts else read)


def _rows_of(group: Any, rows: int) -> int:
    """How many rows of a row group are in memory at a time."""
    columns = [group.column(i) for i in range(group.num_columns)]
    sizes = [max(one.total_uncompressed_size, one.num_values * _WIDTHS.get(one.physical_type, 0)) for one in columns]
    return fitting(group.num_rows, sum(sizes), rows)


def batch_in(table: Any, cls: Any, separator: str | None, options: TableOptions) -> Any:
    """The batch of a table."""
    cls = class_of(table) if cls is None else cls
    return batch_of(cls, nest(columns_in(table), separator, cls), table.num_rows, **options)


def write_parquet(
    batches: Batches, path: StrPath, row_group_size: int | None = None, separator: str | None = None, **options: Any
) -> None:
    """Write a sequence of batches; see `to_parquet`."""
    parquet, writer = arrow("pyarrow.parquet"), None
    options = {"write_page_checksum": True, **options}
    with writing(path) as file, ExitStack() as stack:
        for table in tables(batches, "to_parquet", separator=separator):
            writer = writer or stack.enter_context(parquet.ParquetWriter(file, table.schema, **options))
            writer.write_table(table, row_group_size)


def read_ipc(
    path: StrPath, cls: Any, rows: int | None, max_bytes: int | None = None, **options: Unpack[TableOptions]
) -> Iterator[Any]:
    """The record batches of an Arrow file; one empty batch if it has none."""
    pa, name = arrow(), path_or_url(path)
    with _open_local(name, "`convert`") as here, pa.memory_map(here) as source:
        file = arrow("pyarrow.ipc").open_file(source)
        for batch in map(file.get_batch, range(file.num_record_batches)) if file.num_record_batches else [[]]:
            whole = pa.Table.from_batches([batch] if batch else [], file.schema)
            whole.validate(full=True)  # else offsets outside the buffer crash the process
            for table in tables_of(whole, rows or BLOCK):
                with limit_reading(name, max_bytes):
                    made = batch_in(table, cls, None, options)
                yield made


def write_ipc(batches: Batches, path: StrPath, stream: bool = False) -> None:
    """Write batches as an Arrow file; or as a stream without extension types, which `datasets` can map."""
    ipc, writer = arrow("pyarrow.ipc"), None
    make = ipc.new_stream if stream else ipc.new_file
    with writing(path) as file, ExitStack() as stack:
        for table in tables(batches, "to_arrow", not stream):
            writer = writer or stack.enter_context(make(file, table.schema))
            writer.write_table(table)
