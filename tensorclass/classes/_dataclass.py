"""Convert plain dataclasses to typed classes, and their instances to instances of these."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping, Sequence
from itertools import compress
from typing import Any, get_type_hints

from .._flags import flags
from .._options import SWITCHES
from .._schema import field
from ..core import Classes, Device
from ..errors import ArgumentError, UnsupportedOperationError
from ..ops._conversions import ConversionOps
from ._base import TensorClass

_CONVERTED = Classes()


@flags
def from_dataclass(
    obj: Any,
    *,
    dest_cls: type | None = None,
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
    batch_size: Sequence[int] | int | None = None,
    frozen: bool = False,
    autocast: bool = False,
    nocast: bool = False,
    inplace: bool = False,
    shadow: bool = False,
    tensor_only: bool = False,
    device: Device = None,
) -> Any:
    """Convert a dataclass to a typed class, or an instance of a dataclass to an instance of that class.

    Args:
        obj: a dataclass or an instance of one; a typed class is returned unchanged.
        dest_cls: for an instance, the typed class of the result; by default the class that is made, once, from the
            dataclass.
        auto_batch_size: find the longest common batch size; excludes `batch_size`.
        batch_dims: find the batch size with at most this many dims.
        batch_size: the leading dims that all fields share.
        frozen: refuse writes to instances. This and the next options are those of the new class; see `tensorclass`.
        autocast: convert values to the declaration.
        nocast: never convert numbers and arrays to tensors.
        inplace: not supported, since a class can't become a typed class; assign the result, or use `@tensorclass`.
        shadow: allow field names that hide container methods.
        tensor_only: refuse fields that hold no tensors.
        device: the device of the instance.

    Raises:
        TypeError: for anything but a dataclass.
        SchemaError: for values that don't fit the annotations.

    >>> import torch
    >>> from dataclasses import dataclass
    >>> from tensorclass import from_dataclass
    >>> @dataclass
    ... class Data:
    ...     obs: torch.Tensor
    ...     note: str = "none"
    >>> from_dataclass(Data(torch.zeros(3, 4)), batch_size=[3])
    Data_tc(batch_size=[3], fields={obs: f32[4], note: str = 'none'})
    """
    if inplace:
        raise UnsupportedOperationError(
            "from_dataclass(inplace=True): a dataclass can't become a typed class in place; bind the result "
            "(`Data = from_dataclass(Data)`), or decorate the class with `@tensorclass`"
        )
    options = tuple(compress(SWITCHES, (frozen, nocast, autocast, tensor_only, shadow)))
    if not dataclasses.is_dataclass(obj):
        raise ArgumentError(f"from_dataclass takes a dataclass or an instance of one, got {obj!r:.80}; see `from_any`")
    if isinstance(obj, type):
        return _typed_class_of(obj, options)
    found = _typed_class_of(type(obj), options) if dest_cls is None else _destination(dest_cls)
    sizing: Any = {"auto_batch_size": auto_batch_size, "batch_dims": batch_dims, "batch_size": batch_size}
    return found.from_dataclass(obj, device=device, **sizing)


def _destination(found: Any) -> type[TensorClass]:
    if not (isinstance(found, type) and issubclass(found, TensorClass)):
        raise ArgumentError(f"from_dataclass: dest_cls is a typed class, got {found!r:.200}")
    return found


def _typed_class_of(cls: type, options: tuple[str, ...]) -> type[TensorClass]:
    """The typed class of a dataclass; it is made once for each set of options."""
    if issubclass(cls, TensorClass):
        return cls
    made: type[TensorClass] = _CONVERTED.get((cls, options), lambda: _make(cls, options))
    return made


def _make(cls: type, options: tuple[str, ...]) -> type[TensorClass]:
    body: dict[str, Any] = {"__annotations__": _annotations(cls), "__module__": cls.__module__, "__doc__": cls.__doc__}
    body.update(_members(cls))
    for item in dataclasses.fields(cls):
        declared = _declaration(item)
        if declared is not None:
            body[item.name] = declared
    keywords = dict.fromkeys(options, True)
    made: Any = types.new_class(f"{cls.__name__}_tc", (TensorClass,), keywords, lambda ns: ns.update(body))
    return made  # type: ignore[no-any-return]  # a subclass of TensorClass


def _annotations(cls: type) -> dict[str, Any]:
    try:
        hints: Mapping[str, Any] = get_type_hints(cls, include_extras=True)
    except NameError:  # a forward reference, which the new class resolves at its first use
        hints = {}
    return {item.name: hints.get(item.name, item.type) for item in dataclasses.fields(cls)}


def _declaration(item: Any) -> Any:
    """The default of a field in the form of typed classes; None for a plain required field."""
    extras: dict[str, Any] = {} if item.init else {"init": False}
    if item.kw_only:
        extras["kw_only"] = True
    if item.default is not dataclasses.MISSING:
        extras["default"] = item.default
    if item.default_factory is not dataclasses.MISSING:
        extras["default_factory"] = item.default_factory
    return field(**extras) if extras else None


def _members(cls: type) -> dict[str, Any]:
    """The members of the dataclass besides its fields: methods, properties, constants."""
    names = {item.name for item in dataclasses.fields(cls)}
    return {
        name: member
        for base in reversed(cls.__mro__)
        if base is not object
        for name, member in vars(base).items()
        if name not in names and (name == "__post_init__" or not (name.startswith("__") and name.endswith("__")))
    }


ConversionOps._dataclass_as_class = staticmethod(from_dataclass)
