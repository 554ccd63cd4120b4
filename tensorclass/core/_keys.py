"""Keys: strings, arbitrarily nested tuples of strings, and field references, all normalized to a path."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

import torch
from torch import Tensor
from typing_extensions import Unpack

from ..errors import ArgumentError, InvalidKeyError, Later


@runtime_checkable
class FieldPath(Protocol):
    """An object that names a field by its path, such as the reference `Digits.inputs.image`."""

    @property
    def __field_path__(self) -> tuple[str, ...]: ...


Path: TypeAlias = tuple[str, ...]
if TYPE_CHECKING:
    NestedKey: TypeAlias = "str | tuple[Any, ...]"
else:

    class _AnyKey(type):
        def __instancecheck__(cls, value: object) -> bool:
            if type(value) is tuple:
                return bool(value) and all([isinstance(part, cls) for part in value])
            return isinstance(value, str)

        def __repr__(cls) -> str:
            return "tensorclass.NestedKey"

    class NestedKey(metaclass=_AnyKey):
        """A key: a string, or a tuple of keys. A type of its own at run time, for `isinstance` and annotations.

        >>> from tensorclass import NestedKey
        >>> isinstance(("a", ("b", "c")), NestedKey), isinstance(["a"], NestedKey)
        (True, False)
        """

        @classmethod
        def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
            return handler(str | tuple[Any, ...])


Key: TypeAlias = "str | tuple[Any, ...] | FieldPath | Any"  # Any: checkers see `Digits.image` as the type of the field

Subscript: TypeAlias = "str | tuple[str, Unpack[tuple[Any, ...]]] | FieldPath"
"""The type of a key in brackets, for checkers: a tuple that starts with a string is a key, not an index."""

KEY_SEPARATOR = "."
_INDICES = frozenset({int, slice, bool, list, range, Tensor, type(None), type(Ellipsis)})
"""Types that are always an index, so that no further check is needed."""


def is_key(index: object) -> bool:
    """Whether `index` is a key rather than an index over the batch dims."""
    kind = type(index)
    if kind is str:
        return True
    if kind in _INDICES:
        return False
    if kind is tuple:
        for part in index:  # type: ignore[attr-defined]  # checked: a tuple
            if type(part) is not str and not is_key(part):
                return False
        return bool(index)
    return isinstance(index, (str, property)) or hasattr(kind, "__field_path__")  # dynamo sees references as properties


def is_seq_of_nested_key(seq: object) -> bool:
    """Whether an object is a sequence of keys.

    >>> from tensorclass.utils import is_seq_of_nested_key
    >>> is_seq_of_nested_key(["a", ("b", "c")]), is_seq_of_nested_key([1])
    (True, False)
    """
    return isinstance(seq, Sequence) and all([isinstance(part, NestedKey) for part in seq])  # pyright: ignore[reportArgumentType]  # a class at run time


def unravel_key_to_tuple(key: Key) -> Path:
    """Flatten a key to the tuple of its parts.

    Raises:
        TypeError: if a part is neither a string, a tuple nor a field reference, or if the key is empty.

    >>> unravel_key_to_tuple(("a", ("b", ("c",))))
    ('a', 'b', 'c')
    """
    if type(key) is str:
        return (key,)
    if type(key) is tuple and key:
        for part in key:
            if type(part) is not str:
                break
        else:
            return key
    parts: list[str] = []
    _collect(key, key, parts)
    if not parts:
        raise InvalidKeyError("a key is a string or a non-empty tuple of strings, got an empty tuple")
    return tuple(parts)


def _collect(key: Key, whole: Key, parts: list[str]) -> None:
    """Append the parts of a key to a list."""
    if isinstance(key, str):
        parts.append(str(key))
    elif isinstance(key, tuple):
        for part in key:
            _collect(part, whole, parts)
    else:
        path = getattr(key, "__field_path__", None)
        if path is None:
            inside = f" inside {whole!r}" if key is not whole else ""
            several = "; several keys are several arguments" if isinstance(key, list) else ""
            raise InvalidKeyError(
                f"a key is a string, a tuple of strings or a field reference, got {key!r} of type "
                f"{type(key).__name__}{inside}{several}"
            )
        # In dynamo, a reference is a property whose path can be indexed, but not iterated.
        parts += [path[0]] if type(key) is property else path


def unravel_key(key: Key) -> str | Path:
    """Flatten a key; a path of one part becomes a plain string.

    >>> unravel_key((("a",),)), unravel_key(("a", ("b",)))
    ('a', ('a', 'b'))
    """
    path = unravel_key_to_tuple(key)
    return path[0] if len(path) == 1 else path


def unravel_key_list(keys: Sequence[Key]) -> list[str | Path]:
    """Flatten each key of a list.

    >>> unravel_key_list(["a", ("b", ("c",))])
    ['a', ('b', 'c')]
    """
    if isinstance(keys, str) or not hasattr(keys, "__iter__"):
        raise ArgumentError(f"a sequence of keys is expected, such as ['a', ('b', 'c')]; got {keys!r:.200}")
    return [unravel_key(key) for key in keys]


def unravel_keys(*keys: Key) -> str | Path | tuple[str | Path, ...]:
    """Flatten one or several keys given as arguments.

    >>> unravel_keys(("a", ("b",)), "c")
    (('a', 'b'), 'c')
    """
    return unravel_key(keys[0]) if len(keys) == 1 else tuple(unravel_key(key) for key in keys)


def join_path(path: Sequence[str]) -> str:
    """A path as printed in messages: `inputs.image`."""
    return KEY_SEPARATOR.join(path)


def later(tell: Callable[..., str], *given: Any) -> Later | str:
    """A lazy message, for errors that are often caught and dropped. Compiled code gets the text."""
    return tell(*given) if torch.compiler.is_compiling() else Later(tell, *given)
