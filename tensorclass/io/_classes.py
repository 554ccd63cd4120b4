"""Classes on load: found by their stored name among imported classes. The data is checked against their declaration."""

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
    """The class that a file names, if it is imported; None otherwise.

    Nothing is imported, and no code of the class runs.

    A class that is defined in a function is not an attribute of its module. Among the classes of that name, the one
    with the stored digest is used.
    """
    found: Any = sys.modules.get(part.module)
    for name in part.name.split("."):
        found = getattr(found, "__dict__", {}).get(name)
    if isinstance(found, type) and _fits(found, part):
        return found
    for cls in _classes_below(TensorClass.__mro__[1]):
        if cls.__qualname__ == part.name and cls.__module__ == part.module and digest_of(cls) == part.digest:
            return cls
    return None


def _fits(cls: type, part: ClassPart) -> bool:
    return schema_of(cls) is not None if part.digest is not None else issubclass(cls, TensorDict)


def _classes_below(cls: Any) -> Iterator[Any]:
    for child in cls.__subclasses__():
        yield child
        yield from _classes_below(child)


def digest_of(cls: Any) -> str | None:
    """The digest of a class; None if its declaration can't be resolved."""
    try:
        schema = schema_of(cls)
        return None if schema is None else schema.digest
    except SchemaError:
        return None


def typed(cls: Any, built: Any, part: ClassPart | None, path: str, infer: bool = False) -> Any:
    """Convert a container that was read to an instance of a class; applies old names, defaults and removed fields.

    Args:
        cls: the class as it is today.
        built: the container; declared fields that were None are entries that are None.
        part: the description of the class in the file, if there is one.
        path: for messages.
        infer: find the batch size from the declaration, for files without one.

    Raises:
        SchemaError: lists what changed since the file was written, and every problem.
    """
    try:
        return _build_typed(cls, built, infer)
    except SchemaError as error:
        raise SchemaError(_loading_error(cls, part, path, error), error.problems, error.cls_name) from None


def _build_typed(cls: Any, built: Any, infer: bool) -> Any:
    """An instance of a class around what was built without one."""
    if isinstance(built, cls):
        return built
    store = store_of(built)
    if store._stacked:
        members = [_build_typed(cls, member, infer)._store for member in store._members]
        return cls._wrap(store._with_members(members)._joined_by(cls))
    new = cls._from_nesting(store._entries(), None if infer else store._batch_size, None, None)
    if store._device is not None:
        new._set_device(store._device)
    if store._names is not None:
        new._set_names(store._names)
    return new


def _loading_error(cls: Any, part: ClassPart | None, path: str, error: SchemaError) -> str:
    """The message: the file, what changed, what doesn't fit."""
    lines = [f"{path}: its data does not fit {cls.__name__}"]
    if part is not None and part.fields is not None:
        try:
            difference = Schema.from_dict(part.fields).diff(schema_of(cls))  # type: ignore[arg-type]  # it has one
        except (SchemaError, RecursionError):
            difference = None
        if difference:
            lines += ["since the file was written the class has changed:", *str(difference).splitlines()]
    return "\n".join([*lines, str(error), "`TensorDict.load(path)` reads it without the class"])
