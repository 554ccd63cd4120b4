"""pydantic and torch's DTensor, which are imported at their first use: each takes as long as a first class.

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

__all__ = ["DTENSOR", "any_dtensor", "dtensor", "is_dtensor", "is_pydantic_field", "pydantic", "pydantic_core"]


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
