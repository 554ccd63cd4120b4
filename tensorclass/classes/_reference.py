"""Field references: `Digits.image` on the class is the reference, on an instance the value.

A reference is a property that knows its field, so reading a field is as fast as reading a property.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._schema import FieldSpec, Schema
from ..errors import UnknownFieldError, did_you_mean


class FieldRef(property):
    """A reference to a field of a typed class, such as `Digits.image` or `Digits.inputs.image`.

    It can replace a string key: `batch.get(Digits.image)`, `TensorClassModule(net, in_fields=Digits.image, ...)`.

    >>> from torch import Tensor
    >>> from tensorclass import TensorClass
    >>> from tensorclass.typing import Float32
    >>> class Digits(TensorClass):
    ...     image: Float32[Tensor, "8 8"]
    >>> Digits.image
    Digits.image: Float32["8 8"]
    """

    _owner: type
    _path: tuple[str, ...]
    _spec: FieldSpec

    @classmethod
    def _of(
        cls,
        owner: type,
        path: tuple[str, ...],
        spec: FieldSpec,
        fget: Callable[[Any], Any],
        fset: Callable[[Any, Any], None] | None,
        fdel: Callable[[Any], None] | None = None,
    ) -> FieldRef:
        ref = cls(fget, fset, fdel, spec.doc)
        ref._owner, ref._path, ref._spec = owner, path, spec
        ref.__doc__ = spec.doc  # a subclass of property would show its own docstring
        return ref

    @property
    def __field_path__(self) -> tuple[str, ...]:
        """The path of the field in its class."""
        return self._path

    def __getattr__(self, name: str) -> FieldRef:
        """A reference to a field of a nested typed class."""
        if name.startswith("__"):
            raise AttributeError(name)
        nested: Any = self._spec.nested
        here = f"{self._owner.__name__}.{'.'.join(self._path)}"
        if nested is None:
            raise UnknownFieldError(f"`{here}` is {self._spec}, not a tensorclass, so it has no field `{name}`")
        schema: Schema = nested.__tensorclass_schema__
        spec = schema.fields.get(name)
        if spec is None:
            raise UnknownFieldError(
                f"`{here}` is a {nested.__name__}, which has no field "
                f"`{name}`{did_you_mean(name, list(schema.fields))}; its fields are {list(schema.fields)}"
            )
        outer, inner = self.fget, vars(_definer(nested, name))[name].fget
        assert outer is not None  # a reference always has a getter
        return FieldRef._of(self._owner, (*self._path, name), spec, lambda obj: inner(outer(obj)), None)

    def __repr__(self) -> str:
        return f"{self._owner.__name__}.{'.'.join(self._path)}: {self._spec}"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FieldRef):
            return NotImplemented
        return self._owner is other._owner and self._path == other._path

    def __hash__(self) -> int:
        return hash((self._owner, self._path))

    def __reduce__(self) -> tuple[Any, ...]:
        return _resolve, (self._owner, self._path)


def _definer(cls: type, name: str) -> type:
    return next(base for base in cls.__mro__ if name in vars(base))


def _resolve(owner: type, path: tuple[str, ...]) -> Any:
    ref: Any = owner
    for part in path:
        ref = getattr(ref, part)
    return ref
