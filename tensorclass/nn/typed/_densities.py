"""The distributions of a pipeline: each with the modules that compute its parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import Tensor

from ...errors import ModuleError, did_you_mean
from ..check._declared import check
from ..check._first import FirstCall
from ..check._identity import Identified, identify
from ..distributions._composite import total
from ..parts._results import construct, nest
from ..parts._skipping import skip_mode
from ..parts._slots import Slot, has_path, is_tensorclass_type, is_unnamed, item_of
from ..parts._stage import Stage, read_slot
from ._forward import Program, generate
from ._sampler import Sampler
from ._subsequence import class_of_picked, names_of, needed_stages, needs, passed_fields, skipping


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


def _drawn_value(sample: Any, slot: Slot, stage: Stage) -> Any:
    """The value that a stage has drawn, in a sample: a batch with its field, or the value itself."""
    if not is_unnamed(slot.owner):
        return read_slot(sample, slot, stage.name)
    if hasattr(type(sample), "__tensorclass_schema__"):
        raise ModuleError(f"the value of `{stage.name}` is in no field of a sample; name one, `sample(..., out=...)`")
    return sample


class Densities:
    """What a pipeline with distributions does besides drawing values."""

    _parts: dict[tuple[int, bool], LeadIn]
    if TYPE_CHECKING:
        _stages: tuple[Stage, ...]
        _target: Callable[[Stage], Any]
        _title: Callable[[], str]
        _refuse: Callable[[object], NoReturn]
        _blame: Callable[[Exception, Program], None]
        input_class: type[Any]

    def _samplers(self) -> list[int]:
        return [index for index, stage in enumerate(self._stages) if isinstance(self._target(stage), Sampler)]

    def get_dist(self, batch: Any, name: str | None = None) -> Any:
        """The distribution of a stage, conditional on the draws of earlier ones.

        Args:
            batch: The input.
            name: The stage; by default the last one that draws a value.

        Raises:
            ModuleError: if no stage draws a value, or not the named one.
        """
        return self._dist(self._sampler(name), batch, None)

    def _sampler(self, name: str | None) -> int:
        """The index of a stage that draws a value."""
        known = {self._stages[index].name: index for index in self._samplers()}
        if not known:
            raise ModuleError(f"the pipeline {self._title()} draws no value; add a `sample(...)`")
        if name is not None and name not in known:
            raise ModuleError(f"no stage `{name}` draws a value{did_you_mean(name, known)}; there are {list(known)}")
        return known[name] if name is not None else max(known.values())

    def get_dist_params(self, batch: Any) -> Any:
        """The parameters of `get_dist`, as an instance of a class with only these fields."""
        index = self._sampler(None)
        size: Any = getattr(batch, "batch_size", torch.Size())
        reads = self._stages[index].reads
        values = zip(names_of(reads).values(), self._arguments_of(index, batch, None), strict=True)
        return construct(class_of_picked(reads), nest(dict(values)), size, self._stages[index].name)

    def log_prob(self, batch: Any, sample: Any = None) -> Tensor:
        """The log-probability of the values in a sample, each conditional on the values before it.

        Args:
            batch: The input.
            sample: A result of the pipeline, or any batch with the values; by default the input itself.

        Returns:
            For one probabilistic module, the result of its distribution; for several, the sum, `[*batch]`.
        """
        sample = batch if sample is None else sample
        self._sampler(None)
        scores = []
        for index in self._samplers():
            stage = self._stages[index]
            sampler: Any = self._target(stage)
            slots = [slot for slot in stage.writes[: sampler.values] if slot is not None]
            scores.append(
                sampler.log_prob(
                    self._dist(index, batch, sample), [_drawn_value(sample, slot, stage) for slot in slots]
                )
            )
        size: Any = getattr(batch, "batch_size", torch.Size())
        return scores[0] if len(scores) == 1 else total(scores, size)

    def _dist(self, index: int, batch: Any, sample: Any) -> Any:
        """The distribution of one module; values in a sample are used instead of drawn."""
        sampler: Any = self._target(self._stages[index])
        arguments, named = self._stages[index].how.bind(self._arguments_of(index, batch, sample))
        return sampler.dist(*arguments, **named)

    def _arguments_of(self, index: int, batch: Any, sample: Any) -> list[Any]:
        """The inputs of one probabilistic module."""
        if not is_tensorclass_type(type(batch)):
            self._refuse(batch)
        key = index, sample is not None
        if key not in self._parts:
            self._parts[key] = self._part_before(*key)
        part, stage = self._parts[key], self._stages[index]
        sources = [(slot, sample if drawn else batch) for slot, drawn in part.needs]
        values = {slot.path: read_slot(source, replace(slot, items=()), stage.name) for slot, source in sources}
        if part.identified.stages:
            given = batch
            if part.input is not self.input_class:
                names = names_of(slot for slot, _ in part.needs)
                tree = nest({names[path]: value for path, value in values.items()})
                given = construct(part.input, tree, batch.batch_size, stage.name)
            result, names = self._through(part, given), names_of(stage.reads)
            whole = {slot.path: replace(slot, items=()) for slot in stage.reads}
            values = {path: read_slot(result, slot, stage.name, names[path]) for path, slot in whole.items()}
        return [item_of(values[slot.path], slot.items) for slot in stage.reads]

    def _part_before(self, index: int, sampled: bool) -> LeadIn:
        """The modules that compute the parameters of one module; values in a sample are not drawn again."""
        reads = self._stages[index].reads
        drawn = set(self._samplers()) if sampled else set()
        stages = [self._stages[i] for i in needed_stages(self._stages, range(index), reads) if i not in drawn]
        missing = needs(stages, reads)
        inside = len(passed_fields(self.input_class, missing)) == len(missing)
        wanted = [(slot, sampled and self._is_drawn(slot, drawn)) for slot in missing]
        input, output = self.input_class if inside else class_of_picked(missing), class_of_picked(reads)
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
        seen = None if batch is None else FirstCall(report, stages, batch)
        return generate(stages, part.input, part.output, report, seen)
