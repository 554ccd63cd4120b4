"""Records, one object for each element as tables have rows: a batch as rows, and rows as the columns of a batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .._schema import migrate
from .._schema._json import spell
from .._schema._spec import short
from ..errors import Problem, SchemaError
from ..store import Node
from . import _json
from ._convert import says_size

BATCHED = ("tensor", "per_element", "ragged")


def to_records(batch: Any, separator: str | None) -> list[dict[str, Any]]:
    """One object for each element of the first batch dim; values of the whole batch are in every one.

    Raises:
        SchemaError: for a batch without batch dims, and for values that JSON can't hold.
    """
    if not batch._batch_size:
        hint = "records are the elements of the first batch dim: `batch.unsqueeze(0)`"
        raise SchemaError.of(
            type(batch).__name__, [Problem(type(batch).__name__, "a batch with batch dims", "batch size []", hint)]
        )
    columns = dict(_columns(batch))
    rows = [{name: value[i] if many else value for name, (many, value) in columns.items()} for i in range(len(batch))]
    return [_flat(row, separator) for row in rows] if separator is not None else rows


def _columns(batch: Any) -> Iterator[tuple[str, tuple[bool, Any]]]:
    """Each present field with whether its value has an entry for each element."""
    dumped = _json.dump(batch, lists=True)
    for name, spec in type(batch).__tensorclass_schema__.fields.items():
        value = batch.get(name, None)
        if value is None:
            continue
        if spec.nested is not None:
            yield name, (True, to_records(value, None))
        elif spec.kind == "tensor":
            numbers = value.detach().cpu()
            yield name, (True, spell(numbers.tolist()) if not numbers.is_complex() else dumped[name])
        else:
            yield name, (isinstance(value, Node) and spec.kind in BATCHED, dumped[name])


def _flat(row: Mapping[str, Any], separator: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in row.items():
        inner = _flat(value, separator) if isinstance(value, dict) else None
        found.update(
            {name: value} if inner is None else {f"{name}{separator}{key}": part for key, part in inner.items()}
        )
    return found


def from_records(cls: Any, rows: list[Any], separator: str | None) -> Any:
    """An instance whose first batch dim are the rows.

    Raises:
        SchemaError: for rows that are not objects, and for values that do not fit the declaration.
    """
    wrong = next((i for i, row in enumerate(rows) if not isinstance(row, dict)), None)
    if wrong is not None:
        problem = Problem(f"{cls.__name__}[{wrong}]", "a list of objects", short(rows[wrong]), "a record is an object")
        raise SchemaError.of(cls.__name__, [problem])
    rows = rows if separator is None else [_nested(cls, row, separator) for row in rows]
    return _json.load(cls, _gathered(cls, rows))


def _nested(cls: Any, row: Mapping[str, Any], separator: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in row.items():
        *path, last = name.split(separator)
        here = found
        for part in path:
            here = here.setdefault(part, {})
            if not isinstance(here, dict):
                break
        if not isinstance(here, dict) or last in here:
            hint = f"{name!r} names a field below another value of the record, or one that it has already"
            raise SchemaError.of(cls.__name__, [Problem(name, "one value for each field", short(value), hint)])
        here[last] = value
    return found


def _gathered(cls: Any, rows: list[Any]) -> dict[str, Any]:
    """Rows as columns; a value of the whole batch is the same in all."""
    fields = cls.__tensorclass_schema__.fields
    rows = [migrate(row, cls.__tensorclass_schema__) for row in rows]
    found: dict[str, Any] = {}
    for name in dict.fromkeys(key for row in rows for key in row):
        values, spec = [row.get(name) for row in rows], fields.get(name)
        if all([value is None for value in values]):
            found[name] = None
        elif spec is not None and spec.nested is not None and all([isinstance(value, dict) for value in values]):
            found[name] = _gathered(spec.nested, values)
        elif spec is None or spec.kind in BATCHED:
            found[name] = values
        elif all([value == values[0] for value in values]):
            found[name] = values[0]
        else:
            hint = "one value is declared for the batch; declare `PerElement[...]` for one in each record"
            raise SchemaError.of(cls.__name__, [Problem(name, str(spec), "values that differ", hint)])
    said = any(says_size(spec) and found.get(name) is not None for name, spec in fields.items())
    return found if said else {**found, "batch_size": [len(rows)]}
