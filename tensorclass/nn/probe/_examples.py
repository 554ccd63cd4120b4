"""Python values for fields without a default, and what every value of a probe has in common."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NoReturn

import torch

from ..._schema import MISSING, FieldSpec
from ...classes._example import SeededSource
from ...core import TensorCollection
from ...errors import SchemaError
from ...store import NonTensorStack

_PLAIN = (str, bytes, float)
"""Types whose examples are used. An int may be a size, and a bool or an enum may choose between two shapes."""


_STRUCTURAL = re.compile(
    r"shape|size|dtype|dimension|\bdims?\b|channel|scalar type|same type|implemented for|has no attribute|argument|"
    r"NoneType|not subscriptable|not callable|not iterable|unsupported operand",
    re.IGNORECASE,
)


class Unknown(Exception):
    """Raised for a value without an example."""


def no_example(names: Sequence[str]) -> str:
    """Why a module is not probed."""
    fields = ", ".join(f"`{name}`" for name in names)
    return f"it uses the value of {fields}, and the check can't make up one: give the field a default"


class NoExample:
    """Takes the place of a value without an example. A module that uses it is not probed; one that passes it on is."""

    def __init__(self, name: str) -> None:
        self.__dict__["_name"] = name

    def _used(self, *_: object) -> NoReturn:
        raise Unknown(no_example([self.__dict__["_name"]]))

    @classmethod
    def __torch_function__(cls, *_: object) -> NoReturn:
        raise Unknown("it uses a value of a kind that the check can't make up")

    __getattr__ = __setattr__ = __getitem__ = __call__ = __iter__ = __len__ = __bool__ = __contains__ = _used
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __floordiv__ = _used
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __index__ = __int__ = __float__ = __hash__ = _used
    __rfloordiv__ = __mod__ = __pow__ = __neg__ = __fspath__ = __format__ = __str__ = __enter__ = __exit__ = _used


def example_of(spec: FieldSpec, name: str, size: torch.Size) -> tuple[Any, bool]:
    """The default of a field, or an example of its type; and whether it is an example.

    It is `NoExample` if the shapes of results could follow the value.
    """
    each, value = spec.kind.is_per_element, spec.default
    if spec.default_factory is not MISSING:
        value = spec.default_factory()
    made_up = value is MISSING or (value is None and not (spec.kind.is_value or spec.kind.is_nested))
    if made_up:
        value = NoExample(name)
        if spec.annotation in _PLAIN or (each and spec.annotation in (int, bool)):
            with suppress(SchemaError):  # no value meets the constraints
                value = SeededSource(0, {}).value(spec)
    return NonTensorStack.of(value, size) if each else value, made_up


def over_entries(value: Any, function: Callable[[Any], Any]) -> Any:
    """The result of a function for a value; for a container, with the results for its entries, at any depth."""
    if not isinstance(value, TensorCollection):
        return function(value)
    entries = {key: over_entries(entry, function) for key, entry in value._entries().items()}
    return type(value)._from_entries(entries, value._batch_size, value._device, value._names)


def is_structural(error: Exception) -> bool:
    """Whether an error is about shapes and types; other errors may be caused by made-up values."""
    if isinstance(error, (Warning, AssertionError)) or type(error).__name__ == "LinAlgError":
        return False
    return isinstance(error, (TypeError, AttributeError, NotImplementedError)) or bool(_STRUCTURAL.search(str(error)))


def follows_shapes(error: Exception) -> bool:
    """Whether an error is structural and names no made-up value. Torch asks a `NoExample`; Python names its class."""
    return is_structural(error) and not re.search(f"{NoExample.__name__}|example", str(error))
