"""The short path of operations that treat all tensors alike: one call for the tensors of each level."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor

interpreters = torch._C._functorch.peek_interpreter_stack  # pyright: ignore[reportAttributeAccessIssue]  # a C module
FEW: Final = 3
"""Up to this number of tensors, a loop is faster than one foreach call."""
FEW_PAIRS: Final = 7
"""The same for functions of two lists."""


def at_once(self: Any, run: Callable[..., Any], other: Any = None, declared: bool = False) -> Any:
    """The hook `_combine`; on the store of a typed instance, if its declaration covers every result.

    With `declared`, the containers are in such an instance, so they must have a declaration too.
    """
    cls: Any = type(self)  # a fact that is read from the class is one guard of compiled code, not one for each base
    if not cls._layered:
        return None if declared else self._combine(run, other)
    own, there = self._store, None if other is None else other._store
    if not cls.__tensorclass__.floats or (there is not None and type(there) is not type(own)):
        return None
    store = own._combine(run, there, True)
    return None if store is None else cls._wrap(store)


def over_lists(function: Callable[..., Any], foreach: Callable[..., Any] | None, few: int) -> Callable[..., Any]:
    """A function of one or several lists of tensors: in one call, unless they are few or functorch needs a loop."""
    each = partial(map, function)
    if foreach is None:
        return each

    def run(*lists: list[Tensor]) -> Iterable[Tensor]:
        return foreach(*lists) if len(lists[0]) > few and interpreters() is None else each(*lists)

    return run
