"""Lenient typed classes: every annotation is read as `Any`, and a field may have any name."""

from __future__ import annotations

import sys
import typing
from collections.abc import Callable
from functools import wraps
from types import SimpleNamespace
from typing import Any, ClassVar, get_args, get_origin

import numpy as np
import torch
from torch import Tensor

from .. import NonTensorDataBase, NonTensorStack, TensorDict
from ..classes import FieldRef, TensorClass, tensorclass

_CAST: dict[Any, type] = {kind: kind for kind in (int, float, bool, str)}
_CAST |= {kind.__name__: kind for kind in (*_CAST, Tensor)} | {Tensor: Tensor, "torch.Tensor": Tensor}
"""What `autocast` converts to, by the annotation or its text."""
_KINDS = "__compat_kinds__"
_WRITTEN = "__compat_annotations__"


def _is_field(name: str, annotation: Any) -> bool:
    text = annotation if isinstance(annotation, str) else ""
    marked = "ClassVar" in text or "InitVar" in text or get_origin(annotation) is ClassVar or annotation is ClassVar
    return not (marked or name.startswith("_") or type(annotation).__name__ == "InitVar")


def _loosen(annotations: dict[str, Any]) -> dict[str, Any]:
    return {name: Any if _is_field(name, found) else found for name, found in annotations.items()}


def _kinds_of(annotations: dict[str, Any]) -> dict[str, type]:
    """What `autocast` makes of each field, by the annotation."""
    texts = {name: found for name, found in annotations.items() if isinstance(found, (str, type))}
    return {name: _CAST[found] for name, found in texts.items() if found in _CAST}


def _class_of(cls: Any, name: str) -> Any:
    """The typed class that the annotation of a field names; None if it names none or several."""
    written = SimpleNamespace(__annotations__={name: getattr(cls, _WRITTEN).get(name, Any)})
    known = {**vars(typing), **vars(sys.modules[cls.__module__]), cls.__name__: cls}
    try:
        found = typing.get_type_hints(written, known)[name]
    except (NameError, AttributeError, TypeError, SyntaxError):  # a class inside a function
        return None
    options = [*get_args(found), found]
    classes = [option for option in options if isinstance(option, type) and issubclass(option, TensorClass)]
    return classes[0] if len(classes) == 1 else None


def _give_classes(made: Any) -> Any:
    """An instance whose nested containers and dicts are instances of the classes that the annotations name."""
    for name in getattr(type(made), _WRITTEN):
        value = made.get(name)
        kind = _class_of(type(made), name) if type(value) in (dict, TensorDict) else None
        if kind is not None:
            whole = TensorDict(value, batch_size=made.batch_size) if type(value) is dict else value
            made.set(name, kind.from_tensordict(whole))
    return made


def _convert(cls: Any, name: str, value: Any) -> Any:
    """A value as a class of `tensordict` stores it: numbers, arrays and lists of numbers are tensors."""
    options = cls.__tensorclass_options__
    if (
        options.autocast
        and name in getattr(cls, _KINDS)
        and not isinstance(value, (dict, NonTensorDataBase, type(None)))
    ):
        wanted = getattr(cls, _KINDS)[name]
        return torch.as_tensor(value) if wanted is Tensor else wanted(value)
    if (options.nocast and type(value) is not list) or (options.autocast and type(value) is list):
        return value
    return _as_tensor(value)


def _as_tensor(value: Any) -> Any:
    if type(value) in (int, float, bool, np.ndarray):
        return torch.as_tensor(value)
    if type(value) is list:
        made = TensorDict(value=value).get("value") if value else torch.zeros(0)
        return made if type(made) is Tensor else value
    return value


def _follow(cls: Any) -> Any:
    """Have the fields of a class convert what is stored, and give objects that differ between elements as lists."""
    setters = cls.__tensorclass__.setters
    for name, field in [*vars(cls).items()]:
        if type(field) is FieldRef:
            get, write = _reader_of_lists(field.fget), _converting_setter(cls, name, field.fset)
            type.__setattr__(cls, name, FieldRef._of(cls, field._path, field._spec, get, write, field.fdel))
            setters |= {name: write} if name in setters else {}
    type.__setattr__(cls, "__init__", _converting_constructor(cls))
    for name in ("from_dict", "from_tensordict"):
        type.__setattr__(cls, name, _classes_given(getattr(cls, name).__func__))
    type.__setattr__(cls, "update", _converting_update(cls.update))
    return cls


def _reader_of_lists(plain: Any) -> Callable[[Any], Any]:
    def get(self: Any) -> Any:
        value = plain(self)
        return value._item() if type(value) is NonTensorStack else value

    return get


def _converting_setter(cls: Any, name: str, plain: Any) -> Callable[[Any, Any], None]:
    return lambda self, value: plain(self, _convert(cls, name, value))


def _converting_constructor(cls: Any) -> Callable[..., None]:
    """The constructor that converts values as `tensordict` does."""
    plain, names, fields = cls.__init__, cls.__match_args__, frozenset(cls.__tensorclass_schema__.fields)
    defaults = {name: field.default for name, field in cls.__dataclass_fields__.items()}
    numbers = {name: default for name, default in defaults.items() if type(default) in (int, float, bool)}

    @wraps(plain)
    def init(self: Any, *args: Any, **options: Any) -> None:
        given = dict(zip(names, args, strict=False)) | options
        if not given.get("batch_size"):  # a default that is a number is a tensor where it fits
            given = numbers | given
        made = {name: _convert(cls, name, value) if name in fields else value for name, value in given.items()}
        plain(self, *args[len(names) :], **made)

    return init


def _classes_given(plain: Any) -> Any:
    @wraps(plain)
    def make(cls: Any, *args: Any, **options: Any) -> Any:
        return _give_classes(plain(cls, *args, **options))

    return classmethod(make)


def _converting_update(plain: Any) -> Callable[..., Any]:
    @wraps(plain)
    def update(self: Any, source: Any, *args: Any, **options: Any) -> Any:
        if type(source) is dict:
            source = {key: _as_tensor(value) for key, value in source.items()}
        return plain(self, source, *args, **options)

    return update


class _LenientMeta(type(TensorClass)):  # type: ignore[misc]  # a metaclass that checkers see as ABCMeta
    """The metaclass of typed classes without declared types."""

    def __new__(mcs, name: str, bases: tuple[type, ...], space: dict[str, Any], /, **options: Any) -> Any:
        kinds = {key: kind for base in reversed(bases) for key, kind in getattr(base, _KINDS, {}).items()}
        written = {key: kind for base in reversed(bases) for key, kind in getattr(base, _WRITTEN, {}).items()}
        if "__annotations__" in space:
            kinds |= _kinds_of(space["__annotations__"])
            written |= space["__annotations__"]
            space["__annotations__"] = _loosen(space["__annotations__"])
        loose: dict[str, Any] = {"shadow": True, **options}
        made = super().__new__(mcs, name, bases, space, **loose)
        type.__setattr__(made, _KINDS, kinds)
        type.__setattr__(made, _WRITTEN, written)
        return _follow(made)


_META: Any = _LenientMeta
LenientTensorClass: Any = _META("TensorClass", (TensorClass,), {"__module__": __name__})
"""The `TensorClass` of the layer."""


def lenient_tensorclass(cls: Any = None, /, **options: Any) -> Any:
    """The `@tensorclass` of the layer; the options are those of `tensorclass`."""
    given: Any = {"shadow": True} | options
    decorate: Callable[[Any], Any] = tensorclass(**given)
    if cls is None:
        return lambda found: lenient_tensorclass(found, **options)
    if isinstance(cls, _LenientMeta):
        return cls
    written = getattr(cls, _WRITTEN, {}) | vars(cls).get("__annotations__", {})
    kinds = _kinds_of(vars(cls).get("__annotations__", {}))
    if not issubclass(cls, TensorClass) and "__annotations__" in vars(cls):
        cls.__annotations__ = _loosen(vars(cls)["__annotations__"])
    made = decorate(cls)
    type.__setattr__(made, _KINDS, getattr(cls, _KINDS, {}) | kinds)
    type.__setattr__(made, _WRITTEN, written)
    return _follow(made)
