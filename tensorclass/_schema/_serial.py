"""A schema as plain JSON types, and back; and the form in which schemas are compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from .._dims import parse_dims
from .._kinds import INIT_VAR, KINDS, PENDING, UNREAD
from .._options import FIELD_OPTIONS, JOINS
from ..errors import ArgumentError, DimSyntaxError, SchemaError
from ._accepted import constraint_rows, read_constraints, validator_names
from ._dtypes import FAMILIES, DTypeFamily, TensorSpec, family_of
from ._json_schema import unique_name
from ._spec import FieldSpec, FieldValidator, TypeName, decode_default

if TYPE_CHECKING:
    from ._schema import Schema

BUILTINS = {kind.__name__: kind for kind in (str, int, float, bool, bytes, complex, list, dict, tuple, set, object)}


def canonical(schema: Schema, above: tuple[Schema, ...] = ()) -> list[Any]:
    """The form that equality and digest use: the fields, with nested classes expanded.

    A recursive class is written as its distance upwards.
    """
    above = (schema, *above)
    found = []
    for spec in schema:
        nested = spec.nested_schema
        entry = spec.layout()
        if nested is not None:
            level = next((i for i, known in enumerate(above) if known is nested), None)
            entry["class"] = canonical(nested, above) if level is None else level
        found.append(entry)
    return found


def to_entries(schema: Schema) -> dict[str, Any]:
    """The schema as plain JSON types; nested classes appear once, under `classes`."""
    found: list[tuple[Schema, str]] = [(schema, schema.name)]
    rows = {schema.name: _rows(schema, found)}
    for nested, name in found:  # the loop body appends to it
        rows[name] = rows.get(name) or _rows(nested, found)
    own = rows[schema.name]
    recursive = any(row.get("class") == schema.name for part in rows.values() for row in part)
    classes = {name: fields for name, fields in rows.items() if recursive or name != schema.name}
    inner = {name: _about(nested) for nested, name in found if nested is not schema}
    more = {**_about(schema), "classes": classes, "about": {name: about for name, about in inner.items() if about}}
    return {"name": schema.name, "fields": own, **{key: value for key, value in more.items() if value}}


def _about(schema: Schema) -> dict[str, Any]:
    """The properties of a class besides its fields."""
    found = {"removed": dict(schema.removed), "policy": dict(schema.policy)}
    return {key: value for key, value in found.items() if value}


def _rows(schema: Schema, found: list[tuple[Schema, str]]) -> list[dict[str, Any]]:
    rows = []
    for spec in schema:
        row, nested = spec.to_dict(), spec.nested_schema
        if nested is not None:
            row["class"] = unique_name(nested, found)
        about_values = {"constraints": constraint_rows(spec.metadata), "validators": validator_names(spec)}
        row.update({key: value for key, value in about_values.items() if value})
        rows.append(row)
    return rows


def read_entries(entries: Mapping[str, Any], make: Callable[..., Schema]) -> Schema:
    """Read a result of `to_entries`; `make` is the schema class."""
    try:
        name, own = str(entries["name"]), list(entries["fields"])
        classes = {str(key): list(rows) for key, rows in dict(entries.get("classes", {})).items()}
        made: dict[str, Schema] = {}
        classes.setdefault(name, own)
        found = _read_class(name, classes, made, make)
        for inner, schema in made.items():
            about = entries if schema is found else entries.get("about", {}).get(inner, {})
            object.__setattr__(
                schema, "removed", {str(key): str(when) for key, when in about.get("removed", {}).items()}
            )
            object.__setattr__(schema, "policy", dict(about.get("policy", {})))
        return found
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, SchemaError):
            raise
        raise SchemaError(
            f"this {type(entries).__name__} is not a schema: {type(error).__name__}: {error}; see Schema.to_dict()"
        ) from error


def _read_class(
    name: str, classes: dict[str, list[Any]], made: dict[str, Schema], make: Callable[..., Schema]
) -> Schema:
    # Nested classes are read at their first use, so a class may contain itself.
    if name not in made:
        rows = classes[name]
        shells = [FieldSpec(str(row["name"]), PENDING, Any) for row in rows]
        short = name.rpartition("-")[0] if name.rpartition("-")[2].isdecimal() else name
        made[name] = make(short or name, shells or (), lambda _: {})
        specs = [_read_field(row, lambda inner: _read_class(inner, classes, made, make)) for row in rows]
        made[name]._settle({spec.name: spec for spec in specs})
    return made[name]


def _read_field(row: Mapping[str, Any], nested: Callable[[str], Schema]) -> FieldSpec:
    """A field from its row of a schema as data."""
    kind, join = KINDS.get(row["kind"]), row["join"]
    if kind in (None, PENDING, INIT_VAR, UNREAD) or join not in JOINS:
        kind = row["kind"]
        raise ArgumentError(f"field {row['name']!r:.200} has kind {kind!r:.200} and join {join!r:.200}")
    options = decode_default(row["default"]) if "default" in row else {}
    for name, option in FIELD_OPTIONS.items():
        if option.saved == "always" or (option.saved and name in row):
            options[name] = option.read(row[name])
    if "fill" in row:
        options["fill"] = decode_default(row["fill"])["default"]
    return FieldSpec(
        name=row["name"],
        kind=kind,
        annotation=_read_type(row),
        spec=_read_spec(row),
        doc=row.get("doc"),
        nested_schema_=nested(row["class"]) if "class" in row else None,
        optional=bool(row["optional"]),
        produced=bool(row.get("produced", False)),
        metadata=read_constraints(row.get("constraints", ())),
        validators=tuple(map(_read_validator, row.get("validators", ()))),
        **options,
    )


def _read_validator(name: str) -> FieldValidator:
    """A placeholder for a validator with this name, which accepts everything."""
    return FieldValidator(name.removesuffix(" (before)"), name.endswith(" (before)"), lambda value: value)


def _read_type(row: Mapping[str, Any]) -> Any:
    if "type" in row:
        return BUILTINS.get(row["type"], TypeName(str(row["type"])))
    return TypeName(str(row["class"])) if "class" in row else Any


def _read_spec(row: Mapping[str, Any]) -> TensorSpec | None:
    if "dtype" not in row:
        return None
    try:
        return TensorSpec(_read_family(row["dtype"]), None if row["dims"] is None else parse_dims(row["dims"]))
    except DimSyntaxError as error:
        raise SchemaError(f"field `{row['name']}`: {error}") from None


def _read_family(name: str) -> DTypeFamily:
    if name in FAMILIES:
        return FAMILIES[name]
    parts = [FAMILIES[part].exact for part in name.split("|")]
    return family_of(*(part for part in parts if part is not None))
