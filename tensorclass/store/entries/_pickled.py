"""Tensors that torch can't pickle: unsigned integers over 8 bits, float8, and views of a distributed tensor."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor, nn

from ..._deferred import is_dtensor
from ...core import trust_for_loading

_SIGNED: Final = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_PICKLED: Final = frozenset({
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
    torch.float32, torch.float64, torch.complex32, torch.complex64, torch.complex128,
})  # fmt: skip
"""The dtypes that torch pickles. It saves all (`torch.save`)."""


class _Viewed:
    """A tensor that is pickled as integers of the same size, and unpickled as itself."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    def __reduce__(self) -> tuple[Any, ...]:
        tensor = self.tensor
        return _as_dtype, (tensor.detach().view(_SIGNED[tensor.itemsize]), tensor.dtype, tensor.requires_grad)


@trust_for_loading
def _as_dtype(integers: Tensor, dtype: torch.dtype, requires_grad: bool) -> Tensor:
    return integers.view(dtype).requires_grad_(requires_grad)


def with_own_storage(value: Any) -> Any:
    """A value; a copy of a DTensor that begins inside of its storage, which torch 2.13 can neither copy nor pickle."""
    if not is_dtensor(value) or not value.storage_offset():
        return value
    copied = value.detach().clone().requires_grad_(value.requires_grad)
    return nn.Parameter(copied, value.requires_grad) if isinstance(value, nn.Parameter) else copied


def picklable(value: Any) -> Any:
    """A value, or something that is pickled as this value where torch can't pickle it."""
    value = with_own_storage(value)
    if type(value) is not Tensor or value.dtype in _PICKLED or value.is_quantized or value.layout is not torch.strided:
        return value
    return _Viewed(value)


def picklable_entries(entries: dict[str, Any]) -> dict[str, Any]:
    """Entries of a container in a form that can be pickled."""
    return {key: picklable(value) for key, value in entries.copy().items()}
