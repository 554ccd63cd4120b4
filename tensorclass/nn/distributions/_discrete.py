"""Distributions with one-hot samples."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch import distributions as D
from torch.nn import functional

from ..._flags import flags
from ...errors import ArgumentError

Shape = Any  # what torch's distributions take: a torch.Size or a sequence of ints


@flags
def rand_one_hot(values: Tensor, do_softmax: bool = True) -> Tensor:
    """Draw one category along the last dim, as a one-hot tensor of the shape of `values`.

    Args:
        values: Logits, or probabilities with `do_softmax=False`.
        do_softmax: Whether the values are logits.

    >>> rand_one_hot(torch.tensor([[0.0, 1.0], [1.0, 0.0]]), do_softmax=False)
    tensor([[0, 1],
            [1, 0]])
    """
    probs = values.softmax(-1) if do_softmax else values
    cumulative = probs.cumsum(-1)
    drawn = torch.rand(values.shape[:-1], dtype=cumulative.dtype, device=values.device).unsqueeze(-1)
    # Rounding may leave the last sum below one; a draw beyond it selects the last category.
    index = (cumulative <= drawn * cumulative[..., -1:]).sum(-1).clamp_max(values.shape[-1] - 1)
    return functional.one_hot(index, values.shape[-1])


class OneHotCategorical(D.Categorical):
    """A categorical distribution over one-hot tensors.

    Samples, the mode and the argument of `log_prob` have shape `[*batch, categories]` and dtype int64. `rsample`
    returns straight-through samples, which have the gradient of a relaxed sample at temperature 1.

    Args:
        logits: Unnormalized log-probabilities, categories last; a last dim of one is dropped.
        probs: Probabilities, instead of logits.
        **kwargs: Passed to `torch.distributions.Categorical`.

    >>> dist = OneHotCategorical(logits=torch.tensor([0.0, 2.0, 1.0]))
    >>> dist.mode, dist.log_prob(torch.tensor([0, 1, 0]))
    (tensor([0, 1, 0]), tensor(-0.4076))
    """

    num_params = 1

    def __init__(self, logits: Tensor | None = None, probs: Tensor | None = None, **kwargs: Any) -> None:
        super().__init__(logits=_without_one(logits), probs=_without_one(probs), **kwargs)

    @property
    def mode(self) -> Tensor:
        """The most probable category, as one-hot; the first one in a tie."""
        return functional.one_hot(self.logits.argmax(-1), self._num_events)

    @property
    def deterministic_sample(self) -> Tensor:
        """The mode."""
        return self.mode

    def log_prob(self, value: Tensor) -> Tensor:
        """The log-probability, `[*batch]`, of one-hot values.

        Raises:
            ValueError: for values that are not one-hot.
        """
        if self._validate_args and not torch.compiler.is_compiling():
            _require_one_hot(value, self._num_events)
        log_prob: Tensor = D.Categorical.log_prob(self, value.argmax(-1))
        return log_prob

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """One-hot samples, `[*sample_shape, *batch, categories]`."""
        drawn = D.Categorical.sample(self, torch.Size(sample_shape or ()))
        return functional.one_hot(drawn, self._num_events)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Straight-through samples, `[*sample_shape, *batch, categories]`, in the dtype of the logits."""
        one = torch.ones((), device=self.logits.device, dtype=self.logits.dtype)
        relaxed = D.RelaxedOneHotCategorical(one, logits=self.logits).rsample(torch.Size(sample_shape or ()))
        hard = functional.one_hot(relaxed.argmax(-1), self._num_events)
        return hard.to(relaxed.dtype) + (relaxed - relaxed.detach())  # zero, with a gradient


def _without_one(params: Tensor | None) -> Tensor | None:
    return params if params is None or params.shape[-1:] != (1,) else params.squeeze(-1)


def _require_one_hot(value: Tensor, categories: int) -> None:
    if value.shape[-1:] != (categories,):
        raise ArgumentError(
            f"OneHotCategorical has {categories} categories, and the last dim of the value of shape "
            f"{list(value.shape)} is not theirs; encode indices with `one_hot`"
        )
    if bool((value == 1).sum(-1).ne(1).any()) or bool((value != 0).sum(-1).ne(1).any()):
        raise ArgumentError("OneHotCategorical takes one-hot values: one 1, else 0, along the last dim")
