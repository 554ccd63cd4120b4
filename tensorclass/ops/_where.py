"""Chooses between entries of two containers, or of a container and a value, for `where`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .._deferred import any_dtensor
from ..core import ABSENT, Path, TensorCollection, broadcasts_to, join_path, over_events, store_of, without_stack
from ..errors import ArgumentError, BatchSizeError, StructureError
from ._compare import is_object
from ._distributed import refuse_mixtures
from ._lengths import holders


def stacked_below(twin: Any) -> Any:
    """A twin with lazy stacks as dense entries, since their members lack a dim of the condition."""
    if twin._tensors_by_key() is None and not twin._stacked:
        for key, value in twin._entries().items():
            if isinstance(value, TensorCollection):
                twin._put(key, stacked_below(without_stack(value)))
    return twin


def condition_over(condition: Any, size: torch.Size) -> Tensor:
    """Expand a condition so that it broadcasts to the batch size, dim by dim."""
    if not isinstance(condition, Tensor):
        raise ArgumentError(
            f"where: the condition is one bool tensor over the batch {list(size)}, got {type(condition).__name__}; "
            "choose field by field, `torch.where(mask.x, a.x, b.x)`, where each has a condition of its own"
        )
    shape = condition.shape + (1,) * (len(size) - condition.ndim)
    if condition.dtype is not torch.bool or not broadcasts_to(shape, size):
        raise BatchSizeError(
            f"where: the condition is a bool tensor that broadcasts to the batch size {list(size)}, got dtype "
            f"{condition.dtype} and shape {list(condition.shape)}"
        )
    return condition.reshape(shape)


def choose_leaves(
    frame: Any, whole: Sequence[Tensor], left: Sequence[Tensor], right: Sequence[Any], wide: Tensor, container: bool
) -> list[Tensor]:
    """One tensor for each leaf of the result, which `whole` lists.

    If one side lacks an entry, that of the other is used.

    For two containers, entries with their own rules about the batch are chosen later, as a whole.
    """
    new = []
    conditions = frame._broadcast(wide)
    sides = (conditions, left, right)
    for others in sides if any_dtensor([*whole, *left, *right, wide]) else ():
        refuse_mixtures("where", frame, whole, others)
    for leaf, a, b, over, holder in zip(whole, left, right, conditions, holders(frame), strict=True):
        side = isinstance(b, Tensor) and b.ndim == leaf.ndim
        later = side and container and holder is not None and a is leaf
        try:
            new.append(leaf if over is None or later else torch.where(over, a, b))
        except RuntimeError as error:
            path = frame._layout()[len(new)]
            raise StructureError(
                f"where: the two sides of `{path if isinstance(path, str) else join_path(path)}` do not broadcast to "
                f"one shape: {list(a.shape)} and {list(getattr(b, 'shape', ()))}"
            ) from error
    return new


def choose_entries(result: Any, other: Any, condition: Tensor, filled: bool, path: Path) -> None:
    """Choose between objects too. Tensors without batch dims must be equal on both sides.

    With `filled`, an object that one side lacks is taken from the other.
    """
    if result._stacked:
        stack = store_of(result)
        size = stack._batch_size
        parts = over_events(condition, len(size) - condition.ndim).expand(size).unbind(stack.stack_dim)
        for member, partner, part in zip(stack._members, stack._arrange(other)._members, parts, strict=True):
            choose_entries(member, partner, part, filled, path)
        return
    mine, theirs = result._entries(), other._entries()
    for key in {**mine, **theirs}:
        value, partner = mine.get(key, ABSENT), theirs.get(key, ABSENT)
        if isinstance(value, TensorCollection) and isinstance(partner, TensorCollection):
            choose_entries(value, partner, condition, filled, (*path, key))
        elif value is not ABSENT and partner is not ABSENT:
            result._choose_entry(key, value, partner, condition)
        elif not filled and is_object(partner if value is ABSENT else value):
            side = "right" if value is ABSENT else "left"
            raise StructureError(
                f"where: only the {side} side has `{join_path((*path, key))}`, a Python object; add it to the other or "
                "keep it with `pad=`"
            )
        elif value is ABSENT and is_object(partner):
            result._put(key, partner)
