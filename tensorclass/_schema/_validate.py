"""Checks all fields of one instance against the schema: the complete path, if the generated checks of a class fail."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor

from .._dims import Bindings, Dims
from ..errors import BatchSizeError, Problem, SchemaError, UnknownFieldError, bounded, did_you_mean, too_deep
from ._annotations import is_collection, is_tensorclass
from ._check import DEFAULT_OPTIONS, Checker, Options, bind_lengths
from ._dtypes import Float, dtype_name, is_ragged
from ._fields import MISSING
from ._schema import Schema, unknown_field
from ._spec import FieldSpec

_OF_ROWS = ("__dataclass_fields__", "_fields", "model_fields", "batch_size")
"""What the types of rows have, beside mappings: dataclasses, named tuples, pydantic models, containers."""
_OF_TABLES = ("iterrows", "__arrow_c_stream__", "to_pylist", "with_format")
"""What frames of pandas, tables of Arrow and datasets of Hugging Face have."""
_SILENT = " (no field says another)"


def check_fields(
    schema: Schema,
    values: Mapping[str, object],
    *,
    batch_size: Sequence[int] | int | None = None,
    options: Options = DEFAULT_OPTIONS,
) -> tuple[dict[str, object], torch.Size]:
    """Fill in defaults, convert and check all fields; returns them in their stored form, and the batch size.

    Args:
        schema: What the class declares.
        values: The given fields by name; `MISSING` marks a field that was not given.
        batch_size: The batch size; None infers it from the first field that determines it.
        options: The options of the class.

    Returns:
        The fields in order, without produced ones that were not given, and the batch size.

    Raises:
        SchemaError: lists all problems.
    """
    checker = Checker(options)
    given = {name: value for name, value in values.items() if value is not MISSING}
    _note_unknown(checker, schema, given)
    present = _present(checker, schema, given)
    if batch_size is None:
        trusting = options.validate == "off"
        checker.batch_size, checker.source = infer_batch_size(schema, present, trusting=trusting)
    else:
        checker.batch_size = as_size(batch_size)
    refused = {problem.path for problem in checker.problems}
    fields = schema.fields
    found = {name: checker.check(fields[name], value) for name, value in present.items() if name not in refused}
    checker.problems += checker.bindings.finish()
    if checker.problems:  # stop here: defaults would be spread over a batch size that may be wrong
        problems = _in_order(checker.problems, schema)
        fit = _fitting_size(schema, present, checker) if batch_size is not None else ""
        first = next(iter(given), "")  # of a call with rows as its only argument
        if problems[0].path == first and "from_rows" not in problems[0].hint and _looks_like_rows(given[first]):
            fit = "; rows and tables become a batch by `Cls.from_rows(rows)`"
        raise SchemaError.of(schema.name, [p._replace(hint=p.hint + fit) for p in problems])
    ordered = {name: found.get(name, MISSING) for name in fields}
    result = {name: _fill_default(fields[name], value, checker.batch_size) for name, value in ordered.items()}
    return {name: value for name, value in result.items() if value is not MISSING}, checker.batch_size


def check_field(
    schema: Schema,
    name: str,
    value: object,
    *,
    batch_size: Sequence[int],
    others: Mapping[str, object],
    options: Options = DEFAULT_OPTIONS,
) -> object:
    """Check one field against the batch size and the dims of the other fields; returns its stored form.

    Args:
        schema: What the class declares.
        name: The field.
        value: Its new value.
        batch_size: The batch size of the instance.
        others: The present values of the other fields, which are not checked again.
        options: The options of the class.

    Raises:
        UnknownFieldError: if the class has no such field.
        SchemaError: lists all problems.
    """
    spec = schema.fields.get(name)
    if spec is None:
        raise UnknownFieldError(unknown_field(schema, name))
    checker = Checker(options, torch.Size(batch_size))
    dims = spec.dims
    if dims is not None and (dims.names or dims.rank is None):
        _bind(checker, schema, {key: entry for key, entry in others.items() if key != name})
    converted = checker.convert(spec, value) if value is not None else None
    result = None if checker.problems else checker.check(spec, converted)
    problems = checker.problems or checker.bindings.finish()
    if problems:
        raise SchemaError.of(schema.name, problems)
    return result


def _fitting_size(schema: Schema, present: Mapping[str, object], refused: Checker) -> str:
    """The batch size that all fields fit, if the given one counts a named dim of the elements, or lacks a batch dim."""
    dims = [spec.dims.tokens[0] for spec in schema.fields.values() if spec.dims is not None and spec.dims.tokens]
    name = next((str(dim) for dim in dims if str(dim).isidentifier() and str(dim) != "_"), "")
    dense = bool(name) and all(schema.fields[field].kind.is_dense for field in present)
    if refused.batch_size and not dense:
        return ""
    size, source = infer_batch_size(schema, present)
    checker = Checker(refused.options, size)
    for field, value in present.items():
        checker.check(schema.fields[field], value)
    wrong = checker.problems or checker.bindings.finish()
    if source == _SILENT or len(size) == len(refused.batch_size) or wrong:
        return ""
    along = f'; `{name}` is a dim of each element, `batch.along("{name}")` slices it' if dense else ""
    return f"\n`batch_size={list(size)}` fits every field{along}"


def _looks_like_rows(value: object) -> bool:
    """Whether `from_rows` takes a value: a list or a generator of objects with fields, or a table."""
    if hasattr(type(value), "batch_size"):  # a container
        return False
    one = value[0] if isinstance(value, list | tuple) and value else value
    if getattr(getattr(one, "dtype", None), "names", None) is not None:  # of numpy
        return True
    if one is not value:
        return isinstance(one, Mapping) or any(hasattr(type(one), name) for name in _OF_ROWS)
    return isinstance(value, Iterator) or any(hasattr(type(value), name) for name in _OF_TABLES)


def told_batch_size(schema: Schema, values: Mapping[str, Any]) -> torch.Size | None:
    """The batch size of the present fields, which aren't converted; None if none of them determines it."""
    present = {name: value for name, value in values.items() if name in schema.fields and value is not None}
    batch, source = infer_batch_size(schema, present)
    return None if source == _SILENT else batch


def infer_batch_size(schema: Schema, values: Mapping[str, Any], *, trusting: bool = False) -> tuple[torch.Size, str]:
    """Infer the batch size from the first field with a declared event rank; also returns the source, for messages.

    A nested instance has its own, which may have further dims: it is used only if no tensor determines the batch size,
    and an untyped container only if nothing else does.

    Args:
        schema: What the class declares.
        values: The present fields.
        trusting: Use the first field even if its event dims don't fit.
    """
    told = [(name, _own_batch(schema.fields[name], value)) for name, value in values.items()]
    said = sorted([(name, *own) for name, own in told if own], key=lambda entry: schema.fields[entry[0]].kind.is_nested)
    # A field whose event dims don't fit is wrong anyway, so prefer another field: else all others would get messages.
    for name, batch, _ in [entry for entry in said if entry[2] or trusting] or said:
        more = f"; give `batch_size=` if `{name}` has more batch dims" if schema.fields[name].kind.is_nested else ""
        return batch, f" (inferred from `{name}`{more})"
    for name, value in values.items():
        if schema.fields[name].kind.is_collection and is_collection(type(value)):
            return torch.Size(value.batch_size), f" (inferred from `{name}`)"
    return torch.Size(), _SILENT


def _own_batch(spec: FieldSpec, value: Any) -> tuple[torch.Size, bool] | None:
    """The batch size of one field, and whether its event dims fit."""
    if spec.kind.is_batched and isinstance(value, Tensor):
        rank = None if spec.dims is None else spec.dims.rank
        if spec.dims is None or rank is None or value.ndim < rank:
            return None
        batch, event = value.shape[: value.ndim - rank], value.shape[value.ndim - rank :]
        return batch, not Bindings().bind(spec.name, spec.dims, event)
    if spec.kind.is_nested and spec.nested is not None and hasattr(value, "batch_size"):
        return torch.Size(value.batch_size), isinstance(value, spec.nested)
    if spec.kind.is_nested and spec.nested_schema is not None and isinstance(value, Mapping):
        try:
            return _batch_of_mapping(spec.nested, spec.nested_schema, value)
        except RecursionError:
            raise too_deep(spec.name) from None
    if (spec.kind.is_collection or spec.kind.is_open) and spec.annotation is not Any and is_tensorclass(type(value)):
        return torch.Size(value.batch_size), spec.kind.is_open or isinstance(value, spec.annotation)
    return _batch_of_ragged(spec, value) if spec.kind.is_ragged else None


def _batch_of_mapping(nested: Any, schema: Schema, value: Mapping[str, object]) -> tuple[torch.Size, bool] | None:
    """The batch size of a mapping for the nested class that it will become; None if no field determines it."""
    given = {name: entry for name, entry in value.items() if name in schema.fields}
    batch, source = infer_batch_size(schema, _present(Checker(nested.__tensorclass_options__), schema, given))
    return None if _SILENT in source else (batch, True)


def _batch_of_ragged(spec: FieldSpec, value: Any) -> tuple[torch.Size, bool] | None:
    """The batch size of the elements of a ragged field, and whether they are valid elements."""
    if is_ragged(type(value)):
        return torch.Size(value.shape), True
    if isinstance(value, Tensor) and value.is_nested:
        return torch.Size([value.size(0)]), True
    shape: list[int] = []
    while isinstance(value, list | tuple):
        shape.append(len(value))
        value = value[0] if value else None
    if isinstance(value, int | float) and spec.dims is not None:  # the inner lists are meant as elements
        shape = shape[: max(len(shape) - len(spec.dims.tokens), 0)]
    return (torch.Size(shape), isinstance(value, Tensor)) if shape else None  # empty lists end at a dim of size 0


def as_size(batch_size: Sequence[int] | int) -> torch.Size:
    """Convert an argument to a batch size.

    Raises:
        BatchSizeError: if it is not a sequence of sizes.
    """
    sizes = (batch_size,) if isinstance(batch_size, int) else tuple(batch_size)
    if any(isinstance(size, bool) or not isinstance(size, int | torch.SymInt) or size < 0 for size in sizes):
        raise BatchSizeError(f"a batch size is a number or a sequence of numbers from 0, got {batch_size!r}")
    if prod([size for size in sizes if type(size) is int]) >= 2**63:
        raise BatchSizeError(f"the entries of a batch size and their product are below 2**63, got {batch_size!r:.200}")
    return torch.Size(sizes)


def cast_problem(spec: FieldSpec, dtype: torch.dtype) -> Problem | None:
    """The reason why `.to(dtype)` would break the declaration of a field; None if it would not.

    Args:
        spec: The field.
        dtype: The dtype of the cast, which converts only floating tensors.
    """
    if spec.dtype is None or spec.dtype.admits_cast(dtype):
        return None
    name = dtype_name(dtype)
    family = "Float" if spec.dtype.is_within(Float) and dtype.is_floating_point else "Num"
    hint = f"declare the family `{family}[...]`, or `cast({spec.name}={dtype})` to another class"
    return Problem(spec.name, str(spec), f"a cast to {name}", hint)


def non_tensor_problems(schema: Schema) -> list[Problem]:
    """The fields that a class with `tensor_only=True` can't have."""
    hint = "with tensor_only=True every field is a tensor or a container of tensors; drop the option or the field"
    return [Problem(spec.name, str(spec), f"a {spec.kind} field", hint) for spec in schema if spec.kind.holds_objects]


def _note_unknown(checker: Checker, schema: Schema, given: Mapping[str, object]) -> None:
    unknown = [name for name in given if name not in schema.fields]
    fields = bounded(", ".join(schema.names), 600)
    for number, name in enumerate(unknown):
        hint = f"its fields are {fields}{did_you_mean(name, schema.names) if number < 20 else ''}"
        if name in schema.renamed:
            hint = f"it is `{schema.renamed[name]}` now; loaders still read the former name"
        checker.problems.append(Problem(name, f"nothing: {schema.name} has no such field", "a value", hint))


def _present(checker: Checker, schema: Schema, given: Mapping[str, object]) -> dict[str, object]:
    """The given values and the defaults, converted. Missing fields become problems."""
    found: dict[str, object] = {}
    for spec in schema:
        value = given.get(spec.name, MISSING)
        if value is MISSING:
            value = spec.default_factory() if spec.default_factory is not MISSING else spec.default
            if isinstance(value, Tensor) and value is spec.default:
                continue  # it has the event shape: spread it when the batch size is known
        if value is not MISSING:
            found[spec.name] = checker.convert(spec, value)
        elif spec.init and not spec.produced and not spec.optional:  # an optional field stays out, and reads as None
            checker.add(spec, "nothing", f"pass `{spec.name}=`")
    return found


def _fill_default(spec: FieldSpec, value: object, batch_size: torch.Size) -> object:
    """A default with the event shape, spread over the batch and copied."""
    if value is not MISSING or not isinstance(spec.default, Tensor) or not spec.kind.is_dense:
        return value
    batch = () if spec.kind.is_shared else tuple(batch_size)
    return spec.default.expand((*batch, *spec.default.shape)).clone()


def dims_problems(schema: Schema, entries: Mapping[str, object], batch_size: Sequence[int]) -> list[Problem]:
    """The problems of entries that are valid by themselves, but whose dims disagree."""
    checker = Checker(DEFAULT_OPTIONS, torch.Size(batch_size))
    return [*_bind(checker, schema, entries), *checker.bindings.finish()]


def _bind(checker: Checker, schema: Schema, entries: Mapping[str, object]) -> list[Problem]:
    """Bind the dims of all fields; returns the problems of sizes that differ."""
    found: list[Problem] = []
    for spec in schema:
        value = entries.get(spec.name)
        if spec.dims is not None and is_ragged(type(value)):
            held: Any = value
            rest = Dims(spec.dims.tokens[1:])
            found += checker.bindings.bind(spec.name, rest, held.event_shape, declared=str(spec))
            bind_lengths(checker.bindings, spec, held)
        elif spec.dims is not None and isinstance(value, Tensor):
            start = 0 if spec.kind.is_shared else len(checker.batch_size)
            found += checker.bindings.bind(spec.name, spec.dims, value.shape[start:], declared=str(spec))
    return found


def _in_order(problems: list[Problem], schema: Schema) -> list[Problem]:
    order = {name: i for i, name in enumerate(schema.names)}
    head = [problem.path.partition("[")[0].partition(".")[0] for problem in problems]
    ranked = sorted(range(len(problems)), key=lambda i: (order.get(head[i], len(order)), i))
    return [problems[i] for i in ranked]
