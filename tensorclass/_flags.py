"""Options that are True or False, counts, and names of options: anything else is refused before a function runs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from inspect import CO_VARARGS, CO_VARKEYWORDS, unwrap
from types import FunctionType
from typing import Any, Final, TypeVar

from .errors import ArgumentError, did_you_mean

T = TypeVar("T", bound=Any)
_SELF: Final = ("self", "cls")
_CALLED: Final = ("__init__", "__call__")
_BY_THEMSELVES: Final = frozenset({"flag", "_ask"})
_LIKE: Final = ("bool", "bool_", "SymBool")
"""The booleans of Python, numpy and torch by name, since nothing here imports them."""


def flag(**given: object) -> bool:
    """True. Refuses options that are neither True nor False: a string such as "no" would be truthy."""
    for name, value in given.items():
        if type(value) is not bool and type(value).__name__ not in _LIKE:
            raise ArgumentError(f"`{name}` is True or False, got {value!r:.80}")
    return True


def count(**given: object) -> None:
    """Refuse values other than integers: strings, floats, and booleans, which would count as 0 and 1."""
    for name, value in given.items():
        if type(value) is not int and (isinstance(value, bool) or not hasattr(type(value), "__index__")):
            raise ArgumentError(f"`{name}` is a whole number, got {value!r:.80}")


_KINDS: Final[dict[str, tuple[Callable[..., Any], bool]]] = {
    "bool": (flag, False),
    "bool | None": (flag, True),
    "int": (count, False),
    "int | None": (count, True),
}
"""The annotations of options: the check for each, and whether None is allowed."""


LIMITS: Final = {"ge": "Ge", "gt": "Gt", "le": "Le", "lt": "Lt", "multiple_of": "MultipleOf"}
"""Options of pydantic's `Field` -> what says the same in an annotation."""


def _unexpected_option_error(function: Any, word: str) -> ArgumentError:
    """The error for an option that a function doesn't have."""
    code, op = unwrap(function).__code__, function.__name__
    op = function.__qualname__.split(".")[-2] if op == "__init__" else op
    names = [name for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] if name not in _SELF]
    options = f"its options are {names}" if names else "it has no options"
    if op == "field" and word in LIMITS:
        limit = f'Annotated[Float32[Tensor, ""], annotated_types.{LIMITS[word]}(...)]'
        options = f"limits are part of the type: `{limit}`"
    return ArgumentError(
        f"{op}() got an unexpected keyword argument `{word:.80}`{did_you_mean(word, names)}; {options}"
    )


def _too_many(function: Any, args: tuple[Any, ...], most: int) -> ArgumentError:
    """The error for too many positional arguments."""
    skipped = sum([name in _SELF for name in unwrap(function).__code__.co_varnames[:1]])
    given = args[skipped:]
    sizes = (
        f"; several sizes are one argument: `{function.__name__}({given})`"
        if most > skipped and all([type(a) is int for a in given])
        else ""
    )
    return ArgumentError(f"{function.__name__}() takes {most - skipped} positional arguments, got {len(given)}{sizes}")


def answers(made: T) -> T:
    """As `flags`; in addition, unknown options of every public method are errors that list the options there are.

    >>> @answers
    ... def draw(*, replacement: bool = False): ...
    >>> draw(replace=True)
    Traceback (most recent call last):
    tensorclass.errors.ArgumentError: draw() got an unexpected keyword argument `replace`...
    """
    return flags(made, _every=True)


def flags(made: T, _every: bool = False) -> T:
    """Decorate a function, or the public methods of a class, to refuse options and counts of a wrong type.

    Functions that are often called without options check them by calling `flag` themselves. Operations check their
    dims, which may be names.

    >>> @flags
    ... def read(path, *, strict: bool = True): ...
    >>> read("a", strict="no")
    Traceback (most recent call last):
    tensorclass.errors.ArgumentError: `strict` is True or False, got 'no'
    """
    if not isinstance(made, type):
        return _asking(made, _every)  # type: ignore[no-any-return]  # same signature
    for name, value in list(vars(made).items()):
        inner = getattr(value, "__func__", value)
        if isinstance(inner, FunctionType) and (name in _CALLED or not name.startswith("_")):
            asking = _asking(inner, _every)
            if asking is not inner:
                setattr(made, name, asking if inner is value else type(value)(asking))
    return made  # pyright: ignore[reportReturnType]  # the given class


def _asking(function: Any, every: bool) -> Any:
    """The function with a check of its options before each call; the function itself if there is nothing to check."""
    code, annotations = unwrap(function).__code__, function.__annotations__
    named = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    kinds = {name: _KINDS[annotations[name]] for name in named if _is_asked(name, annotations.get(name))}
    if not every and (not kinds or not _BY_THEMSELVES.isdisjoint(code.co_names)):
        return function
    known = None if code.co_flags & CO_VARKEYWORDS else frozenset(named)
    placed = [(at, name) for at, name in enumerate(named[: code.co_argcount]) if name in kinds]
    most = sys.maxsize if code.co_flags & CO_VARARGS else code.co_argcount

    @wraps(function)
    def asking(*args: Any, **kwargs: Any) -> Any:
        for name, value in kwargs.items():
            if known is not None and name not in known:
                raise _unexpected_option_error(function, name)
            if name in kinds and not (value is None and kinds[name][1]):
                kinds[name][0](**{name: value})
        if len(args) > most:
            raise _too_many(function, args, most)
        for at, name in placed if placed and len(args) > placed[0][0] else ():
            if at < len(args) and not (args[at] is None and kinds[name][1]):
                kinds[name][0](**{name: args[at]})
        return function(*args, **kwargs)

    return asking


def _is_asked(name: str, annotation: Any) -> bool:
    return annotation in _KINDS and name[0] != "_" and (not _is_dim(name) or annotation.startswith("bool"))


def _is_dim(name: str) -> bool:
    return "dim" in name and name != "batch_dims"
