"""The class of typed classes, and how checkers see what every instance has."""

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
    """How checkers see `batch_size`: an int or a sequence goes in, a `torch.Size` comes out."""

    def __get__(self, instance: object, owner: object) -> torch.Size:
        raise NotImplementedError

    def __set__(self, instance: object, value: Sequence[int] | int | None) -> None:
        raise NotImplementedError


class DeviceField:
    """How checkers see `device`."""

    def __get__(self, instance: object, owner: object) -> torch.device | None:
        raise NotImplementedError

    def __set__(self, instance: object, value: torch.device | str | int | None) -> None:
        raise NotImplementedError


class NamesField:
    """How checkers see `names`."""

    def __get__(self, instance: object, owner: object) -> list[str | None]:
        raise NotImplementedError

    def __set__(self, instance: object, value: Sequence[str | None] | None) -> None:
        raise NotImplementedError


if TYPE_CHECKING:
    Base = ABCMeta
else:
    Base = type(Protocol)  # below that of abstract classes: a typed class may have bases of both kinds


@dataclass_transform(eq_default=False, field_specifiers=(field, produced))
class Meta(Base):
    """The class of typed classes: it says what is wrong about `Digits.imgae`, and carries the dataclass transform.

    The transform sits on a metaclass because checkers take a class that names such a metaclass for neither frozen nor
    the contrary: `FrozenTensorClass` may then be a child of `TensorClass`.
    """

    if TYPE_CHECKING:  # pyright leaves `__init_subclass__` out where a metaclass has a `__new__`, as that of ABC has

        def __new__(
            mcs, name: str, bases: tuple[type, ...], space: dict[str, Any], /, *, frozen: bool | None = None,
            autocast: bool | None = None, nocast: bool | None = None, tensor_only: bool | None = None,
            shadow: bool | None = None, validate: Literal["schema", "values", "off"] | None = None,
            removed: Mapping[str, str] | Sequence[str] | None = None, **options: Any,
        ) -> Meta:  # fmt: skip
            """Options are those of the class."""
            raise NotImplementedError

    else:  # a checker would take it that every name exists
        # Of protocols only that they may be bases is wanted, not what they make of checks and comparisons.
        __instancecheck__ = type.__instancecheck__
        __subclasscheck__ = type.__subclasscheck__
        __eq__ = type.__eq__
        __hash__ = type.__hash__

        def __new__(mcs, name, bases, space, **options):
            cls = super().__new__(mcs, name, bases, space, **options)
            schema = vars(cls).get("__tensorclass_schema__")
            if schema is not None and cls.__abstractmethods__:  # a field is what an abstract property asks for
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
            # What `help` prints: the members that the program wrote. The hundreds of every container are in the docs.
            own = [vars(base) for base in cls.__mro__ if "__tensorclass_schema__" in vars(base)]
            return [name for name in names if not name.startswith("_") and any(name in space for space in own)]

        def getdoc(cls):
            """What `Row?` shows in IPython: the docstring, and the fields."""
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
        """What checkers take for the metaclass of frozen classes."""
else:
    FrozenMeta = Meta


copyreg.pickle(Meta, _build.reduce_class)
