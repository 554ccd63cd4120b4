"""The last layer of a network that parametrises a normal distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..._flags import flags
from ...errors import ArgumentError
from ._mappings import mappings


class NormalParamExtractor(nn.Module):
    """Splits the last dim in a location and a positive scale.

    Args:
        scale_mapping: The name of the function that makes the second half positive, see `mappings`.
        scale_lb: The least scale.

    >>> loc, scale = NormalParamExtractor()(torch.zeros(3, 4))
    >>> loc.shape, scale
    (torch.Size([3, 2]), tensor([[1., 1.],
            [1., 1.],
            [1., 1.]]))
    """

    def __init__(self, scale_mapping: str = "biased_softplus_1.0", scale_lb: float = 1e-4) -> None:
        super().__init__()
        self.scale_mapping = mappings(scale_mapping)
        self.scale_lb = scale_lb

    def forward(self, *tensors: Any) -> tuple[Any, ...]:
        """Location and scale, each `[..., n]`, of the first tensor, `[..., 2 * n]`; then the others as they are.

        Raises:
            ValueError: when the last dim is odd, or nothing is given.
        """
        if not tensors:
            raise ArgumentError(
                "NormalParamExtractor takes a tensor whose last dim holds location and scale, got nothing"
            )
        tensor, *others = tensors
        if tensor.ndim == 0 or tensor.shape[-1] % 2:
            raise ArgumentError(
                "NormalParamExtractor halves the last dim into location and scale, so its size is even; got shape "
                f"{list(tensor.shape)}"
            )
        loc, scale = tensor.chunk(2, -1)
        return loc, self.scale_mapping(scale).clamp_min(self.scale_lb), *others


@flags
class AddStateIndependentNormalScale(nn.Module):
    """Gives its input as location, beside a learned scale that does not depend on it.

    Args:
        scale_shape: The shape of the scale: the trailing dims of the location.
        scale_mapping: The name of the function that makes it positive, see `mappings`.
        scale_lb: The least scale.
        device: Where the scale lives.
        make_param: Whether it is trained; a buffer otherwise.
        init_value: Its first value, before the mapping.

    >>> loc, scale = AddStateIndependentNormalScale(4)(torch.zeros(3, 4))
    >>> scale.shape, scale[0]
    (torch.Size([3, 4]), tensor([1., 1., 1., 1.], grad_fn=<SelectBackward0>))
    """

    state_independent_scale: Tensor

    def __init__(
        self, scale_shape: Sequence[int] | int | None = None, *, scale_mapping: str = "exp", scale_lb: float = 1e-4,
        device: torch.device | str | None = None, make_param: bool = True, init_value: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__()
        self.scale_lb = scale_lb
        self.scale_mapping = mappings(scale_mapping)
        shape = (scale_shape,) if isinstance(scale_shape, int) else tuple(scale_shape or ())
        scale = torch.full(shape, float(init_value), device=device)
        if make_param:
            self.state_independent_scale = nn.Parameter(scale)
        else:
            self.register_buffer("state_independent_scale", scale)

    def forward(self, loc: Tensor, *others: Any) -> tuple[Any, ...]:
        """The location, the scale expanded to its shape, and the others as they are.

        Raises:
            RuntimeError: when the location does not end in the shape of the scale.
        """
        shape = self.state_independent_scale.shape
        if loc.shape[loc.ndim - len(shape) :] != shape or loc.ndim < len(shape):
            raise ArgumentError(
                f"AddStateIndependentNormalScale has a scale of shape {list(shape)}, which is not how the location of "
                f"shape {list(loc.shape)} ends; give `scale_shape={list(loc.shape[-1:])}`"
            )
        scale = self.scale_mapping(self.state_independent_scale).clamp_min(self.scale_lb)
        return loc, scale.expand(loc.shape), *others
