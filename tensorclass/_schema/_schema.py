"""The schema of a class: an immutable, hashable object with fields in order, which converts to JSON and back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from .._dims import why_no_name
from .._kinds import INIT_VAR, PENDING
from ..errors import ArgumentError, FrozenError, Problem, SchemaError, UnknownFieldError, did_you_mean
from ._diff import SchemaDiff
from ._json_schema import json_schema
from ._serial import canonical, read_entries, to_entries
from ._spec import FieldSpec, short, type_name

Resolver = Callable[["Schema"], "dict[str, FieldSpec]"]


class Schema:
    """What a class declares.

    Two schemas are equal if they describe the same data: fields, order, types and options; docs and class names may
    differ.

    Args:
        name: The name of the class.
        declared: Its fields and `InitVar` pseudo-fields, in constructor order.
        resolver: Resolves the fields with undefined forward references.
        removed: The names of fields of older versions, each with the version that removed it.
        policy: Further rules for accepted values, if they differ from the default: the options `validate` and `coerce`
            ("strict" for `nocast`, "cast" for `autocast`), and the names of the class validators as `checks`.

    >>> from torch import Tensor
    >>> from tensorclass import schema, tensorclass
    >>> from tensorclass.typing import Float32, Int64
    >>> @tensorclass
    ... class Digits:
    ...     image: Float32[Tensor, "1 8 8"]
    ...     label: Int64[Tensor, ""]
    >>> print(schema(Digits))
    Digits
      image  Float32["1 8 8"]
      label  Int64[""]
    """

    __slots__ = ("__weakref__", "_declared", "_digest", "_fields", "_resolver", "name", "policy", "removed", "renamed")
    name: str
    removed: Mapping[str, str]
    policy: Mapping[str, Any]
    renamed: Mapping[str, str]
    """The current field name for each former name."""

    def __init__(
        self,
        name: str,
        declared: Iterable[FieldSpec],
        resolver: Resolver | None = None,
        removed: Mapping[str, str] = MappingProxyType({}),
        policy: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        specs = {spec.name: spec for spec in declared}
        wrong = [problem for name in specs for problem in name_problems(name)]
        if wrong:
            raise SchemaError.of(name, wrong)
        pending = any(spec.kind is PENDING for spec in specs.values())
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "removed", removed)
        object.__setattr__(self, "policy", policy)
        object.__setattr__(self, "renamed", _former_names(specs))
        object.__setattr__(self, "_declared", specs)
        object.__setattr__(self, "_digest", "")
        object.__setattr__(self, "_fields", None if pending else _real_fields(specs))
        # A resolver keeps the class body and its locals alive, so drop it as soon as possible.
        object.__setattr__(self, "_resolver", resolver if pending else None)

    _declared: dict[str, FieldSpec]
    _digest: str
    _fields: Mapping[str, FieldSpec] | None
    _resolver: Resolver | None

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenError(f"a schema is immutable; `{name}` can't be set")

    def __delattr__(self, name: str) -> None:
        raise FrozenError(f"a schema is immutable; `{name}` can't be deleted")

    @property
    def fields(self) -> Mapping[str, FieldSpec]:
        """The fields by name, in order, with resolved forward references.

        Raises:
            SchemaError: if a forward reference can't be resolved.

        >>> print(schema(Digits).fields["image"])
        Float32["1 8 8"]
        """
        found = self._fields
        return self.resolve()._fields or {} if found is None else found

    @property
    def declared(self) -> Mapping[str, FieldSpec]:
        """Fields and `InitVar` pseudo-fields. Unresolved ones have the kind "pending".

        >>> list(schema(Digits).declared)
        ['image', 'label']
        """
        return MappingProxyType(self._declared)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the fields, without resolving forward references.

        >>> schema(Digits).names
        ('image', 'label')
        """
        return tuple(name for name, spec in self._declared.items() if spec.kind is not INIT_VAR)

    @property
    def init_vars(self) -> tuple[FieldSpec, ...]:
        """The `InitVar` pseudo-fields, which go to `__post_init__` only.

        >>> schema(Digits).init_vars
        ()
        """
        return tuple(spec for spec in self._declared.values() if spec.kind is INIT_VAR)

    @property
    def pending(self) -> tuple[str, ...]:
        """The names of the fields with unresolved forward references.

        >>> schema(Digits).pending
        ()
        """
        return tuple(name for name, spec in self._declared.items() if spec.kind is PENDING)

    def resolve(self) -> Schema:
        """Resolve forward references now, and return this schema.

        Raises:
            SchemaError: if a forward reference can't be resolved.

        >>> schema(Digits).resolve().pending
        ()
        """
        if self._fields is None and self._resolver is not None:
            self._settle(self._resolver(self))
        return self

    def _settle(self, declared: dict[str, FieldSpec]) -> None:
        """Store the final form of the fields, once."""
        object.__setattr__(self, "_declared", declared)
        object.__setattr__(self, "renamed", _former_names(declared))
        object.__setattr__(self, "_fields", _real_fields(declared))
        object.__setattr__(self, "_resolver", None)

    def __iter__(self) -> Iterator[FieldSpec]:
        return iter(self.fields.values())

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __getitem__(self, name: str) -> FieldSpec:
        try:
            return self.fields[name]
        except KeyError:
            raise UnknownFieldError(unknown_field(self, name)) from None

    def diff(self, other: Schema) -> SchemaDiff:
        """The changes from this schema to another one, and their effect on data of this one.

        >>> from tensorclass import TensorClass
        >>> class Old(TensorClass):
        ...     source: str = "scan"
        >>> class New(TensorClass):
        ...     source: str | None = None
        >>> print(schema(Old).diff(schema(New)))
        Old -> New
        ~ source: str = 'scan' -> str | None = None
        >>> schema(Old).diff(schema(New)).effect, schema(New).diff(schema(Old)).effect
        ('widening', 'breaking')
        """
        return SchemaDiff.between(self, other)

    def to_dict(self) -> dict[str, Any]:
        """The schema as plain JSON types; nested classes appear once, under `classes`.

        >>> sorted(schema(Digits).to_dict())
        ['fields', 'name']
        """
        return to_entries(self)

    @classmethod
    def from_dict(cls, entries: Mapping[str, Any]) -> Schema:
        """Read a result of `to_dict`. Types are known only by name; nothing is imported.

        Raises:
            SchemaError: if the mapping is not a schema.

        >>> Schema.from_dict(schema(Digits).to_dict()) == schema(Digits)
        True
        """
        return read_entries(entries, cls)

    def json_schema(self) -> dict[str, Any]:
        """The JSON Schema of one instance. For a tensor, it also has `dtype`, `dims` and `shape`.

        >>> found = schema(Digits).json_schema()["properties"]["image"]
        >>> found["dtype"], found["dims"], found["shape"]
        ('Float32', '1 8 8', [1, 8, 8])
        """
        return json_schema(self)

    @property
    def digest(self) -> str:
        """The sha256 of everything that `==` compares, in hex; the same in every process.

        >>> len(schema(Digits).digest)
        64
        """
        if not self._digest:  # a schema with a digest is resolved, and does not change any more
            text = json.dumps(canonical(self), sort_keys=True, separators=(",", ":"))
            object.__setattr__(self, "_digest", hashlib.sha256(text.encode()).hexdigest())
        return self._digest

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Schema):
            return NotImplemented
        return self is other or canonical(self) == canonical(other)

    def __hash__(self) -> int:
        return hash(self.names)

    def __str__(self) -> str:
        rows = [(spec.name, str(spec), spec.default_text, spec.doc or "") for spec in self]
        return "\n".join([self.name, *("  " + row for row in _table(rows))])

    def __repr__(self) -> str:
        return f"<Schema of {self.name}: {', '.join(self.names)}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return Schema, (self.name, list(self.resolve()._declared.values()), None, dict(self.removed), dict(self.policy))


def schema_of(cls: Any) -> Schema | None:
    """The schema of a typed class or its instance; None for anything else."""
    found: Any = getattr(cls if isinstance(cls, type) else type(cls), "__tensorclass_schema__", None)
    resolved: Schema | None = found if isinstance(found, Schema) or found is None else found()
    return resolved


def schema(cls: Any) -> Schema:
    """The schema of a typed class.

    Args:
        cls: The class, or an instance of it.

    Raises:
        TypeError: if it is not a typed class.
        SchemaError: if a forward reference of the class can't be resolved.

    >>> from tensorclass import TensorClass, schema
    >>> class Note(TensorClass):
    ...     text: str
    >>> schema(Note).fields["text"].kind
    'value'
    """
    found = schema_of(cls)
    if found is None:
        given = type_name(cls) if isinstance(cls, type) else f"an instance of {type_name(type(cls))}"
        raise ArgumentError(f"schema() takes a tensorclass or an instance of one, got {given}")
    return found.resolve()


def unknown_field(schema: Schema, name: str) -> str:
    """The message for a name that is not a field."""
    fields = ", ".join(schema.names) or "none"
    return f"{schema.name} has no field `{name}`; its fields are {fields}{did_you_mean(name, schema.names)}"


def name_problems(name: Any) -> list[Problem]:
    """The reasons why a string can't be a field name: fields are attributes, and arguments in generated source."""
    reason = why_no_name(name)
    return [Problem(short(name), "the name of a field", short(name), reason)] if reason else []


def _former_names(declared: Mapping[str, FieldSpec]) -> dict[str, str]:
    return {former: spec.name for spec in declared.values() for former in spec.renamed_from}


def _real_fields(declared: Mapping[str, FieldSpec]) -> Mapping[str, FieldSpec]:
    return MappingProxyType({name: spec for name, spec in declared.items() if spec.kind is not INIT_VAR})


def _table(rows: list[tuple[str, str, str, str]]) -> Iterator[str]:
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(4)]
    for name, kind, default, doc in rows:
        cells = [name.ljust(widths[0]), kind.ljust(widths[1])]
        if widths[2]:
            cells.append((f"= {default}" if default else "").ljust(widths[2] + 2))
        yield "  ".join([*cells, f"# {doc}" if doc else ""]).rstrip()
