"""`tensorclass graph`: a pipeline as Mermaid text, SVG or a page of HTML."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from .._content import write_content
from ._main import CommandError
from ._pipelines import load_pipeline

FORMATS = {
    ".svg": "svg", ".html": "html", ".htm": "html",
    **dict.fromkeys((".mmd", ".mermaid", ".md", ".txt", ""), "mermaid"),
}  # fmt: skip
"""By the suffix of the file; all of them are text."""


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("target", metavar="FILE.py[:PIPELINE]", help="the pipeline")
    parser.add_argument("--format", choices=["mermaid", "svg", "html"], help="by default what the file's name says")
    parser.add_argument("--out", type=Path, metavar="FILE", help="where to write; by default the standard output")


def run(arguments: argparse.Namespace) -> int:
    """Draw the pipeline."""
    out: Path | None = arguments.out
    form: Any = arguments.format or ("mermaid" if out is None else _format(out))
    if out is not None and _format(out) not in (form, "mermaid"):
        raise CommandError(f"{out} would hold {form}; name it {_named(form)}")
    text = load_pipeline(arguments.target).graph(form)
    if out is None:
        print(text)
        return 0
    try:
        write_content(out, text)
    except OSError as error:
        raise CommandError(f"can't write {out}: {error.strerror}") from None
    return 0


def _format(out: Path) -> Any:
    """The format that the name of a file says."""
    form = FORMATS.get(out.suffix.lower())
    if form is None:
        raise CommandError(f"a graph is not written as {out.suffix}: name the file {_named(*FORMATS.values())}")
    return form


def _named(*forms: str) -> str:
    return ", ".join(f"`*{suffix}`" for suffix, form in FORMATS.items() if form in forms and suffix)
