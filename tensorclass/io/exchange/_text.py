"""CSV and JSON lines, with a line for each row. In CSV, numbers are decimals; other values may be JSON text."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from pydantic_core import to_json as json_text
from torch import Tensor
from typing_extensions import Unpack

from ..._budget import budget, reserve
from ..._content import read_content
from ..._places import is_url, path_or_url
from ..._schema import FieldSpec, Schema, schema_of
from ..._schema._convert import Inexact
from ..._schema._json import refuse_literals
from ..._schema._json_keys import unique
from ..._schema._spec import short
from ...errors import ArgumentError, FileFormatError, Problem, SchemaError, UnsupportedOperationError
from ...store import NonTensorStack, TensorDict
from .._atomic import file_bytes, local_file, naming
from .._documents import replacing_at
from .._parts import blocks
from .._paths import StrPath
from . import _columns as cols
from ._batches import TableOptions, batch_of, without_rows

_OBJECTS = 4
"""The approximate bytes of Python objects for a character of text."""
_WORDS = {"true": True, "false": False, "True": True, "False": False, "": None}


# ---- out ---------------------------------------------------------------------------------------------------------


@contextmanager
def writing(path: StrPath) -> Iterator[Any]:
    """A binary file to write. At the end of the block it replaces the path or URL as a whole, or not at all."""
    name = path_or_url(path)
    shown = name if is_url(name) else os.path.abspath(name)
    with replacing_at(name) as target, naming(shown, others=True), os.fdopen(os.dup(target.fd), "wb") as to:
        yield to


def write_text(path: StrPath, text: str) -> None:
    """Write a text to a file or a URL, as a whole or not at all."""
    with naming(path_or_url(path), others=True), writing(path) as file:
        file.write(text.encode())


def read_text(path: StrPath, max_bytes: int | None = None) -> bytes:
    """The bytes of a file or a URL; see `read_content`."""
    with local_file(path_or_url(path)) as here:
        return read_content(here, max_bytes)


class _Lines:
    """Lines end with a line feed.

    The csv writer quotes the characters of its line end, and readers accept both characters.
    """

    def __init__(self, file: Any) -> None:
        self.file = file

    def write(self, line: str) -> None:
        self.file.write(line[:-2].encode() + b"\n")


def write_csv(batches: Iterable[Any], path: StrPath, separator: str | None = None, delimiter: str = ",") -> None:
    """Write a sequence of batches; see `to_csv`."""
    header: list[str] | None = None
    with writing(path) as file:
        out = csv.writer(_Lines(file), delimiter=delimiter, lineterminator="\r\n")
        for batch in cols.some(batches):
            columns = dict(cols.flat(cols.columns_of(batch, "to_csv"), separator))
            if header is None:
                header = list(columns)
                out.writerow(header)
            elif header != list(columns):
                raise SchemaError(f"to_csv: the columns {list(columns)} follow the columns {header}")
            cells = [_cells(column, len(batch), name) for name, column in columns.items()]
            out.writerows(zip(*cells, strict=True))


def _cells(column: cols.TableColumn, rows: int, path: str) -> list[str]:
    """The texts of a column."""
    value = column.value
    if isinstance(value, Tensor) and value.ndim == 1 and not value.is_complex():
        numbers = cols.stored(value, path)[0].numpy()
        return [str(number) for number in numbers] if numbers.dtype.kind == "f" else [str(n) for n in numbers.tolist()]
    if isinstance(value, NonTensorStack) and cols.native_type(column.spec, value) is str:
        if "" in value._table and (None in value._table or _may_lack(column.spec)):
            raise UnsupportedOperationError(
                f"to_csv: field `{path}` has an empty text, which CSV can't tell from an absent one; use JSON lines"
            )
        return ["" if text is None else text for text in value.tolist()]
    return ["" if entry is None else json_text(entry).decode() for entry in cols.json_rows(column, rows, path)]


def write_lines(batches: Iterable[Any], path: StrPath, separator: str | None = None) -> None:
    """Write a sequence of batches as JSON lines."""
    _write_rows(batches, path, separator, (b"", b"\n", b"\n"))


def write_records(batches: Iterable[Any], path: StrPath, separator: str | None = None) -> None:
    """Write a sequence of batches as a JSON list of objects."""
    _write_rows(batches, path, separator, (b"[", b",\n", b"]"))


def _write_rows(
    batches: Iterable[Any], path: StrPath, separator: str | None, marks: tuple[bytes, bytes, bytes]
) -> None:
    mark, between, end = marks
    with writing(path) as file:
        for row in (row for batch in cols.some(batches) for row in records_of(batch, separator)):
            file.write(mark + json_text(row))
            mark = between
        if mark is between:
            file.write(end)
        elif mark:
            file.write(mark + end)


def records_of(batch: Any, separator: str | None) -> list[Any]:
    """The rows of a batch as JSON objects."""
    columns = cols.columns_of(batch, "to_json")
    columns = columns if separator is None else dict(cols.flat(columns, separator))
    return cols.json_rows(cols.TableColumn(columns), len(batch), "")


# ---- in ----------------------------------------------------------------------------------------------------------


def read_csv(
    path: StrPath,
    cls: Any,
    rows: int | None,
    separator: str | None = None,
    delimiter: str = ",",
    max_bytes: int | None = None,
    **options: Unpack[TableOptions],
) -> Iterator[Any]:
    """The batches of a file, with `rows` rows each; see `from_csv`."""
    name = path_or_url(path)
    lines = _lines(name, rows, max_bytes)
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    header = next(_rows(reader, name), None)
    if header is None:
        raise FileFormatError("the file is empty; its first line names the columns", name, 0)
    names = cols.unique(header, name)
    for block in blocks(_rows(reader, name, names), rows, lambda row: _OBJECTS * sum(map(len, row))):
        with limit_reading(name, max_bytes):
            reserve(_OBJECTS * sum([len(cell) for row in block for cell in row]), "the text of some rows")
            columns = _columns(block, names, cls, separator, name)
            made = batch_of(cls, cols.nest(columns, separator, cls), len(block), **options)
        yield made


def limit_reading(name: str, max_bytes: int | None) -> Any:
    """A block whose reads share the budget of a file."""
    return budget(max_bytes, lambda: file_bytes(name), name)


def _lines(name: str, rows: int | None, max_bytes: int | None) -> Iterator[str]:
    """The lines of a file in UTF-8. If all rows are read at once, there must be memory for all of them."""
    with naming(name), local_file(name) as here, open(here, "rb") as file:
        with limit_reading(name, max_bytes):
            reserve(0 if rows is not None else os.fstat(file.fileno()).st_size * _OBJECTS, "the text of all rows")
        for number, line in enumerate(file, 1):
            try:
                yield line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                hint = "; it is compressed, unpack it first" if number == 1 and line[:2] == b"\x1f\x8b" else ""
                raise FileFormatError(f"line {number} is not UTF-8: {error.reason}{hint}", name) from None


def _rows(reader: Any, name: str, names: Sequence[str] = ()) -> Iterator[list[str]]:
    """The rows of a file. Each row except the column names ends with its line number."""
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            hint = "; `csv.field_size_limit(...)` sets the limit" if "larger" in str(error) else ""
            raise FileFormatError(f"line {reader.line_num} is not CSV: {error}{hint}", name) from None
        if not row and len(names) != 1:
            continue
        if names and len(row or [""]) != len(names):
            what = f"line {reader.line_num} has {len(row)} values, the first line names {len(names)} columns"
            raise FileFormatError(what, name)
        yield [*(row or [""]), str(reader.line_num)] if names else row


def _columns(
    block: list[list[str]], names: list[str], cls: Any, separator: str | None, name: str
) -> dict[str, cols.TableColumn]:
    """The columns of a block of text; the error for a wrong text names its line."""
    texts = list(zip(*block, strict=True)) or [()] * (len(names) + 1)
    schema, found = schema_of(cls), dict[str, cols.TableColumn]()
    for column, given in zip(names, texts, strict=False):
        spec = None if schema is None else _spec_of(schema, column.split(separator or "."))
        try:
            found[column] = cols.column_of(_values(given, spec), "text", True)
        except ValueError:
            parse = _parser(spec)
            for text, line in zip(given, texts[-1], strict=True):
                try:
                    parse(text)
                except ValueError:
                    what = f"line {line}: {short(text)} in the column `{column}` is not what the field says: {spec}"
                    raise FileFormatError(what, name) from None
            raise
    return found


def _spec_of(schema: Schema, path: Sequence[str]) -> FieldSpec | None:
    """The field for a column name."""
    spec = schema.fields.get(schema.renamed.get(path[0], path[0]))
    if len(path) == 1 or spec is None or spec.nested_schema is None:
        return spec
    return _spec_of(spec.nested_schema, path[1:])


def _values(texts: Sequence[str], spec: FieldSpec | None) -> list[Any]:
    if spec is not None:
        return list(map(_parser(spec), texts))
    try:
        found = list(map(_number, texts))
    except ValueError:
        return list(texts)
    kinds = {type(value) for value in found if value is not None}
    return list(texts) if bool in kinds and len(kinds) > 1 else found


def _parser(spec: FieldSpec | None) -> Callable[[str], Any]:
    objects = spec is not None and spec.kind.holds_objects
    native = cols.native_type(spec, NonTensorStack()) if objects else None
    if native is str and spec is not None:
        return (lambda text: text or None) if _may_lack(spec) else str
    return _number if spec is None or native in cols.NATIVE or spec.dtype is not None else _json_or_text


def _may_lack(spec: FieldSpec | None) -> bool:
    """Whether empty text means None for a field."""
    return spec is not None and (spec.optional or (spec.kind.is_per_element and spec.adapter_accepts(None)))


def _number(text: str) -> Any:
    """A number, a boolean, or JSON lists of them; None for empty text.

    Raises:
        ValueError: for any other text.
    """
    if text in _WORDS:
        return _WORDS[text]
    if text[:1] == "[":
        return cols.finite(json.loads(text))
    if "_" in text or not text.isascii():
        raise ArgumentError(text)
    try:
        return int(text)
    except ValueError:
        found = float(text)
    if not np.isfinite(found) and text.strip().lower() not in ("nan", "inf", "-inf", "infinity", "-infinity"):
        raise ArgumentError(text)  # larger than a float
    return found


def _json_or_text(text: str) -> Any:
    """Parsed JSON, or the text itself."""
    try:
        return None if not text else json.loads(text)
    except (ValueError, RecursionError):
        return text


def read_lines(
    path: StrPath,
    cls: Any,
    rows: int | None,
    separator: str | None = None,
    max_bytes: int | None = None,
    **options: Unpack[TableOptions],
) -> Iterator[Any]:
    """The batches of a file of JSON lines, with `rows` rows each."""
    name = path_or_url(path)
    lines = ((line, number) for number, line in enumerate(_lines(name, rows, max_bytes), 1) if line.strip())
    for block in blocks(lines, rows, lambda one: _OBJECTS * len(one[0])):
        with limit_reading(name, max_bytes):
            reserve(_OBJECTS * sum([len(line) for line, _ in block]), "the text of some rows")
            found = [_object(line, name, f"line {number}") for line, number in block]
            made = batch_of_records(found, cls, separator, **options)
        yield made


def _object(text: str | bytes, name: str, where: str) -> Any:
    try:
        found = unique(text.encode() if isinstance(text, str) else text)
    except ValueError as error:
        raise FileFormatError(f"{where} is not JSON: {error}", name) from None
    if not isinstance(found, dict):
        raise FileFormatError(f"{where} is not an object: {short(found)}", name)
    return found


def batch_of_records(rows: list[Any], cls: Any, separator: str | None, **options: Unpack[TableOptions]) -> Any:
    """A batch whose rows are JSON objects.

    Raises:
        SchemaError: for rows that are not objects, and for values that don't fit the class.
    """
    if not rows and hasattr(cls, "__tensorclass_schema__"):
        return without_rows(cls, options.get("device"))
    for i, row in enumerate(rows):
        if not isinstance(row, dict):
            problem = Problem(f"{cls.__name__}[{i}]", "a list of objects", short(row), "a record is an object")
            raise SchemaError.of(cls.__name__, [problem])
        try:
            refuse_literals(row)
        except Inexact as error:
            problem = Problem(f"{cls.__name__}[{i}]", "numbers of JSON", short(row), str(error))
            raise SchemaError.of(cls.__name__, [problem]) from None
    whole = cols.column_of(rows, "JSON", True).value or {}
    return batch_of(cls, cols.nest(whole, separator, cls) if separator is not None else whole, len(rows), **options)


def read_records(
    path: StrPath, cls: Any, separator: str | None, max_bytes: int | None = None, **options: Unpack[TableOptions]
) -> Any:
    """The batch of a file that holds a JSON list of objects."""
    name = path_or_url(path)
    with limit_reading(name, max_bytes):
        text = read_text(name, max_bytes)
        reserve(len(text) * _OBJECTS, "the text of all rows")
        try:
            found = unique(text)
        except ValueError as error:
            raise FileFormatError(f"it is not JSON: {error}", name) from None
        if not isinstance(found, list) or not all([isinstance(row, dict) for row in found]):
            raise FileFormatError("it holds no list of objects; `load` and `from_dict` read single objects", name)
        return batch_of_records(found, TensorDict if cls is None else cls, separator, **options)
