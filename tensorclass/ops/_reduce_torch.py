"""Torch functions such as `torch.sum(batch, 0)`: each calls the method of the same name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor

from .._operations import REDUCTIONS
from ..errors import ArgumentError, UnsupportedOperationError
from ._operands import Pointwise

Function: TypeAlias = Callable[..., Any]


def register_torch_functions(methods: type[Pointwise]) -> None:
    """Register functions such as `torch.sum`, which call the methods even if fields have the same names."""
    for row in REDUCTIONS:
        if not hasattr(methods, row.name):  # a new row: the generator, which imports this, has not run yet
            continue
        handler = _handler(row.name, getattr(methods, row.name))
        if row.name == "norm":
            Pointwise._operators["norm"] = _norm_handler(methods)
        else:
            Pointwise._torch_functions[getattr(torch, row.name)] = handler
    Pointwise._operators["softmax"] = _softmax_handler(methods)  # `torch.nn.functional.softmax`


def _handler(name: str, method: Function) -> Function:
    """What the function of torch does with a container: the method of that name, where both mean the same."""
    pairwise: Function | None = {"min": torch.minimum, "max": torch.maximum}.get(name)

    def handle(input: Any, *args: Any, **kwargs: Any) -> Any:
        other = args[0] if args else kwargs.get("other")
        if pairwise is not None and isinstance(other, (Tensor, Pointwise)):  # `torch.max(a, b)`
            return pairwise(input, other)
        if not isinstance(input, Pointwise):
            raise UnsupportedOperationError(f"torch.{name}: the first argument is the container, got {input!r:.60}")
        if name in ("std", "var") and ("unbiased" in kwargs or True in [isinstance(a, bool) for a in args]):
            raise UnsupportedOperationError(f"torch.{name} on containers takes `correction=`, not `unbiased`")
        return method(input, *args, **kwargs)

    return handle


def _softmax_handler(methods: Any) -> Function:
    def handle(input: Any, dim: Any = None, _stacklevel: int = 3, dtype: torch.dtype | None = None) -> Any:
        if dim is None:
            raise ArgumentError("softmax: give the batch dim along which the results sum to one")
        return methods.softmax(input, dim, dtype)

    return handle


def _norm_handler(methods: Any) -> Function:
    """What `torch.norm` does with a container."""

    def handle(
        input: Any,
        p: Any = "fro",
        dim: Any = None,
        keepdim: bool = False,
        out: Any = None,
        dtype: torch.dtype | None = None,
    ) -> Any:
        if p not in ("fro", 2) or dim is not None or keepdim:
            raise UnsupportedOperationError(
                "torch.norm on containers is the Euclidean norm of every leaf over all its elements; use "
                "`batch.apply(lambda t: torch.linalg.vector_norm(t, ord, dim))` for another"
            )
        return methods.norm(input, out=out, dtype=dtype)

    return handle
