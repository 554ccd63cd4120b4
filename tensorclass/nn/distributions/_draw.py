"""Builds distributions from parameters and draws values from them, for keyed and typed modules."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from torch.distributions import Distribution

from ...core import TensorCollection
from ...errors import ModuleError, UnsupportedOperationError, did_you_mean
from ...store import TensorDict
from ..parts._keyed_base import as_keys
from ..parts._seeded import Seeded
from . import CompositeDistribution
from ._composite import drawn
from ._fixed import fixed_value
from ._interaction import INTERACTION, InteractionType

Label = Callable[[], str]
Generator = Any  # a torch.Generator, a seed, or the key of either


def unknown_parameter(maker: Callable[..., Any], names: list[str]) -> str | None:
    """The error in the parameter names for a distribution; None if there is none, or if it accepts any."""
    try:
        arguments = inspect.signature(maker).parameters
    except (TypeError, ValueError):
        return None
    wrong = [name for name in names if name not in arguments]
    if not wrong or any(argument.kind is inspect.Parameter.VAR_KEYWORD for argument in arguments.values()):
        return None
    title = getattr(maker, "__name__", repr(maker))
    near = did_you_mean(wrong[0], arguments)
    return f"{title} has no parameter `{wrong[0]}`{near}; it takes {', '.join(arguments)}"


def build(maker: Callable[..., Any], values: Mapping[str, Any], constants: Mapping[str, Any], label: Label) -> Any:
    """Build a distribution from values.

    Raises:
        TypeError: if it doesn't accept them; names the accepted ones.
        ModuleError: if the result is not a distribution.
    """
    try:
        dist = maker(**values, **constants)
    except TypeError as error:
        wrong = unknown_parameter(maker, [*values, *constants]) or str(error)
        raise ModuleError(f"{label()}: {wrong}") from error
    except ValueError as error:
        raise ModuleError(f"{label()}: {error}") from error
    if not isinstance(dist, Distribution):
        raise ModuleError(f"{label()}: {maker!r:.60} gives a {type(dist).__name__}, not a torch distribution")
    return dist


def draw(
    dist: Any,
    default: InteractionType,
    shape: torch.Size,
    scored: bool,
    estimates: int,
    generator: torch.Generator | None,
    label: Label,
) -> tuple[Any, Any]:
    """Draw or compute a value of a distribution by the active interaction type, and its log-probability if `scored`.

    Args:
        dist: The distribution.
        default: The interaction type outside `set_interaction_type`.
        shape: Leading dims of samples; other values are repeated over them.
        scored: Whether to compute the log-probability.
        estimates: The number of samples that estimate a mean without a closed form.
        generator: The source of random numbers; None for the global generator of torch.
        label: Gives the name of the module, for messages.

    Returns:
        The value, and its log-probability or None.

    Raises:
        NotImplementedError: if the distribution has no such value.
    """
    kind = INTERACTION.get() or default
    if generator is None and kind is InteractionType.RANDOM:
        return drawn(dist, "rsample" if dist.has_rsample else "sample", shape, scored)
    if generator is not None and torch.compiler.is_compiling():
        raise ModuleError(f"{label()}: torch.compile can't follow a generator; seed with `torch.manual_seed` instead")
    with nullcontext() if generator is None else Seeded(generator):
        if kind is InteractionType.RANDOM:
            return drawn(dist, "rsample" if dist.has_rsample else "sample", shape, scored)
        value = _deterministic_value(dist, kind, estimates, label)
    value = _repeat_value(value, shape)
    return value, dist.log_prob(value) if scored else None


def _deterministic_value(dist: Any, kind: InteractionType, estimates: int, label: Label) -> Any:
    """A value without sampling; for a composite distribution, that of each component."""
    if isinstance(dist, CompositeDistribution):
        parts = dist.dists.items()
        values = {
            key: _deterministic_value(part, kind, estimates, partial("{}, component {!r}".format, label(), key))
            for key, part in parts
        }
        return TensorDict(values, dist.batch_shape)
    try:
        return fixed_value(dist, kind, estimates)
    except NotImplementedError as error:
        raise UnsupportedOperationError(f"{label()}: {error}") from error


def _repeat_value(value: Any, shape: torch.Size) -> Any:
    """Repeat a value over further leading dims."""
    if not shape:
        return value
    return value.expand(shape + (value.batch_size if isinstance(value, TensorCollection) else value.shape))


def as_generator(generator: Generator) -> Any:
    """A generator from a seed; a generator, None and the key of an entry are returned unchanged."""
    if isinstance(generator, int) and not isinstance(generator, bool):
        return torch.Generator().manual_seed(generator)
    if generator is None or isinstance(generator, torch.Generator):
        return generator
    return as_keys(generator, "generator", nested=True)[0]
