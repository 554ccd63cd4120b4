"""What the sweeps of a probe show, as diagnostics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ...core import TensorCollection
from ..check._declared import SeenObject, SeenOutput, Use
from ..check._scopes import nested_scopes, scope_path
from ..check._unify import identifier_of, plain_name
from ..parts._diagnostics import Diagnostic
from ._copy import Uncopyable
from ._examples import Unknown
from ._expressions import SeenDim, expression_of, hint_for_size
from ._run import Outcome, batch_ndim
from ._search import Searcher, Sweep
from ._sizes import BATCHES
from ._values import RealRuns
from ._words import useful_line

_LATER = "its outputs are compared on the first call"


class ModuleFindings(Searcher):
    """Tells what the sweeps show about each module."""

    sizes_seen: dict[tuple[int, ...], str]
    """The expressions of sizes by their numbers in the sweeps."""

    def fault(self, index: int, error: Exception) -> Diagnostic:
        """W206."""
        self.errors.append(error)
        what = f"could not be copied for the check: {type(error).__name__}: {useful_line(error)}"
        hint = "a fault of tensorclass, please report it; its outputs are compared on the first call"
        return self.words.diagnostic(index, "W206", what, (), hint)

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
            given = self._inputs_text(sweep, index)
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
                    worded = self.words.finding(index, finding, given, sweep.batch, text, sweep.given[index])
                    self.found.append(replace(worded, hint=self.hints.get(index) or worded.hint))
                return
        before = len(self.found)
        self._follows(index, sweeps)
        if all(sweep.outcomes[index].crossed for sweep in sweeps[:2]) and before == len(self.found):
            self.found.append(self.words.pairs(index, sweeps[1].outcomes[index].crossed))
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
        """Report what a module does with a batch of one, and not with others."""
        outcome, given = sweeps[2].outcomes[index], self._inputs_text(sweeps[2], index)
        if outcome.error is not None:
            guessed, known = sweeps[2].sizes.guessed, sweeps[2].sizes.known
            sizes = {name: size for name, size in known.items() if name in guessed and "#" not in name}
            if (
                sizes
                and self._for_two(sweeps[2], index).error is not None
                and self.passes_near(sweeps[2], index, sizes)
            ):
                self.found.append(self.words.odd_sizes(index, dict(sorted(sizes.items())), outcome.error))
                return
            message = f"rejects a batch of one: {useful_line(outcome.error)}"
            self.found.append(self.words.diagnostic(index, "N304", message, (given,)))
        for finding in outcome.findings[:1]:
            alike = self._for_two(sweeps[2], index).findings if finding.code in ("E113", "E114") else ()
            if finding.code in [found.code for found in alike]:
                self.found.append(self.words.sometimes(index, finding, given))
                continue
            normal = self._shapes(index, finding.position, sweeps)
            self.found.append(self.words.single(index, finding, normal, given))

    def passes_near(self, sweep: Sweep, index: int, sizes: Mapping[str, int]) -> bool:
        """Whether a module passes in a sweep with even sizes close to those that it rejects."""
        raise NotImplementedError

    def _for_two(self, sweep: Sweep, index: int) -> Outcome:
        """What two equal elements show: if one of them shows the same, the batch of one is not the cause."""
        two = copy(sweep)
        two.batch = 2
        values: list[Any] = []
        for use, value in zip((u for u in self.report.reads[index] if u is not None), sweep.given[index], strict=True):
            batched = use.batched and isinstance(value, (Tensor, TensorCollection))
            twice: Any = [value, value]
            values.append(torch.cat(twice) if batched else value)
        return self.run_one(index, two, values)

    def _follows(self, index: int, sweeps: Sequence[Sweep]) -> None:
        """Check that dims that only outputs have are constants, since nothing else determines them."""
        first, second = sweeps[0].sizes, sweeps[1].sizes
        for name, (stage, position, dim) in first.bound.items():
            if stage == index and name in second.bound and first.known[name] != second.known[name]:
                shapes = self._shapes(index, position, sweeps)
                sizes = [shape[dim] if shape is not None and dim < len(shape) else None for shape in shapes]
                inputs = {} if any(u and u.slot.known for u in self.report.reads[index]) else self._input_dims(sweeps)
                plain, made = plain_name(name), tuple(sweep.sizes.known.get(name, 0) for sweep in sweeps)
                wanted = inputs.get(plain, ())
                if made == wanted:
                    continue  # values without a declaration carry the dim from the input to here
                if wanted:
                    where = next(i for i in range(3) if made[i] != wanted[i])
                    sometimes = made[:2] == wanted[:2]
                    told = self.words.another_size(index, position, plain, wanted[where], made[where], sometimes)
                    self.found.append(told)
                    continue
                text = self._expression(index, position, dim, sweeps)
                near = expression_of(inputs, made) if inputs else None
                text = f"it is `{near}` of the input: declare that, or change the module" if near else text
                crossed = sweeps[1].outcomes[index].crossed if sizes == list(BATCHES) else None
                self.found.append(self.words.follows(index, position, dim, shapes, text, crossed))

    def _input_dims(self, sweeps: Sequence[Sweep]) -> dict[str, tuple[int, ...]]:
        """The sizes of the named dims of the input in each sweep, without names of several dims."""
        names = list(dict.fromkeys(name for place in self.report.inputs.values() for name in self._names(place)))
        plain = [plain_name(name) for name in names]
        return {
            text: tuple(sweep.sizes.known[name] for sweep in sweeps)
            for name, text in zip(names, plain, strict=True)
            if text.isidentifier() and plain.count(text) == 1 and all(name in s.sizes.known for s in sweeps)
        }

    def _note_promotions(self, index: int, sweep: Sweep) -> None:
        given = [value.dtype for value in sweep.given.get(index, ()) if isinstance(value, Tensor)]
        for use, value in zip(self.report.writes[index], sweep.outcomes[index].values or (), strict=False):
            if use is None or not isinstance(value, Tensor) or torch.float64 in given or use.place.dtype is None:
                continue
            if value.dtype == torch.float64 and use.place.dtype.exact is None and use.slot.spec.kind.is_dense:
                message = f"writes `{use.slot.name}` as float64, and reads nothing of that dtype"
                hint = "a float64 tensor or a numpy value took part; convert it, or declare Float64"
                self.found.append(self.words.diagnostic(index, "W202", message, (f"declared {use.slot}",), hint))

    def _inputs_text(self, sweep: Sweep, index: int) -> str:
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
        """What to declare for a size of an output. An additional run with odd sizes distinguishes roundings."""
        rows = [
            (shape, sweep.given[index], sweep.sizes.known)
            for shape, sweep in zip(self._shapes(index, position, sweeps), sweeps, strict=True)
            if index in sweep.given
        ]
        use, first = self.report.writes[index][position], sweeps[0]
        values, outcome = self._at_odd_sizes(first, index)
        if outcome.values is not None and isinstance(outcome.values[position], Tensor):
            sizes = {name: size + 5 for name, size in first.sizes.known.items() if name in first.sizes.guessed}
            rows.append((self._event(use, outcome.values[position]), tuple(values), sizes))
        usable = [(shape[dim], given, known) for shape, given, known in rows if shape is not None and dim < len(shape)]
        own: dict[str, tuple[int, ...]] = {}
        others: list[SeenDim] = []
        apart = nested_scopes((*self.stages[index].reads, *self.stages[index].written))
        for at, read in enumerate(self.report.reads[index]):
            shapes = [self._event(read, given[at]) for _, given, _ in usable]
            for text, seen in _dims_read(read, shapes):
                if use is not None and read is not None and scope_path(read.slot, apart) == scope_path(use.slot, apart):
                    own[text] = seen
                elif read is not None:
                    others.append(SeenDim(text, read.slot.name, seen))
        if any(read is not None and read.slot.spec.dims is None for read in self.report.reads[index]):
            others += self._input_dims_in([known for _, _, known in usable])
        is_free = any(bound == (index, position, dim) for bound in first.sizes.bound.values())
        return hint_for_size(own, others, tuple(size for size, _, _ in usable), is_free)

    def _input_dims_in(self, runs: Sequence[Mapping[str, int]]) -> Iterator[SeenDim]:
        """The named dims of the input fields that have a size in each run."""
        for place in self.report.inputs.values():
            for name in self._names(place):
                if all(name in known for known in runs):
                    yield SeenDim(plain_name(name), place.name, tuple(known[name] for known in runs))

    def _at_odd_sizes(self, sweep: Sweep, index: int) -> tuple[list[Any], Outcome]:
        reads = self.report.reads[index]
        if index in self.once or any(use is not None and not use.slot.known for use in reads):
            return [], Outcome()  # values without a declaration keep their sizes
        odd = {name: size + 5 for name, size in sweep.sizes.known.items() if name in sweep.sizes.guessed}
        return self.run_at(sweep, index, self.plan.with_(odd))

    def _seen(self, sweeps: Sequence[Sweep], index: int) -> tuple[SeenOutput | SeenObject | None, ...]:
        columns = [sweep.outcomes[index].values or (None,) * len(self.report.writes[index]) for sweep in sweeps]
        uses = self.report.writes[index]
        return tuple(self._seen_value(use, values, sweeps) for use, *values in zip(uses, *columns, strict=True))

    def _seen_value(self, use: Use | None, values: Sequence[Any], sweeps: Sequence[Sweep]) -> Any:
        """What one value was in the sweeps."""
        free, value = use is not None and not use.slot.known, values[0]
        if isinstance(value, Tensor):
            dims = self._expressions([self._event(use, value) for value in values], sweeps) if free else None
            return SeenOutput(value.dtype, self._event(use, value) or (), dims, value.ndim > 0)
        if not free or value is None:
            return None
        members = value if isinstance(value, Mapping) and all(isinstance(other, Mapping) for other in values) else {}
        shown = {key: self._seen_value(use, [other.get(key) for other in values], sweeps) for key in members}
        return SeenObject(
            type(value).__name__, {str(key): part for key, part in shown.items() if isinstance(part, SeenOutput)}
        )

    def _expressions(self, found: Sequence[tuple[int, ...] | None], sweeps: Sequence[Sweep]) -> tuple[str, ...]:
        """The event shape of a value without a declaration, over the open dims of the input."""
        shapes = [shape for shape in found if shape is not None]
        known = [sweep.sizes.known for sweep in sweeps[: len(shapes)]]
        names = [name for name in sweeps[0].sizes.guessed if all(name in sizes for sizes in known)]
        dims = {identifier_of(name): tuple(sizes[name] for sizes in known) for name in names if "#" not in name}
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


def _dims_read(use: Use | None, shapes: Sequence[tuple[int, ...] | None]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The declared dims of a tensor that a module reads, with their sizes in some runs."""
    tokens = use.slot.spec.dims.tokens if use is not None and use.slot.spec.dims is not None else ()
    rows = [shape for shape in shapes if shape is not None]
    for position, token in enumerate(tokens):
        if len(rows) == len(shapes) and all(len(shape) == len(tokens) for shape in rows):
            yield str(token), tuple(shape[position] for shape in rows)
