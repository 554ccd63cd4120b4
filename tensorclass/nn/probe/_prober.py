"""Step 2 of the build check: runs every callable on fake tensors, and compares its results with its declaration.

A sweep runs the whole pipeline once, for batches of two, three and one, with other sizes of the open dims each time. If
a module raises, other sizes, dtypes and ranks of the open inputs are tried, and a copy runs on real values, since fake
tensors have gaps. Only then it is reported as an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from torch import Tensor

from ..._schema import Polynomial
from ...core import Path
from ..check._declared import Probed, Report
from ..check._known import Place, overlap
from ..check._unify import Clash, Rest, Term
from ..parts._diagnostics import Diagnostic
from ..parts._slots import item_of
from ..parts._stage import Stage
from ._copy import Isolator, Uncopyable
from ._effects import OPT_OUT
from ._examples import Unknown, is_structural
from ._fake import Unavailable
from ._findings import ModuleFindings
from ._hints import parameter_count
from ._quiet import quiet
from ._run import Outcome, RealTensors, Tensors, as_real
from ._search import Again, Event, Sweep
from ._settings import restored
from ._sizes import BATCHES, SweepSizes
from ._values import RealRuns, is_cheap
from ._watched import Stopped, Watched
from ._words import useful_line

_ATTEMPTS = 24
_NOT_RUN = ("N302", "W206", "W209")
_NESTED = 4
"""How many nested fields are given further batch dims."""
_LATER = "its outputs are compared on the first call"
_COPIED = 1 << 23
"""Parameters below which real runs are faster than fake ones."""
_REAL_PARAMETERS, _REAL_VALUES = 1 << 26, 1 << 24


def probe(
    report: Report,
    stages: Sequence[Stage],
    targets: Sequence[Callable[..., Any]],
    output: type,
    *,
    real: bool = False,
    laid_out: bool = False,
) -> Report:
    """Add the results of probing to the report of step 1.

    Args:
        report: The report of step 1.
        stages: The modules.
        targets: The callable of each stage.
        output: The class that the pipeline returns.
        real: Whether copies run on real tensors instead of fake ones.
        laid_out: Whether the pipeline has a layout, which takes dims by their names, also those of one size.
    """
    before = report.state.unifier.mark()
    with quiet():
        tried = [_probe_with(report, stages, targets, output, real, {}, laid_out)]
        for further in further_dims(report) if _errors(tried[0]) else ():
            report.state.unifier.undo(*before)
            tried.append(_probe_with(report, stages, targets, output, real, further, laid_out))
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
    laid_out: bool,
) -> Report:
    prober = Prober(report, stages, targets, output, real, further)
    prober.laid_out = laid_out
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


class Prober(ModuleFindings):
    """Probes one pipeline."""

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
                if d.severity == "error" and d.code != "E122" and d.module in late:
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
        """Run all modules once, with the sizes of one sweep."""
        used: Tensors = self.tensors if tensors is None else tensors
        sizes = SweepSizes(self.unifier, self.plan, number, small=used.real)
        sweep = self.swept[number] = Sweep(number, sizes, isolator or self.isolator(used), used)
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

    def passes_near(self, sweep: Sweep, index: int, sizes: Mapping[str, int]) -> bool:
        """Whether a module passes in a sweep with even sizes close to those that it rejects."""
        before = self.plan, self.searching, dict(self.faults), self.found[:], self.answered[:], dict(self.swept)
        self.plan, self.searching = (
            self.plan.with_({name: 16 * (size // 16 | 1) for name, size in sizes.items()}),
            False,
        )
        try:
            return self._sweep(2, sweep.tensors).is_clean(index)
        except Stopped:
            return False
        finally:
            self.plan, self.searching, self.faults, self.found, self.answered, self.swept = before

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
                outcome = self._observed_outcome(sweep, index)
            except Exception as error:  # a failure of the probe itself must not stop a build
                self.faults[index] = self.fault(index, error)
        sweep.outcomes[index] = outcome
        usable = outcome.values if not outcome.findings else None
        for position, use in enumerate(self.report.writes[index]):
            if use is not None:
                value = usable[position] if usable is not None else self._declared(sweep, use.place)
                self._write(sweep, use.slot.path, value)

    def _outcome(self, sweep: Sweep, index: int) -> Outcome:
        """The outcome of a run that can be believed: it is repeated with other values, and searched for causes."""
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

    def _observed_outcome(self, sweep: Sweep, index: int) -> Outcome:
        """The values of a module that fake tensors can't run, if nothing declares them and real runs agree on them."""
        writes = self.report.writes[index]
        if index in self.once or index not in sweep.given or all(use is None or use.slot.known for use in writes):
            return Outcome()
        if index not in self.events:
            try:
                self.events[index] = self._events(sweep, index)
            except Exception:  # the module may raise anything; what it returns is not known then
                self.events[index] = ()
        if not self.events[index]:
            return Outcome()
        values: list[Any] = []
        for use, event in zip(writes, self.events[index], strict=True):
            if use is None:
                values.append(None)
            elif event is None or use.slot.known:
                values.append(self._declared(sweep, use.place))
            else:
                values.append(sweep.tensors.tensor((sweep.batch, *event[0]), event[1], self.device))
        return Outcome(values=tuple(values))

    def _events(self, sweep: Sweep, index: int) -> tuple[Event | None, ...]:
        """What a module returns for other values and other sizes alike."""
        given = sweep.given[index]
        if not is_cheap(self.targets[index], given, 8):
            return ()
        tensors, others = RealTensors(self.device), RealTensors(self.device, 2)
        odd = {name: size + 5 for name, size in sweep.sizes.known.items() if name in sweep.sizes.guessed}
        first = self.run_one(index, sweep, [as_real(value, tensors) for value in given], tensors=tensors)
        second = self.run_at(sweep, index, self.plan.with_(odd), others)[1]
        found = [self._events_of(sweep, index, ran) for ran in (first, second)]
        if not all(found):
            return ()
        return tuple(one if one == other else None for one, other in zip(*found, strict=True))

    def _events_of(self, sweep: Sweep, index: int, ran: Outcome) -> list[Event | None]:
        """The event shape and dtype of each tensor that a run returned; empty if it is wrong."""
        if ran.values is None or ran.findings:
            return []
        return [
            (self._event(use, value) or (), value.dtype)
            if isinstance(value, Tensor) and value.shape[:1] == (sweep.batch,)
            else None
            for use, value in zip(self.report.writes[index], ran.values, strict=True)
        ]

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


def _names(term: Term) -> tuple[str, ...]:
    return term.names if isinstance(term, Polynomial) else ()
