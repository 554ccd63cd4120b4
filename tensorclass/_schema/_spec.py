"""One field of a class as a record, computed once from the annotation and `field(...)`."""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import torch
from torch import Tensor
from typing_extensions import TypeIs

from .._deferred import pydantic
from .._dims import Dims
from .._kinds import Kind
from .._options import FIELD_OPTIONS
from ..errors import ArgumentError
from ._dtypes import DTypeFamily, TensorSpec, dtype_name
from ._fields import MISSING

if TYPE_CHECKING:
    from ._schema import Schema

EXACT: tuple[Any, ...] = (str, int, float, bool, bytes)
"""Types whose values need no further check if they have exactly this type."""
_STRICT: pydantic.ConfigDict = {
    "arbitrary_types_allowed": True,
    "strict": True,
    "ser_json_bytes": "base64",
    "val_json_bytes": "base64",
    "ser_json_inf_nan": "strings",
}


@dataclasses.dataclass(frozen=True)
class TypeName:
    """A type that is known only by name, in a schema that was read from a dict."""

    text: str

    def __repr__(self) -> str:
        # As a class is printed, without its module.
        return self.text if "[" in self.text else self.text.rpartition(".")[2]


@dataclasses.dataclass(frozen=True)
class ObjectDefault:
    """A default that a dict can't hold, in a schema that was read from a dict."""

    text: str

    def __repr__(self) -> str:
        return f"<{self.text}>"


class FieldValidator(NamedTuple):
    """A user-defined check: `function(value)` returns the value to store, or raises a ValueError."""

    name: str
    before: bool
    function: Callable[[Any], Any]


@dataclasses.dataclass(frozen=True, eq=False)
class FieldSpec:
    """One field: its name, kind, type and options.

    `kind` is one of the kinds of `_kinds`: "tensor", "shared", "ragged", "nested", "collection", "value",
    "per_element" or "any". It answers what the field holds, for example `kind.is_ragged`. `annotation` is the type
    without `None` and metadata, `declared` the type as written, `metadata` the content of `Annotated` besides dtype
    and dims, `options` the mapping given to `field(metadata=...)`, `coerce` its conversion policy, `validators` the
    methods decorated with `field_validator`, `renamed_from` its former names, `since` the version that added it,
    `shadow` whether it may hide a method.
    """

    name: str
    kind: Kind
    annotation: Any
    declared: Any = None
    spec: TensorSpec | None = None
    nested: type | None = None
    nested_schema_: Schema | None = dataclasses.field(default=None, repr=False)
    optional: bool = False
    default: Any = MISSING
    default_factory: Any = MISSING
    doc: str | None = None
    join: str = "stack"
    fill: Any = 0
    produced: bool = False
    init: bool = True
    kw_only: bool = False
    repr: bool = True
    compare: bool = True
    metadata: tuple[Any, ...] = ()
    options: Mapping[Any, Any] = dataclasses.field(default_factory=dict)
    coerce: str | None = None
    validators: tuple[FieldValidator, ...] = dataclasses.field(default=(), repr=False)
    renamed_from: tuple[str, ...] = ()
    since: str | None = None
    shadow: bool = False

    @property
    def dtype(self) -> DTypeFamily | None:
        """The declared dtype family of a tensor field."""
        return None if self.spec is None else self.spec.dtype

    @property
    def dims(self) -> Dims | None:
        """The declared event dims of a tensor field; None for any shape."""
        return None if self.spec is None else self.spec.dims

    @property
    def has_default(self) -> bool:
        """Whether the constructor fills in the field if it is omitted."""
        return self.default is not MISSING or self.default_factory is not MISSING

    @property
    def required(self) -> bool:
        """Whether the constructor needs the field."""
        return self.init and not self.has_default

    @property
    def nested_schema(self) -> Schema | None:
        """The schema of a nested typed class."""
        if self.nested is None:
            return self.nested_schema_
        found: Any = getattr(self.nested, "__tensorclass_schema__", None)
        # The schema of a class may be a function without arguments.
        schema: Schema | None = found() if callable(found) else found  # pyright: ignore[reportAssignmentType]
        return schema

    @cached_property
    def adapter(self) -> pydantic.TypeAdapter[Any]:
        """The validator of a value field, or of one element of a `PerElement` field."""
        kind = self.annotation if self.kind.is_per_element or self.declared is None else self.declared
        if isinstance(kind, TypeName):
            kind = Any
        try:
            return pydantic.TypeAdapter(kind, config=_STRICT)
        except pydantic.PydanticUserError:  # models and dataclasses have their own config
            return pydantic.TypeAdapter(kind)

    def adapter_accepts(self, value: object) -> bool:
        """Whether a value is valid as it is for a value field, or for one element of a `PerElement` field."""
        try:
            self.adapter.validate_python(value)
        except pydantic.ValidationError:
            return False
        return True

    @property
    def takes_none(self) -> bool:
        """Whether None is one of the values of an element, and does not mean that the field is absent."""
        return self.kind.is_per_element and not self.optional and self.adapter_accepts(None)

    def __str__(self) -> str:
        return f"{self.type_text} | None" if self.optional else self.type_text

    @property
    def type_text(self) -> str:
        """The type for messages, without `| None`."""
        if self.nested is None and self.nested_schema_ is not None:
            return self.nested_schema_.name
        return self.kind.written.format(type_name(self.annotation) if self.spec is None else self.spec)

    @property
    def optional_hint(self) -> str:
        """How the field may be None. What messages show of a tensor type can't be written in a program."""
        return f"declare `{self} | None`" if self.spec is None else "add `| None` to its declaration"

    @property
    def default_text(self) -> str:
        """The default for messages; "" without one."""
        if self.produced:
            return "produced()"
        if self.default_factory is not MISSING:
            return f"{factory_name(self.default_factory)}()"
        return "" if self.default is MISSING else short(self.default)

    def replace(self, **changes: Any) -> FieldSpec:
        """The same field with some entries changed."""
        unknown = changes.keys() - _ENTRIES
        if unknown:
            raise ArgumentError(f"a field has no entry {sorted(unknown)[0]!r:.200}")
        new = object.__new__(FieldSpec)  # several times faster than dataclasses.replace
        entries = vars(new)
        entries.update(vars(self))
        entries.pop("adapter", None)  # the only cached value; it may not fit the new field
        entries.update(changes)
        return new

    def to_dict(self) -> dict[str, Any]:
        """The field as plain JSON types; a nested typed class by its name."""
        entry: dict[str, Any] = {"name": self.name, "kind": str(self.kind)}
        if self.spec is not None:
            entry["dtype"] = str(self.spec.dtype)
            entry["dims"] = None if self.spec.dims is None else str(self.spec.dims)
        elif self.kind.holds_objects or self.kind.is_collection:
            entry["type"] = type_name(self.annotation, full=True)
        entry["optional"] = self.optional
        entry.update({name: getattr(self, name) for name in _ALWAYS})
        if self.join in ("fill", "pad"):
            entry["fill"] = encode_default(self.fill)
        if self.produced:
            entry["produced"] = True
        given = {name: getattr(self, name) for name in _GIVEN}
        entry.update({name: list(one) if isinstance(one, tuple) else one for name, one in given.items() if one})
        if self.has_default:
            entry["default"] = encode_default(self.default, self.default_factory)
        return entry if self.doc is None else {**entry, "doc": self.doc}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FieldSpec):
            return NotImplemented
        return self is other or (self.layout() == other.layout() and self.nested_schema == other.nested_schema)

    def __hash__(self) -> int:
        return hash((self.name, self.kind, str(self.spec), self.optional))

    def layout(self) -> dict[str, Any]:
        """The form that field equality uses, without nested classes: `to_dict` without docs, dims in normal form."""
        entry = self.to_dict()
        for name in _ABOUT_INPUT:
            entry.pop(name, None)
        if self.spec is not None and self.spec.dims is not None:
            entry["dims"] = self.spec.dims.canonical
        return entry

    def __getstate__(self) -> dict[str, Any]:
        kept = {name: value for name, value in self.__dict__.items() if name not in ("adapter", "validators")}
        return {**kept, "options": dict(self.options)}  # a mapping proxy can't be pickled


_ALWAYS, _GIVEN = [
    [option.name for option in FIELD_OPTIONS.values() if option.saved == when] for when in ("always", "given")
]
_ABOUT_INPUT = [option.name for option in FIELD_OPTIONS.values() if option.is_about_input]
_ENTRIES = frozenset(entry.name for entry in dataclasses.fields(FieldSpec))


def short(value: object, width: int = 60) -> str:
    """The repr of a value, shortened to fit into a message."""
    if isinstance(value, Tensor) and value.numel() > 4:
        return f"tensor of {describe_tensor(value)}"
    text = " ".join(repr(value).split())
    return text if len(text) <= width else text[: width - 3] + "..."


def describe_tensor(value: Tensor) -> str:
    """Describe a tensor in a message: its dtype and shape."""
    return f"{dtype_name(value.dtype)} {list(value.shape)}"


def is_class(annotation: Any) -> TypeIs[type]:
    """Whether an annotation is a class; Python 3.10 says so of `list[int]` too."""
    return isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias)


def type_name(annotation: Any, full: bool = False) -> str:
    """A type as a reader would write it; `full` adds the module of classes that are not builtin."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return f"Annotated[{', '.join([type_name(inner[0], full), *map(str, inner[1:])])}]"
    if origin in (Union, types.UnionType):
        return " | ".join(type_name(part, full) for part in inner)
    if origin is Literal:
        return f"Literal[{', '.join(map(repr, inner))}]"
    if origin is not None and inner:
        return f"{type_name(origin, full)}[{', '.join(type_name(part, full) for part in inner)}]"
    if isinstance(annotation, list):  # the parameters of a Callable
        return f"[{', '.join(type_name(part, full) for part in annotation)}]"
    return _plain_name(annotation, full)


def _plain_name(annotation: Any, full: bool) -> str:
    """The name of an annotation without brackets; with `full`, with its module."""
    if annotation is ...:
        return "..."
    if annotation is types.NoneType:
        return "None"
    if isinstance(annotation, TypeName):
        return annotation.text if full else repr(annotation)
    if is_class(annotation):
        module = annotation.__module__
        return f"{module}.{annotation.__qualname__}" if full and module != "builtins" else annotation.__name__
    if isinstance(annotation, (str, DTypeFamily)):
        return str(annotation)
    name = getattr(annotation, "__name__", None)
    return str(name) if name is not None else repr(annotation).replace("typing.", "")


def factory_name(factory: Any) -> str:
    """The name of a default factory, which may have been read from a dict."""
    return factory.text if isinstance(factory, ObjectDefault) else type_name(factory)


def encode_default(value: Any, factory: Any = MISSING) -> dict[str, Any]:
    """A default as plain JSON types; a value that JSON can't hold is replaced by the name of its type."""
    if factory is not MISSING:
        return {"factory": factory_name(factory)}
    if isinstance(value, ObjectDefault):
        return {"object": value.text}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(value)}
    if value is None or type(value) in (bool, int, float, str):
        return {"value": value}
    if isinstance(value, Tensor) and not value.is_complex() and value.device.type != "meta":
        data = value.detach().to(torch.float64 if value.is_floating_point() else value.dtype)
        numbers = [encode_default(x) for x in data.flatten().tolist()]
        return {"tensor": numbers, "shape": list(value.shape), "dtype": dtype_name(value.dtype)}
    return {"object": type_name(type(value), full=True)}


def decode_default(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The `default` or `default_factory` that `encode_default` wrote, as arguments of `FieldSpec`."""
    if "factory" in entry:
        return {"default_factory": ObjectDefault(entry["factory"])}
    return {"default": _decode_value(entry)}


def _decode_value(entry: Mapping[str, Any]) -> Any:
    if "tensor" in entry:
        dtype = getattr(torch, entry["dtype"])
        values = [_decode_value(x) for x in entry["tensor"]]
        return torch.tensor(values).to(dtype).reshape(entry["shape"])
    if "float" in entry:
        return float(entry["float"])
    return ObjectDefault(entry["object"]) if "object" in entry else entry["value"]
