"""Finds inputs that a module accepts: tries other sizes, dtypes and ranks of open inputs, then changes for a hint."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from inspect import isabstract
from math import prod
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from ..._schema import Polynomial
from ...core import Path, TensorCollection
from ...store import RaggedTensor, Unbatched
from ..check._declared import Report, Use
from ..check._known import INPUT, Place
from ..check._unify import Clash, Rest, Term, plain_name
from ..parts._diagnostics import Diagnostic
from ..parts._stage import Stage, module_of
from ._batch_first import batch_first_fits
from ._copy import Isolator
from ._effects import Reach
from ._examples import NoExample, Unknown, example_of, follows_shapes, no_example
from ._fake import FakeTensors
from ._hints import hint_for_inputs, hint_for_outputs, numbers_in, sizes_by_element
from ._run import Outcome, RealTensors, Run, Tensors, empty
from ._sizes import (
    BATCHES,
    Learned,
    SweepSizes,
    accepted,
    alternatives,
    batch_dims,
    divisors,
    dtype_for,
    dtypes_of,
    interesting,
    names_of,
    near_multiples,
)
from ._words import Words

_STEPS = 8_000
"""Operations on fake tensors in one search: about a second."""
_MOST = 1 << 22
"""Numbers in a ragged field."""
BLOCKING = ("E101", "E102", "E103", "E110")


class Again(Exception):
    """Raised after something was learned about the inputs: sweep again."""


Event = tuple[tuple[int, ...], torch.dtype]


class Sweep:
    """One run of the whole pipeline: the values of its fields so far, and the outcome of every module."""

    def __init__(self, number: int, sizes: SweepSizes, isolator: Isolator, tensors: Tensors) -> None:
        self.number = number
        self.tensors = tensors
        self.batch = BATCHES[number]
        self.sizes = sizes
        self.isolator = isolator
        self.values: dict[Path, Any] = {}
        self.given: dict[int, tuple[Any, ...]] = {}
        self.live: dict[int, dict[Path, Any]] = {}
        """For each module, the values that later modules still need when it runs."""
        self.outcomes: dict[int, Outcome] = {}
        self.blind: dict[int, str] = {}

    def is_clean(self, index: int) -> bool:
        """Whether a module ran, and its results fit its declaration."""
        outcome = self.outcomes[index]
        return index not in self.blind and outcome.error is None and not outcome.findings


class Searcher:
    """Runs modules on inputs that they might accept."""

    laid_out = False
    """Whether names of dims are also those of a layout."""

    def __init__(
        self,
        report: Report,
        stages: Sequence[Stage],
        targets: Sequence[Callable[..., Any]],
        output: type,
        real: bool,
        further: Mapping[Path, int] = MappingProxyType({}),
    ) -> None:
        self.report = report
        self.stages = stages
        self.targets = targets
        self.real = real
        self.words = Words(report, stages, targets)
        self.words.takes_batch_first = functools.partial(batch_first_fits, weakref.proxy(self))  # else a cycle
        self.swept: dict[int, Sweep] = {}
        """The last sweep of each number."""
        self.unifier = report.state.unifier
        uses = (use for used in (*report.reads, *report.writes) for use in used if use is not None)
        terms = (term for use in uses for term in self.unifier.resolve(use.place.terms))
        steps = divisors(term for term in terms if isinstance(term, Polynomial))
        self.plan = Learned(steps=steps, further=further)
        self.narrowed: dict[str, int | str] = {}
        self.found: list[Diagnostic] = []
        self.answered: list[Diagnostic] = []
        self.hints: dict[int, str] = {}
        self.searching = True
        self.errors: list[Exception] = []
        self.causes: dict[str, Diagnostic] = {}
        """For each narrowed variable, the diagnostic about it."""
        self.first: SweepSizes
        """The sizes of the first sweep."""
        self.faults: dict[int, Diagnostic] = {}
        """Modules on which the probe itself fails."""
        self.made_up: set[Path] = set()
        """Fields without a default, whose Python values are examples of their type."""
        self.data: dict[int, bool] = {}
        self.events: dict[int, tuple[Event | None, ...]] = {}
        """What modules that fake tensors can't run return, event shape and dtype, where real runs agree on it."""
        self.ran: set[int] = set()
        """Modules that passed real runs."""
        self.blocked = {d.module for d in report.diagnostics if d.code in BLOCKING}
        self.live = liveness(stages, report.sources.values())
        self.device = device_of(targets)
        self.reach = [Reach.of(target) for target in targets]
        self.once = {index for index, reach in enumerate(self.reach) if reach.outside}
        """Modules with external effects. They run once, when all sizes are known."""

    @functools.cached_property
    def tensors(self) -> Any:
        """The tensors of the sweeps; fake ones are made late, since the first of a process takes a second."""
        return RealTensors(self.device) if self.real else FakeTensors()

    @functools.cached_property
    def own(self) -> list[set[str]]:
        """For each module, the variables that only its outputs determine."""
        known, found = {name for place in self.report.inputs.values() for name in self._names(place)}, []
        for writes in self.report.writes:
            named = {
                name for use in writes if use is not None for p in self.parts(use.place) for name in self._names(p)
            }
            found.append(named - known)
            known |= named
        return found

    def _names(self, place: Place) -> Iterator[str]:
        for term in self.unifier.resolve(place.terms):
            yield from names_of(term)

    @functools.cached_property
    def guessed(self) -> dict[int, str]:
        """The modules that read tensors whose dtype nothing declares, with the name of one: the probe made it up."""
        unknown = {path for path, place in self.report.inputs.items() if _is_any(place)}
        found = {}
        for index in range(len(self.stages)):
            names = [place.name for place in self.read(index) if place.path in unknown]
            if names:
                found[index] = names[0]
                written = [use.place for use in self.report.writes[index] if use is not None]
                unknown |= {place.path for place in written if _is_any(place)}
        return found

    @functools.cached_property
    def fed(self) -> dict[int, int]:
        """The modules that read Python state that another one may write, with that module. Copies can't follow it."""
        seen = [(reach, list(map(Reach.of, reach.hooks()))) for reach in self.reach]
        return {
            index: other
            for other, (reach, hooks) in enumerate(seen)
            for index, (reader, more) in enumerate(seen)
            if index != other and any(a.feeds(b) for a in (reach, *hooks) for b in (reader, *more))
        }

    def isolator(self, tensors: Tensors) -> Isolator:
        """The isolator for the copies of one sweep."""
        share = not any(reach.writes for reach in self.reach)
        return Isolator(tensors.copy, functools.partial(empty, tensors), share=share, known=self.data)

    def run_one(
        self,
        index: int,
        sweep: Sweep,
        values: Sequence[Any],
        sizes: SweepSizes | None = None,
        *,
        tensors: Tensors | None = None,
        live: Any = (),
        isolator: Isolator | None = None,
        target: Callable[..., Any] | None = None,
        writes: tuple[Use | None, ...] | None = None,
    ) -> Outcome:
        """Run a module on values; without `sizes`, the sizes of the sweep are used and not changed."""
        returned = self.report.sources.values()
        writes, dims = writes or self.report.writes[index], self.plan.most_further
        run = Run(index, self.stages[index], target or self.targets[index], writes, sweep.batch, returned, dims)
        sizes, tensors = sizes or sweep.sizes.again(self.plan, self.own[index]), tensors or sweep.tensors
        outcome = run(tensors, values, sizes, dict(live), isolator or self.isolator(tensors))
        self.errors += [] if outcome.error is None else [outcome.error]
        made_up = [part.name for part in self.read(index) if part.path in self.made_up]
        if outcome.error is not None and made_up and not follows_shapes(outcome.error):
            raise Unknown(no_example(made_up))
        return outcome

    def parts(self, place: Place) -> list[Place]:
        """A place, and those of the fields of a nested class."""
        known = self.report.inputs if place.writer == INPUT else self.report.state.places
        return [place, *(known[path] for path in known.overlapping(place.path) if len(path) > len(place.path))]

    def read(self, index: int) -> list[Place]:
        """Everything that a module reads, with the fields of nested classes."""
        return [place for use in self.report.reads[index] if use is not None for place in self.parts(use.place)]

    def terms(self, index: int) -> list[Term]:
        """The dims of everything that a module reads."""
        return [term for place in self.read(index) for term in self.unifier.resolve(place.terms)]

    def example(
        self,
        sweep: Sweep,
        place: Place,
        get: Callable[[Place], Any],
        sizes: SweepSizes | None = None,
        tensors: Tensors | None = None,
    ) -> Any:
        """A value for a field; `get` makes those of the fields of a nested class, which nothing validates."""
        spec, cls, count = place.spec, place.spec.nested, len(place.path)
        if spec.kind.is_dense:
            dtype = self.plan.dtypes.get(place.path) or dtype_for(place.dtype)
            batch = batch_dims(self.plan.further, place.path[:-1], sweep.number) if spec.kind.is_batched else []
            shape = [*batch, *(sizes or sweep.sizes).shape(place.terms)]
            return (tensors or sweep.tensors).tensor(shape, dtype, self.device)
        if spec.kind.is_ragged:
            real = tensors is not None and tensors.real  # in a search on fake tensors they stay as they are
            return self.ragged(sweep, place, sizes if sizes is not None and real else sweep.sizes)
        inner = [part for part in self.parts(place) if len(part.path) == count + 1]
        if cls is None or not inner or isabstract(cls):
            size = batch_dims(self.plan.further, place.path[:-1], sweep.number)
            value, made_up = example_of(spec, place.name, torch.Size(size))
            self.made_up |= {place.path} if made_up else set()
            if cls is not None and value is not None:
                raise Unknown(no_example([place.name]))  # an instance holds instances
            return value
        found = [(part.path[-1], part.spec.kind, get(part)) for part in inner]
        values = {n: Unbatched(v) if kind.is_shared else v for n, kind, v in found if v is not None}
        size = batch_dims(self.plan.further, place.path, sweep.number)
        return cls._from_entries(values, torch.Size(size), None, None)  # type: ignore[attr-defined]

    def ragged(self, sweep: Sweep, place: Place, sizes: SweepSizes) -> Any:
        """Real elements for a ragged field, with different lengths unless another field has the length as a dim."""
        terms = self.unifier.resolve(place.terms)
        shape, dtype = sizes.shape(place.terms), self.plan.dtypes.get(place.path) or dtype_for(place.dtype)
        if not shape:
            self.made_up.add(place.path)
            return NoExample(place.name)
        dense = (p.terms for p in self.report.inputs.values() if p.spec.kind.is_dense)
        shared = not isinstance(terms[0], Polynomial) or any(
            set(terms[0].names) & set(term.names)
            for other in dense
            for term in self.unifier.resolve(other)
            if isinstance(term, Polynomial)
        )
        lengths = [shape[0] if shared else max(1, shape[0] - 8 * element) for element in range(sweep.batch)]
        if sum(lengths) * prod(shape[1:]) > _MOST:
            raise Unknown(f"`{place.name}` of {list(shape)} is too large for a run on real elements")
        rows = RealTensors(self.device, 1).tensor((sum(lengths), *shape[1:]), dtype, self.device)
        return RaggedTensor(rows, lengths=lengths)

    def close(self) -> None:
        """Drop references in tracebacks: they hold the frames of the build, and so the modules."""
        if "tensors" in self.__dict__:
            self.tensors.close()
        for error in self.errors:
            error.__traceback__ = error.__context__ = error.__cause__ = None

    # ---- what a module accepts -----------------------------------------------------------------------------------

    def _search(self, sweep: Sweep, index: int, outcome: Outcome) -> None:
        """Search the open inputs for values that a module accepts, then for a hint.

        Raises:
            Again: if there are some.
            Unknown: if the inputs are too open to blame the module.
        """
        uses, terms = [use for use in self.report.reads[index] if use is not None], self.terms(index)
        names = [n for t in terms if isinstance(t, Polynomial) for n in t.names if n in sweep.sizes.guessed]
        if sweep.batch == 1:
            misfits = outcome.error is not None or [found.code for found in outcome.findings] == ["E114"]
            if misfits and self._alone_at_known_sizes(sweep, index, names, outcome):
                raise Again
            return
        if outcome.error is not None and self._search_dtypes(sweep, index):
            raise Again
        rests = [t.name for t in terms if isinstance(t, Rest) and t.name in sweep.sizes.guessed]
        # Results for a shape that we chose prove little, unless other shapes do no better.
        wrong = outcome.error is not None or (rests and outcome.findings)
        names = list(dict.fromkeys(names))
        if wrong and self._search_sizes(sweep, index, names, list(dict.fromkeys(rests)), outcome.error):
            raise Again
        if self._moves(sweep, index, outcome):
            raise Again
        if outcome.error is not None and rests:
            raise Unknown("its inputs are declared with any shape, and the module rejects every shape that was tried")
        if outcome.error is not None:
            hint = hint_for_inputs(self, sweep, index, uses, outcome.error)
            self.hints[index] = hint or self.words.left_out(index, outcome.error)
        elif {found.code for found in outcome.findings} & {"E110", "E111", "E113", "E114"}:
            counted = any(found.code == "E110" for found in outcome.findings)
            order = hint_for_outputs(self, sweep, index, counted=counted)
            self.hints.update({index: order} if order else {})  # a module with a hint is not searched in later sweeps

    def _search_dtypes(self, sweep: Sweep, index: int) -> bool:
        for place in self.read(index):
            is_open = place.writer == INPUT and (place.dtype is None or place.dtype.exact is None)
            is_open &= place.spec.kind.is_dense or place.spec.kind.is_ragged
            if not is_open or place.path in self.plan.dtypes:
                continue
            for dtype in dtypes_of(place.dtype):
                self.plan.dtypes[place.path] = dtype
                if self.run_at(sweep, index, self.plan)[1].error is None:
                    return True
            del self.plan.dtypes[place.path]
        return False

    def search_ragged(self, sweep: Sweep, index: int) -> bool:
        """Search the sizes of ragged fields on real elements, which fake tensors can't replace."""
        tensors, terms = RealTensors(self.device), self.terms(index)
        names = [n for t in terms if isinstance(t, Polynomial) for n in t.names if n in sweep.sizes.guessed]
        error = self.run_at(sweep, index, self.plan, tensors)[1].error
        return error is not None and self._search_sizes(sweep, index, list(dict.fromkeys(names)), [], error, tensors)

    def _search_sizes(
        self,
        sweep: Sweep,
        index: int,
        names: list[str],
        rests: list[str],
        error: Exception | None,
        tensors: Tensors | None = None,
    ) -> bool:
        """Search sizes of unknown dims with which a module runs; True if some are found."""
        more, told, paired = self.budget(), numbers_in(error), sizes_by_element(error)
        sizes = sorted(interesting(self.targets[index]), key=lambda size: size not in told)
        sizes = [size for size in sizes if size in told] if tensors is not None else sizes  # each run takes real time
        for rank in (1, 0, 2, 3) if rests else (0,):
            ranks = dict.fromkeys(rests, rank)
            variables = names + [f"{rest}#{i}" for rest in rests for i in range(rank)]

            def works(chosen: dict[str, int], ranks: dict[str, int] = ranks) -> bool:
                if (
                    paired is not None
                    and not paired.issuperset(chosen.values())
                    and min(chosen.values(), default=9) < 8
                ):
                    return False
                with suppress(Unknown):  # sizes that are too large
                    tried = self.run_at(sweep, index, self.plan.with_(chosen, ranks), tensors)[1]
                    fits = tried.error is None and not (ranks and tried.findings)
                    return fits and not (sweep.batch in chosen.values() and self._fits_by_batch(sweep, index, chosen))
                return False

            found = {} if rests and works({}) else accepted(variables, sizes, works, more)
            if found or (rests and works({})):
                self.plan.ranks.update(ranks)
                others = {name: alternatives([name], found, works) for name in found}
                fixed = [name for name in found if not others[name] and "#" not in name]
                known = {**sweep.sizes.known, **found}
                same = [name for name in names if fixed and known.get(name) == known[fixed[0]]]
                alike = alternatives(same, known, works) if len(same) > 1 else []
                for name in {**found, **dict.fromkeys(same if alike else ())}:
                    # If there are several sizes, the sweeps use them in turn.
                    self.plan.sizes[name] = (known[name], *(alike if name in same else others[name]))
                for name in same[1:] if alike else ():
                    self._narrow(index, name, same[0], *self.words.one_size(index, same[0], name))
                for name in fixed:
                    if found[name] in sizes and not alike:
                        given = sweep.given[index]
                        text = self.words.only_size(index, name, found[name], error, given)
                        self._narrow(index, name, found[name], *text)
                return True
        return False

    def _fits_by_batch(self, sweep: Sweep, index: int, chosen: Mapping[str, int]) -> bool:
        """Whether a module accepts a size only since the batch has the same."""
        if any(use is not None and use.place.writer != INPUT for use in self.report.reads[index]):
            return False
        other = copy(sweep)
        other.number = int(not sweep.number)
        other.batch = BATCHES[other.number]
        return self.run_at(other, index, self.plan.with_(chosen))[1].error is not None

    def budget(self) -> Callable[..., bool]:
        """Whether a search that begins now may go on; a large model is tried less often."""
        start = getattr(self.tensors, "steps", 0)
        return lambda *_: getattr(self.tensors, "steps", 0) - start < _STEPS

    def _moves(self, sweep: Sweep, index: int, outcome: Outcome) -> bool:
        """If a module moves dims, the size that it declares is that of the open dim of the input."""
        if [finding.code for finding in outcome.findings] != ["E114"]:
            return False
        use = self.report.writes[index][outcome.findings[0].position]
        shape, found = outcome.findings[0].given, False
        reads = [value.shape for value in sweep.given[index] if isinstance(value, Tensor)]
        if use is None or not any(sorted(read[1:]) == sorted(shape) for read in reads):
            return False
        terms = self.unifier.resolve(use.place.terms)
        for term, size in zip(terms, shape, strict=False) if len(terms) == len(shape) else ():
            names = [name for name in sweep.sizes.guessed if sweep.sizes.known.get(name) == size]
            wanted = term.constant if isinstance(term, Polynomial) else None
            if wanted is not None and wanted != size and len(names) == 1:
                text = self.words.declared_size(index, names[0], wanted)
                found |= self._narrow(index, names[0], wanted, *text, code="W205")
        return found

    def _narrow(self, index: int, name: str, size: int | str, message: str, hint: str, code: str = "") -> bool:
        """Fix the size of an input dim from now on: an error if its name says that it is free, without a code."""
        inputs = [term for place in self.report.inputs.values() for term in self.unifier.resolve(place.terms)]
        fields = [place.name for place in self.report.inputs.values() if {name, size} & {*self._names(place)}]
        try:
            self.unifier.unify((Polynomial.of(name),), (Polynomial.of(size),))
        except Clash:
            return False
        self.narrowed[name] = size
        if isinstance(size, str) and plain_name(name) == plain_name(size):
            self.found.append(self.words.one_scope(index, plain_name(name), fields))
            return True
        if any(isinstance(term, Polynomial) and name in term.names for term in inputs):
            is_free = plain_name(name).isidentifier() and plain_name(name) != "_" and not self.laid_out
            code = code or ("E122" if is_free else "W205")
            self.causes[name] = replace(self.words.diagnostic(index, code, "", (), hint), message=message)
            self.found.append(self.causes[name])
        return True

    def run_at(
        self, sweep: Sweep, index: int, plan: Learned, tensors: Tensors | None = None
    ) -> tuple[list[Any], Outcome]:
        """Run a module on values with other sizes than those of the sweep; also returns the values."""
        sizes = sweep.sizes.again(plan, self.own[index])
        values = []
        for use, value in zip(self.report.reads[index], sweep.given[index], strict=True):
            if use is not None and (use.place.writer == INPUT or isinstance(value, TensorCollection)):
                value = None if value is None else self._again(sweep, use.place, sizes, tensors)
            elif isinstance(value, Tensor) and use is not None and use.slot.spec.kind.is_dense:
                shape = sizes.shape(use.place.terms)
                shape = (*value.shape[: max(value.ndim - len(shape), 0)], *shape)
                value = (tensors or sweep.tensors).tensor(shape, value.dtype, value.device)
            values.append(value)
        return values, self.run_one(index, sweep, values, sizes, tensors=tensors)

    def _again(self, sweep: Sweep, place: Place, sizes: SweepSizes, tensors: Tensors | None) -> Any:
        """The value of a nested class with other sizes."""
        return self.example(sweep, place, lambda inner: self._again(sweep, inner, sizes, tensors), sizes, tensors)

    def _alone_at_known_sizes(self, sweep: Sweep, index: int, names: Sequence[str], outcome: Outcome) -> bool:
        """Whether a batch of one is accepted with the sizes of the first sweep: then the other sizes were wrong."""
        first = {name: self.first.known[name] for name in names if name in self.first.known}
        first = {name: size for name, size in first.items() if size != sweep.sizes.known.get(name)}
        if not first or not self._accepts(sweep, index, first):
            return False
        near = self._tell_multiples(sweep, index, {name: sweep.sizes.known[name] for name in first}, outcome)
        for name, size in first.items() if near or outcome.error is not None else ():
            self.plan.sizes[name] = (size, 3 * size, near[name]) if near else (size,)
        return bool(near) or outcome.error is not None

    def _accepts(self, sweep: Sweep, index: int, sizes: Mapping[str, int]) -> bool:
        outcome = self.run_at(sweep, index, self.plan.with_(sizes))[1]
        return outcome.error is None and not outcome.findings

    def _tell_multiples(
        self, sweep: Sweep, index: int, refused: Mapping[str, int], outcome: Outcome
    ) -> Mapping[str, int]:
        """W210 if a module is right only for multiples of a power of two, near which sizes are returned."""
        for step, sizes in near_multiples(refused):
            if self._accepts(sweep, index, sizes):
                wrong = [n for n, size in refused.items() if not self._accepts(sweep, index, {**sizes, n: size})]
                divided = [name for name in wrong if self.plan.steps.get(name, 1) % step == 0]  # declared as `h//2`
                told = {name: refused[name] for name in wrong if "#" not in name and name not in divided}
                self.found += [self.words.multiples(index, told, step, outcome)] if told else []
                return sizes if told or outcome.error is not None else {}
        return {}


def _is_any(place: Place) -> bool:
    """Whether a field holds tensors of any dtype."""
    return place.spec.kind.is_dense and (place.dtype is None or place.dtype.dtypes is None)


def device_of(targets: Sequence[Callable[..., Any]]) -> torch.device:
    """The probable device of the inputs: that of the first parameter of the pipeline."""
    parameters = (p for owner in map(module_of, targets) if owner is not None for p in owner.parameters())
    return next((parameter.device for parameter in parameters), torch.device("cpu"))


def liveness(stages: Sequence[Stage], returned: Iterable[str]) -> list[frozenset[Path]]:
    """For each stage, the places that are read after it, or returned."""
    later: set[Path] = {(name,) for name in returned}
    found: list[frozenset[Path]] = []
    for stage in reversed(stages):
        found.append(frozenset(later - {slot.path for slot in stage.written}))
        later |= {slot.path for slot in stage.reads}
    return found[::-1]
