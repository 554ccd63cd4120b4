"""Properties of a tensor without its values: targets of a cast leaf by leaf, and predicates that select leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

CastFilter: TypeAlias = "Callable[[Any, Tensor], bool] | None"


@dataclass(frozen=True)
class TensorAttrs:
    """The device, dtype and shape of one tensor, as `attrs()` returns them; None for unrequested ones.

    Args:
        tgt_device: the device.
        tgt_dtype: the dtype.
        tgt_shape: the full shape, including batch dims.

    >>> import torch
    >>> from tensorclass import TensorDict
    >>> attrs = TensorDict(a=torch.zeros(2, dtype=torch.int32), batch_size=[2]).attrs()
    >>> attrs["a"].tgt_dtype, attrs["a"].tgt_shape
    (torch.int32, torch.Size([2]))
    >>> TensorDict(a=torch.zeros(2), b=torch.zeros(2), batch_size=[2]).to(attrs)["a"].dtype
    torch.int32
    """

    tgt_device: torch.device | None = None
    tgt_dtype: torch.dtype | None = None
    tgt_shape: torch.Size | None = None

    @classmethod
    def _of(cls, leaf: Tensor, fields: Any) -> TensorAttrs:
        return cls(**{f"tgt_{field}": getattr(leaf, field) for field in fields})

    def _cast(self, leaf: Tensor, non_blocking: bool) -> Tensor:
        return leaf.to(self.tgt_device or leaf.device, self.tgt_dtype or leaf.dtype, non_blocking)


def is_floating(*args: Any) -> bool:
    """Whether the last argument is a floating-point tensor; works as `fn(leaf)` and as `fn(key, leaf)`.

    >>> import torch
    >>> is_floating(torch.zeros(2)), is_floating("x", torch.zeros(2, dtype=torch.complex64))
    (True, False)
    """
    return args[-1].dtype.is_floating_point  # type: ignore[no-any-return]  # any tensor


def is_inexact(*args: Any) -> bool:
    """Whether the last argument is a floating-point or complex tensor; see `is_floating`.

    >>> import torch
    >>> from tensorclass import TensorDict
    >>> data = TensorDict(x=torch.zeros(2), label=torch.arange(2), batch_size=[2])
    >>> data.bfloat16(cast_filter=is_inexact)["label"].dtype
    torch.int64
    """
    return args[-1].dtype.is_floating_point or args[-1].dtype.is_complex  # type: ignore[no-any-return]  # any tensor


def is_integer(*args: Any) -> bool:
    """Whether the last argument is an integer tensor, signed or unsigned, but not bool; see `is_floating`.

    >>> import torch
    >>> is_integer(torch.arange(2)), is_integer(torch.zeros(2, dtype=torch.bool))
    (True, False)
    """
    return not is_inexact(*args) and not is_bool(*args)


def is_bool(*args: Any) -> bool:
    """Whether the last argument is a bool tensor; see `is_floating`.

    >>> import torch
    >>> is_bool("mask", torch.zeros(2, dtype=torch.bool))
    True
    """
    return args[-1].dtype is torch.bool
