"""Runs one module on real values, to find influence between batch elements and faults that fake tensors hide."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from ...core import TensorCollection
from ...store import RaggedTensor
from ..check._known import INPUT
from ..check._unify import Rest
from ..parts._arity import signature_of
from ..parts._diagnostics import Diagnostic
from ..parts._stage import WHOLE, module_of
from ._copy import Isolator
from ._examples import is_structural, over_entries
from ._hints import parameter_count
from ._run import Outcome, RealTensors, as_real
from ._search import Searcher, Sweep
from ._sizes import interesting

_CHEAP = 1 << 28
"""The approximate multiplications of one run of some ten milliseconds."""
_PAIR = re.compile(
    r"multiplied \(\d+x(\d+) and (\d+)x|to have (\d+) channels, but got (\d+)|"
    r"tensor a \((\d+)\) must match.* b \((\d+)\)|[Ee]xpected (?:size )?(\d+),? (?:but )?got (?:size )?(\d+)"
)
"""The two sizes that an error says do not fit: if they stay when other sizes are given, they are the module's."""


def is_cheap(target: Any, values: Sequence[Any], factor: int = 1) -> bool:
    """Whether one real run of a module is cheap: its parameters, times the positions at which each is used."""
    rows = (value.values if isinstance(value, RaggedTensor) else value for value in values)
    tensors = [value for value in rows if isinstance(value, Tensor)]
    wide = [max(min(v.shape[1:], default=1), 1) if v.is_floating_point() else 1 for v in tensors]
    places = [value.numel() // width for value, width in zip(tensors, wide, strict=True)]
    numbers = sum(value.numel() for value in tensors)
    return (parameter_count(target) + 16) * max(places, default=1) <= factor * _CHEAP and numbers <= factor << 18


class RealRuns:
    """Real runs of copies of one module in one sweep."""

    def __init__(self, searcher: Searcher, sweep: Sweep, index: int, other: Sweep | None = None) -> None:
        self.other = other
        self.searcher = searcher
        self.sweep = sweep
        self.index = index
        self.target = searcher.targets[index]
        self.passed = False
        self.generator = torch.Generator(searcher.device).manual_seed(0)

    def influences(self) -> Iterator[Diagnostic]:
        """E117 and W204 for a module that has run on real values in its sweep."""
        values = self.sweep.given.get(self.index)
        if values is None:
            return
        norms = _training_norms(self.target)
        if norms and self._mixed(values, True):
            message = f"takes statistics over the batch: batch norm {', '.join(norms)} is in training"
            hint = "`eval()` uses the running statistics; in training that is what batch norm does"
            yield self.searcher.words.diagnostic(self.index, "W204", message, (), hint)
        change = self._mixed(values, False)
        if change:
            yield self._mixing("E117", change)

    def shown(self, blind: bool) -> Iterator[Diagnostic]:
        """The findings of real runs in a build: an error or a finding that fake tensors don't show, and W207."""
        given = self.sweep.given.get(self.index)
        if given is None or not is_cheap(self.target, given, 8 if blind else 1):
            return
        if self._ran_apart(given):
            self.passed = True
            yield from self._unused(given, self.sweep.outcomes[self.index])
            return
        runs = [self._made(given, 0)]
        if runs[0][1].error is not None or runs[0][1].findings:
            runs.append(self._made(given, 1))  # repeat with other values, in case the values caused it
        if runs[0][1].error is not None and not self._believes(runs[0][1].error):
            runs = [runs[-1], self._made(given, 2)]  # zeros may be invalid, for example as lengths
            if runs[0][1].error is None and _PAIR.search(str(runs[1][1].error)):
                runs = [runs[1], self._made(given, 3)]  # even lengths hide the wrong size of an input
        values, ran = next(((values, out) for values, out in runs if out.error is None), (runs[0][0], None))
        if ran is not None and not ran.findings:
            change, self.passed = self._mixed(values, False, ran), True
            if change:
                yield self._mixing("W207", change)
            yield from self._unused(values, ran)
            return
        text, words = self.searcher.words.given(self.searcher.report.reads[self.index], values), self.searcher.words
        errors = [out.error for _, out in runs if out.error is not None and self._believes(out.error)]
        if len(errors) == 2 and _is_same(*errors):
            yield words.rejected(self.index, errors[0], text, "")
        if ran is None or errors:
            return
        found = [out.findings[:1] for _, out in runs if out.error is None]
        ragged = any(place.spec.kind.is_ragged for place in self.searcher.read(self.index))
        ragged |= any(isinstance(value, RaggedTensor) for value in ran.values or ())
        first = found[0][0]
        alike = found[-1] and len({(one.code, one.position, one.dim) for run in found for one in run}) == 1
        # A size may follow the values, such as lengths, unless it is one of the module's own.
        of_values = first.code == "E114" and not ragged and first.given[first.dim] not in interesting(self.target)
        if alike and not of_values:
            yield words.finding(self.index, first, text, self.sweep.batch, "", values)

    def _believes(self, error: Exception) -> bool:
        """Whether an error is about shapes and types, not about made-up values or sizes."""
        terms = self.searcher.terms(self.index)
        names = [n for term in terms for n in ([term.name] if isinstance(term, Rest) else term.names)]
        declared = not self.sweep.sizes.guessed.intersection(names)
        if isinstance(error, IndexError) and re.search("out of (range|bounds)", str(error)):
            return declared  # a table smaller than the declared size: the made-up indices are 0 and 1
        known = declared or self.index not in self.sweep.blind or self._is_elsewhere(error)
        return is_structural(error) and (known or isinstance(error, (TypeError, AttributeError)))

    def _is_elsewhere(self, error: Exception) -> bool:
        """Whether other sizes are rejected with the same message: then the sizes were not the cause."""
        if self.other is None or self.index not in self.other.given or not is_structural(error):
            return False
        tensors = RealTensors(self.searcher.device, 2)
        values = [as_real(value, tensors) for value in self.other.given[self.index]]
        again = self.searcher.run_one(self.index, self.other, values, tensors=tensors)
        batches = ((again.error, self.other.batch), (error, self.sweep.batch))
        texts = [re.sub(rf"(?<!\w){batch}(?!\d)", "B", str(one)) for one, batch in batches]
        return _is_same(error, again.error) or texts[0] == texts[1]

    def _made(self, given: Sequence[Any], number: int) -> tuple[list[Any], Outcome]:
        tensors = RealTensors(self.searcher.device, number)
        values = [as_real(value, tensors) for value in given]
        return values, self._run(values, norms=False)

    def _mixing(self, code: str, change: str) -> Diagnostic:
        hint = "count dims from the end, as in `softmax(-1)`, and keep the batch first in a `view`"
        if code == "W207":
            hint += "; if the module should mix elements, filter `PipelineWarning`"
        return self.searcher.words.diagnostic(self.index, code, f"mixes elements of the batch: {change}", (), hint)

    def _ran_apart(self, given: Sequence[Any]) -> bool:
        """Whether the sweep ran the module on fresh real values, and a change of an element leaves the others alike."""
        uses = self.searcher.report.reads[self.index]
        fresh = self.sweep.tensors.real and all(use is None or use.place.writer == INPUT for use in uses)
        if not fresh or not self.sweep.is_clean(self.index) or _training_norms(self.target):
            return False
        return self._elements_stay_apart(self.sweep.outcomes[self.index], given, self.sweep.isolator)

    def _elements_stay_apart(self, base: Outcome, values: Sequence[Any], isolator: Isolator) -> bool:
        """Whether a change of the first or last element leaves the others alike, in runs of one copy."""
        for element in (0, self.sweep.batch - 1):
            made = self._run(self._changed(values, self._with_elements(values), element), False, isolator)
            if made.values is None or self._compare_elements(base.values or (), made.values, element) is not None:
                return False
        return True

    def _with_elements(self, values: Sequence[Any]) -> list[int]:
        """The positions of the in fields that have elements."""
        found = []
        for position, use in enumerate(self.searcher.report.reads[self.index]):
            kind = None if use is None else use.slot.spec.kind
            has_rows = kind is not None and (kind.is_batched or kind.is_ragged or kind.is_nested)
            if has_rows and isinstance(values[position], (Tensor, RaggedTensor, TensorCollection)):
                found.append(position)
        return found

    def _mixed(self, values: Sequence[Any], norms: bool, ran: Outcome | None = None) -> str:
        """The effect on other elements of a change of one element of an in field; "" for none.

        After a run in a build it is quick.
        """
        if ran is not None and self._elements_stay_apart(
            ran, values, self.searcher.isolator(RealTensors(self.searcher.device))
        ):
            return ""
        base = self._run(values, norms).values
        if base is None:
            return ""
        elements = range(self.sweep.batch) if ran is None else (0, self.sweep.batch - 1)
        for position in self._with_elements(values):
            for element in elements:
                made = self._run(self._changed(values, [position], element), norms).values or ()
                found = self._compare_elements(base, made, element)
                if found is not None:
                    if not _are_equal_runs(base, self._run(values, norms).values or ()):
                        return ""  # not deterministic: asked last, since another thread may draw meanwhile
                    use = self.searcher.report.reads[self.index][position]
                    assert use is not None
                    return f"changing element {element} of `{use.slot.name}` changes {found[0]} of `{found[1]}`"
        return ""

    def _unused(self, values: Sequence[Any], ran: Outcome) -> Iterator[Diagnostic]:
        """W211 for each of several in fields whose values change no result."""
        stage, reads = self.searcher.stages[self.index], self.searcher.report.reads[self.index]
        told = any(d.code == "W208" and d.module == self.index for d in self.searcher.report.diagnostics)
        known = getattr(module_of(self.target), "may_ignore_inputs", False)
        if told or known or stage.method == WHOLE or stage.how.over is not None:
            return  # a callable from class to class reads all fields
        signature = signature_of(self.target)
        names = [] if signature is None else list(signature.parameters)
        unused = {position for position, name in enumerate(names) if name.startswith("_")}  # and said so
        # Of ragged elements a module may use the lengths only.
        tensors = [p for p in self._with_elements(values) if p not in unused and isinstance(values[p], Tensor)]
        if len(tensors) < 2 or not any(tensor.is_floating_point() for tensor in _tensors(ran.values or ())):
            return  # most changes leave a result such as `argmax` alike
        for position in tensors:
            use = reads[position]
            if use is not None and not self._matters(values, tensors, position):
                parameter = stage.how.parameters[max(position - len(reads), -len(stage.how.parameters)) :][:1]
                swallowed = bool(parameter) and position >= len(reads) - len(stage.how.parameters)
                if swallowed and signature is not None and parameter[0] not in names:
                    yield self.searcher.words.swallowed(self.index, parameter[0], _by_name(signature))
                else:
                    yield self.searcher.words.without_influence(self.index, use.slot.name)

    def _matters(self, values: Sequence[Any], tensors: Sequence[int], position: int) -> bool:
        """Whether other values of an in field change a result; asked again without parameters of 0, which hide them."""
        for filled in (False, True):
            for _ in range(3):
                drawn = self._changed(values, tensors, None)
                base = self._run(drawn, False, filled=filled).values
                made = self._run(self._changed(drawn, [position], None), False, filled=filled).values
                if base is None or made is None or not _are_equal_runs(base, made):
                    return True
        return False

    def _run(
        self, values: Sequence[Any], norms: bool, isolator: Isolator | None = None, filled: bool = False
    ) -> Outcome:
        tensors = RealTensors(self.searcher.device)
        isolator = isolator or self.searcher.isolator(tensors)
        copied = isolator.copy(self.target)
        for _, module in _modules(copied) if filled or not norms else ():
            if isinstance(module, _BatchNorm) and not norms:
                module.eval()
            for parameter in module.parameters(recurse=False) if filled else ():
                if parameter.is_floating_point() and not parameter.any():
                    parameter.data.normal_(generator=self.generator)
        fresh = [over_entries(v, lambda e: e.detach().clone() if isinstance(e, Tensor) else e) for v in values]
        return self.searcher.run_one(self.index, self.sweep, fresh, tensors=tensors, isolator=isolator)

    def _changed(self, values: Sequence[Any], positions: Sequence[int], element: int | None) -> list[Any]:
        """The same values with one element of some in fields changed; None for all elements, which then differ more."""

        def changed(entry: Any) -> Any:
            if isinstance(entry, RaggedTensor):
                rows = entry.tolist()
                for place in range(len(rows)) if element is None else (element,):
                    rows[place] = self._other(rows[place])
                return RaggedTensor.of(rows, entry.shape)
            if isinstance(entry, Tensor) and element is None:
                return self._far(entry)
            if isinstance(entry, Tensor):
                entry = entry.detach().clone()
                entry[element] = self._other(entry[element])
            return entry

        return [over_entries(value, changed) if p in positions else value for p, value in enumerate(values)]

    def _other(self, one: Tensor) -> Tensor:
        if one.dtype == torch.bool:
            return ~one
        if one.is_floating_point():
            return one + torch.rand(one.shape, device=one.device, generator=self.generator).to(one.dtype)
        return 1 - one.clamp(0, 1)  # small indices stay in range

    def _far(self, one: Tensor) -> Tensor:
        """Random values of both signs; 0 and 1 for integers, which may be indices."""
        drawn = torch.randn(one.shape, device=one.device, generator=self.generator)
        return (10 * drawn if one.is_floating_point() or one.is_complex() else drawn > 0).to(one.dtype)

    def _compare_elements(self, base: Sequence[Any], made: Sequence[Any], element: int) -> tuple[str, str] | None:
        """The other elements whose results differ, and where, after a change of one element."""
        for use, before, after in zip(self.searcher.report.writes[self.index], base, made, strict=False):
            for one, other in zip(_tensors([before]), _tensors([after]), strict=False):
                if use is None or one.shape[:1] != (self.sweep.batch,):
                    continue
                others = [i for i in range(self.sweep.batch) if i != element and not _close(one[i], other[i])]
                if others:
                    return f"element {' and '.join(map(str, others))}", use.slot.name
        return None


def _by_name(signature: inspect.Signature) -> list[str]:
    """The parameters that can be given by name."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [name for name, parameter in signature.parameters.items() if parameter.kind in kinds]


def _is_same(one: Exception, other: Exception | None) -> bool:
    """Whether two errors say the same; of two sizes that do not fit, whatever else was given."""
    said = {match.groups() if (match := _PAIR.search(str(error))) else str(error) for error in (one, other)}
    return len(said) == 1


def _modules(target: Any) -> list[tuple[str, nn.Module]]:
    """The modules of a callable, including those in its closure."""
    cells = [cell.cell_contents for cell in getattr(target, "__closure__", None) or ()]
    owners = [m for m in (module_of(target), *cells) if isinstance(m, nn.Module)]
    return [(f"`{name}`" if name else f"`{type(m).__name__}`", m) for o in owners for name, m in o.named_modules()]


def _training_norms(target: Any) -> list[str]:
    """The names of the batch norms that take statistics over the batch."""
    return [name for name, module in _modules(target) if isinstance(module, _BatchNorm) and module.training]


def _tensors(values: Sequence[Any]) -> list[Tensor]:
    """The results that have elements, with those in containers."""
    return [
        t for v in values for t in (v._leaves() if isinstance(v, TensorCollection) else [v]) if isinstance(t, Tensor)
    ]


def _are_equal_runs(one: Sequence[Any], other: Sequence[Any]) -> bool:
    pairs = list(zip(_tensors(one), _tensors(other), strict=False))
    return len(one) == len(other) and len(pairs) == len(_tensors(one)) and all(_close(a, b) for a, b in pairs)


def _close(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.allclose(
        one.to(torch.float64), other.to(torch.float64), rtol=1e-4, atol=1e-6, equal_nan=True
    )
