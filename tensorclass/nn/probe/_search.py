"""What a module accepts: other sizes, dtypes and ranks of open inputs are tried, then changes that make a hint."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy

from ..._schema import FieldSpec, Polynomial
from ...core._keys import Path
from ..check._declared import Report, Use
from ..check._known import INPUT
from ..check._unify import Clash, Rest, plain_name
from ..parts._diagnostics import Diagnostic
from ..parts._results import TENSORS
from ..parts._slots import fields_of
from ..parts._stage import Stage, module_of
from ._copy import Isolator
from ._effects import Reach
from ._run import Outcome, Run, Tensors, empty
from ._sizes import BATCHES, Learned, SweepSizes, accepted, alternatives, dtypes_of, interesting
from ._words import Words

BLOCKING = ("E101", "E102", "E103", "E110")


class Unknown(Exception):
    """A value of which there is no example."""


class Again(Exception):
    """Something was learned about the inputs: sweep again."""


class Sweep:
    """One run of the whole pipeline: the values of its fields so far, and what every module did."""

    def __init__(self, number: int, sizes: SweepSizes, isolator: Isolator) -> None:
        self.number = number
        self.batch = BATCHES[number]
        self.sizes = sizes
        self.isolator = isolator
        self.values: dict[Path, Any] = {}
        self.given: dict[int, tuple[Any, ...]] = {}
        self.live: dict[int, dict[Path, Any]] = {}
        """For each module the values that others still need when it runs."""
        self.outcomes: dict[int, Outcome] = {}
        self.blind: dict[int, str] = {}


class Searcher:
    """Runs modules on what they might accept."""

    def __init__(
        self, report: Report, stages: Sequence[Stage], targets: Sequence[Callable[..., Any]], output: type,
        tensors: Tensors,
    ) -> None:  # fmt: skip
        self.report = report
        self.stages = stages
        self.targets = targets
        self.tensors = tensors
        self.words = Words(report, stages)
        self.unifier = report.state.unifier
        self.plan = Learned()
        self.narrowed: dict[str, int] = {}
        self.found: list[Diagnostic] = []
        self.answered: list[Diagnostic] = []
        self.hints: dict[int, str] = {}
        self.searching = True
        self.errors: list[Exception] = []
        self.data: dict[int, bool] = {}
        self.blocked = {d.module for d in report.diagnostics if d.code in BLOCKING}
        self.live = liveness(stages, output)
        self.device = device_of(targets)
        self.reach = [Reach.of(target) for target in targets]
        self.once = {index for index, reach in enumerate(self.reach) if reach.outside}
        """Modules that may be felt outside of a copy: they run once, when all sizes are settled."""

    def isolator(self, tensors: Tensors) -> Isolator:
        """What makes the copies of one sweep."""
        share = not any(reach.writes for reach in self.reach)
        return Isolator(tensors.copy, functools.partial(empty, tensors), share=share, known=self.data)

    def run_one(
        self, index: int, sweep: Sweep, values: Sequence[Any], sizes: SweepSizes | None = None, *,
        tensors: Tensors | None = None, live: Any = (), isolator: Isolator | None = None,
    ) -> Outcome:  # fmt: skip
        """Run a module on some values; without `sizes` those of the sweep are left as they are."""
        run = Run(index, self.stages[index], self.targets[index], self.report.writes[index], sweep.batch)
        sizes, tensors = sizes or sweep.sizes.copy(self.plan), tensors or self.tensors
        outcome = run(tensors, values, sizes, dict(live), isolator or self.isolator(tensors))
        self.errors += [] if outcome.error is None else [outcome.error]
        return outcome

    def tensor(
        self, sweep: Sweep, spec: FieldSpec, shape: Sequence[int], dtype: torch.dtype, device: Any = None
    ) -> Tensor:
        """A tensor for a field in one sweep."""
        batch = (sweep.batch,) if spec.kind == "tensor" else ()
        return self.tensors.tensor((*batch, *shape), dtype, device or self.device)

    def close(self) -> None:
        """Let go of whatever tracebacks hold: the frames of the build, with the modules."""
        for error in self.errors:
            error.__traceback__ = error.__context__ = error.__cause__ = None

    # ---- what a module accepts -----------------------------------------------------------------------------------

    def _search(self, sweep: Sweep, index: int, outcome: Outcome) -> None:
        """Look for inputs that a module accepts among those that are open, then for a hint.

        Raises:
            Again: when there are some.
            Unknown: when the inputs are too open to say that the module is wrong.
        """
        uses = [use for use in self.report.reads[index] if use is not None]
        if outcome.error is not None and self._search_dtypes(sweep, index, uses):
            raise Again
        terms = [term for use in uses for term in self.unifier.resolve(use.place.terms)]
        rests = [t.name for t in terms if isinstance(t, Rest) and t.name in sweep.sizes.guessed]
        names = [n for t in terms if isinstance(t, Polynomial) for n in t.names if n in sweep.sizes.guessed]
        # What comes out of a shape that we chose says little, unless other shapes do no better.
        wrong = outcome.error is not None or (rests and outcome.findings)
        if wrong and self._search_sizes(sweep, index, list(dict.fromkeys(names)), list(dict.fromkeys(rests))):
            raise Again
        if outcome.error is not None and rests:
            raise Unknown("its inputs are declared with any shape, and none that was tried is accepted")
        if outcome.error is not None:
            self.hints[index] = self._fix(sweep, index, uses)

    def _search_dtypes(self, sweep: Sweep, index: int, uses: Sequence[Use]) -> bool:
        for position, use in enumerate(uses):
            place = use.place
            is_open = place.writer == INPUT and place.dtype is not None and place.dtype.exact is None
            if not is_open or place.path in self.plan.dtypes:
                continue
            for dtype in dtypes_of(place.dtype):
                values = list(sweep.given[index])
                values[position] = self.tensors.tensor(values[position].shape, dtype, self.device)
                if self._works(sweep, index, values):
                    self.plan.dtypes[place.path] = dtype
                    return True
        return False

    def _search_sizes(self, sweep: Sweep, index: int, names: list[str], rests: list[str]) -> bool:
        sizes = interesting(self.targets[index])
        for rank in (1, 0, 2, 3) if rests else (0,):
            ranks = dict.fromkeys(rests, rank)
            variables = names + [f"{rest}#{i}" for rest in rests for i in range(rank)]

            def works(chosen: dict[str, int], ranks: dict[str, int] = ranks) -> bool:
                tried = self.run_at(sweep, index, self.plan.with_(chosen, ranks))[1]
                return tried.error is None and not (ranks and tried.findings)

            found = {} if rests and works({}) else accepted(variables, sizes, works)
            if found or (rests and works({})):
                self.plan.ranks.update(ranks)
                for name in found:
                    self._settle(index, name, found, alternatives(name, found, works))
                return True
        return False

    def _settle(self, index: int, name: str, found: dict[str, int], others: list[int]) -> None:
        """The only size that a module accepts is what the dim is from now on; of several, the probes take turns."""
        size = found[name]
        self.plan.sizes[name] = (size, *others)
        if others or "#" in name or size not in interesting(self.targets[index]):
            return
        with suppress(Clash):
            self.unifier.unify((Polynomial.of(name),), (Polynomial.of(size),))
            self.narrowed[name] = size
            message = f"is the only one to read dim `{plain_name(name)}` as {size}"
            note = self.words.diagnostic(index, "N303", message)
            who = self.words.who(index)
            self.found.append(replace(note, message=f"dim `{plain_name(name)}` is {size}: the only size {who} accepts"))

    def run_at(self, sweep: Sweep, index: int, plan: Learned) -> tuple[list[Any], Outcome]:
        """Run a module on values of other sizes than those of the sweep: with the values."""
        sizes = sweep.sizes.copy(plan)
        values = []
        for use, value in zip(self.report.reads[index], sweep.given[index], strict=True):
            if isinstance(value, Tensor) and use is not None and use.slot.spec.kind in TENSORS:
                value = self.tensor(sweep, use.slot.spec, sizes.shape(use.place.terms), value.dtype, value.device)
            values.append(value)
        return values, self.run_one(index, sweep, values, sizes)

    def _works(self, sweep: Sweep, index: int, values: Sequence[Any]) -> bool:
        return self.run_one(index, sweep, values).error is None

    def _fix(self, sweep: Sweep, index: int, uses: Sequence[Use]) -> str:
        """What the module would accept instead, found by trying."""
        values = sweep.given[index]
        for text, tried in self._variations(index, uses, values):
            if self._works(sweep, index, tried):
                return text
        return ""

    def _variations(self, index: int, uses: Sequence[Use], values: Sequence[Any]) -> Iterator[tuple[str, list[Any]]]:
        name = f"`{self.stages[index].name}`"
        if 1 < len(values) < 4:
            order = ", ".join(use.slot.label for use in reversed(uses))
            yield f"{name} accepts its in fields in another order: in_fields=({order})", list(reversed(values))
        sizes = (*interesting(self.targets[index])[:32], 1)
        for position, (use, value) in enumerate(zip(uses, values, strict=True)):
            if isinstance(value, Tensor):
                for text, shape, dtype in _changes(use, value, sizes):
                    given = f"{name} accepts {text} ({self.words.made_by(use.place)})"
                    yield given, self._with(values, position, shape, dtype)

    def _with(self, values: Sequence[Any], position: int, shape: Sequence[int], dtype: torch.dtype) -> list[Any]:
        changed = list(values)
        changed[position] = self.tensors.tensor(shape, dtype, values[position].device)
        return changed


def _changes(
    use: Use, value: Tensor, sizes: Sequence[int]
) -> Iterator[tuple[str, Sequence[int], torch.dtype]]:  # fmt: skip
    """Other tensors that might have been meant, in words, shape and dtype."""
    name, shape, batch = f"`{use.slot.name}`", list(value.shape), int(use.slot.spec.kind == "tensor")
    if value.ndim - batch > 1:
        yield f"{name} with its last two dims swapped", [*shape[:-2], shape[-1], shape[-2]], value.dtype
    for dim in reversed(range(batch, value.ndim)):
        for size in sizes:
            text = f"{size} for event dim {dim - batch} of {name}, it is given {shape[dim]}"
            yield text, [*shape[:dim], size, *shape[dim + 1 :]], value.dtype
    for dtype in (torch.float32, torch.int64, torch.float64, torch.bool):
        yield f"{str(dtype)[6:]} for {name}, it is given {str(value.dtype)[6:]}", shape, dtype
    for dim in (batch, value.ndim):
        text = f"{name} with one more dim of 1 at event dim {dim - batch}, `unsqueeze({dim - value.ndim - 1})`,"
        yield text, [*shape[:dim], 1, *shape[dim:]], value.dtype


def device_of(targets: Sequence[Callable[..., Any]]) -> torch.device:
    """Where the inputs probably are: with the first parameter of the pipeline."""
    parameters = (p for owner in map(module_of, targets) if owner is not None for p in owner.parameters())
    return next((parameter.device for parameter in parameters), torch.device("cpu"))


def parameter_count(target: Any) -> int:
    owner = module_of(target)
    return 0 if owner is None else sum(p.numel() for p in owner.parameters() if not is_lazy(p))


def liveness(stages: Sequence[Stage], output: type) -> list[frozenset[Path]]:
    """For each stage the places that are read after it, or returned."""
    later: set[Path] = {(name,) for name in fields_of(output)}
    found: list[frozenset[Path]] = []
    for stage in reversed(stages):
        found.append(frozenset(later - {slot.path for slot in stage.written}))
        later |= {slot.path for slot in stage.reads}
    return found[::-1]
