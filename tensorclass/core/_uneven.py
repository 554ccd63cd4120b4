"""Nested tensors whose elements differ in several dims: torch's strided layout holds them, without a shape to read.

The jagged layout has only one dim of varying lengths. Other nested tensors stay in the strided layout, in a class that
answers for the shape, so that code for entries of any kind reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor


def _shape_of(value: Tensor) -> torch.Size:
    """The shape, with -1 for each dim in which elements differ."""
    shapes = [row.shape for row in value.unbind()]
    return torch.Size([len(shapes), *[sizes[0] if len(set(sizes)) == 1 else -1 for sizes in zip(*shapes, strict=True)]])


def _select(value: Tensor, index: Any) -> Any:
    """The element at an int, or the nested tensor of the elements at a slice, a mask or positions."""
    rows = value.unbind()
    found = torch.arange(len(rows))[index]
    return torch.nested.as_nested_tensor([rows[i] for i in found.tolist()]) if found.ndim == 1 else rows[int(found)]


def _get_item(value: Tensor, index: Any) -> Any:
    first = index[0] if isinstance(index, tuple) and len(index) == 1 else index
    whole = first is None or first is ... or isinstance(first, tuple)
    return value[index] if whole else _select(value, first)


def _compare(compare: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Any], Any]:
    def run(left: Tensor, right: Any) -> Any:
        if not (isinstance(right, Tensor) and right.is_nested):
            return compare(left, right)
        pairs = zip(left.unbind(), right.unbind(), strict=True)
        return torch.nested.as_nested_tensor([compare(a, b) for a, b in pairs])

    return run


def _copy_deeply(value: Tensor, memo: dict[int, Any]) -> Tensor:
    copied = memo[id(value)] = value.detach().clone().requires_grad_(value.requires_grad)
    return copied


def _copy_each(targets: Sequence[Tensor], sources: Sequence[Tensor], non_blocking: bool = False) -> None:
    for target, source in zip(targets, sources, strict=True):
        target.copy_(source, non_blocking)


def _cut(name: str) -> Callable[..., Any]:
    """Parts of the elements, as the method of this name cuts their positions."""
    return lambda value, *how: [_select(value, part) for part in getattr(torch.arange(value.size(0)), name)(*how)]


_ANSWERS: dict[Any, Any] = {
    Tensor.shape.__get__: _shape_of,  # type: ignore[attr-defined]  # a descriptor of torch
    Tensor.__len__: lambda value: value.size(0),
    Tensor.__getitem__: _get_item,
    Tensor.__deepcopy__: _copy_deeply,
    getattr(torch, "_foreach_copy_", None): _copy_each,
}
"""What torch lacks for these tensors."""
for _owner in (Tensor, torch):
    _ANSWERS |= {getattr(_owner, name): _compare(getattr(torch, name)) for name in ("eq", "ne")}
    _ANSWERS |= {getattr(_owner, name): _cut(name) for name in ("chunk", "split", "split_with_sizes")}


class UnevenTensor(Tensor):
    """A strided nested tensor whose elements differ in several dims; its shape has -1 for these."""

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            return _keep(_ANSWERS.get(func, func)(*args, **(kwargs or {})))


def _keep(found: Any) -> Any:
    if isinstance(found, (list, tuple)) and type(found) in (list, tuple):
        return type(found)(_keep(part) for part in found)
    return uneven(found) if type(found) is Tensor and found.is_nested and found.layout is torch.strided else found


def uneven(value: Tensor) -> UnevenTensor:
    """A strided nested tensor as one that has a shape, over the same memory."""
    return value.as_subclass(UnevenTensor)
