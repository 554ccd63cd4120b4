"""Gradients and losses of torch for containers: leaf by leaf, under the same keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn import functional

from ..core import VALUES, TensorCollection, entries_by_path, tensors_by_path
from ..errors import ArgumentError, KeySetError
from ._mapping import MappingOps

LOSSES: Final = (functional.mse_loss, functional.l1_loss, functional.smooth_l1_loss, functional.huber_loss)


def grad(outputs: Any, inputs: Any, grad_outputs: Any = None, *args: Any, **options: Any) -> Any:
    """`torch.autograd.grad` for containers: returns a container of gradients, without unused inputs."""
    seeds = None if grad_outputs is None else _leaves(grad_outputs)
    found = iter(torch.autograd.grad(_leaves(outputs), _leaves(inputs), seeds, *args, **options))
    parts = (inputs,) if isinstance(inputs, (Tensor, TensorCollection)) else tuple(inputs)
    if len(parts) == 1 and isinstance(parts[0], TensorCollection):  # torch wraps a single input in a tuple
        return _gradients_at_paths(parts[0], found)
    return tuple(
        [_gradients_at_paths(part, found) if isinstance(part, TensorCollection) else next(found) for part in parts]
    )


def _leaves(value: Any) -> list[Tensor]:
    if isinstance(value, TensorCollection):
        return value._leaves(VALUES)
    return [value] if isinstance(value, Tensor) else [leaf for part in value for leaf in _leaves(part)]


def _gradients_at_paths(inputs: Any, gradients: Iterator[Tensor | None]) -> Any:
    leaves: list[Tensor] = []
    twin = inputs._open(leaves, VALUES)
    found = [next(gradients) for _ in leaves]
    if all([gradient is not None for gradient in found]):
        return twin._refill(found, inputs._batch_size, inputs._names, VALUES)
    by_leaf = {id(leaf): gradient for leaf, gradient in zip(leaves, found, strict=True)}
    paths = [(path, by_leaf.get(id(value))) for path, value in entries_by_path(inputs).items()]
    return inputs._relaid([(path, gradient) for path, gradient in paths if gradient is not None])


def loss(function: Callable[..., Tensor]) -> Callable[..., Any]:
    """Wrap a loss of torch for containers; without a reduction, the result keeps the batch size."""

    def handle(input: Any, target: Any, *args: Any, reduction: str = "mean", **options: Any) -> Any:
        name = function.__name__
        if not isinstance(input, TensorCollection) or not isinstance(target, TensorCollection):
            kinds = f"{type(input).__name__} and {type(target).__name__}"
            raise ArgumentError(f"{name}: both sides are containers of the same keys, got {kinds}")
        if input._batch_size != target._batch_size:
            raise ArgumentError(
                f"{name}: the sides have one batch size, got {list(input._batch_size)} and {list(target._batch_size)}"
            )
        mine, theirs = tensors_by_path(input), tensors_by_path(target)
        if mine.keys() != theirs.keys():
            raise KeySetError(f"{name}: the sides have the same tensors, got {sorted(mine)} and {sorted(theirs)}")
        result: Any = input._bare(input._batch_size if reduction == "none" else torch.Size())
        for path, value in mine.items():
            MappingOps.set(result, path, function(value, theirs[path], *args, reduction=reduction, **options))
        return result

    return handle


HANDLERS: Final[dict[Any, Callable[..., Any]]] = {
    torch.autograd.grad: grad,
    **{function: loss(function) for function in LOSSES},
}
