"""`tensorclass graph`: draws a pipeline as Mermaid text, a picture or an HTML page."""

from __future__ import annotations

import argparse
import webbrowser
from pathlib import Path
from typing import Any

from ._main import CommandError, on_disk, write_file
from ._pipelines import load_pipeline

FORMATS = {
    ".svg": "svg",
    ".html": "html",
    ".htm": "html",
    **dict.fromkeys((".mmd", ".mermaid", ".md", ".txt", ""), "mermaid"),
}
"""Formats by file suffix."""
MARKS = {"svg": b"tcg", "html": b"tcg", "mermaid": b"flowchart TD"}
"""Bytes near the beginning of our drawings; such a file is replaced without `--force`."""


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("target", metavar="FILE.py[:PIPELINE]", help="the pipeline")
    parser.add_argument("--format", choices=[*MARKS], help="by default what the file's name says")
    parser.add_argument("-o", "--out", type=on_disk, metavar="FILE", help="by default the standard output")
    parser.add_argument("--open", action="store_true", help="show the file in the browser")
    parser.add_argument("--force", action="store_true", help="replace a file that is not a drawing")


def run(arguments: argparse.Namespace) -> int:
    """Draw the pipeline."""
    out: Path | None = arguments.out
    form: Any = arguments.format or ("mermaid" if out is None else _format(out))
    if out is not None and _format(out) not in (form, "mermaid"):
        raise CommandError(f"{out} would hold {form}; name it {_picture_suffixes(form)}")
    if out is None and arguments.open:
        forms = [arguments.format] if arguments.format else ["svg", "html"]
        raise CommandError(f"--open needs a file: --out {_picture_suffixes(*forms)}")
    pipeline = load_pipeline(arguments.target)
    if out is None:
        print(pipeline.graph(form))
        return 0
    write_file(out, pipeline.graph(form), arguments.force, MARKS[form])
    if arguments.open:
        webbrowser.open(out.resolve().as_uri())
    return 0


def _format(out: Path) -> Any:
    """The format for a file name."""
    form = FORMATS.get(out.suffix.lower())
    if form is None:
        raise CommandError(
            f"a graph is not written as {out.suffix}: name the file {_picture_suffixes(*FORMATS.values())}"
        )
    return form


def _picture_suffixes(*forms: str) -> str:
    return ", ".join(f"`*{suffix}`" for suffix, form in FORMATS.items() if form in forms and suffix)
