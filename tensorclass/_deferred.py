"""What is imported at its first use: pydantic and torch's DTensor, each as long as a first class, and names of others.

A file imports `pydantic`, `pydantic_core` or `dtensor` from here, at its top, and names what it uses as
`pydantic.TypeAdapter`. Nothing may read an attribute of them while modules are imported and plain classes are declared.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from torch import Tensor

DTENSOR = "torch.distributed.tensor"

if TYPE_CHECKING:
    import pydantic as pydantic
    import pydantic_core as pydantic_core
    import torch.distributed.tensor as dtensor
else:

    class _Deferred(ModuleType):
        """A module that is imported when one of its attributes is read for the first time."""

        def __getattr__(self, name: str) -> Any:
            value = vars(self)[name] = getattr(import_module(self.__name__), name)
            return value

    pydantic, pydantic_core = _Deferred("pydantic"), _Deferred("pydantic_core")
    dtensor = _Deferred(DTENSOR)

__all__ = [
    "DTENSOR",
    "any_dtensor",
    "dtensor",
    "find_names_elsewhere",
    "is_dtensor",
    "is_pydantic_field",
    "pydantic",
    "pydantic_core",
]


def is_pydantic_field(value: object) -> bool:
    """Whether a value is a `Field(...)` of pydantic; where pydantic is not loaded, nothing is."""
    fields: Any = sys.modules.get("pydantic.fields")
    return fields is not None and isinstance(value, fields.FieldInfo)


def is_dtensor(value: object) -> bool:
    """Whether a value is a DTensor; where torch's DTensor is not loaded, nothing is."""
    if type(value) is Tensor:  # torch's `isinstance` takes ten times as long
        return False
    module: Any = sys.modules.get(DTENSOR)
    return module is not None and isinstance(value, getattr(module, "DTensor", ()))


def any_dtensor(values: Sequence[object]) -> bool:
    """Whether one of several values is a DTensor."""
    kinds = [*map(type, values)]
    if kinds.count(Tensor) == len(kinds):  # the common case
        return False
    kind = getattr(sys.modules.get(DTENSOR), "DTensor", None)
    return kind is not None and True in [issubclass(one, kind) for one in {*kinds}]


def find_names_elsewhere(names: dict[str, Any]) -> None:
    """Have a module find the public names of the package that it does not define, as those of `tensordict` import them.

    Args:
        names: The names of the module. Checkers don't see what is added, so they still report such an import.
    """
    module = names["__name__"]

    def find(name: str) -> Any:
        for place in () if name.startswith("_") else ("tensorclass", "tensorclass.nn", "tensorclass.base"):
            found = (
                vars(import_module(place)).get(name) if place == module else getattr(import_module(place), name, None)
            )
            if found is not None and not isinstance(found, ModuleType):
                return found
        raise AttributeError(f"module {module!r:.200} has no attribute {name!r:.200}")

    names["__getattr__"] = find
