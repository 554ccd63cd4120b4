"""The distribution with all its mass on one value."""

# torch declares the class attributes of a distribution as properties.
# pyright: reportIncompatibleMethodOverride=false, reportAssignmentType=false

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch import distributions as D
from torch.distributions import constraints

from ...errors import ArgumentError

Shape = Any  # what torch's distributions take: a torch.Size or a sequence of ints


class Delta(D.Distribution):
    """A distribution with all its mass on one value.

    Args:
        param: The value, `[*batch, *event]`.
        atol: Absolute tolerance of `log_prob`.
        rtol: Relative tolerance of `log_prob`.
        batch_shape: The leading dims of `param`; by default all but the event dims.
        event_shape: The trailing dims of `param`; by default those after the batch, or the last one.

    Raises:
        ValueError: if `batch_shape` and `event_shape` don't add up to the shape of `param`.

    >>> dist = Delta(torch.tensor([1.0, 2.0]))
    >>> dist.sample(), dist.log_prob(torch.tensor([1.0, 2.0])), dist.log_prob(torch.tensor([1.0, 3.0]))
    (tensor([1., 2.]), tensor(inf), tensor(-inf))
    """

    arg_constraints: dict[str, constraints.Constraint] = {}
    support: constraints.Constraint = constraints.real
    has_rsample = True

    def __init__(
        self,
        param: Tensor,
        atol: float = 1e-6,
        rtol: float = 1e-6,
        batch_shape: Shape = None,
        event_shape: Shape = None,
    ) -> None:
        batch, event = _split(param.shape, tuple(batch_shape or ()), tuple(event_shape or ()))
        self.param: Tensor = param
        self.atol: float = atol
        self.rtol: float = rtol
        super().__init__(torch.Size(batch), torch.Size(event), validate_args=False)

    def update(self, param: Tensor) -> None:
        """Move the mass to another value of the same shape.

        Raises:
            ValueError: for another shape.
        """
        if param.shape != self.param.shape:
            raise ArgumentError(
                f"Delta.update: the value has shape {list(self.param.shape)}, got {list(param.shape)}; make a new Delta"
            )
        self.param = param

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Delta:
        """Expand to a larger batch."""
        size = torch.Size(batch_shape)
        return Delta(self.param.expand(size + self.event_shape), self.atol, self.rtol, size, self.event_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """`inf` if the whole event equals the value within the tolerances, else `-inf`; shape `[*batch]`."""
        equal = (value - self.param).abs() <= self.atol + self.rtol * self.param.abs()
        if self.event_shape:
            equal = equal.flatten(-len(self.event_shape)).all(-1)
        mass = torch.full(equal.shape, torch.inf, dtype=self._dtype(), device=value.device)
        return torch.where(equal, mass, -mass)

    def _dtype(self) -> torch.dtype:
        return self.param.dtype if self.param.is_floating_point() else torch.get_default_dtype()

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """The value, expanded to `[*sample_shape, *batch, *event]`."""
        return self.param.expand((*(sample_shape or ()), *self.param.shape))

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """The value, expanded to `[*sample_shape, *batch, *event]`, without gradient."""
        return self.rsample(sample_shape).detach()

    @property
    def mean(self) -> Tensor:
        """The value."""
        return self.param

    @property
    def deterministic_sample(self) -> Tensor:
        """The value."""
        return self.param

    mode = mean

    @property
    def variance(self) -> Tensor:
        """Zero."""
        return torch.zeros_like(self.param)


def _split(shape: torch.Size, batch: tuple[int, ...], event: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """The batch and event dims of a value.

    If one is missing, it is the rest; if both are, the last dim is the event.
    """
    whole = tuple(shape)
    if not batch and not event:
        return whole[:-1], whole[-1:]
    batch = batch or whole[: len(whole) - len(event)]
    event = event or whole[len(batch) :]
    if batch + event != whole:
        raise ArgumentError(
            f"Delta: batch_shape {list(batch)} and event_shape {list(event)} do not make up a value of {list(whole)}"
        )
    return batch, event
