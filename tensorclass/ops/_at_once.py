"""The short path of operations that treat all tensors alike: one call for the tensors of all levels."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

from torch import Tensor

from ._writable import interpreters as interpreters

FEW: Final = 3
"""Up to this number of tensors, a loop is faster than one foreach call."""
FEW_PAIRS: Final = 7
"""The same for functions of two lists."""


def at_once(
    self: Any,
    run: Callable[..., Any],
    other: Any = None,
    declared: bool = False,
    above: Any = None,
    checked: int = 2,
) -> Any:
    """The method `_combine` of a store, for a typed instance that of its own; None for the general path.

    Args:
        self: the container.
        run: see `TensorCollection._combine`.
        other: another container; None for a function of one list.
        declared: the container is in a typed instance, so it must have a declaration too.
        above: see `TensorCollection._combine`.
        checked: whether a typed class must declare the results: 2 if they may be of another dtype, 1 if only where
            leaves are neither floating nor integers. Those of another dtype or shape take the general path.
    """
    cls: Any = type(self)  # a fact that is read from the class is one guard of compiled code, not one for each base
    typed = cls._layered
    if declared > typed:
        return None
    own, there = self, other
    if typed:
        own, there = self._store, None if other is None else other._store
    if there is not None and type(there) is not type(own):
        return None
    try:
        store = own._combine(run, there, cls.__tensorclass__ if typed else None, above, checked)
    except (RuntimeError, TypeError):  # NotImplementedError if the store has no such method; torch may refuse a tensor
        return None
    return cls._wrap(store) if typed and store is not None else store


def over_lists(function: Callable[..., Any], foreach: Callable[..., Any] | None, few: int) -> Callable[..., Any]:
    """A function of one or several lists of tensors: in one call, unless they are few or functorch needs a loop."""
    each = partial(map, function)
    if foreach is None:
        return each

    def run(*lists: list[Tensor]) -> Iterable[Tensor]:
        return foreach(*lists) if len(lists[0]) > few and interpreters() is None else each(*lists)

    return run
