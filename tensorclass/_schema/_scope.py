"""Annotations of a class body as types: strings and forward references are evaluated in the scope of the class."""

from __future__ import annotations

import builtins
import functools
import inspect
import operator
import sys
import types
import typing
from collections import ChainMap
from collections.abc import Mapping, MutableMapping
from typing import Any, ClassVar, ForwardRef, get_args, get_origin

if sys.version_info >= (3, 14):
    import annotationlib


def own_annotations(cls: type) -> dict[str, Any]:
    """The unevaluated annotations of the class body, without those of its bases."""
    if sys.version_info >= (3, 14):
        return annotationlib.get_annotations(cls, format=annotationlib.Format.FORWARDREF)
    return dict(inspect.get_annotations(cls))


def is_private(name: str, annotation: Any) -> bool:
    """Whether an annotated name is a private attribute."""
    if not (isinstance(name, str) and name.startswith("_") and name.isidentifier() and name != "_"):
        return False
    text = annotation if isinstance(annotation, str) else ""
    return not any(word in text for word in ("ClassVar", "KW_ONLY", "InitVar")) and not _is_marker(annotation)


def _is_marker(annotation: Any) -> bool:
    return annotation is ClassVar or get_origin(annotation) is ClassVar or type(annotation).__name__ == "InitVar"


class Scope:
    """The scope in which names in the annotations of a class or a function are looked up.

    Args:
        cls: The class, or the function; its name is defined here before it is defined in the module.
        globalns: The globals; by default those of the module of the class.
        localns: The locals where the class is defined.
    """

    def __init__(
        self,
        cls: type | types.FunctionType,
        globalns: Mapping[str, Any] | None = None,
        localns: Mapping[str, Any] | None = None,
    ) -> None:
        self.cls = cls
        self.globals = globalns
        self.locals = localns if localns is not None else {}

    def evaluate(self, annotation: Any) -> Any:
        """Evaluate an annotation to a type.

        Raises:
            NameError: if a name in it is not defined (yet).
        """
        if not is_open(annotation):
            return annotation
        globalns = self.globals
        if globalns is None:
            module = sys.modules.get(self.cls.__module__)
            globalns = {} if module is None else vars(module)
        try:
            return _evaluate(annotation, globalns, self._names(globalns, {}))
        except NameError:
            # A class defined later in the same function: its name is a local of a caller.
            return _evaluate(annotation, globalns, self._names(globalns, _callers_names(self.cls.__module__)))

    def _names(self, globalns: Mapping[str, Any], frames: Mapping[str, Any]) -> MutableMapping[str, Any]:
        # The class body comes last: a default that is named like a type must not hide it.
        own = {self.cls.__name__: self.cls}
        return ChainMap(*map(dict, (own, self.locals, frames, globalns, vars(builtins), vars(self.cls))))


def is_open(annotation: Any) -> bool:
    """Whether an annotation contains a string or forward reference."""
    if isinstance(annotation, (str, ForwardRef)):
        return True
    inner = () if type(annotation) is type else get_args(annotation)
    origin = get_origin(annotation) if inner else None
    if origin is typing.Literal:
        return False
    inner = inner[:1] if origin is typing.Annotated else inner
    return True in [is_open(part) for part in inner if part is not annotation]


def _evaluate(annotation: Any, globalns: Mapping[str, Any], names: MutableMapping[str, Any]) -> Any:
    for _ in range(8):  # a string may evaluate to a string
        if not isinstance(annotation, str):
            break
        annotation = eval(annotation, dict(globalns), names)
    if not is_open(annotation):
        return annotation
    if sys.version_info < (3, 11):
        annotation = _refer_strings(annotation)
    carrier = type("Carrier", (), {"__annotations__": {"it": annotation}})
    return typing.get_type_hints(carrier, dict(globalns), dict(names), include_extras=True)["it"]


def _refer_strings(annotation: Any) -> Any:
    """Replace strings inside an annotation by forward references; Python 3.10 does not do it in `list["Item"]`."""
    if not is_open(annotation) or not hasattr(annotation, "__args__"):
        return annotation
    builtin = isinstance(annotation, types.GenericAlias)
    parts = [
        ForwardRef(part) if builtin and isinstance(part, str) else _refer_strings(part) for part in annotation.__args__
    ]
    if builtin:
        return types.GenericAlias(annotation.__origin__, tuple(parts))  # pyright: ignore[reportArgumentType]  # a class, for these two
    if isinstance(annotation, types.UnionType):
        return functools.reduce(operator.or_, parts)
    return annotation.copy_with(tuple(parts))


def _callers_names(module: str) -> dict[str, Any]:
    """The names that callers in a module see: locals of functions, and globals of code run by `exec` (doctests)."""
    found: dict[str, Any] = {}
    frame = sys._getframe(1).f_back
    while frame is not None:
        if frame.f_globals.get("__name__") == module:
            found = {**frame.f_locals, **found}
        frame = frame.f_back
    return found
