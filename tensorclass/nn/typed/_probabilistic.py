"""Typed pipelines that must have a distribution."""

from __future__ import annotations

from typing import TypeVar

from ...errors import BuildError
from ..check._declared import Report
from ._sequential import TensorClassSequential

In = TypeVar("In", contravariant=True)  # noqa: PLC0105  # users read these names in types
Out = TypeVar("Out", covariant=True)  # noqa: PLC0105


class ProbabilisticTensorClassSequential(TensorClassSequential[In, Out]):
    """A pipeline with probabilistic modules, which can return their distributions.

    It has the arguments of `TensorClassSequential`; at least one module is a `ProbabilisticTensorClassModule`.

    Raises:
        BuildError: as for `TensorClassSequential`, and if no module is probabilistic.

    >>> import torch
    >>> from torch import Tensor, nn
    >>> from tensorclass import TensorClass
    >>> from tensorclass.nn import ProbabilisticTensorClassModule, TensorClassModule
    >>> from tensorclass.typing import Float32
    >>> class State(TensorClass):
    ...     x: Float32[Tensor, "4"]
    >>> class Act(TensorClass):
    ...     loc: Float32[Tensor, "2"]
    ...     action: Float32[Tensor, "2"]
    >>> policy = ProbabilisticTensorClassSequential(
    ...     TensorClassModule(nn.Linear(4, 2), State.x, Act.loc),
    ...     ProbabilisticTensorClassModule(
    ...         Act.loc, Act.action, distribution_class=torch.distributions.Normal, distribution_kwargs={"scale": 1.0}
    ...     ),
    ...     input=State, output=Act,
    ... )
    >>> state = State(torch.zeros(3, 4))
    >>> policy.log_prob(state, policy(state)).shape
    torch.Size([3, 2])
    """

    def _build(self, report: Report, warn: bool) -> None:
        super()._build(report, warn)
        if not self._samplers():
            raise BuildError(
                f"the pipeline {self._title()} has no ProbabilisticTensorClassModule; use TensorClassSequential"
            )
