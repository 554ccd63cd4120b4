"""Linear interpolation that includes integer leaves, so that one call averages parameters and buffers.

Torch interpolates only floating tensors. Integer buffers (`num_batches_tracked`) are averaged in float64 and truncated
to their dtype, as in `torch.optim.swa_utils.AveragedModel`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..errors import ArgumentError


def lerp(leaf: Tensor, end: Any, weight: Any) -> Tensor:
    """Interpolate from a leaf to `end`, in the dtype of the leaf."""
    if leaf.is_floating_point() or leaf.is_complex():
        return torch.lerp(leaf, end, weight)
    if isinstance(end, complex) or (isinstance(end, Tensor) and end.is_complex()):
        raise ArgumentError(f"complex numbers can't be cut to {leaf.dtype}")
    there = torch.as_tensor(end, dtype=torch.float64, device=leaf.device)
    part = weight.to(torch.float64) if isinstance(weight, Tensor) else weight
    return torch.lerp(leaf.to(torch.float64), there, part).to(leaf.dtype)
