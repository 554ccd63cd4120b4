"""The normal distribution between two bounds.

Source: Burkardt, The Truncated Normal Distribution, Florida State University (2014). Everything is computed in the
lower tail, where probabilities keep their precision: an interval above the mean is reflected below it.
"""

# torch declares the class attributes of a distribution as properties.
# pyright: reportIncompatibleMethodOverride=false, reportAssignmentType=false

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch import distributions as D
from torch.distributions import constraints
from torch.distributions.utils import broadcast_all

from ..._flags import flags
from ...errors import ArgumentError

Shape = Any  # what torch's distributions take: a torch.Size or a sequence of ints
_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)


@flags
class TruncatedNormal(D.Distribution):
    """A normal distribution restricted to `[a, b]`, with reparametrized samples.

    Args:
        loc: Mean before truncation.
        scale: Standard deviation before truncation; at least 1e-6.
        a: Lower bound, in the units of `loc`.
        b: Upper bound, in the units of `loc`.
        validate_args: As in all distributions of torch.

    Raises:
        ValueError: if `a` is not below `b` everywhere.

    >>> dist = TruncatedNormal(loc=torch.zeros(3), scale=torch.ones(3), a=-1.0, b=1.0)
    >>> dist.mean, dist.variance
    (tensor([0., 0., 0.]), tensor([0.2911, 0.2911, 0.2911]))
    """

    arg_constraints: dict[str, constraints.Constraint] = dict.fromkeys(("loc", "scale", "a", "b"), constraints.real)
    has_rsample = True
    eps: float = 1e-6
    loc: Tensor
    scale: Tensor
    a: Tensor
    b: Tensor

    def __init__(
        self,
        loc: float | Tensor,
        scale: float | Tensor,
        a: float | Tensor,
        b: float | Tensor,
        validate_args: bool | None = None,
    ) -> None:
        self.loc, self.scale, self.a, self.b = broadcast_all(loc, scale, a, b)
        self.scale = self.scale.clamp_min(self.eps)
        super().__init__(self.loc.shape, validate_args=validate_args)
        if self._validate_args and not torch.compiler.is_compiling() and bool((self.a >= self.b).any()):
            raise ArgumentError(f"TruncatedNormal: the lower bound `a` is below the upper bound `b`, got a={a}, b={b}")
        low, high = (self.a - self.loc) / self.scale, (self.b - self.loc) / self.scale
        self._sign = torch.where(low > 0, -1.0, 1.0).to(low.dtype)
        self._low = torch.where(low > 0, -high, low)
        self._high = torch.where(low > 0, -low, high)
        # log(ndtr(high) - ndtr(low)) without cancellation
        below, above = torch.special.log_ndtr(self._low), torch.special.log_ndtr(self._high)
        self._log_mass = above + torch.log(-torch.expm1((below - above).clamp_max(-torch.finfo(low.dtype).tiny)))

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> constraints.Constraint:
        """The interval `[a, b]`."""
        return constraints.interval(self.a, self.b)

    @property
    def auc(self) -> Tensor:
        """The mass of the normal distribution between the bounds."""
        mass: Tensor = self._log_mass.exp()
        return mass

    @property
    def _weights(self) -> tuple[Tensor, Tensor]:
        """The density at both bounds, divided by the mass."""
        low, high = (torch.exp(-0.5 * x**2 - _LOG_SQRT_2PI - self._log_mass) for x in (self._low, self._high))
        return low, high

    @property
    def mean(self) -> Tensor:
        """Mean, `[*batch]`."""
        low, high = self._weights
        return self.loc + self.scale * self._sign * (low - high)

    @property
    def mode(self) -> Tensor:
        """The point of the interval nearest to `loc`."""
        return torch.minimum(torch.maximum(self.loc, self.a), self.b)

    @property
    def variance(self) -> Tensor:
        """Variance, `[*batch]`."""
        low, high = self._weights
        scale: Tensor = self.scale
        return scale**2 * (1 + _times(self._low, low) - _times(self._high, high) - (low - high) ** 2).clamp_min(0)

    def entropy(self) -> Tensor:
        """Differential entropy in nats, `[*batch]`."""
        low, high = self._weights
        ends = (_times(self._low, low) - _times(self._high, high)) / 2
        result: Tensor = _LOG_SQRT_2PI + 0.5 + self._log_mass + self.scale.log() + ends
        return result

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-density, `[*batch]`; `-inf` outside the bounds if arguments are not validated."""
        if self._validate_args and not torch.compiler.is_compiling():
            self._validate_sample(value)
        x = (value - self.loc) / self.scale
        density: Tensor = -0.5 * x**2 - _LOG_SQRT_2PI - self._log_mass - self.scale.log()
        return torch.where((value < self.a) | (value > self.b), -torch.inf, density)

    def cdf(self, value: Tensor) -> Tensor:
        """The cumulative probability of `value`, `[*batch]`."""
        x = self._sign * (value - self.loc) / self.scale
        share = torch.special.ndtr(x) - torch.special.ndtr(self._low)
        share = (share / self.auc.clamp_min(torch.finfo(x.dtype).tiny)).clamp(0, 1)
        return torch.where(self._sign < 0, 1 - share, share)

    def icdf(self, value: Tensor) -> Tensor:
        """The value with this cumulative probability, `[*batch]`."""
        share = torch.where(self._sign < 0, 1 - value, value)
        x = torch.special.ndtri(torch.special.ndtr(self._low) + share * self.auc)
        x = torch.minimum(torch.maximum(x, self._low), self._high)
        return torch.minimum(torch.maximum(self.loc + self.scale * self._sign * x, self.a), self.b)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Samples `[*sample_shape, *batch]`, differentiable in the parameters."""
        shape = self._extended_shape(torch.Size(sample_shape or ()))
        uniform = torch.rand(shape, dtype=self.loc.dtype, device=self.loc.device).clamp(self.eps, 1 - self.eps)
        return self.icdf(uniform)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> TruncatedNormal:
        """Expand to a larger batch."""
        size = torch.Size(batch_shape)
        loc, scale, a, b = (part.expand(size) for part in (self.loc, self.scale, self.a, self.b))
        return TruncatedNormal(loc, scale, a, b, self._validate_args)


def _times(bound: Tensor, weight: Tensor) -> Tensor:
    """A bound times its weight; zero for a bound at infinity."""
    return torch.where(bound.isinf(), 0.0, bound * weight)
