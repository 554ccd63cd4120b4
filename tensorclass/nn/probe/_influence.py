"""`check(values=True)`: copies of modules run on real values, to see whether elements of a batch influence each other.

Every element is changed in turn, with the same random draws; the results of the other elements must not change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..check._declared import Report
from ..parts._diagnostics import Diagnostic
from ..parts._stage import Stage
from ._prober import Prober
from ._quiet import quiet
from ._run import RealTensors
from ._search import device_of
from ._values import RealRuns

_SWEEP = 1  # the one with three elements


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
        prober = Prober(report, stages, targets, output, RealTensors(device_of(targets)))
        sweep = prober.sweeps()[_SWEEP]
        for index in range(len(stages)):
            try:
                found += RealRuns(prober, sweep, index).influences()
            except Exception as error:  # a failure of the check itself
                found.append(prober.fault(index, error))
        prober.close()
    return tuple(found)
