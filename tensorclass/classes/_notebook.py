"""IPython support: fields complete before methods, classes are shown as tables, tracebacks hide internal frames.

It registers with the public hooks of a running shell when the package is loaded; otherwise nothing is imported.
"""

from __future__ import annotations

import re
import reprlib
import sys
from collections.abc import Iterable
from html import escape
from types import TracebackType
from typing import Any

from .._schema import Schema
from ..core import TensorCollection
from ..errors import TensorClassError, program_frames
from ..store import RaggedTensor
from ._meta import Meta
from ._reference import FieldRef

_BEFORE = re.compile(r"((?:[^\W\d]\w*\.)*[^\W\d]\w*)\.(\w*)$")
_CELL = '<td style="text-align:left;padding:0 1em 0 0">'
_ERROR = re.compile(r"(?m)^(error\[\w+\].*)$")
_PLACE = re.compile(r"--> (\S+):(\d+)")
_MATCHER = "tensorclass.fields"


def table(title: str, rows: Iterable[Iterable[str]]) -> str:
    """A table as HTML."""
    lines = "".join(f"<tr>{''.join(f'{_CELL}{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div style="font-family:monospace"><b>{escape(title)}</b><table>{lines}</table></div>'


def of_schema(schema: Schema) -> str:
    """The fields of a class."""
    return table(schema.name, ((spec.name, str(spec), spec.default_text, spec.doc or "") for spec in schema))


def of_class(cls: Any) -> str | None:
    """The fields of a typed class as HTML; None for a base without fields."""
    return of_schema(cls.__tensorclass_schema__) if "__tensorclass_schema__" in vars(cls) else None


def of_ragged(ragged: RaggedTensor) -> str:
    """The dtype and shape of the elements, and the first lengths."""
    lengths = ragged.lengths
    facts = {"elements": str(list(ragged.shape)), "rows": f"{list(ragged.values.shape)} {ragged.dtype}"}
    if not lengths.is_meta and lengths.numel():
        facts["lengths"] = f"{int(lengths.min())} to {int(lengths.max())}: {reprlib.repr(lengths.tolist())}"
    return table("RaggedTensor", facts.items())


def first_fields(value: Any) -> list[str]:
    """The attributes of a container, a class or a reference, fields first."""
    reference = isinstance(value, FieldRef)
    if reference:
        owner = value._spec.nested
    elif isinstance(value, type):
        owner = value
    else:
        owner = type(value)
    found = getattr(owner, "__tensorclass_schema__", None)
    fields = list(found.fields) if isinstance(found, Schema) else []
    return fields if reference else [*fields, *(name for name in dir(value) if name not in fields)]


def _matcher(shell: Any) -> Any:
    """A completer for attributes of containers, classes and references: IPython would sort them alphabetically."""
    completer: Any = sys.modules["IPython.core.completer"]

    def fields(context: Any) -> Any:
        found = _BEFORE.search(context.text_until_cursor)
        value: Any = None
        if found is not None:  # only plain names: a call could have side effects
            first, *rest = found[1].split(".")
            value = shell.user_ns.get(first)
            for part in rest:
                value = getattr(value, part, None) if isinstance(value, TensorCollection | Meta | FieldRef) else None
        start = found[2] if found is not None else ""
        below = found is not None and "." in found[1] and value is not None  # a value of a field
        names = first_fields(value) if below or isinstance(value, TensorCollection | Meta | FieldRef) else []
        names = [name for name in names if name.startswith(start) and (name[0] != "_" or start[:1] == "_")]
        before = context.token[: len(context.token) - len(start)]
        made = [completer.SimpleCompletion(f"{before}{name}", type="") for name in names]
        return {"completions": made, "suppress": bool(names), "ordered": True, "matched_fragment": context.token}

    return completer.context_matcher(identifier=_MATCHER, priority=200)(fields)


def _show(shell: Any, kind: Any, error: BaseException, traceback: TracebackType | None, tb_offset: int = 0) -> Any:
    """Show an error of this package without internal frames."""
    traceback = program_frames(traceback)
    text = shell.InteractiveTB.structured_traceback(kind, error, traceback, tb_offset=tb_offset)

    def place(found: re.Match[str]) -> str:
        cell = shell.compile.format_code_name(found[1])
        return f"--> {' '.join(cell)}, line {found[2]}" if cell else found[0]

    text = [_PLACE.sub(place, line) for line in text]  # a cell instead of the file that the kernel makes of it
    text = [_ERROR.sub("\x1b[31m\\1\x1b[0m", line) for line in text]  # what is wrong with a pipeline, in red
    shell._showtraceback(kind, error, text)  # a terminal prints it, a notebook gets a message of an error
    return text


def _show_plainly(kind: Any, error: BaseException, traceback: TracebackType | None) -> None:
    """The same in Python's own shell."""
    if isinstance(error, TensorClassError):
        error.__traceback__ = traceback = program_frames(traceback)
    sys.__excepthook__(kind, error, traceback)


def register() -> None:
    """Register with the running shell, if there is one."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    known = [] if shell is None else [getattr(m, "matcher_identifier", "") for m in shell.Completer.custom_matchers]
    if shell is None and hasattr(sys, "ps1") and sys.excepthook is sys.__excepthook__:
        sys.excepthook = _show_plainly
    if shell is None or _MATCHER in known:
        return
    shell.Completer.custom_matchers.append(_matcher(shell))
    html = shell.display_formatter.formatters["text/html"]
    html.for_type(Meta, of_class)
    html.for_type(Schema, of_schema)
    html.for_type(RaggedTensor, of_ragged)
    html.for_type(FieldRef, lambda ref: table("a field", [str(ref).split(": ", 1)]))
    explained = "tensorclass.nn.typed._explain", "Explanation"
    style = "overflow:auto;font-family:monospace"
    html.for_type_by_name(*explained, lambda found: f'<pre style="{style}">{escape(str(found))}</pre>')
    if not getattr(shell, "custom_exceptions", ()):  # keep a handler of the user
        shell.set_custom_exc((TensorClassError,), _show)
