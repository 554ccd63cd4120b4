"""Values that become tensors when they are stored: numbers, arrays, nested lists."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..core import TensorCollection
from ..errors import BatchSizeError, StructureError
from ..ops import stack


def as_tensor(value: Any, device: torch.device | None) -> Tensor | None:
    """A tensor from numbers, arrays and nested lists of numbers; None for anything else."""
    if isinstance(value, (list, tuple)):
        flat: list[Any] = [value]
        while flat and isinstance(flat[0], (list, tuple)):
            flat = [item for part in flat for item in (part if isinstance(part, (list, tuple)) else [part])]
        if not flat or not all(isinstance(item, (bool, int, float, complex, Tensor, np.generic)) for item in flat):
            return None
        if any(isinstance(item, Tensor) and item.ndim for item in flat):
            return None
    elif isinstance(value, (np.ndarray, np.generic)):
        return torch.as_tensor(_native(value), device=device) if value.dtype.kind in "biufc" else None
    try:
        return torch.tensor(value, device=device)
    except (ValueError, TypeError):  # ragged nested lists stay what they are
        return None


def stacked(value: Any) -> Any:
    """Nested lists of tensors of one shape, or of containers of one structure, as one; None for anything else."""
    if not isinstance(value, (list, tuple)) or not value:
        return None
    parts: Any = [part if isinstance(part, (Tensor, TensorCollection)) else stacked(part) for part in value]
    if all([isinstance(part, TensorCollection) for part in parts]):
        try:
            return stack(parts)
        except (StructureError, BatchSizeError):  # such containers stay one object for each element
            return None
    shapes = {part.shape if isinstance(part, Tensor) and not part.is_nested else None for part in parts}
    return torch.stack(parts) if len(shapes) == 1 and None not in shapes else None


def _native(array: Any) -> Any:
    """An array as torch takes it: in the byte order of the machine, with positive strides, and writable."""
    if not array.dtype.isnative:
        return array.astype(array.dtype.newbyteorder("="))
    return array if array.flags.writeable and all(step >= 0 for step in array.strides) else array.copy()
