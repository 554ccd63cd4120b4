"""The typed probabilistic module: parameters, values and log-probabilities are fields."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..._flags import flags
from ...errors import BuildError
from ...store import is_tensor_collection
from ..distributions import CompositeDistribution, Delta
from ..distributions._composite import total
from ..distributions._draw import as_generator, build, draw, unknown_parameter
from ..distributions._interaction import InteractionType
from ..parts._diagnostics import location_of_caller
from ..parts._how import by_keyword
from ..parts._slots import as_slots
from ..parts._stage import TensorClassModule, read_slot


class Sampler(nn.Module):
    """The callable of a probabilistic stage: from the values of its in fields to a value and its log-probabilities."""

    may_ignore_inputs = True
    """For the build check: a mean, which replaces the value, does not depend on every parameter."""

    def __init__(
        self,
        maker: Callable[..., Any],
        names: Sequence[str],
        constants: Any,
        kind: InteractionType,
        scores: int,
        values: int,
        estimates: int,
        generator: Any,
    ) -> None:
        super().__init__()
        self.maker: Callable[..., Any] = maker
        self.names: tuple[str, ...] = tuple(names)
        self.constants: Any = constants
        self.kind: InteractionType = kind
        self.scores: int = scores
        self.values: int = values
        self.estimates: int = estimates
        self.generator: Any = generator

    def __repr__(self) -> str:
        return f"Sampler({self.title}, {self.kind})"

    @property
    def title(self) -> str:
        """The name of the distribution."""
        return str(getattr(self.maker, "__name__", self.maker))

    def _label(self) -> str:
        return f"`{self.title}`"

    def dist(self, *values: Any, **named: Any) -> Any:
        """Build the distribution from parameters, by position or by name."""
        constants = self.constants if type(self.constants) is dict else dict(self.constants.items())
        return build(self.maker, dict(zip(self.names, values, strict=False)) | named, constants, self._label)

    def forward(self, *values: Any, **named: Any) -> Any:
        """Draw a value, or the components of a composite one, and compute the requested log-probabilities."""
        dist = self.dist(*values, **named)
        value, score = draw(
            dist, self.kind, torch.Size(), bool(self.scores), self.estimates, self.generator, self._label
        )
        if type(value) is type(score) is Tensor:
            return value, score
        parts = self._parts(dist, value)
        if self.scores:
            parts += self._score_parts(dist, score)
        return parts[0] if len(parts) == 1 else parts

    def _parts(self, dist: Any, value: Any) -> tuple[Any, ...]:
        if isinstance(dist, CompositeDistribution) and is_tensor_collection(value):
            return tuple(value[key] for key in dist)
        return value if isinstance(value, tuple) else (value,)

    def _score_parts(self, dist: Any, score: Any) -> tuple[Any, ...]:
        if not is_tensor_collection(score):
            return (score,)
        parts = list(score.values(True, True))
        return tuple(parts) if self.scores == len(parts) > 1 else (total(parts, dist.batch_shape),)

    def log_prob(self, dist: Any, values: Sequence[Any]) -> Tensor:
        """The log-probability of values, summed over the components of a composite distribution."""
        if not isinstance(dist, CompositeDistribution):
            score: Tensor = dist.log_prob(values[0] if len(values) == 1 else tuple(values))
            return score
        return total(
            [part.log_prob(value) for part, value in zip(dist.dists.values(), values, strict=True)], dist.batch_shape
        )


@flags
class ProbabilisticTensorClassModule(TensorClassModule):
    """Builds a distribution from fields and writes a value of it to a field.

    The kind of value is set by `set_interaction_type`, else by `default_interaction_type`.

    Args:
        in_fields: The parameters. A sequence such as `(Policy.loc, Policy.scale)` is matched by the last part of the
            names; a mapping goes from argument names to fields, `{"loc": Policy.mean, "scale": Policy.spread}`.
        out_fields: The field of the value; for a `CompositeDistribution`, one field for each component, in order.
        distribution_class: A distribution class, or a callable that makes one from the parameters by name.
        distribution_kwargs: Constant arguments.
        log_prob_field: The field of the log-probability. For a composite distribution, one field gets the sum; a
            sequence has one field for each component. With None it is not computed.
        default_interaction_type: The interaction type outside `set_interaction_type`.
        n_empirical_estimate: The number of samples that estimate a mean without a closed form.
        generator: A `torch.Generator` or a seed; None uses the global generator.
        name: The name in a sequence.
        update: Whether fields may be overwritten.

    Raises:
        BuildError: for arguments that are not fields, and for a parameter that the distribution doesn't accept.

    >>> import torch
    >>> from torch import Tensor
    >>> from tensorclass import TensorClass, produced
    >>> from tensorclass.typing import Float32
    >>> class Policy(TensorClass):
    ...     loc: Float32[Tensor, "2"]
    ...     scale: Float32[Tensor, "2"]
    ...     action: Float32[Tensor, "2"] = produced()
    >>> act = ProbabilisticTensorClassModule(
    ...     (Policy.loc, Policy.scale), Policy.action, distribution_class=torch.distributions.Normal
    ... )
    >>> batch = Policy(torch.zeros(3, 2), torch.ones(3, 2))
    >>> act(batch).action.shape, act.get_dist(batch)
    (torch.Size([3, 2]), Normal(loc: torch.Size([3, 2]), scale: torch.Size([3, 2])))
    """

    module: Sampler

    def __init__(
        self,
        in_fields: Any,
        out_fields: Any,
        *,
        distribution_class: Callable[..., Any] = Delta,
        distribution_kwargs: Any = None,
        log_prob_field: Any = None,
        default_interaction_type: InteractionType | str = InteractionType.DETERMINISTIC,
        n_empirical_estimate: int = 1000,
        generator: torch.Generator | int | None = None,
        name: str | None = None,
        update: bool = False,
    ) -> None:
        fields, names = by_keyword(in_fields)
        reads = [slot for slot in as_slots(fields, "in_fields") if slot is not None]
        names = names or tuple("param" if distribution_class is Delta else slot.path[-1] for slot in reads)
        writes = as_slots(out_fields, "out_fields", droppable=True)
        scores = () if log_prob_field is None else as_slots(log_prob_field, "log_prob_field")
        constants = {} if distribution_kwargs is None else distribution_kwargs
        wrong = unknown_parameter(distribution_class, [*names, *constants.keys()])
        if wrong is not None:
            raise BuildError(f"{location_of_caller()}: {wrong}; rename with in_fields={{'parameter': field}}")
        sampler = Sampler(
            distribution_class,
            names,
            constants,
            InteractionType(default_interaction_type),
            len(scores),
            len(writes),
            n_empirical_estimate,
            _check_generator(generator),
        )
        refs = [None if slot is None else slot.ref for slot in (*writes, *scores)]
        super().__init__(sampler, [slot.ref for slot in reads], refs, name=name, update=update)

    def get_dist(self, batch: Any) -> Any:
        """Build the distribution from the parameters in a batch."""
        return self.module.dist(*[read_slot(batch, slot, self._label()) for slot in self._reads])

    def log_prob(self, batch: Any) -> Tensor:
        """The log-probability of the value in the out fields of a batch."""
        values = [
            read_slot(batch, slot, self._label()) for slot in self._declared[: self.module.values] if slot is not None
        ]
        return self.module.log_prob(self.get_dist(batch), values)


def _check_generator(generator: Any) -> torch.Generator | None:
    found = as_generator(generator) if generator is None or isinstance(generator, (int, torch.Generator)) else generator
    if found is None or isinstance(found, torch.Generator):
        return found
    raise BuildError(f"generator= takes a torch.Generator or a seed, got {generator!r}")
