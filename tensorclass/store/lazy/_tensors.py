"""Tensors of different shapes as one: padded, nested, or one dense container of both kinds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ...core import TensorCollection, is_typed, store_of
from ...errors import ArgumentError, StructureError, UnsupportedOperationError
from .._dict import TensorDict
from . import _entries as entries


def as_padded(values: Sequence[Any], dim: int, side: str, fill: float, key: str) -> Tensor:
    """Stack tensors along a dim, each padded to the largest size of every dim.

    Raises:
        ValueError: for a side that is neither "left" nor "right".
        StructureError: for values that are not tensors, and for tensors of different ranks.
    """
    if side not in ("left", "right"):
        raise ArgumentError(f"padding_side is 'left' or 'right', got {side!r:.200}")
    flat = [as_padded(value, dim, side, fill, key) if isinstance(value, list) else value for value in values]
    tensors = _tensors(flat, key)
    if len({tensor.ndim for tensor in tensors}) > 1:
        raise StructureError(
            f"`{key}` can't be padded: the members' tensors have {sorted({t.ndim for t in tensors})} dims; padding "
            "takes one number of dims"
        )
    target = torch.Size([max(column) for column in zip(*[tensor.shape for tensor in tensors], strict=True)])
    return torch.stack([_pad(tensor, target, side, fill) for tensor in tensors], dim)


def _pad(tensor: Tensor, target: torch.Size, side: str, fill: float) -> Tensor:
    if tensor.shape == target:
        return tensor
    padded = tensor.new_full(target, fill)
    where = [slice(n - m, n) if side == "left" else slice(0, m) for n, m in zip(target, tensor.shape, strict=True)]
    padded[tuple(where)] = tensor
    return padded


def as_nested(values: Sequence[Any], layout: Any, key: str) -> Tensor:
    """Tensors as one nested tensor, by default with the jagged layout.

    Raises:
        StructureError: for values that are not tensors, or that differ more than a jagged layout allows.
    """
    tensors = _tensors(values, key)
    kind = torch.jagged if layout is None else layout
    try:
        if any(tensor.requires_grad for tensor in tensors):
            return torch.nested.as_nested_tensor(list(tensors), layout=kind)
        return torch.nested.nested_tensor(list(tensors), layout=kind)
    except (RuntimeError, ValueError) as error:
        shapes = [list(tensor.shape) for tensor in tensors[:4]]
        raise StructureError(
            f"`{key}` can't be one nested tensor of layout {kind}: {error} (shapes {shapes}); use `as_list=True` or "
            "`as_padded_tensor=True`"
        ) from error


def _tensors(values: Sequence[Any], key: str) -> list[Tensor]:
    for position, value in enumerate(values):
        if not isinstance(value, Tensor):
            raise StructureError(
                f"`{key}` is a {type(value).__name__} in the member at position {position}: padding and nesting are "
                "for tensors; read it with `as_list=True`"
            )
    return list(values)


# ---- dense -----------------------------------------------------------------------------------------------------------


def make_dense(collection: Any, layout: Any) -> Any:
    """A container with dense lazy stacks; a container without lazy stacks is returned unchanged."""
    if collection._stacked:
        store = store_of(collection)
        dense = _dense(store, layout)
        return collection._wrap(dense) if is_typed(collection) else dense
    nested = {k: v for k, v in collection._live().items() if isinstance(v, TensorCollection)}
    new = {key: make_dense(value, layout) for key, value in nested.items()}
    if all([new[key] is value for key, value in nested.items()]):
        return collection
    result = collection._twin()
    for key, value in new.items():
        result._put(key, value)
    return result


def _dense(stack: Any, layout: Any) -> TensorDict:
    """A dense container; tensors of different shapes become nested ones."""
    members = stack._members
    data: dict[str, Any] = {}
    for key in [*entries.common_keys(members), *entries.exclusive_keys(members)]:
        values = _complete_values([member._live().get(key) for member in members], key)
        shapes = {value.shape for value in values if isinstance(value, Tensor)}
        if len(shapes) > 1 and all([isinstance(value, Tensor) for value in values]):
            if stack.stack_dim:
                raise UnsupportedOperationError(
                    f"densify: `{key}` differs in shape from member to member, and tensors nest along the first dim "
                    f"only; this stack dim is {stack.stack_dim}"
                )
            data[key] = as_nested(values, layout, key)
        else:
            value = entries.combine(stack, key, values)
            data[key] = make_dense(value, layout) if isinstance(value, TensorCollection) else value
    return TensorDict._from_entries(data, stack._batch_size, stack._device, stack._names)


def _complete_values(values: list[Any], key: str) -> list[Any]:
    """Fill an entry that some members lack: without rows if the others agree on other dims, else without elements."""
    present = [value for value in values if value is not None]
    if len(present) == len(values):
        return values
    model = present[0]
    if not isinstance(model, Tensor):
        if isinstance(model, TensorCollection):
            raise StructureError(f"densify: `{key}` is a container that only some members have; give it to all or none")
        return values
    tails = {value.shape[1:] for value in present if isinstance(value, Tensor)}
    shape = (0, *model.shape[1:]) if len(tails) == 1 and model.ndim else (0,) * max(model.ndim, 1)
    return [model.new_empty(shape) if value is None else value for value in values]


def pad_nested(collection: Any, padding: float, mask_key: Any) -> Any:
    """Pad the nested tensors of a container; a -1 in the batch size is inferred from them."""
    result = collection._bare(collection._batch_size, None)
    mask: Tensor | None = None
    size: torch.Size | None = None if -1 in collection._batch_size else collection._batch_size
    for key, value in collection._live().items():
        if isinstance(value, TensorCollection):
            value = pad_nested(value, padding, None)
            size = value._batch_size[: len(collection._batch_size)] if size is None else size
        elif isinstance(value, Tensor) and value.is_nested:
            parts = value.unbind()
            nested, value = value, as_padded(parts, 0, "right", padding, key)
            if size is None:
                size = value.shape[: len(collection._batch_size)]
                mask = _valid(nested, size)
        result._put(key, value)
    if mask_key is not None and mask is None:
        raise UnsupportedOperationError(
            f"to_padded_tensor: a mask is written for a ragged batch dim, and the batch size is "
            f"{list(collection._batch_size)}; leave `mask_key` out"
        )
    result._batch_size = collection._batch_size if size is None else size
    if mask_key is not None:
        result.set(mask_key, mask)
    return result


def _valid(nested: Tensor, size: torch.Size) -> Tensor:
    """A mask of the elements in a padded tensor of this batch size."""
    mask = torch.zeros(size, dtype=torch.bool, device=nested.device)
    for row, part in zip(mask, nested.unbind(), strict=True):
        row[tuple([slice(0, n) for n in part.shape[: row.ndim]])] = True
    return mask
