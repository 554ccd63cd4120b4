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
from ..ops._steps import clone_all, foreach_is_safe
from ..ops._writable import overflows
from .entries._object_table import plain_object as plain_object
from .entries._pickled import with_own_storage

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


def stack_lists(value: Any) -> Any:
    """Stack nested lists of tensors of equal shape, or of containers of equal structure; None for anything else."""
    if not isinstance(value, (list, tuple)) or not value:
        return None
    parts: Any = [part if isinstance(part, (Tensor, TensorCollection)) else stack_lists(part) for part in value]
    if all([isinstance(part, TensorCollection) for part in parts]):
        try:
            return stack(parts)
        except (StructureError, BatchSizeError):  # such containers are one object per element
            return None
    shapes = {part.shape if isinstance(part, Tensor) and not part.is_nested else None for part in parts}
    return torch.stack(parts) if len(shapes) == 1 and None not in shapes else None


class _Storages(dict[int, Any]):
    """The new storage of each old one, as torch notes them in a deep copy; that of a tensor is looked up when read."""

    __slots__ = ()

    def __getitem__(self, place: int) -> Any:
        found = super().__getitem__(place)
        return found.untyped_storage() if type(found) is Tensor else found


def deepcopy_entries(data: dict[str, Any], memo: dict[int, Any]) -> dict[str, Any]:
    """Deep-copy the entries of a dict, in place; plain tensors that don't share their storage are cloned."""
    noted = _noted_storages(memo)
    own: list[tuple[str, Tensor, int]] = []
    rest: list[str] = []
    strided = torch.strided
    for key, value in data.items():
        if type(value) is Tensor and not value.requires_grad and value.layout is strided and not value.__dict__:
            storage = value.untyped_storage()
            place = storage._cdata
            special = place in noted or id(value) in memo or value.grad is not None or value.dtype.is_complex
            if not special and storage.nbytes() == value.nbytes and value.is_contiguous():
                noted[place] = value  # so that a second tensor over it is copied after it, as a view of the copy
                own.append((key, value, place))
                continue
        rest.append(key)
    leaves = [value for _, value, _ in own]
    fused = len(leaves) > 3 and foreach_is_safe()
    clones = clone_all(leaves) if fused else [leaf.clone() for leaf in leaves]
    for (key, value, place), new in zip(own, clones):  # noqa: B905  # a keyword takes time
        memo[id(value)] = data[key] = noted[place] = new
    for key in rest:  # last: they may be views of what was cloned
        value = data[key]
        data[key] = deepcopy(value, memo) if isinstance(value, TensorCollection) else _deepcopy(value, memo)
    return data


def _noted_storages(memo: Any) -> _Storages:
    noted = memo.get("torch")  # torch writes and reads this key of the memo
    if type(noted) is not _Storages:
        noted = memo["torch"] = _Storages(noted or ())
    return noted


def _deepcopy(value: Any, memo: dict[int, Any]) -> Any:
    own = with_own_storage(value)
    return deepcopy(value, memo) if own is value else memo.setdefault(id(value), own)


def _native(array: Any) -> Any:
    """An array in a form that torch accepts: native byte order, positive strides, writable."""
    if not array.dtype.isnative:
        return array.astype(array.dtype.newbyteorder("="))
    return array if array.flags.writeable and all(step >= 0 for step in array.strides) else array.copy()
