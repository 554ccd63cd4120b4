"""Which fields a callable from one class to another reads: it runs on examples that record it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from torch import nn

from ...core import Path
from ...errors import TensorClassError
from ..check._declared import check
from ..check._identity import Identified, identify
from ..parts._how import Over
from ..parts._slots import Slot, fields_of
from ..parts._stage import Stage, module_of
from ..parts._watched_reads import ReadFields
from ..probe._fake import Unavailable
from ..probe._prober import Prober, further_dims
from ..probe._quiet import quiet


def fields_read(stage: Stage, target: Callable[..., Any]) -> tuple[str, ...] | None:
    """The fields that a callable reads, in training and in evaluation; None if they are unknown, or all.

    They are unknown if it can't run on examples, if it reads several fields at once, and if its branches depend on
    values.

    Args:
        stage: The stage of the callable.
        target: The callable.
    """
    over, seen = stage.how.over, ReadFields()
    if over is None or len(fields_of(over.taken)) < 2:
        return None
    for training in (True, False) if module_of(target) is not None else (True,):
        with _mode(module_of(target), training):
            if seen.unclear or not _passes(stage, target, replace(over, record=seen)):
                return None
    names = tuple(name for name in fields_of(over.taken) if name in seen.names)
    if seen.unclear or not names or len(names) == len(fields_of(over.taken)):
        return None
    return names if _passes(stage, target, over.reading(names)) else None


def _passes(stage: Stage, target: Callable[..., Any], over: Over) -> bool:
    """Whether the build check runs a callable without findings, for some number of further dims of nested instances."""
    names = fields_of(over.taken) if over.names is None else over.names
    reads = tuple(Slot(getattr(over.taken, name)) for name in names)
    alone = replace(stage, reads=reads, how=replace(stage.how, over=over))
    try:
        found = identify([alone], [over.taken], over.returned, stage.name)
        first = check(found, [target], over.taken, over.returned)
        return any(_runs(found, target, over, further) for further in ({}, *further_dims(first)))
    except (TensorClassError, Unavailable):
        return False


def _runs(found: Identified, target: Callable[..., Any], over: Over, further: Mapping[Path, int]) -> bool:
    report = check(found, [target], over.taken, over.returned)
    with quiet():
        prober = Prober(report, found.stages, [target], over.returned, False, further)
        try:
            if prober.once or prober.reach[0].refused:
                return False
            report = prober.run()
        finally:
            prober.close()
    blind = report.probed is None or report.probed.blind
    return not blind and not any(d.severity == "error" or d.code in ("N302", "W206") for d in report.diagnostics)


@contextmanager
def _mode(module: nn.Module | None, training: bool) -> Iterator[None]:
    """A block in which a module trains, or not."""
    before = [] if module is None else [(part, part.training) for part in module.modules()]
    for part, _ in before:
        part.training = training
    try:
        yield
    finally:
        for part, known in before:
            part.training = known
