"""The errors of a class's attributes: what was asked for, the nearest name, what to do."""

from __future__ import annotations

from typing import Any

from ..errors import MissingKeyError, SchemaError, StructureError, UnknownFieldError, did_you_mean
from ..errors import Problem as Problem


def unknown_field(cls: Any, name: str) -> MissingKeyError:
    """The error for a key that is no field."""
    fields = list(cls.__tensorclass_schema__.fields)
    return MissingKeyError(
        f"{cls.__name__} has no field `{name}`{did_you_mean(name, fields)}; its fields are {fields}. Fields are "
        "declared on the class; an untyped corner is a field of type TensorDict"
    )


def unknown_attribute(cls: Any, name: str) -> UnknownFieldError:
    """The error for an attribute that is neither a field nor a member of the class."""
    fields = list(cls.__tensorclass_schema__.fields)
    near = did_you_mean(name, fields) or did_you_mean(name, [n for n in dir(cls) if not n.startswith("_")])
    return UnknownFieldError(f"{cls.__name__} has no field or attribute `{name}`{near}; its fields are {fields}")


def cannot_drop(cls: Any, key: str) -> StructureError | MissingKeyError:
    """The error for removing a field that an instance can't be without."""
    if key not in cls.__tensorclass_schema__.fields:
        return unknown_field(cls, key)
    spec = cls.__tensorclass_schema__.fields[key]
    return StructureError(
        f"{cls.__name__}.{key} ({spec}) is required and can't be removed; declare it optional (`| None`), or take "
        "what you need with `batch.select(...)`"
    )


def clashes(name: str, names: list[str], members: dict[str, str]) -> SchemaError:
    """The error for fields that would hide members of the container."""
    problems = [
        Problem(field, "a name that no container member has", f"it would hide {members[field]}",
                "rename the field, or declare the class with `shadow=True`; the operation stays reachable as "
                f"`TensorDict.{field}(batch, ...)`")
        for field in names
    ]  # fmt: skip
    return SchemaError.of(name, problems)
