"""Classes on load: found by their stored name among those that are imported, and held to what they declare today."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from .._schema import Schema, schema_of
from ..classes import TensorClass
from ..core import store_of
from ..errors import SchemaError
from ..store import TensorDict
from ._format import ClassPart


def find_class(part: ClassPart) -> Any:
    """The class that a file names, when it is imported; None otherwise. Nothing is imported, no code of it is run.

    A class that is defined in a function has no place in its module: of those with the name, the one with the stored
    digest is taken.
    """
    found: Any = sys.modules.get(part.module)
    for name in part.name.split("."):
        found = getattr(found, "__dict__", {}).get(name)
    if isinstance(found, type) and _fits(found, part):
        return found
    for cls in _below(TensorClass.__mro__[1]):
        if cls.__qualname__ == part.name and cls.__module__ == part.module and digest_of(cls) == part.digest:
            return cls
    return None


def _fits(cls: type, part: ClassPart) -> bool:
    return schema_of(cls) is not None if part.digest is not None else issubclass(cls, TensorDict)


def _below(cls: Any) -> Iterator[Any]:
    for child in cls.__subclasses__():
        yield child
        yield from _below(child)


def digest_of(cls: Any) -> str | None:
    """The digest of a class, None where its declaration can't be resolved."""
    try:
        schema = schema_of(cls)
        return None if schema is None else schema.digest
    except SchemaError:
        return None


def typed(cls: Any, built: Any, part: ClassPart | None, path: str, infer: bool = False) -> Any:
    """A container that was read as an instance of a class: old names, defaults and removed fields are applied.

    Args:
        cls: the class as it is today.
        built: the container; declared fields that were None are entries that are None.
        part: what the file says about the class, when it says something.
        path: for messages.
        infer: find the batch size by what is declared, as the file says none.

    Raises:
        SchemaError: with what changed since the file was written, and with every problem.
    """
    try:
        return _typed(cls, built, infer)
    except SchemaError as error:
        raise SchemaError(_told(cls, part, path, error), error.problems, error.cls_name) from None


def _typed(cls: Any, built: Any, infer: bool) -> Any:
    if isinstance(built, cls):
        return built
    store = store_of(built)
    if store._stacked:
        members = [_typed(cls, member, infer)._store for member in store._members]
        return cls._wrap(store._with(members)._joined_by(cls))
    new = cls._from_nesting(store._entries(), None if infer else store._batch_size, None, None)
    if store._device is not None:
        new._set_device(store._device)
    if store._names is not None:
        new._set_names(store._names)
    return new


def _told(cls: Any, part: ClassPart | None, path: str, error: SchemaError) -> str:
    """The whole message: the file, what changed, what does not fit."""
    lines = [f"{path}: its data does not fit {cls.__name__}"]
    if part is not None and part.fields is not None:
        try:
            difference = Schema.from_dict(part.fields).diff(schema_of(cls))  # type: ignore[arg-type]  # it has one
        except (SchemaError, RecursionError):
            difference = None
        if difference:
            lines += ["since the file was written the class has changed:", *str(difference).splitlines()]
    return "\n".join([*lines, str(error), "`TensorDict.load(path)` reads it without the class"])
