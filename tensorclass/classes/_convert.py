"""Conversions to typed classes: input is checked against the declaration, nested dicts become declared classes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from .._schema import FieldSpec, Schema, infer_batch_size, migrate, told_batch_size
from ..core import TensorCollection, as_jagged, unravel_key_to_tuple
from ..errors import BatchSizeError, Problem, SchemaError, StructureError
from ..ops._nesting import as_entries, nested_entries
from ..store import TensorDict
from ._checks import check_all, new_store, readable
from ._validators import run_checks


def from_nesting(
    cls: Any,
    entries: Mapping[Any, Any],
    size: torch.Size | None,
    device: torch.device | None,
    batch_dims: int | None,
    found_before: Sequence[Problem] = (),
) -> Any:
    """Make an instance from a mapping.

    One error lists every problem, including those of nested classes and `found_before`.
    """
    schema: Schema = cls.__tensorclass_schema__
    values = migrate(readable(_top_level(entries)), schema)
    values = as_jagged(values.items()) or values
    problems = list(found_before)
    fields = {name: spec for name, spec in schema.fields.items() if name in values}
    silent = [name for name, spec in fields.items() if _is_silent(spec, values[name])]
    for name in [name for name in fields if name not in silent]:
        wrong: list[Problem] = []
        nested = _convert_nested(fields[name], values[name], None, wrong)
        if wrong and _has_nested(fields[name]):  # the size that it shows may be that of what it holds
            silent.append(name)
        else:
            values[name] = nested
            problems += wrong
    shown = {name: value for name, value in values.items() if name not in silent}
    told = told_batch_size(schema, shown) if size is None else size
    if told is None and batch_dims is None:
        size = told = size_of_lists(schema, values)
    for name in silent:
        values[name] = _convert_nested(fields[name], values[name], told, problems)
    for name, spec in schema.fields.items():
        cast = (spec.coerce or cls.__tensorclass_options__.conversion) == "cast"
        inside = as_entries(values.get(name)) if spec.kind.is_collection and not cast else None
        if inside is not None:  # anything else is checked
            others = {key: value for key, value in values.items() if key in schema.fields and key != name}
            inner = infer_batch_size(schema, others)[0] if size is None else size
            values[name] = TensorDict.from_dict(inside, batch_size=inner)
    if size is None and batch_dims is not None and not any(map(says_size, schema.fields.values())):
        size = _shared_size(values, batch_dims)
    try:
        checked, found = check_all(cls, values, size)
    except SchemaError as error:
        refused = {problem.path.partition(".")[0].partition("[")[0] for problem in problems}
        raise SchemaError.of(cls.__name__, [*problems, *(p for p in error.problems if p.path not in refused)]) from None
    if problems:
        raise SchemaError.of(cls.__name__, problems)
    if batch_dims is not None and len(found) > batch_dims:
        raise BatchSizeError(
            f"{cls.__name__}: with the declared shapes the batch size is {list(found)}, which has more dims than "
            f"batch_dims={batch_dims}"
        )
    return run_checks(cls._wrap(new_store(cls, checked, found, device)))


def _top_level(entries: Mapping[Any, Any]) -> dict[str, Any]:
    """Entries by field. A path becomes a nested mapping, which is merged with other paths and mappings."""
    found: dict[str, Any] = {}
    for key, value in entries.items():
        first, *rest = unravel_key_to_tuple(key)
        for part in reversed(rest):
            value = {part: value}
        if first in found:
            if not (isinstance(found[first], Mapping) and isinstance(value, Mapping)):
                raise StructureError(f"the field `{first}` is given twice: as a value and as a path, say")
            value = {**nested_entries(found[first]), **nested_entries(value)}
        found[first] = value
    return found


def _is_silent(spec: FieldSpec, value: Any) -> bool:
    """Whether a mapping for a nested class doesn't show its batch size, so that it has that of its parent."""
    nested: Any = spec.nested
    entries = None if nested is None else as_entries(value, nested._position_names)
    if entries is None:
        return False
    inner: Schema = nested.__tensorclass_schema__  # pyright: ignore[reportOptionalMemberAccess]  # a typed class
    given = [(inner.fields[key], entry) for key, entry in entries.items() if key in inner.fields and entry is not None]
    return all([_is_silent(own, entry) if own.nested else not _shows_size(own, entry) for own, entry in given])


def _has_nested(spec: FieldSpec) -> bool:
    """Whether a nested class has nested classes, whose batch sizes may be longer than its own."""
    inner: Any = getattr(spec.nested, "__tensorclass_schema__", None)
    return inner is not None and any([own.nested is not None for own in inner.fields.values()])


def _shows_size(spec: FieldSpec, value: Any) -> bool:
    """Whether a value has the batch dims, in front of the declared dims of an element; empty lists lack some."""
    if spec.kind.is_ragged:
        return math.prod(told_batch_size(Schema("", [spec]), {spec.name: value}) or [0]) > 0
    return says_size(spec)


def size_of_lists(schema: Schema, values: Mapping[str, Any], known: Sequence[int] = ()) -> torch.Size | None:
    """The batch size that begins with a known one and is shown by lists of objects, one for each element."""
    for name, spec in schema.fields.items():
        part, shape = values.get(name), list[int]()
        while spec.kind.is_per_element and isinstance(part, list | tuple):
            if len(shape) >= len(known) and spec.adapter_accepts(part):
                return torch.Size(shape)
            shape.append(len(part))
            part = part[0] if part else None
        if len(shape) > len(known):
            return torch.Size(shape)
    return None


def _convert_nested(spec: FieldSpec, value: Any, size: torch.Size | None, problems: list[Problem]) -> Any:
    """The value of one field; a nested mapping becomes an instance of the declared class or an untyped container."""
    if spec.nested is not None and not isinstance(value, spec.nested):
        nested: Any = spec.nested
        inner = value._entries() if isinstance(value, TensorCollection) else as_entries(value, nested._position_names)
        if inner is None:
            return value
        own = value._batch_size if isinstance(value, TensorCollection) else None
        if size is not None:
            own = size_of_lists(nested.__tensorclass_schema__, inner, size) or size
        try:
            return from_nesting(nested, inner, own, None, None)
        except SchemaError as error:
            problems += [problem._replace(path=f"{spec.name}.{problem.path}") for problem in error.problems]
            return None
    return value


def says_size(spec: FieldSpec) -> bool:
    """Whether the batch size can be inferred from a field."""
    return spec.nested is not None or (spec.kind.is_batched and spec.dims is not None and spec.dims.rank is not None)


def _shared_size(values: Mapping[str, Any], batch_dims: int) -> torch.Size:
    """The longest leading shape that all tensors and containers share."""
    shapes = [value.shape for value in values.values() if isinstance(value, (Tensor, TensorCollection))]
    shared: list[int] = []
    for sizes in zip(*shapes, strict=False):
        if len(set(sizes)) != 1 or len(shared) == batch_dims:
            break
        shared.append(sizes[0])
    return torch.Size(shared)


def from_leaf(cls: Any, obj: Any) -> Any:
    """An instance from a value without nesting: a container is adopted, anything else is refused."""
    if isinstance(obj, cls):
        return obj
    if isinstance(obj, TensorCollection):
        return cls.from_tensordict(obj)
    raise StructureError(
        f"{cls.__name__}.from_any takes a value with fields: a mapping, dataclass, tuple, structured array or "
        f"container, got a {type(obj).__name__}; `{cls.__name__}.from_rows(rows)` takes a list of rows"
    )
