"""What a pipeline is asked with: its arguments, the batches that it refuses, errors in its code."""

from __future__ import annotations

from types import FrameType, TracebackType
from typing import Any, Literal

from ...errors import BuildError, defined_again
from ..parts._slots import fields_of, is_tensorclass_type
from ._forward import Program

Probing = bool | Literal["run"]


def frame_of(traceback: TracebackType | None, program: Program) -> tuple[FrameType, int] | None:
    """The frame of the generated code in a traceback, and its line."""
    while traceback is not None:
        if traceback.tb_frame.f_code is program.run.__code__:
            return traceback.tb_frame, traceback.tb_lineno
        traceback = traceback.tb_next
    return None


def as_probing(probe: object) -> Probing:
    if isinstance(probe, bool):
        return probe
    if probe == "run":
        return "run"
    raise BuildError(f'probe= takes True, False or "run"; got {probe!r}')


def as_class(cls: object, role: str) -> type[Any]:
    if is_tensorclass_type(cls):
        return cls
    what = f"the class {cls.__name__}" if isinstance(cls, type) else f"{type(cls).__name__} {cls!r:.60}"
    raise BuildError(f"{role}= takes a tensorclass, the class itself; got {what}")


def refusal(title: str, input: Any, batch: object, error: BuildError | None) -> str:
    """Why a batch is not taken, and what to do; `error` says why its class does not fit."""
    given, name = type(batch), input.__name__
    text = f"the pipeline {title} takes a {name}"
    again = defined_again(given, input)
    if again:
        return f"{text}; {again}, and build the pipeline anew"
    if error is None:
        hint = f"{name}.from_tensordict(...)" if hasattr(batch, "keys") else f"{name}(...)"
        return f"{text}, got {given.__name__}; make one with `{hint}`"
    first = next(d for d in error.diagnostics if d.severity == "error")
    text += f", or a batch with the fields that it reads. A {given.__name__} does not fit: {first.message}"
    if first.code not in ("E101", "E107"):
        return "\n".join([text, *first.notes, f"hint: {first.hint}"])
    hint = "where a part of the modules does without the field, `select_subsequence(out_fields=...)` is that part"
    hint = f"add the field to {given.__name__}, or make a {name}; {hint}"
    return f"{text}; {given.__name__} has: {', '.join(fields_of(given))}\nhint: {hint}"
