"""Step 2 of the build check: runs every callable on fake tensors, and compares its results with its declaration.

A sweep runs the whole pipeline once, for batches of two, three and one, with other sizes of the open dims each time. If
a module raises, other sizes, dtypes and ranks of the open inputs are tried, and a copy runs on real values, since fake
tensors have gaps. Only then it is reported as an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..._schema import Polynomial
from ...core import Path, TensorCollection
from ..check._declared import Probed, Report, SeenOutput, Use
from ..check._known import Place, overlap
from ..check._unify import Clash, Rest, Term, plain_name
from ..parts._diagnostics import Diagnostic
from ..parts._slots import item_of
from ..parts._stage import Stage
from ._copy import Isolator, Uncopyable
from ._effects import OPT_OUT
from ._examples import Unknown, is_structural
from ._fake import Unavailable
from ._quiet import quiet
from ._run import Outcome, RealTensors, Symptom, Tensors, as_real, batch_ndim
from ._search import Again, Searcher, Sweep, parameter_count
from ._settings import restored
from ._sizes import BATCHES, SweepSizes
from ._values import RealRuns
from ._watched import Stopped, Watched
from ._words import expression_of, useful_line

_ATTEMPTS = 24
_NOT_RUN = ("N302", "W206", "W209")
_NESTED = 4
"""How many nested fields are given further batch dims."""
_LATER = "its outputs are compared on the first call"
_COPIED = 1 << 23
"""Parameters below which real runs are faster than fake ones."""
_REAL_PARAMETERS, _REAL_VALUES = 1 << 26, 1 << 24


def probe(
    report: Report, stages: Sequence[Stage], targets: Sequence[Callable[..., Any]], output: type, *, real: bool = False
) -> Report:
    """Add the results of probing to the report of step 1.

    Args:
        report: The report of step 1.
        stages: The modules.
        targets: The callable of each stage.
        output: The class that the pipeline returns.
        real: Whether copies run on real tensors instead of fake ones.
    """
    before = report.state.unifier.mark()
    with quiet():
        tried = [_probe_with(report, stages, targets, output, real, {})]
        for further in further_dims(report) if _errors(tried[0]) else ():
            report.state.unifier.undo(*before)
            tried.append(_probe_with(report, stages, targets, output, real, further))
            if _passes_like(tried[0], tried[-1]):
                return tried[-1]
            if not _errors(tried[-1]):
                tried.pop()  # it could not run
    best = max(tried, key=_progress_of)
    report.state.unifier.undo(*before)
    return relearn(report, best.probed) if best.probed is not None else best


def _probe_with(
    report: Report,
    stages: Sequence[Stage],
    targets: Sequence[Callable[..., Any]],
    output: type,
    real: bool,
    further: Mapping[Path, int],
) -> Report:
    prober = Prober(report, stages, targets, output, real, further)
    try:
        return prober.run()
    except Unavailable as reason:
        message = "no module is probed: this torch has no fake tensors as we know them"
        note = Diagnostic("N302", message, notes=(str(reason),))
        return replace(report, diagnostics=(*report.diagnostics, note))
    finally:
        prober.close()


def _errors(report: Report) -> list[Diagnostic]:
    return [] if report.probed is None else [d for d in report.probed.diagnostics if d.severity == "error"]


def _passes_like(first: Report, other: Report) -> bool:
    """Whether a try has no errors, and ran what the first one ran."""
    unknown = [{(d.code, d.module) for d in tried.diagnostics if d.code in _NOT_RUN} for tried in (first, other)]
    return not _errors(other) and unknown[1] <= unknown[0]


def _progress_of(report: Report) -> tuple[int, bool]:
    """How far a pipeline came: the first wrong module, and whether it ran."""
    first = min(_errors(report), key=lambda d: d.module or 0, default=None)
    return (len(report.reads), True) if first is None else (first.module or 0, first.code != "E108")


def further_dims(report: Report) -> Iterator[Mapping[Path, int]]:
    """The further batch dims that nested instances of the input may have, which no class declares: one, then two."""
    nested = [path for path, place in report.inputs.items() if place.spec.nested is not None]
    for count in (1, 2):
        yield from ({path: count} for path in nested[:_NESTED])
        if len(nested) > 1 and count == 1:
            yield {path: 1 for path in nested if len(path) == 1}


def influences(
    report: Report, stages: Sequence[Stage], targets: Sequence[Callable[..., Any]], output: type
) -> tuple[Diagnostic, ...]:
    """Modules in which an element of the batch influences another one: E117, and W204 for batch norm in training.

    Args:
        report: The report of the build check.
        stages: The modules.
        targets: The callable of each stage.
        output: The class that the pipeline returns.
    """
    found: list[Diagnostic] = []
    with quiet():
        further = {} if report.probed is None else report.probed.further
        prober = Prober(report, stages, targets, output, True, further)
        sweep = prober.sweeps()[1]  # the one with three elements
        for index in range(len(stages)):
            try:
                found += RealRuns(prober, sweep, index).influences()
            except (Unknown, Uncopyable):
                continue
            except Exception as error:  # a failure of the check itself
                found.append(prober.fault(index, error))
        found = prober._proven(found)
        prober.close()
    return tuple(found)


def relearn(report: Report, probed: Probed | None) -> Report:
    """The report of a copied pipeline with the probe results of the original."""
    if probed is None:
        return report
    for name, size in probed.narrowed.items():
        with suppress(Clash):
            report.state.unifier.unify((Polynomial.of(name),), (Polynomial.of(size),))
    return replace(report, diagnostics=_sort_findings(report, probed), probed=probed)


def _sort_findings(report: Report, probed: Probed) -> tuple[Diagnostic, ...]:
    """All findings, in the order of the modules, without those that a probe has refuted."""
    found = [d for d in report.diagnostics if d not in probed.answered]
    found += probed.diagnostics
    return tuple(sorted(found, key=lambda d: len(report.reads) if d.module is None else d.module))


class Prober(Searcher):
    """Probes one pipeline."""

    sizes_seen: dict[tuple[int, ...], str]
    """The expressions of sizes by their numbers in the sweeps."""
    stopped = False
    """Whether a run on real values was stopped, so that fake tensors are needed."""

    def run(self) -> Report:
        """Run all sweeps, then report their findings."""
        sweeps, self.sizes_seen = self.sweeps(), {}
        for index in sorted(self.once & sweeps[0].given.keys()):
            try:
                self._once(sweeps[0], index)
            except Exception as error:  # as in a sweep
                self.faults[index] = self.fault(index, error)
        for index in range(len(self.stages)):
            self._tell(index, sweeps)
        self.found = self._proven(self._cite_findings())
        seen = tuple(self._seen(sweeps, index) for index in range(len(self.stages)))
        blind = {index: reason for sweep in sweeps[:1] for index, reason in sweep.blind.items()}
        findings, further = (tuple(self.found), tuple(self.answered)), self.plan.further
        probed = Probed(*findings, dict(self.narrowed), seen, blind, further)
        return replace(self.report, diagnostics=_sort_findings(self.report, probed), probed=probed)

    def _proven(self, found: Sequence[Diagnostic]) -> list[Diagnostic]:
        """The findings; a note replaces the errors of a module about whose inputs the check knows too little."""
        kept, told = [], set[int]()
        for d in found:
            reason = self._doubt(d) if d.severity == "error" and d.module is not None else ""
            if not reason:
                kept.append(d)
            elif d.module is not None and d.module not in told:
                told.add(d.module)
                kept.append(self.words.diagnostic(d.module, "N302", f"is not probed: {reason}", (), _LATER))
        return kept

    def _doubt(self, found: Diagnostic) -> str:
        """The reason why an error of a module proves nothing; "" if it does."""
        index = found.module or 0
        if index in self.fed:
            return f"it shares Python state with {self.words.who(self.fed[index])}, and copies do not"
        if found.code in ("E108", "E111") and index in self.guessed:
            return f"no dtype is declared for `{self.guessed[index]}`, and it rejects those that were tried"
        return ""

    def _cite_findings(self) -> list[Diagnostic]:
        """The findings. Errors of modules that depend on a narrowed field say where it was narrowed."""
        found = list(self.found)
        for name, cause in self.causes.items():
            inputs = self.report.inputs.items()
            stem = {path for path, place in inputs if any(name in _names(term) for term in place.terms)}
            late = set[int]()
            for index, stage in enumerate(self.stages):
                if any(overlap(slot.path, path) for slot in stage.reads for path in stem):
                    stem |= {slot.path for slot in stage.written}
                    late.add(index)
            note = f"see {cause.code}: {cause.message} ({cause.location})"
            for place, d in enumerate(found):
                if d.severity == "error" and d.module in late:
                    found[place] = replace(d, notes=(*d.notes, note))
        return found

    def sweeps(self) -> list[Sweep]:
        """The sweeps of the last attempt, which learned nothing new about the inputs."""
        for attempt in range(_ATTEMPTS + 1):
            self.searching = attempt < _ATTEMPTS
            try:
                return self._light() or [self._sweep(number) for number in range(len(BATCHES))]
            except Again:
                self.answered.clear()
        raise AssertionError("a sweep that does not search has an end")

    def _light(self) -> list[Sweep]:
        """The sweeps on real values; empty unless everything passes, and soon."""
        if self.real or self.stopped or self.once or sum(map(parameter_count, self.targets)) > _COPIED:
            return []
        tensors, before = Watched(self.device), (dict(self.faults), self.found[:], self.answered[:])
        isolator = self.isolator(tensors)
        try:
            return [self._sweep(number, tensors, isolator) for number in range(len(BATCHES))]
        except Stopped:
            self.faults, self.found, self.answered = before
            self.stopped = tensors.watch.stopped
            return []

    def _sweep(self, number: int, tensors: Tensors | None = None, isolator: Isolator | None = None) -> Sweep:
        used: Tensors = self.tensors if tensors is None else tensors
        sizes = SweepSizes(self.unifier, self.plan, number, small=used.real)
        sweep = Sweep(number, sizes, isolator or self.isolator(used), used)
        if number == 0:
            self.first = sizes
        for place in self.report.inputs.values():
            if place.spec.kind.is_dense:  # numbers are assigned to names in the order of the input class
                sweep.sizes.shape(place.terms)
        for index in range(len(self.stages)):
            self._step(sweep, index)
            passes = sweep.is_clean(index) and index not in self.faults
            if isinstance(used, Watched) and (used.watch.stopped or not passes):
                raise Stopped
        return sweep

    # ---- one module in one sweep ---------------------------------------------------------------------------------

    def _step(self, sweep: Sweep, index: int) -> None:
        """Run a module. Its wrong or unknown outputs are replaced by values that fit the declaration."""
        outcome = Outcome()
        if self.reach[index].refused:
            sweep.blind[index] = f"`{self.reach[index].refused}` says `{OPT_OUT} = False`"
        elif index not in self.blocked:
            try:
                sweep.given[index] = tuple(
                    item_of(self._value(sweep, use.slot.path), use.slot.items)
                    for use in self.report.reads[index]
                    if use is not None
                )
                kept = self.live[index] | self.report.inputs.keys()
                held = {path: value for path, value in sweep.values.items() if path in kept or path[:1] in kept}
                sweep.live[index] = held
                outcome = outcome if index in self.once else self._outcome(sweep, index)
            except (Again, Stopped):
                raise
            except (Unknown, Uncopyable) as reason:
                sweep.blind[index] = str(reason)
            except Exception as error:  # a failure of the probe itself must not stop a build
                self.faults[index] = self.fault(index, error)
        sweep.outcomes[index] = outcome
        usable = outcome.values if not outcome.findings else None
        for position, use in enumerate(self.report.writes[index]):
            if use is not None:
                value = usable[position] if usable is not None else self._declared(sweep, use.place)
                self._write(sweep, use.slot.path, value)

    def fault(self, index: int, error: Exception) -> Diagnostic:
        """W206."""
        self.errors.append(error)
        what = f"could not be copied for the check: {type(error).__name__}: {useful_line(error)}"
        hint = "a fault of tensorclass, please report it; its outputs are compared on the first call"
        return self.words.diagnostic(index, "W206", what, (), hint)

    def _outcome(self, sweep: Sweep, index: int) -> Outcome:
        values = sweep.given[index]
        outcome = self.run_one(index, sweep, values, sweep.sizes, live=sweep.live[index], isolator=sweep.isolator)
        if isinstance(sweep.tensors, Watched):
            if outcome.error is None and sweep.number == 0:
                self._without(sweep, index)
            return outcome  # trusted only without findings
        if self.real and outcome.error is not None:  # zeros may be invalid, for example as lengths
            others = RealTensors(self.device, 2)
            made = [as_real(value, others) for value in values]
            again = self.run_one(index, sweep, made, sweep.sizes, tensors=others, live=sweep.live[index])
            outcome = again if again.error is None or is_structural(again.error) else outcome
        if outcome.error is not None and self.tensors.is_blind(outcome.error):
            uneven = any(place.spec.kind.is_ragged for place in self.read(index))
            if self.searching and uneven and self.search_ragged(sweep, index):
                raise Again
            raise Unknown(self.words.blind(outcome.error))
        if (outcome.error is not None or outcome.findings) and not self._really(sweep, index, outcome):
            raise Unknown("fake tensors do not show what it does")
        if self.searching and index not in self.hints:
            self._search(sweep, index, outcome)
        if outcome.error is None and sweep.number == 0:
            self._without(sweep, index)
        return outcome

    def _once(self, sweep: Sweep, index: int) -> None:
        """Run a module with external effects, once: without retries and searches."""
        guessed = [name for t in self.terms(index) for name in ([t.name] if isinstance(t, Rest) else t.names)]
        try:
            with restored():
                outcome = self.run_one(
                    index, sweep, sweep.given[index], live=sweep.live[index], isolator=sweep.isolator
                )
        except (Unknown, Uncopyable) as reason:
            sweep.blind[index] = str(reason)
            return
        if outcome.error is not None and self.tensors.is_blind(outcome.error):
            sweep.blind[index] = self.words.blind(outcome.error)
        elif outcome.error is not None and sweep.sizes.guessed.intersection(guessed):
            outside = self.reach[index].outside
            sweep.blind[index] = f"it reaches {outside}, so it ran only once, and it rejects the sizes that were tried"
        sweep.outcomes[index] = outcome

    def _really(self, sweep: Sweep, index: int, outcome: Outcome) -> bool:
        """Whether a copy behaves the same with real values; a module that is too large is trusted."""
        values = sweep.given[index]
        held = sum(value.numel() for value in values if isinstance(value, Tensor))
        if self.real or held > _REAL_VALUES or parameter_count(self.targets[index]) > _REAL_PARAMETERS:
            return True
        tensors = RealTensors(self.device)
        made = [as_real(value, tensors) for value in values]
        paths = [use.slot.path for use in self.report.reads[index] if use is not None]
        again = self.run_one(index, sweep, made, tensors=tensors, live=zip(paths, made, strict=True))
        if again.error is not None and outcome.error is None and sweep.sizes.guessed:
            # The module may fail for too many values, which fake tensors can't show: try fewer.
            few = {name: 4 * place for place, name in enumerate(sorted(sweep.sizes.guessed), 2)}
            again = self.run_at(sweep, index, self.plan.with_(few), tensors)[1]
        if again.error is not None and tensors.is_blind(again.error):
            return False
        if again.error is not None and outcome.error is not None:
            outcome.error = again.error if useful_line(again.error) else outcome.error
        codes = {finding.code for finding in outcome.findings}
        inherited = codes == {"E109"}  # new values can't be views of another field
        return (again.error is not None) == (outcome.error is not None) and (
            inherited or codes == {finding.code for finding in again.findings} or not codes
        )

    def _without(self, sweep: Sweep, index: int) -> None:
        """Run without each optional in field: the signature may say that None is accepted, or not."""
        told = [d for d in self.report.diagnostics if d.code == "E104" and d.module == index]
        gates = self.report.gates[index] if self.report.gates else ()
        for position, use in enumerate(self.report.reads[index]):
            if use is None or not use.place.optional or position in gates or sweep.given[index][position] is None:
                continue
            values = list(sweep.given[index])
            values[position] = None
            absent = self.run_one(index, sweep, values)
            known = [d for d in told if f"parameter {position} " in d.message]
            if absent.error is None and not absent.findings:
                self.answered += known
            elif absent.error is not None and not known and "None" in str(absent.error):
                message = f"reads the optional `{use.slot.name}`, and fails without it: {useful_line(absent.error)}"
                hint = "handle None, make the field required, or let `partial=True` skip a parameter without None"
                found = self.words.diagnostic(index, "E104", message, (), hint)
                self.found += [] if found in self.found else [found]

    # ---- values --------------------------------------------------------------------------------------------------

    def _value(self, sweep: Sweep, path: Path) -> Any:
        for length in range(len(path), 0, -1):
            if path[:length] in sweep.values:
                value = sweep.values[path[:length]]
                for name in path[length:]:
                    value = getattr(value, name)
                break
        else:
            place = self.report.inputs[path]
            value = self.example(sweep, place, lambda inner: self._value(sweep, inner.path))
            sweep.values[path] = value
        return value

    def _declared(self, sweep: Sweep, place: Place) -> Any:
        """A value that fits a declared output."""
        return self.example(sweep, place, lambda inner: self._declared(sweep, inner))

    def _write(self, sweep: Sweep, path: Path, value: Any) -> None:
        for other in [p for p in sweep.values if p[: len(path)] == path or path[: len(p)] == p]:
            del sweep.values[other]
        sweep.values[path] = value

    # ---- findings ------------------------------------------------------------------------------------------------

    def _tell(self, index: int, sweeps: Sequence[Sweep]) -> None:
        """Report the behaviour of one module in all sweeps as diagnostics."""
        reason = next((sweep.blind[index] for sweep in sweeps if index in sweep.blind), None)
        if index in self.faults:
            self.found.append(self.faults[index])
            return
        if reason is not None:
            told = [] if index in self.once else self._by_values(sweeps[1], index, True, sweeps[0])
            self.found += told
            if any(d.severity == "error" for d in told):
                return
            uneven = [place.name for place in self.read(index) if place.spec.kind.is_ragged]
            written = [place for use in self.report.writes[index] if use for place in self.parts(use.place)]
            if (uneven or any(place.spec.kind.is_ragged for place in written)) and index in self.ran:
                return  # real values show what fake ones can't
            if uneven and not self.reach[index].refused:
                self.found.append(self.words.uneven(index, uneven, reason))
                return
            hint = "" if self.real else f'{_LATER}; `probe="run"` runs a copy now'
            self.found.append(self.words.diagnostic(index, "N302", f"is not probed: {reason}", (), hint))
            return
        shown = sweeps[: 1 if index in self.once else 2]
        for sweep in shown:
            outcome = sweep.outcomes[index]
            given = self._given(sweep, index)
            if outcome.error is not None:
                self.found.append(self.words.rejected(index, outcome.error, given, self.hints.get(index, "")))
                return
            if outcome.findings:
                sometimes = any(not other.outcomes[index].findings for other in shown)
                for finding in outcome.findings:
                    if sometimes and finding.code in ("E113", "E114"):
                        self.found.append(self.words.sometimes(index, finding, given))
                        continue
                    dim = finding.dim or 0
                    text = self._expression(index, finding.position, dim, sweeps) if finding.code == "E114" else ""
                    worded = self.words.finding(index, finding, given, sweep.batch, text)
                    self.found.append(replace(worded, hint=self.hints.get(index) or worded.hint))
                return
        self._follows(index, sweeps)
        self._note_promotions(index, sweeps[0])
        before = len(self.found)
        self._alone(index, sweeps)
        if index not in self.once and before == len(self.found):
            self.found += self._by_values(sweeps[1], index, False)

    def _by_values(self, sweep: Sweep, index: int, blind: bool, other: Sweep | None = None) -> list[Diagnostic]:
        if self.reach[index].refused or index in self.blocked:
            return []
        try:
            runs = RealRuns(self, sweep, index, other)
            told = list(runs.shown(blind))
            self.ran |= {index} if runs.passed else set()
            return told
        except (Unknown, Uncopyable):
            return []
        except Exception as error:  # as for a sweep
            return [self.fault(index, error)]

    def _alone(self, index: int, sweeps: Sequence[Sweep]) -> None:
        outcome, given = sweeps[2].outcomes[index], self._given(sweeps[2], index)
        if outcome.error is not None:
            message = f"rejects a batch of one: {useful_line(outcome.error)}"
            self.found.append(self.words.diagnostic(index, "N304", message, (given,)))
        for finding in outcome.findings[:1]:
            if finding.code in ("E113", "E114") and self._also_for_two(sweeps[2], index, finding):
                self.found.append(self.words.sometimes(index, finding, given))
                continue
            normal = self._shapes(index, finding.position, sweeps)
            self.found.append(self.words.single(index, finding, normal, given))

    def _also_for_two(self, sweep: Sweep, index: int, finding: Symptom) -> bool:
        """Whether two equal elements show what one of them shows: then the batch of one is not the cause."""
        two = copy(sweep)
        two.batch = 2
        values: list[Any] = []
        for use, value in zip((u for u in self.report.reads[index] if u is not None), sweep.given[index], strict=True):
            batched = use.batched and isinstance(value, (Tensor, TensorCollection))
            twice: Any = [value, value]
            values.append(torch.cat(twice) if batched else value)
        codes = [found.code for found in self.run_one(index, two, values).findings]
        return finding.code in codes

    def _follows(self, index: int, sweeps: Sequence[Sweep]) -> None:
        """Check that dims that only outputs have are constants, since nothing else determines them."""
        first, second = sweeps[0].sizes, sweeps[1].sizes
        for name, (stage, position, dim) in first.bound.items():
            if stage == index and name in second.bound and first.known[name] != second.known[name]:
                shapes = self._shapes(index, position, sweeps)
                sizes = [shape[dim] if shape is not None and dim < len(shape) else None for shape in shapes]
                batch = sizes == list(BATCHES)
                text = self._expression(index, position, dim, sweeps)
                self.found.append(self.words.follows(index, position, dim, shapes, text, batch))

    def _note_promotions(self, index: int, sweep: Sweep) -> None:
        given = [value.dtype for value in sweep.given.get(index, ()) if isinstance(value, Tensor)]
        for use, value in zip(self.report.writes[index], sweep.outcomes[index].values or (), strict=False):
            if use is None or not isinstance(value, Tensor) or torch.float64 in given or use.place.dtype is None:
                continue
            if value.dtype == torch.float64 and use.place.dtype.exact is None and use.slot.spec.kind.is_dense:
                message = f"writes `{use.slot.name}` as float64, and reads nothing of that dtype"
                hint = "a float64 tensor or a numpy value took part; convert it, or declare Float64"
                self.found.append(self.words.diagnostic(index, "W202", message, (f"declared {use.slot}",), hint))

    def _given(self, sweep: Sweep, index: int) -> str:
        return self.words.given(self.report.reads[index], sweep.given[index]) if index in sweep.given else ""

    def _shapes(self, index: int, position: int, sweeps: Sequence[Sweep]) -> list[tuple[int, ...] | None]:
        """The actual event shape of one output in each sweep."""
        found: list[tuple[int, ...] | None] = []
        use = self.report.writes[index][position]
        for sweep in sweeps:
            values = sweep.outcomes[index].values
            found.append(None if values is None else self._event(use, values[position]))
        return found

    def _event(self, use: Use | None, value: Any) -> tuple[int, ...] | None:
        if not isinstance(value, Tensor):
            return None
        return tuple(value.shape[batch_ndim(use, value, self.plan.most_further) :])

    def _expression(self, index: int, position: int, dim: int, sweeps: Sequence[Sweep]) -> str:
        """An expression for a size in terms of the inputs. An additional run with odd sizes distinguishes roundings."""
        rows = [
            (shape, sweep.given[index])
            for shape, sweep in zip(self._shapes(index, position, sweeps), sweeps, strict=True)
            if index in sweep.given
        ]
        first = sweeps[0]
        values, outcome = self._at_odd_sizes(first, index)
        made = outcome.values
        if made is not None and isinstance(made[position], Tensor):
            rows.append((self._event(self.report.writes[index][position], made[position]), tuple(values)))
        usable = [(shape[dim], given) for shape, given in rows if shape is not None and dim < len(shape)]
        reads = self.report.reads[index]
        seen = [[self._event(use, given[i]) for _, given in usable] for i, use in enumerate(reads)]
        return self.words.expression(reads, seen, [size for size, _ in usable])

    def _at_odd_sizes(self, sweep: Sweep, index: int) -> tuple[list[Any], Outcome]:
        if index in self.once:
            return [], Outcome()
        odd = {name: size + 5 for name, size in sweep.sizes.known.items() if name in sweep.sizes.guessed}
        return self.run_at(sweep, index, self.plan.with_(odd))

    def _seen(self, sweeps: Sequence[Sweep], index: int) -> tuple[SeenOutput | None, ...]:
        values = sweeps[0].outcomes[index].values or (None,) * len(self.report.writes[index])
        found = []
        for place, (use, value) in enumerate(zip(self.report.writes[index], values, strict=True)):
            dims = None if use is None or use.slot.known else self._expressions(index, place, sweeps)
            found.append(
                SeenOutput(value.dtype, self._event(use, value) or (), dims) if isinstance(value, Tensor) else None
            )
        return tuple(found)

    def _expressions(self, index: int, position: int, sweeps: Sequence[Sweep]) -> tuple[str, ...]:
        """The event shape of a value without a declaration, over the open dims of the input."""
        shapes = [shape for shape in self._shapes(index, position, sweeps) if shape is not None]
        known = [sweep.sizes.known for sweep in sweeps[: len(shapes)]]
        names = [name for name in sweeps[0].sizes.guessed if all(name in sizes for sizes in known)]
        dims = {plain_name(name): tuple(sizes[name] for sizes in known) for name in names if "#" not in name}
        if any(len(shape) != len(shapes[0]) for shape in shapes):
            return ("?",)
        return tuple(self._fit_size(dims, sizes) for sizes in zip(*shapes, strict=True))

    def _fit_size(self, dims: Mapping[str, tuple[int, ...]], sizes: tuple[int, ...]) -> str:
        """The expression of a size; sizes that were equal in every sweep have the same one."""
        if sizes not in self.sizes_seen:
            text = expression_of(dims, sizes) or "?"
            # Only odd sizes distinguish roundings.
            odd = all(any(size % 2 for size in rows) for rows in dims.values())
            self.sizes_seen[sizes] = text if odd or "//" not in text else "?"
        return self.sizes_seen[sizes]


def _names(term: Term) -> tuple[str, ...]:
    return term.names if isinstance(term, Polynomial) else ()
