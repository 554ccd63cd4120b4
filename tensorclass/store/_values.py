"""Converts values to tensors when they are stored: numbers, arrays, nested lists."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..core import TensorCollection
from ..errors import BatchSizeError, StructureError, too_deep
from ..ops import stack
from ..ops._mapping import foreach_is_safe
from ..ops._writable import overflows

MOST_DIMS = 64
"""The most dims of a tensor."""


def as_tensor(value: Any, device: torch.device | None) -> Tensor | None:
    """A tensor from numbers, arrays and nested lists of numbers; None for anything else."""
    if isinstance(value, (list, tuple)):
        flat: list[Any] = [value]
        depth = 0
        while flat and isinstance(flat[0], (list, tuple)):
            depth += 1
            if depth > MOST_DIMS:  # a list that contains itself
                raise too_deep("")
            flat = [item for part in flat for item in (part if isinstance(part, (list, tuple)) else [part])]
        if not flat or not all(isinstance(item, (bool, int, float, complex, Tensor, np.generic)) for item in flat):
            return None
        if any(isinstance(item, Tensor) and item.ndim for item in flat):
            return None
    elif isinstance(value, (np.ndarray, np.generic)):
        return torch.as_tensor(_native(value), device=device) if value.dtype.kind in "biufc" else None
    try:
        return torch.tensor(value, device=device)
    except (ValueError, TypeError):  # ragged nested lists are not converted
        return None


def holds(key: str, tensor: Tensor, value: Any) -> Tensor:
    """Refuse a tensor made from Python numbers if its dtype can't hold one of them."""
    if isinstance(value, (float, complex, list, tuple)) and overflows(value, tensor.dtype):
        raise StructureError(f"field `{key}`: {tensor.dtype} can't hold {value!r:.80}; give a tensor of a wider dtype")
    return tensor


def stacked(value: Any) -> Any:
    """Stack nested lists of tensors of equal shape, or of containers of equal structure; None for anything else."""
    if not isinstance(value, (list, tuple)) or not value:
        return None
    parts: Any = [part if isinstance(part, (Tensor, TensorCollection)) else stacked(part) for part in value]
    if all([isinstance(part, TensorCollection) for part in parts]):
        try:
            return stack(parts)
        except (StructureError, BatchSizeError):  # such containers are one object per element
            return None
    shapes = {part.shape if isinstance(part, Tensor) and not part.is_nested else None for part in parts}
    return torch.stack(parts) if len(shapes) == 1 and None not in shapes else None


def deepcopied(value: Any, memo: dict[int, Any]) -> Any:
    """Deep-copy an entry: a plain tensor that doesn't share its storage is cloned, and recorded in the memo."""
    if type(value) is not Tensor or id(value) in memo or not _is_simple(value):
        return deepcopy(value, memo)
    storage, noted = value.untyped_storage(), memo.setdefault("torch", {})  # type: ignore[call-overload]  # torch reads the memo
    if storage._cdata in noted or storage.nbytes() != value.nbytes:
        return deepcopy(value, memo)
    memo[id(value)] = new = value.clone()
    noted[storage._cdata] = new.untyped_storage()
    return new


def _is_simple(value: Tensor) -> bool:
    """Whether a tensor has only elements: no gradient, no attributes, no special layout."""
    if value.requires_grad or value.layout is not torch.strided or not (value.is_cpu or value.is_cuda):
        return False
    if value.is_nested or value.is_quantized or value.is_conj() or value.is_neg() or value.is_inference():
        return False
    return value.is_contiguous() and value.grad is None and not value.__dict__ and foreach_is_safe()


def _native(array: Any) -> Any:
    """An array in a form that torch accepts: native byte order, positive strides, writable."""
    if not array.dtype.isnative:
        return array.astype(array.dtype.newbyteorder("="))
    return array if array.flags.writeable and all(step >= 0 for step in array.strides) else array.copy()
