"""Cuts all levels of a container into pieces in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any

import torch
from torch import Tensor

from ..core import Entry, Names, TensorCollection
from ..errors import BatchSizeError


def chunk_sizes(total: int, chunks: int) -> list[int]:
    """The sizes of the pieces that `torch.chunk` makes of a dim."""
    if not isinstance(chunks, int) or chunks < 1:
        raise BatchSizeError(f"chunk: the number of pieces is an int of at least 1, got {chunks!r:.80}")
    step = -(-total // chunks)
    if not step:
        return [0] * chunks
    return [step] * (total // step) + ([total % step] if total % step else [])


def split_levels(store: Any, cut: Any, sizes: Sequence[torch.Size], names: Names, at: int) -> list[Any] | None:
    """Containers from the pieces of every leaf, in one pass; None for the general path."""
    data = store._data.copy() if isinstance(store, TensorCollection._dense) else None
    if not data:
        return None
    plain, device, make = store._plain, store._device, store._of  # after the copy: other writes clear the flag first
    pieces: list[Any] = []
    for value in data.values():
        if plain or type(value) is Tensor:
            pieces.append(cut(value, at))
        elif isinstance(value, TensorCollection):
            inner: Any = value._store if value._layered else value  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]  # a class over a store
            alike = len(inner._batch_size) == len(store._batch_size)
            found = split_levels(inner, cut, sizes, names, at) if alike else None
            if found is None:
                return None
            pieces.append(found if inner is value else map(value._wrap, found))  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]  # as above
        elif isinstance(value, (Tensor, Entry)):
            return None
        else:
            pieces.append(repeat(value))
    made = []
    for size, column in zip(sizes, zip(*pieces)):  # noqa: B905  # a keyword takes time
        row = data.copy()
        for key, piece in zip(row, column):  # noqa: B905  # as above
            row[key] = piece
        made.append(make(row, size, device, names, plain))
    return made if len(made) == len(sizes) else None
