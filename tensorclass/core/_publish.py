"""Publishing: an operation over several entries prepares all of its changes, then makes them in one call.

A step is a call without arguments: it sets an attribute, changes a dict, or writes into the memory of tensors. All
checks, allocations and computations are done before the first step. Steps that torch may refuse come first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from threading import RLock
from typing import Any, Final, TypeAlias

from torch.compiler import is_dynamo_compiling

from .._system import release_in_forks

Step: TypeAlias = "partial[Any]"

_SHARED: Final = release_in_forks(RLock())
_CALL: Final[Callable[[Step], Any]] = partial.__call__
_consume: Final = deque[Any](maxlen=0).extend


def publish(steps: list[Step]) -> None:
    """Make prepared changes, in one call: no interrupt and no other thread comes between two of them.

    >>> from functools import partial
    >>> rows = []
    >>> publish([partial(rows.append, 1), partial(rows.append, 2)])
    >>> rows
    [1, 2]
    """
    if is_dynamo_compiling():
        for step in steps:
            step()
    else:
        _consume(map(_CALL, steps))


def each_row(fn: Callable[..., Any], *columns: Sequence[Any]) -> None:
    """Call a function written in C for each row of arguments, without bytecode between the calls.

    >>> rows = {}
    >>> each_row(rows.setdefault, ["a", "b"], [1, 2])
    >>> rows
    {'a': 1, 'b': 2}
    """
    if is_dynamo_compiling():
        for row in zip(*columns):  # noqa: B905  # columns of one length
            fn(*row)
    else:
        call_each(fn, *columns)


def call_each(fn: Callable[..., Any], *columns: Iterable[Any]) -> None:
    """As `each_row`, for code that is not traced."""
    _consume(map(fn, *columns))


def assign(holder: Any, **slots: Any) -> list[Step]:
    """The steps that set attributes of an object."""
    return [partial(setattr, holder, name, slots[name]) for name in slots]


def keep(values: Any) -> Step:
    """A step that keeps values alive until all steps are done: freeing a tensor lets other threads run."""
    return partial(id, values)


def sharing() -> AbstractContextManager[Any]:
    """A lock for writes to what several views share: between reading and replacing it nobody else writes."""
    return nullcontext() if is_dynamo_compiling() else _SHARED
