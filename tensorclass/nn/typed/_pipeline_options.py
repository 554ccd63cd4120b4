"""The options of a pipeline, as its overloads have them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypedDict

from ..check._declared import Report
from ..parts._stage import Stage
from ._calls import Probing


class Ordered(TypedDict, total=False):
    """The options of a pipeline whose modules run in the given order."""

    probe: Probing
    partial: bool
    skip_existing: bool
    name: str | None
    layout: Placing | None


class Placing(Protocol):
    """A `tensorclass.parallel.Layout`."""

    def follow(
        self,
        report: Report,
        stages: Sequence[Stage],
        targets: Sequence[Callable[..., Any]],
        ends: Sequence[type],
        /,
        *,
        run: bool = True,
    ) -> Report:
        """The report with the placements of all values."""
        ...
