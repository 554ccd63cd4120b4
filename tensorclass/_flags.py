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


_HERE: Final = {
    "axis": "dim dims start_dim", "axes": "dims", "keepdims": "keepdim", "reduction": "reduce",
    "sep": "delimiter separator", "replace with_replacement": "replacement", "num_proc n_jobs": "num_workers",
    "seed random_state random_seed rng": "generator", "mask predicate function func fn": "keep fn",
    "n k num count size num_samples batch_size chunk_size": "n size chunks chunksize",
    "padding_value pad_value fill_value": "value",
    "values data rows tokens": "tensors",
    "path_or_buf f fp file file_name filename": "path prefix", "sections": "split_size chunks",
}  # fmt: skip
"""Keywords of pandas, torch, polars and numpy, and the options that users probably mean."""
_SAID: Final = {
    "ascending reverse": "`descending=True` has the largest first",
    "inplace": "the result is a new container: `batch = batch.{op}(...)`",
    "index as_index ignore_index": "rows have no index; every column is a field",
    "stable kind maintain_order na_position nulls_last": "equal rows keep their order; None and nan come last",
    "frac fraction": "`n` is a number of rows: `n=len(batch) // 2`", "weights": "`batch[weights.multinomial(n)]`",
    "axis dim": "it works along the rows; `transpose` first for another batch dim",
    "by keys key subset on": 'fields are named without a keyword: `{op}("a", "b")`',
    "columns items like regex include exclude usecols": "choose fields first: `batch.select(...)`",
    "offsets": "`lengths=offsets.diff()`",
    "orient as_series": "rows are `[row.to_dict() for row in batch]`", "copy": "`batch.clone()` copies",
    "sort dropna": "groups are in order; nan is one of them",
    "dtype": "cast first: `batch.to(dtype)`", "indent": "`json.dumps(json.loads(text), indent=2)`",
    "batched": "the function gets `chunksize` rows", "num_workers collate_fn": "`DataLoader` has workers",
}  # fmt: skip
"""Keywords of other libraries without an option here, and what to write instead."""


def _unexpected(function: Any, word: str) -> ArgumentError:
    """The error for an option that a function doesn't have."""
    code, op = unwrap(function).__code__, function.__name__
    op = function.__qualname__.split(".")[-2] if op == "__init__" else op
    names = [name for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] if name not in _SELF]
    meant = next((options.split() for words, options in _HERE.items() if word in words.split()), [])
    here = next((f"write `{name}=`" for name in meant if name in names), None)
    said = next((text.format(op=op) for words, text in _SAID.items() if word in words.split()), None)
    hint = f"; {here or said}" if here or said else did_you_mean(word, names)
    seeded = hint.replace("generator=", "generator=torch.Generator().manual_seed(0)")
    options = f"its options are {names}" if names else "it has no options"
    return ArgumentError(f"{op}() got an unexpected keyword argument `{word:.80}`{seeded}; {options}")


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
    """As `flags`; in addition, errors of every public method suggest options for names from other libraries.

    >>> @flags
    ... def draw(*, replacement: bool = False): ...
    >>> draw(replace=True)
    Traceback (most recent call last):
    tensorclass.errors.ArgumentError: draw() got an unexpected keyword argument `replace`; write `replacement=`; ...
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
                raise _unexpected(function, name)
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
