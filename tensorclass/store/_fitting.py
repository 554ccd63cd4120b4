"""How a nested container comes to fit its holder: its batch size and its dim names."""

from __future__ import annotations

import torch

from ..core import TensorCollection
from ..core._base import Names, check_names
from ..errors import BatchSizeError, StructureError


def fits(value: TensorCollection, size: torch.Size) -> bool:
    """Whether a nested container with fewer batch dims could take the holder's batch size."""
    if len(value._batch_size) >= len(size) or value._batch_size != size[: len(value._batch_size)]:
        return False
    try:
        value._check_size(size, ())
    except BatchSizeError:
        return False
    return True


def inner_names(names: Names, inner: Names, outer_dims: int, size: torch.Size) -> Names:
    """The dim names of a nested container, from those of its holder and its own."""
    if names is None and inner is None:
        return None
    tail: tuple[str | None, ...] = (None,) * (len(size) - len(names or ()))
    if inner is not None:
        tail = inner[outer_dims:]
    head = names if names is not None else (None,) * (len(size) - len(tail))
    joint = (*head, *tail)
    return joint if any(name is not None for name in joint) else None


def named_like(value: TensorCollection, names: tuple[str | None, ...], key: str) -> TensorCollection:
    """A nested container with the dim names of its holder; those that it has already must agree."""
    mine, ndim = value.names, len(names)
    if mine[:ndim] == list(names):
        return value
    for dim, (old, new) in enumerate(zip(mine, names, strict=False)):
        if old is not None and new is not None and old != new:
            raise StructureError(
                f"field `{key}`: batch dim {dim} is named {old!r} in the value and {new!r} in its holder; give them "
                "the same names with `rename`"
            )
    twin = value._twin()
    twin._set_names(check_names((*names, *mine[ndim:]), len(mine)))
    return twin
