"""Calls of a pipeline: its arguments, batches of other classes, refused batches, errors in generated code."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import FrameType, TracebackType
from typing import Any, Literal

from torch import nn

from ..._schema import TensorSpec
from ...errors import BuildError, defined_again
from ..check._declared import DeclaredCheck, Report
from ..check._identity import Identified
from ..check._known import Mismatch, agree
from ..parts._diagnostics import Diagnostic
from ..parts._slots import Slot, fields_of, is_tensorclass_type
from ..parts._wrong_call import what_to_call
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


def refusal(
    title: str,
    input: Any,
    batch: object,
    error: BuildError | None,
    more: Sequence[object] = (),
    fields: Mapping[str, object] | None = None,
) -> str:
    """The message for a refused call, with the fix; `error` gives the reason why the class of a batch doesn't fit."""
    given, name = type(batch), input.__name__
    text = f"the pipeline {title} takes a {name}"
    again = defined_again(given, input)
    if again:
        return f"{text}; {again}, and build the pipeline again"
    if error is None:
        return f"{text}, {what_to_call(input, batch, more, fields)}"
    first = next(d for d in error.diagnostics if d.severity == "error")
    text += f", or a batch with the fields that it reads. A {given.__name__} does not fit: {first.message}"
    if first.code not in ("E101", "E107"):
        return "\n".join([text, *first.notes, f"hint: {first.hint}"])
    hint = "if only some modules need the field, `select_subsequence(out_fields=...)` gives the part without them"
    hint = f"add the field to {given.__name__}, or make a {name}; {hint}"
    return f"{text}; {given.__name__} has: {', '.join(fields_of(given))}\nhint: {hint}"


def fit_pipeline(
    known: Report,
    slots: Iterable[Slot],
    identified: Identified,
    targets: Sequence[Callable[..., Any]],
    input: type,
    output: type,
) -> Report:
    """Check a pipeline for another input class.

    The needs of the modules are known from the check of the old input, including narrowed dims, so nothing is probed
    again. A wider field is narrowed, and each call enforces it.

    Args:
        known: The report for the class that the pipeline was built for.
        slots: The fields that it reads from its input.
        identified: The modules, and the values that they use with the other class.
        targets: What each stage calls.
        input: The other class.
        output: The class that the pipeline returns.
    """
    check = DeclaredCheck(identified, targets, input, output)
    scope = check.state.unifier.scope()
    found = []
    for slot in slots:
        place = check.state.places.get(identified.values.read(slot).path)
        old = known.inputs.get(slot.path)
        if place is None or old is None:
            continue  # a missing field is reported where it is read
        dims = known.state.unifier.dims(old.terms) if old.spec.dims is not None else None
        spec = old.spec if old.dtype is None else replace(old.spec, spec=TensorSpec(old.dtype, dims))
        try:
            agree(check.state, place, spec, scope.terms(dims))
        except Mismatch as wrong:
            message = f"the pipeline takes `{slot.name}` as {old}: {wrong.reason}"
            found.append(Diagnostic(wrong.code, message, notes=(f"given: {place}",), hint=wrong.hint))
    report = check.run()
    return replace(report, diagnostics=tuple(found) or report.diagnostics)


def name_numbers(state_dict: dict[str, Any], prefix: str, members: Sequence[tuple[str, nn.Module | None]]) -> None:
    """Rename numbered keys in place: by position in the pipeline, else by order among modules with parameters.

    Args:
        state_dict: The checkpoint.
        prefix: The prefix of the keys of this pipeline.
        members: The names of the modules in order, and the registered modules.
    """
    pattern = re.compile(rf"{re.escape(prefix)}(\d+)(\..+)")
    found = {key: match for key in state_dict if (match := pattern.fullmatch(key))}
    numbers = {match[1] for match in found.values()}
    names = {str(i): name for i, (name, module) in enumerate(members) if module is not None and module.state_dict()}
    if not numbers <= names.keys():
        ordered = sorted(numbers, key=int)
        names = dict(zip(ordered, names.values(), strict=True)) if len(ordered) == len(names) else {}
    for key, match in found.items():
        if match[1] in names:
            state_dict[f"{prefix}{names[match[1]]}{match[2]}"] = state_dict.pop(key)
