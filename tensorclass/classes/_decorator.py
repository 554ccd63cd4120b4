"""The decorator: turns an annotated class into the class that subclassing TensorClass gives."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Literal, TypeVar, get_origin, overload

from typing_extensions import dataclass_transform

from .._options import CLASS_OPTIONS
from .._schema import field, produced
from ..errors import ArgumentError, did_you_mean
from ._base import TensorClass
from ._build import reconfigure
from ._validators import Validator

C = TypeVar("C", bound=type)


@overload
def tensorclass(cls: C, /) -> C: ...
@overload
def tensorclass(
    *,
    autocast: bool = False,
    frozen: bool = False,
    nocast: bool = False,
    tensor_only: bool = False,
    shadow: bool = False,
    validate: Literal["schema", "values", "off"] = "schema",
    removed: Mapping[str, str] | Sequence[str] = (),
) -> Callable[[C], C]: ...
@dataclass_transform(eq_default=False, field_specifiers=(field, produced))
def tensorclass(cls: Any = None, /, **options: Any) -> Any:
    """Turn an annotated class into a typed class.

    Args:
        cls: the class; its annotations are the fields.
        autocast: convert values to the declaration before they are validated.
        frozen: refuse every write to instances.
        nocast: never convert Python numbers and arrays to tensors.
        tensor_only: refuse fields that hold no tensors when the class is defined.
        shadow: allow field names that hide container methods.
        validate: "schema" checks types, dtypes, shapes and dims; "values" also constraints such as `Ge`; "off" nothing.
        removed: fields of older versions, which loaders ignore: names, or a mapping of names to the versions that
            removed them.

    Raises:
        SchemaError: for an invalid declaration; names the class, the field and the fix.

    >>> import torch
    >>> from torch import Tensor
    >>> from tensorclass import tensorclass
    >>> from tensorclass.typing import Float32, Int64
    >>> @tensorclass
    ... class Digits:
    ...     image: Float32[Tensor, "8 8"]
    ...     label: Int64[Tensor, ""]
    >>> batch = Digits(image=torch.zeros(32, 8, 8), label=torch.zeros(32, dtype=torch.int64))
    >>> batch[:4].batch_size
    torch.Size([4])
    """
    if cls is None:
        return lambda found: tensorclass(found) if not options else _decorate(found, options)
    return _decorate(cls, options)


def _decorate(cls: Any, options: dict[str, Any]) -> Any:
    """The class with the options; any other class becomes a typed one."""
    if not isinstance(cls, type):
        raise ArgumentError(f"tensorclass decorates a class, got {cls!r:.200}; options are given by keyword")
    unknown = sorted(options.keys() - CLASS_OPTIONS.keys())
    if unknown:
        near = did_you_mean(unknown[0], CLASS_OPTIONS)
        raise ArgumentError(
            f"tensorclass has no option {unknown[0]!r:.200}{near}; options are {', '.join(CLASS_OPTIONS)}"
        )
    if issubclass(cls, TensorClass):
        if options:
            reconfigure(cls, options)
        return cls
    return _rebuild(cls, options)


_MADE_BY_PYTHON = frozenset((
    "__dict__", "__weakref__", "__orig_bases__", "__abstractmethods__", "_abc_impl", "_is_protocol",
    "_is_runtime_protocol", "__protocol_attrs__", "__non_callable_proto_members__", "__parameters__",
))  # fmt: skip
"""The names that Python adds to a class body; the new class gets its own."""


def _rebuild(cls: type, options: dict[str, Any]) -> type:
    """Rebuild the class body as a subclass of TensorClass.

    The `__class__` cell of its methods is replaced, so that `super()` works.
    """
    body = {k: v for k, v in vars(cls).items() if k not in _MADE_BY_PYTHON}
    bases = tuple(base for base in vars(cls).get("__orig_bases__", cls.__bases__) if base is not object)
    generic = tuple(base for base in bases if get_origin(base) is Generic or base is Generic)
    others = tuple(base for base in bases if base not in generic)
    new = types.new_class(cls.__name__, (*others, TensorClass, *generic), options, lambda ns: ns.update(body))
    new.__qualname__ = cls.__qualname__
    for member in body.values():
        _rebind(member, cls, new)
    return new


def _rebind(member: Any, old: type, new: type) -> None:
    """Replace the old class by the new one in the closures of a member."""
    if isinstance(member, property):
        for function in (member.fget, member.fset, member.fdel):
            _rebind(function, old, new)
        return
    member = member.function if isinstance(member, Validator) else member
    function = getattr(member, "__func__", member)
    for cell in getattr(function, "__closure__", None) or ():
        try:
            if cell.cell_contents is old:
                cell.cell_contents = new
        except ValueError:  # an empty cell
            continue


def is_tensorclass(obj: object) -> bool:
    """Whether an object is a typed class or an instance of one.

    >>> from tensorclass import TensorDict, is_tensorclass
    >>> is_tensorclass(TensorDict())
    False
    """
    cls = obj if isinstance(obj, type) else type(obj)
    return issubclass(cls, TensorClass)
