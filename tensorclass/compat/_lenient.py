"""Lenient typed classes: every annotation is read as `Any`, and a field may have any name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, get_origin

from ..classes import TensorClass, tensorclass


def _is_field(name: str, annotation: Any) -> bool:
    text = annotation if isinstance(annotation, str) else ""
    marked = "ClassVar" in text or "InitVar" in text or get_origin(annotation) is ClassVar or annotation is ClassVar
    return not (marked or name.startswith("_") or type(annotation).__name__ == "InitVar")


def _loosen(annotations: dict[str, Any]) -> dict[str, Any]:
    return {name: Any if _is_field(name, found) else found for name, found in annotations.items()}


class _LenientMeta(type(TensorClass)):  # type: ignore[misc]  # a metaclass that checkers see as ABCMeta
    """The metaclass of typed classes without declared types."""

    def __new__(mcs, name: str, bases: tuple[type, ...], space: dict[str, Any], /, **options: Any) -> Any:
        if "__annotations__" in space:
            space["__annotations__"] = _loosen(space["__annotations__"])
        loose: dict[str, Any] = {"shadow": True, **options}
        return super().__new__(mcs, name, bases, space, **loose)


_META: Any = _LenientMeta
LenientTensorClass: Any = _META("TensorClass", (TensorClass,), {"__module__": __name__})
"""The `TensorClass` of the layer."""


def lenient_tensorclass(cls: Any = None, /, **options: Any) -> Any:
    """The `@tensorclass` of the layer; the options are those of `tensorclass`."""
    given: Any = {"shadow": True} | options
    decorate: Callable[[Any], Any] = tensorclass(**given)
    if cls is None:
        return lambda found: lenient_tensorclass(found, **options)
    if not issubclass(cls, TensorClass) and "__annotations__" in vars(cls):
        cls.__annotations__ = _loosen(vars(cls)["__annotations__"])
    return cls if isinstance(cls, _LenientMeta) else decorate(cls)
