"""The class of typed classes."""

from __future__ import annotations

import copyreg
from typing import TYPE_CHECKING

from typing_extensions import dataclass_transform

from .._schema import field, produced
from . import _build


@dataclass_transform(eq_default=False, field_specifiers=(field, produced))
class Meta(type):
    """The class of typed classes: it says what is wrong about `Digits.imgae`, and carries the dataclass transform.

    The transform sits on a metaclass because checkers take a class that names such a metaclass for neither frozen nor
    the contrary: `FrozenTensorClass` may then be a child of `TensorClass`.
    """

    if not TYPE_CHECKING:  # a checker would take it that every name exists

        @property
        def __signature__(cls):
            if "__tensorclass_root__" in vars(cls):
                raise AttributeError(f"{cls.__name__} declares no fields, so its constructor has no signature")
            return _build.signature(cls.__tensorclass_schema__)

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
