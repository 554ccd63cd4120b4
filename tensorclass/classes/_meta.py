"""The metaclass of typed classes, and the types of common attributes for checkers."""

from __future__ import annotations

import copyreg
import inspect
import sys
from abc import ABCMeta
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import torch
from typing_extensions import Protocol, dataclass_transform

from .._schema import field, produced
from ..errors import ArgumentError
from . import _build


class BatchSizeField:
    """The type of `batch_size` for checkers: set an int or a sequence, get a `torch.Size`."""

    def __get__(self, instance: object, owner: object) -> torch.Size:
        raise NotImplementedError

    def __set__(self, instance: object, value: Sequence[int] | int | None) -> None:
        raise NotImplementedError


class DeviceField:
    """The type of `device` for checkers."""

    def __get__(self, instance: object, owner: object) -> torch.device | None:
        raise NotImplementedError

    def __set__(self, instance: object, value: torch.device | str | int | None) -> None:
        raise NotImplementedError


class NamesField:
    """The type of `names` for checkers."""

    def __get__(self, instance: object, owner: object) -> list[str | None]:
        raise NotImplementedError

    def __set__(self, instance: object, value: Sequence[str | None] | None) -> None:
        raise NotImplementedError


if TYPE_CHECKING:
    Base = ABCMeta
else:
    Base = type(Protocol)  # a subclass of `ABCMeta`: a typed class may have abstract bases and protocols


@dataclass_transform(eq_default=False, field_specifiers=(field, produced))
class Meta(Base):
    """The metaclass of typed classes: it raises the error for `Digits.imgae`, and carries the dataclass transform.

    The transform is on a metaclass because checkers then treat the base class as neither frozen nor writable:
    `FrozenTensorClass` may be a subclass of `TensorClass`.
    """

    if TYPE_CHECKING:  # pyright ignores `__init_subclass__` if a metaclass has a `__new__`, as `ABCMeta` has

        def __new__(
            mcs,
            name: str,
            bases: tuple[type, ...],
            space: dict[str, Any],
            /,
            *,
            frozen: bool | None = None,
            autocast: bool | None = None,
            nocast: bool | None = None,
            tensor_only: bool | None = None,
            shadow: bool | None = None,
            validate: Literal["schema", "values", "off"] | None = None,
            removed: Mapping[str, str] | Sequence[str] | None = None,
            **options: Any,
        ) -> Meta:
            """Options are those of the class."""
            raise NotImplementedError

    else:  # a checker would conclude that every name exists
        # Protocols may be bases, but must not change `isinstance` and `issubclass`.
        __instancecheck__ = type.__instancecheck__
        __subclasscheck__ = type.__subclasscheck__
        __eq__ = type.__eq__
        __hash__ = type.__hash__

        def __new__(mcs, name, bases, space, **options):
            cls = super().__new__(mcs, name, bases, space, **options)
            schema = vars(cls).get("__tensorclass_schema__")
            if schema is not None and cls.__abstractmethods__:  # a field implements an abstract property
                cls.__abstractmethods__ = cls.__abstractmethods__.difference(schema.names)
            return cls

        def register(cls, subclass):
            raise ArgumentError(
                f"{cls.__name__}.register: instances of other classes hold no fields of {cls.__name__}; make the class "
                "a subclass, or convert its instances with `from_any`"
            )

        @property
        def __signature__(cls):
            if "__tensorclass_root__" in vars(cls):
                raise AttributeError(f"{cls.__name__} declares no fields, so its constructor has no signature")
            return _build.signature(cls.__tensorclass_schema__)

        def __dir__(cls):
            names = super().__dir__()
            if sys._getframe(1).f_code is not inspect.classify_class_attrs.__code__:
                return names
            # `help` prints the members that the program defines. The hundreds of container methods are in the docs.
            own = [vars(base) for base in cls.__mro__ if "__tensorclass_schema__" in vars(base)]
            return [name for name in names if not name.startswith("_") and any(name in space for space in own)]

        def getdoc(cls):
            """The docstring and the fields, for `Row?` in IPython."""
            schema = cls.__dict__.get("__tensorclass_schema__", "")
            return "\n\n".join(filter(None, [inspect.cleandoc(cls.__doc__ or ""), str(schema)]))

        def __getattr__(cls, name):
            if name.startswith("_") or "__tensorclass_schema__" not in vars(cls):
                raise AttributeError(f"type object {cls.__name__!r:.200} has no attribute {name!r:.200}")
            if _build.is_pending(cls) and name in cls.__tensorclass_schema__.names:
                _build.complete(cls)
                return getattr(cls, name)
            raise _build.unknown_attribute(cls, name)


if TYPE_CHECKING:

    @dataclass_transform(eq_default=False, frozen_default=True, field_specifiers=(field, produced))
    class FrozenMeta(Meta):
        """The metaclass of frozen classes for checkers."""
else:
    FrozenMeta = Meta


copyreg.pickle(Meta, _build.reduce_class)
