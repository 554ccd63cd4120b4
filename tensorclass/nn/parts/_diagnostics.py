"""The findings of the build check: records with codes, printed in the style of a compiler."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from types import FrameType
from typing import Literal, NamedTuple

from ...errors import BuildError, few

Severity = Literal["error", "warning", "note"]

CODES: dict[str, str] = {
    "E101": "a field is read that nothing before provides",
    "E102": "a field is read with another dtype or type than it has",
    "E103": "a field is read with another shape than it has",
    "E104": "an optional field is read by a parameter that does not accept None",
    "E105": "an input field is overwritten",
    "E106": "a field is written twice",
    "E107": "an output field is never written",
    "E108": "a module rejects the inputs that it declares",
    "E109": "a module changes a field in place",
    "E110": "the callable does not take or return as many values as there are fields",
    "E111": "a module writes another dtype or type than it declares",
    "E112": "a module loses the batch dim",
    "E113": "a module writes another number of dims than it declares",
    "E114": "a module writes another size than it declares",
    "E115": "a free dim of an output follows the batch size",
    "E116": "a batch of one comes out in another shape",
    "E117": "elements of a batch influence each other",
    "E118": "a field may be any of several values",
    "E119": "a module does not take the placement of a field",
    "E120": "an unfinished sum over ranks is an output",
    "E121": "a module leaves the device mesh",
    "E122": "a module accepts one size of a named input dim only",
    "W201": "a written field is never used",
    "W202": "a field becomes float64 by promotion",
    "W203": "one module with parameters or buffers is in several places",
    "W204": "batch norm is in training",
    "W205": "a module accepts one size of an unnamed input dim only",
    "W206": "a module could not be copied for the check",
    "W207": "elements of a batch influence each other, in the one real run of a build",
    "W208": "a keyword goes into the `**` arguments of the callable",
    "W209": "a module that reads ragged elements is not probed",
    "W210": "a module rejects some sizes of an open input dim",
    "W211": "an in field has no influence",
    "W212": "a module computes on the piece of each rank",
    "W213": "gradients of a module are those of the rows of each rank",
    "W214": "elements of a batch are combined by broadcasting",
    "W215": "an output has a dim of the input with another size",
    "N301": "an input dim or dtype is narrowed",
    "N302": "a module is not probed",
    "N304": "a module rejects a batch of one",
    "N305": "a free dim of an output follows the input",
    "N306": "a declaration holds for some sizes only",
}
"""Every code and its meaning; docs/errors.md has a heading for each."""

_SEVERITIES: dict[str, Severity] = {"E": "error", "W": "warning", "N": "note"}
_INDENT = "\n    "


class PipelineWarning(UserWarning):
    """The warning for a pipeline that works, but probably contains a mistake.

    >>> import warnings
    >>> from tensorclass.nn import PipelineWarning
    >>> warnings.filterwarnings("error", category=PipelineWarning)  # a build that warns fails
    >>> warnings.resetwarnings()
    """


class Location(NamedTuple):
    """The line of the user's program that declares a module."""

    file: str
    line: int

    def __str__(self) -> str:
        file = self.file
        if os.path.isabs(file):
            relative = os.path.relpath(file)
            file = file if relative.startswith("..") else relative
        return f"{file}:{self.line}"


def location_of_caller() -> Location:
    """The nearest line outside this package. It only reads frames, so it costs next to nothing."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_back is not None and _is_ours(frame):
        frame = frame.f_back
    return Location(frame.f_code.co_filename, frame.f_lineno) if frame is not None else Location("<unknown>", 0)


def _is_ours(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).startswith("tensorclass.")


@dataclass(frozen=True)
class Diagnostic:
    """One finding of the build check.

    Args:
        code: `E...` for errors, `W...` for warnings, `N...` for notes; docs/errors.md explains each.
        message: What is wrong, in one line.
        module: The index of the module in the pipeline; None for the pipeline itself.
        name: The name of that module.
        location: The line that declares it, with its text.
        notes: Further lines, such as the available fields.
        hint: What to do.

    >>> print(Diagnostic("E101", "module 0 `head` reads `h`, which nothing before it provides", hint="write it"))
    error[E101]: module 0 `head` reads `h`, which nothing before it provides
        hint: write it
    """

    code: str
    message: str
    module: int | None = None
    name: str | None = None
    location: str = ""
    notes: tuple[str, ...] = ()
    hint: str = ""

    @property
    def severity(self) -> Severity:
        """Whether the build fails ("error"), warns ("warning") or continues ("note")."""
        return _SEVERITIES[self.code[0]]

    def __str__(self) -> str:
        rows = [f"{self.severity}[{self.code}]: {self.message}"]
        rows += [f"--> {self.location}"] if self.location else []
        rows += self.notes
        rows += [f"hint: {self.hint}"] if self.hint else []
        return _INDENT.join(rows)


def build_error(title: str, found: Iterable[Diagnostic]) -> BuildError:
    """The error of a build, which lists every error and warning in the order of the modules."""
    diagnostics = tuple(found)
    errors = [d for d in diagnostics if d.severity == "error"]
    shown = [d for d in diagnostics if d.severity != "note"]
    count = f"{len(errors)} error" + ("s" if len(errors) != 1 else "")
    told = few(shown, " in `error.diagnostics`", "\n\n")
    return BuildError(f"{title}: {count}\n\n{told}", diagnostics)
