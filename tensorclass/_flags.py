"""Options that are True or False, and counts: what else is given is refused before a function runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import unwrap
from types import FunctionType
from typing import Any, Final, TypeVar

from .errors import ArgumentError

T = TypeVar("T", bound=Any)
_CALLED: Final = ("__init__", "__call__")
_BY_THEMSELVES: Final = frozenset({"flag", "_ask"})
_LIKE: Final = ("bool", "bool_", "SymBool")
"""The booleans of Python, numpy and torch by name, since nothing here loads them."""


def flag(**given: object) -> bool:
    """True; refuses options that are neither True nor False: a word such as "no" would count as true."""
    for name, value in given.items():
        if type(value) is not bool and type(value).__name__ not in _LIKE:
            raise ArgumentError(f"`{name}` is True or False, got {value!r:.80}")
    return True


def count(**given: object) -> None:
    """Refuse numbers that are not whole: text, floats, and booleans, which would count as 0 and 1."""
    for name, value in given.items():
        if type(value) is not int and (isinstance(value, bool) or not hasattr(type(value), "__index__")):
            raise ArgumentError(f"`{name}` is a whole number, got {value!r:.80}")


_KINDS: Final[dict[str, tuple[Callable[..., Any], bool]]] = {
    "bool": (flag, False), "bool | None": (flag, True), "int": (count, False), "int | None": (count, True),
}  # fmt: skip
"""The annotations of options: what looks at them, and whether None may be given."""


def flags(made: T) -> T:
    """A function, or each public method that a class defines, which refuses options and counts of another kind.

    Functions that call `flag` look at their options themselves: those that are called often, where no option is given.
    Operations check their dims, which may be names.

    >>> @flags
    ... def read(path, *, strict: bool = True): ...
    >>> read("a", strict="no")
    Traceback (most recent call last):
    tensorclass.errors.ArgumentError: `strict` is True or False, got 'no'
    """
    if not isinstance(made, type):
        return _asking(made)  # type: ignore[no-any-return]  # of the same signature
    for name, value in list(vars(made).items()):
        inner = getattr(value, "__func__", value)
        if isinstance(inner, FunctionType) and (name in _CALLED or not name.startswith("_")):
            asking = _asking(inner)
            if asking is not inner:
                setattr(made, name, asking if inner is value else type(value)(asking))
    return made  # pyright: ignore[reportReturnType]  # the class that was given


def _asking(function: Any) -> Any:
    code, annotations = unwrap(function).__code__, function.__annotations__
    named = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    kinds = {name: _KINDS[annotations[name]] for name in named if _is_asked(name, annotations.get(name))}
    if not kinds or not _BY_THEMSELVES.isdisjoint(code.co_names):
        return function
    placed = [(at, name) for at, name in enumerate(named[: code.co_argcount]) if name in kinds]

    @wraps(function)
    def asking(*args: Any, **kwargs: Any) -> Any:
        for name, value in kwargs.items():
            if name in kinds and not (value is None and kinds[name][1]):
                kinds[name][0](**{name: value})
        for at, name in placed:
            if at < len(args) and not (args[at] is None and kinds[name][1]):
                kinds[name][0](**{name: args[at]})
        return function(*args, **kwargs)

    return asking


def _is_asked(name: str, annotation: Any) -> bool:
    return annotation in _KINDS and name[0] != "_" and (not _is_dim(name) or annotation.startswith("bool"))


def _is_dim(name: str) -> bool:
    return "dim" in name and name != "batch_dims"
