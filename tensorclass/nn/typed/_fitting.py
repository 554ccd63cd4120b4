"""Whether batches of another class fit a pipeline: they have the fields that it reads, and fitting specs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from ..._schema import TensorSpec
from ..check._declared import DeclaredCheck, Report
from ..check._known import Mismatch, agree
from ..parts._diagnostics import Diagnostic
from ..parts._slots import Slot
from ..parts._stage import Stage


def fitted(
    known: Report, slots: Iterable[Slot], stages: Sequence[Stage], targets: Sequence[Callable[..., Any]],
    input: type, output: type,
) -> Report:  # fmt: skip
    """The check of a pipeline for another input class.

    What the modules need of a field is what the check knows of the old input, narrowed dims included, so that nothing
    is probed again: a wider field is narrowed, and each call enforces it.

    Args:
        known: The report for the class that the pipeline was built for.
        slots: The fields that it takes from its input.
        stages: The modules.
        targets: What each stage calls.
        input: The other class.
        output: The class that the pipeline returns.
    """
    check = DeclaredCheck(stages, targets, input, output)
    scope = check.state.unifier.scope()
    found = []
    for slot in slots:
        place, old = check.state.places.get(slot.path), known.inputs.get(slot.path)
        if place is None or old is None:
            continue  # what is missing is found where it is read
        dims = known.state.unifier.dims(old.terms) if old.spec.dims is not None else None
        spec = old.spec if old.dtype is None else replace(old.spec, spec=TensorSpec(old.dtype, dims))
        try:
            agree(check.state, place, spec, scope.terms(dims))
        except Mismatch as wrong:
            message = f"the pipeline takes `{slot.name}` as {old}: {wrong.reason}"
            found.append(Diagnostic(wrong.code, message, notes=(f"given: {place}",), hint=wrong.hint))
    report = check.run()
    return replace(report, diagnostics=tuple(found) or report.diagnostics)
