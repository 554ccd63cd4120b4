"""Functions of torch that take a container where torch itself asks for a mapping or a tensor."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import nn
from torch._functorch import apis

from .. import TensorCollection

_VMAP = torch.vmap
_LOAD = nn.Module.load_state_dict


@wraps(_VMAP)
def _vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """`torch.vmap`, where `out_dims=(0,)` also fits a function that returns one container."""
    if type(out_dims) is not tuple or len(out_dims) != 1:
        return _VMAP(func, in_dims, out_dims, randomness, chunk_size=chunk_size)

    def run_mapped(*args: Any, **options: Any) -> Any:
        alone = False

        def run(*parts: Any, **given: Any) -> Any:
            nonlocal alone
            found = func(*parts, **given)
            alone = isinstance(found, TensorCollection)
            return (found,) if alone else found

        result = _VMAP(run, in_dims, out_dims, randomness, chunk_size=chunk_size)(*args, **options)
        return result[0] if alone else result

    return run_mapped


@wraps(_LOAD)
def _load_state_dict(self: nn.Module, state_dict: Any, *args: Any, **options: Any) -> Any:
    """`Module.load_state_dict`, which also takes a container whose keys are joined."""
    state: Any = state_dict
    return _LOAD(self, dict(state.items()) if isinstance(state_dict, TensorCollection) else state, *args, **options)


def take_containers() -> None:
    """Have both functions take containers."""
    for place in (torch, torch.func, apis):
        setattr(place, "vmap", _vmap)  # noqa: B010  # a module that checkers see as one without this name
    nn.Module.load_state_dict = _load_state_dict  # type: ignore[method-assign]  # only after `install`
