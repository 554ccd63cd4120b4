"""Swaps of a module's tensors that `torch.compile` can trace: no plan, no lock, each level by itself."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from typing_extensions import Self

from ...core import Path, TensorCollection, join_path
from ...errors import StructureError, did_you_mean
from ...store import TensorDictParams


class Traced:
    """A swap inside compiled code, for a `with` block: holds the replaced tensors of each dict."""

    def __init__(self, placed: list[tuple[dict[str, Any], str, Any]]) -> None:
        self.placed = placed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        for held, name, value in self.placed:
            held[name] = value


def swap_traced(params: Any, module: nn.Module) -> Traced:
    """Replace the tensors of a module by those of a container, unchanged."""
    changes: list[tuple[dict[str, Any], str, Any]] = []
    _plan(module, params, (), changes, [])
    before = []
    for held, name, value in changes:
        before.append((held, name, held[name]))
        held[name] = value
    return Traced(before)


def _plan(module: nn.Module, params: Any, path: Path, changes: list[Any], seen: list[nn.Module]) -> None:
    given = dict(params._entries())
    for held in (module._parameters, module._buffers):
        for name, old in held.items():
            new = given.pop(name, None)
            if isinstance(new, Tensor) and old is not None:
                changes.append((held, name, new))
            elif new is not None or (old is not None and name not in module._non_persistent_buffers_set):
                raise _swap_error(module, path, name)
    for name, child in module._modules.items():
        below = given.pop(name, None)
        if child is None or any([child is other for other in seen]):
            continue
        seen.append(child)
        if isinstance(below, TensorCollection) and not isinstance(child, TensorDictParams):
            _plan(child, below, (*path, name), changes, seen)
        elif below is not None or any([True for _ in child.parameters()]):
            raise _swap_error(module, path, name)
    for name in given:
        raise _swap_error(module, path, name)


def _swap_error(module: nn.Module, path: Path, name: str) -> StructureError:
    names = [*module._parameters, *module._buffers, *module._modules]
    what = "does not fit what the container has for it" if name in names else f"is unknown{did_you_mean(name, names)}"
    return StructureError(f"to_module: `{join_path((*path, name))}` of {type(module).__name__} {what}")
