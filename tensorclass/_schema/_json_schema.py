"""The JSON Schema of a class: the input of `from_json`. For a tensor, it also has `dtype`, `dims` and `shape`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from annotated_types import Ge, Gt, Le, Lt, MultipleOf

from .._deferred import pydantic
from .._dims import Dim
from ._constraints import bound_of, flatten
from ._dtypes import Bool, Complex, Integer, TensorSpec
from ._spec import FieldSpec, TypeName

if TYPE_CHECKING:
    from ._schema import Schema

Part = Callable[[FieldSpec], "dict[str, Any]"]
REF = "#/$defs/{model}"
SIZES = {"type": "array", "items": {"type": "integer", "minimum": 0}}
NAMES = {"type": "array", "items": {"type": ["string", "null"]}}
BOUNDS = {Ge: "minimum", Gt: "exclusiveMinimum", Le: "maximum", Lt: "exclusiveMaximum", MultipleOf: "multipleOf"}


def json_schema(schema: Schema) -> dict[str, Any]:
    """The JSON Schema of one instance; other classes are under `$defs`."""
    found: list[tuple[Schema, str]] = [(schema, schema.name)]
    models: dict[str, Any] = {}

    def nested(spec: FieldSpec) -> dict[str, Any]:
        inner = spec.nested_schema
        return {} if inner is None else {"$ref": REF.format(model=unique_name(inner, found))}

    parts = JsonObject(nested, lambda spec: _value(spec, models))
    classes = {name: parts.of(inner) for inner, name in found}  # the loop body appends to it
    own = classes.pop(schema.name)
    if f"'{REF.format(model=schema.name)}'" in f"{classes}{own}":
        classes[schema.name] = own
        own = {"$ref": REF.format(model=schema.name)}
    return {**own, **({"$defs": {**models, **classes}} if models or classes else {})}


def unique_name(schema: Schema, found: list[tuple[Schema, str]]) -> str:
    """A unique name for a nested class, even if two classes have the same name."""
    for known, name in found:
        if known is schema:
            return name
    taken, name, count = {name for _, name in found}, schema.name, 1
    while name in taken:
        count += 1
        name = f"{schema.name}-{count}"
    found.append((schema, name))
    return name


def _value(spec: FieldSpec, models: dict[str, Any]) -> dict[str, Any]:
    if isinstance(spec.annotation, TypeName):
        return {}
    try:
        entry = spec.adapter.json_schema(ref_template=REF)
    except (pydantic.PydanticInvalidForJsonSchema, pydantic.PydanticUserError):
        return {"title": spec.type_text}
    models.update(entry.pop("$defs", {}))
    return entry


class JsonObject:
    """Describes classes.

    Args:
        nested: Makes the schema of a field that holds another class.
        value: Makes the schema of a Python value.
    """

    def __init__(self, nested: Part, value: Part) -> None:
        self.nested = nested
        self.value = value

    def of(self, schema: Schema) -> dict[str, Any]:
        """An object with a property for each field."""
        fields = {spec.name: self._field(spec) for spec in schema if spec.init or spec.produced}
        return {
            "title": schema.name,
            "type": "object",
            "properties": {**fields, "batch_size": SIZES, "names": NAMES},
            "required": [spec.name for spec in schema if spec.required],
            "additionalProperties": False,
        }

    def _field(self, spec: FieldSpec) -> dict[str, Any]:
        entry = self._type(spec)
        if spec.optional and entry and {"type": "null"} not in entry.get("anyOf", ()):
            entry = {"anyOf": [entry, {"type": "null"}]}
        return {**entry, "description": spec.doc} if spec.doc else entry

    def _type(self, spec: FieldSpec) -> dict[str, Any]:
        if spec.kind.has_dtype:
            return self.tensor(spec)
        if spec.kind.is_nested:
            return self.nested(spec)
        if spec.kind.holds_objects:
            return self.per_element(spec) if spec.kind.is_listed else self.value(spec)
        return {"type": "object", "title": spec.type_text} if spec.kind.is_collection else {}

    def tensor(self, spec: FieldSpec) -> dict[str, Any]:
        """Numbers, with the bounds of the field."""
        assert spec.spec is not None  # tensor kinds have one
        bounds = {BOUNDS[type(mark)]: bound_of(mark) for mark in flatten(spec.metadata) if type(mark) in BOUNDS}
        return {**_tensor(spec.spec, spec.kind.is_ragged), **bounds}

    def per_element(self, spec: FieldSpec) -> dict[str, Any]:
        """One value, or nested lists of them."""
        entry = self.value(spec)
        return {"anyOf": [entry, {"type": "array"}], "title": spec.type_text} if entry else entry


def _tensor(spec: TensorSpec, ragged: bool) -> dict[str, Any]:
    """Lists or an object. The dtype family, dims and event shape are annotations, which validators ignore."""
    if spec.dtype.is_within(Bool):
        number = "boolean"
    elif spec.dtype.is_within(Integer):
        number = "integer"
    else:
        number = "number"
    lists = ["array", "string"] if spec.dtype.is_within(Complex) else ["array", number, "string"]
    keys: dict[str, Any] = (
        {"lengths": {"type": ["array", "integer"]}, "values": {"type": "object"}} if ragged else _parts(spec)
    )
    whole = {"type": "object", "properties": keys, "required": list(keys), "additionalProperties": False}
    entry = {"anyOf": [{"type": lists}, whole], "dtype": str(spec.dtype)}
    if spec.dims is None:
        return entry
    entry["dims"] = str(spec.dims)
    if spec.dims.rank is not None:
        sizes = [token.size.constant if isinstance(token, Dim) else None for token in spec.dims.tokens]
        entry["shape"] = [str(token) if n is None else n for token, n in zip(spec.dims.tokens, sizes, strict=True)]
    return entry


def _parts(spec: TensorSpec) -> dict[str, Any]:
    dtypes = spec.dtype.dtypes
    names = {"type": "string"} if dtypes is None else {"enum": sorted(str(d).removeprefix("torch.") for d in dtypes)}
    data = {"type": ["string", "array", "number", "boolean"], "contentEncoding": "base64"}
    return {"dtype": names, "shape": SIZES, "data": data}
