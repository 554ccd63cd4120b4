"""`check(values=True)`: copies of modules run on real values, to see whether elements of a batch influence each other.

Every element is changed in turn, with the same random draws; what the others come out as must stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from ..check._declared import Report
from ..parts._diagnostics import Diagnostic
from ..parts._stage import Stage, module_of
from ._prober import Prober
from ._quiet import quiet
from ._run import RealTensors
from ._search import Sweep, device_of

_SWEEP = 1  # the one with three elements


def influences(
    report: Report, stages: Sequence[Stage], targets: Sequence[Callable[..., Any]], output: type
) -> tuple[Diagnostic, ...]:
    """Modules in which an element of the batch influences another one: E117, and W204 for batch norm in training.

    Args:
        report: What the build check knows.
        stages: The modules.
        targets: What each stage calls.
        output: The class that the pipeline returns.
    """
    with quiet():
        prober = Prober(report, stages, targets, output, RealTensors(device_of(targets)))
        sweep = prober.sweeps()[_SWEEP]
        found = tuple(d for index in range(len(stages)) for d in _Influence(prober, sweep, index).diagnostics())
        prober.close()
        return found


class _Influence:
    """The value check of one module."""

    def __init__(self, prober: Prober, sweep: Sweep, index: int) -> None:
        self.prober = prober
        self.sweep = sweep
        self.index = index
        self.generator = torch.Generator(prober.device).manual_seed(0)

    def diagnostics(self) -> Iterator[Diagnostic]:
        """What is wrong with the module."""
        target = self.prober.targets[self.index]
        norms = [name for name, module in _modules(target) if isinstance(module, _BatchNorm) and module.training]
        if norms and self._mixed():
            message = f"takes statistics over the batch: batch norm {', '.join(norms) or 'itself'} is in training"
            hint = "`eval()` uses the running statistics; in training that is what batch norm does"
            yield self.prober.words.diagnostic(self.index, "W204", message, (), hint)
        found = self._mixed(norms=False)
        if found is not None:
            element, field, others, written = found
            change = f"changing element {element} of `{field}` changes {others} of `{written}`"
            message = f"mixes elements of the batch: {change}"
            hint = "count dims from the end, as in `softmax(-1)`; recurrent and attention layers take `batch_first`"
            yield self.prober.words.diagnostic(self.index, "E117", message, (), hint)

    def _mixed(self, norms: bool = True) -> tuple[int, str, str, str] | None:
        """The first element of an in field that changes others: with what it changes, and where."""
        values = self.sweep.given.get(self.index)
        base = None if values is None else self._outputs(values, norms)
        if values is None or base is None or not _alike(base, self._outputs(values, norms) or ()):
            return None  # not run, or different each time
        for position, use in enumerate(self.prober.report.reads[self.index]):
            value = values[position]
            if use is None or use.slot.spec.kind != "tensor" or not isinstance(value, Tensor):
                continue
            for element in range(self.sweep.batch):
                changed = [*values[:position], self._changed(value, element), *values[position + 1 :]]
                found = self._compared(base, self._outputs(changed, norms), element)
                if found is not None:
                    return element, use.slot.name, *found
        return None

    def _outputs(self, values: Sequence[Any], norms: bool) -> tuple[Any, ...] | None:
        tensors = RealTensors(self.prober.device)
        isolator = self.prober.isolator(tensors)
        copied = isolator.copy(self.prober.targets[self.index])
        for _, module in _modules(copied) if not norms else ():
            if isinstance(module, _BatchNorm):
                module.eval()
        fresh = [value.detach().clone() if isinstance(value, Tensor) else value for value in values]
        outcome = self.prober.run_one(self.index, self.sweep, fresh, tensors=tensors, isolator=isolator)
        return outcome.values if outcome.error is None else None

    def _changed(self, value: Tensor, element: int) -> Tensor:
        """The same batch with one element changed."""
        changed = value.detach().clone()
        one = changed[element]
        if one.dtype == torch.bool:
            changed[element] = ~one
        elif one.is_floating_point():
            changed[element] = one + torch.rand(one.shape, device=one.device, generator=self.generator).to(one.dtype)
        else:  # small indices stay in range
            changed[element] = 1 - one.clamp(0, 1)
        return changed

    def _compared(
        self, base: Sequence[Any], other: Sequence[Any] | None, element: int
    ) -> tuple[str, str] | None:  # fmt: skip
        for use, before, after in zip(self.prober.report.writes[self.index], base, other or (), strict=False):
            if use is None or not isinstance(before, Tensor) or before.shape[:1] != (self.sweep.batch,):
                continue
            others = [i for i in range(self.sweep.batch) if i != element and not _close(before[i], after[i])]
            if others:
                return f"element {' and '.join(map(str, others))}", use.slot.name
        return None


def _modules(target: Any) -> list[tuple[str, nn.Module]]:
    """The modules of a callable, those that a closure holds included."""
    cells = [cell.cell_contents for cell in getattr(target, "__closure__", None) or ()]
    owners = [m for m in (module_of(target), *cells) if isinstance(m, nn.Module)]
    return [(f"`{name}`" if name else f"`{type(m).__name__}`", m) for o in owners for name, m in o.named_modules()]


def _alike(one: Sequence[Any], other: Sequence[Any]) -> bool:
    pairs = [(a, b) for a, b in zip(one, other, strict=False) if isinstance(a, Tensor)]
    return len(one) == len(other) and all(isinstance(b, Tensor) and _close(a, b) for a, b in pairs)


def _close(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.allclose(
        one.to(torch.float64), other.to(torch.float64), rtol=1e-4, atol=1e-6, equal_nan=True
    )
