"""Lenient typed classes: every annotation is read as `Any`, and a field may have any name."""

from __future__ import annotations

import sys
import typing
from collections.abc import Callable
from dataclasses import MISSING
from functools import wraps
from types import SimpleNamespace
from typing import Any, ClassVar, Optional, get_args, get_origin

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
    return {name: Optional[Any] if _is_field(name, found) else found for name, found in annotations.items()}  # noqa: UP045


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


def _converter_of(cls: Any) -> Callable[[str, Any, Any], Any]:
    """A function of a field's name, a value and a batch size: the value as a class of `tensordict` stores it."""
    options, kinds = cls.__tensorclass_options__, getattr(cls, _KINDS)
    nocast, autocast = options.nocast, options.autocast

    def convert(name: str, value: Any, batch_size: Any) -> Any:
        if autocast and name in kinds and not isinstance(value, (dict, NonTensorDataBase, type(None))):
            wanted = kinds[name]
            return torch.as_tensor(value) if wanted is Tensor else wanted(value)
        if (nocast and type(value) is not list) or (autocast and type(value) is list):
            return value
        made = _as_tensor(value)
        return _each_its_own(made, batch_size) if type(made) is list else made

    return convert


def _each_its_own(values: list[Any], batch_size: Any) -> Any:
    """A list of objects as one for each row, if there are as many."""
    size = [batch_size] if isinstance(batch_size, int) else [*(batch_size or ())]
    return NonTensorStack(*values) if size and len(values) == size[0] else values


def _as_tensor(value: Any) -> Any:
    if type(value) in (int, float, bool, np.ndarray):
        return torch.as_tensor(value)
    if type(value) is list:
        made = TensorDict(value=value).get("value") if value else torch.zeros(0)
        return made if type(made) is Tensor else value
    return value


def _follow(cls: Any) -> Any:
    """Have the fields of a class convert what is stored, and give objects that differ between elements as lists."""
    setters, convert = cls.__tensorclass__.setters, _converter_of(cls)
    for name, field in [*vars(cls).items()]:
        if type(field) is FieldRef:
            get, write = _reader_of_lists(field.fget), _converting_setter(convert, name, field.fset)
            type.__setattr__(cls, name, FieldRef._of(cls, field._path, field._spec, get, write, field.fdel))
            setters |= {name: write} if name in setters else {}
    type.__setattr__(cls, "__init__", _converting_constructor(cls, convert))
    for name in ("from_dict", "from_tensordict"):
        type.__setattr__(cls, name, _classes_given(getattr(cls, name).__func__))
    type.__setattr__(cls, "update", _converting_update(cls.update))
    for name in ("select", "exclude"):
        type.__setattr__(cls, name, _class_kept(getattr(cls, name)))
    return cls


def _reader_of_lists(plain: Any) -> Callable[[Any], Any]:
    def get(self: Any) -> Any:
        value = plain(self)
        return value._item() if type(value) is NonTensorStack else value

    return get


def _converting_setter(convert: Any, name: str, plain: Any) -> Callable[[Any, Any], None]:
    return lambda self, value: plain(self, convert(name, value, self.batch_size))


def _class_kept(plain: Any) -> Any:
    """A choice of keys as an instance of the class; fields that were left out read as None."""

    @wraps(plain)
    def choose(self: Any, *keys: Any, **options: Any) -> Any:
        found = plain(self, *keys, **options)
        return found if type(found) is not TensorDict else type(self).from_tensordict(found)

    return choose


def _converting_constructor(cls: Any, convert: Any) -> Callable[..., None]:
    """The constructor that converts values as `tensordict` does."""
    plain, names, fields = cls.__init__, cls.__match_args__, frozenset(cls.__tensorclass_schema__.fields)
    own = [field for field in cls.__dataclass_fields__.values() if field.init and field.name in fields]
    required = [field.name for field in own if field.default is field.default_factory is MISSING]
    defaults = {name: field.default for name, field in cls.__dataclass_fields__.items()}
    numbers = {name: default for name, default in defaults.items() if type(default) in (int, float, bool)}

    @wraps(plain)
    def init(self: Any, *args: Any, **options: Any) -> None:
        given = dict(zip(names, args, strict=False)) | options
        size = given.get("batch_size")
        if not size:  # a default that is a number is a tensor where it fits
            given = numbers | given
        missing = [name for name in required if name not in given]
        if missing:
            raise TypeError(f"{cls.__name__}.__init__() missing required arguments: {', '.join(missing)}")
        made = {name: convert(name, value, size) if name in fields else value for name, value in given.items()}
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
    if isinstance(cls, _LenientMeta) and not options:
        return cls
    written = getattr(cls, _WRITTEN, {}) | vars(cls).get("__annotations__", {})
    kinds = _kinds_of(vars(cls).get("__annotations__", {}))
    if not issubclass(cls, TensorClass) and "__annotations__" in vars(cls):
        cls.__annotations__ = _loosen(vars(cls)["__annotations__"])
    made = decorate(cls)
    type.__setattr__(made, _KINDS, getattr(cls, _KINDS, {}) | kinds)
    type.__setattr__(made, _WRITTEN, written)
    made.__class__ = _LenientMeta  # for the classes that are derived from it
    return _follow(made)
