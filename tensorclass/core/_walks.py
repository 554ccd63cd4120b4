"""Walks over the entries of a container at all depths."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from ._base import TensorCollection


def tensors_alone(collection: TensorCollection) -> list[Tensor] | None:
    """The tensors at all depths, in order; None if there are other entries, lazy stacks or nested tensors."""
    found: list[Tensor] | None = None if collection._stacked else []
    for value in () if found is None else collection._entries().values():
        alone = isinstance(value, Tensor) and not value.is_nested
        if isinstance(value, TensorCollection):
            inner = tensors_alone(value)
        elif alone:
            inner = [value]
        else:
            inner = None
        if inner is None or found is None:
            return None
        found += inner
    return found


def walk(
    collection: TensorCollection, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any, TensorCollection]]:
    """Every entry below a container, depth first: its path, its value, and its container."""
    for key, value in collection._entries().items():
        here = (*path, key)
        yield here, value, collection
        if isinstance(value, TensorCollection):
            yield from walk(value, here)
