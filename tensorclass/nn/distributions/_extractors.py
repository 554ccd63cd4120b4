"""Last layers of networks for a normal distribution, and named mappings to positive scales."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, overload

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..._flags import flags
from ...errors import ArgumentError, UnsupportedOperationError, did_you_mean

Mapping = Callable[[Tensor], Tensor]


@overload
def inv_softplus(bias: float) -> float: ...
@overload
def inv_softplus(bias: Tensor) -> Tensor: ...
def inv_softplus(bias: float | Tensor) -> float | Tensor:
    """The inverse of softplus, `log(exp(bias) - 1)`; finite even for `bias <= 0`.

    >>> round(inv_softplus(1.0), 4)
    0.5413
    """
    if not isinstance(bias, Tensor):
        return float(inv_softplus(torch.tensor(bias)))
    return bias.expm1().clamp_min(1e-6).log()


def expln(x: Tensor) -> Tensor:
    """`exp(x)` for `x <= 0`, else `log1p(x) + 1`: smooth, positive, and slowly growing.

    Source: Rückstieß et al., State-Dependent Exploration for Policy Gradient Methods, ECML 2008.

    >>> expln(torch.tensor([-1.0, 0.0, 1.0]))
    tensor([0.3679, 1.0000, 1.6931])
    """
    return torch.where(x > 0, x.clamp_min(0).log1p() + 1, x.clamp_max(0).exp())


class biased_softplus(nn.Module):
    """A softplus that is `bias` at zero and always above `min_val`.

    Args:
        bias: The value at zero.
        min_val: The lower bound.

    Raises:
        ValueError: for a bias that is not above the lower bound.

    >>> biased_softplus(1.0)(torch.zeros(2))
    tensor([1., 1.])
    """

    def __init__(self, bias: float, min_val: float = 0.01) -> None:
        super().__init__()
        if bias <= min_val:
            raise ArgumentError(f"biased_softplus: the bias is above min_val={min_val}, got bias={bias}")
        self.bias: float = inv_softplus(bias - min_val)
        self.min_val = min_val

    def forward(self, x: Tensor) -> Tensor:
        """The mapped values, of the shape of `x`."""
        return functional.softplus(x + self.bias) + self.min_val


_MAPPINGS: dict[str, Mapping] = {
    "softplus": functional.softplus,
    "exp": torch.exp,
    "relu": torch.relu,
    "expln": expln,
    "biased_softplus": biased_softplus(1.0),
    "none": nn.Identity(),
}


def add_custom_mapping(name: str, mapping: Mapping) -> None:
    """Register a function under a name for `mappings` and all `scale_mapping` arguments.

    Args:
        name: The name; an existing one is replaced.
        mapping: A function from a tensor to a tensor of the same shape.

    >>> add_custom_mapping("twice_exp", lambda x: 2 * x.exp())
    >>> mappings("twice_exp")(torch.zeros(1))
    tensor([2.])
    """
    if not callable(mapping):
        raise ArgumentError(f"add_custom_mapping: a mapping is a function of a tensor, got {mapping!r:.60}")
    _MAPPINGS[name] = mapping


def mappings(key: str) -> Mapping:
    """The mapping with a name.

    Args:
        key: "softplus", "exp", "relu", "expln", "biased_softplus", "none", a name registered by `add_custom_mapping`,
            or `biased_softplus_{bias}` and `biased_softplus_{bias}_{min_val}`.

    Raises:
        NotImplementedError: for an unknown name.
        ValueError: for `biased_softplus` with invalid or too many numbers.

    >>> mappings("biased_softplus_2.0_0.1")(torch.zeros(2))
    tensor([2., 2.])
    """
    if key in _MAPPINGS:
        return _MAPPINGS[key]
    if not key.startswith("biased_softplus_"):
        hint = did_you_mean(key, _MAPPINGS) or f"; there are {', '.join(_MAPPINGS)}"
        raise UnsupportedOperationError(f"no mapping is named {key!r:.200}{hint}")
    parts = key.removeprefix("biased_softplus_").split("_")
    try:
        numbers = [float(part) for part in parts]
    except ValueError:
        numbers = []
    if len(numbers) not in (1, 2):
        raise ArgumentError(
            f"the mapping {key!r:.200} takes one or two numbers, `biased_softplus_{{bias}}` or "
            "`biased_softplus_{bias}_{min_val}`"
        )
    return biased_softplus(*numbers)


# ---- layers --------------------------------------------------------------------------------------------------------


class NormalParamExtractor(nn.Module):
    """Splits the last dim into a location and a positive scale.

    Args:
        scale_mapping: The name of the function that makes the second half positive; see `mappings`.
        scale_lb: The least scale.

    >>> loc, scale = NormalParamExtractor()(torch.zeros(3, 4))
    >>> loc.shape, scale
    (torch.Size([3, 2]), tensor([[1., 1.],
            [1., 1.],
            [1., 1.]]))
    """

    def __init__(self, scale_mapping: str = "biased_softplus_1.0", scale_lb: float = 1e-4) -> None:
        super().__init__()
        self.scale_mapping: Mapping = mappings(scale_mapping)
        self.scale_lb = scale_lb

    def forward(self, *tensors: Any) -> tuple[Any, ...]:
        """Location and scale, each `[..., n]`, from the first tensor, `[..., 2 * n]`; other tensors are passed through.

        Raises:
            ValueError: if the last dim is odd, or no tensor is given.
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
    """Returns its input as the location, with a learned scale that doesn't depend on the input.

    Args:
        scale_shape: The shape of the scale: the trailing dims of the location.
        scale_mapping: The name of the function that makes it positive; see `mappings`.
        scale_lb: The least scale.
        device: The device of the scale.
        make_param: Whether the scale is a trained parameter; otherwise it is a buffer.
        init_value: The initial value, before the mapping.

    >>> loc, scale = AddStateIndependentNormalScale(4)(torch.zeros(3, 4))
    >>> scale.shape, scale[0]
    (torch.Size([3, 4]), tensor([1., 1., 1., 1.], grad_fn=<SelectBackward0>))
    """

    state_independent_scale: Tensor

    def __init__(
        self,
        scale_shape: Sequence[int] | int | None = None,
        *,
        scale_mapping: str = "exp",
        scale_lb: float = 1e-4,
        device: torch.device | str | None = None,
        make_param: bool = True,
        init_value: float = 0.0,
    ) -> None:
        super().__init__()
        self.scale_lb = scale_lb
        self.scale_mapping: Mapping = mappings(scale_mapping)
        shape = (scale_shape,) if isinstance(scale_shape, int) else tuple(scale_shape or ())
        scale = torch.full(shape, float(init_value), device=device)
        if make_param:
            self.state_independent_scale = nn.Parameter(scale)
        else:
            self.register_buffer("state_independent_scale", scale)

    def forward(self, loc: Tensor, *others: Any) -> tuple[Any, ...]:
        """The location, the scale expanded to its shape, and the other tensors, unchanged.

        Raises:
            RuntimeError: if the shape of the location doesn't end with the shape of the scale.
        """
        shape = self.state_independent_scale.shape
        if loc.shape[loc.ndim - len(shape) :] != shape or loc.ndim < len(shape):
            raise ArgumentError(
                f"AddStateIndependentNormalScale has a scale of shape {list(shape)}, which is not how the location of "
                f"shape {list(loc.shape)} ends; give `scale_shape={list(loc.shape[-1:])}`"
            )
        scale = self.scale_mapping(self.state_independent_scale).clamp_min(self.scale_lb)
        return loc, scale.expand(loc.shape), *others
