"""Values of a distribution without sampling: mode, median, mean, and a deterministic value."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor
from torch import distributions as D

from ...errors import UnsupportedOperationError
from ...ops._index import is_plain
from ._interaction import InteractionType

_KNOWN = {D.Normal: "mean", D.Laplace: "mean", D.MultivariateNormal: "mean", D.OneHotCategorical: "mode"}
"""Classes with a mode and a mean for all parameters, and which of the two is the deterministic value."""

_FIXED = (InteractionType.MODE, InteractionType.MEAN, InteractionType.DETERMINISTIC)


def fixed_value(dist: D.Distribution, kind: InteractionType, estimates: int | None = None) -> Tensor:
    """The value of a kind, `[*batch, *event]`.

    An element whose value is undefined is an error, except in compiled code and under functorch, where values can't be
    read.

    Args:
        dist: The distribution.
        kind: Any interaction type but `RANDOM`.
        estimates: The number of samples that estimate a mean without a closed form; None for no estimate.

    Raises:
        NotImplementedError: if the distribution has no such value, or none for some of its parameters.
    """
    known = _KNOWN.get(type(dist))
    if known is not None and kind is not InteractionType.MEDIAN:
        return getattr(dist, known if kind is InteractionType.DETERMINISTIC else kind.value)  # type: ignore[no-any-return]  # a tensor
    if isinstance(dist, D.Independent):
        return fixed_value(dist.base_dist, kind, estimates)
    found: Tensor | None = None
    for value in _candidates(dist, kind, estimates):
        found = value if found is None else torch.where(found.isfinite(), found, value.to(found.dtype))
        if _is_defined(dist, found):
            return found
    if found is not None and not (_can_look(found) and _parameters_are_finite(dist)):
        return found
    raise UnsupportedOperationError(_words(dist, kind, found))


def _candidates(dist: Any, kind: InteractionType, estimates: int | None) -> Iterator[Tensor]:
    for way in _value_functions(dist, kind, estimates):
        with suppress(AttributeError, NotImplementedError):  # raised by torch for a value that the class lacks
            yield way()


def _value_functions(dist: Any, kind: InteractionType, estimates: int | None) -> Iterator[Callable[[], Tensor]]:
    """Functions that compute the value, best first. Later ones fill in elements that are still undefined."""
    if kind is not InteractionType.DETERMINISTIC:
        yield lambda: getattr(dist, kind.value)
        if kind is InteractionType.MEAN and estimates is not None and not _has_mean(dist):
            yield lambda: _estimate_mean(dist, estimates)
        return
    own = getattr(dist, "deterministic_sample", None)
    if own is not None:
        yield lambda: own
    elif _is_discrete(dist):
        yield lambda: dist.mode
        yield lambda: _likeliest(dist)
        yield lambda: dist.mean
    else:
        yield lambda: dist.mean
        yield lambda: dist.mode
        yield lambda: _transform_fixed_value(dist)


def _is_discrete(dist: Any) -> bool:
    try:
        return bool(dist.has_enumerate_support or dist.support.is_discrete)
    except NotImplementedError:
        return False


def _has_mean(dist: Any) -> bool:
    try:
        return dist.mean is not None
    except (AttributeError, NotImplementedError):
        return False


def _estimate_mean(dist: Any, estimates: int) -> Tensor:
    mean: Tensor = (dist.rsample if dist.has_rsample else dist.sample)(torch.Size((estimates,))).mean(0)
    return mean


def _likeliest(dist: Any) -> Tensor:
    """The first of the most likely values, for classes of torch without a mode in case of a tie."""
    values: Tensor = dist.enumerate_support()
    best = dist.log_prob(values).argmax(0, keepdim=True)
    for _ in dist.event_shape:
        best = best.unsqueeze(-1)
    return values.gather(0, best.expand(1, *values.shape[1:])).squeeze(0)


def _transform_fixed_value(dist: Any) -> Tensor:
    """The deterministic value of the base distribution, transformed."""
    value = fixed_value(dist.base_dist, InteractionType.DETERMINISTIC)
    for transform in dist.transforms:
        value = transform(value)
    return value


# ---- undefined values ------------------------------------------------------------------------------------------------


def _can_look(value: Tensor) -> bool:
    return not torch.compiler.is_compiling() and is_plain(value)


def _is_defined(dist: Any, value: Any) -> bool:
    """Whether a value is known to be defined for every element."""
    if type(dist) in _KNOWN or not isinstance(value, Tensor) or not value.is_floating_point():
        return True
    return _can_look(value) and bool(value.isfinite().all())


def _parameters_are_finite(dist: Any) -> bool:
    """Whether all parameters are finite; otherwise an undefined value is expected."""
    values = [vars(dist).get(name) for name in getattr(dist, "arg_constraints", {})]
    return all([bool(value.isfinite().all()) for value in values if isinstance(value, Tensor)])


def _words(dist: Any, kind: InteractionType, found: Tensor | None) -> str:
    others = [f"`{other}`" for other in _FIXED if other is not kind and _exists(dist, other)]
    hint = f"use another interaction type: {', '.join([*others, '`random`'])}"
    if found is None:
        return f"{type(dist).__name__} has no {kind} value; {hint}"
    wrong = int((~found.isfinite()).sum())
    return (
        f"{type(dist).__name__} has no {kind} value for {wrong} of {found.numel()} elements, where it is nan or "
        f"infinite; {hint}"
    )


def _exists(dist: Any, kind: InteractionType) -> bool:
    return any(_is_defined(dist, value) for value in _candidates(dist, kind, None))
