"""Modes that a user may set for a span of code. Each is a ContextVar: two threads never see each other's."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True)
class PrintOptions:
    """How containers print."""

    multi_line: bool = False
    width: int = 100


print_options: ContextVar[PrintOptions] = ContextVar("tensorclass.print_options", default=PrintOptions())  # noqa: B039  # frozen
