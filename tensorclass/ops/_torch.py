"""torch functions on containers: `torch.stack([a, b])` calls the method `stack`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .._operations import JOINS, PARTS, RESHAPING
from ..core import TensorCollection
from ..errors import ArgumentError
from . import _losses, _new
from ._compare import equal
from ._join import join_containers
from ._operands import operation

METHODS: dict[Any, str] = {getattr(torch, name): name for name in (*RESHAPING, *PARTS)}
"""torch function -> the equivalent method of its first argument."""


def method(name: str) -> Callable[..., Any]:
    """A handler that calls a method of the first argument, with the parameter names of torch."""

    variadic = {"reshape": "shape", "permute": "dims"}.get(name, "")

    def handler(input: Any = None, *args: Any, **kwargs: Any) -> Any:
        receiver = kwargs.pop("tensor", None) if input is None else input
        if variadic in kwargs:
            args = (kwargs.pop(variadic),)
        return operation(receiver, name)(receiver, *args, **kwargs)

    return handler


def _where(condition: Any, input: Any = None, other: Any = None, *, out: Any = None) -> Any:
    receiver = next((side for side in (input, other) if isinstance(side, TensorCollection)), None)
    if receiver is None or not isinstance(condition, torch.Tensor):
        raise ArgumentError(
            f"torch.where: the condition is one bool tensor over the batch, got {type(condition).__name__}; choose "
            "field by field where each has a condition of its own"
        )
    choose = operation(receiver, "where")
    return choose(input, condition, other, out=out) if receiver is input else choose(other, ~condition, input, out=out)


def _split(tensor: Any, split_size_or_sections: Any, dim: int = 0) -> Any:
    return operation(tensor, "split")(tensor, split_size_or_sections, dim)


def register_torch_functions() -> None:
    """Fill the table that `__torch_function__` reads."""
    table = TensorCollection._torch_functions
    table.update({fn: method(name) for fn, name in METHODS.items()})
    table.update(_new.HANDLERS)
    table[torch.where] = _where
    table[torch.equal] = equal
    table.update(_losses.HANDLERS)
    table[torch.stack] = lambda tensors, dim=0, *, out=None: join_containers(tensors, dim, out, True)
    for name in JOINS[1:]:
        table[getattr(torch, name)] = lambda tensors, dim=0, *, out=None: join_containers(tensors, dim, out, False)
    table[torch.split] = _split


register_torch_functions()
