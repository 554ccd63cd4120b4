"""Typed probabilistic modules: parameters, values and log-probabilities are fields."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from ..._flags import flags
from ...errors import BuildError
from ...store import is_tensor_collection
from ..check._declared import Report, check
from ..check._first import FirstCall
from ..check._identity import Identified, identify
from ..distributions import CompositeDistribution, Delta
from ..distributions._composite import total
from ..distributions._draw import as_generator, build, draw, unknown_parameter
from ..distributions._interaction import InteractionType
from ..parts._diagnostics import location_of_caller
from ..parts._how import by_keyword
from ..parts._results import construct, nest
from ..parts._skipping import skip_mode
from ..parts._slots import Slot, as_slots, has_path
from ..parts._stage import TensorClassModule, read_slot
from ._forward import Program, generate
from ._sequential import TensorClassSequential
from ._subsequence import names_of, needed, needs, passed, picked, skipping

In = TypeVar("In", contravariant=True)  # noqa: PLC0105  # users read these names in types
Out = TypeVar("Out", covariant=True)  # noqa: PLC0105


class Sampler(nn.Module):
    """The callable of a probabilistic stage: from the values of its in fields to a value and its log-probabilities."""

    def __init__(
        self, maker: Callable[..., Any], names: Sequence[str], constants: Any, kind: InteractionType, scores: int,
        values: int, estimates: int, generator: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        self.maker, self.names, self.constants, self.kind = maker, tuple(names), constants, kind
        self.scores, self.values = scores, values
        self.estimates, self.generator = estimates, generator

    def __repr__(self) -> str:
        return f"Sampler({self.title}, {self.kind})"

    @property
    def title(self) -> str:
        """The name of the distribution."""
        return str(getattr(self.maker, "__name__", self.maker))

    def dist(self, *values: Any, **named: Any) -> Any:
        """Build the distribution from parameters, by position or by name."""
        parameters = {**dict(zip(self.names, values, strict=False)), **named}
        return build(self.maker, parameters, dict(self.constants.items()), f"`{self.title}`")

    def forward(self, *values: Any, **named: Any) -> Any:
        """Draw a value, or the components of a composite one, and compute the requested log-probabilities."""
        dist = self.dist(*values, **named)
        value, score = draw(
            dist, self.kind, torch.Size(), bool(self.scores), self.estimates, self.generator, f"`{self.title}`"
        )
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
        self, in_fields: Any, out_fields: Any, *, distribution_class: Callable[..., Any] = Delta,
        distribution_kwargs: Any = None, log_prob_field: Any = None,
        default_interaction_type: InteractionType | str = InteractionType.DETERMINISTIC,
        n_empirical_estimate: int = 1000, generator: torch.Generator | int | None = None, name: str | None = None,
        update: bool = False,
    ) -> None:  # fmt: skip
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
            distribution_class, names, constants, InteractionType(default_interaction_type), len(scores), len(writes),
            n_empirical_estimate, _checked(generator),
        )  # fmt: skip
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


@dataclass(frozen=True)
class LeadIn:
    """The modules before a probabilistic one, and the code that runs them."""

    identified: Identified
    needs: Sequence[tuple[Slot, bool]]
    """The fields that they need, each with whether it is read from a sample."""
    input: Any
    output: Any
    programs: dict[Any, Program] = field(default_factory=dict)
    """The generated code by mode of `set_skip_existing`."""


class ProbabilisticTensorClassSequential(TensorClassSequential[In, Out]):
    """A pipeline with probabilistic modules, which can return their distributions.

    It has the arguments of `TensorClassSequential`; at least one module is a `ProbabilisticTensorClassModule`.

    Raises:
        BuildError: as for `TensorClassSequential`, and if no module is probabilistic.

    >>> import torch
    >>> from torch import Tensor, nn
    >>> from tensorclass import TensorClass
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

    _made = (*TensorClassSequential._made, "_parts")

    def _build(self, report: Report, warn: bool) -> None:
        super()._build(report, warn)
        if not self._samplers():
            raise BuildError(
                f"the pipeline {self._title()} has no ProbabilisticTensorClassModule; use TensorClassSequential"
            )
        self._parts: dict[tuple[int, bool], LeadIn] = {}

    def _samplers(self) -> list[int]:
        return [index for index, stage in enumerate(self._stages) if isinstance(self._target(stage), Sampler)]

    def get_dist(self, batch: In) -> Any:
        """The distribution of the last probabilistic module, conditional on the draws of earlier modules."""
        return self._dist(self._samplers()[-1], batch, None)

    def get_dist_params(self, batch: In) -> Any:
        """The parameters of `get_dist`, as an instance of a class with only these fields."""
        index = self._samplers()[-1]
        size: Any = getattr(batch, "batch_size", torch.Size())
        reads = self._stages[index].reads
        values = zip(names_of(reads).values(), self._arguments_of(index, batch, None), strict=True)
        return construct(picked(reads), nest(dict(values)), size, self._stages[index].name)

    def log_prob(self, batch: In, sample: Any = None) -> Tensor:
        """The log-probability of the values in a sample, each conditional on the values before it.

        Args:
            batch: The input.
            sample: A result of the pipeline, or any batch with the values; by default the input itself.

        Returns:
            For one probabilistic module, the result of its distribution; for several, the sum, `[*batch]`.
        """
        sample = batch if sample is None else sample
        scores = []
        for index in self._samplers():
            stage = self._stages[index]
            sampler: Any = self._target(stage)
            slots = [slot for slot in stage.writes[: sampler.values] if slot is not None]
            scores.append(
                sampler.log_prob(self._dist(index, batch, sample), [read_slot(sample, s, stage.name) for s in slots])
            )
        size: Any = getattr(batch, "batch_size", torch.Size())
        return scores[0] if len(scores) == 1 else total(scores, size)

    def _dist(self, index: int, batch: Any, sample: Any) -> Any:
        """The distribution of one module; values in a sample are used instead of drawn."""
        sampler: Any = self._target(self._stages[index])
        return sampler.dist(*self._arguments_of(index, batch, sample))

    def _arguments_of(self, index: int, batch: Any, sample: Any) -> list[Any]:
        """The inputs of one probabilistic module."""
        key = index, sample is not None
        if key not in self._parts:
            self._parts[key] = self._part_before(*key)
        part, stage = self._parts[key], self._stages[index]
        sources = [(slot, sample if drawn else batch) for slot, drawn in part.needs]
        values = {slot.path: read_slot(source, slot, stage.name) for slot, source in sources}
        if part.identified.stages:
            given = batch
            if part.input is not self.input_class:
                names = names_of(slot for slot, _ in part.needs)
                tree = nest({names[path]: value for path, value in values.items()})
                given = construct(part.input, tree, batch.batch_size, stage.name)
            result, names = self._through(part, given), names_of(stage.reads)
            values = {slot.path: read_slot(result, slot, stage.name, names[slot.path]) for slot in stage.reads}
        return [values[slot.path] for slot in stage.reads]

    def _part_before(self, index: int, sampled: bool) -> LeadIn:
        """The modules that compute the parameters of one module; values in a sample are not drawn again."""
        reads = self._stages[index].reads
        drawn = set(self._samplers()) if sampled else set()
        stages = [self._stages[i] for i in needed(self._stages, range(index), reads) if i not in drawn]
        missing = needs(stages, reads)
        inside = len(passed(self.input_class, missing)) == len(missing)
        wanted = [(slot, sampled and self._is_drawn(slot, drawn)) for slot in missing]
        input, output = self.input_class if inside else picked(missing), picked(reads)
        identified = identify(stages, [input], output, self._title())
        return LeadIn(identified, wanted, input, output)

    def _is_drawn(self, slot: Slot, drawn: set[int]) -> bool:
        return any(slot in self._stages[index].written for index in drawn) or not has_path(self.input_class, slot.path)

    def _through(self, part: LeadIn, batch: Any) -> Any:
        """Run the modules of a part, which are looked up in this pipeline, as in `forward`."""
        key = skip_mode()
        program = part.programs.get(key) or self._written_for(part, key, batch)
        try:
            result = program.run(self, batch)
        except Exception as error:  # the user's modules may raise anything
            self._blame(error, program)
            raise
        if key not in part.programs:
            part.programs[key] = self._written_for(part, key)
        return result

    def _written_for(self, part: LeadIn, mode: Any, batch: Any = None) -> Program:
        """The code of a part; with a batch, the code for the first call, which also compares returned values."""
        found = part.identified
        stages = found.stages if mode is False else tuple(skipping(stage, mode) for stage in found.stages)
        targets = [self._target(stage) for stage in stages]
        report = check(replace(found, stages=stages), targets, part.input, part.output)
        seen = None if batch is None else FirstCall(report, stages, getattr(batch, "batch_size", torch.Size()))
        return generate(stages, part.input, part.output, report, seen)


def _checked(generator: Any) -> torch.Generator | None:
    found = as_generator(generator) if generator is None or isinstance(generator, (int, torch.Generator)) else generator
    if found is None or isinstance(found, torch.Generator):
        return found
    raise BuildError(f"generator= takes a torch.Generator or a seed, got {generator!r}")
